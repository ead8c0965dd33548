/* SPDX-License-Identifier: BSD-3-Clause
 * Tasks of the multiply kernel: which tile of C a thread block computes, and how its sums are
 * stored.
 *
 * Names in this file: `sum` is the type in which the instructions accumulate, and d[i][j][q] are a
 * thread's sums.  promote() adds the sums of a chain to totals, which are floats in registers, or
 * integers.  Exact totals are then stored in memory, or reduced to residues in registers.
 *
 * Sums have the register layout of mma and wgmma: in tile (i, j) of 16 x 8 elements, lane l has
 * rows g and g + 8 and columns 2 t and 2 t + 1, with g = l >> 2, t = l & 3. */
#ifndef LIMBER_CUDA_TILE_H
#define LIMBER_CUDA_TILE_H

/* number of rows of tiles in a band; consecutive tasks of a band use the same columns of B, which
 * then are in L2 */
enum { BAND = 8 };

/* A task: a tile of C in row i and column j of tiles, the product in the batch, and the accumulator
 * (for exact totals). */
struct task { int acc, i, j, product; };

/* Returns the task with this index.  Within a band of rows, tasks run down a column of tiles, then
 * down the next column.  Then the next band begins. */
DEVICE struct task task_at(const multiply_args &a, int index)
{
    int tiles = a.tiles_m * a.tiles_n, rest = index % tiles, band = rest / (BAND * a.tiles_n);
    int whole = index / tiles, acc = whole / a.products;
    int height = a.tiles_m - band * BAND < BAND ? a.tiles_m - band * BAND : BAND;

    rest -= band * BAND * a.tiles_n;
    return { acc, band * BAND + rest % height, rest / height, whole - acc * a.products };
}

/* Return the first row of A, or column of B, of a task's tile in the limbs. */
DEVICE int limbs_at_a(const multiply_args &a, struct task t)
{
    return t.product * a.each_a + t.i * BM;
}
DEVICE int limbs_at_b(const multiply_args &a, struct task t)
{
    return t.product * a.each_b + t.j * BN;
}

/* Returns the number of rows of the product table that a task with exact totals multiplies one
 * after another: those of its accumulator.  row_at and step_at return the row and the step along k
 * that belong to step s of this sequence. */
DEVICE int rows_of(struct task t)
{
    return ONE_EACH ? 1 : FIRST[t.acc + 1] - FIRST[t.acc];
}

/* Returns the row of the product table that step s of a task multiplies. */
DEVICE int row_at(const multiply_args &a, struct task t, int s)
{
    return ONE_EACH ? t.acc : FIRST[t.acc] + limber_divide_by(s, a.steps, a.inverse_steps);
}

/* Returns the step along k that step s of a task multiplies: each row of the product table runs
 * through all of k. */
DEVICE int step_at(const multiply_args &a, int s)
{
    return ONE_EACH ? s : s - limber_divide_by(s, a.steps, a.inverse_steps) * a.steps;
}

/* Returns the number of 32-byte pieces of step s that are within k.  A simulated unit skips all
 * later pieces: it has no blocks there, and a block of zeros would turn a sum of -0 into +0. */
DEVICE int pieces_of(const multiply_args &a, int s)
{
    int64_t rest = a.k - (int64_t)s * STEP * PACKED;

    return rest < STEP * PACKED ? (int)(rest + 32 * PACKED - 1) / (32 * PACKED) : STEP / 32;
}

/* ---- which element of a tile a thread's register holds --------------------------------------- */

/* Return the row and the column of sum q of tile (i, j) in lane l. */
DEVICE int row_of(int i, int q, int l) { return 16 * i + (l >> 2) + 8 * (q >> 1); }
DEVICE int column_of(int j, int q, int l) { return 8 * j + 2 * (l & 3) + (q & 1); }

/* ---- exact totals in memory ------------------------------------------------------------------ */

/* Stores an exact total.  If it is not the first of its element and totals have 64 bits, adds it to
 * memory instead. */
DEVICE void put_total(const result_args &r, int acc, int64_t i, int64_t j, int64_t v, bool first)
{
    char *at = r.totals + acc * r.total_size + i * r.total_pitch;

    if (!r.wide) {
        store<int32_t>((int32_t *)at + j, (int32_t)v);
    } else {
        int64_t *to = (int64_t *)at + j;

        store<int64_t>(to, first ? v : load<int64_t>(to) + v);
    }
}

