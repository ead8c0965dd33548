/* SPDX-License-Identifier: BSD-3-Clause
 * Packs operands to limbs.  A thread block reads LINES rows of A or columns of B, and splits each
 * element into limbs.  Each thread splits EACH (eight) neighbouring elements along k. */
#ifndef LIMBER_CUDA_PACK_H
#define LIMBER_CUDA_PACK_H

/* ---- splitting elements into limbs ----------------------------------------------------------- */

/* The address at which limbs are stored, and the number of bytes up to the end of their row. */
struct target { char *at; int64_t left; };

/* Stores `bytes` bytes of a limb's row.  From 16 bytes on, leaves out pieces of 16 bytes that begin
 * beyond the row's end. */
template <int bytes> DEVICE void store_row_bytes(struct target to, const void *from)
{
    if constexpr (bytes == 8) {
        bytes8 v;

        memcpy(&v, from, 8);
        store(to.at, v);
    } else {
        UNROLL for (int i = 0; i < bytes; i += 16) {
            bytes16 v;

            memcpy(&v, (const char *)from + i, 16);
            if (i < to.left)
                store(to.at + i, v);
        }
    }
}

/* Stores one limb of eight elements.  v: the elements in the limb's format. */
template <int S>
DEVICE void put_limb(const pack_args &a, struct target to, int limb, const void *v)
{
    store_row_bytes<EACH * SIDES[S].limb.size>({ to.at + limb * a.limb, to.left }, v);
}

/* Returns the float with bit pattern e, times 2^scale, as an integer whose magnitude must be below
 * 2^63: truncated or, if balanced, rounded to nearest, ties away from zero.  NaN and infinities
 * give 0. */
template <int S> DEVICE int64_t fixed_of(uint64_t e, int scale)
{
    constexpr limber_format f = SIDES[S].f;
    constexpr int most = (1 << f.exp_bits) - 1;
    int exponent = (int)(e >> f.frac_bits) & most;
    uint64_t m = e & (((uint64_t)1 << f.frac_bits) - 1), sign;
    int shift = (exponent ? exponent : 1) - f.bias - f.frac_bits + scale, down = -shift;

    m |= exponent ? (uint64_t)1 << f.frac_bits : 0;
    m = exponent == most || shift > 63 ? 0 : m;
    if constexpr (SIDES[S].balanced)
        m = shift >= 0 ? m << (shift & 63) : ((m >> (down < 64 ? down - 1 : 63)) + 1) >> 1;
    else
        m = shift >= 0 ? m << (shift & 63) : m >> (down < 63 ? down : 63);
    sign = (uint64_t)0 - (e >> (f.exp_bits + f.frac_bits));
    return (int64_t)((m ^ sign) - sign);
}

/* Converts an element, times 2^scale, to an integer in two's complement, lowest word in v[0]. */
template <int S, class raw> DEVICE void integer_of(uint32_t v[DIGITS[S]], raw e, int scale)
{
    constexpr limber_format f = SIDES[S].f;

    if constexpr (DIGITS[S] <= 2 && is_ieee(SIDES[S].f)) {
        int64_t x = fixed_of<S>(e, scale);

        v[0] = (uint32_t)x;
        if constexpr (DIGITS[S] > 1)
            v[1] = (uint32_t)((uint64_t)x >> 32);
    } else if constexpr (DIGITS[S] <= 2) {
        limber_num part[2];
        int64_t x = 0;

        for (int q = limber_parts(part, f, &e); q-- > 0;)
            x += limber_fix64_num(&part[q], scale, SIDES[S].balanced);
        v[0] = (uint32_t)x;
        if constexpr (DIGITS[S] > 1)
            v[1] = (uint32_t)((uint64_t)x >> 32);
    } else {
        uint64_t w[LIMBER_WIDE];

        limber_fix(w, f, &e, scale, SIDES[S].balanced);
        UNROLL for (int d = 0; d < DIGITS[S]; d++)
            v[d] = (uint32_t)(w[d / 2] >> 32 * (d % 2));
    }
}

