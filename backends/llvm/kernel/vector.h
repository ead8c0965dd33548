/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of 64 bytes, on all CPUs: LLVM's code generator splits them if registers are shorter.
 * Kernels are vectorised by hand, so that they need no vectoriser at run time. */
#ifndef LIMBER_KERNEL_VECTOR_H
#define LIMBER_KERNEL_VECTOR_H

typedef float v16f __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef uint32_t v16u __attribute__((vector_size(64)));
typedef int8_t v16c __attribute__((vector_size(16)));
typedef uint8_t v16b __attribute__((vector_size(16)));
typedef double v8d __attribute__((vector_size(64)));
typedef int64_t v8l __attribute__((vector_size(64)));
typedef uint64_t v8u __attribute__((vector_size(64)));
typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef int32_t v2i __attribute__((vector_size(8)));
typedef int16_t v8h __attribute__((vector_size(16)));
typedef int16_t v16h __attribute__((vector_size(32)));
typedef int8_t v8c __attribute__((vector_size(8)));
typedef uint8_t v8b __attribute__((vector_size(8)));

/* UNROLL is only for loops over arrays that stay in registers.  Unrolling other loops would only
 * cost time to compile. */
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLL _Pragma("clang loop unroll(disable)")

#define LOAD(type, from) ({                                                                     \
    type loaded_;                                                                               \
    __builtin_memcpy(&loaded_, (from), sizeof loaded_);                                         \
    loaded_;                                                                                    \
})
#define STORE(to, v) __builtin_memcpy((to), &(v), sizeof(v))
/* TO converts each lane.  LOW and HIGH are the halves of a vector, which JOIN joins. */
#define TO(type, v) __builtin_convertvector((v), type)
#define LOW(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define JOIN(a, b)                                                                              \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#define ROUND(a) __builtin_elementwise_rint(a)
#define FLOOR(a) __builtin_elementwise_floor(a)
/* Returns the integer nearest to a * b, for |a b| < 2^22. */
#define ROUND_PRODUCT(a, b) (FMA(a, b, all_f(0x1.8p23f)) - 0x1.8p23f)
#define TRUNC(a) __builtin_elementwise_trunc(a)
#define ANY(mask) (__builtin_reduce_or(mask) != 0)

/* Returns a vector with x in all lanes. */
FLAT v8d all_d(double x)
{
    return (v8d){ x, x, x, x, x, x, x, x };
}

/* Returns a vector with x in all lanes. */
FLAT v16f all_f(float x)
{
    return (v16f){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
}

/* Returns a vector with x in all lanes. */
FLAT v16i all_i(int32_t x)
{
    return (v16i){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
}

/* Returns a vector with x in all lanes. */
FLAT v8l all_l(int64_t x)
{
    return (v8l){ x, x, x, x, x, x, x, x };
}

/* Returns 2^e in each lane, for -1023 < e < 1024. */
FLAT v8d powers_of_two(v8l e)
{
    return (v8d)((e + 1023) << 52);
}

#endif
