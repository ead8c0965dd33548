/* SPDX-License-Identifier: BSD-3-Clause
 * Every attribute that an operation of the IR may carry, once, in the order in which they are
 * printed; emin to special stay together, as the engine copies them.  Define ATTR, include.
 *
 *   ATTR(name, kind, words)
 *     kind   INT a number, LIST numbers with commas, WORD one word of a list (words.h)  */
ATTR(stride, LIST, "")             /* conv: down, right; in three dimensions depth, down, right */
ATTR(pad, LIST, "")             /* conv: top, bottom, left, right; before them front, back */
ATTR(dilate, LIST, "")             /* conv: in the order of stride */
ATTR(groups, INT, "")             /* conv: number of groups of channels */
ATTR(layout, WORD, LIMBER_WORDS(LIMBER_LAYOUTS))    /* conv and its maps: order in memory */
ATTR(direction, WORD, LIMBER_WORDS(LIMBER_DIRECTIONS)) /* conv, maps: forward or a gradient */
ATTR(order, WORD,
     LIMBER_WORDS(LIMBER_ORDERS))      /* patches, filters: what runs along k, slowest first */
ATTR(axis, WORD, LIMBER_WORDS(LIMBER_AXES))  /* lines that share one power-of-two scale */
ATTR(top, INT, "")             /* hilo: scaled |x| < 2^top */
ATTR(shift, INT, "")             /* hilo: limb l is multiplied by 2^(l*shift) */
ATTR(bits, INT, "")             /* scaled integers: |x| < 2^bits */
ATTR(step, INT, "")             /* slices: bits of one slice */
ATTR(reconstruct, WORD,
     LIMBER_WORDS(LIMBER_RECONSTRUCTIONS)) /* combine: how accumulators become one value */
ATTR(moduli, LIST, "")             /* residues, crt: pairwise coprime, <= 4096 */
ATTR(uncertain, INT, "")             /* combine: |error| < 2^uncertain; see docs/ir.md */
ATTR(index, INT, "")             /* arg: which operand of the call */
ATTR(emin, INT, "")             /* mask: |x| >= 2^emin for every nonzero x */
ATTR(emax, INT, "")             /* mask: |x| < 2^(emax+1) */
ATTR(spread, INT, "") /* mask: largest emax-emin of one line (row of A, column of B) */
ATTR(width, INT, "") /* mask: largest emax-lsb+1 of one line: bits of its scaled integers */
ATTR(sig, INT, "") /* mask: largest number of significant bits of one element */
ATTR(sign, WORD, LIMBER_WORDS(LIMBER_SIGNS)) /* mask, limbs: negative values occur or not */
ATTR(special, INT, "") /* mask: 1 when NaN or Inf occur */
/* mask: bits of scaled integers if all lines share one scale; absent: too many to be useful */
ATTR(reach, INT, "")
ATTR(unit, WORD, LIMBER_WORDS(LIMBER_UNITS)) /* products: what multiplies and adds */
ATTR(chunk, INT, "") /* products: longest chain in one accumulator of the unit */
ATTR(sums, WORD, LIMBER_WORDS(LIMBER_SUMS)) /* products: how floats are summed */
ATTR(tile, LIST, "") /* products: mr, nr, group, mb, nb, kc */
ATTR(split, WORD, LIMBER_WORDS(LIMBER_SPLITS)) /* products: where hilo limbs are made */
ATTR(alpha, WORD, LIMBER_WORDS(LIMBER_ALPHAS)) /* epilogue: 1, or given with the call */
ATTR(beta, WORD, LIMBER_WORDS(LIMBER_BETAS)) /* epilogue: 0, or given with the call */
ATTR(wrap, INT, "") /* epilogue, integers: 1 wraps, 0 reports what does not fit */
ATTR(integral, INT, "") /* epilogue, integers: 1 reports fractions as not fitting; else rounds */
#undef ATTR
