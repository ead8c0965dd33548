/* SPDX-License-Identifier: BSD-3-Clause
 * Which code of x86-64 this CPU runs: what the library's files are compiled for. */
#ifndef LIMBER_IR_X86_H
#define LIMBER_IR_X86_H

/* The x86-64 ABI level of this CPU: 3 has AVX2 and FMA, 4 AVX-512.  0 below 3 and on another
 * architecture. */
int limber_x86_level(void);
/* From now on the process has at most this level.  5, the default, is no limit; 4 lacks AVX-512
 * VNNI and all that is newer.  Thread-safe. */
void limber_x86_set_limit(int level);
int limber_x86_limit(void);
int limber_x86_found(void); /* this CPU's level, whatever the limit */
/* The features of level 3 that a CPU of level 0 lacks, separated by commas. */
const char *limber_x86_lacks(void);

#endif
