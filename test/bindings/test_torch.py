# SPDX-License-Identifier: BSD-3-Clause
"""Tests limber.torch: against PyTorch's own products in binary64, and bit by bit against
limber.matmul and the package's convolutions on simulated units."""
import contextlib
import copy
import functools
import json
import os
import sys
import tempfile
import threading
import unittest
import unittest.mock
import xml.dom.minidom

import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import tell_skips

import limber
import limber.torch
from limber.torch import _inject

F = torch.nn.functional
UNIT = "in=e5m2 mul=e5m2 acc=(1,5,4) group=16"
OTHER = "in=e4m3 mul=exact acc=f16"
THIRD = "in=bf16 mul=bf16 acc=bf16"
HAS_OPERATORS = hasattr(torch.library, "custom_op")


def randn(*shape, grad=True):
    """Random float64 numbers."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


class One(torch.nn.Module):
    """A module around one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class Net(torch.nn.Module):
    """A small network with a convolution, linear layers and attention."""
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.hidden = torch.nn.Linear(4 * 64, 32)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.out = torch.nn.Linear(32, 10)

    def forward(self, x):
        y = torch.relu(self.hidden(torch.relu(self.conv(x)).flatten(1)))
        z = y.view(-1, 2, 16)
        return self.out(y + self.attention(z, z, z, need_weights=False)[0].flatten(1))


def limbers(a, b, unit):
    """The product of tensors by limber.matmul on a simulated unit."""
    return torch.from_numpy(limber.matmul(a.detach().numpy(), b.detach().numpy(),
                                          contract=f"simulate={unit}", dtype="f32"))


class Order(unittest.TestCase):
    """The order in which PyTorch sums."""
    def test_reveal(self):
        """The descriptions found for PyTorch's products predict an element's bits, in FP32 with any
        BLAS.  If there is no description, an order of summation was found."""
        def by(kind):
            """PyTorch's product in a type, as reveal calls it."""
            return lambda a, b: (torch.from_numpy(a).to(kind) @
                                 torch.from_numpy(b).to(kind)).float().numpy()

        for kind, name, k in (torch.float32, "f32", 301), (torch.bfloat16, "bf16", 70):
            found = limber.reveal(by(kind), k, name, "f32", shape=(16, 48))
            self.assertEqual(found.tree[0], "[")
            if name == "f32":
                self.assertIsNotNone(found.unit, found.tree)
            for seed in range(5 if found.unit else 0):
                torch.manual_seed(seed)
                a, b = (torch.randn(*shape).to(kind).float() for shape in ((16, k), (k, 48)))
                want = limbers(a, b, found.unit)[0, 0]
                self.assertEqual(by(kind)(a.numpy(), b.numpy())[0, 0], want, found)


