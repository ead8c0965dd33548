/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptions of simulated units: reads and prints them, and checks that a description is
 * possible. docs/simulation.md has the grammar. */
#include "ir/lex.h"
#include "ir/unit/num.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_WORD = 96,
    MAX_FRAC = 40,
    MAX_BLOCK = 128,
    MAX_SPLIT = 4096,
    MAX_TILE = 1 << 20,
    MAX_FLOOR = 1000,
    MAX_REACH = 400
};

/* A key of a unit's description, and the field that it sets: a rounding (STEP), or a number.
 * Words may stand for values of a number. */
enum kind { STEP, INPUT, MULTIPLY, SCALE, NUMBER, SEED };
static const struct key {
    const char *name;
    enum kind kind;
    size_t at;
    const char *words;
    int64_t least, most;
} keys[] = {
#define AT(field) offsetof(limber_unit, field)
    { "in", INPUT, AT(a), NULL, 0, 0 },
    { "a", STEP, AT(a), NULL, 0, 0 },
    { "b", STEP, AT(b), NULL, 0, 0 },
    { "scale", SCALE, AT(scale), NULL, 0, 0 },
    { "mul", MULTIPLY, AT(mul), NULL, 0, 0 },
    { "acc", STEP, AT(acc), NULL, 0, 0 },
    { "block", NUMBER, AT(block), NULL, 1, MAX_BLOCK },
    { "frac", NUMBER, AT(frac), NULL, 1, MAX_FRAC },
    { "floor", NUMBER, AT(floor), NULL, -MAX_FLOOR, MAX_FLOOR },
    { "zeros", NUMBER, AT(zeros), "drop|keep", 0, 1 },
    { "sub", NUMBER, AT(sub), NULL, 1, MAX_BLOCK },
    { "tree", NUMBER, AT(tree), "no|yes", 0, 1 },
    { "late", NUMBER, AT(late), NULL, 1, MAX_FRAC },
    { "reach", NUMBER, AT(reach), NULL, 1, MAX_REACH },
    { "halves", NUMBER, AT(halves), "no|yes", 0, 1 },
    { "order", NUMBER, AT(order), "forward|reverse|evenodd|quads|swapped", 0, 4 },
    { "group", NUMBER, AT(group), NULL, 1, INT32_MAX },
    { "outer", STEP, AT(outer), NULL, 0, 0 },
    { "lanes", NUMBER, AT(lanes), NULL, 2, LIMBER_UNIT_LANES },
    { "unroll", NUMBER, AT(unroll), NULL, 2, MAX_BLOCK },
    { "rest", NUMBER, AT(rest_after), "first|after", 0, 1 },
    { "join", NUMBER, AT(join_halves), "neighbours|halves", 0, 1 },
    { "halve", NUMBER, AT(halve), NULL, 1, MAX_BLOCK },
    { "split", NUMBER, AT(split), NULL, 1, MAX_SPLIT },
    { "total", STEP, AT(total), NULL, 0, 0 },
    { "tile", NUMBER, AT(tile), NULL, 1, MAX_TILE },
    { "deal", NUMBER, AT(deal_turns), "runs|turns", 0, 1 },
    { "merge", NUMBER, AT(merge_pairs), "serial|pairs", 0, 1 },
    { "start", NUMBER, AT(start_c), "zero|c", 0, 1 },
    { "out", STEP, AT(out), NULL, 0, 0 },
    { "epilogue", STEP, AT(epilogue), NULL, 0, 0 },
    { "narrow", NUMBER, AT(narrow), "no|yes", 0, 1 },
    { "seed", SEED, AT(seed), NULL, 0, 0 },
    { "bits", NUMBER, AT(random_bits), NULL, 1, 16 },
#undef AT
};

static const char rounding_words[] = "rn|rz|ru|rd|ra|ro|rs";
static const char rounding_aliases[] = "rne||||rna||sr";
static const char scale_words[] = "|e8m0|ue4m3", rule_words[] = "floor|ceil|even";

static const limber_unit defaults = {
    .block = 1,
    .sub = 1,
    .floor = LIMBER_NO_FLOOR,
    .split = 1,
    .random_bits = 13,
};

/* Returns word i of words with bars between them. */
static struct word word_at(const char *words, int64_t i)
{
    size_t n;

