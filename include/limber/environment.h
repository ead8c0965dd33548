/* SPDX-License-Identifier: BSD-3-Clause
 * The environment: every variable that Limber reads, and the one way to read it.
 *
 * A program that runs with rights that its caller does not have (set-user-id, set-group-id, file
 * capabilities: AT_SECURE) reads none of them. */
#ifndef LIMBER_ENVIRONMENT_H
#define LIMBER_ENVIRONMENT_H

#include "format.h"         /* LIMBER_API */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct limber_variable {
    const char *name;
    /* "library", "BLAS", "cuBLAS" (the libraries that intercept their calls), "command line",
     * "Python", "tests", or several, separated by ", " */
    const char *reader;
    const char *meaning; /* one line */
    const char *danger; /* what is done with the file or folder that it names: "loads" a library,
                           "runs" kernels, "writes", "reads"; "": it names none */
} limber_variable;

/* The i-th variable; NULL past the end. */
LIMBER_API const limber_variable *limber_variable_at(int i);

/* The value of a variable of the table.  NULL where it is unset or empty, for other names, and in a
 * program with elevated privileges.  Valid until the environment changes. */
LIMBER_API const char *limber_variable_value(const char *name);

/* Calls visit for every variable that is set, begins with LIMBER_ and is not in the table: a
 * misspelt one would be ignored in silence.  None in a program with elevated privileges. */
LIMBER_API void limber_variable_unknown(void (*visit)(void *user, const char *name), void *user);

#ifdef __cplusplus
}
#endif
#endif
