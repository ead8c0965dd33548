/* SPDX-License-Identifier: BSD-3-Clause
 * Every named number format, once.  Define FORMAT, include.
 *
 *   FORMAT(name, kind, exponent bits, fraction bits, bias, flags, bytes, carried)            */
FORMAT(f16, FLOAT, 5, 10, 15, 0, 2, 0)  /* IEEE 754-2019 binary16 */
FORMAT(bf16, FLOAT, 8, 7, 127, 0, 2, 0)  /* bfloat16: binary32's upper half */
FORMAT(tf32, FLOAT, 8, 10, 127, 0, 4, 1)  /* NVIDIA A100 white paper */
FORMAT(e4m3, FLOAT, 4, 3, 7, LIMBER_FORMAT_NO_INF, 1, 0)  /* OCP FP8 1.0: largest 448 */
FORMAT(e5m2, FLOAT, 5, 2, 15, 0, 1, 0)  /* OCP FP8 1.0 */
FORMAT(e3m2, FLOAT, 3, 2, 3, LIMBER_FORMAT_FINITE, 1, 0)  /* OCP MX 1.0 FP6: largest 28 */
FORMAT(e2m3, FLOAT, 2, 3, 1, LIMBER_FORMAT_FINITE, 1, 0)  /* OCP MX 1.0 FP6: largest 7.5 */
FORMAT(e2m1, FLOAT, 2, 1, 1, LIMBER_FORMAT_FINITE, 1, 0)  /* OCP MX 1.0 FP4: largest 6 */
FORMAT(f32, FLOAT, 8, 23, 127, 0, 4, 0)  /* binary32 */
FORMAT(f64, FLOAT, 11, 52, 1023, 0, 8, 0)  /* binary64 */
FORMAT(f128, FLOAT, 15, 112, 16383, 0, 16, 0)  /* binary128 */
FORMAT(dd, DD, 0, 0, 0, 0, 16, 0)  /* two binary64, high first */
FORMAT(i8, INT, 0, 0, 0, 0, 1, 0)
FORMAT(i16, INT, 0, 0, 0, 0, 2, 0)
FORMAT(i32, INT, 0, 0, 0, 0, 4, 0)
FORMAT(i64, INT, 0, 0, 0, 0, 8, 0)
FORMAT(u8, UINT, 0, 0, 0, 0, 1, 0)
FORMAT(exact, EXACT, 0, 0, 0, 0, 0, 0)  /* inside plans only */
#undef FORMAT
