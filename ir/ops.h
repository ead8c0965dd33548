/* SPDX-License-Identifier: BSD-3-Clause
 * Every operation of the IR.  Define OP, then include this file, which undefines OP again.
 *
 *   OP(name, least, most, attributes, flags)
 *     least, most numbers of operands
 *     attributes  attributes that it can have, in the order in which they are printed
 *     EXACT       adds no error, whatever the data
 *     MANY        gives a set of limbs or accumulators ("x3" in its type)
 *     ROWS        has a product table */

/* Operands, with what a scan found (emin to reach).  An operand that was not scanned has none of
 * these attributes. */
OP(arg, 0, 0,
   A(index) | A(emin) | A(emax) | A(spread) | A(width) | A(sig) | A(sign) | A(special) | A(reach),
   EXACT)

/* Problems, as a caller states them.  The pass `split` replaces them. */
OP(gemm, 2, 2, 0, 0)
OP(conv, 2, 2, A(stride) | A(pad) | A(dilate) | A(groups) | A(layout) | A(direction), 0)

/* Index maps of a convolution: views, which copy nothing.  What they map depends on the direction:
 * see the table in ir/conv.h. */
OP(patches, 1, 1, A(stride) | A(pad) | A(dilate) | A(groups) | A(layout) | A(direction) | A(order),
   EXACT)  /* the image as a k x n matrix */
/* reads the filters as an m x k matrix */
OP(filters, 1, 1, A(groups) | A(layout) | A(direction) | A(order), EXACT)
/* stores an m x n matrix as the result's tensor */
OP(image, 1, 1, A(groups) | A(layout) | A(direction), EXACT)

/* Limbs: operands become limbs, pieces that a unit can multiply. */
OP(whole, 1, 1, 0, MANY)   /* one limb: the elements, converted */
OP(hilo, 1, 1, A(axis) | A(top) | A(shift), MANY)
OP(slices, 1, 1, A(axis) | A(bits) | A(step) | A(sign), MANY)
OP(quantize, 1, 1, A(axis), MANY)   /* elements as a simulated unit loads them */
OP(residues, 1, 1, A(axis) | A(bits) | A(moduli) | A(sign), MANY)

/* `products` are sums of products of limbs, which a table lists; `combine` computes the value
 * that these sums represent. */
OP(products, 2, 2, A(unit) | A(chunk) | A(sums) | A(joins) | A(tile) | A(split), MANY | ROWS)
OP(combine, 1, 1, A(reconstruct) | A(moduli) | A(uncertain), 0)

/* alpha x + beta c.  If x is exact, the result is rounded once, to its format. */
OP(epilogue, 1, 2, A(alpha) | A(beta) | A(wrap) | A(integral), 0)

#undef OP