class Functions(unittest.TestCase):
    """Each replaced function agrees with PyTorch's in binary64, forward and in both gradients."""

    def setUp(self):
        torch.manual_seed(3)

    def same(self, function, *x, uses=True):
        """Compares result and gradients of a function with PyTorch's."""
        want = function(*x)
        wanted = torch.autograd.grad(want.sin().sum(), [v for v in x if v.requires_grad])
        model = One(function)
        with limber.torch.inject(model, {"contract": "correct"}):
            seen = []
            run = limber.torch._ops._compute
            limber.torch._ops._compute = lambda *a: seen.append(a) or run(*a)
            try:
                got = model(*x)
                grads = torch.autograd.grad(got.sin().sum(), [v for v in x if v.requires_grad])
            finally:
                limber.torch._ops._compute = run
        self.assertEqual(bool(seen), uses)
        self.assertEqual(got.shape, want.shape)
        for g, w in zip((got, *grads), (want, *wanted)):
            torch.testing.assert_close(g, w, rtol=1e-12, atol=1e-12)

    def test_products(self):
        """Every function that multiplies gives PyTorch's values and gradients, for vectors,
        matrices and broadcast stacks."""
        shapes = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)),
                  ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5)),
                  ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 5)), ((3, 0), (0, 5)),
                  ((1, 3, 4), (5, 4, 2))]
        for a, b in shapes:
            with self.subTest(a=a, b=b):
                for function in torch.matmul, torch.Tensor.matmul, lambda x, y: x @ y:
                    self.same(function, randn(*a), randn(*b))
        m = randn(3, 4), randn(4, 5)
        for function in torch.mm, torch.Tensor.mm:
            self.same(function, *m)
        for function in torch.bmm, torch.Tensor.bmm:
            self.same(function, randn(2, 3, 4), randn(2, 4, 5))
        for function in torch.mv, torch.Tensor.mv:
            self.same(function, m[0], randn(4))
        for function in torch.dot, torch.Tensor.dot:
            self.same(function, randn(4), randn(4))
        self.same(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=3), randn(5), *m)
        self.same(lambda c, a, b: c.addmm(a, b, beta=0), randn(3, 5, grad=False), *m)
        self.same(lambda c, a, b: torch.addmv(c, a, b), randn(3), m[0], randn(4))
        self.same(lambda c, a, b: torch.baddbmm(c, a, b, alpha=2), randn(2, 3, 5),
                  randn(2, 3, 4), randn(2, 4, 5))
        self.same(F.linear, randn(2, 3, 4), randn(5, 4), randn(5))
        self.same(F.linear, randn(3, 4), randn(4))
        self.same(lambda a, b: torch.matmul(a.t(), b[::2]), randn(3, 4), randn(6, 5))

    def test_out(self):
        """Products with `out` write to that tensor."""
        out = torch.empty(3, 5, dtype=torch.float64)
        a, b = randn(3, 4, grad=False), randn(4, 5, grad=False)
        model = One(lambda x, y: torch.mm(x, y, out=out))
        with limber.torch.inject(model, {"contract": "correct"}):
            self.assertIs(model(a, b), out)
        torch.testing.assert_close(out, a @ b)

    def test_einsum(self):
        """einsum and tensordot, also with diagonals, ellipses and more than two operands."""
        for equation, *shapes in [
                ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
                ("ij,kj", (3, 4), (5, 4)), ("i,j->ij", (3,), (4,)), ("ij,ij->", (3, 4), (3, 4)),
                ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)), ("ij,j->ji", (3, 4), (4,)),
                ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("ii,ij->j", (3, 3), (3, 4)),
                ("...i,...i->...", (2, 3), (4, 2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
                ("ijk,kl->lji", (2, 3, 4), (4, 5)), ("ij,jk->", (2, 3), (3, 4)),
                ("bij,kj->bik", (1, 3, 4), (5, 4)), (" i j , j k -> k i ", (2, 3), (3, 4))]:
            with self.subTest(equation):
                self.same(lambda *x: torch.einsum(equation, *x), *(randn(*s) for s in shapes))
        self.same(lambda *x: torch.einsum("ij,jk->ik", [*x]), randn(2, 3), randn(3, 4))
        for dims in 1, 2, 0, ([0, 2], [1, 0]):
            a = (2, 3, 4) if dims != 1 else (2, 3, 3)
            b = {1: (3, 5), 2: (3, 4, 5), 0: (2, 2)}.get(dims) if isinstance(dims, int) \
                else (4, 2, 6)
            self.same(lambda x, y: torch.tensordot(x, y, dims), randn(*a), randn(*b))

    def test_convolutions(self):
        """Convolutions and transposed ones in one to three dimensions, with every option."""
        def run(function, *shapes, **options):
            """Compares a function with PyTorch's, for operands of these shapes."""
            with self.subTest(function.__name__, **options):
                self.same(lambda *x: function(*x, **options), *(randn(*s) for s in shapes))

        run(F.conv2d, (2, 4, 9, 8), (6, 4, 3, 2), (6,))
        run(F.conv2d, (2, 4, 9, 8), (6, 2, 3, 2), stride=2, padding=(1, 2), dilation=(2, 1),
            groups=2)
        run(F.conv2d, (4, 9, 8), (6, 4, 3, 2))
        run(F.conv2d, (2, 4, 9, 8), (4, 1, 3, 3), groups=4)
        run(F.conv2d, (2, 4, 9, 8), (6, 4, 3, 4), padding="same")
        run(F.conv2d, (2, 4, 9, 8), (6, 4, 3, 3), padding="valid", stride=(2, 1))
        run(F.conv1d, (2, 4, 9), (6, 4, 3), (6,), stride=2, padding=1)
        run(F.conv1d, (2, 4, 9), (6, 4, 4), padding="same", dilation=3)
        run(F.conv3d, (2, 2, 5, 6, 4), (3, 2, 3, 2, 2), padding=(1, 0, 1))
        run(F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 2), (3,), stride=2, padding=1,
            output_padding=1)
        run(F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 2), groups=2, dilation=2)
        run(F.conv_transpose1d, (4, 5), (4, 3, 3), stride=3)
        run(F.conv_transpose2d, (2, 4, 5, 6), (4, 3, 3, 2), (3,), stride=(1, 2), padding=1,
            output_padding=(2, 1), dilation=3)
        run(F.conv_transpose3d, (1, 2, 3, 4, 3), (2, 2, 2, 2, 3))
        run(torch.conv2d, (2, 4, 9, 8), (6, 4, 3, 2))

    @unittest.skipUnless(hasattr(F, "scaled_dot_product_attention"), "PyTorch 2")
    def test_attention(self):
        """Attention with masks, another scale, and fewer heads of keys than of queries."""
        shapes = (2, 3, 5, 8), (2, 3, 6, 8), (2, 3, 6, 7)
        mask = torch.randn(5, 6) > -1
        for options in {}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": mask}, \
                {"attn_mask": torch.randn(5, 6, dtype=torch.float64)}:
            self.same(lambda *x: F.scaled_dot_product_attention(*x, **options),
                      *(randn(*s) for s in shapes))
        self.same(lambda *x: F.scaled_dot_product_attention(*x, enable_gqa=True),
                  randn(2, 4, 5, 8), randn(2, 2, 6, 8), randn(2, 2, 6, 8))

    def test_second_derivatives(self):
        """Gradients have gradients."""
        a, b = randn(3, 4), randn(4, 2)
        self.assertTrue(torch.autograd.gradgradcheck(
            lambda x, y: limber.torch.matmul(x, y, contract="correct"), (a, b)))
        x, w = randn(1, 2, 5, 4), randn(2, 2, 2, 2)
        for function in limber.torch.conv, limber.torch.conv_transpose:
            self.assertTrue(torch.autograd.gradgradcheck(
                lambda x, w: function(x, w, stride=2, padding=1, contract="correct"), (x, w)))

    def test_integers_and_others_stay_pytorchs(self):
        """Types that Limber does not replace stay with PyTorch."""
        x = torch.arange(6).view(2, 3)
        model = One(lambda: x @ x.t())
        with limber.torch.inject(model, UNIT):
            self.assertTrue(torch.equal(model(), x @ x.t()))


