/* SPDX-License-Identifier: BSD-3-Clause
 * Native products of integers by plain loops modulo 2^64, if limbs or residues would take longer:
 * products with a vector, small products, and larger ones whose elements have many bits.  Sums
 * wrap, so every order of additions gives the same bits. */
#include "jit/tasks.h"
#include "jit/ways.h"

#include "ir/num/prim.h"

#include <math.h>
#include <string.h>

enum {
    SAMPLE = 32, /* elements of an operand that are sampled */
    COLUMNS = 8, /* columns of C whose sums are in registers */
    DEPTH = 512, /* elements along k that are extended to 64 bits at once */
    ROWS = 1024 /* rows whose sums are on the stack */
};

/* ---- what this code and a kernel cost -------------------------------------------------------- */

/* Cycles of one core, fitted to times on a Zen 4 with AVX2 and with VNNI: products of i16, i32 and
 * i64 of 7 to 63 bits, n = 8 to 320. */
enum {
    STORE = 10, /* plain loops: to store an element of C */
    START = 9000, /* kernel of limbs: to scan, find the kernel and launch it */
    ELEMENT = 3, /* kernel of limbs: to scan, pack or store an element */
    LIMB = 2, /* kernel of limbs: to make one limb (eight bits) of an element */
    /* kernel of limbs: to combine a sum's limbs, for each word of 64 bits after the first */
    WORD = 150,
    /* LINES: a kernel packs and stores this many rows together.  PANEL: this many columns. */
    LINES = 4,
    PANEL = 16
};

/* Returns cycles per second of one core.  Floating-point units do two vectors a cycle. */
static double clock_rate(const struct target *t)
{
    return t->rate[UNIT_f64] / (2 * (t->vector_bits / 64.0));
}

/* Returns n rounded up to a multiple of `to`. */
static double padded(int64_t n, int64_t to)
{
    return (double)((n + to - 1) / to * to);
}

/* Predicted seconds of a group on one core: one multiply-add a cycle. */
static double loops_seconds(const struct target *t, const struct problem *p)
{
    const double n = limber_has_vector(p) ? (double)p->n : padded(p->n, COLUMNS);

    return (double)p->m * (n * (double)p->k + (double)p->n * STORE) / clock_rate(t);
}

/* Predicted seconds of a group on one core, if a kernel multiplies limbs.  bits_a, bits_b: bits
 * that elements of A and B need. */
static double limbs_seconds(const struct target *t, const struct problem *p, int bits_a, int bits_b)
{
    const double m = padded(p->m, LINES), k = (double)p->k, n = padded(p->n, PANEL);
    const int a = (bits_a + 7) / 8, b = (bits_b + 7) / 8;
    const int words = (bits_a + bits_b + ilogb(k) + 6) / 64; /* after the first */
    /* products of limbs above 2^64 are not computed */
    const int rows = a + b > 9 ? a * b - (a + b - 8) * (a + b - 9) / 2 : a * b;
    const double elements = m * k + k * n + m * n;

    return (START + elements * (ELEMENT + LIMB * (a + b) / 2.0) + m * n * words * WORD) /
               clock_rate(t) +
           m * n * k * rows / t->rate[UNIT_i8];
}

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
    if (p->k == 0 || loops_seconds(&ctx->machine.target, p) >
                         limbs_seconds(&ctx->machine.target, p, 8 * p->fa.size, 8 * p->fb.size))
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

/* True if plain loops are expected to be faster than limbs or residues of as many bits as the data
 * seem to have. */
static bool integers_suit_data(struct attempt *x)
{
    const struct problem *p = x->p;
    const struct view a = limber_group_a(p, 0), b = limber_group_b(p, 0);
    const struct target *t = &x->ctx->machine.target;
    const double seconds = loops_seconds(t, p);

    /* each operand has at least one bit; if loops are faster even then, nothing is sampled */
    return seconds <= limbs_seconds(t, p, 1, 1) ||
           seconds <= limbs_seconds(t, p, sampled_bits(&a, p->fa, p->m, p->k),
                                    sampled_bits(&b, p->fb, p->n, p->k));
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

/* Returns the sum, modulo 2^64, of the products of n elements of two vectors of one format, `step`
 * and step_x elements apart. */
static uint64_t dot_product_of_vectors(limber_format f, const char *from, int64_t step,
                                       const char *x, int64_t step_x, int64_t n)
{
    uint64_t sum = 0;

    EACH_OF(f, __typeof__(v) w; memcpy(&w, x, sizeof w); x += step_x * (int64_t)sizeof w;
            sum += (uint64_t)v * (uint64_t)w)
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
    bool turned; /* C has one row, so C^T = B^T A^T is computed */
    bool dots; /* the call is a batch of dot products, each of which is a line of a piece */
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

    /* a vector that is used once is not extended */
    if (end == first + 1 && limber_format_equal(fa, fv)) {
        sum[0] = dot_product_of_vectors(fa, limber_view_at(a, first, 0, fa.size), a->p,
                                        limber_view_at(v, 0, 0, fv.size), v->p, p->k);
        limber_store_wrapped(result_address(c, p->fc, x->turned ? 0 : first, x->turned ? first : 0),
                             p->fc, sum[0], &scalars);
        return;
    }
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

/* Computes the dot products [first, end) of a batch. */
static void run_dots(const struct problem *p, int64_t first, int64_t end)
{
    const struct limber_scalars scalars = { p->alpha, p->beta, p->fc };

    for (int64_t g = first; g < end; g++)
        limber_store_wrapped(
            (char *)p->c.data + g * p->at.step_c * p->fc.size, p->fc,
            dot_product_of_vectors(p->fa, (const char *)p->a.data + g * p->at.step_a * p->fa.size,
                                   p->a.p, (const char *)p->b.data + g * p->at.step_b * p->fb.size,
                                   p->b.p, p->k),
            &scalars);
}

/* Computes some rows of one group's product, or some products of a batch. */
static void run_piece(void *arg, const struct piece *w)
{
    const struct integers *x = arg;
    const struct problem *p = x->p;
    const struct view a = limber_group_a(p, w->group), b = limber_group_b(p, w->group);
    const struct output_view c = limber_group_c(p, w->group);

    if (x->dots)
        run_dots(p, w->first, w->end);
    else if (x->turned)
        run_vector(x, &b, p->fb, &a, p->fa, &c, w->first, w->end);
    else if (p->n == 1)
        run_vector(x, &a, p->fa, &b, p->fb, &c, w->first, w->end);
    else
        run_matrix(p, &a, &b, &c, w->first, w->end);
}

/* Fills the report of a product by loops of integers. */
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
    struct integers x = { .p = p,
                          .turned = p->n != 1 && p->m == 1,
                          .dots = limber_is_batch_of_dots(p) && limber_format_equal(p->fa, p->fb) };
    struct division d = { .groups = p->groups, .lines = x.turned ? p->n : p->m, .vectors = 1 };

    if (!integers_suit_data(at))
        return RAN_not;
    d.seconds = loops_seconds(&at->ctx->machine.target, p);
    if (x.dots) {
        d.groups = 1;
        d.lines = p->groups;
        d.seconds *= (double)p->groups;
    }
    limber_run_pieces(at->ctx, &d, run_piece, &x);
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
