/* SPDX-License-Identifier: BSD-3-Clause
 * The options that gemm, conv and plan share, and the calls of the library that they make. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"

#include <errno.h>
#include <popt.h>
#include <stdlib.h>
#include <string.h>

/* Reads the option --split.  On failure prints a message and returns false. */
static bool parse_split(struct cli_product *p)
{
    if (!p->split)
        return true;
    p->promise.split = strcmp(p->split, "inside") == 0 ? LIMBER_SPLIT_INSIDE : LIMBER_SPLIT_AHEAD;
    if (p->promise.split == LIMBER_SPLIT_INSIDE || strcmp(p->split, "ahead") == 0)
        return true;
    complain("--split: \"%s\" is neither ahead nor inside", p->split);
    return false;
}

/* Sets the contract from the options --contract, --scheme, --slices, --split and --lpgemm.  On
 * failure prints a message and returns false. */
static bool parse_contract(struct cli_product *p)
{
    const char *s = p->contract ? p->contract : p->slices ? "fast" : "native";

    p->promise.scheme = p->scheme;
    p->promise.slices = p->slices;
    if (!parse_split(p))
        return false;
    if (p->scheme && !strchr(p->scheme, '+') && !word_find(word_kind_named("scheme"), p->scheme))
        return complain("--scheme: no scheme is called \"%s\"%s", p->scheme,
                        words_near(word_kind_named("scheme"), p->scheme)),
               false;
    if (p->lpgemm || p->layer)
        return unit_of_lpgemm(p);
    if (strncmp(s, "simulate=", 9) == 0)
        return unit_of_words(p, s + 9);
    if (contract_of(s, &p->promise)) {
        if (p->promise.modulus && p->output.check)
            complain("--check compares with the exact product, not with residues modulo a number");
        else if (p->promise.rounding && p->output.check)
            complain("--check compares with the exact product, rounded to nearest");
        else
            return true;
        return false;
    }
    complain("--contract: \"%s\" is none of native, reproducible, correct, correct,round=MODE, "
             "bits=1..160, exact, mod=N (2..2^63-1), fast, simulate=UNIT%s",
             s,
             word_find(word_kind_named("contract"), s) ?
                 "" :
                 words_near(word_kind_named("contract"), s));
    return false;
}

/* Parses a list of `count` numbers, such as "a,b".  A single number stands for all.  On failure
 * prints a message and returns false. */
static bool parse_list(const char *name, const char *s, int64_t *v, int count)
{
    char *end;
    int n = 0;

    if (!s)
        return true;
    for (;; s = end + 1) {
        errno = 0;
        v[n++] = strtoll(s, &end, 10);
        if (errno == ERANGE)
            return complain("--%s: %.*s does not fit 64 bits", name, (int)(end - s), s), false;
        if (end == s || errno || n > count || (*end && *end != ','))
            break;
        if (*end == 0) {
            for (int i = n; n == 1 && i < count; i++)
                v[i] = v[0];
            if (n == 1 || n == count)
                return true;
            break;
        }
        if (n == count)
            break;
    }
    complain("--%s: expected 1 or %d numbers with commas", name, count);
    return false;
}

/* Copies the options that describe a convolution.  Lists are parsed later, when the number of
 * spatial axes is known. */
bool product_geometry(struct cli_product *p)
{
    const struct {
        const char *name, *text;
    } lists[] = { { "stride", p->shape.stride },
                  { "dilate", p->shape.dilate },
                  { "pad", p->shape.pad } };
    limber_conv *s = &p->conv;

    s->groups = p->shape.groups;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].text && strspn(lists[i].text, "-0123456789,") != strlen(lists[i].text))
            return complain("--%s: expected numbers with commas", lists[i].name), false;
    if (p->shape.layout && strcmp(p->shape.layout, "nchw") && strcmp(p->shape.layout, "nhwc"))
        return complain("--layout: \"%s\" is neither nchw nor nhwc", p->shape.layout), false;
    if (p->shape.backward && strcmp(p->shape.backward, "data") &&
        strcmp(p->shape.backward, "filter"))
        return complain("--backward: \"%s\" is neither data nor filter", p->shape.backward), false;
    p->operation = !p->shape.backward                     ? LIMBER_OPERATION_CONV_FORWARD :
                   strcmp(p->shape.backward, "data") == 0 ? LIMBER_OPERATION_CONV_BACKWARD_DATA :
                                                            LIMBER_OPERATION_CONV_BACKWARD_FILTER;
    s->layout = p->shape.layout && strcmp(p->shape.layout, "nhwc") == 0 ? LIMBER_LAYOUT_NHWC :
                                                                          LIMBER_LAYOUT_NCHW;
    return true;
}

