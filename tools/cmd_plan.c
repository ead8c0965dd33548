/* SPDX-License-Identifier: BSD-3-Clause
 * limber plan: what a call would do, or passes over a plan from a file. */
#define _GNU_SOURCE
#include "cli.h"

#include <cjson/cJSON.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

static int show(char *text, bool json)
{
    if (!text)
        return complain("%s", limber_error_text());
    if (json) {
        cJSON *j = cJSON_CreateObject();
        char *printed;

        cJSON_AddStringToObject(j, "plan", text);
        printed = cJSON_Print(j);
        printf("%s\n", printed ? printed : "{}");
        cJSON_free(printed);
        cJSON_Delete(j);
    } else {
        fputs(text, stdout);
    }
    limber_free(text);
    return 0;
}

static int of_product(int argc, const char **argv, bool is_conv)
{
    limber_context *ctx = NULL;
    struct product p;
    char *text = NULL;
    int status = product_read(argc, argv, is_conv, &p);

    if (status)
        return status - 1;
    if (product_context(&p, &ctx) == LIMBER_OK)
        product_plan(&p, ctx, &text);
    status = show(text, p.json);
    limber_destroy(ctx);
    product_clear(&p);
    return status;
}

static int of_file(const char *path, const char *passes, const char *target_file,
                   const char *backend, bool json)
{
    char *plan = text_read(path), *target = target_file ? text_read(target_file) : NULL, *text = NULL;
    limber_config config = { .backend = backend };
    limber_context *ctx = NULL;
    int status = 1;

    if (plan && (!target_file || target)) {
        if (limber_create(&ctx, &config) == LIMBER_OK)
            limber_plan_text(ctx, plan, passes, target, &text);
        status = show(text, json);
    }
    limber_destroy(ctx);
    free(plan);
    free(target);
    return status;
}

int cmd_plan(int argc, const char **argv)
{
    char *passes = NULL, *target = NULL, *backend = NULL;
    const char *path;
    int json = 0, code, status;
    struct poptOption table[] = {
        { "passes", 0, POPT_ARG_STRING, &passes, 0, "only these, with commas", "P,Q" },
        { "target", 0, POPT_ARG_STRING, &target, 0, "a machine as text", "FILE" },
        { "backend", 0, POPT_ARG_STRING, &backend, 0, "auto, interp or llvm", "NAME" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP
        POPT_TABLEEND
    };
    poptContext o;

    if (argc > 1 && (!strcmp(argv[1], "gemm") || !strcmp(argv[1], "conv")))
        return of_product(argc - 1, argv + 1, argv[1][0] == 'c');
    o = poptGetContext("limber", argc, argv, table, 0);
    poptSetOtherOptionHelp(o, "gemm A B [options] | conv X W [options] | FILE.lir [options]\n\n"
                           "example: limber plan gemm A.npy B.npy --contract bits=40");
    code = poptGetNextOpt(o);
    path = poptGetArg(o);
    if (code < -1)
        status = complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS),
                          poptStrerror(code)) + 1;
    else if (!path)
        status = complain("plan takes gemm, conv or a file (see limber plan --help)") + 1;
    else
        status = of_file(path, passes, target, backend, json);
    poptFreeContext(o);
    free(passes);
    free(target);
    free(backend);
    return status;
}