/* Returns the bit pattern of an integer in a limb's format, in which it is a normal number or 0. */
template <int S> DEVICE typename raw_of<SIDES[S].limb.size>::type whole_number(int32_t v)
{
    constexpr limber_format f = SIDES[S].limb;
    typename raw_of<f.size>::type e;

    if constexpr (f.size == 8) {
        double x = v;

        memcpy(&e, &x, 8);
    } else {
        constexpr int fraction = f.frac_bits, bits = 8 * f.size;
        uint32_t x = float_bits((float)v);

        e = (typename raw_of<f.size>::type)(
            v ? (x >> 31) << (bits - 1) |
                    (((x & 0x7fffffff) >> (23 - fraction)) - ((127 - f.bias) << fraction)) :
                0);
    }
    return e;
}

/* Returns one word with the bit patterns of two integers of at most 11 bits in FP16. */
template <int S> DEVICE uint32_t halves_of(int32_t low, int32_t high)
{
#if __CUDA_ARCH__ >= 800
    return pack_f16((float)low, (float)high);
#else
    return whole_number<S>(low) | (uint32_t)whole_number<S>(high) << 16;
#endif
}

#ifdef CODED
/* Stores residues modulo one modulus as digits in E4M3, each of which is a limb. */
template <int S>
DEVICE void put_digits(const pack_args &a, int modulus, const int32_t r[EACH], struct target to)
{
    const uint32_t *codes = (S ? CODES_1 : CODES_0) + CODES_BEGIN[modulus];
    uint32_t code[EACH];

    UNROLL for (int x = 0; x < EACH; x++)
        code[x] = codes[r[x]];
    ROLL for (int l = FIRST_LIMB[modulus]; l < FIRST_LIMB[modulus + 1]; l++) {
        uint8_t out[EACH];

        UNROLL for (int x = 0; x < EACH; x++) {
            out[x] = (uint8_t)code[x];
            code[x] >>= 8;
        }
        put_limb<S>(a, to, l, out);
    }
}
#endif

/* bit pattern of 2^23 in FP32; adding an integer t < 2^23 to it gives the bit pattern of 2^23 +
 * t */
enum { WHOLE_FLOAT = 0x4b000000 };

/* Returns t mod p as a byte: nearest to zero if signed, else in [0, p).  WHOLE_FLOAT has been added
 * to t, so that its bits are those of a float.  t is a sum of at most 24 bytes times residues,
 * below 24 255^2 + 255 < 2^21.  p is odd or 256; modulo 256, p and 0, and p/2 and -p/2, give the
 * same byte. */
template <int S> DEVICE uint8_t byte_of(uint32_t t, uint32_t p, float inverse)
{
    float shift = (float)(0x800000 + (SIDES[S].is_signed ? 0 : p / 2));
    float q = fma32(add32(bits_float(t), -shift), inverse, 0x1.8p23f);

    /* only the lowest byte is used, which the exponents' bits in t and q do not affect */
    return (uint8_t)(t - float_bits(q) * p);
}

/* Stores the residues of eight scaled integers, modulo each modulus.  A residue is one limb or, in
 * E4M3, several. */