/* Parses stride, dilation and pads for `sides` spatial axes, of which rows and columns are the last
 * two. */
static bool parse_steps(struct cli_product *p, int sides)
{
    limber_conv *s = &p->conv;
    int64_t stride[3] = { 1, 1, 1 }, dilate[3] = { 1, 1, 1 }, pad[6] = { 0 };

    if (!parse_list("stride", p->shape.stride, stride + 3 - sides, sides) ||
        !parse_list("dilate", p->shape.dilate, dilate + 3 - sides, sides) ||
        !parse_list("pad", p->shape.pad, pad + 6 - 2 * sides, 2 * sides))
        return false;
    memcpy(s->stride, stride + 1, sizeof s->stride);
    memcpy(s->dilate, dilate + 1, sizeof s->dilate);
    memcpy(s->pad, pad + 2, sizeof s->pad);
    if (sides == 3) {
        s->depth_stride = stride[0];
        s->depth_dilate = dilate[0];
        memcpy(s->depth_pad, pad, sizeof s->depth_pad);
    }
    return (sides < 3 || (stride[0] > 0 && dilate[0] > 0)) ||
           (complain("--stride and --dilate are at least 1"), false);
}

static bool is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT || f.kind == LIMBER_KIND_SHORT;
}

static bool is_real(limber_format f)
{
    return !is_integer(f) && f.kind != LIMBER_KIND_DD;
}

/* Chooses the format of the result: --as, else i64 for integers, else the larger of the operands'
 * formats.  The result of a simulated unit has the accumulator's format if that is an integer or
 * has 8 bytes, else f32. */
static bool choose_result_format(struct cli_product *p, limber_format *f)
{
    limber_format a = p->a.format, b = p->b.format;
    bool ints = is_integer(a) && is_integer(b);

    if (p->output.as) {
        if (limber_format_named(p->output.as, f) != LIMBER_STATUS_OK ||
            f->kind == LIMBER_KIND_EXACT)
            return complain("--as: no format is called \"%s\" (see limber formats)%s", p->output.as,
                            words_near(word_kind_named("format"), p->output.as)),
                   false;
        return true;
    }
    if (p->unquantised)
        *f = format_of("f32");
    else if (p->promise.unit)
        *f = p->unit.acc.format.size == 8 || p->unit.acc.format.kind == LIMBER_KIND_INT ?
                 p->unit.acc.format :
                 format_of("f32");
    else if (ints)
        *f = format_of("i64");
    else
        *f = is_real(a) && (!is_real(b) || a.size >= b.size) ? a : b;
    return true;
}

/* Finds m, n and k from the operands' arrays. */
static bool find_gemm_shape(struct cli_product *p, const char *const *files)
{
    for (int i = 0; i < 2; i++) {
        struct array *v = i ? &p->b : &p->a;

        if (v->images)
            array_as_rows(v);
        if (v->rank == 1) { /* a vector is a row if it is A, and a column if it is B */
            v->rank = 2;
            v->dim[1] = i ? 1 : v->dim[0];
            v->dim[0] = i ? v->dim[0] : 1;
        }
        if (v->rank > 2)
            return complain("%s: a matrix has at most two dimensions", files[i]), false;
    }
    if (p->a.dim[!p->turns.trans_a] != p->b.dim[!!p->turns.trans_b])
        return complain("inner dimensions differ: %s has %lld, %s has %lld", files[0],
                        (long long)p->a.dim[!p->turns.trans_a], files[1],
                        (long long)p->b.dim[!!p->turns.trans_b]),
               false;
    p->c.rank = 2;
    p->c.dim[0] = p->a.dim[!!p->turns.trans_a];
    p->c.dim[1] = p->b.dim[!p->turns.trans_b];
    return true;
}

void product_axes(const struct cli_product *p, const struct array *a, int64_t dim[MOST_AXES])
{
    bool nchw = p->conv.layout == LIMBER_LAYOUT_NCHW;
    int sides = a->rank - 2;

    dim[0] = a->dim[0];
    dim[1] = a->dim[nchw ? 1 : a->rank - 1];
    for (int i = 0; i < 3; i++)
        dim[2 + i] = i < 3 - sides ? 1 : a->dim[(nchw ? 2 : 1) + i - (3 - sides)];
}

