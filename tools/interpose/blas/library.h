/* SPDX-License-Identifier: BSD-3-Clause
 * Where the functions of the BLAS behind are searched: preloaded.c for the library before a
 * program's BLAS, libblas/library.c for the library in its place. */
#ifndef LIMBER_BLAS_LIBRARY_H
#define LIMBER_BLAS_LIBRARY_H

#include <stdbool.h>

/* The only library to search, as the user asks; NULL: the user names none. */
void *limber_blas_wish(void);
/* A function of the libraries that the program loaded after this one. */
void *limber_blas_next(const char *name);
/* The system's BLAS, where there is no other. */
void *limber_blas_system(void);

/* Whether the BLAS that has this isamax uses 64-bit integers. */
bool limber_blas_asks_wide(void *isamax);

#endif
