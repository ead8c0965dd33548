/* SPDX-License-Identifier: BSD-3-Clause
 * Tests of plans as text (round trips, refusals, random changes), of the functions that build
 * plans, and of targets and masks. */
#include "ir/ir.h"
#include "files.h"
#include "plans.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Well-formed plans in canonical form: as they are printed. */
static const char *const texts[] = {
    "plan gemm promise=native kbits=11 budget=0x1.008p-43 {\n"
    "  %a = arg index=0 emin=-16 emax=7 spread=12 width=64 sig=53 sign=signed special=0 : "
    "f64[m,k]\n"
    "  %b = arg index=1 : f64[k,n]\n"
    "  %c = gemm %a %b : exact[m,n]\n"
    "  %d = epilogue %c alpha=one beta=zero wrap=0 : f64[m,n]\n"
    "  ret %d\n"
    "}\n",
    "plan conv promise=bits bits=30 wanted=ozaki1-i8 slices=4 split=ahead kbits=12 budget=2^-30 "
    "{\n"
    "  %x = arg index=0 : f16[2,4,8,9]\n"
    "  %w = arg index=1 : e4m3[6,2,3,3]\n"
    "  %c = conv %x %w stride=1,2 pad=1,1,0,0 dilate=1,1 groups=2 layout=nhwc : exact[2,6,8,4]\n"
    "  %c0 = arg index=2 : (1,5,2)[2,6,8,4]\n"
    "  %d = epilogue %c %c0 alpha=arg beta=arg wrap=0 : (1,5,2)[2,6,8,4]\n"
    "  ret %d\n"
    "}\n",
    "plan gemm promise=correct kbits=20 budget=0 spent=0 scheme=ozaki2 {\n"
    "  %a = arg index=0 : f64[128,k]\n"
    "  %b = arg index=1 : f64[k,n]\n"
    "  %al = residues %a axis=row bits=60 moduli=256,255,253 sign=unsigned : u8[128,k]x3\n"
    "  %bl = residues %b axis=col bits=60 moduli=256,255,253 sign=signed : i8[k,n]x3\n"
    "  %s = products %al %bl unit=i8 chunk=65536 tile=12,32,4,240,512,256 : i64[128,n]x3 {\n"
    "    row %al.0 %bl.0 acc=0 w=2^0 share=all\n"
    "    row %al.1 %bl.1 acc=1 w=2^0 share=all\n"
    "    row %al.2 %bl.2 acc=2 w=2^0 share=all\n"
    "  }\n"
    "  %e = combine %s reconstruct=crt moduli=256,255,253 : exact[128,n]\n"
    "  %d = epilogue %e alpha=one beta=zero wrap=0 : dd[128,n]\n"
    "  ret %d\n"
    "}\n",
    "plan gemm promise=fast wanted=fp32-f kbits=0 budget=any spent=0x1.8p-21 scheme=fp32-f pruned=1"
    " dropped=0x1.4p-23 {\n"
    "  %a = arg index=0 : tf32[m,k]\n"
    "  %b = arg index=1 : bf16[k,n]\n"
    "  %al = hilo %a axis=none top=15 shift=12 : f16[m,k]x2\n"
    "  %bl = hilo %b axis=col top=15 shift=12 : f16[k,n]x2\n"
    "  %s = products %al %bl unit=f16 chunk=64 : f32[m,n]x2 {\n"
    "    row %al.0 %bl.0 acc=0 w=2^0 share=all\n"
    "    row %al.0 %bl.1 acc=1 w=2^-12 share=2^-11\n"
    "    row %al.1 %bl.0 acc=1 w=2^-12 share=0x1.8p-11\n"
    "  }\n"
    "  %e = combine %s reconstruct=sum : f64[m,n]\n"
    "  %d = epilogue %e alpha=one beta=zero wrap=0 : f32[m,n]\n"
    "  ret %d\n"
    "}\n",
    "plan gemm promise=exact kbits=7 budget=0 {\n"
    "  %a = arg index=0 : i32[m,k]\n"
    "  %b = arg index=1 : u8[k,n]\n"
    "  %al = slices %a axis=none bits=31 step=8 sign=signed : i8[m,k]x4\n"
    "  %bl = slices %b axis=none bits=8 step=8 sign=unsigned : u8[k,n]x1\n"
    "  %s = products %al %bl unit=i8 chunk=32768 : i64[m,n]x2 {\n"
    "    row %al.3 %bl.0 acc=0 w=2^0 share=all\n"
    "    row %al.2 %bl.0 acc=1 w=2^8 share=0\n"
    "  }\n"
    "  %e = combine %s reconstruct=shift : exact[m,n]\n"
    "  %d = epilogue %e alpha=one beta=zero wrap=1 : i64[m,n]\n"
    "  ret %d\n"
    "}\n",
    "plan conv promise=native kbits=8 budget=any {\n"
    "  %x = arg index=0 : f128[n,c,h,w]\n"
    "  %w = arg index=1 : (1,4,3,9,5,1,0)[o,d,r,s]\n"
    "  %f = filters %w groups=1 layout=nchw : (1,4,3,9,5,1,0)[m,k]\n"
    "  %p = patches %x stride=1,1 pad=0,0,0,0 dilate=1,1 groups=1 layout=nchw : f128[k,n]\n"
    "  %fl = whole %f : (1,4,3,9,5,1,0)[m,k]x1\n"
    "  %pl = whole %p : f128[k,n]x1\n"
    "  %s = products %fl %pl unit=exact chunk=4611686018427387904 : exact[m,n]x1 {\n"
    "  }\n"
    "  %c = combine %s reconstruct=sum : exact[m,n]\n"
    "  %d = epilogue %c alpha=one beta=zero wrap=0 : f128[m,n]\n"
    "  %y = image %d groups=1 layout=nchw : f128[n,o,p,q]\n"
    "  ret %y\n"
    "}\n",
};