    for (; i > 0; i--)
        words += strcspn(words, "|") + 1;
    n = strcspn(words, "|");
    return (struct word){ words, n };
}

/* Finds a word among words with bars between them.  Sets *v to its index.  Returns false if it is
 * not among them. */
static bool find_word(struct word w, const char *words, int64_t *v)
{
    for (*v = 0;; ++*v) {
        struct word x = word_at(words, *v);

        if (x.n && x.n == w.n && !memcmp(x.s, w.s, w.n))
            return true;
        if (!x.s[x.n])
            return false;
    }
}

/* Reports what is wrong with a value of a key.  Returns false. */
static bool bad(struct diag *d, const char *key, struct word v, const char *what)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: '%.*s' %s", key,
                       (int)(v.n < MAX_WORD ? v.n : MAX_WORD), v.s, what);
}

/* ---- reading a unit from text -------------------------------------------------------------- */

/* Reads the name or the description of a format.  Returns false if the word is neither. */
static bool read_format(struct word w, limber_format *f)
{
    char name[MAX_WORD];

    if (!w.n || w.n >= sizeof name)
        return false;
    memcpy(name, w.s, w.n);
    name[w.n] = 0;
    return limber_format_named(name, f) == LIMBER_STATUS_OK;
}

/* Reads a rounding, "FORMAT:ROUNDING:...". key: its key, for error messages. */
static bool read_step(const char *key, struct word w, limber_step *s, struct diag *d)
{
    struct word all = w, name = limber_lex_cut(&w, ':');
    int64_t v;

    memset(s, 0, sizeof *s);
    if (!read_format(name, &s->format))
        return bad(d, key, name, "is no format");
    while (w.n) {
        struct word x = limber_lex_cut(&w, ':');

        if (find_word(x, rounding_words, &v) || find_word(x, rounding_aliases, &v))
            s->rounding = (uint8_t)v;
        else if (limber_lex_is(x, "sat"))
            s->format.flags |= LIMBER_FORMAT_SATURATE;
        else if (limber_lex_is(x, "ftz"))
            s->format.flags |= LIMBER_FORMAT_NO_SUBNORMAL;
        else if (limber_lex_is(x, "inf"))
            s->overflow = LIMBER_OVERFLOW_INFINITY;
        else
            return bad(d, key, all, "is not FORMAT[:ROUNDING][:sat][:ftz][:inf]");
    }
    return true;
}

enum { MOST_SCALED = 1 << 20 }; /* largest number of elements of a block with one scale */

/* Reads how blocks of operands are scaled, "e8m0:32:floor". */
static bool read_scale(const char *key, struct word w, limber_unit *u, struct diag *d)
{
    struct word all = w, name = limber_lex_cut(&w, ':');
    int64_t v;

    if (!find_word(name, scale_words, &v))
        return bad(d, key, name, "is neither e8m0 nor ue4m3");
    u->scale = (enum limber_unit_scale)v;
    u->scale_rule = LIMBER_SCALE_RULE_FLOOR;
    u->scale_block = v == LIMBER_SCALE_E8M0 ? 32 : 16;
    while (w.n) {
        struct word x = limber_lex_cut(&w, ':');

        if (find_word(x, rule_words, &v))
            u->scale_rule = (enum limber_scale_rule)v;
        else if (limber_lex_int(x, &v) && v >= 1 && v <= MOST_SCALED)
            u->scale_block = (int32_t)v;
        else
            return bad(d, key, all, "is not e8m0|ue4m3[:BLOCK][:floor|:ceil|:even]");
    }
    return true;
}

/* Reads a seed of 64 bits. */
static bool read_seed(const char *key, struct word w, limber_unit *u, struct diag *d)
{
    uint64_t v = 0;

    for (size_t i = 0; i < w.n; i++) {
        uint64_t digit = (uint64_t)(w.s[i] - '0');

        if (w.s[i] < '0' || w.s[i] > '9' || v > (UINT64_MAX - digit) / 10)
            return bad(d, key, w, "is not a number from 0 to 2^64-1");
        v = 10 * v + digit;
    }
    if (!w.n)
        return bad(d, key, w, "is not a number from 0 to 2^64-1");
    u->seed = v;
    u->seeded = 1;
    return true;
}

