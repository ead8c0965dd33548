/* SPDX-License-Identifier: BSD-3-Clause
 * The register tile on a matrix unit: 2 x 2 tiles of 16 x 16 accumulators, 64 bytes of k a step.
 * The unit is configured and left in every call, so that threads carry none of its state.
 *
 *   source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 */
#include "backends/llvm/llvm.h"

enum { TILE = 16, STEP = 1024 /* bytes of a tile */ };

static const char declarations[] =
    "declare void @llvm.x86.ldtilecfg(ptr)\n"
    "declare void @llvm.x86.tilerelease()\n"
    "declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)\n"
    "declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)\n"
    "declare void @llvm.x86.tdpbusd(i8 immarg, i8 immarg, i8 immarg)\n"
    "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n";

/* Palette 1; eight tiles of 16 rows by 64 bytes. */
static void tile_config(struct text *out)
{
    limber_text_add(out, "@limber_tiles = internal constant [64 x i8] [");
    for (int i = 0; i < 64; i++) {
        int v = i == 0 ? 1 : i >= 16 && i < 32 ? (i % 2 ? 0 : 64) : i >= 48 && i < 56 ? TILE : 0;

        limber_text_add(out, "%si8 %d", i ? ", " : "", v);
    }
    limber_text_add(out, "], align 64\n");
}

/* Accumulators are tiles 0 to 3, row by row; A is in 4 and 5, B in 6 and 7. */
static void loop(const struct kernel_config *k, struct text *out)
{
    limber_text_add(out, "loop:\n  %%i = phi i64 [ 0, %%entry ], [ %%i1, %%loop ]\n"
                         "  %%pa = phi ptr [ %%a, %%entry ], [ %%pa1, %%loop ]\n"
                         "  %%pb = phi ptr [ %%b, %%entry ], [ %%pb1, %%loop ]\n"
                         "  %%ahead = phi ptr [ %%next, %%entry ], [ %%ahead1, %%loop ]\n");
    for (int i = 0; i < 16; i++)
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
        limber_text_add(out, "  call void @llvm.x86.tdpbusd(i8 %d, i8 %d, i8 %d)\n", t, 4 + t / 2,
                        6 + t % 2);
    limber_text_add(out,
                    "  %%pa1 = getelementptr i8, ptr %%pa, i64 %d\n"
                    "  %%pb1 = getelementptr i8, ptr %%pb, i64 %d\n"
                    "  %%far = mul i64 %%step, 16\n"
                    "  %%ahead1 = getelementptr i8, ptr %%ahead, i64 %%far\n"
                    "  %%i1 = add nuw nsw i64 %%i, 16\n"
                    "  %%more = icmp slt i64 %%i1, %%n\n"
                    "  br i1 %%more, label %%loop, label %%done\n",
                    2 * STEP, TILE * k->nr * 4);
}

static void store_tiles(const char *name, const char *to, const char *stride, struct text *out)
{
    for (int t = 0; t < 4; t++)
        limber_text_add(out,
                        "  %%%so%d = mul i64 %s, %d\n"
                        "  %%%sr%d = getelementptr i8, ptr %s, i64 %%%so%d\n"
                        "  %%%sp%d = getelementptr i8, ptr %%%sr%d, i64 %d\n"
                        "  call void @llvm.x86.tilestored64(i8 %d, ptr %%%sp%d, i64 %s)\n",
                        name, t, stride, t / 2 * TILE, name, t, to, name, t, name, t, name, t,
                        t % 2 * 64, t, name, t, stride);
    limber_text_add(out, "  call void @llvm.x86.tilerelease()\n");
}

/* Tiles cannot be added to memory: by way of the stack. */
static void add(const struct kernel_config *k, struct text *out)
{
    limber_text_add(out, "add:\n");
    store_tiles("s", "%room", "128", out);
    limber_text_add(out,
                    "  br label %%rows\n"
                    "rows:\n  %%r = phi i64 [ 0, %%add ], [ %%r1, %%rows ]\n"
                    "  %%from = getelementptr [%d x i32], ptr %%room, i64 %%r\n"
                    "  %%at = mul i64 %%r, %%ldc\n"
                    "  %%to = getelementptr i8, ptr %%c, i64 %%at\n"
                    "  %%x = load <%d x i32>, ptr %%from, align 4\n"
                    "  %%y = load <%d x i32>, ptr %%to, align 4\n"
                    "  %%z = add <%d x i32> %%x, %%y\n"
                    "  store <%d x i32> %%z, ptr %%to, align 4\n"
                    "  %%r1 = add i64 %%r, 1\n  %%left = icmp slt i64 %%r1, %d\n"
                    "  br i1 %%left, label %%rows, label %%end\n"
                    "end:\n  ret void\n",
                    k->nr, k->nr, k->nr, k->nr, k->nr, k->mr);
}

bool limber_amx_text(const struct kernel_config *k, struct text *out)
{
    limber_text_add(out, "%s", declarations);
    tile_config(out);
    limber_text_add(out,
                    "define void @limber_micro(ptr %%a, ptr %%b, i64 %%n, ptr %%c, "
                    "i64 %%ldc, i64 %%first, ptr %%bias, ptr %%next, i64 %%step) {\nentry:\n"
                    "  %%room = alloca [%d x i32], align 64\n"
                    "  %%bias1 = getelementptr i8, ptr %%bias, i64 64\n"
                    "  call void @llvm.x86.ldtilecfg(ptr @limber_tiles)\n",
                    k->mr * k->nr);
    for (int t = 0; t < 4; t++)         /* every row is the row of biases */
        limber_text_add(out, "  call void @llvm.x86.tileloadd64(i8 %d, ptr %%bias%s, i64 0)\n", t,
                        t % 2 ? "1" : "");
    limber_text_add(out, "  br label %%loop\n");
    loop(k, out);
    limber_text_add(out, "done:\n  %%fresh = icmp ne i64 %%first, 0\n"
                         "  br i1 %%fresh, label %%set, label %%add\nset:\n");
    store_tiles("t", "%c", "%ldc", out);
    limber_text_add(out, "  ret void\n");
    add(k, out);
    limber_text_add(out, "}\n");
    return !out->failed;
}
