/* SPDX-License-Identifier: BSD-3-Clause
 * Products modulo a number p.  Elements of A and B become symmetric residues modulo p.  If p is at
 * most 256, these are bytes, and a product of bytes is exact.  Else residues of them modulo small
 * numbers are multiplied, one product of bytes for each number, and the Chinese remainder theorem
 * gives the sums modulo p.  A result is stored only after all products have succeeded. */
#include "jit/operators/modular.h"

#include "ir/cpu.h"
#include "jit/operators/operators.h"
#include "jit/operators/residues.h"
#include "jit/tasks.h"

#include <math.h>
#include <string.h>

/* MOST_K: largest k for which a sum of k products of signed bytes, plus one byte, stays below
 * 2^31.  BUDGET: bytes of residues and sums that are kept at once, unless the context sets
 * workspace_bytes.  PART: elements that are converted at once. */
enum { MOST_K = (1 << 17) - 64, BUDGET = 64 << 20, PART = 512 };

/* One operand: its lines are rows of A, or columns of B. */
struct operand {
    const char *data;
    limber_format format;
    int64_t line, along; /* strides in elements: between lines, and along k */
    int8_t *residues; /* [modulus][line][k], or [modulus][k][line] if lines lie together */
    int64_t first, lines, p0, depth; /* the block of lines and of k whose residues are stored */
    bool across; /* true if elements of neighbouring lines are adjacent in memory */
};

struct modular {
    limber_context *ctx;
    const limber_problem *problem;
    const struct problem *stated; /* the same problem, with the addresses of all groups */
    struct moduli moduli; /* count is 0 if residues modulo p are bytes */
    int64_t p;
    int planes; /* number of products of bytes */
    int64_t block[2], depth; /* most lines of A and of B, and elements of k, at once */
    struct operand op[2];
    int32_t *sums; /* [plane][row][column] of a block of C */
    int64_t *results; /* [group][row][column]: symmetric residues */
    int64_t *result; /* results of the current group */
    struct output_view c; /* this group's C */
    int64_t scalar[2]; /* alpha and beta modulo p */
    residues_reduce *reduce;
    residues_split *split;
    residues_join *join;
    residues_shorten *shorten;
};

/* ---- numbers modulo p ------------------------------------------------------------------------ */

/* Returns a b mod p. */
static int64_t product_modulo(int64_t a, int64_t b, int64_t p)
{
    return (int64_t)((__int128)a * b % p);
}

/* Returns x modulo p, for an integer x of magnitude 2^62 or more. */
static int64_t reduce_large(double x, int64_t p)
{
    int e;
    int64_t v = (int64_t)ldexp(frexp(x, &e), 53) % p, two = 2 % p;

    for (e -= 53; e > 0; e >>= 1, two = product_modulo(two, two, p))
        if (e & 1)
            v = product_modulo(v, two, p);
    return v;
}

/* Converts `n` adjacent elements of an integer format to i64, or back. */
#define CONVERT(to_type, from_type) \
    for (int64_t i_ = 0; i_ < n; i_++) \
    ((to_type *)to)[i_] = (to_type)((const from_type *)from)[i_]

/* Reads `n` adjacent integers. */
static void read_integers(limber_format f, const void *from, int64_t n, void *to)
{
    struct diag ignored = { 0 };

    if (limber_format_equal(f, LIMBER_I64))
        memcpy(to, from, (size_t)n * 8);
    else if (limber_format_equal(f, LIMBER_I32))
        CONVERT(int64_t, int32_t);
    else if (limber_format_equal(f, LIMBER_I16))
        CONVERT(int64_t, int16_t);
    else if (limber_format_equal(f, LIMBER_I8))
        CONVERT(int64_t, int8_t);
    else if (limber_format_equal(f, LIMBER_U8))
        CONVERT(int64_t, uint8_t);
    else
        limber_format_convert(to, LIMBER_I64, from, f, (size_t)n, LIMBER_ROUND_NEAREST, &ignored);
}

/* Writes `n` adjacent numbers, which the format holds. */
static void write_integers(limber_format f, const void *from, int64_t n, void *to)
{
    struct diag ignored = { 0 };

    if (limber_format_equal(f, LIMBER_I64))
        memcpy(to, from, (size_t)n * 8);
    else if (limber_format_equal(f, LIMBER_I32))
        CONVERT(int32_t, int64_t);
    else if (limber_format_equal(f, LIMBER_I16))
        CONVERT(int16_t, int64_t);
    else if (limber_format_equal(f, LIMBER_I8))
        CONVERT(int8_t, int64_t);
    else if (limber_format_equal(f, LIMBER_F64))
        CONVERT(double, int64_t);
    else if (limber_format_equal(f, LIMBER_F32))
        CONVERT(float, int64_t);
    else
        limber_format_convert(to, f, from, LIMBER_I64, (size_t)n, LIMBER_ROUND_NEAREST, &ignored);
}
#undef CONVERT

