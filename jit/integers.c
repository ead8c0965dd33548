/* SPDX-License-Identifier: BSD-3-Clause
 * Native products of integers by plain loops modulo 2^64: products with a vector, small products,
 * and larger ones whose elements have so many bits that limbs or residues would take longer.  Sums
 * wrap, so every order of additions gives the same bits. */
#include "jit/ways.h"

#include "ir/num/prim.h"

#include <string.h>

enum {
    SMALL = 1 << 13, /* multiply-adds up to which this code computes all products */
    /* multiply-adds up to which it computes products whose elements have many bits */
    LARGE = 1 << 25,
    BITS = 32, /* elements have many bits if one of A and one of B have more than this together */
    SAMPLE = 32, /* elements of an operand that are sampled */
    COLUMNS = 8, /* columns of C whose sums are in registers */
    DEPTH = 512, /* elements along k that are extended to 64 bits at once */
    ROWS = 1024, /* rows whose sums are on the stack */
    TASK = 1 << 16 /* smallest number of multiply-adds of a task */
};

/* Returns the reason why the way `integers` (a code path) cannot compute the call, as text; NULL if
 * it can. */
static const char *why_not_integers(const limber_context *ctx, const struct problem *p)
{
    if (p->contract.promise != LIMBER_CONTRACT_NATIVE || p->contract.scheme || p->part.roundings)
        return "it serves native products";
    if (!ctx->machine.cpu || p->shape || !limber_is_integer(p->fa) || !limber_is_integer(p->fb) ||
        !limber_is_integer(p->fc))
        return "it serves integers on CPUs";
    if (p->fa.size + p->fb.size == 2)
        return "bytes are faster as limbs";
    if (p->k == 0 || p->m > LARGE || p->n > LARGE ||
        (!limber_has_vector(p) &&
         (p->k > LARGE || p->m * p->n > LARGE || p->m * p->n * p->k > LARGE)))
        return "the product is large, or has k = 0";
    return p->c.inner >= p->n && limber_is_strided(p) ? NULL : "the operands lie otherwise";
}

/* Returns the number of bits, including a sign, that the largest of some sampled elements needs. */
static int sampled_bits(const struct view *v, limber_format f, int64_t lines, int64_t k)
{
    const int64_t step = lines * k / SAMPLE + 1;
    uint64_t all = 0;

    for (int64_t at = 0; at < lines * k; at += step) {
        const int64_t x = limber_load_int(f, limber_view_at(v, at / k, at % k, f.size));

        all |= (uint64_t)(x < 0 && f.kind == LIMBER_KIND_INT ? ~x : x);
    }
    return all ? 65 - __builtin_clzll(all) : 1;
}

/* True if plain loops are expected to be faster than limbs or residues: the product has a vector,
 * is small, or its elements have many bits. */
static bool integers_suit_data(struct attempt *x)
{
    const struct problem *p = x->p;
    const struct view a = limber_group_a(p, 0), b = limber_group_b(p, 0);

    return limber_has_vector(p) || p->m * p->n * p->k <= SMALL ||
           sampled_bits(&a, p->fa, p->m, p->k) + sampled_bits(&b, p->fb, p->n, p->k) > BITS;
}

/* ---- loops over vectors and matrices --------------------------------------------------------- */

/* Runs the statement `work` for each i < n, with element i in the variable v.  Elements are `step`
 * elements apart. */
#define EACH(type, work) \
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++, from += step * (int64_t)sizeof(type)) \
    { \
        type v; \
\
        memcpy(&v, from, sizeof v); \
        work; \
    } \
    break
#define EACH_OF(f, work) \
    switch ((f).size * 2 + ((f).kind == LIMBER_KIND_UINT)) { \
    case 2: EACH(int8_t, work); \
    case 3: EACH(uint8_t, work); \
    case 4: EACH(int16_t, work); \
    case 8: EACH(int32_t, work); \
    default: EACH(uint64_t, work); \
    }

/* Extends n elements, `step` elements apart, to 64-bit numbers at `to`. */
static void extend_to_64_bits(limber_format f, const char *from, int64_t step, int64_t n,
                              uint64_t *to)
{
    EACH_OF(f, to[i] = (uint64_t)v)
}

/* Returns the sum, modulo 2^64, of the products of n elements, `step` elements apart, and n numbers
 * x. */
static uint64_t dot_product(limber_format f, const char *from, int64_t step, int64_t n,
                            const uint64_t *x)
{
    uint64_t sum = 0;

    EACH_OF(f, sum += (uint64_t)v * x[i])
    return sum;
}

/* Adds x times element i to sum[i], for n elements, modulo 2^64. */
static void add_multiple(limber_format f, const char *from, int64_t step, int64_t n, uint64_t x,
                         uint64_t *sum)
{
    EACH_OF(f, sum[i] += (uint64_t)v * x)
}

/* The state of a call while its tasks run. */
struct integers {
    const struct problem *p;
    /* number of rows of C (columns if `turned`); how many of these a task computes; tasks of a
     * group */
    int64_t lines, rows, tasks;
    bool turned; /* C has one row, so C^T = B^T A^T is computed */
};

/* Returns the address of element (i, j) of C. */
static char *result_address(const struct output_view *c, limber_format f, int64_t i, int64_t j)
{
    return (char *)c->data + (i * c->row + j * c->col) * f.size;
}

