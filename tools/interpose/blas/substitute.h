/* SPDX-License-Identifier: BSD-3-Clause
 * Substitution in a small triangle, in the real type T.  substitute.c includes this file once for
 * each type. */

/* Copies w <= WIDE columns of real right-hand sides to x, or x back to them if `back`. */
FLAT void NAME(move)(T x[][WIDE], T *b, int64_t n, int64_t row, int64_t col, int64_t w, bool back)
{
    if (col == 1 && w == WIDE)
        for (int64_t r = 0; r < n; r++)
            memcpy(back ? b + r * row : x[r], back ? x[r] : b + r * row, sizeof x[r]);
    else
        for (int64_t c = 0; c < w; c++)
            for (int64_t r = 0; r < n; r++)
                if (back)
                    b[r * row + c * col] = x[r][c];
                else
                    x[r][c] = b[r * row + c * col];
}

/* Solves a triangular system of real numbers for right-hand sides that are multiplied by alpha
 * first, WIDE columns at a time.  x_r = (x_r - a_rq x_q - ...) / a_rr, where q runs over the rows
 * that were solved before, in order, and every operation is rounded. */
CLONES static void NAME(solve_real)(const struct small_triangle *t, T *b, int64_t row, int64_t col,
                                    int64_t wide, T alpha)
{
    T x[ROWS][WIDE] = { { 0 } };

    for (int64_t c0 = 0; c0 < wide; c0 += WIDE) {
        const int64_t w = wide - c0 < WIDE ? wide - c0 : WIDE;

        NAME(move)(x, b + c0 * col, t->n, row, col, w, false);
        for (int64_t s = 0; s < t->n; s++) {
            const int64_t r = t->upper ? t->n - 1 - s : s, next = t->upper ? -t->col : t->col;
            const T *a = (const T *)t->a + r * t->row, *at = t->upper ? a + (t->n - 1) * t->col : a;
            T sum[WIDE];

            for (int c = 0; c < WIDE; c++)
                sum[c] = alpha * x[r][c];
            for (int64_t i = 0; i < s; i++, at += next) {
                const T *solved = x[t->upper ? t->n - 1 - i : i];

                for (int c = 0; c < WIDE; c++)
                    sum[c] = sum[c] - *at * solved[c];
            }
            for (int c = 0; c < WIDE; c++)
                x[r][c] = t->unit ? sum[c] : sum[c] / a[r * t->col];
        }
        NAME(move)(x, b + c0 * col, t->n, row, col, w, true);
    }
}

/* Divides complex numbers by Smith's method (Communications of the ACM 5 (1962), 435). */
static void NAME(divide)(T *re, T *im, T by_re, T by_im)
{
    const T a = *re, b = *im;

    if (ABS(by_im) <= ABS(by_re)) {
        const T ratio = by_im / by_re, size = by_re + by_im * ratio;

        *re = (a + b * ratio) / size;
        *im = (b - a * ratio) / size;
    } else {
        const T ratio = by_re / by_im, size = by_re * ratio + by_im;

        *re = (a * ratio + b) / size;
        *im = (b * ratio - a) / size;
    }
}

/* Solves a triangular system for WIDE columns of complex right-hand sides: x[r] has the WIDE real
 * parts of row r, then its imaginary parts.  Subtracts products in the order in which rows were
 * solved.  Each product is rounded to real and imaginary part before it is subtracted. */
static void NAME(complex)(const struct small_triangle *t, T x[][2 * WIDE])
{
    for (int64_t s = 0; s < t->n; s++) {
        const int64_t r = t->upper ? t->n - 1 - s : s;
        const T *a = (const T *)t->a + 2 * r * t->row, *d = a + 2 * r * t->col;
        const T sign = t->conj ? -1 : 1;

        for (int64_t i = 0; i < s; i++) {
            const int64_t q = t->upper ? t->n - 1 - i : i;
            const T re = a[2 * q * t->col], im = sign * a[2 * q * t->col + 1];

            for (int c = 0; c < WIDE; c++) {
                x[r][c] = x[r][c] - (re * x[q][c] - im * x[q][c + WIDE]);
                x[r][c + WIDE] = x[r][c + WIDE] - (re * x[q][c + WIDE] + im * x[q][c]);
            }
        }
        for (int c = 0; c < WIDE && !t->unit; c++)
            NAME(divide)(&x[r][c], &x[r][c + WIDE], d[0], sign * d[1]);
    }
}

/* Multiplies complex right-hand sides by alpha and solves, WIDE columns at a time. */
static void NAME(solve_complex)(const struct small_triangle *t, T *b, int64_t row, int64_t col,
                                int64_t wide, const T *alpha)
{
    T x[ROWS][2 * WIDE];

    for (int64_t c0 = 0; c0 < wide; c0 += WIDE) {
        const int64_t w = wide - c0 < WIDE ? wide - c0 : WIDE;

        memset(x, 0, sizeof x);
        for (int64_t r = 0; r < t->n; r++)
            for (int64_t c = 0; c < w; c++) {
                const T *from = b + 2 * (r * row + (c0 + c) * col);

                x[r][c] = alpha[0] * from[0] - alpha[1] * from[1];
                x[r][c + WIDE] = alpha[0] * from[1] + alpha[1] * from[0];
            }
        NAME(complex)(t, x);
        for (int64_t r = 0; r < t->n; r++)
            for (int64_t c = 0; c < w; c++) {
                T *to = b + 2 * (r * row + (c0 + c) * col);

                to[0] = x[r][c];
                to[1] = x[r][c + WIDE];
            }
    }
}
