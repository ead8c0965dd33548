/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of an epilogue: a small expression of the elements of a product, one operation a line.
 * The text is that of limber_epilogue (limber/ops.h). */
#ifndef LIMBER_STEPS_H
#define LIMBER_STEPS_H

#include "ir/function.h"
#include "ir/ir.h"

enum { MOST_INPUTS = 8, MOST_STEPS = 16 };

/* Values by number: the product's element, inputs, results of steps. */
enum { VALUE_number = -1, VALUE_product = 0, VALUE_steps = 1 + MOST_INPUTS };
enum { MOST_VALUES = VALUE_steps + MOST_STEPS };

enum step_op { STEP_function, STEP_add, STEP_sub, STEP_mul, STEP_div, STEP_max, STEP_min };

/* One step of an epilogue. */
struct epilogue_step {
    enum step_op op;
    limber_function function;
    int operand[2]; /* functions have one operand; VALUE_number stands for number[i] */
    double number[2]; /* constant operands; for a function its parameters p and q */
};

/* All steps of an epilogue, in order. */
struct steps {
    int inputs, count;
    struct epilogue_step step[MOST_STEPS];
};

/* Parses steps.  Numbers are rounded to the format `compute`; messages begin with the line. */
bool limber_steps_parse(struct steps *s, const char *text, const char *const names[], int inputs,
                        limber_format compute, struct diag *d);
/* Prints steps as text that limber_steps_parse reads. */
void limber_steps_print(struct text *out, const struct steps *s, const char *const names[]);
/* True if every operation returns an operand or its negative, given that all numbers are of f. */
bool limber_steps_select(const struct steps *s, limber_format f);
/* The input that the first step adds to the product where nothing else reads that, or -1. */
int limber_steps_addend(const struct steps *s);
/* Removes the step that limber_steps_addend found. */
void limber_steps_drop_addend(struct steps *s);
/* The number of the last step's value. */
static inline int limber_steps_result(const struct steps *s)
{
    return s->count ? VALUE_steps + s->count - 1 : VALUE_product;
}
/* The result of a step on operands x and y, in binary64 or (narrow) binary32. */
double limber_epilogue_value(const struct epilogue_step *s, bool narrow, double x, double y);

#endif
