/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions on arrays of small floats.
 *
 *     limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
 *     e.function = LIMBER_FUNCTION_GELU;
 *     e.from = e.to = LIMBER_BF16;
 *     e.src = x, e.dst = y, e.count = n;
 *     limber_apply(ctx, &e);
 *
 * Results in formats of 8 and 16 bits are correctly rounded in every direction: the exact value of
 * the function, rounded once.  Tests hold every operand of 8 and 16 bits to that; of wider operands
 * a value nearer to a middle of the format than 2^-50 of itself may go to the other side (about one
 * in 2^38).  Formats (1,e,m) with at most 16 fraction bits: the same.  Results in binary32
 * and tf32 are off by less than 0.501 ulp, in binary64 by the bounds of docs/operators.md.  All
 * CPUs, threads and lengths give the same bits. */
#ifndef LIMBER_OPS_H
#define LIMBER_OPS_H

#include "limber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every function, once: ROW(NAME, name, parameters, what it computes).  The parameters p and q are
 * those of limber_elementwise. */
/* clang-format off */
#define LIMBER_FUNCTIONS(ROW) \
    ROW(CAST, cast, 0, "x") \
    ROW(SIN, sin, 0, "sin x, x in radians of any size") \
    ROW(COS, cos, 0, "cos x") \
    ROW(TAN, tan, 0, "tan x") \
    ROW(ASIN, asin, 0, "arc sine; NaN beyond [-1, 1]") \
    ROW(ACOS, acos, 0, "arc cosine; NaN beyond [-1, 1]") \
    ROW(ATAN, atan, 0, "arc tangent") \
    ROW(SINH, sinh, 0, "hyperbolic sine") \
    ROW(COSH, cosh, 0, "hyperbolic cosine") \
    ROW(TANH, tanh, 0, "hyperbolic tangent") \
    ROW(ASINH, asinh, 0, "inverse of sinh") \
    ROW(ACOSH, acosh, 0, "inverse of cosh; NaN below 1") \
    ROW(ATANH, atanh, 0, "inverse of tanh; infinite at -1 and 1, NaN beyond") \
    ROW(EXP, exp, 0, "e^x") \
    ROW(EXPM1, expm1, 0, "e^x - 1") \
    ROW(LOG, log, 0, "natural logarithm; -infinity at 0, NaN below") \
    ROW(LOG2, log2, 0, "logarithm to base 2") \
    ROW(LOG10, log10, 0, "logarithm to base 10") \
    ROW(LOG1P, log1p, 0, "log(1 + x)") \
    ROW(SQRT, sqrt, 0, "square root; NaN below 0") \
    ROW(RSQRT, rsqrt, 0, "1 / sqrt x; infinite at 0") \
    ROW(RECIPROCAL, reciprocal, 0, "1 / x") \
    ROW(SQUARE, square, 0, "x^2") \
    ROW(ABS, abs, 0, "|x|") \
    ROW(NEG, neg, 0, "-x") \
    ROW(FLOOR, floor, 0, "the largest integer that is not above x") \
    ROW(CEIL, ceil, 0, "the smallest integer that is not below x") \
    ROW(ROUND, round, 0, "the nearest integer; halves to the even one") \
    ROW(TRUNC, trunc, 0, "the integer next to x toward zero") \
    ROW(RELU, relu, 0, "0 below 0, else x") \
    ROW(LEAKY_RELU, leaky_relu, 1, "p x below 0, else x") \
    ROW(GELU, gelu, 0, "x times the normal distribution's P(X <= x)") \
    ROW(GELU_TANH, gelu_tanh, 0, "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))") \
    ROW(SILU, silu, 0, "x / (1 + e^-x)") \
    ROW(SIGMOID, sigmoid, 0, "1 / (1 + e^-x)") \
    ROW(LOGSIGMOID, logsigmoid, 0, "-log(1 + e^-x)") \
    ROW(SOFTSIGN, softsign, 0, "x / (1 + |x|)") \
    ROW(SOFTPLUS, softplus, 0, "log(1 + e^x)") \
    ROW(TANH_SHRINK, tanh_shrink, 0, "x - tanh x") \
    ROW(HARDSWISH, hardswish, 0, "x min(max(x + 3, 0), 6) / 6") \
    ROW(CLAMP, clamp, 2, "p below p, q above q, else x") \
    ROW(ISNAN, isnan, 0, "1 for NaN, else 0") \
    ROW(ISINF, isinf, 0, "-1 or 1 for an infinity, else 0")
