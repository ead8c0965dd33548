/* SPDX-License-Identifier: BSD-3-Clause
 * Prints a kernel as C: the source that is specialised (kernel/kernel.c), and its configuration as
 * an initialiser that names and explains each field.  Fields that are 0 are left out. */
#include "backends/llvm/llvm.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Fields of struct kernel_config: F(kind, field, rows, columns, comment).  A field with 0
 * columns is a single value; with several rows each is an array of its own.  Kinds: i, u: 32-bit
 * integers; l: 64-bit; d, f: floats; m: format; s: rounding of a simulated unit's addition; r:
 * row of the product table; U, K, R, X: the words of units, kinds of limbs, reconstructions and
 * axes. */
/* clang-format off */
#define SIDE(F, which, name) \
    F(m, side[which].f, 1, 0, "elements of " name) \
    F(m, side[which].limb, 1, 0, "a limb") \
    F(K, side[which].limb_kind, 1, 0, "how limbs are made") \
    F(i, side[which].limbs, 1, 0, "number of limbs") \
    F(X, side[which].axis, 1, 0, "what shares a scale") \
    F(i, side[which].top, 1, 0, "bits of scaled integers, or log2 of their bound") \
    F(i, side[which].shift, 1, 0, "limb l counts 2^(-l shift)") \
    F(i, side[which].step, 1, 0, "bits of a slice") \
    F(i, side[which].is_signed, 1, 0, "") \
    F(i, side[which].balanced, 1, 0, "slices are signed digits") \
    F(i, side[which].pieces, 1, 0, "doubles that an element is the sum of") \
    F(i, side[which].fits_31_bits, 1, 0, "scaled integers fit 31 bits") \
    F(i, side[which].base, 1, 0, "bits of a digit, of which residues are made") \
    F(i, side[which].digits, 1, 0, "digits of a scaled integer") \
    F(i, side[which].copied, 1, 0, "elements are packed unchanged") \
    F(i, side[which].sums, 1, 0, "packed values are summed") \
    F(i, side[which].rounds, 1, 0, "elements are rounded when they are read") \
    F(i, side[which].lines, 1, 0, "lines of a panel") \
    F(i, side[which].used, 1, KERNEL_ACCUMULATORS, "limbs that a row needs") \
    F(i, side[which].offset, 1, KERNEL_ACCUMULATORS, "what is added to each byte of a limb")
#define MODEL(F) \
    F(l, model.size, 1, 0, "the simulated unit") \
    F(s, model.a, 1, 0, "") F(s, model.b, 1, 0, "") \
    F(i, model.scale, 1, 0, "") F(i, model.scale_rule, 1, 0, "") F(i, model.scale_block, 1, 0, "") \
    F(s, model.mul, 1, 0, "") F(s, model.acc, 1, 0, "") F(i, model.block, 1, 0, "") \
    F(i, model.sub, 1, 0, "") F(i, model.frac, 1, 0, "") F(i, model.floor, 1, 0, "") \
    F(i, model.zeros, 1, 0, "") F(i, model.tree, 1, 0, "") F(i, model.order, 1, 0, "") \
    F(i, model.group, 1, 0, "") F(s, model.outer, 1, 0, "") F(i, model.split, 1, 0, "") \
    F(s, model.total, 1, 0, "") F(i, model.start_c, 1, 0, "") F(s, model.out, 1, 0, "") \
    F(i, model.narrow, 1, 0, "") F(i, model.random_bits, 1, 0, "") F(l, model.seed, 1, 0, "") \
    F(l, model.seeded, 1, 0, "") F(i, model.late, 1, 0, "") F(i, model.reach, 1, 0, "") \
    F(i, model.halves, 1, 0, "") F(i, model.lanes, 1, 0, "") F(i, model.halve, 1, 0, "") \
    F(i, model.unroll, 1, 0, "") F(i, model.rest_after, 1, 0, "") \
    F(i, model.join_halves, 1, 0, "") F(s, model.epilogue, 1, 0, "") F(i, model.tile, 1, 0, "") \
    F(i, model.deal_turns, 1, 0, "") F(i, model.merge_pairs, 1, 0, "")
