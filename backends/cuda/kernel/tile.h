/* SPDX-License-Identifier: BSD-3-Clause
 * A block's tile of C: which one, what becomes of its sums.
 *
 * sums  what the unit accumulates, d[i][j][q]
 * part  sums since the last promotion; VIA_sum adds them to float totals in registers, exact plans
 *       to integer totals in memory, residues are reduced where they are
 *
 * Fragments lie alike in mma, wgmma and here: in tile (i, j) of 16 x 8 elements lane l holds rows
 * g and g + 8, columns 2 t and 2 t + 1, with g = l >> 2, t = l & 3. */
#ifndef LIMBER_CUDA_TILE_H
#define LIMBER_CUDA_TILE_H

enum { BAND = 8 };      /* tiles of one column that follow each other: they share panels in L2 */

struct task { int acc, i, j; };

DEVICE struct task task_at(const multiply_args &a, int index)
{
    int tiles = a.tiles_m * a.tiles_n, rest = index % tiles, band = rest / (BAND * a.tiles_n);
    int height = a.tiles_m - band * BAND < BAND ? a.tiles_m - band * BAND : BAND;

    rest -= band * BAND * a.tiles_n;
    return { index / tiles, band * BAND + rest % height, rest / height };
}

/* Exact plans go through the rows of a task's accumulator one after the other. */
DEVICE int rows_of(struct task t)
{
    return ONE_EACH ? 1 : FIRST[t.acc + 1] - FIRST[t.acc];
}

DEVICE int row_at(const multiply_args &a, struct task t, int s)
{
    return ONE_EACH ? t.acc : FIRST[t.acc] + s / a.steps;
}

DEVICE int step_at(const multiply_args &a, int s)
{
    return ONE_EACH ? s : s % a.steps;
}

/* ---- where the elements of a fragment are ---------------------------------------------------- */

DEVICE int row_of(int i, int q) { return 16 * i + (lane() >> 2) + 8 * (q >> 1); }
DEVICE int column_of(int j, int q) { return 8 * j + 2 * (lane() & 3) + (q & 1); }

/* ---- exact totals in memory ------------------------------------------------------------------ */

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

template <int MI, int NJ, class sum>
DEVICE void put_totals(const result_args &r, int acc, int64_t i0, int64_t j0,
                       const sum (&d)[MI][NJ][4], bool first)
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++)
            UNROLL for (int q = 0; q < 4; q++)
                if (i0 + row_of(i, q) < r.m && j0 + column_of(j, q) < r.n)
                    put_total(r, acc, i0 + row_of(i, q), j0 + column_of(j, q),
                              (int64_t)d[i][j][q], first);
}

/* ---- residues -------------------------------------------------------------------------------- */

/* Of four tiles side by side, lane t of a quad holds two bytes of a row; it leaves with the eight
 * bytes of that row in tile t. */
DEVICE bytes8 gather_quad(const uint32_t v[4])
{
    int t = lane() & 3;
    uint32_t a = v[0] | v[1] << 16, b = v[2] | v[3] << 16, even, odd, x, y;

    /* lanes 0, 1 keep tiles 0, 1; lanes 2, 3 keep tiles 2, 3 */
    x = shuffle_xor(t < 2 ? b : a, 2);
    even = t < 2 ? a : x;       /* from lanes 0, 1 */
    odd = t < 2 ? x : b;        /* from lanes 2, 3 */
    /* of the two tiles, lane t keeps tile t & 1 */
    y = shuffle_xor(t & 1 ? permute(even, odd, 0x5410) : permute(even, odd, 0x7632), 1);
    x = t & 1 ? permute(even, odd, 0x7632) : permute(even, odd, 0x5410);
    /* x: this lane's columns, then those two lanes up; y: its neighbour's */
    return t & 1 ? bytes8{ { permute(y, x, 0x5410), permute(y, x, 0x7632) } } :
           bytes8{ { permute(x, y, 0x5410), permute(x, y, 0x7632) } };
}

template <int MI, int NJ>
DEVICE void put_residues_of(const result_args &r, int acc, int64_t i0, int64_t j0,
                            const int32_t (&d)[MI][NJ][4])
{
    uint32_t p = MODULUS[acc];
    int32_t quotient = QUOTIENT[acc];

    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j += 4)
            UNROLL for (int h = 0; h < 2; h++) {
                int64_t row = i0 + row_of(i, 2 * h), column = j0 + 8 * (j + (lane() & 3));
                uint32_t v[4];
                bytes8 out;

                UNROLL for (int t = 0; t < 4; t++)
                    v[t] = limber_mod32(d[i][j + t][2 * h], p, quotient) |
                           limber_mod32(d[i][j + t][2 * h + 1], p, quotient) << 8;
                out = gather_quad(v);
                if (row < r.m)      /* columns are padded */
                    store(r.totals + acc * r.total_size + row * r.total_pitch + column, out);
            }
}

template <int MI, int NJ> DEVICE void reduce(int acc, int32_t (&d)[MI][NJ][4])
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++)
            UNROLL for (int q = 0; q < 4; q++)
                d[i][j][q] = (int32_t)limber_mod32(d[i][j][q], MODULUS[acc], QUOTIENT[acc]);
}

/* ---- float results --------------------------------------------------------------------------- */

/* Formats whose rounding is not one instruction are left to the finishing kernel. */
DEVICE void put_sum(const result_args &r, int64_t i, int64_t j, double x)
{
    if (i >= r.m || j >= r.n)
        return;
    if (!DIRECT)
        store<double>((double *)(r.totals + i * r.total_pitch) + j, x);
    else if (!is_special(r, i, j))
        put_float(r, i, j, x);
}

/* The weighted sum of accumulators `acc` and up, from the last to the first. */
template <int acc, class sum> DEVICE double weighted(const sum *d, int64_t stride)
{
    double t = mul64((double)d[acc * stride], power_of_two(WEIGHT[acc]));

    if constexpr (acc + 1 < ACCUMULATORS)
        return add64(weighted<acc + 1>(d, stride), t);
    return t;
}

template <int MI, int NJ, class sum>
DEVICE void put_sums(const result_args &r, int64_t i0, int64_t j0,
                     const sum (&d)[ACCUMULATORS][MI][NJ][4])
{
    UNROLL for (int i = 0; i < MI; i++)
        UNROLL for (int j = 0; j < NJ; j++)
            UNROLL for (int q = 0; q < 4; q++)
                put_sum(r, i0 + row_of(i, q), j0 + column_of(j, q),
                        weighted<0>(&d[0][i][j][q], MI * NJ * 4));
}

/* ---- promotion ------------------------------------------------------------------------------- */

template <class sum, int n> DEVICE void clear(sum (&d)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        d[i] = 0;
}

/* Totals of `parts` float sums.  -0 changes no number that is added to it: the first part is the
 * total, also where it is -0.  Without parts it is +0. */
template <class sum, int n> DEVICE void start(sum (&total)[n], int parts)
{
    UNROLL for (int i = 0; i < n; i++)
        total[i] = parts ? (sum)-0. : 0;
}

/* totals += part, each rounded once. */
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
/* Of exact sums. */
template <int n, class sum> DEVICE void promote(int32_t (&total)[n], const sum (&part)[n])
{
    UNROLL for (int i = 0; i < n; i++)
        total[i] += (int32_t)part[i];
}

#endif
