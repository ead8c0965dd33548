/* SPDX-License-Identifier: BSD-3-Clause
 * Prints and reads a machine as one line of text, which tests, dumps and cache keys use. */
#include "ir/lex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints a rate rounded to three digits (measured rates are not more precise): "4.6e10". */
static void print_rate(struct text *out, const char *word, const char *unit, double rate)
{
    char digits[32];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%.0f", rate < 1e20 ? rate : 1e20);
    int v = atoi((char[]){ digits[0], n > 1 ? digits[1] : '0', n > 2 ? digits[2] : '0', 0 });

    v += n > 3 && digits[3] >= '5';
    if (v == 1000) {
        v = 100;
        n++;
    }
    limber_text_add(out, " %s%s=%d", word, unit, v / 100);
    if (v % 100)
        limber_text_add(out, v % 10 ? ".%02d" : ".%d", v % 10 ? v % 100 : v % 100 / 10);
    if (n > 1)
        limber_text_add(out, "e%zu", n - 1);
}

/* Prints a target as text that limber_target_parse reads. */
void limber_target_print(const struct target *t, struct text *out)
{
    limber_text_add(out, "target %s isa=%s", t->backend, t->isa);
    if (t->features[0])
        limber_text_add(out, " features=%s", t->features);
    limber_text_add(out, " vector=%d registers=%d l1=%lld l2=%lld group=%d", t->vector_bits,
                    t->registers, (long long)t->l1, (long long)t->l2, t->group);
    if (t->matrix)
        limber_text_add(out, " matrix=%d", t->matrix);
    if (t->sums[0])
        limber_text_add(out, " sums=%s", t->sums);
    if (t->shared)
        limber_text_add(out, " shared=%lld", (long long)t->shared);
    for (int u = 0; u < UNIT_count; u++)
        if (t->tile[u][0])
            limber_text_add(out, " tile.%s=%d,%d,%d", limber_units[u].name, t->tile[u][0],
                            t->tile[u][1], t->tile[u][2]);
    for (int u = 0; u < UNIT_count; u++)
        if (t->rate[u] > 0)
            print_rate(out, "rate.", limber_units[u].name, t->rate[u]);
    if (t->bandwidth > 0)
        print_rate(out, "bandwidth", "", t->bandwidth);
    limber_text_add(out, "\n");
}

/* Copies n characters to a field of `size` bytes.  Returns false if they do not fit. */
static bool copy_word(char *to, size_t size, const char *s, size_t n)
{
    if (n >= size)
        return false;
    memcpy(to, s, n);
    to[n] = 0;
    return true;
}

/* Reads a number from 0 to 2^31 - 2.  Returns false if it is none. */
static bool read_count(const char *s, size_t n, int64_t *v)
{
    return limber_lex_int((struct word){ s, n }, v) && *v >= 0 && *v < INT32_MAX;
}

/* Reads "rate.UNIT=NUMBER".  Returns false if it is wrong. */
static bool read_rate(struct target *t, const char *key, size_t k, const char *s, size_t n)
{
    for (int u = 0; u < UNIT_count; u++)
        if (strlen(limber_units[u].name) == k - 5 &&
            strncmp(key + 5, limber_units[u].name, k - 5) == 0)
            return limber_lex_number((struct word){ s, n }, &t->rate[u]) && t->rate[u] >= 0;
    return false;
}

/* Reads "tile.UNIT=MR,MB,NB": three positive numbers.  Returns false if they are wrong. */
static bool read_tile(struct target *t, const char *key, size_t k, const char *s, size_t n)
{
    int64_t v[3];
    size_t at = 0;

    for (int i = 0; i < 3; i++) {
        size_t digits = strspn(s + at, "0123456789");

        if (at + digits > n || !read_count(s + at, digits, &v[i]) || v[i] == 0 || v[i] > 65536 ||
            (i < 2 ? s[at + digits] != ',' : at + digits != n))
            return false;
        at += digits + 1;
    }
    for (int u = 0; u < UNIT_count; u++)
        if (strlen(limber_units[u].name) == k - 5 &&
            strncmp(key + 5, limber_units[u].name, k - 5) == 0) {
            for (int i = 0; i < 3; i++)
                t->tile[u][i] = (int)v[i];
            return true;
        }
    return false;
}

