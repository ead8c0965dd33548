/* SPDX-License-Identifier: BSD-3-Clause
 * Runs plans with their data and expected bits on every available backend: the interpreter, LLVM,
 * its prebuilt kernels (backend `prebuilt`), and CUDA's source on the stand-ins.  A file *.lir
 * holds a plan, which is stated (passes finish it for each backend's machine) or finished (only the
 * tile is chosen), and
 *
 *   ; size: M N K          of a convolution N C H W O R S
 *   ; a: NUMBERS           the rows of A, then of B (b:), and of C before (c0:); of a convolution
 *                          the image (a:), the filters (b:) and the result as they lie in memory
 *   ; alpha: NUMBER        also beta:
 *   ; expect: NUMBERS      the rows of C
 *   ; overflow: NUMBER     how many of them do not fit their format; if absent, 0
 *   ; refuse BACKEND: TEXT this backend must refuse the plan with an error that contains TEXT
 *
 *  A number is a decimal or hexadecimal one, or "hi+lo", a sum of two for what no double holds.
 * `test_run FILE...` runs these files only. */
#include "compiler.h"
#include "files.h"
#include "gpus.h"
#include "plans.h"
#include "support.h"

#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_interp, limber_backend_llvm, limber_backend_cuda;

enum { MOST = 4 };

/* Lists the backends that this machine can run. */
static size_t backends_here(const struct backend *list[MOST])
{
    size_t count = 0;

    list[count++] = &limber_backend_interp;
    if (!EMULATED)
        list[count++] = &limber_backend_cuda;
#ifdef LIMBER_HAVE_LLVM
    if (prebuilt_kernels())
        list[count++] = prebuilt_kernels();
    if (compiler_here())
        list[count++] = &limber_backend_llvm;
#endif
    return count;
}

/* A plan from a file, with its operands and the expected result. */
struct trial {
    const char *path;
    char *text;
    bool conv;
    struct placed placed; /* sizes and index maps of a convolution; unused for a matrix product */
    int64_t m, n, k;
    struct tensor a, b, c0, want;
    char *alpha, *beta;
};

/* Returns the text after "; KEY: ", up to the end of the file.  NULL if there is no such line. */
static const char *text_after(const struct trial *t, const char *key)
{
    char line[64];
    const char *at;

    snprintf(line, sizeof line, "\n; %s: ", key);
    at = strstr(t->text, line);
    return at ? at + strlen(line) : NULL;
}

/* Reads `count` numbers of format f from the line with this key.  Returns NULL if there is no such
 * line. */