/* Finds the sizes of the result of a backward convolution: those of --size; else the smallest image
 * that gives an output of this size, or the largest window. */
static bool find_written_size(struct cli_product *p, int sides, const int64_t dy[MOST_AXES],
                              const int64_t other[MOST_AXES], int64_t size[3])
{
    const limber_conv *s = &p->conv;
    const int64_t stride[] = { s->depth_stride, s->stride[0], s->stride[1] };
    const int64_t dilate[] = { s->depth_dilate, s->dilate[0], s->dilate[1] };
    const int64_t pads[] = { s->depth_pad[0] + s->depth_pad[1], s->pad[0] + s->pad[1],
                             s->pad[2] + s->pad[3] };

    size[0] = size[1] = 1;
    for (int i = 3 - sides; i < 3; i++) {
        int64_t steps = (dy[2 + i] - 1) * stride[i];

        size[i] = p->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA ?
                      steps + dilate[i] * (other[2 + i] - 1) + 1 - pads[i] :
                      (other[2 + i] + pads[i] - 1 - steps) / dilate[i] + 1;
    }
    return parse_list("size", p->shape.size, size + 3 - sides, sides);
}

/* Checks that the axes of an array are those that the convolution needs.  If not, prints a message
 * and returns false. */
static bool has_axes(const char *file, const int64_t have[MOST_AXES], const int64_t want[MOST_AXES])
{
    for (int i = 0; i < MOST_AXES; i++)
        if (have[i] != want[i])
            return complain("%s: %lld x %lld x %lld x %lld x %lld (images, channels, planes, rows, "
                            "columns), but the convolution's result has %lld x %lld x %lld x %lld "
                            "x %lld",
                            file, (long long)have[0], (long long)have[1], (long long)have[2],
                            (long long)have[3], (long long)have[4], (long long)want[0],
                            (long long)want[1], (long long)want[2], (long long)want[3],
                            (long long)want[4]),
                   false;
    return true;
}

/* Sets the sizes of the result, in the files' layout. */
static void store_axes(struct cli_product *p, int rank, const int64_t y[MOST_AXES])
{
    bool nchw = p->conv.layout == LIMBER_LAYOUT_NCHW;

    p->c.rank = rank;
    p->c.dim[0] = y[0];
    p->c.dim[nchw ? 1 : rank - 1] = y[1];
    for (int i = 0; i < rank - 2; i++)
        p->c.dim[(nchw ? 2 : 1) + i] = y[MOST_AXES - (rank - 2) + i];
}

/* Gives the images of an IDX file an axis of one channel. */
static void add_channels(const struct cli_product *p, struct array *a)
{
    int at = p->conv.layout == LIMBER_LAYOUT_NCHW ? 1 : 3;

    if (!a->images || a->rank != 3)
        return;
    memmove(&a->dim[at + 1], &a->dim[at], (size_t)(3 - at) * sizeof *a->dim);
    a->dim[at] = 1;
    a->rank = 4;
}

