/* SPDX-License-Identifier: BSD-3-Clause
 * Runs one plan on the device and by the interpreter.  Each shape runs three times: with elements
 * of B that encode their positions and an A whose rows each pick one element of B; the same with A
 * and B exchanged; and with ordinary numbers. */
#include "smoke.h"

#include "gpus.h"
#include "limber/research.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"
#include "plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct backend limber_backend_cuda;

enum filling { FILL_from_b, FILL_from_a, FILL_data, FILL_count };
static const char *const fillings[] = { "positions of B", "positions of A", "ordinary numbers" };

/* ---- what is multiplied ---------------------------------------------------------------------- */

/* The host and device memory of one operand, for all products of a batch. */
struct operand {
    char *host;
    size_t count, bytes;
    struct memory there;
};

/* One run: a product, its operands and both results. */
struct bench {
    struct trial t;
    struct operand operand[2];
    char *want, *got; /* C, with its padding between rows: expected, and from the device */
    size_t c_bytes;
    struct memory c, space;
    struct placed placed;
    double one; /* the nonzero value of an operand whose lines pick elements of the other operand */
};

/* Returns the number of bits in which indices of elements are encoded: those of the format's
 * significand, at most 20. */
static int exact_bits(limber_format f)
{
    return f.kind == LIMBER_KIND_INT ? 8 * f.size - 1 : f.frac_bits + 1 < 20 ? f.frac_bits + 1 : 20;
}

/* Returns the number of different codes of indices in a format. */
static double codes_of(limber_format f)
{
    return ldexp(1, exact_bits(f)) - 1;
}

/* Encodes an index as a value that is exact in the format: at most 1/2, or, in integers, from 1
 * on. */
static double code_of(limber_format f, double index)
{
    double code = 1 + fmod(index, codes_of(f));

    return f.kind == LIMBER_KIND_INT ? code : ldexp(code, -exact_bits(f) - 1);
}

