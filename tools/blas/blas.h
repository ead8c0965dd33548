/* SPDX-License-Identifier: BSD-3-Clause
 * Products that a program asks its BLAS for, computed by Limber where a contract says so. */
#ifndef LIMBER_BLAS_H
#define LIMBER_BLAS_H

#include "tools/preload/options.h"

#include <stdint.h>

/* A matrix as the program has it: column-major unless `rows`. */
struct side {
    const void *data;
    char op;                /* N, T or C, or their small letters */
    int64_t lead;
};

/* A call as it came. */
struct request {
    const char *name;       /* of the function */
    char type;              /* s, d, c or z */
    bool rows;              /* CBLAS: row-major */
    int64_t m, n, k;
    const void *alpha, *beta;
    struct side a, b, c;    /* c.op is N */
};

/* serve.c: true when the product is computed; else it is the program's own BLAS that has to, also
 * where arguments are wrong, so that its xerbla tells. */
bool limber_blas_serve(const struct request *r);

/* real.c: the function behind ours; NULL, told once on stderr, where there is none. */
void *limber_blas_real(const char *name);
/* Whether names without a suffix take 64-bit integers: by LIMBER_ILP64, else by asking the BLAS behind
 * ours. */
bool limber_blas_is_wide(void);

#endif
