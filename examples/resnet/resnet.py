# SPDX-License-Identifier: BSD-3-Clause
"""ResNet-18, forward and backward, with products of PyTorch, Limber or a simulated unit.

A step computes three products for every convolution and for the last linear layer: the layer's
output, the gradient of its input, and the gradient of its weights.  The model is written with
PyTorch and has random weights; limber.torch replaces these products.  Afterwards each layer is
computed alone, with the operands that it has in the network, to measure its time and its distance
from FP64.

    python resnet.py                                    # one image of 224 x 224
    python resnet.py --by torch,correct --batch 4       # some ways
    python resnet.py --picture resnet.svg               # speeds of layers

Sources: He et al., CVPR 2016, table 1; Ma et al., "Ape", section 6.2 and figure 12."""
import argparse
import json
import os
import sys
import time

import torch

import limber
import limber.torch
from limber.chart import chart, writable

WAYS = {"torch": None, "native": {"contract": "native"}, "correct": {"contract": "correct"},
        "fp32-f": {"contract": "fast", "scheme": "fp32-f+native"},
        "fp32-b": {"contract": "fast", "scheme": "fp32-b+native"},
        "mixed": {"contract": "fast", "scheme": "ape"}}
DIRECTIONS = "forward", "data", "filter"      # output, gradient of the input and of the weights


# ---- the network --------------------------------------------------------------------------------

def convolution(channels, filters, window, stride):
    """Returns a convolution that keeps the image's size, but for the stride."""
    return torch.nn.Conv2d(channels, filters, window, stride, window // 2, bias=False)


class Block(torch.nn.Module):
    """Two convolutions and the shortcut around them."""

    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = convolution(channels, filters, 3, stride)
        self.norm1 = torch.nn.BatchNorm2d(filters)
        self.conv2 = convolution(filters, filters, 3, 1)
        self.norm2 = torch.nn.BatchNorm2d(filters)
        self.past = None
        if stride != 1 or channels != filters:
            self.past = convolution(channels, filters, 1, stride)
            self.past_norm = torch.nn.BatchNorm2d(filters)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return torch.relu(y + (self.past_norm(self.past(x)) if self.past else x))


class ResNet18(torch.nn.Module):
    """The network.

    width       filters of the first stage, 64 in ResNet-18; each stage has twice as many as the one
                before it"""

    def __init__(self, classes=1000, width=64):
        super().__init__()
        self.conv = convolution(3, width, 7, 2)
        self.norm = torch.nn.BatchNorm2d(width)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)
        wide = [width << stage for stage in range(4)]
        self.stage = torch.nn.ModuleList(
            torch.nn.Sequential(Block(wide[max(i - 1, 0)], wide[i], 1 if i == 0 else 2),
                                Block(wide[i], wide[i], 1)) for i in range(4))
        self.linear = torch.nn.Linear(wide[3], classes)
        for module in self.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.conv(x))))
        for stage in self.stage:
            x = stage(x)
        return self.linear(x.mean((2, 3)))


def step(model, images, labels):
    """Runs a forward and a backward pass; returns the output."""
    model.zero_grad()
    made = model(images)
    torch.nn.functional.cross_entropy(made, labels).backward()
    return made.detach()


def gradients(model):
    """Returns the gradients of all parameters as one vector."""
    return torch.cat([p.grad.detach().flatten() for p in model.parameters()])


def far(made, exact):
    """Returns the distance of two tensors, relative to the norm of the exact tensor."""
    made, exact = made.double(), exact.double()
    return ((made - exact).norm() / exact.norm()).item()


# ---- layers of the network, each computed alone --------------------------------------------------

