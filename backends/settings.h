/* SPDX-License-Identifier: BSD-3-Clause
 * Settings of backends, such as the path of a compiler, by their names in docs/environment.md.
 * Backends do not read the environment: jit/ registers the function that looks settings up. */
#ifndef LIMBER_SETTINGS_H
#define LIMBER_SETTINGS_H

/* Registers the function that limber_setting calls, which must be thread-safe.  Until then no
 * setting has a value. */
void limber_settings_from(const char *(*value)(const char *name));
/* Returns the value of a setting, or NULL if it is not set. */
const char *limber_setting(const char *name);

#endif