/* Returns two 64-bit words as 16 bytes; half_of returns one of the words. */
DEVICE bytes16 pair_of(uint64_t x, uint64_t y)
{
    return { { (uint32_t)x, (uint32_t)(x >> 32), (uint32_t)y, (uint32_t)(y >> 32) } };
}

/* Returns word h of a pair of 64-bit words. */
DEVICE uint64_t half_of(const bytes16 &v, int h)
{
    return (uint64_t)v.w[2 * h + 1] << 32 | v.w[2 * h];
}

/* Stores exact totals or, if not `first`, adds them to those in memory.  Rows of totals are padded
 * to complete tiles, so columns are not checked, and pairs of totals are aligned. */
template <int MI, int NJ, class sum>
DEVICE void put_totals(const result_args &r, int acc, int64_t i0, int64_t j0,
                       const sum (&d)[MI][NJ][4], bool first)
{
    char *all = r.totals + acc * r.total_size;
    int l = compute_here(lane());

    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int h = 0; h < 2; h++) {
            int64_t row = i0 + row_of(i, 2 * h, l), column = j0 + column_of(0, 0, l);
            char *at = all + row * r.total_pitch + column * (r.wide ? 8 : 4);

            if (row >= r.m)
                continue;
            if (!r.wide) {
                UNROLL for (int j = 0; j < NJ; j++)
                    store(at + 32 * j, bytes8{ { (uint32_t)(int32_t)d[i][j][2 * h],
                                                 (uint32_t)(int32_t)d[i][j][2 * h + 1] } });
                continue;
            }
            UNROLL for (int j = 0; j < NJ; j++) {
                int64_t x = (int64_t)d[i][j][2 * h], y = (int64_t)d[i][j][2 * h + 1];

                /* No other thread adds to these totals.  The atomic operation saves a register for
                 * the old value. */
                if (first) {
                    store(at + 64 * j, pair_of((uint64_t)x, (uint64_t)y));
                } else {
                    atomic_add((uint64_t *)(at + 64 * j), (uint64_t)x);
                    atomic_add((uint64_t *)(at + 64 * j + 8), (uint64_t)y);
                }
            }
        }
}

/* ---- totals stored as residues --------------------------------------------------------------- */

/* Transposes bytes among the four lanes of a quad.  Input: lane t has two bytes of a row in each of
 * four neighbouring tiles.  Output: lane t has the row's eight bytes in tile t. */
DEVICE bytes8 gather_quad(const uint32_t v[4])
{
    int t = lane() & 3;
    uint32_t a = v[0] | v[1] << 16, b = v[2] | v[3] << 16, even, odd, x, y;

    /* lanes 0 and 1 keep tiles 0 and 1; lanes 2 and 3 keep tiles 2 and 3 */
    x = shuffle_xor(t < 2 ? b : a, 2);
    even = t < 2 ? a : x;       /* bytes of lanes 0 and 1 */
    odd = t < 2 ? x : b;        /* bytes of lanes 2 and 3 */
    /* lane t keeps tile t & 1 of these two */
    y = shuffle_xor(t & 1 ? permute(even, odd, 0x5410) : permute(even, odd, 0x7632), 1);
    x = t & 1 ? permute(even, odd, 0x7632) : permute(even, odd, 0x5410);
    /* x: the bytes of lanes t & 1 and 2 + (t & 1) in this lane's tile; y: the bytes of the other
     * two lanes in this tile */
    return t & 1 ? bytes8{ { permute(y, x, 0x5410), permute(y, x, 0x7632) } } :
           bytes8{ { permute(x, y, 0x5410), permute(x, y, 0x7632) } };
}

/* Stores totals as residues of one byte each.  Four lanes first exchange bytes, so that each stores
 * eight contiguous bytes. */
