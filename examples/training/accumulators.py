# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small convolutional network with low-precision products, over accumulators.

All three products of every layer, for the output and for both gradients, are computed on a
simulated unit.  Operands are in FP8, and sums are in accumulators of a few fraction bits, with or
without groups of products.  The program finds the smallest accumulator with which the network still
trains: its mean accuracy is within --loss of that in FP32.  It also prints what the model of Sakr
et al. predicts from the lengths of the sums.

    python accumulators.py --data FOLDER --picture accuracy.svg
    python accumulators.py --data FOLDER --bits 4,6,8 --groups 0,64 --seeds 5

Sources: Huang et al., LPGEMM, 2024; Sakr et al., ICLR 2019: theorem 1, and the limit of the
variance that a sum of length n may lose, exp(n (1 - retention)) < 50."""
import argparse
import gzip
import json
import math
import os
import sys
import time

import torch

import limber
import limber.torch
from limber.chart import chart, writable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../digits"))
import digits       # noqa: E402

BATCH = 100
PROFILED = 10       # steps that are profiled after the training
PRODUCTS = ("aten::convolution", "aten::convolution_backward", "aten::addmm", "aten::mm")


def load(folder, count):
    """Reads the first `count` of MNIST's 10,000 test images; returns (images [count][1][28][28],
    labels)."""
    images, labels = digits.load(folder, count)
    images = torch.from_numpy(images).view(-1, 1, 28, 28).float() / 255 - 0.13
    return images / 0.31, torch.tensor(labels, dtype=torch.long)


def network():
    """Returns a network of two convolutions and a linear layer for MNIST."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(16 * 49, 10))


def sums(images):
    """Returns the lengths of the sums in the network's products, {layer and product: length}."""
    return {"conv 1 forward": 9, "conv 1 weights": BATCH * 196, "conv 2 forward": 72,
            "conv 2 input": 144, "conv 2 weights": BATCH * 49, "linear forward": 784,
            "linear input": 10, "linear weights": BATCH}


def train(images, labels, split, config, seed, epochs, progress):
    """Trains on the first `split` images and tests on the others.  config is that of
    limber.torch.inject, or None for FP32.  Returns (accuracy, seconds a step, the share of products
    in these seconds)."""
    torch.manual_seed(seed)
    net = network()
    injected = limber.torch.inject(net, config) if config else None
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    # The loss is multiplied by `scale`, because small gradients would underflow in FP8.
    scale, seconds, steps = 1024.0, 0.0, 0

    def step(batch):
        """Trains on one batch."""
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images[batch]), labels[batch])
        (loss * scale).backward()
        finite = all(torch.isfinite(p.grad).all() for p in net.parameters())
        for p in net.parameters():
            p.grad /= scale
        if finite:      # weights stay as they are if a gradient has overflowed
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        if injected:
            injected.step()

    for epoch in range(epochs):
        order = torch.randperm(split)
        for first in range(0, split - BATCH + 1, BATCH):
            start = time.perf_counter()
            step(order[first:first + BATCH])
            seconds, steps = seconds + time.perf_counter() - start, steps + 1
        progress(epoch + 1, epochs)
    net.eval()
    with torch.no_grad():
        right = sum((net(images[i:i + 500]).argmax(1) == labels[i:i + 500]).sum().item()
                    for i in range(split, len(images), 500))
    share = share_of_products(step, split)
    if injected:
        injected.remove()
    return right / (len(images) - split), seconds / max(steps, 1), share


def share_of_products(step, split):
    """Runs some further steps under PyTorch's profiler; returns the share of their time that
    products by PyTorch and by Limber take."""
    with torch.autograd.profiler.profile() as profile:
        start = time.perf_counter()
        for _ in range(PROFILED):
            step(torch.randperm(split)[:BATCH])
        seconds = time.perf_counter() - start

    def is_product(event):
        """Returns whether an event of the profiler is a product."""
        return event.name in PRODUCTS or event.name.startswith("limber::")

    def is_inside(event):
        """Returns whether a product contains the event, whose time would count twice."""
        above = event.cpu_parent
        return above is not None and (is_product(above) or is_inside(above))

    return sum(event.cpu_time_total for event in profile.function_events
               if is_product(event) and not is_inside(event)) * 1e-6 / seconds


def unit_of(bits, group, operands):
    """Returns the words of a unit whose accumulator has `bits` fraction bits."""
    text = f"in={operands} mul=exact acc=(1,8,{bits})"
    return text + (f" group={group}" if group else "")


def lost(unit):
    """Returns the largest n (1 - retention) of all sums, where n is the length of a sum.  The model
    predicts that the network trains if this is below ln 50."""
    def one(n):
        """Returns n (1 - retention) for sums of length n."""
        kept = limber.unit_retention(unit, n)
        return 0 if math.isnan(kept) else n * (1 - kept)
    return max(one(n) for n in sums(None).values())


def bar(what):
    """Returns a function that shows progress, which does nothing if stderr is no terminal."""
    if not sys.stderr.isatty():
        return lambda done, of: None
    return lambda done, of: print(f"\033[K{what}: epoch {done} of {of}", end="\r", file=sys.stderr,
                                  flush=True)


