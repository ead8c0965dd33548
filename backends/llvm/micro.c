/* SPDX-License-Identifier: BSD-3-Clause
 * The register-tile kernel: mr x nr accumulators in registers, one group of k a step.
 *
 *   source  Goto and van de Geijn, ACM TOMS 34 (2008), section 4: outer products in registers */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <string.h>

/* Groups of k in one round of the loop: with one alone, its own instructions cost a tenth. */
enum { GROUPS = 4 };

/* The words of one unit's step. */
struct step {
    char vector[40], scalar[8], packed[40]; /* accumulator; broadcast element; operand of mac */
    int lanes, bytes; /* of the accumulator vector; of the scalar */
    bool scalable; /* SVE: LLVM has types of unknown length, and the CPU has the one of `lanes` */
    const char *intrinsic; /* NULL: widening multiply and add */
};

static const char *dot_product(const struct step *s, int bits)
{
    if (s->scalable)
        return "@llvm.aarch64.sve.sdot.nxv4i32";
    if (bits == 128)
        return "@llvm.aarch64.neon.sdot.v4i32.v16i8";
    return bits == 512 ? "@llvm.x86.avx512.vpdpbusd.512" : "@llvm.x86.avx512.vpdpbusd.256";
}

static const char *matrix_intrinsic(const struct step *s)
{
    return s->scalable ? "@llvm.aarch64.sve.usmmla.nxv4i32" :
                         "@llvm.aarch64.neon.usmmla.v4i32.v16i8";
}

