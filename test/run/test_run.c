/* SPDX-License-Identifier: BSD-3-Clause
 * Plans with their data and the bits that they owe, run on every backend at hand: the interpreter,
 * LLVM, and CUDA's source on the stand-ins.  A file *.lir holds a plan, stated (passes finish it
 * for each backend's machine) or finished (only the tile is chosen), and
 *
 *   ; size: M N K
 *   ; a: NUMBERS           the rows of A, then of B (b:), and of C before (c0:)
 *   ; alpha: NUMBER        also beta:
 *   ; expect: NUMBERS      the rows of C
 *   ; refuse BACKEND: TEXT what is in this backend's message instead
 *
 * A number is a decimal or hexadecimal one, or "hi+lo", a sum of two that no double holds.
 * `test_run FILE...` runs these files alone. */
#include "files.h"
#include "support.h"

#include "backends/backend.h"
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

static const struct backend *const backends[] = {
    &limber_backend_interp,
#ifdef LIMBER_HAVE_LLVM
    &limber_backend_llvm,
#endif
    &limber_backend_cuda,
};

struct trial {
    const char *path;
    char *text;
    int64_t m, n, k;
    limber_format fa, fb, fc;
    char *a, *b, *c0, *want, *alpha, *beta;
};

/* What stands behind "; KEY: " up to the line's end; NULL where there is none. */
static const char *behind(const struct trial *t, const char *key)
{
    char line[64];
    const char *at;

    snprintf(line, sizeof line, "\n; %s: ", key);
    at = strstr(t->text, line);
    return at ? at + strlen(line) : NULL;
}

/* `count` numbers behind the key in format f, or NULL without the key. */
static char *numbers(const struct trial *t, const char *key, limber_format f, int64_t count)
{
    const char *at = behind(t, key);
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

/* One NaN is as good as another, and a pair of doubles is its sum. */
static bool same(limber_format f, const char *x, const char *y)
{
    const limber_format wide = named("f128");
    unsigned char v[2][16];
    double d[2];

    if (memcmp(x, y, f.size) == 0)
        return true;
    limber_convert(v[0], wide, x, f, 1, LIMBER_ROUND_NEAREST);
    limber_convert(v[1], wide, y, f, 1, LIMBER_ROUND_NEAREST);
    if (f.size == named("dd").size && f.kind == named("dd").kind && memcmp(v[0], v[1], 16) == 0)
        return true;
    limber_convert(&d[0], named("f64"), x, f, 1, LIMBER_ROUND_NEAREST);
    limber_convert(&d[1], named("f64"), y, f, 1, LIMBER_ROUND_NEAREST);
    return d[0] != d[0] && d[1] != d[1];
}

static void run_here(void *self, int64_t tasks, void (*fn)(void *arg, int64_t task, int worker),
                     void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

static limber_format format_of(const struct plan *p, int index)
{
    for (int i = 0; i < (int)p->nodes; i++)
        if (p->node[i].op == OP_arg && limber_num(&p->node[i], ATTR_index) == index)
            return p->node[i].type.format;
    fail_msg("no arg index=%d", index);
    return named("f64");
}

/* The product on one backend in c, or d tells why not. */
static bool run_on(const struct backend *b, const struct trial *t, const struct target *target,
                   char *c, struct diag *d)
{
    const struct runner runner = { 1, run_here, NULL };
    struct mask ma = { 0 }, mb = { 0 };
    struct call call = { .m = t->m,
                         .n = t->n,
                         .k = t->k,
                         .a = { t->a, t->k, 1, NULL },
                         .b = { t->b, 1, t->n, NULL },
                         .c = { c, t->n, 1, t->n, 0 },
                         .alpha = t->alpha,
                         .beta = t->beta,
                         .mask_a = &ma,
                         .mask_b = &mb,
                         .runner = &runner,
                         .workspace_limit = 1 << 24 };
    struct kernel *kernel = NULL;
    struct blob blob = { 0 };
    struct plan p = { 0 };
    bool finished = strstr(t->text, " = products ") != NULL;
    bool ok =
        limber_plan_parse(&p, t->text, d) && limber_plan_verify(&p, d) &&
        limber_passes_run(&p, target, finished ? "tile" : NULL, (struct pass_watch){ 0 }, d) &&
        limber_scan(&ma, &call.a, t->fa, t->m, t->k, SCAN_full, true, NULL, d) &&
        limber_scan(&mb, &call.b, t->fb, t->n, t->k, SCAN_full, true, NULL, d) &&
        b->compile(&p, target, NULL, &blob, d) && b->load(blob.data, blob.size, &kernel, d) &&
        b->launch(kernel, &call, d);

    if (kernel)
        b->unload(kernel);
    free(blob.data);
    limber_mask_clear(&ma);
    limber_mask_clear(&mb);
    limber_plan_clear(&p);
    return ok;
}

static void check_on(const struct backend *b, const struct trial *t)
{
    struct target target = { .device = 0 };
    struct diag d = { 0 };
    int64_t count = t->m * t->n;
    char key[40], text[200], *c = poisoned((size_t)count * t->fc.size);
    const char *refusal;
    bool ok;

    snprintf(key, sizeof key, "refuse %s", b->name);
    refusal = behind(t, key);
    if (t->c0)
        memcpy(c, t->c0, (size_t)count * t->fc.size);
    if (!b->probe(&target, &d))
        fail_msg("%s: %s", b->name, d.text);
    ok = run_on(b, t, &target, c, &d);
    if (refusal) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(refusal, "\n"), refusal);
        if (ok || !strstr(d.text, text))
            fail_msg("%s on %s: %s, not refused by '%s'", t->path, b->name, ok ? "ran" : d.text,
                     text);
    } else if (!ok) {
        fail_msg("%s on %s: %s", t->path, b->name, d.text);
    }
    for (int64_t i = 0; ok && i < count; i++)
        if (!same(t->fc, c + i * t->fc.size, t->want + i * t->fc.size)) {
            double x, y;

            limber_convert(&x, named("f64"), c + i * t->fc.size, t->fc, 1, LIMBER_ROUND_NEAREST);
            limber_convert(&y, named("f64"), t->want + i * t->fc.size, t->fc, 1,
                           LIMBER_ROUND_NEAREST);
            fail_msg("%s on %s: element %d is %a, not %a", t->path, b->name, (int)i, x, y);
        }
    free(c);
}

