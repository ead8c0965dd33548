/* SPDX-License-Identifier: BSD-3-Clause
 * LIMBER_CAPTURE: stores the operands that a program multiplies. */
#ifndef LIMBER_INTERPOSE_CAPTURE_H
#define LIMBER_INTERPOSE_CAPTURE_H

#include <limber/format.h>

#include <stdbool.h>
#include <stdint.h>

/* The part of a matrix that the program stores; the other elements follow from it. */
enum capture_stored {
    CAPTURE_all,
    CAPTURE_symmetric,
    CAPTURE_hermitian,
    CAPTURE_triangle,
    CAPTURE_unit_triangle
};

/* op(X) in host memory; row and col are strides in elements. */
struct capture_operand {
    const void *data;
    int64_t row, col, rows, cols;
    limber_format format;       /* format of a number; `pairs`: an element is a pair of them */
    bool pairs, conj;
    enum capture_stored stores;
    bool upper;                 /* the stored triangle is the upper one of op(X) */
};

struct capture {
    const char *routine, *words; /* the routine's name; text of the contract, "" for none */
    char ops[2];
    struct capture_operand a, b;
    const void *caller; /* address in the calling code; NULL: unknown */
};

/* Whether operands are still being captured. */
bool interpose_captures(void);
/* Stores a product's operands, or reports once why capturing stops.  Thread-safe; preserves
 * errno. */
void interpose_capture(const struct capture *p);
/* Reports why capturing stops. */
void interpose_capture_fails(const char *why);

#endif
