/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel of a terms_call, which prepares a product with complex alpha and beta: copies the
 * scalars, and copies C next to A B. */
#ifndef LIMBER_CUDA_TERMS_H
#define LIMBER_CUDA_TERMS_H

/* Copies a number to element x at `to`.  Integers are extended to 64 bits. */
template <int S> DEVICE void copy_number(char *to, int64_t x, const char *from)
{
    constexpr limber_format f = SIDES[S].f;
    typename raw_element<S>::type e = load_raw<f.size>(from);

    if constexpr (f.kind == LIMBER_KIND_INT)
        store((int64_t *)to + x, (int64_t)((uint64_t)e << (64 - 8 * f.size)) >> (64 - 8 * f.size));
    else
        store_raw<f.size>(to + x * f.size, &e);
}

/* Copies the scalars to args.factors.  If width is 4, copies each complex number of C to the third
 * and fourth number of its group of four. */
KERNEL(limber_terms, struct terms_args, PACK_THREADS, 1)
{
    constexpr int size = SIDES[0].f.size, wide = SIDES[0].f.kind == LIMBER_KIND_INT ? 8 : size;
    int64_t own = (int64_t)block() * PACK_THREADS + thread();

    if (own < 2 * args.width * wide)
        store(args.factors + own, args.value[own]);
    if (args.width < 4)
        return;
    ROLL for (int64_t x = own; x < args.count * args.m * args.n;
              x += (int64_t)blocks() * PACK_THREADS) {
        int64_t which = x / (args.m * args.n), e = x - which * args.m * args.n;
        const char *from = (const char *)limber_spread_at(args.c, &args.each, which) +
                           (e / args.n * args.row + e % args.n * args.col) * size;

        copy_number<0>(args.to, x * args.width + 2, from);
        copy_number<0>(args.to, x * args.width + 3, from + size);
    }
}

#endif
