/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIMBER_TEST_CUBLAS_MOCK_H
#define LIMBER_TEST_CUBLAS_MOCK_H

#include <stdint.h>

struct mock {
    int calls, status, pointer_mode;
    const char *name;           /* of the last function called */
    int64_t count;              /* its products */
    const void *c;              /* its result */
};
extern struct mock mock;

#endif
