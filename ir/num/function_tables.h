/* SPDX-License-Identifier: BSD-3-Clause
 * Made by tools/functions/coefficients.py: do not edit.  Highest powers first. */
#ifndef LIMBER_FUNCTION_TABLES_H
#define LIMBER_FUNCTION_TABLES_H

/* log 2 as a sum: the product of the first part and an exponent is exact */
#define FN_LN2_0 0x1.62e42fefa2000p-1
#define FN_LN2_1 0x1.9ef35793c7673p-41

/* 1 / log 2 */
#define FN_LOG2E_0 0x1.71547652b82fep+0
#define FN_LOG2E_1 0x1.777d0ffda0d24p-56

/* 1 / log 10 */
#define FN_LOG10E_0 0x1.bcb7b1526e50ep-2
#define FN_LOG10E_1 0x1.95355baaafad3p-57

/* log 2 / log 10 as a sum: the product of the first part and an exponent is exact */
#define FN_LOG10_2_0 0x1.34413509f6000p-2
#define FN_LOG10_2_1 0x1.9fef311f12b36p-42

/* pi / 2 as a sum: products of the first two parts and 20-bit numbers are exact */
#define FN_HALF_PI_0 0x1.921fb54400000p+0
#define FN_HALF_PI_1 0x1.0b4611a600000p-34
#define FN_HALF_PI_2 0x1.3198a2e037073p-69

/* pi / 2 */
#define FN_QUARTER_TURN_0 0x1.921fb54442d18p+0
#define FN_QUARTER_TURN_1 0x1.1a62633145c07p-54

/* pi / 4 */
#define FN_EIGHTH_TURN_0 0x1.921fb54442d18p-1
#define FN_EIGHTH_TURN_1 0x1.1a62633145c07p-55

/* 2 / pi */
#define FN_TWO_OVER_PI_0 0x1.45f306dc9c883p-1

/* 2 sqrt(2 / pi) */
#define FN_GELU_LINE_0 0x1.9884533d43651p+0
#define FN_GELU_LINE_1 -0x1.cbc0d30ebfd15p-54

/* 2 sqrt(2 / pi) 0.044715 */
#define FN_GELU_CUBE_0 0x1.2444f2a4d8b4bp-4
#define FN_GELU_CUBE_1 -0x1.6c843a29d1c70p-61

/* Taylor polynomial in r for (e^r - 1 - r) / r^2, |r| <= log(2) / 2; error below 2^-57 */
#define FN_EXP(F) \
    F(0x1.6124613a86d09p-33) \
    F(0x1.1eed8eff8d898p-29) \
    F(0x1.ae64567f544e4p-26) \
    F(0x1.27e4fb7789f5cp-22) \
    F(0x1.71de3a556c734p-19) \
    F(0x1.a01a01a01a01ap-16) \
    F(0x1.a01a01a01a01ap-13) \
    F(0x1.6c16c16c16c17p-10) \
    F(0x1.1111111111111p-7) \
    F(0x1.5555555555555p-5) \
    F(0x1.5555555555555p-3) \
    F(0x1.0000000000000p-1)

/* Taylor polynomial in r^2 for (sin r - r) / r^3, |r| <= pi / 4; error below 2^-63 */
#define FN_SIN(F) \
    F(0x1.952c77030ad4ap-49) \
    F(-0x1.ae7f3e733b81fp-41) \
    F(0x1.6124613a86d09p-33) \
    F(-0x1.ae64567f544e4p-26) \
    F(0x1.71de3a556c734p-19) \
    F(-0x1.a01a01a01a01ap-13) \
    F(0x1.1111111111111p-7) \
    F(-0x1.5555555555555p-3)

/* Taylor polynomial in r^2 for (cos r - 1) / r^2, |r| <= pi / 4; error below 2^-58 */
#define FN_COS(F) \
    F(0x1.ae7f3e733b81fp-45) \
    F(-0x1.93974a8c07c9dp-37) \
    F(0x1.1eed8eff8d898p-29) \
    F(-0x1.27e4fb7789f5cp-22) \
    F(0x1.a01a01a01a01ap-16) \
    F(-0x1.6c16c16c16c17p-10) \
    F(0x1.5555555555555p-5) \
    F(-0x1.0000000000000p-1)

