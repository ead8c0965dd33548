/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the micro-kernel for SME as LLVM assembly: outer products of vectors, with sums in the
 * matrix register ZA.  A register tile takes all of ZA: with 512-bit vectors 2 x 4 ZA tiles of 8 x
 * 8 doubles, or 2 x 2 ZA tiles of 16 x 16 words.
 *
 * A thread enables ZA and streaming mode for one register tile.  The library's caller may have left
 * live sums in ZA, to be saved lazily: then TPIDR2_EL0 points to a description of the buffer in
 * which they must be saved.
 *
 *   source  Arm Architecture Reference Manual, FEAT_SME; Procedure Call Standard for the Arm 64-bit
 *           Architecture, "ZA and the lazy saving scheme" */
#include "backends/llvm/llvm.h"

#include <string.h>

/* LLVM's types and intrinsics for one step along k, for one unit. */
struct step {
    /* vector types: as vectors are loaded, and as the outer product takes them */
    const char *vector, *packed;
    const char *product, *name, *add;
    int lanes, taken; /* number of elements in 128 bits: of `vector`, and of `packed` */
    int length, bytes; /* length: bytes of the CPU's vector; bytes: size of a sum */
    int rows, columns; /* number of ZA tiles in a column, and in a row, of the register tile */
};

static const struct step of_doubles = { .vector = "<vscale x 2 x double>",
                                        .packed = "<vscale x 2 x double>",
                                        .product = "mopa.nxv2f64",
                                        .name = "nxv2f64",
                                        .add = "fadd",
                                        .lanes = 2,
                                        .taken = 2,
                                        .bytes = 8 };
static const struct step of_floats = { .vector = "<vscale x 4 x float>",
                                       .packed = "<vscale x 4 x float>",
                                       .product = "mopa.nxv4f32",
                                       .name = "nxv4f32",
                                       .add = "fadd",
                                       .lanes = 4,
                                       .taken = 4,
                                       .bytes = 4 };
static const struct step of_bytes = { .vector = "<vscale x 4 x i32>",
                                      .packed = "<vscale x 16 x i8>",
                                      .product = "usmopa.wide.nxv16i8",
                                      .name = "nxv4i32",
                                      .add = "add",
                                      .lanes = 4,
                                      .taken = 16,
                                      .bytes = 4 };

/* Describes a step of the micro-kernel.  Returns false if the register tile is not divisible into
 * ZA tiles, or needs more ZA tiles than there are. */
static bool describe_step(const struct kernel_config *k, const struct target *t, struct step *s)
{
    *s = k->unit == UNIT_f64 ? of_doubles : k->unit == UNIT_i8 ? of_bytes : of_floats;
    s->length = strcmp(t->isa, "sme256") == 0 ? 32 : 64;
    s->rows = k->mr * s->bytes / s->length;
    s->columns = k->nr * s->bytes / s->length;
    return s->rows * s->length == k->mr * s->bytes && s->columns * s->length == k->nr * s->bytes &&
           s->rows > 0 && s->columns > 0 && s->rows * s->columns <= s->bytes;
}

/* Assembly that saves ZA for its previous user, as __arm_tpidr2_save of the standard does: stores
 * ZA row by row to that user's buffer, and clears TPIDR2_EL0, which tells the user that ZA was
 * saved. */
static const char save_za[] = "mrs x9, TPIDR2_EL0\\0A"
                              "cbz x9, 3f\\0A"
                              "ldr x10, [x9]\\0A"
                              "cbz x10, 2f\\0A"
                              "ldrh w11, [x9, #8]\\0A"
                              "mov w12, wzr\\0A"
                              "1: cmp w12, w11\\0A"
                              "b.hs 2f\\0A"
                              "str za[w12, 0], [x10]\\0A"
                              "addsvl x10, x10, #1\\0A"
                              "add w12, w12, #1\\0A"
                              "b 1b\\0A"
                              "2: msr TPIDR2_EL0, xzr\\0A"
                              "3: ";

/* the parameters of limber_micro (kernel/kernel.c) */
#define PARAMETERS \
    "(ptr %%a, ptr %%b, i64 %%n, ptr %%c, i64 %%ldc, i64 %%first, ptr %%bias, ptr %%next, i64 " \
    "%%step)"

/* Emits a change of streaming mode in inline assembly.  LLVM is told that the function is already
 * called in streaming mode, since LLVM's own mode change would call a library for the vector length
 * each time.  The change clears vectors and predicates, so LLVM must hold nothing in them at that
 * point.  The entry point calls the function by an address that LLVM cannot see through, so LLVM
 * does not notice the difference. */
