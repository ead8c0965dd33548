/* SPDX-License-Identifier: BSD-3-Clause
 * The interpreter as a backend.  Its kernels are plans, stored as text. */
#include "backends/backend.h"
#include "backends/interp/eval.h"

#include <stdlib.h>
#include <string.h>

struct kernel {
    struct plan plan;
};

/* Implements backend.probe.  The numbers only guide the passes; they describe no property of the
 * interpreter. */
static bool probe(struct target *t, struct diag *d)
{
    (void)d;
    memset(t, 0, sizeof *t);
    strcpy(t->backend, "interp");
    strcpy(t->isa, "any");
    t->registers = 16;
    t->l1 = 32768;
    t->l2 = 1 << 20;
    t->group = 1;
    /* all units but `exact` get the same rate, since the interpreter takes equally long for each;
     * plans with few products are thus preferred */
    for (int u = 0; u < UNIT_count; u++)
        t->rate[u] = 1e8;
    t->rate[UNIT_exact] = 1e6;
    return true;
}

/* Implements backend.compile: the stored form of a kernel is the plan's text. */
static bool compile(const struct plan *p, const struct target *t, const struct dump *dump,
                    struct blob *out, struct diag *d)
{
    struct text s = { 0 };

    (void)t, (void)dump;
    limber_plan_print(p, &s);
    if (s.failed || !s.s) {
        limber_text_clear(&s);
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "interp: out of memory");
    }
    out->data = (unsigned char *)s.s;
    out->size = s.n;
    return true;
}

/* Implements backend.load: parses the plan's text. */
static bool load_kernel(const unsigned char *data, size_t size, struct kernel **kernel,
                        struct diag *d)
{
    struct kernel *k = calloc(1, sizeof *k);
    char *text = malloc(size + 1);
    bool ok = k && text;

    if (ok) {
        memcpy(text, data, size);
        text[size] = 0;
        limber_plan_init(&k->plan);
        ok = limber_plan_read(&k->plan, text, d);
    } else {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "interp: out of memory");
    }
    free(text);
    if (!ok && k) {
        limber_plan_clear(&k->plan);
        free(k);
        k = NULL;
    }
    *kernel = k;
    return ok;
}

/* Implements backend.launch: evaluates the plan node by node. */
static bool launch(struct kernel *k, struct call *c, struct diag *d)
{
    c->out.way = WAY_interpreter;
    return limber_interp_eval(&k->plan, c, d);
}

/* Implements backend.predict_way: the interpreter has one way only. */
static enum way_id predict_way(const struct plan *p, const struct target *t, const struct call *c,
                               struct text *out)
{
    (void)p, (void)t, (void)c, (void)out;
    return WAY_interpreter;
}

/* Implements backend.unload. */
static void unload(struct kernel *k)
{
    if (!k)
        return;
    limber_plan_clear(&k->plan);
    free(k);
}

const struct backend limber_backend_interp = { .name = "interp",
                                               .probe = probe,
                                               .compile = compile,
                                               .load = load_kernel,
                                               .launch = launch,
                                               .unload = unload,
                                               .predict_way = predict_way };
