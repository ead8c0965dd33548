/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the subcommands of `limber` share. */
#ifndef LIMBER_CLI_H
#define LIMBER_CLI_H

#include <limber/ops.h>

#include "tools/output.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Words that --backend accepts. */
#define BACKENDS "auto, interp, llvm or cuda"

/* The subcommands.  argv[0] is "limber NAME".  They return the exit status: 0: success; 1: failure;
 * 2: wrong usage. */
int cmd_gemm(int argc, const char **argv);
int cmd_conv(int argc, const char **argv);
int cmd_plan(int argc, const char **argv);
int cmd_execute(int argc, const char **argv);
int cmd_cache(int argc, const char **argv);
int cmd_formats(int argc, const char **argv);
int cmd_bench(int argc, const char **argv);
int cmd_gpu(int argc, const char **argv);
int cmd_tune(int argc, const char **argv);
int cmd_demo(int argc, const char **argv);
int cmd_units(int argc, const char **argv);
int cmd_explore(int argc, const char **argv);
int cmd_reveal(int argc, const char **argv);
int cmd_reproduce(int argc, const char **argv);
int cmd_report(int argc, const char **argv);
int cmd_prebuild(int argc, const char **argv);
int cmd_operators(int argc, const char **argv);
int cmd_version(int argc, const char **argv);
int cmd_help(int argc, const char **argv);
int cmd_completion(int argc, const char **argv);
void commands_list(FILE *out); /* prints the list of `limber help` */

struct poptContext_s;
struct poptOption;
/* options_open prepares a command's options; options_read reads them.  help: text that follows the
 * command's name in --help.  On failure options_read prints a message and returns false. */
struct poptContext_s *options_open(int argc, const char **argv, const struct poptOption *table);
bool options_read(struct poptContext_s *o, const char *help);
/* Sets a function, or with NULL none, to which options_open passes option tables.  While it is set,
 * options_read returns false without a message, so that commands do nothing. */
void options_set_visitor(void (*visit)(void *user, const struct poptOption *table), void *user);
/* Prints "limber: ..." on stderr; returns 1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Destroys a context.  Prints once if the interpreter computed although no option asked for it. */
void context_end(limber_context *ctx);
const char *origin_name(int from); /* a limber_origin as a word */
double now(void); /* time in seconds */
void cpu_name(char *name, size_t size);

/* random.c: the next 64 random bits, and the next number of a standard normal distribution.  *state
 * is a seed at first. */
uint64_t random_bits(uint64_t *state);
double random_normal(uint64_t *state);

limber_format format_of(const char *name); /* the format of this name, which must exist */

/* ---- reading and writing files --------------------------------------------------------------- */

enum { MOST_AXES = 5 };

/* An array, contiguous and row-major: the last index varies fastest. */
struct array {
    void *data;
    limber_format format;
    bool pairs; /* elements are complex, two numbers of the format */
    bool unnamed; /* read from a file that gives the size of elements, but not their type */
    bool images; /* read from an IDX file, which has no axis for channels */
    int rank;
    int64_t dim[MOST_AXES];
};
int64_t array_step(const struct array *a); /* bytes of an element */
int64_t array_size(const struct array *a); /* number of elements */
/* number of elements, or for complex ones twice that */
int64_t array_numbers(const struct array *a);
void array_clear(struct array *a);
/* Allocates the array's elements.  If memory is exhausted, prints a message and returns false. */
bool array_alloc(struct array *a, const char *path);
/* Counts the array's elements.  If they take more than `most` bytes, prints a message and returns
 * false. */
bool array_check_size(const struct array *a, const char *path, int64_t most, int64_t *count);
/* True if path is NULL or ends in .svg or, with `png`, in .png.  Else prints a message and returns
 * false. */
bool check_picture_name(const char *path, const char *option, bool png);
/* Merges all axes except the first. */
void array_as_rows(struct array *a);
/* True if s ends with `end`. */
bool ends(const char *s, const char *end);
int64_t memory_here(void); /* bytes of this machine's memory */
/* Resolves a file name relative to the folder of this program.  `path` has room for PATH_MAX bytes.
 * Returns false if the file cannot be read. */
bool file_beside(const char *name, char *path);
/* Finds a program of examples/, as installed or in a checkout around the build folder, and writes
 * its path as file_beside does.  Also sets LIMBER_LIBRARY, so that a Python program finds the
 * library of this build. */