/* Parses a text into p.  Fails the test if that fails. */
static void parse_plan(struct plan *p, const char *text)
{
    struct diag d = { 0 };

    memset(p, 0, sizeof *p);
    if (!limber_plan_parse(p, text, &d))
        fail_msg("%s\n%s", d.text, text);
}

static void assert_prints(const char *text, const char *want)
{
    struct plan p;
    char *s;

    parse_plan(&p, text);
    s = print_plan(&p);
    assert_string_equal(s, want);
    free(s);
    limber_plan_clear(&p);
}

/* Plans in canonical form are printed as they were parsed, and the verifier accepts them. */
static void texts_come_back(void **state)
{
    struct diag d = { 0 };
    struct plan p;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_prints(texts[i], texts[i]);
        parse_plan(&p, texts[i]);
        if (!limber_plan_verify(&p, &d))
            fail_msg("%s\n%s", d.text, texts[i]);
        limber_plan_clear(&p);
    }
}

/* A plan's text with comments, free spacing and attributes in any order is printed in canonical
 * form. */
static void loose_text_becomes_canonical(void **state)
{
    (void)state;
    assert_prints(
        "; before\n\n plan   g kbits=4 budget=8 promise=bits bits=9 {   ; any order\r\n"
        "\t%a = arg special=0 sign=signed sig=53 width=60 spread=12 emax=7 emin=-16 index=0"
        " : f64[m,k];a comment\n\n"
        "%b = whole %a : f64[m,k]x1\nret %a ; the end\n}\n; after\n",
        "plan g promise=bits bits=9 kbits=4 budget=2^3 {\n"
        "  %a = arg index=0 emin=-16 emax=7 spread=12 width=60 sig=53 sign=signed "
        "special=0 : f64[m,k]\n"
        "  %b = whole %a : f64[m,k]x1\n  ret %a\n}\n");
}

/* A copy of a plan is complete after the original was freed. */
static void copies_are_deep(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct plan p, copy = { 0 };
        char *s;

        parse_plan(&p, texts[i]);
        assert_true(limber_plan_copy(&copy, &p));
        limber_plan_clear(&p);
        s = print_plan(&copy);
        assert_string_equal(s, texts[i]);
        free(s);
        limber_plan_clear(&copy);
    }
}

