/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the source of a plan's kernels: the plan's constants, then #includes of the files in
 * kernel/, which are specialised by these constants. */
#include "backends/cuda/cuda.h"
#include "ir/num/digits.h"

#include <math.h>
#include <string.h>

/* ---- the files of kernel/, embedded without comments ----------------------------------------- */

/* clang-format off */
#define FILES(F) \
    F(device, "device.h", "backends/cuda/kernel/device.h") \
    F(args, "args.h", "backends/cuda/kernel/args.h") \
    F(common, "common.h", "backends/cuda/kernel/common.h") \
    F(raw, "raw.h", "backends/cuda/kernel/raw.h") \
    F(steps, "steps.h", "backends/cuda/kernel/steps.h") \
    F(stage, "stage.h", "backends/cuda/kernel/stage.h") \
    F(read, "read.h", "backends/cuda/kernel/read.h") \
    F(scan, "scan.h", "backends/cuda/kernel/scan.h") \
    F(terms, "terms.h", "backends/cuda/kernel/terms.h") \
    F(weigh, "weigh.h", "backends/cuda/kernel/weigh.h") \
    F(planes, "planes.h", "backends/cuda/kernel/planes.h") \
    F(pack, "pack.h", "backends/cuda/kernel/pack.h") \
    F(limb, "limb.h", "backends/cuda/kernel/limb.h") \
    F(store, "store.h", "backends/cuda/kernel/store.h") \
    F(tile, "tile.h", "backends/cuda/kernel/tile.h") \
    F(window, "window.h", "backends/cuda/kernel/window.h") \
    F(cut, "cut.h", "backends/cuda/kernel/cut.h") \
    F(lane, "lane.h", "backends/cuda/kernel/lane.h") \
    F(warp, "warp.h", "backends/cuda/kernel/warp.h") \
    F(portable, "portable.h", "backends/cuda/kernel/portable.h") \
    F(fetch, "fetch.h", "backends/cuda/kernel/fetch.h") \
    F(group, "group.h", "backends/cuda/kernel/group.h") \
    F(tensor, "tensor.h", "backends/cuda/kernel/tensor.h") \
    F(mx_load, "mx_load.h", "backends/cuda/kernel/mx_load.h") \
    F(packs, "packs.h", "backends/cuda/kernel/packs.h") \
    F(unit, "unit.h", "backends/cuda/kernel/unit.h") \
    F(unit_load, "unit_load.h", "backends/cuda/kernel/unit_load.h") \
    F(unit_round, "unit_round.h", "backends/cuda/kernel/unit_round.h") \
    F(unit_wide, "unit_wide.h", "backends/cuda/kernel/unit_wide.h") \
    F(unit_f32, "unit_f32.h", "backends/cuda/kernel/unit_f32.h") \
    F(reconstruct, "reconstruct.h", "backends/cuda/kernel/reconstruct.h") \
    F(element, "element.h", "backends/cuda/kernel/element.h") \
    F(view, "ir/view.h", "ir/view.h") \
    F(spread, "ir/spread.h", "ir/spread.h") \
    F(prim, "ir/num/prim.h", "ir/num/prim.h") \
    F(num, "ir/num/prim_num.h", "ir/num/prim_num.h") \
    F(function, "ir/function.h", "ir/function.h") \
    F(functions, "ir/num/functions.h", "ir/num/functions.h") \
    F(function_tables, "ir/num/function_tables.h", "ir/num/function_tables.h") \
    F(small, "ir/num/small.h", "ir/num/small.h") \
    F(unit_num, "ir/unit/num.h", "ir/unit/num.h") \
    F(units, "limber/unit.h", "include/limber/unit.h") \
    F(format, "limber/format.h", "include/limber/format.h") \
    F(format_beside, "format.h", "include/limber/format.h") \
    F(status, "status.h", "include/limber/status.h")
/* clang-format on */