template <int S, class raw>
DEVICE void put_residues(const pack_args &a, const raw e[EACH], int scale, struct target to)
{
    uint32_t v[EACH][DIGITS[S]];

    UNROLL for (int x = 0; x < EACH; x++) {
        integer_of<S>(v[x], e[x], scale);
        /* adds 2^(bits - 1), which makes the integer nonnegative; START subtracts this offset
         * again */
        v[x][DIGITS[S] - 1] ^= 0x80000000;
    }
    UNROLL_SOME for (int l = 0; l < ACCUMULATORS; l++) {
        constexpr bool symmetric = UNIT != UNIT_e4m3 && SIDES[S].is_signed;
        uint32_t p = MODULUS[l];
        int32_t r[EACH];

        UNROLL for (int x = 0; x < EACH; x++) {
            int32_t sum = START[S][l] + (UNIT == UNIT_i8 ? WHOLE_FLOAT : 0);

            UNROLL for (int d = 0; d < DIGITS[S]; d++)
                sum = dot4<0, 0>(v[x][d], POWER[S][l][d], sum);
            r[x] = UNIT == UNIT_i8 ? byte_of<S>((uint32_t)sum, p, RECIPROCAL[l]) :
                   limber_mod24((uint32_t)sum, symmetric ? p / 2 : 0, p, INVERSE[l]);
        }
#ifdef CODED
        put_digits<S>(a, l, r, to);
#else
        if constexpr (UNIT == UNIT_f16) {
            uint32_t out[EACH / 2];

            UNROLL for (int x = 0; x < EACH; x += 2)
                out[x / 2] = halves_of<S>(r[x], r[x + 1]);
            put_limb<S>(a, to, l, out);
        } else {
            uint8_t out[EACH];

            UNROLL for (int x = 0; x < EACH; x++)
                out[x] = (uint8_t)r[x];
            put_limb<S>(a, to, l, out);
        }
#endif
    }
}

/* Returns word `word` of the integer that has the digit 2^(step - 1) in each slice but the top one;
 * 0 if slices are not balanced.  Adding it to an integer makes its lower slices signed digits. */
template <int S> DEVICE constexpr uint64_t halves(int word)
{
    constexpr struct side s = SIDES[S];
    uint64_t x = 0;

    for (int at = s.step - 1; s.balanced && at < (s.limbs - 1) * s.step; at += s.step)
        x |= (uint64_t)(at / 64 == word) << at % 64;
    return x;
}

/* Stores the slices of eight scaled integers.  Each slice is a limb. */
template <int S, class raw>
DEVICE void put_slices(const pack_args &a, const raw e[EACH], int scale, struct target to)
{
    constexpr struct side s = SIDES[S];
    typedef typename raw_of<s.limb.size>::type piece;
    uint64_t w[EACH][LIMBER_WIDE];

    constexpr uint64_t half[LIMBER_WIDE] = { halves<S>(0), halves<S>(1), halves<S>(2) };

    UNROLL for (int x = 0; x < EACH; x++) {
        uint32_t v[DIGITS[S]];
        uint64_t carry = 0;

        integer_of<S>(v, e[x], scale);
        UNROLL for (int i = 0; i < LIMBER_WIDE; i++) {
            uint32_t sign = (uint32_t)((int32_t)v[DIGITS[S] - 1] >> 31);
            uint32_t low = 2 * i < DIGITS[S] ? v[2 * i < DIGITS[S] ? 2 * i : 0] : sign;
            uint32_t high = 2 * i + 1 < DIGITS[S] ? v[2 * i + 1 < DIGITS[S] ? 2 * i + 1 : 0] : sign;

            w[x][i] = low | (uint64_t)high << 32;
            if constexpr (s.balanced) {
                uint64_t sum = w[x][i] + half[i];

                w[x][i] = sum + carry;
                carry = sum < half[i] || w[x][i] < sum;
            }
        }
    }
    UNROLL for (int l = 0; l < s.limbs; l++) {
        piece out[EACH];

        UNROLL for (int x = 0; x < EACH; x++) {
            int32_t v = s.balanced ?
                        limber_balanced_slice(w[x], l, s.limbs, s.step) :
                        limber_slice(w[x], l, s.limbs, s.step, s.is_signed);

            if constexpr (s.limb.kind == LIMBER_KIND_FLOAT)
                out[x] = whole_number<S>(v);
            else
                out[x] = (piece)v;
        }
        put_limb<S>(a, to, l, out);
    }
}