/* clang-format on */

typedef enum limber_function {
#define LIMBER_FUNCTION_ROW(NAME, name, parameters, meaning) LIMBER_FUNCTION_##NAME,
    LIMBER_FUNCTIONS(LIMBER_FUNCTION_ROW)
#undef LIMBER_FUNCTION_ROW
        LIMBER_FUNCTION_COUNT
} limber_function;

/* The function called name, as in the list above.  BAD_ARGUMENT when there is none. */
LIMBER_API limber_status limber_function_named(const char *name, limber_function *out);

/* What function i is called, what it computes and how many parameters it has, from 0 on; NULL
 * behind the last one.  meaning and parameters may be NULL. */
LIMBER_API const char *limber_function_at(int i, const char **meaning, int *parameters);

/* Where a function is evaluated before its result is rounded to `to`. */
typedef enum limber_compute {
    LIMBER_COMPUTE_EXACT, /* nowhere: the exact value is rounded once */
    LIMBER_COMPUTE_F32 /* its nearest binary32, which is rounded again, as most frameworks do */
} limber_compute;

/* A call of limber_apply.  Start from LIMBER_ELEMENTWISE_INIT. */
typedef struct limber_elementwise {
    size_t size; /* sizeof(limber_elementwise) */
    limber_function function;
    limber_rounding rounding; /* rounding of results; not STOCHASTIC */
    limber_compute compute;
    int nan_to_zero; /* 1: `to` may be a format without NaN (e2m1 and so on), which gets 0 */
    limber_format from, to; /* floats whose values are values of binary64.  cast, and results of
                               isnan and isinf: any format */
    double p, q; /* the function's parameters */
    const void *src;
    void *dst; /* may be src where both formats have elements of one size; else apart */
    size_t count; /* elements of both, side by side */
    const limber_queue *queue; /* for arrays on a device: the stream to use; NULL: the call waits */
} limber_elementwise;
#define LIMBER_ELEMENTWISE_INIT LIMBER_SIZED(limber_elementwise)

/* dst[i] = function(src[i]) for all i, rounded once.  NaN gives NaN (and 0 where to has none, if
 * nan_to_zero allows that); results beyond a format follow limber_convert.  ctx: its threads work;
 * NULL: the caller alone.  Both arrays may lie in the memory of ctx's device, which computes then:
 * the same bits.  There is one NaN, as limber_convert stores it: positive, quiet, without payload.
 * On failure dst is untouched.
 * BAD_ARGUMENT: an unknown function, rounding or compute; a format that the function is not defined
 * on; a parameter that is NaN, or p > q of clamp; a NULL or overlapping array; one array on a
 * device and one not; a queue for arrays in host memory. */
LIMBER_API limber_status limber_apply(limber_context *ctx, const limber_elementwise *e);

/* ---- reductions ------------------------------------------------------------------------------ */

/* The first four reduce `count` numbers to one; the others give `count` numbers. */
typedef enum limber_reduction {
    LIMBER_REDUCTION_SUM,
    LIMBER_REDUCTION_MEAN, /* sum / count */
    LIMBER_REDUCTION_MAX, /* NaN if an element is NaN; -infinity if count is 0 */
    LIMBER_REDUCTION_VARIANCE, /* sum of (x - mean)^2 / (count - correction) */
    LIMBER_REDUCTION_SOFTMAX, /* e^(x - max) / sum of these */
    LIMBER_REDUCTION_LAYER_NORM, /* (x - mean) / sqrt(variance + epsilon) scale + shift */
    LIMBER_REDUCTION_RMS_NORM, /* x / sqrt(mean of x^2 + epsilon) scale + shift */
    LIMBER_REDUCTION_COUNT
} limber_reduction;

