# SPDX-License-Identifier: BSD-3-Clause
"""Tests limber.torch.scaled_mm: against a second implementation of what cuBLAS computes, written
here with exact Python numbers, and against mmaemu where it is installed."""
import importlib.util
import os
import sys
import unittest
import warnings
from fractions import Fraction

import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import tell_skips

import limber
import limber.torch

HAS_EIGHT = hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn")
HAS_MMAEMU = HAS_EIGHT and importlib.util.find_spec("mmaemu") is not None
LEAST = {"e4m3": -6, "e5m2": -14}       # exponent of the smallest normal number


def codes(rows, columns, generator, kind="e4m3"):
    """A matrix of random finite codes of FP8."""
    x = torch.randint(0, 256, (rows, columns), generator=generator, dtype=torch.uint8)
    beyond = (x & 0x7f) > (0x7e if kind == "e4m3" else 0x7b)
    x = torch.where(beyond, x & 0x8f, x)
    return x.view(torch.float8_e4m3fn if kind == "e4m3" else torch.float8_e5m2)


def exponent(x):
    """The exponent of a number that is not 0."""
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    return e if Fraction(n, d) >= Fraction(2) ** e else e - 1


def cut(x, unit):
    """The multiple of 2^unit next to x, toward zero."""
    return int(x / Fraction(2) ** unit) * Fraction(2) ** unit


def single(x):
    """x, rounded to nearest FP32."""
    return Fraction(torch.tensor(float(x), dtype=torch.float64).float().item())


def chain(a, b, kinds, block):
    """The sum of products by one unit: blocks aligned with what was summed, cut to 13 bits."""
    sum = Fraction(0)
    for at in range(0, len(a), block):
        terms, tops = [sum], [exponent(sum)] if sum else []
        for x, y in zip(a[at:at + block], b[at:at + block]):
            if x and y:
                terms.append(x * y)
                tops.append(max(exponent(x), LEAST[kinds[0]]) + max(exponent(y), LEAST[kinds[1]]))
        if tops:
            found = Fraction(0)
            for term in terms:
                found += cut(term, max(tops) - 13)
            sum = cut(found, exponent(found) - 13) if found else found
    return sum