/* Taylor polynomial in x^2 for (sinh x - x) / x^3, |x| <= 1; error below 2^-61 */
#define FN_SINH(F) \
    F(0x1.2f49b46814157p-57) \
    F(0x1.952c77030ad4ap-49) \
    F(0x1.ae7f3e733b81fp-41) \
    F(0x1.6124613a86d09p-33) \
    F(0x1.ae64567f544e4p-26) \
    F(0x1.71de3a556c734p-19) \
    F(0x1.a01a01a01a01ap-13) \
    F(0x1.1111111111111p-7) \
    F(0x1.5555555555555p-3)

/* Taylor polynomial in x^2 for (cosh x - 1) / x^2, |x| <= 1; error below 2^-61 */
#define FN_COSH(F) \
    F(0x1.6827863b97d97p-53) \
    F(0x1.ae7f3e733b81fp-45) \
    F(0x1.93974a8c07c9dp-37) \
    F(0x1.1eed8eff8d898p-29) \
    F(0x1.27e4fb7789f5cp-22) \
    F(0x1.a01a01a01a01ap-16) \
    F(0x1.6c16c16c16c17p-10) \
    F(0x1.5555555555555p-5) \
    F(0x1.0000000000000p-1)

/* Taylor polynomial in x^2 for ((x cosh x - sinh x) / x^3 - cosh x / 3) / x^2, |x| <= 1 */
#define FN_SHRINK(F) \
    F(-0x1.dc9864a38d464p-55) \
    F(-0x1.1c55192192d42p-46) \
    F(-0x1.09e52e19ff1b9p-38) \
    F(-0x1.78af56a4d411bp-31) \
    F(-0x1.823fca5803742p-24) \
    F(-0x1.0cfeb60f94b0ep-17) \
    F(-0x1.ce55c8eac7900p-12) \
    F(-0x1.a01a01a01a01ap-7) \
    F(-0x1.1111111111111p-3)

/* Taylor polynomial in x^2 for (1/2 - Q(x)) / x, |x| <= 1, Q the normal tail; error 2^-56 */
#define FN_NORMAL(F) \
    F(0x1.6354d1ae7b14dp-57) \
    F(-0x1.4df215a78901cp-52) \
    F(0x1.25098c9a0d57fp-47) \
    F(-0x1.ddc738b863ab4p-43) \
    F(0x1.67c1700ad73d2p-38) \
    F(-0x1.f107e1883d947p-34) \
    F(0x1.3878b823c4d4ep-29) \
    F(-0x1.62226a4aabe03p-25) \
    F(0x1.658a2177b2739p-21) \
    F(-0x1.3ce8fac15e2c4p-17) \
    F(0x1.e42b0d5216fc8p-14) \
    F(-0x1.37403f6ba1100p-10) \
    F(0x1.46d04297691dap-7) \
    F(-0x1.1058377e2cee0p-4) \
    F(0x1.9884533d43651p-2)

/* polynomial in s^2 for (log((1 + s) / (1 - s)) - 2 s) / s^3; relative error 2^-60.7 */
#define FN_LOG(F) \
    F(0x1.0c039c499c633p-3) \
    F(0x1.0fbe95d715975p-3) \
    F(0x1.3b1c355a8f7edp-3) \
    F(0x1.745cf9048dd94p-3) \
    F(0x1.c71c720159177p-3) \
    F(0x1.2492492476cccp-2) \
    F(0x1.9999999999a38p-2) \
    F(0x1.5555555555555p-1)

