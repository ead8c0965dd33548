/* SPDX-License-Identifier: BSD-3-Clause
 * The libraries in which a function behind ours is looked for; tools/interpose/blas/preloaded.c where this
 * one stands before a program's BLAS, tools/interpose/blas/whole/library.c where it is the program's libblas.
 */
#ifndef LIMBER_BLAS_LIBRARY_H
#define LIMBER_BLAS_LIBRARY_H

#include <stdbool.h>

/* The only one to look in, by the user's wish; NULL: none. */
void *limber_blas_wish(void);
/* A function of the libraries that the program has loaded after this one. */
void *limber_blas_next(const char *name);
/* The system's, where there is no other. */
void *limber_blas_system(void);

/* Whether a BLAS takes 64-bit integers; isamax is a function of its. */
bool limber_blas_asks_wide(void *isamax);

#endif