/* Reads a number in the key's range, or one of the key's words. */
static bool read_number(const struct key *k, struct word w, int32_t *to, struct diag *d)
{
    int64_t v;

    if (k->words ? !find_word(w, k->words, &v) :
                   !limber_lex_int(w, &v) || v < k->least || v > k->most) {
        if (k->words)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: '%.*s' is none of %s", k->name,
                               (int)(w.n < MAX_WORD ? w.n : MAX_WORD), w.s, k->words);
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT, "%s: '%.*s' is not a number from %lld to %lld", k->name,
            (int)(w.n < MAX_WORD ? w.n : MAX_WORD), w.s, (long long)k->least, (long long)k->most);
    }
    *to = (int32_t)v;
    return true;
}

/* Reads the value of a key into its field of the unit. */
static bool read_value(const struct key *k, struct word w, limber_unit *u, struct diag *d)
{
    void *to = (char *)u + k->at;

    switch (k->kind) {
    case INPUT:
        if (!read_step(k->name, w, &u->a, d))
            return false;
        u->b = u->a;
        return true;
    case MULTIPLY:
        if (limber_lex_is(w, "exact")) {
            memset(to, 0, sizeof u->mul);
            return true;
        }
        return read_step(k->name, w, to, d);
    case STEP: return read_step(k->name, w, to, d);
    case SCALE: return read_scale(k->name, w, u, d);
    case SEED: return read_seed(k->name, w, u, d);
    default: return read_number(k, w, to, d);
    }
}

/* Returns the next word of a description, and moves *at past it.  Words are separated by white
 * space or bars. */
static struct word next_word(const char **at)
{
    struct word w;

    *at += strspn(*at, " \t\r\n|");
    w.s = *at;
    w.n = strcspn(*at, " \t\r\n|");
    *at += w.n;
    return w;
}

/* Returns the key with this name, or NULL. */
static const struct key *find_key(struct word w)
{
    for (size_t i = 0; i < COUNT(keys); i++)
        if (limber_lex_is(w, keys[i].name))
            return &keys[i];
    return NULL;
}

/* Reads the words of a description. preset: true if the first word may be the name of a preset. */
static bool read_words(const char *at, limber_unit *u, bool preset, struct diag *d)
{
    uint64_t seen = 0;

    for (struct word w = next_word(&at); w.n; w = next_word(&at)) {
        struct word v = w, name = limber_lex_cut(&v, '=');
        const struct key *k = find_key(name);
        uint64_t bit;

        if (name.n == w.n && preset && !seen) {
            const limber_unit_preset *p;
            int i = 0;

            while ((p = limber_unit_preset_at(i)) && !limber_lex_is(w, p->name))
                i++;
            if (!p)
                return bad(d, "simulate", w, "is neither a preset nor key=value");
            if (!read_words(p->words, u, false, d))
                return limber_fail(d, LIMBER_STATUS_INTERNAL, "preset %s does not parse", p->name);
            preset = false;
            continue;
        }
        if (!k || name.n == w.n)
            return bad(d, "simulate", w, "is no key=value of a unit");
        bit = UINT64_C(1) << (k - keys);
        if (seen & bit)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: said twice", k->name);
        seen |= bit;
        if (!read_value(k, v, u, d))
            return false;
    }
    return true;
}

/* Parses a unit's description into *unit, and verifies it. */
bool limber_unit_read(const char *text, limber_unit *unit, struct diag *d)
{
    limber_unit u = defaults;

    memset(unit, 0, sizeof *unit);
    if (!text)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "text is NULL");
    if (!read_words(text, &u, true, d))
        return false;
    if (u.group && !u.outer.format.kind)
        u.outer = u.acc;
    if (u.split > 1 && !u.total.format.kind)
        u.total = u.group ? u.outer : u.acc;
    if (!limber_unit_verify(&u, d))
        return false;
    *unit = u;
    return true;
}

/* ---- writing a unit as text ---------------------------------------------------------------- */

/* Prints a rounding as " key=FORMAT:ROUNDING:...". */
static void print_step(struct text *out, const char *key, const limber_step *s)
{
    limber_format f = s->format;
    char name[64];

    f.flags &= (uint8_t)~(LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_NO_SUBNORMAL);
    limber_text_add(out, " %s=%s", key, limber_format_name(f, name, sizeof name));
    if (s->rounding)
        limber_text_add(out, ":%.2s", word_at(rounding_words, s->rounding).s);
    limber_text_add(out, "%s%s%s", s->format.flags & LIMBER_FORMAT_SATURATE ? ":sat" : "",
                    s->format.flags & LIMBER_FORMAT_NO_SUBNORMAL ? ":ftz" : "",
                    s->overflow ? ":inf" : "");
}

