/* SPDX-License-Identifier: BSD-3-Clause
 * Decides whether Limber computes a call of the BLAS, and tells why if it does not. */
#include "product.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Under `native`, products with fewer multiply-adds or a shorter side are forwarded.  Measured on
 * one core (Zen 5, AVX-512) against OpenBLAS 0.3.21: a call of Limber costs a microsecond more.
 * Limber is faster from 48 x 48 x 48 on, unless one side is shorter than 16 to 32. */
static const double least_native = 64.0 * 64 * 64;
/* Native products with a smaller extent are left to the other BLAS. */
static const int64_t least_side = 32;

/* inside: number of calls of this thread that have not returned, and for which Limber or the other
 * BLAS was chosen.  Calls that they make, such as of dgemm_ from the other BLAS's cblas_dgemm, are
 * not the program's. */
static _Thread_local int inside;
/* number of this thread's calls for which a library was chosen */
static _Thread_local unsigned decided;

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

/* Name of a called function without the prefix of calls by Limber's LAPACK. */
static const char *plain_name(const char *name)
{
    return strncmp(name, "limber32_", 9) == 0 || strncmp(name, "limber64_", 9) == 0 ? name + 9 :
                                                                                      name;
}

static void print_call(const struct request *r, const char *text)
{
    if (r->routine >= BLAS_GEMV && limber_blas_is_vector(r))
        interpose_message("%s %lld x %lld %s", plain_name(r->name), (long long)r->m,
                          (long long)r->n, text);
    else
        interpose_message("%s %lld x %lld x %lld %s", plain_name(r->name), (long long)r->m,
                          (long long)r->n, (long long)r->k, text);
}

/* Multiply-adds of a LAPACK routine: half the leading terms of LAPACK Working Note 18's counts. */
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
    default: return m * m * n; /* getrs and potrs */
    }
}

/* Multiply-adds of a routine of level 1 or 2: level 1 has k products, or m; level 2 has m n, a
 * triangle half of them, and a band has its width in each of n columns. */
static double vector_work_of(const struct request *r)
{
    const double m = (double)r->m, n = (double)r->n, k = (double)r->k;

    switch (r->routine) {
    case BLAS_DOT:
    case BLAS_NRM2:
    case BLAS_ASUM: return k;
    case BLAS_GBMV: return n * fmin(m, (double)r->below + (double)r->above + 1);
    case BLAS_SBMV: return n * fmin(n, 2 * k + 1);
    case BLAS_TBMV:
    case BLAS_TBSV: return n * fmin(n, k + 1);
    case BLAS_TRMV:
    case BLAS_TPMV:
    case BLAS_TRSV:
    case BLAS_TPSV: return m * n / 2;
    default: return m * n;
    }
}

