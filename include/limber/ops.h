/* SPDX-License-Identifier: BSD-3-Clause
 * Elementwise functions of arrays, reductions, and epilogues of products.
 *
 *     limber_elementwise e = LIMBER_ELEMENTWISE_INIT;
 *     e.function = LIMBER_FUNCTION_GELU;
 *     e.from = e.to = LIMBER_BF16;
 *     e.src = x, e.dst = y, e.count = n;
 *     limber_apply(ctx, &e);
 *
 * Results in formats of 8 and 16 bits are correctly rounded in every direction: the exact value of
 * the function, rounded once.  Tests check this for every operand of 8 and 16 bits.  For wider
 * operands, a value that is nearer than 2^-50 of itself to a midpoint of two results may be rounded
 * to the other one (about one value in 2^38).  The same holds for formats (1,e,m) with at most 16
 * fraction bits.  Errors are less than 0.501 ulp for results in binary32 and tf32, and within the
 * bounds of docs/operators.md for binary64.  All CPUs, numbers of threads and lengths of arrays
 * give the same bits. */
#ifndef LIMBER_OPS_H
#define LIMBER_OPS_H

#include "limber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every function, once: ROW(NAME, name, number of parameters, what it computes).  p and q are the
 * parameters of limber_elementwise. */
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

/* Finds the function with this name.  BAD_ARGUMENT if there is none. */
LIMBER_API limber_status limber_function_named(const char *name, limber_function *out);

/* Returns the name of function i, from 0; NULL past the last one.  *meaning: what it computes;
 * *parameters: how many parameters it has; either may be NULL. */
LIMBER_API const char *limber_function_at(int i, const char **meaning, int *parameters);

/* In which precision a function is evaluated before its result is rounded to `to`. */
typedef enum limber_compute {
    LIMBER_COMPUTE_EXACT, /* the exact value is rounded once */
    /* the nearest binary32 of the value is rounded again, as in most frameworks */
    LIMBER_COMPUTE_F32
} limber_compute;

/* A call of limber_apply.  Initialise it by LIMBER_ELEMENTWISE_INIT. */
typedef struct limber_elementwise {
    size_t size; /* sizeof(limber_elementwise) */
    limber_function function;
    limber_rounding rounding; /* rounding of the results; not STOCHASTIC */
    limber_compute compute;
    /* 1: `to` may be a format without NaN (e2m1 and so on); a result NaN is then stored as 0 */
    int nan_to_zero;
    /* Floats whose values binary64 can represent.  For cast, and for results of isnan and isinf:
     * any format. */
    limber_format from, to;
    double p, q; /* the function's parameters */
    const void *src;
    /* may be src if elements of both formats have the same size; else must not overlap it */
    void *dst;
    size_t count; /* number of elements of src and dst, which are contiguous */
    /* The stream, for arrays on a device.  If NULL, the call waits until dst is complete. */
    const limber_queue *queue;
} limber_elementwise;
#define LIMBER_ELEMENTWISE_INIT LIMBER_SIZED(limber_elementwise)

/* Computes dst[i] = function(src[i]) for all i, rounded once.  NaN gives NaN (or 0 if `to` has none
 * and nan_to_zero allows that).  Results beyond a format are converted as limber_convert does.
 * The threads of ctx compute, or only the caller's thread if ctx is NULL.  Both arrays may be in
 * the memory of ctx's device, which then computes the same bits.  The only NaN that is stored is
 * limber_convert's: positive, quiet, without payload.  On failure dst is unchanged.
 * BAD_ARGUMENT: an unknown function, rounding or compute; a format for which the function is not
 * defined; a parameter that is NaN, or p > q for clamp; a NULL or overlapping array; one array on a
 * device and one not; a queue for arrays in host memory. */
LIMBER_API limber_status limber_apply(limber_context *ctx, const limber_elementwise *e);

/* ---- reductions ------------------------------------------------------------------------------ */

/* The reductions that limber_reduce computes.  SUM, MEAN, MAX and VARIANCE give one result for
 * `count` numbers; SOFTMAX, LAYER_NORM and RMS_NORM give `count` results. */
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

/* In which precision sums are computed. */
typedef enum limber_carry {
    /* Sums are exact, other steps in binary64.  A sum, a mean and a maximum are the exact value,
     * rounded once. */
    LIMBER_CARRY_EXACT,
    /* Every step is in binary32.  Sum i of sixteen adds the elements i, i + 16, ...; at the end the
     * sums are added in pairs: 8 to 8, then 4 to 4, 2 to 2 and 1 to 1. */
    LIMBER_CARRY_F32,
    /* Sixteen sums in binary32, each with a compensation term (Neumaier).  Other steps are rounded
     * to binary32. */
    LIMBER_CARRY_COMPENSATED,
    /* Every step is rounded to the format `from`, one element after the other, as on a unit that
     * has no wider format. */
    LIMBER_CARRY_STORAGE
} limber_carry;

/* A call of limber_reduce.  Initialise it by LIMBER_REDUCE_INIT.  src is a dense array
 * [outer][count][inner]; dst is [outer][inner], or has the shape of src. */