/* Finds the sizes of a convolution from its two arrays and from options. */
static bool find_conv_shape(struct cli_product *p, const char *const *files)
{
    limber_conv *s = &p->conv;
    bool data = p->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA;
    bool filter = p->operation == LIMBER_OPERATION_CONV_BACKWARD_FILTER;
    int64_t a[MOST_AXES], b[MOST_AXES], y[MOST_AXES], size[3] = { 1, 1, 1 };
    int sides;

    if (p->a.pairs || p->b.pairs)
        return complain("%s: convolutions are of real numbers", files[!p->a.pairs]), false;
    add_channels(p, &p->a);
    add_channels(p, &p->b);
    sides = p->a.rank - 2;
    if (p->a.rank < 3 || p->b.rank != p->a.rank)
        return complain("%s: a convolution's tensors have three, four or five dimensions, both as "
                        "many",
                        p->a.rank < 3 ? files[0] : files[1]),
               false;
    if (!parse_steps(p, sides))
        return false;
    product_axes(p, &p->a, a);
    product_axes(p, &p->b, b);
    if ((data || filter) && !find_written_size(p, sides, data ? a : b, data ? b : a, size))
        return false;
    if (!data && !filter && p->shape.size)
        return complain("--size goes with --backward"), false;
    s->n = a[0];
    s->c = data ? b[1] * s->groups : a[1];
    s->h = data ? size[1] : a[3];
    s->w = data ? size[2] : a[4];
    s->o = filter ? b[1] : b[0];
    s->r = filter ? size[1] : b[3];
    s->s = filter ? size[2] : b[4];
    if (sides == 3) {
        s->d = data ? size[0] : a[2];
        s->t = filter ? size[0] : b[2];
    }
    if (s->groups < 1 || (!filter && b[1] * s->groups != s->c))
        return complain("%s: %lld channels a filter in %lld groups do not make the image's %lld",
                        files[1], (long long)b[1], (long long)s->groups, (long long)s->c),
               false;
    if (sides == 3 && s->t < 1)
        return complain("a window of %lld planes", (long long)s->t), false;
    y[0] = s->n;
    y[1] = s->o;
    if (limber_conv_output(s, &y[3], &y[4]) != LIMBER_STATUS_OK ||
        limber_conv_output_depth(s, &y[2]) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text()), false;
    if ((data && !has_axes(files[0], a, y)) || (filter && !has_axes(files[1], b, y)))
        return false;
    if (data)
        memcpy(y, (int64_t[]){ s->n, s->c, sides == 3 ? s->d : 1, s->h, s->w }, sizeof y);
    else if (filter)
        memcpy(y, (int64_t[]){ s->o, s->c / s->groups, sides == 3 ? s->t : 1, s->r, s->s },
               sizeof y);
    store_axes(p, p->a.rank, y);
    return true;
}

void product_shape_text(const struct cli_product *p, bool inner, char *s, size_t size)
{
    const limber_conv *c = &p->conv;
    int64_t sum = p->is_conv ? c->c / c->groups * (c->t ? c->t : 1) * c->r * c->s :
                               p->a.dim[!p->turns.trans_a];
    size_t used = (size_t)snprintf(s, size, "%lld", (long long)p->c.dim[0]);

    for (int i = 1; i < p->c.rank; i++)
        used += (size_t)snprintf(s + used, size - used, " x %lld", (long long)p->c.dim[i]);
    if (inner)
        snprintf(s + used, size - used, ", inner %lld", (long long)sum);
}

/* Parses alpha or beta; if the result is complex, "RE" or "RE,IM".  On failure prints a message and
 * returns false. */
static bool read_scalar(const struct cli_product *p, const char *name, const char *text, char *out)
{
    limber_format f = p->c.format;
    size_t size = is_integer(f) ? 8 : f.size;
    char re[1200];
    const char *im = text && p->c.pairs ? strchr(text, ',') : NULL;

    if (!text)
        return true;
    snprintf(re, sizeof re, "%.*s", im ? (int)(im - text) : (int)strlen(text), text);
    if (!p->c.pairs && strchr(text, ','))
        return complain("--%s: \"%s\" is complex, and the result is real", name, text), false;
    if (!parse_number(re, f, out) || (im && !parse_number(im + 1, f, out + size))) {
        complain("--%s: \"%s\" is no number of the result's format", name, text);
        return false;
    }
    if (im && p->output.check)
        return complain("--%s: --check takes a real one", name), false;
    return true;
}

/* Makes a real array complex, with imaginary parts 0. */
static bool to_complex(struct array *a, const char *what)
{
    struct array made = *a;
    size_t size = a->format.size;

    if (a->pairs)
        return true;
    made.pairs = true;
    if (!array_alloc(&made, what))
        return false;
    for (int64_t i = 0; i < array_size(a); i++)
        memcpy((char *)made.data + 2 * i * (int64_t)size, (char *)a->data + i * (int64_t)size,
               size);
    array_clear(a);
    *a = made;
    return true;
}

static bool same_domain(struct cli_product *p, const char *const *files)
{
    p->c.pairs = p->a.pairs || p->b.pairs;
    return !p->c.pairs || (to_complex(&p->a, files[0]) && to_complex(&p->b, files[1]));
}

/* Reads C0 from the file of --c into the result, in the result's format.  On failure prints a
 * message and returns false. */
