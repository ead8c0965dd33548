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
    struct kept_limbs kept; /* must be first: a struct kept_limbs * is cast back to struct limbs */
    struct limbs *next;
    unsigned char key[KEY_BYTES];
    int side, variant;
    int64_t place; /* which part of the operand the limbs belong to (limber_kept_place) */
    size_t bytes;
    /* number of calls that are reading the limbs */
    int users;
    uint64_t tick; /* time of the last use, in uses of the operand */
};

/* A prepared operand. */
struct limber_prepared {
    limber_context *ctx;
    limber_matrix x;
    int64_t rows, cols;
    /* left: true if the operand is A of products, false if it is B.  checks: each use compares the
     * hash of the elements with that at preparation. */
    bool left, checks;
    /* the operation that reads these filters; GEMM if the operand is a matrix */
    limber_operation operation;
    struct conv conv; /* the convolution to which the filters belong */
    int64_t parts, groups; /* filters: number of parts of the window, and of groups; else 1 */
    struct mask *mask; /* [part][group]; owned */
    XXH128_hash_t hash; /* hash of all elements; 0 if they are in device memory */
    /* largest number of bytes of kept limbs */
    size_t bound;
    struct at_fork at_fork;
    pthread_mutex_t lock; /* guards the fields below */
    struct limbs *limbs;
    /* bytes of kept limbs */
    size_t bytes;
    /* number of uses so far */
    uint64_t tick;
    struct limber_prepared *int8; /* the same values as 8-bit integers, or NULL; owned */
    /* a thread is making `int8`, or has made it */
    bool makes_int8;
    void *elements; /* memory of x that the operand owns, or NULL */
};

/* Initialises the lock of an operand whose other fields are set. */
void limber_prepared_begin(struct limber_prepared *o);
bool limber_prepared_scan(struct limber_prepared *o, struct diag *d);
/* limber_prepared_hash computes the hash of all elements.  limber_prepared_is_same returns false,
 * with an error that names `what`, if the elements have changed. */
bool limber_prepared_hash(const struct limber_prepared *o, XXH128_hash_t *out, struct diag *d);
bool limber_prepared_is_same(const struct limber_prepared *o, const char *what, struct diag *d);
void limber_prepared_drop(struct limber_prepared *o); /* frees the operand; o may be NULL */

#endif