/* Computes results [first, end) of a matrix a times a vector v. */
static void run_vector(const struct integers *x, const struct view *a, limber_format fa,
                       const struct view *v, limber_format fv, const struct output_view *c,
                       int64_t first, int64_t end)
{
    const struct problem *p = x->p;
    const struct limber_scalars scalars = { p->alpha, p->beta, p->fc };
    uint64_t sum[ROWS], y[DEPTH];

    for (int64_t i0 = first; i0 < end; i0 += ROWS) {
        const int64_t m = end - i0 < ROWS ? end - i0 : ROWS;

        memset(sum, 0, sizeof sum);
        for (int64_t p0 = 0; p0 < p->k; p0 += DEPTH) {
            const int64_t n = p->k - p0 < DEPTH ? p->k - p0 : DEPTH;

            extend_to_64_bits(fv, limber_view_at(v, 0, p0, fv.size), v->p, n, y);
            for (int64_t q = 0; q < n && a->line == 1; q++)
                add_multiple(fa, limber_view_at(a, i0, p0 + q, fa.size), 1, m, y[q], sum);
            for (int64_t i = 0; i < m && a->line != 1; i++)
                sum[i] += dot_product(fa, limber_view_at(a, i0 + i, p0, fa.size), a->p, n, y);
        }
        for (int64_t i = 0; i < m; i++)
            limber_store_wrapped(
                result_address(c, p->fc, x->turned ? 0 : i0 + i, x->turned ? i0 + i : 0), p->fc,
                sum[i], &scalars);
    }
}

/* Computes rows [first, end) of a product.  The sum over each part of k is added to C. That gives
 * the right bits, since C wraps just as a sum over all of k would. */
static void run_matrix(const struct problem *p, const struct view *a, const struct view *b,
                       const struct output_view *c, int64_t first, int64_t end)
{
    static const int64_t one = 1;
    const struct limber_scalars begin = { p->alpha, p->beta, p->fc },
                                continued = { p->alpha, &one, p->fc };
    uint64_t panel[DEPTH][COLUMNS], row[DEPTH];

    memset(panel, 0, sizeof panel);
    for (int64_t j = 0; j < p->n; j += COLUMNS)
        for (int64_t p0 = 0; p0 < p->k; p0 += DEPTH) {
            const int64_t n = p->k - p0 < DEPTH ? p->k - p0 : DEPTH,
                          live = p->n - j < COLUMNS ? p->n - j : COLUMNS;

            for (int64_t q = 0; q < n; q++)
                extend_to_64_bits(p->fb, limber_view_at(b, j, p0 + q, p->fb.size), b->line, live,
                                  panel[q]);
            for (int64_t i = first; i < end; i++) {
                uint64_t sum[COLUMNS] = { 0 };

                extend_to_64_bits(p->fa, limber_view_at(a, i, p0, p->fa.size), a->p, n, row);
                for (int64_t q = 0; q < n; q++)
                    _Pragma("GCC unroll 8") for (int u = 0; u < COLUMNS; u++) sum[u] +=
                        row[q] * panel[q][u];
                for (int64_t u = 0; u < live; u++)
                    limber_store_wrapped(result_address(c, p->fc, i, j + u), p->fc, sum[u],
                                         p0 ? &continued : &begin);
            }
        }
}

/* Task: computes some rows of one group's product. */
static bool run_task(void *arg, int64_t task, int worker, struct diag *d)
{
    const struct integers *x = arg;
    const struct problem *p = x->p;
    const int64_t g = task / x->tasks, first = task % x->tasks * x->rows,
                  end = first + x->rows < x->lines ? first + x->rows : x->lines;
    const struct view a = limber_group_a(p, g), b = limber_group_b(p, g);
    const struct output_view c = limber_group_c(p, g);

    (void)worker, (void)d;
    if (x->turned)
        run_vector(x, &b, p->fb, &a, p->fa, &c, first, end);
    else if (p->n == 1)
        run_vector(x, &a, p->fa, &b, p->fb, &c, first, end);
    else
        run_matrix(p, &a, &b, &c, first, end);
    return true;
}

static void report_integers(struct attempt *x)
{
    limber_report_library(x->r, x->ctx->machine.backend->name, "integer", 0);
}

/* Computes C by plain loops of integer arithmetic, in parallel tasks of some rows of C, or of some
 * columns if C has one row.  RAN_not if limbs or residues would be faster. */
static enum ran run_integers(struct attempt *at)
{
    const struct problem *p = at->p;
    const double start = at->r ? limber_now() : 0;
    struct integers x = { .p = p, .turned = p->n != 1 && p->m == 1 };
    const double work = (double)p->m * (double)p->n * (double)p->k;

    if (!integers_suit_data(at))
        return RAN_not;
    x.lines = x.turned ? p->n : p->m;
    x.rows = limber_task_lines(at->ctx, x.lines, work, TASK);
    x.tasks = (x.lines - 1) / x.rows + 1;
    limber_tasks_run(at->ctx, x.tasks * p->groups, work * (double)p->groups > 2.0 * TASK, run_task,
                     &x);
    if (at->r) {
        report_integers(at);
        at->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_integers = { .id = WAY_integers,
                                         .refuses = why_not_integers,
                                         .suits = integers_suit_data,
                                         .run = run_integers,
                                         .report = report_integers };
