/* SPDX-License-Identifier: BSD-3-Clause */
#define KERNELS limber_numpy_plain
#include "arithmetic.h"