static bool read_c0(struct cli_product *p)
{
    struct array c0 = { 0 };
    bool ok;

    if (!p->c0) {
        if (!p->scalars.beta)
            return true;
        complain("--beta needs --c");
        return false;
    }
    if (!p->scalars.beta)
        p->scalars.beta = strdup("1");
    ok = array_read(p->c0, p->c.format.size == 16, &c0);
    if (ok &&
        (c0.rank != p->c.rank || memcmp(c0.dim, p->c.dim, sizeof c0.dim[0] * (size_t)c0.rank)))
        ok = (complain("%s: its shape is not the result's", p->c0), false);
    if (ok && c0.pairs && !p->c.pairs)
        ok = (complain("%s: is complex, the result is real", p->c0), false);
    ok = ok && (!p->c.pairs || to_complex(&c0, p->c0));
    if (ok && limber_convert(p->c.data, p->c.format, c0.data, c0.format, (size_t)array_numbers(&c0),
                             LIMBER_ROUND_NEAREST) != LIMBER_STATUS_OK)
        ok = (complain("%s: %s", p->c0, limber_error_text()), false);
    array_clear(&c0);
    return ok;
}

/* Converts an array to binary32.  On failure prints a message and returns false. */
static bool to_single(struct array *a)
{
    struct array single = *a;
    bool ok;

    single.format = format_of("f32");
    if (limber_format_equal(a->format, single.format))
        return true;
    if (!array_alloc(&single, "operand"))
        return false;
    ok = limber_convert(single.data, single.format, a->data, a->format, (size_t)array_numbers(a),
                        LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK;
    if (!ok)
        complain("%s", limber_error_text());
    array_clear(ok ? a : &single);
    if (ok)
        *a = single;
    return ok;
}

/* Reads an operand, whose elements have the format of this name, or that of the file if it is NULL.
 * On failure prints a message and returns false. */
static bool read_operand(const char *path, bool wide, const char *format, struct array *a)
{
    limber_format f;

    if (!format)
        return array_read(path, wide, a);
    if (limber_format_named(format, &f) != LIMBER_STATUS_OK || f.kind == LIMBER_KIND_EXACT)
        return complain("--format-a, -b: no format is called \"%s\" (see limber formats)%s", format,
                        words_near(word_kind_named("format"), format)),
               false;
    if (!array_read_unnamed(path, wide, a))
        return false;
    if (f.size != a->format.size)
        return complain("--format-a, -b: %s has %d bytes, elements of %s have %d", format, f.size,
                        path, a->format.size),
               false;
    a->format = f;
    return true;
}

/* Reads the operands and scalars of a product and finds its shape and result format.  On failure
 * prints a message and returns false. files: NULL if the operands have sizes only. */
bool product_open(struct cli_product *p, const char *const *files)
{
    static const char *const none[] = { "A", "B" };
    limber_format f;
    bool wide =
        p->output.as && limber_format_named(p->output.as, &f) == LIMBER_STATUS_OK && f.size == 16;

    if (!files)
        files = none;
    else if (!read_operand(files[0], wide, p->format[0], &p->a) ||
             !read_operand(files[1], wide, p->format[1], &p->b))
        return false;
    return (!p->unquantised || (to_single(&p->a) && to_single(&p->b))) &&
           (p->is_conv ? find_conv_shape(p, files) : find_gemm_shape(p, files)) &&
           same_domain(p, files) && choose_result_format(p, &p->c.format) &&
           array_alloc(&p->c, "result") &&
           read_scalar(p, "alpha", p->scalars.alpha, p->scalars.alpha_value) && read_c0(p) &&
           read_scalar(p, "beta", p->scalars.beta, p->scalars.beta_value) && epilogue_open(p);
}

static bool keep_names(struct cli_product *p, const char *const *files)
{
    p->name[0] = strdup(files[0]);
    p->name[1] = strdup(files[1]);
    return p->name[0] && p->name[1];
}

/* Reads the options and files of `limber gemm`, `conv` and `plan`.  Returns 0 if there is work to
 * do, else the exit status + 1. */
int product_read(int argc, const char **argv, bool is_conv, bool plans, struct cli_product *p)
{
    /* of plan[], convolutions have only the options from this index (--ir) on */
    enum { PLAN_IR = 3 };
    struct poptOption run[] = {
        { NULL, 'o', POPT_ARG_STRING, &p->output.out, 0,
          "write the result (.npy, .npz, .mtx or .csv); \"-\": .npy to standard output, \"csv:-\" "
          "and "
          "\"mtx:-\": as text",
          "FILE" },
        { "check", 0, POPT_ARG_NONE, &p->output.check, 0, "compare with the exact result", NULL },
        { "time", 0, POPT_ARG_NONE, &p->output.time, 0, "run twice: cold and warm", NULL },
        POPT_TABLEEND
    };
    struct poptOption plan[] = {
        { "svg", 0, POPT_ARG_STRING, &p->output.svg, 0, "draw operands and parts", "FILE.svg" },
        { "run", 0, POPT_ARG_NONE, &p->run, 0, "run it too, and print its time", NULL },
        { "check", 0, POPT_ARG_NONE, &p->output.check, 0,
          "run it, and compare with the exact result", NULL },
        { "ir", 0, POPT_ARG_NONE, &p->output.ir, 0,
          "print the plan after every pass that changed it, and why each other scheme lost", NULL },
        { "source", 0, POPT_ARG_NONE, &p->output.source, 0, "print the kernel's C or CUDA C",
          NULL },
        { "target", 0, POPT_ARG_STRING, &p->output.target, 0,
          "with --source, for this machine: a name (sm_90a, avx2), or a text in a file",
          "FILE|NAME" },
        POPT_TABLEEND
    };
    struct poptOption conv[] = {
        { "stride", 0, POPT_ARG_STRING, &p->shape.stride, 0,
          "steps of the window: one, or one for each dimension", "A,B" },
        { "pad", 0, POPT_ARG_STRING, &p->shape.pad, 0,
          "zeros added: one number, or at top, bottom, left, right (of three dimensions front and "
          "back before them)",
          "T,B,L,R" },
        { "dilate", 0, POPT_ARG_STRING, &p->shape.dilate, 0,
          "steps between the filter's elements, as --stride", "A,B" },
        { "groups", 0, POPT_ARG_INT, &p->shape.groups, 0, "independent groups of channels", "N" },
        { "layout", 0, POPT_ARG_STRING, &p->shape.layout, 0, "order of axes (nchw)", "nchw|nhwc" },
        { "backward", 0, POPT_ARG_STRING, &p->shape.backward, 0,
          "data: X and the result are gradients of y and x; filter: W and the result are "
          "gradients of y and w",
          "data|filter" },
        { "size", 0, POPT_ARG_STRING, &p->shape.size, 0,
          "with --backward: rows and columns (planes before them) of the image, or of the filters",
          "H,W" },
        POPT_TABLEEND
    };
    struct poptOption gemm[] = {
        { "trans-a", 0, POPT_ARG_NONE, &p->turns.trans_a, 0, "use the transpose of A", NULL },
        { "trans-b", 0, POPT_ARG_NONE, &p->turns.trans_b, 0, "use the transpose of B", NULL },
        { "conj-a", 0, POPT_ARG_NONE, &p->turns.conj_a, 0, "conjugate a complex A", NULL },
        { "conj-b", 0, POPT_ARG_NONE, &p->turns.conj_b, 0, "conjugate a complex B", NULL },
        POPT_TABLEEND
    };
    struct poptOption table[] = {
        { "as", 0, POPT_ARG_STRING, &p->output.as, 0,
          "the result's format; default: the wider "
          "operand's, i64 for integers",
          "FORMAT" },
        { "format-a", 0, POPT_ARG_STRING, &p->format[0], 0,
          "what elements of the first file are, such as e4m3 or int4 where NumPy has no type",
          "FORMAT" },
        { "format-b", 0, POPT_ARG_STRING, &p->format[1], 0, "those of the second", "FORMAT" },
        { "contract", 0, POPT_ARG_STRING, &p->contract, 0,
          "native (default), reproducible, correct, correct,round=MODE (up, down, zero, away), "
          "bits=1..160, exact, mod=N, fast or \"simulate=UNIT\"",
          "CONTRACT" },
        { "lpgemm", 0, POPT_ARG_STRING, &p->lpgemm, 0,
          "simulate the unit of this LPGEMM configuration", "FILE" },
        { "layer", 0, POPT_ARG_STRING, &p->layer, 0, "the layer of --lpgemm", "NAME" },
        { "statistics", 0, POPT_ARG_NONE, &p->count, 0,
          "count what a simulated unit rounds and swamps", NULL },
        { "scheme", 0, POPT_ARG_STRING, &p->scheme, 0, "use this scheme", "SCHEME" },
        { "slices", 0, POPT_ARG_INT, &p->slices, 0,
          "slices of each operand (ozaki1-*), moduli (ozaki2*)", "N" },
        { "split", 0, POPT_ARG_STRING, &p->split, 0,
          "where a GPU makes limbs (fp32-*): ahead of the product or inside", "ahead|inside" },
        { "alpha", 0, POPT_ARG_STRING, &p->scalars.alpha, 0,
          "factor of the product; of a complex one X or RE,IM", "X" },
        { "beta", 0, POPT_ARG_STRING, &p->scalars.beta, 0, "factor of C0", "X" },
        { "c", 0, POPT_ARG_STRING, &p->c0, 0, "C0: what beta multiplies", "FILE" },
        { "epilogue", 0, POPT_ARG_STRING, &p->end.epilogue, 0,
          "steps that the result goes through, one a line: \"%1 = add %x %bias\"; @FILE: of a file",
          "TEXT" },
        { "nan-to-zero", 0, POPT_ARG_NONE, &p->end.nan_to_zero, 0,
          "results of --epilogue may be of a float without NaN, which gets 0", NULL },
        { "input", 0, POPT_ARG_ARGV, &p->end.inputs, 0, "an input of --epilogue, up to eight times",
          "NAME=FILE" },
        { NULL, 0, POPT_ARG_INCLUDE_TABLE, is_conv ? conv : gemm, 0,
          is_conv ? "Convolution:" : "Matrices:", NULL },
        { NULL, 0, POPT_ARG_INCLUDE_TABLE,
          !plans  ? run :
          is_conv ? &plan[PLAN_IR] :
                    plan,
          0, plans ? "Plan:" : "Result:", NULL },
        { "backend", 0, POPT_ARG_STRING, &p->backend, 0, BACKENDS, "BACKEND" },
        { "threads", 0, POPT_ARG_INT, &p->threads, 0, "worker threads", "N" },
        { "json", 0, POPT_ARG_NONE, &p->output.json, 0, "print one JSON object", NULL },
        POPT_AUTOHELP POPT_TABLEEND
    };
    const char *const *files;
    poptContext o;
    int n = 0, status = 3;
    bool ok = false, understood;

    *p = (struct cli_product){ .promise = LIMBER_CONTRACT_INIT,
                               .unit = LIMBER_UNIT_INIT,
                               .statistics = LIMBER_STATISTICS_INIT,
                               .conv = LIMBER_CONV_INIT,
                               .shape.groups = 1 };
    p->is_conv = is_conv;
    o = options_open(argc, argv, table);
    understood = options_read(
        o,
        is_conv ?
            "X W [options]\n\nX, W: files: .npy, .npz (FILE.npz:NAME) or IDX, whose images have "
            "one "
            "channel; - is standard input.\n\nexample: limber conv image.npy "
            "filters.npy --pad 1 --contract correct -o y.npy" :
            "A B [options]\n\nA, B: files: .npy, .npz (FILE.npz:NAME), .mtx of Matrix Market, .csv "
            "or IDX (an image a row); - is\nstandard input.\n\n"
            "example: limber gemm A.npy B.mtx --as f128 --check -o C.mtx");
    files = poptGetArgs(o);
    while (files && files[n])
        n++;
    if (understood && n != 2)
        complain("%s takes two files, %d given (see %s --help)", is_conv ? "conv" : "gemm", n,
                 argv[0]);
    else if (understood && p->output.target && !p->output.source)
        complain("--target goes with --source");
    else if (understood && check_picture_name(p->output.svg, "--svg", false) &&
             (!p->output.out || array_writable(p->output.out)) && keep_names(p, files) &&
             parse_contract(p) && unit_counts(p) && (!is_conv || product_geometry(p))) {
        ok = product_open(p, files);
        status = 2;
    }
    poptFreeContext(o);
    if (ok)
        return 0;
    product_clear(p);
    return status;
}

/* Frees the options, arrays and epilogue of a product. */
void product_clear(struct cli_product *p)
{
    char **strings[] = { &p->output.target, &p->output.out,     &p->output.as,    &p->contract,
                         &p->scheme,        &p->scalars.alpha,  &p->scalars.beta, &p->c0,
                         &p->backend,       &p->shape.stride,   &p->shape.pad,    &p->shape.dilate,
                         &p->shape.layout,  &p->shape.backward, &p->shape.size,   &p->lpgemm,
                         &p->layer,         &p->plan,           &p->split,        &p->output.svg,
                         &p->name[0],       &p->name[1],        &p->format[0],    &p->format[1] };

    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        free(*strings[i]); /* allocated by popt */
        *strings[i] = NULL;
    }
    array_clear(&p->a);
    array_clear(&p->b);
    array_clear(&p->c);
    epilogue_clear(p);
}

