/* SPDX-License-Identifier: BSD-3-Clause */
#include "ir/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool limber_fail(struct diag *d, limber_status s, const char *format, ...)
{
    va_list args;

    if (d->status != LIMBER_OK)
        return false;
    d->status = s;
    va_start(args, format);
    vsnprintf(d->text, sizeof d->text, format, args);
    va_end(args);
    return false;
}

void limber_fail_in(struct diag *d, const char *where)
{
    char inner[sizeof d->text];

    memcpy(inner, d->text, sizeof inner);
    snprintf(d->text, sizeof d->text, "%.100s: %.360s", where, inner);
}

void limber_text_add(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || t->failed) {
        t->failed = true;
        return;
    }
    if (t->n + (size_t)n + 1 > t->room) {
        size_t room = 2 * t->room + (size_t)n + 64;
        char *s = realloc(t->s, room);

        if (!s) {
            t->failed = true;
            return;
        }
        t->s = s;
        t->room = room;
    }
    va_start(args, format);
    vsnprintf(t->s + t->n, t->room - t->n, format, args);
    va_end(args);
    t->n += (size_t)n;
}

void limber_text_clear(struct text *t)
{
    free(t->s);
    memset(t, 0, sizeof *t);
}

static const struct { const char *name, *meaning; } statuses[] = {
#define ROW(name, meaning) { #name, meaning },
    LIMBER_STATUSES(ROW)
#undef ROW
};

const char *limber_status_name(limber_status s)
{
    return (unsigned)s < COUNT(statuses) ? statuses[s].name : "UNKNOWN";
}

const char *limber_status_meaning(limber_status s)
{
    return (unsigned)s < COUNT(statuses) ? statuses[s].meaning : "";
}
