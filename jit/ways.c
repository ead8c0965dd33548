/* SPDX-License-Identifier: BSD-3-Clause
 * The list of ways, and the calls that go down it. */
#include "jit/ways.h"

#include <string.h>

/* All ways, best first. */
static const struct way *const ways[] = {
    &limber_way_vectors,
    &limber_way_direct,
    &limber_way_integers,
    &limber_way_depthwise,
    &limber_way_pairs,
    &limber_way_bytes,
    &limber_way_depthwise_exact,
    &limber_way_depthwise_pairs,
    &limber_way_parts,
    &limber_way_kernel,
    NULL,
};

/* ---- the variable LIMBER_WAYS ---------------------------------------------------------------- */

/* Ways that LIMBER_WAYS cannot take out: without them some calls could not be computed. */
static const uint32_t needed = 1 << WAY_packed | 1 << WAY_inside | 1 << WAY_interpreter;

/* Fails with the list of names that LIMBER_WAYS may have. */
static bool unknown(const char *name, int length, struct diag *d)
{
    struct text list = { 0 };

    for (int i = 1; i < WAY_count; i++)
        if (!(needed >> i & 1))
            limber_text_add(&list, "-%s, ", limber_way_name((enum way_id)i));
    limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "LIMBER_WAYS: \"%.*s\" is none of %s-planless",
                length, name, list.s ? list.s : "");
    limber_text_clear(&list);
    return false;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* The set of ways with this name; "planless" names all that need no plan. */
static uint32_t ways_of(const char *name, size_t length)
{
    for (int i = 1; i < WAY_count; i++)
        if (is_word(name, length, limber_way_name((enum way_id)i)))
            return limber_way_bit((enum way_id)i);
    return is_word(name, length, "planless") ? WAYS_planless : 0;
}

bool limber_ways_read(const char *text, uint32_t *out, struct diag *d)
{
    while (*text) {
        const size_t length = strcspn(text, ",");
        const uint32_t named = *text == '-' ? ways_of(text + 1, length - 1) : 0;

        if (!named)
            return unknown(text, (int)length, d);
        if (named & needed)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "LIMBER_WAYS: %.*s would leave nothing for what no other way serves",
                               (int)length, text);
        *out &= ~named;
        text += length + (text[length] == ',');
    }
    return true;
}

/* ---- running a way, perhaps transposed ------------------------------------------------------- */

/* Kernels store along rows, so if C's columns are contiguous, C^T = B^T A^T is computed.  Native
 * sums have the same bits either way. */
static const struct problem *transpose(const limber_context *ctx, const struct problem *p,
                                       struct problem *turned)
{
    const struct product_request r = limber_request(p);

    if (p->shape || p->c.row != 1 || p->c.col == 1 || p->c.inner < p->n ||
        !limber_format_equal(p->fa, p->fb) || !limber_may_transpose(&r, &ctx->machine.target))
        return p;
    *turned = *p;
    turned->transposed = true;
    turned->m = p->n;
    turned->n = p->m;
    turned->a = p->b;
    turned->b = p->a;
    turned->step_a = p->step_b;
    turned->step_b = p->step_a;
    turned->each_a = p->each_b;
    turned->each_b = p->each_a;
    turned->kept[0] = p->kept[1];
    turned->kept[1] = p->kept[0];
    turned->finish = p->finish ? p->finish->turned : NULL;
    turned->c = (struct output_view){ p->c.data, p->c.col, p->c.row, p->m > 0 ? p->m : 1, 0 };
    return turned;
}

/* ---- ways in order until one serves the call ------------------------------------------------- */

/* Sets the fields of an attempt that ways with a plan read. */
static void begin_plans(struct attempt *x)
{
    x->p = transpose(x->ctx, x->p, &x->turned);
    x->plans = true;
    x->scanned = false;
    memset(&x->f, 0, sizeof x->f);
}

static void begin(struct attempt *x)
{
    x->at = ways;
    x->plans = false;
    x->again = limber_ways_run;
    x->plan_again = limber_ways_plan;
}

static void end(struct attempt *x)
{
    if (x->plans)
        limber_scan_result_clear(&x->f, x->p->groups);
}

/* The next way that accepts the call's arguments and, if `looks` is set, its data; NULL: none is
 * left.  Writes to `out`, unless it is NULL, why others refuse. */
static const struct way *next(struct attempt *x, bool looks, struct text *out)
{
    const struct way *w;
    const char *why;

    while ((w = *x->at)) {
        x->at++;
        if (w->plans && !x->plans)
            begin_plans(x);
        why = w->id != WAY_none && !limber_has_way(x->ctx, w->id) ? "it is not wanted" :
                                                                    w->refuses(x->ctx, x->p);
        if (!why && looks && w->suits && !w->suits(x))
            why = "the data is other";
        if (!why)
            return w;
        if (out)
            limber_text_add(out, "; not %s: %s\n", limber_way_name(w->id), why);
    }
    return NULL;
}

bool limber_ways_run(struct attempt *x)
{
    enum ran ran = RAN_not;
    const struct way *w;

    begin(x);
    while (ran == RAN_not && (w = next(x, false, NULL))) {
        ran = w->run(x);
        if (ran == RAN_done && x->r && w->id != WAY_none)
            x->r->way = w->id;
    }
    end(x);
    return ran == RAN_done;
}

bool limber_ways_workspace(struct attempt *x, bool batch, size_t *least, size_t *best)
{
    enum ran ran = RAN_not;
    const struct way *w;

    begin(x);
    *least = *best = 0;
    while (ran == RAN_not && (w = next(x, true, NULL)))
        ran = w->keeps_memory ? RAN_not :
              w->workspace    ? w->workspace(x, batch, least, best) :
                                RAN_done;
    end(x);
    return ran == RAN_done;
}

/* Announces the plan that would serve the call without this way, which needs none. */
static void say_needless(const struct way *w, struct text *out)
{
    if (out)
        limber_text_add(out, "; way=%s: %s.  Without it (LIMBER_WAYS=-%s):\n",
                        limber_way_name(w->id), limber_way_about(w->id), limber_way_name(w->id));
}

bool limber_ways_plan(struct attempt *x, struct text *out, struct cut *cut)
{
    const struct way *w, *planless = NULL; /* planless: the way that makes a plan needless */
    struct text why = { 0 };
    enum ran ran = RAN_not;

    begin(x);
    while (ran == RAN_not && (w = next(x, !planless, planless ? NULL : &why))) {
        if (!w->plan && !planless) {
            planless = w;
            say_needless(w, out);
        }
        if (!w->plan)
            continue;
        ran = w->plan(x, out, cut);
        if (ran == RAN_not && !planless)
            limber_text_add(&why, "; not %s: one plan is as fast\n", limber_way_name(w->id));
        if (ran == RAN_done && w->id != WAY_none)
            x->r->way = w->id;
    }
    if (ran == RAN_done && planless) {
        if (planless->report)
            planless->report(x);
        x->r->way = planless->id;
    }
    if (ran == RAN_done && out && why.s) {
        limber_text_add(out, "%s", why.s);
        out->failed = out->failed || why.failed;
    }
    limber_text_clear(&why);
    end(x);
    return ran == RAN_done;
}
