# SPDX-License-Identifier: BSD-3-Clause
"""How far simulators that quantise operands and results alone are from a low-precision accumulator.

The program multiplies n x n matrices in FP8 by a unit that rounds every product and every sum, and
by simulators that compute sums in FP32.  One simulator is QPyTorch, which rounds operands and
results.  If QPyTorch is not installed, limber.quantize takes its place; up to the largest number,
57344, it rounds like QPyTorch: to nearest, ties away from zero.  The other simulator is
microxcaling, whose operands have block scales (OCP's MX).  It is used if it is installed or in a
folder of PYTHONPATH.  The program prints the mean distance of elements from the unit's.  --steps
measures a training step of a small network by each of them.

    python quantised_outside.py --sizes 64,128,256,512,1024,2048 --picture distance.svg
    python quantised_outside.py --sizes 64 --steps 30

Source: Huang et al., LPGEMM, 2024, figure 4, where an FPGA stands for the unit."""
import argparse
import contextlib
import json
import os
import time
import warnings

import torch

import limber
import limber.torch
from limber.chart import chart, writable

try:
    from qtorch import FloatingPoint
    from qtorch.quant import Quantizer, float_quantize
except Exception:       # QPyTorch is absent, or cannot compile its extension
    float_quantize = None
try:
    import mx
    MX = mx.finalize_mx_specs({
        "w_elem_format": "fp8_e5m2", "a_elem_format": "fp8_e5m2", "block_size": 32, "bfloat": 0,
        "round": "even", "custom_cuda": False, "quantize_backprop": True})
except ImportError:
    mx = None
warnings.filterwarnings("ignore", module="mx")

SUMS = "mul=e5m2 acc=e5m2"      # how the unit rounds products and sums
# operands of the unit: without scales, and with block scales like those of microxcaling
PLAIN, SCALED = "in=e5m2", "in=e5m2:sat scale=e8m0:32:floor"


def rounded(x):
    """Rounds x to e5m2 as QPyTorch does."""
    if float_quantize:
        return float_quantize(x, 5, 2, "nearest")
    return torch.from_numpy(limber.quantize(x.numpy(), "e5m2", rounding="away"))


# simulator: (operands of the unit that it is compared to, function of its product)
PEERS = {"QPyTorch" if float_quantize else "limber.quantize":
         (PLAIN, lambda a, b: rounded(rounded(a) @ rounded(b)))}
if mx:
    PEERS["microxcaling"] = SCALED, lambda a, b: mx.matmul(a, b, mx_specs=MX)


def timed(function, *args, **options):
    """Calls the function twice; returns (result, seconds) of the second call."""
    function(*args, **options)
    start = time.perf_counter()
    made = function(*args, **options)
    return made, time.perf_counter() - start


def distances(sizes, groups):
    """Yields a dictionary for each size, simulator and group: the mean distance of the simulator's
    product from the unit's, the mean magnitude of the unit's, and both times."""
    for n in sizes:
        torch.manual_seed(n)
        a, b = torch.randn(n, n), torch.randn(n, n)
        for by, (operands, outside) in PEERS.items():
            ideal, theirs = timed(outside, a, b)
            for group in groups:
                real, ours = timed(limber.torch.matmul, a, b,
                                   unit=f"{operands} {SUMS} group={group}")
                yield {"n": n, "group": group, "by": by,
                       "distance": (ideal - real).abs().mean().item(),
                       "size": real.abs().mean().item(), "seconds_unit": ours,
                       "seconds_outside": theirs}


# ---- a training step ----------------------------------------------------------------------------

class Quantised(torch.nn.Module):
    """A layer wrapped in QPyTorch's roundings of its input and output, forward and backward."""

    def __init__(self, layer):
        super().__init__()
        number = FloatingPoint(5, 2)
        self.layer, self.round = layer, Quantizer(number, number, "nearest", "nearest")

    def forward(self, x):
        return self.round(self.layer(self.round(x)))