#define FIELDS(F) \
    F(i, version, 1, 0, "of this structure") \
    F(U, unit, 1, 0, "what multiplies and adds") \
    SIDE(F, 0, "A") SIDE(F, 1, "B") \
    F(m, c, 1, 0, "elements of C") \
    F(m, scalars, 1, 0, "alpha and beta") \
    F(i, mr, 1, 0, "rows of the register tile") \
    F(i, nr, 1, 0, "columns of the register tile") \
    F(i, group, 1, 0, "elements along k that lie together") \
    F(i, mb, 1, 0, "rows of a block of C") \
    F(i, nb, 1, 0, "columns of a block of C") \
    F(i, bytes, 1, 0, "bytes of a packed element") \
    F(i, matrix, 1, 0, "lines of an AMX tile") \
    F(i, same_sign, 1, 0, "the instruction takes two signed operands") \
    F(i, wide, 1, 0, "residues are words of 16 bits") \
    F(l, kc, 1, 0, "elements along k in a cache block") \
    F(l, chunk, 1, 0, "products in a chain of sums") \
    F(i, rows, 1, 0, "limb products") \
    F(i, accumulators, 1, 0, "") \
    F(R, reconstruct, 1, 0, "how accumulators become a result") \
    F(i, bare, 1, 0, "some accumulator has no row") \
    F(i, plain, 1, 0, "alpha is 1, beta is 0") \
    F(i, has_alpha, 1, 0, "") F(i, has_beta, 1, 0, "") \
    F(i, wrap, 1, 0, "integers wrap") \
    F(i, integral, 1, 0, "fractions count as overflow") \
    F(i, small, 1, 0, "weighted totals fit 62 bits") \
    F(i, whole, 1, 0, "C holds integers, results have at most 106 bits") \
    F(i, words, 1, 0, "64-bit words of an exact result") \
    F(i, big_words, 1, 0, "64-bit words of the long accumulator") \
    F(i, big_base, 1, 0, "exponent of its lowest bit") \
    F(i, uncertain_count, 1, 0, "totals are uncertain") \
    F(i, uncertain, 1, 0, "by 2^uncertain") \
    F(i, norms, 1, 0, "times the norms of row and column") \
    F(i, offsets, 1, 0, "some limb has an offset") \
    F(i, alike, 1, 0, "one function packs both operands") \
    F(i, direct, 1, 0, "register tiles may be stored to C") \
    MODEL(F) \
    F(i, fused, 1, 0, "a block of products is rounded once") \
    F(i, counts, 1, 0, "which events are counted") \
    F(i, pairs, 1, 0, "the unit is BFDOT") \
    F(i, f32_lanes, 1, 0, "FP32 lanes serve operands within the bounds below") \
    F(i, safe, 1, 0, "") F(i, clamps, 1, 0, "") F(i, frees, 1, 0, "") F(i, terms, 1, 0, "") \
    F(i, tracks, 1, 0, "") F(d, largest, 1, 0, "largest number of the sums' formats") \
    F(i, safe_outer, 1, 0, "") F(d, most_product, 1, 0, "") F(d, most_sum, 1, 0, "") \
    F(d, quantum, 1, 0, "") F(d, growth, 1, 0, "") \
    F(r, row, 1, KERNEL_ROWS, "limb of A, limb of B, accumulator") \
    F(i, weight, 1, KERNEL_ACCUMULATORS, "accumulators count 2^weight") \
    F(i, crt.count, 1, 0, "moduli") \
    F(i, crt.digits, 1, 0, "digits of P, the product of the moduli, plus one") \
    F(i, crt.modulus, 1, LIMBER_MODULI, "") \
    F(u, crt.inverse, 1, LIMBER_MODULI, "(P/p)^-1 modulo p") \
    F(u, crt.product, 1, LIMBER_CRT_DIGITS, "P, lowest digit first") \
    F(u, crt.cofactor, LIMBER_MODULI, LIMBER_CRT_DIGITS, "P/p") \
    F(i, columns, 1, 0, "columns in use below") \
    F(f, power, LIMBER_MODULI, KERNEL_DIGITS, "2^(base digit) modulo p") \
    F(f, fold, LIMBER_MODULI, 2, "inverse, 2^16 inverse, modulo p") \
    F(f, inverse, 1, LIMBER_MODULI, "1/p") \
    F(d, share, 1, LIMBER_MODULI, "weight of a total, over P") \
    F(d, cofactor, LIMBER_MODULI, KERNEL_COLUMNS, "weight of a total, in columns") \
    F(d, product, 1, KERNEL_COLUMNS, "P, in columns")
