/* SPDX-License-Identifier: BSD-3-Clause
 * The split functions of the families of schemes.  Only list.c and the families include this. */
#ifndef LIMBER_SCHEME_SPLIT_H
#define LIMBER_SCHEME_SPLIT_H

#include "passes/scheme.h"

#define WHOLE_K ((int64_t)1 << 40) /* longer than any k, so that there is one chain */

#define SPLIT(name) \
    bool limber_split_##name(struct plan *, const struct scheme *, const struct target *, \
                             struct diag *)
SPLIT(native);
SPLIT(cublas);
SPLIT(tensor);
SPLIT(wider);
SPLIT(hilo);
SPLIT(ozaki1);
SPLIT(ozaki2);
SPLIT(integer);
SPLIT(exact);
SPLIT(simulate);
SPLIT(block_scaled);
#undef SPLIT

/* Sets the attribute `sums` of exact products in e4m3.  Refuses tensor cores that sum FP8 in 14
 * bits, because exact chains would be too short; other tensor cores sum like FP32.  If the target
 * has no attribute `sums`, FP32 sums are assumed. */
bool limber_split_exact_e4m3(struct plan *, const struct target *, struct diag *);

#endif
