/* SPDX-License-Identifier: BSD-3-Clause
 * A problem with an epilogue: the product that is computed, and the steps behind it. */
#ifndef LIMBER_JIT_API_EPILOGUE_H
#define LIMBER_JIT_API_EPILOGUE_H

#include "jit/api/api.h"
#include "jit/epilogue.h"

struct epilogue_call {
    limber_problem product; /* without the epilogue; its C is x, in the format of steps */
    limber_batch batch;
    limber_output c; /* the caller's */
    struct problem stated; /* that product with the caller's C */
    struct steps steps;
    limber_format compute;
    int addend; /* the input that x begins with, or -1 */
    int joins, join[MOST_INPUTS]; /* others that are part of the product's sum */
    bool on_device; /* C lies in the device's memory */
    bool apart; /* x has memory of its own */
    char alpha[16], beta[16]; /* in the format of x */
    limber_epilogue_input input[MOST_INPUTS];
    const char *name[MOST_INPUTS];
};

/* Reads and checks it; `stores`: C is written.  Points into *c. */
bool limber_epilogue_read(limber_context *ctx, struct epilogue_call *c, const limber_problem *p,
                          bool stores, struct diag *d);
/* addends.c: takes from the steps the inputs that the first of them add, as part of the exact sum:
 * c->addend, unless C begins with something already, and c->join. */
void limber_epilogue_addends(limber_context *ctx, struct epilogue_call *c, bool begins_free);
/* The product with c->join among its terms; its operands lie in *memory, the caller's, which is
 * NULL where there are none. */
bool limber_epilogue_widen(limber_context *ctx, struct epilogue_call *c, char **memory,
                           struct diag *d);
/* Computes it by `run`, which computes the product. */
bool limber_epilogue_run(limber_context *ctx, struct epilogue_call *c, struct report *r,
                         bool (*run)(limber_context *, const limber_problem *, struct report *,
                                     struct diag *),
                         struct diag *d);
/* The steps behind a plan's text. */
void limber_epilogue_text(const struct epilogue_call *c, struct text *out);

#endif
