/* SPDX-License-Identifier: BSD-3-Clause
 * Where the functions of the BLAS behind are searched: preloaded.c for the library before a
 * program's BLAS, libblas/library.c for the library in its place, doors/flexiblas.c for the hook of
 * FlexiBLAS, doors/trampoline.c for the library that libblastrampoline forwards to. */
#ifndef LIMBER_BLAS_LIBRARY_H
#define LIMBER_BLAS_LIBRARY_H

#include <stdbool.h>

/* True: *function is what is to be called, or NULL where there is one place to search and it has
 * none.  `caller` is an address in the code that called. */
bool limber_blas_only(const char *name, const void *caller, void **function);
/* A function of the libraries that the program loaded after this one. */
void *limber_blas_next(const char *name);
/* The system's BLAS, where there is no other. */
void *limber_blas_system(void);

/* A function that the program has loaded: the next one, the one that the caller's object is linked
 * with, or any; NULL. */
void *limber_blas_loaded(const char *name, const void *caller);

/* Whether the library has a product of matrices, by any of the names that a BLAS gives it. */
bool limber_blas_has_gemm(void *library);

/* Whether the BLAS that has this isamax uses 64-bit integers. */
bool limber_blas_asks_wide(void *isamax);

#endif
