/* SPDX-License-Identifier: BSD-3-Clause
 * The first error of a call, names of statuses, and growing texts. */
#define _GNU_SOURCE     /* declares newlocale under any standard */
#include "ir/ir.h"

#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define LIMBER_STATUS_ROW(name, meaning) #name,
    LIMBER_STATUSES(LIMBER_STATUS_ROW)
#undef LIMBER_STATUS_ROW
};
static const char *const meanings[] = {
#define LIMBER_STATUS_ROW(name, meaning) meaning,
    LIMBER_STATUSES(LIMBER_STATUS_ROW)
#undef LIMBER_STATUS_ROW
};

/* Returns the name of a status, such as "BAD_ARGUMENT". */
const char *limber_status_name(limber_status s)
{
    return (size_t)s < COUNT(names) ? names[s] : "UNKNOWN";
}

/* Returns a sentence that explains the status. */
const char *limber_status_meaning(limber_status s)
{
    return (size_t)s < COUNT(meanings) ? meanings[s] : "not a status of this library";
}

static locale_t plain;
static pthread_once_t plain_made = PTHREAD_ONCE_INIT;

/* Creates the locale "C", in which numbers are printed with a decimal point. */
static void make_plain_locale(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t limber_plain_numbers(void)
{
    pthread_once(&plain_made, make_plain_locale);
    return uselocale(plain);
}

/* Does vsnprintf, but prints a decimal point in any locale. */
static int print_plain(char *to, size_t size, const char *format, va_list list)
{
    locale_t before = limber_plain_numbers();
    int n = vsnprintf(to, size, format, list);

    uselocale(before);
    return n;
}

/* Records an error with a formatted text in d, unless d has one already.  Always returns false. */
bool limber_fail(struct diag *d, limber_status s, const char *format, ...)
{
    va_list list;

    if (!d || d->status != LIMBER_STATUS_OK)
        return false;
    d->status = s;
    va_start(list, format);
    if (print_plain(d->text, sizeof d->text, format, list) < 0)
        d->text[0] = 0;
    va_end(list);
    return false;
}

/* Records the error of another diag in d, unless d has one already.  Always returns false. */
bool limber_fail_again(struct diag *d, const struct diag *why)
{
    if (d && d->status == LIMBER_STATUS_OK)
        *d = *why;
    return false;
}

/* Prepends "where: " to the text of an error, if there is one, and shortens the text if
 * necessary. */
void limber_fail_in(struct diag *d, const char *where)
{
    size_t n = strlen(where), capacity = sizeof d->text - 3, kept;

    if (!d || d->status == LIMBER_STATUS_OK || n > capacity)
        return;
    kept = strlen(d->text);
    if (kept > capacity - n)
        kept = capacity - n;
    memmove(d->text + n + 2, d->text, kept);
    memcpy(d->text, where, n);
    memcpy(d->text + n, ": ", 2);
    d->text[n + 2 + kept] = 0;
}

/* Makes room for `more` bytes and a terminating zero.  Returns false if memory runs out. */
static bool reserve_bytes(struct text *t, size_t more)
{
    size_t capacity = t->capacity ? t->capacity : 256;
    char *s;

    if (more >= SIZE_MAX / 2 - t->n)
        return false;
    while (capacity < t->n + more + 1)
        capacity *= 2;
    if (capacity == t->capacity)
        return true;
    s = realloc(t->s, capacity);
    if (!s)
        return false;
    t->s = s;
    t->capacity = capacity;
    return true;
}

/* Appends a formatted string to a text.  Sets t->failed if memory runs out. */
void limber_text_add(struct text *t, const char *format, ...)
{
    va_list list;
    int n;

    if (t->failed)
        return;
    va_start(list, format);
    n = print_plain(NULL, 0, format, list);
    va_end(list);
    if (n < 0 || !reserve_bytes(t, (size_t)n)) {
        t->failed = true;
        return;
    }
    va_start(list, format);
    print_plain(t->s + t->n, t->capacity - t->n, format, list);
    va_end(list);
    t->n += (size_t)n;
}

/* Frees the text. */
void limber_text_clear(struct text *t)
{
    free(t->s);
    memset(t, 0, sizeof *t);
}