static char *read_numbers(const struct trial *t, const char *key, limber_format f, int64_t count)
{
    const char *at = text_after(t, key);
    char *to = malloc((size_t)count * f.size + 16), *end;

    if (!at) {
        free(to);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        double sum[2] = { strtod(at, &end), 0 };

        if (end == at || strcspn(at, "\n") < (size_t)(end - at))
            fail_msg("%s: '%s' has %d numbers, not %d", t->path, key, (int)i, (int)count);
        at = end;
        if (*at == '+') {
            sum[1] = strtod(at + 1, &end);
            at = end;
        }
        assert_int_equal(
            limber_convert(to + i * f.size, f, sum, named("dd"), 1, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
    }
    at += strspn(at, " ");
    if (*at != '\n')
        fail_msg("%s: '%s' has more than %d numbers: %.20s", t->path, key, (int)count, at);
    return to;
}

/* True if two numbers are equal.  All NaN are equal; double-doubles are equal if their sums are. */
static bool is_same_number(limber_format f, const char *x, const char *y)
{
    const limber_format wide = named("f128");
    unsigned char v[2][16];

    if (same_number(f, x, y))
        return true;
    limber_convert(v[0], wide, x, f, 1, LIMBER_ROUND_NEAREST);
    limber_convert(v[1], wide, y, f, 1, LIMBER_ROUND_NEAREST);
    return f.kind == LIMBER_KIND_DD && memcmp(v[0], v[1], 16) == 0;
}

/* Returns the node of operand `index`. */
static const struct node *arg_of(const struct plan *p, int index)
{
    for (int i = 0; i < (int)p->nodes; i++)
        if (p->node[i].op == OP_arg && limber_attr_number(&p->node[i], ATTR_index) == index)
            return &p->node[i];
    fail_msg("no arg index=%d", index);
    return NULL;
}

/* Returns the call of one group's product, with result c. */
static struct call call_of(const struct trial *t, int64_t group, struct tensor c)
{
    if (t->conv)
        return place_group(&t->placed, group, t->b, t->a, c);
    return (struct call){ .m = t->m,
                          .n = t->n,
                          .k = t->k,
                          .a = { t->a.data, t->k, 1, NULL },
                          .b = { t->b.data, 1, t->n, NULL },
                          .c = { c.data, t->n, 1, t->n, 0 },
                          .workspace_limit = 1 << 24 };
}

/* Computes one group of the product on one backend, into c.  Adds its overflows to *overflow.  On
 * an error sets d and returns false. */
static bool run_group(const struct backend *b, const struct trial *t, const struct target *target,
                      struct call call, int64_t *overflow, struct diag *d)
{
    limber_format fa = t->conv ? t->b.f : t->a.f, fb = t->conv ? t->a.f : t->b.f;
    struct mask ma = { 0 }, mb = { 0 };
    struct plan p = { 0 };
    bool finished = strstr(t->text, " = products ") != NULL;
    bool ok;

    call.alpha = t->alpha;
    call.beta = t->beta;
    call.mask_a = &ma;
    call.mask_b = &mb;
    call.runner = &plan_runner;
    ok = limber_plan_parse(&p, t->text, d) && limber_plan_verify(&p, d) &&
         limber_passes_run(&p, target, finished ? "tile" : NULL, (struct pass_watch){ 0 }, d) &&
         limber_scan(&ma, &call.a, fa, call.m, call.k, SCAN_full, NULL, d) &&
         limber_scan(&mb, &call.b, fb, call.n, call.k, SCAN_full, NULL, d) &&
         plan_launch(b, &p, target, &call, d);
    *overflow += call.out.overflow;
    limber_mask_clear(&ma);
    limber_mask_clear(&mb);
    limber_plan_clear(&p);
    return ok;
}

static int64_t groups_of(const struct trial *t)
{
    return t->conv ? t->placed.conv.geometry.groups : 1;
}

/* Returns the number of elements of C. */
static int64_t elements(const struct trial *t)
{
    const struct conv_sizes *z = &t->placed.conv.sizes;

    return t->conv ? z->n * z->o * z->oh * z->ow : t->m * t->n;
}

/* Runs the plan on a backend and compares with the expected result, overflows or refusal. */
static void check_on(const struct backend *b, const struct trial *t)
{
    struct target target = { .device = 0 };
    struct diag d = { 0 };
    int64_t count = elements(t), overflow = 0;
    limber_format f = t->want.f;
    char key[40], text[200], *c = poisoned((size_t)count * f.size);
    const char *refusal, *want = t->want.data;
    bool ok = true;

    snprintf(key, sizeof key, "refuse %s", b->name);
    refusal = text_after(t, key);
    if (t->c0.data)
        memcpy(c, t->c0.data, (size_t)count * f.size);
    if (!b->probe(&target, &d))
        fail_msg("%s: %s", b->name, d.text);
    for (int64_t g = 0; g < groups_of(t) && ok; g++)
        ok = run_group(b, t, &target, call_of(t, g, (struct tensor){ c, f }), &overflow, &d);
    if (refusal) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(refusal, "\n"), refusal);
        if (ok || !strstr(d.text, text))
            fail_msg("%s on %s: %s, not refused by '%s'", t->path, b->name, ok ? "ran" : d.text,
                     text);
    } else if (!ok) {
        fail_msg("%s on %s: %s", t->path, b->name, d.text);
    }
    if (ok && overflow != (text_after(t, "overflow") ? atoll(text_after(t, "overflow")) : 0))
        fail_msg("%s on %s: %lld elements do not fit", t->path, b->name, (long long)overflow);
    for (int64_t i = 0; ok && i < count; i++)
        if (!is_same_number(f, c + i * f.size, want + i * f.size)) {
            double x, y;

            limber_convert(&x, named("f64"), c + i * f.size, f, 1, LIMBER_ROUND_NEAREST);
            limber_convert(&y, named("f64"), want + i * f.size, f, 1, LIMBER_ROUND_NEAREST);
            fail_msg("%s on %s: element %d is %a, not %a", t->path, b->name, (int)i, x, y);
        }
    free(c);
}

