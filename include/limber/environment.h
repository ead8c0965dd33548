/* SPDX-License-Identifier: BSD-3-Clause
 * The environment: every variable that Limber reads, and the functions that read a variable.
 *
 * A program with more rights than its caller (set-user-id, set-group-id, file capabilities:
 * AT_SECURE) reads none of these variables. */
#ifndef LIMBER_ENVIRONMENT_H
#define LIMBER_ENVIRONMENT_H

#include "format.h" /* LIMBER_API */

#ifdef __cplusplus
extern "C" {
#endif

/* An environment variable that Limber reads.  All texts are the library's. */
typedef struct limber_variable {
    const char *name;
    /* The programs that read the variable: "library", "BLAS" and "cuBLAS" (the libraries that
     * intercept calls of BLAS and cuBLAS), "command line", "Python" or "tests".  Several are
     * separated by ", ". */
    const char *reader;
    const char *meaning; /* one line */
    /* The use of the file or folder that the variable names: a program "loads" a library, "runs"
     * kernels from it, "writes" or "reads" it.  "" if the variable names neither. */
    const char *danger;
} limber_variable;

/* Returns the i-th variable, from 0; NULL past the end. */
LIMBER_API const limber_variable *limber_variable_at(int i);

/* Returns the value of a variable that limber_variable_at lists.  NULL if the variable is unset,
 * empty or not listed, and in a program with elevated privileges.  The text is valid until the
 * environment changes. */
LIMBER_API const char *limber_variable_value(const char *name);

/* Calls `visit` for every variable that is set, begins with LIMBER_ and is not listed: a misspelt
 * variable would otherwise be ignored silently.  Does nothing in a program with elevated
 * privileges. */
LIMBER_API void limber_variable_unknown(void (*visit)(void *user, const char *name), void *user);

#ifdef __cplusplus
}
#endif
#endif
