/* SPDX-License-Identifier: BSD-3-Clause
 * Computes products along k by Arm's own instructions, in an emulator.  Freestanding, so that a
 * cross compiler without a C library builds it.
 *
 *   stdin   int32 instruction (enum below), k, elements; then for each element a float c, k values
 *           of 16 bits of A, k of B.  k is a multiple of 4
 *   stdout  a float for each element */
#include <arm_neon.h>
#include <stddef.h>

enum { BFDOT, BFMMLA, BFMLAL, FMLAL, BFMOPA, FMOPA };
enum { MOST = 256 };

/* A system call of Linux. */
static long system_call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

/* Reads n bytes from stdin.  Returns 0 if there are fewer. */
static int read_bytes(void *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        long got = system_call(63, 0, (long)((char *)to + at), (long)(n - at));

        if (got <= 0)
            return 0;
        at += (size_t)got;
    }
    return 1;
}

/* Loads four consecutive 16-bit elements into the lower half of a register. */
static uint16x8_t load_four(const uint16_t *p)
{
    return vcombine_u16(vld1_u16(p), vdup_n_u16(0));
}

/* Computes C += A B' in streaming mode and returns element (0, 0). */
static float outer_product(int instruction, float c, const uint16_t *a, const uint16_t *b)
{
    float out[64] = { c };

    __asm__ volatile(".arch armv9-a+sme\n"
                     "smstart\n"
                     "ptrue p0.s, vl1\n"
                     "ptrue p1.h, vl2\n"
                     "mov w12, 0\n"
                     "ld1w {z0.s}, p0/z, [%0]\n"
                     "ld1h {z1.h}, p1/z, [%1]\n"
                     "ld1h {z2.h}, p1/z, [%2]\n"
                     "zero {za}\n"
                     "mova za0h.s[w12, 0], p0/m, z0.s\n"
                     "cbnz %w3, 1f\n"
                     "bfmopa za0.s, p1/m, p1/m, z1.h, z2.h\n"
                     "b 2f\n"
                     "1: fmopa za0.s, p1/m, p1/m, z1.h, z2.h\n"
                     "2: mova z0.s, p0/m, za0h.s[w12, 0]\n"
                     "st1w {z0.s}, p0, [%0]\n"
                     "smstop\n" ::"r"(out),
                     "r"(a), "r"(b), "r"(instruction == FMOPA)
                     : "memory", "cc", "w12", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8",
                       "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
                       "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                       "v31");
    return out[0];
}

/* Adds k products to `start` by one of the instructions. */
static float chain(int instruction, float start, const uint16_t *a, const uint16_t *b, int k)
{
    float32x4_t c = vsetq_lane_f32(start, vdupq_n_f32(0), 0);

    for (int p = 0; p < k; p += 4) {
        uint16x8_t x = load_four(a + p), y = load_four(b + p);
        bfloat16x8_t xb = vreinterpretq_bf16_u16(x), yb = vreinterpretq_bf16_u16(y);
        float first = vgetq_lane_f32(c, 0);

        switch (instruction) {
        /* a second instruction adds the second pair, which is in the next lane */
        case BFDOT:
            c = vbfdotq_f32(c, xb, yb);
            xb = vreinterpretq_bf16_u16(vextq_u16(x, x, 2));
            yb = vreinterpretq_bf16_u16(vextq_u16(y, y, 2));
            c = vbfdotq_f32(vsetq_lane_f32(vgetq_lane_f32(c, 0), vdupq_n_f32(0), 0), xb, yb);
            break;
        case BFMMLA: c = vbfmmlaq_f32(c, xb, yb); break;
        case BFMLAL:
        case FMLAL:
            for (int q = 0; q < 4; q++) {
                uint16x8_t u = vdupq_n_u16(a[p + q]), v = vdupq_n_u16(b[p + q]);

                if (instruction == FMLAL)
                    c = q < 2 ?
                            vfmlalq_low_f16(c, vreinterpretq_f16_u16(u), vreinterpretq_f16_u16(v)) :
                            vfmlalq_high_f16(c, vreinterpretq_f16_u16(u), vreinterpretq_f16_u16(v));
                else
                    c = q % 2 ?
                            vbfmlaltq_f32(c, vreinterpretq_bf16_u16(u), vreinterpretq_bf16_u16(v)) :
                            vbfmlalbq_f32(c, vreinterpretq_bf16_u16(u), vreinterpretq_bf16_u16(v));
            }
            break;
        default:
            first = outer_product(instruction, first, a + p, b + p);
            first = outer_product(instruction, first, a + p + 2, b + p + 2);
            c = vsetq_lane_f32(first, c, 0);
        }
    }
    return vgetq_lane_f32(c, 0);
}

/* The program's entry point: there is no C library. */
void _start(void)
{
    static uint16_t a[MOST], b[MOST];
    int32_t head[3];

    if (!read_bytes(head, sizeof head) || head[1] < 0 || head[1] > MOST || head[1] % 4)
        system_call(93, 2, 0, 0);
    for (int32_t e = 0; e < head[2]; e++) {
        float c;

        if (!read_bytes(&c, sizeof c) || !read_bytes(a, (size_t)head[1] * 2) ||
            !read_bytes(b, (size_t)head[1] * 2))
            system_call(93, 3, 0, 0);
        c = chain(head[0], c, a, b, head[1]);
        if (system_call(64, 1, (long)&c, sizeof c) != sizeof c)
            system_call(93, 4, 0, 0);
    }
    system_call(93, 0, 0, 0);
}