#define EMBED(id, name, path) \
    __asm__(".section .rodata\n" \
            "limber_cuda_file_" #id ":\n.incbin \"" LIMBER_CUDA_TEXTS "/" path "\"\n.byte 0\n" \
            ".previous\n"); \
    extern const char limber_cuda_file_##id[] __attribute__((visibility("hidden")));
FILES(EMBED)

const struct cuda_header limber_cuda_headers[] = {
#define HEADER(id, name, path) { name, limber_cuda_file_##id },
    FILES(HEADER){ "stddef.h", "" }, /* device.h declares the types of this header and the next */
    { "stdint.h", "" },
};
const int limber_cuda_header_count = COUNT(limber_cuda_headers);
_Static_assert(COUNT(limber_cuda_headers) <= CUDA_HEADERS, "as many as NVRTC is given");

/* ---- tables of formats, operands and shape --------------------------------------------------- */

/* Prints an array of integers as a constant table. */
static void print_integers(struct text *t, const char *type, const char *name, const int64_t *v,
                           size_t count)
{
    limber_text_add(t, "TABLE %s %s[] = {", type, name);
    for (size_t i = 0; i < count; i++)
        limber_text_add(t, " %lld,", (long long)v[i]);
    limber_text_add(t, " };\n");
}

/* Prints a format as the initialiser of a limber_format. */
void limber_cuda_format_source(struct text *t, limber_format f)
{
    limber_text_add(t, "{ %d, %d, %d, %d, %d, %d, %d }", f.kind, f.exp_bits, f.frac_bits, f.flags,
                    f.bias, f.size, f.carried);
}

/* Prints the enumerations of ir/words.h that kernels use. */
static void print_enums(struct text *t)
{
    limber_text_add(t, "enum {");
    for (int i = 0; i < UNIT_f16d; i++) /* only CPUs have f16d, the last unit */
        limber_text_add(t, " UNIT_%s,", limber_units[i].name);
    limber_text_add(t, " };\nenum {");
    for (int i = 0; i < LIMB_KIND_count; i++)
        limber_text_add(t, " LIMB_KIND_%s,", limber_limb_kinds[i]);
    limber_text_add(t, " };\nenum {");
    for (int i = 0; i < RECONSTRUCT_count; i++)
        limber_text_add(t, " RECONSTRUCT_%s,", limber_reconstructions[i]);
    limber_text_add(t, " };\n");
}

/* Prints the properties of both operands and of the result as constants. */
static void print_sides(struct text *t, const struct cuda_config *c)
{
    limber_text_add(t,
                    "struct side {\n    limber_format f, limb;\n"
                    "    int limb_kind, limbs, scaled, top, shift, step, is_signed, balanced;\n};\n"
                    "constexpr struct side SIDES[2] = {\n");
    for (int i = 0; i < 2; i++) {
        const struct cuda_side *s = &c->side[i];

        limber_text_add(t, "    { ");
        limber_cuda_format_source(t, s->f);
        limber_text_add(t, ", ");
        limber_cuda_format_source(t, s->limb);
        limber_text_add(t, ", %d, %d, %d, %d, %d, %d, %d, %d },\n", s->limb_kind, s->limbs,
                        s->scaled, s->top, s->shift, s->step, s->is_signed, s->balanced);
    }
    limber_text_add(t, "};\nconstexpr int DIGITS[2] = { %d, %d };\n", c->side[0].digits,
                    c->side[1].digits);
    limber_text_add(t, "constexpr limber_format RESULT = ");
    limber_cuda_format_source(t, c->result);
    limber_text_add(t, ", SCALARS = ");
    limber_cuda_format_source(t, c->scalars);
    limber_text_add(t, ";\n");
}

