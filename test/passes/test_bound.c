/* SPDX-License-Identifier: BSD-3-Clause
 * Tests that the pass `bound` proves its bound from the plan alone.  Finished plans are changed: a
 * row is deleted or repeated, or a limb, a weight, an attribute or a number of the head is another
 * one.  The pass must refuse each changed plan, or the interpreter's results must keep the bound
 * that it reports, on data of the plan's masks that is made to err, compared with MPFR. */
#define _GNU_SOURCE
#include "backends/backend.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"
#include "compiler.h"
#include "files.h"
#include "plans.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_llvm;

enum { LINES = 3, MOST_K = 24, MOST_PLANS = 80 };

/* The text of a plan after all passes, and the machine for which it was made. */
struct base {
    char *text;
    const char *path;
    struct target machine;
};
/* The plans to change, and their number. */
static struct base base[MOST_PLANS];
static size_t bases;
static struct rng rng = { 1 };

/* ---- finished plans from the texts of other tests -------------------------------------------- */

/* Runs the passes on the plan of a file, and keeps the result if they do not refuse it. */
static void add_base(void *user, const char *path)
{
    char *text = test_file_read(path), target[2100] = "target ";
    const char *at = strstr(text, "; target: ");
    struct base *b = &base[bases];
    struct diag d = { 0 };
    struct plan p = { 0 };

    (void)user;
    assert_true(bases < MOST_PLANS);
    if (at)
        snprintf(target + 7, sizeof target - 7, "%.*s", (int)strcspn(at + 10, "\n"), at + 10);
    if (!(at ? limber_target_parse(&b->machine, target, &d) :
               limber_backend_interp.probe(&b->machine, &d)))
        fail_msg("%s: %s", path, d.text);
    limber_target_complete(&b->machine);
    at = strstr(text, "\n; expect\n");
    if (at)
        text[at - text + 1] = 0;
    if (limber_plan_parse(&p, text, &d) && limber_plan_find(&p, OP_gemm) && !p.model &&
        limber_passes_run(&p, &b->machine, NULL, (struct pass_watch){ 0 }, &d)) {
        b->text = print_plan(&p);
        b->path = strdup(path);
        bases++;
    }
    limber_plan_clear(&p);
    free(text);
}

static int read_bases(void **state)
{
    (void)state;
    test_files_each(LIMBER_TEST_DIR "/run", "*.lir", add_base, NULL);
    test_files_each(LIMBER_TEST_DIR "/passes", "*.lir", add_base, NULL);
    return bases < 30;
}

static int free_bases(void **state)
{
    (void)state;
    for (size_t i = 0; i < bases; i++) {
        free(base[i].text);
        free((char *)base[i].path);
    }
    return 0;
}

/* ---- data of a mask that makes limbs err ----------------------------------------------------- */

/* The exponents and bits that an operand's elements may have. */
struct room {
    limber_format f;
    int64_t emin, emax, spread, width, sig;
    bool is_unsigned, scanned;
};

/* Returns the exponents and bits that the plan allows for operand `index`. */
static struct room room_of(const struct plan *p, int index)
{
    struct room r = { .sig = -1 };

    for (size_t i = 0; i < p->nodes; i++) {
        const struct node *n = &p->node[i];

        if (n->op != OP_arg || limber_attr_number(n, ATTR_index) != index)
            continue;
        r.f = n->type.format;
        r.scanned = limber_node_has(n, ATTR_emin);
        r.emin = limber_attr_number(n, ATTR_emin);
        r.emax = limber_attr_number(n, ATTR_emax);
        r.spread = limber_attr_number(n, ATTR_spread);
        r.width = limber_attr_number(n, ATTR_width);
        r.sig = limber_attr_number(n, ATTR_sig);
        r.is_unsigned = limber_attr_number(n, ATTR_sign) == SIGN_unsigned;
    }
    if (!r.scanned) {
        bool integer = limber_is_integer(r.f);

        r.emin = integer ? 0 : -6;
        r.emax = integer ? limber_format_emax(r.f) - (r.f.kind == LIMBER_KIND_INT) : 6;
        r.spread = r.emax - r.emin;
        r.sig = limber_format_sig(r.f);
        r.width = r.spread + r.sig;
        r.is_unsigned = r.f.kind == LIMBER_KIND_UINT;
    }
    if (r.sig > 53)
        r.sig = 53;
    if (limber_format_sig(r.f) < r.sig)
        r.sig = limber_format_sig(r.f);
    return r;
}

