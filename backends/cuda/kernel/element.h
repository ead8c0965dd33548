/* SPDX-License-Identifier: BSD-3-Clause
 * Elements one by one: those that NaN and infinities make, and exact sums for any data. */
#ifndef LIMBER_CUDA_ELEMENT_H
#define LIMBER_CUDA_ELEMENT_H

enum { ELEMENT_THREADS = 128 };

struct operands { struct view a, b; };

DEVICE struct operands operands_of(const element_args &g)
{
    struct operands o = { limber_operand_view(&g.a), limber_operand_view(&g.b) };

    o.a.tile_subset = g.subset_a.block ? &g.subset_a : NULL;
    o.b.tile_subset = g.subset_b.block ? &g.subset_b : NULL;
    return o;
}

/* The one or two numbers of element p of a line; none of padding. */
template <int S>
DEVICE int parts_at(limber_num part[2], const struct view &v, int64_t line, int64_t p)
{
    constexpr limber_format f = SIDES[S].f;
    typename raw_of<f.size>::type e;

    return load_element<S>(e, v, line, p) ? limber_parts(part, f, &e) : 0;
}

template <int S> DEVICE double class_at(const struct view &v, int64_t line, int64_t p)
{
    limber_num part[2];

    return parts_at<S>(part, v, line, p) ? limber_num_class(&part[0]) : 0;
}

/* The sum of products as NaN and infinities make it. */
DEVICE void special_element(const element_args &g, const struct operands &o, int64_t i, int64_t j)
{
    char *to = limber_output_at(&g.r.c, g.r.i0 + i, g.r.j0 + j, RESULT.size);
    limber_scalars scalars = scalars_of(g.r);
    typename raw_of<RESULT.size>::type e = {};
    double x = 0;

    ROLL for (int64_t p = 0; p < g.k; p++)
        x += class_at<0>(o.a, g.r.i0 + i, p) * class_at<1>(o.b, g.r.j0 + j, p);
    if (BETA)
        e = load_raw<RESULT.size>(to);
    limber_store_class(&e, RESULT, x, &scalars);
    store_raw<RESULT.size>(to, &e);
}

#if SPECIAL && !LONG_WORDS
KERNEL(limber_special, struct element_args, ELEMENT_THREADS, 1)
{
    struct operands o = operands_of(args);

    if (is_left(args.r.choice, args.r.mine))
        return;
    ROLL for (int64_t x = (int64_t)block() * ELEMENT_THREADS + thread(); x < args.r.m * args.r.n;
              x += (int64_t)blocks() * ELEMENT_THREADS)
        if (is_special(args.r, x / args.r.n, x % args.r.n))
            special_element(args, o, x / args.r.n, x % args.r.n);
}
#endif

#if LONG_WORDS
DEVICE bool is_odd(const limber_num &x)
{
    return x.kind == NUM_inf || x.kind == NUM_nan;
}

/* Every product in a long accumulator.  It meets NaN and infinities itself: no scan is needed. */
DEVICE int exact_element(const element_args &g, const struct operands &o, limber_big *sum,
                         int64_t i, int64_t j)
{
    char *to = limber_output_at(&g.r.c, g.r.i0 + i, g.r.j0 + j, RESULT.size);
    limber_scalars scalars = scalars_of(g.r);
    typename raw_of<RESULT.size>::type e = {};
    limber_num a[2], b[2];
    bool odd = false;
    int lost;

    limber_big_zero(sum);
    ROLL for (int64_t p = 0; p < g.k; p++) {
        int in_a = parts_at<0>(a, o.a, g.r.i0 + i, p), in_b = parts_at<1>(b, o.b, g.r.j0 + j, p);

        odd = odd || (in_a && is_odd(a[0])) || (in_b && is_odd(b[0]));
        ROLL for (int x = in_a; x-- > 0;)
            ROLL for (int y = in_b; y-- > 0;)
                if (a[x].kind == NUM_finite && b[y].kind == NUM_finite)
                    limber_big_add_product(sum, &a[x], &b[y]);
    }
    if (odd) {
        special_element(g, o, i, j);
        return 0;
    }
    if (BETA)
        e = load_raw<RESULT.size>(to);
    lost = limber_store_exact(&e, RESULT, sum->w, sum->n, sum->base, &scalars) & MISFITS;
    if (!g.r.dry)
        store_raw<RESULT.size>(to, &e);
    return lost && IS_INTEGER_RESULT;
}

KERNEL(limber_exact, struct element_args, ELEMENT_THREADS, 1)
{
    int64_t own = (int64_t)block() * ELEMENT_THREADS + thread();
    struct operands o = operands_of(args);
    uint64_t words[LONG_WORDS], lost = 0;
    limber_big sum = { words, LONG_WORDS, LONG_BASE };

    if (is_left(args.r.choice, args.r.mine))
        return;
    ROLL for (int64_t x = own; x < args.r.m * args.r.n; x += (int64_t)blocks() * ELEMENT_THREADS)
        lost += (uint64_t)exact_element(args, o, &sum, x / args.r.n, x % args.r.n);
    if (lost)
        atomic_add(args.r.overflow, lost);
}
#endif

#endif
