/* SPDX-License-Identifier: BSD-3-Clause
 * Reads and prints the steps of an epilogue, and computes a step. */
#include "ir/steps.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 48 };

static const char *const words[] = { [STEP_add] = "add", [STEP_sub] = "sub", [STEP_mul] = "mul",
                                     [STEP_div] = "div", [STEP_max] = "max", [STEP_min] = "min" };

/* ---- reading steps from text ----------------------------------------------------------------- */

/* State of the parser of steps. */
struct reader {
    /* begin of the line; the word that a message points to; next byte */
    const char *start, *word, *at;
    const char *operation; /* place of the operation's name in the line */
    int line;
    limber_format compute;
    /* names of the inputs */
    const char *const *names;
    struct steps *s;
    char step_name[MOST_STEPS][NAME];
    int step_line[MOST_STEPS], step_column[MOST_STEPS];
    unsigned used; /* bit i is set if a later step reads the result of step i */
    struct diag *d;
};

/* Reports an error with the line and the column of a word.  Returns false. */
static bool refuse_at(struct reader *r, int line, int column, const char *format, const char *word)
{
    char place[48];

    limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT, format, word);
    snprintf(place, sizeof place, "line %d, column %d", line, column);
    limber_fail_in(r->d, place);
    return false;
}

/* Reports an error at the reader's position, and returns false. */
static bool refuse(struct reader *r, const char *format, const char *word)
{
    return refuse_at(r, r->line, 1 + (int)(r->word - r->start), format, word);
}

/* True if c can be part of a name. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Moves to the next word of the line, to which messages point. */
static void skip_blanks(struct reader *r)
{
    r->at += strspn(r->at, " \t\r");
    r->word = r->at;
}

/* True if the line has no further word. */
static bool is_at_end(const struct reader *r)
{
    return !*r->at || *r->at == '\n' || *r->at == ';';
}

/* Copies the text up to the next blank or the end of the line to `word`, shortened to fit a
 * message, and returns `word`. */
static const char *word_at(const struct reader *r, char word[NAME])
{
    size_t n = strcspn(r->at, " \t\r\n;");

    n = n < NAME ? n : NAME - 1;
    memcpy(word, r->at, n);
    word[n] = '\0';
    return word;
}

/* Reads "%name" into name.  Returns false, with an error, if there is none. */
static bool read_name(struct reader *r, char name[NAME])
{
    char word[NAME];
    size_t n = 0;

    if (*r->at != '%')
        return refuse(r, "'%s' is no %%name", word_at(r, word));
    while (is_word(r->at[1 + n]))
        n++;
    if (n == 0 || n >= NAME)
        return refuse(r, n ? "the name '%s' is too long" : "'%s' is no %%name", word_at(r, word));
    memcpy(name, r->at + 1, n);
    name[n] = '\0';
    r->at += 1 + n;
    return true;
}

/* Returns the number of the value with this name, which is a step, an input, or x (the product).
 * VALUE_number if there is none. */
static int find_value(const struct reader *r, const char *name)
{
    for (int i = 0; i < r->s->count; i++)
        if (!strcmp(name, r->step_name[i]))
            return VALUE_steps + i;
    for (int i = 0; i < r->s->inputs; i++)
        if (!strcmp(name, r->names[i]))
            return 1 + i;
    return strcmp(name, "x") ? VALUE_number : VALUE_product;
}

/* Rounds to the format in which steps are computed: binary32 or binary64. */
static double round_to_compute(bool is_f32, double x)
{
    return is_f32 ? (double)(float)x : x;
}

/* True if a number begins like `inf`, with or without a sign. */
static bool is_infinity(const char *at)
{
    at += *at == '-' || *at == '+';
    return *at == 'i' || *at == 'I';
}

/* Returns true if all digits of a number, without its exponent, are 0. */
static bool is_zero(const char *at)
{
    return strcspn(at, "123456789abcdfABCDF") >= strcspn(at, "eEpP \t\r\n;");
}

/* Reads a number, and rounds it to the format in which steps compute.  Returns false, with an
 * error, for numbers that overflow or become 0 there.  Infinity is written `inf`. */