/* Plans are parsed and printed with decimal points in locales that have a decimal comma. */
static void text_ignores_the_locale(void **state)
{
    static const char *const commas[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8" };

    (void)state;
    for (size_t i = 0; i < COUNT(commas); i++)
        if (setlocale(LC_ALL, commas[i]))
            assert_prints(texts[0], texts[0]);
    setlocale(LC_ALL, "C");
}

/* ---- plans that are refused ------------------------------------------------------------------ */

static const struct {
    const char *text, *error;
} refused[] = {
    { "", "line 1: the text holds no plan" },
    { "\n; only a comment\n", "the text holds no plan" },
    { "gemm {", "line 1: 'gemm': a plan begins" },
    { "plan {\n}", "'{': no name for a plan" },
    { "plan gemm\n", "the head of a plan ends with '{'" },
    { "plan gemm promise=best {\n}", "'promise=best': no such promise" },
    { "plan gemm speed=9 {\n}", "'speed=9': unknown word in the head" },
    { "plan gemm split=beside {\n}", "'split=beside': neither ahead nor inside" },
    { "plan gemm kbits=4 kbits=4 {\n}", "'kbits=4': said twice" },
    { "plan gemm kbits=63 {\n}", "'kbits=63': not a number in 0..62" },
    { "plan gemm budget=-1 {\n}", "'budget=-1': not a number" },
    { "plan gemm budget=0x1.00000000000001p0 {\n}", "not a number" },
    { "plan gemm budget=2^5000 {\n}", "not a number" },
    { "plan gemm { x\n}", "'x': more than this line holds" },
    { "plan gemm {\n", "the plan has no '}'" },
    { "plan gemm {\n}\nplan gemm {\n}\n", "line 3: 'plan': behind the end" },
    { "plan gemm {\n  return %a\n}\n", "line 2: 'return': a line begins with" },
    { "plan gemm {\n  ret %a\n}\n", "line 2: '%a': not defined above" },
    { "plan gemm {\n  ret a\n}\n", "'a': no value; values begin with %" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]\n  ret %a\n  ret %a\n}\n",
      "line 4: 'ret': said twice" },
    { "plan gemm {\n  %1 = arg index=0 : f64[m,k]\n}\n", "'%1': no name for a value" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]\n  %a = arg index=1 : f64[m,k]\n}\n",
      "line 3: '%a': defined twice" },
    { "plan gemm {\n  %a : arg\n}\n", "':' where '=' is due" },
    { "plan gemm {\n  %a = matmul\n}\n", "'matmul': unknown operation" },
    { "plan gemm {\n  %a = gemm %a %a : exact[m,n]\n}\n", "'%a': not defined above" },
    { "plan gemm {\n  %a = arg index=0\n}\n", "a type is due" },
    { "plan gemm {\n  %a = arg index=zero : f64[m,k]\n}\n", "'index=zero': not a number" },
    { "plan gemm {\n  %a = arg index=99999999999999999999 : f64[m,k]\n}\n", "not a number" },
    { "plan gemm {\n  %a = arg index=0 index=1 : f64[m,k]\n}\n", "'index=1': said twice" },
    { "plan gemm {\n  %a = arg axis=row : f64[m,k]\n}\n", "arg has no such attribute" },
    { "plan gemm {\n  %a = arg colour=red : f64[m,k]\n}\n", "'colour=red': unknown attribute" },
    { "plan gemm {\n  %a = arg sign=minus : f64[m,k]\n}\n", "'sign=minus': not one of signed" },
    { "plan gemm {\n  %a = arg index=0 : f63[m,k]\n}\n", "unknown format" },
    { "plan gemm {\n  %a = arg index=0 : f64\n}\n", "no type" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k\n}\n", "no type" },
    { "plan gemm {\n  %a = arg index=0 : f64[]\n}\n", "numbers or letters" },
    { "plan gemm {\n  %a = arg index=0 : f64[M,k]\n}\n", "numbers or letters" },
    { "plan gemm {\n  %a = arg index=0 : f64[1,2,3,4,5,6]\n}\n", "up to five dimensions" },
    { "plan gemm {\n  %a = arg index=0 : f64[-1,2]\n}\n", "numbers or letters" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]y\n}\n", "only xCOUNT" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]x99999\n}\n", "not a number in 1..4096" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k] {\n}\n", "'{': more than this line holds" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]\n  %b = gemm %a %a %a : f64[m,k]\n}\n",
      "too many operands" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]\n"
      "  %s = products %a %a unit=f64 chunk=1 : f64[m,k]x1\n}\n",
      "'' where '{' is due" },
    { "plan gemm {\n  %a = arg index=0 : f64[m,k]\n  %b = whole %a : f64[m,k]x1\n"
      "  %s = products %b %b unit=f64 chunk=1 : f64[m,k]x1 {\n    row %a.0 %b.0 acc=0\n  }\n}\n",
      "line 5: '%a.0': not the operand" },
};

