/* SPDX-License-Identifier: BSD-3-Clause
 * Residues modulo small numbers.  A quotient is first estimated in floating-point numbers; the
 * remainder, an integer, is then exact, and a second step corrects the estimate's error. */
#include "jit/operators/residues.h"

#include <string.h>

enum { CHUNK = 512 }; /* elements that are converted at once, in a cache */

/* Rounds to the nearest integer if |x| is at most 2^22, and 2^51 for doubles: the sum's last bit
 * counts ones.  Larger floats are off by at most 1. */
static inline float nearest32(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}
/* Rounds to the nearest integer by adding and subtracting a large constant. */
static inline double nearest64(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* Returns s modulo m, from -m/2 to m/2, for |s| below 2^31 - 3 m, which sums of at most 2^17 - 64
 * products of bytes are.  After the first step less than 3 m are left, which FP32 holds, so that
 * the second step is exact. */
static inline int32_t modulo(int32_t s, int32_t m, float inverse)
{
    s -= (int32_t)nearest32((float)s * inverse) * m;
    return s - (int32_t)nearest32((float)s * inverse) * m;
}

/* Replaces n integers by their residues modulo p, above -p/2 and at most p/2. */
void FOR_ISA(limber_residues_reduce)(int64_t p, int64_t *v, int64_t n)
{
    const double inverse = 1 / (double)p;
    const int64_t most = p / 2, least = most - p;

    for (int64_t i = 0; i < n; i++) {
        uint64_t r = (uint64_t)v[i];

        /* the first estimate of a quotient of 63 bits may be off by 2^11 */
        r -= (uint64_t)(int64_t)((double)(int64_t)r * inverse) * (uint64_t)p;
        r -= (uint64_t)(int64_t)nearest64((double)(int64_t)r * inverse) * (uint64_t)p;
        r -= (int64_t)r > most ? (uint64_t)p : 0;
        r += (int64_t)r <= least ? (uint64_t)p : 0;
        v[i] = (int64_t)r;
    }
}

/* Computes, for each modulus m_i, the residues of n integers, and stores them as bytes from to + i
 * * plane on. */
void FOR_ISA(limber_residues_split)(const struct moduli *x, const int64_t *v, int64_t n, int8_t *to,
                                    int64_t plane)
{
    const int64_t mask = x->pieces > 1 ? ((int64_t)1 << PIECE) - 1 : -1;
    const int64_t mask1 = x->pieces > 2 ? ((int64_t)1 << PIECE) - 1 : -1;
    int32_t piece[3][CHUNK];

    for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t count = n - at < CHUNK ? n - at : CHUNK;

        for (int64_t j = 0; j < count; j++) {
            piece[0][j] = (int32_t)(v[at + j] & mask);
            piece[1][j] = x->pieces > 1 ? (int32_t)((v[at + j] >> PIECE) & mask1) : 0;
            piece[2][j] = x->pieces > 2 ? (int32_t)(v[at + j] >> 2 * PIECE) : 0;
        }
        for (int i = 0; i < x->count; i++) {
            const int32_t m = x->m[i], w1 = x->piece[i][0], w2 = x->piece[i][1];
            const float inverse = x->inverse[i];
            int8_t *out = to + i * plane + at;

            for (int64_t j = 0; j < count; j++)
                out[j] =
                    (int8_t)modulo(piece[0][j] + piece[1][j] * w1 + piece[2][j] * w2, m, inverse);
        }
    }
}

/* Replaces n sums by their residues modulo m_i. */
void FOR_ISA(limber_residues_shorten)(const struct moduli *x, int i, int32_t *v, int64_t n)
{
    const int32_t m = x->m[i];
    const float inverse = x->inverse[i];

    for (int64_t j = 0; j < n; j++)
        v[j] = modulo(v[j], m, inverse);
}

/* Adds one modulus's terms of the Chinese remainder theorem: t (M / m), in two halves, and t / m.
 */
static inline void add_terms(const struct moduli *x, int i, const int32_t *from, int64_t n,
                             int64_t *low, int64_t *high, double *share)
{
    const int32_t m = x->m[i], weight = x->weight[i];
    const float inverse = x->inverse[i];
    const double part = 1 / (double)m;
    const int64_t w0 = x->term[i][0], w1 = x->term[i][1];

    for (int64_t j = 0; j < n; j++) {
        const int32_t t = modulo(modulo(from[j], m, inverse) * weight, m, inverse);

        low[j] += t * w0;
        high[j] += t * w1;
        share[j] += t * part;
    }
}

/* A number is congruent modulo M to the sum of all t (M / m); `share` is this sum divided by M, of
 * which the nearest integer tells how many M are too many. */
void FOR_ISA(limber_residues_join)(const struct moduli *x, const int32_t *from, int64_t plane,
                                   int64_t n, int64_t *to)
{
    const double p = (double)x->p, inverse = 1 / p, all = (double)x->all;
    int64_t low[CHUNK], high[CHUNK];
    double share[CHUNK];

    for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t count = n - at < CHUNK ? n - at : CHUNK;

        memset(low, 0, sizeof low);
        memset(high, 0, sizeof high);
        memset(share, 0, sizeof share);
        for (int i = 0; i < x->count; i++)
            add_terms(x, i, from + i * plane + at, count, low, high, share);
        for (int64_t j = 0; j < count; j++) {
            const double many = nearest64(share[j]);
            const double about = (double)high[j] * 0x1p32 + (double)low[j] - many * all;
            const int64_t quotient = (int64_t)nearest64(about * inverse);

            to[at + j] = (int64_t)(((uint64_t)high[j] << 32) + (uint64_t)low[j] -
                                   (uint64_t)(int64_t)many * (uint64_t)x->all -
                                   (uint64_t)quotient * (uint64_t)x->p);
        }
    }
    FOR_ISA(limber_residues_reduce)(x->p, to, n);
}
