/* SPDX-License-Identifier: BSD-3-Clause
 * This library lends the linker the driver's name, since timed_cuda.c is linked where there is no
 * driver. */
extern int cuda_name;
int cuda_name;
