#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints ir/num/function_tables.h: the polynomials and constants of ir/num/functions.h; with
--quick backends/llvm/kernel/quick_tables.h, shorter polynomials for results in binary32.

Needs mpmath.  Polynomials interpolate at Chebyshev nodes in 60 digits, which is within a factor of
two of the best polynomial; the error that is printed is the largest one, relative to the function
that the polynomial is part of.

example: tools/functions/coefficients.py > ir/num/function_tables.h
"""
import sys

from mpmath import (asin, asinh, atan, atanh, cos, erf, erfc, exp, factorial, floor,
                    log, mp, mpf, pi, sqrt)

mp.dps = 60


def interpolate(f, low, high, degree):
    """Coefficients, lowest power first, of the polynomial that interpolates f at Chebyshev nodes of
    [low, high]."""
    n = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * n))
             for i in range(n)]
    table = [f(x) for x in nodes]
    for k in range(1, n):               # Newton's divided differences
        for i in range(n - 1, k - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (nodes[i] - nodes[i - k])
    poly = [mpf(0)]
    for i in range(n - 1, -1, -1):      # poly = poly * (x - node) + table
        poly = [mpf(0)] + poly
        for j in range(len(poly) - 1):
            poly[j] -= nodes[i] * poly[j + 1]
        poly[0] += table[i]
    return poly[:n]


def value(poly, x):
    """Evaluates a polynomial by Horner's rule; its lowest coefficient is the first."""
    y = mpf(0)
    for c in reversed(poly):
        y = y * x + c
    return y


def double(x):
    """Returns the nearest double as a hexadecimal constant."""
    return float(x).hex() if x else "0.0"


def emit(name, what, f, low, high, degree, weight):
    """Prints the coefficients of a polynomial, and its error.  weight(x): relative error of the
    function for a unit error of the polynomial."""
    poly = [mpf(float(c)) for c in interpolate(f, low, high, degree)]
    worst = max(abs((value(poly, x) - f(x)) * weight(x))
                for x in (low + (high - low) * (mpf(i) + mpf(1) / 2) / 400 for i in range(400)))
    print(f"/* {what}; relative error 2^{float(log(worst, 2)):.1f} */")
    print(f"#define FN_{name}(F) \\")
    print(" \\\n".join(f"    F({double(c)})" for c in reversed(poly)))
    print()


def series(name, what, coefficients):
    """Prints coefficients as a C macro that applies F to each, highest power first."""
    print(f"/* {what} */")
    print(f"#define FN_{name}(F) \\")
    print(" \\\n".join(f"    F({double(c)})" for c in reversed(coefficients)))
    print()


def cut(x, bits):
    """Truncates x to its first `bits` significant bits."""
    scale = mpf(2) ** (bits - 1 - int(floor(log(abs(x), 2))))
    return (floor(abs(x) * scale) / scale) * (1 if x > 0 else -1)


def parts(name, what, x, bits):
    """Splits x into constants that sum to x: the i-th has the first bits[i] bits of the remainder,
    the last one is the double nearest to the remainder."""
    print(f"/* {what} */")
    for i, b in enumerate(bits + [53]):
        part = cut(x, b) if b < 53 else mpf(float(x))
        print(f"#define FN_{name}_{i} {double(part)}")
        x -= part
    print()


def mills(t):
    """A factor of the normal distribution's tail, which for x = 4 (1 + t) / (1 - t) is
    e^(-x^2/2) mills(t) / (x + 1)."""
    x = 4 * (1 + t) / (1 - t)
    return erfc(x / sqrt(2)) / 2 * exp(x * x / 2) * (x + 1)


def quick():
    """Prints the header with the short polynomials (--quick) of less exact functions."""
    print("/* SPDX-License-Identifier: BSD-3-Clause")
    print(" * Made by tools/functions/coefficients.py --quick: do not edit.  Highest powers first."
          " */")
    print("#ifndef LIMBER_QUICK_TABLES_H\n#define LIMBER_QUICK_TABLES_H\n")
    half = log(2) / 2
    emit("QUICK_EXP", "polynomial in r for (e^r - 1 - r) / r^2, |r| <= log(2) / 2",
         lambda r: (exp(r) - 1 - r) / (r * r), -half, half, 7, lambda r: r * r / exp(r))
    emit("QUICK_NORMAL", "polynomial in x^2 for (1/2 - Q(x)) / x, |x| <= 1, Q the normal tail",
         lambda z: erf(sqrt(z / 2)) / 2 / sqrt(z), mpf(2) ** -40, mpf(1), 7, lambda z: 2 * z)
    emit("QUICK_TAIL", "polynomial in (x-4)/(x+4) for Q(x) e^(x^2/2) (x + 1), 1 <= x <= 14.5",
         mills, mpf(-3) / 5, mpf(21) / 37, 14, lambda t: 1 / mills(t))
    print("#endif")
    return 0


