/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the micro-kernel as LLVM assembly.  It keeps mr x nr accumulators in registers, and each
 * step multiplies one group of elements along k.
 *
 *   source  Goto and van de Geijn, ACM TOMS 34 (2008), section 4: outer products in registers */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <string.h>

/* Groups of elements along k in one round of the unrolled loop.  Without unrolling, the loop's
 * overhead would cost a tenth of the time. */
enum { GROUPS = 4 };

/* LLVM's types and intrinsic for one step of the loop over k, for one unit. */
struct step {
    /* LLVM types of an accumulator (vector), a broadcast element (scalar) and the intrinsic's
     * operands (packed) */
    char vector[40], scalar[8], packed[40];
    int lanes, bytes; /* lanes: of the accumulator vector; bytes: of an element of it */
    /* SVE: LLVM's vector type has no fixed length; `lanes` is then that of this CPU */
    bool scalable;
    const char *intrinsic; /* NULL if multiplication and addition are separate instructions */
};

/* Returns the name of the intrinsic that adds dot products of four bytes to 32-bit sums, for
 * vectors of `bits` bits. */
static const char *dot_product(const struct step *s, int bits)
{
    if (s->scalable)
        return "@llvm.aarch64.sve.sdot.nxv4i32";
    if (bits == 128)
        return "@llvm.aarch64.neon.sdot.v4i32.v16i8";
    return bits == 512 ? "@llvm.x86.avx512.vpdpbusd.512" : "@llvm.x86.avx512.vpdpbusd.256";
}

/* Returns the intrinsic of the I8MM instruction, which multiplies 2 x 8 by 8 x 2 bytes. */
static const char *i8mm_intrinsic(const struct step *s)
{
    return s->scalable ? "@llvm.aarch64.sve.usmmla.nxv4i32" :
                         "@llvm.aarch64.neon.usmmla.v4i32.v16i8";
}

/* Chooses the types and the intrinsic of a step of the loop over k, for the unit and the CPU. */
static void describe_step(const struct kernel_config *k, const struct target *t, struct step *s)
{
    int bits = t->vector_bits >= 128 ? t->vector_bits : 128;
    bool dbl = k->unit == UNIT_f64, integer = k->unit == UNIT_i8;

    /* number of lanes of LLVM's type; for a scalable type, the number of lanes in 128 bits */
    int lanes;

    s->scalable = strncmp(t->isa, "sve", 3) == 0;
    s->lanes = bits / (dbl ? 64 : 32);
    s->bytes = dbl ? 8 : 4;
    lanes = s->scalable ? 16 / s->bytes : s->lanes;
    snprintf(s->scalar, sizeof s->scalar, "%s", dbl ? "double" : integer ? "i32" : "float");
    snprintf(s->vector, sizeof s->vector, "<%s%d x %s>", s->scalable ? "vscale x " : "", lanes,
             s->scalar);
    snprintf(s->packed, sizeof s->packed, "%s", s->vector);
    s->intrinsic = NULL;
    if (integer && k->group >= 4) {
        s->intrinsic = k->group == 8 ? i8mm_intrinsic(s) : dot_product(s, bits);
        if (s->scalable || bits == 128)
            snprintf(s->packed, sizeof s->packed, "<%s16 x i8>", s->scalable ? "vscale x " : "");
    } else if (integer && k->group == 2) {
        snprintf(s->packed, sizeof s->packed, "<%d x i16>", 2 * s->lanes);
        s->intrinsic = bits == 512 ? "@llvm.x86.avx512.pmaddw.d.512" : "@llvm.x86.avx2.pmadd.wd";
    } else if (!integer && s->scalable) {
        s->intrinsic = dbl ? "@llvm.aarch64.sve.fmla.nxv2f64" : "@llvm.aarch64.sve.fmla.nxv4f32";
    } else if (!integer) {
        static const char *const fma[2][3] = {
            { "@llvm.fma.v4f32", "@llvm.fma.v8f32", "@llvm.fma.v16f32" },
            { "@llvm.fma.v2f64", "@llvm.fma.v4f64", "@llvm.fma.v8f64" },
        };

        s->intrinsic = fma[dbl][bits / 256];
    }
}

