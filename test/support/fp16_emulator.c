/* SPDX-License-Identifier: BSD-3-Clause
 * Emulates AVX512-FP16 instructions.  Sources: Intel 64 and IA-32 Architectures Software
 * Developer's Manual, volumes 1 (chapter 13: XSAVE) and 2 (2.7: EVEX); Intel AVX512-FP16
 * Architecture Specification. */
#define _GNU_SOURCE
#include "fp16_emulator.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* HEADER and XMM: offsets in the XSAVE area, in bytes.  The others: numbers of XSAVE state
 * components. */
enum { HEADER = 512, XMM = 160, YMM_HIGH = 2, MASKS = 5, ZMM_HIGH = 6, ZMM_MORE = 7 };

/* A decoded instruction with an EVEX prefix; fields are named as in the manual. */
struct evex {
    /* length: 0, 1 or 2 for vectors of 128, 256 or 512 bits */
    int map, opcode, prefix, wide, length, broadcast, zeroing, mask;
    int reg, second, rm, mod;
    uint64_t address;
    uint8_t immediate;
    int bytes;
};

/* ---- registers in the signal frame ----------------------------------------------------------- */

/* Returns the address of an XSAVE state component in a signal frame's area, and marks the component
 * as in use. */
static uint8_t *component(uint8_t *area, int which)
{
    unsigned size, offset, c, d;
    uint64_t present;

    __cpuid_count(13, (unsigned)which, size, offset, c, d);
    memcpy(&present, area + HEADER, 8);
    /* the component is in its initial state: all zeros, and not stored */
    if (!(present >> which & 1)) {
        memset(area + offset, 0, size);
        present |= UINT64_C(1) << which;
        memcpy(area + HEADER, &present, 8);
    }
    return area + offset;
}

/* The XSAVE area of a signal frame. */
static uint8_t *area_of(ucontext_t *c)
{
    return (uint8_t *)c->uc_mcontext.fpregs;
}

/* Returns the address of the 16-byte part q of a vector register.  Its parts lie in up to three
 * state components. */
static uint8_t *quarter(ucontext_t *c, int reg, int q)
{
    uint8_t *area = area_of(c);

    if (reg >= 16)
        return component(area, ZMM_MORE) + 64 * (reg - 16) + 16 * q;
    if (q >= 2)
        return component(area, ZMM_HIGH) + 32 * reg + 16 * (q - 2);
    if (q == 1)
        return component(area, YMM_HIGH) + 16 * reg;
    component(area, 1); /* marks the SSE state as in use */
    return area + XMM + 16 * reg;
}

static void load_vector(ucontext_t *c, int reg, uint8_t v[64])
{
    for (int q = 0; q < 4; q++)
        memcpy(v + 16 * q, quarter(c, reg, q), 16);
}

static void store_vector(ucontext_t *c, int reg, const uint8_t v[64])
{
    for (int q = 0; q < 4; q++)
        memcpy(quarter(c, reg, q), v + 16 * q, 16);
}

static uint64_t register_value(const ucontext_t *c, int reg)
{
    static const int where[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                 REG_R12, REG_R13, REG_R14, REG_R15 };

    return (uint64_t)c->uc_mcontext.gregs[where[reg]];
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* The factor N of an 8-bit displacement (disp8*N): the bytes that the instruction reads in
 * memory. */
static int displacement_unit(const struct evex *i)
{
    int vector = 16 << i->length;

    if (i->broadcast)
        return 2;
    return i->map == 6 ? vector / 2 : vector; /* conversions (map 6) read half a vector */
}

/* Decodes the instruction at RIP.  False if it has no EVEX prefix. */
static bool decode(const ucontext_t *c, struct evex *i)
{
    const uint8_t *p = (const uint8_t *)c->uc_mcontext.gregs[REG_RIP];
    int modrm = p[5], at = 6, base = (modrm & 7) | !(p[1] >> 5 & 1) << 3;
    int x = !(p[1] >> 6 & 1) << 3;
    bool relative = false, sib;
    int64_t displacement = 0;

    if (p[0] != 0x62 || p[1] >> 3 & 1 || !(p[2] >> 2 & 1))
        return false;
    *i = (struct evex){ .map = p[1] & 7,
                        .wide = p[2] >> 7,
                        .prefix = p[2] & 3,
                        .zeroing = p[3] >> 7,
                        .length = p[3] >> 5 & 3,
                        .broadcast = p[3] >> 4 & 1,
                        .mask = p[3] & 7,
                        .opcode = p[4],
                        .mod = modrm >> 6,
                        .reg = (modrm >> 3 & 7) | !(p[1] >> 7) << 3 | !(p[1] >> 4 & 1) << 4,
                        .second = (~p[2] >> 3 & 15) | !(p[3] >> 3 & 1) << 4 };
    i->rm = base | x << 1;
    if (i->mod != 3) {
        sib = (modrm & 7) == 4;
        if (sib) {
            int index = (p[at] >> 3 & 7) | x;

            if (index != 4)
                i->address = register_value(c, index) << (p[at] >> 6);
            base = (p[at] & 7) | !(p[1] >> 5 & 1) << 3;
        }
        relative = i->mod == 0 && (sib ? (p[at] & 7) == 5 : (modrm & 7) == 5);
        at += sib;
        if (i->mod == 1) {
            displacement = (int64_t)(int8_t)p[at++] * displacement_unit(i);
        } else if (i->mod == 2 || relative) {
            int32_t wide;

            memcpy(&wide, p + at, 4);
            displacement = wide;
            at += 4;
        }
        if (!relative)
            i->address += register_value(c, base);
        i->address += (uint64_t)displacement;
    }
    if (i->map == 3)
        i->immediate = p[at++];
    if (relative && !sib)
        i->address += (uint64_t)c->uc_mcontext.gregs[REG_RIP] + (uint64_t)at;
    i->bytes = at;
    return true;
}

/* ---- binary16 -------------------------------------------------------------------------------- */

/* Returns a binary16 number's value. */
static double value(uint16_t h)
{
    int field = h >> 10 & 31, frac = h & 1023;
    double x = field == 31 ? (frac ? NAN : INFINITY) :
               field       ? ldexp(1024 + frac, field - 25) :
                             ldexp(frac, -24);

    return h >> 15 ? -x : x;
}

/* Rounds to binary16, ties to even.  Sums and products of two binary16 numbers are exact in x. */
static uint16_t round_to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x), unit;
    int e;

    if (isnan(x))
        return 0x7e00;
    frexp(size, &e);
    e = e - 1 < -14 ? -14 : e - 1;
    unit = ldexp(1, e - 10);
    size = rint(size / unit) * unit;
    if (size >= 65536)
        return sign | 0x7c00;
    frexp(size, &e);
    if (size < 0x1p-14)
        return (uint16_t)(sign | (int)(size * 0x1p24));
    return (uint16_t)(sign | (e + 14) << 10 | ((int)(ldexp(size, 11 - e)) & 1023));
}

