/* SPDX-License-Identifier: BSD-3-Clause
 * Interprets PTX for one thread: the instructions in the inline assembly of
 * backends/cuda/kernel/device.h.  It fails on other opcodes, shapes and types, on operands of the
 * wrong kind or size, and on addresses out of range.
 *
 * Source: PTX ISA 9.0, 9.7.9 (cvt, copies), 9.7.13 (barriers), 9.7.14 (mma), 9.7.15 (wgmma and its
 * descriptors), 9.7.16 (tcgen05 and its descriptors). */
#include "test/cuda/simt/engine.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kept parsed programs -------------------------------------------------------------------- */

struct frame;
struct type;
enum { MOST_REGISTERS = 4, MOST_NAME = 16, MOST_STEPS = 64 };

enum word_kind {
    WORD_argument,
    WORD_register,
    WORD_number,
    WORD_list,
    WORD_memory,
    WORD_label,
    WORD_sink
};
/* A word of an operand. */
struct word {
    enum word_kind kind;
    int64_t n; /* index of an argument, register or label, or the value of a number */
    int first, count; /* range of words, of a list or an address */
};
/* A parsed instruction. */
struct instruction {
    char *op;
    int predicate; /* index of a register; -1: not predicated */
    bool negated;
    int first, count; /* range of words that are its operands */
    void (*run)(struct frame *); /* the function that executes it; NULL: a branch */
    const struct type *type; /* type: types of a product's operands; n: its number of columns */
    int n;
};
/* A name that the assembly declares. */
struct name {
    char text[MOST_NAME];
    char type; /* type of a register: 'h' (16 bits), 'r' (32 bits) or 'p' (predicate) */
    int at; /* for a label: index of the instruction that follows */
};

/* The parsed assembly of one asm statement. */
struct program {
    struct program *next;
    const char *text; /* the parsed text, identified by its address; freed with its module */
    struct instruction *code;
    struct word *word;
    int codes, words;
    struct name reg[MOST_REGISTERS], label[MOST_REGISTERS];
    int regs, labels;
};
static struct program *programs;

/* Frees all parsed assembly texts. */
void ptx_forget(void)
{
    while (programs) {
        struct program *p = programs;

        programs = p->next;
        for (int i = 0; i < p->codes; i++)
            free(p->code[i].op);
        free(p->code);
        free(p->word);
        free(p);
    }
}

/* ---- parsing assembly ------------------------------------------------------------------------ */

static void skip_space(const char **s)
{
    while (isspace((unsigned char)**s))
        ++*s;
}

/* Skips white space.  If character c comes next, skips it, too, and returns true. */
static bool accept_char(const char **s, char c)
{
    skip_space(s);
    if (**s != c)
        return false;
    ++*s;
    return true;
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Parses a name into `to`.  Fails if no name comes next. */
static void take_name(const char **s, char to[MOST_NAME])
{
    int n = 0;

    skip_space(s);
    while (in_name(**s) && n < MOST_NAME - 1)
        to[n++] = *(*s)++;
    to[n] = 0;
    if (n == 0 || in_name(**s))
        engine_fail("ptx: a name at \"%.40s\"", *s);
}

static int find(const struct name *list, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].text, text) == 0)
            return i;
    return -1;
}

/* Returns the index of the name of a register or label, which is added if it is new. */
static int add_name(struct name *list, int *count, const char *text)
{
    int i = find(list, *count, text);

    if (i >= 0)
        return i;
    if (*count == MOST_REGISTERS)
        engine_fail("ptx: more than %d names", MOST_REGISTERS);
    snprintf(list[*count].text, MOST_NAME, "%s", text);
    list[*count].at = -1;
    return (*count)++;
}

/* Allocates `count` consecutive words; returns the index of the first. */
static int add_words(struct program *p, int count)
{
    p->word = realloc(p->word, (size_t)(p->words + count) * sizeof *p->word);
    p->words += count;
    return p->words - count;
}

static struct word parse_word(struct program *p, const char **s);

/* Parses words up to the character `end`.  *to becomes a list of these words. */
static void parse_list(struct program *p, const char **s, char end, struct word *to)
{
    struct word found[140];
    int count = 0;

    do {
        if (count == 140)
            engine_fail("ptx: a list of more than 140");
        found[count++] = parse_word(p, s);
    } while (accept_char(s, ','));
    if (!accept_char(s, end))
        engine_fail("ptx: no %c at \"%.40s\"", end, *s);
    to->first = add_words(p, count);
    to->count = count;
    memcpy(p->word + to->first, found, (size_t)count * sizeof *found);
}

/* Parses an operand: a register, a number, a list in braces or an address in brackets. */
static struct word parse_word(struct program *p, const char **s)
{
    struct word w = { WORD_sink, 0, 0, 0 };
    char name[MOST_NAME], *end;

    skip_space(s);
    if (accept_char(s, '{')) {
        w.kind = WORD_list;
        parse_list(p, s, '}', &w);
    } else if (accept_char(s, '[')) {
        w.kind = WORD_memory;
        parse_list(p, s, ']', &w);
    } else if (**s == '%' || isdigit((unsigned char)**s) || **s == '-') {
        w.kind = **s == '%' ? WORD_argument : WORD_number;
        w.n = strtoll(*s + (**s == '%'), &end, w.kind == WORD_number ? 0 : 10);
        *s = end;
    } else {
        take_name(s, name);
        if (strcmp(name, "_") == 0) {
            if (!accept_char(s, '|')) /* "_|p": only the predicate of the result is used */
                return w;
            take_name(s, name);
        }
        w.n = find(p->reg, p->regs, name);
        w.kind = w.n < 0 ? WORD_label : WORD_register;
        if (w.n < 0)
            w.n = add_name(p->label, &p->labels, name);
    }
    return w;
}

/* Parses a declaration of registers. */
static void declare(struct program *p, const char **s)
{
    char type[MOST_NAME], name[MOST_NAME];

    if (!accept_char(s, '.'))
        engine_fail("ptx: .reg without a type");
    take_name(s, type);
    do {
        take_name(s, name);
        p->reg[add_name(p->reg, &p->regs, name)].type = strcmp(type, "b16") == 0 ? 'h' :
                                                        strcmp(type, "b32") == 0 ? 'r' :
                                                                                   'p';
    } while (accept_char(s, ','));
}

