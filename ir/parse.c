/* SPDX-License-Identifier: BSD-3-Clause
 * Text to plan.  Every message names the line; hostile text is refused, never trusted. */
#include "ir/ir.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 64, LISTED = 64, NODES = 4096, ROWS = 16384 };

struct parse {
    struct plan *p;
    const char *s;      /* next character */
    int line;
    struct diag *d;
    char word[WORD];
};

static bool fail(struct parse *x, const char *what)
{
    return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: %s", x->line, what);
}

static bool no_memory(struct parse *x)
{
    return limber_fail(x->d, LIMBER_NO_MEMORY, "line %d: out of memory", x->line);
}

/* Spaces within the line, and a comment up to its end. */
static void blanks(struct parse *x)
{
    while (*x->s == ' ' || *x->s == '\t' || *x->s == '\r')
        x->s++;
    if (*x->s == ';')
        x->s += strcspn(x->s, "\n");
}

static void lines(struct parse *x)
{
    for (blanks(x); *x->s == '\n'; blanks(x)) {
        x->s++;
        x->line++;
    }
}

static bool accept(struct parse *x, const char *text)
{
    size_t n = strlen(text);

    blanks(x);
    if (strncmp(x->s, text, n))
        return false;
    x->s += n;
    return true;
}

static bool expect(struct parse *x, const char *text)
{
    if (accept(x, text))
        return true;
    return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: expected \"%s\" before \"%.*s\"",
                       x->line, text, (int)strcspn(x->s, " \n") % 40, x->s);
}

static bool word(struct parse *x, const char *what)
{
    size_t n = 0;

    blanks(x);
    while (isalnum((unsigned char)x->s[n]) || (x->s[n] && strchr("_-", x->s[n])))
        n++;
    if (n == 0 || n >= WORD)
        return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: expected %s", x->line, what);
    memcpy(x->word, x->s, n);
    x->word[n] = 0;
    x->s += n;
    return true;
}

static bool integer(struct parse *x, int64_t *v)
{
    char *end;

    if (!isdigit((unsigned char)*x->s) && *x->s != '-')
        return fail(x, "expected a number");
    errno = 0;
    *v = strtoll(x->s, &end, 10);
    if (end == x->s || errno)
        return fail(x, "expected a number of at most 63 bits");
    x->s = end;
    return true;
}

static bool small(struct parse *x, int *v, int low, int high)
{
    int64_t n;

    if (!integer(x, &n))
        return false;
    if (n < low || n > high)
        return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: %lld lies outside %d..%d", x->line,
                           (long long)n, low, high);
    *v = (int)n;
    return true;
}

/* 2^e, a hexadecimal or decimal float, or any. */
static bool number(struct parse *x, double *v)
{
    char *end;
    int e;

    if (strncmp(x->s, "any", 3) == 0) {
        x->s += 3;
        *v = INFINITY;
        return true;
    }
    if (strncmp(x->s, "2^", 2) == 0) {
        x->s += 2;
        if (!small(x, &e, -100000, 1023))
            return false;
        *v = ldexp(1, e);
        return true;
    }
    *v = strtod(x->s, &end);
    if (end == x->s || !isfinite(*v) || *v < 0)
        return fail(x, "expected a number that is not negative");
    x->s = end;
    return true;
}

/* ---- values -------------------------------------------------------------------------------- */