static void emit_mode_change(bool start, struct text *out)
{
    limber_text_add(out, "  %%m%d = call i64 asm sideeffect \"%s%s\", \"=r,0", start,
                    start ? save_za : "", start ? "smstart" : "smstop");
    for (int i = 9; i <= 12; i++)
        limber_text_add(out, ",~{x%d}", i);
    for (int i = 0; i < 32; i++)
        limber_text_add(out, ",~{z%d}", i);
    for (int i = 0; i < 16; i++)
        limber_text_add(out, ",~{p%d}", i);
    limber_text_add(out, ",~{nzcv},~{memory}\"(i64 -1)\n");
}

/* Prints declarations of the intrinsics that the micro-kernel calls. */
static void emit_declarations(const struct step *s, struct text *out)
{
    limber_text_add(out,
                    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
                    "declare void @llvm.aarch64.sme.zero(i32)\n"
                    "declare void @llvm.aarch64.sme.%s(i32, <vscale x %d x i1>, "
                    "<vscale x %d x i1>, %s, %s)\n"
                    "declare %s @llvm.aarch64.sme.read.horiz.%s(%s, <vscale x %d x i1>, i32, i32)\n"
                    "declare <vscale x %d x i1> @llvm.aarch64.sve.whilelo.nxv%di1.i64(i64, i64)\n",
                    s->product, s->taken, s->taken, s->packed, s->packed, s->vector, s->name,
                    s->vector, s->lanes, s->lanes, s->lanes);
    if (s->taken != s->lanes)
        limber_text_add(out,
                        "declare <vscale x %d x i1> "
                        "@llvm.aarch64.sve.whilelo.nxv%di1.i64(i64, i64)\n",
                        s->taken, s->taken);
}

/* Emits the load of vector number `at` of a panel.  side: 'a' for A, 'b' for B. */
static void emit_load(const struct step *s, char side, int at, struct text *out)
{
    limber_text_add(out,
                    "  %%%cp%d = getelementptr i8, ptr %%p%c, i64 %d\n"
                    "  %%%cv%d = load %s, ptr %%%cp%d, align 4\n"
                    "  %%%c%d = bitcast %s %%%cv%d to %s\n",
                    side, at, side, at * s->length, side, at, s->vector, side, at, side, at,
                    s->vector, side, at, s->packed);
}

/* Emits the loop over k, with one group per round.  It is not unrolled: the CPU core executes the
 * loop's overhead while the SME unit computes the products. */
static void emit_loop(const struct kernel_config *k, const struct step *s, struct text *out)
{
    limber_text_add(out, "loop:\n"
                         "  %%i = phi i64 [ 0, %%entry ], [ %%i1, %%loop ]\n"
                         "  %%pa = phi ptr [ %%a, %%entry ], [ %%pa1, %%loop ]\n"
                         "  %%pb = phi ptr [ %%b, %%entry ], [ %%pb1, %%loop ]\n"
                         "  %%ahead = phi ptr [ %%next, %%entry ], [ %%ahead1, %%loop ]\n"
                         "  call void @llvm.prefetch.p0(ptr %%ahead, i32 0, i32 2, i32 1)\n");
    for (int r = 0; r < s->rows; r++)
        emit_load(s, 'a', r, out);
    for (int v = 0; v < s->columns; v++)
        emit_load(s, 'b', v, out);
    for (int r = 0; r < s->rows; r++)
        for (int v = 0; v < s->columns; v++)
            limber_text_add(out,
                            "  call void @llvm.aarch64.sme.%s(i32 %d, <vscale x %d x i1> %%taken, "
                            "<vscale x %d x i1> %%taken, %s %%a%d, %s %%b%d)\n",
                            s->product, r * s->columns + v, s->taken, s->taken, s->packed, r,
                            s->packed, v);
    limber_text_add(out,
                    "  %%pa1 = getelementptr i8, ptr %%pa, i64 %d\n"
                    "  %%pb1 = getelementptr i8, ptr %%pb, i64 %d\n"
                    "  %%ahead1 = getelementptr i8, ptr %%ahead, i64 %%step\n"
                    "  %%i1 = add nuw nsw i64 %%i, 1\n"
                    "  %%more = icmp slt i64 %%i1, %%n\n"
                    "  br i1 %%more, label %%loop, label %%done\n",
                    k->mr * s->bytes, k->nr * s->bytes);
}

/* Emits a loop that stores the sums to C.  Each round stores one row of every ZA tile.  add: sums
 * are added to C's old values. */
static void emit_store(const struct kernel_config *k, const struct step *s, bool add,
                       struct text *out)
{
    const char *p = add ? "add" : "set";