static bool resolve(struct instruction *x);

/* Parses an instruction with its predicate and operands. */
static void parse_instruction(struct program *p, const char **s)
{
    struct instruction x = { .predicate = -1 };
    struct word all = { WORD_list, 0, 0, 0 };
    char name[MOST_NAME];
    const char *from;

    if (accept_char(s, '@')) {
        x.negated = accept_char(s, '!');
        take_name(s, name);
        x.predicate = find(p->reg, p->regs, name);
        if (x.predicate < 0)
            engine_fail("ptx: no register %s", name);
    }
    skip_space(s);
    for (from = *s; in_name(**s) || **s == '.' || **s == ':'; ++*s)
        ;
    x.op = strndup(from, (size_t)(*s - from));
    if (!accept_char(s, ';')) {
        parse_list(p, s, ';', &all);
        x.first = all.first;
        x.count = all.count;
    }
    if (!resolve(&x))
        engine_fail("ptx: %s is not played here", x.op);
    p->code = realloc(p->code, (size_t)(p->codes + 1) * sizeof *p->code);
    p->code[p->codes++] = x;
}

/* Parses a label (a name and a single colon); false if there is none. */
static bool parse_label(struct program *p, const char **s)
{
    const char *at = *s;
    char name[MOST_NAME];

    while (in_name(*at))
        at++;
    if (at == *s || at[0] != ':' || at[1] == ':')
        return false;
    take_name(s, name);
    ++*s;
    p->label[add_name(p->label, &p->labels, name)].at = p->codes;
    return true;
}

/* Parses the text of an asm statement and adds it to the list of programs. */
static struct program *parse(const char *s)
{
    struct program *p = calloc(1, sizeof *p);

    p->text = s;
    for (;;) {
        skip_space(&s);
        if (*s == 0)
            break;
        if (accept_char(&s, '{') || accept_char(&s, '}') || parse_label(p, &s))
            continue;
        if (strncmp(s, ".reg", 4) == 0) {
            s += 4;
            declare(p, &s);
            if (!accept_char(&s, ';'))
                engine_fail("ptx: no ; behind .reg");
            continue;
        }
        parse_instruction(p, &s);
    }
    p->next = programs;
    programs = p;
    return p;
}

/* Returns the parsed form of an assembly text, which is parsed at its first use.  Texts are
 * compared by address. */
static const struct program *find_program(const char *text)
{
    struct program **at = &programs, *p;

    for (; (p = *at) && p->text != text; at = &p->next)
        ;
    if (!p)
        return parse(text);
    *at = p->next; /* move to front: frequent programs are found fast */
    p->next = programs;
    programs = p;
    return p;
}

/* ---- operands of an instruction -------------------------------------------------------------- */

/* State of one execution of an asm statement. */
struct frame {
    const struct program *p;
    const struct instruction *x;
    const struct simt_operand *o;
    int count;
    uint64_t reg[MOST_REGISTERS];
    bool met; /* the thread has arrived at the cluster's barrier */
};

/* Returns operand i of the instruction. */
static const struct word *word(const struct frame *f, int i)
{
    if (i >= f->x->count)
        engine_fail("ptx: %s has no operand %d", f->x->op, i);
    return &f->p->word[f->x->first + i];
}

static void check_operand_count(const struct frame *f, int n)
{
    if (f->x->count != n)
        engine_fail("ptx: %s with %d operands, not %d", f->x->op, f->x->count, n);
}

static uint64_t size_of(char type)
{
    return type == 'h' ? 2 : type == 'r' || type == 'f' ? 4 : type == 'l' || type == 'd' ? 8 : 0;
}

/* Returns an argument whose constraint is `type` (r, l, h, f or d), with or without = or +. */
static const struct simt_operand *argument(const struct frame *f, const struct word *w, char type)
{
    const struct simt_operand *o;

    if (w->kind != WORD_argument || w->n >= f->count)
        engine_fail("ptx: %s wants a register, not operand %lld of %d", f->x->op, (long long)w->n,
                    f->count);
    o = &f->o[w->n];
    if (o->constraint[o->constraint[1] != 0] != type)
        engine_fail("ptx: %s has \"%s\" where \"%c\" belongs", f->x->op, o->constraint, type);
    if (o->size != size_of(type))
        engine_fail("ptx: %s: \"%s\" of %llu bytes", f->x->op, o->constraint,
                    (unsigned long long)o->size);
    return o;
}

/* Reads an operand's value.  Sizes are distinguished for speed, since this function takes much
 * of the time: a memcpy of variable size is a function call, and copying 4 bytes into 8 stalls
 * the CPU. */
static uint64_t read_operand(const struct simt_operand *o)
{
    uint32_t word;
    uint64_t v = 0;

    if (o->size == 4) {
        memcpy(&word, o->at, 4);
        return word;
    }
    if (o->size == 8)
        memcpy(&v, o->at, 8);
    else
        memcpy(&v, o->at, o->size);
    return v;
}

/* Returns the value of a word of this type; 'n': a constant. */
static uint64_t value(const struct frame *f, const struct word *w, char type)
{
    const struct simt_operand *o;

    if (w->kind == WORD_argument && w->n < f->count) { /* the most frequent case */
        o = &f->o[w->n];
        if (o->size == 4 && o->constraint[0] == type && (type == 'r' || type == 'f'))
            return read_operand(o);
    }
    if (w->kind == WORD_register) {
        if (f->p->reg[w->n].type != type)
            engine_fail("ptx: %s: register %s is of another type", f->x->op, f->p->reg[w->n].text);
        return f->reg[w->n];
    }
    if (w->kind == WORD_number)
        return (uint64_t)w->n;
    if (w->kind == WORD_argument && w->n < f->count && f->o[w->n].constraint[0] == 'n')
        return read_operand(&f->o[w->n]);
    if (type == 'n')
        engine_fail("ptx: %s wants a constant", f->x->op);
    o = argument(f, w, type);
    if (o->constraint[0] == '=')
        engine_fail("ptx: %s reads an operand that is only written", f->x->op);
    return read_operand(o);
}

