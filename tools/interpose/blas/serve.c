/* SPDX-License-Identifier: BSD-3-Clause
 * Decides whether Limber computes a call of the BLAS, and says why if it does not. */
#include "product.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Under `native`, products below these sizes go to the BLAS behind: multiply-adds, shortest side.
 * Measured on one core (Zen 5, AVX-512) beside OpenBLAS 0.3.21: Limber's call costs a microsecond
 * more.  Limber is faster from 48 x 48 x 48 on, unless one side is under 16 to 32. */
static const double least_native = 64.0 * 64 * 64;
static const int64_t least_side = 32;

/* Calls of this thread that were decided and have not returned.  The calls that the BLAS behind
 * makes inside them, such as dgemm_ from cblas_dgemm, are not the program's. */
static _Thread_local int inside;
static _Thread_local unsigned decided; /* calls of this thread that were counted */

bool limber_blas_is_inside(void)
{
    return inside > 0 || limber_blas_is_second();
}

void limber_blas_enter(void)
{
    inside++;
}

void limber_blas_leave(void)
{
    inside--;
}

static void print_call(const struct request *r, const char *text)
{
    if (r->routine >= BLAS_GEMV && limber_blas_is_vector(r))
        interpose_message("%s %lld x %lld %s", r->name, (long long)r->m, (long long)r->n, text);
    else
        interpose_message("%s %lld x %lld x %lld %s", r->name, (long long)r->m, (long long)r->n,
                          (long long)r->k, text);
}

/* The leading terms of LAPACK Working Note 18's counts, halved. */
static double lapack_work_of(const struct request *r)
{
    double m = (double)r->m, n = (double)r->n, k = (double)r->k;
    double factors = m * n * k - (m + n) * k * k / 2 + k * k * k / 3;

    switch (r->routine) {
    case LAPACK_GETRF: return factors;
    case LAPACK_GEQRF:
    case LAPACK_ORGQR: return 2 * factors;
    case LAPACK_ORMQR: return 2 * m * n * k;
    case LAPACK_GESV: return m * m * m / 3 + m * m * n;
    case LAPACK_POSV: return m * m * m / 6 + m * m * n;
    case LAPACK_GETRI: return m * m * m * 2 / 3;
    case LAPACK_POTRF:
    case LAPACK_TRTRI: return m * m * m / 6;
    case LAPACK_TRTRS: return m * m * n / 2;
    default: return m * m * n; /* getrs, potrs */
    }
}

/* Level 1 has k products, or m; level 2 has m n. */
static double vector_work_of(const struct request *r)
{
    const bool is_dot = r->routine <= BLAS_ASUM;

    return is_dot ? (double)r->k : (double)r->m * (double)r->n;
}

/* Multiply-adds; symmetric results and triangles need half of m n k. */
static double work_of(const struct request *r)
{
    double all = (double)r->m * (double)r->n * (double)r->k, count = (double)r->count;

    switch (r->routine) {
    case BLAS_GEMM_BATCH: return all * count;
    case BLAS_GEMMT:
    case BLAS_SYRK:
    case BLAS_HERK:
    case BLAS_TRMM:
    case BLAS_TRSM: return all / 2;
    default:
        return limber_blas_is_lapack(r) ? lapack_work_of(r) :
               limber_blas_is_vector(r) ? vector_work_of(r) :
                                          all;
    }
}

/* j is NULL if the call was not served. */
static void count(const struct request *r, const struct job *j)
{
    struct interpose_result t = { .routine = r->name,
                                  .m = r->m,
                                  .n = r->n,
                                  .k = r->k,
                                  .why_not = r->why,
                                  .contract = r->contract ? r->contract : "",
                                  .ops = { r->a.op, r->b.op },
                                  .site = r->caller,
                                  .count = r->routine == BLAS_GEMM_BATCH ? (double)r->count : 1 };
    bool reported = interpose_options()->report;

    decided++;
    if (reported)
        t.seconds = t.original = limber_blas_now() - r->began;
    if (j) {
        t.report = &j->report;
        t.check = j->check;
        t.counts = j->counts;
        t.seconds -= j->checking + (reported ? limber_blas_opening() : 0);
        t.ctx = limber_blas_context();
        t.original = reported ? limber_blas_original(r, work_of(r)) : 0;
    }
    interpose_count(&t);
}

enum outcome { SERVED, LEFT, LOST };    /* LOST: no library can compute it */

static void print_outcome(const struct request *r, const struct job *j, enum outcome outcome,
                          const char *why)
{
    locale_t before = interpose_plain_numbers();
    char text[240];

    if (outcome == SERVED)
        snprintf(text, sizeof text, "%.100s, by %s, %.3g ms", r->contract, j->report.scheme,
                 1e3 *
                     (j->report.seconds_scan + j->report.seconds_compile + j->report.seconds_run));
    else
        snprintf(text, sizeof text, "%s: %.160s",
                 outcome == LEFT ? "is left to the BLAS" : "is not computed, and no BLAS has it",
                 why);
    uselocale(before);
    print_call(r, text);
}

