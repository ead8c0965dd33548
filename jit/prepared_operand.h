/* SPDX-License-Identifier: BSD-3-Clause
 * A prepared operand, as the engine (prepared.c) and the public calls (api/prepared.c) see it. */
#ifndef LIMBER_JIT_PREPARED_OPERAND_H
#define LIMBER_JIT_PREPARED_OPERAND_H

#define XXH_INLINE_ALL
#include "jit/device.h"
#include "jit/prepared.h"

#include <xxhash.h>

/* Limbs of one kernel. */
struct limbs {
    struct kept kept;           /* first: handed out, and cast back */
    struct limbs *next;
    unsigned char key[KEY_BYTES];
    int side, variant;
    int64_t place; /* limber_kept_place */
    size_t bytes;
    int users;
    uint64_t tick;              /* of the last use */
};

struct limber_prepared {
    limber_context *ctx;
    limber_matrix x;
    int64_t rows, cols;
    bool left, checks;
    limber_operation operation; /* that reads filters; GEMM: a matrix */
    struct conv conv; /* of filters */
    int64_t parts, groups; /* of filters; else 1 */
    struct mask *mask; /* [part][group] */
    XXH128_hash_t hash;         /* 0 for elements in a device's memory */
    size_t bound;
    struct at_fork at_fork;
    pthread_mutex_t lock;       /* of what follows */
    struct limbs *limbs;
    size_t bytes;
    uint64_t tick;
    struct limber_prepared *narrow; /* NULL, or the same elements as bytes */
    bool makes_narrow;
    void *elements; /* NULL, or what x is, to be freed with it */
};

/* Begins what threads share of an operand whose other fields are set; fills its masks. */
void limber_prepared_begin(struct limber_prepared *o);
bool limber_prepared_scan(struct limber_prepared *o, struct diag *d);
/* The hash of its elements; whether it is as it was, or that is not checked: else an error names
 * `what`. */
bool limber_prepared_hash(const struct limber_prepared *o, XXH128_hash_t *out, struct diag *d);
bool limber_prepared_is_same(const struct limber_prepared *o, const char *what, struct diag *d);
void limber_prepared_drop(struct limber_prepared *o); /* or NULL */

#endif