static int find(const struct parse *x, const char *name)
{
    for (size_t i = 0; i < x->p->nodes; i++)
        if (strcmp(x->p->node[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool value(struct parse *x, int *v)
{
    if (!expect(x, "%") || !word(x, "the name of a value"))
        return false;
    *v = find(x, x->word);
    return *v >= 0 || limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: %%%s is not defined",
                                  x->line, x->word);
}

static bool format(struct parse *x, limber_format *f)
{
    char name[WORD];
    size_t n = strcspn(x->s, "[ \n");

    if (n == 0 || n >= sizeof name)
        return fail(x, "expected a format");
    memcpy(name, x->s, n);
    name[n] = 0;
    x->s += n;
    if (limber_format_named(name, f) != LIMBER_OK)
        return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: no format is called \"%s\"",
                           x->line, name);
    return true;
}

static bool type(struct parse *x, struct type *t)
{
    memset(t, 0, sizeof *t);
    t->count = 1;
    if (!expect(x, ":"))
        return false;
    blanks(x);
    if (!format(x, &t->format) || !expect(x, "["))
        return false;
    do {
        if (t->rank == 4)
            return fail(x, "more than four dimensions");
        blanks(x);
        if (islower((unsigned char)*x->s))
            t->dim[t->rank] = -*x->s++;
        else if (!integer(x, &t->dim[t->rank]))
            return false;
        else if (t->dim[t->rank] < 0)
            return fail(x, "a negative dimension");
        t->rank++;
    } while (accept(x, ","));
    if (!expect(x, "]"))
        return false;
    if (*x->s == 'x') {
        x->s++;
        return small(x, &t->count, 0, 4096);
    }
    return true;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool list(struct parse *x, struct node *n, enum attr a)
{
    int64_t v[LISTED];
    size_t count = 0;

    do {
        if (count == LISTED)
            return fail(x, "the list is too long");
        if (!integer(x, &v[count++]))
            return false;
    } while (*x->s == ',' && x->s++);
    return limber_node_list(x->p, n, a, v, count) || no_memory(x);
}

static bool choice(struct parse *x, struct node *n, enum attr a)
{
    const char *words = limber_attrs[a].words;

    if (!word(x, words))
        return false;
    for (int64_t i = 0; words; i++, words = strchr(words, '|'), words = words ? words + 1 : NULL)
        if (strlen(x->word) == strcspn(words, "|") &&
            strncmp(words, x->word, strlen(x->word)) == 0) {
            limber_node_set(n, a, i);
            return true;
        }
    return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: %s is one of %s, not %s", x->line,
                       limber_attrs[a].name, limber_attrs[a].words, x->word);
}

static bool attribute(struct parse *x, struct node *n)
{
    int64_t v;

    if (!word(x, "an attribute"))
        return false;
    for (int a = 0; a < ATTR_count; a++) {
        if (strcmp(limber_attrs[a].name, x->word))
            continue;
        if (limber_node_has(n, (enum attr)a))
            return fail(x, "an attribute given twice");
        if (*x->s++ != '=')
            return fail(x, "expected \"=\" after an attribute");
        switch (limber_attrs[a].kind) {
        case ATTR_LIST: return list(x, n, (enum attr)a);
        case ATTR_WORD: return choice(x, n, (enum attr)a);
        default:
            if (!integer(x, &v))
                return false;
            limber_node_set(n, (enum attr)a, v);
            return true;
        }
    }
    return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: no attribute is called \"%s\"",
                       x->line, x->word);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static bool limb(struct parse *x, int value_of, int *index)
{
    int v;

    if (!value(x, &v))
        return false;
    if (v != value_of)
        return fail(x, "a row multiplies the limbs of the operation's own operands");
    return *x->s++ == '.' ? small(x, index, 0, 4095) : fail(x, "expected \".\" and a limb");
}

static bool row(struct parse *x, const struct node *n, struct row *r)
{
    memset(r, 0, sizeof *r);
    if (!limb(x, n->in[0], &r->a) || !limb(x, n->in[1], &r->b) || !expect(x, "acc=") ||
        !small(x, &r->acc, 0, 4095) || !expect(x, "w=2^") ||
        !small(x, &r->weight, -4096, 4096) || !expect(x, "share="))
        return false;
    if (accept(x, "all"))
        r->share = INFINITY;
    else if (!number(x, &r->share))
        return false;
    return true;
}

static bool rows(struct parse *x, int at)
{
    struct node *n = &x->p->node[at];
    struct row *table = NULL;
    size_t count = 0, room = 0;
    bool ok = n->nin == 2 ? expect(x, "{") : fail(x, "products needs two operands");

    for (lines(x); ok && accept(x, "row"); lines(x)) {
        if (count == room) {
            struct row *grown = realloc(table, (room = room ? 2 * room : 16) * sizeof *grown);

            if (!grown || count == ROWS) {
                free(grown ? grown : table);
                return grown ? fail(x, "too many rows") : no_memory(x);
            }
            table = grown;
        }
        ok = row(x, n, &table[count++]);
    }
    ok = ok && expect(x, "}");
    if (ok && count) {
        n->row = limber_plan_alloc(x->p, count * sizeof *table);
        if (n->row)
            memcpy(n->row, table, count * sizeof *table);
        else
            ok = no_memory(x);
        n->rows = count;
    }
    free(table);
    return ok;
}

/* ---- operations -------------------------------------------------------------------------------------- */

static bool operation(struct parse *x)
{
    struct type none = { .count = 1 };
    char name[WORD];
    int at, op = -1;

    if (!expect(x, "%") || !word(x, "the name of a value"))
        return false;
    memcpy(name, x->word, sizeof name);
    if (find(x, name) >= 0)
        return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: %%%s is defined twice", x->line,
                           name);
    if (x->p->nodes >= NODES)
        return fail(x, "too many operations");
    if (!expect(x, "=") || !word(x, "an operation"))
        return false;
    for (int i = 0; i < OP_count; i++)
        if (strcmp(limber_ops[i].name, x->word) == 0)
            op = i;
    if (op < 0)
        return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: no operation is called \"%s\"",
                           x->line, x->word);
    at = limber_plan_add(x->p, (enum op)op, name, -1, -1, none);
    if (at < 0)
        return no_memory(x);
    x->p->node[at].line = x->line;
    for (blanks(x); *x->s == '%'; blanks(x)) {
        int v;

        if (x->p->node[at].nin == 2)
            return fail(x, "more than two operands");
        if (!value(x, &v))
            return false;
        if (v == at)
            return fail(x, "a value that needs itself");
        x->p->node[at].in[x->p->node[at].nin++] = v;
    }
    for (blanks(x); isalpha((unsigned char)*x->s); blanks(x))
        if (!attribute(x, &x->p->node[at]))
            return false;
    if (!type(x, &x->p->node[at].type))
        return false;
    return !(limber_ops[op].flags & OP_ROWS) || rows(x, at);
}

