/* SPDX-License-Identifier: BSD-3-Clause */
#include "backends/settings.h"

#include <stdatomic.h>
#include <stddef.h>

typedef const char *(*lookup)(const char *name);
static _Atomic(lookup) source;

void limber_settings_from(const char *(*value)(const char *name))
{
    atomic_store(&source, value);
}

const char *limber_setting(const char *name)
{
    lookup value = atomic_load(&source);

    return value ? value(name) : NULL;
}