def expected(a, b, kinds, gpu, fast, split, pairs):
    """One element before its scale."""
    k, block, tile = len(a), 32 if gpu == "h100" else 16, 128 if gpu == "h100" else 64
    tiles = [range(at, min(at + tile, k)) for at in range(0, k, tile)]
    each = -(-len(tiles) // split)
    parts = []
    for s in range(split):
        own = tiles[s::split] if gpu == "ada" else tiles[s * each:(s + 1) * each]
        own = [p for one in own for p in one]
        step = len(own) if fast else 128
        found = Fraction(0)
        for at in range(0, len(own), step or 1):
            some = own[at:at + step]
            found = single(found + chain([a[p] for p in some], [b[p] for p in some], kinds, block))
        parts.append(found)
    if pairs:
        half = -(-split // 2)
        joined = [single(parts[i] + parts[i + half]) if i + half < split - 1 else parts[i]
                  for i in range(half)]
        parts = [parts[-1], *joined]
    total = parts[0]
    for part in parts[1:]:
        total = single(total + part)
    return total


def bits(x):
    """The bit patterns of a tensor."""
    return x.view({4: torch.int32, 2: torch.int16, 1: torch.uint8}[x.element_size()])


@unittest.skipUnless(HAS_EIGHT, "this PyTorch has no FP8")
class Scaled(unittest.TestCase):
    """Products with one scale for each tensor."""

    def setUp(self):
        self.generator = torch.Generator().manual_seed(52)

    def test_as_the_library_computes(self):
        """Both GPUs, fast and slow, split and whole, of equal and mixed formats."""
        turn = 0
        for gpu in ("h100", "ada"):
            for fast in (False, True):
                for split, pairs in ((1, False), (2, False), (3, gpu == "ada"), (5, gpu == "ada")):
                    kinds = (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"))[turn % 3]
                    turn += 1
                    m, n, k = 2, 3, 16 * (10 + turn)
                    a = codes(m, k, self.generator, kinds[0])
                    b = codes(n, k, self.generator, kinds[1])
                    words = f"{gpu}-scaled-mm split={split}" + " merge=pairs" * pairs
                    c = limber.torch.scaled_mm(a, b.t(), torch.tensor(1.), torch.tensor(1.),
                                               out_dtype=torch.float32, use_fast_accum=fast,
                                               unit=words)
                    rows, columns = ([[Fraction(v) for v in line] for line in x.float().tolist()]
                                     for x in (a, b))
                    for i in range(m):
                        for j in range(n):
                            self.assertEqual(Fraction(c[i, j].item()),
                                             expected(rows[i], columns[j], kinds, gpu, fast, split,
                                                      pairs), (words, fast, i, j))

    def test_results_are_rounded_twice(self):
        """alpha is rounded to FP32, the result to FP32 and then to its type."""
        a, b = codes(16, 64, self.generator), codes(32, 64, self.generator)
        scales = torch.tensor(0.3), torch.tensor(-1.7)
        plain = limber.torch.scaled_mm(a, b.t(), torch.tensor(1.), torch.tensor(1.),
                                       out_dtype=torch.float32)
        alpha = (scales[0] * scales[1]).double()
        once = (plain.double() * alpha + 0.0).float()
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            c = limber.torch.scaled_mm(a, b.t(), *scales, out_dtype=dtype)
            self.assertTrue(torch.equal(bits(c), bits(once.to(dtype))), dtype)
        c = limber.torch.scaled_mm(a, b.t(), *scales, scale_result=torch.tensor(.01))
        again = (once.double() * torch.tensor(.01).double()).float().clamp(-448, 448)
        self.assertTrue(torch.equal(bits(c), bits(again.to(torch.float8_e4m3fn))))

    def test_nan_zero_and_empty(self):
        """NaN is NVIDIA's; zero results are +0, and so are results without products."""
        a, b = codes(16, 32, self.generator), codes(16, 32, self.generator)
        a.view(torch.uint8)[0, 3] = 0x7f
        a.view(torch.uint8)[1] = 0
        one = torch.tensor(1.)
        c = limber.torch.scaled_mm(a, b.t(), -one, one, out_dtype=torch.float32)
        self.assertEqual(set(bits(c)[0].tolist()), {0x7fffffff})
        self.assertEqual(set(bits(c)[1].tolist()), {0})
        self.assertEqual(set(bits(limber.torch.scaled_mm(a, b.t(), one, one))[0].tolist()), {0x7f})
        c = limber.torch.scaled_mm(a[:, :0], b[:, :0].t(), one * float("nan"), one,
                                   out_dtype=torch.bfloat16)
        self.assertEqual(bits(c).abs().max().item(), 0)

    def test_refusals(self):
        """What is not simulated is refused by name."""
        a, b, one = codes(16, 32, self.generator), codes(16, 32, self.generator), torch.tensor(1.)
        wide = codes(16, 32, self.generator, "e5m2")
        for what, call in (
                ("input", lambda: limber.torch.scaled_mm(a.float(), b.t(), one, one)),
                ("mat2", lambda: limber.torch.scaled_mm(a, b, one, one)),
                ("mat2", lambda: limber.torch.scaled_mm(wide, wide.t(), one, one)),
                ("scale_a", lambda: limber.torch.scaled_mm(a, b.t(), torch.ones(16, 1), one)),
                ("bias", lambda: limber.torch.scaled_mm(a, b.t(), one, one, torch.ones(16))),
                ("out_dtype", lambda: limber.torch.scaled_mm(a, b.t(), one, one,
                                                             out_dtype=torch.float64)),
                ("split", lambda: limber.torch.scaled_mm(a, b.t(), one, one,
                                                         unit="h100-scaled-mm split=0"))):
            with self.assertRaisesRegex(limber.BadArgument, what):
                call()

    def test_inside_models(self):
        """inject replaces torch._scaled_mm."""
        a, b, one = codes(16, 32, self.generator), codes(16, 32, self.generator), torch.tensor(1.)

        class One(torch.nn.Module):
            """A call of PyTorch's own function."""

            def forward(self, x):
                return torch._scaled_mm(x, b.t(), one, one, out_dtype=torch.bfloat16,
                                        use_fast_accum=True)

        model = One()
        with limber.torch.inject(model, {"unit": "ada-scaled-mm", "statistics": True}) as injected:
            c = model(a)
            self.assertEqual(injected.statistics[0]["contract"],
                             "simulate=ada-scaled-mm-fast a=e4m3 b=e4m3")
        due = limber.torch.scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16,
                                     use_fast_accum=True, unit="ada-scaled-mm")
        self.assertTrue(torch.equal(bits(c), bits(due)))
        other = limber.torch.scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16,
                                       contract="correct")
        exact = a.double() @ b.double().t()
        self.assertTrue(torch.equal(other, exact.float().bfloat16()))


@unittest.skipUnless(HAS_MMAEMU, "mmaemu is not installed (pip install mmaemu)")
class Mmaemu(unittest.TestCase):
    """The same bits as mmaemu."""

    def test_its_reference_products(self):
        """The products that its package holds, of an RTX 4060 with fast accumulation."""
        from mmaemu.backends.cuda.fast import gates
        for name, due in gates.gemm_expected().items():
            a, b = (torch.from_numpy(x).view(torch.float8_e4m3fn) for x in gates.gemm_inputs(name))
            c = limber.torch.scaled_mm(a, b.t(), torch.tensor(1.), torch.tensor(1.),
                                       out_dtype=torch.float32, use_fast_accum=True,
                                       unit="ada-scaled-mm")
            self.assertTrue(torch.equal(bits(c), torch.from_numpy(due).view(torch.int32)), name)

    def test_random_shapes(self):
        """Both GPUs, whole and split, all types of results."""
        import mmaemu
        generator = torch.Generator().manual_seed(7)
        dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)

        def below(n):
            """A random number from 0 to n - 1."""
            return int(torch.randint(0, n, (), generator=generator))

        for turn in range(int(os.environ.get("LIMBER_TEST_MMAEMU", "40"))):
            gpu = ("h100", "ada")[turn % 2]
            m, n, k = 16 * (1 + below(4)), 16 * (1 + below(5)), 16 * (1 + below(90))
            kinds = (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"))[below(3)]
            a = codes(m, k, generator, kinds[0])
            b = codes(n, k, generator, kinds[1])
            if below(4) == 0:
                a.view(torch.uint8)[below(m), below(k)] = 0x7f
            scales = [torch.randn((), generator=generator) * 2. ** (below(20) - 10)
                      for _ in range(2)]
            split, dtype, fast = 1 + below(7), dtypes[below(4)], bool(below(2))
            scheme = "contiguous" if gpu == "h100" else ("serial", "pairwise")[below(2)]
            if dtype in (torch.float8_e4m3fn,) and below(2):
                result = torch.tensor(2. ** -below(12) * 1.3)
            else:
                result = None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                due = mmaemu.scaled_mm(
                    a, b.t(), *scales, scale_result=result, out_dtype=dtype, use_fast_accum=fast,
                    profile={"h100": "hopper", "ada": "ada"}[gpu],
                    splitk=mmaemu.SplitK(split, scheme) if split > 1 else 1)
            words = f"{gpu}-scaled-mm split={split}" + \
                " merge=pairs" * (split > 1 and scheme == "pairwise")
            c = limber.torch.scaled_mm(a, b.t(), *scales, scale_result=result, out_dtype=dtype,
                                       use_fast_accum=fast, unit=words)
            self.assertTrue(torch.equal(bits(c), bits(due)), (words, m, n, k, kinds, dtype, fast))


if __name__ == "__main__":
    tell_skips.main()