static void describe(const struct kernel_config *k, const struct target *t, struct step *s)
{
    int bits = t->vector_bits >= 128 ? t->vector_bits : 128;
    bool dbl = k->unit == UNIT_f64, integer = k->unit == UNIT_i8;

    int lanes; /* as LLVM's type has them: of 128 bits where the length is the CPU's */

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
        s->intrinsic = k->group == 8 ? matrix_intrinsic(s) : dot_product(s, bits);
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

/* SVE's FMA of floats works where a predicate holds.  The text hides that all of it does: LLVM's
 * form without one has a target of its own, and sums would be copied. */
static bool has_predicate(const struct kernel_config *k, const struct step *s)
{
    return s->scalable && k->unit != UNIT_i8;
}

static const char *predicate_intrinsic(const struct step *s)
{
    return s->bytes == 8 ? "@llvm.aarch64.sve.whilelo.nxv2i1.i64" :
                           "@llvm.aarch64.sve.whilelo.nxv4i1.i64";
}

/* NEON multiplies by a lane of a register: whole vectors of A are loaded. */
static bool by_element(const struct kernel_config *k, const struct step *s)
{
    return s->lanes * s->bytes == 16 && !s->scalable && k->mr % s->lanes == 0;
}

/* The loop ends by one addition less. */
static bool is_arm(const struct step *s)
{
    return s->scalable || s->lanes * s->bytes == 16;
}

/* Matrix products: a group is eight elements of k, and an accumulator has two rows by two columns
 * in each 128 bits.  Accumulators (2 i, v) and (2 i + 1, v) have the columns of B's vectors 2 v and
 * 2 v + 1, of rows 2 i and 2 i + 1. */
static bool is_matrix(const struct kernel_config *k)
{
    return k->unit == UNIT_i8 && k->group == 8;
}

/* One group of k: `in` and `sum` begin the names of the accumulators before and after it, `at` ends
 * those of everything else. */
struct copy {
    const char *in, *sum, *at;
    int group; /* from where the pointers are */
};

/* Pairs of words: the lower (0) or upper (1) halves of x and y interleaved, or their even or odd
 * pairs. */
enum shuffle { ZIP, UNZIP };

static void shuffle(const struct step *s, enum shuffle how, int which, const char *to,
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

static void declare_matrix(const struct step *s, struct text *out)
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

static void declare(const struct kernel_config *k, const struct step *s, struct text *out)
{
    if (is_matrix(k))
        declare_matrix(s, out);
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

/* Operands that the instruction takes in another type than they are loaded in were cast. */
static bool casts(const struct step *s)
{
    return strcmp(s->packed, s->vector) != 0;
}

static char cast(const struct step *s, char yes, char no)
{
    return casts(s) ? yes : no;
}

/* acc + a b for accumulator (r, v).  LLVM would sum several products of integers before it adds
 * them, for which registers do not suffice: what stands for no instruction keeps the order. */
static void mac(const struct kernel_config *k, const struct step *s, const struct copy *c, int r,
                int v, struct text *out)
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
    else if (k->group == 4 && by_element(k, s)) /* the lane's place is the last */
        limber_text_add(out, "  %%%s%d.%d = call %s %s(%s %%%s%d.%d, %s %%y%d.%s, %s %%x%d.%s)\n",
                        c->sum, r, v, w, s->intrinsic, w, c->in, r, v, s->packed, v, at, s->packed,
                        r, at);
    else if (k->group == 4)
        limber_text_add(out, "  %%%s%d.%d = call %s %s(%s %%%s%d.%d, %s %%%c%d.%s, %s %%%c%d.%s)\n",
                        c->sum, r, v, w, s->intrinsic, w, c->in, r, v, s->packed, cast(s, 'x', 'a'),
                        r, at, s->packed, cast(s, 'y', 'b'), v, at);
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

static void take_element(const struct kernel_config *k, const struct step *s, int r,
                         const struct copy *c, const char *loop, struct text *out)
{
    const char *at = c->at;
    int lane = r % s->lanes;

    if (lane == 0)
        limber_text_add(out,
                        "  %%p%d.%s = getelementptr i8, ptr %%pa.%s, i64 %d\n"
                        "  %%w%d.%s = load %s, ptr %%p%d.%s, align 4\n"
                        /* LLVM would load a vector's lanes one by one */
                        "  %%h%d.%s = call %s asm \"\", \"=w,0\"(%s %%w%d.%s)\n",
                        r, at, loop, (c->group * k->mr + r) * s->bytes, r, at, s->vector, r, at, r,
                        at, s->vector, s->vector, r, at);
    limber_text_add(out, "  %%a%d.%s = shufflevector %s %%h%d.%s, %s poison, <%d x i32> <", r, at,
                    s->vector, r - lane, at, s->vector, s->lanes);
    for (int i = 0; i < s->lanes; i++)
        limber_text_add(out, "%si32 %d", i ? ", " : "", lane);
    limber_text_add(out, ">\n");
}

static void add_group(const struct kernel_config *k, const struct step *s, int nv,
                      const struct copy *c, const char *loop, struct text *out)
{
    const char *at = c->at;
    bool pairs = casts(s);

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
        if (by_element(k, s))
            take_element(k, s, r, c, loop, out);
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
            mac(k, s, c, r, v, out);
    }
}

/* The same of matrix products: a vector of A is two rows, on SVE repeated in each 128 bits. */
static void add_matrix(const struct kernel_config *k, const struct step *s, int nv,
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

/* Biases as two rows by two columns. */
static void begin_matrix(const struct step *s, int nv, struct text *out)
{
    char from[24], to[40];

    for (int v = 0; v < nv; v++)
        for (int high = 0; high < 2; high++) {
            snprintf(from, sizeof from, "%%z%d", v);
            snprintf(to, sizeof to, "%%zz%d.%d", v, high);
            shuffle(s, ZIP, high, to, from, from, out);
        }
}

/* Rows of the sums. */
static void end_matrix(const struct kernel_config *k, const struct step *s, int nv,
                       struct text *out)
{
    char lower[40], upper[40], to[40];

    for (int r = 0; r < k->mr; r++)
        for (int v = 0; v < nv; v++) {
            snprintf(lower, sizeof lower, "%%m%d.%d", r / 2 * 2, v);
            snprintf(upper, sizeof upper, "%%m%d.%d", r / 2 * 2 + 1, v);
            snprintf(to, sizeof to, "%%n%d.%d", r, v);
            shuffle(s, UNZIP, r % 2, to, lower, upper, out);
        }
}

/* What a block begins with: values from one block or another.  An accumulator is named `name` here,
 * `x` and `y` there; x of NULL: it starts from zero or a bias. */
struct from {
    const char *label, *x;
};

static void begin(const struct kernel_config *k, const struct step *s, int nv, const char *name,
                  const struct from from[2], struct text *out)
{
    for (int r = 0; r < k->mr; r++)
        for (int v = 0; v < nv; v++) {
            limber_text_add(out, "  %%%s%d.%d = phi %s ", name, r, v, s->vector);
            for (int i = 0; i < 2; i++) {
                limber_text_add(out, "%s[ ", i ? ", " : "");
                if (from[i].x)
                    limber_text_add(out, "%%%s%d.%d", from[i].x, r, v);
                else if (is_matrix(k))
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

/* The pointers and the count, too; of `entry` they have no ending. */
static void begin_pointers(const char *name, const char *const label[2], struct text *out)
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

/* A loop over `groups` groups at a time, as long as there are so many. */
static void loop(const struct kernel_config *k, const struct step *s, int nv, const char *name,
                 const char *before, int groups, struct text *out)
{
    char sum[8], in[8], at[8], start[8], end[8], ahead[16], next[16];
    int bytes = is_matrix(k) ? 8 : s->bytes; /* of a group of a line */

    snprintf(start, sizeof start, "c%c", name[0]);
    snprintf(end, sizeof end, "n%c", name[0]);
    snprintf(ahead, sizeof ahead, "ahead.%s", name);
    limber_text_add(out, "%s:\n", name);
    begin(k, s, nv, start,
          (struct from[]){ { before, strcmp(before, "rest") ? NULL : "cr" }, { name, end } }, out);
    begin_pointers(name, (const char *const[]){ before, name }, out);
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
        if (is_matrix(k))
            add_matrix(k, s, nv, &c, name, out);
        else
            add_group(k, s, nv, &c, name, out);
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

static void store(const struct kernel_config *k, const struct step *s, int nv, bool add,
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

/* C is on its way to the cache while the loop runs. */
static void fetch_tile(const struct kernel_config *k, const struct step *s, int nv,
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

bool limber_micro_text(const struct kernel_config *k, const struct target *t, struct text *out)
{
    struct step s;
    int nv;

    if (k->matrix)
        return limber_amx_text(k, out);
    if (strncmp(t->isa, "sme", 3) == 0)
        return limber_sme_text(k, t, out);
    describe(k, t, &s);
    if (is_matrix(k) && k->mr % 2)
        return false; /* two rows an accumulator */
    nv = k->nr / s.lanes;
    declare(k, &s, out);
    limber_text_add(out, "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
                         "define void @limber_micro(ptr %%a, ptr %%b, i64 %%n, ptr %%c, "
                         "i64 %%ldc, i64 %%first, ptr %%bias, ptr %%next, i64 %%step) {\nentry:\n");
    for (int v = 0; v < nv && k->unit == UNIT_i8; v++)
        limber_text_add(out,
                        "  %%w%d = getelementptr i8, ptr %%bias, i64 %d\n"
                        "  %%z%d = load %s, ptr %%w%d, align 4\n",
                        v, v * s.lanes * 4, v, s.vector, v);
    if (is_matrix(k))
        begin_matrix(&s, nv, out);
    if (is_matrix(k) && s.scalable)
        limber_text_add(out, "  %%whole = call <vscale x 16 x i1> "
                             "@llvm.aarch64.sve.ptrue.nxv16i1(i32 31)\n");
    else if (has_predicate(k, &s))
        limber_text_add(out,
                        "  %%count = call i64 asm \"\", \"=r,0\"(i64 -1)\n"
                        "  %%whole = call <vscale x %d x i1> %s(i64 0, i64 %%count)\n",
                        16 / s.bytes, predicate_intrinsic(&s));
    fetch_tile(k, &s, nv, out);
    for (int groups = 1; groups <= GROUPS && is_arm(&s); groups += GROUPS - 1)
        limber_text_add(out, "  %%last%d = sub i64 %%n, %d\n", groups, groups);
    limber_text_add(out,
                    "  %%many = icmp sge i64 %%n, %d\n"
                    "  br i1 %%many, label %%wide, label %%rest\n",
                    GROUPS);
    loop(k, &s, nv, "wide", "entry", GROUPS, out);
    limber_text_add(out, "rest:\n");
    begin(k, &s, nv, "cr", (struct from[]){ { "entry", NULL }, { "wide", "nw" } }, out);
    begin_pointers("rest", (const char *const[]){ "entry", "wide" }, out);
    limber_text_add(out, "  %%some = icmp slt i64 %%i.rest, %%n\n"
                         "  br i1 %%some, label %%tail, label %%done\n");
    loop(k, &s, nv, "tail", "rest", 1, out);
    limber_text_add(out, "done:\n");
    begin(k, &s, nv, is_matrix(k) ? "m" : "n",
          (struct from[]){ { "rest", "cr" }, { "tail", "nt" } }, out);
    if (is_matrix(k))
        end_matrix(k, &s, nv, out);
    limber_text_add(out, "  %%fresh = icmp ne i64 %%first, 0\n"
                         "  br i1 %%fresh, label %%set, label %%add\n");
    store(k, &s, nv, false, out);
    store(k, &s, nv, true, out);
    limber_text_add(out, "}\n");
    return !out->failed;
}
