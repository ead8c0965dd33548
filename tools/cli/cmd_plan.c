/* SPDX-License-Identifier: BSD-3-Clause
 * limber plan: shows what a call would do, or runs passes on a plan from a file. */
#define _GNU_SOURCE
#include "tools/cli/plan.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints the text of a plan or a source, or a JSON object with it.  text: NULL after a failure.
 * Returns the exit status. */
static int print_plan(const char *text, const char *what, bool json)
{
    if (!text)
        return complain("%s", limber_error_text());
    if (json) {
        cJSON *j = cJSON_CreateObject();
        char *printed;

        cJSON_AddStringToObject(j, what, text);
        printed = cJSON_Print(j);
        printf("%s\n", printed ? printed : "{}");
        cJSON_free(printed);
        cJSON_Delete(j);
    } else {
        fputs(text, stdout);
    }
    return 0;
}

/* What `limber plan` prints in addition to the plan's text. */
struct explanation {
    limber_inspection inspection[2];
    limber_cut cut;
    limber_report plan;
    limber_part part[LIMBER_PARTS];
    struct outlook outlook;
    struct measured run;
};

/* The report of the run if there was one, else that of the plan. */
static const limber_report *best_known(const struct cli_product *p, const struct explanation *t)
{
    return p->run ? &t->run.warm : &t->plan;
}

/* Prints operands, plan, predictions and parts as JSON. */
static int print_json(const struct cli_product *p, const struct explanation *t, const char *text)
{
    cJSON *j = cJSON_CreateObject();

    if (!p->is_conv)
        cJSON_AddItemToObject(j, "operands", inspection_json(t->inspection));
    cJSON_AddStringToObject(j, "scheme", t->plan.scheme);
    json_number(j, "bound", t->plan.bound);
    json_number(j, "seconds_predicted", t->plan.cost);
    outlook_json(j, &t->outlook, &t->plan);
    cut_json(j, &t->cut);
    cJSON_AddItemToObject(j, "parts", parts_json(best_known(p, t), p->run));
    if (p->run) {
        cJSON_AddNumberToObject(j, "seconds", t->run.seconds_warm);
        verdict_json(j, p, &t->run.v);
    }
    cJSON_AddStringToObject(j, "plan", text);
    return json_print(j) ? 0 : 1;
}

static void print_run(const struct cli_product *p, const struct explanation *t)
{
    printf("run\nscheme    %s, bound %.3g |A||B|\nseconds   %.3g", t->run.warm.scheme,
           t->run.warm.bound, t->run.seconds_warm);
    if (t->plan.cost > 0)
        printf(", predicted %.3g", t->plan.cost);
    printf("\n");
    if (p->output.check)
        verdict_print(&t->run.v);
    if (t->run.warm.parts)
        parts_print(&t->run.warm);
}

/* Prints predictions, operands and parts as text; with --ir, also the plan. */
static int print_text(const struct cli_product *p, const struct explanation *t, const char *text)
{
    outlook_print(p, &t->outlook, &t->plan);
    printf("\n");
    if (!p->is_conv)
        inspection_print(p, t->inspection);
    if (p->output.ir)
        fputs(text, stdout);
    else
        outlook_parts(text);
    if (p->run)
        print_run(p, t);
    return 0;
}

/* Predicts the time under `native`, for comparison.  There may be no native plan, for example if
 * integers would overflow.  On failure prints a message and returns false. */
static bool predict(const struct cli_product *p, limber_context *ctx, struct explanation *t,
                    const char *text)
{
    limber_report native = LIMBER_REPORT_INIT;
    struct outlook *o = &t->outlook;

    outlook_read(o, text);
    o->native = INFINITY;
    if (product_native(p, ctx, &native) == LIMBER_STATUS_OK) {
        o->native = native.cost;
        snprintf(o->native_scheme, sizeof o->native_scheme, "%s", native.scheme);
    }
    return product_workspace(p, ctx, &o->least, &o->best) == LIMBER_STATUS_OK;
}