bool example_beside(const char *name, char *path);
/* Returns the first Python that has PyTorch and NumPy, else the first that has NumPy, of those of
 * PATH and of the system; "python3" if none has.  Lets it find the package limber, unless
 * PYTHONPATH is set. */
const char *python_for_examples(void);

/* Reads an array, of a format that its content tells: .npy, .npz ("FILE.npz:NAME" if it has
 * several), Matrix Market, IDX (also gzipped) or CSV; "-" is standard input.  wide: decimal text
 * becomes binary128.  On failure prints a message and returns false; *a is then empty. */
bool array_read(const char *path, bool wide, struct array *a);
/* Reads an array like array_read, but also from files that give only the size of the elements, not
 * their type; a->unnamed is then true. */
bool array_read_unnamed(const char *path, bool wide, struct array *a);
/* Writes an array as .npy, .npz, .mtx or .csv, which the file name's extension tells; "-", "mtx:-",
 * "csv:-" and "npz:-" are standard output.  array_writable: if the name tells no format, prints a
 * message and returns false. */
bool array_writable(const char *path);
bool is_pipe(const char *path); /* true if the name means standard output */
bool array_write(const char *path, const struct array *a);

/* A file that is being written by output.h, with messages.  All files that the user names, also
 * "-", are written in this way. */
struct draft {
    FILE *f;
    const char *path;
    struct output output;
};
bool draft_open(struct draft *d, const char *path);
bool draft_close(struct draft *d, bool ok);
/* If path means standard output, sends further messages to stderr, so that stdout has only the
 * result.  path may be NULL. */
void send_messages_to_stderr(const char *path);
/* Returns all of a text file, or of standard input for "-"; the caller frees it.  On failure prints
 * a message and returns NULL. */
char *text_read(const char *path);

bool npy_read(FILE *f, const char *path, struct array *a);
bool npy_write(FILE *f, const char *path, const struct array *a);
bool mtx_read(FILE *f, const char *path, bool wide, struct array *a);
bool mtx_write(FILE *f, const char *path, const struct array *a);
bool idx_read(FILE *f, const char *path, struct array *a);
bool csv_read(FILE *f, const char *path, bool wide, struct array *a);
bool csv_write(FILE *f, const char *path, const struct array *a);
/* name: name of the array in the archive; NULL if the archive has only one array. */
bool npz_read(FILE *f, const char *path, const char *name, struct array *a);
bool npz_write(FILE *f, const char *path, const struct array *a);
int64_t bytes_left(FILE *f); /* bytes up to the end of the file; -1 if unknown */

/* Converts decimal text to one element, rounded once to nearest even.  Returns false if the text is
 * no number. */
bool parse_number(const char *text, limber_format f, void *out);
/* Writes one element with enough digits to be read back without change. */
bool write_number(FILE *f, limber_format fmt, const void *p);

/* Waits until a child process ends.  Returns its exit status, -1 if a signal has ended it. */
int child_status(pid_t child);
/* Returns true if gnuplot is installed.  If not, prints a message. */
bool gnuplot_is_here(void);
/* Writes gnuplot's commands for colours of lines, for a grid and filled boxes: the style of all
 * pictures.  gnuplot() gives an SVG a dark scheme beside these colours. */
void gnuplot_style(FILE *f);
/* Makes an SVG or PNG file by gnuplot, to which `script` writes commands.  On failure prints a
 * message that begins with `what`, and returns false. */
bool gnuplot(const char *path, const char *what, void (*script)(FILE *f, const void *user),
             const void *user);

/* words.c: reads native, reproducible, correct, exact, fast or bits=N.  Returns false if the text
 * is none of these. */
bool contract_of(const char *words, limber_contract *k);
const char *contract_about(const limber_contract *k); /* a sentence that explains the contract */

/* ---- options of a product -------------------------------------------------------------------- */

enum { MOST_INPUTS = 8 }; /* most inputs of an epilogue */

/* Options that say where and how results are written.  Strings are owned. */
struct product_output {
    char *out, *as, *svg, *target;
    int json, time, ir, check, source;
};

/* Options of a convolution; owned. */
struct conv_options {
    char *stride, *pad, *dilate, *layout, *backward, *size;
    int groups;
};