static uint64_t input(const struct frame *f, int i, char type)
{
    return value(f, word(f, i), type);
}

/* Writes a value to a register, or to an argument that the assembly may write. */
static void write_operand(struct frame *f, const struct word *w, char type, uint64_t v)
{
    const struct simt_operand *o;

    if (w->kind == WORD_register && f->p->reg[w->n].type == type) {
        f->reg[w->n] = v;
        return;
    }
    o = argument(f, w, type);
    if (o->constraint[0] != '=' && o->constraint[0] != '+')
        engine_fail("ptx: %s writes an operand that is only read", f->x->op);
    if (o->size == 4)
        memcpy(o->at, &v, 4);
    else
        memcpy(o->at, &v, o->size);
}

/* Returns the words of operand i, which must be a list of `count` words. */
static const struct word *list(const struct frame *f, int i, int count)
{
    const struct word *w = word(f, i);

    if (w->kind != WORD_list || w->count != count)
        engine_fail("ptx: %s: operand %d is no list of %d", f->x->op, i, count);
    return &f->p->word[w->first];
}

/* Reads `count` registers of 32 bits from a list. */
static void gather(const struct frame *f, int i, char type, int count, uint32_t *to)
{
    const struct word *w = list(f, i, count);

    for (int k = 0; k < count; k++)
        to[k] = (uint32_t)value(f, &w[k], type);
}

/* Writes `count` registers of a list. */
static void scatter(struct frame *f, int i, char type, int count, const uint32_t *from)
{
    const struct word *w = list(f, i, count);

    for (int k = 0; k < count; k++)
        write_operand(f, &w[k], type, from[k]);
}

/* Returns the `count` words in brackets of operand i: an address, or coordinates. */
static const struct word *memory(const struct frame *f, int i, int count)
{
    const struct word *w = word(f, i);

    if (w->kind != WORD_memory || w->count != count)
        engine_fail("ptx: %s: operand %d is no address", f->x->op, i);
    return &f->p->word[w->first];
}

/* Returns the offset in shared memory of an address operand. */
static uint32_t shared(const struct frame *f, int i)
{
    uint32_t at = (uint32_t)value(f, memory(f, i, 1), 'r');

    if (at < SIMT_SHARED)
        engine_fail("ptx: %s at %u: no address of shared memory", f->x->op, at);
    return at - SIMT_SHARED;
}

static const void *global(const struct frame *f, int i, int count)
{
    return (const void *)(uintptr_t)value(f, memory(f, i, count), 'l');
}

/* ---- 32-bit operations ----------------------------------------------------------------------- */

/* dp4a: adds four products of bytes to c.  sa, sb: bytes of a and of b are signed. */
static void do_dp4a(struct frame *f, bool sa, bool sb)
{
    uint32_t a = (uint32_t)input(f, 1, 'r'), b = (uint32_t)input(f, 2, 'r');
    uint32_t d = (uint32_t)input(f, 3, 'r');

    for (int i = 0; i < 32; i += 8) {
        int x = sa ? (int8_t)(a >> i) : (uint8_t)(a >> i);
        int y = sb ? (int8_t)(b >> i) : (uint8_t)(b >> i);

        d += (uint32_t)(x * y);
    }
    write_operand(f, word(f, 0), 'r', d);
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float x;

    memcpy(&x, &low, 4);
    return x;
}

/* Rounds x to a 16-bit float with these fraction bits and bias, and returns its bit pattern. x must
 * be finite and within the format's range. */
static uint32_t narrow(float x, int frac_bits, int bias)
{
    double v = fabs((double)x), code;
    int e = v == 0 ? 1 - bias : ilogb(v);

    e = e < 1 - bias ? 1 - bias : e;
    code = rint(ldexp(v, frac_bits - e));
    return (uint32_t)(signbit(x) != 0) << 15 |
           (uint32_t)(code + (double)(uint32_t)(e - 1 + bias) * (1 << frac_bits));
}

/* Converts two numbers to 16 bits and packs them; the first becomes the upper half. */
static void do_cvt_pair(struct frame *f, int frac_bits, int bias)
{
    write_operand(f, word(f, 0), 'r',
                  narrow(float_of(input(f, 1, 'f')), frac_bits, bias) << 16 |
                      narrow(float_of(input(f, 2, 'f')), frac_bits, bias));
}

/* Simulates cvt.f32.f16. */
static void do_cvt_f16(struct frame *f)
{
    uint32_t v = (uint32_t)input(f, 1, 'h'), bits;
    int e = (int)(v >> 10 & 31), frac = (int)(v & 1023);
    float x = (float)ldexp(e ? 1024 + frac : frac, (e ? e : 1) - 25);

    x = v >> 15 & 1 ? -x : x;
    memcpy(&bits, &x, 4);
    write_operand(f, word(f, 0), 'f', bits);
}

/* Simulates mov.b32 of a register to a pair of 16-bit registers. */
static void do_halves(struct frame *f)
{
    const struct word *w = list(f, 0, 2);
    uint32_t v = (uint32_t)input(f, 1, 'r');

    write_operand(f, &w[0], 'h', v & 0xffff);
    write_operand(f, &w[1], 'h', v >> 16);
}

/* ---- products of a warp ---------------------------------------------------------------------- */

static void do_ldmatrix(struct frame *f)
{
    uint32_t r[4];

    load_fragments(r, shared(f, 1));
    scatter(f, 0, 'r', 4, r);
}

/* Operand types in opcodes, with the number of elements in 32 bytes along k. */
static const struct type {
    const char *a, *b;
    /* kind: of enum simt_kind; tail: number of wgmma's operands after the predicate */
    int k, kind, tail;
} types[] = {
    { "u8", "u8", 32, SIMT_I8, 0 },       { "s8", "u8", 32, SIMT_I8 + 1, 0 },
    { "u8", "s8", 32, SIMT_I8 + 2, 0 },   { "s8", "s8", 32, SIMT_I8 + 3, 0 },
    { "f16", "f16", 16, SIMT_F16, 4 },    { "bf16", "bf16", 16, SIMT_BF16, 4 },
    { "tf32", "tf32", 8, SIMT_TF32, 2 },  { "e4m3", "e4m3", 32, SIMT_E4M3, 2 },
    { "e5m2", "e5m2", 32, SIMT_E5M2, 2 },
};

