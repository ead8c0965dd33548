/* SPDX-License-Identifier: BSD-3-Clause
 * Packs operands for block-scaled instructions: bit patterns of elements, one or two per byte, and
 * a byte for the scale of each block.  Padding is zero, with the scale 1.  For tensor memory,
 * formats of 6 or 4 bits that do not have two elements per byte are packed by 16 elements, in the
 * low bytes of 16 bytes. */
#ifndef LIMBER_CUDA_MX_LOAD_H
#define LIMBER_CUDA_MX_LOAD_H

enum { BLOCK = MODEL.scale_block };

/* Returns the bit pattern of v in format f, which can represent v. */
DEVICE uint32_t code_of(limber_format f, double v)
{
    struct limber_num x;
    limber_u128 code;

    limber_num_from_f64(&x, v);
    limber_num_pack(&code, f.exp_bits, f.frac_bits, f.bias, f.flags, &x, 0, LIMBER_ROUND_NEAREST);
    return (uint32_t)code;
}

/* Returns the bit pattern of a scale in E8M0 or UE4M3. */
DEVICE uint32_t code_of_scale(double v)
{
    constexpr limber_format ue4m3 = { LIMBER_KIND_FLOAT, 4, 3, LIMBER_FORMAT_NO_INF, 7, 1, 0 };

    return MODEL.scale == LIMBER_SCALE_UE4M3 ? code_of(ue4m3, v) :
           (uint32_t)(double_bits(v) >> 52) - 1023 + 127;
}

/* Rounds an element, divided by its scale, and returns the bit pattern.  An E2M1 element that has a
 * byte of its own is in the byte's middle bits, as warp instructions require. */
template <int S> DEVICE uint32_t code_of_element(double x, double scale)
{
    constexpr limber_step s = S ? MODEL.b : MODEL.a;
    constexpr bool middle = PACKED == 1 && !COLUMNS_TAKEN && (S ? FORMAT_B : FORMAT_A) == 5;
    int loss;
    double v = x * 0; /* the value if the scale is zero: 0, or NaN for NaN and infinities */

    if (scale > 0 || x - x != 0)
        v = limber_step_value(&s, limber_odd_quotient(x, scale > 0 ? scale : 1), 0, 0, &loss);
    return code_of(s.format, v) << (middle ? 2 : 0);
}

/* Returns v of the lane whose index differs from this lane's in the bits of `mask`. */
DEVICE uint64_t of_neighbour(uint64_t v, int mask)
{
    return (uint64_t)shuffle_xor((uint32_t)(v >> 32), mask) << 32 | shuffle_xor((uint32_t)v, mask);
}

/* Returns the scale of a block, of which neighbouring threads have EACH elements each.  element: a
 * function that returns this thread's element of an index. */
template <int S, class F> DEVICE double scale_of_block(F element)
{
    constexpr limber_unit u = MODEL;
    uint64_t most = 0, infinite = (uint64_t)0x7ff << 52;

    ROLL for (int x = 0; x < EACH; x++) {
        uint64_t size = double_bits(element(x)) & ~((uint64_t)1 << 63);

        if (size < infinite && size > most)
            most = size;
    }
    UNROLL for (int mask = 1; mask < BLOCK / EACH; mask *= 2) {
        uint64_t other = of_neighbour(most, mask);

        most = other > most ? other : most;
    }
    return most ? limber_unit_scale(&u, S ? &u.b : &u.a, bits_double(most)) : 1;
}

/* Packs the 8 elements of each of two neighbouring threads, of `bits` bits each, contiguously into
 * 16 bytes.  Returns this thread's half of these bytes. */
template <int bits> DEVICE uint64_t half_of_codes(uint64_t own)
{
    uint64_t other = of_neighbour(own, 1);

    return thread() % 2 ? own >> (64 - 8 * bits) : own | other << 8 * bits;
}

/* Returns the index of a block's scale.  For warp instructions: [line][block], where a line is a
 * row of A or column of B.  For tensor memory: 512 bytes for 128 lines by four blocks, in which
 * lines that are 32 apart are adjacent, as the copies of scales require. */
DEVICE int64_t place_of_scale(int64_t line, int64_t block, int64_t blocks)
{
    if (!COLUMNS_TAKEN)
        return line * blocks + block;
    return line / 128 * 128 * blocks + block / 4 * 512 + line % 32 * 16 + line / 32 % 4 * 4 +
           block % 4;
}

/* Packs the elements that belong to thread block `index` of an operand: LINES rows or columns by
 * ELEMENTS. */
template <int S> DEVICE void pack(const pack_args &a, int index)
{
    constexpr int size = SIDES[S].f.size;
    constexpr limber_format format = S ? MODEL.b.format : MODEL.a.format;
    constexpr int bits = PACKED > 1     ? 4 :
                         COLUMNS_TAKEN ? 1 + format.exp_bits + format.frac_bits :
                                         8;
    typedef typename raw_of<size>::type raw;
    int which = index / a.blocks, own = index % a.blocks;
    int64_t line0 = (int64_t)(own / a.blocks_p) * LINES;
    int64_t p0 = (int64_t)(own % a.blocks_p) * ELEMENTS;
    int line = thread() / (ELEMENTS / EACH), p = thread() % (ELEMENTS / EACH) * EACH;
    int64_t at = which * a.padded + line0 + line;
    uint64_t codes = 0;
    double scale;
    auto element = [&](int x) {
        raw e = load_shared<raw>((uint32_t)((line * PADDED + p + x) * size));

        return double_of(SIDES[S].f, &e);
    };

    read_block<S>(limber_operand_at(&a.operand, which), a.line0 + line0, a.lines - line0, p0,
                  a.length);
    scale = scale_of_block<S>(element);
    ROLL for (int x = 0; x < EACH; x++)
        codes |= (uint64_t)code_of_element<S>(element(x), scale) << bits * x;
    if constexpr (PACKED == 1 && bits < 8)
        codes = half_of_codes<bits>(codes);
    if (line0 + line >= a.padded)
        return;
    if constexpr (PACKED == 1)
        store<uint64_t>(a.limbs + at * a.pitch + p0 + p, codes);
    else
        store<uint32_t>(a.limbs + at * a.pitch + (p0 + p) / 2, (uint32_t)codes);
    if (p % BLOCK == 0)
        store<uint8_t>((char *)a.scales + place_of_scale(at, (p0 + p) / BLOCK, a.scale_blocks),
                       (uint8_t)code_of_scale(scale > 0 ? scale : 1));
}

#endif
