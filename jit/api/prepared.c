/* SPDX-License-Identifier: BSD-3-Clause
 * limber_prepare and limber_prepare_filters: make operands that keep the mask of one scan, and
 * limbs for each kernel. */
#include "jit/prepared_operand.h"

#include "jit/api/api.h"

#include <stdlib.h>
#include <string.h>

/* ---- the public calls that prepare operands -------------------------------------------------- */

/* Returns how many bytes of limbs the operand may keep: as configured, else the context's
 * workspace_bytes, else four times the elements' bytes plus 64 MiB. */
static size_t limbs_limit(const struct limber_prepared *o, const limber_prepare_config *c)
{
    double elements = (double)o->rows * (double)o->cols * o->x.format.size;

    return c->bytes          ? c->bytes :
           o->ctx->workspace ? o->ctx->workspace :
                               (size_t)(4 * elements) + ((size_t)64 << 20);
}

/* Checks the arguments of limber_prepare and limber_prepare_filters. */
static bool check_prepare(const limber_context *ctx, struct extent x,
                          const limber_prepare_config *c, struct diag *d)
{
    if (!ctx)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
    if (x.rows < 0 || x.cols < 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is negative",
                           x.rows < 0 ? "rows" : "cols", (long long)(x.rows < 0 ? x.rows : x.cols));
    if (!limber_check_matrix(x.m, x.what, x.rows, x.cols, d) ||
        !limber_check_data(x.m, x.what, x.rows, x.cols, d))
        return false;
    if (c->changes != LIMBER_CHANGES_TRUSTED && c->changes != LIMBER_CHANGES_CHECKED)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "config.changes = %d is none of its values", (int)c->changes);
    return c->changes != LIMBER_CHANGES_CHECKED || !limber_device_holds(ctx, x.m->data) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "config.changes: LIMBER_CHANGES_CHECKED of x in a device's memory");
}

/* Returns the operation that will read the prepared filters: forward convolution by default. */
static limber_operation operation_of(const limber_prepare_config *c)
{
    return c->operation ? (limber_operation)c->operation : LIMBER_OPERATION_CONV_FORWARD;
}

/* Scans the operand and, if it is in host memory, hashes it. */
static bool hash_and_scan(struct limber_prepared *o, struct diag *d)
{
    limber_prepared_begin(o);
    return limber_prepared_scan(o, d) &&
           (limber_device_holds(o->ctx, o->x.data) || limber_prepared_hash(o, &o->hash, d));
}

/* Makes a prepared operand.  name: the public call, for error texts.  conv: the convolution to
 * which filters belong; NULL for a matrix. */
static limber_status prepare_as(const char *name, limber_context *ctx, struct extent x,
                                limber_side side, const struct conv *conv,
                                const limber_prepare_config *c, limber_prepared **prepared,
                                struct diag *d)
{
    struct limber_prepared *o = NULL;

    if (!d->status && check_prepare(ctx, x, c, d)) {
        o = calloc(1, sizeof *o);
        if (!o)
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for an operand");
    }
    if (o) {
        o->ctx = ctx;
        o->x = *x.m;
        o->rows = x.rows;
        o->cols = x.cols;
        o->left = side == LIMBER_SIDE_A;
        o->parts = o->groups = 1;
        if (conv) {
            o->operation = operation_of(c);
            o->conv = *conv;
            o->parts = limber_conv_parts(conv);
            o->groups = conv->geometry.groups;
        }
        o->checks = c->changes == LIMBER_CHANGES_CHECKED;
        o->bound = limbs_limit(o, c);
        if (hash_and_scan(o, d))
            *prepared = o;
        else
            limber_prepared_free(o);
    }
    if (d->status)
        limber_fail_in(d, name);
    return limber_error_set(d);
}

/* Starts both public calls: sets *prepared to NULL and reads the configuration. */
static bool begin_call(limber_prepared **prepared, const limber_prepare_config *config,
                       limber_prepare_config *c, struct diag *d)
{
    if (!prepared)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "prepared is NULL");
    *prepared = NULL;
    return !config || limber_copy_sized_in(c, sizeof *c, config, LEAST_prepare_config, "config", d);
}

/* Prepares the matrix x as the operand `side` of later products.  *prepared: the result. */
limber_status limber_prepare(limber_context *ctx, limber_matrix x, int64_t rows, int64_t cols,
                             limber_side side, const limber_prepare_config *config,
                             limber_prepared **prepared)
{
    CALL_SCOPE;
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;
    struct diag d = { 0 };

    if (begin_call(prepared, config, &c, &d) && side != LIMBER_SIDE_A && side != LIMBER_SIDE_B)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "side = %d is neither A nor B", (int)side);
    if (!d.status && c.operation != LIMBER_OPERATION_GEMM)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT,
                    "config.operation = %lld, but a matrix is prepared for products",
                    (long long)c.operation);
    return prepare_as("prepare", ctx, (struct extent){ &x, "x", rows, cols }, side, NULL, &c,
                      prepared, &d);
}

/* Prepares filters for later forward convolutions or backward-data passes.  *prepared: the
 * result. */
limber_status limber_prepare_filters(limber_context *ctx, const limber_conv *conv, const void *w,
                                     limber_format wf, const limber_prepare_config *config,
                                     limber_prepared **prepared)
{
    CALL_SCOPE;
    limber_prepare_config c = LIMBER_PREPARE_CONFIG_INIT;
    limber_matrix x = { w, wf, 0, 1 };
    limber_conv full = { 0 };
    struct conv filters = { 0 };
    struct diag d = { 0 };

    if (begin_call(prepared, config, &c, &d) && !conv)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "conv is NULL");
    if (!d.status && c.operation != 0 && c.operation != LIMBER_OPERATION_CONV_FORWARD &&
        c.operation != LIMBER_OPERATION_CONV_BACKWARD_DATA)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT,
                    "config.operation = %lld reads no filters: they are prepared for "
                    "CONV_FORWARD or CONV_BACKWARD_DATA",
                    (long long)c.operation);
    if (!d.status && limber_copy_sized_in(&full, sizeof full, conv, LEAST_conv, "conv", &d))
        limber_conv_filters(&full, operation_of(&c), &filters, &x.row_stride, &d);
    /* filters are adjacent in both layouts, so each filter is a row */
    return prepare_as("prepare_filters", ctx, (struct extent){ &x, "x", full.o, x.row_stride },
                      LIMBER_SIDE_A, &filters, &c, prepared, &d);
}

/* Frees a prepared operand; NULL is allowed. */
void limber_prepared_free(limber_prepared *o)
{
    CALL_SCOPE;
    limber_prepared_drop(o);
}

/* Checks that the elements of a prepared operand in host memory have not changed. */
limber_status limber_prepared_check(limber_prepared *o)
{
    CALL_SCOPE;
    struct diag d = { 0 };

    if (!o)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "operand is NULL");
    else if (limber_device_holds(o->ctx, o->x.data))
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "operand in a device's memory");
    else
        limber_prepared_is_same(o, "operand", &d);
    if (d.status)
        limber_fail_in(&d, "prepared_check");
    return limber_error_set(&d);
}
