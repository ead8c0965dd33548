/* SPDX-License-Identifier: BSD-3-Clause
 * Packs operands of a simulated unit: elements are scaled by blocks, rounded, and stored in the
 * unit's order along k.  For fused blocks a second limb holds the elements' exponents. */
#ifndef LIMBER_CUDA_UNIT_LOAD_H
#define LIMBER_CUDA_UNIT_LOAD_H

enum { LINES = 32, ELEMENTS = 64, EACH = 8, PACK_THREADS = LINES * ELEMENTS / EACH,
       PADDED = ELEMENTS + 1, SCALE_THREADS = 256 };

/* exponent of a zero, so small that it never determines the alignment of a block */
enum { NO_EXPONENT = -20000 };

/* Returns the index along k of the element in a slot (a position of k with its padding); -1 if the
 * slot is padding. */
DEVICE int64_t index_at(const struct slots &s, int64_t slot)
{
    const limber_unit u = MODEL;
    int64_t run = slot / s.run_slots, at = slot % s.run_slots, p = run * s.run + at;

    return at < s.run && p < s.k && slot < s.count ? limber_unit_index_of_position(&u, s.k, p) : -1;
}

/* ---- scales of blocks ------------------------------------------------------------------------ */

#if SCALE_BLOCK
/* Returns element p of a row of A or column of B in FP64; 0 if it is a zero without memory. */
template <int S> DEVICE double element_at(const struct view &v, int64_t line, int64_t p)
{
    typename raw_element<S>::type e = {};

    load_element<S>(e, v, line, p);
    return double_of(SIDES[S].f, &e);
}

/* Computes the scales of an operand's blocks, one per thread, each from the largest finite
 * magnitude of its block. */
template <int S> DEVICE void scale_blocks(const pack_args &a)
{
    const limber_unit u = MODEL;
    int64_t x = (int64_t)block() * SCALE_THREADS + thread(), line = x / a.scale_blocks, from, to;
    int64_t which = line / a.lines;
    struct view v;
    double most = 0;

    if (which >= a.matrices)
        return;
    v = limber_operand_at(&a.operand, which);
    line -= which * a.lines;
    from = x % a.scale_blocks * SCALE_BLOCK;
    to = from + SCALE_BLOCK < a.length ? from + SCALE_BLOCK : a.length;
    ROLL for (int64_t p = from; p < to; p++) {
        double e = element_at<S>(v, a.line0 + line, p);

        e = e < 0 ? -e : e;
        if (e - e == 0 && e > most)
            most = e;
    }
    store<float>(a.scales + x,
                 most > 0 ? (float)limber_unit_scale(&u, S ? &u.b : &u.a, most) : 1);
}

KERNEL(limber_scale_a, struct pack_args, SCALE_THREADS, 1)
{
    scale_blocks<0>(args);
}

KERNEL(limber_scale_b, struct pack_args, SCALE_THREADS, 1)
{
    scale_blocks<1>(args);
}
#endif

/* ---- elements as the unit takes them --------------------------------------------------------- */

/* Reads a block of LINES rows of A (or columns of B) by ELEMENTS slots (positions along k) into
 * shared memory, in the direction that is contiguous. */
template <int S>
DEVICE void read_slots(const pack_args &a, const struct view &v, int64_t line0, int64_t slot0)
{
    constexpr int size = SIDES[S].f.size;
    typedef typename raw_of<size>::type raw;
    bool along = lies_along(v);

    ROLL for (int x = thread(); x < LINES * ELEMENTS; x += PACK_THREADS) {
        int line = along ? x / ELEMENTS : x % LINES, p = along ? x % ELEMENTS : x / LINES;
        int64_t index = line0 + line < a.lines ? index_at(a.slots, slot0 + p) : -1;
        raw e = {};

        if (index >= 0)
            load_element<S>(e, v, a.line0 + line0 + line, index);
        store_shared<raw>((uint32_t)((line * PADDED + p) * size), e);
    }
    sync_block();
}

/* True if the value exceeds the bounds within which FP32 lanes are exact. */
DEVICE bool is_wide(float x)
{
    uint32_t size = float_bits(x) & 0x7fffffff;

    return size >= (uint32_t)(127 + MOST) << 23 || (size && size < (uint32_t)(127 + LEAST) << 23);
}

/* Returns the padding of A (side 0) or B: -0 in A and +0 in B, so that the product is -0, which
 * changes no sum. */
DEVICE struct loaded padding_of(int side)
{
    return { side ? 0.0f : -0.0f, NO_EXPONENT };
}

/* Scales the element e of a slot (position along k) and rounds it to the unit's operand format.
 * Returns padding if the slot has no element. */
template <int S, class raw>
DEVICE struct loaded load_slot(const pack_args &a, int which, int64_t line, int64_t slot, raw e)
{
    const limber_step s = S ? MODEL.b : MODEL.a;
    int64_t index = line < a.lines ? index_at(a.slots, slot) : -1;
    double scale = 1;
    struct loaded v;

    if (index < 0)
        return padding_of(S);
#if SCALE_BLOCK
    scale = load<float>(a.scales + (which * a.lines + line) * a.scale_blocks +
                        index / SCALE_BLOCK);
#endif
    limber_unit_load_one(&s, double_of(SIDES[S].f, &e), scale, MODEL.sub > 1, &v);
    /* if terms are sums of neighbouring products (sub > 1), exponents of zeros also count for the
     * sum */
    if (!MODEL.zeros && MODEL.sub == 1 && v.value == 0)
        v.exponent = NO_EXPONENT;
    return v;
}

/* Stores eight words.  `to` is aligned to 16. */
DEVICE void put_eight(char *to, const uint32_t (&v)[EACH])
{
    store<bytes16>(to, { { v[0], v[1], v[2], v[3] } });
    store<bytes16>(to + 16, { { v[4], v[5], v[6], v[7] } });
}

/* Packs the elements that belong to thread block `index` of an operand: LINES rows or columns by
 * ELEMENTS slots (positions along k). */
template <int S> DEVICE void pack(const pack_args &a, int index)
{
    constexpr int size = SIDES[S].f.size;
    typedef typename raw_of<size>::type raw;
    int which = index / a.blocks, own = index % a.blocks;
    int64_t line0 = (int64_t)(own / a.blocks_p) * LINES;
    int64_t slot0 = (int64_t)(own % a.blocks_p) * ELEMENTS;
    int line = thread() / (ELEMENTS / EACH), p = thread() % (ELEMENTS / EACH) * EACH;
    int64_t at = which * a.padded + line0 + line;
    char *to = a.limbs + at * a.pitch + (slot0 + p) * 4;
    uint32_t value[EACH], exponent[EACH];
    bool wide = false;

    read_slots<S>(a, limber_operand_at(&a.operand, which), line0, slot0);
    if (line0 + line >= a.padded || (slot0 + p) * 4 >= a.pitch)
        return;
    ROLL for (int x = 0; x < EACH; x++) {
        struct loaded v = load_slot<S>(a, which, line0 + line, slot0 + p + x, load_shared<raw>(
                                       (uint32_t)((line * PADDED + p + x) * size)));

        wide |= is_wide(v.value);
        /* select by comparing, since registers cannot be indexed */
        UNROLL for (int y = 0; y < EACH; y++) {
            value[y] = x == y ? float_bits(v.value) : value[y];
            exponent[y] = x == y ? (uint32_t)v.exponent : exponent[y];
        }
    }
    put_eight(to, value);
    if (FUSED)
        put_eight(to + a.limb, exponent);
    if (NARROW && wide)
        atomic_or(a.wide + at / (S ? BN : BM), 1);
}

#endif