static int64_t between(int64_t least, int64_t most)
{
    return most <= least ? least : least + rng_below(&rng, (int)(most - least + 1));
}

/* Returns a significand of `bits` bits in [1, 2). kind 0: all ones; 1: random; 2: one bit; 3: a
 * midpoint of a shorter format; 4: just above a midpoint, if there are enough bits. */
static double make_significand(int bits, int kind)
{
    uint64_t m = UINT64_C(1) << (bits - 1), low = m - 1;
    int cut = 6 + rng_below(&rng, 20);

    if (kind == 0)
        m |= low;
    else if (kind == 1)
        m |= rng_next(&rng) & low;
    else if (kind > 2 && bits - 1 > cut)
        m |= (UINT64_C(1) << (bits - 1 - cut)) | (kind == 4 ? 1 : 0);
    else if (kind > 2)
        m |= low >> 1;
    return ldexp((double)m, 1 - bits);
}

/* Fills `lines` lines of k elements with numbers that have these exponents and bits. */
static void fill_room(const struct room *r, char *to, int64_t k)
{
    int kind = rng_below(&rng, 6);
    bool one_sign = r->is_unsigned || rng_below(&rng, 3);

    for (int line = 0; line < LINES; line++) {
        int64_t top = rng_below(&rng, 2) ? r->emax : between(r->emin, r->emax);
        int64_t low = top - r->spread > r->emin ? top - r->spread : r->emin;

        for (int64_t p = 0; p < k; p++) {
            int64_t e = p == 0 ? top : rng_below(&rng, 3) ? low : between(low, top);
            int64_t quantum = top - r->width + 1, bits;
            double x;

            if (limber_format_quantum(r->f) > quantum)
                quantum = limber_format_quantum(r->f);
            bits = e - quantum + 1 < r->sig ? e - quantum + 1 : r->sig;
            x = bits < 1 || r->width == 0 ?
                    0 :
                    ldexp(make_significand((int)bits, kind == 5 ? rng_below(&rng, 5) : kind),
                          (int)e);
            if (!one_sign && rng_below(&rng, 2))
                x = -x;
            limber_convert(to + (line * k + p) * r->f.size, r->f, &x, LIMBER_F64, 1,
                           LIMBER_ROUND_NEAREST);
        }
    }
}

/* True if the data is within the exponents and bits that the plan states (its mask). */
static bool fits(const struct room *r, const struct mask *m)
{
    return !m->special &&
           (!r->scanned || m->zero ||
            (m->emin >= r->emin && m->emax <= r->emax && m->spread <= r->spread &&
             m->width <= r->width && m->sig <= r->sig && !(m->negative && r->is_unsigned)));
}

/* ---- the bound against results --------------------------------------------------------------- */

/* Returns the largest error of C relative to |A||B|, after subtracting the one rounding to C's
 * format; -1 if a result does not fit its format.  Under `native` and `fast`, sums in the
 * accumulator's format may overflow, so an infinity or a NaN is no error. */
