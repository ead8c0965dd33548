/* SPDX-License-Identifier: BSD-3-Clause
 * Reads a plan from text, hostile texts included: sizes are limited, and errors name the line and
 * the word.  verify.c checks what the words mean together. */
#include "ir/lex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TEXT = 1 << 22,     /* bytes */
    MAX_NODES = 4096,
    MAX_ROWS = 1 << 16,
    MAX_LIST = 256,
    MAX_NAME = 48,
    MAX_COUNT = 4096,       /* limbs or accumulators of a value */
    MAX_MODEL = 1024,
};
#define MAX_DIM ((int64_t)1 << 48)

/* State of the parser of a plan. */
struct parser {
    struct plan *p;
    const char *at;         /* the next byte to be read */
    int line;
    struct diag *d;
};

/* Reports what is wrong with a word.  Returns false. */
static bool bad(struct parser *s, struct word w, const char *what)
{
    return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: '%.*s': %s", s->line,
                       (int)(w.n < 60 ? w.n : 60), w.s, what);
}

/* Reports that memory ran out, and returns false. */
static bool no_memory(struct parser *s)
{
    return limber_fail(s->d, LIMBER_STATUS_NO_MEMORY, "out of memory for the plan");
}

/* Returns the next word of this line; empty at the end of the line or at a comment. */
static struct word next_word(struct parser *s)
{
    struct word w = limber_lex_word(&s->at);
    const char *comment = w.n ? memchr(w.s, ';', w.n) : NULL;

    if (comment) {
        s->at = comment;
        w.n = (size_t)(comment - w.s);
    }
    return w;
}

/* Moves to the next line that has a word, and returns its first word.  Returns false at the end of
 * the text. */
static bool next_line(struct parser *s, struct word *w)
{
    for (;;) {
        s->at += strcspn(s->at, "\n");
        if (!*s->at)
            return false;
        s->at++;
        s->line++;
        *w = next_word(s);
        if (w->n)
            return true;
    }
}

/* Reads the end of a line; an error if another word precedes it. */
static bool expect_line_end(struct parser *s)
{
    struct word w = next_word(s);

    return !w.n || bad(s, w, "more than this line holds");
}

/* Reads a word, which must be this text.  Returns false, with an error, if it is another one. */
static bool expect_word(struct parser *s, const char *text)
{
    struct word w = next_word(s);

    if (limber_lex_is(w, text))
        return true;
    return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: '%.*s' where '%s' is due",
                       s->line, (int)(w.n < 60 ? w.n : 60), w.s, text);
}

