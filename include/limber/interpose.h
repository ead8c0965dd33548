/* SPDX-License-Identifier: BSD-3-Clause
 * What the libraries that intercept BLAS and cuBLAS calls (liblimber_blas, liblimber_cublas) did
 * with a call.  They export these functions beside the BLAS's names; a program that wants to know
 * whether it runs on them looks the names up by dlsym(RTLD_DEFAULT, ...). */
#ifndef LIMBER_INTERPOSE_H
#define LIMBER_INTERPOSE_H

#include "limber.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct limber_blas_call {
    size_t size;            /* from LIMBER_BLAS_CALL_INIT */
    char routine[40];       /* the function's name */
    int64_t m, n, k; /* sizes of the product, or of the largest product of the call */
    int served; /* flag: 1: computed by Limber, as `report` says; 0: by the underlying BLAS */
    char why_not[160]; /* why it was handed on; "" when it was served */
    limber_report *report; /* in: NULL, or the caller's; filled where the call was served */
} limber_blas_call;

/* The last level-3 call that this thread made.  Answers 0, and *call is all zero, where there
 * was none.  Thread-safe. */
LIMBER_API int limber_blas_last_call(limber_blas_call *call);

/* Writes the report that LIMBER_REPORT asks for, of all calls so far; it is written again when the
 * process ends.  path NULL: the variable's.  Errors: BAD_ARGUMENT (neither names a file), IO.
 * limber_error_text does not tell of them.  Thread-safe. */
LIMBER_API limber_status limber_blas_write_report(const char *path);

/* What the environment and LIMBER_CONFIG ask for: 1, that calls are served; 0, nothing; -1, what
 * is not understood, as a line on stderr says: every call is handed on.  They are read once, here
 * or at the first level-3 call.  Thread-safe. */
LIMBER_API int limber_blas_settings(void);

/* limber_blas_settings for a launcher: also tries what the variables say, the library's own
 * (LIMBER_CACHE, LIMBER_THREADS and so on) too, and answers -1 where one is wrong or names what
 * cannot be had: a folder that cannot be written (LIMBER_REPORT, LIMBER_CAPTURE,
 * LIMBER_DUMP, LIMBER_CACHE_DIR), a library that cannot be loaded (LIMBER_LLVM, LIMBER_BLAS), a
 * backend that does not run here.  A line on stderr names it.  Thread-safe. */
LIMBER_API int limber_blas_check_settings(void);

#ifdef __cplusplus
}
#endif

#define LIMBER_BLAS_CALL_INIT LIMBER_SIZED(limber_blas_call)

#endif