/* True if two roundings are the same. */
static bool same_step(const limber_step *a, const limber_step *b)
{
    return limber_format_equal(a->format, b->format) && a->rounding == b->rounding &&
           a->overflow == b->overflow;
}

/* Prints a unit's description in the form that limber_unit_read reads, without default values. */
void limber_unit_print(const limber_unit *u, struct text *out)
{
    struct text t = { 0 };

    for (size_t i = 0; i < COUNT(keys); i++) {
        const struct key *k = &keys[i];
        const void *at = (const char *)u + k->at, *normal = (const char *)&defaults + k->at;
        const limber_step *step = at;
        int32_t v;

        switch (k->kind) {
        case INPUT:
            if (same_step(&u->a, &u->b))
                print_step(&t, k->name, step);
            break;
        case MULTIPLY:
        case STEP:
            if (step->format.kind && ((step != &u->a && step != &u->b) || !same_step(&u->a, &u->b)))
                print_step(&t, k->name, step);
            break;
        case SCALE:
            if (u->scale)
                limber_text_add(&t, " scale=%s:%d:%.*s",
                                u->scale == LIMBER_SCALE_E8M0 ? "e8m0" : "ue4m3", u->scale_block,
                                (int)word_at(rule_words, u->scale_rule).n,
                                word_at(rule_words, u->scale_rule).s);
            break;
        case SEED:
            if (u->seeded)
                limber_text_add(&t, " seed=%llu", (unsigned long long)u->seed);
            break;
        default:
            memcpy(&v, at, sizeof v);
            if (memcmp(at, normal, sizeof v) == 0)
                break;
            if (k->words)
                limber_text_add(&t, " %s=%.*s", k->name, (int)word_at(k->words, v).n,
                                word_at(k->words, v).s);
            else
                limber_text_add(&t, " %s=%d", k->name, v);
        }
    }
    if (t.s)
        limber_text_add(out, "%s", t.s + 1);
    out->failed |= t.failed;
    limber_text_clear(&t);
}

/* ---- checking a description ------------------------------------------------------------------ */

/* True if the step rounds to FP64. */
static bool is_f64(const limber_step *s)
{
    return limber_format_equal(s->format, LIMBER_F64);
}

/* True if the step rounds to an integer format. */
static bool is_int(const limber_step *s)
{
    return s->format.kind == LIMBER_KIND_INT || s->format.kind == LIMBER_KIND_UINT;
}

/* Checks a rounding (format, mode, overflow). loads: true if it rounds operands, not sums. */
static bool check_step(const char *key, const limber_step *s, bool loads, struct diag *d)
{
    limber_format f = s->format;

    if (f.kind != LIMBER_KIND_FLOAT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: a float is wanted", key);
    if (f.flags & LIMBER_FORMAT_NO_MINUS_ZERO && !loads)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: sums have a -0, which this format lacks", key);
    if (f.exp_bits < 2 || f.exp_bits > 8)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: e = %d is not in 2..8", key,
                           f.exp_bits);
    if (f.frac_bits < 1 || f.frac_bits > 23)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: m = %d is not in 1..23", key,
                           f.frac_bits);
    if (limber_format_emin(f) < -149 || limber_format_emax(f) > 127)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: values do not embed in binary32",
                           key);
    if (s->overflow && f.flags & LIMBER_FORMAT_SATURATE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: sat contradicts inf", key);
    if (loads && s->rounding == LIMBER_ROUND_STOCHASTIC)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: operands are not rounded stochastically", key);
    return true;
}

/* Checks a unit that rounds to f64 in some step.  All of its steps must round to f64, to nearest,
 * as CPUs do; but operands may be loaded as smaller floats. */