/* Returns true if the word is a name of letters, digits and _ that does not begin with a digit. */
static bool is_name(struct word w)
{
    if (!w.n || w.n > MAX_NAME || (w.s[0] >= '0' && w.s[0] <= '9'))
        return false;
    for (size_t i = 0; i < w.n; i++) {
        char c = w.s[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return true;
}

/* Returns true if the word can be the name of a scheme, which may have dashes and other printable
 * characters except %. */
static bool is_label(struct word w)
{
    for (size_t i = 0; i < w.n; i++)
        if (w.s[i] <= ' ' || w.s[i] > '~' || w.s[i] == '%')
            return false;
    return w.n && w.n <= MAX_NAME;
}

/* Copies a word to the plan's arena.  Returns NULL, with an error, if memory runs out. */
static const char *keep_string(struct parser *s, struct word w)
{
    char *copy = limber_plan_alloc(s->p, w.n + 1);

    if (copy)
        memcpy(copy, w.s, w.n);
    else
        no_memory(s);
    return copy;
}

/* Reads a number in [least, most]. all: the complete word "key=value", which error messages quote.
 * Returns false, with an error, if w is none. */
static bool read_int(struct parser *s, struct word all, struct word w, int64_t least, int64_t most,
                     int *v)
{
    int64_t wide;

    if (!limber_lex_int(w, &wide) || wide < least || wide > most)
        return limber_fail(
            s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: '%.*s': not a number in %lld..%lld",
            s->line, (int)(all.n < 60 ? all.n : 60), all.s, (long long)least, (long long)most);
    *v = (int)wide;
    return true;
}

/* Reads a number that is not negative, or the word `all`, which means infinity. whole: the complete
 * word "key=value", which error messages quote.  Returns false, with an error, if w is neither. */
static bool read_number(struct parser *s, struct word whole, struct word w, const char *all,
                        double *v)
{
    if (limber_lex_is(w, all)) {
        *v = INFINITY;
        return true;
    }
    return (limber_lex_number(w, v) && *v >= 0) || bad(s, whole, "not a number");
}

/* Sets *v to the word's index in a list "a|b|c".  Returns false if it is not in the list. */
static bool read_word(struct word w, const char *words, int64_t *v)
{
    *v = limber_word_find(words, w.s, w.n);
    return *v >= 0;
}

/* ---- the first line of a plan -------------------------------------------------------------- */

/* Keys of a plan's head, in the order of the words in parse_head. */
enum head {
    H_promise,
    H_bits,
    H_wanted,
    H_slices,
    H_split,
    H_kbits,
    H_size,
    H_first_pass_bits,
    H_decided,
    H_paired,
    H_roundings,
    H_budget,
    H_spent,
    H_scheme,
    H_pruned,
    H_dropped,
    H_model,
    H_counts
};

/* Reads the description of a simulated unit, whose words have bars between them.  Returns false,
 * with an error, if it is wrong. */
static bool read_model(struct parser *s, struct word all, struct word v)
{
    limber_unit *u = limber_plan_alloc(s->p, sizeof *u);
    char text[MAX_MODEL];
    struct diag why = { 0 };

    if (!u)
        return no_memory(s);
    if (v.n >= sizeof text)
        return bad(s, all, "too long");
    memcpy(text, v.s, v.n);
    text[v.n] = 0;
    if (!limber_unit_read(text, u, &why))
        return bad(s, all, why.text);
    s->p->model = u;
    return true;
}

/* Reads the value of a key of the plan's head.  Returns false, with an error, if it is wrong. */
static bool head_value(struct parser *s, int64_t key, struct word all, struct word v)
{
    struct plan *p = s->p;
    int64_t promise, split;

    switch (key) {
    case H_promise:
        if (!read_word(v, LIMBER_WORDS(LIMBER_PROMISES), &promise))
            return bad(s, all, "no such promise");
        p->promise = (limber_promise)promise;
        return true;
    case H_model: return read_model(s, all, v);
    case H_counts: return read_int(s, all, v, COUNT_swamped, COUNT_all, &p->counts);
    case H_bits: return read_int(s, all, v, 1, 1000, &p->bits);
    case H_wanted:
        return is_label(v) ? (p->wanted = keep_string(s, v)) != NULL : bad(s, all, "no name");
    case H_slices: return read_int(s, all, v, 1, MAX_COUNT, &p->slices);
    case H_split:
        if (!read_word(v, "ahead|inside", &split))
            return bad(s, all, "neither ahead nor inside");
        p->split = split == SPLIT_inside ? LIMBER_SPLIT_INSIDE : LIMBER_SPLIT_AHEAD;
        return true;
    case H_kbits: return read_int(s, all, v, 0, 62, &p->kbits);
    case H_size: return read_int(s, all, v, 1, 30, &p->size);
    case H_first_pass_bits: return read_int(s, all, v, 1, 165, &p->first_pass.bits);
    case H_decided: return read_int(s, all, v, 1, 64, &p->first_pass.decided);
    case H_paired: return read_int(s, all, v, 1, 64, &p->first_pass.paired);
    case H_roundings: return read_int(s, all, v, 1, 64, &p->roundings);
    case H_budget: return read_number(s, all, v, "any", &p->budget);
    case H_spent: return read_number(s, all, v, "any", &p->spent);
    case H_scheme:
        return is_label(v) ? (p->scheme = keep_string(s, v)) != NULL : bad(s, all, "no name");
    case H_pruned: return read_int(s, all, v, 0, 1 << 24, &p->pruned);
    default: return read_number(s, all, v, "any", &p->dropped);
    }
}

/* Reads the first line of a plan, up to its opening brace.  Returns false, with an error, if it is
 * wrong. */
static bool parse_head(struct parser *s)
{
    struct word w = next_word(s), key;
    unsigned seen = 0;
    int64_t which;

    if (!w.n && !next_line(s, &w))
        return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: the text holds no plan",
                           s->line);
    if (!limber_lex_is(w, "plan"))
        return bad(s, w, "a plan begins with 'plan NAME'");
    w = next_word(s);
    if (!is_name(w))
        return bad(s, w, "no name for a plan");
    s->p->name = keep_string(s, w);
    if (!s->p->name)
        return false;
    for (w = next_word(s); w.n && !limber_lex_is(w, "{"); w = next_word(s)) {
        struct word v = w;

        key = limber_lex_cut(&v, '=');
        if (!read_word(key,
                       "promise|bits|wanted|slices|split|kbits|size|first_pass_bits|decided|"
                       "paired|"
                       "roundings|budget|spent|scheme|pruned|dropped|model|counts",
                       &which))
            return bad(s, w, "unknown word in the head of a plan");
        if (seen >> which & 1)
            return bad(s, w, "said twice");
        seen |= 1u << which;
        if (!head_value(s, which, w, v))
            return false;
    }
    return w.n ? expect_line_end(s) : bad(s, w, "the head of a plan ends with '{'");
}

/* ---- one line: an operation ------------------------------------------------------------------ */

/* Returns the index of the value with this name; -1 if there is none. */
static int find_value(const struct plan *p, struct word w)
{
    for (size_t i = p->nodes; i-- > 0;)
        if (limber_lex_is(w, p->node[i].name))
            return (int)i;
    return -1;
}

/* Reads "%name", the name of a value that an earlier line defines.  Returns false, with an error,
 * if there is none. */
static bool read_value(struct parser *s, struct word w, int *index)
{
    struct word name = { w.s + 1, w.n - 1 };

    if (w.n < 2 || *w.s != '%')
        return bad(s, w, "no value; values begin with %");
    *index = find_value(s->p, name);
    return *index >= 0 || bad(s, w, "not defined above");
}

/* Reads a dimension: a number, or a letter, which is stored as its negative code.  Returns false if
 * the word is neither. */
static bool read_dim(struct word w, int64_t *v)
{
    if (w.n == 1 && *w.s >= 'a' && *w.s <= 'z') {
        *v = -*w.s;
        return true;
    }
    return limber_lex_int(w, v) && *v >= 0 && *v <= MAX_DIM;
}

/* Reads a type, "f64[m,k]" or "u8[128,k]x16".  Returns false, with an error, if it is wrong. */
static bool read_type(struct parser *s, struct word w, struct type *t)
{
    struct word rest = w, f = limber_lex_cut(&rest, '['), dims = limber_lex_cut(&rest, ']');
    char name[48];

    memset(t, 0, sizeof *t);
    t->count = 1;
    if (!f.n || f.n >= sizeof name || dims.s + dims.n >= w.s + w.n)
        return bad(s, w, "no type; a type is FORMAT[DIM,DIM]");
    memcpy(name, f.s, f.n);
    name[f.n] = 0;
    if (limber_format_named(name, &t->format))
        return bad(s, w, "unknown format");
    do {
        if (t->rank == MOST_RANK || !read_dim(limber_lex_cut(&dims, ','), &t->dim[t->rank]))
            return bad(s, w, "a type has up to five dimensions, numbers or letters");
        t->rank++;
    } while (dims.n);
    if (!rest.n)
        return true;
    if (*rest.s != 'x')
        return bad(s, w, "behind a type only xCOUNT may stand");
    rest.s++;
    rest.n--;
    return read_int(s, w, rest, 1, MAX_COUNT, &t->count);
}

/* Reads a list of numbers as an attribute.  Returns false, with an error, if it is too long
 * or not a list of integers. */
static bool read_list(struct parser *s, struct word all, struct word w, struct node *n, enum attr a)
{
    int64_t v[MAX_LIST];
    size_t count = 0;

    while (w.n) {
        if (count == MAX_LIST)
            return bad(s, all, "the list is too long");
        if (!limber_lex_int(limber_lex_cut(&w, ','), &v[count++]))
            return bad(s, all, "not a list of numbers");
    }
    if (!count)
        return bad(s, all, "the list is empty");
    return limber_node_list(s->p, n, a, v, count) || no_memory(s);
}

/* Reads "key=value", an attribute that the operation may carry.  Returns false, with an error, if
 * it is wrong. */
static bool read_attr(struct parser *s, struct word w, struct node *n)
{
    struct word v = w, key = limber_lex_cut(&v, '=');
    int64_t number;
    int a;

    for (a = 0; a < ATTR_count; a++)
        if (limber_lex_is(key, limber_attrs[a].name))
            break;
    if (a == ATTR_count)
        return bad(s, w, "unknown attribute");
    if (!(limber_ops[n->op].attrs >> a & 1))
        return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT,
                           "line %d: '%.*s': %s has no such attribute", s->line,
                           (int)(w.n < 60 ? w.n : 60), w.s, limber_ops[n->op].name);
    if (limber_node_has(n, (enum attr)a))
        return bad(s, w, "said twice");
    switch (limber_attrs[a].kind) {
    case ATTR_INT:
        if (!limber_lex_int(v, &number))
            return bad(s, w, "not a number");
        limber_node_set(n, (enum attr)a, number);
        return true;
    case ATTR_WORD:
        if (!read_word(v, limber_attrs[a].words, &number))
            return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: '%.*s': not one of %s",
                               s->line, (int)(w.n < 60 ? w.n : 60), w.s, limber_attrs[a].words);
        limber_node_set(n, (enum attr)a, number);
        return true;
    default: return read_list(s, w, v, n, (enum attr)a);
    }
}