/* True if the FMA instruction has a predicate, as SVE's has.  All lanes are active here, but the
 * text hides that from LLVM: LLVM's unpredicated form has a separate destination, so accumulators
 * would be copied. */
static bool has_predicate(const struct kernel_config *k, const struct step *s)
{
    return s->scalable && k->unit != UNIT_i8;
}

/* Returns the SVE intrinsic that makes a predicate of the first n lanes. */
static const char *predicate_intrinsic(const struct step *s)
{
    return s->bytes == 8 ? "@llvm.aarch64.sve.whilelo.nxv2i1.i64" :
                           "@llvm.aarch64.sve.whilelo.nxv4i1.i64";
}

/* True if NEON's by-element instruction is used, which multiplies by one lane of a vector of A. */
static bool uses_by_element(const struct kernel_config *k, const struct step *s)
{
    return s->lanes * s->bytes == 16 && !s->scalable && k->mr % s->lanes == 0;
}

/* True for Arm code.  Its loop compares a counter with a precomputed limit, which saves one
 * addition. */
static bool is_arm(const struct step *s)
{
    return s->scalable || s->lanes * s->bytes == 16;
}

/* True for I8MM instructions, whose group has eight elements along k.  Each 128 bits of an
 * accumulator hold 2 x 2 sums.  Accumulators (2 i, v) and (2 i + 1, v) belong to rows 2 i and 2 i +
 * 1, and to the columns of B's vectors 2 v and 2 v + 1. */
static bool is_i8mm(const struct kernel_config *k)
{
    return k->unit == UNIT_i8 && k->group == 8;
}

/* Parts of LLVM names in one unrolled copy of a step.  `in` and `sum` are prefixes of the
 * accumulators before and after the step.  `at` is the suffix of all other names. */
struct copy {
    const char *in, *sum, *at;
    int group; /* number of the copy within a round of the loop */
};

/* Shuffles of vectors x and y as pairs of 32-bit words.  ZIP interleaves their lower (0) or upper
 * (1) halves.  UNZIP concatenates their even (0) or odd (1) pairs. */
enum shuffle { ZIP, UNZIP };

/* Emits `to` = shuffle of x and y, for NEON or for SVE.  which: 0 for lower halves or even pairs, 1
 * for upper halves or odd pairs.  NEON's vectors have two pairs, so ZIP and UNZIP are the same
 * shuffle. */
static void emit_shuffle(const struct step *s, enum shuffle how, int which, const char *to,
                         const char *x, const char *y, struct text *out)
{
    if (!s->scalable)
        limber_text_add(out,
                        "  %s = shufflevector <4 x i32> %s, <4 x i32> %s, <4 x i32> "
                        "<i32 %d, i32 %d, i32 %d, i32 %d>\n",
                        to, x, y, 2 * which, 1 + 2 * which, 4 + 2 * which, 5 + 2 * which);
    else
        limber_text_add(out,
                        "  %s.x = bitcast %s %s to <vscale x 2 x i64>\n"
                        "  %s.y = bitcast %s %s to <vscale x 2 x i64>\n"
                        "  %s.z = call <vscale x 2 x i64> @llvm.aarch64.sve.%s%d.nxv2i64("
                        "<vscale x 2 x i64> %s.x, <vscale x 2 x i64> %s.y)\n"
                        "  %s = bitcast <vscale x 2 x i64> %s.z to %s\n",
                        to, s->vector, x, to, s->vector, y, to, how == ZIP ? "zip" : "uzp",
                        which + 1, to, to, to, to, s->vector);
}