static const struct type *type_of(const char *a, const char *b, int k, const char *d)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].a, a) == 0 && strcmp(types[i].b, b) == 0 && types[i].k == k &&
            strcmp(d, types[i].kind < SIMT_F16 ? "s32" : "f32") == 0)
            return &types[i];
    return NULL;
}

/* Simulates mma.sync of 16 x 8 results: operand 0 = operand 1 x operand 2 + operand 3, with 4, 2
 * and 4 registers of a thread for A, B and sums. */
static void do_mma(struct frame *f)
{
    const struct type *t = f->x->type;
    char what = t->kind < SIMT_F16 ? 'r' : 'f';
    uint32_t sums[4], left[4], right[2];

    check_operand_count(f, 4);
    gather(f, 3, what, 4, sums);
    gather(f, 1, 'r', 4, left);
    gather(f, 2, 'r', 2, right);
    mma(t->kind, sums, left, right);
    scatter(f, 0, what, 4, sums);
}

/* Parses the formats and k in the name of an mma.sync instruction.  Returns false if the name is
 * of another instruction, or no such product is known. */
static bool resolve_mma(struct instruction *x)
{
    char d[8], a[8], b[8], c[8];
    int k, end = 0;

    if (sscanf(x->op, "mma.sync.aligned.m16n8k%d.row.col.%7[^.].%7[^.].%7[^.].%7[^.]%n", &k, d, a,
               b, c, &end) != 5 ||
        x->op[end] || strcmp(c, d) != 0)
        return false;
    x->type = type_of(a, b, k, d);
    x->run = do_mma;
    return x->type;
}

/* Returns the number of a format in instruction descriptors, or -1. */
static int format_of(const char *name)
{
    static const char *const names[] = { "e4m3", "e5m2", "", "e2m3", "e3m2", "e2m1" };

    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Kinds of block-scaled products: number of scales of a line, elements along k, and the distance
 * between the bytes of a word at which a line's scales may begin. */
static const struct {
    const char *name, *scale;
    int vector, k, step;
} scaled_kinds[] = {
    [SIMT_MXF8F6F4] = { "mxf8f6f4", "ue8m0", 1, 32, 1 },
    [SIMT_MXF4] = { "mxf4", "ue8m0", 2, 64, 2 },
    [SIMT_MXF4NVF4] = { "mxf4nvf4", "ue4m3", 4, 64, 4 },
};

/* Parses the opcode of a block-scaled product.  Returns false if it is none. */
static bool parse_scaled(const char *op, struct scaled_product *x)
{
    char kind[12], a[8], b[8], scale[8];
    int vector, k, end = 0;

    if (sscanf(op,
               "mma.sync.aligned.kind::%11[^.].block_scale.scale_vec::%dX.m16n8k%d.row.col.f32."
               "%7[^.].%7[^.].f32.%7[^.]%n",
               kind, &vector, &k, a, b, scale, &end) != 6 ||
        op[end])
        return false;
    x->format[0] = format_of(a);
    x->format[1] = format_of(b);
    for (int i = SIMT_MXF8F6F4; i <= SIMT_MXF4NVF4; i++)
        if (strcmp(kind, scaled_kinds[i].name) == 0 && strcmp(scale, scaled_kinds[i].scale) == 0 &&
            vector == scaled_kinds[i].vector && k == scaled_kinds[i].k && x->format[0] >= 0 &&
            x->format[1] >= 0 && (i == SIMT_MXF8F6F4 || (x->format[0] == 5 && x->format[1] == 5))) {
            x->kind = (enum simt_scaled)i;
            return true;
        }
    return false;
}

/* Simulates block-scaled mma.sync: reads the operands' registers and the selectors of scales,
 * which must be in range, and writes the sums. */
static void do_mma_scaled(struct frame *f)
{
    struct scaled_product x;
    uint32_t sums[4], left[4], right[2];
    float d[4];

    check_operand_count(f, 8);
    parse_scaled(f->x->op, &x);
    if (engine.capability < 120)
        engine_fail("ptx: %s is not on this device", f->x->op);
    for (int side = 0; side < 2; side++) {
        const struct word *w = list(f, 5 + 2 * side, 2);

        x.byte[side] = (int)value(f, &w[0], 'h');
        x.quad[side] = (int)value(f, &w[1], 'h');
        if (x.byte[side] % scaled_kinds[x.kind].step || x.byte[side] > 3 ||
            x.quad[side] > (side ? 3 : 1))
            engine_fail("ptx: %s with scales from byte %d of place %d", f->x->op, x.byte[side],
                        x.quad[side]);
    }
    gather(f, 3, 'f', 4, sums);
    gather(f, 1, 'r', 4, left);
    gather(f, 2, 'r', 2, right);
    memcpy(d, sums, sizeof d);
    mma_scaled(&x, d, left, right, (uint32_t)input(f, 4, 'r'), (uint32_t)input(f, 6, 'r'));
    memcpy(sums, d, sizeof d);
    scatter(f, 0, 'f', 4, sums);
}

static bool resolve_mma_scaled(struct instruction *x)
{
    struct scaled_product ignored;

    x->run = do_mma_scaled;
    return parse_scaled(x->op, &ignored);
}

static double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, 8);
    return x;
}

/* Simulates mma.sync in FP64, for one or two blocks of eight rows. */
static void do_mma_f64(struct frame *f, int blocks)
{
    const struct word *to = list(f, 0, 2 * blocks), *from = list(f, 3, 2 * blocks);
    const struct word *a = list(f, 1, blocks);
    double d[4], b = double_of(value(f, list(f, 2, 1), 'd'));
    uint64_t bits;

    for (int i = 0; i < 2 * blocks; i++)
        d[i] = double_of(value(f, &from[i], 'd'));
    for (int i = 0; i < blocks; i++)
        mma_f64(d + 2 * i, double_of(value(f, &a[i], 'd')), b);
    for (int i = 0; i < 2 * blocks; i++) {
        memcpy(&bits, &d[i], 8);
        write_operand(f, &to[i], 'd', bits);
    }
}

