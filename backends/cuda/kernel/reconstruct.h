/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel that converts totals to elements of C: an exact integer by the Chinese remainder
 * theorem (CRT) or by weights, then scales, alpha and beta, and one rounding.  A thread block
 * computes SIDE x SIDE elements, and each thread four elements of a row.  If C is column-major, the
 * block is transposed in shared memory. */
#ifndef LIMBER_CUDA_RECONSTRUCT_H
#define LIMBER_CUDA_RECONSTRUCT_H

enum {
    SIDE = 32, FOUR = 4, RECONSTRUCT_THREADS = SIDE * SIDE / FOUR,
    LONG_SCALARS = (ALPHA || BETA) && RECONSTRUCT != RECONSTRUCT_sum
};

/* ---- exact integers from limbs' totals ------------------------------------------------------- */

/* Computes the integers of `elements` (1 or 4) neighbouring elements from their residues by CRT
 * (ir/num/crt.h).  Each integer is stored in columns: column d has weight 2^(32 d). */
template <int elements>
DEVICE void columns_crt(const result_args &r, int64_t i, int64_t j,
                        int64_t (&column)[elements][COLUMNS])
{
    const char *at = r.totals + i * r.total_pitch + j;
    uint64_t share[elements] = {};

    UNROLL for (int x = 0; x < elements; x++)
        UNROLL for (int d = 0; d < COLUMNS; d++)
            column[x][d] = 0;
    UNROLL_SOME for (int l = 0; l < ACCUMULATORS; l++, at += r.total_size) {
        uint32_t all = elements == FOUR ? load<uint32_t>(at) : load<uint8_t>(at);

        UNROLL for (int x = 0; x < elements; x++) {
            uint32_t c = all >> 8 * x & 255;

            share[x] += c * SHARE[l];
            UNROLL for (int d = 0; d < COLUMNS; d++)
                column[x][d] += (int64_t)((uint64_t)c * COFACTOR[l][d]);
        }
    }
    UNROLL for (int x = 0; x < elements; x++) {
        uint64_t q = (share[x] + ((uint64_t)1 << (SHARE_BITS - 1))) >> SHARE_BITS;

        UNROLL for (int d = 0; d < COLUMNS; d++)
            column[x][d] -= (int64_t)(q * PRODUCT[d]);
    }
}

/* Returns the total of accumulator `acc` for element (i, j). */
DEVICE int64_t total_at(const result_args &r, int acc, int64_t i, int64_t j)
{
    const char *at = r.totals + acc * r.total_size + i * r.total_pitch;

    return r.wide ? load<int64_t>((const int64_t *)at + j) : load<int32_t>((const int32_t *)at + j);
}

/* Adds the totals of accumulator `acc` and all later ones, each shifted by its weight, to the
 * columns. */
template <int acc>
DEVICE void columns_shift(const result_args &r, int64_t i, int64_t j, int64_t (&column)[COLUMNS])
{
    if constexpr (acc < ACCUMULATORS) {
        limber_columns_add(column, 1, total_at(r, acc, i, j), WEIGHT[acc]);
        columns_shift<acc + 1>(r, i, j, column);
    }
}

/* ---- one element of the result --------------------------------------------------------------- */

typedef typename raw_of<RESULT.size>::type result_raw;

/* True if store_short can round most integers to the result's format. */
constexpr bool IS_BINARY = is_binary(RESULT) && !ALPHA && !BETA;

#if DOUBLES
typedef double short_columns[DOUBLES];

/* Computes the CRT columns of elements (i, j) to (i, j + 3) as doubles.  All sums are exact, since
 * the constants of doubles.c keep them below 2^53. */
DEVICE void columns_of_four(const result_args &r, int64_t i, int64_t j,
                            short_columns (&column)[FOUR])
{
    const char *at = r.totals + i * r.total_pitch + j;

    UNROLL for (int x = 0; x < FOUR; x++)
        UNROLL for (int d = 0; d < DOUBLES; d++)
            column[x][d] = BEGIN_DOUBLES[d];
    UNROLL for (int l = 0; l < ACCUMULATORS; l++, at += r.total_size) {
        uint32_t four = load<uint32_t>(at);

        /* the double 1 + c 2^-12, made from the bits of the residue c */
        UNROLL for (int x = 0; x < FOUR; x++) {
            uint32_t upper = permute(0x3ff00000, four, 0x3240u + 16 * x);
            double c = bits_double((uint64_t)upper << 32);

            UNROLL for (int d = 0; d < DOUBLES; d++)
                column[x][d] = fma64(c, COFACTOR_DOUBLES[l][d], column[x][d]);
        }
    }
    UNROLL for (int x = 0; x < FOUR; x++) {
        double q = fma64(column[x][DOUBLES - 1], INVERSE_DOUBLES[0], 0x1.8p52);

        q = add64(q, -0x1.8p52);
        UNROLL for (int d = 0; d < DOUBLES; d++)
            column[x][d] = fma64(q, -PRODUCT_DOUBLES[d], column[x][d]);
    }
}