/* Emits declarations of the intrinsics that I8MM code needs. */
static void emit_matrix_declarations(const struct step *s, struct text *out)
{
    limber_text_add(out, "declare %s %s(%s, %s, %s)\n", s->vector, s->intrinsic, s->vector,
                    s->packed, s->packed);
    for (int which = 1; which <= 2 && s->scalable; which++)
        limber_text_add(out,
                        "declare <vscale x 2 x i64> @llvm.aarch64.sve.zip%d.nxv2i64("
                        "<vscale x 2 x i64>, <vscale x 2 x i64>)\n"
                        "declare <vscale x 2 x i64> @llvm.aarch64.sve.uzp%d.nxv2i64("
                        "<vscale x 2 x i64>, <vscale x 2 x i64>)\n",
                        which, which);
    if (s->scalable)
        limber_text_add(out, "declare <vscale x 16 x i1> @llvm.aarch64.sve.ptrue.nxv16i1(i32)\n"
                             "declare <vscale x 16 x i8> @llvm.aarch64.sve.ld1rq.nxv16i8("
                             "<vscale x 16 x i1>, ptr)\n");
}

/* Prints declarations of the intrinsics that this micro-kernel calls. */
static void emit_declarations(const struct kernel_config *k, const struct step *s, struct text *out)
{
    if (is_i8mm(k))
        emit_matrix_declarations(s, out);
    else if (has_predicate(k, s))
        limber_text_add(out,
                        "declare %s %s(<vscale x %d x i1>, %s, %s, %s)\n"
                        "declare <vscale x %d x i1> %s(i64, i64)\n",
                        s->vector, s->intrinsic, 16 / s->bytes, s->vector, s->vector, s->vector,
                        16 / s->bytes, predicate_intrinsic(s));
    else if (s->intrinsic && k->unit == UNIT_i8 && k->group == 2)
        limber_text_add(out, "declare %s %s(%s, %s)\n", s->vector, s->intrinsic, s->packed,
                        s->packed);
    else if (s->intrinsic)
        limber_text_add(out, "declare %s %s(%s, %s, %s)\n", s->vector, s->intrinsic, s->vector,
                        s->packed, s->packed);
}

/* True if operands are loaded as another type than the intrinsic takes, and then cast. */
static bool has_casts(const struct step *s)
{
    return strcmp(s->packed, s->vector) != 0;
}

/* Returns the prefix of an operand's LLVM name: `yes` if operands are cast to the intrinsic's type,
 * else `no`. */
static char cast_prefix(const struct step *s, char yes, char no)
{
    return has_casts(s) ? yes : no;
}

/* Emits acc + a b for accumulator (r, v).  LLVM would first add several integer products to each
 * other, which spills registers; an empty asm statement keeps the order. */
