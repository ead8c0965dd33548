/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE     /* fopencookie */
#include "tools/plain_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Returns the number of bytes that follow the first byte of a UTF-8 character. */
static int continuation_bytes(unsigned char c)
{
    return c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 0;
}

/* True if the byte is part of a control character.  U+0080 to U+009F are control characters, too:
 * in UTF-8 after the byte C2, and as single bytes for terminals without UTF-8. */
static bool is_control(const struct plain_text *state, unsigned char c)
{
    return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
           (c >= 0x80 && c < 0xa0 && (!state->missing || state->lead == 0xc2));
}

/* Copies n bytes with each control character replaced by its code in the form \u001b. state: an
 * unfinished UTF-8 character at the end of the previous call.  Returns the bytes written. */
size_t plain_text_copy(struct plain_text *state, char *to, const char *from, size_t n)
{
    char *at = to;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)from[i];

        if (is_control(state, c)) {
            /* overwrites the byte C2, with which this control character began */
            at -= c >= 0x80 && state->missing && at > to;
            at += snprintf(at, PLAIN_TEXT_MOST + 1, "\\u%04x", c);
            state->missing = 0;
            continue;
        }
        if (state->missing && c >= 0x80 && c < 0xc0) {
            state->missing--;
            state->lead = 0;
        } else {
            state->missing = continuation_bytes(c);
            state->lead = c;
        }
        *at++ = (char)c;
    }
    return (size_t)(at - to);
}

char *plain_text_of(const char *s)
{
    struct plain_text state = { 0 };
    size_t n = strlen(s);
    char *plain = malloc(PLAIN_TEXT_MOST * n + 1);

    if (plain)
        plain[plain_text_copy(&state, plain, s, n)] = '\0';
    return plain;
}

/* ---- standard output ------------------------------------------------------------------------- */

#ifdef __GLIBC__
static bool write_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDOUT_FILENO, text, n);

        if (done < 0)
            return false;
        text += done;
        n -= (size_t)done;
    }
    return true;
}

/* For fopencookie: writes n bytes of text without control characters.  Returns n, or 0 on
 * failure. */
static ssize_t write_plain(void *cookie, const char *text, size_t n)
{
    static struct plain_text state;
    char plain[PLAIN_TEXT_MOST * 512 + 1];

    (void)cookie;
    for (size_t i = 0; i < n; i += 512) {
        size_t part = n - i < 512 ? n - i : 512;

        if (!write_all(plain, plain_text_copy(&state, plain, text + i, part)))
            return 0;
    }
    return (ssize_t)n;
}

void plain_text_output(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_plain });

    if (!f)
        return;
    fflush(stdout);
    if (isatty(STDOUT_FILENO))
        setvbuf(f, NULL, _IOLBF, 0);
    stdout = f;
}
#else
void plain_text_output(void)
{
}
#endif
