/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the passes.  After each pass, calls the watcher and verifies the plan. */
#include "passes/passes.h"

#include <string.h>

const struct pass_info limber_passes[] = {
#define P(name, about) { #name, about, limber_pass_##name },
    LIMBER_PASSES(P)
#undef P
};
const size_t limber_pass_count = COUNT(limber_passes);

/* True if a comma-separated list has this name. */
static bool is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);

    for (const char *s = names; s; s = strchr(s, ','), s = s ? s + 1 : NULL)
        if (strncmp(s, name, n) == 0 && (s[n] == ',' || s[n] == 0))
            return true;
    return false;
}

/* Checks that each name of a comma-separated list is a pass. */
static bool check_names(const char *names, struct diag *d)
{
    for (const char *s = names; s; s = strchr(s, ','), s = s ? s + 1 : NULL) {
        size_t n = strcspn(s, ","), i;

        for (i = 0; i < limber_pass_count; i++)
            if (strlen(limber_passes[i].name) == n && strncmp(limber_passes[i].name, s, n) == 0)
                break;
        if (i == limber_pass_count)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "passes: no pass is called \"%.*s\"",
                               (int)n, s);
    }
    return true;
}

/* Runs all passes, or those in `names`, on a plan and verifies it after each one. w.visit is
 * called after each pass. */
bool limber_passes_run(struct plan *p, const struct target *t, const char *names,
                       struct pass_watch w, struct diag *d)
{
    if (names && !check_names(names, d))
        return false;
    if (t->shared && !t->blocks)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "target: backend %s does not say how its threads share memory",
                           t->backend);
    for (size_t i = 0; i < limber_pass_count; i++) {
        const struct pass_info *pass = &limber_passes[i];
        struct diag broken = { 0 };

        if (names && !is_listed(names, pass->name))
            continue;
        if (!pass->run(p, t, d))
            return false;
        if (w.visit)
            w.visit(w.user, pass->name, p);
        if (!limber_plan_verify(p, &broken))
            return broken.status == LIMBER_STATUS_NO_MEMORY ?
                       limber_fail_again(d, &broken) :
                       limber_fail(d, LIMBER_STATUS_INTERNAL, "pass %s broke the plan: %s",
                                   pass->name, broken.text);
    }
    return true;
}
