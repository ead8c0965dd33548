/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS limber_numpy_avx2
#include "arithmetic.h"
