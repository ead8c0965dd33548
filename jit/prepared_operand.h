/* SPDX-License-Identifier: BSD-3-Clause
 * A prepared operand, for the engine (prepared.c) and the public calls (api/prepared.c). */
#ifndef LIMBER_JIT_PREPARED_OPERAND_H
#define LIMBER_JIT_PREPARED_OPERAND_H

#define XXH_INLINE_ALL
#include "jit/device.h"
#include "jit/prepared.h"

#include <xxhash.h>

/* Limbs of the operand for one kernel. */
struct limbs {
    struct kept kept;           /* must be first: a struct kept * is cast back to struct limbs */
    struct limbs *next;
    unsigned char key[KEY_BYTES];
    int side, variant;
    int64_t place; /* which part of the operand the limbs belong to (limber_kept_place) */
    size_t bytes;
    int users;
    uint64_t tick;              /* time of the last use, in uses of the operand */
};

/* A prepared operand. checks: each use compares the hash of its elements. */
struct limber_prepared {
    limber_context *ctx;
    limber_matrix x;
    int64_t rows, cols;
    bool left, checks;
    /* the operation that reads these filters; GEMM: the operand is a matrix */
    limber_operation operation;
    struct conv conv; /* the convolution to which filters belong */
    int64_t parts, groups; /* parts of the window, and groups, of filters; else 1 */
    struct mask *mask; /* [part][group] */
    XXH128_hash_t hash;         /* 0 for elements in device memory */
    size_t bound;
    struct at_fork at_fork;
    pthread_mutex_t lock;       /* guards the fields below */
    struct limbs *limbs;
    size_t bytes;
    uint64_t tick;
    struct limber_prepared *narrow; /* NULL, or the same values as bytes; owned */
    bool makes_narrow;
    void *elements; /* NULL, or the memory of x; owned */
};

/* Initialises the lock of an operand whose other fields are set. */
void limber_prepared_begin(struct limber_prepared *o);
bool limber_prepared_scan(struct limber_prepared *o, struct diag *d);
/* limber_prepared_hash: the hash of its elements.  limber_prepared_is_same: false, with an error
 * that names `what`, if the elements have changed. */
bool limber_prepared_hash(const struct limber_prepared *o, XXH128_hash_t *out, struct diag *d);
bool limber_prepared_is_same(const struct limber_prepared *o, const char *what, struct diag *d);
void limber_prepared_drop(struct limber_prepared *o); /* frees it; NULL is fine */

#endif