def network(conv=torch.nn.Conv2d, linear=torch.nn.Linear, around=lambda layer: layer):
    """Returns a network for MNIST; `around` is applied to each layer."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        around(conv(1, 8, 3, stride=2, padding=1)), torch.nn.ReLU(),
        around(conv(8, 16, 3, stride=2, padding=1)), torch.nn.ReLU(),
        torch.nn.Flatten(), around(linear(16 * 49, 10)))


def ways():
    """Returns {name: (network, limber.torch.inject's configuration or None, whether QPyTorch rounds
    weights and gradients)}."""
    found = {"PyTorch, FP32": (network(), None, False)}
    if float_quantize:
        found["QPyTorch"] = network(around=Quantised), None, True
    if mx:
        found["microxcaling"] = network(lambda *x, **y: mx.Conv2d(*x, **y, mx_specs=MX),
                                        lambda *x: mx.Linear(*x, mx_specs=MX)), None, False
    for unit in f"{PLAIN} {SUMS} group=16", f"{SCALED} {SUMS} group=16", "h100-e5m2":
        found[unit] = network(), unit, False
    return found


def step(net, optimizer, images, labels, rounds):
    """Runs a training step; rounds: weights and gradients are rounded, as QPyTorch does."""
    if rounds:
        for p in net.parameters():
            p.data = rounded(p.data)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(images), labels).backward()
    if rounds:
        for p in net.parameters():
            p.grad.data = rounded(p.grad.data)
    optimizer.step()


def steps(count):
    """Runs `count` training steps in each of ways().  Ways take turns, so that other load affects
    all of them alike.  Returns {way: seconds of its fastest step}."""
    torch.manual_seed(2)
    images, labels = torch.randn(100, 1, 28, 28), torch.randint(10, (100,))
    best = {}
    with contextlib.ExitStack() as injected:
        made = []
        for name, (net, config, rounds) in ways().items():
            if config:
                injected.enter_context(limber.torch.inject(net, config))
            made.append((name, net, torch.optim.SGD(net.parameters(), lr=0.01), rounds))
        for turn in range(count + 1):       # the first turn compiles kernels and does not count
            for name, net, optimizer, rounds in made:
                start = time.perf_counter()
                step(net, optimizer, images, labels, rounds)
                seconds = time.perf_counter() - start
                if turn:
                    best[name] = min(best.get(name, seconds), seconds)
    return best


def numbers(text):
    """A type for argparse: integers from 1 on, separated by commas."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


numbers.__name__ = "list of numbers"       # name in argparse's messages


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--sizes", type=numbers, default="64,128,256,512,1024",
                   help="(64,128,256,512,1024)")
    p.add_argument("--groups", type=numbers, default="1,16", help="products in a group (1,16)")
    p.add_argument("--steps", type=int, default=0, metavar="N",
                   help="measure training steps, the fastest of N")
    p.add_argument("--threads", type=int, metavar="N", help="of PyTorch and of Limber")
    p.add_argument("--json", action="store_true", help="one object for each row")
    p.add_argument("--picture", type=writable, metavar="FILE.svg", help="draw the distances")
    chosen = p.parse_args()
    if chosen.steps < 0:
        p.error("--steps: a whole number from 0 on")
    if chosen.threads is not None:
        if not 1 <= chosen.threads <= 1024:
            p.error("--threads: a whole number from 1 to 1024")
        torch.set_num_threads(chosen.threads)
        os.environ["LIMBER_THREADS"] = str(chosen.threads)
    if not chosen.json:
        print("   n  group  quantised outside by  distance  mean of |C|  seconds: unit, outside")
    series = {}
    for row in distances(chosen.sizes, chosen.groups):
        name = f"{row['by']}, " + (f"groups of {row['group']}" if row["group"] > 1 else "no groups")
        series.setdefault(name, []).append(row["distance"])
        if chosen.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{row['n']:4}  {row['group']:5}  {row['by']:20}  {row['distance']:8.3f}  "
                  f"{row['size']:11.3f}  {row['seconds_unit']:.4f}, {row['seconds_outside']:.4f}",
                  flush=True)
    if chosen.steps:
        best = steps(chosen.steps)
        if not chosen.json:
            print("\nms a training step")
        for name, seconds in best.items():
            print(json.dumps({"by": name, "seconds": seconds}) if chosen.json
                  else f"{1000 * seconds:6.2f}  {name}")
    if chosen.picture:
        chart(chosen.picture, "Quantised outside alone: distance from a unit with FP8 sums", "n",
              "mean distance of an element", chosen.sizes, series, lines=True)


main()