/* True if elements are FP32, BF16 or FP16 and can be split by conversion instructions. */
template <int S> DEVICE constexpr bool is_cut_in_hardware()
{
    constexpr limber_format f = SIDES[S].f;

    return is_ieee(f) && (UNIT == UNIT_f16 || UNIT == UNIT_bf16 || UNIT == UNIT_tf32) &&
           ((is_binary(f) && f.size == 4) ||
            (f.size == 2 && f.exp_bits == 8 && f.frac_bits == 7 && f.bias == 127) ||
            (f.size == 2 && f.exp_bits == 5 && f.frac_bits == 10 && f.bias == 15));
}

#if __CUDA_ARCH__ >= 800
/* Returns the number with this bit pattern in FP32, BF16 or FP16, as FP32. */
template <int S> DEVICE float float_of(uint32_t code)
{
    float low = bits_float(code << (32 - 8 * SIDES[S].f.size)), high;

    if (SIDES[S].f.exp_bits == 5)
        unpack_f16(code, low, high);
    return low;
}

/* Stores Hi/Lo limbs of eight elements in FP32, BF16 or FP16, rounded by conversion
 * instructions. */
template <int S, class raw>
DEVICE void put_converted(const pack_args &a, const raw e[EACH], int scale, struct target to)
{
    constexpr struct side s = SIDES[S];
    const struct factors f = factors_by(scale);
    float x[EACH];

    UNROLL for (int i = 0; i < EACH; i++)
        x[i] = scaled<S>(float_of<S>((uint32_t)e[i]), f);
    UNROLL for (int l = 0; l < s.limbs; l++) {
        uint32_t out[EACH * s.limb.size / 4];

        UNROLL for (int w = 0; w < EACH * s.limb.size / 4; w++)
            out[w] = take_word<S>(x + w * (4 / s.limb.size));
        put_limb<S>(a, to, l, out);
    }
}
#endif

/* Stores Hi/Lo limbs of eight elements of any format, rounded by portable code. */
template <int S, class raw>
DEVICE void put_hilo(const pack_args &a, const raw e[EACH], int scale, struct target to)
{
    constexpr struct side s = SIDES[S];
    typename raw_of<s.limb.size>::type out[s.limbs][EACH];

    UNROLL for (int x = 0; x < EACH; x++) {
        double rest = double_of(s.f, &e[x]);

        rest = rest - rest == 0 ? mul64(rest, power_of_two(scale)) : 0;
        UNROLL for (int l = 0; l < s.limbs; l++) {
            limber_num n;

            limber_num_from_f64(&n, rest);
            limber_num_encode(&out[l][x], s.limb, &n, 0, LIMBER_ROUND_NEAREST);
            rest = mul64(add64(rest, -double_of(s.limb, &out[l][x])), power_of_two(s.shift));
        }
    }
    UNROLL for (int l = 0; l < s.limbs; l++)
        put_limb<S>(a, to, l, out[l]);
}

/* True if both formats are equal in every field. */
DEVICE constexpr bool is_same_format(limber_format x, limber_format y)
{
    return x.kind == y.kind && x.exp_bits == y.exp_bits && x.frac_bits == y.frac_bits &&
           x.flags == y.flags && x.bias == y.bias && x.size == y.size && x.carried == y.carried;
}

/* Stores eight elements as the only limb (OP_whole), converted to its format.  rest: number of
 * elements up to the end of k.  Beyond that end A has -0: products of -0 and 0 leave any sum of
 * fused multiply-adds unchanged, even -0. */