static bool check_f64(const limber_unit *u, struct diag *d)
{
    const limber_step *all[] = { &u->a, &u->b, &u->mul, &u->acc, &u->outer, &u->total, &u->out };

    if (u->epilogue.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "epilogue: results of f64 are rounded once");
    for (size_t i = 0; i < COUNT(all); i++) {
        const bool loads = i < 2;

        if (loads && !is_f64(all[i])) {
            if (!check_step(i ? "b" : "a", all[i], true, d))
                return false;
        } else if (all[i]->format.kind && (!is_f64(all[i]) || all[i]->rounding ||
                                           all[i]->overflow || all[i]->format.flags)) {
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "%s: f64 is for units whose products and sums are f64:rn "
                               "throughout",
                               is_f64(&u->acc) ? "acc" : "in");
        }
    }
    if ((u->block != 1 && !(u->tree && u->mul.format.kind)) || u->start_c || u->scale)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: f64 is for products that are added one by one, and for trees of "
                           "rounded ones",
                           is_f64(&u->a) ? "in" : "acc");
    return true;
}

/* Returns true if the unit computes one chain of FMAs in binary64, or one for each group, as CPUs
 * can. */
bool limber_unit_is_chain(const limber_unit *u)
{
    return is_f64(&u->acc) && !u->mul.format.kind && u->block == 1 &&
           u->order == LIMBER_ORDER_FORWARD && !u->lanes && !u->halve && u->split == 1;
}

/* Checks a unit that multiplies 8-bit integers and adds 32-bit integers. */
static bool check_int(const limber_unit *u, struct diag *d)
{
    if (!is_int(&u->a) || !is_int(&u->b) || u->a.format.size != 1 || u->b.format.size != 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "in: integer units multiply i8 and u8");
    if (u->acc.format.kind != LIMBER_KIND_INT || u->acc.format.size != 4)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "acc: integer units add in i32");
    if (u->mul.format.kind || u->out.format.kind || u->group || u->split != 1 || u->start_c ||
        u->scale || u->frac || u->tree || u->late || u->reach || u->halves || u->lanes ||
        u->halve || u->unroll || u->rest_after || u->join_halves || u->tile || u->deal_turns ||
        u->merge_pairs || u->epilogue.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "in: integer units only add, and wrap");
    return true;
}

enum { STEPS = 8 };
/* A rounding of a unit, with its key in the text. must: true if every unit has this rounding. */
struct named_step {
    const char *key;
    const limber_step *s;
    bool must;
};

/* Lists all roundings of a unit with their keys. */
static void collect_steps(const limber_unit *u, struct named_step all[STEPS])
{
    const struct named_step list[STEPS] = {
        { "a", &u->a, true },
        { "b", &u->b, true },
        { "mul", &u->mul, false },
        { "acc", &u->acc, true },
        { "outer", &u->outer, u->group > 0 },
        { "total", &u->total, u->split > 1 },
        { "out", &u->out, false },
        { "epilogue", &u->epilogue, false },
    };

    memcpy(all, list, sizeof list);
}

/* Checks what must hold for every unit: formats are valid, and enumerations are in range. */
static bool check_words(const limber_unit *u, struct diag *d)
{
    static const limber_step none = { { 0 }, 0, 0 };
    struct named_step all[STEPS];

    collect_steps(u, all);
    for (size_t i = 0; i < STEPS; i++) {
        const limber_step *s = all[i].s;

        if (!s->format.kind && !all[i].must) {
            if (memcmp(s, &none, sizeof none))
                return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: a step without a format",
                                   all[i].key);
        } else if (!limber_format_check(all[i].key, s->format, d)) {
            return false;
        } else if (s->rounding > LIMBER_ROUND_STOCHASTIC ||
                   s->overflow > LIMBER_OVERFLOW_INFINITY ||
                   (is_int(s) && (s->rounding || s->overflow))) {
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: no such rounding or overflow",
                               all[i].key);
        }
    }
    return true;
}

/* Checks all roundings.  If one is stochastic, there must be a seed, and no tree. */
static bool check_steps(const limber_unit *u, struct diag *d)
{
    struct named_step all[STEPS];
    bool random = false;

    collect_steps(u, all);

    for (size_t i = 0; i < STEPS; i++) {
        if (!all[i].must && !all[i].s->format.kind)
            continue;
        if (!check_step(all[i].key, all[i].s, i < 2, d))
            return false;
        random |= all[i].s->rounding == LIMBER_ROUND_STOCHASTIC;
    }
    if (u->epilogue.rounding == LIMBER_ROUND_STOCHASTIC)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "epilogue: results are not rounded stochastically");
    if (random && u->tile)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "tile: tiles are not summed with stochastic rounding");
    if (random && !u->seeded)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "seed: stochastic rounding (rs) needs one");
    if (u->tree &&
        (u->mul.rounding == LIMBER_ROUND_STOCHASTIC || u->acc.rounding == LIMBER_ROUND_STOCHASTIC))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "tree: trees are not rounded stochastically");
    return true;
}

