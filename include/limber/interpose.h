/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that tell what the libraries that intercept BLAS and cuBLAS calls (liblimber_blas,
 * liblimber_cublas) did with a call.  The libraries export these functions in addition to the
 * BLAS's names.  A program that wants to know whether it runs on such a library looks the names up
 * by dlsym(RTLD_DEFAULT, ...). */
#ifndef LIMBER_INTERPOSE_H
#define LIMBER_INTERPOSE_H

#include "limber.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describes a call of a BLAS or cuBLAS function, and which library computed it. */
typedef struct limber_blas_call {
    size_t size;            /* from LIMBER_BLAS_CALL_INIT */
    char routine[40]; /* name of the function */
    int64_t m, n, k; /* sizes of the product, or of the largest product of the call */
    int served; /* 1 if Limber computed the call, else 0 */
    /* why the call was passed on to the underlying BLAS; "" if Limber computed it */
    char why_not[160];
    limber_report *report; /* in: the caller's, filled if Limber computed the call; or NULL */
} limber_blas_call;

/* Describes the last level-3 BLAS call of this thread.  Returns 1.  If there was no such call,
 * returns 0 and clears *call.  Thread-safe. */
LIMBER_API int limber_blas_last_call(limber_blas_call *call);

/* Writes a report on all calls so far to the file `path`, or if that is NULL, to the file that the
 * variable LIMBER_REPORT names.  The report is written again when the process ends.  Errors:
 * BAD_ARGUMENT (neither names a file), IO. They do not set limber_error_text.  Thread-safe. */
LIMBER_API limber_status limber_blas_write_report(const char *path);

/* Reads the environment variables and LIMBER_CONFIG once, here or at the first level-3 call.
 * Returns 1 if they ask Limber to compute calls, 0 if they ask for nothing, and -1 if a setting is
 * not understood: then a line on stderr names the setting, and the underlying BLAS computes every
 * call.  Thread-safe. */
LIMBER_API int limber_blas_settings(void);

/* Like limber_blas_settings, but also tries whether the files, folders and backends that the
 * variables name can be used, the library's own variables (LIMBER_CACHE, LIMBER_THREADS and so on)
 * included.  Returns -1 also if one of these is wrong or names something that does not work: a
 * folder that cannot be written (LIMBER_REPORT, LIMBER_CAPTURE, LIMBER_DUMP, LIMBER_CACHE_DIR), a
 * library that cannot be loaded (LIMBER_LLVM, LIMBER_BLAS), a backend that does not run on this
 * machine.  A line on stderr names the variable.  Thread-safe. */
LIMBER_API int limber_blas_check_settings(void);

#ifdef __cplusplus
}
#endif

#define LIMBER_BLAS_CALL_INIT LIMBER_SIZED(limber_blas_call)

#endif