/* Sets the field that a word "key=value" names.  Returns false if the key is unknown or the value
 * is wrong. */
static bool read_field(struct target *t, const char *key, size_t k, const char *s, size_t n)
{
    static const struct {
        const char *name;
        size_t at;
        bool wide;
    } fields[] = {
        { "vector", offsetof(struct target, vector_bits), false },
        { "registers", offsetof(struct target, registers), false },
        { "group", offsetof(struct target, group), false },
        { "matrix", offsetof(struct target, matrix), false },
        { "l1", offsetof(struct target, l1), true },
        { "l2", offsetof(struct target, l2), true },
        { "shared", offsetof(struct target, shared), true },
    };
    int64_t v;

    if (k == 3 && strncmp(key, "isa", k) == 0)
        return copy_word(t->isa, sizeof t->isa, s, n);
    if (k == 4 && strncmp(key, "sums", k) == 0)
        return copy_word(t->sums, sizeof t->sums, s, n);
    if (k == 8 && strncmp(key, "features", k) == 0)
        return copy_word(t->features, sizeof t->features, s, n);
    if (k > 5 && strncmp(key, "rate.", 5) == 0)
        return read_rate(t, key, k, s, n);
    if (k == 9 && strncmp(key, "bandwidth", k) == 0)
        return limber_lex_number((struct word){ s, n }, &t->bandwidth) && t->bandwidth >= 0;
    if (k > 5 && strncmp(key, "tile.", 5) == 0)
        return read_tile(t, key, k, s, n);
    for (size_t i = 0; i < COUNT(fields); i++) {
        if (strlen(fields[i].name) != k || strncmp(key, fields[i].name, k))
            continue;
        if (!read_count(s, n, &v))
            return false;
        if (fields[i].wide)
            memcpy((char *)t + fields[i].at, &v, sizeof v);
        else
            memcpy((char *)t + fields[i].at, &(int){ (int)v }, sizeof(int));
        return true;
    }
    return false;
}

/* Parses the text of a target.  False, with an error, if it is wrong. */
bool limber_target_parse(struct target *t, const char *text, struct diag *d)
{
    const char *s = text + strspn(text, " \t\n");
    size_t n;

    memset(t, 0, sizeof *t);
    if (strncmp(s, "target ", 7))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "target: \"%.40s\" is not \"target NAME word=value ...\", nor a name "
                           "such as avx2 or sm_90a",
                           s);
    s += 7;
    n = strcspn(s, " \n");
    if (n == 0 || !copy_word(t->backend, sizeof t->backend, s, n))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "target: no backend's name");
    for (s += n, s += strspn(s, " \t\n"); *s; s += n, s += strspn(s, " \t\n")) {
        size_t key;

        n = strcspn(s, " \t\n");
        key = strcspn(s, "=");
        if (key >= n || !read_field(t, s, key, s + key + 1, n - key - 1))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "target: \"%.*s\" is not understood",
                               (int)(n < 60 ? n : 60), s);
    }
    return true;
}

/* True if the target's list of features has this one. */
bool limber_target_has(const struct target *t, const char *feature)
{
    size_t n = strlen(feature);

    for (const char *s = t->features; *s;) {
        size_t word = strcspn(s, ",");

        if (word == n && strncmp(s, feature, n) == 0)
            return true;
        s += word + (s[word] == ',');
    }
    return false;
}

/* Returns true if the CPU multiplies by outer products (SME), whose tile of registers is fixed. */
bool limber_target_is_outer(const struct target *t)
{
    return strncmp(t->isa, "sme", 3) == 0;
}