static void emit_multiply_add(const struct kernel_config *k, const struct step *s,
                              const struct copy *c, int r, int v, struct text *out)
{
    const char *w = s->vector, *at = c->at;

    if (has_predicate(k, s))
        limber_text_add(out,
                        "  %%%s%d.%d = call %s %s(<vscale x %d x i1> %%whole, %s %%%s%d.%d, "
                        "%s %%a%d.%s, %s %%b%d.%s)\n",
                        c->sum, r, v, w, s->intrinsic, 16 / s->bytes, w, c->in, r, v, w, r, at, w,
                        v, at);
    else if (k->unit != UNIT_i8)
        limber_text_add(out, "  %%%s%d.%d = call %s %s(%s %%a%d.%s, %s %%b%d.%s, %s %%%s%d.%d)\n",
                        c->sum, r, v, w, s->intrinsic, w, r, at, w, v, at, w, c->in, r, v);
    /* NEON's intrinsic takes the operand that is indexed by lane last */
    else if (k->group == 4 && uses_by_element(k, s))
        limber_text_add(out, "  %%%s%d.%d = call %s %s(%s %%%s%d.%d, %s %%y%d.%s, %s %%x%d.%s)\n",
                        c->sum, r, v, w, s->intrinsic, w, c->in, r, v, s->packed, v, at, s->packed,
                        r, at);
    else if (k->group == 4)
        limber_text_add(out, "  %%%s%d.%d = call %s %s(%s %%%s%d.%d, %s %%%c%d.%s, %s %%%c%d.%s)\n",
                        c->sum, r, v, w, s->intrinsic, w, c->in, r, v, s->packed,
                        cast_prefix(s, 'x', 'a'), r, at, s->packed, cast_prefix(s, 'y', 'b'), v,
                        at);
    else if (k->group == 2)
        limber_text_add(out,
                        "  %%m%d.%d.%s = call %s %s(%s %%x%d.%s, %s %%y%d.%s)\n"
                        "  %%o%d.%d.%s = add %s %%%s%d.%d, %%m%d.%d.%s\n"
                        "  %%%s%d.%d = call %s asm \"\", \"=v,0\"(%s %%o%d.%d.%s)\n",
                        r, v, at, w, s->intrinsic, s->packed, r, at, s->packed, v, at, r, v, at, w,
                        c->in, r, v, r, v, at, c->sum, r, v, w, w, r, v, at);
    else
        limber_text_add(out,
                        "  %%m%d.%d.%s = mul %s %%a%d.%s, %%b%d.%s\n"
                        "  %%%s%d.%d = add %s %%%s%d.%d, %%m%d.%d.%s\n",
                        r, v, at, w, r, at, v, at, c->sum, r, v, w, c->in, r, v, r, v, at);
}

/* Emits a vector with all lanes equal to A's element in row r.  With by-element instructions, loads
 * a vector of A at the first of its rows, and takes one lane of it. */
static void emit_element(const struct kernel_config *k, const struct step *s, int r,
                         const struct copy *c, const char *loop, struct text *out)
{
    const char *at = c->at;
    int lane = r % s->lanes;

    if (lane == 0)
        limber_text_add(out,
                        "  %%p%d.%s = getelementptr i8, ptr %%pa.%s, i64 %d\n"
                        "  %%w%d.%s = load %s, ptr %%p%d.%s, align 4\n"
                        /* keeps LLVM from loading the lanes one by one */
                        "  %%h%d.%s = call %s asm \"\", \"=w,0\"(%s %%w%d.%s)\n",
                        r, at, loop, (c->group * k->mr + r) * s->bytes, r, at, s->vector, r, at, r,
                        at, s->vector, s->vector, r, at);
    limber_text_add(out, "  %%a%d.%s = shufflevector %s %%h%d.%s, %s poison, <%d x i32> <", r, at,
                    s->vector, r - lane, at, s->vector, s->lanes);
    for (int i = 0; i < s->lanes; i++)
        limber_text_add(out, "%si32 %d", i ? ", " : "", lane);
    limber_text_add(out, ">\n");
}

/* Emits the loads and multiply-adds of one group along k, for all rows and all nv vectors of the
 * register tile. */