/* Prints sizes and flags of the plan as enumerators and macros. */
static void print_shape(struct text *t, const struct cuda_config *c)
{
    limber_text_add(
        t,
        "enum {\n"
        "    UNIT = UNIT_%s, RECONSTRUCT = %d, TOTALS = %d, DIRECT = %d, ROWS = %d, "
        "ONE_EACH = %d, "
        "ACCUMULATORS = %d,\n"
        "    LIMBS_A = %d, LIMBS_B = %d, BYTES = %d, SCALED = %d, ALPHA = %d, "
        "BETA = %d, WRAP = %d, MISFITS = %s,\n"
        "    BM = %d, BN = %d, WM = %d, WN = %d, STEP = %d, STAGES = %d,\n"
        "    CHUNK_STEPS = %d, JOINED = %d, FLUSH_STEPS = %d, LONG_BASE = %d, WINDOW = %d, "
        "PARTED = %d, LAUNCHED = %d, COLUMNS_TAKEN = %d,\n"
        "    PACKED = %d, SCALES = %d, CLUSTER = %d\n};\n"
        "#define LONG_WORDS %d\n#define SPECIAL %d\n#define INSIDE %d\n#define MX %d\n",
        limber_units[c->unit].name, c->reconstruct, c->totals, c->direct, c->rows,
        c->most_rows == 1 && c->rows == c->accumulators, c->accumulators, c->side[0].limbs,
        c->side[1].limbs, c->bytes, c->side[0].scaled || c->side[1].scaled, c->alpha, c->beta,
        c->wrap, c->integral ? "NUM_overflow | NUM_inexact" : "NUM_overflow", c->bm, c->bn, c->wm,
        c->wn, c->step ? c->step : 128, c->stages, c->chunk_steps, c->joins ? c->accumulators : 1,
        c->flush_steps, c->long_base, c->window, c->parted, c->threads,
        c->mma_path == MMA_PATH_tensor ? 512 : 0, c->packed, c->mx.scales, c->cluster,
        c->long_words, c->special, c->inside, c->mx.kind);
    limber_text_add(t, "typedef %s sum_type;\n",
                    c->unit == UNIT_i8  ? "int32_t" :
                    c->unit == UNIT_f64 ? "double" :
                                          "float");
}

/* ---- rows: which limbs are multiplied -------------------------------------------------------- */

/* True if elements of limb l of this operand are signed. */
static int is_signed_limb(const struct cuda_side *s, int l)
{
    return s->is_signed && (s->limb_kind != LIMB_KIND_slices || s->balanced || l == 0);
}

/* Prints the product table, sorted by accumulator, for loops at run time.  If the multiply kernel
 * does not store exact totals, also prints it in the plan's order, as constants for unrolled
 * loops. */
static void print_rows(struct text *t, const struct cuda_config *c, const struct node *n)
{
    int64_t a[CUDA_ROWS], b[CUDA_ROWS], signs[CUDA_ROWS], first[CUDA_ACCUMULATORS + 1];
    int64_t weight[CUDA_ACCUMULATORS] = { 0 };
    int count = 0, used = 0;

    for (int acc = 0; acc < c->accumulators; acc++) {
        first[acc] = count;
        for (size_t i = 0; i < n->rows; i++) {
            if (n->row[i].acc != acc)
                continue;
            weight[acc] = c->reconstruct == RECONSTRUCT_crt ? 0 : n->row[i].weight;
            a[count] = n->row[i].a;
            b[count] = n->row[i].b;
            signs[count] = 2 * is_signed_limb(&c->side[0], n->row[i].a) +
                           is_signed_limb(&c->side[1], n->row[i].b);
            used |= 1 << signs[count++];
        }
    }
    first[c->accumulators] = count;
    print_integers(t, "uint8_t", "ROW_A", a, (size_t)count);
    print_integers(t, "uint8_t", "ROW_B", b, (size_t)count);
    print_integers(t, "uint8_t", "SIGNS_OF", signs, (size_t)count);
    print_integers(t, "int32_t", "FIRST", first, (size_t)c->accumulators + 1);
    limber_text_add(t, "enum { SIGNS = %d };\nconstexpr int WEIGHT[] = {", used);
    for (int acc = 0; acc < c->accumulators; acc++)
        limber_text_add(t, " %d,", (int)weight[acc]);
    limber_text_add(t, " };\nstruct row { int a, b, acc, begins; };\n"
                       "constexpr struct row ROW[] = {\n");
    for (size_t i = 0; i < n->rows && !c->totals; i++) {
        bool begins = true;

        for (size_t j = 0; j < i; j++)
            begins = begins && n->row[j].acc != n->row[i].acc;
        limber_text_add(t, "    { %d, %d, %d, %d },\n", n->row[i].a, n->row[i].b, n->row[i].acc,
                        begins);
    }
    limber_text_add(t, "%s};\n", c->totals ? "    { 0, 0, 0, 0 }\n" : "");
}

