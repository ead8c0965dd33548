/* SPDX-License-Identifier: BSD-3-Clause
 * The ways to compute a call, tried in the order of one list, best first (ways.c).  A way first
 * accepts or refuses the arguments.  Then it computes the call, or finds that the data does not
 * suit it; then it has changed nothing, and the next way is tried. */
#ifndef LIMBER_JIT_WAYS_H
#define LIMBER_JIT_WAYS_H

#include "jit/engine.h"

/* A call for which the list of ways is tried. */
struct attempt {
    limber_context *ctx;
    const struct problem *p; /* the call; ways with a plan get it with C's rows contiguous */
    struct report *r; /* the report; NULL: none is wanted */
    struct diag *d;
    const struct way *const *at; /* the way that is tried next */
    /* Try the list with another call, for ways that turn this call into one. */
    bool (*again)(struct attempt *);
    bool (*plan_again)(struct attempt *, struct text *out, struct cut *cut);
    bool plans; /* the fields below are set */
    struct problem turned;
    bool scanned; /* f and key are filled */
    struct scan_result f;
    struct kernel_key key;
};
/* Fills the report of a product computed by `pairs`, except for its times. */
void limber_pairs_report(struct attempt *x);
/* Scans the operands and makes the key, unless that has been done. */
bool limber_attempt_scan(struct attempt *x);

enum ran { RAN_not, RAN_done, RAN_failed }; /* not: nothing is done */
static inline enum ran limber_ran(bool done)
{
    return done ? RAN_done : RAN_not;
}

struct way {
    enum way_id id; /* WAY_none: the backend says which */
    bool plans;
    bool keeps_memory; /* it allocates memory, and refuses a caller's workspace */
    /* NULL if it may serve a call; else the reason why not.  Does not read data. */
    const char *(*refuses)(const limber_context *, const struct problem *);
    enum ran (*run)(struct attempt *);
    /* True if the data suits it; NULL: all data does, or its plan tells. */
    bool (*suits)(struct attempt *);
    /* Bytes of workspace; NULL: it needs none. */
    enum ran (*workspace)(struct attempt *, bool batch, size_t *least, size_t *best);
    /* Writes its plan to `out` (or NULL), and the report; NULL: it needs no plan. */
    enum ran (*plan)(struct attempt *, struct text *out, struct cut *cut);
    void (*report)(struct attempt *); /* for a way without a plan; NULL: the report of a plan */
};
extern const struct way limber_way_vectors, limber_way_direct, limber_way_integers,
    limber_way_depthwise, limber_way_pairs, limber_way_bytes, limber_way_depthwise_exact,
    limber_way_depthwise_pairs, limber_way_parts, limber_way_kernel;

/* Reads LIMBER_WAYS: "-direct,-pairs" takes two ways out, "-planless" all that need no plan. */
bool limber_ways_read(const char *text, uint32_t *ways, struct diag *d);

/* The functions below try the whole list for a call with at least one element of C.
 * limber_ways_run computes it and writes no log line. */
bool limber_ways_run(struct attempt *x);
/* Writes which way would compute the call, why those before it refuse, and its plan. */
bool limber_ways_plan(struct attempt *x, struct text *out, struct cut *cut);
bool limber_ways_workspace(struct attempt *x, bool batch, size_t *least, size_t *best);

#endif