static bool read_number(struct reader *r, double *to)
{
    char word[NAME], *end;
    locale_t before = limber_plain_numbers();
    bool is_f32 = limber_format_equal(r->compute, LIMBER_F32);

    *to = strtod(r->at, &end);
    uselocale(before);
    if (end == r->at || is_word(*end) || *to != *to)
        return refuse(r, "'%s' is no number", word_at(r, word));
    *to = round_to_compute(is_f32, *to);
    if (*to == 0 && !is_zero(r->at))
        return refuse(r,
                      is_f32 ? "'%s' is 0 in f32, in which these steps compute" :
                               "'%s' is 0 in f64, in which these steps compute",
                      word_at(r, word));
    if (fabs(*to) > DBL_MAX && !is_infinity(r->at))
        return refuse(r,
                      is_f32 ? "'%s' is beyond f32, in which these steps compute" :
                               "'%s' is beyond f64, in which these steps compute",
                      word_at(r, word));
    r->at = end;
    return true;
}

/* Reads operand i of a step: a number, or the name of a value.  Returns false, with an error, if it
 * is neither. */
static bool read_operand(struct reader *r, struct epilogue_step *s, int i)
{
    char name[NAME];

    skip_blanks(r);
    if (is_at_end(r))
        return refuse(r, "%s needs another operand", words[s->op]);
    s->operand[i] = VALUE_number;
    if (*r->at != '%')
        return read_number(r, &s->number[i]);
    if (!read_name(r, name))
        return false;
    s->operand[i] = find_value(r, name);
    if (s->operand[i] == VALUE_number)
        return refuse(r, "%%%s is neither x, nor an input, nor an earlier line", name);
    if (s->operand[i] >= VALUE_steps)
        r->used |= 1u << (s->operand[i] - VALUE_steps);
    return true;
}

/* Reads the name of an operation or function.  Returns false, with an error, if there is none of
 * this name. */
static bool find_operation(struct reader *r, struct epilogue_step *s)
{
    char word[NAME];

    word_at(r, word);
    r->operation = r->at;
    r->at += strlen(word);
    for (int op = STEP_add; op <= STEP_min; op++)
        if (!strcmp(word, words[op])) {
            s->op = (enum step_op)op;
            return true;
        }
    s->op = STEP_function;
    return limber_function_named(word, &s->function) == LIMBER_STATUS_OK ||
           refuse(r, "'%s' is neither a function nor add, sub, mul, div, max or min", word);
}

/* Reads the parameters of a function: p=NUMBER q=NUMBER.  Returns false, with an error, if they are
 * wrong. */
static bool read_parameters(struct reader *r, struct epilogue_step *s)
{
    char word[NAME];
    const char *name;
    unsigned has = 0;
    int most;

    name = limber_function_at((int)s->function, NULL, &most);
    for (skip_blanks(r); !is_at_end(r); skip_blanks(r)) {
        int i = *r->at == 'q';

        if ((*r->at != 'p' && !i) || r->at[1] != '=' || has & 1u << i || i >= most)
            return refuse(r, "'%s' is none of the parameters of this function", word_at(r, word));
        r->at += 2;
        if (!read_number(r, &s->number[i]))
            return false;
        has |= 1u << i;
    }
    if (s->function == LIMBER_FUNCTION_LEAKY_RELU && !has)
        s->number[0] = round_to_compute(limber_format_equal(r->compute, LIMBER_F32), 0.01);
    if (s->function == LIMBER_FUNCTION_CLAMP && (has != 3 || !(s->number[0] <= s->number[1]))) {
        r->word = r->operation;
        return refuse(r, "%s needs p=NUMBER q=NUMBER with p <= q", name);
    }
    return true;
}

/* Reads a function's operand and parameters.  Returns false, with an error, if they are wrong. */
static bool read_function(struct reader *r, struct epilogue_step *s)
{
    char name[NAME];

    skip_blanks(r);
    if (is_at_end(r))
        return refuse(r, "%s needs an operand", limber_function_at((int)s->function, NULL, NULL));
    if (!read_name(r, name))
        return false;
    s->operand[0] = find_value(r, name);
    if (s->operand[0] == VALUE_number)
        return refuse(r, "%%%s is neither x, nor an input, nor an earlier line", name);
    if (s->operand[0] >= VALUE_steps)
        r->used |= 1u << (s->operand[0] - VALUE_steps);
    s->operand[1] = VALUE_number;
    return read_parameters(r, s);
}

/* Reads a line "%name = operation operands" as a step.  Returns false, with an error, if it is
 * wrong. */
