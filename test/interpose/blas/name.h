/* SPDX-License-Identifier: BSD-3-Clause
 * NAME(dgemm): the symbol of a routine, with the BLAS library's prefix and suffix. */
#ifndef PREFIX
#define PREFIX
#endif
#ifndef SUFFIX
#define SUFFIX _
#endif
#define PASTE(prefix, name, suffix) prefix##name##suffix
#define SPELL(prefix, name, suffix) PASTE(prefix, name, suffix)
#define NAME(name) SPELL(PREFIX, name, SUFFIX)
