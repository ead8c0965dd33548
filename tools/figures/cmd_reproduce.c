/* SPDX-License-Identifier: BSD-3-Clause
 * limber reproduce: lists the figures and tables of the papers that Limber builds on, and computes
 * them here, beside the numbers that the papers' texts give. */
#define _GNU_SOURCE
#include "tools/cli/commands.h"
#include "tools/figures/figures.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <popt.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { SIDE = 16, SKIPPED = 77 };

void figure_note(const struct figures *f, const char *format, ...)
{
    va_list args;

    if (!isatty(2) || f->json)
        return;
    va_start(args, format);
    fputc('\r', stderr);
    vfprintf(stderr, format, args);
    fputs("\033[K", stderr);
    va_end(args);
}

double random_unit(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Allocates the matrices of an m x n x k product in these formats.  On failure prints a message and
 * returns false. */
bool factors_alloc(struct factors *x, int64_t m, int64_t n, int64_t k, const char *format,
                   const char *result)
{
    limber_format f = format_of(format), c = format_of(result);

    *x = (struct factors){ m,
                           n,
                           k,
                           f,
                           c,
                           malloc((size_t)(m * k) * f.size),
                           malloc((size_t)(k * n) * f.size),
                           calloc((size_t)(m * n), c.size) };
    return (x->a && x->b && x->c) || !complain("reproduce: out of memory");
}

void factors_set(const struct factors *x, void *matrix, int64_t at, double y)
{
    if (x->format.size == 4)
        ((float *)matrix)[at] = (float)y;
    else
        ((double *)matrix)[at] = y;
}

void factors_free(struct factors *x)
{
    free(x->a);
    free(x->b);
    free(x->c);
    *x = (struct factors){ .a = NULL };
}

limber_status factors_multiply(limber_context *ctx, const limber_contract *contract,
                               const struct factors *x, limber_report *report)
{
    return limber_gemm(ctx, contract, x->m, x->n, x->k, NULL,
                       (limber_matrix){ x->a, x->format, x->k, 1 },
                       (limber_matrix){ x->b, x->format, x->n, 1 }, NULL,
                       (limber_output){ x->c, x->result, x->n, 1 }, report);
}

/* Compares a sample of C with exact sums: builds a small product of some rows of A and columns of
 * B. */
struct verdict factors_check(const struct factors *x)
{
    int64_t rows = x->m < SIDE ? x->m : SIDE, cols = x->n < SIDE ? x->n : SIDE;
    size_t size = x->format.size, wide = x->result.size;
    struct verdict v = { NAN, NAN, 0, 0 };
    struct factors y;

    if (!factors_alloc(&y, rows, cols, x->k, "f64", "f64"))
        return v;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = i * x->m / rows;

        memcpy((char *)y.a + (size_t)(i * x->k) * size, (char *)x->a + (size_t)(from * x->k) * size,
               (size_t)x->k * size);
        for (int64_t j = 0; j < cols; j++)
            memcpy((char *)y.c + (size_t)(i * cols + j) * wide,
                   (char *)x->c + (size_t)(from * x->n + j * x->n / cols) * wide, wide);
    }
    for (int64_t p = 0; p < x->k; p++)
        for (int64_t j = 0; j < cols; j++)
            memcpy((char *)y.b + (size_t)(p * cols + j) * size,
                   (char *)x->b + (size_t)(p * x->n + j * x->n / cols) * size, size);
    v = check_gemm(rows, cols, x->k, x->format, y.a, x->format, y.b, x->result, y.c);
    factors_free(&y);
    return v;
}

