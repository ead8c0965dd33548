/* SPDX-License-Identifier: BSD-3-Clause
 * Inner loops of NumPy's generalised ufuncs matmul, vecdot, matvec and vecmat, which Python's
 * `limber.numpy` puts in the place of NumPy's own.  A loop takes addresses, extents and distances
 * in bytes, so neither Python's nor NumPy's headers are needed. */
#ifndef LIMBER_NUMPY_LOOPS_H
#define LIMBER_NUMPY_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

typedef intptr_t npy_intp;
typedef void loop_function(char **args, const npy_intp *extents, const npy_intp *steps, void *data);

enum ufunc { MATMUL, VECDOT, MATVEC, VECMAT, UFUNCS };
enum { TYPES = 24 }; /* number of NumPy's types, as far as they are used here */
/* NumPy's type numbers.  1 to 10 are integers, of the C types from signed char to unsigned long
 * long. */
enum { BOOL = 0, LONG = 7, ULONG = 8, LONGDOUBLE = 13, FLOAT16 = 23 };

/* A stack of products of m x k by k x n matrices.  Distances are in bytes. stack: from product
 * to product; am: from row to row of A; ak: along k in A; and so on. */
struct shape {
    int64_t count, m, n, k;
    int64_t stack[3]; /* strides of A, of B and of C between products of the stack */
    int64_t am, ak, bk, bn, cm, cn;
};

/* Computes products of long doubles, each element rounded once.  False if Limber cannot compute
 * them; C is then unchanged. */
bool limber_numpy_longdouble(const struct shape *x, char *const *args);

/* ---- what Python calls --------------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

/* Limits the instruction set: "plain", "avx2" or "avx512"; for any other word all that the CPU
 * has is used.  Returns the name of the set that is used. */
EXPORT const char *limber_numpy_use(const char *most);
/* NumPy's PyUFunc_ReplaceLoopBySignature(object, new loop, types, old loop), which returns 0 or
 * -1. */
typedef int replace_function(void *object, loop_function *, const int *, loop_function **);
/* limber_numpy_put replaces NumPy's loop of this ufunc and type by Limber's, and stores NumPy's;
 * limber_numpy_take puts NumPy's back. object: the ufunc.  The caller holds Python's global
 * lock.  False, with nothing changed, if the ufunc has no such loop or, when putting it back, if
 * its loop is not Limber's. */
EXPORT bool limber_numpy_put(replace_function *replace, void *object, int ufunc, int type);
EXPORT bool limber_numpy_take(replace_function *replace, void *object, int ufunc, int type);
/* Returns the number of calls that Limber's loops have computed or, if `given`, have passed to
 * NumPy's loops.  Some calls are not counted if threads multiply at the same time. */
EXPORT uint64_t limber_numpy_calls(int given);

#endif