class Bits(unittest.TestCase):
    """Injected products have the bits of limber.matmul."""
    def setUp(self):
        torch.manual_seed(4)

    def test_each_product_by_its_unit(self):
        """Forward product and both gradients are computed by the units that the config names for
        them."""
        layer = torch.nn.Linear(40, 30)
        x = torch.randn(20, 40, requires_grad=True)
        config = {"forward": UNIT, "grad_input": OTHER, "grad_weight": {"unit": THIRD}}
        with limber.torch.inject(layer, config):
            y = layer(x)
            g = torch.randn_like(y)
            y.backward(g)
        w = layer.weight
        self.assertTrue(torch.equal(y, limbers(x, w.t(), UNIT) + layer.bias))
        self.assertTrue(torch.equal(x.grad, limbers(g, w, OTHER)))
        # dW^T = x^T g
        self.assertTrue(torch.equal(w.grad, limbers(x.t(), g, THIRD).t()))
        self.assertTrue(torch.equal(layer.bias.grad, g.sum(0)))

    def test_convolutions(self):
        """A convolution and its two gradients have the bits of three different units."""
        layer = torch.nn.Conv2d(3, 5, 3, stride=2, padding=1, bias=False)
        x = torch.randn(2, 3, 9, 9, requires_grad=True)
        config = {"forward": UNIT, "grad_input": OTHER, "grad_weight": THIRD}
        with limber.torch.inject(layer, config):
            y = layer(x)
            g = torch.randn_like(y)
            y.backward(g)
        xn, wn, gn = x.detach().numpy(), layer.weight.detach().numpy(), g.numpy()
        more = {"stride": 2, "pad": 1, "dtype": "f32"}
        self.assertEqual(y.detach().numpy().tobytes(), limber.conv2d(
            xn, wn, contract=f"simulate={UNIT}", **more).tobytes())
        self.assertEqual(x.grad.numpy().tobytes(), limber.conv2d_backward_data(
            gn, wn, (9, 9), contract=f"simulate={OTHER}", **more).tobytes())
        self.assertEqual(layer.weight.grad.numpy().tobytes(), limber.conv2d_backward_filter(
            xn, gn, (3, 3), contract=f"simulate={THIRD}", **more).tobytes())

    def test_types(self):
        """Results have the operands' type, and are rounded to it once."""
        for kind in torch.float16, torch.bfloat16, torch.float64:
            a, b = torch.randn(9, 12).to(kind), torch.randn(12, 7).to(kind)
            got = limber.torch.matmul(a, b, contract="correct")
            self.assertEqual(got.dtype, kind)
            exact = a.double() @ b.double()
            self.assertTrue(torch.equal(got, exact.to(kind)) or kind is torch.float64)
            torch.testing.assert_close(got.double(), exact, rtol=0.01, atol=0.01)
            got = limber.torch.matmul(a, b, unit=UNIT)
            want = limbers(a.float(), b.float(), UNIT)
            self.assertTrue(torch.equal(got, want.to(kind)))

    def test_rounding_at_random(self):
        """Stochastic rounding draws new numbers for each step, and the same ones for the same
        seed."""
        unit = "in=e5m2 mul=e5m2 acc=(1,5,3):rs seed=5"

        def runs():
            """The same layer, three times on a unit with random rounding."""
            layer = torch.nn.Linear(64, 8, bias=False)
            with torch.no_grad():
                layer.weight.copy_(torch.linspace(-1, 1, 512).view(8, 64))
            x = torch.linspace(-2, 1, 640).view(10, 64)
            with limber.torch.inject(layer, unit), torch.no_grad():
                return [layer(x) for _ in range(3)]

        first, again = runs(), runs()
        for i in range(3):
            self.assertTrue(torch.equal(first[i], again[i]))
        self.assertFalse(torch.equal(first[0], first[1]))
        self.assertFalse(torch.equal(first[1], first[2]))