class Layer:
    """A convolution or the linear layer, with its operands from one step of the network.

    x, dy       its input, and the gradient of its output
    first       whether it is the first layer; then the gradient of its input is not computed"""

    def __init__(self, name, module):
        self.name, self.module = name, module
        self.linear = isinstance(module, torch.nn.Linear)
        self.x = self.dy = None
        self.first = False
        self.hook = module.register_forward_hook(self.see)

    def see(self, module, inputs, made):
        """Hook of the forward pass: keeps the input."""
        self.x = inputs[0].detach()
        self.first = not inputs[0].requires_grad
        made.register_hook(self.see_gradient)

    def see_gradient(self, gradient):
        """Hook of the backward pass: keeps the gradient of the output."""
        self.dy = gradient.detach()

    def shape(self):
        """Returns the window, filters and image size as text, such as "3x3, 64 to 128 by 2,
        56x56"."""
        w, (n, c, *sides) = self.module.weight.shape, self.x.shape
        if self.linear:
            return f"{w[1]} to {w[0]}"
        stride = self.module.stride[0]
        return (f"{w[2]}x{w[3]}, {c} to {w[0]}" + (f" by {stride}" if stride > 1 else "") +
                f", {sides[0]}x{sides[1]}")

    def short(self):
        """Returns the window and the filters as text, such as "3x3 128 /2" with stride 2."""
        w = self.module.weight.shape
        if self.linear:
            return "linear"
        return f"{w[2]}x{w[3]} {w[0]}" + (" /2" if self.module.stride[0] > 1 else "")

    def work(self):
        """Returns the number of multiply-adds of one direction."""
        outputs = self.dy.numel() // self.dy.shape[1]
        return outputs * self.module.weight.numel()

    def by_torch(self, direction, kind=torch.float32):
        """Returns a function without arguments that computes one of DIRECTIONS by PyTorch."""
        x, w, dy = (t.to(kind) for t in (self.x, self.module.weight.detach(), self.dy))
        if self.linear:
            a, b = {"forward": (x, w.T), "data": (dy, w), "filter": (dy.T, x)}[direction]
            return lambda: a @ b
        at = dict(stride=self.module.stride, padding=self.module.padding)
        call = {"forward": lambda: torch.nn.functional.conv2d(x, w, **at),
                "data": lambda: torch.nn.grad.conv2d_input(x.shape, w, dy, **at),
                "filter": lambda: torch.nn.grad.conv2d_weight(x, w.shape, dy, **at)}
        return call[direction]

    def by_limber(self, direction, context, config):
        """Returns a function without arguments that computes one of DIRECTIONS by Limber; it
        returns an array and a report."""
        x, w, dy = (t.contiguous().numpy() for t in
                    (self.x, self.module.weight.detach(), self.dy))
        asked = dict(contract=config.get("contract") or f"simulate={config['unit']}",
                     scheme=config.get("scheme"), report=True)
        if self.linear:
            a, b = {"forward": (x, w.T), "data": (dy, w), "filter": (dy.T, x)}[direction]
            return lambda: context.matmul(a, b, **asked)
        at = dict(stride=self.module.stride, pad=self.module.padding)
        if direction == "forward":
            return lambda: context.conv2d(x, w, **at, **asked)
        if direction == "data":
            return lambda: context.conv2d_backward_data(dy, w, size=x.shape[2:], **at, **asked)
        return lambda: context.conv2d_backward_filter(x, dy, window=w.shape[2:], **at, **asked)

    def measure(self, config, context, exact, runs):
        """Computes the layer by Limber, or by PyTorch if config is None.  Returns {direction:
        (seconds, distance from FP64, scheme)}."""
        found = {}
        for direction in DIRECTIONS:
            if direction == "data" and self.first:
                continue
            call = self.by_limber(direction, context, config) if config else \
                self.by_torch(direction)
            seconds, made = timed(call, runs)
            made, scheme = (torch.from_numpy(made[0]), made[1].scheme) if config else (made, "")
            found[direction] = seconds, far(made, exact[direction]), scheme
        return found


def timed(call, runs):
    """Returns (seconds of the fastest of `runs` calls, result)."""
    made, seconds = call(), []      # this call compiles kernels and does not count
    for _ in range(runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), made


def layers_of(model, images, labels):
    """Runs a step; returns all layers with their operands, in the order in which the model defines
    them."""
    found = [Layer(name, module) for name, module in model.named_modules()
             if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear))]
    step(model, images, labels)
    for layer in found:
        layer.hook.remove()
    return found


# ---- what is measured ---------------------------------------------------------------------------

def bar(by):
    """Returns a function that shows progress, which does nothing if stderr is no terminal."""
    if not sys.stderr.isatty():
        return lambda done, of: None
    return lambda done, of: print(f"{by}: {done} of {of} layers" if done < of else "\033[K",
                                  end="\r", file=sys.stderr, flush=True)