/* Reads "%al.3": limb 3 of value %al, which must be `operand`.  Returns false, with an error, if it
 * is wrong. */
static bool read_limb(struct parser *s, int operand, int *limb)
{
    struct word w = next_word(s), v = w, name = limber_lex_cut(&v, '.');
    int index;

    if (!w.n)
        return bad(s, w, "a row is: row %A.LIMB %B.LIMB acc=N w=2^N share=S");
    if (!read_value(s, name, &index))
        return false;
    if (index != operand)
        return bad(s, w, "not the operand of this table");
    return read_int(s, w, v, 0, MAX_COUNT, limb);
}

/* Reads a row of a product table.  Returns false, with an error, if it is wrong. */
static bool read_row(struct parser *s, const struct node *n, struct row *r)
{
    struct word acc, w, share, v;

    if (!read_limb(s, n->in[0], &r->a) || !read_limb(s, n->in[1], &r->b))
        return false;
    v = acc = next_word(s);
    if (!limber_lex_is(limber_lex_cut(&v, '='), "acc"))
        return bad(s, acc, "acc=NUMBER is due");
    if (!read_int(s, acc, v, 0, MAX_COUNT, &r->acc))
        return false;
    w = next_word(s);
    if (w.n < 4 || memcmp(w.s, "w=2^", 4))
        return bad(s, w, "w=2^NUMBER is due");
    if (!read_int(s, w, (struct word){ w.s + 4, w.n - 4 }, -40000, 40000, &r->weight))
        return false;
    v = share = next_word(s);
    if (!limber_lex_is(limber_lex_cut(&v, '='), "share"))
        return bad(s, share, "share=NUMBER or share=all is due");
    return read_number(s, share, v, "all", &r->share) && expect_line_end(s);
}