/* clang-format on */

enum {
    KIND_i = 'i',
    KIND_u = 'u',
    KIND_l = 'l',
    KIND_d = 'd',
    KIND_f = 'f',
    KIND_m = 'm',
    KIND_s = 's',
    KIND_r = 'r',
    KIND_U = 'U',
    KIND_K = 'K',
    KIND_R = 'R',
    KIND_X = 'X'
};

/* Names and comments, each followed by a zero byte, in the order of `fields`. */
static const char texts[] =
#define TEXTS(kind, path, rows, cols, comment) #path "\0" comment "\0"
    FIELDS(TEXTS)
#undef TEXTS
    ;
static const struct field {
    char kind;
    uint16_t at, rows, cols;
} fields[] = {
#define ROW(kind, path, rows, cols, comment) \
    { KIND_##kind, (uint16_t)offsetof(struct kernel_config, path), rows, cols },
    FIELDS(ROW)
#undef ROW
};
_Static_assert(sizeof(struct kernel_config) <= UINT16_MAX, "offsets have 16 bits");

/* Returns the bytes of a value of this kind. */
static size_t bytes_of(char kind)
{
    switch (kind) {
    case 'l':
    case 'd': return 8;
    case 'm': return sizeof(limber_format);
    case 's': return sizeof(limber_step);
    case 'r': return sizeof(struct kernel_row);
    default: return 4;
    }
}

/* True if all n bytes are zero. */
static bool is_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* Prints a format as an initializer in C, after its name as a comment. */
static void print_format(struct text *out, limber_format f)
{
    char name[48];

    limber_text_add(out, "/* %s */ { %d, %d, %d, %d, %d, %d, %d }",
                    limber_format_name(f, name, sizeof name), f.kind, f.exp_bits, f.frac_bits,
                    f.flags, f.bias, f.size, f.carried);
}

/* Prints a floating-point constant in C. */
static void print_float(struct text *out, double x, const char *suffix)
{
    if (isinf(x))
        limber_text_add(out, "%s__builtin_inf()", x < 0 ? "-" : "");
    else
        limber_text_add(out, "%a%s", x, suffix);
}

/* Prints word i of an attribute's words with the prefix of their constants. */
static void print_word(struct text *out, const char *prefix, const char *words, int i)
{
    int n;
    const char *word = limber_word_at(words, i, &n);

    if (word)
        limber_text_add(out, "%s_%.*s", prefix, n, word);
    else
        limber_text_add(out, "%d", i);
}

/* Prints the value at p as an initialiser in C.  kind: its type, a letter of the list of fields
 * above. */
static void print_value(struct text *out, char kind, const char *p)
{
    union {
        int32_t i;
        uint32_t u;
        int64_t l;
        double d;
        float f;
        limber_format format;
        limber_step step;
        struct kernel_row row;
    } v;

    memcpy(&v, p, bytes_of(kind));
    switch (kind) {
    case 'i': limber_text_add(out, "%d", v.i); break;
    case 'u': limber_text_add(out, "%uu", v.u); break;
    case 'l': limber_text_add(out, "%lld", (long long)v.l); break;
    case 'd': print_float(out, v.d, ""); break;
    case 'f': print_float(out, (double)v.f, "f"); break;
    case 'm': print_format(out, v.format); break;
    case 'r': limber_text_add(out, "{ %d, %d, %d }", v.row.a, v.row.b, v.row.acc); break;
    case 's':
        limber_text_add(out, "{ .format = ");
        print_format(out, v.step.format);
        limber_text_add(out, ", .rounding = %d, .overflow = %d }", v.step.rounding,
                        v.step.overflow);
        break;
    case 'K': limber_text_add(out, "LIMB_KIND_%s", limber_limb_kinds[v.i]); break;
    case 'U': print_word(out, "UNIT", limber_attrs[ATTR_unit].words, v.i); break;
    case 'X': print_word(out, "AXIS", limber_attrs[ATTR_axis].words, v.i); break;
    default: print_word(out, "RECONSTRUCT", limber_attrs[ATTR_reconstruct].words, v.i); break;
    }
}

/* Prints one value, or an array without the zeros at its end. */
static void print_field(struct text *out, const struct field *f, const char *p)
{
    size_t bytes = bytes_of(f->kind), count = f->cols;

    if (!f->cols) {
        print_value(out, f->kind, p);
        return;
    }
    /* zeros at the end of an initialiser may be left out, also rows of the product table that
     * are all zeros */
    while (count > 1 && is_zero(p + (count - 1) * bytes, bytes))
        count--;
    limber_text_add(out, "{ ");
    for (size_t i = 0; i < count; i++) {
        limber_text_add(out, i == 0 ? "" : i % 8 ? ", " : ",\n        ");
        print_value(out, f->kind, p + i * bytes);
    }
    limber_text_add(out, " }");
}

/* Prints a configuration as the members of an initialiser, each with its offset in bytes, by which
 * LLVM's IR reads it. */
void limber_print_config(struct text *out, const struct kernel_config *k)
{
    const char *name = texts;

    for (size_t i = 0; i < COUNT(fields); i++) {
        const struct field *f = &fields[i];
        const char *comment = name + strlen(name) + 1;
        size_t bytes = bytes_of(f->kind) * (f->cols ? f->cols : 1);

        for (int r = 0; r < f->rows; r++) {
            const char *p = (const char *)k + f->at + (size_t)r * bytes;
            /* formats and words are printed also where they are 0, which is one of their values */
            bool always = strchr("mUKRX", f->kind) != NULL;

            if (is_zero(p, bytes) && !always)
                continue;
            limber_text_add(out, f->rows > 1 ? "    .%s[%d] = " : "    .%s = ", name, r);
            print_field(out, f, p);
            limber_text_add(out, *comment ? ", /* %d: %s */\n" : ", /* %d */\n",
                            f->at + r * (int)bytes, comment);
        }
        name = comment + strlen(comment) + 1;
    }
}

/* Prints a kernel as C: its configuration as an initialiser, and the source. */
bool limber_kernel_source(const struct kernel_config *k, struct text *out, struct diag *d)
{
    const char *kind = limber_limb_kinds[k->side[0].limb_kind];

    limber_text_add(
        out,
        "/* A kernel of Limber: the source that it is made of, and the constants that "
        "specialise it.\n"
        " * Compile it in Limber's folder by clang-19 -std=gnu11 -O2 -I. -Iinclude. The "
        "register tile,\n"
        " * limber_micro, is written as LLVM's IR: see kernel.ll. */\n"
        "#define KERNEL_LIMB_KIND LIMB_KIND_%s\n#define KERNEL_LIMB_KIND_%s\n"
        "#include \"backends/llvm/kernel/kernel.h\"\n\n"
        "const struct kernel_config limber_kernel_constants = {\n",
        kind, kind);
    limber_print_config(out, k);
    limber_text_add(out, "};\n\n#include \"backends/llvm/kernel/%s.c\"\n",
                    k->unit == UNIT_exact ? "exact" : "kernel");
    return !out->failed ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: no memory for the source");
}