def numbers(text):
    """A type for argparse: integers separated by commas."""
    return [int(word) for word in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", default=os.environ.get("LIMBER_DATA"), metavar="FOLDER",
                   help="holds mnist/t10k-images-idx3-ubyte.gz and -labels-idx1- (LIMBER_DATA)")
    p.add_argument("--count", type=int, default=10000, help="images, a fifth for the test (10000)")
    p.add_argument("--bits", type=numbers, default=[1, 2, 3, 4, 5, 6, 8, 10],
                   help="fraction bits of accumulators (1,2,3,4,5,6,8,10)")
    p.add_argument("--groups", type=numbers, default=[0, 64],
                   help="products in a group, 0: no groups (0,64)")
    p.add_argument("--operands", default="e5m2", help="format of operands (e5m2)")
    p.add_argument("--seeds", type=int, default=3, help="runs of each (3)")
    p.add_argument("--epochs", type=int, default=2, help="(2)")
    p.add_argument("--loss", type=float, default=1.0,
                   help="percent of accuracy that may be lost (1)")
    p.add_argument("--json", action="store_true", help="one object for each accumulator")
    p.add_argument("--picture", type=writable, metavar="FILE.svg",
                   help="draw accuracy against bits")
    chosen = p.parse_args()
    if not chosen.data:
        p.error("--data: where are the images? (or LIMBER_DATA)")
    if chosen.count < 5 * BATCH // 4 or chosen.seeds < 1 or chosen.epochs < 1:
        p.error(f"--count is at least {5 * BATCH // 4}, --seeds and --epochs 1")
    try:
        for group in chosen.groups:
            for bits in chosen.bits:
                limber.unit(unit_of(bits, group, chosen.operands))
        images, labels = load(chosen.data, chosen.count)
    except limber.LimberError as error:
        raise SystemExit(f"accumulators.py: {error}")
    split = len(images) * 4 // 5

    def measure(config, what):
        """Trains with each seed; returns (least, mean and largest accuracy in percent), and
        (seconds a step, share of products) of the fastest run."""
        runs = [train(images, labels, split, config, seed, chosen.epochs,
                      bar(f"{what}, seed {seed + 1} of {chosen.seeds}"))
                for seed in range(chosen.seeds)]
        got = sorted(100 * run[0] for run in runs)
        return (got[0], sum(got) / len(got), got[-1]), min((run[1:] for run in runs))

    base, base_time = measure(None, "FP32")
    rows = [("FP32", 0, None, base, base_time, None)]
    for group in chosen.groups:
        for bits in chosen.bits:
            unit = unit_of(bits, group, chosen.operands)
            accuracy, took = measure(unit, unit)
            rows.append((f"(1,8,{bits})", group, bits, accuracy, took, lost(unit)))
    if sys.stderr.isatty():
        print("\033[K", end="", file=sys.stderr)
    if not chosen.json:
        print(f"{split} images, {len(images) - split} for the test, {chosen.epochs} epochs of "
              f"batches of {BATCH}, {chosen.seeds} seeds\n"
              "accumulator  group  accuracy in % (lowest, highest)  ms a step  in products  "
              "model: trains")
    for name, group, bits, accuracy, (seconds, share), loss in rows:
        fits = None if loss is None else loss < math.log(50)
        if chosen.json:
            print(json.dumps({"by": name + (f" in groups of {group}" if group else ""),
                              "accumulator": name, "group": group, "lowest": accuracy[0],
                              "mean": accuracy[1], "highest": accuracy[2],
                              "seconds_a_step": seconds,
                              "seconds_in_products": share * seconds, "model_trains": fits}))
        else:
            shown = f"{accuracy[1]:.2f} ({accuracy[0]:.2f}, {accuracy[2]:.2f})"
            print(f"{name:11}  {group or '-':>5}  {shown:31}  {1000 * seconds:9.1f}  "
                  f"{100 * share:10.0f}%  {'' if fits is None else 'yes' if fits else 'no'}")
    for group in chosen.groups:
        good = [bits for _, g, bits, accuracy, _, _ in rows[1:]
                if g == group and accuracy[1] >= base[1] - chosen.loss]
        model = [bits for _, g, bits, _, _, loss in rows[1:] if g == group and loss < math.log(50)]
        if not chosen.json:
            grouped = f"groups of {group}" if group else "no groups"
            print(f"{grouped}: the smallest accumulator that trains has "
                  f"{min(good) if good else 'more'} fraction bits, by the model "
                  f"{min(model) if model else 'more'}")
    if chosen.picture:
        series = {f"groups of {g}" if g else "no groups":
                  [next(row[3] for row in rows[1:] if row[1] == g and row[2] == bits)
                   for bits in chosen.bits] for g in chosen.groups}
        series["FP32"] = [base] * len(chosen.bits)
        chart(chosen.picture, "Accuracy of a network trained with accumulators of a few bits",
              "fraction bits of the accumulator", "percent right (lowest, mean, highest)",
              chosen.bits, series, lines=True)


main()