/* Each malformed text of a plan is refused with the number of the line and the faulty word. */
static void bad_text_is_refused_by_line_and_word(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct diag d = { 0 };
        struct plan p = { 0 };

        assert_false(limber_plan_parse(&p, refused[i].text, &d));
        assert_int_equal(d.status, LIMBER_STATUS_BAD_ARGUMENT);
        if (strncmp(d.text, "line ", 5) || !strstr(d.text, refused[i].error))
            fail_msg("\"%s\" does not say \"%s\" of\n%s", d.text, refused[i].error,
                     refused[i].text);
        assert_null(p.arena);
    }
}

/* Texts that are too long, too deeply nested or have too long lists are refused. */
static void sizes_are_limited(void **state)
{
    static const struct {
        const char *before, *piece;
        int times;
        const char *error;
    } cases[] = {
        { "", "x", 5 << 20, "longer than" },
        { "plan a {\n  %a = arg index=0 : ", "((", 1 << 20, "no type" },
        { "plan a {\n  %a = conv stride=", "9,", 1000, "the list is too long" },
        { "plan a {\n  %", "a", 1000, "no name for a value" },
        { "plan a {\n", "  %a = arg : f64[m,k]\n", 2, "defined twice" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct text t = { 0 };
        struct diag d = { 0 };
        struct plan p = { 0 };

        limber_text_add(&t, "%s", cases[i].before);
        for (int j = 0; j < cases[i].times; j++)
            limber_text_add(&t, "%s", cases[i].piece);
        assert_false(limber_plan_parse(&p, t.s, &d));
        assert_non_null(strstr(d.text, cases[i].error));
        limber_text_clear(&t);
    }
}

/* Checks the error of the plan in a file.  The file has "; error: TEXT" on the line with the
 * error. */
static void check_refusal(void *user, const char *path)
{
    char *text = test_file_read(path), *mark;
    struct diag d = { 0 };
    struct plan p = { 0 };
    char want[200], name[64];
    int line = 1;

    (void)user;
    assert_non_null(text);
    mark = strstr(text, "; error: ");
    assert_non_null(mark);
    for (const char *s = text; s < mark; s++)
        line += *s == '\n';
    snprintf(want, sizeof want, "%.*s", (int)strcspn(mark + 9, "\n"), mark + 9);
    if (!limber_plan_parse(&p, text, &d))
        fail_msg("%s does not parse: %s", path, d.text);
    if (limber_plan_verify(&p, &d) || d.status != LIMBER_STATUS_BAD_ARGUMENT ||
        !strstr(d.text, want))
        fail_msg("%s: \"%s\" does not say \"%s\"", path, d.text, want);
    if (sscanf(d.text, "%%%60[^:]:", name) == 1) {
        for (size_t i = 0; i < p.nodes; i++)
            if (!strcmp(p.node[i].name, name) && p.node[i].line != line)
                fail_msg("%s: blames line %d, not %d", path, p.node[i].line, line);
    } else {
        assert_int_equal(line, 1); /* an error of the plan as a whole is marked in line 1 */
    }
    limber_plan_clear(&p);
    free(text);
}

static void plans_that_break_rules_are_refused(void **state)
{
    (void)state;
    assert_true(test_files_each(LIMBER_TEST_DIR "/ir/verify", "*.lir", check_refusal, NULL) >= 70);
}

/* Checks invalid plans that no text can express. */
static void invalid_built_plans_are_refused(void **state)
{
    struct type t = { .rank = 2, .dim = { -'m', -'k' }, .count = 1 };
    struct diag d = { 0 };
    struct plan p;

    (void)state;
    limber_format_named("f64", &t.format);
    limber_plan_init(&p);
    p.ret = limber_plan_add(&p, OP_gemm, "c", 1, 2, t);
    assert_false(limber_plan_verify(&p, &d));
    assert_string_equal(d.text, "%c: operand 0 is not defined above");
    p.node[0].in[0] = -7;
    memset(&d, 0, sizeof d);
    assert_false(limber_plan_verify(&p, &d));
    p.node[0].op = OP_arg;
    p.node[0].nin = 0;
    limber_node_set(&p.node[0], ATTR_index, 0);
    memset(&d, 0, sizeof d);
    assert_true(limber_plan_verify(&p, &d));
    p.node[0].type.format.exp_bits = 99;
    assert_false(limber_plan_verify(&p, &d));
    limber_plan_clear(&p);
}

/* ---- texts changed at random ----------------------------------------------------------------- */

static uint64_t seed;

static uint32_t rng(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* Makes one small change, sometimes up to six.  Often a digit becomes another digit. */
static void mutate(char *s, size_t room)
{
    static const char *const bits[] = { "%",
                                        "{",
                                        "}",
                                        "\n",
                                        ";",
                                        "=",
                                        ":",
                                        "x",
                                        "0",
                                        "-",
                                        "2^",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "all",
                                        "any",
                                        "row ",
                                        "0x1p",
                                        ",",
                                        "[m]",
                                        "nan",
                                        "%s.0",
                                        "(1,5,2)",
                                        "\x80",
                                        "exact",
                                        "arg",
                                        "products " };

    for (int changes = rng(3) ? 0 : (int)rng(6); changes >= 0; changes--) {
        size_t n = strlen(s), at = rng((uint32_t)n + 1), m;
        const char *piece = bits[rng(COUNT(bits))];

        switch (rng(7)) {
        default:
            at += strcspn(s + at, "0123456789");
            if (s[at])
                s[at] = (char)('0' + rng(10));
            break;
        case 0:
            if (at < n)
                s[at] = (char)(1 + rng(255));
            break;
        case 1:
            m = rng(20);
            if (at + m <= n)
                memmove(s + at, s + at + m, n - at - m + 1);
            break;
        case 2:
            m = strlen(piece);
            if (n + m + 1 < room) {
                memmove(s + at + m, s + at, n - at + 1);
                memcpy(s + at, piece, m);
            }
            break;
        case 3: /* copies a piece to another place */
            m = rng(60);
            if (at + m <= n && n + m + 1 < room) {
                char copy[64];
                size_t to = rng((uint32_t)n + 1);

                memcpy(copy, s + at, m);
                memmove(s + to + m, s + to, n - to + 1);
                memcpy(s + to, copy, m);
            }
            break;
        }
    }
}

/* Parses and verifies a changed text.  If it parses, its printed form must parse to the same text.
 * Counts in *parsed and *verified the texts that pass each step. */
static void check_mutated(const char *text, size_t *parsed, size_t *verified)
{
    struct diag d = { 0 }, v = { 0 };
    struct plan p = { 0 }, copy = { 0 };
    char *once;

    if (!limber_plan_parse(&p, text, &d)) {
        assert_int_equal(d.status, LIMBER_STATUS_BAD_ARGUMENT);
        assert_true(d.text[0]);
        assert_null(p.arena);
        return;
    }
    ++*parsed;
    once = print_plan(&p);
    assert_prints(once, once);
    assert_true(limber_plan_copy(&copy, &p));
    if (limber_plan_verify(&p, &v)) {
        ++*verified;
        assert_true(limber_plan_sweep(&copy));
        if (!limber_plan_verify(&copy, &v))
            fail_msg("swept: %s\n%s", v.text, once);
    } else {
        assert_true(v.status == LIMBER_STATUS_BAD_ARGUMENT && v.text[0]);
    }
    limber_plan_clear(&copy);
    limber_plan_clear(&p);
    free(once);
}

/* Plans with random changes are parsed or refused without a crash. */
static void mutated_texts_are_survived(void **state)
{
    const char *s = getenv("LIMBER_SEED");
    size_t parsed = 0, verified = 0;
    char room[4096];

    (void)state;
    seed = s ? strtoull(s, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 60000; i++) {
        snprintf(room, sizeof room, "%s", texts[i % (int)COUNT(texts)]);
        mutate(room, sizeof room);
        check_mutated(room, &parsed, &verified);
    }
    print_message("%zu parsed, %zu verified\n", parsed, verified);
    assert_true(parsed > 1000 && verified > 100);
}

/* ---- functions that build plans -------------------------------------------------------------- */

/* limber_plan_sweep removes unused nodes and moves operands before their uses. */
static void sweeping_orders_and_drops(void **state)
{
    struct type t = { .rank = 2, .dim = { 4, 4 }, .count = 1 };
    struct plan p;
    int a, unused, out, late;

    (void)state;
    limber_format_named("f32", &t.format);
    limber_plan_init(&p);
    a = limber_plan_add(&p, OP_arg, "a", -1, -1, t);
    unused = limber_plan_add(&p, OP_arg, NULL, -1, -1, t);
    out = limber_plan_add(&p, OP_epilogue, "out", a, -1, t);
    late = limber_plan_add(&p, OP_gemm, "late", a, a, t);
    assert_int_equal(unused, 1);
    p.node[out].in[0] = late;
    p.ret = out;
    assert_true(limber_plan_sweep(&p));
    assert_int_equal(p.nodes, 3);
    assert_string_equal(p.node[0].name, "a");
    assert_string_equal(p.node[1].name, "late");
    assert_string_equal(p.node[2].name, "out");
    assert_int_equal(p.node[1].in[1], 0);
    assert_int_equal(p.node[2].in[0], 1);
    assert_int_equal(p.ret, 2);
    assert_true(limber_plan_add(&p, OP_gemm, "again", 0, 0, t) == 3);
    p.node[1].in[0] = 2; /* an operand that is defined later: a cycle, which verify must find */
    assert_true(limber_plan_sweep(&p));
    assert_int_equal(p.ret, 2);
    limber_plan_clear(&p);
    limber_plan_clear(&p);
}

/* limber_plan_add gives each node a name of its own. */
static void names_are_fresh(void **state)
{
    struct type t = { .rank = 2, .dim = { 4, 4 }, .count = 1 };
    struct plan p;

    (void)state;
    limber_plan_init(&p);
    for (int i = 0; i < 100; i++) {
        int at = limber_plan_add(&p, OP_arg, i % 3 ? "x" : i % 2 ? "v8" : NULL, -1, -1, t);

        for (int j = 0; j < at; j++)
            assert_string_not_equal(p.node[j].name, p.node[at].name);
    }
    assert_ptr_equal(limber_plan_find(&p, OP_arg), p.node);
    assert_null(limber_plan_find(&p, OP_gemm));
    limber_plan_clear(&p);
}

/* An error is not replaced by a later one, and long error texts are cut. */
static void errors_keep_the_first(void **state)
{
    struct diag d = { 0 };
    char many[600];

    (void)state;
    assert_false(limber_fail(&d, LIMBER_STATUS_RANGE, "k = %d", -3));
    assert_false(limber_fail(&d, LIMBER_STATUS_IO, "later"));
    assert_int_equal(d.status, LIMBER_STATUS_RANGE);
    limber_fail_in(&d, "gemm");
    assert_string_equal(d.text, "gemm: k = -3");
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    limber_fail_in(&d, many);
    assert_string_equal(d.text, "gemm: k = -3");
    many[470] = 0;
    limber_fail_in(&d, many);
    assert_int_equal(strlen(d.text), sizeof d.text - 1);
    assert_string_equal(limber_status_name(LIMBER_STATUS_NO_SCHEME), "NO_SCHEME");
    assert_string_equal(limber_status_name((limber_status)99), "UNKNOWN");
    assert_true(strlen(limber_status_meaning(LIMBER_STATUS_IO)) > 0);
}

/* ---- targets and masks ----------------------------------------------------------------------- */

/* Targets are printed as they were parsed; malformed texts of targets are refused. */
static void targets_come_back(void **state)
{
    static const char *const good_texts[] = {
        "target llvm isa=avx512vnni features=avx2,avx512vnni vector=512 registers=32 l1=49152 "
        "l2=1048576 group=4 rate.f64=4.6e10 rate.f32=9.25e10 rate.i8=3.86e11\n",
        "target llvm isa=amx features=avx2 vector=512 registers=32 l1=49152 l2=1048576 group=4 "
        "matrix=16 tile.f64=12,120,256 tile.i8=14,70,512 rate.f64=4.6e10\n",
        "target interp isa=any vector=0 registers=16 l1=32768 l2=1048576 group=1 rate.f64=1e8 "
        "rate.exact=7\n",
    };
    static const char *const bad[] = { "",
                                       "machine x",
                                       "target ",
                                       "target x vector",
                                       "target x y=1",
                                       "target x vector=-1",
                                       "target x vector=1x",
                                       "target x rate.f64=fast",
                                       "target x rate.f65=1",
                                       "target x rate.f64=-1",
                                       "target averyveryverylongname",
                                       "target x l1=99999999999999999999",
                                       "target x tile.f64=1,2",
                                       "target x tile.f64=1,2,3,4",
                                       "target x tile.f64=0,2,3",
                                       "target x tile.f65=1,2,3",
                                       "target x tile.f64=1,2,x",
                                       "target x tile.f64=" };

    (void)state;
    for (size_t i = 0; i < COUNT(good_texts); i++) {
        struct text out = { 0 };
        struct diag d = { 0 };
        struct target t;

        if (!limber_target_parse(&t, good_texts[i], &d))
            fail_msg("%s", d.text);
        limber_target_print(&t, &out);
        assert_string_equal(out.s, good_texts[i]);
        limber_text_clear(&out);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct diag d = { 0 };
        struct target t;

        assert_false(limber_target_parse(&t, bad[i], &d));
        assert_int_equal(d.status, LIMBER_STATUS_BAD_ARGUMENT);
    }
}

/* The class to which a scan's result is widened must include what the scan found, and must not
 * be much wider. */
static void classes_widen(void **state)
{
    limber_format f64;

    (void)state;
    limber_format_named("f64", &f64);
    seed = 7;
    for (int i = 0; i < 20000; i++) {
        struct mask m = {
            .scanned = true, .emin = (int)rng(1800) - 1000, .negative = rng(2), .special = rng(2)
        };
        struct data_class n;

        m.emax = m.emin + (int)rng(200);
        m.spread = (int)rng((uint32_t)(m.emax - m.emin) + 1);
        m.sig = 1 + (int)rng(53);
        m.width = m.sig + m.spread + (int)rng(100);
        for (unsigned use = 0; use < 8; use++) {
            limber_mask_class(&m, f64, use, &n);
            assert_true(limber_class_get(&n, ATTR_emin) <= m.emin);
            assert_true(limber_class_get(&n, ATTR_emax) >= m.emax);
            assert_true(limber_class_get(&n, ATTR_spread) >= m.spread);
            assert_true(limber_class_get(&n, ATTR_width) >= m.width);
            assert_true(limber_class_get(&n, ATTR_sig) >= m.sig);
            assert_int_equal(limber_class_get(&n, ATTR_sign),
                             m.negative ? SIGN_signed : SIGN_unsigned);
            assert_int_equal(limber_class_get(&n, ATTR_special), m.special);
            if (use & CLASS_ranges)
                assert_true(limber_class_get(&n, ATTR_emin) > m.emin - 32 &&
                            limber_class_get(&n, ATTR_emax) < m.emax + 32);
            if (!(use & (CLASS_coarse | CLASS_widths)))
                assert_true(limber_class_get(&n, ATTR_spread) < m.spread + 16 &&
                            limber_class_get(&n, ATTR_width) < m.width + 16);
        }
    }
}

/* An operand that was not scanned has an empty class, and an operand of zeros has a class whose
 * range of exponents and bits is 0.  A scan result may be cleared twice. */
static void zeros_and_the_unscanned_have_classes(void **state)
{
    struct mask none = { 0 }, zero = { .scanned = true, .zero = true, .emin = 5, .emax = 9 };
    struct data_class n;
    limber_format f64;

    (void)state;
    limber_format_named("f64", &f64);
    limber_mask_class(&none, f64, 0, &n);
    assert_int_equal(n.has, 0);
    limber_mask_class(&zero, f64, 0, &n);
    assert_true(n.has >> (ATTR_width - DATA_FIRST) & 1);
    assert_int_equal(limber_class_get(&n, ATTR_width), 0);
    assert_int_equal(limber_class_get(&n, ATTR_spread), 0);
    assert_int_equal(limber_class_get(&n, ATTR_emin), 0);
    assert_int_equal(limber_class_get(&n, ATTR_emax), 0);
    limber_mask_clear(&none);
    limber_mask_clear(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(loose_text_becomes_canonical),
        cmocka_unit_test(copies_are_deep),
        cmocka_unit_test(text_ignores_the_locale),
        cmocka_unit_test(bad_text_is_refused_by_line_and_word),
        cmocka_unit_test(sizes_are_limited),
        cmocka_unit_test(plans_that_break_rules_are_refused),
        cmocka_unit_test(invalid_built_plans_are_refused),
        cmocka_unit_test(mutated_texts_are_survived),
        cmocka_unit_test(sweeping_orders_and_drops),
        cmocka_unit_test(names_are_fresh),
        cmocka_unit_test(errors_keep_the_first),
        cmocka_unit_test(targets_come_back),
        cmocka_unit_test(classes_widen),
        cmocka_unit_test(zeros_and_the_unscanned_have_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