static void do_wmma_load(struct frame *f)
{
    uint32_t r[8];

    wmma_load(r, shared(f, 1), (int)input(f, 2, 'r'));
    scatter(f, 0, 'r', 8, r);
}

/* Simulates wmma.mma of 16 x 16 x 16 binary16 numbers with binary32 sums: 8 registers of a thread
 * for each operand. */
static void do_wmma(struct frame *f)
{
    uint32_t sums[8], a[8], b[8];
    float d[8];

    gather(f, 3, 'f', 8, sums);
    gather(f, 1, 'r', 8, a);
    gather(f, 2, 'r', 8, b);
    memcpy(d, sums, sizeof d);
    wmma(d, a, b);
    memcpy(sums, d, sizeof d);
    scatter(f, 0, 'f', 8, sums);
}

static void do_wmma_store(struct frame *f)
{
    uint32_t bits[8];
    float d[8];

    gather(f, 1, 'f', 8, bits);
    memcpy(d, bits, sizeof d);
    wmma_store(shared(f, 0), d, (int)input(f, 2, 'r'));
}

/* ---- products of a warpgroup ----------------------------------------------------------------- */

/* Checks that registers that are filled asynchronously are contiguous in memory, and returns the
 * address of the first. */
static void *registers_in_row(const struct frame *f, char type, int count, char written)
{
    const struct word *w = list(f, 0, count);
    char *first = argument(f, &w[0], type)->at;

    for (int i = 0; i < count; i++) {
        const struct simt_operand *o = argument(f, &w[i], type);

        if (o->constraint[0] != written)
            engine_fail("ptx: %s: register %d is \"%s\"", f->x->op, i, o->constraint);
        if ((char *)o->at != first + 4 * i)
            engine_fail("ptx: %s: register %d is not the one behind register %d", f->x->op, i,
                        i - 1);
    }
    return first;
}

/* Decodes a matrix descriptor: rows of 128 bytes along k, swizzled by 16-byte pieces in groups of
 * eight rows.  rows: the required value of bits 46 and up. */
static struct tile tile_of(const struct frame *f, int i, uint64_t rows)
{
    uint64_t v = input(f, i, 'l');
    uint32_t start = (uint32_t)(v & 0x3fff) << 4;

    if (v >> 46 != rows || (v >> 16 & 0x3fff) != 1 || v & 0xc000 || v & 0xc0000000)
        engine_fail("ptx: descriptor %llx is not one of rows of 128 bytes", (unsigned long long)v);
    if (start < SIMT_SHARED)
        engine_fail("ptx: descriptor %llx begins before shared memory", (unsigned long long)v);
    return (struct tile){ start - SIMT_SHARED, (uint32_t)(v >> 32 & 0x3fff) << 4 };
}

/* Bits 46 to 63 of descriptors of tiles whose rows have 128 bytes, swizzled. */
enum { ROWS_OF_WGMMA = 1 << 16, ROWS_OF_TCGEN05 = 2 << 15 | 1 };

static void do_wgmma(struct frame *f)
{
    const struct type *t = f->x->type;
    int n = f->x->n;

    check_operand_count(f, 4 + t->tail);
    for (int i = 0; i < t->tail; i++)
        if (input(f, 4 + i, 'n') != (i < 2))
            engine_fail("ptx: %s with a sign or a transposed operand", f->x->op);
    group(t->kind, n, registers_in_row(f, t->kind < SIMT_F16 ? 'r' : 'f', n / 2, '+'),
          tile_of(f, 1, ROWS_OF_WGMMA), tile_of(f, 2, ROWS_OF_WGMMA), input(f, 3, 'p') != 0);
}

/* Parses the formats, n and k in the name of a wgmma.mma_async instruction.  Returns false if
 * the name is of another instruction, or no such product is known. */
static bool resolve_wgmma(struct instruction *x)
{
    char d[8], a[8], b[8];
    int k, end = 0;

    if (sscanf(x->op, "wgmma.mma_async.sync.aligned.m64n%dk%d.%7[^.].%7[^.].%7[^.]%n", &x->n, &k, d,
               a, b, &end) != 5 ||
        x->op[end] || x->n % 8 || x->n < 8 || x->n > 256)
        return false;
    x->type = type_of(a, b, k, d);
    x->run = do_wgmma;
    return x->type;
}

/* ---- one lane of a warp ---------------------------------------------------------------------- */

/* Simulates elect.sync. */
static void do_elect(struct frame *f)
{
    if (input(f, 1, 'n') != 0xffffffff)
        engine_fail("ptx: %s of some lanes", f->x->op);
    write_operand(f, word(f, 0), 'p', is_elected());
}

/* Simulates selp: selects one of two values by a predicate. */
static void do_selp(struct frame *f)
{
    write_operand(f, word(f, 0), 'r', input(f, input(f, 3, 'p') ? 1 : 2, 'n'));
}

/* ---- products to tensor memory --------------------------------------------------------------- */

/* Issues a product into tensor memory.  Its descriptor must not negate or transpose operands, and
 * must wrap on overflow. */
static void do_tcgen05(struct frame *f, uint32_t sums, const int kinds[3])
{
    uint32_t what = (uint32_t)input(f, 3, 'r'), a = what >> 7 & 7, b = what >> 10 & 7;
    int n = (int)(what >> 17 & 63) * 8, m = (int)(what >> 24 & 31) * 16, kind = -1;
    bool bytes = sums == 2;

    if (bytes && engine.capability != 100)
        engine_fail("ptx: %s is not on this device", f->x->op);
    if (a < 3 && (bytes ? a < 2 && b < 2 : a == b))
        kind = bytes ? SIMT_I8 + (int)(a + 2 * b) : kinds[a];
    if (what & 0xe081e04f || (what >> 4 & 3) != sums || kind < 0)
        engine_fail("ptx: %s: descriptor %x is none of these types", f->x->op, what);
    if (m != 128 || n % 16 || n < 16 || n > 256)
        engine_fail("ptx: %s of %d x %d", f->x->op, m, n);
    columns_product(kind, n, (uint32_t)value(f, memory(f, 0, 1), 'r'),
                    tile_of(f, 1, ROWS_OF_TCGEN05), tile_of(f, 2, ROWS_OF_TCGEN05),
                    input(f, 4, 'p') != 0);
}

