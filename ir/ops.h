/* SPDX-License-Identifier: BSD-3-Clause
 * Every operation of the IR, once.  Define OP, include; OP is undefined again at the end.
 *
 *   OP(name, least, most, attributes, flags)
 *     least, most operand counts
 *     attributes  those that it must carry, in the order in which they are printed
 *     EXACT       adds no error, whatever the data
 *     MANY        gives a set of limbs or accumulators ("x3" in its type)
 *     ROWS        owns a product table                                                       */

/* operands, with what the scan found (absent attributes: not scanned) */
OP(arg, 0, 0,
   A(index) | A(emin) | A(emax) | A(spread) | A(width) | A(sig) | A(sign) | A(special) | A(reach),
   EXACT)

/* problems: what a caller states; none is left after split */
OP(gemm, 2, 2, 0, 0)
OP(conv, 2, 2, A(stride) | A(pad) | A(dilate) | A(groups) | A(layout) | A(direction), 0)

/* index maps of convolution: views, nothing is copied.  Backward `data` and `filter` see other
 * tensors through them, by other maps. */
OP(patches, 1, 1, A(stride) | A(pad) | A(dilate) | A(groups) | A(layout) | A(direction) | A(order),
   EXACT)  /* x as k x n */
OP(filters, 1, 1, A(groups) | A(layout) | A(direction) | A(order), EXACT)  /* w as m x k */
OP(image, 1, 1, A(groups) | A(layout) | A(direction), EXACT)  /* m x n as y */

/* limbs: operands become pieces that a unit can multiply */
OP(whole, 1, 1, 0, MANY)   /* converted as it is */
OP(hilo, 1, 1, A(axis) | A(top) | A(shift), MANY)
OP(slices, 1, 1, A(axis) | A(bits) | A(step) | A(sign), MANY)
OP(quantize, 1, 1, A(axis), MANY)   /* rounded and scaled as the simulated unit loads it */
OP(residues, 1, 1, A(axis) | A(bits) | A(moduli) | A(sign), MANY)

/* products: the sums of the table's limb products, and what the products left out sum up to */
OP(products, 2, 2, A(unit) | A(chunk) | A(sums) | A(tile) | A(split), MANY | ROWS)
OP(combine, 1, 1, A(reconstruct) | A(moduli) | A(uncertain), 0)

/* alpha x + beta c0, rounded once to the result's format when x is exact */
OP(epilogue, 1, 2, A(alpha) | A(beta) | A(wrap) | A(integral), 0)

#undef OP
