/* SPDX-License-Identifier: BSD-3-Clause
 * Emulates AMX instructions.  Source: Intel 64 and IA-32 Architectures Software Developer's Manual,
 * volumes 1 (chapter 18) and 2. */
#define _GNU_SOURCE
#include "amx_emulator.h"
#include "fp16_emulator.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)
/* Tiles, and the largest sizes of each. */
enum { TILES = 8, ROWS = 16, BYTES = 64 };
enum prefix { PREFIX_none, PREFIX_66, PREFIX_f3, PREFIX_f2 };

/* This thread's tiles. */
static __thread struct {
    bool configured;
    uint8_t rows[TILES], bytes[TILES];
    uint8_t data[TILES][ROWS][BYTES];
} unit;
/* Number of emulated instructions of this thread. */
static __thread long count;
static struct sigaction previous_action;

/* A decoded AMX instruction: VEX.128, opcode map 0F38, W = 0.  Fields are named as in the manual;
 * `third` is VEX.vvvv. */
struct instruction {
    int opcode, prefix, mod, reg, rm, third;
    int base, index, scale; /* register numbers; base and index are -1 if there is none */
    int32_t displacement;
    int length;
};

/* Decodes the instruction at p into *i.  Returns false if it is no AMX instruction. */
static bool decode(const uint8_t *p, struct instruction *i)
{
    int rex_r, rex_x, rex_b, at = 5;

    if (p[0] != 0xc4 || (p[1] & 31) != 2 || p[2] >> 7 || p[2] >> 2 & 1)
        return false;
    rex_r = !(p[1] >> 7) << 3;
    rex_x = !(p[1] >> 6 & 1) << 3;
    rex_b = !(p[1] >> 5 & 1) << 3;
    *i = (struct instruction){ .opcode = p[3],
                               .prefix = p[2] & 3,
                               .mod = p[4] >> 6,
                               .reg = (p[4] >> 3 & 7) | rex_r,
                               .rm = (p[4] & 7) | rex_b,
                               .third = ~p[2] >> 3 & 15,
                               .base = -1,
                               .index = -1 };
    if (i->opcode != 0x49 && i->opcode != 0x4b && i->opcode != 0x5e)
        return false;
    if (i->mod != 3) {
        i->base = i->rm;
        if ((p[4] & 7) == 4) {
            i->scale = 1 << (p[at] >> 6);
            i->index = (p[at] >> 3 & 7) | rex_x;
            i->base = (p[at] & 7) | rex_b;
            if ((p[at] & 7) == 5 && i->mod == 0)
                i->base = -1;
            at++;
        } else if ((p[4] & 7) == 5 && i->mod == 0) {
            i->base = -2; /* stands for RIP, the address of the next instruction */
        }
        if (i->mod == 1) {
            i->displacement = (int8_t)p[at++];
        } else if (i->mod == 2 || i->base < 0) {
            memcpy(&i->displacement, p + at, 4);
            at += 4;
        }
    }
    i->length = at;
    return true;
}

static uint64_t register_value(const ucontext_t *c, int reg)
{
    static const int where[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                 REG_R12, REG_R13, REG_R14, REG_R15 };

    return (uint64_t)c->uc_mcontext.gregs[where[reg]];
}

/* Returns the address of an instruction's memory operand. */
static uint8_t *address(const ucontext_t *c, const struct instruction *i)
{
    uint64_t a = (uint64_t)(int64_t)i->displacement;

    if (i->base == -2)
        a += (uint64_t)c->uc_mcontext.gregs[REG_RIP] + (uint64_t)i->length;
    else if (i->base >= 0)
        a += register_value(c, i->base);
    return (uint8_t *)a;
}

/* Returns the distance of a tile's rows in memory, in bytes: SIB's index register times its
 * scale. */
static int64_t stride(const ucontext_t *c, const struct instruction *i)
{
    return i->index < 0 || i->index == 4 ? 0 : (int64_t)register_value(c, i->index) * i->scale;
}

/* Loads the tile configuration from 64 bytes at p (LDTILECFG).  Palette 0 releases the tiles.
 * Returns false if the configuration is invalid. */