/* Scans both operands and finds the parts of the product.  Convolutions have no parts. */
static bool inspect_operands(const struct cli_product *p, limber_context *ctx,
                             struct explanation *t)
{
    return p->is_conv || (product_inspect(p, ctx, t->inspection) == LIMBER_STATUS_OK &&
                          product_cut(p, ctx, &t->cut, NULL) == LIMBER_STATUS_OK);
}

/* Returns the text of a target's file or, if there is no such file, the target's name.  NULL if
 * there is no target, or the file cannot be read.  The caller frees the text. */
static char *target_read(const char *target)
{
    return !target ? NULL : access(target, F_OK) == 0 ? text_read(target) : strdup(target);
}

/* Copies the first plan of a text, which ends at `end`.  NULL if it has none. */
static char *first_plan(const char *text, const char *end)
{
    const char *last;

    while (text && text < end && strncmp(text, "plan ", 5) != 0) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    last = text && text < end ? strstr(text, "\n}\n") : NULL;
    return last ? strndup(text, (size_t)(last + 3 - text)) : NULL;
}

/* Writes the source of the kernel of one part, or of a whole product (part 0).  text: its plan
 * after each pass, up to `end`.  On failure prints a message and returns false. */
static bool write_source(FILE *to, limber_context *ctx, const char *text, const char *end,
                         const char *target, int part)
{
    char *plan = first_plan(text, end), *source = NULL;

    if (!plan)
        complain("the way of this product has no plan, so no kernel (see limber plan --ir)");
    else if (limber_plan_source(ctx, plan, target, &source) != LIMBER_STATUS_OK)
        complain("%s", limber_error_text());
    else if (part)
        fprintf(to, "%s/* ---- kernel of part %d ---- */\n%s", part > 1 ? "\n" : "", part, source);
    else
        fputs(source, to);
    free(plan);
    limber_free(source);
    return source != NULL;
}

/* Prints the source of the kernel of a product, or of each of its parts.  text: the plan of each
 * after each pass, as limber_plan gives it; NULL if there is none. */
static int print_source_of(const struct cli_product *p, limber_context *ctx, const char *text)
{
    const char *at = text ? strstr(text, "; part 1\n") : NULL, *next;
    char *target = target_read(p->output.target), *source = NULL, mark[32];
    size_t size = 0;
    FILE *to = open_memstream(&source, &size);
    bool ok = to && (target || !p->output.target);

    ok = ok && (at || write_source(to, ctx, text, text ? strchr(text, 0) : NULL, target, 0));

    for (int part = 1; ok && at; part++, at = next) {
        snprintf(mark, sizeof mark, "; part %d\n", part + 1);
        next = strstr(at, mark);
        ok = write_source(to, ctx, at, next ? next : strchr(at, 0), target, part);
    }
    ok = to && fclose(to) == 0 && ok;
    if (ok)
        ok = print_plan(source, "source", p->output.json) == 0;
    free(source);
    free(target);
    return ok ? 0 : 1;
}

/* Plans the product, inspects its operands, and prints the results. */
static int explain(struct cli_product *p, limber_context *ctx, struct explanation *t)
{
    char *text = NULL;
    int status = 0;

    t->plan = parts_report(t->part);
    p->run = p->run || p->output.check;
    if (p->output.source && product_plan(p, ctx, &text, &t->plan) == LIMBER_STATUS_OK)
        status = print_source_of(p, ctx, text);
    else if (p->output.source || product_plan(p, ctx, &text, &t->plan) != LIMBER_STATUS_OK ||
             !inspect_operands(p, ctx, t) || !predict(p, ctx, t, text))
        status = complain("%s", limber_error_text());
    else if (p->run && !product_measure(p, ctx, &t->run))
        status = 1;
    else if (p->output.svg &&
             !plan_svg_write(p->output.svg, p, t->inspection, &t->cut, best_known(p, t)))
        status = 1;
    else
        status = p->output.json ? print_json(p, t, text) : print_text(p, t, text);
    limber_free(text);
    return status;
}

