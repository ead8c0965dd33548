/* SPDX-License-Identifier: BSD-3-Clause
 * Every attribute that an operation of the IR can have, in the order in which attributes are
 * printed. emin to special must stay together, since the engine copies them as a range.  Define
 * ATTR, then include this file.
 *
 *   ATTR(name, kind, words)
 *     kind   INT: a number; LIST: numbers with commas; WORD: one word of a list (words.h) */
ATTR(stride, LIST, "") /* conv: vertical, horizontal; in three dimensions depth comes first */
/* conv: top, bottom, left, right; in three dimensions front and back come first */
ATTR(pad, LIST, "")
ATTR(dilate, LIST, "")             /* conv: in the order of stride */
ATTR(groups, INT, "")             /* conv: number of groups of channels */
/* conv and its index maps: order of a tensor's dimensions in memory */
ATTR(layout, WORD, LIMBER_WORDS(LIMBER_LAYOUTS))
/* conv and its index maps: forward, or a gradient */
ATTR(direction, WORD, LIMBER_WORDS(LIMBER_DIRECTIONS))
ATTR(order, WORD,
     LIMBER_WORDS(LIMBER_ORDERS))      /* patches, filters: what runs along k, slowest first */
/* limbs: which rows of A or columns of B share a power-of-two scale */
ATTR(axis, WORD, LIMBER_WORDS(LIMBER_AXES))
ATTR(top, INT, "")             /* hilo: |x| < 2^top after scaling */
ATTR(shift, INT, "")             /* hilo: limb l is multiplied by 2^(l*shift) */
ATTR(bits, INT, "") /* slices, residues: scaled integers are below 2^bits in magnitude */
ATTR(step, INT, "")             /* slices: bits of one slice */
ATTR(reconstruct, WORD,
     LIMBER_WORDS(LIMBER_RECONSTRUCTIONS)) /* combine: how accumulators become one value */
ATTR(moduli, LIST, "")             /* residues, combine: moduli, pairwise coprime, at most 4096 */
ATTR(uncertain, INT, "")             /* combine: |error| < 2^uncertain; see docs/ir.md */
ATTR(index, INT, "")             /* arg: which operand of the call */
/* The attributes from emin to reach say what a scan found in an operand (its mask).
 * arg: |x| >= 2^emin for every nonzero x */
ATTR(emin, INT, "")
ATTR(emax, INT, "")             /* arg: |x| < 2^(emax+1) for every finite x */
ATTR(spread, INT, "") /* arg: largest emax-emin of one line (row of A, column of B) */
/* arg: largest number of bits of a line's scaled integers: emax-lsb+1, where emax is the
 * largest exponent of the line, and lsb the exponent of its lowest set bit */
ATTR(width, INT, "")
ATTR(sig, INT, "") /* arg: largest number of significant bits of one element */
/* arg, limbs: whether negative values occur.  balanced: all slices are signed digits */
ATTR(sign, WORD, LIMBER_WORDS(LIMBER_SIGNS))
ATTR(special, INT, "") /* arg: 1 if NaN or infinities occur */
/* arg: bits of scaled integers if all lines (rows of A, columns of B) share one scale; absent if
 * these are too many to be useful */
ATTR(reach, INT, "")
ATTR(unit, WORD, LIMBER_WORDS(LIMBER_UNITS)) /* products: what multiplies and adds */
ATTR(chunk, INT, "") /* products: longest chain in one accumulator of the unit */
ATTR(sums, WORD, LIMBER_WORDS(LIMBER_SUMS)) /* products: order and rounding of float sums */
/* products on tensor cores: 1 if every accumulator is added to the total after each chunk of k;
 * absent if only the first accumulator is */
ATTR(joins, INT, "")
ATTR(tile, LIST, "") /* products: mr, nr, group, mb, nb, kc; on devices see docs/ir.md */
/* products: where Hi/Lo limbs are made, before the multiply kernel or in it */
ATTR(split, WORD, LIMBER_WORDS(LIMBER_SPLITS))
/* epilogue: `one`, or `arg` if the call gives alpha */
ATTR(alpha, WORD, LIMBER_WORDS(LIMBER_ALPHAS))
ATTR(beta, WORD, LIMBER_WORDS(LIMBER_BETAS)) /* epilogue: `zero`, or `arg` if the call gives beta */
/* epilogue, integers: 1: results wrap, 0: results that do not fit are reported */
ATTR(wrap, INT, "")
/* epilogue, integers: 1: results with a fraction are reported as not fitting; absent: they are
 * rounded */
ATTR(integral, INT, "")
#undef ATTR
