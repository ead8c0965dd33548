/* SPDX-License-Identifier: BSD-3-Clause
 * Small products, and products with a few vectors, under the contracts `correct` and `bits`:
 * library code computes them without scan, key or compilation.  Correctly rounded results also
 * keep contracts in bits. */
#include "jit/tasks.h"
#include "jit/ways.h"

#include <stdatomic.h>
#include <stdio.h>

/* WORK: largest number of multiply-adds of a product that this code computes.  NATIVE_WORK: that
 * number for bits=NATIVE_BITS and less, where native sums in binary64 keep the contract.  FEW: a
 * matrix is multiplied by at most this many vectors one by one; for more vectors kernels are
 * faster.  BLOCK_LINES: rows by which several vectors are multiplied in turn, so that the rows stay
 * in a cache.  These limits are constants, not predictions from the machine's rates: under
 * contracts in bits the results' bits depend on which code computes them, and should not depend on
 * the machine.  On a Zen 4 double-double sums take 0.60 of a kernel's time for 64 x 64 x 64 doubles
 * of random data and 0.75 for 128 x 128 x 128 (floats: 0.80, 1.07), and 0.43 of a native kernel's
 * time for 16 x 16 x 16, 1.02 for 32 x 32 x 32. */
enum {
    WORK = 64 * 64 * 64,
    NATIVE_WORK = 16 * 16 * 16,
    NATIVE_BITS = 44,
    FEW = 6,
    BLOCK_LINES = 64
};

/* Returns the number of vectors (columns of B or rows of A) by which the other operand is
 * multiplied one by one; 0 if they are many, or if the product is small as a whole. */
static int64_t count_vectors(const struct problem *p)
{
    const int64_t n = p->m < p->n ? p->m : p->n;

    return p->k > 0 && (n == 1 || (n <= FEW && !limber_is_small(p->m, p->n, p->k, WORK))) ? n : 0;
}

/* True if native sums in binary64 keep the contract, and are faster for all but the smallest
 * products. */
static bool is_native_faster(const struct problem *p)
{
    return p->contract.promise == LIMBER_CONTRACT_BITS && p->contract.bits <= NATIVE_BITS &&
           p->fc.size == 8;
}

/* True if the library code keeps p's contract.  *allowed: the allowed error before rounding,
 * relative to |A||B|.  It is 0 for binary32 results, which are computed faster if they are
 * correctly rounded. */
static bool can_keep_contract(const struct problem *p, double *allowed)
{
    bool ok = limber_pairs_serve(&p->contract, allowed);

    if (p->fc.size == 4)
        *allowed = 0;
    return ok;
}

/* Returns the reason why the way `pairs` (a code path) cannot compute the call, as text; NULL if it
 * can. */
static const char *why_not_pairs(const limber_context *ctx, const struct problem *p)
{
    double allowed;

    if (!can_keep_contract(p, &allowed))
        return "it serves correct results and those in bits";
    if (!ctx->machine.cpu || p->shape || p->part.roundings || !limber_format_is_binary(p->fa) ||
        !limber_format_is_binary(p->fb) || !limber_format_is_binary(p->fc))
        return "it serves products of f64 and f32 on CPUs";
    if (is_native_faster(p) ? !limber_is_small(p->m, p->n, p->k, NATIVE_WORK) :
                              !count_vectors(p) && !limber_is_small(p->m, p->n, p->k, WORK))
        return "the product is large";
    return p->c.inner >= p->n && limber_is_strided(p) ? NULL : "the operands lie otherwise";
}

/* If the caller names the scheme `pairs` (double-double sums), checks that the library's code or
 * the interpreter can compute the problem with it. */
bool limber_check_small(const limber_context *ctx, const struct problem *p, struct diag *d)
{
    return !limber_names_pairs(&p->contract) ||
           (limber_has_way(ctx, WAY_pairs) && !why_not_pairs(ctx, p)) ||
           ctx->machine.backend == &limber_backend_interp ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "scheme pairs: serves correct and bits of f64 and f32 on CPUs, of up to %d "
                       "vectors and to %d multiply-adds (bits up to %d of f64: %d) and k = %d",
                       FEW, WORK, NATIVE_BITS, NATIVE_WORK, LIMBER_SMALL_K);
}