class Models(unittest.TestCase):
    """limber.torch.inject replaces the products of a model's layers."""
    def setUp(self):
        torch.manual_seed(5)
        self.net, self.x = Net(), torch.randn(5, 1, 8, 8)
        self.want = self.net(self.x)

    def run_with(self, config):
        """Returns the network's result under this config."""
        with limber.torch.inject(self.net, config):
            return self.net(self.x)

    def test_correct_is_near_and_removal_complete(self):
        """Under `correct` results are near PyTorch's; remove() restores the model exactly."""
        before = {key: value.clone() for key, value in self.net.state_dict().items()}
        attributes = set(vars(self.net.hidden))
        injected = limber.torch.inject(self.net, {"contract": "correct"})
        got = self.net(self.x)
        self.assertFalse(torch.equal(got, self.want))
        torch.testing.assert_close(got, self.want, rtol=1e-5, atol=1e-6)
        self.assertEqual(list(self.net.state_dict()), list(before))
        injected.remove()
        injected.remove()
        self.assertEqual(set(vars(self.net.hidden)), attributes)
        self.assertTrue(torch.equal(self.net(self.x), self.want))

    def test_layers(self):
        """Patterns of names choose the layers."""
        every = self.run_with({"unit": UNIT})
        some = self.run_with({"unit": UNIT, "layers": {"*": None, "out": UNIT}})
        none = self.run_with({"layers": {"out": None}})
        but = self.run_with({"unit": UNIT, "layers": {"attention": None, "h?dden": None,
                                                      "conv": None, "out": None}})
        self.assertTrue(torch.equal(none, self.want))
        self.assertTrue(torch.equal(but, self.want))
        self.assertFalse(torch.equal(some, every))
        y = {}
        hook = self.net.out.register_forward_pre_hook(lambda m, x: y.update(x=x[0].detach()))
        some = self.run_with({"layers": {"out": UNIT}})
        hook.remove()
        self.assertTrue(torch.equal(some, limbers(y["x"], self.net.out.weight.t(), UNIT) +
                                    self.net.out.bias))

    def test_lpgemm(self):
        """LPGEMM's configuration, as a dictionary and as a file, chooses the unit that it
        describes."""
        words = {"groupedCumulativeLength": 16, "targetFloatType": (1, 5, 2),
                 "roundingType": "nearest", "quantLayer": ["conv", "out"]}
        unit = "in=e5m2 mul=e5m2 acc=e5m2 group=16 outer=e5m2"
        want = self.run_with({"layers": {"conv": unit, "out": unit}})
        self.assertTrue(torch.equal(self.run_with(words), want))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lpgemm.txt")
            with open(path, "w") as file:
                file.write("groupedCumulativeLength = 16\ntargetFloatType = (1,5,2)\n"
                           "roundingType = \"nearest\"\nquantLayer = [conv, out]\n")
            self.assertTrue(torch.equal(self.run_with(path), want))
            with open(path, "a") as file:
                file.write("[out]\ntargetFloatType = (1,5,6)\n")
            self.assertFalse(torch.equal(self.run_with(path), want))
            with open(path, "a") as file:
                file.write("[nowhere]\ntargetFloatType = (1,5,6)\n")
            self.refused(path, f"{path}: LPGEMM's configuration: no layer is called 'nowhere'")
            with open(path, "a") as file:
                file.write("colour = red\n")
            self.refused(path, f"{path}: line 9: ")
        self.refused("nowhere.txt", "nowhere.txt' is neither a preset nor key=value, nor a file")
        self.refused({**words, "quantLayer": ["FC9"]}, "no layer is called 'FC9'")
        self.refused({**words, "unit": UNIT}, "'unit' is none of")

    def refused(self, config, text, model=None):
        """Expects that the config is refused with this text."""
        with self.assertRaisesRegex(limber.BadArgument, text.replace("(", r"\(")):
            limber.torch.inject(self.net if model is None else model, config)
        if model is None:       # a failure replaces nothing
            self.assertTrue(torch.equal(self.net(self.x), self.want))

    def test_schemes(self):
        """The name of a scheme, or names with + between, stand for the contract fast."""
        for config, wish in (("ape", "fast;ape"), ("fp32-f+native", "fast;fp32-f+native"),
                             ({"scheme": "fp32-b"}, "fast;fp32-b"),
                             ({"contract": "native", "scheme": "ape"}, "native;ape")):
            self.assertEqual(set(limber.torch.wishes_of(config)), {wish})
            with limber.torch.inject(self.net, config):
                torch.testing.assert_close(self.net(self.x), self.want, rtol=1e-4, atol=1e-5)
        self.refused("ape+fp32-x", "fp32-x")
        self.refused({"scheme": "fp32-x"}, "fp32-x")

    def test_refusals(self):
        """Bad configurations and models are refused by name."""
        self.refused({"unit": "h100-e4m9"}, "config: .*h100-e4m9")
        self.refused({"unit": UNIT, "contract": "correct"}, "either a unit or a contract")
        self.refused({"contract": "fastest"}, "config: .*fastest")
        self.refused({}, "neither a unit nor a contract")
        self.refused({"units": UNIT}, "'units' is none of")
        self.refused({"layers": {"hiden": UNIT}}, "no layer is called 'hiden'; there are conv, ")
        self.refused({"layers": {"out": {"unit": UNIT, "x": 1}}}, "layers: out: 'x' is none of")
        self.refused({"unit": UNIT, "grad_input": {"contract": "bits=x"}}, "grad_input: .*bits")
        self.refused({"unit": UNIT, "every": 0}, "every = 0")
        self.refused({"unit": UNIT, "layers": ["out"]}, "no dictionary")
        self.refused(7, "neither words nor a dictionary")
        self.refused(UNIT, "no torch.nn.Module", model=torch.zeros(1))
        self.refused(UNIT, "ScriptModule", model=torch.jit.script(torch.nn.Linear(2, 2)))
        with limber.torch.inject(self.net, UNIT):
            with self.assertRaisesRegex(limber.BadArgument, "replaced already"):
                limber.torch.inject(self.net, UNIT)
        with self.assertRaises(RuntimeError):
            limber.torch.matmul(torch.zeros(2, 3), torch.zeros(2, 3), unit=UNIT)
        with self.assertRaisesRegex(limber.BadArgument, "neither a unit nor a contract"):
            limber.torch.matmul(torch.zeros(2, 3), torch.zeros(3, 3))

    def test_encoders(self):
        """Products of encoder layers are replaced, too, although PyTorch may compute such a layer
        by one function."""
        layer = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True,
                                             dtype=torch.float64), 2).eval()
        x = torch.randn(3, 5, 16, dtype=torch.float64)
        for grad in contextlib.nullcontext, torch.no_grad:
            with grad():
                want = layer(x)
                with limber.torch.inject(layer, {"contract": "correct"}):
                    torch.testing.assert_close(layer(x), want, rtol=1e-12, atol=1e-12)
                with limber.torch.inject(layer, UNIT):
                    self.assertGreater((layer(x) - want).abs().max(), 1e-3)

    def test_whole_layers_are_named(self):
        """Layers that PyTorch computes in one piece are listed, and not replaced."""
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LSTM(4, 4))
        injected = limber.torch.inject(model, UNIT)
        self.assertEqual(injected.whole, ["1"])
        self.assertIn("in one piece: 1", str(injected))
        injected.remove()

    def test_copies(self):
        """A copy of a model with replaced products has parameters of its own."""
        with limber.torch.inject(self.net, UNIT):
            other = copy.deepcopy(self.net)
            want = self.net(self.x)
            self.assertTrue(torch.equal(other(self.x), want))
            with torch.no_grad():
                other.out.weight.zero_()
            self.assertTrue(torch.equal(self.net(self.x), want))
            self.assertFalse(torch.equal(other(self.x), want))

    def test_own_forward_functions_stay(self):
        """A forward function that a module was given still runs, and stays after removal."""
        self.net.out.forward = lambda x: x * 2
        want = self.net(self.x)
        with limber.torch.inject(self.net, {"contract": "correct"}):
            torch.testing.assert_close(self.net(self.x), want, rtol=1e-5, atol=1e-6)
        self.assertTrue(torch.equal(self.net(self.x), want))

    def test_threads(self):
        """Several threads may run one model."""
        with limber.torch.inject(self.net, {"unit": UNIT, "layers": {"out": None}}):
            want, found = self.net(self.x), []

            def run():
                """Runs the model repeatedly, and notes whether its results are right."""
                for _ in range(5):
                    found.append(torch.equal(self.net(self.x), want))
            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(found, [True] * 20)

    def test_modules_inside(self):
        """A module's code runs under its own settings.  Each function is intercepted once.  After
        the module, also if it raises, the outer module's settings apply again."""
        w = torch.randn(6, 6)

        class Around(torch.nn.Module):
            """A module that goes on after its inner module has raised an error."""
            def __init__(self, inside):
                super().__init__()
                self.inside, self.more = inside, torch.nn.Linear(6, 6, bias=False)

            def forward(self, x):
                try:
                    x = self.inside(x)
                except RuntimeError:
                    pass
                return self.more(x) @ w

        def run(inside, layers):
            """Runs a model with layers inside layers."""
            model, x = Around(Around(inside)), torch.randn(4, 6)
            with limber.torch.inject(model, {"unit": OTHER, "layers": layers}), torch.no_grad():
                got = model(x)
            self.assertIsNone(torch.overrides._get_current_function_mode())
            return got, x, model

        def want(x, model):
            """The result by Limber's product of each layer's unit."""
            for unit, module in (UNIT, model.inside), (OTHER, model):
                x = limbers(limbers(x, module.more.weight.T, THIRD), w, unit)
            return x

        calls, plain = [], _inject.Mode.__torch_function__

        def count(mode, function, *rest):
            """Calls the function, and notes that the mode was asked."""
            calls.append(function)
            return plain(mode, function, *rest)

        layers = {"inside": UNIT, "inside.inside": None, "*more": THIRD}
        with unittest.mock.patch.object(_inject.Mode, "__torch_function__", count):
            got, x, model = run(One(lambda x: x @ w), layers)
        self.assertTrue(torch.equal(got, want(x @ w, model)))
        if HAS_OPERATORS:
            self.assertEqual(sum(f is F.linear for f in calls), 2)
        got, x, model = run(One(lambda x: x @ w[:3]), layers)
        self.assertTrue(torch.equal(got, want(x, model)))

    @unittest.skipUnless(HAS_OPERATORS, "PyTorch 2.4")
    def test_who_looks_on(self):
        """PyTorch's compiler, export, trace and modes see Limber's operators.  Otherwise products
        are computed without operators."""
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils._python_dispatch import TorchDispatchMode
        seen = []

        class Watch(TorchDispatchMode):
            """Records the operators that are called."""
            def __torch_dispatch__(self, function, kinds, args=(), options=None):
                seen.append(str(function))
                return function(*args, **(options or {}))

        a, b = randn(5, 7), randn(7, 3)
        call = functools.partial(limber.torch.matmul, contract="correct")
        want = call(a, b)
        self.assertNotIn("limber", want.grad_fn.name())
        with Watch():
            self.assertTrue(torch.equal(call(a, b), want))
        self.assertIn("limber.product.default", seen)
        graph = make_fx(call)(a, b)
        self.assertIn("limber.product", graph.code)
        self.assertTrue(torch.equal(graph(a, b), want))
        with torch._subclasses.FakeTensorMode() as fake:
            shape = call(fake.from_tensor(a), fake.from_tensor(b)).shape
        self.assertEqual(shape, want.shape)

    @unittest.skipUnless(HAS_OPERATORS, "PyTorch 2.4")
    def test_compiled_and_exported(self):
        """torch.compile and torch.export give the bits of eager mode, gradients and statistics
        too."""
        for config in ({"contract": "correct"}, {"unit": UNIT, "layers": {"out": None}},
                       {"unit": UNIT, "statistics": True}):
            with limber.torch.inject(self.net, config) as injected:
                want = self.net(self.x)
                grads = torch.autograd.grad(want.sum(), list(self.net.parameters()))
                compiled = torch.compile(self.net, backend="aot_eager", fullgraph=True)
                got = compiled(self.x)
                again = torch.autograd.grad(got.sum(), list(self.net.parameters()))
                for g, w in zip((got, *again), (want, *grads)):
                    self.assertTrue(torch.equal(g, w))
                self.assertEqual(bool(injected.statistics), "statistics" in config)
                exported = torch.export.export(self.net, (self.x,))
                self.assertTrue(torch.equal(exported.module()(self.x), want))
                names = {str(node.target) for node in exported.graph.nodes}
                self.assertIn("limber.conv.default", names)
                self.assertIn("limber.product.default", names)
                with self.assertRaisesRegex(limber.BadArgument, "replaced already|compiled"):
                    limber.torch.inject(compiled, UNIT)
            torch._dynamo.reset()

    @unittest.skipUnless(HAS_OPERATORS, "PyTorch 2.4")
    def test_operators_pass_pytorchs_checks(self):
        """PyTorch's own checks of operators, and shapes on the device `meta`."""
        wishes = "\n".join(["correct"] * 3)
        a, b = randn(3, 4), randn(4, 5)
        torch.library.opcheck(torch.ops.limber.product.default, (a, b, wishes, 0, "", 0))
        x, w = randn(1, 2, 5, 5), randn(3, 2, 2, 2)
        more = ([1, 1], [0, 0], [1, 1], 1, wishes, 0, "", 0)
        torch.library.opcheck(torch.ops.limber.conv.default, (x, w, *more))
        dy = randn(1, 3, 4, 4)
        torch.library.opcheck(torch.ops.limber.conv_input.default, (dy, w, [5, 5], *more))
        torch.library.opcheck(torch.ops.limber.conv_weight.default, (x, dy, [2, 2], *more))
        meta = torch.ops.limber.product.default(a.to("meta"), b.to("meta"), wishes, 0, "", 0)
        self.assertEqual((meta.shape, meta.device.type), ((3, 5), "meta"))