    limber_text_add(out,
                    "%s:\n  %%%si = phi i32 [ 0, %%done ], [ %%%si1, %%%s ]\n"
                    "  %%%sw = zext i32 %%%si to i64\n",
                    p, p, p, p, p, p);
    for (int r = 0; r < s->rows; r++) {
        limber_text_add(out,
                        "  %%%sl%d = add i64 %%%sw, %d\n"
                        "  %%%so%d = mul i64 %%ldc, %%%sl%d\n"
                        "  %%%sc%d = getelementptr i8, ptr %%c, i64 %%%so%d\n",
                        p, r, p, r * s->length / s->bytes, p, r, p, r, p, r, p, r);
        for (int v = 0; v < s->columns; v++) {
            limber_text_add(out,
                            "  %%%sp%d.%d = getelementptr i8, ptr %%%sc%d, i64 %d\n"
                            "  %%%sz%d.%d = call %s @llvm.aarch64.sme.read.horiz.%s(%s poison, "
                            "<vscale x %d x i1> %%whole, i32 %d, i32 %%%si)\n",
                            p, r, v, p, r, v * s->length, p, r, v, s->vector, s->name, s->vector,
                            s->lanes, r * s->columns + v, p);
            if (k->unit == UNIT_i8)
                limber_text_add(out, "  %%%ss%d.%d = add %s %%%sz%d.%d, %%bias%d\n", p, r, v,
                                s->vector, p, r, v, v);
            if (add)
                limber_text_add(out,
                                "  %%l%d.%d = load %s, ptr %%addp%d.%d, align 4\n"
                                "  %%t%d.%d = %s %s %%l%d.%d, %%add%c%d.%d\n",
                                r, v, s->vector, r, v, r, v, s->add, s->vector, r, v,
                                k->unit == UNIT_i8 ? 's' : 'z', r, v);
            limber_text_add(out, "  store %s %%%s%s%d.%d, ptr %%%sp%d.%d, align 4\n", s->vector,
                            add ? "" : "set",
                            add                ? "t" :
                            k->unit == UNIT_i8 ? "s" :
                                                 "z",
                            r, v, p, r, v);
        }
    }
    limber_text_add(out,
                    "  %%%si1 = add nuw nsw i32 %%%si, 1\n"
                    "  %%%smore = icmp slt i32 %%%si1, %d\n"
                    "  br i1 %%%smore, label %%%s, label %%left\n",
                    p, p, p, p, s->length / s->bytes, p, p);
}

/* Prints the micro-kernel, and an entry point that calls it in streaming mode.  Returns false if
 * the register tile does not suit. */
bool limber_sme_text(const struct kernel_config *k, const struct target *t, struct text *out)
{
    struct step s;

    if (!describe_step(k, t, &s))
        return false;
    emit_declarations(&s, out);
    limber_text_add(out, "define internal void @limber_micro_za" PARAMETERS " noinline nounwind "
                         "\"aarch64_pstate_sm_enabled\" \"aarch64_inout_za\" {\nentry:\n");
    emit_mode_change(true, out);
    for (int i = 0; i < 2; i++)
        limber_text_add(out,
                        "  %%%s = call <vscale x %d x i1> "
                        "@llvm.aarch64.sve.whilelo.nxv%di1.i64(i64 0, i64 %%m1)\n",
                        i ? "taken" : "whole", i ? s.taken : s.lanes, i ? s.taken : s.lanes);
    limber_text_add(out, "  call void @llvm.aarch64.sme.zero(i32 255)\n");
    for (int v = 0; v < s.columns && k->unit == UNIT_i8; v++)
        limber_text_add(out,
                        "  %%w%d = getelementptr i8, ptr %%bias, i64 %d\n"
                        "  %%bias%d = load %s, ptr %%w%d, align 4\n",
                        v, v * s.length, v, s.vector, v);
    limber_text_add(out, "  br label %%loop\n");
    emit_loop(k, &s, out);
    limber_text_add(out, "done:\n  %%fresh = icmp ne i64 %%first, 0\n"
                         "  br i1 %%fresh, label %%set, label %%add\n");
    emit_store(k, &s, false, out);
    emit_store(k, &s, true, out);
    limber_text_add(out, "left:\n");
    emit_mode_change(false, out);
    limber_text_add(out, "  ret void\n}\n"
                         "define void @limber_micro" PARAMETERS " nounwind {\n"
                         "  %%f = call ptr asm \"\", \"=r,0\"(ptr @limber_micro_za)\n"
                         "  musttail call void %%f" PARAMETERS "\n  ret void\n}\n");
    return !out->failed;
}
