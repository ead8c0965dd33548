# SPDX-License-Identifier: BSD-3-Clause
"""Tests limber.torch.batch_invariant: rows of layers and of two small transformers have the same
bits in every batch, with one and two threads, in prefill and in decoding."""
import itertools
import math
import unittest
import warnings

import torch

import limber.torch

F = torch.nn.functional
FLOATS = torch.float32, torch.float64, torch.float16, torch.bfloat16


def numbers(*shape, dtype=torch.float32):
    """Random numbers of a fixed seed."""
    return torch.randn(*shape, generator=numbers.seed).to(dtype)


numbers.seed = torch.Generator().manual_seed(5)


class Block(torch.nn.Module):
    """A layer of a transformer: GPT-2's (biases, LayerNorm, GELU) or Llama's (RMS, gated SiLU)."""

    def __init__(self, size, heads, gated):
        super().__init__()
        self.heads, self.gated = heads, gated
        self.qkv = torch.nn.Linear(size, 3 * size, bias=not gated)
        self.out = torch.nn.Linear(size, size, bias=not gated)
        self.gate = torch.nn.Linear(size, 4 * size, bias=False)
        self.up = torch.nn.Linear(size, 4 * size, bias=not gated)
        self.down = torch.nn.Linear(4 * size, size, bias=not gated)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(size) for _ in range(2))

    def norm(self, i, x):
        """A normalisation of the kind that this model has."""
        if not self.gated:
            return self.norms[i](x)
        square = x.float() * x.float()
        return x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-5).to(x.dtype)

    def forward(self, x, cache):
        """The block's output; cache keeps the keys and values of earlier tokens."""
        rows, length, size = x.shape
        q, k, v = (y.view(rows, length, self.heads, -1).transpose(1, 2)
                   for y in self.qkv(self.norm(0, x)).chunk(3, -1))
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        if cache is not None:
            cache[:] = [k, v]
        mask = torch.ones(length, k.shape[2], dtype=torch.bool).tril(k.shape[2] - length)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(size // self.heads)
        seen = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, size))
        y = self.norm(1, x)
        y = F.silu(self.gate(y)) * self.up(y) if self.gated else F.gelu(self.up(y))
        return x + self.down(y)