static bool configure(const uint8_t *p)
{
    memset(&unit, 0, sizeof unit);
    if (p[0] != 1)
        return p[0] == 0;
    for (int t = 0; t < TILES; t++) {
        unit.bytes[t] = p[16 + 2 * t];
        unit.rows[t] = p[48 + t];
        if (unit.bytes[t] > BYTES || p[17 + 2 * t] || unit.rows[t] > ROWS)
            return false;
    }
    unit.configured = true;
    return true;
}

static int byte_of(uint8_t v, bool is_signed)
{
    return is_signed ? (int8_t)v : v;
}

/* Executes a TDPB* instruction: adds products of 8-bit integers of tiles a and b to 32-bit sums c.
 * A row of b holds groups of four elements along k. */
static void multiply_tiles(const struct instruction *i)
{
    int c = i->reg, a = i->rm, b = i->third;
    bool sa = i->prefix == PREFIX_f2 || i->prefix == PREFIX_f3;
    bool sb = i->prefix == PREFIX_f2 || i->prefix == PREFIX_66;

    for (int m = 0; m < unit.rows[c]; m++)
        for (int n = 0; n < unit.bytes[c] / 4; n++) {
            uint32_t sum;

            memcpy(&sum, &unit.data[c][m][4 * n], 4);
            for (int k = 0; k < unit.bytes[a]; k++)
                sum += (uint32_t)(byte_of(unit.data[a][m][k], sa) *
                                  byte_of(unit.data[b][k / 4][4 * n + k % 4], sb));
            memcpy(&unit.data[c][m][4 * n], &sum, 4);
        }
}

/* Executes a decoded instruction.  Returns false if the CPU would raise #UD. */
static bool execute(const ucontext_t *c, const struct instruction *i)
{
    if (i->opcode == 0x49 && i->prefix == PREFIX_none && i->mod != 3)
        return configure(address(c, i));
    if (i->opcode == 0x49 && i->prefix == PREFIX_none) {
        memset(&unit, 0, sizeof unit);
        return true;
    }
    if (!unit.configured || i->reg >= TILES)
        return false;
    if (i->opcode == 0x49 && i->prefix == PREFIX_f2 && i->mod == 3) {
        memset(unit.data[i->reg], 0, sizeof unit.data[i->reg]);
        return true;
    }
    if (i->opcode == 0x5e && i->mod == 3 && i->rm < TILES && i->third < TILES) {
        multiply_tiles(i);
        return true;
    }
    if (i->opcode != 0x4b || i->mod == 3)
        return false;
    for (int r = 0; r < unit.rows[i->reg]; r++) {
        uint8_t *at = address(c, i) + r * stride(c, i);

        if (i->prefix == PREFIX_f3)
            memcpy(at, unit.data[i->reg][r], unit.bytes[i->reg]);
        else
            memcpy(unit.data[i->reg][r], at, unit.bytes[i->reg]);
    }
    return true;
}

/* Handles SIGILL: if the instruction is one of those that are emulated, executes it and continues
 * after it. */
static void handle_illegal(int number, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    struct instruction i;
    int bytes = fp16_execute(c);

    (void)info;
    if (bytes) {
        c->uc_mcontext.gregs[REG_RIP] += bytes;
        count++;
        return;
    }
    if (decode((const uint8_t *)c->uc_mcontext.gregs[REG_RIP], &i) && execute(c, &i)) {
        c->uc_mcontext.gregs[REG_RIP] += i.length;
        count++;
        return;
    }
    /* Restores the previous action and returns to the instruction, which raises SIGILL once
     * more. */
    sigaction(number, &previous_action, NULL);
}

bool amx_emulate(void)
{
    struct sigaction a = { .sa_sigaction = handle_illegal, .sa_flags = SA_SIGINFO | SA_NODEFER };

    sigemptyset(&a.sa_mask);
    return sigaction(SIGILL, &a, &previous_action) == 0;
}
#else
static __thread long count;

bool amx_emulate(void)
{
    return false;
}
#endif

long amx_emulated(void)
{
    return count;
}
