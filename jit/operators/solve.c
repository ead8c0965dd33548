/* SPDX-License-Identifier: BSD-3-Clause
 * Linear systems by iterative refinement: factors in binary64, residuals as exact sums, and
 * corrections until the solution no longer changes.  Products are computed by the library's public
 * calls. */
#include "jit/operators/solve.h"

#include "jit/operators/operators.h"

#include <math.h>
#include <string.h>

/* largest number of refinement steps, if the caller gives none */
enum { STEPS = 60 };

/* A linear system and its memory. */
struct system {
    const limber_solve_call *call;
    struct factors f;
    limber_prepared *a; /* A as a prepared operand, scanned and packed once */
    quad *x, *b, *r; /* n x columns, row-major: the solution, B, and residuals or corrections */
    double *d; /* n x columns: corrections in binary64 */
    /* for GMRES: A in binary128, row-major; scratch for a column and the Krylov vectors */
    quad *wide, *room;
    limber_solve_report report;
};

/* ---- preparing the system -------------------------------------------------------------------- */

/* Converts a matrix to dense rows of another format. */
static bool convert_matrix(void *to, limber_format f, const limber_matrix *m, int64_t rows,
                           int64_t cols, struct diag *d)
{
    const size_t size = m->format.size;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            if (!limber_format_convert((char *)to + (i * cols + j) * f.size, f,
                                       (const char *)m->data +
                                           (i * m->row_stride + j * m->col_stride) * (int64_t)size,
                                       m->format, 1, LIMBER_ROUND_NEAREST, d))
                return false;
    return true;
}

static bool is_finite(const double *x, int64_t count)
{
    bool all = true;

    for (int64_t i = 0; i < count; i++)
        all &= isfinite(x[i]);
    return all;
}

/* Computes f->norm, the 1-norm of the matrix in f->lu, before the matrix is factored. room: scratch
 * of n numbers. */
static void sum_columns(struct factors *f, double *room)
{
    memset(room, 0, (size_t)f->n * sizeof *room);
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t j = 0; j < f->n; j++)
            room[j] += fabs(f->lu[i * f->n + j]);
    for (int64_t j = 0; j < f->n; j++)
        f->norm = fmax(f->norm, room[j]);
}

/* Allocates x, b, r, d, the factors and their row exchanges. */
static bool alloc_system(struct system *s, struct diag *d)
{
    const limber_allocator *m = &s->f.ctx->allocator;
    const size_t n = (size_t)s->f.n, all = n * (size_t)s->call->columns;

    s->x = limber_memory_alloc(m, all * sizeof *s->x);
    s->b = limber_memory_alloc(m, all * sizeof *s->b);
    s->r = limber_memory_alloc(m, all * sizeof *s->r);
    s->d = limber_memory_alloc(m, (all > n ? all : n) * sizeof *s->d);
    s->f.lu = limber_memory_alloc(m, n * n * sizeof *s->f.lu);
    s->f.swap = limber_memory_alloc(m, n * sizeof *s->f.swap);
    return (s->x && s->b && s->r && s->d && s->f.lu && s->f.swap) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the factors");
}

static void free_system(struct system *s)
{
    void *const all[] = { s->x, s->b, s->r, s->d, s->f.lu, s->f.swap, s->wide, s->room };

    for (size_t i = 0; i < COUNT(all); i++)
        limber_memory_free(&s->f.ctx->allocator, all[i]);
    limber_prepared_free(s->a);
}

/* Copies A to binary128 for GMRES, unless that was done before.  False if memory runs out. */
static bool copy_to_binary128(struct system *s, struct diag *d)
{
    const size_t n = (size_t)s->f.n;

    if (s->wide)
        return true;
    s->wide = limber_memory_alloc(&s->f.ctx->allocator, n * n * sizeof *s->wide);
    if (!s->wide)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a in binary128");
    return convert_matrix(s->wide, LIMBER_F128, &s->call->a, s->f.n, s->f.n, d);
}

/* Returns false, with an error, if A is singular.  Rounding may turn a singular matrix into a
 * regular one with a condition of about 2^53 / n or more, whose factors would give a meaningless
 * solution.  So if the condition is above 2^46 / n, the exact determinant is tested. */
