/* SPDX-License-Identifier: BSD-3-Clause
 * The user's wishes for backends, such as the file of a compiler, by their names in
 * docs/environment.md.  Backends read no environment: jit/ tells them where wishes are found. */
#ifndef LIMBER_SETTINGS_H
#define LIMBER_SETTINGS_H

/* Names the function that limber_setting asks; any thread calls it at any time.  Before the first
 * call of this one, nothing is wished. */
void limber_settings_from(const char *(*value)(const char *name));
/* The value of a setting; NULL: nothing is wished. */
const char *limber_setting(const char *name);

#endif
