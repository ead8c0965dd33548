/* SPDX-License-Identifier: BSD-3-Clause
 * Looks up functions of the BLAS behind.  There is an implementation for each kind of library:
 * preloaded.c in front of the program's BLAS, libblas/library.c in its place, doors/flexiblas.c as
 * a hook of FlexiBLAS, doors/trampoline.c as a forward of libblastrampoline. */
#ifndef LIMBER_BLAS_LIBRARY_H
#define LIMBER_BLAS_LIBRARY_H

#include <stdbool.h>

/* Looks a function up in the designated BLAS: that of LIMBER_BLAS, FlexiBLAS or libblastrampoline,
 * or the one behind libblas.so.3.  True: no other BLAS may be used, and *function is the result,
 * which may be NULL.  False: none is designated, or it lacks the function; search elsewhere.
 * `caller` is an address in the calling code. */
bool limber_blas_designated(const char *name, const void *caller, void **function);
/* Looks a function up in the libraries that were loaded after this one. */
void *limber_blas_next(const char *name);
/* Handle of the system's BLAS, the last resort. */
void *limber_blas_system(void);

/* Looks a function up in loaded objects: the libraries after this one, those that the caller's
 * object is linked with, or any; NULL: not found. */
void *limber_blas_loaded(const char *name, const void *caller);

/* Whether the library has gemm, under any of the names that BLAS libraries use. */
bool limber_blas_has_gemm(void *library);

/* Tests by a call of isamax whether its BLAS uses 64-bit integers. */
bool limber_blas_asks_wide(void *isamax);

#endif