static void set_element(limber_format f, char *at, double x)
{
    limber_convert(at, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
}

/* Sets each element to the code of its index divided by `by`, rounded down. */
static void set_positions(struct operand *o, limber_format f, double by)
{
    for (size_t i = 0; i < o->count; i++)
        set_element(f, o->host + i * f.size, code_of(f, floor((double)i / by)));
}

static int64_t lines_of(const struct call *c, int side)
{
    return side ? c->n : c->m;
}

/* Returns the index along k of the element that line i picks. */
static int64_t picked_index(int64_t i, int64_t k)
{
    return (37 * i + 11) % k;
}

/* Returns the view of one matrix of an operand; side 0: A, 1: B. */
static struct view view_of(const struct bench *b, int side, int64_t matrix)
{
    const struct call *c = &b->t.call;
    struct view v = side ? c->b : c->a;

    v.data = limber_spread_at(v.data, side ? &c->each_b : &c->each_a, matrix);
    return v;
}

/* Fills an operand as `how` says: with random data, with codes of positions, or so that each line
 * picks one element of the other operand. */
static void fill_operand(struct bench *b, int side, enum filling how, struct rng *r)
{
    struct operand *o = &b->operand[side];
    limber_format f = b->t.f;
    const struct call *c = &b->t.call;
    int64_t matrices = c->groups > 1 ? c->groups : 1;

    if (how == FILL_data) {
        fill(r, b->t.spec->data, f, o->host, o->count);
        return;
    }
    if (side == (how == FILL_from_b)) {
        set_positions(o, f, 1);
        return;
    }
    for (size_t i = 0; i < o->count; i++)
        set_element(f, o->host + i * f.size, 0);
    for (int64_t g = 0; g < matrices; g++) {
        struct view v = view_of(b, side, g);

        for (int64_t i = 0; i < lines_of(c, side); i++) {
            const char *at = limber_view_at(&v, i, picked_index(i, c->k), f.size);

            if (at)
                set_element(f, (char *)(uintptr_t)at, b->one);
        }
    }
}

/* ---- layout of operands in memory ------------------------------------------------------------ */

/* padding between rows in elements, which must not change; even, so that rows of C are aligned to
 * two elements */
enum { GAP = 4 };

static struct conv_geometry geometry_of(const struct layer *l)
{
    return (struct conv_geometry){ .stride = { l->stride, l->stride, 1 },
                                   .pad = { l->pad, l->pad, l->pad, l->pad },
                                   .dilate = { 1, 1, 1 },
                                   .groups = l->groups,
                                   .layout = l->nhwc,
                                   .direction = l->direction };
}

/* Sets the sizes and index maps of a convolution or gradient.  count: numbers of elements of the
 * left operand, the right operand and the result (filters, image and output in a forward
 * convolution). */
static void place_layer(struct bench *b, const struct layer *l, size_t count[3])
{
    struct conv_geometry g = geometry_of(l);
    struct conv_sizes *z = &b->placed.conv.sizes;
    size_t x, w, y;

    place_conv(&b->placed, &g, &(struct conv_sizes){ l->n, l->c, l->h, l->w, l->o, l->r, l->s });
    x = (size_t)(l->n * l->c * l->h * l->w);
    w = (size_t)(l->o * l->c / l->groups * l->r * l->s);
    y = (size_t)(l->n * l->o * z->oh * z->ow);
    count[0] = l->direction == DIRECTION_filter ? y : w;
    count[1] = l->direction == DIRECTION_data ? y : x;
    count[2] = l->direction == DIRECTION_forward ? y : l->direction == DIRECTION_data ? x : w;
}

/* Prepares the call in host memory, except for its masks: allocates and places operands and C. */
static bool place_operands(struct bench *b, const struct shape *x)
{
    const struct spec *s = b->t.spec;
    int64_t groups = s->groups > 1 ? s->groups : 1, size = b->t.f.size;
    int64_t row[3] = { x->k + GAP, x->n + GAP, x->n + GAP };
    size_t count[3] = { (size_t)(groups * x->m * row[0]), (size_t)(groups * x->k * row[1]),
                        (size_t)(groups * x->m * row[2]) };
    struct call *c = &b->t.call;
    char *to[4];

    if (s->layer)
        place_layer(b, s->layer, count);
    for (int i = 0; i < 2; i++) {
        struct operand *o = &b->operand[i];

        o->count = count[i];
        o->bytes = count[i] * (size_t)size;
        o->host = malloc(o->bytes + 1);
        to[i] = o->host;
    }
    b->c_bytes = count[2] * (size_t)b->t.result.size;
    to[2] = b->want = malloc(b->c_bytes + 1);
    to[3] = b->got = malloc(b->c_bytes + 1);
    if (!to[0] || !to[1] || !to[2] || !to[3])
        return false;
    if (s->layer) {
        const struct index_map *m = b->placed.map;

        *c = place_group(&b->placed, 0, (struct tensor){ to[0], b->t.f },
                         (struct tensor){ to[1], b->t.f }, (struct tensor){ to[2], b->t.result });
        c->groups = s->layer->groups > 1 ? s->layer->groups : 0;
        c->each_a.step = m[0].group * size;
        c->each_b.step = m[1].group * size;
        c->each_c.step = m[2].group * b->t.result.size;
    } else {
        *c = (struct call){ .m = x->m,
                            .n = x->n,
                            .k = x->k,
                            .a = { to[0], row[0], 1, NULL, NULL, NULL },
                            .b = { to[1], 1, row[1], NULL, NULL, NULL },
                            .c = { .data = to[2], .row = row[2], .col = 1, .inner = x->n },
                            .groups = s->groups,
                            .each_a.step = x->m * row[0] * size,
                            .each_b.step = x->k * row[1] * size,
                            .each_c.step = x->m * row[2] * b->t.result.size };
    }
    if (c->groups < 2)
        c->each_a.step = c->each_b.step = c->each_c.step = 0;
    c->workspace_limit = (size_t)1 << 30;
    return true;
}

/* Frees all memory of a bench, on the host and on the device. */
static void clear_bench(struct bench *b)
{
    int64_t matrices = b->t.call.groups > 1 ? b->t.call.groups : 1;

    for (int i = 0; i < 2; i++) {
        for (int64_t g = 0; b->t.mask[i] && g < matrices; g++)
            limber_mask_clear(&b->t.mask[i][g]);
        free(b->t.mask[i]);
        free(b->operand[i].host);
        smoke_free(&b->operand[i].there);
    }
    smoke_free(&b->c);
    smoke_free(&b->space);
    free((char *)(uintptr_t)b->t.space);
    free(b->want);
    free(b->got);
}

/* ---- one run, there and in the interpreter --------------------------------------------------- */

/* Scans both operands on the host and stores their masks (summaries of exponents and special
 * values), which the planner reads.  On failure returns false with a message in d. */
static bool scan_operands(struct bench *b, struct diag *d)
{
    const struct call *c = &b->t.call;
    int64_t matrices = c->groups > 1 ? c->groups : 1;

    for (int i = 0; i < 2; i++) {
        b->t.mask[i] = calloc((size_t)matrices, sizeof *b->t.mask[i]);
        for (int64_t g = 0; b->t.mask[i] && g < matrices; g++) {
            struct view v = view_of(b, i, g);

            if (!limber_scan(&b->t.mask[i][g], &v, b->t.f, lines_of(c, i), c->k, SCAN_full, NULL,
                             d))
                return false;
        }
    }
    b->t.call.mask_a = b->t.mask[0];
    b->t.call.mask_b = b->t.mask[1];
    return b->t.mask[0] && b->t.mask[1];
}

/* Stores alpha and beta in the result's format, and passes them if the kind of kernel has them;
 * otherwise they are 1 and 0. */
static void set_scalars(struct bench *b, char alpha[16], char beta[16])
{
    set_element(limber_scalar_format(b->t.result), alpha, 1.5);
    set_element(limber_scalar_format(b->t.result), beta, -2);
    if (b->t.spec->scalars) {
        b->t.call.alpha = alpha;
        b->t.call.beta = beta;
    }
}

/* Computes the expected C by the interpreter; a batch is computed as single products.  Returns
 * false on failure. */
static bool run_reference(const struct bench *b, struct diag *d)
{
    const struct call *c = &b->t.call;
    bool ok = true;

    for (int64_t g = 0; ok && g < (c->groups > 1 ? c->groups : 1); g++) {
        struct call one = *c;

        one.groups = 0;
        one.a = view_of(b, 0, g);
        one.b = view_of(b, 1, g);
        one.c.data = (char *)c->c.data + g * c->each_c.step;
        one.mask_a = &b->t.mask[0][g];
        one.mask_b = &b->t.mask[1][g];
        ok = plan_launch(&limber_backend_interp, b->t.plan, b->t.target, &one, d);
    }
    return ok;
}

/* Launches the kernels once on the device, and copies C and the workspace to the host.  Returns
 * false on failure. */
static bool run_there(struct bench *b, struct diag *d)
{
    const struct call *c = &b->t.call;
    limber_queue queue = { .size = sizeof queue,
                           .stream = smoke_stream,
                           .workspace = (void *)(uintptr_t)b->space.at,
                           .bytes = b->space.bytes };
    struct call there = *c;

    there.a.data = (const void *)(uintptr_t)b->operand[0].there.at;
    there.b.data = (const void *)(uintptr_t)b->operand[1].there.at;
    there.c.data = (void *)(uintptr_t)b->c.at;
    there.queue = &queue;
    return limber_backend_cuda.launch(b->t.kernel, &there, d) && smoke_download(b->got, &b->c, d) &&
           smoke_download((char *)(uintptr_t)b->t.space, &b->space, d);
}

/* Allocates device memory, and copies operands and C to it.  Returns false on failure. */
static bool put_all(struct bench *b, struct diag *d)
{
    size_t least, most;

    limber_backend_cuda.code->workspace(b->t.kernel, &b->t.call, &least, &most);
    b->t.space_bytes = b->t.spec->least ? least : most;
    b->t.space = malloc(b->t.space_bytes + 1);
    return (b->t.space || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a workspace")) &&
           smoke_upload(&b->operand[0].there, b->operand[0].host, b->operand[0].bytes, d) &&
           smoke_upload(&b->operand[1].there, b->operand[1].host, b->operand[1].bytes, d) &&
           smoke_upload(&b->c, b->want, b->c_bytes, d) &&
           smoke_upload(&b->space, NULL, b->t.space_bytes, d) && (b->t.space_at = b->space.at);
}

/* ---- explaining a wrong element -------------------------------------------------------------- */

/* Names an element of an operand by its index: by row and column if the operand is a matrix. */
static void name_element(const struct bench *b, int side, int64_t index, char to[80])
{
    const struct call *c = &b->t.call;
    int64_t one = (side ? c->each_b.step : c->each_a.step) / b->t.f.size, g = one ? index / one : 0;
    int64_t row = (side ? c->n : c->k) + GAP;

    index -= g * one;
    if (b->t.spec->layer)
        snprintf(to, 80, "element %lld of the %s", (long long)index, side ? "image" : "filters");
    else if (one)
        snprintf(to, 80, "%s%lld[%lld][%lld]", side ? "B" : "A", (long long)g,
                 (long long)(index / row), (long long)(index % row));
    else
        snprintf(to, 80, "%s[%lld][%lld]", side ? "B" : "A", (long long)(index / row),
                 (long long)(index % row));
}

enum { DIGITS = 4 };

/* Names the element of an operand whose code a wrong element of C has.  Each digit of the index
 * needs a run of its own: value[d] is C's element in the run in which indices were divided by
 * codes_of to the power of d.  If several elements match, names the one nearest to `due`. */
static void name_value(const struct bench *b, int side, const double value[DIGITS], int digits,
                       int64_t due, char to[80])
{
    const struct operand *o = &b->operand[side];
    double codes = codes_of(b->t.f);
    int64_t best = -1, found = 0;
    size_t length;

    if (value[0] == 0) {
        snprintf(to, 80, "zero");
        return;
    }
    for (int64_t i = 0; i < (int64_t)o->count; i++) {
        double index = (double)i;
        int same = 0;

        while (same < digits && code_of(b->t.f, index) * b->one == value[same]) {
            index = floor(index / codes);
            same++;
        }
        if (same < digits)
            continue;
        found++;
        if (best < 0 || llabs(i - due) < llabs(best - due))
            best = i;
    }
    if (best < 0) {
        snprintf(to, 80, "no element");
        return;
    }
    name_element(b, side, best, to);
    length = strlen(to);
    if (found > 1)
        snprintf(to + length, 80 - length, " or %lld others", (long long)found - 1);
}

/* Returns the index of the operand's element that element (i, j) of C must equal if operands are
 * filled with codes of positions; -1 if it is a zero of the padding. */
static int64_t due_index(const struct bench *b, int side, int64_t g, int64_t i, int64_t j)
{
    struct view v = view_of(b, side, g);
    const char *at =
        limber_view_at(&v, side ? j : i, picked_index(side ? i : j, b->t.call.k), b->t.f.size);

    return at ? (at - b->operand[side].host) / b->t.f.size : -1;
}

/* Sets each element of an operand to the code of its index divided by `by`, and copies the
 * operand to the device. */
static bool put_positions(const struct bench *b, struct operand *o, double by, struct diag *d)
{
    set_positions(o, b->t.f, by);
    return limber_cuda_ok(
        smoke_driver,
        smoke_driver->cuMemcpyHtoDAsync_v2(o->there.at, o->host, o->bytes, smoke_stream),
        "copying to the device", d);
}

/* For each wrong number of C, names the element of an operand whose code it is.  A format of few
 * bits has few codes, so further runs find the higher digits of the index.  Operands that are
 * scaled do not keep the codes; for them there are no such runs. */
static void name_differences(struct bench *b, struct stage *s, enum filling how)
{
    int side = how == FILL_from_b, digits = 1;
    int64_t listed = s->wrong < MOST_DIFFERENCES ? s->wrong : MOST_DIFFERENCES;
    struct operand *o = &b->operand[side];
    double value[MOST_DIFFERENCES][DIGITS], by = codes_of(b->t.f);
    struct diag d = { 0 };

    if (how == FILL_data || b->t.spec->scalars)
        return;
    for (int64_t x = 0; x < listed; x++)
        value[x][0] = s->difference[x].got_value;
    for (; digits < DIGITS && by < (double)o->count && !b->t.kernel->config.side[side].scaled;
         digits++, by *= codes_of(b->t.f)) {
        if (!put_positions(b, o, by, &d) || !run_there(b, &d))
            break;
        for (int64_t x = 0; x < listed; x++) {
            const struct difference *at = &s->difference[x];
            const char *want = limber_output_at(&b->t.call.c, at->row, at->col, b->t.result.size) +
                               at->plane * b->t.call.each_c.step;

            value[x][digits] = limber_format_value(b->t.result, b->got + (want - b->want));
        }
    }
    put_positions(b, o, 1, &d);
    for (int64_t x = 0; x < listed; x++) {
        struct difference *at = &s->difference[x];
        int64_t due = due_index(b, side, at->plane, at->row, at->col);

        if (due < 0)
            snprintf(at->due, sizeof at->due, "zero");
        else
            name_element(b, side, due, at->due);
        name_value(b, side, value[x], digits, due, at->from);
    }
}

/* ---- comparing C, and what lies around it ---------------------------------------------------- */

/* Compares C with the interpreter's, element by element. */
static void compare_c(struct stage *s, const struct bench *b)
{
    const struct call *c = &b->t.call;
    int size = b->t.result.size;

    for (int64_t g = 0; g < (c->groups > 1 ? c->groups : 1); g++)
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++) {
                char *want = limber_output_at(&c->c, i, j, size) + g * c->each_c.step;

                smoke_compare(s, g, i, j, b->t.result, b->got + (want - b->want), want);
            }
}

/* Counts changed numbers in the gaps between rows of C.  It compares all of C's memory, so it
 * counts only if all elements of C are right; otherwise it returns 0. */
static int64_t changed_outside(const struct bench *b, const struct stage *s)
{
    int64_t numbers = 0;

    if (s->wrong)
        return 0;
    for (size_t i = 0; i < b->c_bytes; i += b->t.result.size)
        numbers += !same_number(b->t.result, b->got + i, b->want + i);
    return numbers;
}

static enum site site_of_c(const struct cuda_config *f)
{
    return f->mma_path == MMA_PATH_element ? SITE_element :
           f->direct                       ? SITE_multiply :
                                             SITE_reconstruct;
}

/* Writes a JSON line about the plan: unit, tile and kernel. */
static void put_plan(FILE *out, const struct bench *b)
{
    static const char *const paths[] = { "lane",   "warp",    "group", "portable",
                                         "tensor", "element", "unit" };
    const struct cuda_config *f = &b->t.kernel->config;

    fprintf(out,
            "{\"plan\": \"%s\", \"unit\": \"%s\", \"multiply\": \"%s.h\", \"tile\": [%d, %d], "
            "\"warp\": [%d, %d], \"step\": %d, \"stages\": %d, \"cluster\": %d, \"threads\": %d, "
            "\"limbs\": [%d, %d], \"accumulators\": %d, \"chunk\": %d}\n",
            b->t.plan->scheme ? b->t.plan->scheme : "", limber_units[f->unit].name,
            paths[f->mma_path], f->bm, f->bn, f->wm, f->wn, f->step, f->stages, f->cluster,
            f->threads, f->side[0].limbs, f->side[1].limbs, f->accumulators, f->chunk_steps);
}

/* Launches again and reports how many elements are wrong then; another number suggests a race. */
static void report_repetition(FILE *out, struct bench *b, int64_t wrong)
{
    struct diag d = { 0 };
    struct stage s = { 0 };

    if (smoke_stage(&s, "C", SITE_none, b->t.call.m, b->t.call.n) && run_there(b, &d)) {
        compare_c(&s, b);
        fprintf(out, "{\"again\": {\"wrong\": %lld, \"before\": %lld}}\n", (long long)s.wrong,
                (long long)wrong);
    } else {
        fprintf(out, "{\"again\": {\"error\": ");
        smoke_print_json_string(out, d.text);
        fprintf(out, "}}\n");
    }
    free(s.bad);
}

/* Compares the device's scans of both operands with the host's.  A scan may be the first wrong
 * stage, although this run used the host's masks. */
static void compare_scans(struct stage s[2], const struct bench *b, struct report *r)
{
    const struct call *c = &b->t.call;

    for (int i = 0; i < 2; i++) {
        struct diag d = { 0 };
        struct view host = view_of(b, i, 0), there = host;

        there.data = (const void *)(uintptr_t)b->operand[i].there.at;
        if (limber_view_strided(&host) &&
            !smoke_scan(r, &s[i], &host, &there, b->t.f, lines_of(c, i), c->k, &d)) {
            fprintf(r->details, "{\"error\": ");
            smoke_print_json_string(r->details, d.text);
            fprintf(r->details, "}\n");
        }
        s[i].name = i ? "scan of B" : "scan of A";
    }
}

/* ---- the order of sums ----------------------------------------------------------------------- */

/* elements along k of two instructions in FP16, one in FP8, or eight in FP64 */
enum { ORDER_K = 32 };

/* A product whose order of sums is asked for; there: it is computed on the device. */
struct summing {
    struct bench bench; /* a product with one element of C */
    bool there;
    struct diag d;
};

/* Callback of limber_reveal: sums k products on the device, or by the interpreter. */
static int sum_once(void *user, const double *a, const double *b, int64_t k, double *sum)
{
    struct summing *x = user;
    struct bench *at = &x->bench;
    const double *of[2] = { a, b };
    bool ok = true;

    for (int side = 0; ok && side < 2; side++) {
        struct view v = view_of(at, side, 0);
        struct operand *o = &at->operand[side];

        for (int64_t p = 0; p < k; p++)
            set_element(at->t.f, (char *)(uintptr_t)limber_view_at(&v, 0, p, at->t.f.size),
                        of[side][p]);
        ok = !x->there || limber_cuda_ok(smoke_driver,
                                         smoke_driver->cuMemcpyHtoDAsync_v2(o->there.at, o->host,
                                                                            o->bytes, smoke_stream),
                                         "copying to the device", &x->d);
    }
    ok = ok && (x->there ? run_there(at, &x->d) : run_reference(at, &x->d));
    *sum = ok ? limber_format_value(at->t.result, x->there ? at->got : at->want) : 0;
    return !ok;
}

/* Prints the order in which one element is summed, and a simulated unit that sums in this order. */
static void print_order_of(FILE *out, const char *name, struct summing *x)
{
    char *tree = NULL, *unit = NULL;

    fprintf(out, "{\"order\": \"%s\", ", name);
    if (limber_reveal(sum_once, x, ORDER_K, x->bench.t.f, x->bench.t.result, &tree, &unit)) {
        fprintf(out, "\"error\": ");
        smoke_print_json_string(out, x->d.text[0] ? x->d.text : limber_error_text());
    } else {
        fprintf(out, "\"tree\": ");
        smoke_print_json_string(out, tree);
        fprintf(out, ", \"unit\": ");
        smoke_print_json_string(out, unit ? unit : "no words say it");
    }
    fprintf(out, "}\n");
    limber_free(tree);
    limber_free(unit);
}

/* If the kernel multiplies unsplit operands, prints the summation orders of the device and of the
 * interpreter.  limber_reveal finds no order if the kernel loses an element. */
static void print_order(FILE *out, const struct trial *t)
{
    const struct cuda_config *f = &t->kernel->config;
    struct summing x = { .bench = { .t = *t, .one = 1 } };
    struct rng r = { 1 };
    bool ok;

    if (f->totals || !f->direct || f->side[0].limbs != 1 || f->mma_path == MMA_PATH_unit ||
        t->spec->scalars || t->spec->layer || t->spec->groups)
        return;
    ok = place_operands(&x.bench, &(struct shape){ 1, 1, ORDER_K });
    for (int side = 0; ok && side < 2; side++)
        fill_operand(&x.bench, side, FILL_data, &r);
    memset(x.bench.want, 0xff, ok ? x.bench.c_bytes : 0);
    ok = ok && scan_operands(&x.bench, &x.d) && put_all(&x.bench, &x.d);
    for (int there = 1; ok && there >= 0; there--) {
        x.there = there;
        print_order_of(out, there ? "device" : "interpreter", &x);
    }
    clear_bench(&x.bench);
}

/* ---- printing the operands of a wrong element ------------------------------------------------ */

enum { MOST_SHOWN = 1024 }; /* most elements of both operands that are printed */

/* Prints small operands, so that wrong sums can be recomputed elsewhere.  Elements are in
 * hexadecimal, most significant byte first. */
static void print_operands(FILE *out, const struct bench *b)
{
    const struct call *c = &b->t.call;

    if ((c->m + c->n) * c->k > MOST_SHOWN || b->t.spec->layer || c->groups > 1)
        return;
    for (int side = 0; side < 2; side++) {
        struct view v = view_of(b, side, 0);

        fprintf(out, "{\"operand\": \"%s\", \"lines\": [", side ? "columns of B" : "rows of A");
        for (int64_t i = 0; i < lines_of(c, side); i++) {
            fprintf(out, "%s\"", i ? ", " : "");
            for (int64_t p = 0; p < c->k; p++) {
                const unsigned char *at =
                    (const unsigned char *)limber_view_at(&v, i, p, b->t.f.size);

                fprintf(out, "%s", p ? " " : "");
                for (int byte = b->t.f.size; byte-- > 0;)
                    fprintf(out, "%02x", at[byte]);
            }
            fprintf(out, "\"");
        }
        fprintf(out, "]}\n");
    }
}

/* ---- judging a run --------------------------------------------------------------------------- */

/* ALL: the scans of A and B, the stages and the result. */
enum { SCANS = 2, ALL = SCANS + STAGE_count + 1 };

static const struct stage *first_wrong(const struct stage s[ALL])
{
    for (int i = 0; i < ALL; i++)
        if (s[i].wrong)
            return &s[i];
    return NULL;
}

/* Writes the JSON lines about the first wrong run.  outside: number of changed elements in the gaps
 * of C. */
static void print_details(struct report *r, struct bench *b, struct stage s[ALL], enum filling how,
                          int64_t outside)
{
    const struct stage *first = first_wrong(s);

    put_plan(r->details, b);
    for (int i = 0; i < ALL; i++)
        if (s[i].compared)
            fprintf(r->details, "{\"stage\": \"%s\", \"compared\": %lld, \"wrong\": %lld}\n",
                    s[i].name, (long long)s[i].compared, (long long)s[i].wrong);
    if (outside)
        fprintf(r->details, "{\"outside\": %lld}\n", (long long)outside);
    print_operands(r->details, b);
    name_differences(b, &s[ALL - 1], how);
    if (first)
        smoke_describe(r->details, first, &b->t.kernel->config);
    if (first && first != &s[ALL - 1] && s[ALL - 1].wrong)
        smoke_describe(r->details, &s[ALL - 1], &b->t.kernel->config);
    if (!b->t.spec->scalars) /* with beta, a second launch would add to another C */
        report_repetition(r->details, b, s[ALL - 1].wrong);
    if (first == &s[ALL - 1])
        print_order(r->details, &b->t);
}

/* Compares all stages of a run, and reports the first wrong one. */
static void check_stages(struct report *r, struct bench *b, enum filling how, const char *name)
{
    struct stage s[ALL] = { 0 };
    const struct stage *first;
    struct diag d = { 0 };
    int64_t outside;

    if (!smoke_stages(s + SCANS, &b->t, &d) ||
        !smoke_stage(&s[ALL - 1], "C", site_of_c(&b->t.kernel->config), b->t.call.m, b->t.call.n)) {
        smoke_failed(r, "stages", name, d.text);
    } else {
        compare_c(&s[ALL - 1], b);
        outside = changed_outside(b, &s[ALL - 1]);
        if ((first_wrong(s) || outside) && !r->wrong && b->t.kernel->config.side[0].scaled)
            compare_scans(s, b, r);
        first = first_wrong(s);
        if (smoke_count_run(r, !first && !outside, first ? first->name : "outside of C", name))
            print_details(r, b, s, how, outside);
    }
    for (int i = 0; i < ALL; i++) {
        r->compared += s[i].compared;
        free(s[i].bad);
    }
}

/* Runs a plan on both backends, with operands filled as `how` says, and compares. */
static void run_filling(struct report *r, const struct trial *t, const struct shape *x,
                        enum filling how)
{
    struct bench b = { .t = *t };
    struct rng random = { 7 + (uint64_t)x->k };
    struct diag d = { 0 };
    char alpha[16], beta[16], name[80];

    b.one = t->f.kind == LIMBER_KIND_INT ? 1 : 0.5;
    if (!place_operands(&b, x)) {
        smoke_failed(r, "memory", fillings[how], "no memory for operands");
        clear_bench(&b);
        return;
    }
    snprintf(name, sizeof name, "%s, %lld x %lld x %lld", fillings[how], (long long)b.t.call.m,
             (long long)b.t.call.n, (long long)b.t.call.k);
    fprintf(stderr, "  %s\n", name);
    for (int i = 0; i < 2; i++)
        fill_operand(&b, i, how, &random);
    set_scalars(&b, alpha, beta);
    memset(b.want, 0xff, b.c_bytes);
    if (t->spec->scalars)
        fill(&random, DATA_unit, t->result, b.want, b.c_bytes / t->result.size);
    if (!scan_operands(&b, &d) || !put_all(&b, &d))
        smoke_failed(r, "memory", name, d.text);
    else if (!run_reference(&b, &d))
        smoke_failed(r, "interpreter", name, d.text);
    else if (run_there(&b, &d))
        check_stages(r, &b, how, name);
    else if (smoke_failed(r, "launch", name, d.text))
        put_plan(r->details, &b);
    clear_bench(&b);
}

/* ---- all runs of a plan ---------------------------------------------------------------------- */

/* Makes a plan for ordinary numbers, which use all bits of their format.  It also holds for the
 * other kinds of runs, whose numbers have fewer bits, so that one kernel is compiled for all
 * runs. */
static bool make_plan(struct plan *p, const struct spec *s, limber_unit *unit, struct diag *d)
{
    enum { SIDE = 64 };
    limber_format f = named(s->format);
    struct conv_geometry g;
    struct mask mask = { 0 };
    struct rng r = { 5 };
    char *data = malloc((size_t)(SIDE * SIDE) * f.size);
    struct planned planned = { s->promise, s->scheme, f,        named(s->result),
                               &mask,      &mask,     s->kbits, s->scalars };
    bool ok = data != NULL;

    if (ok) {
        fill(&r, s->data, f, data, SIDE * SIDE);
        ok = limber_scan(&mask, &(struct view){ data, SIDE, 1, NULL, NULL, NULL }, f, SIDE, SIDE,
                         SCAN_full, NULL, d);
    }
    if (ok && s->layer) {
        g = geometry_of(s->layer);
        plan_state_conv(p, &g, &planned);
    } else if (ok) {
        build_plan(p, &planned);
    }
    if (ok && s->unit) {
        ok = limber_unit_parse(s->unit, unit) == LIMBER_STATUS_OK;
        p->model = unit;
    }
    p->split = s->split;
    p->size = s->size;
    limber_mask_clear(&mask);
    free(data);
    return ok;
}

/* largest k for which lines that pick one element are tested; longer ones would find little more */
enum { MOST_PICKED = 1 << 16 };

/* Runs all shapes of a plan with each kind of operands (enum filling) that suits the shape, and
 * the ragged shapes with one kind each. */
static void run_shapes(struct report *r, const struct trial *t)
{
    const struct spec *s = t->spec;

    for (int i = 0; i < (int)COUNT(s->shape) && (i == 0 || s->shape[i].m); i++) {
        int how = s->shape[i].k > MOST_PICKED ? FILL_data : FILL_from_b;

        for (; how < FILL_count; how++)
            /* an image has no rows that could each pick one element, because patches overlap */
            if (!s->layer || how != FILL_from_a)
                run_filling(r, t, &s->shape[i], (enum filling)how);
    }
    for (int64_t n = 1; s->ragged && n <= 130; n++)
        run_filling(r, t, &(struct shape){ 131 - n, n, 1 + n % 70 },
                    (enum filling)(n % FILL_count));
}

/* Plans and compiles one kind of kernel, and runs it on all its shapes. r: the results. */
void smoke_product(struct report *r, const struct spec *s)
{
    static limber_unit unit = LIMBER_UNIT_INIT;
    struct target target = { .device = 0 };
    struct plan p = { 0 };
    struct trial t = {
        .spec = s, .plan = &p, .target = &target, .f = named(s->format), .result = named(s->result)
    };
    struct blob blob = { 0 };
    struct diag d = { 0 };

    if (!limber_backend_cuda.probe(&target, &d) || !make_plan(&p, s, &unit, &d)) {
        smoke_failed(r, "plan", s->scheme ? s->scheme : "", d.text);
    } else if (!limber_passes_run(&p, &target, NULL, (struct pass_watch){ 0 }, &d)) {
        if (gpu_lacks(d.text))
            snprintf(r->lacks, sizeof r->lacks, "%s", d.text);
        else
            smoke_failed(r, "plan", s->scheme ? s->scheme : "", d.text);
    } else if (!limber_backend_cuda.compile(&p, &target, NULL, &blob, &d) ||
               !limber_backend_cuda.load(blob.data, blob.size, &t.kernel, &d)) {
        smoke_failed(r, "compile", s->scheme ? s->scheme : "", d.text);
    } else {
        r->kernels++;
        run_shapes(r, &t);
        limber_backend_cuda.unload(t.kernel);
    }
    free(blob.data);
    limber_plan_clear(&p);
}