class Model(torch.nn.Module):
    """A small transformer."""
    def __init__(self, gated, size=52, heads=4, words=100):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, size)
        self.blocks = torch.nn.ModuleList(Block(size, heads, gated) for _ in range(2))
        self.head = torch.nn.Linear(size, words, bias=False)

    def forward(self, tokens, caches=None):
        x = self.embedding(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return self.head(x)


class Served(unittest.TestCase):
    """Sets up batch-invariant operators for each test."""
    def setUp(self):
        self.active = limber.torch.batch_invariant()
        self.threads = torch.get_num_threads()

    def tearDown(self):
        self.active.remove()
        torch.set_num_threads(self.threads)


class Invariance(Served):
    """A row's result does not depend on the number of rows in the batch."""
    def rows_agree(self, function, x, what):
        """Computes all rows at once and in smaller batches, with one and two threads."""
        whole = function(x)
        for threads in 1, 2:
            torch.set_num_threads(threads)
            for rows in 1, 2, 7, 16:
                for first in range(0, 32 - rows + 1, rows):
                    self.assertTrue(torch.equal(function(x[first:first + rows]),
                                                whole[first:first + rows]), (what, rows, threads))

    def test_products(self):
        """Rows of linear layers and convolutions have the same bits in every batch."""
        with torch.no_grad():
            for dtype, (k, n) in itertools.product(FLOATS, ((100, 33), (513, 64))):
                w, bias = numbers(n, k, dtype=dtype), numbers(n, dtype=dtype)
                self.rows_agree(lambda x: F.linear(x, w, bias), numbers(32, k, dtype=dtype),
                                (dtype, k))
            w = numbers(6, 4, 3, 3)
            self.rows_agree(lambda x: F.conv2d(x, w, padding=1), numbers(32, 4, 9, 9), "conv")

    def test_functions(self):
        """Rows of activations and softmax have the same bits in every batch."""
        functions = {name: getattr(torch, name) for name in
                     ("tanh", "sigmoid", "rsqrt", "exp2", "logit")}
        functions.update({name: getattr(F, name) for name in
                          ("silu", "gelu", "softplus", "mish", "elu")})
        for dtype, (name, function) in itertools.product(FLOATS, functions.items()):
            x = numbers(32, 45, dtype=dtype)
            x = torch.sigmoid(x) if name in ("rsqrt", "logit") else x
            self.rows_agree(function, x, (name, dtype))
        for dtype, function in itertools.product(FLOATS, (torch.softmax, torch.log_softmax)):
            self.rows_agree(lambda x: function(x, -1), numbers(32, 45, dtype=dtype), dtype)
            self.rows_agree(lambda x: function(x, 1), numbers(32, 9, 11, dtype=dtype), dtype)

    def test_layouts(self):
        """PyTorch's linear is addmm for some layouts, and a product and an addition for others."""
        with torch.no_grad():
            for dtype in FLOATS:
                w, bias = numbers(33, 64, dtype=dtype), numbers(33, dtype=dtype)
                wide = numbers(32, 5, 128, dtype=dtype)
                self.rows_agree(lambda x: F.linear(x, w, bias), wide[..., :64], dtype)
                x = numbers(8, 5, 64, dtype=dtype)
                self.assertTrue(torch.equal(F.linear(x[:, -1:], w, bias),
                                            F.linear(x, w, bias)[:, -1:]), dtype)
            for dtype in (torch.float32, torch.bfloat16):
                net = torch.nn.LSTM(7, 13, batch_first=True).to(dtype)
                self.rows_agree(lambda x: net(x)[0], numbers(32, 5, 7, dtype=dtype), dtype)

    def test_transformers(self):
        """Rows of whole models, and tokens computed one by one with a cache."""
        tokens = torch.randint(0, 100, (32, 24), generator=torch.Generator().manual_seed(3))
        for gated, dtype in itertools.product((False, True), (torch.float32, torch.bfloat16)):
            torch.manual_seed(1)
            model = Model(gated).to(dtype).eval()
            with torch.no_grad():
                self.rows_agree(model, tokens, (gated, dtype))
                whole = model(tokens[:1])
                caches = [[] for _ in model.blocks]
                for at in range(24):
                    step = model(tokens[:1, at:at + 1], caches)
                    self.assertTrue(torch.equal(step[0, 0], whole[0, at]), (gated, dtype, at))


class Values(Served):
    """Results are PyTorch's, within a few units in the last place."""

    def close(self, got, want, dtype, what):
        """Checks type and values; `want` is in FP64."""
        eps = torch.finfo(dtype).eps
        self.assertEqual(got.dtype, dtype, what)
        self.assertTrue(torch.allclose(got.double(), want, rtol=4 * eps, atol=4 * eps), what)

    def test_functions(self):
        """Activations are near their definitions in binary64, in every type."""
        for dtype in FLOATS:
            x = torch.cat([numbers(300), torch.tensor([0.0, -0.0, 30, -30, 88, -88, 1e-4])])
            x = x.to(dtype)
            wide = x.double()
            plus = wide.clamp(min=0) + (-wide.abs()).exp().log1p()
            wanted = {
                "sigmoid": 1 / (1 + (-wide).exp()), "tanh": 1 - 2 / ((2 * wide).exp() + 1),
                "silu": wide / (1 + (-wide).exp()),
                "gelu": wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2))),
                "softplus": torch.where(wide > 20, wide, plus),
                "elu": torch.where(wide > 0, wide, wide.expm1()),
                "mish": wide * (2 * plus).expm1() / ((2 * plus).expm1() + 2)}
            for name, want in wanted.items():
                function = getattr(torch if name in ("sigmoid", "tanh") else F, name)
                self.close(function(x), want, dtype, (name, dtype))
            small = x[x.abs() < 10]
            self.close(torch.exp2(small) / 1024, (small.double() * math.log(2)).exp() / 1024,
                       dtype, ("exp2", dtype))
            for dim in 0, 1:
                y = numbers(7, 9, dtype=dtype)
                e = (y.double() - y.double().amax(dim, keepdim=True)).exp()
                self.close(torch.softmax(y, dim), e / e.sum(dim, keepdim=True), dtype, "softmax")
                self.close(torch.log_softmax(y, dim), (e / e.sum(dim, keepdim=True)).log(), dtype,
                           "log_softmax")

    def test_forms(self):
        """Products of every form: with alpha, beta, `out`, bias, batches."""
        a, b, c = numbers(5, 7), numbers(7, 3), numbers(5, 3)
        want = (c.double() * 2 + 3 * (a.double() @ b.double()))
        out = torch.empty(0)
        self.close(torch.addmm(c, a, b, beta=2, alpha=3), want, a.dtype, "addmm")
        torch.addmm(c, a, b, beta=2, alpha=3, out=out)
        self.close(out, want, a.dtype, "addmm.out")
        self.close(c.clone().addmm_(a, b, beta=2, alpha=3), want, a.dtype, "addmm_")
        self.close(torch.mm(a, b.t().contiguous().t()), a.double() @ b.double(), a.dtype, "mm")
        self.close(torch.mv(a, b[:, 0]), a.double() @ b[:, 0].double(), a.dtype, "mv")
        self.close(torch.dot(a[0], b[:, 0]), a[0].double() @ b[:, 0].double(), a.dtype, "dot")
        x = numbers(4, 5)
        self.close(x.clone().sigmoid_(), 1 / (1 + (-x.double()).exp()), x.dtype, "sigmoid_")
        self.assertEqual(torch.mm(numbers(0, 3), numbers(3, 2)).shape, (0, 2))
        for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8):
            p, q = (torch.randint(0, 100, s, generator=numbers.seed).to(dtype)
                    for s in ((5, 300), (300, 4)))
            exact = (p.double() @ q.double()).long().to(dtype)
            self.assertTrue(torch.equal(p @ q, exact), dtype)

    def test_strides_are_kept(self):
        """Results have the strides of PyTorch's."""
        x = numbers(2, 3, 4).transpose(1, 2)
        for function in (F.gelu, F.elu, lambda x: torch.softmax(x, -1)):
            self.assertEqual(function(x).stride(), x.stride())
        image = numbers(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
        self.assertTrue(F.conv2d(image, filters()).is_contiguous(
            memory_format=torch.channels_last))

    def test_ends(self):
        """Values at the ends of the range, and of empty and single tensors."""
        nan, inf = float("nan"), float("inf")
        big = torch.tensor([1023.7, -1074.0, 2000.0, -2000.0, inf, -inf, nan], dtype=torch.float64)
        want = torch.tensor([2.0 ** 1023 * 2 ** 0.7, 5e-324, inf, 0, inf, 0, nan],
                            dtype=torch.float64)
        self.assertTrue(torch.allclose(torch.exp2(big), want, rtol=1e-12, atol=0, equal_nan=True))
        self.assertTrue(torch.softmax(torch.tensor(nan), 0).isnan())
        self.assertEqual(torch.softmax(torch.tensor(3.0), 0).item(), 1)
        self.assertEqual(torch.softmax(numbers(3, 0), 1).shape, (3, 0))

    def test_complex(self):
        """Complex products and functions agree with PyTorch's, gradients too."""
        a, b = (torch.complex(numbers(5, 7, dtype=torch.float64), numbers(5, 7,
                dtype=torch.float64)).requires_grad_() for _ in range(2))
        want = [x.detach().clone() for x in (a @ b.t(), a.conj() @ b.t(), torch.tanh(a))]
        (a @ b.t()).abs().sum().backward()
        gradient = a.grad.clone()
        self.active.remove()
        a.grad = None
        for ours, theirs in zip(want, (a @ b.t(), a.conj() @ b.t(), torch.tanh(a))):
            self.assertTrue(torch.allclose(ours, theirs, rtol=1e-12))
        (a @ b.t()).abs().sum().backward()
        self.assertTrue(torch.allclose(a.grad, gradient, rtol=1e-12))

    def test_gradients(self):
        """Gradients agree with PyTorch's in binary64."""
        layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.SiLU(),
            torch.nn.ConvTranspose2d(6, 4, 3, stride=2), torch.nn.Flatten(),
            torch.nn.Linear(4 * 13 * 13, 5)).double()
        x = numbers(4, 3, 6, 6, dtype=torch.float64)

        def gradients():
            """The gradients of all parameters for one input."""
            layers.zero_grad()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (layers(x) ** 2).sum().backward()
            return [p.grad.clone() for p in layers.parameters()]
        got = gradients()
        self.active.remove()
        for ours, theirs in zip(got, gradients()):
            self.assertTrue(torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9))


