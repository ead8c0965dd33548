/* SPDX-License-Identifier: BSD-3-Clause
 * Epilogues on arrays in device memory: prints the source of a kernel for an epilogue's steps, and
 * launches that kernel. */
#include "backends/cuda/launch.h"

#include <string.h>

enum { THREADS = 256, WAVES = 8 };

/* ---- the text of a kernel for steps ---------------------------------------------------------- */

/* Prints a double by its bit pattern. */
static void print_number(struct text *t, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    limber_text_add(t, "fn_double(0x%llxul)", (unsigned long long)bits);
}

/* Prints operand i of a step: a constant, or the name of the variable that holds an input or an
 * earlier step's result. */
static void print_operand(struct text *t, const struct epilogue_step *s, int i)
{
    if (s->operand[i] == VALUE_number)
        print_number(t, s->number[i]);
    else
        limber_text_add(t, "v%d", s->operand[i]);
}

/* Prints a call of the step's function, with the function's parameters as constants. */
static void print_function(struct text *t, const struct epilogue *e, const struct epilogue_step *s)
{
    bool is_f32 = limber_format_equal(e->compute, LIMBER_F32);
    struct fn_args a = limber_function_args(e->once && !is_f32 ? e->to.format : e->compute,
                                            s->number[0], s->number[1]);

    limber_text_add(t, "function_%s(", limber_function_at((int)s->function, NULL, NULL));
    print_operand(t, s, 0);
    limber_text_add(t, ", { ");
    print_number(t, a.p);
    limber_text_add(t, ", ");
    print_number(t, a.q);
    limber_text_add(t, ", ");
    print_number(t, a.bound);
    limber_text_add(t, ", %d })", a.odd);
}

/* Prints one step as an expression in C. */
static void print_line(struct text *t, const struct epilogue *e, const struct epilogue_step *s)
{
    static const char *const sign[] = { "", " + ", " - ", " * ", " / ", ", ", ", " };

    limber_text_add(t, "%s",
                    s->op == STEP_max ? "larger" :
                    s->op == STEP_min ? "smaller" :
                                        "rounded");
    limber_text_add(t, "(");
    if (s->op == STEP_function) {
        print_function(t, e, s);
    } else {
        print_operand(t, s, 0);
        limber_text_add(t, "%s", sign[s->op]);
        print_operand(t, s, 1);
    }
    limber_text_add(t, ");");
}

/* True if the only step converts the format, so that the kernel copies without arithmetic. */
static bool is_copy(const struct epilogue *e)
{
    const struct epilogue_step *s = e->steps->step;

    return e->once && limber_format_equal(e->compute, LIMBER_F64) && s->op == STEP_function &&
           s->function == LIMBER_FUNCTION_CAST;
}

/* Prints the macro LINES, which declares a variable for each input and each step, and the macro
 * LAST, the name of the result's variable. */
static void print_lines(struct text *t, const struct epilogue *e)
{
    const struct steps *s = e->steps;

    limber_text_add(t, "#define LINES");
    for (int i = 0; i < s->inputs; i++)
        if (e->input[i].data)
            limber_text_add(t, " \\\n    const double v%d = input<%d>(args, plane, row, col);",
                            1 + i, i);
    for (int i = 0; i < s->count; i++) {
        limber_text_add(t, " \\\n    const double v%d = ", VALUE_steps + i);
        print_line(t, e, &s->step[i]);
    }
    limber_text_add(t, "\n#define LAST v%d\n", limber_steps_result(s));
}

/* Prints the source of an epilogue's kernel: formats, steps, and an #include of the kernel. */
bool limber_cuda_steps_source(const struct epilogue *e, struct text *out, struct diag *d)
{
    limber_text_add(out, "#include \"device.h\"\n#include \"ir/num/prim.h\"\n#include \"args.h\"\n"
                         "#include \"ir/num/functions.h\"\n#include \"ir/num/small.h\"\n\n"
                         "constexpr limber_format FROM = ");
    limber_cuda_format_source(out, e->from.format);
    limber_text_add(out, ", TO = ");
    limber_cuda_format_source(out, e->to.format);
    limber_text_add(out, ", INPUT[] = {\n");
    for (int i = 0; i < MOST_INPUTS; i++) {
        limber_text_add(out, "    ");
        limber_cuda_format_source(out, e->input[i].data ? e->input[i].format : e->from.format);
        limber_text_add(out, ",\n");
    }
    limber_text_add(out,
                    "};\nenum { NARROW = %d, ONCE = %d, COPY = %d };\n"
                    "constexpr limber_rounding ROUNDING = (limber_rounding)%d;\n",
                    limber_format_equal(e->compute, LIMBER_F32), e->once, is_copy(e),
                    (int)e->rounding);
    print_lines(out, e);
    limber_text_add(out, "\n#include \"raw.h\"\n#include \"steps.h\"\n");
    return !out->failed ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "cuda: no memory for the source");
}

/* ---- launching the kernel -------------------------------------------------------------------- */

/* Returns an epilogue's numbers in the form that the device's code reads. */
static struct steps_numbers kernel_numbers(const struct numbers *n)
{
    return (struct steps_numbers){ (char *)(uintptr_t)n->data, n->row, n->col, n->plane };
}

/* Launches the kernel of an epilogue's steps, whose threads loop over elements. */
bool limber_cuda_steps(struct kernel *k, const struct epilogue *e, int device,
                       const limber_queue *queue, struct diag *d)
{
    struct steps_args args = { .rows = e->rows, .cols = e->cols, .planes = e->planes };
    struct call call = { .device = device, .queue = queue };
    struct device_call r = { .kernel = k, .call = &call };
    int64_t blocks = (e->planes * e->rows * e->cols + THREADS - 1) / THREADS, most;
    bool ok;

    if (blocks == 0)
        return true;
    if (!limber_cuda_enter(&r, d))
        return false;
    args.from = kernel_numbers(&e->from);
    args.to = kernel_numbers(&e->to);
    for (int i = 0; i < MOST_INPUTS; i++)
        args.input[i] = kernel_numbers(&e->input[i]);
    most = (int64_t)WAVES * r.device->multiprocessors;
    ok = limber_cuda_launch_kernel(&r, KERNEL_steps, blocks < most ? blocks : most, THREADS, 0,
                                   &args, d);
    if (r.own_stream)
        ok = limber_cuda_ok(r.driver, r.driver->cuStreamSynchronize(r.stream), "running a kernel",
                            d) &&
             ok;
    limber_cuda_leave(&r);
    return ok;
}