/* Appends a row to the node's table, which grows in the plan's arena.  Returns false, with an
 * error, if memory runs out. */
static bool add_row(struct parser *s, struct node *n, size_t *capacity, const struct row *r)
{
    struct row *more;

    if (n->rows == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 16;
        more = limber_plan_alloc(s->p, *capacity * sizeof *more);
        if (!more)
            return no_memory(s);
        if (n->rows)
            memcpy(more, n->row, n->rows * sizeof *more);
        n->row = more;
    }
    n->row[n->rows++] = *r;
    return true;
}

/* Reads the rows of a product table, one per line, up to the closing brace.  Returns false, with an
 * error, if one is wrong. */
static bool read_rows(struct parser *s, struct node *n)
{
    size_t capacity = 0;
    struct word w;
    struct row r;

    if (!expect_word(s, "{") || !expect_line_end(s))
        return false;
    for (;;) {
        if (!next_line(s, &w))
            return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: the table has no '}'",
                               s->line);
        if (limber_lex_is(w, "}"))
            return expect_line_end(s);
        if (!limber_lex_is(w, "row"))
            return bad(s, w, "'row' or '}' is due");
        if (n->rows == MAX_ROWS)
            return bad(s, w, "the table is too long");
        memset(&r, 0, sizeof r);
        if (!read_row(s, n, &r) || !add_row(s, n, &capacity, &r))
            return false;
    }
}