/* Issues a copy to tensor memory.  Its descriptor must have 32 unswizzled rows of 16 bytes. */
static void do_tcgen05_cp(struct frame *f)
{
    uint64_t v = input(f, 1, 'l');
    uint32_t start = (uint32_t)(v & 0x3fff) << 4;

    if (v >> 46 != 1 || (v >> 16 & 0x3fff) != 1 || v & 0xc000c000 || start < SIMT_SHARED)
        engine_fail("ptx: descriptor %llx is not one of rows of 16 bytes", (unsigned long long)v);
    columns_copy((uint32_t)value(f, memory(f, 0, 1), 'r'),
                 (struct tile){ start - SIMT_SHARED, (uint32_t)(v >> 32 & 0x3fff) << 4 });
}

/* Issues a block-scaled product into tensor memory. */
static void do_tcgen05_scaled(struct frame *f, enum simt_scaled kind)
{
    uint32_t what = (uint32_t)input(f, 3, 'r'), format[2] = { what >> 7 & 7, what >> 10 & 7 };
    int n = (int)(what >> 17 & 63) * 8, m = (int)(what >> 24 & 31) * 16;
    struct scaled_product x = { .kind = kind,
                                .byte = { (int)(what >> 29 & 3), (int)(what >> 4 & 3) } };
    bool e8m0 = what >> 23 & 1, bytes = kind == SIMT_MXF8F6F4;

    for (int side = 0; side < 2; side++) {
        if (bytes ? format[side] == 2 || format[side] > 5 : format[side] != 1)
            engine_fail("ptx: %s: descriptor %x is none of these types", f->x->op, what);
        x.format[side] = bytes ? (int)format[side] : 5;
        if (x.byte[side] % scaled_kinds[kind].step)
            engine_fail("ptx: %s with scales from byte %d", f->x->op, x.byte[side]);
    }
    if (what & 0x8001e04f || e8m0 != (kind != SIMT_MXF4NVF4))
        engine_fail("ptx: %s: descriptor %x is none of these types", f->x->op, what);
    if (m != 128 || n % 16 || n < 16 || n > 256)
        engine_fail("ptx: %s of %d x %d", f->x->op, m, n);
    columns_scaled_product(&x, n, (uint32_t)value(f, memory(f, 0, 1), 'r'),
                           tile_of(f, 1, ROWS_OF_TCGEN05), tile_of(f, 2, ROWS_OF_TCGEN05),
                           (uint32_t[]){ (uint32_t)value(f, memory(f, 4, 1), 'r'),
                                         (uint32_t)value(f, memory(f, 5, 1), 'r') },
                           input(f, 6, 'p') != 0);
}

static const int kinds_f16[3] = { SIMT_F16, SIMT_BF16, -1 }, kinds_tf32[3] = { -1, -1, SIMT_TF32 };
static const int kinds_f8[3] = { SIMT_E4M3, SIMT_E5M2, -1 };

/* Simulates tcgen05.commit.  all: multicast to the blocks of a mask. */
static void do_commit(struct frame *f, bool all)
{
    uint32_t mask = all ? (uint32_t)input(f, 1, 'h') : 0;

    if (all && !mask)
        engine_fail("ptx: %s to no block", f->x->op);
    columns_arrive(shared(f, 0), mask);
}

/* Simulates setmaxnreg: increases (more) or decreases the registers of each thread of a warp. */
static void do_registers(struct frame *f, bool more)
{
    int n = (int)input(f, 0, 'n'), own = 65536 / engine.launch->threads / 8 * 8;

    if (n % 8 || n < 24 || n > 256 || (more ? n < own : n > own))
        engine_fail("ptx: %s %d, where threads begin with %d", f->x->op, n, own);
    registers_change(n);
}

/* ---- atomic operations on device memory ------------------------------------------------------ */

/* Adds atomically to device memory.  passes: the operation has release and acquire semantics. */
static void do_atomic_add(struct frame *f, bool passes)
{
    uint64_t at = value(f, memory(f, 1, 1), 'l');
    uint32_t more = (uint32_t)input(f, 2, 'r');
    uint32_t *p = global_atomic((void *)(uintptr_t)at, 4, 4), before = *p;

    *p += more;
    if (passes)
        order_pass(at);
    write_operand(f, word(f, 0), 'r', before);
}

/* ---- barriers, copies ------------------------------------------------------------------------ */

/* Simulates bar.sync. */
static void do_bar(struct frame *f)
{
    int id = (int)input(f, 0, 'n'), threads = (int)input(f, 1, 'n');

    if (id < 1 || id > 15 || threads <= 0 || threads % 32)
        engine_fail("ptx: bar.sync %d, %d", id, threads);
    sync_some(id, threads);
}

/* Simulates cp.async, which fills with zeros what exceeds the source. */
static void do_copy(struct frame *f, int most)
{
    int size = (int)input(f, 2, 'n');

    if (most == 16 ? size != 16 : size != 4)
        engine_fail("ptx: %s of %d bytes", f->x->op, size);
    copy_later(shared(f, 0), global(f, 1, 1), (int)input(f, 3, 'r'), size);
}

/* Simulates mbarrier.arrive.expect_tx. */
static void do_expect(struct frame *f)
{
    barrier_arrive(shared(f, 1), (uint32_t)input(f, 2, 'r'));
}

/* Simulates mbarrier.try_wait, which here waits until the phase has ended. */
static void do_wait(struct frame *f)
{
    barrier_wait(shared(f, 1), (uint32_t)input(f, 2, 'r'));
    write_operand(f, word(f, 0), 'p', 1);
}

enum { RANK = 24 }; /* in a cluster address, the bits from here on hold the block's rank plus 1 */

/* Simulates mapa: the address of a block's shared memory as the cluster sees it. */
static void do_mapa(struct frame *f)
{
    write_operand(f, word(f, 0), 'r', input(f, 1, 'r') | (input(f, 2, 'r') + 1) << RANK);
}