/* Reads formats and kind of the operands from the plan, and sizes from the line "; size:".  *na,
 * *nb: elements of each operand. */
static void read_shape(struct trial *t, const struct plan *p, int64_t *na, int64_t *nb)
{
    const struct node *conv = limber_plan_find(p, OP_conv);
    long long z[7];
    int count = 0, want;

    conv = conv ? conv : limber_plan_find(p, OP_patches);
    want = conv ? 7 : 3;
    if (text_after(t, "size"))
        count = sscanf(text_after(t, "size"), "%lld %lld %lld %lld %lld %lld %lld", &z[0], &z[1],
                       &z[2], &z[3], &z[4], &z[5], &z[6]);
    if (count != want)
        fail_msg("%s has no '; size: ' with %d numbers", t->path, want);
    t->a.f = arg_of(p, 0)->type.format;
    t->b.f = arg_of(p, 1)->type.format;
    t->c0.f = t->want.f = p->node[p->ret].type.format;
    t->conv = conv != NULL;
    if (conv) {
        struct conv_geometry g;

        limber_conv_read(conv, &g);
        place_conv(&t->placed, &g,
                   &(struct conv_sizes){ z[0], z[1], z[2], z[3], z[4], z[5], z[6], 0, 0 });
        *na = z[0] * z[1] * z[2] * z[3];
        *nb = z[4] * (z[1] / g.groups) * z[5] * z[6];
        return;
    }
    t->m = z[0];
    t->n = z[1];
    t->k = z[2];
    *na = t->m * t->k;
    *nb = t->k * t->n;
}

/* Reads a file and runs its plan on every available backend. */
static void run_file(void *user, const char *path)
{
    struct trial t = { .path = path, .text = test_file_read(path) };
    const struct backend *backends[MOST];
    size_t count = backends_here(backends);
    struct plan p = { 0 };
    struct diag d = { 0 };
    limber_format scalar;
    int64_t na, nb;

    (void)user;
    assert_non_null(t.text);
    if (!limber_plan_parse(&p, t.text, &d))
        fail_msg("%s: %s", path, d.text);
    read_shape(&t, &p, &na, &nb);
    limber_plan_clear(&p);
    scalar = t.want.f.kind == LIMBER_KIND_INT ? named("i64") : t.want.f;
    t.a.data = read_numbers(&t, "a", t.a.f, na);
    t.b.data = read_numbers(&t, "b", t.b.f, nb);
    t.c0.data = read_numbers(&t, "c0", t.c0.f, elements(&t));
    t.want.data = read_numbers(&t, "expect", t.want.f, elements(&t));
    t.alpha = read_numbers(&t, "alpha", scalar, 1);
    t.beta = read_numbers(&t, "beta", scalar, 1);
    if (!t.a.data || !t.b.data || !t.want.data)
        fail_msg("%s lacks '; a: ', '; b: ' or '; expect: '", path);
    for (size_t i = 0; i < count; i++)
        check_on(backends[i], &t);
    free(t.text);
    free(t.a.data);
    free(t.b.data);
    free(t.c0.data);
    free(t.want.data);
    free(t.alpha);
    free(t.beta);
}

static char **named_files; /* files from the command line; NULL for all files */

/* The plan of each file, or of the files named on the command line, gives the results that the file
 * states. */
static void plans_give_their_bits(void **state)
{
    (void)state;
    if (named_files) {
        for (char **path = named_files; *path; path++)
            run_file(NULL, *path);
        return;
    }
    assert_true(test_files_each(LIMBER_TEST_DIR "/run", "*.lir", run_file, NULL) >= 25);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_give_their_bits) };

    named_files = argc > 1 ? argv + 1 : NULL;
    gpu_stand_ins();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
