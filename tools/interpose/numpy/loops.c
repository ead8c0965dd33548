/* SPDX-License-Identifier: BSD-3-Clause
 * NumPy's loops: reads their arguments, and gives small products to NumPy's own loops.  Loops run
 * without Python's lock, in any thread.  They share no state but the addresses of NumPy's loops and
 * two counters. */
#include "loops.h"

#include "product.h"

#include <fenv.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static _Atomic(loop_function *) originals[UFUNCS][TYPES];
static _Atomic(const struct kernels *) chosen;
/* Products that Limber computed, and those given to NumPy. */
static _Atomic uint64_t computed, given;

const char *limber_numpy_use(const char *most)
{
    const struct kernels *with = &limber_numpy_plain;

#if defined(__x86_64__)
    __builtin_cpu_init();
    /* the instructions of x86-64-v3 and x86-64-v4 are tested one by one, since older compilers
     * do not know these names */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2") && strcmp(most, "plain") != 0)
        with = &limber_numpy_avx2;
    if (with == &limber_numpy_avx2 && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && strcmp(most, "avx2") != 0)
        with = &limber_numpy_avx512;
#else
    (void)most;
#endif
    atomic_store(&chosen, with);
    return with->name;
}

/* Adds 1 to a counter by a load and a store, since an atomic addition would take as long as a
 * small product.  Concurrent calls may lose counts. */