static double largest_error(const struct plan *p, const struct room r[2], char *const x[2],
                            const struct call *c)
{
    const struct node *out = limber_plan_find(p, OP_epilogue);
    limber_format f = out->type.format;
    bool wraps = limber_attr_number(out, ATTR_wrap) == 1,
         may_overflow = p->promise == LIMBER_CONTRACT_NATIVE || p->promise == LIMBER_CONTRACT_FAST;
    double most = 0, largest = limber_format_largest(limber_plan_find(p, OP_products)->type.format);
    mpfr_t sum, absolute, result;

    if (c->out.overflow)
        return -1;
    mpfr_inits2(REF_BITS, sum, absolute, result, (mpfr_ptr)NULL);
    for (int64_t i = 0; i < LINES; i++)
        for (int64_t j = 0; j < LINES; j++) {
            const char *at = (const char *)c->c.data + (i * LINES + j) * f.size;
            double error, u = limber_format_roundoff(f) * (1 + 0x1p-20), rounding;

            ref_dot(sum, absolute, r[0].f, x[0] + i * c->k * r[0].f.size, 1, r[1].f,
                    x[1] + j * c->k * r[1].f.size, 1, c->k);
            ref_load(result, f, at);
            if (!mpfr_number_p(result) && u > 0 &&
                fabs(mpfr_get_d(sum, MPFR_RNDZ)) >= limber_format_largest(f))
                continue; /* the format has no such number */
            if (!mpfr_number_p(result) && may_overflow &&
                mpfr_get_d(absolute, MPFR_RNDU) >= largest)
                continue;
            mpfr_sub(sum, sum, result, MPFR_RNDN);
            if (wraps) { /* the remainder modulo 2^bits that is smallest in magnitude */
                mpfr_set_ui_2exp(result, 1, limber_format_sig(f) + 1, MPFR_RNDN);
                mpfr_remainder(sum, sum, result, MPFR_RNDN);
            }
            if (mpfr_zero_p(sum))
                continue;
            if (u == 0) /* C has an integer format; a result that wraps is exact */
                mpfr_set_d(result, wraps ? 0 : 0.5, MPFR_RNDN);
            else
                mpfr_mul_d(result, result, p->promise == LIMBER_CONTRACT_NATIVE ? 0 : u, MPFR_RNDU);
            mpfr_abs(result, result, MPFR_RNDN);
            if (u > 0 && mpfr_get_d(result, MPFR_RNDU) < ldexp(1, limber_format_quantum(f) - 1))
                mpfr_set_d(result, ldexp(1, limber_format_quantum(f) - 1), MPFR_RNDU);
            mpfr_div(result, result, absolute, MPFR_RNDU);
            rounding = mpfr_get_d(result, MPFR_RNDU);
            mpfr_abs(sum, sum, MPFR_RNDN);
            mpfr_div(sum, sum, absolute, MPFR_RNDU);
            error = mpfr_get_d(sum, MPFR_RNDU) - rounding;
            if (!(error <= most))
                most = error;
        }
    mpfr_clears(sum, absolute, result, (mpfr_ptr)NULL);
    return most;
}

#ifdef LIMBER_HAVE_LLVM
/* Computes the call by a kernel that LLVM compiles, if it supports the plan, and compares the
 * bits to `want`.  Returns true if the kernel ran. */
static bool compare_compiled(const struct plan *p, struct call call, const char *want, size_t bytes)
{
    char *c = poisoned(bytes);
    struct target machine;
    struct plan copy = { 0 };
    struct diag d = { 0 };
    bool ok;

    assert_true(limber_backend_llvm.probe(&machine, &d) && limber_plan_copy(&copy, p));
    call.c.data = c;
    ok = limber_passes_run(&copy, &machine, "tile,bound", (struct pass_watch){ 0 }, &d) &&
         plan_launch(&limber_backend_llvm, &copy, &machine, &call, &d);
    if (!ok && (d.status == LIMBER_STATUS_OK || d.status == LIMBER_STATUS_NO_MEMORY))
        fail_msg("%s\n%s", d.text, print_plan(p));
    if (ok && memcmp(c, want, bytes))
        fail_msg("LLVM and the interpreter differ\n%s", print_plan(p));
    limber_plan_clear(&copy);
    free(c);
    return ok;
}
#endif

static size_t compiled; /* plans that LLVM compiled */

/* Runs a plan on random data that the plan allows.  Returns the largest error; -1 if the plan
 * did not run. compiles: whether the plan is also compiled. */
