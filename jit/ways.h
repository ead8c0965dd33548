/* SPDX-License-Identifier: BSD-3-Clause
 * The code paths that can compute a call, called ways (ways.c).  They are tried in the order of one
 * list, best first.  A way first accepts or refuses the arguments.  Then it computes the call, or
 * finds that the data does not suit it; in that case it has changed nothing, and the next way is
 * tried. */
#ifndef LIMBER_JIT_WAYS_H
#define LIMBER_JIT_WAYS_H

#include "jit/accepted.h"

/* A call while the list of ways is tried for it. */
struct attempt {
    limber_context *ctx;
    /* the call; for ways with a plan it may be transposed, so that C's rows are contiguous */
    const struct problem *p;
    struct report *r; /* the report; NULL if none is wanted */
    struct diag *d;
    struct accepted *accepted; /* kernels and ways found for calls of the same form, or NULL */
    const struct way *const *at; /* the way in the list that is tried next */
    /* Functions that try the list of ways for another call, which a way has made from this one:
     * `again` computes that call, `plan_again` plans it. */
    bool (*again)(struct attempt *);
    bool (*plan_again)(struct attempt *, struct text *out, struct cut *cut);
    bool plans; /* true once the fields below are set, which ways with a plan need */
    /* the transposed call */
    struct problem turned;
    bool scanned; /* true if f, key and found are set */
    struct scan_result f;
    struct found *found; /* the kernel, if `accepted` has one for this data; else NULL */
    const struct kernel_key *key; /* key of `found`, or the address of `own` */
    struct kernel_key own;
};
/* Fills the report of a product that the scheme `pairs` computes, except for its times. */
void limber_pairs_report(struct attempt *x);
/* Scans the operands and makes the kernel key, unless that has been done. */
bool limber_attempt_scan(struct attempt *x);

/* How an attempt of a way ended.  RAN_not: the way changed nothing, so another way may compute the
 * call. */
enum ran { RAN_not, RAN_done, RAN_failed };
/* Returns RAN_done if the way computed the call, else RAN_not, so that the next way is tried. */
static inline enum ran limber_ran(bool done)
{
    return done ? RAN_done : RAN_not;
}

/* A plain product: the arguments of limber_gemm, by their addresses. */
struct gemm_arguments {
    const limber_contract *contract;
    int64_t m, n, k;
    const limber_matrix *a, *b;
    const limber_output *c;
    const void *alpha, *beta;
};
/* Computes a plain product before its arguments are checked, if a way (code path) can do so fast.
 * at: this way's entry in the list of ways.  report: NULL, or filled except for the order of sums.
 * False if nothing was done, so that the call must be converted to a struct problem. */
typedef bool at_once(limber_context *, const struct gemm_arguments *, struct report *report,
                     const struct way *const *at);

/* A way (code path) to compute calls. */
struct way {
    enum way_id id; /* WAY_none: the backend tells which way it took */
    /* the way uses a plan */
    bool plans;
    bool keeps_memory; /* the way allocates memory, even if the caller gives a workspace */
    /* Returns NULL if the way may compute the call, else the reason why not, as text.  The answer
     * depends on the call's form alone (jit/accepted.h): not on addresses or data, and on scalars
     * only by the form's flags for alpha and beta. */
    const char *(*refuses)(const limber_context *, const struct problem *);
    enum ran (*run)(struct attempt *);
    /* Computes a plain product (struct gemm_arguments) before it is checked.  NULL if the way needs
     * a struct problem; then the later ways of the list are not tried for plain products,
     * either. */
    at_once *at_once;
    /* Returns whether the data suits the way.  NULL if all data does, or if `plan` finds out. */
    bool (*suits)(struct attempt *);
    /* Computes the bytes of workspace.  NULL if the way needs none. */
    enum ran (*workspace)(struct attempt *, bool batch, size_t *least, size_t *best);
    /* Writes the way's plan to `out` (may be NULL), and fills the report.  NULL if the way has no
     * plan. */
    enum ran (*plan)(struct attempt *, struct text *out, struct cut *cut);
    /* Fills the report of a way without a plan.  NULL if the report is that of a plan. */
    void (*report)(struct attempt *);
};
#define DECLARE(name, about) extern const struct way limber_way_##name;
LIMBER_CALL_WAYS(DECLARE)
#undef DECLARE
/* launches the kernel of one plan, for which a backend then chooses one of LIMBER_LAUNCH_WAYS */
extern const struct way limber_way_kernel;
extern const struct way *const limber_ways[]; /* all ways, best first; NULL at the end */

/* Returns the set of ways that have no plan. */
uint32_t limber_ways_planless(void);

/* Reads the variable LIMBER_WAYS into a set of allowed ways.  "-direct,-pairs" excludes two ways;
 * "-planless" excludes all ways that have no plan. */
bool limber_ways_read(const char *text, uint32_t *ways, struct diag *d);

/* Returns the set of ways that accept a call.  Bit WAY_none is always set, since a kernel computes
 * every call. */
uint32_t limber_ways_open(const limber_context *ctx, const struct problem *p);

/* Passes a plain product on to the next way of the list.  False if no way has computed it. */
static inline bool limber_pass_on(limber_context *ctx, const struct gemm_arguments *x,
                                  struct report *report, const struct way *const *at)
{
    at_once *next = at[1]->at_once;

    return next && next(ctx, x, report, at + 1);
}
at_once limber_direct_at_once; /* at_once.c: the function at_once of the way `direct` */
/* Computes a plain product by the first ways of the list.  False if nothing was done, so that the
 * call must be converted to a struct problem. */
static inline bool limber_ways_at_once(limber_context *ctx, const struct gemm_arguments *x,
                                       struct report *report)
{
    at_once *first = limber_ways[0]->at_once;

    return first && first(ctx, x, report, limber_ways);
}

/* The functions below try the ways in order, for a call with at least one element of C.
 * limber_ways_run computes the call, and writes no log line. */
bool limber_ways_run(struct attempt *x);
/* Writes which way would compute the call, why the ways before it refuse, and its plan. */
bool limber_ways_plan(struct attempt *x, struct text *out, struct cut *cut);
bool limber_ways_workspace(struct attempt *x, bool batch, size_t *least, size_t *best);

#endif