const void *product_alpha(const struct cli_product *p)
{
    return p->scalars.alpha ? p->scalars.alpha_value : NULL;
}

const void *product_beta(const struct cli_product *p)
{
    return p->scalars.beta ? p->scalars.beta_value : NULL;
}

limber_status product_context(const struct cli_product *p, limber_context **ctx)
{
    limber_config config = { .size = sizeof(limber_config),
                             .backend = p->backend,
                             .threads = p->threads };

    return limber_create(ctx, &config);
}

static limber_matrix matrix_view(const struct array *a, bool trans)
{
    return (limber_matrix){ a->data, a->format, trans ? 1 : a->dim[1], trans ? a->dim[1] : 1 };
}

/* Describes the product to Limber as a limber_problem. */
static limber_problem make_problem(const struct cli_product *p)
{
    limber_problem x = LIMBER_PROBLEM_INIT;

    x.alpha = product_alpha(p);
    x.beta = product_beta(p);
    x.contract = &p->promise;
    x.epilogue = p->end.steps ? &p->end.finish : NULL;
    x.c = (limber_output){ p->c.data, p->c.format, 0, 0 };
    if (p->is_conv) {
        x.operation = p->operation;
        x.conv = &p->conv;
        x.a = (limber_matrix){ p->a.data, p->a.format, 0, 0 };
        x.b = (limber_matrix){ p->b.data, p->b.format, 0, 0 };
        return x;
    }
    x.m = p->c.dim[0];
    x.n = p->c.dim[1];
    x.k = p->a.dim[!p->turns.trans_a];
    x.a = matrix_view(&p->a, p->turns.trans_a);
    x.b = matrix_view(&p->b, p->turns.trans_b);
    if (p->c.pairs) {
        x.domain = LIMBER_DOMAIN_COMPLEX;
        x.conjugate = (limber_conjugate)((p->turns.conj_a ? LIMBER_CONJUGATE_A : 0) |
                                         (p->turns.conj_b ? LIMBER_CONJUGATE_B : 0));
    }
    x.c.row_stride = p->c.dim[1];
    x.c.col_stride = 1;
    return x;
}