template <int MI, int NJ>
DEVICE void put_residues_of(const result_args &r, int acc, int64_t i0, int64_t j0,
                            const int32_t (&d)[MI][NJ][4])
{
    uint32_t p = MODULUS[acc];
    int32_t quotient = QUOTIENT[acc];
    int l = lane();

    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j += 4)
            UNROLL for (int h = 0; h < 2; h++) {
                int64_t row = i0 + row_of(i, 2 * h, l), column = j0 + 8 * (j + (l & 3));
                uint32_t v[4];
                bytes8 out;

                UNROLL for (int t = 0; t < 4; t++)
                    v[t] = limber_mod32(d[i][j + t][2 * h], p, quotient) |
                           limber_mod32(d[i][j + t][2 * h + 1], p, quotient) << 8;
                out = gather_quad(v);
                if (row < r.m)      /* columns of totals are padded, so only rows are checked */
                    store(r.totals + acc * r.total_size + row * r.total_pitch + column, out);
            }
}

/* Replaces totals by their residues modulo the accumulator's modulus. */
template <int MI, int NJ> DEVICE void reduce(int acc, int32_t (&d)[MI][NJ][4])
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++)
            UNROLL for (int q = 0; q < 4; q++)
                d[i][j][q] = (int32_t)limber_mod32(d[i][j][q], MODULUS[acc], QUOTIENT[acc]);
}

/* ---- float sums scaled and stored in C ------------------------------------------------------- */

/* Stores element (i, j).  If rounding to the result's format takes several instructions, stores the
 * sum for the reconstruct kernel instead. */
DEVICE void put_sum(const result_args &r, int64_t i, int64_t j, double x)
{
    if (i >= r.m || j >= r.n)
        return;
    if (!DIRECT)
        store<double>((double *)(r.totals + i * r.total_pitch) + j, x);
    else if (!is_special(r, i, j))
        put_float(r, i, j, x);
}

/* Returns the weighted sum of accumulator `acc` and all later ones, added from the last to the
 * first. */
template <int acc, class sum> DEVICE double weighted(const sum *d, int64_t stride)
{
    double t = mul64((double)d[acc * stride], power_of_two(WEIGHT[acc]));

    if constexpr (acc + 1 < ACCUMULATORS)
        return add64(weighted<acc + 1>(d, stride), t);
    return t;
}

/* True if two strides locate C in `columns` columns from j0 on, and no row of A or column of B has
 * NaN or infinities.  Then element (i, j) is at base + i row + j col.  In a convolution the columns
 * must belong to one image. */
DEVICE bool is_simple(const result_args &r, int64_t j0, int columns, int64_t &base)
{
    const struct output_view &c = r.c;
    int64_t first = r.j0 + j0, end = first + columns, outer = 0;

    end = end < r.j0 + r.n ? end : r.j0 + r.n;
    if (r.special_a || r.special_b || c.rows || c.cols || c.wide)
        return false;
    if (end > c.inner)
        outer = first / c.inner;
    base = c.origin + r.i0 * c.row + r.j0 * c.col + outer * (c.outer - c.inner * c.col);
    return end <= (outer + 1) * c.inner;
}

/* Called only if is_simple is true.  True if, in addition, pairs of columns are contiguous and
 * aligned. */
DEVICE bool is_dense(const result_args &r, int64_t j0, int columns, int64_t base)
{
    uint64_t where = (uint64_t)r.c.data | (uint64_t)(base * RESULT.size) |
                     (uint64_t)(r.c.row * RESULT.size);

    return r.c.col == 1 && !(where & (2 * RESULT.size - 1)) &&
           (r.n - j0 >= columns || !(r.n & 1));
}

/* Returns the address of element (i, j), if is_simple is true. */
DEVICE char *simple_address(const result_args &r, int64_t base, int64_t i, int64_t j)
{
    return (char *)r.c.data + (base + i * r.c.row + j * r.c.col) * RESULT.size;
}

/* An integer type that holds two contiguous elements of FP32 or FP64. */
typedef typename raw_of<RESULT.size == 4 ? 8 : 16>::type result_pair;

/* Returns the first (h = 0) or the second of a pair of elements, as a double. */
DEVICE double element_of(uint64_t v, int h) { return (double)bits_float((uint32_t)(v >> 32 * h)); }
DEVICE double element_of(const bytes16 &v, int h) { return bits_double(half_of(v, h)); }
/* Rounds two doubles and stores them as the pair of elements v. */
DEVICE void set_elements(uint64_t &v, double x, double y)
{
    v = (uint64_t)float_bits((float)y) << 32 | float_bits((float)x);
}
DEVICE void set_elements(bytes16 &v, double x, double y)
{
    v = pair_of(double_bits(x), double_bits(y));
}

