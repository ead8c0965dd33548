/* SPDX-License-Identifier: BSD-3-Clause
 * Totals become elements: the integer by Chinese remainders or weights, scales, alpha and beta, one
 * rounding.  A block takes SIDE x SIDE elements, each thread four of a row; where C lies along its
 * columns the block is transposed in shared memory. */
#ifndef LIMBER_CUDA_RECONSTRUCT_H
#define LIMBER_CUDA_RECONSTRUCT_H

enum {
    SIDE = 32, FOUR = 4, RECONSTRUCT_THREADS = SIDE * SIDE / FOUR,
    LONG_SCALARS = (ALPHA || BETA) && RECONSTRUCT != RECONSTRUCT_sum
};

/* ---- exact integers -------------------------------------------------------------------------- */

/* The columns of four elements from their remainders; see ir/num/crt.h. */
DEVICE void columns_crt(const result_args &r, int64_t i, int64_t j,
                        int64_t (&column)[FOUR][COLUMNS])
{
    const char *at = r.totals + i * r.total_pitch + j;
    uint64_t share[FOUR] = {};

    UNROLL for (int x = 0; x < FOUR; x++)
        UNROLL for (int d = 0; d < COLUMNS; d++)
            column[x][d] = 0;
    ROLL for (int l = 0; l < ACCUMULATORS; l++, at += r.total_size) {
        uint32_t four = load<uint32_t>(at);

        UNROLL for (int x = 0; x < FOUR; x++) {
            uint32_t c = four >> 8 * x & 255;

            share[x] += c * SHARE[l];
            UNROLL for (int d = 0; d < COLUMNS; d++)
                column[x][d] += (int64_t)((uint64_t)c * COFACTOR[l][d]);
        }
    }
    UNROLL for (int x = 0; x < FOUR; x++) {
        uint64_t q = (share[x] + ((uint64_t)1 << (SHARE_BITS - 1))) >> SHARE_BITS;

        UNROLL for (int d = 0; d < COLUMNS; d++)
            column[x][d] -= (int64_t)(q * PRODUCT[d]);
    }
}

DEVICE int64_t total_at(const result_args &r, int acc, int64_t i, int64_t j)
{
    const char *at = r.totals + acc * r.total_size + i * r.total_pitch;

    return r.wide ? load<int64_t>((const int64_t *)at + j) : load<int32_t>((const int32_t *)at + j);
}

template <int acc>
DEVICE void columns_shift(const result_args &r, int64_t i, int64_t j, int64_t (&column)[COLUMNS])
{
    if constexpr (acc < ACCUMULATORS) {
        limber_columns_add(column, 1, total_at(r, acc, i, j), WEIGHT[acc]);
        columns_shift<acc + 1>(r, i, j, column);
    }
}

/* ---- one element ----------------------------------------------------------------------------- */

typedef typename raw_of<RESULT.size>::type result_raw;

/* Results that most integers become by a short way. */
constexpr bool IS_BINARY =
    RESULT.kind == LIMBER_KIND_FLOAT && !RESULT.flags && !RESULT.carried && !ALPHA && !BETA &&
    ((RESULT.size == 8 && RESULT.exp_bits == 11 && RESULT.frac_bits == 52 && RESULT.bias == 1023) ||
     (RESULT.size == 4 && RESULT.exp_bits == 8 && RESULT.frac_bits == 23 && RESULT.bias == 127));

/* w 2^exp, rounded to nearest-even, where that is a normal number and not of the largest binade;
 * else false, as of 0. */