static void count(_Atomic uint64_t *calls)
{
    atomic_store_explicit(calls, atomic_load_explicit(calls, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

uint64_t limber_numpy_calls(int of_numpy)
{
    return atomic_load(of_numpy ? &given : &computed);
}

/* ---- arguments ----------------------------------------------------------------------------- */

static struct shape read_shape(enum ufunc ufunc, const npy_intp *d, const npy_intp *steps)
{
    const npy_intp *t = steps + 3;
    struct shape x = { .count = d[0], .m = 1, .n = 1, .stack = { steps[0], steps[1], steps[2] } };

    switch (ufunc) {
    case MATMUL:
        x.m = d[1], x.k = d[2], x.n = d[3];
        x.am = t[0], x.ak = t[1], x.bk = t[2], x.bn = t[3], x.cm = t[4], x.cn = t[5];
        break;
    case VECDOT:
        x.k = d[1];
        x.ak = t[0], x.bk = t[1];
        break;
    case MATVEC:
        x.m = d[1], x.k = d[2];
        x.am = t[0], x.ak = t[1], x.bk = t[2], x.cm = t[3];
        break;
    default: x.k = d[1], x.n = d[2]; x.ak = t[0], x.bk = t[1], x.bn = t[2], x.cn = t[3];
    }
    return x;
}

/* If all products of the stack share one operand, and the other operands and the results lie in
 * memory as one matrix each, makes the stack one product. */
static void join_stack(struct shape *x)
{
    const int64_t *s = x->stack;

    if (x->count < 2)
        return;
    if (s[1] == 0 && x->m == 1) {
        x->m = x->count, x->am = s[0], x->cm = s[2];
    } else if (s[0] == 0 && x->n == 1) {
        x->n = x->count, x->bn = s[1], x->cn = s[2];
    } else if (s[1] == 0 && s[0] == x->am * x->m && s[2] == x->cm * x->m) {
        x->m *= x->count;
    } else if (s[0] == 0 && s[1] == x->bn * x->n && s[2] == x->cn * x->n) {
        x->n *= x->count;
    } else {
        return;
    }
    x->count = 1;
}

/* ---- which products are computed ----------------------------------------------------------- */

static bool is_vector(const struct shape *x)
{
    return x->m == 1 || x->n == 1;
}

/* Smallest numbers of multiply-adds for which Limber is faster than NumPy's loops, by type. */
enum { LEAST = 1200, LEAST_OF_VECTORS = 512, LEAST_OF_HALVES = 300, LEAST_OF_BOOL = 8000 };

/* True if a stack of products has so few multiply-adds that NumPy's loop is faster. */
static inline bool is_tiny(enum ufunc ufunc, int type, const npy_intp *d)
{
    const bool matrices = ufunc == MATMUL && d[0] == 1 && d[1] != 1 && d[3] != 1;
    int64_t work = d[0] * d[1];

    if (ufunc != VECDOT)
        work *= d[2];
    if (ufunc == MATMUL)
        work *= d[3];
    return work < (type == LONGDOUBLE ? 0 :
                   type == FLOAT16    ? LEAST_OF_HALVES :
                   !matrices          ? LEAST_OF_VECTORS :
                   type == BOOL       ? LEAST_OF_BOOL :
                                        LEAST);
}

/* False if a product of matrices has so few multiply-adds that NumPy's loop is faster. product.c
 * and truth.c refuse further products, such as those with a short vector. */
static bool is_worth_it(const struct shape *x, int type)
{
    const double work = (double)x->m * (double)x->n * (double)x->k;

    if (x->k == 0 || x->m == 0 || x->n == 0)
        return false;
    if (type == LONGDOUBLE || is_vector(x))
        return true;
    return work >= (type == FLOAT16 ? LEAST_OF_HALVES : type == BOOL ? LEAST_OF_BOOL : LEAST);
}

/* Returns NumPy's loop.  In Python without a global lock, another thread may call Limber's loop
 * before the address of NumPy's is stored; it then waits here. */
static loop_function *original(enum ufunc ufunc, int type)
{
    loop_function *old;

    while (!(old = atomic_load_explicit(&originals[ufunc][type], memory_order_acquire)))
        ;
    return old;
}

/* ---- the loops ----------------------------------------------------------------------------- */

/* Returns the type of elements for NumPy's type number. */
static enum element element_of(int type)
{
    static const enum element of[] = { 0, I8, U8, I16, I16, I32, I32, 0, 0, I64, I64 };

    if (type == FLOAT16)
        return HALF;
    return type == LONG || type == ULONG ? (sizeof(long) == 8 ? I64 : I32) : of[type];
}

/* Calls NumPy's loop for `count` elements of C, each a dot product of length k. args: addresses
 * for the first element; apart: distances in bytes to those of the next element. */
static void compute_elements(enum ufunc ufunc, int type, const struct shape *x, char *const args[3],
                             int64_t count, const npy_intp apart[3], void *data)
{
    npy_intp extents[] = { count, 1, 1, 1 }, steps[9] = { apart[0], apart[1], apart[2] };

    /* the call is a stack of `count` products whose extents are all 1, except k */
    extents[ufunc == VECDOT || ufunc == VECMAT ? 1 : 2] = x->k;
    steps[ufunc == MATMUL || ufunc == MATVEC ? 4 : 3] = x->ak;
    steps[ufunc == VECDOT || ufunc == VECMAT ? 4 : 5] = x->bk;
    original(ufunc, type)((char *[]){ args[0], args[1], args[2] }, extents, steps, data);
}

static bool is_nan_of_halves(const char *at)
{
    uint16_t half;

    memcpy(&half, at, 2);
    return (half & 0x7fff) > 0x7c00;
}

/* Computes again, by NumPy's loop, those of n elements of C that are NaN in binary16, because the
 * bits of NaN and the exceptions depend on how NumPy's code was compiled. */
static void recompute_halves(enum ufunc ufunc, const struct shape *x, char *const args[3],
                             int64_t n, const npy_intp apart[3], void *data)
{
    for (int64_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && is_nan_of_halves(args[2] + end * apart[2]); end++)
            ;
        if (end > i)
            compute_elements(ufunc, FLOAT16, x,
                             (char *[]){ args[0] + i * apart[0], args[1] + i * apart[1],
                                         args[2] + i * apart[2] },
                             end - i, apart, data);
    }
}

/* If an element of C is NaN, infinite or subnormal, computes it also by NumPy's loop, which
 * raises the exceptions.  A NaN gets the bits of NumPy's result. */
static void recompute_longdouble(enum ufunc ufunc, const struct shape *x, char *const args[3],
                                 void *data)
{
    static const npy_intp none[3] = { 0 };
    long double value, other;

    memcpy(&value, args[2], sizeof value);
    if (isnormal(value) || value == 0)
        return;
    compute_elements(ufunc, LONGDOUBLE, x, (char *[]){ args[0], args[1], (char *)&other }, 1, none,
                     data);
    if (isnan(value) && isnan(other))
        memcpy(args[2], &other, sizeof other);
}

/* Computes again, by NumPy's loop, the results whose NaN bits or floating-point exceptions Limber
 * does not compute. */
static void recompute_by_numpy(enum ufunc ufunc, int type, const struct shape *x, char *const *args,
                               void *data)
{
    const bool one_column = x->n == 1;
    const npy_intp along_row[] = { 0, x->bn, x->cn }, along_column[] = { x->am, 0, x->cm };

    for (int64_t g = 0; g < x->count; g++)
        for (int64_t i = 0; i < (one_column ? 1 : x->m); i++) {
            char *row[] = { args[0] + g * x->stack[0] + i * x->am, args[1] + g * x->stack[1],
                            args[2] + g * x->stack[2] + i * x->cm };
            const npy_intp *apart = one_column ? along_column : along_row;
            const int64_t n = one_column ? x->m : x->n;

            if (type == FLOAT16)
                recompute_halves(ufunc, x, row, n, apart, data);
            else
                for (int64_t j = 0; j < n; j++)
                    recompute_longdouble(ufunc, x,
                                         (char *[]){ row[0] + j * apart[0], row[1] + j * apart[1],
                                                     row[2] + j * apart[2] },
                                         data);
        }
}

/* Computes all products of a stack.  False if one of them could not be computed. */
static bool run_stack(const struct shape *x, int type, char *const *args, int *raised, bool *nan)
{
    const struct kernels *with = atomic_load_explicit(&chosen, memory_order_acquire);

    for (int64_t g = 0; g < x->count; g++) {
        struct loop_product p = { .m = x->m,
                                  .n = x->n,
                                  .k = x->k,
                                  .a = { args[0] + g * x->stack[0], x->am, x->ak },
                                  .b = { args[1] + g * x->stack[1], x->bn, x->bk },
                                  .c = args[2] + g * x->stack[2],
                                  .cm = x->cm,
                                  .cn = x->cn };
        bool ok;

        if (type == BOOL) {
            ok = is_vector(x) ? limber_numpy_truth_vector(with, &p) : limber_numpy_truth(with, &p);
        } else {
            p.type = element_of(type);
            ok = is_vector(x) ? limber_numpy_vector(with, &p) : limber_numpy_matrix(with, &p);
            *raised |= p.raised;
            *nan = *nan || p.nan;
        }
        if (!ok)
            return false;
    }
    return true;
}

/* Computes products of binary16 matrices.  Raises the floating-point exceptions that NumPy's
 * loop would raise. */
static bool run_halves(enum ufunc ufunc, const struct shape *x, char *const *args, void *data)
{
    int raised = 0;
    bool nan = false, ok;
    fenv_t modes;

    if (feholdexcept(&modes))
        return false;
    ok = run_stack(x, FLOAT16, args, &raised, &nan);
    fesetenv(&modes);
    if (!ok)
        return false;
    if (raised)
        feraiseexcept(raised);
    if (nan)
        recompute_by_numpy(ufunc, FLOAT16, x, args, data);
    return true;
}

static bool run_longdoubles(enum ufunc ufunc, const struct shape *x, char *const *args, void *data)
{
    if (!limber_numpy_longdouble(x, args))
        return false;
    recompute_by_numpy(ufunc, LONGDOUBLE, x, args, data);
    return true;
}

/* Computes a stack of products by Limber if that is worth it and possible, else by NumPy's loop. */
static __attribute__((noinline)) void run(enum ufunc ufunc, int type, char **args,
                                          const npy_intp *extents, const npy_intp *steps,
                                          void *data)
{
    struct shape x = read_shape(ufunc, extents, steps);
    int raised = 0;
    bool nan = false, ok = false;

    join_stack(&x);
    if (is_worth_it(&x, type))
        ok = type == LONGDOUBLE ? run_longdoubles(ufunc, &x, args, data) :
             type == FLOAT16    ? run_halves(ufunc, &x, args, data) :
                                  run_stack(&x, type, args, &raised, &nan);
    count(ok ? &computed : &given);
    if (!ok)
        original(ufunc, type)(args, extents, steps, data);
}

/* Defines a loop that NumPy calls.  Tiny products are passed to NumPy's loop. */
#define LOOP(NAME, ufunc, type) \
    static void NAME##_##type(char **args, const npy_intp *d, const npy_intp *steps, void *data) \
    { \
        if (is_tiny(ufunc, type, d)) { \
            count(&given); \
            original(ufunc, type)(args, d, steps, data); \
        } else { \
            run(ufunc, type, args, d, steps, data); \
        } \
    }
#define LOOPS(type) \
    LOOP(matmul, MATMUL, type) \
    LOOP(vecdot, VECDOT, type) LOOP(matvec, MATVEC, type) LOOP(vecmat, VECMAT, type)
#define FOUR(type) [type] = { matmul_##type, vecdot_##type, matvec_##type, vecmat_##type }
#define EACH_TYPE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(13) X(23)
#define FOUR_AND(type) FOUR(type),

EACH_TYPE(LOOPS)
static loop_function *const loops[TYPES][UFUNCS] = { EACH_TYPE(FOUR_AND) };

/* ---- replacing ----------------------------------------------------------------------------- */

/* Returns Limber's loop for a ufunc and type; NULL if there is none. */
static loop_function *loop_of(int ufunc, int type)
{
    return ufunc >= 0 && ufunc < UFUNCS && type >= 0 && type < TYPES ? loops[type][ufunc] : NULL;
}

bool limber_numpy_put(replace_function *replace, void *object, int ufunc, int type)
{
    loop_function *new = loop_of(ufunc, type), *old = NULL;

    if (!new || replace(object, new, (const int[]){ type, type, type }, &old))
        return false;
    if (old != new)
        atomic_store(&originals[ufunc][type], old);
    return true;
}

bool limber_numpy_take(replace_function *replace, void *object, int ufunc, int type)
{
    loop_function *new = loop_of(ufunc, type), *was = NULL;
    const int types[] = { type, type, type };

    if (!new || replace(object, atomic_load(&originals[ufunc][type]), types, &was))
        return false;
    if (was == new)
        return true;
    /* another program has replaced Limber's loop; its loop stays */
    replace(object, was, types, &new);
    return false;
}