static double run_plan(const struct plan *p, const struct target *machine, bool compiles)
{
    struct room r[2] = { room_of(p, 0), room_of(p, 1) };
    limber_format f = limber_plan_find(p, OP_epilogue)->type.format;
    int64_t k = p->kbits < 5 ? (int64_t)1 << p->kbits : MOST_K;
    char *x[2], *c = poisoned(LINES * LINES * (size_t)f.size);
    struct mask m[2] = { 0 };
    struct call call = { .m = LINES, .n = LINES, .k = k, .workspace_limit = 1 << 24 };
    struct diag d = { 0 };
    double error = -1;
    bool ok = r[0].sig >= 0 && r[1].sig >= 0;

    for (int i = 0; i < 2; i++) {
        x[i] = calloc(LINES * (size_t)k, 16);
        assert_non_null(x[i]);
        if (ok)
            fill_room(&r[i], x[i], k);
    }
    call.a = (struct view){ x[0], k, 1, NULL };
    call.b = (struct view){ x[1], k, 1, NULL };
    call.c = (struct output_view){ c, LINES, 1, LINES, 0 };
    call.mask_a = &m[0];
    call.mask_b = &m[1];
    call.runner = &plan_runner;
    for (int i = 0; i < 2 && ok; i++)
        ok = limber_scan(&m[i], i ? &call.b : &call.a, r[i].f, LINES, k, SCAN_full, NULL, &d) &&
             fits(&r[i], &m[i]);
    if (ok) {
        if (!plan_launch(&limber_backend_interp, p, machine, &call, &d))
            fail_msg("%s\n%s", d.text, print_plan(p));
        error = largest_error(p, r, x, &call);
#ifdef LIMBER_HAVE_LLVM
        compiled += compiles && compiler_here() &&
                    compare_compiled(p, call, c, LINES * LINES * (size_t)f.size);
#endif
    }
    for (int i = 0; i < 2; i++) {
        limber_mask_clear(&m[i]);
        free(x[i]);
    }
    free(c);
    return error;
}

/* Runs the pass `bound` on the text.  True if it accepts the plan, which the caller then clears. */
static bool bound_text(const char *text, const struct target *machine, struct plan *p,
                       struct diag *d)
{
    if (!limber_plan_parse(p, text, d))
        return false;
    if (limber_plan_verify(p, d) &&
        limber_passes_run(p, machine, "bound", (struct pass_watch){ 0 }, d))
        return true;
    limber_plan_clear(p);
    return false;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Returns the start of line i of a text, and its length with the line's end. */
static const char *line_at(const char *text, size_t i, size_t *n)
{
    for (; i > 0 && *text; i--)
        text += strcspn(text, "\n") + 1;
    *n = strcspn(text, "\n") + 1;
    return text;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Returns the text with `n` bytes at `at` replaced. */
static char *replaced(const char *text, const char *at, size_t n, const char *by)
{
    char *out = NULL;

    assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, by, at + n) >= 0);
    return out;
}

static bool is_row(const char *line)
{
    return strncmp(line, "    row ", 8) == 0;
}

/* Returns the text with a row chosen at random deleted or repeated, or unchanged if the line chosen
 * is no row.  The caller frees the result. */
static char *change_rows(const char *text)
{
    size_t lines = count_lines(text), n, i = (size_t)rng_below(&rng, (int)lines), other;
    const char *line = line_at(text, i, &n), *to;
    char row[300];

    if (!is_row(line))
        return strdup(text);
    snprintf(row, sizeof row, "%.*s", (int)n, line);
    if (rng_below(&rng, 3))
        return replaced(text, line, n, "");
    to = line_at(text, i - (size_t)rng_below(&rng, 2), &other);
    return replaced(text, is_row(to) ? to : line, 0, row);
}

/* Returns the text with one number changed, or unchanged if no number follows the place chosen at
 * random.  The caller frees the result. */
