/* SPDX-License-Identifier: BSD-3-Clause
 * The inside of a call: what is found of its operands, how that is described, the kernel that is made of
 * the description, the launch. */
#ifndef LIMBER_JIT_CALL_H
#define LIMBER_JIT_CALL_H

#include "jit/engine.h"

/* ---- find.c ---------------------------------------------------------------------------------- */

/* What the scan found: one mask a group for the launches, one over all groups for the class. */
struct finding {
    struct mask *a, *b;
    struct mask all_a, all_b;
    bool lent[2];               /* masks of prepared operands */
    int slices;                 /* Ozaki I: asked for or estimated; 0: no wish */
    int trust;                  /* correct: bits, as in struct plan */
    bool fractional;            /* exact: sums may be no integers */
};
/* f is zero, and to be cleared also after a failure. */
bool limber_find(limber_context *ctx, struct finding *f, const struct problem *p, struct diag *d);
void limber_finding_clear(struct finding *f, int64_t groups);
/* Of m, the masks of a side, that of group g. */
const struct mask *limber_mask_of(const struct problem *p, const struct mask *m, bool left, int64_t g);

/* The scheme that is asked for; "NARROW+WIDE". */
bool limber_asks(const struct problem *p, const char *scheme);
bool limber_names_two(const struct problem *p);
enum scan_depth limber_depth_of(const limber_context *ctx, const struct problem *p);
/* Too little work for a second thread, or for a look at the data, to pay. */
bool limber_is_tiny(const struct problem *p);
/* Too little for a kernel of narrow classes to pay. */
bool limber_is_coarse(const limber_context *ctx, const struct problem *p);
/* A kernel serves every k <= 2^this that no smaller class does. */
int limber_k_class(int64_t k);
double limber_least_k(int kbits);       /* of such a class */

/* ---- describe.c ------------------------------------------------------------------------------ */

enum { MASK_FIRST = ATTR_emin, MASK_LAST = ATTR_special, MASK_ATTRS = MASK_LAST - MASK_FIRST + 1 };

/* Compared as bytes: cleared before it is filled.  What most calls leave empty stands last, so that
 * their comparison ends before it. */
struct description {
    limber_format fa, fb, fc;
    int32_t promise, bits, slices, kbits;
    int32_t size, split, roundings, trust;
    int32_t alpha, beta, wrap, conv;
    int32_t counts, simulates;
    char wanted[32];
    uint64_t has[2];                    /* of the operands' masks: a, b */
    int64_t mask[2][MASK_ATTRS];
    int64_t stride[2], pad[4], dilate[2], groups, layout;
    char model[512];            /* the unit's words, with seed 0 */
};
size_t limber_description_size(const struct description *d);    /* bytes that say it all */
bool limber_describe(limber_context *ctx, struct description *d, const struct problem *p,
                     const struct finding *f, struct diag *diag);
/* fixed: NULL, or the shape. */
bool limber_state(struct plan *p, const struct description *d, const struct fixed *fixed,
                  struct diag *diag);

/* ---- make.c ---------------------------------------------------------------------------------- */

struct making {
    limber_context *ctx;
    const struct description *d;
    const struct fixed *fixed;  /* NULL: a kernel for many sizes */
    const struct machine *machine;
    const char *stated;         /* in the place of a description: the stated plan */
};
/* As maker.make; user is a struct making.  Where the compiler is missing, the context's spare backend
 * serves. */
bool limber_make_kernel(void *user, struct entry *e, struct diag *d);
/* The key of a stated plan; *stated: NULL, or its text for the caller to free. */
bool limber_plan_key(const limber_context *ctx, const struct machine *machine, const struct plan *p,
                     const struct fixed *f, unsigned char key[KEY_BYTES], char **stated,
                     struct diag *d);
/* What is known of a finished plan. */
void limber_gather(struct facts *f, const struct plan *p, const struct fixed *fixed);
bool limber_passes_told(struct plan *p, const struct target *t, const char *names, struct story *s,
                        struct diag *d);
const char *limber_promise_name(const limber_contract *k, char *text, size_t size);

/* ---- small.c --------------------------------------------------------------------------------- */

/* A product so small that it needs no kernel of its own; and it is done. */
bool limber_is_small(const limber_context *ctx, const struct problem *p);
/* False where the scheme is asked for and cannot serve.  The interpreter computes its results anyway. */
bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d);
void limber_small_run(limber_context *ctx, const struct problem *p, limber_report *r);
void limber_small_report(const limber_context *ctx, limber_report *r);     /* but for times */

/* ---- launch.c -------------------------------------------------------------------------------- */

/* One kernel over the groups of a problem. */
struct step {
    const struct problem *p;
    const struct finding *f;
    struct entry *e;
    limber_report *report;      /* NULL: nobody wants to know */
};
/* Runs all of them; after a failure C, which is that of `whole`, is what it was.  Of several none stores
 * integers. */
bool limber_launch(limber_context *ctx, const struct step *s, int count, const struct problem *whole,
                   struct diag *d);
/* Takes the kernel of a step whose problem and finding are stated, made in the background unless the contract
 * says to wait; *ready is false where it is not there yet. */
bool limber_engine_step(limber_context *ctx, struct step *s, bool *ready, struct diag *d);
/* Into a stream that records, where failure spoils the record. */
bool limber_launch_recorded(limber_context *ctx, const struct step *s, const struct guard *guard,
                            struct diag *d);

#endif