static bool read_line(struct reader *r)
{
    struct epilogue_step s = { .op = STEP_function };
    char name[NAME], word[NAME];
    int column = 1 + (int)(r->at - r->start);

    if (!read_name(r, name))
        return false;
    if (find_value(r, name) != VALUE_number)
        return refuse(r, "%%%s is there already", name);
    if (r->s->count == MOST_STEPS)
        return refuse(r, "there are more than %s steps", "16");
    skip_blanks(r);
    if (*r->at != '=')
        return refuse(r, "'%s' stands where = should", word_at(r, word));
    r->at++;
    skip_blanks(r);
    if (!find_operation(r, &s))
        return false;
    if (s.op == STEP_function ? !read_function(r, &s) :
                                !read_operand(r, &s, 0) || !read_operand(r, &s, 1))
        return false;
    skip_blanks(r);
    if (!is_at_end(r))
        return refuse(r, "'%s' is more than the operation takes", word_at(r, word));
    memcpy(r->step_name[r->s->count], name, sizeof name);
    r->step_line[r->s->count] = r->line;
    r->step_column[r->s->count] = column;
    r->s->step[r->s->count++] = s;
    return true;
}

/* Checks that the names of inputs are valid, and different from each other. */
static bool check_names(struct reader *r)
{
    for (int i = 0; i < r->s->inputs; i++) {
        const char *name = r->names[i];
        size_t n = 0;

        while (name && is_word(name[n]))
            n++;
        if (n == 0 || n >= NAME || name[n] || !strcmp(name, "x"))
            return limber_fail(
                r->d, LIMBER_STATUS_BAD_ARGUMENT,
                "inputs[%d].name is %s: names are letters, digits and _, at most 47, "
                "and not x",
                i, name ? name : "NULL");
        for (int j = 0; j < i; j++)
            if (!strcmp(name, r->names[j]))
                return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT,
                                   "inputs[%d].name is %s, as that of inputs[%d]", i, name, j);
    }
    return true;
}

/* Parses the text of an epilogue's steps, which may read the inputs `names`.  False, with an
 * error that tells line and column, if it is wrong. */
bool limber_steps_parse(struct steps *s, const char *text, const char *const names[], int inputs,
                        limber_format compute, struct diag *d)
{
    struct reader r = {
        .at = text ? text : "", .compute = compute, .names = names, .s = s, .d = d
    };

    *s = (struct steps){ .inputs = inputs };
    if (!check_names(&r))
        return false;
    for (r.line = 1; *r.at; r.line++) {
        r.start = r.at;
        skip_blanks(&r);
        if (!is_at_end(&r) && !read_line(&r))
            return false;
        r.at += strcspn(r.at, "\n");
        r.at += *r.at == '\n';
    }
    for (int i = 0; i + 1 < s->count; i++)
        if (!(r.used >> i & 1))
            return refuse_at(&r, r.step_line[i], r.step_column[i], "%%%s is never read",
                             r.step_name[i]);
    return true;
}

/* ---- writing steps as text ------------------------------------------------------------------- */

/* Returns the prefix of the printed names of steps.  Steps are named _1, _2, ..., with more
 * underscores if an input could have such a name. */
static const char *choose_prefix(const struct steps *s, const char *const names[])
{
    static const char underscores[MOST_INPUTS + 2] = "_________";
    size_t n = 1;

    for (int i = 0; i < s->inputs; i++) {
        size_t leading = strspn(names[i], "_");
        bool number =
            names[i][leading] && !names[i][leading + strspn(names[i] + leading, "0123456789")];

        if (leading == n && number) {
            n++;
            i = -1;
        }
    }
    return underscores + sizeof underscores - 1 - n;
}

/* Prints operand i of a step.  prefix: begins the printed names of steps. */
static void print_operand(struct text *out, const struct epilogue_step *s, int i,
                          const char *const names[], const char *prefix)
{
    int v = s->operand[i];

    if (v == VALUE_number)
        limber_text_add(out, " %.17g", s->number[i]);
    else if (v == VALUE_product)
        limber_text_add(out, " %%x");
    else if (v < VALUE_steps)
        limber_text_add(out, " %%%s", names[v - 1]);
    else
        limber_text_add(out, " %%%s%d", prefix, v - VALUE_steps + 1);
}

