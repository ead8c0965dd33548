/* SPDX-License-Identifier: BSD-3-Clause */
#include "product.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static limber_context *context;
/* seconds that this thread has spent on opening the Limber library */
static _Thread_local double opening;
static pthread_once_t made = PTHREAD_ONCE_INIT;

/* Creates the context that all calls share, and adds the time to `opening`. */
static void make_context(void)
{
    const limber_config config = interpose_config();
    const double began = limber_blas_now();

    if (limber_create(&context, &config) != LIMBER_STATUS_OK)
        interpose_message("%s; every product is left to %s", limber_error_text(),
                          interpose_original);
    opening = limber_blas_now() - began;
    interpose_opened(opening);
}

limber_context *limber_blas_context(void)
{
    pthread_once(&made, make_context);
    return context;
}

/* Returns the seconds that this thread has spent on opening Limber, and resets them. */
double limber_blas_opening(void)
{
    const double seconds = opening;

    opening = 0;
    return seconds;
}

bool limber_blas_fail(struct active_request *j, const char *why)
{
    snprintf(j->why, sizeof j->why, "%s", why);
    return false;
}

union scalar limber_blas_scalar(const struct active_request *j, double re, double im)
{
    return j->is_single ? (union scalar){ .f = { (float)re, (float)im } } :
                          (union scalar){ .d = { re, im } };
}

bool limber_blas_is(const struct active_request *j, const union scalar *s, double re)
{
    return j->is_single ? s->f[0] == re && s->f[1] == 0 : s->d[0] == re && s->d[1] == 0;
}

bool limber_blas_is_real(const struct active_request *j, const union scalar *s)
{
    return j->is_single ? s->f[1] == 0 : s->d[1] == 0;
}

/* Reads a scalar of the call; NULL stands for 0. */
static union scalar scalar_at(const struct active_request *j, const void *p, bool is_complex)
{
    const float *f = p;
    const double *d = p;

    if (!p)
        return limber_blas_scalar(j, 0, 0);
    return j->is_single ? (union scalar){ .f = { f[0], is_complex ? f[1] : 0 } } :
                          (union scalar){ .d = { d[0], is_complex ? d[1] : 0 } };
}

/* Initialises *j for a request: its types, scalars and report, and a contract that counts if
 * statistics of a unit are reported. */
void limber_blas_start(struct active_request *j, const struct request *r,
                       const limber_contract *contract)
{
    bool is_complex = r->type == 'c' || r->type == 'z',
         is_single = r->type == 's' || r->type == 'c';

    /* clears only the members before `part`; the kilobytes after them need no zeros */
    memset(j, 0, offsetof(struct active_request, part));
    j->why[0] = '\0';
    j->r = r;
    j->contract = contract;
    j->is_complex = is_complex;
    j->is_single = is_single;
    j->size = (is_single ? sizeof(float) : sizeof(double)) << is_complex;
    j->report = (limber_report)LIMBER_REPORT_INIT;
    if (contract->promise == LIMBER_CONTRACT_SIMULATE && interpose_options()->report) {
        j->statistics = (limber_statistics)LIMBER_STATISTICS_INIT;
        j->counted = *contract;
        j->counted.statistics = &j->statistics;
        j->contract = &j->counted;
    }
    if (r->bf16_result) {
        for (int i = 0; i < 2; i++)
            if (i ? r->beta : r->alpha)
                memcpy(&j->bf16_scalars[i], i ? r->beta : r->alpha, sizeof j->bf16_scalars[i]);
        limber_convert(j->alpha.f, LIMBER_F32, &j->bf16_scalars[0], LIMBER_BF16, 1,
                       LIMBER_ROUND_NEAREST);
        limber_convert(j->beta.f, LIMBER_F32, &j->bf16_scalars[1], LIMBER_BF16, 1,
                       LIMBER_ROUND_NEAREST);
        return;
    }
    j->alpha = scalar_at(j, r->alpha,
                         is_complex && r->routine != BLAS_HERK && r->routine != BLAS_ROT &&
                             !(r->hermitian && (r->routine == BLAS_SYR || r->routine == BLAS_SPR)));
    j->beta = scalar_at(j, r->beta,
                        is_complex && r->routine != BLAS_HERK && r->routine != BLAS_HER2K &&
                            r->routine != BLAS_ROT);
}

static bool is_ready(struct active_request *j)
{
    return limber_blas_context() || limber_blas_fail(j, "Limber has no context");
}

static limber_format format_of(const struct active_request *j)
{
    return j->is_single ? LIMBER_F32 : LIMBER_F64;
}

limber_matrix limber_blas_matrix(const struct active_request *j, struct view v)
{
    return (limber_matrix){ v.data, format_of(j), v.row, v.col };
}

/* Returns an empty report, whose parts a call will write to the request's array. */
static limber_report report_of(struct active_request *j)
{
    limber_report r = LIMBER_REPORT_INIT;

    r.part = j->part;
    r.part_room = LIMBER_PARTS;
    return r;
}