/* ---- execution ------------------------------------------------------------------------------- */

/* Loads the last source operand: a register, memory, or one element of memory for all lanes. */
static void load_source(ucontext_t *c, const struct evex *i, uint8_t v[64], int bytes)
{
    if (i->mod == 3) {
        load_vector(c, i->rm, v);
    } else if (i->broadcast) {
        for (int b = 0; b < bytes; b += 2)
            memcpy(v + b, (const void *)i->address, 2);
    } else {
        memcpy(v, (const void *)i->address, (size_t)bytes);
    }
}

/* The mask register of an instruction; all ones if it has none. */
static uint64_t load_mask(ucontext_t *c, const struct evex *i)
{
    uint64_t k;

    if (!i->mask)
        return UINT64_MAX;
    memcpy(&k, component(area_of(c), MASKS) + 8 * i->mask, 8);
    return k;
}

/* Executes VADDPH or VMULPH. */
static void arithmetic(ucontext_t *c, const struct evex *i)
{
    uint8_t a[64], b[64], d[64];
    uint64_t k = load_mask(c, i);
    int bytes = 16 << i->length;

    load_vector(c, i->second, a);
    load_vector(c, i->reg, d);
    load_source(c, i, b, bytes);
    for (int l = 0; l < bytes / 2; l++) {
        uint16_t x, y, r = 0;

        memcpy(&x, a + 2 * l, 2);
        memcpy(&y, b + 2 * l, 2);
        if (k >> l & 1)
            r = round_to_half(i->opcode == 0x59 ? value(x) * value(y) : value(x) + value(y));
        if (k >> l & 1 || i->zeroing)
            memcpy(d + 2 * l, &r, 2);
    }
    memset(d + bytes, 0, (size_t)(64 - bytes));
    store_vector(c, i->reg, d);
}

/* Executes VCVTPH2PSX, the conversion of binary16 to binary32. */
static void convert_to_float(ucontext_t *c, const struct evex *i)
{
    uint8_t s[64], d[64];
    uint64_t k = load_mask(c, i);
    int count = 4 << i->length;

    load_vector(c, i->reg, d);
    load_source(c, i, s, 2 * count);
    for (int l = 0; l < count; l++) {
        uint16_t h;
        float f;

        memcpy(&h, s + 2 * l, 2);
        f = k >> l & 1 ? (float)value(h) : 0;
        if (k >> l & 1 || i->zeroing)
            memcpy(d + 4 * l, &f, 4);
    }
    memset(d + 4 * count, 0, (size_t)(64 - 4 * count));
    store_vector(c, i->reg, d);
}

/* Executes VCMPPH with the predicates ORD and UNORD.  False for other predicates. */
static bool compare_ordered(ucontext_t *c, const struct evex *i)
{
    uint8_t a[64], b[64];
    uint64_t k = load_mask(c, i), r = 0;
    int bytes = 16 << i->length;

    if (i->immediate != 7 && i->immediate != 3)
        return false;
    load_vector(c, i->second, a);
    load_source(c, i, b, bytes);
    for (int l = 0; l < bytes / 2; l++) {
        uint16_t x, y;
        bool ordered;

        memcpy(&x, a + 2 * l, 2);
        memcpy(&y, b + 2 * l, 2);
        ordered = !isnan(value(x)) && !isnan(value(y));
        r |= (uint64_t)(ordered == (i->immediate == 7)) << l;
    }
    r &= k;
    memcpy(component(area_of(c), MASKS) + 8 * (i->reg & 7), &r, 8);
    return true;
}

/* Executes the AVX512-FP16 instruction at which the signal's context stopped.  Returns its length
 * in bytes, 0 if it is none that is emulated. */
int fp16_execute(void *context)
{
    ucontext_t *c = context;
    struct evex i;

    if (!decode(c, &i) || i.wide || i.length > 2)
        return 0;
    if (i.map == 5 && i.prefix == 0 && (i.opcode == 0x58 || i.opcode == 0x59))
        arithmetic(c, &i);
    else if (i.map == 6 && i.prefix == 1 && i.opcode == 0x13 && !i.broadcast)
        convert_to_float(c, &i);
    else if (i.map != 3 || i.prefix != 0 || i.opcode != 0xc2 || !compare_ordered(c, &i))
        return 0;
    return i.bytes;
}
#else
int fp16_execute(void *context)
{
    (void)context;
    return 0;
}
#endif