static void check(void *user, const char *path)
{
    struct trial t = { .path = path, .text = test_file_read(path) };
    struct plan p = { 0 };
    struct diag d = { 0 };
    long long m = 0, n = 0, k = 0;

    (void)user;
    assert_non_null(t.text);
    if (!behind(&t, "size") || sscanf(behind(&t, "size"), "%lld %lld %lld", &m, &n, &k) != 3)
        fail_msg("%s has no '; size: M N K'", path);
    if (!limber_plan_parse(&p, t.text, &d))
        fail_msg("%s: %s", path, d.text);
    t.m = m;
    t.n = n;
    t.k = k;
    t.fa = format_of(&p, 0);
    t.fb = format_of(&p, 1);
    t.fc = p.node[p.ret].type.format;
    limber_plan_clear(&p);
    t.a = numbers(&t, "a", t.fa, m * k);
    t.b = numbers(&t, "b", t.fb, k * n);
    t.c0 = numbers(&t, "c0", t.fc, m * n);
    t.want = numbers(&t, "expect", t.fc, m * n);
    t.alpha = numbers(&t, "alpha", t.fc.kind == LIMBER_KIND_INT ? named("i64") : t.fc, 1);
    t.beta = numbers(&t, "beta", t.fc.kind == LIMBER_KIND_INT ? named("i64") : t.fc, 1);
    if (!t.a || !t.b || !t.want)
        fail_msg("%s lacks '; a: ', '; b: ' or '; expect: '", path);
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        check_on(backends[i], &t);
    free(t.text);
    free(t.a);
    free(t.b);
    free(t.c0);
    free(t.want);
    free(t.alpha);
    free(t.beta);
}

static char **named_files; /* of the command line; NULL: all */

static void plans_give_their_bits(void **state)
{
    (void)state;
    if (named_files) {
        for (char **path = named_files; *path; path++)
            check(NULL, *path);
        return;
    }
    assert_true(test_files_each(LIMBER_TEST_DIR "/run", check, NULL) >= 25);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_give_their_bits) };

    named_files = argc > 1 ? argv + 1 : NULL;
    setenv("LIMBER_CUDA", SIMT_CUDA, 1);
    setenv("LIMBER_NVRTC", SIMT_NVRTC, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