/* Reads the name of an operation.  Returns false, with an error, if there is no such operation. */
static bool read_op(struct parser *s, enum op *op)
{
    struct word w = next_word(s);

    for (int i = 0; i < OP_count; i++)
        if (limber_lex_is(w, limber_ops[i].name)) {
            *op = (enum op)i;
            return true;
        }
    return bad(s, w, "unknown operation");
}

/* Reads operands and attributes, which are between the operation and the type.  Returns false, with
 * an error, if one is wrong. */
static bool read_arguments(struct parser *s, struct node *n)
{
    struct word w;

    for (w = next_word(s); w.n && !limber_lex_is(w, ":"); w = next_word(s)) {
        if (*w.s != '%') {
            if (!read_attr(s, w, n))
                return false;
        } else if (n->nin == limber_ops[n->op].most) {
            return bad(s, w, "too many operands");
        } else if (!read_value(s, w, &n->in[n->nin++])) {
            return false;
        }
    }
    return w.n || bad(s, w, "a type is due, behind ':'");
}

/* Reads a line "%name = operation ...", whose first word is w.  Returns false, with an error, if it
 * is wrong. */
static bool parse_node(struct parser *s, struct word w)
{
    struct word name = { w.s + 1, w.n - 1 };
    enum op op = OP_arg;
    struct node *n;
    int index;

    if (!is_name(name))
        return bad(s, w, "no name for a value");
    if (find_value(s->p, name) >= 0)
        return bad(s, w, "defined twice");
    if (s->p->nodes == MAX_NODES)
        return bad(s, w, "the plan is too long");
    if (!expect_word(s, "=") || !read_op(s, &op))
        return false;
    index = limber_plan_add(s->p, op, "", -1, -1, (struct type){ 0 });
    if (index < 0)
        return no_memory(s);
    n = &s->p->node[index];
    n->line = s->line;
    if (!read_arguments(s, n) || !read_type(s, next_word(s), &n->type))
        return false;
    if (limber_ops[op].flags & OP_ROWS ? !read_rows(s, n) : !expect_line_end(s))
        return false;
    /* set after the arguments, since a value must not be its own operand */
    n->name = keep_string(s, name);
    return n->name != NULL;
}

/* Reads the operations of a plan, the returned value and the closing brace.  Returns false, with an
 * error, if one is wrong. */
static bool parse_body(struct parser *s)
{
    struct word w;

    for (;;) {
        if (!next_line(s, &w))
            return limber_fail(s->d, LIMBER_STATUS_BAD_ARGUMENT, "line %d: the plan has no '}'",
                               s->line);
        if (limber_lex_is(w, "}"))
            break;
        if (limber_lex_is(w, "ret")) {
            if (s->p->ret >= 0)
                return bad(s, w, "said twice");
            if (!read_value(s, next_word(s), &s->p->ret) || !expect_line_end(s))
                return false;
        } else if (*w.s != '%') {
            return bad(s, w, "a line begins with %NAME, ret or }");
        } else if (!parse_node(s, w)) {
            return false;
        }
    }
    if (!expect_line_end(s))
        return false;
    return !next_line(s, &w) || bad(s, w, "behind the end of the plan");
}

/* Parses a plan's text into *p.  On failure *p is empty, and d says what is wrong. */
bool limber_plan_parse(struct plan *p, const char *text, struct diag *d)
{
    struct parser s = { p, text, 1, d };

    limber_plan_init(p);
    if (strlen(text) > MAX_TEXT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "the plan is longer than %d bytes",
                           MAX_TEXT);
    if (parse_head(&s) && parse_body(&s))
        return true;
    limber_plan_clear(p);
    return false;
}

/* Parses a plan and verifies it.  After a failure *p must be cleared, too. */
bool limber_plan_read(struct plan *p, const char *text, struct diag *d)
{
    return limber_plan_parse(p, text, d) && limber_plan_verify(p, d);
}
