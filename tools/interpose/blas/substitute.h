/* SPDX-License-Identifier: BSD-3-Clause
 * Substitution in a small triangle, in the real type T.  substitute.c includes this file once for
 * each type. */

/* Rows of the right sides lie in `x`, WIDE columns of a real and, behind these, an imaginary part
 * each.  Every operation is rounded: x_r = (x_r - a_rq x_q - ...) / a_rr, q from the first solved
 * row on. */
static void NAME(real)(const struct small_triangle *t, T x[][2 * WIDE])
{
    for (int64_t s = 0; s < t->n; s++) {
        const int64_t r = t->upper ? t->n - 1 - s : s;
        const T *a = (const T *)t->a + r * t->row;

        for (int64_t i = 0; i < s; i++) {
            const int64_t q = t->upper ? t->n - 1 - i : i;
            const T factor = a[q * t->col];

            for (int c = 0; c < WIDE; c++)
                x[r][c] = x[r][c] - factor * x[q][c];
        }
        for (int c = 0; c < WIDE && !t->unit; c++)
            x[r][c] = x[r][c] / a[r * t->col];
    }
}

/* Divides by Smith's method (Communications of the ACM 5 (1962), 435). */
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

static void NAME(scale)(T *re, T *im, const T *alpha, bool is_complex)
{
    const T a = *re, b = *im;

    *re = is_complex ? alpha[0] * a - alpha[1] * b : alpha[0] * a;
    *im = is_complex ? alpha[0] * b + alpha[1] * a : 0;
}

/* Columns of the right side, WIDE at a time. */
static void NAME(solve)(const struct small_triangle *t, T *b, int64_t row, int64_t col,
                        int64_t wide, const T *alpha)
{
    const int parts = t->is_complex ? 2 : 1;
    T x[ROWS][2 * WIDE];

    for (int64_t c0 = 0; c0 < wide; c0 += WIDE) {
        const int64_t w = wide - c0 < WIDE ? wide - c0 : WIDE;

        memset(x, 0, sizeof x);
        for (int64_t r = 0; r < t->n; r++)
            for (int64_t c = 0; c < w; c++) {
                const T *from = b + parts * (r * row + (c0 + c) * col);

                x[r][c] = from[0];
                x[r][c + WIDE] = from[parts - 1];
                NAME(scale)(&x[r][c], &x[r][c + WIDE], alpha, t->is_complex);
            }
        if (t->is_complex)
            NAME(complex)(t, x);
        else
            NAME(real)(t, x);
        for (int64_t r = 0; r < t->n; r++)
            for (int64_t c = 0; c < w; c++) {
                T *to = b + parts * (r * row + (c0 + c) * col);

                to[0] = x[r][c];
                if (t->is_complex)
                    to[1] = x[r][c + WIDE];
            }
    }
}
