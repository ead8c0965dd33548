/* SPDX-License-Identifier: BSD-3-Clause
 * Every enumeration of the IR, each as a list from which constants, words of the text form and
 * other columns are made.  F(prefix, word, columns...) is a row; its constant is PREFIX_word. */
#ifndef LIMBER_WORDS_H
#define LIMBER_WORDS_H

/* clang-format off */
#define LIMBER_LAYOUTS(F) F(LAYOUT, nchw) F(LAYOUT, nhwc)
#define LIMBER_DIRECTIONS(F) F(DIRECTION, forward) F(DIRECTION, data) F(DIRECTION, filter)
#define LIMBER_ORDERS(F) F(ORDER, crs) F(ORDER, rsc)
#define LIMBER_AXES(F) F(AXIS, none) F(AXIS, row) F(AXIS, col) F(AXIS, all)
#define LIMBER_RECONSTRUCTIONS(F) F(RECONSTRUCT, sum) F(RECONSTRUCT, shift) F(RECONSTRUCT, crt)
#define LIMBER_SIGNS(F) F(SIGN, signed) F(SIGN, unsigned) F(SIGN, balanced)
#define LIMBER_SPLITS(F) F(SPLIT, ahead) F(SPLIT, inside)
#define LIMBER_SUMS(F) \
    F(SUMS, fma) F(SUMS, v100) F(SUMS, t4) F(SUMS, a100) F(SUMS, ada) F(SUMS, h100) F(SUMS, b200) \
    F(SUMS, any)
#define LIMBER_ALPHAS(F) F(ALPHA, one) F(ALPHA, arg)
#define LIMBER_BETAS(F) F(BETA, zero) F(BETA, arg)

/* The promise of a contract, with its number in the public interface. */
#define LIMBER_PROMISES(F) \
    F(PROMISE, native, LIMBER_CONTRACT_NATIVE) \
    F(PROMISE, bits, LIMBER_CONTRACT_BITS) \
    F(PROMISE, correct, LIMBER_CONTRACT_CORRECT) \
    F(PROMISE, exact, LIMBER_CONTRACT_EXACT) \
    F(PROMISE, fast, LIMBER_CONTRACT_FAST) \
    F(PROMISE, simulate, LIMBER_CONTRACT_SIMULATE) \
    F(PROMISE, reproducible, LIMBER_CONTRACT_REPRODUCIBLE)

/* Units: what a machine multiplies, and in what it sums.  A chain of at most `chunk` products is
 * summed in the accumulator, in the order of k, from +0.  Float chains are acc = round(acc + a*b)
 * with one rounding (fused multiply-adds); integer chains are exact.  Chains are then added to a
 * total: float totals in the accumulator's format in the order of k, i64 totals exactly.  Columns:
 * format of limbs (i8 takes i8 and u8 in any mix; i16 takes residues only); format of the
 * accumulator; integers up to 2^exact are exact in the accumulator (0: all are); true if limbs are
 * floats that tensor cores multiply; the attribute sums= names their order of sums. */
#define LIMBER_UNITS(F) \
    F(UNIT, f64, "f64", "f64", 53, false) \
    F(UNIT, f32, "f32", "f32", 24, false) \
    F(UNIT, f16, "f16", "f32", 24, true) \
    F(UNIT, bf16, "bf16", "f32", 24, true) \
    F(UNIT, tf32, "tf32", "f32", 24, true) \
    F(UNIT, e4m3, "e4m3", "f32", 14, true)  /* tensor cores keep 14 bits of sums */ \
    F(UNIT, e5m2, "e5m2", "f32", 14, true) \
    F(UNIT, i8, "i8", "i32", 31, false) \
    F(UNIT, exact, "exact", "exact", 0, false)  /* takes any format */ \
    F(UNIT, model, "f32", "f32", 24, false)  /* plan.model says what it computes */ \
    F(UNIT, i16, "i16", "i32", 31, false) \
    F(UNIT, f16d, "f16", "f64", 53, false)  /* no machine has it; proposed for Ape */

/* Kinds of limbs that backends make, with the operation that makes them; OP_count if no operation
 * does. */
#define LIMBER_LIMB_KINDS(F) \
    F(LIMB_KIND, whole, OP_whole) \
    F(LIMB_KIND, hilo, OP_hilo) \
    F(LIMB_KIND, slices, OP_slices) \
    F(LIMB_KIND, residues, OP_residues) \
    F(LIMB_KIND, unit, OP_quantize) \
    F(LIMB_KIND, half, OP_count)  /* for a unit that computes in vectors of binary16 */
/* clang-format on */

#define LIMBER_WORD_CONSTANT(prefix, word, ...) prefix##_##word,
#define LIMBER_WORD_NAME(prefix, word, ...) #word,
#define LIMBER_WORD_BAR(prefix, word, ...) "|" #word
/* The words of a list with bars between them: "a|b|c". */
#define LIMBER_WORDS(list) (&(list(LIMBER_WORD_BAR))[1])

#endif