double figure_clock(const struct figures *f)
{
    struct timespec t;

    clock_gettime(f->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times five runs; fewer if they take more than 10 s together, up to 39 if less than 0.1 s. */
double figure_time(const struct figures *f, bool (*run)(void *user), void *user)
{
    double best = INFINITY, spent = 0;

    for (int i = 0; spent < 10 && (i < (f->quick ? 2 : 6) || (!f->quick && i < 40 && spent < 0.1));
         i++) {
        double start = figure_clock(f), t;

        if (!run(user))
            return NAN;
        t = figure_clock(f) - start;
        if (i > 0) {
            best = t < best ? t : best;
            spent += t;
        }
    }
    return best;
}

/* A product to time, and its outcome. */
struct timed_product {
    limber_context *ctx;
    const limber_contract *contract;
    const struct factors *x;
    limber_report *report;
    limber_status status;
};

static bool run_product(void *user)
{
    struct timed_product *p = user;

    p->status = factors_multiply(p->ctx, p->contract, p->x, p->report);
    return p->status == LIMBER_STATUS_OK;
}

double factors_time(const struct figures *f, limber_context *ctx, const limber_contract *contract,
                    const struct factors *x, limber_report *report, bool *failed)
{
    struct timed_product p = { ctx, contract, x, report, LIMBER_STATUS_OK };
    double best = figure_time(f, run_product, &p);

    if (p.status != LIMBER_STATUS_OK && p.status != LIMBER_STATUS_NO_SCHEME) {
        *failed = true;
        complain("%s", limber_error_text());
    }
    return best;
}

/* ---- what can be reproduced ------------------------------------------------------------------ */

#define APE "Ma et al., Ape, ICS 2022"
#define OZAKI "Mukunoki et al., DGEMM on Tensor Cores, ISC 2020"
#define LPGEMM "Huang et al., LPGEMM, 2024"
#define GUIDE "guide to FP16 and BF16 operators"

/* A figure or table of a source, or one of Limber's own (source is NULL). */
struct item {
    const char *name, *source, *place;
    /* NULL if a program of examples/ computes it, or nothing does */
    const struct figure *figure;
    /* the program's path in examples/ and its arguments; %s stands for the output folder */
    const char *program[6];
    /* published: numbers that the source's text gives; here: why ours differ from them, or what
     * shows an item that this command does not compute */
    const char *published, *here;
    const struct figure *more; /* another figure of the same place, or NULL */
};
static const struct item items[] = {
    { "ape-1",
      APE,
      "figure 1",
      NULL,
      { NULL },
      "",
      "`limber units`: simulated tensor cores; FP16 products are exact, sums FP32" },
    { "ape-2",
      APE,
      "figure 2",
      NULL,
      { NULL },
      "",
      "`limber formats --tables`: bits and ranges of the formats" },
    { "ape-3",
      APE,
      "figure 3",
      NULL,
      { NULL },
      "",
      "an overview without numbers: docs/design.md has Limber's" },
    { "ape-4",
      APE,
      "figure 4",
      NULL,
      { NULL },
      "",
      "`limber plan gemm A B --svg FILE`: exponents of tiles, and what multiplies them" },
    { "ape-5",
      APE,
      "figure 5",
      NULL,
      { NULL },
      "",
      "FP32-F's limbs: `limber reproduce ape-14`; `limber plan gemm A B --ir` shows them" },
    { "ape-6",
      APE,
      "figure 6",
      NULL,
      { NULL },
      "",
      "FP32-F's three products: `limber plan gemm A B --scheme fp32-f --contract fast --ir`" },
    { "ape-7",
      APE,
      "figure 7",
      NULL,
      { NULL },
      "",
      "FP32-B's limbs: as for figure 5; its six products: --scheme fp32-b" },
    { "ape-types",
      APE,
      "tables 1 and 2",
      &figure_ape_types,
      { NULL },
      "A100, n = 1024: FP32-F 27.2 TFLOPS, FP32-B 17.2 (63%); FP32-F to 2^-22, 1.19 times FP32-M",
      "A CPU multiplies limbs as FP32 numbers, so that three products cost three." },
    { "ape-8",
      APE,
      "figure 8",
      &figure_ape_sweep,
      { NULL },
      "the best type changes from FP32-F over mixed to FP32-B as tiles of FP32-B grow in number",
      "Times are of a CPU, on which native FP32 is the fastest of all." },
    { "ape-9",
      APE,
      "figure 9",
      NULL,
      { "apps.py", "--figure", "9", "--pictures", "%s" },
      "A100: circuits 1.65, PCA 1.19, kNN 1.78, kMeans 1.75, BERT 1.77 times FP32",
      "A CPU has no unit that makes FP32-F faster than FP32, but pixels need one limb.  Minutes." },
    { "ape-10",
      APE,
      "figure 10",
      &figure_ape_gemm,
      { NULL },
      "A100: FP32-F 3.12, FP32-B 1.85 times FP32; V100: FP32-F 1.81; T4: 1.49",
      "Speeds of the CPU. The columns of the GPU are empty where there is none; "
      "docs/measured/gpu-h200.md has an H200's." },
    { "ape-11",
      APE,
      "figure 11",
      &figure_ape_integers,
      { NULL },
      "four INT8 products make one of INT16",
      "Speeds of the CPU; the columns of the GPU are empty where there is none. Limber does not "
      "run "
      "on the Ascend 910, which the paper also measures." },
    { "ape-12",
      APE,
      "figure 12",
      NULL,
      { "resnet/resnet.py", "--by", "torch,native,fp32-f,fp32-b,mixed", "--picture",
        "%s/resnet.svg" },
      "A100: FP32-F up to 1.86 times cuDNN's FP32",
      "Speeds of the CPU, beside PyTorch's. `fp32-f` leaves tiles beyond its range to FP32." },
    { "ape-13",
      APE,
      "figure 13",
      NULL,
      { "apps.py", "--figure", "13", "--pictures", "%s" },
      "qv_25: FP32-F, FP32-B and FP32 err by 9%, FP16 by 172%",
      "Errors relative to their amplitudes.  qv_25 is a random circuit of 8 layers, since the "
      "paper "
      "gives no number.  Four minutes of one core, 2 GB." },
    { "ape-14",
      APE,
      "figure 14",
      &figure_types,
      { NULL },
      "FP32-F, FP32-M and FP32-T err by 1.2e-7 within their ranges, FP32-B by almost nothing",
      "The same errors.  FP32-B holds all bits from 7.7e-34 on, and 23 bits from 3.9e-34 on." },
    { "ape-15",
      APE,
      "figure 15",
      &figure_sums,
      { NULL },
      "errors of all types grow with n, since tensor cores truncate sums",
      "An H100's tensor cores are simulated; Limber promotes partial sums: errors stay "
      "below 12 u |A||B|." },
    { "ape-16",
      APE,
      "figure 16",
      &figure_overhead,
      { NULL },
      "60% of tiles in FP32-F, 40% in FP32-B: the time of decisions is negligible",
      "Scan and decision are timed on the CPU that also multiplies. A tenth of the FP32 tiles is "
      "wide: with 40% one type for all is faster, and nothing is mixed." },
    { "dgemm-tc-algorithms",
      OZAKI,
      "algorithms 1 to 3",
      NULL,
      { NULL },
      "",
      "slices, their products, the estimate: docs/accuracy.md, section 5; tested against a second "
      "implementation" },
    { "dgemm-tc-accuracy",
      OZAKI,
      "accuracy and time over phi",
      &figure_range,
      { NULL },
      "Titan RTX, range 1e9: 980 GFLOPS at DGEMM's accuracy, cublasDgemm 539",
      "Times are of a CPU, which is faster at FP64 than a Titan RTX beside its INT8." },
    { "dgemm-tc-slices",
      OZAKI,
      "number of slices over phi and n",
      &figure_slices,
      { NULL },
      "at most d(d + 1) / 2 products of d slices",
      "The estimate is for errors below a BLAS's on sampled rows and columns." },
    { "dgemm-tc-speed",
      OZAKI,
      "speed over n",
      &figure_slices_speed,
      { NULL },
      "Titan RTX, range 1e9: 980 GFLOPS with FP16, cublasDgemm 539",
      "A CPU multiplies slices of FP16 as FP32 numbers, where it has no FP16 unit." },
    { "lpgemm-1",
      LPGEMM,
      "figure 1",
      NULL,
      { NULL },
      "",
      "a swamped addition: `limber explore` and --statistics count them" },
    { "lpgemm-2",
      LPGEMM,
      "figure 2",
      NULL,
      { NULL },
      "",
      "layers that are products: limber.torch replaces linear, convolution, attention" },
    { "lpgemm-3",
      LPGEMM,
      "figure 3",
      NULL,
      { NULL },
      "",
      "the order of the steps: `limber units` and docs/simulation.md state it" },
    { "lpgemm-4",
      LPGEMM,
      "figure 4",
      &figure_lpgemm_error,
      { NULL },
      "mean distance from an FPGA's FP8 sums: 56% less than QPyTorch at most, 43% on the mean",
      "The unit with FP8 sums of 16 stands for the FPGA, with FP16 sums of groups for LPGEMM: "
      "the choice that comes nearest to 56% and 43%. With the FPGA's own sums it would be 100%." },
    { "lpgemm-table-1",
      LPGEMM,
      "table 1",
      NULL,
      { NULL },
      "",
      "`limber formats`: exponent and fraction bits" },
    { "lpgemm-table-2",
      LPGEMM,
      "table 2",
      NULL,
      { NULL },
      "",
      "a list of packages, nothing to compute; docs/pytorch.md compares with two of them" },
    { "lpgemm-table-3",
      LPGEMM,
      "table 3",
      NULL,
      { NULL },
      "",
      "`limber gemm --lpgemm FILE` reads such a configuration" },
    { "lpgemm-table-4",
      LPGEMM,
      "table 4",
      &figure_lpgemm_times,
      { NULL },
      "speed of PyTorch's product: 0.17 (BF16, groups of 16), 0.79 without roundings",
      "One CPU thread beside Limber's native product; n up to 4096, as a larger n takes minutes. "
      "The means of the paper's rows are 0.18 and 0.78, its text says 0.17 and 0.79." },
    { "lpgemm-equations",
      LPGEMM,
      "equations 1 to 4",
      NULL,
      { NULL },
      "",
      "1: --statistics counts such additions; 2 and 3: `retention`, measured; 4: "
      "`limber_retention_chunked`, the model" },
    { "operators-sums",
      GUIDE,
      "swallowed additions (1.4, 2.4.2)",
      &figure_reductions,
      { NULL },
      "FP16 sums of ones stop at 2048",
      "`limber operators --tables` and `limber formats --tables` print the guide's tables." },
    { "ladder",
      "OpenMLSys, accelerator programming",
      "optimisations 1 to 5",
      &figure_ladder,
      { NULL },
      "no numbers: tiles, fragments, access to memory, balance",
      "`--threads 2` adds the step balanced. Steps on a GPU: for 1024 multiply-adds, instructions "
      "of "
      "a warp (by nvdisasm, else in PTX), passes of shared memory, sectors of 32 bytes; times need "
      "a GPU.",
      &figure_ladder_gpu },
    { "fallbacks", NULL, "tiles that scales keep in FP32-F", &figure_fallbacks, { NULL }, "", "" },
    { "mixed-sweep", NULL, "mixed FP64 products", &figure_sweep, { NULL }, "", "" },
};
enum { ITEMS = sizeof items / sizeof *items };

/* ---- the command ----------------------------------------------------------------------------- */

static const struct item *item_named(const char *name)
{
    for (int i = 0; i < ITEMS; i++)
        if (!strcmp(items[i].name, name) ||
            (items[i].figure && !strcmp(items[i].figure->name, name)) ||
            (items[i].more && !strcmp(items[i].more->name, name)))
            return &items[i];
    return NULL;
}

const char *reproduced_word(int i)
{
    return i < ITEMS ? items[i].name : NULL;
}

void reproduced_tell(const char *word)
{
    const struct item *x = item_named(word);

    if (x->source)
        printf("  %s, %s.%s%s\n", x->source, x->place, x->figure || x->program[0] ? "" : "  Here: ",
               x->figure || x->program[0] ? "" : x->here);
    else
        printf("  Limber's own: %s.\n", x->figure->about);
}

/* Prints a message and returns false if a name is none of an item or figure. */
static bool are_known(const char *const *names)
{
    for (; *names; names++)
        if (!item_named(*names))
            return complain("nothing is called \"%s\" (limber reproduce lists all)", *names), false;
    return true;
}

/* True if the names include the item, or if there are no names. */
static bool is_wanted(const char *const *names, const struct item *item)
{
    bool wanted = !*names;

    for (; *names; names++)
        wanted |= item_named(*names) == item;
    return wanted;
}

/* Adds the JSON objects in a file to the figures as {"name": NAME, "rows": [...]}.  Returns false
 * after a message if the file has anything else. */
static bool add_objects(const struct figures *f, const char *name, FILE *from)
{
    cJSON *figure = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(figure, "rows");
    char *text = NULL;
    size_t size = 0;
    bool ok;

    cJSON_AddStringToObject(figure, "name", name);
    cJSON_AddItemToArray(f->json, figure);
    rewind(from);
    ok = rows && getdelim(&text, &size, 0, from) > 0;
    for (const char *at = text; ok && *at; at += strspn(at, " \n")) {
        cJSON *row = cJSON_ParseWithOpts(at, &at, false);

        ok = row && cJSON_AddItemToArray(rows, row);
    }
    free(text);
    return ok || !complain("%s: its program printed no JSON", name);
}

/* Runs a program of examples/ with Python.  With JSON, its output goes to the file `out`.  Returns
 * its exit status, -1 if a signal ends it. */
static int run_program(const struct figures *f, const struct item *item, FILE *out)
{
    posix_spawn_file_actions_t actions;
    char script[PATH_MAX], argument[PATH_MAX], threads[12];
    const char *args[16] = { NULL, script };
    pid_t child;
    int n = 2, error;

    if (!example_beside(item->program[0], script))
        return complain("%s: there is no examples/%s beside this program", item->name,
                        item->program[0]);
    for (int i = 1; i < 6 && item->program[i]; i++) {
        const char *at = strstr(item->program[i], "%s");

        if (at)
            snprintf(argument, sizeof argument, "%s%s", f->dir, at + 2);
        args[n++] = at ? argument : item->program[i];
    }
    snprintf(threads, sizeof threads, "%d", f->threads);
    args[n++] = "--threads";
    args[n++] = threads;
    if (!strcmp(item->program[0], "apps.py")) {
        if (f->quick)
            args[n++] = "--quick";
        if (f->data) {
            args[n++] = "--data";
            args[n++] = f->data;
        }
    }
    if (f->json)
        args[n++] = "--json";
    args[0] = python_for_examples();
    fflush(stdout);
    posix_spawn_file_actions_init(&actions);
    if (out)
        posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
    error = posix_spawnp(&child, args[0], &actions, NULL, (char **)(uintptr_t)args, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return complain("%s: %s: %s", item->name, args[0], strerror(error));
    return child_status(child);
}

static bool open_contexts(struct figures *f)
{
    limber_config config = { .size = sizeof(limber_config), .threads = f->threads };
    bool ok = limber_create(&f->ctx, &config) == LIMBER_STATUS_OK;

    config.partition = LIMBER_PARTITION_OFF;
    ok = ok && limber_create(&f->whole, &config) == LIMBER_STATUS_OK;
    return ok || !complain("%s", limber_error_text());
}

static bool print_json(cJSON *figures)
{
    cJSON *j = cJSON_CreateObject();
    char cpu[64];

    cpu_name(cpu, sizeof cpu);
    cJSON_AddStringToObject(j, "cpu", cpu);
    cJSON_AddItemToObject(j, "figures", figures);
    return json_print(j);
}

/* Reproduces an item by its program.  Returns false on failure. */
static bool reproduce_by_program(const struct figures *f, const struct item *item)
{
    FILE *out = f->json ? tmpfile() : NULL;
    int status;
    bool ok;

    if (f->json && !out)
        return !complain("%s: %s", item->name, strerror(errno));
    status = run_program(f, item, out);
    if (status == SKIPPED)
        fprintf(f->json ? stderr : stdout, "%s: skipped\n", item->name);
    ok = status == SKIPPED || (status == 0 && (!out || add_objects(f, item->name, out)));
    if (out)
        fclose(out);
    return ok;
}

/* Computes an item and prints the source's numbers beside it.  Returns false on failure. */
static bool reproduce(struct figures *f, const struct item *item)
{
    if (!f->json) {
        printf("%s: %s, %s\n", item->name, item->source ? item->source : "Limber's own",
               item->place);
        if (*item->published)
            printf("  published: %s\n", item->published);
        if (*item->here)
            printf("  here: %s\n", item->here);
    }
    if (item->figure)
        return figure_make(f, item->figure) && (!item->more || figure_make(f, item->more));
    return !item->program[0] || reproduce_by_program(f, item);
}

/* Reproduces the items in `names`, or all, in the folder f->dir.  Returns the exit status. */
static int reproduce_all(struct figures *f, const char *const *names)
{
    bool ok = true;

    if (mkdir(f->dir, 0777) && errno != EEXIST)
        return complain("%s: %s", f->dir, strerror(errno));
    for (int i = 0; i < ITEMS && !f->undrawn; i++) /* said before hours of computing */
        if (is_wanted(names, &items[i]) && items[i].figure && items[i].figure->picture[0].name)
            f->undrawn = !gnuplot_is_here();
    ok = open_contexts(f);
    for (int i = 0; i < ITEMS && ok; i++)
        if (is_wanted(names, &items[i]))
            ok = reproduce(f, &items[i]);
    if (f->json && !print_json(f->json))
        ok = false;
    context_end(f->gpu);
    context_end(f->whole);
    context_end(f->ctx);
    return !ok || f->undrawn;
}

/* Lists all items, source by source. */
static int list_items(bool json)
{
    const char *source = "";
    cJSON *all = json ? cJSON_CreateArray() : NULL;

    for (int i = 0; i < ITEMS; i++) {
        const char *from = items[i].source ? items[i].source : "Limber's own";

        if (json) {
            cJSON *j = cJSON_CreateObject();

            cJSON_AddStringToObject(j, "name", items[i].name);
            cJSON_AddStringToObject(j, "source", from);
            cJSON_AddStringToObject(j, "place", items[i].place);
            cJSON_AddStringToObject(j, "published", items[i].published);
            cJSON_AddStringToObject(j, "here", items[i].here);
            cJSON_AddItemToArray(all, j);
            continue;
        }
        if (strcmp(from, source))
            printf("%s%s\n", i ? "\n" : "", from);
        source = from;
        printf("  %-19s %s%s%s\n", items[i].name, items[i].place, items[i].program[0] ? "" : ": ",
               items[i].figure     ? items[i].figure->about :
               items[i].program[0] ? " (Python, examples/)" :
                                     items[i].here);
    }
    if (json)
        return !json_print(all);
    printf("\n`limber reproduce NAME...` computes some, `limber reproduce --all` all of them.\n");
    return 0;
}

/* The command `limber reproduce`.  Returns the exit status. */
int cmd_reproduce(int argc, const char **argv)
{
    struct figures f = { .threads = 1, .dir = "reproduced" };
    int quick = 0, json = 0, all = 0, status = 2;
    static const char *const none[] = { NULL };
    bool ok;
    struct poptOption table[] = {
        { "output", 'o', POPT_ARG_STRING, &f.dir, 0, "folder of tables and pictures (reproduced)",
          "DIR" },
        { "all", 0, POPT_ARG_NONE, &all, 0, "everything", NULL },
        { "data", 0, POPT_ARG_STRING, &f.data, 0,
          "the folder with MNIST's images and circuits (LIMBER_DATA)", "DIR" },
        { "quick", 0, POPT_ARG_NONE, &quick, 0, "small sizes, for tests", NULL },
        { "threads", 0, POPT_ARG_INT, &f.threads, 0, "worker threads (1)", "N" },
        { "json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    poptContext o = options_open(argc, argv, table);
    const char *const *names;

    ok = options_read(o, "[options] [NAME...]\n\nWithout a name it lists what there is.\n\n"
                         "example: limber reproduce ape-8 ape-14 -o pictures");
    names = poptGetArgs(o);
    names = names ? names : none;
    if (!ok)
        status = 2;
    else if (f.threads < 1)
        complain("--threads takes a number from 1 on");
    else if (all && *names)
        complain("--all and names exclude each other");
    else if (!all && !*names)
        status = list_items(json);
    else if (are_known(names)) {
        f.quick = quick;
        f.json = json ? cJSON_CreateArray() : NULL;
        status = json && !f.json ? complain("out of memory") : reproduce_all(&f, names);
    }
    poptFreeContext(o);
    return status;
}