/* ---- tables for the Chinese remainder theorem ------------------------------------------------ */

/* Returns base^e modulo p. */
static uint32_t power_mod(uint32_t base, int e, uint32_t p)
{
    uint32_t x = 1;

    while (e-- > 0)
        x = x * base % p;
    return x;
}

/* Prints the table POWER: powers of 256 modulo each modulus.  Multiplied by the bytes of an
 * integer, they give its residue.  The integer has an offset that makes it positive; START
 * subtracts the offset's residue.  The powers for A are also multiplied by the inverse of the
 * cofactor, which the Chinese remainder theorem needs. */
static void print_powers(struct text *t, const struct cuda_config *c, const struct limber_crt *crt)
{
    limber_text_add(t, "TABLE uint32_t POWER[2][%d][%d] = {", crt->count,
                    c->side[0].digits > c->side[1].digits ? c->side[0].digits : c->side[1].digits);
    for (int s = 0; s < 2; s++) {
        limber_text_add(t, "\n    {");
        for (int l = 0; l < crt->count; l++) {
            uint32_t p = (uint32_t)crt->modulus[l], by = s ? 1 : crt->inverse[l];

            limber_text_add(t, " {");
            for (int i = 0; i < c->side[s].digits; i++) {
                uint32_t word = 0;

                for (int byte = 0; byte < 4; byte++)
                    word |= power_mod(256 % p, 4 * i + byte, p) * by % p << 8 * byte;
                limber_text_add(t, " 0x%x,", word);
            }
            limber_text_add(t, " },");
        }
        limber_text_add(t, " },");
    }
    limber_text_add(t, "\n};\nTABLE int32_t START[2][%d] = {", crt->count);
    for (int s = 0; s < 2; s++) {
        limber_text_add(t, " {");
        for (int l = 0; l < crt->count; l++) {
            uint32_t p = (uint32_t)crt->modulus[l], by = s ? 1 : crt->inverse[l];
            uint32_t offset = power_mod(2 % p, 32 * c->side[s].digits - 1, p) * by % p;

            limber_text_add(t, " %u,", (p - offset) % p);
        }
        limber_text_add(t, " },");
    }
    limber_text_add(t, " };\n");
}

/* Returns the e4m3 code (bias 7, three fraction bits) of a digit.  |digit| is 0 or at least
 * 2^-6. */
static uint32_t e4m3_code(double digit)
{
    int e;
    double x = frexp(fabs(digit), &e);

    return digit == 0 ? 0 :
                        (digit < 0 ? 128u : 0u) | (uint32_t)(e + 6) << 3 | ((uint32_t)(16 * x) - 8);
}

/* Prints, for residues in e4m3, a table with one word per residue, whose bytes are its digits, the
 * first digit lowest; and per modulus where its words begin (CODES_BEGIN) and its first limb
 * (FIRST_LIMB). */