/* alpha and beta: as options (owned), and as numbers */
struct product_scalars {
    char *alpha, *beta;
    char alpha_value[32], beta_value[32];
};

/* Which operands of a product are transposed, or conjugated. */
struct product_turns {
    int trans_a, trans_b, conj_a, conj_b;
};

/* The options --epilogue and --input as texts (owned), and what was read from them. */
struct product_steps {
    char *epilogue, **inputs;
    int nan_to_zero;
    limber_epilogue finish; /* set with --epilogue */
    limber_epilogue_input input[MOST_INPUTS];
    struct array input_data[MOST_INPUTS];
    char *steps; /* the text of --epilogue; owned */
};

/* A product that the command line describes. */
struct cli_product {
    char *contract, *scheme, *c0, *backend; /* values of options; owned */
    char *lpgemm, *layer, *split, *name[2], *format[2];
    char *plan; /* owned; the text of a plan that computes the product; or NULL */
    int slices, threads, count, run;
    struct product_output output;
    struct conv_options shape;
    struct product_scalars scalars;
    struct product_turns turns;
    struct product_steps end;
    /* product_read sets the fields from here on and, in the structures above, those fields that
     * are no options but follow from options. */
    limber_contract promise;
    limber_unit unit; /* promise.unit points to it */
    limber_statistics statistics; /* promise.statistics points to it, with --statistics */
    /* true if --layer is not among the layers that --lpgemm's configuration quantises, so the
     * product is native f32 */
    bool unquantised;
    struct array a, b, c;
    limber_conv conv;
    limber_operation operation; /* the forward convolution, or the pass that computes a gradient */
    bool is_conv;
};
/* Reads options and files.  plans: accepts the options of `limber plan`, too.  Returns 0 if there
 * is work to do, else the exit status + 1. */
int product_read(int argc, const char **argv, bool is_conv, bool plans, struct cli_product *p);
/* Writes the sizes of the result as text and, with `inner`, the number of products in each sum. */
void product_shape_text(const struct cli_product *p, bool inner, char *s, size_t size);
/* Sizes of a convolution's tensor: images, channels, depth, rows, columns. */
void product_axes(const struct cli_product *p, const struct array *a, int64_t dim[MOST_AXES]);
/* The two steps of product_read. product_geometry: reads a convolution's sizes. product_open: reads
 * the files (NULL if a and b are filled already), and checks all shapes.  On failure they print a
 * message and return false. */
bool product_geometry(struct cli_product *p);
bool product_open(struct cli_product *p, const char *const *files);
void product_clear(struct cli_product *p);
/* Reads --epilogue and --input, when the shape of the result is known.  On failure prints a message
 * and returns false. */
bool epilogue_open(struct cli_product *p);
void epilogue_clear(struct cli_product *p);
void epilogue_print(const struct cli_product *p); /* prints lines about the epilogue, if any */
/* Computes the product, writes the result's file, and prints errors and times.  Returns the exit
 * status.  In cmd_gemm.c. */
int product_compute(struct cli_product *p);
/* Calls of the library with the product's options. */
limber_status product_context(const struct cli_product *p, limber_context **ctx);
limber_status product_run(const struct cli_product *p, limber_context *ctx, limber_report *r);
limber_status product_plan(const struct cli_product *p, limber_context *ctx, char **text,
                           limber_report *r);
/* Plans the product under `native`, and keeps only the report. */
limber_status product_native(const struct cli_product *p, limber_context *ctx, limber_report *r);
limber_status product_workspace(const struct cli_product *p, limber_context *ctx, size_t *least,
                                size_t *best);
limber_status product_inspect(const struct cli_product *p, limber_context *ctx,
                              limber_inspection inspection[2]);
limber_status product_cut(const struct cli_product *p, limber_context *ctx, limber_cut *cut,
                          limber_report *r);
const void *product_alpha(const struct cli_product *p);
const void *product_beta(const struct cli_product *p);

/* ---- runs of a product: cmd_gemm.c ----------------------------------------------------------- */