/* Arrives at a barrier of a block of the cluster.  An address without a rank is in this block. */
static void do_arrive_there(struct frame *f)
{
    uint32_t at = (uint32_t)value(f, memory(f, 1, 1), 'r');
    int rank = (int)(at >> RANK) - 1;

    at &= (1u << RANK) - 1;
    if (at < SIMT_SHARED)
        engine_fail("ptx: %s at %u: no address of shared memory", f->x->op, at);
    barrier_arrive_in(at - SIMT_SHARED, rank < 0 ? engine.running->block->rank : rank);
}

/* Simulates a bulk copy of a tensor's box to shared memory.  all: multicast to the blocks of a
 * mask. */
static void do_tensor(struct frame *f, bool all)
{
    const void *map = global(f, 1, 2);
    const struct word *from = memory(f, 1, 2);
    const struct word *at = &f->p->word[from[1].first];
    uint32_t mask = all ? (uint32_t)input(f, 3, 'h') : 0;

    check_operand_count(f, 3 + all);
    if (from[1].kind != WORD_list || from[1].count != 3)
        engine_fail("ptx: %s: not three coordinates", f->x->op);
    if (all && !mask)
        engine_fail("ptx: %s to no block", f->x->op);
    tensor_load(shared(f, 0), map, (int)value(f, &at[0], 'r'), (int)value(f, &at[1], 'r'),
                (int)value(f, &at[2], 'r'), shared(f, 2), mask);
}

/* Simulates barrier.cluster.wait. */
static void meet_cluster(struct frame *f)
{
    if (!f->met)
        engine_fail("ptx: %s without an arrival", f->x->op);
    f->met = false;
    sync_cluster();
}

/* ---- the table of instructions --------------------------------------------------------------- */

#define TENSOR "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define BULK "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
#define SCALED "tcgen05.mma.cta_group::1.kind::"
#define WMMA "sync.aligned.m16n16k16."
#define COMMIT "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"