limber_status product_run(const struct cli_product *p, limber_context *ctx, limber_report *r)
{
    limber_problem x = make_problem(p);

    if (!p->plan)
        return limber_run(ctx, &x, r);
    x.contract = NULL; /* the plan states it */
    return limber_run_plan(ctx, p->plan, &x, r);
}

/* Inspects the operands of a matrix product.  Convolutions are not inspected, since their operands
 * are no matrices. */
limber_status product_inspect(const struct cli_product *p, limber_context *ctx,
                              limber_inspection inspection[2])
{
    const limber_problem x = make_problem(p);
    limber_status s = limber_inspect(ctx, x.a, x.m, x.k, LIMBER_SIDE_A, &inspection[0]);

    return s == LIMBER_STATUS_OK ?
               limber_inspect(ctx, x.b, x.k, x.n, LIMBER_SIDE_B, &inspection[1]) :
               s;
}

limber_status product_cut(const struct cli_product *p, limber_context *ctx, limber_cut *cut,
                          limber_report *r)
{
    const limber_problem x = make_problem(p);

    return limber_explain(ctx, &x, cut, r);
}

limber_status product_plan(const struct cli_product *p, limber_context *ctx, char **text,
                           limber_report *r)
{
    const limber_problem x = make_problem(p);

    return limber_plan(ctx, &x, text, r);
}

limber_status product_native(const struct cli_product *p, limber_context *ctx, limber_report *r)
{
    limber_problem x = make_problem(p);
    limber_status s;
    char *text = NULL;

    x.contract = NULL;
    s = limber_plan(ctx, &x, &text, r);
    limber_free(text);
    return s;
}

limber_status product_workspace(const struct cli_product *p, limber_context *ctx, size_t *least,
                                size_t *best)
{
    const limber_problem x = make_problem(p);

    return limber_workspace(ctx, &x, least, best);
}
