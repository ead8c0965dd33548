/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzzes the rules of the interposed libraries, one rule in a line, and the plans in their reports,
 * which `limber prebuild` reads. */
#define _GNU_SOURCE /* for the included rules.c */
#include "fuzz.h"

#include "tools/interpose/shared/rules.c" /* the unit under test */

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

const char interpose_name[] = "fuzz", interpose_original[] = "none";

static const char *const seeds[] = {
    "*gemm m>=131 m<=131 work<3e6 k=150 -> off\n[dz]gemm* caller=lu* -> fast scheme=ozaki2\n",
    "cblas_?gemm* n<1e3 -> bits=40\n* -> correct\n",
    ("{ \"limber\": \"1\", \"kernels\": [ { \"key\": \"0\", \"plan\": \"plan gemm promise=native "
     "kbits=4 budget=0 {\\n}\" } ] }"),
};

size_t fuzz_seed(int i, uint8_t *to)
{
    if (i >= (int)(sizeof seeds / sizeof *seeds))
        return 0;
    memcpy(to, seeds[i], strlen(seeds[i]));
    return strlen(seeds[i]);
}

static void free_rules(struct rules *r)
{
    while (r) {
        struct rules *next = r->next;

        free(r->words);
        free(r);
        r = next;
    }
}

/* Makes the kernels of a report's plans, as `limber prebuild` does. */
static void make_kernels_of_report(const char *s)
{
    static limber_context *ctx;
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "interp",
                                   .threads = 1,
                                   .cache_dir = "",
                                   .dump_dir = "" };
    cJSON *all = cJSON_Parse(s), *k;

    if (!ctx && limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        abort();
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(all, "kernels"))
    {
        const cJSON *plan = cJSON_GetObjectItem(k, "plan");

        if (cJSON_IsString(plan))
            limber_kernel_make(ctx, plan->valuestring, NULL);
    }
    cJSON_Delete(all);
}

/* Reads the input as rules for intercepted calls, or as a report if it starts with '{'. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct interpose_call call = { "cblas_dgemm", 131, 140, 150, NULL };
    struct rules *rules = NULL;
    char why[200], *s = malloc(size + 1), *rest = s, *line;

    if (!s)
        return 0;
    memcpy(s, data, size);
    s[size] = 0;
    if (*s == '{') {
        make_kernels_of_report(s);
    } else {
        while ((line = strsep(&rest, "\n")))
            interpose_rules_add(&rules, line, why, sizeof why);
        interpose_rules_find(rules, &call);
        free_rules(rules);
    }
    free(s);
    return 0;
}