/* polynomial in u^2 for (atan u - u) / u^3; relative error 2^-58.3 */
#define FN_ATAN(F) \
    F(0x1.0ad36a4557232p-6) \
    F(-0x1.1b33b923a7d77p-5) \
    F(0x1.74ddd408ba1e8p-5) \
    F(-0x1.ac7a938b697f5p-5) \
    F(0x1.e19a13b9fc629p-5) \
    F(-0x1.110e880a7a518p-4) \
    F(0x1.3b1392d9e785bp-4) \
    F(-0x1.745d165df3f95p-4) \
    F(0x1.c71c71c304b68p-4) \
    F(-0x1.249249248d7eep-3) \
    F(0x1.9999999999953p-3) \
    F(-0x1.5555555555555p-2)

/* polynomial in x^2 for (asin x - x) / x^3; relative error 2^-57.4 */
#define FN_ASIN(F) \
    F(0x1.d72b2bc820f11p-6) \
    F(-0x1.e6aaa8a0c45bdp-7) \
    F(0x1.1d1894083dab2p-6) \
    F(0x1.65a9c4dfbbf0ap-8) \
    F(0x1.52420b04b5f84p-7) \
    F(0x1.782651caa5e8bp-7) \
    F(0x1.c9cf076747430p-7) \
    F(0x1.1c4d35cf95419p-6) \
    F(0x1.6e8bb1c8209a2p-6) \
    F(0x1.f1c71c1db0623p-6) \
    F(0x1.6db6db6e31f13p-5) \
    F(0x1.3333333332ecap-4) \
    F(0x1.5555555555556p-3)

/* polynomial in x^2 for (asinh x - x) / x^3; relative error 2^-58.5 */
#define FN_ASINH(F) \
    F(0x1.3aea190ec2723p-10) \
    F(-0x1.c4d1e35fa9b25p-9) \
    F(0x1.6b898216e9da7p-8) \
    F(-0x1.cf0b874119cbap-8) \
    F(0x1.115bdce54bc98p-7) \
    F(-0x1.3fa631285b55bp-7) \
    F(0x1.7a81f729025e6p-7) \
    F(-0x1.c9993672d2f96p-7) \
    F(0x1.1c4ec2917266dp-6) \
    F(-0x1.6e8ba2d619e4dp-6) \
    F(0x1.f1c71c716e95ap-6) \
    F(-0x1.6db6db6db66d6p-5) \
    F(0x1.3333333333330p-4) \
    F(-0x1.5555555555555p-3)

/* polynomial in (x-4)/(x+4) for Q(x) e^(x^2/2) (x + 1), x >= 1; relative error 2^-54.5 */
#define FN_TAIL(F) \
    F(-0x1.7872e7ec27ac7p-30) \
    F(-0x1.6fca9c67ed64dp-29) \
    F(0x1.f52ec5274949dp-26) \
    F(-0x1.75f4e4e5643a2p-27) \
    F(-0x1.1ba50c4130240p-23) \
    F(0x1.aab42af1ed33ep-31) \
    F(0x1.312285539e2c0p-21) \
    F(0x1.aec182a31c4c2p-22) \
    F(-0x1.5fa7572df7139p-19) \
    F(-0x1.cc5dc147ac150p-19) \
    F(0x1.c94e624bbab75p-17) \
    F(0x1.648153a72bf95p-16) \
    F(-0x1.707bfe89affefp-14) \
    F(-0x1.8c11958041c68p-14) \
    F(0x1.6c5383f9c3edap-11) \
    F(-0x1.2b7f5eabeea49p-12) \
    F(-0x1.47d5fc762a465p-8) \
    F(0x1.25dd72062395fp-6) \
    F(-0x1.07c3c2582a32cp-5) \
    F(0x1.d4969f10df33dp-6) \
    F(0x1.cabd72a60f774p-7) \
    F(-0x1.8c18f2086e344p-4) \
    F(0x1.e361ea6fba141p-2)

/* 2 / pi: 64-bit words of the bits after the point, the highest first */
/* clang-format off */
#define FN_TWO_OVER_PI_WORDS \
    0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u, \
    0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u, \
    0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu, \
    0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu, \
    0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu, 0xf0cfbc209af4361du
/* clang-format on */

#endif
