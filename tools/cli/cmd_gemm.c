/* SPDX-License-Identifier: BSD-3-Clause
 * The commands `limber gemm` and `limber conv`, which compute products and convolutions of
 * files. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the report of the second run, which compiled nothing, or of the first run if there was
 * only one. */
static const limber_report *last_report(const struct measured *o)
{
    return o->timed ? &o->warm : &o->cold;
}

void scheme_print(const limber_report *r)
{
    const bool usual = !strcmp(r->backend, "llvm");

    printf("%s%s%s", r->scheme, usual ? "" : " on ", usual ? "" : r->backend);
}

void products_print(const limber_report *r)
{
    printf("products  %d limb product%s", r->rows, r->rows == 1 ? "" : "s");
    if (r->pruned)
        printf(", %d left out: neither the contract nor the data needs them", r->pruned);
    printf("\n");
}

void bound_print(const char *label, double bound)
{
    if (bound == 0)
        printf("%sexact before the one rounding\n", label);
    else
        printf("%s%.3g |A||B|\n", label, bound);
}

void verdict_print(const struct verdict *v)
{
    printf("error     %.4g ulp (rounding alone: up to 0.5), %.3g |A||B| (%lld of %lld elements)\n",
           v->ulp, v->relative, (long long)v->checked, (long long)v->elements);
}

/* Adds the errors that --check found to the JSON, or nulls without --check. */
void verdict_json(cJSON *j, const struct cli_product *p, const struct verdict *v)
{
    if (p->output.check) {
        cJSON_AddNumberToObject(j, "error_ulp", v->ulp);
        cJSON_AddNumberToObject(j, "error_relative", v->relative);
        cJSON_AddNumberToObject(j, "elements_checked", (double)v->checked);
    } else {
        cJSON_AddNullToObject(j, "error_ulp");
        cJSON_AddNullToObject(j, "error_relative");
    }
}