static void print_digits(struct text *t, const struct cuda_config *c, const struct limber_crt *crt,
                         const int64_t *limbs)
{
    int64_t begin[LIMBER_MODULI], first_limb[LIMBER_MODULI + 1];

    limber_text_add(t, "#define CODED\n");
    for (int s = 0; s < 2; s++) {
        const int64_t *next = limbs;
        int total = 0;

        limber_text_add(t, "LOOKUP uint32_t CODES_%d[] = {\n", s);
        for (int l = 0; l < crt->count; l++) {
            double digit[LIMBER_RESIDUES][LIMBER_DIGITS];
            const int64_t *first = next;

            while (next < limbs + c->side[s].limbs && *next == *first)
                next++;
            limber_digits_fill(limber_digits_of(*first, (int)(next - first)), s, digit);
            begin[l] = total;
            first_limb[l] = first - limbs;
            total += crt->modulus[l];
            for (int r = 0; r < crt->modulus[l]; r++)
                limber_text_add(t, "%u,",
                                e4m3_code(digit[r][0]) | e4m3_code(digit[r][1]) << 8 |
                                    e4m3_code(digit[r][2]) << 16);
            limber_text_add(t, "\n");
        }
        limber_text_add(t, "};\n");
    }
    first_limb[crt->count] = c->side[0].limbs;
    print_integers(t, "int32_t", "CODES_BEGIN", begin, (size_t)crt->count);
    print_integers(t, "int32_t", "FIRST_LIMB", first_limb, (size_t)crt->count + 1);
}

/* Prints `count` doubles as an initialiser. */
static void print_doubles_row(struct text *t, const double *v, int count)
{
    for (int i = 0; i < count; i++)
        limber_text_add(t, " %a,", v[i]);
}

/* Prints the product P of the moduli, its inverse, the start values and the cofactors P/p_l, each
 * number as a sum of doubles (doubles.c).  Does so only for devices with fast FP64, and for
 * binary64 or binary32 results without alpha and beta. */
static void print_doubles(struct text *t, const struct cuda_config *c, const struct limber_crt *crt)
{
    struct cuda_doubles d;

    if (!c->fast_doubles || c->alpha || c->beta || !limber_format_is_binary(c->result) ||
        !limber_cuda_doubles(crt, &d))
        return;
    limber_text_add(t, "#define DOUBLES %d\nOPERANDS double COFACTOR_DOUBLES[%d][%d] = {\n",
                    d.columns, crt->count, d.columns);
    for (int l = 0; l < crt->count; l++) {
        limber_text_add(t, "    {");
        print_doubles_row(t, d.cofactor[l], d.columns);
        limber_text_add(t, " },\n");
    }
    limber_text_add(t, "}, BEGIN_DOUBLES[] = {");
    print_doubles_row(t, d.begin, d.columns);
    limber_text_add(t, " }, PRODUCT_DOUBLES[] = {");
    print_doubles_row(t, d.product, d.columns);
    limber_text_add(t, " }, INVERSE_DOUBLES[] = {");
    print_doubles_row(t, &d.inverse, 1);
    limber_text_add(t, " };\n");
}

/* fraction bits of the table SHARE, which has 1/p of each modulus p as fixed-point numbers */
enum { SHARE_BITS = 40 };

/* Prints the tables for reconstruction by the Chinese remainder theorem.  limbs: [limb] the index
 * of its modulus. */