/* How sums are carried. */
typedef enum limber_carry {
    LIMBER_CARRY_EXACT, /* sums are exact, other steps in binary64.  A sum, a mean and a maximum are
                           the exact value, rounded once */
    LIMBER_CARRY_F32, /* every step in binary32.  Sixteen sums, of the elements i, i + 16, ..., are
                         added: 8 to 8, then 4 to 4, 2 to 2 and 1 to 1 */
    LIMBER_CARRY_COMPENSATED, /* sixteen sums in binary32, each with a compensation term
                                 (Neumaier); other steps are rounded to binary32 */
    LIMBER_CARRY_STORAGE /* every step is rounded to `from`, one element after the other, as a unit
                            does that has nothing wider */
} limber_carry;

/* A call of limber_reduce.  Start from LIMBER_REDUCE_INIT.  src is an array [outer][count][inner],
 * dense; dst is [outer][inner], or of src's shape. */
typedef struct limber_reduce_call {
    size_t size; /* sizeof(limber_reduce_call) */
    limber_reduction reduction;
    limber_carry carry;
    limber_rounding rounding; /* rounding of results; not STOCHASTIC */
    int correction; /* what a variance subtracts from the count: 0, or 1 for a sample's */
    limber_format from, to; /* floats whose values are values of binary64 */
    double epsilon; /* added under the root of norms; not negative */
    size_t outer, count, inner;
    const void *src;
    void *dst; /* apart from src */
    const void *scale, *shift; /* count elements in `from` each; NULL: 1, 0 */
    uint64_t *swallowed; /* out, for sums and means in F32 and STORAGE: nonzero elements whose
                            addition left the sum unchanged; NULL: not counted */
    const void *const *arrays; /* replace src: `count` arrays of `inner` elements each, with
                                  outer = 1; so the sum is add_n.  dst may be one of them where
                                  results are one for many, of from's size.  NULL: src */
    int nan_to_zero; /* 1: `to`, and `from` where steps are rounded to it, may be a format without
                        NaN (e2m1 and so on), which gets 0 */
} limber_reduce_call;
#define LIMBER_REDUCE_INIT LIMBER_SIZED(limber_reduce_call) /* outer, count and inner are 0 */

/* Reduces along `count`.  ctx: its threads work; NULL: the caller alone.  The bits depend neither
 * on threads nor on the machine, those of NaN either.  All arrays lie in host memory.  On failure
 * dst is untouched.
 * BAD_ARGUMENT: an unknown word; a format that is no float or wider than binary64, or has no NaN;
 * sizes that overflow; a NULL or overlapping array; a negative epsilon; count not above correction;
 * src and arrays; arrays with another outer than 1. */
LIMBER_API limber_status limber_reduce(limber_context *ctx, const limber_reduce_call *r);

/* ---- epilogues ------------------------------------------------------------------------------- */

/* How the numbers of an epilogue's input belong to the elements of C. */
typedef enum limber_input_shape {
    LIMBER_INPUT_SCALAR, /* one number for all elements */
    LIMBER_INPUT_ROW, /* one for each row of C: each channel of a convolution's result, each filter
                         of a gradient of filters */
    LIMBER_INPUT_COLUMN, /* one for each column of C; not of convolutions */
    LIMBER_INPUT_MATRIX /* one for each element of C */
} limber_input_shape;