def main():
    if sys.argv[1:] == ["--quick"]:
        return quick()
    print("/* SPDX-License-Identifier: BSD-3-Clause")
    print(" * Made by tools/functions/coefficients.py: do not edit.  Highest powers first. */")
    print("#ifndef LIMBER_FUNCTION_TABLES_H\n#define LIMBER_FUNCTION_TABLES_H\n")
    parts("LN2",
          "log 2 as a sum: the product of the first part and an exponent is exact", log(2), [40])
    parts("LOG2E", "1 / log 2", 1 / log(2), [53])
    parts("LOG10E", "1 / log 10", 1 / log(10), [53])
    parts("LOG10_2",
          "log 2 / log 10 as a sum: the product of the first part and an exponent is exact",
          log(2) / log(10), [40])
    parts("HALF_PI",
          "pi / 2 as a sum: products of the first two parts and 20-bit numbers are exact", pi / 2,
          [33, 33])
    parts("QUARTER_TURN", "pi / 2", pi / 2, [53])
    parts("EIGHTH_TURN", "pi / 4", pi / 4, [53])
    parts("TWO_OVER_PI", "2 / pi", 2 / pi, [])
    parts("GELU_LINE", "2 sqrt(2 / pi)", 2 * sqrt(2 / pi), [53])
    parts("GELU_CUBE", "2 sqrt(2 / pi) 0.044715", 2 * sqrt(2 / pi) * mpf("0.044715"), [53])

    t = [1 / factorial(n) for n in range(20)]
    series("EXP",
           "Taylor polynomial in r for (e^r - 1 - r) / r^2, |r| <= log(2) / 2; error below 2^-57",
           t[2:14])
    series("SIN",
           "Taylor polynomial in r^2 for (sin r - r) / r^3, |r| <= pi / 4; error below 2^-63",
           [(-1) ** (i + 1) * 1 / factorial(2 * i + 3) for i in range(8)])
    series("COS",
           "Taylor polynomial in r^2 for (cos r - 1) / r^2, |r| <= pi / 4; error below 2^-58",
           [(-1) ** (i + 1) * 1 / factorial(2 * i + 2) for i in range(8)])
    series("SINH", "Taylor polynomial in x^2 for (sinh x - x) / x^3, |x| <= 1; error below 2^-61",
           [1 / factorial(2 * i + 3) for i in range(9)])
    series("COSH", "Taylor polynomial in x^2 for (cosh x - 1) / x^2, |x| <= 1; error below 2^-61",
           [1 / factorial(2 * i + 2) for i in range(9)])
    series("SHRINK",
           "Taylor polynomial in x^2 for ((x cosh x - sinh x) / x^3 - cosh x / 3) / x^2, |x| <= 1",
           [1 / factorial(2 * i + 4) - 1 / factorial(2 * i + 5) - 1 / factorial(2 * i + 2) / 3
            for i in range(9)])
    series("NORMAL",
           "Taylor polynomial in x^2 for (1/2 - Q(x)) / x, |x| <= 1, Q the normal tail; "
           "error 2^-56",
           [(-1) ** n / (sqrt(2 * pi) * factorial(n) * 2 ** n * (2 * n + 1)) for n in range(15)])

    edge = (sqrt(2) - 1) / (sqrt(2) + 1)
    emit("LOG", "polynomial in s^2 for (log((1 + s) / (1 - s)) - 2 s) / s^3",
         lambda z: (2 * atanh(sqrt(z)) - 2 * sqrt(z)) / sqrt(z) ** 3, mpf(2) ** -40, edge ** 2, 7,
         lambda z: z / 2)
    turn = sqrt(2) - 1
    emit("ATAN",
         "polynomial in u^2 for (atan u - u) / u^3",
         lambda z: (atan(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3,
         mpf(2) ** -40, turn ** 2, 11, lambda z: z)
    emit("ASIN",
         "polynomial in x^2 for (asin x - x) / x^3",
         lambda z: (asin(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3,
         mpf(2) ** -40, mpf(1) / 4, 12, lambda z: z)
    emit("ASINH", "polynomial in x^2 for (asinh x - x) / x^3",
         lambda z: (asinh(sqrt(z)) - sqrt(z)) / sqrt(z) ** 3, mpf(2) ** -40, mpf(1) / 4, 13,
         lambda z: z)
    emit("TAIL", "polynomial in (x-4)/(x+4) for Q(x) e^(x^2/2) (x + 1), x >= 1",
         mills, mpf(-3) / 5, mpf(1) - mpf(2) ** -30, 22, lambda t: 1 / mills(t))

    mp.dps = 420
    bits = int(floor(2 / pi * mpf(2) ** 1280))
    print("/* 2 / pi: 64-bit words of the bits after the point, the highest first */")
    print("/* clang-format off */")
    print("#define FN_TWO_OVER_PI_WORDS \\")
    words = [(bits >> (64 * (19 - i))) & (2 ** 64 - 1) for i in range(20)]
    print(", \\\n".join("    " + ", ".join(f"0x{w:016x}u" for w in words[i:i + 4])
                       for i in range(0, 20, 4)))
    print("/* clang-format on */\n\n#endif")
    return 0


if __name__ == "__main__":
    sys.exit(main())