static char *change_number(const char *text)
{
    size_t n, lines = count_lines(text);
    const char *line = line_at(text, (size_t)rng_below(&rng, (int)lines), &n), *at, *digits;
    char by[40];
    long old;

    at = line + rng_below(&rng, (int)n);
    digits = at + strcspn(at, "0123456789");
    if (!*digits)
        return strdup(text);
    while (digits > text && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    n = strspn(digits, "0123456789");
    old = n < 10 ? strtol(digits, NULL, 10) : 7;
    switch (rng_below(&rng, 6)) {
    case 0: old += 1; break;
    case 1: old -= old > 0; break;
    case 2: old = rng_below(&rng, 70); break;
    case 3: old *= 2; break;
    case 4: old /= 2; break;
    default: old += rng_below(&rng, 12); break;
    }
    snprintf(by, sizeof by, "%ld", old);
    return replaced(text, digits, n, by);
}

/* Returns the text with one word replaced by another that the grammar allows there, or unchanged if
 * it lacks the word chosen at random.  The caller frees the result. */
static char *change_word(const char *text)
{
    static const char *const words[][2] = {
        { "signed", "unsigned" },
        { "unsigned", "signed" },
        { "balanced", "signed" },
        { "axis=row", "axis=none" },
        { "axis=row", "axis=all" },
        { "axis=row", "axis=col" },
        { "axis=col", "axis=none" },
        { "axis=none", "axis=row" },
        { "axis=none", "axis=col" },
        { "correct", "fast" },
        { "fast", "correct" },
        { "native", "fast" },
        { "fast", "native" },
        { "correct", "native" },
        { "f64", "f32" },
        { "f32", "f64" },
        { "f16", "bf16" },
        { "i32", "i64" },
        { "share=all", "share=0" },
        { "wrap=0", "wrap=1" },
        { "w=2^-", "w=2^" },
        { "shift=12", "shift=0" },
        { "top=", "top=-" },
        { "crt", "shift" },
        { "emin=-", "emin=" },
        { "budget=0", "budget=any" },
        { "sums=h100", "sums=fma" },
        { "index=0", "index=1" },
    };
    size_t w = (size_t)rng_below(&rng, (int)COUNT(words));
    const char *at = strstr(text, words[w][0]), *next;

    if (!at)
        return strdup(text);
    while ((next = strstr(at + 1, words[w][0])) && rng_below(&rng, 2))
        at = next;
    return replaced(text, at, strlen(words[w][0]), words[w][1]);
}

/* Returns a text with one or more random changes. */
static char *change_text(const char *text)
{
    char *(*const change[])(const char *) = { change_rows, change_number, change_number,
                                              change_word };
    char *out = change[rng_below(&rng, COUNT(change))](text);

    while (rng_below(&rng, 4) == 0) {
        char *more = change[rng_below(&rng, COUNT(change))](out);

        free(out);
        out = more;
    }
    return out;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Checks that a plan's results keep its bound and, if it compiles, have the interpreter's bits. */
static bool check_results(const char *text, const struct base *b, const struct plan *p,
                          bool compiles)
{
    double error = run_plan(p, &b->machine, compiles);

    if (isfinite(p->spent) && (error > p->spent * (1 + 0x1p-30) || isnan(error)))
        fail_msg("%s: an error of %g, the bound is %g\n%s", b->path, error, p->spent, text);
    return error >= 0;
}

/* Plans that the passes made keep their bound on random data. */
static void finished_plans_keep_their_bound(void **state)
{
    (void)state;
    for (size_t i = 0; i < bases; i++) {
        struct diag d = { 0 };
        struct plan p = { 0 };
        bool ran = false;

        if (!bound_text(base[i].text, &base[i].machine, &p, &d))
            fail_msg("%s: %s\n%s", base[i].path, d.text, base[i].text);
        for (int t = 0; t < 20; t++)
            ran = check_results(base[i].text, &base[i], &p, t == 0) || ran;
        if (!ran && !limber_node_has(limber_plan_find(&p, OP_epilogue), ATTR_integral))
            fail_msg("%s: no data was made for\n%s", base[i].path, base[i].text);
        limber_plan_clear(&p);
    }
}

/* Plans with a random change are refused, or keep the bound that `bound` computes for them. */
static void changed_plans_are_refused_or_keep_their_bound(void **state)
{
    size_t refused = 0, accepted = 0, kept = 0;
    const char *s = getenv("LIMBER_SEED");
    int count = is_long() ? 20000 : SANITIZED ? 25 : BRIEF ? 60 : 200;

    (void)state;
    rng.s = s ? strtoull(s, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)rng.s);
    for (size_t i = 0; i < bases; i++)
        for (int t = 0; t < count; t++) {
            char *text = change_text(base[i].text);
            struct diag d = { 0 };
            struct plan p = { 0 };

            if (strcmp(text, base[i].text)) {
                if (!bound_text(text, &base[i].machine, &p, &d)) {
                    if (d.status == LIMBER_STATUS_OK || d.status == LIMBER_STATUS_INTERNAL)
                        fail_msg("%s: %s\n%s", base[i].path, d.text, text);
                    refused++;
                } else {
                    accepted++;
                    kept +=
                        check_results(text, &base[i], &p, accepted % 16 == 0) && isfinite(p.spent);
                    limber_plan_clear(&p);
                }
            }
            free(text);
        }
    print_message("%zu refused, %zu ran within their bound, %zu were compiled\n", refused, kept,
                  compiled);
    assert_true(refused > bases && kept > bases);
}

/* A plan of an FP32 product by two FP16 limbs, as a dump prints it. */
static const char hilo[] =
    "plan gemm promise=fast wanted=fp32-f kbits=5 budget=any scheme=fp32-f dropped=%s {\n"
    "  %%a = arg index=0 emin=-14 emax=14 spread=12 width=36 sig=24 sign=signed special=0 : "
    "f32[m,k]\n"
    "  %%b = arg index=1 emin=-14 emax=14 spread=12 width=36 sig=24 sign=signed special=0 : "
    "f32[k,n]\n"
    "  %%l = hilo %%a axis=none top=15 shift=12 : f16[m,k]x2\n"
    "  %%r = hilo %%b axis=none top=15 shift=12 : f16[k,n]x2\n"
    "  %%s = products %%l %%r unit=f16 chunk=%d : f32[m,n]x2 {\n"
    "    row %%l.0 %%r.0 acc=0 w=2^0 share=all\n"
    "%s"
    "    row %%l.0 %%r.1 acc=1 w=2^-12 share=2^-11\n"
    "  }\n"
    "  %%e = combine %%s reconstruct=sum : f64[m,n]\n"
    "  %%d = epilogue %%e alpha=one beta=zero wrap=0 : f32[m,n]\n"
    "  ret %%d\n"
    "}\n";

/* Runs `bound` on the plan `hilo`, whose errors may include the product of limbs `dropped`.  row: a
 * row of the table of products, or "". */
static bool bound_hilo_chain(const char *dropped, int chunk, const char *row, struct plan *p,
                             struct diag *d)
{
    struct target machine;
    char text[1500];

    assert_true(limber_backend_interp.probe(&machine, d));
    snprintf(text, sizeof text, hilo, dropped, chunk, row);
    return bound_text(text, &machine, p, d);
}

static bool bound_hilo(const char *dropped, const char *row, struct plan *p, struct diag *d)
{
    return bound_hilo_chain(dropped, 64, row, p, d);
}

/* Without the product of A's low limb and B's high limb, the plan is refused, and the error
 * names the product.  If the plan's head allows this, it is accepted, and errors exceed the
 * complete plan's bound. */
static void a_deleted_row_is_named(void **state)
{
    static const char row[] = "    row %l.1 %r.0 acc=1 w=2^-12 share=2^-11\n";
    struct diag d = { 0 }, none = { 0 };
    struct plan p = { 0 };
    struct target machine;
    double complete, error = 0;

    (void)state;
    assert_true(limber_backend_interp.probe(&machine, &none));
    assert_true(bound_hilo("2^-22", row, &p, &none));
    complete = p.spent;
    limber_plan_clear(&p);
    assert_false(bound_hilo("2^-22", "", &p, &d));
    assert_int_equal(d.status, LIMBER_STATUS_NO_SCHEME);
    assert_non_null(strstr(d.text, "the row %l.1 %r.0"));
    assert_non_null(strstr(d.text, "0.000488 |A||B|"));
    assert_true(bound_hilo("0x1.002p-11", "", &p, &none));
    assert_true(p.spent > 0x1p-11);
    for (int i = 0; i < 50; i++)
        error = fmax(error, run_plan(&p, &machine, false));
    assert_true(error > 10 * complete && error <= p.spent);
    limber_plan_clear(&p);
    d = (struct diag){ 0 };
    /* the scheme leaves out the product of both low limbs */
    assert_false(bound_hilo("0", row, &p, &d));
    assert_non_null(strstr(d.text, "the row %l.1 %r.1"));
    d = (struct diag){ 0 };
    assert_false(bound_hilo("2^-22", "    row %l.1 %r.0 acc=1 w=2^-11 share=2^-11\n", &p, &d));
    d = (struct diag){ 0 };
    assert_false(bound_hilo("2^-22", "    row %l.0 %r.1 acc=1 w=2^-12 share=2^-11\n", &p, &d));
    assert_non_null(strstr(d.text, "multiplied twice"));
}

/* With chains of every length, also of lengths that are no multiple of what kernels pack at
 * once, results have the interpreter's bits, or kernels refuse the plan. */
static void chains_of_every_length_have_the_same_bits(void **state)
{
    static const char row[] = "    row %l.1 %r.0 acc=1 w=2^-12 share=2^-11\n";
    struct target machine;
    struct diag d = { 0 };

    (void)state;
    assert_true(limber_backend_interp.probe(&machine, &d));
    for (int chunk = 1; chunk <= MOST_K; chunk++) {
        struct plan p = { 0 };

        assert_true(bound_hilo_chain("2^-22", chunk, row, &p, &d));
        for (int i = 0; i < 10; i++)
            assert_true(run_plan(&p, &machine, i == 0) <= p.spent);
        limber_plan_clear(&p);
    }
}

/* Returns the text with chains of `chunk` products. */
static char *with_chunk(const char *text, int chunk)
{
    const char *at = strstr(text, " chunk=");
    char by[20];

    assert_non_null(at);
    at += strlen(" chunk=");
    snprintf(by, sizeof by, "%d", chunk);
    return replaced(text, at, strspn(at, "0123456789"), by);
}

/* The chains of plans whose operands are not split may be of any length, too. */
static void chains_of_whole_elements_have_the_same_bits(void **state)
{
    static const int chunks[] = { 1, 3, 16, 20, 24 };
    size_t ran = 0;

    (void)state;
    for (size_t i = 0; i < bases; i++)
        for (size_t c = 0; c < COUNT(chunks) && strstr(base[i].text, " = whole "); c++) {
            char *text = with_chunk(base[i].text, chunks[c]);
            struct diag d = { 0 };
            struct plan p = { 0 };

            if (bound_text(text, &base[i].machine, &p, &d)) {
                ran += check_results(text, &base[i], &p, true);
                limber_plan_clear(&p);
            }
            free(text);
        }
    assert_true(ran > COUNT(chunks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_plans_keep_their_bound),
        cmocka_unit_test(changed_plans_are_refused_or_keep_their_bound),
        cmocka_unit_test(a_deleted_row_is_named),
        cmocka_unit_test(chains_of_every_length_have_the_same_bits),
        cmocka_unit_test(chains_of_whole_elements_have_the_same_bits),
    };

    return cmocka_run_group_tests(tests, read_bases, free_bases);
}
