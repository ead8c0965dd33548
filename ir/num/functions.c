/* SPDX-License-Identifier: BSD-3-Clause
 * Elementary functions of one number.  They define the bits that every backend gives. */
#include "ir/num/functions.h"
#include "ir/ir.h"

#include <string.h>

static const struct {
    const char *name, *meaning;
    int parameters;
} functions[] = {
#define ROW(NAME, name, parameters, meaning) { #name, meaning, parameters },
    LIMBER_FUNCTIONS(ROW)
#undef ROW
};

/* Finds the function with this name.  BAD_ARGUMENT if there is none. */
limber_status limber_function_named(const char *name, limber_function *out)
{
    for (int i = 0; name && out && i < LIMBER_FUNCTION_COUNT; i++)
        if (!strcmp(name, functions[i].name)) {
            *out = (limber_function)i;
            return LIMBER_STATUS_OK;
        }
    return LIMBER_STATUS_BAD_ARGUMENT;
}

/* Returns the name of function i, from 0; NULL past the last one. */
const char *limber_function_at(int i, const char **meaning, int *parameters)
{
    if (i < 0 || i >= LIMBER_FUNCTION_COUNT)
        return NULL;
    if (meaning)
        *meaning = functions[i].meaning;
    if (parameters)
        *parameters = functions[i].parameters;
    return functions[i].name;
}

/* Returns the parameters of a function whose results are stored in format `to`. */
struct fn_args limber_function_args(limber_format to, double p, double q)
{
    int top = limber_format_emax(to), low = limber_format_quantum(to);
    bool wide = to.kind == LIMBER_KIND_FLOAT && (top > 800 || low < -800);

    return (struct fn_args){
        .p = p, .q = q, .bound = wide ? FN_WIDE : 600, .odd = !limber_format_equal(to, LIMBER_F64)
    };
}

/* True if the function returns 0 or 1, such as `isnan`. */
static bool is_test(limber_function f)
{
    return f == LIMBER_FUNCTION_ISNAN || f == LIMBER_FUNCTION_ISINF;
}

/* Returns true if binary64 has at least `more` bits beyond those of f, in f's range.  If there are
 * two more bits, a value rounded to odd can be rounded again to f. */
static bool has_spare_bits(limber_format f, int more)
{
    return limber_format_equal(f, LIMBER_F64) ||
           (limber_is_real(f) && f.frac_bits + more <= 52 && limber_format_quantum(f) >= -1074 &&
            limber_format_emax(f) <= 1023);
}

/* True if the format can hold NaN. */
static bool has_nan(limber_format f)
{
    return !limber_is_integer(f) && f.kind != LIMBER_KIND_SHORT &&
           !(f.flags & LIMBER_FORMAT_FINITE);
}

/* Reports that a function is not defined on a format. */
static bool refuse_format(const limber_elementwise *e, const char *what, limber_format f,
                          struct diag *d)
{
    char text[64];

    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s is not defined on %s", what,
                       functions[e->function].name, limber_format_name(f, text, sizeof text));
}

/* Checks that the function is defined on both formats and for their rounding. */
static bool check_formats(const limber_elementwise *e, struct diag *d)
{
    char text[64];

    if (!limber_format_check("from", e->from, d) || !limber_format_check("to", e->to, d))
        return false;
    if (e->to.kind == LIMBER_KIND_POSIT && e->rounding != LIMBER_ROUND_NEAREST)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "rounding = %d: posits are rounded to nearest only", (int)e->rounding);
    if (e->function != LIMBER_FUNCTION_CAST && !has_spare_bits(e->from, 0))
        return refuse_format(e, "from", e->from, d);
    if (e->function != LIMBER_FUNCTION_CAST && !is_test(e->function) && !has_spare_bits(e->to, 2))
        return refuse_format(e, "to", e->to, d);
    if (e->function == LIMBER_FUNCTION_ISINF && e->to.kind == LIMBER_KIND_UINT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "to: %s has no -1, which isinf gives for minus infinity",
                           limber_format_name(e->to, text, sizeof text));
    if (!is_test(e->function) && !e->nan_to_zero && e->to.flags & LIMBER_FORMAT_FINITE &&
        (e->function != LIMBER_FUNCTION_CAST || has_nan(e->from)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "to: %s has no NaN, which %s can give; nan_to_zero = 1 stores 0 for it",
                           limber_format_name(e->to, text, sizeof text),
                           functions[e->function].name);
    return true;
}

/* Checks the function, formats and parameters of an elementwise operation. */
bool limber_function_check(const limber_elementwise *e, struct diag *d)
{
    if ((unsigned)e->function >= LIMBER_FUNCTION_COUNT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "function = %d is no function",
                           (int)e->function);
    if ((unsigned)e->rounding > LIMBER_ROUND_ODD)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "rounding = %d is no rounding of arrays",
                           (int)e->rounding);
    if ((unsigned)e->compute > LIMBER_COMPUTE_F32)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "compute = %d is unknown",
                           (int)e->compute);
    if (functions[e->function].parameters > 0 && e->p != e->p)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "p is NaN");
    if (functions[e->function].parameters > 1 && !(e->p <= e->q))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "p = %g is not at most q = %g", e->p,
                           e->q);
    return check_formats(e, d);
}

/* The cases of a switch.  Functions of angles reduce large arguments in another way than small
 * ones; the other functions need one case each. */
#define ANGLE(NAME, name) \
    case LIMBER_FUNCTION_##NAME: \
        return fn_value(FN_ABS(x) >= FN_FAR ? fn_##name##_far(x) : fn_##name(x, a), x, a->odd);
#define PLAIN(NAME, name) \
    case LIMBER_FUNCTION_##NAME: return fn_value(fn_##name(x, a), x, a->odd);

/* Returns the function's value at x as a double, rounded to odd if a->odd, else to nearest
 * (ir/num/functions.h). */
double limber_function_value(limber_function f, const struct fn_args *a, double x)
{
    switch (f) {
        ANGLE(SIN, sin)
        ANGLE(COS, cos)
        ANGLE(TAN, tan)
        FN_PLAIN(PLAIN)
    case LIMBER_FUNCTION_ISNAN: return fn_isnan(x);
    case LIMBER_FUNCTION_ISINF: return fn_isinf(x);
    default: return FN_NAN;
    }
}