/* Returns a + b rounded to odd, for finite numbers with |a| >= |b|.  Rounding the result to a
 * format with at least two bits fewer gives the same number as rounding the exact sum to that
 * format. */
DEVICE double add_odd(double a, double b)
{
    double sum = add64_rz(a, b);
    uint64_t cut = add64(sum, -a) != b;

    return bits_double(double_bits(sum) | cut);
}

/* Returns the sum of the columns.  It is rounded to nearest even if the result is FP64, but to odd
 * if the result is FP32, since it is then rounded again. */
DEVICE double sum_of(const short_columns &column)
{
    double high = column[DOUBLES - 1], low = column[0], rest[DOUBLES];

    /* from now on high + rest[d] equals the old high + column[d] exactly */
    UNROLL for (int d = DOUBLES - 2; d > 0; d--) {
        double sum = add64(high, column[d]);

        rest[d] = add64(column[d], -add64(sum, -high));
        high = sum;
    }
    UNROLL for (int d = 1; d < DOUBLES - 1; d++)
        low = add_odd(rest[d], low);
    return DOUBLES == 1 ? high : RESULT.size == 8 ? add64(high, low) : add_odd(high, low);
}

/* Rounds the integer times 2^exp.  Returns false if it is neither zero nor a normal FP64 number.
 * FP32 results are always correct, since the double was rounded to odd. */
DEVICE bool store_short(const short_columns &column, int exp, result_raw &e)
{
    uint64_t bits = double_bits(sum_of(column));
    bool zero = bits >> 32 == 0;
    int field;

    exp = zero ? 0 : exp;
    field = (int)(bits >> 52 & 2047) + exp;
    bits += (uint64_t)(uint32_t)exp << 52;
    if (RESULT.size == 4)
        bits = float_bits((float)bits_double(bits));
    memcpy(&e, &bits, sizeof e < 8 ? sizeof e : 8);
    return zero || (field > 0 && field < 2047);
}
#else
typedef int64_t short_columns[COLUMNS];

/* Computes the CRT columns of elements (i, j) to (i, j + 3) as integers. */
DEVICE void columns_of_four(const result_args &r, int64_t i, int64_t j,
                            short_columns (&column)[FOUR])
{
    columns_crt(r, i, j, column);
}

/* Rounds the integer times 2^exp to nearest even.  Returns false if it is neither zero nor a normal
 * number below the largest binade. */
DEVICE bool store_short(const short_columns &column, int exp, result_raw &e)
{
    constexpr int fraction = RESULT.size == 8 ? 52 : 23, bias = RESULT.size == 8 ? 1023 : 127;
    constexpr int cut = 63 - fraction;
    uint64_t w[WORDS];

    limber_columns_words(column, 1, COLUMNS, w, WORDS);

    uint64_t flip = (uint64_t)((int64_t)w[WORDS - 1] >> 63), carry = flip & 1;
    uint64_t m[WORDS], high = 0, next = 0, rest = 0, kept, half = (uint64_t)1 << (cut - 1);
    int top = 0, n;

    UNROLL for (int i = 0; i < WORDS; i++) {        /* make the magnitude */
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
    exp += 64 * top + 63 - n;                       /* exponent of the first bit */
    e = result_raw();
    if (high == 0 || exp < 1 - bias || exp >= bias)
        return high == 0;
    high = n ? high << n | next >> (64 - n) : high;
    rest |= n ? next << n : next;
    kept = high >> cut;
    high &= 2 * half - 1;
    kept += high > half || (high == half && (rest != 0 || (kept & 1)));
    /* the integer's first bit adds 1 to the exponent */
    kept += (uint64_t)(exp + bias - 1) << fraction;
    kept |= (flip & 1) << (RESULT.size == 8 ? 63 : 31);
    memcpy(&e, &kept, RESULT.size == 8 ? 8 : sizeof e < 4 ? sizeof e : 4);
    return true;
}
#endif

/* Rounds an element from its integer w.  Returns 1 if the result does not fit an integer format. */
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

/* Rounds one element from its columns.  Returns 1 if the result does not fit an integer format. */
DEVICE int reconstruct_one(const result_args &r, int64_t i, int64_t j,
                      const int64_t (&column)[COLUMNS], result_raw &e)
{
    uint64_t w[WORDS];

    limber_columns_words(column, 1, COLUMNS, w, WORDS);
    return reconstruct_words(r, i, j, w, e);
}

/* Computes elements (i, j) to (i, j + 3), which are FP64 or FP32.  Elements that store_short cannot
 * round take a slow path, whose code exists only once. */
DEVICE void reconstruct_binary(const result_args &r, int64_t i, int64_t j, result_raw (&e)[FOUR])
{
    int count = (int)(r.n - j < FOUR ? r.n - j : FOUR), exp[FOUR], left = 0;
    int scale = SCALED ? -scale_of<0>(r.emax_a, i) : 0;
    short_columns column[FOUR];

    UNROLL for (int x = 0; x < FOUR; x++)
        exp[x] = scale - (SCALED ? scale_of<1>(r.emax_b, x < count ? j + x : j) : 0);
    columns_of_four(r, i, j, column);
    UNROLL for (int x = 0; x < FOUR; x++)
        if (!store_short(column[x], exp[x], e[x]) && x < count)
            left |= 1 << x;
    ROLL for (int x = 0; left >> x; x++) {
        int64_t own[1][COLUMNS];
        result_raw one = {};

        if (!(left >> x & 1))
            continue;
        columns_crt(r, i, j + x, own);
        reconstruct_one(r, i, j + x, own[0], one);
        UNROLL for (int y = 0; y < FOUR; y++)
            e[y] = x == y ? one : e[y];
    }
}

/* Scales and rounds a sum that is stored in FP64, and applies alpha and beta.  e: set to the
 * result's bit pattern. */
DEVICE void reconstruct_float(const result_args &r, int64_t i, int64_t j, result_raw &e)
{
    double x = load<double>((const double *)(r.totals + i * r.total_pitch) + j);

    if (SCALED)
        x = mul64(x, power_of_two(-scale_of<0>(r.emax_a, i) - scale_of<1>(r.emax_b, j)));
    limber_store_float(&e, RESULT, x, ALPHA, ALPHA ? double_of(SCALARS, r.alpha) : 1, BETA,
                       BETA ? double_of(SCALARS, r.beta) : 0);
}

/* Returns the address of an element of C, to read its old value. */
DEVICE const char *old_at(const result_args &r, int64_t i, int64_t j)
{
    return limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size);
}