static bool is_regular(struct system *s, struct diag *d)
{
    const limber_allocator *m = &s->f.ctx->allocator;
    const int64_t n = s->f.n;
    uint64_t *room;
    bool singular;

    if (s->report.condition < 0x1p-6 / DBL_EPSILON / (double)n)
        return true;
    if (!copy_to_binary128(s, d))
        return false;
    room = limber_memory_alloc(m, (size_t)(n * n) * sizeof *room);
    if (!room)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for remainders");
    singular = limber_is_singular(s->wide, n, room);
    limber_memory_free(m, room);
    return !singular || limber_fail(d, LIMBER_STATUS_NO_SCHEME, "a is singular");
}

/* Turns the status of a public call into an error in *d.  True if there was no error. */
static bool forward_error(limber_status status, struct diag *d)
{
    return !status || limber_fail(d, status, "%s", limber_error_text());
}

/* Copies the system's matrices, factors A in binary64 and prepares A for residuals.  Fails if A is
 * singular, or an element is not finite. */
static bool factor_system(struct system *s, struct diag *d)
{
    const limber_solve_call *c = s->call;
    int64_t zero = -1;

    if (!alloc_system(s, d) || !convert_matrix(s->f.lu, LIMBER_F64, &c->a, c->n, c->n, d) ||
        !convert_matrix(s->d, LIMBER_F64, &c->b, c->n, c->columns, d) ||
        !convert_matrix(s->b, LIMBER_F128, &c->b, c->n, c->columns, d))
        return false;
    if (!is_finite(s->f.lu, c->n * c->n) || !is_finite(s->d, c->n * c->columns))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: a value is not finite in binary64",
                           is_finite(s->f.lu, c->n * c->n) ? "b" : "a");
    sum_columns(&s->f, s->d);
    if (!limber_factor(&s->f, &zero, d))
        return d->status ||
               limber_fail(d, LIMBER_STATUS_NO_SCHEME, "a is singular in binary64: pivot %lld is 0",
                           (long long)zero + 1);
    s->report.condition = limber_factor_condition(&s->f, s->d, d);
    return !d->status && is_regular(s, d) &&
           forward_error(limber_prepare(s->f.ctx, c->a, c->n, c->n, LIMBER_SIDE_A, NULL, &s->a), d);
}

/* ---- refining the solution ------------------------------------------------------------------- */

/* Computes r = b - A x. */
static bool compute_residual(struct system *s, struct diag *d)
{
    const limber_contract correct = { .size = sizeof(limber_contract),
                                      .promise = LIMBER_CONTRACT_CORRECT };
    const quad minus = -1, one = 1;
    limber_problem p = LIMBER_PROBLEM_INIT;

    memcpy(s->r, s->b, (size_t)(s->f.n * s->call->columns) * sizeof *s->r);
    p.m = p.k = s->f.n;
    p.n = s->call->columns;
    p.a = s->call->a;
    p.prepared_a = s->a;
    p.b = (limber_matrix){ s->x, LIMBER_F128, p.n, 1 };
    p.c = (limber_output){ s->r, LIMBER_F128, p.n, 1 };
    p.alpha = &minus, p.beta = &one;
    p.contract = &correct;
    return forward_error(limber_run(s->f.ctx, &p, NULL), d);
}

/* Returns the largest value, over all columns, of max |x| / max |y|. */
static double largest_ratio(const quad *x, const quad *y, int64_t n, int64_t columns)
{
    double largest = 0;

    for (int64_t j = 0; j < columns; j++) {
        double above = 0, below = 0;

        for (int64_t i = 0; i < n; i++) {
            above = fmax(above, limber_quad_size(x[i * columns + j]));
            below = fmax(below, limber_quad_size(y[i * columns + j]));
        }
        if (above > 0)
            largest = fmax(largest, below > 0 ? above / below : INFINITY);
    }
    return largest;
}

