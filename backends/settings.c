/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/settings.h"

#include <stdatomic.h>
#include <stddef.h>

typedef const char *(*lookup)(const char *name);
static _Atomic(lookup) source;

/* Registers the function that limber_setting calls, which must be thread-safe. */
void limber_settings_from(const char *(*value)(const char *name))
{
    atomic_store(&source, value);
}

/* Returns the value of a setting, or NULL if it is not set. */
const char *limber_setting(const char *name)
{
    lookup value = atomic_load(&source);

    return value ? value(name) : NULL;
}