class Removal(unittest.TestCase):
    """What batch_invariant has replaced can be put back."""
    def test_everything_is_back(self):
        """Removal restores results, torch.compile and oneDNN."""
        x, w = numbers(5, 300), numbers(300, 7)
        compiled = getattr(torch, "compile", None)
        flags = torch.backends.mkldnn.is_available(), torch.backends.mkldnn.enabled
        before = x @ w, torch.sigmoid(x), F.conv2d(numbers_image(), filters())
        with limber.torch.batch_invariant() as active:
            with self.assertRaisesRegex(RuntimeError, "active already"):
                limber.torch.batch_invariant()
            self.assertFalse(torch.equal(x @ w, before[0]) and torch.equal(torch.sigmoid(x),
                                                                           before[1]))
        active.remove()
        for now, then in zip((x @ w, torch.sigmoid(x), F.conv2d(numbers_image(), filters())),
                             before):
            self.assertTrue(torch.equal(now, then))
        self.assertIs(getattr(torch, "compile", None), compiled)
        self.assertEqual((torch.backends.mkldnn.is_available(), torch.backends.mkldnn.enabled),
                         flags)

    def test_what_is_not_covered_is_said_once(self):
        """A warning about gradients of activations comes once."""
        limber.torch._invariant._told.clear()
        x = numbers(3, 4).requires_grad_()
        with limber.torch.batch_invariant(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                torch.sigmoid(x).sum().backward()
        self.assertEqual([str(w.message) for w in said],
                         ["limber.torch: gradients of activations stay PyTorch's; their bits may "
                          "depend on the batch"])

    def test_refused(self):
        """What PyTorch's kernels refuse is refused."""
        with limber.torch.batch_invariant():
            with self.assertRaisesRegex(RuntimeError, "cannot be multiplied"):
                numbers(3, 4) @ numbers(3, 4)
            with self.assertRaisesRegex(RuntimeError, "same dtype"):
                torch.mm(numbers(3, 4), numbers(4, 3).double())
            for call in (lambda: torch.mm(numbers(2, 3, 4), numbers(4, 3)),
                         lambda: torch.bmm(numbers(3, 2, 4), numbers(1, 4, 2)),
                         lambda: torch.addmm(numbers(3).double(), numbers(2, 4), numbers(4, 3)),
                         lambda: torch.mm(numbers(2, 4), numbers(4, 3),
                                          out=torch.empty(0, dtype=torch.int64)),
                         lambda: torch.arange(4).sigmoid_(),
                         lambda: F.gelu(numbers(3), approximate="foo"),
                         lambda: F.silu(torch.arange(4)),
                         lambda: F.conv2d(numbers_image(), filters().double()),
                         lambda: torch.softmax(numbers(3), 1)):
                with self.assertRaises((RuntimeError, IndexError, TypeError)):
                    call()


def numbers_image():
    """An image for the convolutions."""
    return torch.arange(300.0).sin().view(1, 3, 10, 10)


def filters():
    """Filters for the convolutions."""
    return torch.arange(54.0).cos().view(2, 3, 3, 3)


unittest.main()
