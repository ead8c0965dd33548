/* SPDX-License-Identifier: BSD-3-Clause
 * Usual other names of formats.
 *
 * limber_format_named accepts these names in addition to the names of LIMBER_FORMATS, so every text
 * that names a format may use them.  Limber itself prints the names of LIMBER_FORMATS.
 *
 * Names that mean different formats in different programs are left out: "float" (32 bits in C, 64
 * in Python), "float128" (80 bits in NumPy on x86-64), "float8_e4m3" (with infinities in some
 * libraries), "int" and "long". */
#ifndef LIMBER_NAMES_H
#define LIMBER_NAMES_H

/* ROW(NAME, "name"): NAME is the name of a row of LIMBER_FORMATS. */
/* clang-format off */
#define LIMBER_FORMAT_NAMES(ROW) \
    ROW(F16, "fp16") ROW(F16, "float16") ROW(F16, "binary16") ROW(F16, "half") \
    ROW(BF16, "bfloat16") \
    ROW(TF32, "tensorfloat32") \
    ROW(E4M3, "e4m3fn") ROW(E4M3, "float8_e4m3fn") ROW(E4M3, "fp8_e4m3") \
    ROW(E5M2, "float8_e5m2") ROW(E5M2, "fp8_e5m2") \
    ROW(E4M3FNUZ, "float8_e4m3fnuz") ROW(E4M3FNUZ, "fp8_e4m3fnuz") \
    ROW(E5M2FNUZ, "float8_e5m2fnuz") ROW(E5M2FNUZ, "fp8_e5m2fnuz") \
    ROW(E3M2, "e3m2fn") ROW(E3M2, "float6_e3m2fn") ROW(E3M2, "fp6_e3m2") \
    ROW(E2M3, "e2m3fn") ROW(E2M3, "float6_e2m3fn") ROW(E2M3, "fp6_e2m3") \
    ROW(E2M1, "e2m1fn") ROW(E2M1, "float4_e2m1fn") ROW(E2M1, "fp4_e2m1") \
    ROW(F32, "fp32") ROW(F32, "float32") ROW(F32, "binary32") ROW(F32, "single") \
    ROW(F64, "fp64") ROW(F64, "float64") ROW(F64, "binary64") ROW(F64, "double") \
    ROW(F128, "fp128") ROW(F128, "binary128") ROW(F128, "quad") \
    ROW(DD, "double-double") \
    ROW(I8, "int8") ROW(I8, "s8") \
    ROW(I16, "int16") ROW(I16, "s16") \
    ROW(I32, "int32") ROW(I32, "s32") \
    ROW(I64, "int64") ROW(I64, "s64") \
    ROW(U8, "uint8") \
    ROW(I4, "int4") ROW(I4, "s4") \
    ROW(I2, "int2") ROW(I2, "s2") \
    ROW(E8M0, "e8m0fnu") ROW(E8M0, "float8_e8m0fnu")
/* clang-format on */

#endif