/* ---- the head ------------------------------------------------------------------------------------------ */

static bool promise(struct parse *x)
{
    static const char *const names[] = { "native", "bits", "correct", "exact", "fast" };

    if (!word(x, "a promise"))
        return false;
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(names[i], x->word) == 0) {
            x->p->promise = (limber_promise)i;
            return true;
        }
    return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: no promise is called \"%s\"", x->line,
                       x->word);
}

static bool string(struct parse *x, const char **out)
{
    *out = NULL;
    if (!word(x, "a name"))
        return false;
    *out = limber_plan_string(x->p, x->word);
    return *out || no_memory(x);
}

static bool head_word(struct parse *x)
{
    char name[WORD];

    if (!word(x, "a word of the head"))
        return false;
    memcpy(name, x->word, sizeof name);
    if (*x->s++ != '=')
        return fail(x, "expected \"=\" in the head");
    if (strcmp(name, "promise") == 0)
        return promise(x);
    if (strcmp(name, "bits") == 0)
        return small(x, &x->p->bits, 0, 4096);
    if (strcmp(name, "wanted") == 0)
        return string(x, &x->p->wanted);
    if (strcmp(name, "scheme") == 0)
        return string(x, &x->p->scheme);
    if (strcmp(name, "slices") == 0)
        return small(x, &x->p->slices, 0, 64);
    if (strcmp(name, "kbits") == 0)
        return small(x, &x->p->kbits, 0, 62);
    if (strcmp(name, "pruned") == 0)
        return small(x, &x->p->pruned, 0, ROWS);
    if (strcmp(name, "budget") == 0)
        return number(x, &x->p->budget);
    if (strcmp(name, "spent") == 0)
        return number(x, &x->p->spent);
    if (strcmp(name, "dropped") == 0)
        return number(x, &x->p->dropped);
    return limber_fail(x->d, LIMBER_BAD_ARGUMENT, "line %d: the head has no word \"%s\"", x->line,
                       name);
}

static bool head(struct parse *x)
{
    lines(x);
    if (!expect(x, "plan") || !word(x, "the plan's name"))
        return false;
    x->p->name = limber_plan_string(x->p, x->word);
    if (!x->p->name)
        return no_memory(x);
    while (!accept(x, "{"))
        if (!head_word(x))
            return false;
    return true;
}

bool limber_plan_parse(struct plan *p, const char *text, struct diag *d)
{
    struct parse x = { .p = p, .s = text, .line = 1, .d = d };

    limber_plan_clear(p);
    limber_plan_init(p);
    if (!head(&x))
        return false;
    for (lines(&x); *x.s == '%'; lines(&x))
        if (!operation(&x))
            return false;
    if (!expect(&x, "ret") || !value(&x, &p->ret))
        return false;
    lines(&x);
    if (!expect(&x, "}"))
        return false;
    lines(&x);
    return *x.s == 0 || fail(&x, "text after the plan");
}