/* Prints steps as text that limber_steps_parse reads. */
void limber_steps_print(struct text *out, const struct steps *s, const char *const names[])
{
    const char *prefix = choose_prefix(s, names);

    for (int i = 0; i < s->count; i++) {
        const struct epilogue_step *at = &s->step[i];
        int parameters = 0;
        const char *word = at->op == STEP_function ?
                               limber_function_at((int)at->function, NULL, &parameters) :
                               words[at->op];

        limber_text_add(out, "  %%%s%d = %s", prefix, i + 1, word);
        print_operand(out, at, 0, names, prefix);
        if (at->op != STEP_function)
            print_operand(out, at, 1, names, prefix);
        for (int j = 0; j < parameters; j++)
            limber_text_add(out, " %c=%.17g", "pq"[j], at -> number[j]);
        limber_text_add(out, "\n");
    }
}

/* ---- steps that round nothing, and steps that add -------------------------------------------- */

/* Returns true if x is a number of format f. */
static bool has_number(limber_format f, double x)
{
    return limber_format_equal(f, LIMBER_F64) || limber_format_round(f, x) == x;
}

/* True if every step returns one of its operands or the negative of one, provided that all
 * inputs are numbers of format f.  Then the steps round nothing. */
bool limber_steps_round_nothing(const struct steps *s, limber_format f)
{
    for (int i = 0; i < s->count; i++) {
        const struct epilogue_step *at = &s->step[i];
        int numbers = 0;

        switch (at->op) {
        case STEP_function:
            if (at->function == LIMBER_FUNCTION_CLAMP)
                numbers = 2;
            else if (at->function != LIMBER_FUNCTION_RELU && at->function != LIMBER_FUNCTION_ABS &&
                     at->function != LIMBER_FUNCTION_NEG && at->function != LIMBER_FUNCTION_CAST)
                return false;
            for (int j = 0; j < numbers; j++)
                if (!has_number(f, at->number[j]))
                    return false;
            break;
        case STEP_max:
        case STEP_min:
            for (int j = 0; j < 2; j++) {
                bool number = at->operand[j] == VALUE_number;

                if ((number && !has_number(f, at->number[j])) ||
                    (at->operand[j] > VALUE_product && at->operand[j] < VALUE_steps))
                    return false;
            }
            break;
        default: return false;
        }
    }
    return true;
}

/* Returns the index of the input that the first step adds to the product, if no other step reads
 * the product; else -1. */
int limber_steps_addend(const struct steps *s)
{
    const struct epilogue_step *first = s->step;
    int of = first->operand[0] == VALUE_product ? first->operand[1] : first->operand[0];

    if (s->count == 0 || first->op != STEP_add || of <= VALUE_product || of >= VALUE_steps ||
        (first->operand[0] != VALUE_product && first->operand[1] != VALUE_product))
        return -1;
    for (int i = 1; i < s->count; i++)
        if (s->step[i].operand[0] == VALUE_product ||
            (s->step[i].op != STEP_function && s->step[i].operand[1] == VALUE_product))
            return -1;
    return of - 1;
}

/* Removes the first step, which must be one for which limber_steps_addend returned an input. */
void limber_steps_drop_addend(struct steps *s)
{
    s->count--;
    for (int i = 0; i < s->count; i++) {
        s->step[i] = s->step[i + 1];
        for (int j = 0; j < 2; j++)
            if (s->step[i].operand[j] >= VALUE_steps)
                s->step[i].operand[j] = s->step[i].operand[j] == VALUE_steps ?
                                            VALUE_product :
                                            s->step[i].operand[j] - 1;
    }
}

/* ---- applying steps to an element ------------------------------------------------------------ */

/* Returns the result of a step.  If is_f32, computes it in binary64, then rounds to binary32.  For
 * sums, products and quotients of numbers of 24 bits this gives the same as rounding once, since 53
 * >= 2 x 24 + 2 (Figueroa, 1995). */
double limber_epilogue_value(const struct epilogue_step *s, bool is_f32, double x, double y)
{
    struct fn_args a;

    switch (s->op) {
    case STEP_add: return round_to_compute(is_f32, x + y);
    case STEP_sub: return round_to_compute(is_f32, x - y);
    case STEP_mul: return round_to_compute(is_f32, x * y);
    case STEP_div: return round_to_compute(is_f32, x / y);
    case STEP_max: return x > y || x != x ? x : y;
    case STEP_min: return x < y || x != x ? x : y;
    default: break;
    }
    a = limber_function_args(is_f32 ? LIMBER_F32 : LIMBER_F64, s->number[0], s->number[1]);
    return round_to_compute(is_f32, limber_function_value(s->function, &a, x));
}