/* A small product while its tasks run. */
struct small {
    limber_context *ctx;
    const struct problem *p;
    double allowed;
    /* If B's columns or A's rows are few: their number.  Each of these vectors is multiplied by
     * rows or columns of the other operand.  0 for other products, which are not divided into
     * tasks. */
    int64_t vectors;
    atomic_llong slow; /* number of elements that were recomputed exactly */
};

/* Reduces a call to one vector and some rows of the matrix by which it is multiplied. */
static void select_piece(const struct problem *p, const struct piece *w, struct call *call)
{
    const bool by_columns = p->n <= p->m; /* the vectors are columns of B */
    struct view *vector = by_columns ? &call->b : &call->a,
                *matrix = by_columns ? &call->a : &call->b;
    int64_t *one = by_columns ? &call->n : &call->m, *lines = by_columns ? &call->m : &call->n;
    const int64_t to_vector = by_columns ? call->c.col : call->c.row,
                  to_line = by_columns ? call->c.row : call->c.col;

    *one = 1;
    *lines = w->end - w->first;
    vector->data = (const char *)vector->data +
                   w->vector * vector->line * (by_columns ? p->fb.size : p->fa.size);
    matrix->data = (const char *)matrix->data +
                   w->first * matrix->line * (by_columns ? p->fa.size : p->fb.size);
    call->c.data = (char *)call->c.data + (w->vector * to_vector + w->first * to_line) * p->fc.size;
}

/* Computes some results of a product with a vector, or a complete product, by double-double sums.
 */
static void run_piece(void *arg, const struct piece *w)
{
    struct small *s = arg;
    const struct problem *p = s->p;
    const struct target *t = &s->ctx->machine.target;
    struct call call = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = limber_group_a(p, w->group),
        .b = limber_group_b(p, w->group),
        .c = limber_group_c(p, w->group),
        .alpha = p->alpha,
        .beta = p->beta,
    };
    int64_t slow;

    if (s->vectors)
        select_piece(p, w, &call);
    slow = s->ctx->machine.cpu->small(&call, t, p->fa, p->fb, p->fc, s->allowed);
    if (slow)
        atomic_fetch_add(&s->slow, slow);
}

/* Returns the predicted seconds of one group on one core.  Double-double sums reach a sixteenth of
 * the rate of binary64 in small products and in products with vectors. */
static double pairs_seconds(const struct target *t, const struct problem *p)
{
    return (double)p->m * (double)p->n * (double)p->k / (t->rate[UNIT_f64] / 16);
}

/* Fills the report of a product that the scheme `pairs` computes, except for its times. */
void limber_pairs_report(struct attempt *x)
{
    struct report *r = x->r;
    const double scan = r->seconds_scan;

    limber_report_library(r, x->ctx->machine.backend->name, "pairs", 0);
    r->seconds_scan = scan;
}

/* The way `pairs` (a code path): computes small products by double-double sums. */
static enum ran run_pairs(struct attempt *x)
{
    const struct problem *p = x->p;
    struct small s = { .ctx = x->ctx, .p = p, .vectors = count_vectors(p) };
    const double start = x->r ? limber_now() : 0;

    (void)can_keep_contract(p, &s.allowed);
    limber_run_pieces(x->ctx,
                      &(struct division){ .groups = p->groups,
                                          .lines = !s.vectors  ? 1 :
                                                   p->m > p->n ? p->m :
                                                                 p->n,
                                          .vectors = s.vectors ? s.vectors : 1,
                                          .most = s.vectors > 1 ? BLOCK_LINES : 0,
                                          .seconds = pairs_seconds(&x->ctx->machine.target, p) },
                      run_piece, &s);
    if (x->r) {
        limber_pairs_report(x);
        x->r->recomputed = s.slow;
        x->r->seconds_run = limber_now() - start;
    }
    return RAN_done;
}

const struct way limber_way_pairs = {
    .id = WAY_pairs, .refuses = why_not_pairs, .run = run_pairs, .report = limber_pairs_report
};