static void emit_group(const struct kernel_config *k, const struct step *s, int nv,
                       const struct copy *c, const char *loop, struct text *out)
{
    const char *at = c->at;
    bool pairs = has_casts(s);

    for (int v = 0; v < nv; v++) {
        limber_text_add(out,
                        "  %%q%d.%s = getelementptr i8, ptr %%pb.%s, i64 %d\n"
                        "  %%b%d.%s = load %s, ptr %%q%d.%s, align 4\n",
                        v, at, loop, c->group * k->nr * s->bytes + v * s->lanes * s->bytes, v, at,
                        s->vector, v, at);
        if (pairs)
            limber_text_add(out, "  %%y%d.%s = bitcast %s %%b%d.%s to %s\n", v, at, s->vector, v,
                            at, s->packed);
    }
    for (int r = 0; r < k->mr; r++) {
        if (uses_by_element(k, s))
            emit_element(k, s, r, c, loop, out);
        else
            limber_text_add(out,
                            "  %%p%d.%s = getelementptr i8, ptr %%pa.%s, i64 %d\n"
                            "  %%s%d.%s = load %s, ptr %%p%d.%s, align 4\n"
                            "  %%t%d.%s = insertelement %s poison, %s %%s%d.%s, i64 0\n"
                            "  %%a%d.%s = shufflevector %s %%t%d.%s, %s poison, <%s%d x i32> "
                            "zeroinitializer\n",
                            r, at, loop, (c->group * k->mr + r) * s->bytes, r, at, s->scalar, r, at,
                            r, at, s->vector, s->scalar, r, at, r, at, s->vector, r, at, s->vector,
                            s->scalable ? "vscale x " : "", s->scalable ? 16 / s->bytes : s->lanes);
        if (pairs)
            limber_text_add(out, "  %%x%d.%s = bitcast %s %%a%d.%s to %s\n", r, at, s->vector, r,
                            at, s->packed);
        for (int v = 0; v < nv; v++)
            emit_multiply_add(k, s, c, r, v, out);
    }
}

/* Emits the loads and multiply-adds of one group along k for I8MM instructions.  A vector of A
 * holds two rows, which SVE repeats in each 128 bits. */
static void emit_matrix_group(const struct kernel_config *k, const struct step *s, int nv,
                              const struct copy *c, const char *loop, struct text *out)
{
    const char *at = c->at;

    for (int u = 0; u < 2 * nv; u++)
        limber_text_add(out,
                        "  %%q%d.%s = getelementptr i8, ptr %%pb.%s, i64 %d\n"
                        "  %%b%d.%s = load %s, ptr %%q%d.%s, align 4\n",
                        u, at, loop, c->group * k->nr * 8 + u * s->lanes * 4, u, at, s->packed, u,
                        at);
    for (int r = 0; r < k->mr; r += 2) {
        limber_text_add(out, "  %%p%d.%s = getelementptr i8, ptr %%pa.%s, i64 %d\n", r, at, loop,
                        (c->group * k->mr + r) * 8);
        if (s->scalable)
            limber_text_add(out,
                            "  %%a%d.%s = call %s @llvm.aarch64.sve.ld1rq.nxv16i8("
                            "<vscale x 16 x i1> %%whole, ptr %%p%d.%s)\n",
                            r, at, s->packed, r, at);
        else
            limber_text_add(out, "  %%a%d.%s = load %s, ptr %%p%d.%s, align 4\n", r, at, s->packed,
                            r, at);
        for (int u = 0; u < 2 * nv; u++)
            limber_text_add(out,
                            "  %%%s%d.%d = call %s %s(%s %%%s%d.%d, %s %%a%d.%s, %s %%b%d.%s)\n",
                            c->sum, r + u % 2, u / 2, s->vector, s->intrinsic, s->vector, c->in,
                            r + u % 2, u / 2, s->packed, r, at, s->packed, u, at);
    }
}

/* Emits the conversion of biases from rows to 2 x 2 blocks of sums. */
static void emit_matrix_biases(const struct step *s, int nv, struct text *out)
{
    char from[24], to[40];

    for (int v = 0; v < nv; v++)
        for (int high = 0; high < 2; high++) {
            snprintf(from, sizeof from, "%%z%d", v);
            snprintf(to, sizeof to, "%%zz%d.%d", v, high);
            emit_shuffle(s, ZIP, high, to, from, from, out);
        }
}

/* Emits the conversion of 2 x 2 blocks of sums to rows. */
static void emit_matrix_rows(const struct kernel_config *k, const struct step *s, int nv,
                             struct text *out)
{
    char lower[40], upper[40], to[40];