/* Runs `limber plan gemm` or `limber plan conv`. */
static int plan_product(int argc, const char **argv, bool is_conv)
{
    struct explanation *t = calloc(1, sizeof *t);
    limber_context *ctx = NULL;
    struct cli_product p;
    int status;

    if (!t)
        return complain("out of memory");
    t->inspection[0] = t->inspection[1] = (limber_inspection)LIMBER_INSPECTION_INIT;
    t->cut = (limber_cut)LIMBER_CUT_INIT;
    status = product_read(argc, argv, is_conv, true, &p);
    if (status) {
        free(t);
        return status - 1;
    }
    if (product_context(&p, &ctx) == LIMBER_STATUS_OK)
        status = explain(&p, ctx, t);
    else
        status = complain("%s", limber_error_text());
    limber_inspection_free(&t->inspection[0]);
    limber_inspection_free(&t->inspection[1]);
    limber_cut_free(&t->cut);
    context_end(ctx);
    product_clear(&p);
    free(t);
    return status;
}

/* Runs `limber plan FILE`: runs passes on the text of a plan, or prints its kernel's source, for
 * this machine or another target. */
static int plan_file(const char *path, const char *passes, const char *target_file,
                     const char *backend, bool source, bool json)
{
    char *plan = text_read(path), *target = target_read(target_file), *text = NULL;
    limber_config config = { .size = sizeof(limber_config), .backend = backend };
    limber_context *ctx = NULL;
    int status = 1;

    if (plan && (!target_file || target)) {
        if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
            text = NULL;
        else if (source)
            limber_plan_source(ctx, plan, target, &text);
        else
            limber_plan_text(ctx, plan, passes, target, &text);
        status = print_plan(text, source ? "source" : "plan", json);
        limber_free(text);
    }
    context_end(ctx);
    free(plan);
    free(target);
    return status;
}

/* The command `limber plan`: explains the plan of a product, or runs passes on the text of a
 * plan. */
int cmd_plan(int argc, const char **argv)
{
    char *passes = NULL, *target = NULL, *backend = NULL;
    const char *path;
    int json = 0, source = 0, status;
    bool ok;
    struct poptOption table[] = {
        { "passes", 0, POPT_ARG_STRING, &passes, 0, "run only these passes", "P,Q" },
        { "target", 0, POPT_ARG_STRING, &target, 0,
          "plan for this machine: a name (sm_90a, avx2), or a text in a file", "FILE|NAME" },
        { "source", 0, POPT_ARG_NONE, &source, 0, "print the kernel's C or CUDA C", NULL },
        { "backend", 0, POPT_ARG_STRING, &backend, 0, BACKENDS, "BACKEND" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o;

    if (argc > 1 && (!strcmp(argv[1], "gemm") || !strcmp(argv[1], "conv"))) {
        bool is_conv = argv[1][0] == 'c';

        argv[1] = is_conv ? "limber plan conv" : "limber plan gemm";
        return plan_product(argc - 1, argv + 1, is_conv);
    }
    o = options_open(argc, argv, table);
    ok = options_read(o, "gemm A B [options] | conv X W [options] | FILE.lir [options]\n\n"
                         "`limber plan gemm --help` and `limber plan conv --help` have the options "
                         "of these; those of\na plan in a file follow.\n\n"
                         "example: limber plan gemm A.npy B.npy --contract bits=40");
    path = poptGetArg(o);
    if (!ok)
        status = 2;
    else if (!path)
        status = complain("plan takes gemm, conv or a file (see limber plan --help)") + 1;
    else
        status = plan_file(path, passes, target, backend, source, json);
    poptFreeContext(o);
    free(passes);
    free(target);
    free(backend);
    return status;
}