/* Checks that all numbers are in the ranges of their keys. */
static bool check_numbers(const limber_unit *u, struct diag *d)
{
    for (size_t i = 0; i < COUNT(keys); i++) {
        const struct key *k = &keys[i];
        int32_t v;

        if (k->kind != NUMBER)
            continue;
        memcpy(&v, (const char *)u + k->at, sizeof v);
        if (memcmp((const char *)&defaults + k->at, &v, sizeof v) && (v < k->least || v > k->most))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %d is not from %lld to %lld",
                               k->name, v, (long long)k->least, (long long)k->most);
    }
    if ((int)u->scale < 0 || u->scale > LIMBER_SCALE_UE4M3 || (int)u->scale_rule < 0 ||
        u->scale_rule > LIMBER_SCALE_RULE_EVEN ||
        (u->scale && (u->scale_block < 1 || u->scale_block > MOST_SCALED)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "scale: %d with rule %d and blocks of %d",
                           (int)u->scale, (int)u->scale_rule, u->scale_block);
    if (u->scale == LIMBER_SCALE_UE4M3 && u->scale_rule)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "scale: ue4m3 has no rule but its own");
    return true;
}

/* True if the format has at most three exponent bits, so that few bits hold sums of products. */
static bool is_small(const limber_step *s)
{
    return s->format.exp_bits <= 3;
}

/* Checks properties of blocks: trees of sums, and fused sums with their fraction bits. */
static bool check_block(const limber_unit *u, struct diag *d)
{
    bool fused = u->block > 1 && !u->tree;

    if (u->tree && (u->block < 2 || u->block & (u->block - 1) || u->block > 64))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "tree: block = %d is no power of two from 2 to "
                           "64",
                           u->block);
    if (fused && !u->frac)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "frac: a fused block needs it");
    if (!fused && (u->frac || u->floor != LIMBER_NO_FLOOR || u->zeros || u->sub != 1))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: only a fused block (block > 1) has it",
                           u->frac     ? "frac" :
                           u->zeros    ? "zeros" :
                           u->sub != 1 ? "sub" :
                                         "floor");
    if (fused && u->mul.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "mul: products of a fused block are exact");
    if (u->block % u->sub)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "sub: %d does not divide block = %d",
                           u->sub, u->block);
    if (u->sub > 1 && (!is_small(&u->a) || !is_small(&u->b)))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "sub: operands of at most 3 exponent bits");
    if (u->sub > 1 && u->scale && u->scale_block % u->sub)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "sub: %d does not divide blocks of scale",
                           u->sub);
    if (u->group && u->group % u->block)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "group: %d is no multiple of block = %d",
                           u->group, u->block);
    if ((u->order == LIMBER_ORDER_EVENODD || u->order == LIMBER_ORDER_QUADS) && !u->group)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "order: this one needs groups");
    if (u->order && u->scale && u->sub > 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "order: with sub only forward");
    return true;
}

/* Checks properties of groups, of lanes (accumulators that take turns), of parts of k, and of the
 * order along k. */
static bool check_groups(const limber_unit *u, struct diag *d)
{
    const bool inside = u->order == LIMBER_ORDER_EVENODD || u->order == LIMBER_ORDER_QUADS;

    if (!u->group && u->outer.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "outer: there are no groups");
    if (u->split == 1 && !u->tile && u->total.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "total: k is not split");
    if (u->lanes && (u->lanes & (u->lanes - 1) || u->block > 1))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           u->block > 1 ? "lanes: only where products are added one by one" :
                                          "lanes: %d is no power of two",
                           u->lanes);
    if (!u->lanes && (u->unroll || u->join_halves))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: only with lanes",
                           u->unroll ? "unroll" : "join");
    if (u->unroll ? u->unroll % u->lanes : u->rest_after)
        return limber_fail(
            d, LIMBER_STATUS_BAD_ARGUMENT,
            u->unroll ? "unroll: %d is no multiple of lanes" : "rest: only with unroll", u->unroll);
    if ((u->lanes || u->halve) && !u->group)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: only with groups",
                           u->lanes ? "lanes" : "halve");
    if (u->halve && (inside || u->halve % u->block || u->group % u->halve))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           inside              ? "halve: contradicts this order" :
                           u->halve % u->block ? "halve: %d is no multiple of block" :
                                                 "halve: %d does not divide group",
                           u->halve);
    return true;
}

