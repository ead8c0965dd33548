/* SPDX-License-Identifier: BSD-3-Clause
 * Options --epilogue TEXT and --input NAME=FILE: steps on a result before it is stored. */
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>

void epilogue_clear(struct product *p)
{
    for (int i = 0; p->inputs && p->inputs[i]; i++)
        free(p->inputs[i]); /* owned by popt */
    for (int i = 0; i < MOST_INPUTS; i++) {
        free((char *)(uintptr_t)p->input[i].name);
        array_clear(&p->input_data[i]);
    }
    free(p->inputs);
    free(p->epilogue);
    free(p->steps);
    p->inputs = NULL;
    p->epilogue = p->steps = NULL;
}

/* Derives an input's shape from its sizes: scalar, one number per row or per column, or matrix. */
static bool find_input_shape(const struct product *p, const struct array *a,
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

/* Reads --input NAME=FILE as input i of the epilogue. */
static bool read_input(struct product *p, int i, const char *text)
{
    const char *path = strchr(text, '=');
    struct array *a = &p->input_data[i];
    limber_epilogue_input *in = &p->input[i];

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

bool epilogue_open(struct product *p)
{
    int n = 0;

    if (!p->epilogue)
        return (!p->inputs && !p->nan_to_zero) ||
               (complain("%s needs --epilogue", p->inputs ? "--input" : "--nan-to-zero"), false);
    if (p->check)
        return complain("--check compares products, not what --epilogue makes of them"), false;
    p->steps = p->epilogue[0] == '@' ? text_read(p->epilogue + 1) : strdup(p->epilogue);
    if (!p->steps) {
        if (p->epilogue[0] != '@')
            complain("out of memory");
        return false;
    }
    for (; p->inputs && p->inputs[n]; n++)
        if (n == MOST_INPUTS)
            return complain("--input: more than %d", MOST_INPUTS), false;
        else if (!read_input(p, n, p->inputs[n]))
            return false;
    p->finish = (limber_epilogue)LIMBER_EPILOGUE_INIT;
    p->finish.steps = p->steps;
    p->finish.inputs = p->input;
    p->finish.input_count = n;
    p->finish.nan_to_zero = p->nan_to_zero;
    return true;
}

/* Prints one line per step; only the first line has a label. */
void epilogue_print(const struct product *p)
{
    const char *what = "epilogue", *steps = p->steps;

    for (size_t n; steps && *steps; steps += n + (steps[n] == '\n')) {
        n = strcspn(steps, "\n");
        if (n)
            printf("%-8s  %.*s\n", what, (int)n, steps);
        what = n ? "" : what;
    }
}