/* The errors of a result, compared with the exact result. */
struct verdict {
    double ulp, relative; /* largest error: in units in the last place; relative to |A||B| */
    int64_t checked, elements;
};
/* The results of a run of the product. */
struct measured {
    limber_report cold, warm;
    /* [0: first run, 1: second run]: storage for the parts of the reports */
    limber_part part[2][LIMBER_PARTS];
    double seconds_cold, seconds_warm;
    bool timed; /* true if there was a second run, which is timed */
    struct verdict v; /* set with p->check */
    /* true if a GPU instruction computed the product and the result was compared with the unit's
     * model (only with p->check) */
    bool modelled;
    int64_t differ; /* number of elements that differ from those of the unit's model */
};
/* Runs and checks the product.  With --time, --json, --check or --run, runs it a second time,
 * without compiling.  On failure prints a message and returns false. */
bool product_measure(struct cli_product *p, limber_context *ctx, struct measured *o);
struct cJSON;
/* Print lines about a product: its number of limb products; the error bound, after a label; the
 * errors that --check measured. verdict_json adds these errors to the JSON, or nulls without
 * --check. */
void scheme_print(const limber_report *r); /* part of a line: "ozaki2 on cuda" */
void products_print(const limber_report *r);
void bound_print(const char *label, double bound);
void verdict_print(const struct verdict *v);
void verdict_json(struct cJSON *j, const struct cli_product *p, const struct verdict *v);

/* ---- inspection of operands, parts of a product ---------------------------------------------- */

/* inspection.c: a cell summarises some tiles of an operand.  Cells are arranged as in the matrix: a
 * row of cells has lines of A; a column of cells has lines of B. */
struct cell {
    bool zero, special;
    int emax, bits;
};
struct grid {
    int64_t down, across, dy, dx;
}; /* number of cells in each direction; number of tiles in a cell */
struct grid inspection_grid(const limber_inspection *l, int side, int64_t high, int64_t wide);
struct cell inspection_cell(const limber_inspection *l, int side, const struct grid *g, int64_t y,
                            int64_t x);
/* Finds the range of emax over all tiles of both operands.  If no tile has a finite nonzero
 * element, stores zeros and returns false. */
bool inspection_range(const limber_inspection inspection[2], int *least, int *most);
void inspection_print(const struct cli_product *p, const limber_inspection inspection[2]);
struct cJSON *inspection_json(const limber_inspection inspection[2]);

/* parts.c: the parts of a mixed product (docs/mixed.md).  measured: the product has run. */
void parts_print(const limber_report *r);
struct cJSON *parts_json(const limber_report *r, bool measured);
/* A report with storage for all parts. */
limber_report parts_report(limber_part part[LIMBER_PARTS]);
/* Adds how a product is divided into parts (the groups of blocks of A and B, the predicted time
 * without parts) to a JSON object. */
void cut_json(struct cJSON *j, const limber_cut *cut);

/* plan_svg.c: draws operands and parts.  r: report of a plan or of a run.  On failure prints a
 * message and returns false. */
bool plan_svg_write(const char *path, const struct cli_product *p,
                    const limber_inspection inspection[2], const limber_cut *cut,
                    const limber_report *r);

/* ---- simulated units ------------------------------------------------------------------------- */

enum { UNIT_TEXT = 512 }; /* bytes for the canonical text of a unit */

/* Sets the contract from the unit in "--contract simulate=words".  On failure prints a message and
 * returns false. */
bool unit_of_words(struct cli_product *p, const char *words);
/* Sets the contract from --lpgemm and --layer.  On failure prints a message and returns false. */
bool unit_of_lpgemm(struct cli_product *p);
/* If --statistics is given, lets the simulated unit count statistics.  On failure prints a message
 * and returns false. */
bool unit_counts(struct cli_product *p);
void statistics_print(const limber_unit *u, const limber_statistics *s);
struct cJSON *statistics_json(const limber_statistics *s);
/* Adds the number x, or null if it is not finite. */
void json_number(struct cJSON *j, const char *name, double x);
/* Prints j and deletes it.  On failure prints a message and returns false. */
bool json_print(struct cJSON *j);

/* ---- the command check ----------------------------------------------------------------------- */

/* Compares p->c with the exact result, computed by MPFR.  before: C before the product, which beta
 * multiplies. */
struct verdict check_product(const struct cli_product *p, const void *before);
/* Compares a product of contiguous row-major matrices with the exact result, computed by MPFR. */
struct verdict check_gemm(int64_t m, int64_t n, int64_t k, limber_format fa, const void *a,
                          limber_format fb, const void *b, limber_format fc, const void *c);

#endif
