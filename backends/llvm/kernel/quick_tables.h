/* SPDX-License-Identifier: BSD-3-Clause
 * Made by tools/functions/coefficients.py --quick: do not edit.  Highest powers first. */
#ifndef LIMBER_QUICK_TABLES_H
#define LIMBER_QUICK_TABLES_H

/* polynomial in r for (e^r - 1 - r) / r^2, |r| <= log(2) / 2; relative error 2^-43.9 */
#define FN_QUICK_EXP(F) \
    F(0x1.72ad3ae3ed777p-19) \
    F(0x1.a136b06babd51p-16) \
    F(0x1.a019c3721fb3ep-13) \
    F(0x1.6c166be75a859p-10) \
    F(0x1.111111170ad56p-7) \
    F(0x1.55555565c559fp-5) \
    F(0x1.5555555554f97p-3) \
    F(0x1.fffffffffe069p-2)

/* polynomial in x^2 for (1/2 - Q(x)) / x, |x| <= 1, Q the normal tail; relative error 2^-43.1 */
#define FN_QUICK_NORMAL(F) \
    F(-0x1.1c84a061c1b9dp-25) \
    F(0x1.5ebdb25965fc7p-21) \
    F(-0x1.3c8eadc7dcb9ap-17) \
    F(0x1.e425d16ae2063p-14) \
    F(-0x1.37402a3e34962p-10) \
    F(0x1.46d0424308124p-7) \
    F(-0x1.1058377dac9c5p-4) \
    F(0x1.9884533d4324ep-2)

/* polynomial in (x-4)/(x+4) for Q(x) e^(x^2/2) (x + 1), 1 <= x <= 14.5; relative error 2^-45.3 */
#define FN_QUICK_TAIL(F) \
    F(-0x1.18395091b9704p-19) \
    F(-0x1.8bdb901f50f9ap-19) \
    F(0x1.c250f50f1f804p-17) \
    F(0x1.609e65af18312p-16) \
    F(-0x1.705339cde22d5p-14) \
    F(-0x1.8bd45c708476bp-14) \
    F(0x1.6c532a6b13d68p-11) \
    F(-0x1.2b81640cd02cap-12) \
    F(-0x1.47d5fcd1818dep-8) \
    F(0x1.25dd7292960fdp-6) \
    F(-0x1.07c3c255bd66bp-5) \
    F(0x1.d4969f0caa51fp-6) \
    F(0x1.cabd72a5c3532p-7) \
    F(-0x1.8c18f2086bdebp-4) \
    F(0x1.e361ea6fba169p-2)

#endif