typedef struct limber_reduce_call {
    size_t size; /* sizeof(limber_reduce_call) */
    limber_reduction reduction;
    limber_carry carry;
    limber_rounding rounding; /* rounding of the results; not STOCHASTIC */
    /* a variance divides by count - correction: 0, or 1 for the variance of a sample */
    int correction;
    limber_format from, to; /* floats whose values are values of binary64 */
    double epsilon; /* added under the root of norms; not negative */
    size_t outer, count, inner;
    const void *src;
    void *dst; /* must not overlap src */
    const void *scale, *shift; /* count elements each, in `from`; NULL for scale 1, shift 0 */
    /* Out, for sums and means with CARRY_F32 and CARRY_STORAGE: number of nonzero elements whose
     * addition left the sum unchanged.  If NULL, they are not counted. */
    uint64_t *swallowed;
    /* Replaces src: `count` arrays of `inner` elements each, with outer = 1; a sum then adds the
     * arrays element by element. dst may be one of these arrays if there is one result per column
     * and both formats have elements of one size.  If NULL, src is used. */
    const void *const *arrays;
    /* 1: `to`, and `from` if steps are rounded to it, may be a format without NaN (e2m1 and so on),
     * in which NaN becomes 0. */
    int nan_to_zero;
} limber_reduce_call;
#define LIMBER_REDUCE_INIT LIMBER_SIZED(limber_reduce_call) /* outer, count and inner are 0 */

/* Reduces along `count`.  The threads of ctx compute, or only the caller's thread if ctx is NULL.
 * The bits, those of NaN included, depend neither on threads nor on the machine.  All arrays are in
 * host memory.  On failure dst is unchanged.
 * BAD_ARGUMENT: an unknown enumerator; a format that is no float, has more than binary64, or has no
 * NaN; sizes that overflow; a NULL or overlapping array; a negative epsilon; count not above
 * correction; both src and arrays; arrays with outer other than 1. */
LIMBER_API limber_status limber_reduce(limber_context *ctx, const limber_reduce_call *r);

/* ---- epilogues ------------------------------------------------------------------------------- */

/* Which number of an epilogue's input is used for an element of C. */
typedef enum limber_input_shape {
    LIMBER_INPUT_SCALAR, /* one number for all elements */
    /* One number for each row of C: for each channel of a convolution's result, or for each filter
     * of a gradient of filters. */
    LIMBER_INPUT_ROW,
    LIMBER_INPUT_COLUMN, /* one number for each column of C; not for convolutions */
    LIMBER_INPUT_MATRIX /* one number for each element of C */
} limber_input_shape;

/* Numbers that the steps of an epilogue read.  Initialise it by LIMBER_EPILOGUE_INPUT_INIT. */
typedef struct limber_epilogue_input {
    size_t size; /* sizeof(limber_epilogue_input) */
    const char *name; /* letters, digits and _; not "x" */
    limber_input_shape shape;
    /* A float whose values are values of binary64, or an integer of at most 32 bits. */
    limber_format format;
    /* In host memory or on the device, as C is.  Must not overlap C, unless it is the matrix C
     * itself. */
    const void *data;
    /* strides of a MATRIX, as in limber_matrix; 0 for convolutions, whose input is dense in C's
     * layout */
    int64_t row_stride, col_stride;
    /* in a batch: numbers from one product's input to the next one's; 0: all products read the same
     * numbers */
    int64_t step;
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
 * Steps     one a line, `%name = operation operands`.  Operands are %x, inputs, names of earlier
 *           lines, and numbers.  Operations: add sub mul div max min with two operands, and every
 *           function of LIMBER_FUNCTIONS with one, followed by p=NUMBER q=NUMBER if it has
 *           parameters (leaky_relu without p: 0.01).  `;` starts a comment.  The result of the last
 *           line is stored in C; x is stored if there is no line.  At most 16 lines.  Every line
 *           but the last must be read by a later one.  An input need not be read, so that several
 *           texts can share their inputs.
 * Formats   steps compute in binary32 if every value of C's format is a value of binary32, and C is
 *           no integer of more than 16 bits; else in binary64.  Numbers of the text and of inputs
 *           are rounded to that format; a number of the text that is beyond it is refused (infinity
 *           is `inf`).  Each step is rounded once, to nearest; max and min give NaN if an operand
 *           is NaN.  Functions are those of limber_apply.  The last result is converted to C's
 *           format as by limber_convert: integers are rounded to nearest even and saturate.
 * Contract  holds for x in the format of the steps, so `correct` rounds x once, before the steps.
 *           Under the contracts `correct` and `bits`, if the first step adds an input to %x and
 *           beta is 0, then x is alpha A B + that input.  If C is a float and the steps only select
 *           a value, x is rounded to C's format itself under all contracts but native, so that
 *           `correct` rounds only once.  Steps that select are relu, abs, neg, and clamp, max and
 *           min with numbers of C's format; before them may be the step that adds an input whose
 *           values are values of C's format.
 * Memory    if x is not in C's format, begins with an input, or an input is C, the call keeps x in
 *           memory of its own, from the context's allocator, in addition to the workspace.
 * Errors    those of limber_run; BAD_ARGUMENT names the line and the word of the text, or the
 *           input.  On failure C is unchanged.  Many threads may use one epilogue.
 * Serves    real GEMMs, batches and convolutions, with every scheme and backend, if C is neither
 *           binary128 nor a double-double, and the contract is not `exact`.  If C is on a
 *           device, the steps run there, in the order of problem.queue; into a stream that is
 *           being captured only if the call needs no memory for x.  Steps store only one NaN, as
 *           limber_apply. */
typedef struct limber_epilogue {
    size_t size; /* sizeof(limber_epilogue) */
    const char *steps; /* NULL if there are none */
    /* input_count of them, at most 8, each of inputs[0].size bytes; read during the call */
    const limber_epilogue_input *inputs;
    int input_count;
    /* 1: C may be in a float format without NaN (e2m1 and so on), in which NaN becomes 0 */
    int nan_to_zero;
} limber_epilogue;
#define LIMBER_EPILOGUE_INIT LIMBER_SIZED(limber_epilogue)

#ifdef __cplusplus
}
#endif
#endif