def measure(by, config, model, data, exact, layers, exact_layers, runs):
    """Measures the whole step and each layer, with products by PyTorch if config is None, else by
    limber.torch with this configuration.  Returns a dictionary."""
    injected = limber.torch.inject(model, config) if config else None
    try:
        seconds, made = timed(lambda: step(model, *data), runs)
        grads = gradients(model)
    finally:
        if injected:
            injected.remove()
    context, rows, show = limber.Context(), [], bar(by)
    for i, (layer, right) in enumerate(zip(layers, exact_layers)):
        show(i, len(layers))
        found = layer.measure(config, context, right, runs)
        rows.append({"layer": layer.name, "shape": layer.shape(), "short": layer.short(),
                     "work": layer.work(),
                     **{direction: {"seconds": s, "error": error, "computed_by": scheme or by}
                        for direction, (s, error, scheme) in found.items()}})
    show(len(layers), len(layers))
    return {"by": by, "seconds": seconds,
            "seconds_in_products": sum(part["seconds"] for row in rows for part in parts(row)),
            "error": far(made, exact[0]),
            "gradient_error": far(grads, exact[1]),
            "layers": rows}


def parts(row):
    """Returns what was measured of a layer in each direction."""
    return [row[direction] for direction in DIRECTIONS if direction in row]


def grouped(rows):
    """Joins layers that have the same shape.  Returns a list of (short text, shape, number of
    layers, {direction: (sum of seconds, largest error)})."""
    groups = {}
    for row in rows:
        group = groups.setdefault(row["shape"], (row["short"], [], {}))
        group[1].append(row)
        for direction in DIRECTIONS:
            if direction in row:
                seconds, error = group[2].get(direction, (0, 0))
                group[2][direction] = (seconds + row[direction]["seconds"],
                                       max(error, row[direction]["error"]))
    return [(short, shape, len(members), sums)
            for shape, (short, members, sums) in groups.items()]


def show_layers(found):
    """Prints the times and errors of layers."""
    schemes = sorted({part["computed_by"] for row in found["layers"] for part in parts(row)})
    print(f"\nlayers by {found['by']}" +
          (f", computed by {', '.join(schemes)}" if schemes != [found["by"]] else "") +
          f"\n{'':36}{'ms':26}of the  largest distance from FP64\n"
          f"layers  {'shape':27} forward     data   filter    step   forward     data   filter")
    for _, shape, count, sums in grouped(found["layers"]):
        times = " ".join(f"{1000 * sums[d][0]:8.2f}" if d in sums else "       -"
                         for d in DIRECTIONS)
        errors = " ".join(f"{sums[d][1]:8.2g}" if d in sums else "       -" for d in DIRECTIONS)
        share = sum(seconds for seconds, _ in sums.values()) / found["seconds"]
        print(f"{count:6}  {shape:27}{times}  {100 * share:5.1f}%  {errors}")


def show_all(ways, base):
    """Prints the times and errors of whole steps."""
    print("\nby          ms a step  in products    share  times PyTorch  outputs  gradients")
    for found in ways:
        share = found["seconds_in_products"] / found["seconds"]
        ratio = f"{base / found['seconds']:13.2f}" if base else f"{'-':>13}"
        print(f"{found['by']:12} {1000 * found['seconds']:8.1f}  "
              f"{1000 * found['seconds_in_products']:11.1f}  {100 * share:6.0f}%  {ratio}  "
              f"{found['error']:7.2g}  {found['gradient_error']:9.2g}")
    print("outputs, gradients (of all parameters): distance from FP64 over its length")


def draw(path, ways):
    """Draws how many times as fast as the first way the others compute each layer."""
    names = [short for short, _, _, _ in grouped(ways[0]["layers"])]
    seconds = {found["by"]: [sum(seconds for seconds, _ in sums.values())
                             for _, _, _, sums in grouped(found["layers"])] for found in ways}
    first, *others = seconds
    chart(path, f"ResNet-18: speed of layers, all directions, beside {first}",
          "window and filters", f"speed / {first}'s", names,
          {by: [base / s for base, s in zip(seconds[first], seconds[by])] for by in others},
          base=1)


