/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of an epilogue: a small program on the elements of a product, one operation per line.
 * The text is that of limber_epilogue (limber/ops.h). */
#ifndef LIMBER_STEPS_H
#define LIMBER_STEPS_H

#include "ir/function.h"
#include "ir/ir.h"

enum { MOST_INPUTS = 8, MOST_STEPS = 16 };

/* Values have numbers: 0 is the product's element; the inputs follow, then the results of the
 * steps.  VALUE_number stands for a constant. */
enum { VALUE_number = -1, VALUE_product = 0, VALUE_steps = 1 + MOST_INPUTS };
enum { MOST_VALUES = VALUE_steps + MOST_STEPS };

enum step_op { STEP_function, STEP_add, STEP_sub, STEP_mul, STEP_div, STEP_max, STEP_min };

/* One step of an epilogue. */
struct epilogue_step {
    enum step_op op;
    limber_function function;
    /* numbers of the operands' values; VALUE_number: operand i is the constant number[i].
     * Functions have one operand */
    int operand[2];
    double number[2]; /* constant operands; the parameters p and q of a function */
};

/* The steps of an epilogue, in the order of their lines. */
struct steps {
    int inputs, count;
    struct epilogue_step step[MOST_STEPS];
};

/* Parses steps. names: those of the inputs.  Rounds numbers to the format `compute`.  Error
 * messages begin with the number of the line. */
bool limber_steps_parse(struct steps *s, const char *text, const char *const names[], int inputs,
                        limber_format compute, struct diag *d);
/* Prints steps as text that limber_steps_parse reads. */
void limber_steps_print(struct text *out, const struct steps *s, const char *const names[]);
/* Returns true if every operation returns one of its operands or the negative of one, provided that
 * all inputs are numbers of format f.  Then the steps round nothing. */
bool limber_steps_round_nothing(const struct steps *s, limber_format f);
/* Returns the index of the input that the first step adds to the product, if no other step reads
 * the product.  Otherwise -1. */
int limber_steps_addend(const struct steps *s);
/* Removes the first step, which must be one for which limber_steps_addend returned an input. */
void limber_steps_drop_addend(struct steps *s);
/* Returns the number of the value that is the steps' result. */
static inline int limber_steps_result(const struct steps *s)
{
    return s->count ? VALUE_steps + s->count - 1 : VALUE_product;
}
/* Returns the result of a step for operands x and y, computed in binary32 (is_f32) or binary64. */
double limber_epilogue_value(const struct epilogue_step *s, bool is_f32, double x, double y);

#endif
