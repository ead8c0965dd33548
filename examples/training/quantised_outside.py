# SPDX-License-Identifier: BSD-3-Clause
"""How far simulators that quantise operands and results alone are from a low-precision accumulator.

Products of n x n matrices in FP8: by a unit whose every product and sum is rounded, and as
simulators do that round operands and result and leave the sums to FP32 (QPyTorch, where it is
installed; else limber.quantize does the same).  Printed are mean distances of elements from the
unit's.

    python quantised_outside.py --sizes 64,128,256,512,1024,2048 --picture distance.svg

Source: Huang et al., LPGEMM, 2024, figure 4, where an FPGA stands for the unit."""
import argparse
import json
import time

import torch

import limber
import limber.torch
from limber.chart import chart, writable

try:
    from qtorch.quant import float_quantize
except Exception:       # it is not there, or cannot compile itself
    float_quantize = None


def outside(a, b):
    """Operands and result in e5m2, sums in FP32."""
    if float_quantize:
        def round(x):
            return float_quantize(x, 5, 2, "nearest")
    else:
        def round(x):
            return torch.from_numpy(limber.quantize(x.numpy(), "e5m2"))
    return round(round(a) @ round(b))


def numbers(text):
    """For argparse's `type`: whole numbers from 1 on, with commas between."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


numbers.__name__ = "list of numbers"       # as argparse calls it


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--sizes", type=numbers, default="64,128,256,512,1024",
                   help="(64,128,256,512,1024)")
    p.add_argument("--groups", type=numbers, default="1,16", help="products in a group (1,16)")
    p.add_argument("--json", action="store_true", help="one object for each size and group")
    p.add_argument("--picture", type=writable, metavar="FILE.svg", help="draw the distances")
    chosen = p.parse_args()
    by = "QPyTorch" if float_quantize else "limber.quantize"
    sizes, groups = chosen.sizes, chosen.groups
    named = {g: f"{by}, groups of {g}" if g > 1 else f"{by}, no groups" for g in groups}
    series = {name: [] for name in named.values()}
    if not chosen.json:
        print(f"   n  group  distance of {by}  mean of |C|  seconds: unit, {by}")
    for n in sizes:
        torch.manual_seed(n)
        a, b = torch.randn(n, n), torch.randn(n, n)
        outside(a, b)
        start = time.perf_counter()
        ideal = outside(a, b)
        theirs = time.perf_counter() - start
        for group in groups:
            unit = f"in=e5m2 mul=e5m2 acc=e5m2 group={group}"
            limber.torch.matmul(a, b, unit=unit)
            start = time.perf_counter()
            real = limber.torch.matmul(a, b, unit=unit)
            ours = time.perf_counter() - start
            distance = (ideal - real).abs().mean().item()
            size = real.abs().mean().item()
            series[named[group]].append(distance)
            if chosen.json:
                print(json.dumps({"n": n, "group": group, "distance": distance, "size": size,
                                  "seconds_unit": ours, "seconds_outside": theirs, "by": by}))
            else:
                print(f"{n:4}  {group:5}  {distance:{12 + len(by)}.3f}  {size:11.3f}  "
                      f"{ours:.4f}, {theirs:.4f}")
    if chosen.picture:
        chart(chosen.picture, "Quantised outside alone: distance from a unit with FP8 sums", "n",
              "mean distance of an element", sizes, series, lines=True)


main()
