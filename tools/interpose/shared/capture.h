/* SPDX-License-Identifier: BSD-3-Clause
 * LIMBER_CAPTURE: stores the operands that a program multiplies. */
#ifndef LIMBER_INTERPOSE_CAPTURE_H
#define LIMBER_INTERPOSE_CAPTURE_H

#include <limber/format.h>

#include <stdbool.h>
#include <stdint.h>

/* Which elements of a matrix the program stores; the others follow from them. */
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
    /* format of a number; `pairs`: an element is complex, a pair of numbers */
    limber_format format;
    bool pairs, conj;
    enum capture_stored stores;
    bool upper;                 /* the stored triangle is the upper one of op(X), not of X */
};

/* A call whose operands are captured. */
struct capture {
    const char *routine, *words; /* the routine's name; text of the contract, "" if there is none */
    char ops[2];
    struct capture_operand a, b;
    const void *caller; /* an address in the calling code; NULL if unknown */
};

/* True while operands are captured. */
bool interpose_captures(void);
/* Writes a product's operands to the folder of LIMBER_CAPTURE, or prints once why capturing stops.
 * Thread-safe; preserves errno. */
void interpose_capture(const struct capture *p);
/* Stops capturing, and prints the reason. */
void interpose_capture_fails(const char *why);

#endif