def config_of(by):
    """Returns the configuration of limber.torch for a word of --by."""
    if all(part in limber.schemes() for part in by.split("+")) and by not in WAYS:
        return {"contract": "fast", "scheme": by}
    return WAYS.get(by, {"contract": by} if by.startswith("bits=") else {"unit": by})


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--by", default="torch,native,correct,fp32-b",
                   help=f"with commas between: {', '.join(WAYS)}, bits=N, units (limber units) or "
                        "schemes, such as fp32-f+fp32-b+native; fp32-f and fp32-b leave to FP32 "
                        "what they do not hold, mixed takes the first of fp32-f, fp32-b, FP32 that "
                        "holds a tile (torch,native,correct,fp32-b)")
    p.add_argument("--size", type=int, default=224, help="rows and columns of an image (224)")
    p.add_argument("--batch", type=int, default=1, help="images (1)")
    p.add_argument("--width", type=int, default=64, help="filters of the first stage (64)")
    p.add_argument("--classes", type=int, default=1000, help="(1000)")
    p.add_argument("--runs", type=int, default=5, help="runs, of which the fastest counts (5)")
    p.add_argument("--threads", type=int, metavar="N",
                   help="of PyTorch and of Limber (as each finds them)")
    p.add_argument("--seed", type=int, default=1, help="of weights and images (1)")
    p.add_argument("--json", action="store_true", help="one object for each way")
    p.add_argument("--picture", type=writable, metavar="FILE.svg",
                   help="draw the speeds of layers, beside the first way")
    chosen = p.parse_args()
    for name in "size", "batch", "width", "classes", "runs":
        if getattr(chosen, name) < 1:
            p.error(f"--{name}: a whole number from 1 on")
    if chosen.threads is not None:
        if not 1 <= chosen.threads <= 1024:
            p.error("--threads: a whole number from 1 to 1024")
        torch.set_num_threads(chosen.threads)
        os.environ["LIMBER_THREADS"] = str(chosen.threads)
    if chosen.size <= 32 and chosen.batch == 1:
        p.error("--size: the last stage of one such image is one number, which has no variance; "
                "from 33 on, or --batch 2")
    names = chosen.by.split(",")
    if chosen.picture and len(names) < 2:
        p.error("--picture: a picture compares ways, so --by takes two at least")
    configs = [config_of(by) for by in names]
    for by, config in zip(names, configs):
        try:
            limber.torch.wishes_of(config)
        except limber.LimberError as error:
            p.error(f"--by {by}: {error}")
    torch.manual_seed(chosen.seed)
    model = ResNet18(chosen.classes, chosen.width)
    images = torch.randn(chosen.batch, 3, chosen.size, chosen.size)
    labels = torch.randint(chosen.classes, (chosen.batch,))
    made = step(model.double(), images.double(), labels)
    exact = made, gradients(model)
    layers = layers_of(model.float(), images, labels)
    exact_layers = [{d: layer.by_torch(d, torch.float64)() for d in DIRECTIONS
                     if not (d == "data" and layer.first)} for layer in layers]
    if not chosen.json:
        work = sum(layer.work() * (2 if layer.first else 3) for layer in layers)
        print(f"{chosen.batch} image{'s' if chosen.batch > 1 else ''} of {chosen.size} x "
              f"{chosen.size}, {len(layers)} layers, {work / 1e9:.3g} 10^9 multiply-adds in "
              f"products; threads: {torch.get_num_threads()}")
    ways, base = [], None
    for by, config in zip(names, configs):
        try:
            found = measure(by, config, model, (images, labels), exact, layers, exact_layers,
                            chosen.runs)
        except limber.LimberError as error:
            raise SystemExit(f"resnet.py: --by {by}: {error}")
        ways.append(found)
        if not config:
            base = found["seconds"]
        if chosen.json:
            print(json.dumps({"size": chosen.size, "batch": chosen.batch, **found}), flush=True)
        else:
            show_layers(found)
    if not chosen.json:
        show_all(ways, base)
    if chosen.picture:
        draw(chosen.picture, ways)


if __name__ == "__main__":
    main()