    for (int r = 0; r < k->mr; r++)
        for (int v = 0; v < nv; v++) {
            snprintf(lower, sizeof lower, "%%m%d.%d", r / 2 * 2, v);
            snprintf(upper, sizeof upper, "%%m%d.%d", r / 2 * 2 + 1, v);
            snprintf(to, sizeof to, "%%n%d.%d", r, v);
            emit_shuffle(s, UNZIP, r % 2, to, lower, upper, out);
        }
}

/* A predecessor of a basic block.  `x` is the prefix of the accumulators' names in it; if `x` is
 * NULL, accumulators start as zeros or biases. */
struct from {
    const char *label, *x;
};

/* Emits phi nodes for all accumulators, with the prefix `name` in the new block.  from: the block's
 * two predecessors. */
static void emit_phis(const struct kernel_config *k, const struct step *s, int nv, const char *name,
                      const struct from from[2], struct text *out)
{
    for (int r = 0; r < k->mr; r++)
        for (int v = 0; v < nv; v++) {
            limber_text_add(out, "  %%%s%d.%d = phi %s ", name, r, v, s->vector);
            for (int i = 0; i < 2; i++) {
                limber_text_add(out, "%s[ ", i ? ", " : "");
                if (from[i].x)
                    limber_text_add(out, "%%%s%d.%d", from[i].x, r, v);
                else if (is_i8mm(k))
                    limber_text_add(out, "%%zz%d.%d", v, r % 2);
                else if (k->unit == UNIT_i8)
                    limber_text_add(out, "%%z%d", v);
                else
                    limber_text_add(out, "zeroinitializer");
                limber_text_add(out, ", %%%s ]", from[i].label);
            }
            limber_text_add(out, "\n");
        }
}

/* Emits phi nodes of the loop's counter and pointers.  label: the two predecessors; in the block
 * `entry`, names have no suffix. */
static void emit_pointer_phis(const char *name, const char *const label[2], struct text *out)
{
    static const struct {
        const char *type, *here, *entry;
    } all[] = { { "i64", "i", "0" },
                { "ptr", "pa", "%a" },
                { "ptr", "pb", "%b" },
                { "ptr", "ahead", "%next" } };

    for (size_t p = 0; p < sizeof all / sizeof *all; p++) {
        limber_text_add(out, "  %%%s.%s = phi %s ", all[p].here, name, all[p].type);
        for (int i = 0; i < 2; i++) {
            if (strcmp(label[i], "entry") == 0)
                limber_text_add(out, "%s[ %s, %%entry ]", i ? ", " : "", all[p].entry);
            else
                limber_text_add(out, "%s[ %%%s%s.%s, %%%s ]", i ? ", " : "", all[p].here,
                                strcmp(label[i], "rest") ? "1" : "", label[i], label[i]);
        }
        limber_text_add(out, "\n");
    }
}

