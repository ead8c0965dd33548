/* SPDX-License-Identifier: BSD-3-Clause
 * Short dot products and rank-one updates in order 1 (limber.h, LIMBER_CONTRACT_REPRODUCIBLE), in
 * the real type T.  order.c includes this file once for each type. */

/* Returns a dot product in order 1 of limber.h: chains of CHAIN products, whose sums are then
 * added in turn.  All chains are summed at once, since in a chain each product waits for the one
 * before. */
WITH_FMA static T NAME(dot)(int64_t n, const T *x, int64_t step_x, const T *y, int64_t step_y)
{
    const int64_t whole = n / CHAIN, rest = n - whole * CHAIN;
    T s[CHAINS] = { 0 }, sum;

    if (whole == 0) {
        for (int64_t p = 0; p < rest; p++)
            s[0] = FMA(x[p * step_x], y[p * step_y], s[0]);
        return s[0];
    }
    for (int64_t p = 0; p < CHAIN; p++)
        for (int64_t c = 0; c < whole; c++)
            s[c] = FMA(x[(c * CHAIN + p) * step_x], y[(c * CHAIN + p) * step_y], s[c]);
    for (int64_t p = 0; p < rest; p++)
        s[whole] = FMA(x[(whole * CHAIN + p) * step_x], y[(whole * CHAIN + p) * step_y], s[whole]);
    sum = s[0];
    for (int64_t c = 1; c < whole + (rest > 0); c++)
        sum = sum + s[c];
    return sum;
}

/* Returns alpha product + c if an intermediate overflows although all three are finite: computes
 * with factors of 2^-512, and scales back. */
static T NAME(add_scaled)(T alpha, T product, T c)
{
    const double a = 0x1p-512 * (double)alpha, p = 0x1p-512 * (double)product,
                 old = 0x1p-512 * (double)c;

    return (T)(__builtin_fma(0x1p-512, old, a * p) * 0x1p512 * 0x1p512);
}

/* Adds alpha (x_i y) to c_i. */
CLONES static void NAME(update)(int64_t n, T alpha, const T *restrict x, T y, T *restrict c)
{
    enum { PIECE = 256 };
    T made[PIECE];

    for (int64_t i0 = 0; i0 < n; i0 += PIECE) {
        const int64_t m = n - i0 < PIECE ? n - i0 : PIECE;
        BITS odd = 0; /* not 0 if some element of `made` is not finite */

        for (int64_t i = 0; i < m; i++) {
            const WIDE t = (WIDE)alpha * (WIDE)(x[i0 + i] * y);

            made[i] = (T)((WIDE)c[i0 + i] + t);
            odd |= ABS(made[i]) <= MOST ? 0 : 1;
        }
        for (int64_t i = 0; i < m && odd != 0; i++) {
            const T product = x[i0 + i] * y;

            if (!isfinite(made[i]) && isfinite(alpha) && isfinite(product) && isfinite(c[i0 + i]))
                made[i] = NAME(add_scaled)(alpha, product, c[i0 + i]);
        }
        memcpy(c + i0, made, (size_t)m * sizeof(T));
    }
}

static void NAME(rank_one)(int64_t m, int64_t n, T alpha, const T *x, const T *y, int64_t step_y,
                           T *c, int64_t lead)
{
    for (int64_t col = 0; col < n && alpha != 0; col++) /* alpha = 0 reads no operand */
        NAME(update)(m, alpha, x, y[col * step_y], c + col * lead);
}
