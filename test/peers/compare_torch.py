# SPDX-License-Identifier: BSD-3-Clause
"""Compares convolutions with PyTorch's in every direction: results may differ by no more than the
sum of both error bounds.  Exit status 77: there is no PyTorch."""
import math
import random
import sys
import unittest

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import limber

U = 2.0 ** -24


class Layer:
    """A geometry of one to three dimensions, random operands, and PyTorch's results: y, dx and dw
    for a given dy."""

    def __init__(self, x, w, stride=None, pad=None, dilation=None, groups=1):
        sides = len(w) - 2
        self.geometry = {"stride": stride or (1,) * sides, "dilation": dilation or (1,) * sides,
                         "groups": groups}
        self.pad = pad or (0,) * sides
        self.convolve = getattr(torch.nn.functional, f"conv{sides}d")
        self.x, self.w = (torch.randn(shape) for shape in (x, w))
        self.dy = torch.randn_like(self.forward(self.x, self.w))

    def forward(self, x, w):
        """Convolves by PyTorch."""
        return self.convolve(x, w, padding=self.pad, **self.geometry)

    def theirs(self, magnitudes=False):
        """Returns PyTorch's y, dx and dw, or those of the operands' absolute values in binary64:
        |A||B| of each."""
        x, w, dy = ([t.double().abs() for t in (self.x, self.w, self.dy)] if magnitudes else
                    [t.clone() for t in (self.x, self.w, self.dy)])
        x.requires_grad_()
        w.requires_grad_()
        y = self.forward(x, w)
        y.backward(dy)
        return [t.detach().numpy() for t in (y, x.grad, w.grad)]

    def ours(self, contract):
        """Returns Limber's y, dx and dw under a contract."""
        x, w, dy = (t.numpy() for t in (self.x, self.w, self.dy))
        how = {"pad": self.pad, "contract": contract, **self.geometry}
        return [limber.conv2d(x, w, **how),
                limber.conv2d_backward_data(dy, w, x.shape[2:], **how),
                limber.conv2d_backward_filter(x, dy, w.shape[2:], **how)]

    def lengths(self):
        """Returns the largest numbers of products in an element of y, of dx and of dw."""
        o, depth, *window = self.w.shape
        n, _, *pixels = self.dy.shape
        taps = math.prod(window)
        return [depth * taps, o // self.geometry["groups"] * taps, n * math.prod(pixels)]

    def excess(self, contract, theirs=None):
        """Returns the largest difference in each result as a share of the sum of both bounds.  In
        any order k products and sums err by at most k U / (1 - k U) |A||B|."""
        shares = []
        for mine, other, scale, k in zip(self.ours(contract), theirs or self.theirs(),
                                         self.theirs(magnitudes=True), self.lengths()):
            own = (k + 2) * U if contract == "native" else U
            allowed = (own + k * U / (1 - k * U)) * scale
            difference = numpy.abs(mine.astype(float) - other.astype(float))
            shares.append(float(numpy.max(difference / numpy.maximum(allowed, 1e-300))))
        return shares


def layers():
    """Layers of networks on small images, then random ones."""
    yield Layer((2, 3, 32, 32), (16, 3, 7, 7), (2, 2), (3, 3))
    yield Layer((2, 64, 14, 14), (64, 64, 3, 3), (1, 1), (1, 1))
    yield Layer((2, 64, 14, 14), (128, 64, 3, 3), (2, 2), (1, 1))
    yield Layer((2, 64, 14, 14), (128, 64, 1, 1), (2, 2))
    yield Layer((2, 96, 14, 14), (96, 1, 3, 3), (2, 2), (1, 1), groups=96)
    yield Layer((1, 144, 14, 14), (24, 144, 1, 1))
    yield Layer((2, 8, 200), (12, 8, 5), (2,), (2,), (3,))
    yield Layer((1, 3, 6, 20, 20), (16, 3, 3, 5, 5), (1, 2, 2), (1, 2, 2))
    yield Layer((1, 24, 4, 9, 9), (24, 1, 3, 3, 3), pad=(1, 1, 1), groups=24)
    random.seed(11)
    for _ in range(60):
        groups = random.choice((1, 1, 2, 3))
        depth, filters = random.randint(1, 6), groups * random.randint(1, 6)
        sides = random.choice((1, 2, 2, 3))
        window = [random.randint(1, 4) for _ in range(sides)]
        stride, dilation, pad = ([random.randint(low, 3) for _ in range(sides)]
                                 for low in (1, 1, 0))
        size = [max(1, d * (r - 1) + 1 - 2 * p) + random.randint(0, 9)
                for d, r, p in zip(dilation, window, pad)]
        yield Layer((random.randint(1, 3), groups * depth, *size), (filters, depth, *window),
                    tuple(stride), tuple(pad), tuple(dilation), groups)


class Convolutions(unittest.TestCase):
    """Limber's convolutions beside PyTorch's."""
    def setUp(self):
        torch.manual_seed(7)
        torch.set_num_threads(1)

    def test_results_differ_by_both_bounds_at_most(self):
        for layer in layers():
            for contract in "native", "correct":
                for result, share in zip(("y", "dx", "dw"), layer.excess(contract)):
                    with self.subTest(x=tuple(layer.x.shape), w=tuple(layer.w.shape),
                                      pad=layer.pad, **layer.geometry, contract=contract,
                                      result=result):
                        self.assertLessEqual(share, 1)

    def test_others_would_be_found(self):
        layer = Layer((2, 8, 9, 9), (8, 8, 3, 3), pad=(1, 1))
        turned = [t[..., ::-1] for t in layer.theirs()]
        self.assertGreater(min(layer.excess("correct", turned)), 100)


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}")
    unittest.main()
