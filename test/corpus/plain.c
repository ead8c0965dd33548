/* SPDX-License-Identifier: BSD-3-Clause
 * Normalises generated text, so that it does not depend on names, comments and versions of LLVM. */
#include "corpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Names of one kind, numbered in the order in which they occur. */
enum { SLOTS = 1 << 16 };
struct names {
    struct {
        const char *s;
        size_t length, index;
    } slot[SLOTS]; /* hash table with open addressing; s points into the text */
    size_t count;
};

/* Returns the number of a name; a new name gets the next number. */
static size_t number_of_name(struct names *n, const char *s, size_t length)
{
    size_t at = length;

    for (size_t i = 0; i < length; i++)
        at = at * 31 + (unsigned char)s[i];
    for (at %= SLOTS; n->slot[at].s; at = (at + 1) % SLOTS)
        if (n->slot[at].length == length && memcmp(n->slot[at].s, s, length) == 0)
            return n->slot[at].index;
    /* once half of the table is used, new names get numbers but are not entered; in practice this
     * does not occur */
    if (n->count < SLOTS / 2) {
        n->slot[at].s = s;
        n->slot[at].length = length;
        n->slot[at].index = n->count;
    }
    return n->count++;
}

/* Empties a table of names. */
static void forget_names(struct names *n)
{
    if (n->count)
        memset(n, 0, sizeof *n);
}

/* Length of the LLVM identifier at s. */
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

/* Normalises a line of LLVM IR, which ends at `end`. */
static void llvm_line(const char *s, const char *end, struct names *globals, struct names *locals,
                      FILE *out)
{
    size_t label = name_length(s);

    if (label && s[label] == ':') {
        fprintf(out, "%%%zu:\n", number_of_name(locals, s, label));
        return;
    }
    for (bool quoted = false; s < end;) {
        size_t n = (*s == '%' || *s == '@') && !quoted ? name_length(s + 1) : 0;

        if (*s == '"')
            quoted = !quoted;
        if (!quoted && starts_with(s, "c\"")) {
            /* skips constant bytes; quotes inside are escaped as hexadecimal */
            s = strchr(s + 2, '"') + 1;
            continue;
        }
        if (!quoted && (starts_with(s, ", !") || starts_with(s, " !")))
            break; /* metadata is the end of the line */
        if (n == 0 || starts_with(s, "@llvm.")) {
            fputc(*s++, out);
            continue;
        }
        if (*s == '@' || starts_with(s, "%struct.") || starts_with(s, "%union."))
            fprintf(out, "@%zu", number_of_name(globals, s + 1, n));
        else
            fprintf(out, "%%%zu", number_of_name(locals, s + 1, n));
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

/* Writes C code without comments, and with each run of white space as one blank. */
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
