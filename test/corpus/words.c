/* SPDX-License-Identifier: BSD-3-Clause */
#include "corpus.h"

#include <stdlib.h>
#include <string.h>

/* Returns the next word of a line, without quotes.  NULL at the end of the line, or if a quote is
 * not closed. */
static char *next_word(char **at)
{
    char *from, *to;
    bool quoted = false;

    while (**at == ' ')
        ++*at;
    if (!**at)
        return NULL;
    for (from = to = *at; **at && (quoted || **at != ' '); ++*at)
        if (**at == '"')
            quoted = !quoted;
        else
            *to++ = **at;
    if (**at)
        ++*at;
    *to = 0;
    return quoted ? NULL : from;
}

/* Splits a line into its verb and words KEY=VALUE.  Returns false if the line is malformed. */
bool words_read(struct words *w, const char *line)
{
    char *at = w->text, *one;

    memset(w, 0, sizeof *w);
    if (strlen(line) >= sizeof w->text)
        return false;
    strcpy(w->text, line);
    w->verb = next_word(&at);
    while ((one = next_word(&at))) {
        char *sign = strchr(one, '=');

        if (!sign || w->count == WORDS)
            return false;
        *sign = 0;
        w->key[w->count] = one;
        w->value[w->count++] = sign + 1;
    }
    return w->verb && !*at;
}

/* Returns the value of a key, which then counts as used, or `otherwise`. */
const char *word(struct words *w, const char *key, const char *otherwise)
{
    for (int i = 0; i < w->count; i++)
        if (strcmp(w->key[i], key) == 0) {
            w->used[i] = true;
            return w->value[i];
        }
    return otherwise;
}

long number(struct words *w, const char *key, long otherwise)
{
    const char *s = word(w, key, NULL);

    return s ? strtol(s, NULL, 10) : otherwise;
}

/* Reads the comma-separated numbers of a key; the last one is repeated if there are too few. */
void numbers(struct words *w, const char *key, double otherwise, double *v, int count)
{
    const char *s = word(w, key, NULL);
    char *end = NULL;

    for (int i = 0; i < count; i++) {
        v[i] = !s ? otherwise : i && *end != ',' ? v[i - 1] : strtod(i ? end + 1 : s, &end);
    }
}

/* Returns a key that nobody asked for, or NULL. */
const char *words_unused(const struct words *w)
{
    for (int i = 0; i < w->count; i++)
        if (!w->used[i])
            return w->key[i];
    return NULL;
}