template <int S, class raw>
DEVICE void put_whole(const pack_args &a, const raw e[EACH], int64_t rest, struct target to)
{
    constexpr limber_format limb = SIDES[S].limb;
    typedef typename raw_of<limb.size>::type piece;
    piece out[EACH];

    UNROLL for (int x = 0; x < EACH; x++) {
        if constexpr (is_same_format(SIDES[S].f, limb)) {
            out[x] = e[x];
        } else if constexpr (limb.size < 4) {
            limber_num n;

            limber_num_decode(&n, SIDES[S].f, &e[x]);
            limber_num_encode(&out[x], limb, &n, 0, LIMBER_ROUND_NEAREST);
        } else {
            double v = double_of(SIDES[S].f, &e[x]);
            float narrow = (float)v;

            memcpy(&out[x], limb.size == 8 ? (void *)&v : (void *)&narrow, limb.size);
        }
        if (S == 0 && (UNIT == UNIT_f32 || UNIT == UNIT_f64) && x >= rest)
            out[x] = (piece)1 << (8 * limb.size - 1);
    }
    put_limb<S>(a, to, 0, out);
}

/* ---- the kernels that write limbs ------------------------------------------------------------ */

/* Splits eight elements, from p0 on along k, into limbs and stores the limbs. */
template <int S, class raw>
DEVICE void put_elements(const pack_args &a, const raw e[EACH], int scale, int64_t p0,
                         struct target to)
{
    if constexpr (SIDES[S].limb_kind == LIMB_KIND_residues)
        put_residues<S>(a, e, scale, to);
    else if constexpr (SIDES[S].limb_kind == LIMB_KIND_slices)
        put_slices<S>(a, e, scale, to);
#if __CUDA_ARCH__ >= 800
    else if constexpr (SIDES[S].limb_kind == LIMB_KIND_hilo && is_cut_in_hardware<S>())
        put_converted<S>(a, e, scale, to);
#endif
    else if constexpr (SIDES[S].limb_kind == LIMB_KIND_hilo)
        put_hilo<S>(a, e, scale, to);
    else
        put_whole<S>(a, e, a.length - p0, to);
}

/* Packs the elements that belong to thread block `index` of an operand: LINES rows or columns, and
 * every blocks_p-th run of ELEMENTS along k. */
template <int S> DEVICE void pack(const pack_args &a, int index)
{
    constexpr int size = SIDES[S].f.size, limb = SIDES[S].limb.size;
    typedef typename raw_of<size>::type raw;
    /* unsigned, since unsigned division takes fewer instructions */
    uint32_t which = (uint32_t)index / (uint32_t)a.blocks;
    uint32_t own = (uint32_t)index % (uint32_t)a.blocks;
    int64_t line0 = (int64_t)(own / (uint32_t)a.blocks_p) * LINES;
    int line = thread() / (ELEMENTS / EACH), p = thread() % (ELEMENTS / EACH) * EACH, scale;
    struct view v = limber_operand_at(&a.operand, which);
    const int32_t *emax = a.emax;
    char *limbs = a.limbs + (which * a.padded + line0 + line) * a.pitch;

    if (is_left(a.choice, a.mine))
        return;
    v.tile_subset = a.tile_subset.block ? &a.tile_subset : NULL;
    if (SIDES[S].scaled == SCALED_all && emax)
        emax += limber_matrix_of(&a.operand, which);
    scale = SIDES[S].scaled && line0 + line < a.lines ?
            scale_of<S>(emax, which * a.lines + line0 + line) : 0;
    ROLL for (int64_t p0 = (int64_t)(own % (uint32_t)a.blocks_p) * ELEMENTS; p0 * limb < a.pitch;
              p0 += (int64_t)a.blocks_p * ELEMENTS) {
        struct target to = { limbs + (p0 + p) * limb, a.pitch - (p0 + p) * limb };
        raw e[EACH];

        read_block<S>(v, a.line0 + line0, a.lines - line0, p0, a.length);
        UNROLL for (int x = 0; x < EACH; x++)
            e[x] = load_shared<raw>((uint32_t)((line * PADDED + p + x) * size));
        sync_block();       /* before the next elements overwrite these in shared memory */
        if (line0 + line < a.padded && to.left > 0)
            put_elements<S>(a, e, scale, p0 + p, to);
    }
}

#endif