/* Computes r := A^-1 r approximately, from the factors or by GMRES. */
static bool correct_residual(struct system *s, struct diag *d)
{
    const int64_t n = s->f.n, columns = s->call->columns;

    if (s->report.method == LIMBER_SOLVE_GMRES) {
        quad *column = s->room + n * (KRYLOV + 1);

        for (int64_t j = 0; j < columns; j++) {
            for (int64_t i = 0; i < n; i++)
                column[i] = s->r[i * columns + j];
            limber_krylov(&s->f, s->wide, column, s->room);
            for (int64_t i = 0; i < n; i++)
                s->r[i * columns + j] = column[i];
        }
        return true;
    }
    for (int64_t i = 0; i < n * columns; i++)
        s->d[i] = (double)s->r[i];
    if (!limber_factor_solve(&s->f, s->d, columns, d))
        return false;
    for (int64_t i = 0; i < n * columns; i++)
        s->r[i] = (quad)s->d[i];
    return true;
}

/* Returns the size of a correction, relative to x, at which refinement ends: half an ulp of the
 * result's format, but at least 2^-110, since r and x are in binary128. */
static double tolerance(limber_format f)
{
    return fmax(0x1p-110, ldexp(1, -limber_format_sig(f) - 2));
}

/* Refines the solution from x = 0.  *settled: true if the last correction is small enough.  False
 * on failure. */
static bool refine(struct system *s, bool *settled, struct diag *d)
{
    const int64_t n = s->f.n, columns = s->call->columns;
    const int largest = s->call->most_steps ? s->call->most_steps : STEPS;
    double last = INFINITY;

    memset(s->x, 0, (size_t)(n * columns) * sizeof *s->x);
    *settled = false;
    for (int step = 0; step < largest && !*settled; step++) {
        if (!compute_residual(s, d))
            return false;
        s->report.residual = largest_ratio(s->r, s->b, n, columns);
        if (!correct_residual(s, d))
            return false;
        for (int64_t i = 0; i < n * columns; i++)
            s->x[i] += s->r[i];
        s->report.change = largest_ratio(s->r, s->x, n, columns);
        s->report.steps++;
        *settled = s->report.change <= tolerance(s->call->x.format);
        if (step > 1 && !(s->report.change < last / 2))
            break;
        last = s->report.change;
    }
    return true;
}

/* Refines by GMRES, preconditioned by the factors.  Called if refinement by the factors alone did
 * not converge. */
static bool try_krylov(struct system *s, bool *settled, struct diag *d)
{
    const limber_allocator *m = &s->f.ctx->allocator;
    const size_t n = (size_t)s->f.n;

    s->room = limber_memory_alloc(m, n * (KRYLOV + 2) * sizeof *s->room);
    if (!s->room)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for GMRES");
    s->report.method = LIMBER_SOLVE_GMRES;
    return copy_to_binary128(s, d) && refine(s, settled, d);
}

/* Converts the solution to the format of the caller's X, and stores it there. */
static void store_solution(const struct system *s)
{
    const limber_output *x = &s->call->x;
    struct diag ignored = { 0 };

    for (int64_t i = 0; i < s->call->n; i++)
        for (int64_t j = 0; j < s->call->columns; j++)
            limber_format_convert((char *)x->data + (i * x->row_stride + j * x->col_stride) *
                                                        (int64_t)x->format.size,
                                  x->format, &s->x[i * s->call->columns + j], LIMBER_F128, 1,
                                  LIMBER_ROUND_NEAREST, &ignored);
}

/* Factors A and refines the solution; if corrections do not shrink, refines again by GMRES. */
static bool solve_system(struct system *s, struct diag *d)
{
    bool settled = false;

    if (!factor_system(s, d) || !refine(s, &settled, d) ||
        (!settled && !try_krylov(s, &settled, d)))
        return false;
    if (!settled)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "corrections do not shrink after %d steps: the last is %.1e of x, the "
                           "condition of a is about %.1e",
                           s->report.steps, s->report.change, s->report.condition);
    store_solution(s);
    return true;
}

/* Solves a system that was checked and is not empty. */
bool limber_solve_run(limber_context *ctx, const limber_solve_call *c, limber_solve_report *r,
                      struct diag *d)
{
    struct system s = { .call = c, .f = { .ctx = ctx, .n = c->n }, .report = *r };
    bool ok = solve_system(&s, d);

    *r = s.report;
    free_system(&s);
    return ok;
}
