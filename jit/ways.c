/* SPDX-License-Identifier: BSD-3-Clause
 * The list of code paths, called ways, and the functions that try them in order for a call. */
#include "jit/ways.h"

#include <string.h>

const struct way *const limber_ways[] = {
#define ROW(name, about) &limber_way_##name,
    LIMBER_CALL_WAYS(ROW) ROW(kernel, "")
#undef ROW
        NULL,
};

uint32_t limber_ways_planless(void)
{
    uint32_t set = 0;

    for (const struct way *const *w = limber_ways; *w; w++)
        set |= (*w)->plan ? 0 : limber_way_bit((*w)->id);
    return set;
}

/* ---- the variable LIMBER_WAYS ---------------------------------------------------------------- */

/* Code paths that LIMBER_WAYS cannot exclude, because without them some calls could not be
 * computed. */
static const uint32_t needed = 1 << WAY_packed | 1 << WAY_inside | 1 << WAY_interpreter;

/* Fails with the list of words that LIMBER_WAYS accepts. */
static bool fail_unknown_word(const char *name, int length, struct diag *d)
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

/* True if the text, of `length` characters, is this word. */
static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* Returns the set of ways with this name; 0 if the name is unknown.  "planless" names all ways that
 * need no plan. */
static uint32_t ways_of(const char *name, size_t length)
{
    for (int i = 1; i < WAY_count; i++)
        if (is_word(name, length, limber_way_name((enum way_id)i)))
            return limber_way_bit((enum way_id)i);
    return is_word(name, length, "planless") ? limber_ways_planless() : 0;
}

/* Parses LIMBER_WAYS, a list of "-NAME", and removes these ways (code paths) from *out. */
bool limber_ways_read(const char *text, uint32_t *out, struct diag *d)
{
    while (*text) {
        const size_t length = strcspn(text, ",");
        const uint32_t named = *text == '-' ? ways_of(text + 1, length - 1) : 0;

        if (!named)
            return fail_unknown_word(text, (int)length, d);
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

/* If C is column-major, returns the transposed problem C^T = B^T A^T in *turned, because kernels
 * store along rows.  Native sums have the same bits either way.  Other problems are returned
 * unchanged. */
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
    turned->at.step_a = p->at.step_b;
    turned->at.step_b = p->at.step_a;
    turned->at.each_a = p->at.each_b;
    turned->at.each_b = p->at.each_a;
    turned->kept[0] = p->kept[1];
    turned->kept[1] = p->kept[0];
    turned->finish = p->finish ? p->finish->turned : NULL;
    turned->c = (struct output_view){ p->c.data, p->c.col, p->c.row, p->m > 0 ? p->m : 1, 0 };
    return turned;
}

/* ---- ways in order until one serves the call ------------------------------------------------- */

/* Prepares an attempt for ways that use a plan. */
static void begin_plans(struct attempt *x)
{
    x->p = x->p->c.row == 1 ? transpose(x->ctx, x->p, &x->turned) : x->p;
    x->plans = true;
    x->scanned = false;
    memset(&x->f, 0, sizeof x->f);
}

/* Prepares an attempt to compute a call. */
static void begin_attempt(struct attempt *x)
{
    x->at = limber_ways;
    x->plans = false;
    x->again = limber_ways_run;
    x->plan_again = limber_ways_plan;
}

/* Frees the scan's result, which exists once the attempt has reached a way that needs plans. */
static void end_attempt(struct attempt *x)
{
    if (x->plans)
        limber_scan_result_clear(&x->f, x->p->groups);
}

/* Returns the reason why a way does not take a call, as text; NULL if it may. */
static const char *refusal(const limber_context *ctx, const struct problem *p, const struct way *w)
{
    return w->id != WAY_none && !limber_has_way(ctx, w->id) ? "it is not wanted" :
                                                              w->refuses(ctx, p);
}

uint32_t limber_ways_open(const limber_context *ctx, const struct problem *p)
{
    struct problem turned;
    const struct problem *q = transpose(ctx, p, &turned);
    uint32_t open = 0;

    for (const struct way *const *w = limber_ways; *w; w++)
        if (!refusal(ctx, (*w)->plans ? q : p, *w))
            open |= limber_way_bit((*w)->id);
    return open;
}

/* Returns the next way (code path) of the list that accepts the call's arguments and, if `looks`,
 * its data.  NULL if no way is left.  Writes to `out`, unless it is NULL, why the ways before it
 * refuse. */
static const struct way *next_way(struct attempt *x, bool looks, struct text *out)
{
    const struct way *w;
    const char *why;

    while ((w = *x->at)) {
        x->at++;
        if (w->plans && !x->plans)
            begin_plans(x);
        if (x->accepted)
            why = x->accepted->open >> w->id & 1 ? NULL : "";
        else
            why = refusal(x->ctx, x->p, w);
        if (!why && looks && w->suits && !w->suits(x))
            why = "the data is other";
        if (!why)
            return w;
        if (out)
            limber_text_add(out, "; not %s: %s\n", limber_way_name(w->id), why);
    }
    return NULL;
}

/* Computes a product by the first way (code path) that accepts it.  False on failure. */
bool limber_ways_run(struct attempt *x)
{
    enum ran ran = RAN_not;
    const struct way *w;

    begin_attempt(x);
    while (ran == RAN_not && (w = next_way(x, false, NULL))) {
        ran = w->run(x);
        if (ran == RAN_done && x->r && w->id != WAY_none)
            x->r->way = w->id;
    }
    end_attempt(x);
    return ran == RAN_done;
}

/* Computes the workspace of the first way (code path) that accepts the product.  Returns false on
 * an error. */
bool limber_ways_workspace(struct attempt *x, bool batch, size_t *least, size_t *best)
{
    enum ran ran = RAN_not;
    const struct way *w;

    begin_attempt(x);
    *least = *best = 0;
    while (ran == RAN_not && (w = next_way(x, true, NULL)))
        ran = w->keeps_memory ? RAN_not :
              w->workspace    ? w->workspace(x, batch, least, best) :
                                RAN_done;
    end_attempt(x);
    return ran == RAN_done;
}

/* Prints that this way (code path) computes the call without a plan.  The plan that would be used
 * without it is printed next. */
static void print_planless_way(const struct way *w, struct text *out)
{
    if (out)
        limber_text_add(out, "; way=%s: %s.  Without it (LIMBER_WAYS=-%s):\n",
                        limber_way_name(w->id), limber_way_about(w->id), limber_way_name(w->id));
}

/* Prints the plan of the way (code path) that would compute the product, and why others would
 * not. cut: how it would be cut, or NULL. */
bool limber_ways_plan(struct attempt *x, struct text *out, struct cut *cut)
{
    /* planless: a way without a plan that computes the call */
    const struct way *w, *planless = NULL;
    struct text why = { 0 };
    enum ran ran = RAN_not;

    begin_attempt(x);
    while (ran == RAN_not && (w = next_way(x, !planless, planless ? NULL : &why))) {
        if (!w->plan && !planless) {
            planless = w;
            print_planless_way(w, out);
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
    end_attempt(x);
    return ran == RAN_done;
}