static void print_crt(struct text *t, const struct cuda_config *c, const struct limber_crt *crt,
                      const int64_t *limbs)
{
    int64_t modulus[LIMBER_MODULI], quotient[LIMBER_MODULI], share[LIMBER_MODULI];
    int64_t inverse[LIMBER_MODULI];

    for (int l = 0; l < crt->count; l++) {
        int64_t p = crt->modulus[l];

        modulus[l] = p;
        quotient[l] = (((int64_t)1 << 32) + p / 2) / p;
        inverse[l] = (((int64_t)1 << 32) + p - 1) / p;
        share[l] = (((int64_t)1 << SHARE_BITS) + p / 2) / p;
    }
    print_integers(t, "uint32_t", "MODULUS", modulus, (size_t)crt->count);
    print_integers(t, "int32_t", "QUOTIENT", quotient, (size_t)crt->count);
    print_integers(t, "uint64_t", "SHARE", share, (size_t)crt->count);
    print_integers(t, "uint32_t", "INVERSE", inverse, (size_t)crt->count);
    limber_text_add(t, "TABLE float RECIPROCAL[] = {");
    for (int l = 0; l < crt->count; l++)
        limber_text_add(t, " %af,", (double)(float)(1.0f / (float)crt->modulus[l]));
    limber_text_add(t, " };\n");
    print_powers(t, c, crt);
    if (c->unit == UNIT_e4m3)
        print_digits(t, c, crt, limbs);
    limber_text_add(t,
                    "enum { SHARE_BITS = %d, COLUMNS = %d, WORDS = %d };\n"
                    "TABLE uint32_t PRODUCT[] = {",
                    SHARE_BITS, crt->digits, (crt->digits + 1) / 2);
    for (int i = 0; i < crt->digits; i++)
        limber_text_add(t, " 0x%xu,", crt->product[i]);
    limber_text_add(t, " };\nTABLE uint32_t COFACTOR[%d][%d] = {\n", crt->count, crt->digits);
    for (int l = 0; l < crt->count; l++) {
        limber_text_add(t, "    {");
        for (int i = 0; i < crt->digits; i++)
            limber_text_add(t, " 0x%xu,", crt->cofactor[l][i]);
        limber_text_add(t, " },\n");
    }
    limber_text_add(t, "};\n");
    print_doubles(t, c, crt);
}

/* Prints how many 32-bit columns and how many 64-bit words hold the largest weighted total. */
static void print_columns(struct text *t, const struct cuda_config *c, const struct node *n)
{
    int most = 0;

    for (size_t i = 0; i < n->rows; i++)
        most = n->row[i].weight > most ? n->row[i].weight : most;
    limber_text_add(t, "enum { SHARE_BITS = 1, COLUMNS = %d, WORDS = %d };\n", (most + 48) / 32 + 3,
                    (most + 64 + 16) / 64 + 1);
    /* without CRT the source mentions its tables but never uses them, so empty ones are printed */
    if (c->reconstruct != RECONSTRUCT_crt)
        limber_text_add(t,
                        "TABLE uint32_t MODULUS[1] = { 3 };\nTABLE int32_t QUOTIENT[1] = { 0 };\n"
                        "TABLE uint64_t SHARE[1] = { 0 };\nTABLE uint32_t INVERSE[1] = { 0 };\n"
                        "TABLE float RECIPROCAL[1] = { 0 };\n"
                        "TABLE uint32_t POWER[2][1][8] = { { { 0 } } }, PRODUCT[16] = { 0 };\n"
                        "TABLE uint32_t COFACTOR[1][16] = { { 0 } };\n"
                        "TABLE int32_t START[2][1] = { { 0 } };\n");
}

/* ---- the complete text of a plan's kernels --------------------------------------------------- */

/* [enum cuda_mma_path]: the file with the multiply kernel */
static const char *const mma_path_file[] = { "lane.h", "warp.h", "group.h", "portable.h",
                                             "tensor.h" };

/* Returns the number of words that hold an exact result after alpha and beta are applied. */
static int big_words(const struct cuda_config *c)
{
    return !c->alpha && !c->beta                                       ? 4 :
           c->result.size == 16 && c->result.kind == LIMBER_KIND_FLOAT ? 1640 :
                                                                         200;
}

/* Prints constants and tables, and then includes the files of the kernels that the plan needs.
 * Returns false with an error if memory is short. */
bool limber_cuda_source(const struct plan *p, const struct cuda_config *c, struct text *out,
                        struct diag *d)
{
    const struct node *n = limber_plan_find(p, OP_products);
    const struct node *combine = limber_plan_find(p, OP_combine);
    struct limber_crt crt;