/* Converts floats to integers modulo p.  False if one of them is no integer. */
static bool read_floats(const struct modular *x, const double *number, int64_t n, int64_t *v)
{
    for (int64_t i = 0; i < n; i++) {
        if (fabs(number[i]) < 0x1p62) {
            v[i] = (int64_t)number[i];
            if ((double)v[i] != number[i])
                return false;
        } else {
            if (!isfinite(number[i]))
                return false;
            v[i] = reduce_large(number[i], x->p);
        }
    }
    return true;
}

/* Reads `n` adjacent elements, at most PART, as integers modulo p.  False if one of them is no
 * integer. */
static bool read_residues(const struct modular *x, limber_format f, const char *at, int64_t n,
                          int64_t *v)
{
    struct diag ignored = { 0 };
    double number[PART];

    if (limber_is_integer(f)) {
        read_integers(f, at, n, v);
    } else {
        limber_format_convert(number, LIMBER_F64, at, f, (size_t)n, LIMBER_ROUND_NEAREST, &ignored);
        if (!read_floats(x, number, n, v))
            return false;
    }
    x->reduce(x->p, v, n);
    return true;
}

/* ---- residues of the operands ---------------------------------------------------------------- */

/* Reads n adjacent elements of an operand, from line i and position k on, as integers modulo p. 
 * False if one of them is no integer. */
static bool read_part(const struct modular *x, const struct operand *o, int64_t i, int64_t k,
                      int64_t n, int64_t *v)
{
    const limber_format f = o->format;
    const int64_t step = o->across ? o->line : o->along;
    const char *at = o->data + (i * o->line + k * o->along) * f.size;
    char gathered[PART * 8];

    if (step != 1) {
        for (int64_t j = 0; j < n; j++)
            memcpy(gathered + j * f.size, at + j * step * f.size, f.size);
        at = gathered;
    }
    return read_residues(x, f, at, n, v);
}

/* An operand whose residues are stored by several threads. */
struct packing {
    const struct modular *x;
    const struct operand *o;
};

/* Task: stores residues of some rows of an operand's block, as they lie in memory. */
static void pack_rows(void *arg, const struct piece *piece)
{
    const struct packing *s = arg;
    const struct modular *x = s->x;
    const struct operand *o = s->o;
    const int64_t length = o->across ? o->lines : o->depth, plane = o->lines * o->depth;
    int64_t v[PART];

    for (int64_t i = piece->first; i < piece->end; i++)
        for (int64_t j = 0; j < length; j += PART) {
            const int64_t n = length - j < PART ? length - j : PART;
            int8_t *to = o->residues + i * length + j;

            if (o->across)
                read_part(x, o, o->first + j, o->p0 + i, n, v);
            else
                read_part(x, o, o->first + i, o->p0 + j, n, v);
            if (x->moduli.count)
                x->split(&x->moduli, v, n, to, plane);
            else
                for (int64_t e = 0; e < n; e++)
                    to[e] = (int8_t)v[e];
        }
}

/* Stores the residues of a block of an operand, unless they are stored already. */
static void pack_block(struct modular *x, int side, int64_t first, int64_t lines, int64_t p0,
                       int64_t depth)
{
    struct operand *o = &x->op[side];
    struct packing s = { x, o };

    if (o->first == first && o->lines == lines && o->p0 == p0 && o->depth == depth)
        return;
    o->first = first, o->lines = lines, o->p0 = p0, o->depth = depth;
    limber_run_pieces(
        x->ctx,
        &(struct division){ .groups = 1,
                            .lines = o->across ? depth : lines,
                            .vectors = 1,
                            .seconds = 1e-9 * (double)(lines * depth) * (x->planes + 1) },
        pack_rows, &s);
}

/* ---- products of bytes ----------------------------------------------------------------------- */

/* Returns the residues of an operand's block modulo the i-th number, by lines. */
static struct view residues_of(const struct operand *o, int i)
{
    return (struct view){ .data = o->residues + i * o->lines * o->depth,
                          .line = o->across ? 1 : o->depth,
                          .p = o->across ? o->lines : 1 };
}

