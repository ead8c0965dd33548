/* SPDX-License-Identifier: BSD-3-Clause
 * Relocations by the object loader are compared with encodings by GNU ld 2.40 for the same
 * addresses. Also relocations that must be refused, such as those for which a linker inserts a
 * veneer or drops low bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support.h"

#include "backends/llvm/reloc.h"

#include <elf.h>
#include <string.h>

enum { PLACE = 0x10004 };

/* Instructions before and after relocation. after = -1: the relocation must be refused. */
static const struct {
    uint16_t machine;
    uint32_t kind;
    uint64_t target, before;
    int64_t after;
} cases[] = {
    /* instructions bl, b */
    { EM_AARCH64, R_AARCH64_CALL26, PLACE + 0x1000, 0x94000000, 0x94000400 },
    { EM_AARCH64, R_AARCH64_CALL26, PLACE - 4, 0x94000000, 0x97ffffff },
    { EM_AARCH64, R_AARCH64_CALL26, PLACE + 0x7fffffc, 0x94000000, 0x95ffffff },
    { EM_AARCH64, R_AARCH64_CALL26, PLACE + 0x8000000, 0x94000000, -1 },
    { EM_AARCH64, R_AARCH64_CALL26, PLACE - 0x8000000ll, 0x94000000, 0x96000000 },
    { EM_AARCH64, R_AARCH64_CALL26, PLACE - 0x8000004ll, 0x94000000, -1 },
    { EM_AARCH64, R_AARCH64_CALL26, PLACE + 2, 0x94000000, -1 },
    { EM_AARCH64, R_AARCH64_JUMP26, PLACE + 8, 0x14000000, 0x14000002 },
    /* instructions cbz x1, b.ne, tbz w0,#0 */
    { EM_AARCH64, R_AARCH64_CONDBR19, PLACE + 16, 0xb4000001, 0xb4000081 },
    { EM_AARCH64, R_AARCH64_CONDBR19, PLACE - 16, 0x54000001, 0x54ffff81 },
    { EM_AARCH64, R_AARCH64_CONDBR19, PLACE + 0x100000, 0x54000001, -1 },
    { EM_AARCH64, R_AARCH64_TSTBR14, PLACE + 32, 0x36000000, 0x36000100 },
    { EM_AARCH64, R_AARCH64_TSTBR14, PLACE - 0x8000, 0x36000000, 0x36040000 },
    { EM_AARCH64, R_AARCH64_TSTBR14, PLACE + 0x8000, 0x36000000, -1 },
    /* instructions adrp x0; adr x3; ldr x2, label */
    { EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x11fff, 0x90000000, 0xb0000000 },
    { EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x12000, 0x90000000, 0xd0000000 },
    { EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x0f000, 0x90000000, 0xf0ffffe0 },
    { EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x100010000, 0x90000000, -1 },
    { EM_AARCH64, R_AARCH64_ADR_PREL_LO21, PLACE + 5, 0x10000003, 0x30000023 },
    { EM_AARCH64, R_AARCH64_ADR_PREL_LO21, PLACE - 1, 0x10000003, 0x70ffffe3 },
    { EM_AARCH64, R_AARCH64_LD_PREL_LO19, PLACE + 8, 0x58000002, 0x58000042 },
    /* instructions add x0, x0; ldrb, ldrh, ldr w, ldr x, ldr q */
    { EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, 0x12abc, 0x91000000, 0x912af000 },
    { EM_AARCH64, R_AARCH64_LDST8_ABS_LO12_NC, 0x12abc, 0x39400001, 0x396af001 },
    { EM_AARCH64, R_AARCH64_LDST16_ABS_LO12_NC, 0x12abc, 0x79400001, 0x79557801 },
    { EM_AARCH64, R_AARCH64_LDST32_ABS_LO12_NC, 0x12abc, 0xb9400001, 0xb94abc01 },
    { EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, 0x12ab8, 0xf9400001, 0xf9455c01 },
    { EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, 0x12ab0, 0x3dc00001, 0x3dc2ac01 },
    { EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, 0x12ab8, 0x3dc00001, -1 },
    /* instructions movz, movk */
    { EM_AARCH64, R_AARCH64_MOVW_UABS_G0_NC, 0x123456789abcdef0, 0xf2800000, 0xf29bde00 },
    { EM_AARCH64, R_AARCH64_MOVW_UABS_G1_NC, 0x123456789abcdef0, 0xf2a00000, 0xf2b35780 },
    { EM_AARCH64, R_AARCH64_MOVW_UABS_G2_NC, 0x123456789abcdef0, 0xf2c00000, 0xf2cacf00 },
    { EM_AARCH64, R_AARCH64_MOVW_UABS_G3, 0x123456789abcdef0, 0xd2e00000, 0xd2e24680 },
    { EM_AARCH64, R_AARCH64_MOVW_UABS_G0, 0x10000, 0xd2800000, -1 },
    /* data words */
    { EM_AARCH64, R_AARCH64_ABS64, 0x123456789abcdef0, 0, 0x123456789abcdef0 },
    { EM_AARCH64, R_AARCH64_PREL32, PLACE - 4, 0, 0xfffffffc },
    { EM_AARCH64, R_AARCH64_PREL32, PLACE + 0x80000000ll, 0, -1 },
    { EM_AARCH64, R_AARCH64_PREL64, PLACE - 4, 0, -4 },
    { EM_X86_64, R_X86_64_PC32, PLACE - 4, 0, 0xfffffffc },
    { EM_X86_64, R_X86_64_PLT32, PLACE + 0x7fffffffll, 0, 0x7fffffff },
    { EM_X86_64, R_X86_64_PC32, PLACE + 0x80000000ll, 0, -1 },
    { EM_X86_64, R_X86_64_64, 0x123456789abcdef0, 0, 0x123456789abcdef0 },
};