DEVICE bool store_normal(const uint64_t (&w)[WORDS], int exp, result_raw &e)
{
    constexpr int fraction = RESULT.size == 8 ? 52 : 23, bias = RESULT.size == 8 ? 1023 : 127;
    constexpr int cut = 63 - fraction;
    uint64_t flip = (uint64_t)((int64_t)w[WORDS - 1] >> 63), carry = flip & 1;
    uint64_t m[WORDS], high = 0, next = 0, rest = 0, kept, half = (uint64_t)1 << (cut - 1);
    int top = 0, n;

    UNROLL for (int i = 0; i < WORDS; i++) {        /* the magnitude */
        m[i] = (w[i] ^ flip) + carry;
        carry = carry && m[i] == 0;
    }
    UNROLL for (int i = WORDS - 1; i >= 0; i--) {
        bool first = high == 0;

        rest |= first || i == top - 1 ? 0 : m[i];
        next = !first && i == top - 1 ? m[i] : next;
        top = first ? i : top;
        high = first ? m[i] : high;
    }
    n = leading_zeros(high);
    exp += 64 * top + 63 - n;                       /* of the first bit */
    if (high == 0 || exp < 1 - bias || exp >= bias)
        return false;
    high = n ? high << n | next >> (64 - n) : high;
    rest |= n ? next << n : next;
    kept = high >> cut;
    high &= 2 * half - 1;
    kept += high > half || (high == half && (rest != 0 || (kept & 1)));
    kept += (uint64_t)(exp + bias - 1) << fraction; /* the first bit adds 1 to the exponent */
    kept |= (flip & 1) << (RESULT.size == 8 ? 63 : 31);
    memcpy(&e, &kept, RESULT.size == 8 ? 8 : sizeof e < 4 ? sizeof e : 4);
    return true;
}

/* Answers 1 when it does not fit an integer format. */
DEVICE int reconstruct_words(const result_args &r, int64_t i, int64_t j, uint64_t (&w)[WORDS],
                        result_raw &e)
{
    limber_scalars scalars = scalars_of(r);
    int exp = SCALED ? -scale_of<0>(r.emax_a, i) - scale_of<1>(r.emax_b, j) :
              0;

    if constexpr (IS_INTEGER_RESULT && WRAP)
        return limber_store_wrapped(&e, RESULT, limber_big_units(w, WORDS, exp), &scalars);
    else
        return (limber_store_exact(&e, RESULT, w, WORDS, exp, &scalars) & MISFITS) != 0 &&
               IS_INTEGER_RESULT;
}

DEVICE int reconstruct_one(const result_args &r, int64_t i, int64_t j,
                      const int64_t (&column)[COLUMNS], result_raw &e)
{
    uint64_t w[WORDS];

    limber_columns_words(column, 1, COLUMNS, w, WORDS);
    return reconstruct_words(r, i, j, w, e);
}

/* Elements (i, j) .. (i, j + 3), of which few go the long way, whose code stands here once. */
DEVICE void reconstruct_binary(const result_args &r, int64_t i, int64_t j,
                               const int64_t (&column)[FOUR][COLUMNS], result_raw (&e)[FOUR])
{
    int scale = SCALED ? -scale_of<0>(r.emax_a, i) : 0, left = 0;

    UNROLL for (int x = 0; x < FOUR; x++) {
        uint64_t w[WORDS];

        if (j + x >= r.n)
            continue;
        limber_columns_words(column[x], 1, COLUMNS, w, WORDS);
        if (!store_normal(w, scale - (SCALED ? scale_of<1>(r.emax_b, j + x) : 0), e[x]))
            left |= 1 << x;
    }
    ROLL for (int x = 0; left >> x; x++) {
        int64_t own[COLUMNS];
        result_raw one = {};

        if (!(left >> x & 1))
            continue;
        UNROLL for (int d = 0; d < COLUMNS; d++)
            own[d] = x < 2 ? (x ? column[1][d] : column[0][d]) :
                             (x > 2 ? column[3][d] : column[2][d]);
        reconstruct_one(r, i, j + x, own, one);
        UNROLL for (int y = 0; y < FOUR; y++)
            e[y] = x == y ? one : e[y];
    }
}

DEVICE void reconstruct_float(const result_args &r, int64_t i, int64_t j, result_raw &e)
{
    double x = load<double>((const double *)(r.totals + i * r.total_pitch) + j);

    if (SCALED)
        x = mul64(x, power_of_two(-scale_of<0>(r.emax_a, i) - scale_of<1>(r.emax_b, j)));
    limber_store_float(&e, RESULT, x, ALPHA, ALPHA ? double_of(SCALARS, r.alpha) : 1, BETA,
                       BETA ? double_of(SCALARS, r.beta) : 0);
}

DEVICE const char *old_at(const result_args &r, int64_t i, int64_t j)
{
    return limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size);
}

/* Calls with(x) for those of (i, j) .. (i, j + 3) that are finished here, and adds up.  An element
 * with scalars is long code, which stands here once. */
