/* SPDX-License-Identifier: BSD-3-Clause
 * The decision: a call of the BLAS is computed by Limber, or there is a reason why it is not. */
#define _GNU_SOURCE     /* RTLD_DEFAULT */
#include "product.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Plain products are left alone below these sizes, multiply-adds and the shortest side.  Measured on one
 * core (Zen 5, AVX-512) beside OpenBLAS 0.3.21: a call costs a microsecond more, and Limber is ahead from
 * 48 x 48 x 48 on, but not where one side is under 16 to 32. */
static const double least_native = 64.0 * 64 * 64;
static const int64_t least_side = 32;

/* Calls of this thread that were decided and have not returned: what the BLAS behind calls inside itself,
 * CBLAS Fortran's names say, is no call of the program's. */
static _Thread_local int inside;

bool limber_blas_is_inside(void)
{
    return inside > 0 || limber_blas_is_second();
}

/* ---- what is wrong ------------------------------------------------------------------------------ */

static bool is_one_of(char letter, const char *letters)
{
    return letter && strchr(letters, letter);
}

/* Rows and columns of op(x) are given. */
static bool leads(const struct request *r, const struct argument *x, int64_t rows, int64_t cols)
{
    int64_t least = (x->op == 'N') == (r->order == BLAS_COLUMNS) ? rows : cols;

    return x->lead >= (least > 1 ? least : 1);
}

static int wrong_gemm(const struct request *r)
{
    if (!is_one_of(r->a.op, "NTC"))
        return 1;
    if (!is_one_of(r->b.op, "NTC"))
        return 2;
    if (r->m < 0 || r->n < 0 || r->k < 0)
        return r->m < 0 ? 3 : r->n < 0 ? 4 : 5;
    return !leads(r, &r->a, r->m, r->k) ? 8 : !leads(r, &r->b, r->k, r->n) ? 10 :
           !leads(r, &r->c, r->m, r->n) ? 13 : 0;
}

static int wrong_gemmt(const struct request *r)
{
    int wrong = wrong_gemm(r);

    if (!is_one_of(r->uplo, "UL"))
        return 1;
    return wrong && wrong < 3 ? wrong + 1 : wrong == 3 ? 4 : wrong;     /* it has no m */
}

static int wrong_symm(const struct request *r)
{
    int64_t order = r->side == 'L' ? r->m : r->n;

    if (!is_one_of(r->side, "LR") || !is_one_of(r->uplo, "UL"))
        return is_one_of(r->side, "LR") ? 2 : 1;
    if (r->m < 0 || r->n < 0)
        return r->m < 0 ? 3 : 4;
    return !leads(r, &r->a, order, order) ? 7 : !leads(r, &r->b, r->m, r->n) ? 9 :
           !leads(r, &r->c, r->m, r->n) ? 12 : 0;
}

/* Transposes are not conjugate, or conjugates no mere transposes, where the type is complex. */
static const char *ops_of_rank(const struct request *r)
{
    if (r->routine == BLAS_HERK || r->routine == BLAS_HER2K)
        return "NC";
    return r->type == 'c' || r->type == 'z' ? "NT" : "NTC";
}

static int wrong_rank(const struct request *r)
{
    bool two = r->routine == BLAS_SYR2K || r->routine == BLAS_HER2K;

    if (!is_one_of(r->uplo, "UL") || !is_one_of(r->a.op, ops_of_rank(r)))
        return is_one_of(r->uplo, "UL") ? 2 : 1;
    if (r->n < 0 || r->k < 0)
        return r->n < 0 ? 3 : 4;
    return !leads(r, &r->a, r->n, r->k) ? 7 : two && !leads(r, &r->b, r->n, r->k) ? 9 :
           !leads(r, &r->c, r->n, r->n) ? two ? 12 : 10 : 0;
}

static int wrong_triangular(const struct request *r)
{
    int64_t order = r->side == 'L' ? r->m : r->n;

    if (!is_one_of(r->side, "LR") || !is_one_of(r->uplo, "UL"))
        return is_one_of(r->side, "LR") ? 2 : 1;
    if (!is_one_of(r->a.op, "NTC") || !is_one_of(r->diag, "NU"))
        return is_one_of(r->a.op, "NTC") ? 4 : 3;
    if (r->m < 0 || r->n < 0)
        return r->m < 0 ? 5 : 6;
    return !leads(r, &r->a, order, order) ? 9 : !leads(r, &r->b, r->m, r->n) ? 11 : 0;
}

int limber_blas_wrong(const struct request *r)
{
    if (r->order != BLAS_ROWS && r->order != BLAS_COLUMNS)
        return -1;
    switch (r->routine) {
    case BLAS_GEMM: case BLAS_GEMM_BATCH: return wrong_gemm(r);
    case BLAS_GEMMT: return wrong_gemmt(r);
    case BLAS_SYMM: case BLAS_HEMM: return wrong_symm(r);
    case BLAS_TRMM: case BLAS_TRSM: return wrong_triangular(r);
    default: return wrong_rank(r);
    }
}

