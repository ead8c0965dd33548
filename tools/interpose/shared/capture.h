/* SPDX-License-Identifier: BSD-3-Clause
 * LIMBER_CAPTURE: keeps what a program multiplies. */
#ifndef LIMBER_INTERPOSE_CAPTURE_H
#define LIMBER_INTERPOSE_CAPTURE_H

#include <limber/format.h>

#include <stdbool.h>
#include <stdint.h>

/* What the program stores of a matrix; the rest of it is known. */
enum capture_stored {
    CAPTURE_all,
    CAPTURE_symmetric,
    CAPTURE_hermitian,
    CAPTURE_triangle,
    CAPTURE_unit_triangle
};

/* op(X) in host memory, rows and columns that many elements apart. */
struct capture_operand {
    const void *data;
    int64_t row, col, rows, cols;
    limber_format format;       /* of a number; `pairs`: elements are pairs of them */
    bool pairs, conj;
    enum capture_stored stores;
    bool upper;                 /* of op(X) the program stores the upper triangle */
};

struct capture {
    const char *routine, *words; /* and its contract, "" for none */
    char ops[2];
    struct capture_operand a, b;
    const void *caller; /* or NULL */
};

/* Whether operands are still kept. */
bool interpose_captures(void);
/* Keeps a product's operands, or tells once why no more are kept.  Thread-safe; errno stays. */
void interpose_capture(const struct capture *p);
/* Tells why no more are kept. */
void interpose_capture_fails(const char *why);

#endif