/* Calls with(x), a function, for those x from 0 to 3 for which element (i, j + x) exists and has no
 * NaN or infinities in its row of A and column of B.  Returns the sum of the results.  With alpha
 * or beta the code of `with` is long, so the loop is not unrolled. */
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

/* Computes elements (i, j) to (i, j + 3) into e.  Returns how many of them do not fit the result's
 * format. */
DEVICE int reconstruct_four(const result_args &r, int64_t i, int64_t j, result_raw (&e)[FOUR])
{
    int lost = 0;

    if (BETA)
        UNROLL for (int x = 0; x < FOUR; x++)
            if (j + x < r.n)
                e[x] = load_raw<RESULT.size>(old_at(r, i, j + x));
    if constexpr (RECONSTRUCT == RECONSTRUCT_crt && IS_BINARY) {
        reconstruct_binary(r, i, j, e);
    } else if constexpr (RECONSTRUCT == RECONSTRUCT_crt) {
        int64_t column[FOUR][COLUMNS];

        columns_crt(r, i, j, column);
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

/* ---- the kernels that store results ---------------------------------------------------------- */

/* Stores an element.  Does not store it if its row of A or column of B has NaN or infinities (then
 * another kernel stores it), or if the launch only counts results that do not fit (dry). */
DEVICE void put_element(const result_args &r, int64_t i, int64_t j, const result_raw &e)
{
    if (i < r.m && j < r.n && !is_special(r, i, j) && !r.dry)
        store_raw<RESULT.size>(limber_output_at(&r.c, r.i0 + i, r.j0 + j, RESULT.size), &e);
}

/* Stores four elements by 16-byte stores.  Returns false if they are not contiguous and aligned, or
 * if some must not be stored. */
DEVICE bool store_four(const result_args &r, int64_t i, int64_t j, const result_raw (&e)[FOUR])
{
    constexpr int pieces = FOUR * RESULT.size / 16;
    bytes16 piece[pieces ? pieces : 1];
    char *to;

    if (!pieces || r.c.rows || r.c.cols || r.c.wide || r.c.col != 1 || r.special_a ||
        r.special_b || r.dry || i >= r.m || j + FOUR > r.n || r.j0 + j + FOUR > r.c.inner)
        return false;
    to = (char *)r.c.data + (r.c.origin + (r.i0 + i) * r.c.row + r.j0 + j) * RESULT.size;
    if ((uint64_t)to % 16)
        return false;
    memcpy(piece, e, sizeof piece < sizeof e ? sizeof piece : sizeof e);
    UNROLL for (int p = 0; p < pieces; p++)
        store(to + 16 * p, piece[p]);
    return true;
}

/* Stores a thread's four elements of a row or, after transposing the block in shared memory, its
 * four elements of a column. */
DEVICE void put_four(const result_args &r, int64_t i0, int64_t j0, const result_raw (&e)[FOUR])
{
    int row = thread() / (SIDE / FOUR), column = thread() % (SIDE / FOUR) * FOUR;

    if (r.c.row != 1) {
        if (store_four(r, i0 + row, j0 + column, e))
            return;
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

/* Computes C from totals; a thread computes four elements of a row. */
KERNEL(limber_reconstruct, struct result_args, RECONSTRUCT_THREADS, 1)
{
    await_launch();

    uint32_t across = (uint32_t)((args.n + SIDE - 1) / SIDE);  /* unsigned: divides faster */
    uint32_t whole = across * (uint32_t)((args.m + SIDE - 1) / SIDE), first = (uint32_t)block();
    uint32_t product = first / whole, own = first % whole;
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
