/* SPDX-License-Identifier: BSD-3-Clause
 * For tests that use a backend without a context: applies the settings in environment variables,
 * which creating a context would do. */
#ifndef LIMBER_TEST_SETTINGS_H
#define LIMBER_TEST_SETTINGS_H

#include "backends/settings.h"
#include "limber/environment.h"

static inline void settings_from_environment(void)
{
    limber_settings_from(limber_variable_value);
}

#endif