/* Emits the loop `name`.  Each of its rounds multiplies `groups` groups along k. */
static void emit_loop(const struct kernel_config *k, const struct step *s, int nv, const char *name,
                      const char *before, int groups, struct text *out)
{
    char sum[8], in[8], at[8], start[8], end[8], ahead[16], next[16];
    /* bytes of a group in one row (A) or column (B) of a panel */
    int bytes = is_i8mm(k) ? 8 : s->bytes;

    snprintf(start, sizeof start, "c%c", name[0]);
    snprintf(end, sizeof end, "n%c", name[0]);
    snprintf(ahead, sizeof ahead, "ahead.%s", name);
    limber_text_add(out, "%s:\n", name);
    emit_phis(k, s, nv, start,
              (struct from[]){ { before, strcmp(before, "rest") ? NULL : "cr" }, { name, end } },
              out);
    emit_pointer_phis(name, (const char *const[]){ before, name }, out);
    for (int g = 0; g < groups; g++) {
        const struct copy c = { in, sum, at, g };
        bool last = g + 1 == groups;

        snprintf(at, sizeof at, "%c%d", name[0], g);
        snprintf(in, sizeof in, "%s", g ? sum : start);
        snprintf(sum, sizeof sum, last ? "n%c" : "s%c%d.", name[0], g);
        snprintf(next, sizeof next, last ? "ahead1.%s" : "next.%s", last ? name : at);
        limber_text_add(out,
                        "  call void @llvm.prefetch.p0(ptr %%%s, i32 0, i32 2, i32 1)\n"
                        "  %%%s = getelementptr i8, ptr %%%s, i64 %%step\n",
                        ahead, next, ahead);
        snprintf(ahead, sizeof ahead, "%s", next);
        if (is_i8mm(k))
            emit_matrix_group(k, s, nv, &c, name, out);
        else
            emit_group(k, s, nv, &c, name, out);
    }
    limber_text_add(out,
                    "  %%pa1.%s = getelementptr i8, ptr %%pa.%s, i64 %d\n"
                    "  %%pb1.%s = getelementptr i8, ptr %%pb.%s, i64 %d\n"
                    "  %%i1.%s = add nuw nsw i64 %%i.%s, %d\n",
                    name, name, groups * k->mr * bytes, name, name, groups * k->nr * bytes, name,
                    name, groups);
    if (is_arm(s))
        limber_text_add(out, "  %%more.%s = icmp sle i64 %%i1.%s, %%last%d\n", name, name, groups);
    else
        limber_text_add(out,
                        "  %%i2.%s = add nuw nsw i64 %%i1.%s, %d\n"
                        "  %%more.%s = icmp sle i64 %%i2.%s, %%n\n",
                        name, name, groups, name, name);
    limber_text_add(out, "  br i1 %%more.%s, label %%%s, label %%%s\n", name, name,
                    groups > 1 ? "rest" : "done");
}

/* Emits stores of the register tile to C.  add: sums are added to C's old values. */
static void emit_store(const struct kernel_config *k, const struct step *s, int nv, bool add,
                       struct text *out)
{
    const char *p = add ? "add" : "set";

    limber_text_add(out, "%s:\n", p);
    for (int r = 0; r < k->mr; r++) {
        limber_text_add(out,
                        "  %%%so%d = mul i64 %%ldc, %d\n"
                        "  %%%sc%d = getelementptr i8, ptr %%c, i64 %%%so%d\n",
                        p, r, r, p, r, p, r);
        for (int v = 0; v < nv; v++) {
            limber_text_add(out, "  %%%sp%d.%d = getelementptr i8, ptr %%%sc%d, i64 %d\n", p, r, v,
                            p, r, v * s->lanes * s->bytes);
            if (add)
                limber_text_add(out,
                                "  %%l%d.%d = load %s, ptr %%%sp%d.%d, align 4\n"
                                "  %%z%d.%d = %s %s %%l%d.%d, %%n%d.%d\n",
                                r, v, s->vector, p, r, v, r, v, k->unit == UNIT_i8 ? "add" : "fadd",
                                s->vector, r, v, r, v);
            limber_text_add(out, "  store %s %%%s%d.%d, ptr %%%sp%d.%d, align 4\n", s->vector,
                            add ? "z" : "n", r, v, p, r, v);
        }
    }
    limber_text_add(out, "  ret void\n");
}

/* Emits prefetches of the tile of C, which run before the loop over k. */
static void emit_prefetches(const struct kernel_config *k, const struct step *s, int nv,
                            struct text *out)
{
    for (int r = 0; r < k->mr; r++) {
        limber_text_add(out,
                        "  %%fo%d = mul i64 %%ldc, %d\n"
                        "  %%fc%d = getelementptr i8, ptr %%c, i64 %%fo%d\n",
                        r, r, r, r);
        for (int v = 0; v < nv; v++)
            limber_text_add(out,
                            "  %%fp%d.%d = getelementptr i8, ptr %%fc%d, i64 %d\n"
                            "  call void @llvm.prefetch.p0(ptr %%fp%d.%d, i32 1, i32 3, i32 1)\n",
                            r, v, r, v * s->lanes * (k->unit == UNIT_f64 ? 8 : 4), r, v);
    }
}