/* Shortens sums to residues, so that further products can be added to them. */
static void shorten_sums(const struct modular *x, int i, int32_t *sums, int64_t n)
{
    if (x->moduli.count) {
        x->shorten(&x->moduli, i, sums, n);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        sums[j] = (int32_t)(sums[j] % x->p);
}

/* Adds to the report of a call what one of its products of bytes took. */
static void add_report(struct report *r, const struct report *product)
{
    r->cost += product->cost;
    r->seconds_scan += product->seconds_scan;
    r->seconds_compile += product->seconds_compile;
    r->workspace = product->workspace > r->workspace ? product->workspace : r->workspace;
    r->from = product->from;
    r->way = product->way;
    memcpy(r->backend, product->backend, sizeof r->backend);
    memcpy(r->kernel, product->kernel, sizeof r->kernel);
}

/* Multiplies the stored blocks, and adds the products to the sums if `adds`. */
static bool multiply_block(struct modular *x, bool adds, struct report *r, struct diag *d)
{
    const struct operand *a = &x->op[0], *b = &x->op[1];
    const int64_t one = 1;
    struct report product;
    struct problem p = {
        /* sums of bytes fit 32 bits, so that none wraps */
        .contract = { .size = sizeof p.contract,
                      .promise = LIMBER_CONTRACT_NATIVE,
                      .on_miss = x->problem->contract->on_miss },
        .m = a->lines,
        .n = b->lines,
        .k = a->depth,
        .groups = 1,
        .fa = LIMBER_I8,
        .fb = LIMBER_I8,
        .fc = LIMBER_I32,
        .c = { .row = b->lines, .col = 1, .inner = b->lines },
        .beta = adds ? &one : NULL,
    };

    for (int i = 0; i < x->planes; i++) {
        int32_t *sums = x->sums + i * a->lines * b->lines;

        if (adds)
            shorten_sums(x, i, sums, a->lines * b->lines);
        p.a = residues_of(a, i);
        p.b = residues_of(b, i);
        p.c.data = (char *)sums;
        if (!limber_engine_run(x->ctx, &p, NULL, r ? &product : NULL, d))
            return false;
        if (r)
            add_report(r, &product);
    }
    return true;
}

/* Task: computes rows of a block of the result from the sums. */
static void join_rows(void *arg, const struct piece *piece)
{
    const struct modular *x = arg;
    const int64_t lines = x->op[0].lines, n = x->op[1].lines;

    for (int64_t i = piece->first; i < piece->end; i++) {
        const int32_t *from = x->sums + i * n;
        int64_t *to = x->result + (x->op[0].first + i) * x->problem->n + x->op[1].first;

        if (x->moduli.count) {
            x->join(&x->moduli, from, lines * n, n, to);
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            to[j] = from[j];
        x->reduce(x->p, to, n);
    }
}

/* Computes a block of the result: rows [i, i + rows), columns [j, j + cols). */
static bool compute_block(struct modular *x, int64_t i, int64_t rows, int64_t j, int64_t cols,
                          struct report *r, struct diag *d)
{
    const int64_t k = x->problem->k;

    for (int64_t p = 0; p < k; p += x->depth) {
        const int64_t depth = k - p < x->depth ? k - p : x->depth;

        pack_block(x, 0, i, rows, p, depth);
        pack_block(x, 1, j, cols, p, depth);
        if (!multiply_block(x, p > 0, r, d))
            return false;
    }
    limber_run_pieces(x->ctx,
                      &(struct division){ .groups = 1,
                                          .lines = rows,
                                          .vectors = 1,
                                          .seconds = 2e-9 * (double)(rows * cols) * x->planes },
                      join_rows, x);
    return true;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Computes alpha v + beta c modulo p for n elements of a row of C, which begin at `at`. */
static void apply_scalars(const struct modular *x, int64_t *v, const char *at, int64_t step,
                          int64_t n)
{
    const limber_format f = x->problem->c.format;
    const int64_t alpha = x->scalar[0], beta = x->scalar[1], p = x->p;

    for (int64_t j = 0; j < n; j++) {
        int64_t c = 0;

        if (beta)
            read_residues(x, f, at + j * step, 1, &c);
        v[j] = (int64_t)(((__int128)alpha * v[j] + (__int128)beta * c) % p);
    }
    x->reduce(p, v, n);
}

/* Stores n elements in the caller's format, as least or symmetric residues. */
static void store_part(const struct modular *x, int64_t *v, char *at, int64_t step, int64_t n)
{
    const limber_format f = x->problem->c.format;

    if (x->scalar[0] != 1 || x->scalar[1])
        apply_scalars(x, v, at, step, n);
    if (x->problem->contract->residues == LIMBER_RESIDUES_LEAST)
        for (int64_t j = 0; j < n; j++)
            v[j] += v[j] < 0 ? x->p : 0;
    if (step == f.size) {
        write_integers(f, v, n, at);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        write_integers(f, &v[j], 1, at + j * step);
}

/* Task: stores some rows of C. */
static void store_rows(void *arg, const struct piece *piece)
{
    const struct modular *x = arg;
    const struct output_view *c = &x->c;
    const int64_t n = x->problem->n;
    const int size = x->problem->c.format.size;

    for (int64_t i = piece->first; i < piece->end; i++)
        for (int64_t j = 0; j < n; j += PART)
            store_part(x, x->result + i * n + j, limber_output_at(c, i, j, size), c->col * size,
                       n - j < PART ? n - j : PART);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Chooses the blocks so that residues and sums take at most `most` bytes if they can. */
static void choose_blocks(struct modular *x, double most)
{
    const limber_problem *p = x->problem;
    const double planes = x->planes;

    x->depth = p->k < MOST_K ? p->k : MOST_K;
    x->block[0] = p->m;
    x->block[1] = p->n;
    for (;;) {
        const double m = (double)x->block[0], n = (double)x->block[1], k = (double)x->depth;

        if (planes * ((m + n) * k + 4 * m * n) <= most || m + n + k <= 3 * 64)
            return;
        /* the longest side is halved; k costs further sums, so it is the last one */
        if (m >= n && m > 64)
            x->block[0] = (x->block[0] + 1) / 2;
        else if (n > 64)
            x->block[1] = (x->block[1] + 1) / 2;
        else if (k > 64)
            x->depth = (x->depth + 1) / 2;
        else
            return;
    }
}

/* Returns the number of elements of one group's C. */
static int64_t group_elements(const struct modular *x)
{
    return x->problem->m * x->problem->n;
}

/* Allocates the memory of a modular product.  Returns false with an error. */
static bool allocate(struct modular *x, struct diag *d)
{
    const limber_allocator *memory = &x->ctx->allocator;
    const size_t planes = (size_t)x->planes, depth = (size_t)x->depth, m = (size_t)x->block[0],
                 n = (size_t)x->block[1];

    x->op[0].residues = limber_memory_alloc(memory, planes * m * depth + 64);
    x->op[1].residues = limber_memory_alloc(memory, planes * n * depth + 64);
    x->sums = limber_memory_alloc(memory, planes * m * n * sizeof *x->sums);
    x->results = limber_memory_alloc(memory, (size_t)group_elements(x) * (size_t)x->stated->groups *
                                                 sizeof *x->results);
    return (x->op[0].residues && x->op[1].residues && x->sums && x->results) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for residues");
}

/* Frees the memory of a modular product. */
static void release(struct modular *x)
{
    const limber_allocator *memory = &x->ctx->allocator;

    limber_memory_free(memory, x->op[0].residues);
    limber_memory_free(memory, x->op[1].residues);
    limber_memory_free(memory, x->sums);
    limber_memory_free(memory, x->results);
}

/* Describes an operand of which no block is stored yet. */
static struct operand describe(const void *data, limber_format f, int64_t line, int64_t along)
{
    return (struct operand){ .data = data,
                             .format = f,
                             .line = line,
                             .along = along,
                             .lines = -1,
                             .across = line == 1 && along != 1 };
}

/* Points the operands and C to the matrices of group g. */
static void choose_group(struct modular *x, int64_t g)
{
    const limber_problem *p = x->problem;
    int8_t *a = x->op[0].residues, *b = x->op[1].residues;

    x->op[0] =
        describe(limber_group_a(x->stated, g).data, p->a.format, p->a.row_stride, p->a.col_stride);
    x->op[1] =
        describe(limber_group_b(x->stated, g).data, p->b.format, p->b.col_stride, p->b.row_stride);
    x->op[0].residues = a;
    x->op[1].residues = b;
    x->c = limber_group_c(x->stated, g);
    x->result = x->results ? x->results + g * group_elements(x) : NULL;
}

/* Checks that the elements of an operand with these sizes are integers. */
static bool check_integers(const struct modular *x, const struct operand *o, const char *what,
                           int64_t lines, int64_t length, struct diag *d)
{
    const int64_t rows = o->across ? length : lines, cols = o->across ? lines : length;
    int64_t v[PART];

    if (limber_is_integer(o->format))
        return true;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += PART)
            if (!read_part(x, o, o->across ? j : i, o->across ? i : j,
                           cols - j < PART ? cols - j : PART, v))
                return limber_fail(d, LIMBER_STATUS_RANGE,
                                   "%s: an element is no integer, but contract.modulus needs "
                                   "integers",
                                   what);
    return true;
}

/* Checks that the elements of all groups are integers. */
static bool check_groups(struct modular *x, struct diag *d)
{
    const limber_problem *p = x->problem;

    for (int64_t g = 0; g < x->stated->groups; g++) {
        choose_group(x, g);
        if (!check_integers(x, &x->op[0], "a", p->m, p->k, d) ||
            !check_integers(x, &x->op[1], "b", p->n, p->k, d))
            return false;
        if (x->scalar[1]) {
            const struct operand c = describe(x->c.data, p->c.format, x->c.row, x->c.col);

            if (!check_integers(x, &c, "c", p->m, p->n, d))
                return false;
        }
    }
    return true;
}

/* Reads alpha or beta, which is in the format of scalars of C, modulo p. */
static bool read_scalar(struct modular *x, int i, const void *from, struct diag *d)
{
    x->scalar[i] = i == 0;
    return !from ||
           read_residues(x, limber_scalar_format(x->problem->c.format), from, 1, &x->scalar[i]) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s: no integer, but contract.modulus needs integers", i ? "beta" : "alpha");
}

/* Computes the result of a group. */
static bool compute_group(struct modular *x, struct report *r, struct diag *d)
{
    const limber_problem *p = x->problem;

    memset(x->result, 0, (size_t)group_elements(x) * sizeof *x->result);
    for (int64_t j = 0; p->k && j < p->n; j += x->block[1])
        for (int64_t i = 0; i < p->m; i += x->block[0])
            if (!compute_block(x, i, p->m - i < x->block[0] ? p->m - i : x->block[0], j,
                               p->n - j < x->block[1] ? p->n - j : x->block[1], r, d))
                return false;
    return true;
}

/* Computes all groups, and then stores them. */
static bool compute(struct modular *x, struct report *r, struct diag *d)
{
    const limber_problem *p = x->problem;

    for (int64_t g = 0; g < x->stated->groups; g++) {
        choose_group(x, g);
        if (!compute_group(x, r, d))
            return false;
    }
    for (int64_t g = 0; g < x->stated->groups; g++) {
        choose_group(x, g);
        limber_run_pieces(x->ctx,
                          &(struct division){ .groups = 1,
                                              .lines = p->m,
                                              .vectors = 1,
                                              .seconds = 2e-9 * (double)group_elements(x) },
                          store_rows, x);
    }
    return true;
}

/* Chooses the functions of the best instruction set that this CPU has. */
static void choose_code(struct modular *x)
{
    const unsigned cpu = limber_cpu_here();

#define BEST(name) LIMBER_BEST(LIMBER_FALLBACK, cpu, name, name)
    x->reduce = BEST(limber_residues_reduce);
    x->split = BEST(limber_residues_split);
    x->join = BEST(limber_residues_join);
    x->shorten = BEST(limber_residues_shorten);
#undef BEST
}

/* Computes products of real matrices in host memory modulo contract->modulus, from 2 to 2^63 - 1.
 */
bool limber_modular_multiply(limber_context *ctx, const limber_problem *p,
                             const struct problem *stated, struct report *r, struct diag *d)
{
    struct modular x = {
        .ctx = ctx, .problem = p, .stated = stated, .p = (int64_t)p->contract->modulus
    };
    const double began = limber_now();
    bool ok;

    choose_code(&x);
    if (x.p > 256 && !limber_moduli_choose(&x.moduli, x.p, p->k))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "k = %lld is too large", (long long)p->k);
    x.planes = x.moduli.count ? x.moduli.count : 1;
    if (!read_scalar(&x, 0, p->alpha, d) || !read_scalar(&x, 1, p->beta, d) || !check_groups(&x, d))
        return false;
    if (r) {
        limber_report_library(r, "", x.moduli.count ? "ozaki2" : "native", 0);
        r->rows = x.planes;
    }
    choose_blocks(&x, ctx->workspace ? (double)ctx->workspace : BUDGET);
    ok = allocate(&x, d) && compute(&x, r, d);
    release(&x);
    if (r)
        r->seconds_run = limber_now() - began - r->seconds_scan - r->seconds_compile;
    return ok;
}