/* Returns the weighted sum of an element's accumulators.  A single FP32 accumulator with an FP32
 * result is scaled in FP32, which is exact and saves conversions. */
template <class sum> DEVICE double sum_of(const sum *d, int64_t stride)
{
    constexpr bool straight = UNIT != UNIT_i8 && UNIT != UNIT_f64 && ACCUMULATORS == 1 && !SCALED &&
                              !ALPHA && !BETA && RESULT.size == 4 && WEIGHT[0] > -126 &&
                              WEIGHT[0] < 127;

    if constexpr (straight)
        return (double)mul32((float)d[0], bits_float((uint32_t)(127 + WEIGHT[0]) << 23));
    return weighted<0>(d, stride);
}

/* Stores a tile for which is_dense is true.  C's old values are loaded first, several pairs at
 * once. */
template <int MI, int NJ, class sum>
DEVICE void put_dense(const result_args &r, int64_t base, int64_t i0, int64_t j0,
                      const sum (&d)[ACCUMULATORS][MI][NJ][4])
{
    constexpr int size = RESULT.size, together = 4;
    int l = compute_here(lane());
    double alpha = ALPHA ? scalar_of(r.alpha) : 1;
    double beta = BETA ? scalar_of(r.beta) : 0;
    int64_t rest = r.n - j0 - column_of(0, 0, l);
    /* number of columns from this lane's first column to the end */
    int left = rest < 8 * NJ ? (int)rest : 8 * NJ;

    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int h = 0; h < 2; h++) {
            int64_t row = i0 + row_of(i, 2 * h, l);
            char *at = simple_address(r, base, row, j0 + column_of(0, 0, l));
            int e = 0;

            if (row >= r.m)
                continue;
            if (SCALED)
                e = -scale_of<0>(r.emax_a, row);
            UNROLL for (int first = 0; first < NJ; first += together) {
                result_pair old[together];

                if (BETA)
                    UNROLL for (int j = 0; j < together; j++)
                        if (8 * (first + j) < left)
                            old[j] = load<result_pair>(at + 8 * (first + j) * size);
                UNROLL for (int j = 0; j < together; j++) {
                    int x = first + j, ex = e, ey = e;
                    result_pair out;

                    if (8 * x >= left)
                        continue;
                    if (SCALED) {
                        ex -= scale_of<1>(r.emax_b, j0 + column_of(x, 0, l));
                        ey -= scale_of<1>(r.emax_b, j0 + column_of(x, 1, l));
                    }
                    set_elements(out,
                        apply_scaling(sum_of(&d[0][i][x][2 * h], MI * NJ * 4), ex, alpha, beta,
                                      BETA ? element_of(old[j], 0) : 0),
                        apply_scaling(sum_of(&d[0][i][x][2 * h + 1], MI * NJ * 4), ey, alpha, beta,
                                      BETA ? element_of(old[j], 1) : 0));
                    store(at + 8 * x * size, out);
                }
            }
        }
}

/* Stores `count` elements of a row whose columns are `apart` apart, if is_simple is true.  sum(x)
 * returns the sum of the x-th of these elements. */
template <int count, class F>
DEVICE void put_line(const result_args &r, int64_t base, int64_t row, int64_t column, int apart,
                     F sum)
{
    typedef typename raw_of<RESULT.size == 4 ? 4 : 8>::type raw;
    double alpha = ALPHA ? scalar_of(r.alpha) : 1, beta = BETA ? scalar_of(r.beta) : 0;
    char *at = simple_address(r, base, row, column);
    int64_t step = apart * r.c.col * RESULT.size, rest = r.n - column;
    int left = rest < count * apart ? (int)rest : count * apart, e = 0;
    raw old[count];

    if (row >= r.m)
        return;
    if (SCALED)
        e = -scale_of<0>(r.emax_a, row);
    if (BETA)
        UNROLL for (int x = 0; x < count; x++)
            if (x * apart < left)
                old[x] = load<raw>(at + x * step);
    UNROLL for (int x = 0; x < count; x++) {
        int ex = e;
        double y;

        if (x * apart >= left)
            continue;
        if (SCALED)
            ex -= scale_of<1>(r.emax_b, column + x * apart);
        if constexpr (RESULT.size == 4) {
            y = apply_scaling(sum(x), ex, alpha, beta, BETA ? (double)bits_float(old[x]) : 0);
            store<float>(at + x * step, (float)y);
        } else {
            y = apply_scaling(sum(x), ex, alpha, beta, BETA ? bits_double(old[x]) : 0);
            store<double>(at + x * step, y);
        }
    }
}

