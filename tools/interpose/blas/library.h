/* SPDX-License-Identifier: BSD-3-Clause
 * Looks up functions of the BLAS to which calls are forwarded.  Each kind of library has its own
 * implementation: preloaded.c in front of the program's BLAS, libblas/library.c in its place,
 * doors/flexiblas.c as a hook of FlexiBLAS, doors/trampoline.c as a forward of
 * libblastrampoline. */
#ifndef LIMBER_BLAS_LIBRARY_H
#define LIMBER_BLAS_LIBRARY_H

#include <stdbool.h>

/* Looks up a function in the BLAS that is designated: by LIMBER_BLAS, FlexiBLAS or
 * libblastrampoline, or because this library replaces libblas.so.3.  Returns true if no other BLAS
 * may be used; *function is the address, or NULL.  Returns false if none is designated, or it lacks
 * the function.  caller: an address in the calling code. */
bool limber_blas_designated(const char *name, const void *caller, void **function);
/* Looks up a function in libraries that were loaded after this one. */
void *limber_blas_next(const char *name);
/* Handle of the system's BLAS, which is used if no other is found. */
void *limber_blas_system(void);

/* Looks up a function in loaded objects: first in libraries loaded after this one, then in the
 * dependencies of the caller's object, then in all.  NULL if it is not found. */
void *limber_blas_loaded(const char *name, const void *caller);

/* True if the library has gemm under one of the names that BLAS libraries use. */
bool limber_blas_has_gemm(void *library);

/* Calls isamax to find out whether it takes 64-bit integers. */
bool limber_blas_asks_wide(void *isamax);

#endif