/* Prints the product's sizes, plan, errors and times as one JSON object. */
static void print_json(const struct cli_product *p, const struct measured *o)
{
    cJSON *j = cJSON_CreateObject(), *shape = cJSON_AddObjectToObject(j, "shape");
    char name[64], unit[UNIT_TEXT], *text;

    if (p->is_conv) {
        cJSON_AddNumberToObject(shape, "n", (double)p->conv.n);
        cJSON_AddNumberToObject(shape, "c", (double)p->conv.c);
        cJSON_AddNumberToObject(shape, "h", (double)p->conv.h);
        cJSON_AddNumberToObject(shape, "w", (double)p->conv.w);
        cJSON_AddNumberToObject(shape, "o", (double)p->conv.o);
        cJSON_AddNumberToObject(shape, "r", (double)p->conv.r);
        cJSON_AddNumberToObject(shape, "s", (double)p->conv.s);
        if (p->conv.t) {
            cJSON_AddNumberToObject(shape, "d", (double)p->conv.d);
            cJSON_AddNumberToObject(shape, "t", (double)p->conv.t);
        }
    } else {
        cJSON_AddNumberToObject(shape, "m", (double)p->c.dim[0]);
        cJSON_AddNumberToObject(shape, "n", (double)p->c.dim[1]);
        cJSON_AddNumberToObject(shape, "k", (double)p->a.dim[!p->turns.trans_a]);
    }
    cJSON_AddStringToObject(j, "type", limber_format_name(p->c.format, name, sizeof name));
    cJSON_AddBoolToObject(j, "complex", p->c.pairs);
    cJSON_AddStringToObject(j, "contract",
                            p->promise.unit ? "simulate" :
                            p->contract     ? p->contract :
                                              "native");
    if (p->promise.unit)
        cJSON_AddStringToObject(j, "unit", limber_unit_text(&p->unit, unit, sizeof unit));
    if (p->lpgemm)
        cJSON_AddBoolToObject(j, "quantised", !p->unquantised);
    if (p->end.steps)
        cJSON_AddStringToObject(j, "epilogue", p->end.steps);
    cJSON_AddStringToObject(j, "backend", o->cold.backend);
    cJSON_AddStringToObject(j, "scheme", o->cold.scheme);
    cJSON_AddStringToObject(j, "way", o->cold.way);
    if (o->cold.order)
        cJSON_AddNumberToObject(j, "order", o->cold.order);
    cJSON_AddNumberToObject(j, "products_kept", o->cold.rows);
    cJSON_AddNumberToObject(j, "products_pruned", o->cold.pruned);
    if (isfinite(o->cold.bound))
        cJSON_AddNumberToObject(j, "bound", o->cold.bound);
    else
        cJSON_AddNullToObject(j, "bound");
    verdict_json(j, p, &o->v);
    if (o->modelled)
        cJSON_AddNumberToObject(j, "elements_unlike_model", (double)o->differ);
    cJSON_AddNumberToObject(j, "seconds_cold", o->seconds_cold);
    cJSON_AddNumberToObject(j, "seconds_warm", o->seconds_warm);
    cJSON_AddStringToObject(j, "cache", origin_name(o->cold.from));
    if (o->cold.parts)
        cJSON_AddItemToObject(j, "parts", parts_json(last_report(o), true));
    if (p->promise.statistics)
        cJSON_AddItemToObject(j, "statistics", statistics_json(&p->statistics));
    text = cJSON_Print(j);
    printf("%s\n", text ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(j);
}

/* Prints the product's sizes, plan, errors and times as text. */
static void print_text(const struct cli_product *p, const struct measured *o)
{
    char name[64], shape[128], unit[UNIT_TEXT];

    product_shape_text(p, !p->is_conv, shape, sizeof shape);
    printf("result    %s of %s%s\n", shape, p->c.pairs ? "complex " : "",
           limber_format_name(p->c.format, name, sizeof name));
    if (p->unquantised)
        printf("layer     %s is not quantised: native f32\n", p->layer ? p->layer : "any");
    if (p->promise.unit)
        printf("unit      %s\n", limber_unit_text(&p->unit, unit, sizeof unit));
    printf("contract  %s", p->promise.unit ? "simulate" : p->contract ? p->contract : "native");
    if (!*o->cold.scheme) {
        printf("; nothing is multiplied\n");
        return;
    }
    printf(", by ");
    scheme_print(&o->cold);
    printf("\nway       %s\n", o->cold.way);
    epilogue_print(p);
    products_print(&o->cold);
    if (o->cold.order)
        printf("order     %d\n", o->cold.order);
    if (!p->promise.unit)
        bound_print("bound     ", o->cold.bound);
    if (p->output.check)
        verdict_print(&o->v);
    if (o->modelled)
        printf("model     %lld of %lld elements differ from what the unit describes\n",
               (long long)o->differ, (long long)o->v.elements);
    printf("seconds   %.6f (%s)", o->seconds_cold, origin_name(o->cold.from));
    if (o->timed)
        printf(", warm %.6f", o->seconds_warm);
    printf("\n");
    if (o->cold.recomputed)
        printf(
            "recomputed  %lld of %lld elements, undecided by fewer bits, in %.0f%% of the time\n",
            (long long)o->cold.recomputed, (long long)array_size(&p->c),
            100 * o->cold.recomputed_share);
    if (o->cold.parts)
        parts_print(last_report(o));
    if (p->promise.statistics)
        statistics_print(&p->unit, &p->statistics);
}

static limber_status run_timed(const struct cli_product *p, limber_context *ctx, limber_report *r,
                               double *seconds)
{
    double start = now();
    limber_status s = product_run(p, ctx, r);

    *seconds = now() - start;
    return s;
}

/* Computes the product once more, by the unit's model on the CPU, and counts the elements that
 * differ. */
static bool compare_with_model(const struct cli_product *p, const void *before, struct measured *o)
{
    limber_config config = { .size = sizeof config, .backend = "llvm", .threads = p->threads };
    limber_report report = LIMBER_REPORT_INIT;
    limber_context *ctx = NULL;
    struct cli_product model = *p;
    int64_t step = array_step(&p->c), elements = array_size(&p->c);
    bool ok;

    model.promise.scheme = NULL;
    model.c.data = malloc((size_t)(elements * step) + 1);
    ok = model.c.data != NULL;
    if (ok)
        memcpy(model.c.data, before, (size_t)(elements * step));
    if (ok && limber_create(&ctx, &config) != LIMBER_STATUS_OK) {
        /* the interpreter, since a library without LLVM has no other backend */
        config.backend = "interp";
        limber_create(&ctx, &config);
    }
    ok = ok && ctx && product_run(&model, ctx, &report) == LIMBER_STATUS_OK;
    for (int64_t i = 0; ok && i < elements; i++)
        o->differ += memcmp((const char *)p->c.data + i * step,
                            (const char *)model.c.data + i * step, (size_t)step) != 0;
    o->modelled = ok;
    limber_destroy(ctx);
    free(model.c.data);
    return ok;
}

/* Runs the product once or twice, and compares the result with the exact one.  On failure prints a
 * message and returns false. */
bool product_measure(struct cli_product *p, limber_context *ctx, struct measured *o)
{
    size_t bytes = (size_t)(array_size(&p->c) * array_step(&p->c));
    void *before = malloc(bytes + 1);
    bool ok;

    if (!before)
        return complain("out of memory"), false;
    memcpy(before, p->c.data, bytes);
    o->cold = parts_report(o->part[0]);
    o->warm = parts_report(o->part[1]);
    o->timed = p->output.time || p->output.json || p->output.check || p->run;
    ok = run_timed(p, ctx, &o->cold, &o->seconds_cold) == LIMBER_STATUS_OK;
    if (ok && o->timed) {
        memcpy(p->c.data, before, bytes);
        ok = run_timed(p, ctx, &o->warm, &o->seconds_warm) == LIMBER_STATUS_OK;
    }
    if (!ok)
        complain("%s", limber_error_text());
    if (ok && p->output.check)
        o->v = check_product(p, before);
    if (ok && p->output.check && strcmp(o->cold.scheme, "tensor-mx") == 0 &&
        !compare_with_model(p, before, o)) {
        complain("the unit's model: %s", limber_error_text());
        ok = false;
    }
    free(before);
    return ok;
}

/* Computes the product, writes the result's file, and prints errors and times.  Returns the exit
 * status. */
int product_compute(struct cli_product *p)
{
    struct measured o = { 0 };
    limber_context *ctx = NULL;
    int status = 0;

    send_messages_to_stderr(p->output.out);
    if (product_context(p, &ctx) != LIMBER_STATUS_OK)
        status = complain("%s", limber_error_text());
    else if (!product_measure(p, ctx, &o) || (p->output.out && !array_write(p->output.out, &p->c)))
        status = 1;
    if (!status && p->output.json)
        print_json(p, &o);
    else if (!status)
        print_text(p, &o);
    context_end(ctx);
    return status;
}

/* Runs `limber gemm` or `limber conv`. */
static int run_command(int argc, const char **argv, bool is_conv)
{
    struct cli_product p;
    int status = product_read(argc, argv, is_conv, false, &p);

    if (status)
        return status - 1;
    status = product_compute(&p);
    product_clear(&p);
    return status;
}

int cmd_gemm(int argc, const char **argv)
{
    return run_command(argc, argv, false);
}

int cmd_conv(int argc, const char **argv)
{
    return run_command(argc, argv, true);
}