class Statistics(unittest.TestCase):
    """Statistics of rounding events by layer, and the profiler."""
    def test_tables_files_and_pictures(self):
        """Statistics by step and layer, as dictionaries, text, JSON and pictures."""
        torch.manual_seed(6)
        net, x = Net(), torch.randn(6, 1, 8, 8)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        injected = limber.torch.inject(net, {"unit": UNIT, "statistics": True, "every": 2,
                                             "grad_input": {"contract": "correct"}})
        self.assertIn("no statistics", str(injected))
        follows = hasattr(optimizer, "register_step_post_hook")
        if follows:
            injected.follow(optimizer)
        for step in range(4):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
            if not follows:
                injected.step()
        rows = injected.statistics
        self.assertEqual({row["step"] for row in rows}, {0, 2})
        self.assertEqual({row["layer"] for row in rows}, {"conv", "hidden", "attention", "out"})
        out = next(row for row in rows if (row["layer"], row["product"]) == ("out", "forward"))
        self.assertEqual(out["products"], 6 * 10 * 32)
        self.assertTrue(0 < out["partly_swamped"] < 1 and out["seconds"] > 0)
        wide = next(row for row in rows if row["product"] == "grad_input")
        self.assertIn("scheme", wide)
        means = injected.means()
        self.assertEqual(len(means), len({(row["layer"], row["product"]) for row in rows}))
        self.assertIn("grad_weight", str(injected))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.jsonl")
            injected.write(path)
            with open(path) as file:
                lines = [json.loads(line, parse_constant=self.fail) for line in file]
            self.assertIn({"step": 0, "tag": "out/forward/partly_swamped",
                           "value": out["partly_swamped"]}, lines)
            self.assertEqual(os.listdir(folder), ["s.jsonl"])
            path = os.path.join(folder, "s.svg")
            injected.picture(path, "partly_swamped", "grad_weight")
            text = xml.dom.minidom.parse(path).toxml()
            for layer in "conv", "hidden", "attention", "out":
                self.assertIn(layer, text)
            for bad in ("colour", "forward"), ("swamped", "sideways"):
                with self.assertRaisesRegex(limber.BadArgument, "is none of"):
                    injected.picture(path, *bad)
            with self.assertRaises(OSError):
                injected.write(os.path.join(folder, "no", "s.jsonl"))
        injected.remove()

    def test_profiler_sees_products(self):
        """The profiler shows Limber's products under their names."""
        net = Net()
        with limber.torch.inject(net, UNIT), torch.autograd.profiler.profile() as profile:
            net(torch.randn(3, 1, 8, 8)).sum().backward()
        names = [event.name for event in profile.function_events]
        self.assertEqual(names.count("limber::conv2d"), 1)
        self.assertEqual(names.count("limber::conv2d_backward_filter"), 1)
        # forward: two layers, in and out of attention, its two products; two gradients of each
        self.assertEqual(names.count("limber::matmul"), 18)
        self.assertTrue(all(event.cpu_time_total > 0 for event in profile.function_events
                            if event.name.startswith("limber::")))

    def test_observing_changes_nothing(self):
        """Keeping statistics does not change results."""
        torch.manual_seed(7)
        net, x = Net(), torch.randn(3, 1, 8, 8)
        results = []
        for statistics in False, True:
            with limber.torch.inject(net, {"unit": UNIT, "statistics": statistics}):
                y = net(x)
                results.append((y, *torch.autograd.grad(y.sum(), list(net.parameters()))))
        for a, b in zip(*results):
            self.assertTrue(torch.equal(a, b))


if __name__ == "__main__":
    print("PyTorch", torch.__version__)
    tell_skips.main()
