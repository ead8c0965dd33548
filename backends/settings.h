/* SPDX-License-Identifier: BSD-3-Clause
 * Settings of backends, such as the file of a compiler, by their names in docs/environment.md.
 * Backends read no environment: jit/ names the function that looks settings up. */
#ifndef LIMBER_SETTINGS_H
#define LIMBER_SETTINGS_H

/* Names the function that limber_setting calls; it must be thread-safe.  Before this call no
 * setting has a value. */
void limber_settings_from(const char *(*value)(const char *name));
/* The value of a setting; NULL if it is not set. */
const char *limber_setting(const char *name);

#endif
