/* SPDX-License-Identifier: BSD-3-Clause
 * Residues of integers modulo small numbers, and integers modulo a number p from them, by the
 * Chinese remainder theorem.  residues.c is compiled once for each instruction set. */
#ifndef LIMBER_JIT_RESIDUES_H
#define LIMBER_JIT_RESIDUES_H

#include "ir/isa.h"

#include <stdbool.h>
#include <stdint.h>

/* MOST_MODULI: more than sums of 2^62 products of residues modulo 2^63 need.
 * PIECE: bits of a piece of a residue modulo p, of which three hold 63 bits. */
enum { MOST_MODULI = 28, PIECE = 21 };

/* Moduli m_1, m_2, ... of at most 256, pairwise coprime, and constants for conversions to and from
 * residues.  M: their product. */
struct moduli {
    int64_t p; /* results are computed modulo p, below 2^63 */
    int count, pieces; /* pieces: number of pieces of a symmetric residue modulo p */
    int32_t m[MOST_MODULI];
    float inverse[MOST_MODULI]; /* 1 / m */
    int32_t piece[MOST_MODULI][2]; /* 2^21 and 2^42 modulo m, symmetric */
    int32_t weight[MOST_MODULI]; /* the inverse of M / m modulo m, symmetric */
    int64_t term[MOST_MODULI][2]; /* M / m modulo p: its low 32 bits, and those above */
    int64_t all; /* M modulo p */
};

/* Chooses moduli whose product exceeds 4 k (p / 2)^2, for products of inner dimension k.  False if
 * the list of moduli is too short. */
bool limber_moduli_choose(struct moduli *x, int64_t p, int64_t k);

/* Replaces `n` integers by their symmetric residues modulo p: above -p/2, at most p/2. */
typedef void residues_reduce(int64_t p, int64_t *v, int64_t n);
/* Computes the residues of `n` symmetric residues modulo p: those modulo m_i from
 * to + i * plane on.  A residue of 128 modulo 256 is stored as -128. */
typedef void residues_split(const struct moduli *x, const int64_t *v, int64_t n, int8_t *to,
                            int64_t plane);
/* Computes `n` integers modulo p, as symmetric residues, from numbers that are congruent to them
 * modulo m_i, of which those for m_i begin at from + i * plane. */
typedef void residues_join(const struct moduli *x, const int32_t *from, int64_t plane, int64_t n,
                           int64_t *to);
/* Replaces numbers by their symmetric residues modulo m_i. */
typedef void residues_shorten(const struct moduli *x, int i, int32_t *v, int64_t n);

#define DECLARE(name) \
    residues_##name limber_residues_##name; \
    LIMBER_FALLBACK(LIMBER_DECLARE, residues_##name, limber_residues_##name)
DECLARE(reduce)
DECLARE(split)
DECLARE(join)
DECLARE(shorten)
#undef DECLARE

#endif
