/* SPDX-License-Identifier: BSD-3-Clause
 * Reads and prints words and numbers of texts. */
#include "ir/lex.h"

#include <math.h>
#include <string.h>

/* Returns the next word of a line and moves *at to its end.  At the end of a line the word is
 * empty. */
struct word limber_lex_word(const char **at)
{
    const char *s = *at;
    struct word w;

    while (*s == ' ' || *s == '\t' || *s == '\r')
        s++;
    w.s = s;
    while (*s && *s != ' ' && *s != '\t' && *s != '\r' && *s != '\n')
        s++;
    w.n = (size_t)(s - w.s);
    *at = s;
    return w;
}

/* True if the word equals the text. */
bool limber_lex_is(struct word w, const char *text)
{
    return strlen(text) == w.n && !memcmp(w.s, text, w.n);
}

/* Splits w at the first c: returns the part before c, and leaves the part after it in w.  Without
 * a c, returns all of w and leaves w empty. */
struct word limber_lex_cut(struct word *w, char c)
{
    const char *at = w->n ? memchr(w->s, c, w->n) : NULL;
    struct word head = *w;

    if (!at) {
        w->s += w->n;
        w->n = 0;
        return head;
    }
    head.n = (size_t)(at - w->s);
    w->s = at + 1;
    w->n -= head.n + 1;
    return head;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses a decimal integer of at most 64 bits.  False if the word is not such an integer. */
bool limber_lex_int(struct word w, int64_t *v)
{
    bool minus = w.n && *w.s == '-';
    uint64_t u = 0;

    *v = 0;
    if (w.n == (size_t)minus)
        return false;
    for (size_t i = minus; i < w.n; i++) {
        if (!is_digit(w.s[i]) || u > (uint64_t)INT64_MAX / 10)
            return false;
        u = 10 * u + (unsigned)(w.s[i] - '0');
    }
    if (u > (uint64_t)INT64_MAX)
        return false;
    *v = minus ? -(int64_t)u : (int64_t)u;
    return true;
}

/* Returns the value of a hexadecimal digit in lower case; -1 if c is none. */
static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the part of a number such as 0x1.8p+3 that follows 0x.  It has at most 16 digits.  Returns
 * false if it is no such number. */
static bool read_hex_float(struct word w, double *v)
{
    struct word mantissa = limber_lex_cut(&w, 'p'), whole = limber_lex_cut(&mantissa, '.');
    uint64_t m = 0;
    int64_t e;

    if (w.n && *w.s == '+')
        w.s++, w.n--;
    if (!whole.n || whole.n + mantissa.n > 16 || !limber_lex_int(w, &e) || e < -9999 || e > 9999)
        return false;
    for (size_t i = 0; i < whole.n + mantissa.n; i++) {
        int d = hex_digit(i < whole.n ? whole.s[i] : mantissa.s[i - whole.n]);

        if (d < 0)
            return false;
        m = m << 4 | (unsigned)d;
    }
    if (m >> 53 && m & ((UINT64_C(1) << 11) - 1))
        return false;               /* more bits than a double has */
    *v = ldexp((double)m, (int)(e - 4 * (int64_t)mantissa.n));
    return isfinite(*v);
}

/* Reads a decimal such as 4.6e10.  The result may be some ulps off, which is enough for measured
 * rates.  Returns false if the word is no such number. */
static bool read_decimal(struct word w, double *v)
{
    struct word mantissa = limber_lex_cut(&w, 'e'), whole = limber_lex_cut(&mantissa, '.');
    int64_t e = 0;

    if (w.n && *w.s == '+')
        w.s++, w.n--;
    if (!whole.n || (w.n && !limber_lex_int(w, &e)) || e < -300 || e > 300 ||
        whole.n + mantissa.n > 300)
        return false;
    *v = 0;
    for (size_t i = 0; i < whole.n + mantissa.n; i++) {
        char c = i < whole.n ? whole.s[i] : mantissa.s[i - whole.n];

        if (!is_digit(c))
            return false;
        *v = 10 * *v + (c - '0');
    }
    e -= (int64_t)mantissa.n;
    *v = e < 0 ? *v / pow(10, (double)-e) : *v * pow(10, (double)e);
    return isfinite(*v);
}

/* Parses a number: 2^e, hexadecimal (0x...) or decimal.  False if the word is not a number. */
bool limber_lex_number(struct word w, double *v)
{
    int64_t e;

    *v = 0;
    if (w.n > 2 && w.s[0] == '2' && w.s[1] == '^') {
        w.s += 2;
        w.n -= 2;
        if (!limber_lex_int(w, &e) || e < -1074 || e > 1023)
            return false;
        *v = ldexp(1, (int)e);
        return true;
    }
    if (w.n > 2 && w.s[0] == '0' && w.s[1] == 'x') {
        w.s += 2;
        w.n -= 2;
        return read_hex_float(w, v);
    }
    return read_decimal(w, v);
}

/* Prints a finite number so that limber_lex_number reads the same value back: 0, a power of two,
 * or hexadecimal digits. */
void limber_print_number(struct text *out, double v)
{
    int e;
    uint64_t m = (uint64_t)ldexp(frexp(fabs(v), &e), 53);
    char digits[16];
    int n = 0;

    if (v == 0) {
        limber_text_add(out, "0");
    } else if (v > 0 && frexp(v, &e) == 0.5) {
        limber_text_add(out, "2^%d", e - 1);
    } else {
        for (m &= (UINT64_C(1) << 52) - 1; m; m = m << 4 & ((UINT64_C(1) << 52) - 1))
            digits[n++] = "0123456789abcdef"[m >> 48];
        limber_text_add(out, "%s0x1%s%.*sp%+d", v < 0 ? "-" : "", n ? "." : "", n, digits, e - 1);
    }
}
