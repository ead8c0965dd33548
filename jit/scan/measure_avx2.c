/* SPDX-License-Identifier: BSD-3-Clause */
#define MEASURE(name) limber_measure_##name##_avx2
#include "jit/scan/measure.c"