/* Each relocation of the list changes the instruction as a linker would, or is refused without a
 * change. */
static void relocations_are_those_of_the_linker(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct relocation r = { cases[i].machine, cases[i].kind, PLACE, cases[i].target };
        unsigned width = limber_relocation_width(r.machine, r.kind);
        uint64_t got = cases[i].before, kept = got;
        bool ok;

        assert_true(width == 4 || width == 8);
        ok = limber_relocation_apply(&r, (unsigned char *)&got);
        if (!ok && got != kept)
            fail_msg("case %zu was refused, and patched", i);
        if (ok ? (int64_t)got != cases[i].after && cases[i].after != -1 : cases[i].after != -1)
            fail_msg("case %zu, kind %u: %s %llx", i, r.kind, ok ? "became" : "refused",
                     (unsigned long long)got);
        if (ok && cases[i].after == -1)
            fail_msg("case %zu, kind %u: not refused", i, r.kind);
        /* a second relocation must replace the bits of the first */
        if (ok) {
            kept = got;
            assert_true(limber_relocation_apply(&r, (unsigned char *)&got));
            assert_true(got == kept);
        }
    }
}

/* The width of relocations that the loader does not know is 0. */
static void unknown_relocations_have_no_width(void **state)
{
    (void)state;
    assert_int_equal(limber_relocation_width(EM_AARCH64, R_AARCH64_ADR_GOT_PAGE), 0);
    assert_int_equal(limber_relocation_width(EM_AARCH64, R_AARCH64_TLSLE_ADD_TPREL_HI12), 0);
    assert_int_equal(limber_relocation_width(EM_X86_64, R_AARCH64_CALL26), 0);
    assert_int_equal(limber_relocation_width(EM_AARCH64, R_X86_64_PC32), 0);
    assert_int_equal(limber_relocation_width(EM_386, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relocations_are_those_of_the_linker),
        cmocka_unit_test(unknown_relocations_have_no_width),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