/* Checks properties of tiles, of which parts of k consist, and of the order in which parts are
 * added.  A library's unit has these also if this product's k is not split. */
static bool check_tiles(const limber_unit *u, struct diag *d)
{
    if (!u->tile && u->deal_turns)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "deal: there are no tiles");
    if (!u->tile && u->merge_pairs && u->split == 1)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "merge: k is not split");
    if (u->tile % u->block)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "tile: %d is no multiple of block = %d",
                           u->tile, u->block);
    if (u->tile && u->order)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "tile: only with order=forward");
    return true;
}

/* Checks properties of blocks to which the accumulator is added last (`late`). */
static bool check_late(const limber_unit *u, struct diag *d)
{
    if (!u->late && (u->reach || u->halves))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: only with late",
                           u->reach ? "reach" : "halves");
    if (u->late && (u->block == 1 || u->tree))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "late: only a fused block (block > 1) has it");
    if (u->late && u->late < u->frac)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "late: %d is below frac = %d", u->late,
                           u->frac);
    if (u->late && (u->sub > 1 || u->floor != LIMBER_NO_FLOOR))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "late: contradicts %s",
                           u->sub > 1 ? "sub" : "floor");
    return true;
}

/* Checks that the accumulator has at least the fraction bits and the range of products, unless the
 * description says narrow=yes. */
static bool check_width(const limber_unit *u, struct diag *d)
{
    limber_format m = u->mul.format, a = u->acc.format;
    char name[2][64];

    if (!m.kind || u->narrow ||
        (m.frac_bits <= a.frac_bits && limber_format_emax(m) <= limber_format_emax(a)))
        return true;
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "acc: %s is narrower than mul, %s; "
                       "narrow=yes allows it",
                       limber_format_name(a, name[0], sizeof name[0]),
                       limber_format_name(m, name[1], sizeof name[1]));
}

/* Checks that a unit's fields are valid and agree with each other. */
bool limber_unit_verify(const limber_unit *u, struct diag *d)
{
    if (!u->a.format.kind || !u->b.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "in: the operands' format is missing");
    if (!u->acc.format.kind)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "acc: the accumulator is missing");
    if (!check_numbers(u, d) || !check_words(u, d))
        return false;
    if (is_f64(&u->a) || is_f64(&u->b) || is_f64(&u->acc))
        return check_f64(u, d) && check_block(u, d) && check_late(u, d) && check_groups(u, d) &&
               check_tiles(u, d);
    if (is_int(&u->a) || is_int(&u->b) || is_int(&u->acc))
        return check_int(u, d);
    return check_steps(u, d) && check_block(u, d) && check_late(u, d) && check_groups(u, d) &&
           check_tiles(u, d) && check_width(u, d);
}

/* ---- presets ------------------------------------------------------------------------------- */

#define DATA "checked against outputs of the device (Khattak and Mikaitis, arXiv 2512.07004)"
#define ROUNDED DATA "; operands rounded first, as libraries do"
#define MODEL "model only: MMA-Sim (Xie et al., arXiv 2511.10909)"
#define LIBRARY \
    "cuBLASLt 12.8.3 as torch._scaled_mm calls it: mmaemu 0.1.0 (Ding, 2026), checked there " \
    "against the device"
#define TESTS "model only: Fasi et al., PeerJ CS 7:e330, and MMA-Sim"
#define AMD \
    "model only: MMA-Sim (Xie et al., arXiv 2511.10909) and MATLAB-tensor-core (ACM " \
    "TACO, doi 10.1145/3830409) agree"
#define INTEL "model only: Intel SDM, volume 2, "
#define ARM "checked against QEMU: Arm ARM DDI 0487, "
#define RISCV "model only: RISC-V, "

static const limber_unit_preset presets[] = {
#define ACC32 "acc=f32:rz:inf"
/* an FP8 instruction adds two blocks, one after the other, as two FP16 instructions do */
#define MMA " block=16 frac=25 order=quads group=32 "
#define UNIT(name, words, source) { name, words, source },
#include "ir/unit/presets.h"
#undef UNIT
};

