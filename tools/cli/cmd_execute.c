/* SPDX-License-Identifier: BSD-3-Clause
 * limber execute: computes a product or a convolution by the plan in a file. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <popt.h>
#include <stdlib.h>
#include <string.h>

/* Copies what follows `key` in the line of a plan that contains `operation`, up to one of the
 * characters of `end`.  NULL if there is no such line, or no such word in it. */
static char *word_of(const char *plan, const char *operation, const char *key, const char *end)
{
    const char *line = strstr(plan, operation), *at;
    size_t n;

    if (!line)
        return NULL;
    n = strcspn(line, "\n");
    at = memmem(line, n, key, strlen(key));
    return at ? strndup(at + strlen(key), strcspn(at + strlen(key), end)) : NULL;
}

/* Reads from the plan's text the contract, the format of the result and the geometry of a
 * convolution.  If the text is no plan, sets nothing; the library refuses it later. */
static void read_plan(struct cli_product *p)
{
    const char *conv = strstr(p->plan, " = conv ") ? " = conv " : " = patches ";
    char *groups = word_of(p->plan, conv, " groups=", " \n");

    p->is_conv = strstr(p->plan, conv) != NULL;
    p->contract = word_of(p->plan, "plan ", " promise=", " \n");
    if (!p->output.as)
        p->output.as = word_of(p->plan, " = epilogue ", " : ", "[ \n");
    p->shape.stride = word_of(p->plan, conv, " stride=", " \n");
    p->shape.pad = word_of(p->plan, conv, " pad=", " \n");
    p->shape.dilate = word_of(p->plan, conv, " dilate=", " \n");
    p->shape.layout = word_of(p->plan, conv, " layout=", " \n");
    p->shape.backward = word_of(p->plan, conv, " direction=", " \n");
    if (p->shape.backward && !strcmp(p->shape.backward, "forward")) {
        free(p->shape.backward);
        p->shape.backward = NULL;
    }
    p->shape.groups = groups ? atoi(groups) : 1;
    free(groups);
}

/* Reads the plan and the operands. */
static bool open_files(struct cli_product *p, const char *const *files)
{
    p->plan = text_read(files[0]);
    p->name[0] = strdup(files[1]);
    p->name[1] = strdup(files[2]);
    if (!p->plan || !p->name[0] || !p->name[1])
        return false;
    read_plan(p);
    return (!p->is_conv || product_geometry(p)) && product_open(p, files + 1);
}

/* The command `limber execute`. */
int cmd_execute(int argc, const char **argv)
{
    struct cli_product p = { .promise = LIMBER_CONTRACT_INIT,
                             .unit = LIMBER_UNIT_INIT,
                             .statistics = LIMBER_STATISTICS_INIT,
                             .conv = LIMBER_CONV_INIT };
    struct poptOption table[] = {
        { NULL, 'o', POPT_ARG_STRING, &p.output.out, 0,
          "write the result (.npy, .npz, .mtx or .csv)", "FILE" },
        { "check", 0, POPT_ARG_NONE, &p.output.check, 0, "compare with the exact result", NULL },
        { "time", 0, POPT_ARG_NONE, &p.output.time, 0, "run twice: cold and warm", NULL },
        { "alpha", 0, POPT_ARG_STRING, &p.scalars.alpha, 0, "alpha, where the plan has alpha=arg",
          "X" },
        { "beta", 0, POPT_ARG_STRING, &p.scalars.beta, 0, "beta, where the plan has beta=arg",
          "X" },
        { "c", 0, POPT_ARG_STRING, &p.c0, 0, "C0: what beta multiplies", "FILE" },
        { "trans-a", 0, POPT_ARG_NONE, &p.turns.trans_a, 0, "use the transpose of A", NULL },
        { "trans-b", 0, POPT_ARG_NONE, &p.turns.trans_b, 0, "use the transpose of B", NULL },
        { "conj-a", 0, POPT_ARG_NONE, &p.turns.conj_a, 0, "conjugate a complex A", NULL },
        { "conj-b", 0, POPT_ARG_NONE, &p.turns.conj_b, 0, "conjugate a complex B", NULL },
        { "epilogue", 0, POPT_ARG_STRING, &p.end.epilogue, 0,
          "steps that the plan's result goes through, as of `limber gemm`; @FILE: of a file",
          "TEXT" },
        { "input", 0, POPT_ARG_ARGV, &p.end.inputs, 0, "an input of --epilogue, up to eight times",
          "NAME=FILE" },
        { "as", 0, POPT_ARG_STRING, &p.output.as, 0,
          "the result's format after --epilogue; default: the plan's", "FORMAT" },
        { "size", 0, POPT_ARG_STRING, &p.shape.size, 0,
          "of a gradient: rows and columns (planes before them) of the image, or of the filters",
          "H,W" },
        { "backend", 0, POPT_ARG_STRING, &p.backend, 0, BACKENDS, "BACKEND" },
        { "threads", 0, POPT_ARG_INT, &p.threads, 0, "worker threads", "N" },
        { "json", 0, POPT_ARG_NONE, &p.output.json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    const char *const *files;
    int n = 0, status = 2;
    poptContext o = options_open(argc, argv, table);
    bool ok = options_read(
        o, "FILE.lir A B [options]\n\nComputes A B, or of a plan of a convolution the image A with "
           "the filters B, by the limbs and rows of\na plan (docs/ir.md). Stated plans run all "
           "passes first, finished ones must prove their bound. What the\nbackend does not serve "
           "is interpreted, unless --backend names it.\n\n"
           "example: LIMBER_DUMP=dump limber gemm A.npy B.npy --scheme ozaki2\n"
           "         limber execute dump/*/06-bound.lir A.npy B.npy --check -o C.npy");

    files = poptGetArgs(o);
    while (files && files[n])
        n++;
    if (ok && n != 3)
        complain("execute takes a plan and two files, %d given (see limber execute --help)", n);
    else if (ok && (!p.output.out || array_writable(p.output.out)))
        status = open_files(&p, files) ? product_compute(&p) : 1;
    poptFreeContext(o);
    product_clear(&p);
    return status;
}
