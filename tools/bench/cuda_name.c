/* SPDX-License-Identifier: BSD-3-Clause
 * A library of the driver's name without the driver, to link timed_cuda.c where there is none. */
extern int cuda_name;
int cuda_name;
