/* SPDX-License-Identifier: BSD-3-Clause
 * The register-tile kernel: mr x nr accumulators in registers, one group of k a step.
 *
 *   source  Goto and van de Geijn, ACM TOMS 34 (2008), section 4: outer products in registers */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <string.h>

/* The words of one unit's step. */
struct step {
    char vector[24], scalar[8], packed[24]; /* accumulator; broadcast element; operand of mac */
    int lanes, bytes; /* of the accumulator vector; of the scalar */
    const char *intrinsic; /* NULL: widening multiply and add */
};

static void describe(const struct kernel_config *k, const struct target *t, struct step *s)
{
    int bits = t->vector_bits >= 128 ? t->vector_bits : 128;
    bool dbl = k->unit == UNIT_f64, integer = k->unit == UNIT_i8;

    s->lanes = bits / (dbl ? 64 : 32);
    s->bytes = dbl ? 8 : 4;
    snprintf(s->scalar, sizeof s->scalar, "%s", dbl ? "double" : integer ? "i32" : "float");
    snprintf(s->vector, sizeof s->vector, "<%d x %s>", s->lanes, s->scalar);
    snprintf(s->packed, sizeof s->packed, "%s", s->vector);
    s->intrinsic = NULL;
    if (integer && k->group == 4) {
        s->intrinsic = bits == 512  ? "@llvm.x86.avx512.vpdpbusd.512" :
                       bits == 256  ? "@llvm.x86.avx512.vpdpbusd.256" :
                       k->same_sign ? "@llvm.aarch64.neon.sdot.v4i32.v16i8" :
                                      "@llvm.aarch64.neon.usdot.v4i32.v16i8";
        if (bits == 128)
            snprintf(s->packed, sizeof s->packed, "<16 x i8>");
    } else if (integer && k->group == 2) {
        snprintf(s->packed, sizeof s->packed, "<%d x i16>", 2 * s->lanes);
        s->intrinsic = bits == 512 ? "@llvm.x86.avx512.pmaddw.d.512" : "@llvm.x86.avx2.pmadd.wd";
    } else if (!integer) {
        static const char *const fma[2][3] = {
            { "@llvm.fma.v4f32", "@llvm.fma.v8f32", "@llvm.fma.v16f32" },
            { "@llvm.fma.v2f64", "@llvm.fma.v4f64", "@llvm.fma.v8f64" },
        };

        s->intrinsic = fma[dbl][bits / 256];
    }
}

static void declare(const struct kernel_config *k, const struct step *s, struct text *out)
{
    if (s->intrinsic && k->unit == UNIT_i8 && k->group == 2)
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

/* acc + a b for accumulator (r, v). */
static void mac(const struct kernel_config *k, const struct step *s, int r, int v, struct text *out)
{
    const char *w = s->vector;

    if (k->unit != UNIT_i8)
        limber_text_add(out, "  %%n%d.%d = call %s %s(%s %%a%d, %s %%b%d, %s %%c%d.%d)\n", r, v, w,
                        s->intrinsic, w, r, w, v, w, r, v);
    else if (k->group == 4)
        limber_text_add(out, "  %%n%d.%d = call %s %s(%s %%c%d.%d, %s %%%c%d, %s %%%c%d)\n", r, v,
                        w, s->intrinsic, w, r, v, s->packed, cast(s, 'x', 'a'), r, s->packed,
                        cast(s, 'y', 'b'), v);
    else if (k->group == 2)
        limber_text_add(out,
                        "  %%m%d.%d = call %s %s(%s %%x%d, %s %%y%d)\n"
                        "  %%n%d.%d = add %s %%c%d.%d, %%m%d.%d\n",
                        r, v, w, s->intrinsic, s->packed, r, s->packed, v, r, v, w, r, v, r, v);
    else
        limber_text_add(out,
                        "  %%m%d.%d = mul %s %%a%d, %%b%d\n"
                        "  %%n%d.%d = add %s %%c%d.%d, %%m%d.%d\n",
                        r, v, w, r, v, r, v, w, r, v, r, v);
}

static void loop(const struct kernel_config *k, const struct step *s, int nv, struct text *out)
{
    bool pairs = casts(s);

    limber_text_add(out, "loop:\n  %%i = phi i64 [ 0, %%entry ], [ %%i1, %%loop ]\n"
                         "  %%pa = phi ptr [ %%a, %%entry ], [ %%pa1, %%loop ]\n"
                         "  %%pb = phi ptr [ %%b, %%entry ], [ %%pb1, %%loop ]\n"
                         "  %%ahead = phi ptr [ %%next, %%entry ], [ %%ahead1, %%loop ]\n");
    for (int r = 0; r < k->mr; r++)
        for (int v = 0; v < nv; v++) {
            char start[24] = "zeroinitializer";

            if (k->unit == UNIT_i8)
                snprintf(start, sizeof start, "%%z%d", v);
            limber_text_add(out, "  %%c%d.%d = phi %s [ %s, %%entry ], [ %%n%d.%d, %%loop ]\n", r,
                            v, s->vector, start, r, v);
        }
    limber_text_add(out, "  call void @llvm.prefetch.p0(ptr %%ahead, i32 0, i32 2, i32 1)\n"
                         "  %%ahead1 = getelementptr i8, ptr %%ahead, i64 %%step\n");
    for (int v = 0; v < nv; v++) {
        limber_text_add(out,
                        "  %%q%d = getelementptr i8, ptr %%pb, i64 %d\n"
                        "  %%b%d = load %s, ptr %%q%d, align 4\n",
                        v, v * s->lanes * s->bytes, v, s->vector, v);
        if (pairs)
            limber_text_add(out, "  %%y%d = bitcast %s %%b%d to %s\n", v, s->vector, v, s->packed);
    }
    for (int r = 0; r < k->mr; r++) {
        limber_text_add(out,
                        "  %%p%d = getelementptr i8, ptr %%pa, i64 %d\n"
                        "  %%s%d = load %s, ptr %%p%d, align 4\n"
                        "  %%t%d = insertelement %s poison, %s %%s%d, i64 0\n"
                        "  %%a%d = shufflevector %s %%t%d, %s poison, <%d x i32> "
                        "zeroinitializer\n",
                        r, r * s->bytes, r, s->scalar, r, r, s->vector, s->scalar, r, r, s->vector,
                        r, s->vector, s->lanes);
        if (pairs)
            limber_text_add(out, "  %%x%d = bitcast %s %%a%d to %s\n", r, s->vector, r, s->packed);
        for (int v = 0; v < nv; v++)
            mac(k, s, r, v, out);
    }
    limber_text_add(out,
                    "  %%pa1 = getelementptr i8, ptr %%pa, i64 %d\n"
                    "  %%pb1 = getelementptr i8, ptr %%pb, i64 %d\n"
                    "  %%i1 = add nuw nsw i64 %%i, 1\n"
                    "  %%more = icmp slt i64 %%i1, %%n\n"
                    "  br i1 %%more, label %%loop, label %%done\n",
                    k->mr * s->bytes, k->nr * s->bytes);
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
    describe(k, t, &s);
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
    fetch_tile(k, &s, nv, out);
    limber_text_add(out, "  br label %%loop\n");
    loop(k, &s, nv, out);
    limber_text_add(out, "done:\n  %%fresh = icmp ne i64 %%first, 0\n"
                         "  br i1 %%fresh, label %%set, label %%add\n");
    store(k, &s, nv, false, out);
    store(k, &s, nv, true, out);
    limber_text_add(out, "}\n");
    return !out->failed;
}
