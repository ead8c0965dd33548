/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/interpose.h as they were in version 0.2.  include/limber/interpose.h
 * documents them.  The test abi_program is compiled with these headers and runs with the newest
 * library. */
#ifndef LIMBER_INTERPOSE_H
#define LIMBER_INTERPOSE_H

#include "limber.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct limber_blas_call {
    size_t size;
    char routine[40];
    int64_t m, n, k;
    int served;
    char why_not[160];
    limber_report *report;
} limber_blas_call;

LIMBER_API int limber_blas_last_call(limber_blas_call *call);

LIMBER_API limber_status limber_blas_write_report(const char *path);

#ifdef __cplusplus
}
#endif

#define LIMBER_BLAS_CALL_INIT LIMBER_SIZED(limber_blas_call)

#endif