/* Returns the i-th predefined unit, from 0; NULL past the end. */
const limber_unit_preset *limber_unit_preset_at(int i)
{
    return i >= 0 && (size_t)i < COUNT(presets) ? &presets[i] : NULL;
}

/* Returns true if the block-scaled instruction takes operands of format f, whether or not the unit
 * saturates or flushes subnormals when it loads operands. */
static bool takes_format(enum block_scaled kind, limber_format f)
{
    const limber_format known[] = { LIMBER_E2M1, LIMBER_E2M3, LIMBER_E3M2, LIMBER_E4M3,
                                    LIMBER_E5M2 };
    const uint8_t loading = LIMBER_FORMAT_SATURATE | LIMBER_FORMAT_NO_SUBNORMAL;

    for (size_t i = 0; i < (kind == BLOCK_SCALED_mxf8f6f4 ? COUNT(known) : 1); i++) {
        limber_format g = known[i];

        f.flags |= loading;
        g.flags |= loading;
        if (limber_format_equal(f, g))
            return true;
    }
    return false;
}

/* Returns the block-scaled instruction of the GPU that computes as this unit does;
 * BLOCK_SCALED_none if there is none. */
enum block_scaled limber_unit_block_scaled(const limber_unit *unit)
{
    static const char *const models[] = { [BLOCK_SCALED_mxf8f6f4] = "b200-mxe4m3",
                                          [BLOCK_SCALED_mxf4] = "b200-mxfp4",
                                          [BLOCK_SCALED_mxf4nvf4] = "b200-nvfp4" };
    enum block_scaled found = BLOCK_SCALED_none;

    for (int kind = 1; !found && kind < (int)COUNT(models); kind++) {
        struct text own = { 0 }, wanted = { 0 };
        struct diag ignored = { 0 };
        limber_unit u = *unit, model;

        if (!takes_format((enum block_scaled)kind, u.a.format) ||
            !takes_format((enum block_scaled)kind, u.b.format) ||
            !limber_unit_read(models[kind], &model, &ignored))
            continue;
        u.a = model.a;
        u.b = model.b;
        u.scale_rule = model.scale_rule;
        u.seed = 0;
        u.seeded = 0;
        limber_unit_print(&u, &own);
        limber_unit_print(&model, &wanted);
        if (!own.failed && !wanted.failed && strcmp(own.s, wanted.s) == 0)
            found = (enum block_scaled)kind;
        limber_text_clear(&own);
        limber_text_clear(&wanted);
    }
    return found;
}

/* Sets *unit to the tensor core that the attributes sums= and unit= of the products name.  False
 * if they name none. */
bool limber_unit_of_sums(const struct node *products, limber_unit *unit)
{
    struct diag ignored = { 0 };
    static const char *const format[UNIT_count] = { [UNIT_f16] = "fp16",
                                                    [UNIT_bf16] = "bf16",
                                                    [UNIT_tf32] = "tf32",
                                                    [UNIT_e4m3] = "e4m3",
                                                    [UNIT_e5m2] = "e5m2" };
    const char *input = format[limber_attr_number(products, ATTR_unit)];
    char name[24];
    const char *word;
    int n;

    if (!limber_attr_number(products, ATTR_sums) || !input)
        return false;
    word =
        limber_word_at(limber_attrs[ATTR_sums].words, limber_attr_number(products, ATTR_sums), &n);
    snprintf(name, sizeof name, "%.*s-%s", n, word ? word : "", input);
    /* A unit with groups models several instructions, and cannot continue a running sum.  For
     * exact sums this does not matter, since they have the same value in any order. */
    return limber_unit_read(name, unit, &ignored) &&
           (!unit->group || products->type.format.kind == LIMBER_KIND_INT);
}

/* Returns b such that integers of magnitude up to 2^b are exact in the products' accumulator; 0 if
 * all integers are. */
int limber_exact_bits(const struct node *products)
{
    limber_unit u;

    if (!limber_unit_of_sums(products, &u))
        return limber_units[limber_attr_number(products, ATTR_unit)].exact_bits;
    return 1 + (u.frac < u.acc.format.frac_bits ? u.frac : u.acc.format.frac_bits);
}