/* Stores a tile element by element to C, which may have any layout, with short code.  Registers
 * cannot be indexed, so the loop shifts all sums towards tile 0, which destroys d. */
template <int MI, int NJ, class sum>
DEVICE void put_any(const result_args &r, int64_t i0, int64_t j0,
                    sum (&d)[ACCUMULATORS][MI * NJ][4])
{
    int l = compute_here(lane());

    ROLL for (int x = 0; x < MI * NJ; x++) {
        UNROLL for (int q = 0; q < 4; q++)
            put_sum(r, i0 + row_of(x / NJ, q, l), j0 + column_of(x % NJ, q, l),
                    weighted<0>(&d[0][0][q], MI * NJ * 4));
        UNROLL for (int acc = 0; acc < ACCUMULATORS; acc++)
            UNROLL for (int y = 0; y + 1 < MI * NJ; y++)
                UNROLL for (int q = 0; q < 4; q++)
                    d[acc][y][q] = d[acc][y + 1][q];
    }
}

/* Stores weighted sums as doubles for the reconstruct kernel.  Their rows are padded to complete
 * tiles. */
template <int MI, int NJ, class sum>
DEVICE void put_weighted(const result_args &r, int64_t i0, int64_t j0,
                         const sum (&d)[ACCUMULATORS][MI][NJ][4])
{
    int l = compute_here(lane());

    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int h = 0; h < 2; h++) {
            int64_t row = i0 + row_of(i, 2 * h, l);
            char *at = r.totals + row * r.total_pitch + (j0 + column_of(0, 0, l)) * 8;

            if (row >= r.m)
                continue;
            UNROLL for (int j = 0; j < NJ; j++)
                store(at + 64 * j,
                      pair_of(double_bits(weighted<0>(&d[0][i][j][2 * h], MI * NJ * 4)),
                              double_bits(weighted<0>(&d[0][i][j][2 * h + 1], MI * NJ * 4))));
        }
}

/* Stores a tile of float sums by the fastest code that C's layout allows.  d is destroyed. */
template <int MI, int NJ, class sum>
DEVICE void put_sums(const result_args &r, int64_t i0, int64_t j0,
                     sum (&d)[ACCUMULATORS][MI][NJ][4])
{
    int64_t base;

    if constexpr (!DIRECT)
        put_weighted(r, i0, j0, d);
    else if (is_simple(r, j0, 8 * NJ, base) && is_dense(r, j0, 8 * NJ, base))
        put_dense(r, base, i0, j0, d);
    else
        put_any<MI, NJ>(r, i0, j0, *(sum (*)[ACCUMULATORS][MI * NJ][4])d);
}

/* ---- promotion: sums of chains are added to totals ------------------------------------------- */

/* Sets all sums to 0. */
template <class sum, int n> DEVICE void clear(sum (&d)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        d[i] = 0;
}

/* Initialises totals to which `parts` chains are added.  Adding a number to -0 gives that number,
 * even -0, so the first chain becomes the total.  Without chains the total is +0. */
template <class sum, int n> DEVICE void start(sum (&total)[n], int parts)
{
    UNROLL for (int i = 0; i < n; i++)
        total[i] = parts ? (sum)-0. : 0;
}

/* Replaces NaN by the canonical NaN, as simulated units require. */
template <class sum, int n> DEVICE void set_nan(sum (&d)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        if (d[i] != d[i])
            d[i] = (sum)bits_float(0x7fc00000);
}

/* Adds `part` to the totals, rounded once. */
template <int n> DEVICE void promote(float (&total)[n], const float (&part)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        total[i] = add32(total[i], part[i]);
}
template <int n> DEVICE void promote(double (&total)[n], const double (&part)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        total[i] = add64(total[i], part[i]);
}
/* Adds `part` to integer totals.  The sums of chains are integers, even if they are stored as
 * floats. */
template <int n, class sum> DEVICE void promote(int32_t (&total)[n], const sum (&part)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        total[i] += (int32_t)part[i];
}

#endif