/* Adds the counts of a simulated unit's statistics to *sum. */
static void add_counts(struct interpose_counts *sum, const limber_statistics *s)
{
    sum->products += (double)s->nonzero;
    sum->underflow += (double)s->mul_underflow;
    sum->overflow += (double)s->mul_overflow;
    sum->swamped += (double)(s->swamped + s->outer_swamped);
    sum->partly_swamped += (double)(s->partly_swamped + s->outer_partly);
    sum->sum_overflow += (double)s->sum_overflow;
}

/* If a Limber call succeeded, adds its report to the request's.  Else sets the request's reason.
 * Returns true if it succeeded. */
static bool take_status(struct active_request *j, limber_status status, limber_report *report)
{
    j->status = status;
    if (status != LIMBER_STATUS_OK)
        return limber_blas_fail(j, limber_error_text());
    interpose_record_kernels(context, report);
    if (j->contract->statistics)
        add_counts(&j->counts, j->contract->statistics);
    report->seconds_scan += j->report.seconds_scan;
    report->seconds_compile += j->report.seconds_compile;
    report->seconds_run += j->report.seconds_run;
    j->report = *report;
    return true;
}

static limber_output output_of(const struct active_request *j, struct view v)
{
    return (limber_output){ v.data, format_of(j), v.row, v.col };
}

/* Describes a product to Limber as a limber_problem, with the request's contract. */
limber_problem limber_blas_problem(const struct active_request *j, const struct blas_product *p)
{
    limber_problem x = LIMBER_PROBLEM_INIT;

    x.domain = j->is_complex ? LIMBER_DOMAIN_COMPLEX : LIMBER_DOMAIN_REAL;
    if (j->is_complex)
        x.conjugate = (limber_conjugate)((p->a.conj ? LIMBER_CONJUGATE_A : 0) |
                                         (p->b.conj ? LIMBER_CONJUGATE_B : 0));
    x.m = p->m;
    x.n = p->n;
    x.k = p->k;
    x.alpha = p->alpha;
    x.beta = p->beta;
    x.a = limber_blas_matrix(j, p->a);
    x.b = limber_blas_matrix(j, p->b);
    x.c = output_of(j, p->c);
    x.contract = j->contract;
    return x;
}

/* Computes a product by limber_run, and adds its report to the request's.  False on failure. */
static bool multiply_views(struct active_request *j, const struct blas_product *p)
{
    const limber_problem x = limber_blas_problem(j, p);
    limber_report report = report_of(j);

    return take_status(j, limber_run(context, &x, &report), &report);
}

/* Computes C = alpha A B + beta C by Limber, where A is m x k.  Afterwards carries payloads of
 * NaNs over, and checks a sample of elements if that is asked for.  False on failure. */
bool limber_blas_multiply(struct active_request *j, int64_t m, int64_t n, int64_t k,
                          const union scalar *alpha, struct view a, struct view b,
                          const union scalar *beta, struct view c)
{
    const struct blas_product p = {
        m, n, limber_blas_is(j, alpha, 0) ? 0 : k, alpha, beta, a, b, c
    };
    struct sample *sample;
    bool done;

    if (!is_ready(j))
        return false;
    sample = limber_blas_sample(j, &p);
    done = multiply_views(j, &p);
    if (done)
        limber_blas_carry_payloads(j, &p);
    limber_blas_compare(j, &p, sample, done);
    return done;
}

/* Sets the formats for operands of BF16 or FP16. */
static void set_half_formats(const struct active_request *j, limber_problem *x)
{
    x->a.format = x->b.format = j->r->factors == 'b' ? LIMBER_BF16 : LIMBER_F16;
    if (j->r->bf16_result) {
        x->c.format = LIMBER_BF16;
        x->alpha = &j->bf16_scalars[0];
        x->beta = &j->bf16_scalars[1];
    }
}

/* Computes gemm, or a batch of real products.  The caller gives the products of a complex batch one
 * by one.  LIMBER_CHECK does not compare batches, nor products of BF16 or FP16. */
bool limber_blas_gemm(struct active_request *j)
{
    const struct request *r = j->r;
    limber_batch batch = LIMBER_BATCH_INIT;
    struct view a = limber_blas_view(r, &r->a), b = limber_blas_view(r, &r->b);
    struct view c = limber_blas_view(r, &r->c);
    const struct blas_product p = { r->m,      r->n,     limber_blas_is(j, &j->alpha, 0) ? 0 : r->k,
                                    &j->alpha, &j->beta, a,
                                    b,         c };
    limber_report report = report_of(j);
    limber_problem x;

    if (!r->factors && (r->routine != BLAS_GEMM_BATCH || j->is_complex))
        return limber_blas_multiply(j, r->m, r->n, r->k, &j->alpha, a, b, &j->beta, c);
    batch.count = r->batch.count;
    batch.a = r->batch.step_a;
    batch.b = r->batch.step_b;
    batch.c = r->batch.step_c;
    batch.address_a = r->batch.each_a;
    batch.address_b = r->batch.each_b;
    batch.address_c = r->batch.each_c;
    x = limber_blas_problem(j, &p);
    if (r->factors)
        set_half_formats(j, &x);
    if (r->routine == BLAS_GEMM_BATCH)
        x.batch = &batch;
    return is_ready(j) && take_status(j, limber_run(context, &x, &report), &report);
}
