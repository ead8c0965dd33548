/* SPDX-License-Identifier: BSD-3-Clause
 * Normalises generated text, so that other names, comments and versions give the same. */
#include "corpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Names of a name space, numbered in order of occurrence. */
enum { SLOTS = 1 << 16 };
struct names {
    struct {
        const char *s;
        size_t length, index;
    } slot[SLOTS];    /* s points into the text */
    size_t count;
};

static size_t index_of(struct names *n, const char *s, size_t length)
{
    size_t at = length;

    for (size_t i = 0; i < length; i++)
        at = at * 31 + (unsigned char)s[i];
    for (at %= SLOTS; n->slot[at].s; at = (at + 1) % SLOTS)
        if (n->slot[at].length == length && memcmp(n->slot[at].s, s, length) == 0)
            return n->slot[at].index;
    if (n->count < SLOTS / 2) {         /* the table never fills in practice */
        n->slot[at].s = s;
        n->slot[at].length = length;
        n->slot[at].index = n->count;
    }
    return n->count++;
}

static void forget_names(struct names *n)
{
    if (n->count)
        memset(n, 0, sizeof *n);
}

static size_t name_length(const char *s)
{
    size_t n = 0;

    if (*s == '"')
        return strcspn(s + 1, "\"") + 2;
    while (isalnum((unsigned char)s[n]) || (s[n] && strchr("$._-", s[n])))
        n++;
    return n;
}

static bool starts_with(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Normalises a line of LLVM IR without its newline. */
static void llvm_line(const char *s, const char *end, struct names *globals, struct names *locals,
                      FILE *out)
{
    size_t label = name_length(s);

    if (label && s[label] == ':') {
        fprintf(out, "%%%zu:\n", index_of(locals, s, label));
        return;
    }
    for (bool quoted = false; s < end;) {
        size_t n = (*s == '%' || *s == '@') && !quoted ? name_length(s + 1) : 0;

        if (*s == '"')
            quoted = !quoted;
        if (!quoted && starts_with(s, "c\"")) {
            s = strchr(s + 2, '"') + 1;     /* constant bytes; quotes inside are escaped */
            continue;
        }
        if (!quoted && (starts_with(s, ", !") || starts_with(s, " !")))
            break;              /* metadata ends the line */
        if (n == 0 || starts_with(s, "@llvm.")) {
            fputc(*s++, out);
            continue;
        }
        if (*s == '@' || starts_with(s, "%struct.") || starts_with(s, "%union."))
            fprintf(out, "@%zu", index_of(globals, s + 1, n));
        else
            fprintf(out, "%%%zu", index_of(locals, s + 1, n));
        s += 1 + n;
    }
    fputc('\n', out);
}

void plain_llvm(const char *text, FILE *out)
{
    struct names *globals = calloc(2, sizeof *globals), *locals = globals + 1;

    for (const char *s = text, *end; *s; s = end + (*end == '\n')) {
        end = s + strcspn(s, "\n");
        if (end == s || *s == ';' || *s == '!' || starts_with(s, "source_filename"))
            continue;
        if (starts_with(s, "define"))
            forget_names(locals);
        llvm_line(s, end, globals, locals, out);
    }
    free(globals);
}

void plain_c(const char *text, FILE *out)
{
    bool blank = false;

    for (const char *s = text; *s; s++) {
        if (starts_with(s, "/*") && strstr(s + 2, "*/")) {
            s = strstr(s + 2, "*/") + 1;
            blank = true;
        } else if (starts_with(s, "//")) {
            s += strcspn(s, "\n") - 1;
        } else if (isspace((unsigned char)*s)) {
            blank = true;
        } else {
            if (blank)
                fputc(' ', out);
            fputc(*s, out);
            blank = false;
        }
    }
    fputc('\n', out);
}
