/* SPDX-License-Identifier: BSD-3-Clause
 * NAME(dgemm) as a library spells it. */
#ifndef PREFIX
#define PREFIX
#endif
#ifndef SUFFIX
#define SUFFIX _
#endif
#define PASTE(prefix, name, suffix) prefix##name##suffix
#define SPELL(prefix, name, suffix) PASTE(prefix, name, suffix)
#define NAME(name) SPELL(PREFIX, name, SUFFIX)
