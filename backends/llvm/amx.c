/* SPDX-License-Identifier: BSD-3-Clause
 * The micro-kernel on AMX: 2 x 2 AMX tiles of 16 x 16 accumulators.  Each step of its loop covers
 * 64 bytes along k.  The tiles are configured before a block of C and released after it, so that
 * threads keep no AMX state between calls.
 *
 *   source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 */
#include "backends/llvm/llvm.h"

enum { TILE = 16, STEP = 1024 /* bytes of an AMX tile */ };

static const char declarations[] =
    "declare void @llvm.x86.ldtilecfg(ptr)\n"
    "declare void @llvm.x86.tilerelease()\n"
    "declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)\n"
    "declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)\n"
    "declare void @llvm.x86.tilezero(i8 immarg)\n"
    "declare void @llvm.x86.tdpbssd(i8 immarg, i8 immarg, i8 immarg)\n"
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n";

/* Emits the operand of LDTILECFG: palette 1, and eight tiles of 16 rows by 64 bytes. */
static void emit_tile_config(struct text *out)
{
    limber_text_add(out, "@limber_tiles = internal constant [64 x i8] [");
    for (int i = 0; i < 64; i++) {
        /* Bytes 16 to 31: bytes per row of each tile, 16 bits each; bytes 48 to 55: rows of each
         * tile. */
        int v = i == 0 ? 1 : i >= 16 && i < 32 ? (i % 2 ? 0 : 64) : i >= 48 && i < 56 ? TILE : 0;

        limber_text_add(out, "%si8 %d", i ? ", " : "", v);
    }
    limber_text_add(out, "], align 64\n");
}

/* Emits the loop over k.  Accumulators are the AMX tiles 0 to 3, row-major; A is loaded to tiles 4
 * and 5, B to tiles 6 and 7. */
static void emit_loop(const struct kernel_config *k, struct text *out)
{
    limber_text_add(out, "loop:\n  %%i = phi i64 [ 0, %%entered ], [ %%i1, %%loop ]\n"
                         "  %%pa = phi ptr [ %%a, %%entered ], [ %%pa1, %%loop ]\n"
                         "  %%pb = phi ptr [ %%b, %%entered ], [ %%pb1, %%loop ]\n"
                         "  %%ahead = phi ptr [ %%next, %%entered ], [ %%ahead1, %%loop ]\n");
    for (int i = 0; i < KERNEL_FETCHES; i++)
        limber_text_add(out,
                        "  %%f%d = mul i64 %%step, %d\n"
                        "  %%g%d = getelementptr i8, ptr %%ahead, i64 %%f%d\n"
                        "  call void @llvm.prefetch.p0(ptr %%g%d, i32 0, i32 2, i32 1)\n",
                        i, i, i, i, i);
    for (int r = 0; r < 2; r++)
        limber_text_add(out,
                        "  %%a%d = getelementptr i8, ptr %%pa, i64 %d\n"
                        "  call void @llvm.x86.tileloadd64(i8 %d, ptr %%a%d, i64 64)\n",
                        r, r * STEP, 4 + r, r);
    for (int v = 0; v < 2; v++)
        limber_text_add(out,
                        "  %%b%d = getelementptr i8, ptr %%pb, i64 %d\n"
                        "  call void @llvm.x86.tileloadd64(i8 %d, ptr %%b%d, i64 %d)\n",
                        v, v * 64, 6 + v, v, k->nr * 4);
    for (int t = 0; t < 4; t++)
        limber_text_add(out, "  call void @llvm.x86.tdpbssd(i8 %d, i8 %d, i8 %d)\n", t, 4 + t / 2,
                        6 + t % 2);
    limber_text_add(out,
                    "  %%pa1 = getelementptr i8, ptr %%pa, i64 %d\n"
                    "  %%pb1 = getelementptr i8, ptr %%pb, i64 %d\n"
                    "  %%far = mul i64 %%step, %d\n"
                    "  %%ahead1 = getelementptr i8, ptr %%ahead, i64 %%far\n"
                    "  %%i1 = add nuw nsw i64 %%i, 16\n"
                    "  %%more = icmp slt i64 %%i1, %%n\n"
                    "  br i1 %%more, label %%loop, label %%done\n",
                    2 * STEP, TILE * k->nr * 4, KERNEL_FETCHES);
}

/* Emits loads from C into the four accumulator tiles, or stores of these tiles to C. */
static void emit_tile_moves(bool store, const char *name, struct text *out)
{
    for (int t = 0; t < 4; t++) {
        limber_text_add(out,
                        "  %%%so%d = mul i64 %%ldc, %d\n"
                        "  %%%sr%d = getelementptr i8, ptr %%c, i64 %%%so%d\n"
                        "  %%%sp%d = getelementptr i8, ptr %%%sr%d, i64 %d\n",
                        name, t, t / 2 * TILE, name, t, name, t, name, t, name, t, t % 2 * 64);
        limber_text_add(out, "  call void @llvm.x86.tile%s64(i8 %d, ptr %%%sp%d, i64 %%ldc)\n",
                        store ? "stored" : "loadd", t, name, t);
    }
}

/* Prints the micro-kernel, and the functions that configure and release AMX tiles.  Returns false
 * if memory runs out. */
bool limber_amx_text(const struct kernel_config *k, struct text *out)
{
    limber_text_add(out, "%s", declarations);
    emit_tile_config(out);
    limber_text_add(out, "define void @limber_micro_open() {\n"
                         "  call void @llvm.x86.ldtilecfg(ptr @limber_tiles)\n  ret void\n}\n"
                         "define void @limber_micro_close() {\n"
                         "  call void @llvm.x86.tilerelease()\n  ret void\n}\n"
                         "define void @limber_micro(ptr %%a, ptr %%b, i64 %%n, ptr %%c, "
                         "i64 %%ldc, i64 %%first, ptr %%bias, ptr %%next, i64 %%step) {\nentry:\n"
                         "  %%fresh = icmp ne i64 %%first, 0\n"
                         "  br i1 %%fresh, label %%begun, label %%added\nbegun:\n"
                         "  %%zero = icmp eq ptr %%bias, null\n"
                         "  br i1 %%zero, label %%cleared, label %%biased\ncleared:\n");
    for (int t = 0; t < 4; t++)
        limber_text_add(out, "  call void @llvm.x86.tilezero(i8 %d)\n", t);
    limber_text_add(out, "  br label %%entered\nbiased:\n"
                         "  %%bias1 = getelementptr i8, ptr %%bias, i64 64\n");
    /* a stride of 0 loads the same row of biases into every row of the tile */
    for (int t = 0; t < 4; t++)
        limber_text_add(out, "  call void @llvm.x86.tileloadd64(i8 %d, ptr %%bias%s, i64 0)\n", t,
                        t % 2 ? "1" : "");
    limber_text_add(out, "  br label %%entered\nadded:\n");
    emit_tile_moves(false, "l", out);
    limber_text_add(out, "  br label %%entered\nentered:\n  br label %%loop\n");
    emit_loop(k, out);
    limber_text_add(out, "done:\n");
    emit_tile_moves(true, "s", out);
    limber_text_add(out, "  ret void\n}\n");
    return !out->failed;
}
