/* SPDX-License-Identifier: BSD-3-Clause
 * A stub of libcuda that gives the linker the driver's soname, because timed_cuda.c is linked on
 * machines without the driver. */
extern int cuda_name;
int cuda_name;