    if (c->reconstruct == RECONSTRUCT_crt &&
        !limber_crt_init(&crt, limber_attr_list(combine, ATTR_moduli)->v,
                         limber_attr_list(combine, ATTR_moduli)->n))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "cuda: bad moduli");
    limber_text_add(out,
                    "#define LIMBER_BIG_WORDS %d\n#include \"device.h\"\n"
                    "#include \"ir/num/prim.h\"\n#include \"args.h\"\n\n",
                    big_words(c) > 2 * c->long_words + 8 ? big_words(c) : 2 * c->long_words + 8);
    print_enums(out);
    print_sides(out, c);
    print_shape(out, c);
    if (c->mma_path != MMA_PATH_element)
        print_rows(out, c, n);
    if (c->reconstruct == RECONSTRUCT_crt)
        print_crt(out, c, &crt, limber_attr_list(&p->node[n->in[0]], ATTR_moduli)->v);
    else
        print_columns(out, c, n);
    if (c->mma_path == MMA_PATH_unit)
        limber_cuda_unit_source(p, c, out);
    if (c->mx.kind)
        limber_cuda_block_scaled_source(p, out);
    limber_text_add(out, "\n#include \"common.h\"\n");
    if (c->mma_path == MMA_PATH_unit)
        limber_text_add(
            out,
            "#include \"unit_load.h\"\n#include \"packs.h\"\n#include \"unit_round.h\"\n"
            "#include \"store.h\"\n#include \"tile.h\"\n#include \"stage.h\"\n"
            "#include \"unit.h\"\n"
            "%s",
            c->direct ? "" : "#include \"reconstruct.h\"\n");
    else if (c->mma_path == MMA_PATH_element)
        limber_text_add(out, "#include \"store.h\"\n#include \"element.h\"\n");
    else
        limber_text_add(
            out,
            "#include \"stage.h\"\n%s#include \"store.h\"\n"
            "#include \"tile.h\"\n#include \"window.h\"\n"
            "%s#include \"%s\"\n%s%s",
            c->mx.kind ? "#include \"read.h\"\n#include \"mx_load.h\"\n#include \"packs.h\"\n" :
            c->inside  ? "#include \"limb.h\"\n#include \"cut.h\"\n" :
                         "#include \"read.h\"\n#include \"limb.h\"\n#include \"pack.h\"\n"
                         "#include \"packs.h\"\n",
            limber_cuda_fetches(c) ? "#include \"fetch.h\"\n" : "", mma_path_file[c->mma_path],
            c->direct ? "" : "#include \"reconstruct.h\"\n",
            c->mx.kind ? "" : "#include \"element.h\"\n");
    return !out->failed ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "cuda: no memory for the source");
}

/* Prints the enumerations scan_field and scan_flag of backends/backend.h. */
static void print_scan_enums(struct text *t)
{
    limber_text_add(
        t,
        "enum { SCAN_emax = %d, SCAN_emin = %d, SCAN_low = %d, SCAN_sig = %d, "
        "SCAN_flags = %d, SCAN_fields = %d };\nenum { SCAN_special = %d, SCAN_negative = %d };\n",
        SCAN_emax, SCAN_emin, SCAN_low, SCAN_sig, SCAN_flags, SCAN_fields, SCAN_special,
        SCAN_negative);
}

/* Prints the constants of one format, and then includes the kernels of a scan. */
bool limber_cuda_scan_source(const struct cuda_config *c, struct text *out, struct diag *d)
{
    limber_text_add(out,
                    "#include \"device.h\"\n#include \"ir/num/prim.h\"\n#include \"args.h\"\n\n"
                    "enum { STEP = 128 };\n");
    print_scan_enums(out);
    print_sides(out, c);
    limber_text_add(out, "\n#include \"common.h\"\n#include \"read.h\"\n#include \"scan.h\"\n"
                         "#include \"terms.h\"\n#include \"weigh.h\"\n");
    if (limber_cuda_has_planes(c->side[0].f))
        limber_text_add(out, "#include \"planes.h\"\n");
    return !out->failed ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "cuda: no memory for the source");
}
