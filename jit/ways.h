/* SPDX-License-Identifier: BSD-3-Clause
 * What computes a call is decided in one list of ways, best first (ways.c).  A way is asked whether
 * it serves the call's arguments, and then runs: it computes the call, or says that the data is
 * other than it needs, and then nothing is done and the next way is asked. */
#ifndef LIMBER_JIT_WAYS_H
#define LIMBER_JIT_WAYS_H

#include "jit/engine.h"

/* A call on its way down the list. */
struct attempt {
    limber_context *ctx;
    const struct problem *p; /* the call; for ways that plan, so that C's rows are dense */
    struct report *r; /* or NULL */
    struct diag *d;
    const struct way *const *at; /* the place in the list of the way that is asked next */
    /* Go down the list with another call, for ways that make one of this. */
    bool (*again)(struct attempt *);
    bool (*plan_again)(struct attempt *, struct text *out, struct cut *cut);
    bool plans; /* the rest is set */
    struct problem turned;
    bool scanned; /* f and key are filled */
    struct scan_result f;
    struct kernel_key key;
};
/* Fills the report of a product that pairs compute, but for its times. */
void limber_pairs_report(struct attempt *x);
/* Scans the operands and makes the key, unless that is done. */
bool limber_attempt_scan(struct attempt *x);

enum ran { RAN_not, RAN_done, RAN_failed }; /* not: nothing is done */
static inline enum ran limber_ran(bool done)
{
    return done ? RAN_done : RAN_not;
}

struct way {
    enum way_id id; /* WAY_none: the backend says which */
    bool plans;
    bool keeps_memory; /* it takes memory of its own, and refuses a caller's workspace */
    /* NULL where it may serve a call; else why not.  Data is not looked at. */
    const char *(*refuses)(const limber_context *, const struct problem *);
    enum ran (*run)(struct attempt *);
    /* Whether the data is such that it would run; NULL: all is, or this is seen with its plan. */
    bool (*suits)(struct attempt *);
    /* Bytes of workspace; NULL: it takes none. */
    enum ran (*workspace)(struct attempt *, bool batch, size_t *least, size_t *best);
    /* The text of its plan (out: or NULL), and a report; NULL: it needs no plan. */
    enum ran (*plan)(struct attempt *, struct text *out, struct cut *cut);
    void (*report)(struct attempt *); /* of a way without a plan; NULL: that of a kernel's plan */
};
extern const struct way limber_way_vectors, limber_way_direct, limber_way_depthwise,
    limber_way_pairs, limber_way_bytes, limber_way_depthwise_exact, limber_way_depthwise_pairs,
    limber_way_parts, limber_way_kernel;

/* Takes ways out: "-direct,-pairs" takes two, "-planless" all that need no plan. */
bool limber_ways_read(const char *text, uint32_t *ways, struct diag *d);

/* Each begins at the list's begin, of a call of at least one element of C.  Computes it, without a
 * line for the log. */
bool limber_ways_run(struct attempt *x);
/* Says which way would compute it and why those before it do not, and gives its plan. */
bool limber_ways_plan(struct attempt *x, struct text *out, struct cut *cut);
bool limber_ways_workspace(struct attempt *x, bool batch, size_t *least, size_t *best);

#endif
