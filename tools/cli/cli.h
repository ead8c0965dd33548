/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the subcommands of `limber` share. */
#ifndef LIMBER_CLI_H
#define LIMBER_CLI_H

#include <limber/ops.h>

#include "tools/output.h"

#include <stdbool.h>
#include <stdio.h>

/* The words that --backend takes. */
#define BACKENDS "auto, interp, llvm or cuda"

/* The subcommands.  argv[0] is "limber NAME".  The exit status: 0 good, 1 failed, 2 usage. */
int cmd_gemm(int argc, const char **argv);
int cmd_conv(int argc, const char **argv);
int cmd_plan(int argc, const char **argv);
int cmd_cache(int argc, const char **argv);
int cmd_formats(int argc, const char **argv);
int cmd_bench(int argc, const char **argv);
int cmd_gpu(int argc, const char **argv);
int cmd_tune(int argc, const char **argv);
int cmd_demo(int argc, const char **argv);
int cmd_units(int argc, const char **argv);
int cmd_explore(int argc, const char **argv);
int cmd_reveal(int argc, const char **argv);
int cmd_figures(int argc, const char **argv);
int cmd_report(int argc, const char **argv);
int cmd_prebuild(int argc, const char **argv);
int cmd_operators(int argc, const char **argv);
int cmd_version(int argc, const char **argv);
int cmd_help(int argc, const char **argv);
int cmd_completion(int argc, const char **argv);
void commands_list(FILE *out); /* `limber help` */

struct poptContext_s;
struct poptOption;
/* Opens a command's options, and reads them; help follows its name in --help.  False after a
 * message. */
struct poptContext_s *options_open(int argc, const char **argv, const struct poptOption *table);
bool options_read(struct poptContext_s *o, const char *help);
/* Sets a hook, which NULL removes.  While it is set, options_open passes option tables to visit,
 * and options_read returns false without a message, so that no command does anything. */
void options_show(void (*visit)(void *user, const struct poptOption *table), void *user);
/* Prints "limber: ..." on stderr; returns 1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Destroys a context.  Where the interpreter computed unasked, a message says so once. */
void context_end(limber_context *ctx);
const char *origin_name(int from); /* limber_origin in a word */
double now(void); /* seconds */
void cpu_name(char *name, size_t size);

/* random.c: the next 64 random bits; the next deviate of N(0,1).  state begins as a seed. */
uint64_t random_bits(uint64_t *state);
double random_normal(uint64_t *state);

limber_format format_of(const char *name); /* the format with this name, which must exist */

/* ---- reading and writing files --------------------------------------------------------------- */

enum { MOST_AXES = 5 };

/* Dense and row-major: element (i0, .., i3) with the last index fastest. */
struct array {
    void *data;
    limber_format format;
    bool pairs; /* complex: an element is two numbers of the format */
    bool images; /* read from an IDX file, which has no axis of channels */
    int rank;
    int64_t dim[MOST_AXES];
};
int64_t array_step(const struct array *a); /* bytes of an element */
int64_t array_size(const struct array *a); /* elements */
int64_t array_numbers(const struct array *a); /* a complex element counts as two */
void array_clear(struct array *a);
/* Allocates the array's elements.  False after a message: no memory. */
bool array_alloc(struct array *a, const char *path);
/* Counts the array's elements.  False after a message: they need more than `most` bytes. */
bool array_claims(const struct array *a, const char *path, int64_t most, int64_t *count);
/* Whether path is NULL or ends in .svg, or also in .png; false after a message. */
bool picture_named(const char *path, const char *option, bool png);
/* Flattens all axes but the first into one. */
void array_as_rows(struct array *a);
bool ends(const char *s, const char *end);
int64_t memory_here(void); /* this machine's memory in bytes */
/* Resolves a file's name relative to the folder of this executable. path has PATH_MAX bytes.  False
 * if no such file can be read. */
bool file_beside(const char *name, char *path);

/* Reads .npy, .npz ("FILE.npz:NAME" of several), Matrix Market or IDX (also gzipped), by content,
 * and CSV; "-" is standard input.  wide: decimal text is read as binary128.  False after a message
 * that names the file; *a is empty then. */
bool array_read(const char *path, bool wide, struct array *a);
/* Writes .npy, .npz, .mtx or .csv, by the name's extension; "-" and "mtx:-", "csv:-", "npz:-" write
 * to standard output. array_writable: whether the name selects a format; false after a message. */
bool array_writable(const char *path);
bool is_pipe(const char *path); /* whether the name means standard output */
bool array_write(const char *path, const struct array *a);