/* Opcodes, their number of operands, and their implementation. */
#define OPCODES(F) \
    F(bar_sync, "bar.sync", 2, do_bar(f)) \
    F(atom_acq_rel_add, "atom.acq_rel.gpu.global.add.u32", 3, do_atomic_add(f, true)) \
    F(atom_relaxed_add, "atom.relaxed.gpu.global.add.u32", 3, do_atomic_add(f, false)) \
    F(griddepcontrol_wait, "griddepcontrol.wait", 0, order_begin()) \
    F(griddepcontrol_launch_dependents, "griddepcontrol.launch_dependents", 0, (void)f) \
    F(dp4a_s32_s32, "dp4a.s32.s32", 4, do_dp4a(f, true, true)) \
    F(dp4a_s32_u32, "dp4a.s32.u32", 4, do_dp4a(f, true, false)) \
    F(dp4a_u32_s32, "dp4a.u32.s32", 4, do_dp4a(f, false, true)) \
    F(dp4a_u32_u32, "dp4a.u32.u32", 4, do_dp4a(f, false, false)) \
    F(cvt_rn_f16x2_f32, "cvt.rn.f16x2.f32", 3, do_cvt_pair(f, 10, 15)) \
    F(cvt_rn_bf16x2_f32, "cvt.rn.bf16x2.f32", 3, do_cvt_pair(f, 7, 127)) \
    F(cvt_f32_f16, "cvt.f32.f16", 2, do_cvt_f16(f)) \
    F(mov_b32, "mov.b32", 2, do_halves(f)) \
    F(elect_sync, "elect.sync", 2, do_elect(f)) \
    F(selp_b32, "selp.b32", 4, do_selp(f)) \
    F(setp_ne_b32, "setp.ne.b32", 3, \
      write_operand(f, word(f, 0), 'p', (uint32_t)input(f, 1, 'r') != input(f, 2, 'n'))) \
    F(cp_async_cg_shared_global, "cp.async.cg.shared.global", 4, do_copy(f, 16)) \
    F(cp_async_ca_shared_global, "cp.async.ca.shared.global", 4, do_copy(f, 4)) \
    F(cp_async_commit_group, "cp.async.commit_group", 0, copy_group()) \
    F(cp_async_wait_group, "cp.async.wait_group", 1, copy_wait((int)input(f, 0, 'n'))) \
    F(ldmatrix_sync_aligned_m8n8_x4_shared_b16, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 2, \
      do_ldmatrix(f)) \
    F(mma_sync_aligned_m8n8k4_row_col_f64_f64_f64_f64, \
      "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 4, do_mma_f64(f, 1)) \
    F(mma_sync_aligned_m16n8k4_row_col_f64_f64_f64_f64, \
      "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64", 4, do_mma_f64(f, 2)) \
    F(wmma_load_a_row_shared_f16, "wmma.load.a." WMMA "row.shared.f16", 3, do_wmma_load(f)) \
    F(wmma_load_b_col_shared_f16, "wmma.load.b." WMMA "col.shared.f16", 3, do_wmma_load(f)) \
    F(wmma_mma_sync_aligned_row_col_m16n16k16_f32_f32, \
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", 4, do_wmma(f)) \
    F(wmma_store_d_row_shared_f32, "wmma.store.d." WMMA "row.shared.f32", 3, do_wmma_store(f)) \
    F(mbarrier_init_shared_cta_b64, "mbarrier.init.shared::cta.b64", 2, \
      barrier_init(shared(f, 0), (int)input(f, 1, 'r'))) \
    F(fence_mbarrier_init_release_cluster, "fence.mbarrier_init.release.cluster", 0, \
      barrier_init_done()) \
    F(mbarrier_arrive_shared_cta_b64, "mbarrier.arrive.shared::cta.b64", 2, \
      barrier_arrive(shared(f, 1), 0)) \
    F(mbarrier_arrive_expect_tx_shared_cta_b64, "mbarrier.arrive.expect_tx.shared::cta.b64", 3, \
      do_expect(f)) \
    F(mbarrier_try_wait_parity_shared_cta_b64, "mbarrier.try_wait.parity.shared::cta.b64", 3, \
      do_wait(f)) \
    F(mbarrier_arrive_shared_cluster_b64, "mbarrier.arrive.shared::cluster.b64", 2, \
      do_arrive_there(f)) \
    F(mapa_shared_cluster_u32, "mapa.shared::cluster.u32", 3, do_mapa(f)) \
    F(barrier_cluster_arrive_release, "barrier.cluster.arrive.release", 0, f->met = true) \
    F(barrier_cluster_wait_acquire, "barrier.cluster.wait.acquire", 0, meet_cluster(f)) \
    F(tensor, TENSOR, 3, do_tensor(f, false)) \
    F(tensor_multicast_cluster, TENSOR ".multicast::cluster", 4, do_tensor(f, true)) \
    F(bulk, BULK, 4, \
      bulk_load(shared(f, 0), global(f, 1, 1), (uint32_t)input(f, 2, 'r'), shared(f, 3))) \
    F(prefetch_tensormap, "prefetch.tensormap", 1, tensor_prefetch(global(f, 0, 1))) \
    F(fence_proxy_async_shared_cta, "fence.proxy.async.shared::cta", 0, fence_async()) \
    F(setmaxnreg_inc_sync_aligned_u32, "setmaxnreg.inc.sync.aligned.u32", 1, \
      do_registers(f, true)) \
    F(setmaxnreg_dec_sync_aligned_u32, "setmaxnreg.dec.sync.aligned.u32", 1, \
      do_registers(f, false)) \
    F(wgmma_fence_sync_aligned, "wgmma.fence.sync.aligned", 0, group_fence()) \
    F(wgmma_commit_group_sync_aligned, "wgmma.commit_group.sync.aligned", 0, group_commit()) \
    F(wgmma_wait_group_sync_aligned, "wgmma.wait_group.sync.aligned", 1, \
      group_wait((int)input(f, 0, 'n'))) \
    F(tcgen05_alloc, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", 2, \
      columns_allocate(shared(f, 0), (uint32_t)input(f, 1, 'n'))) \
    F(tcgen05_relinquish, "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned", 0, \
      columns_take_no_more()) \
    F(tcgen05_dealloc, "tcgen05.dealloc.cta_group::1.sync.aligned.b32", 2, \
      columns_free((uint32_t)input(f, 0, 'r'), (uint32_t)input(f, 1, 'n'))) \
    F(tcgen05_before, "tcgen05.fence::before_thread_sync", 0, columns_before()) \
    F(tcgen05_after, "tcgen05.fence::after_thread_sync", 0, columns_after()) \
    F(tcgen05_ld, "tcgen05.ld.sync.aligned.16x256b.x8.b32", 2, \
      columns_load(registers_in_row(f, 'r', 32, '='), (uint32_t)value(f, memory(f, 1, 1), 'r'))) \
    F(tcgen05_wait_ld, "tcgen05.wait::ld.sync.aligned", 0, columns_wait()) \
    F(tcgen05_mma_i8, "tcgen05.mma.cta_group::1.kind::i8", 5, do_tcgen05(f, 2, NULL)) \
    F(tcgen05_mma_f16, "tcgen05.mma.cta_group::1.kind::f16", 5, do_tcgen05(f, 1, kinds_f16)) \
    F(tcgen05_mma_tf32, "tcgen05.mma.cta_group::1.kind::tf32", 5, do_tcgen05(f, 1, kinds_tf32)) \
    F(tcgen05_mma_f8, "tcgen05.mma.cta_group::1.kind::f8f6f4", 5, do_tcgen05(f, 1, kinds_f8)) \
    F(tcgen05_cp, "tcgen05.cp.cta_group::1.32x128b.warpx4", 2, do_tcgen05_cp(f)) \
    F(tcgen05_mma_mxf8, SCALED "mxf8f6f4.block_scale", 7, do_tcgen05_scaled(f, SIMT_MXF8F6F4)) \
    F(tcgen05_mma_mxf4, SCALED "mxf4.block_scale.scale_vec::2X", 7, \
      do_tcgen05_scaled(f, SIMT_MXF4)) \
    F(tcgen05_mma_nvf4, SCALED "mxf4nvf4.block_scale.scale_vec::4X", 7, \
      do_tcgen05_scaled(f, SIMT_MXF4NVF4)) \
    F(tcgen05_commit, COMMIT ".b64", 1, do_commit(f, false)) \
    F(tcgen05_commit_all, COMMIT ".multicast::cluster.b64", 2, do_commit(f, true))

/* Defines the function that executes an instruction, from its row of OPCODES. */
#define DO(id, name, operands, what) \
    static void run_##id(struct frame *f) \
    { \
        check_operand_count(f, operands); \
        what; \
    }
OPCODES(DO)

/* Sets the function that executes an instruction, by its opcode.  Returns false if the opcode is
 * unknown. */
static bool resolve(struct instruction *x)
{
    static const struct {
        const char *name;
        void (*run)(struct frame *);
    } known[] = {
#define ENTRY(id, name, operands, what) { name, run_##id },
        OPCODES(ENTRY){ "bra", NULL },
    };

    if (resolve_mma(x) || resolve_mma_scaled(x) || resolve_wgmma(x))
        return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(x->op, known[i].name) == 0) {
            x->run = known[i].run;
            return true;
        }
    return false;
}

/* Executes the assembly of an asm statement in the running thread, instruction by instruction.  o:
 * its operands. */
void ptx(const char *text, const struct simt_operand *o, int count)
{
    struct frame f = { .p = find_program(text), .o = o, .count = count };
    int steps = 0;

    for (int at = 0; at < f.p->codes; at++) {
        const struct instruction *x = f.x = &f.p->code[at];

        if (++steps > MOST_STEPS)
            engine_fail("ptx: no end of \"%.60s\"", text);
        if (x->predicate >= 0 && (f.reg[x->predicate] != 0) == x->negated)
            continue;
        if (!x->run) { /* bra: continues at a label */
            const struct word *w = word(&f, 0);

            if (w->kind != WORD_label || f.p->label[w->n].at < 0)
                engine_fail("ptx: bra to nowhere");
            at = f.p->label[w->n].at - 1;
            continue;
        }
        x->run(&f);
    }
}