/* Multiply-adds of a call.  Symmetric results and triangles need half of m n k. */
static double work_of(const struct request *r)
{
    double all = (double)r->m * (double)r->n * (double)r->k, count = (double)r->batch.count;

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

/* Records the outcome of a call.  j is NULL if Limber did not compute it. */
static void record_call(const struct request *r, const struct active_request *j)
{
    struct interpose_result t = { .routine = r->name,
                                  .m = r->m,
                                  .n = r->n,
                                  .k = r->k,
                                  .why_not = r->served.why,
                                  .contract = r->served.contract ? r->served.contract : "",
                                  .ops = { r->a.op, r->b.op },
                                  .site = r->caller,
                                  .count =
                                      r->routine == BLAS_GEMM_BATCH ? (double)r->batch.count : 1 };
    bool reported = interpose_options()->report;

    decided++;
    if (reported)
        t.seconds = t.original = limber_blas_now() - r->served.began;
    if (j) {
        t.report = &j->report;
        t.check = j->check;
        t.counts = j->counts;
        t.seconds -= j->checking + (reported ? limber_blas_opening() : 0);
        t.ctx = limber_blas_context();
        t.original = reported ? limber_blas_estimate_seconds(r, work_of(r)) : 0;
    }
    interpose_record_call(&t);
}

/* who computed a call: Limber, the other BLAS, nobody */
enum outcome { SERVED, LEFT, LOST };

/* Prints one line for LIMBER_VERBOSE: by which scheme Limber computed a call, or why it did not. */
static void print_outcome(const struct request *r, const struct active_request *j,
                          enum outcome outcome, const char *why)
{
    locale_t before = interpose_plain_numbers();
    char text[240];

    if (outcome == SERVED)
        snprintf(text, sizeof text, "%.100s, by %s%s, %.3g ms", r->served.contract,
                 *j->report.scheme ? j->report.scheme : "substitution",
                 j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE &&
                         !strcmp(j->report.scheme, "native") ?
                     " sums in the stated order" :
                     "",
                 1e3 *
                     (j->report.seconds_scan + j->report.seconds_compile + j->report.seconds_run));
    else
        snprintf(text, sizeof text, "%s: %.160s",
                 outcome == LEFT ? "is left to the BLAS" : "is not computed, and no BLAS has it",
                 why);
    uselocale(before);
    print_call(r, text);
}

/* True if the report ignores the calls that the other BLAS makes while it computes this forwarded
 * call.  False for a LAPACK routine: Limber may compute such calls, or the report counts them. */
static bool hides_inner_calls(const struct request *r)
{
    const struct interpose_options *o = interpose_options();

    return !limber_blas_is_lapack(r) || !(o->on || o->report);
}

/* Ends a valid call: records the outcome and, if Limber did not compute it, the reason.  A
 * forwarded LAPACK routine is recorded when it returns, unless a call that it made was recorded.
 * Returns false if the call must be forwarded. */
static bool end_call(struct request *r, const struct active_request *j, enum outcome outcome,
                     const char *why)
{
    const struct interpose_options *o = interpose_options();

    if (outcome == LOST || (o->on && o->verbose))
        print_outcome(r, j, outcome, why);
    if (outcome != SERVED)
        interpose_copy(r->served.why, sizeof r->served.why, why);
    r->served.handed_on = outcome == LEFT;
    r->served.decided = decided;
    if (outcome == LEFT && hides_inner_calls(r))
        limber_blas_enter();
    else if (outcome != LEFT)
        record_call(r, outcome == SERVED ? j : NULL);
    return outcome != LEFT;
}

void limber_blas_end(struct request *r)
{
    if (!r->served.handed_on)
        return;
    if (hides_inner_calls(r))
        limber_blas_leave();
    if (!limber_blas_is_lapack(r) || decided == r->served.decided)
        record_call(r, NULL);
    r->served.handed_on = false;
}

/* True if any BLAS keeps the contract bits=N.  Sums of k products have an error below (k + 3) u
 * (|alpha||A||B| + |beta||C|), in any order, with or without FMA: Higham, Accuracy and Stability of
 * Numerical Algorithms, section 3.1 (gamma_k, and three roundings for alpha, beta C and their sum;
 * k u is far below 1).  Complex products by three real ones have no such bound for each part. */
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

/* Returns the reason for which a call is forwarded, if one is known before anything is computed;
 * else NULL. */
static const char *reason_to_forward(const struct request *r, const struct interpose_setting *s)
{
    bool product = r->routine <= BLAS_GEMM_BATCH,
         native = s->contract.promise == LIMBER_CONTRACT_NATIVE;

    if (!s->on)
        return interpose_options()->on ? "a rule leaves it alone" : "no contract is stated";
    if (keeps_bits(r, &s->contract))
        return "the BLAS keeps these bits by the standard error bound";
    if (native && !product)
        return "under native the BLAS's other routines are as accurate";
    if (native && ((double)r->m * (double)r->n * (double)r->k < least_native || r->m < least_side ||
                   r->n < least_side || r->k < least_side))
        return "the BLAS is as fast below 64 x 64 x 64";
    return NULL;
}

/* Computes the routine that was called, by the function of its kind.  False on failure. */
static bool compute_routine(struct active_request *j)
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

/* Computes the call.  False on failure. */
static bool compute_call(struct active_request *j)
{
    bool done;

    limber_blas_enter(); /* calls that trsm makes to the other BLAS are not the program's */
    done = compute_routine(j);
    limber_blas_leave();
    return done;
}

/* True if the call only multiplies C by beta, which any BLAS rounds correctly. */
static bool is_only_scaling(const struct request *r, const struct active_request *j)
{
    bool products = limber_blas_is_vector(r) || (r->k > 0 && !limber_blas_is(j, &j->alpha, 0));

    return !products && (r->routine > BLAS_GEMM_BATCH || limber_blas_is_real(j, &j->beta));
}

/* True for the first call with this routine and type. */
static bool is_first_of_routine(const struct request *r)
{
    static atomic_uint seen[64]; /* [routine]: a bit for each type */
    const unsigned bit = r->type == 's' ? 1 : r->type == 'd' ? 2 : r->type == 'c' ? 4 : 8;

    return !(atomic_fetch_or(&seen[r->routine % 64], bit) & bit);
}

/* Returns the functions of NumPy and SciPy that call a routine of LAPACK, in parentheses, for users
 * who did not call it themselves; "" if it is no such routine. */
static const char *purpose_of(enum routine routine)
{
    switch (routine) {
    case LAPACK_GETRF: return " (part of lu, solve, inv, det)";
    case LAPACK_GESV: return " (part of solve, inv)";
    case LAPACK_GETRS:
    case LAPACK_POTRS:
    case LAPACK_POSV: return " (part of solve)";
    case LAPACK_TRTRS: return " (part of solve_triangular)";
    case LAPACK_GETRI:
    case LAPACK_TRTRI: return " (part of inv)";
    case LAPACK_POTRF: return " (part of cholesky)";
    case LAPACK_GEQRF: return " (part of qr, lstsq, svd)";
    case LAPACK_ORGQR: return " (part of qr, eigh, svd)";
    case LAPACK_ORMQR: return " (part of qr, lstsq, eigh, svd)";
    default: return "";
    }
}

/* Prints, once for each routine and type, that the contract is not kept.  The other BLAS may be as
 * accurate, but gives other bits. */
static void print_failure(const struct request *r, const struct active_request *j)
{
    const bool reproducible = j->contract->promise == LIMBER_CONTRACT_REPRODUCIBLE,
               lost = j->status != LIMBER_STATUS_OK || reproducible || limber_blas_is_vector(r);

    if (lost && j->status != LIMBER_STATUS_NOT_READY && !interpose_options()->verbose &&
        !interpose_options()->quiet && is_first_of_routine(r))
        interpose_message(
            "not %s: %s computed %s%s%s: %s (LIMBER_QUIET=1 leaves this out)", r->served.contract,
            interpose_original, plain_name(r->name), purpose_of(r->routine),
            reproducible && !limber_blas_is_lapack(r) ? ", whose bits may differ on another CPU" :
                                                        "",
            j->why);
}

/* True if the result has no elements, or if no operand is read. */
static bool is_empty(const struct request *r)
{
    switch (r->routine) {
    case BLAS_GEMM_BATCH: return r->m == 0 || r->n == 0 || r->batch.count == 0;
    case BLAS_DOT:
    case BLAS_NRM2: return r->k <= 0;
    case BLAS_ASUM: return r->k <= 0 || r->a.lead <= 0;
    case BLAS_SCAL: return r->m <= 0 || r->c.lead <= 0;
    default: return r->m == 0 || r->n == 0;
    }
}

/* Computes a call for which no other BLAS was found (usually gemmt, gemm3m, sbgemm or a batch):
 * under the contract, or if that fails, natively.  Returns false if it is not computed. */
static bool serve_alone(struct request *r, const struct interpose_setting *s)
{
    static const limber_contract native = { .size = sizeof(limber_contract),
                                            .promise = LIMBER_CONTRACT_NATIVE };
    struct active_request j;
    char text[240];
    int wrong = limber_blas_first_bad_argument(r);
    bool done;

    if (wrong) {
        limber_blas_report_wrong_argument(r, wrong);
        return true;
    }
    if (is_empty(r))
        return true;
    r->served.contract = s->on ? s->words : "native";
    limber_blas_start(&j, r, s->on ? &s->contract : &native);
    done = compute_call(&j);
    if (!done && s->on) {
        snprintf(text, sizeof text, "is native, as no BLAS has it: %.160s", j.why);
        print_call(r, text);
        r->served.contract = "native";
        limber_blas_start(&j, r, &native);
        done = compute_call(&j);
    }
    return end_call(r, &j, done ? SERVED : LOST, j.why);
}

_Atomic uintptr_t limber_blas_tests_from, limber_blas_tests_to;

static bool is_test(const void *caller)
{
    return (uintptr_t)caller >= limber_blas_tests_from && (uintptr_t)caller < limber_blas_tests_to;
}

/* Chooses who computes a call, and computes it if that is Limber.  Returns false if the call must
 * be forwarded. */
bool limber_blas_serve(struct request *r)
{
    const struct interpose_options *o = interpose_options();
    const struct interpose_setting *s;
    const char *why;
    struct active_request j;
    bool fixes; /* the contract fixes the bits of results */

    if (r->side && !limber_blas_is_lapack(r))
        r->k = r->side == 'L' ? r->m : r->n;
    if (limber_blas_is_inside() || (!o->on && !o->report && !o->capture) || is_test(r->caller))
        return false;
    INTERPOSE_UNCANCELLED;
    s = interpose_choose(&(struct interpose_call){ r->name, r->m, r->n, r->k, r->caller });
    r->served.contract = s->on ? s->words : "";
    if (o->capture && !limber_blas_is_vector(r) && !limber_blas_first_bad_argument(r) &&
        !is_empty(r) && r->alpha)
        limber_blas_capture(r, s);
    if (o->report)
        r->served.began = limber_blas_now();
    if (!limber_blas_real(r->name, r->caller, true))
        return false; /* the caller then lets limber_blas_serve_without_blas compute the call */
    if (limber_blas_first_bad_argument(r) || is_empty(r) ||
        (!r->alpha && !limber_blas_is_lapack(r) && !limber_blas_is_vector(r)))
        return false;
    fixes = s->on && (s->contract.promise == LIMBER_CONTRACT_REPRODUCIBLE ||
                      s->contract.promise == LIMBER_CONTRACT_CORRECT);
    if (fixes)
        limber_blas_check_lapack(r->name, r->served.contract);
    if (fixes && limber_blas_is_lapack(r) && limber_blas_is_fixed(r->name, r->caller))
        /* the other LAPACK has one order of sums, because Limber computes the BLAS calls that it
         * makes */
        return false;
    why = reason_to_forward(r, s);
    if (!why) {
        limber_blas_start(&j, r, &s->contract);
        if (!limber_blas_is_lapack(r) && is_only_scaling(r, &j))
            why = "nothing is multiplied";
        else if (!compute_call(&j)) {
            print_failure(r, &j);
            why = j.why;
        }
    }
    return end_call(r, &j, why ? LEFT : SERVED, why);
}

void limber_blas_serve_without_blas(struct request *r)
{
    INTERPOSE_UNCANCELLED;
    if (limber_blas_is_inside() || limber_blas_is_lapack(r))
        limber_blas_real(r->name, r->caller, false); /* prints that the function is missing */
    else
        serve_alone(
            r, interpose_choose(&(struct interpose_call){ r->name, r->m, r->n, r->k, r->caller }));
}