/* A file being written: output.h with messages.  Every file that the user names is written this
 * way, also "-". */
struct draft {
    FILE *f;
    const char *path;
    struct output output;
};
bool draft_open(struct draft *d, const char *path);
bool draft_close(struct draft *d, bool ok);
/* If path means standard output, sends messages to stderr from now on, so that only the result is
 * on stdout.  path may be NULL. */
void tell_beside(const char *path);
/* All of a text file, or of standard input for "-", for free(); NULL after a message. */
char *text_read(const char *path);

bool npy_read(FILE *f, const char *path, struct array *a);
bool npy_write(FILE *f, const char *path, const struct array *a);
bool mtx_read(FILE *f, const char *path, bool wide, struct array *a);
bool mtx_write(FILE *f, const char *path, const struct array *a);
bool idx_read(FILE *f, const char *path, struct array *a);
bool csv_read(FILE *f, const char *path, bool wide, struct array *a);
bool csv_write(FILE *f, const char *path, const struct array *a);
/* name: NULL where the archive has one array. */
bool npz_read(FILE *f, const char *path, const char *name, struct array *a);
bool npz_write(FILE *f, const char *path, const struct array *a);
int64_t bytes_left(FILE *f); /* up to the end of the file; -1: unknown */

/* Converts decimal text to one element, rounded once to nearest-even. */
bool parse_number(const char *text, limber_format f, void *out);
/* Writes one element with so many digits that it reads back the same. */
bool write_number(FILE *f, limber_format fmt, const void *p);

/* Makes an SVG or PNG file by gnuplot; script writes its commands.  `what` begins messages.
 * *absent: gnuplot is not installed.  False after a message. */
bool gnuplot(const char *path, const char *what, void (*script)(FILE *f, const void *user),
             const void *user, bool *absent);

/* words.c: reads native, correct, exact, fast or bits=N; false: none of them. */
bool contract_of(const char *words, limber_contract *k);
const char *contract_about(const limber_contract *k); /* a sentence */

/* ---- options of a product -------------------------------------------------------------------- */

enum { MOST_INPUTS = 8 }; /* inputs of an epilogue */

/* A product as the command line states it. */
struct product {
    char *out, *as, *contract, *scheme, *alpha, *beta, *c0, *backend; /* owned */
    char *stride, *pad, *dilate, *layout, *lpgemm, *layer, *split, *svg, *name[2];
    char *backward, *size; /* options of a convolution */
    char *epilogue, **inputs;
    int nan_to_zero;
    int slices, threads, trans_a, trans_b, conj_a, conj_b, check, json, time, groups, count, run,
        ir;
    /* filled by product_read */
    limber_contract promise;
    limber_unit unit; /* what promise.unit points to */
    limber_statistics statistics; /* what promise.statistics points to, with --statistics */
    bool unquantised; /* --layer is not listed: native f32 */
    struct array a, b, c;
    limber_conv conv;
    limber_operation operation; /* forward, or which gradient of a convolution */
    char alpha_value[32], beta_value[32];
    bool is_conv;
    limber_epilogue finish; /* with --epilogue */
    limber_epilogue_input input[MOST_INPUTS];
    struct array input_data[MOST_INPUTS];
    char *steps; /* the text of --epilogue */
};
/* Reads options and files.  plans: the options of `limber plan` too.  0: there is work to do; else
 * the exit status + 1. */
int product_read(int argc, const char **argv, bool is_conv, bool plans, struct product *p);
/* Sizes of the result, and, where asked for, the number of products in each sum. */
void product_shape_text(const struct product *p, bool inner, char *s, size_t size);
/* Sizes of a convolution's tensor as images, channels, planes, rows, columns. */
void product_axes(const struct product *p, const struct array *a, int64_t dim[MOST_AXES]);
/* Two steps of product_read: read the convolution's geometry; read the files (NULL: a and b are
 * filled) and check all shapes.  False after a message. */
bool product_geometry(struct product *p);
bool product_open(struct product *p, const char *const *files);
void product_clear(struct product *p);
/* --epilogue and --input, once the result's shape is known.  False after a message. */
bool epilogue_open(struct product *p);
void epilogue_clear(struct product *p);
void epilogue_print(const struct product *p); /* its lines, if there are any */
limber_status product_context(const struct product *p, limber_context **ctx);
limber_status product_run(const struct product *p, limber_context *ctx, limber_report *r);
limber_status product_plan(const struct product *p, limber_context *ctx, char **text,
                           limber_report *r);
