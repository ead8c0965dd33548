// SPDX-License-Identifier: BSD-3-Clause
// Compiles the public headers and initialisers as C++ with all warnings, and makes a call.
#include <limber/environment.h>
#include <limber/interpose.h>
#include <limber/limber.h>
#include <limber/names.h>
#include <limber/research.h>

/* Uses the public header from C++: initialisers, a product of 1 x 1 matrices, a unit's text and a
 * convolution's size. */
int main()
{
    limber_config config = LIMBER_CONFIG_INIT;
    limber_problem problem = LIMBER_PROBLEM_INIT;
    limber_report report = LIMBER_REPORT_INIT;
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_conv conv = LIMBER_CONV_INIT;
    int64_t rows = 0, cols = 0;
    limber_context *context = nullptr;
    const double a = 3, b = 4;
    double c = 0;
    bool good;

    config.cache_dir = "";
    problem.m = problem.n = problem.k = 1;
    problem.a = limber_matrix{ &a, LIMBER_F64, 1, 1 };
    problem.b = limber_matrix{ &b, LIMBER_F64, 1, 1 };
    problem.c = limber_output{ &c, LIMBER_F64, 1, 1 };
    good = limber_create(&context, &config) == LIMBER_STATUS_OK &&
           limber_run(context, &problem, &report) == LIMBER_STATUS_OK && c == 12 &&
           limber_unit_parse("int8", &unit) == LIMBER_STATUS_OK;
    conv.n = conv.c = conv.o = 1;
    conv.h = conv.w = 5;
    conv.r = conv.s = 3;
    good = good && limber_conv_output(&conv, &rows, &cols) == LIMBER_STATUS_OK && rows == 3 &&
           cols == 3;
    limber_destroy(context);
    return good ? 0 : 1;
}