/* Whether calls made by the BLAS behind inside this forwarded call are hidden, not decided and
 * counted as the program's.  Calls that a LAPACK routine makes are not hidden, since they may be
 * served. */
static bool hides(const struct request *r)
{
    const struct interpose_options *o = interpose_options();

    return !limber_blas_is_lapack(r) || !(o->on || o->report);
}

/* Ends every valid call: records its outcome and, if it was not served, the reason.  A forwarded
 * LAPACK routine is counted at its end, and only if no call inside it was.  True: the BLAS behind
 * has nothing to do. */
static bool end_call(struct request *r, const struct job *j, enum outcome outcome, const char *why)
{
    const struct interpose_options *o = interpose_options();

    if (outcome == LOST || (o->on && o->verbose))
        print_outcome(r, j, outcome, why);
    if (outcome != SERVED)
        interpose_copy(r->why, sizeof r->why, why);
    r->handed_on = outcome == LEFT;
    r->decided = decided;
    if (outcome == LEFT && hides(r))
        limber_blas_enter();
    else if (outcome != LEFT)
        count(r, outcome == SERVED ? j : NULL);
    return outcome != LEFT;
}

void limber_blas_end(struct request *r)
{
    if (!r->handed_on)
        return;
    if (hides(r))
        limber_blas_leave();
    if (!limber_blas_is_lapack(r) || decided == r->decided)
        count(r, NULL);
    r->handed_on = false;
}

/* Sums of k products by any BLAS are off by less than (k + 3) u (|alpha||A||B| + |beta||C|), in any
 * order, with or without FMA: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1
 * (gamma_k, and three roundings for alpha, beta C and their sum; k u is far below 1).  Three
 * complex products in the place of four have no such bound for each part. */
static bool keeps_bits(const struct request *r, const limber_contract *c)
{
    const bool single = r->type == 's' || r->type == 'c', is_complex = strchr("cz", r->type);
    const double u = single ? 0x1p-24 : 0x1p-53;
    double k = (double)r->k;

    if (limber_blas_is_lapack(r))
        k = (double)(r->m > r->n ? r->m : r->n);
    if (r->routine == BLAS_TRSM)
        k = (double)(r->side == 'L' ? r->m : r->n);
    k *= (r->routine == BLAS_SYR2K || r->routine == BLAS_HER2K) + 1;
    k *= is_complex ? 2 : 1;
    return c->promise == LIMBER_CONTRACT_BITS && !c->scheme && !r->factors &&
           interpose_options()->trust && !strstr(r->name, "3m") &&
           1.01 * (k + (is_complex ? 6 : 3)) * u <= ldexp(1, -c->bits);
}

/* The reason to leave the call to the BLAS behind, if there is one that is known before anything is
 * computed; else NULL. */
static const char *reason(const struct request *r, const struct interpose_setting *s)
{
    bool product = r->routine <= BLAS_GEMM_BATCH,
         native = s->contract.promise == LIMBER_CONTRACT_NATIVE;

    if (!s->on)
        return interpose_options()->on ? "a rule leaves it alone" : "no contract is stated";
    if (keeps_bits(r, &s->contract))
        return "it keeps the contract by the standard bound";
    if (native && !product)
        return "native is what it computes itself";
    if (native && ((double)r->m * (double)r->n * (double)r->k < least_native || r->m < least_side ||
                   r->n < least_side || r->k < least_side))
        return "it is as fast on products so small";
    return NULL;
}

static bool compute_routine(struct job *j)
{
    switch (j->r->routine) {
    case BLAS_GEMM:
    case BLAS_GEMM_BATCH: return limber_blas_gemm(j);
    case BLAS_SYMM:
    case BLAS_HEMM: return limber_blas_symm(j);
    case BLAS_TRMM: return limber_blas_trmm(j);
    case BLAS_TRSM: return limber_blas_trsm(j);
    default:
        return limber_blas_is_lapack(j->r) ? limber_lapack(j) :
               limber_blas_is_vector(j->r) ? limber_blas_vectors(j) :
                                             limber_blas_triangle(j);
    }
}

static bool compute(struct job *j)
{
    bool done;

    limber_blas_enter(); /* what trsm calls in the BLAS behind is not the program's */
    done = compute_routine(j);
    limber_blas_leave();
    return done;
}

/* Any BLAS rounds beta C once, unless beta is complex. */
static bool only_scales(const struct request *r, const struct job *j)
{
    bool products = limber_blas_is_vector(r) || (r->k > 0 && !limber_blas_is(j, &j->alpha, 0));

    return !products && (r->routine > BLAS_GEMM_BATCH || limber_blas_is_real(j, &j->beta));
}

