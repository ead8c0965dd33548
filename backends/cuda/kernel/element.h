/* SPDX-License-Identifier: BSD-3-Clause
 * Computes elements of C one by one: those whose sums have NaN or infinities, and exact sums of any
 * data. */
#ifndef LIMBER_CUDA_ELEMENT_H
#define LIMBER_CUDA_ELEMENT_H

enum { ELEMENT_THREADS = 128 };

struct operands { struct view a, b; };

/* Returns the views of A and B of one product of a batch. */
DEVICE struct operands operands_of(const element_args &g, int64_t product)
{
    struct operands o = { limber_operand_at(&g.a, product), limber_operand_at(&g.b, product) };

    o.a.tile_subset = g.subset_a.block ? &g.subset_a : NULL;
    o.b.tile_subset = g.subset_b.block ? &g.subset_b : NULL;
    return o;
}

/* Loads an operand's element as one number, or as two if it is double-double.  Returns how many; 0
 * for a zero without memory. */
template <int S>
DEVICE int parts_at(limber_num part[2], const struct view &v, int64_t line, int64_t p)
{
    constexpr limber_format f = SIDES[S].f;
    typename raw_of<f.size>::type e;

    return load_element<S>(e, v, line, p) ? limber_parts(part, f, &e) : 0;
}

/* Returns an element's class as a double: 0, 1, infinity or NaN, with the element's sign.  A sum
 * of products that is NaN or infinite is the same if classes replace the elements. */
template <int S> DEVICE double class_at(const struct view &v, int64_t line, int64_t p)
{
    limber_num part[2];

    return parts_at<S>(part, v, line, p) ? limber_num_class(&part[0]) : 0;
}

/* Computes element (i, j) of C from the classes of its terms, some of which are NaN or infinite.
 * Returns 1 if the result does not fit an integer format. */
DEVICE int special_element(const element_args &g, const result_args &r, const struct operands &o,
                            int64_t i, int64_t j)
{
    char *to = limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size);
    limber_scalars scalars = scalars_of(g.r);
    typename raw_of<RESULT.size>::type e = {};
    double x = 0;

    ROLL for (int64_t p = 0; p < g.k; p++)
        x += class_at<0>(o.a, r.i0 + i, p) * class_at<1>(o.b, r.j0 + j, p);
    if (BETA)
        e = load_raw<RESULT.size>(to);
    int flags = limber_store_class(&e, RESULT, x, &scalars);
    if (!g.r.dry)
        store_raw<RESULT.size>(to, &e);
    return IS_INTEGER_RESULT && flags & NUM_overflow;
}

/* Calls with(destination, product, i, j), a function, for each element of C that this thread
 * computes. */
template <class F> DEVICE void each_element(const element_args &g, F with)
{
    int64_t area = g.r.m * g.r.n, step = (int64_t)blocks() * ELEMENT_THREADS;

    ROLL for (int64_t x = (int64_t)block() * ELEMENT_THREADS + thread(); x < g.products * area;
              x += step) {
        int64_t product = g.products > 1 ? x / area : 0, own = x - product * area;

        with(result_of(g.r, product), product, own / g.r.n, own % g.r.n);
    }
}

#if SPECIAL && !LONG_WORDS
/* Computes those elements of C whose row of A or column of B has NaN or infinities. */
KERNEL(limber_special, struct element_args, ELEMENT_THREADS, 1)
{
    uint64_t lost = 0;

    if (is_left(args.r.choice, args.r.mine))
        return;
    each_element(args, [&](const result_args &r, int64_t product, int64_t i, int64_t j) {
        if (is_special(r, i, j))
            lost += (uint64_t)special_element(args, r, operands_of(args, product), i, j);
    });
    if (lost)
        atomic_add(args.r.overflow, lost);
}
#endif

#if LONG_WORDS
/* True for NaN and infinities. */
DEVICE bool is_nonfinite(const limber_num &x)
{
    return x.kind == NUM_inf || x.kind == NUM_nan;
}

/* Computes element (i, j) of C exactly in a long accumulator.  Handles NaN and infinities itself,
 * so no scan is needed.  Returns 1 if the result does not fit an integer format. */
DEVICE int exact_element(const element_args &g, const result_args &r, const struct operands &o,
                         limber_big *sum, int64_t i, int64_t j)
{
    char *to = limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size);
    limber_scalars scalars = scalars_of(g.r);
    typename raw_of<RESULT.size>::type e = {};
    limber_num a[2], b[2];
    bool nonfinite = false;
    int lost;

    limber_big_zero(sum);
    ROLL for (int64_t p = 0; p < g.k; p++) {
        int in_a = parts_at<0>(a, o.a, r.i0 + i, p), in_b = parts_at<1>(b, o.b, r.j0 + j, p);

        nonfinite = nonfinite || (in_a && is_nonfinite(a[0])) || (in_b && is_nonfinite(b[0]));
        ROLL for (int x = in_a; x-- > 0;)
            ROLL for (int y = in_b; y-- > 0;)
                if (a[x].kind == NUM_finite && b[y].kind == NUM_finite)
                    limber_big_add_product(sum, &a[x], &b[y]);
    }
    if (nonfinite)
        return special_element(g, r, o, i, j);
    if (BETA)
        e = load_raw<RESULT.size>(to);
    lost = limber_store_exact(&e, RESULT, sum->w, sum->n, sum->base, &scalars) & MISFITS;
    if (!g.r.dry)
        store_raw<RESULT.size>(to, &e);
    return lost && IS_INTEGER_RESULT;
}

/* Computes all elements of C in a long accumulator. */
KERNEL(limber_exact, struct element_args, ELEMENT_THREADS, 1)
{
    uint64_t words[LONG_WORDS], lost = 0;
    limber_big sum = { words, LONG_WORDS, LONG_BASE };

    if (is_left(args.r.choice, args.r.mine))
        return;
    each_element(args, [&](const result_args &r, int64_t product, int64_t i, int64_t j) {
        lost += (uint64_t)exact_element(args, r, operands_of(args, product), &sum, i, j);
    });
    if (lost)
        atomic_add(args.r.overflow, lost);
}
#endif

#endif