/* Plans the product under the native contract and keeps only the report. */
limber_status product_native(const struct product *p, limber_context *ctx, limber_report *r);
limber_status product_workspace(const struct product *p, limber_context *ctx, size_t *least,
                                size_t *best);
limber_status product_inspect(const struct product *p, limber_context *ctx,
                              limber_inspection inspection[2]);
limber_status product_cut(const struct product *p, limber_context *ctx, limber_cut *cut,
                          limber_report *r);
const void *product_alpha(const struct product *p);
const void *product_beta(const struct product *p);

/* ---- runs of a product: cmd_gemm.c ----------------------------------------------------------- */

/* How a result compares with the exact one. */
struct verdict {
    double ulp, relative; /* largest error */
    int64_t checked, elements;
};
struct measured {
    limber_report cold, warm;
    limber_part part[2][LIMBER_PARTS]; /* parts of the cold and of the warm run */
    double seconds_cold, seconds_warm;
    bool timed; /* there was a second run */
    struct verdict v; /* with p->check */
    bool modelled; /* with p->check: a GPU instruction computed instead of the unit's model */
    int64_t differ; /* elements that differ from those of the unit's model */
};
/* Runs the product, twice where the options ask for times, and checks it.  False after a
 * message. */
bool product_measure(struct product *p, limber_context *ctx, struct measured *o);
struct cJSON;
/* Print lines about a product: its number of limb products, the error bound after a label, and the
 * errors that --check measured.  verdict_json adds those errors, or nulls without --check. */
void scheme_print(const limber_report *r); /* within a line: "ozaki2 on cuda" */
void products_print(const limber_report *r);
void bound_print(const char *label, double bound);
void verdict_print(const struct verdict *v);
void verdict_json(struct cJSON *j, const struct product *p, const struct verdict *v);

/* ---- inspection of operands, parts of a product ---------------------------------------------- */

/* inspection.c: a cell summarises some tiles of an operand, in the matrix's own orientation: A's
 * lines go down, B's across. */
struct cell {
    bool zero, special;
    int emax, bits;
};
struct grid {
    int64_t down, across, dy, dx;
}; /* numbers of cells, and of tiles in one */
struct grid inspection_grid(const limber_inspection *l, int side, int64_t high, int64_t wide);
struct cell inspection_cell(const limber_inspection *l, int side, const struct grid *g, int64_t y,
                            int64_t x);
/* The range of emax over all tiles of both; zeros and false when they hold no finite nonzero. */
bool inspection_range(const limber_inspection inspection[2], int *least, int *most);
void inspection_print(const struct product *p, const limber_inspection inspection[2]);
struct cJSON *inspection_json(const limber_inspection inspection[2]);

/* parts.c: the parts of a mixed product.  measured: it has run. */
void parts_print(const limber_report *r);
struct cJSON *parts_json(const limber_report *r, bool measured);
/* A report with room for all parts. */
limber_report parts_report(limber_part part[LIMBER_PARTS]);
/* Adds the groups of blocks, and the predicted time of a single plan. */
void cut_json(struct cJSON *j, const limber_cut *cut);

/* plan_svg.c: draws operands and parts.  r is the report of a plan or of a run.  False after a
 * message. */
bool plan_svg_write(const char *path, const struct product *p,
                    const limber_inspection inspection[2], const limber_cut *cut,
                    const limber_report *r);

/* ---- simulated units ------------------------------------------------------------------------- */

enum { UNIT_TEXT = 512 }; /* bytes for a unit's canonical text */

/* Sets the promise from "--contract simulate=words", from --lpgemm and --layer, and --statistics.
 * False after a message. */
bool unit_of_words(struct product *p, const char *words);
bool unit_of_lpgemm(struct product *p);
bool unit_counts(struct product *p);
void statistics_print(const limber_unit *u, const limber_statistics *s);
struct cJSON *statistics_json(const limber_statistics *s);
/* Adds x, or null when it is not finite. */
void json_number(struct cJSON *j, const char *name, double x);
/* Prints j and deletes it; false after a message. */
bool json_print(struct cJSON *j);

/* ---- the command check ----------------------------------------------------------------------- */

/* Compares p->c with the exact result by MPFR; before is C as it was (beta). */
struct verdict check_product(const struct product *p, const void *before);
/* Compares a plain product of dense row-major matrices with the exact result by MPFR. */
struct verdict check_gemm(int64_t m, int64_t n, int64_t k, limber_format fa, const void *a,
                          limber_format fb, const void *b, limber_format fc, const void *c);

#endif
