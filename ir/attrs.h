/* SPDX-License-Identifier: BSD-3-Clause
 * Every attribute that an operation of the IR may carry, once, in the order in which they are
 * printed; emin to special stay together, as the engine copies them.  Define ATTR, include.
 *
 *   ATTR(name, kind, words)
 *     kind   INT a number, LIST numbers with commas, WORD one of the words "a|b|c"        */
ATTR(stride, LIST, "")             /* conv2d: down, right */
ATTR(pad, LIST, "")             /* conv2d: top, bottom, left, right */
ATTR(dilate, LIST, "")             /* conv2d: down, right */
ATTR(groups, INT, "")             /* conv2d */
ATTR(layout, WORD, "nchw|nhwc")    /* conv2d and its maps */
ATTR(order, WORD, "crs|rsc")      /* patches, filters: what runs along k, slowest first */
ATTR(axis, WORD, "none|row|col|all")  /* lines that share one power-of-two scale */
ATTR(top, INT, "")             /* hilo: scaled |x| < 2^top */
ATTR(shift, INT, "")             /* hilo: limb l is multiplied by 2^(l*shift) */
ATTR(bits, INT, "")             /* scaled integers: |x| < 2^bits */
ATTR(step, INT, "")             /* slices: bits of one slice */
ATTR(reconstruct, WORD, "sum|shift|crt")    /* combine: how accumulators become one value */
ATTR(moduli, LIST, "")             /* residues, crt: pairwise coprime, <= 256 */
ATTR(uncertain, INT, "")             /* combine: off by less than 2^doubt; see docs/ir.md */
ATTR(index, INT, "")             /* arg: which operand of the call */
ATTR(emin, INT, "")             /* mask: |x| >= 2^emin for every nonzero x */
ATTR(emax, INT, "")             /* mask: |x| < 2^(emax+1) */
ATTR(spread, INT, "") /* mask: largest emax-emin of one line (row of A, column of B) */
ATTR(width, INT, "") /* mask: largest emax-lsb+1 of one line: bits of its integers */
ATTR(sig, INT, "") /* mask: most significant bits of one element */
ATTR(sign, WORD, "signed|unsigned") /* mask, limbs: negative values occur or not */
ATTR(special, INT, "") /* mask: 1 when NaN or Inf occur */
ATTR(unit, WORD, "f64|f32|f16|bf16|tf32|e4m3|e5m2|i8|exact|model") /* products: ir.h */
ATTR(chunk, INT, "") /* products: longest chain in one accumulator of the unit */
ATTR(sums, WORD, "fma|v100|t4|a100|ada|h100|b200") /* products: how floats are summed */
ATTR(tile, LIST, "") /* products: mr, nr, group, mb, nb, kc */
ATTR(split, WORD, "ahead|inside") /* products: where hilo limbs are made */
ATTR(alpha, WORD, "one|arg") /* epilogue */
ATTR(beta, WORD, "zero|arg") /* epilogue */
ATTR(wrap, INT, "") /* epilogue, integers: 1 wraps, 0 reports what does not fit */
#undef ATTR
