# SPDX-License-Identifier: BSD-3-Clause
"""Estimates the times of whole products on an H200 and on a B200: estimate.py [PAGE] prints rows
of a Markdown table or, if there is a page, fails if one of them is not in it.

A time is the sum of the times of the products, of the scan, of the limbs and of C's reconstruction.
On the B200, L2 limits the rates of products (docs/measured/gpu-estimates.md): it gives 24 to 32
bytes a clock of the 64 that tiles of INT8 and of FP32-F need.

Instructions are counted in machine code for sm_90a (sass.py); those of loops count once for each
turn.  Dense operands are loaded 16 bytes at once: 86 instructions for eight elements of binary32,
103 for those of binary64.  (An element that is loaded alone takes about 60 of the 1,006
instructions that serve any layout.)"""
import sys

class H200:
    """Rates of an H200.  Pairs of rates are a low and a high estimate."""
    LANES = 132 * 128 * 1.75e9  # instructions of lanes a second, at four warps a clock
    BYTES = 4.3e12              # of memory a second
    INT8 = 1.2e15, 1.4e15       # operations a second at the power limit, least and most
    FP16 = 0.6e15, 0.7e15
    DGEMM, SGEMM = 59e12, 52e12


class B200:
    """Rates of a B200."""
    LANES = 148 * 128 * 1.85e9
    BYTES = 7e12
    INT8 = tuple(148 * 1.85e9 * 2 * 8192 * x / 64 for x in (24, 32))
    FP16 = tuple(x / 2 for x in INT8)
    DGEMM, SGEMM = 33e12, 63e12


SCAN = 457 / 8                  # of an element of A or B, where tiles are not asked for
MODULI = 16
LIMBS_F64 = ((360 + 270 / 4 + MODULI * 58) + (360 + 270 / 4 + MODULI * 56)) / 16
C_F64 = (550 + 2 * 240) / 4     # normal numbers, in rows; FP64 has half of the lanes
LIMBS_FP32_F = (170 + 254 / 4) / 8
F64 = (SCAN, 8), (LIMBS_F64, 8 + MODULI), (C_F64, MODULI + 8)
FP32_F = (0, 0), (LIMBS_FP32_F, 4 + 2 * 2), (0, 0)


def row(name, n, products, rates, work, rival, d):
    """Milliseconds.  work: instructions and bytes of an element of the scan, limbs and C."""
    times = [products * 2 * n**3 / rate * 1e3 for rate in reversed(rates)]
    rest = [elements * max(instructions / d.LANES, size / d.BYTES) * 1e3
            for elements, (instructions, size) in zip((2 * n**2, 2 * n**2, n**2), work)]
    sums = [t + sum(rest) for t in times]
    other = 2 * n**3 / rival * 1e3
    return (f"| {name} | {n} | {times[0]:.2f} – {times[1]:.2f} | {rest[0]:.2f} | {rest[1]:.2f} | "
            f"{rest[2]:.2f} | {sums[0]:.2f} – {sums[1]:.2f} | {other:.2f} | "
            f"{other / sums[1]:.2f} – {other / sums[0]:.2f} |")


def main():
    rows = []
    for d, sizes in (H200, (2048, 4096, 8192, 16384)), (B200, (4096, 8192, 16384)):
        rows += [row("FP64 `correct`, 16 moduli", n, MODULI, d.INT8, F64, d.DGEMM, d)
                 for n in sizes]
        rows += [row("FP32-F, limbs ahead", n, 3, d.FP16, FP32_F, d.SGEMM, d) for n in sizes[:-1]]
    if len(sys.argv) == 1:
        print("\n".join(rows))
        return
    with open(sys.argv[1], encoding="utf-8") as page:
        text = page.read()
    missing = [r for r in rows if r not in text]
    if missing:
        sys.exit("not in " + sys.argv[1] + ":\n" + "\n".join(missing))


main()
