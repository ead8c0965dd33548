/* SPDX-License-Identifier: BSD-3-Clause
 * Filter gradients of NHWC images with few channels have the interpreter's bits, and nothing else
 * is written. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

enum { CONTEXTS = 3 };

static limber_context *context[CONTEXTS];

/* Opens contexts with one and with three threads, and the interpreter. */
static int set_up(void **state)
{
    static const char *const backends[] = { NULL, NULL, "interp" };

    (void)state;
    for (int i = 0; i < CONTEXTS; i++) {
        limber_config config = LIMBER_CONFIG_INIT;

        config.backend = backends[i];
        config.threads = i == 1 ? 3 : 1;
        config.cache_dir = "";
        if (limber_create(&context[i], &config))
            return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < CONTEXTS; i++)
        limber_destroy(context[i]);
    return 0;
}

/* Draws a convolution whose dy has at least 130 pixels.  Channels of several groups are interleaved
 * in memory (NHWC). */
static void draw_shape(struct rng *r, limber_conv *s, int64_t out[2])
{
    *s = (limber_conv)LIMBER_CONV_INIT;
    s->layout = LIMBER_LAYOUT_NHWC;
    s->n = 1 + rng_below(r, 3);
    s->groups = 1 + rng_below(r, 3);
    s->c = s->groups * (1 + rng_below(r, 9));
    s->o = s->groups * (1 + rng_below(r, 20));
    do {
        for (int i = 0; i < 2; i++) {
            s->stride[i] = 1 + rng_below(r, 3);
            s->dilate[i] = 1 + rng_below(r, 2);
        }
        for (int i = 0; i < 4; i++)
            s->pad[i] = rng_below(r, 4);
        s->r = 1 + rng_below(r, 5);
        s->s = 1 + rng_below(r, 5);
        s->h = 10 + rng_below(r, 40);
        s->w = 10 + rng_below(r, 40);
        if (limber_conv_output(s, &out[0], &out[1]))
            out[0] = 0;
    } while (s->n * out[0] * out[1] < 130 || out[0] * out[1] > 900);
}

/* Allocates `count` random numbers of format f. */
static char *make_numbers(struct rng *r, limber_format f, int64_t count)
{
    char *data = malloc((size_t)count * f.size);

    assert_non_null(data);
    fill(r, DATA_unit, f, data, (size_t)count);
    return data;
}

/* The gradient of the filters must have the interpreter's bits, in all contexts and for random
 * shapes, alpha and beta. */
static void gradients_are_the_interpreters(void **state)
{
    struct rng r = { 23 };

    (void)state;
    for (int trial = 0; trial < (BRIEF ? 20 : 120); trial++) {
        const limber_format f = trial % 3 ? LIMBER_F32 : LIMBER_F64;
        limber_contract native = LIMBER_CONTRACT_INIT;
        limber_problem p = LIMBER_PROBLEM_INIT;
        char *image, *dy, *start, *want, beta[8];
        int64_t out[2], count;
        limber_conv s;

        draw_shape(&r, &s, out);
        count = s.o * (s.c / s.groups) * s.r * s.s;
        image = make_numbers(&r, f, s.n * s.h * s.w * s.c);
        dy = make_numbers(&r, f, s.n * out[0] * out[1] * s.o);
        start = make_numbers(&r, f, count);
        limber_convert(beta, f, &(double){ trial % 2 ? 1 : -0.5 }, LIMBER_F64, 1,
                       LIMBER_ROUND_NEAREST);
        p.operation = LIMBER_OPERATION_CONV_BACKWARD_FILTER;
        p.contract = &native;
        p.conv = &s;
        p.a = (limber_matrix){ image, f, 0, 0 };
        p.b = (limber_matrix){ dy, f, 0, 0 };
        p.beta = trial % 5 ? NULL : beta;
        p.alpha = trial % 7 ? NULL : beta;
        want = poisoned((size_t)count * f.size);
        for (int i = CONTEXTS - 1; i >= 0; i--) {
            char *got = poisoned((size_t)count * f.size);

            if (p.beta)
                memcpy(got, start, (size_t)count * f.size);
            p.c = (limber_output){ got, f, 0, 0 };
            if (limber_run(context[i], &p, NULL))
                fail_msg("%s", limber_error_text());
            if (i == CONTEXTS - 1)
                memcpy(want, got, (size_t)count * f.size);
            for (int64_t at = 0; at < count; at++)
                if (!same_number(f, got + at * f.size, want + at * f.size))
                    fail_msg(
                        "trial %d, context %d: n %d c %d h %d w %d o %d r %d s %d stride %d,%d "
                        "groups %d: element %d",
                        trial, i, (int)s.n, (int)s.c, (int)s.h, (int)s.w, (int)s.o, (int)s.r,
                        (int)s.s, (int)s.stride[0], (int)s.stride[1], (int)s.groups, (int)at);
            free(got);
        }
        free(image);
        free(dy);
        free(start);
        free(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gradients_are_the_interpreters) };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