/* Prints the micro-kernel as the function limber_micro: an unrolled loop over k (wide), a loop over
 * the last groups (tail), and stores that set C or add to it.  Returns false if the register tile
 * does not suit. */
bool limber_micro_text(const struct kernel_config *k, const struct target *t, struct text *out)
{
    struct step s;
    int nv;

    if (k->matrix)
        return limber_amx_text(k, out);
    if (strncmp(t->isa, "sme", 3) == 0)
        return limber_sme_text(k, t, out);
    describe_step(k, t, &s);
    if (is_i8mm(k) && k->mr % 2)
        return false; /* not supported: a vector of A, and so an accumulator, has two rows */
    nv = k->nr / s.lanes;
    emit_declarations(k, &s, out);
    limber_text_add(out, "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
                         "define void @limber_micro(ptr %%a, ptr %%b, i64 %%n, ptr %%c, "
                         "i64 %%ldc, i64 %%first, ptr %%bias, ptr %%next, i64 %%step) {\nentry:\n");
    for (int v = 0; v < nv && k->unit == UNIT_i8; v++)
        limber_text_add(out,
                        "  %%w%d = getelementptr i8, ptr %%bias, i64 %d\n"
                        "  %%z%d = load %s, ptr %%w%d, align 4\n",
                        v, v * s.lanes * 4, v, s.vector, v);
    if (is_i8mm(k))
        emit_matrix_biases(&s, nv, out);
    if (is_i8mm(k) && s.scalable)
        limber_text_add(out, "  %%whole = call <vscale x 16 x i1> "
                             "@llvm.aarch64.sve.ptrue.nxv16i1(i32 31)\n");
    else if (has_predicate(k, &s))
        limber_text_add(out,
                        "  %%count = call i64 asm \"\", \"=r,0\"(i64 -1)\n"
                        "  %%whole = call <vscale x %d x i1> %s(i64 0, i64 %%count)\n",
                        16 / s.bytes, predicate_intrinsic(&s));
    emit_prefetches(k, &s, nv, out);
    for (int groups = 1; groups <= GROUPS && is_arm(&s); groups += GROUPS - 1)
        limber_text_add(out, "  %%last%d = sub i64 %%n, %d\n", groups, groups);
    limber_text_add(out,
                    "  %%many = icmp sge i64 %%n, %d\n"
                    "  br i1 %%many, label %%wide, label %%rest\n",
                    GROUPS);
    emit_loop(k, &s, nv, "wide", "entry", GROUPS, out);
    limber_text_add(out, "rest:\n");
    emit_phis(k, &s, nv, "cr", (struct from[]){ { "entry", NULL }, { "wide", "nw" } }, out);
    emit_pointer_phis("rest", (const char *const[]){ "entry", "wide" }, out);
    limber_text_add(out, "  %%some = icmp slt i64 %%i.rest, %%n\n"
                         "  br i1 %%some, label %%tail, label %%done\n");
    emit_loop(k, &s, nv, "tail", "rest", 1, out);
    limber_text_add(out, "done:\n");
    emit_phis(k, &s, nv, is_i8mm(k) ? "m" : "n",
              (struct from[]){ { "rest", "cr" }, { "tail", "nt" } }, out);
    if (is_i8mm(k))
        emit_matrix_rows(k, &s, nv, out);
    limber_text_add(out, "  %%fresh = icmp ne i64 %%first, 0\n"
                         "  br i1 %%fresh, label %%set, label %%add\n");
    emit_store(k, &s, nv, false, out);
    emit_store(k, &s, nv, true, out);
    limber_text_add(out, "}\n");
    return !out->failed;
}
