/* SPDX-License-Identifier: BSD-3-Clause
 * The options --epilogue TEXT and --input NAME=FILE: steps that are applied to the result before it
 * is stored. */
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* Frees the inputs and steps of the product's epilogue. */
void epilogue_clear(struct cli_product *p)
{
    for (int i = 0; p->end.inputs && p->end.inputs[i]; i++)
        free(p->end.inputs[i]); /* allocated by popt */
    for (int i = 0; i < MOST_INPUTS; i++) {
        free((char *)(uintptr_t)p->end.input[i].name);
        array_clear(&p->end.input_data[i]);
    }
    free(p->end.inputs);
    free(p->end.epilogue);
    free(p->end.steps);
    p->end.inputs = NULL;
    p->end.epilogue = p->end.steps = NULL;
}

/* Finds the shape of an input from its sizes: a scalar, a number for each row or column, or a
 * matrix.  Returns false if its sizes fit none. */
static bool find_input_shape(const struct cli_product *p, const struct array *a,
                             limber_input_shape *shape)
{
    const struct array *c = &p->c;
    bool nchw = p->conv.layout == LIMBER_LAYOUT_NCHW;
    int64_t rows = !p->is_conv || p->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER ?
                       c->dim[0] :
                       c->dim[nchw ? 1 : c->rank - 1];
    int64_t n = array_size(a);

    if (a->rank == c->rank && !memcmp(a->dim, c->dim, sizeof a->dim[0] * (size_t)a->rank))
        *shape = LIMBER_INPUT_MATRIX;
    else if (n == 1)
        *shape = LIMBER_INPUT_SCALAR;
    else if (p->is_conv ? a->rank == 1 && n == rows : a->rank == 2 && a->dim[1] == 1 && n == rows)
        *shape = LIMBER_INPUT_ROW;
    else if (!p->is_conv && n == c->dim[1] && (a->rank == 1 || a->dim[0] == 1))
        *shape = LIMBER_INPUT_COLUMN;
    else
        return false;
    return true;
}

/* Reads the option --input NAME=FILE as input i of the epilogue. */
static bool read_input(struct cli_product *p, int i, const char *text)
{
    const char *path = strchr(text, '=');
    struct array *a = &p->end.input_data[i];
    limber_epilogue_input *in = &p->end.input[i];

    *in = (limber_epilogue_input)LIMBER_EPILOGUE_INPUT_INIT;
    if (!path || path == text || !path[1])
        return complain("--input: \"%s\" is not NAME=FILE", text), false;
    in->name = strndup(text, (size_t)(path - text));
    if (!in->name)
        return complain("out of memory"), false;
    path++;
    if (!array_read(path, false, a))
        return false;
    if (a->pairs)
        return complain("%s: inputs of an epilogue are real", path), false;
    if (!find_input_shape(p, a, &in->shape))
        return complain(p->is_conv ?
                            "%s: an input has one number, one of each channel, or the result's "
                            "shape" :
                            "%s: an input has one number, one of each column (N or 1 x N), one of "
                            "each row (M x 1), or the result's shape",
                        path),
               false;
    in->format = a->format;
    in->data = a->data;
    if (!p->is_conv && in->shape == LIMBER_INPUT_MATRIX) {
        in->row_stride = a->dim[1];
        in->col_stride = 1;
    }
    return true;
}

/* Reads the steps of --epilogue and the files of --input.  On failure prints a message and returns
 * false. */
bool epilogue_open(struct cli_product *p)
{
    int n = 0;

    if (!p->end.epilogue)
        return (!p->end.inputs && !p->end.nan_to_zero) ||
               (complain("%s needs --epilogue", p->end.inputs ? "--input" : "--nan-to-zero"),
                false);
    if (p->output.check)
        return complain("--check compares products, not what --epilogue makes of them"), false;
    p->end.steps =
        p->end.epilogue[0] == '@' ? text_read(p->end.epilogue + 1) : strdup(p->end.epilogue);
    if (!p->end.steps) {
        if (p->end.epilogue[0] != '@')
            complain("out of memory");
        return false;
    }
    for (; p->end.inputs && p->end.inputs[n]; n++)
        if (n == MOST_INPUTS)
            return complain("--input: more than %d", MOST_INPUTS), false;
        else if (!read_input(p, n, p->end.inputs[n]))
            return false;
    p->end.finish = (limber_epilogue)LIMBER_EPILOGUE_INIT;
    p->end.finish.steps = p->end.steps;
    p->end.finish.inputs = p->end.input;
    p->end.finish.input_count = n;
    p->end.finish.nan_to_zero = p->end.nan_to_zero;
    return true;
}

/* Prints a line for each step.  The first line has a label. */
void epilogue_print(const struct cli_product *p)
{
    const char *what = "epilogue", *steps = p->end.steps;

    for (size_t n; steps && *steps; steps += n + (steps[n] == '\n')) {
        n = strcspn(steps, "\n");
        if (n)
            printf("%-8s  %.*s\n", what, (int)n, steps);
        what = n ? "" : what;
    }
}
