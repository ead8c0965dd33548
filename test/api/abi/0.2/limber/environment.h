/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/environment.h as they were in version 0.2.
 * include/limber/environment.h documents them.  The test abi_program is compiled with these
 * headers and runs with the newest library. */
#ifndef LIMBER_ENVIRONMENT_H
#define LIMBER_ENVIRONMENT_H

#include "format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct limber_variable {
    const char *name;
    const char *reader;
    const char *meaning;
    const char *danger;
} limber_variable;

LIMBER_API const limber_variable *limber_variable_at(int i);

LIMBER_API const char *limber_variable_value(const char *name);

LIMBER_API void limber_variable_unknown(void (*visit)(void *user, const char *name), void *user);

#ifdef __cplusplus
}
#endif
#endif