template <class F>
DEVICE int each_of_four(const result_args &r, int64_t i, int64_t j, F with)
{
    int sum = 0;

    if constexpr (LONG_SCALARS) {
        ROLL for (int x = 0; x < FOUR; x++)
            if (j + x < r.n && !is_special(r, i, j + x))
                sum += with(x);
    } else {
        UNROLL for (int x = 0; x < FOUR; x++)
            if (j + x < r.n && !is_special(r, i, j + x))
                sum += with(x);
    }
    return sum;
}

/* Elements (i, j) .. (i, j + 3) to e; answers how many do not fit. */
DEVICE int reconstruct_four(const result_args &r, int64_t i, int64_t j, result_raw (&e)[FOUR])
{
    int lost = 0;

    if (BETA)
        UNROLL for (int x = 0; x < FOUR; x++)
            if (j + x < r.n)
                e[x] = load_raw<RESULT.size>(old_at(r, i, j + x));
    if constexpr (RECONSTRUCT == RECONSTRUCT_crt) {
        int64_t column[FOUR][COLUMNS];

        columns_crt(r, i, j, column);
        if constexpr (IS_BINARY) {
            reconstruct_binary(r, i, j, column, e);
            return 0;
        }
        lost = each_of_four(r, i, j, [&](int x) {
            return reconstruct_one(r, i, j + x, column[x], e[x]);
        });
    } else if constexpr (RECONSTRUCT == RECONSTRUCT_shift) {
        lost = each_of_four(r, i, j, [&](int x) {
            int64_t column[COLUMNS] = {};

            columns_shift<0>(r, i, j + x, column);
            return reconstruct_one(r, i, j + x, column, e[x]);
        });
    } else {
        lost = each_of_four(r, i, j, [&](int x) {
            reconstruct_float(r, i, j + x, e[x]);
            return 0;
        });
    }
    return lost;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

DEVICE void put_element(const result_args &r, int64_t i, int64_t j, const result_raw &e)
{
    if (i < r.m && j < r.n && !is_special(r, i, j) && !r.dry)
        store_raw<RESULT.size>(limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size), &e);
}

/* Threads stay in their rows, or take the columns of the transposed block. */
DEVICE void put_four(const result_args &r, int64_t i0, int64_t j0, const result_raw (&e)[FOUR])
{
    int row = thread() / (SIDE / FOUR), column = thread() % (SIDE / FOUR) * FOUR;

    if (r.c.row != 1) {
        UNROLL for (int x = 0; x < FOUR; x++)
            put_element(r, i0 + row, j0 + column + x, e[x]);
        return;
    }
    UNROLL for (int x = 0; x < FOUR; x++)
        store_shared<result_raw>((uint32_t)(((column + x) * (SIDE + 1) + row) * RESULT.size), e[x]);
    sync_block();
    UNROLL for (int x = 0; x < FOUR; x++) {
        int y = thread() + x * RECONSTRUCT_THREADS;

        put_element(r, i0 + y % SIDE, j0 + y / SIDE, load_shared<result_raw>(
                    (uint32_t)((y / SIDE * (SIDE + 1) + y % SIDE) * RESULT.size)));
    }
}

KERNEL(limber_reconstruct, struct result_args, RECONSTRUCT_THREADS, 1)
{
    await_launch();

    int across = (int)((args.n + SIDE - 1) / SIDE), down = (int)((args.m + SIDE - 1) / SIDE);
    int product = block() / (across * down), own = block() - product * across * down;
    int64_t i0 = (int64_t)(own / across) * SIDE, j0 = (int64_t)(own % across) * SIDE;
    int64_t i = i0 + thread() / (SIDE / FOUR), j = j0 + thread() % (SIDE / FOUR) * FOUR;
    const result_args r = result_of(args, product);
    result_raw e[FOUR] = {};
    int lost = 0;

    if (is_left(r.choice, r.mine))
        return;
    if (i < r.m && j < r.n)
        lost = reconstruct_four(r, i, j, e);
    if (IS_INTEGER_RESULT && lost)
        atomic_add(r.overflow, (uint64_t)lost);
    put_four(r, i0, j0, e);
}

#endif