void limber_blas_complain(const struct request *r, int position)
{
    void (*of_c)(int64_t, const char *, const char *, ...) = NULL;
    void (*of_fortran)(const char *, const int64_t *, size_t);
    int64_t info = r->cblas ? position < 0 ? 1 : position + 1 : position;
    char name[32];
    size_t length = 0;

    if (r->cblas)
        *(void **)&of_c = dlsym(RTLD_DEFAULT, "cblas_xerbla");
    if (of_c) {
        of_c(info, r->name, "");
        return;
    }
    *(void **)&of_fortran = dlsym(RTLD_DEFAULT, r->wide && r->spelling.suffix[1] ? "xerbla_64_" : "xerbla_");
    if (!of_fortran)
        *(void **)&of_fortran = limber_blas_sibling(r, "xerbla");
    for (const char *p = r->name; *p && *p != '_' && length < sizeof name; p++)
        name[length++] = (char)toupper((unsigned char)*p);
    if (of_fortran)
        of_fortran(name, &info, length);
    else
        fprintf(stderr, "%s: argument %d of %s is wrong\n", preload_name, (int)info, r->name);
}

/* ---- the decision ------------------------------------------------------------------------------- */

static void tell(const struct request *r, const char *text)
{
    fprintf(stderr, "%s: %s %lld x %lld x %lld %s\n", preload_name, r->name, (long long)r->m,
            (long long)r->n, (long long)r->k, text);
}

/* The one place that knows of every valid call what became of it; why: NULL where it is served. */
static bool settle(struct request *r, const struct preload_options *o, const struct job *j, const char *why)
{
    char text[240];

    if (why)
        snprintf(text, sizeof text, "is left to the BLAS: %.160s", why);
    else
        snprintf(text, sizeof text, "by %s, %d rows, %.3g ms", j->report.scheme, j->report.rows,
                 1e3 * (j->report.seconds_scan + j->report.seconds_compile + j->report.seconds_run));
    if (o->on && o->verbose)
        tell(r, text);
    if (why) {
        inside++;
        r->handed_on = true;
    }
    return !why;
}

void limber_blas_end(struct request *r)
{
    if (r->handed_on)
        inside--;
    r->handed_on = false;
}

/* A reason that is known before anything is computed. */
static const char *reason(const struct request *r, const struct preload_options *o)
{
    bool product = r->routine <= BLAS_GEMM_BATCH, native = o->contract.promise == LIMBER_NATIVE;

    if (!o->on)
        return "no contract is stated";
    if (native && !product)
        return "native is what it computes itself";
    if (native && ((double)r->m * (double)r->n * (double)r->k < least_native || r->m < least_side ||
                   r->n < least_side || r->k < least_side))
        return "it is as fast on products so small";
    return !product && r->k == 0 ? "nothing is multiplied" : NULL;
}

static bool compute_routine(struct job *j)
{
    switch (j->r->routine) {
    case BLAS_GEMM: case BLAS_GEMM_BATCH: return limber_blas_gemm(j);
    case BLAS_SYMM: case BLAS_HEMM: return limber_blas_symm(j);
    case BLAS_TRMM: return limber_blas_trmm(j);
    case BLAS_TRSM: return limber_blas_trsm(j);
    default: return limber_blas_triangle(j);
    }
}

static bool compute(struct job *j)
{
    bool done;

    if (j->r->routine > BLAS_GEMM_BATCH && limber_blas_is(j, &j->alpha, 0))
        return limber_blas_fail(j, "nothing is multiplied");
    inside++;       /* trsm asks the BLAS behind */
    done = compute_routine(j);
    inside--;
    return done;
}

static bool is_empty(const struct request *r)
{
    return r->m == 0 || r->n == 0 || (r->routine == BLAS_GEMM_BATCH && r->count == 0);
}

static void tell_why(const struct request *r, const char *what, const char *why)
{
    char text[240];

    snprintf(text, sizeof text, "%s: %.160s", what, why);
    tell(r, text);
}

/* A function that no BLAS behind has: computed by whatever contract can be held. */
static bool serve_alone(struct request *r, const struct preload_options *o)
{
    static const limber_contract native = { .promise = LIMBER_NATIVE };
    struct job j;
    int wrong = limber_blas_wrong(r);

    if (wrong) {
        limber_blas_complain(r, wrong);
        return true;
    }
    if (is_empty(r))
        return true;
    limber_blas_start(&j, r, o->on ? &o->contract : &native);
    if (compute(&j))
        return settle(r, o, &j, NULL);
    if (o->on) {
        tell_why(r, "no BLAS has it, and it is native", j.why);
        limber_blas_start(&j, r, &native);
        if (compute(&j))
            return settle(r, o, &j, NULL);
    }
    tell_why(r, "is not computed", j.why);
    return true;
}

static bool is_ours_alone(const struct request *r)
{
    return (r->routine == BLAS_GEMMT || r->routine == BLAS_GEMM_BATCH) &&
           !limber_blas_real(r->name, r->caller, true);
}

bool limber_blas_serve(struct request *r)
{
    const struct preload_options *o = preload_options();
    const char *why;
    struct job j;

    if (r->side)
        r->k = r->side == 'L' ? r->m : r->n;
    if (limber_blas_is_inside())
        return false;
    if (is_ours_alone(r))
        return serve_alone(r, o);
    if (limber_blas_wrong(r) || is_empty(r) || !r->alpha)
        return false;
    why = reason(r, o);
    if (!why) {
        limber_blas_start(&j, r, &o->contract);
        if (!compute(&j))
            why = j.why;
    }
    return settle(r, o, &j, why);
}