/* Numbers that steps read.  Start from LIMBER_EPILOGUE_INPUT_INIT. */
typedef struct limber_epilogue_input {
    size_t size; /* sizeof(limber_epilogue_input) */
    const char *name; /* letters, digits and _; not x */
    limber_input_shape shape;
    limber_format format; /* a float whose values are values of binary64, or an integer of at most
                             32 bits */
    const void *data; /* where C is, in host memory or on the device; apart from C, unless it is the
                         matrix C itself */
    /* strides of a MATRIX, as in limber_matrix; 0 for convolutions, whose input is dense in C's
     * layout */
    int64_t row_stride, col_stride;
    int64_t
        step; /* in a batch: numbers from one product's input to the next's; 0: all read the same */
} limber_epilogue_input;
#define LIMBER_EPILOGUE_INPUT_INIT LIMBER_SIZED(limber_epilogue_input)

/* What happens to x = alpha A B + beta C before it is stored:
 *
 *     limber_epilogue_input bias = LIMBER_EPILOGUE_INPUT_INIT;
 *     limber_epilogue e = LIMBER_EPILOGUE_INIT;
 *     bias.name = "bias", bias.shape = LIMBER_INPUT_COLUMN;
 *     bias.format = LIMBER_F32, bias.data = b;
 *     e.steps = "%1 = add %x %bias\n"
 *               "%2 = gelu %1\n";
 *     e.inputs = &bias, e.input_count = 1;
 *     problem.epilogue = &e;
 *
 * Steps     one a line, `%name = operation operands`.  Operands are %x, inputs, earlier lines and
 *           numbers.  Operations: add sub mul div max min of two operands, and every function of
 *           LIMBER_FUNCTIONS of one, with p=NUMBER q=NUMBER behind it (leaky_relu without p: 0.01).
 *           `;` starts a comment.  The last line is stored in C; without a line x is.  At most 16.
 *           Every line but the last is read by a later one; an input need not be read, so that
 *           several texts can share their inputs.
 * Formats   steps compute in binary32 where C's format has no value beyond it, and C is no integer
 *           of more than 16 bits; else in binary64.  Numbers of the text and of inputs are rounded
 *           to that; a number of the text that is beyond it is refused (infinity is `inf`).  Each
 *           step is rounded once, to nearest; max and min give NaN where there is
 *           one.  Functions as limber_apply has them.  The last result is converted to C's format
 *           as limber_convert does it: integers are rounded to nearest even and saturate.
 * Contract  holds for x in the format of the steps, so `correct` rounds x once, before the steps.
 *           Where the first step adds an input to %x and beta is 0, x is alpha A B + that input
 *           under the contracts `correct` and `bits`.  Where C is a float and steps (behind that
 *           one, whose input's numbers are numbers of C's format) only select (relu, abs, neg, and
 *           clamp, max and min with numbers of C's format), x is rounded to C's format itself under
 *           all contracts but native, so that `correct` rounds the whole once.
 * Memory    where x has not C's format, begins with an input, or an input is C, the call keeps x in
 *           memory of its own, by the context's allocator, beside the workspace.
 * Errors    as limber_run; BAD_ARGUMENT names the line and the word of the text, or the input.  On
 *           failure C is untouched.  Many threads may use one epilogue.
 * Serves    real GEMMs, batches and convolutions, of every scheme and backend; C is neither
 *           binary128 nor a double-double, and the contract not `exact`.  Where C lies on a device,
 *           steps run there, in the order of problem.queue; into a stream that is being captured
 *           only if the call needs no memory for x.  Steps give one NaN, as limber_apply does. */
typedef struct limber_epilogue {
    size_t size; /* sizeof(limber_epilogue) */
    const char *steps; /* NULL: none */
    const limber_epilogue_input *inputs; /* input_count of them, at most 8, each of inputs[0].size
                                            bytes; read during the call */
    int input_count;
    int nan_to_zero; /* 1: C may be of a float without NaN (e2m1 and so on), which gets 0 */
} limber_epilogue;
#define LIMBER_EPILOGUE_INIT LIMBER_SIZED(limber_epilogue)

#ifdef __cplusplus
}
#endif
#endif