/* Whether this is the first time that the function is asked about this routine. */
static bool is_first(const struct request *r)
{
    static atomic_uint seen[64]; /* a bit for each type */
    const unsigned bit = r->type == 's' ? 1 : r->type == 'd' ? 2 : r->type == 'c' ? 4 : 8;

    return !(atomic_fetch_or(&seen[r->routine % 64], bit) & bit);
}

/* Says once a routine that the contract is not kept.  Another BLAS may compute as accurately, but
 * not the same bits. */
static void print_failure(const struct request *r, const struct job *j)
{
    const bool reproducible = j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE,
               lost = j->status != LIMBER_STATUS_OK || reproducible || limber_blas_is_vector(r);

    if (lost && j->status != LIMBER_STATUS_NOT_READY && !interpose_options()->verbose &&
        !interpose_options()->quiet && is_first(r))
        interpose_message("not %s: %s computed %s%s: %s (LIMBER_QUIET=1 leaves this out)",
                          r->contract, interpose_original, r->name,
                          reproducible ? ", whose bits may differ on another CPU" : "", j->why);
}

static bool is_empty(const struct request *r)
{
    switch (r->routine) {
    case BLAS_GEMM_BATCH: return r->m == 0 || r->n == 0 || r->count == 0;
    case BLAS_DOT:
    case BLAS_NRM2: return r->k <= 0;
    case BLAS_ASUM: return r->k <= 0 || r->a.lead <= 0;
    case BLAS_SCAL: return r->m <= 0 || r->c.lead <= 0;
    default: return r->m == 0 || r->n == 0;
    }
}

/* A function that no BLAS behind has, most often gemmt, gemm3m, sbgemm or a batch: Limber computes
 * it, natively where the contract cannot be kept. */
static bool serve_alone(struct request *r, const struct interpose_setting *s)
{
    static const limber_contract native = { .size = sizeof(limber_contract),
                                            .promise = LIMBER_CONTRACT_NATIVE };
    struct job j;
    char text[240];
    int wrong = limber_blas_wrong(r);
    bool done;

    if (wrong) {
        limber_blas_complain(r, wrong);
        return true;
    }
    if (is_empty(r))
        return true;
    r->contract = s->on ? s->words : "native";
    limber_blas_start(&j, r, s->on ? &s->contract : &native);
    done = compute(&j);
    if (!done && s->on) {
        snprintf(text, sizeof text, "is native, as no BLAS has it: %.160s", j.why);
        print_call(r, text);
        r->contract = "native";
        limber_blas_start(&j, r, &native);
        done = compute(&j);
    }
    return end_call(r, &j, done ? SERVED : LOST, j.why);
}

bool limber_blas_serve(struct request *r)
{
    const struct interpose_options *o = interpose_options();
    const struct interpose_setting *s;
    const char *why;
    struct job j;

    if (r->side && !limber_blas_is_lapack(r))
        r->k = r->side == 'L' ? r->m : r->n;
    if (limber_blas_is_inside() || (!o->on && !o->report && !o->capture))
        return false;
    INTERPOSE_UNCANCELLED;
    s = interpose_choose(&(struct interpose_call){ r->name, r->m, r->n, r->k, r->caller });
    r->contract = s->on ? s->words : "";
    if (o->capture && !limber_blas_is_vector(r) && !limber_blas_wrong(r) && !is_empty(r) &&
        r->alpha)
        limber_blas_capture(r, s);
    if (o->report)
        r->began = limber_blas_now();
    if (!limber_blas_real(r->name, r->caller, true))
        return false; /* limber_blas_lacking computes it */
    if (limber_blas_wrong(r) || is_empty(r) ||
        (!r->alpha && !limber_blas_is_lapack(r) && !limber_blas_is_vector(r)))
        return false;
    if (s->on && s->contract.promise == LIMBER_CONTRACT_REPRODUCIBLE && limber_blas_is_lapack(r) &&
        limber_blas_is_fixed(r->name, r->caller))
        /* that LAPACK keeps the contract itself, since the BLAS calls it makes are served */
        return false;
    why = reason(r, s);
    if (!why) {
        limber_blas_start(&j, r, &s->contract);
        if (!limber_blas_is_lapack(r) && only_scales(r, &j))
            why = "nothing is multiplied";
        else if (!compute(&j)) {
            print_failure(r, &j);
            why = j.why;
        }
    }
    return end_call(r, &j, why ? LEFT : SERVED, why);
}

void limber_blas_lacking(struct request *r)
{
    INTERPOSE_UNCANCELLED;
    if (limber_blas_is_inside() || limber_blas_is_lapack(r))
        limber_blas_real(r->name, r->caller, false); /* prints that the function is missing */
    else
        serve_alone(
            r, interpose_choose(&(struct interpose_call){ r->name, r->m, r->n, r->k, r->caller }));
}
