# SPDX-License-Identifier: BSD-3-Clause
"""Tests limber.jax against limber.matmul's bits and JAX's own products."""
import itertools
import unittest

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

import limber
import limber.jax
from limber.errors import BadArgument

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(1)
KEPT = "reproducible"


def numbers(*shape, dtype="float32"):
    """A random array."""
    kind = np.dtype(dtype).kind if dtype not in ("bfloat16", "float8_e4m3fn") else "f"
    x = RNG.integers(0, 100, shape) if kind in "iu" else RNG.standard_normal(shape)
    return jnp.array(x).astype(dtype)


def wanted(a, b, contract=KEPT, **options):
    """The product by limber.matmul, which the test expects."""
    return limber.matmul(np.asarray(a), np.asarray(b), contract=contract, **options)


def product(a, b):
    """limber.jax.matmul by the contract of these tests."""
    return limber.jax.matmul(a, b, KEPT)


class Bits(unittest.TestCase):
    """Results have the bits of limber.matmul."""

    def test_shapes(self):
        """Matrices of many sizes, also empty ones, with and without jit."""
        self.assertEqual(product(numbers(2, 3, 0), numbers(0, 5)).shape, (2, 3, 5))
        for m, k, n in ((1, 1, 1), (9, 300, 5), (1, 70, 33), (64, 64, 1), (3, 0, 2), (0, 3, 2)):
            a, b = numbers(m, k), numbers(k, n)
            for multiply in product, jax.jit(product):
                got = multiply(a, b)
                self.assertEqual(got.shape, (m, n))
                self.assertTrue(np.array_equal(got, wanted(a, b)), (m, k, n))

    def test_vectors(self):
        """Products with vectors."""
        a, b = numbers(40), numbers(40, 6)
        self.assertTrue(np.array_equal(product(a, b), wanted(a, b)))
        self.assertTrue(np.array_equal(product(b.T, a), wanted(b.T, a)))
        self.assertEqual(product(a, a).shape, ())

    def test_stacks(self):
        """Stacks are broadcast as NumPy does."""
        for one, two in itertools.product(((), (4,), (1,), (2, 1), (2, 4), (3, 2, 4)), repeat=2):
            try:
                stack = np.broadcast_shapes(one, two)
            except ValueError:
                continue
            a, b = numbers(*one, 3, 17), numbers(*two, 17, 5)
            got = product(a, b)
            self.assertEqual(got.shape, (*stack, 3, 5))
            whole = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b))
            for x, y, z in zip(*(w.reshape(-1, *w.shape[-2:]) for w in whole),
                               np.asarray(got).reshape(-1, 3, 5)):
                self.assertTrue(np.array_equal(z, wanted(x, y)), (one, two))

    def test_vmap(self):
        """vmap over one operand or both, and nested."""
        a, b = numbers(4, 9, 30), numbers(4, 30, 5)
        want = [wanted(x, y) for x, y in zip(a, b)]
        self.assertTrue(np.array_equal(jax.jit(jax.vmap(product))(a, b), want))
        self.assertTrue(np.array_equal(jax.vmap(product, (0, None))(a, b[0]),
                                       [wanted(x, b[0]) for x in a]))
        self.assertTrue(np.array_equal(jax.vmap(product, (None, 0), 1)(a[0], b),
                                       np.stack([wanted(a[0], y) for y in b], 1)))
        nested = jax.vmap(jax.vmap(product, (0, None)), (None, 0))(a, b)
        for i, j in itertools.product(range(4), repeat=2):
            self.assertTrue(np.array_equal(nested[i, j], wanted(a[j], b[i])))

    def test_rows_do_not_depend_on_the_batch(self):
        """Rows have the same bits in every batch."""
        w, x = numbers(256, 96), numbers(32, 256)
        whole = jax.jit(product)(x, w)
        for rows in 1, 2, 7, 31:
            self.assertTrue(np.array_equal(jax.jit(product)(x[:rows], w), whole[:rows]))

    def test_contracts(self):
        """Every kind of contract reaches the library."""
        a, b = numbers(12, 40), numbers(40, 7)
        for contract, options in (("native", {}), ("correct", {}), ("bits=20", {}),
                                  ("simulate=h100-bf16", {}), ("fast", {"scheme": "fp32-b"})):
            self.assertTrue(np.array_equal(limber.jax.matmul(a, b, contract, **options),
                                           wanted(a, b, contract, **options)), contract)


class Types(unittest.TestCase):
    """Types of operands and results."""
    def test_types(self):
        """Values and types of results agree with jax.numpy.matmul for every type."""
        for dtype in ("float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "int16", "int32",
                      "int64", "uint8", "uint16", "uint32", "uint64", "complex64", "complex128"):
            a, b = numbers(5, 11, dtype=dtype), numbers(11, 4, dtype=dtype)
            got, want = limber.jax.matmul(a, b), jnp.matmul(a, b, preferred_element_type=a.dtype)
            self.assertEqual(got.dtype, want.dtype)
            if "int" in dtype:
                self.assertTrue(np.array_equal(got, want), dtype)
            else:
                scale = jnp.matmul(abs(a.astype("complex128")), abs(b.astype("complex128"))).real
                apart = abs(got.astype("complex128") - want.astype("complex128"))
                step = 2.0 ** -3 if "8" == dtype[5:6] else float(jnp.finfo(a.dtype).eps)
                self.assertTrue(bool((apart <= 16 * step * scale).all()), dtype)

    def test_types_of_results(self):
        """The type of a result of two different types is JAX's."""
        weak = jnp.full((3, 4), 1.5)
        for a, b in ((weak, numbers(4, 2, dtype="bfloat16")),
                     (numbers(3, 4, dtype="int8"), numbers(4, 2)),
                     (numbers(3, 4, dtype="int8"), numbers(4, 2, dtype="int32"))):
            self.assertEqual(limber.jax.matmul(a, b).dtype, jnp.matmul(a, b).dtype)
        x = numbers(9, 30, dtype="int32")
        self.assertTrue(np.array_equal(product(x, x.T), x @ x.T))

    def test_wider_results(self):
        """Results of a wider type, as preferred_element_type asks."""
        for dtype, to in (("int8", "int32"), ("uint8", "int32"), ("uint8", "uint32"),
                          ("bfloat16", "float32"), ("float16", "float32")):
            a, b = numbers(5, 300, dtype=dtype), numbers(300, 4, dtype=dtype)
            got = limber.jax.matmul(a, b, preferred_element_type=to)
            exact = np.asarray(a).astype("f8") @ np.asarray(b).astype("f8")
            self.assertEqual(str(got.dtype), to)
            self.assertTrue(np.allclose(np.asarray(got), exact, rtol=1e-3, atol=1e-2), dtype)


class Gradients(unittest.TestCase):
    """Gradients of products."""
    def check(self, a, b):
        """Compares gradients of a sum of squares with those of jnp.matmul."""
        def loss(multiply):
            """A function of both operands whose gradients are tested."""
            return lambda a, b: (multiply(a, b) ** 2).sum()
        got = jax.jit(jax.grad(loss(product), (0, 1)))(a, b)
        want = jax.grad(loss(jnp.matmul), (0, 1))(a, b)
        for x, y in zip(got, want):
            self.assertEqual(x.shape, y.shape)
            self.assertTrue(np.allclose(x, y, rtol=1e-9), (a.shape, b.shape))

    def test_gradients(self):
        """Gradients agree with jax.numpy.matmul's, summed over broadcast axes."""
        for one, two in (((9, 30), (30, 5)), ((30,), (30, 5)), ((9, 30), (30,)),
                         ((4, 9, 30), (30, 5)), ((2, 1, 3, 8), (4, 8, 5)), ((1, 3, 8), (4, 8, 5))):
            self.check(numbers(*one, dtype="float64"), numbers(*two, dtype="float64"))

    def test_second_order_and_vmap(self):
        """Gradients of gradients under vmap."""
        a, b = numbers(4, 6, 9, dtype="float64"), numbers(4, 9, 5, dtype="float64")

        def twice(multiply):
            """A second derivative, for each matrix of a stack."""
            def first(a, b):
                return jax.grad(lambda a: (multiply(a, b) ** 3).sum())(a).sum()
            return jax.vmap(jax.grad(first))(a, b)
        self.assertTrue(np.allclose(twice(product), twice(jnp.matmul), rtol=1e-9))


class Refusals(unittest.TestCase):
    """Calls that are refused."""
    def test_named(self):
        """Wrong arguments are refused when the function is traced."""
        a, b = numbers(3, 4), numbers(4, 5)
        for text, call in (
                ("a has 4 columns and b 3 rows", lambda: product(a, a)),
                ("contract = 'korrect'", lambda: limber.jax.matmul(a, b, "korrect")),
                ("scheme = None", lambda: limber.jax.matmul(a, b, "fast")),
                ("contract.scheme = 'nothing'", lambda: limber.jax.matmul(a, b, "fast", "nothing")),
                ("expected at least one axis", lambda: product(a, jnp.float32(1))),
                ("do not fit", lambda: product(numbers(2, 3, 4), numbers(3, 4, 5)))):
            with self.assertRaisesRegex(BadArgument, text.replace(".", r"\.")):
                call()

    def test_when_run(self):
        """What only the library can refuse fails when the product runs."""
        with self.assertRaisesRegex(Exception, "unsigned results wrap"):
            limber.jax.matmul(numbers(3, 3, dtype="uint8"), numbers(3, 3, dtype="uint8"),
                              "exact").block_until_ready()
        with self.assertRaisesRegex(Exception, "not served"):
            limber.jax.matmul(jnp.ones((3, 3), bool), jnp.ones((3, 3), bool)).block_until_ready()
        wide = numbers(3, 3) * jnp.array([1, 1e-30, 1], "float32")
        with self.assertRaisesRegex(Exception, "fp32-f"):
            limber.jax.matmul(wide, wide, "fast", "fp32-f").block_until_ready()

    def test_versions(self):
        """Releases of jaxlib that are not known are refused."""
        before, limber.jax._registered = limber.jax._registered, False
        known, jaxlib.__version__ = jaxlib.__version__, "9.1"
        try:
            with self.assertRaisesRegex(RuntimeError, "jaxlib 9.1 is none of 0.5 to 0.12"):
                product(numbers(2, 2), numbers(2, 2))
        finally:
            limber.jax._registered, jaxlib.__version__ = before, known


unittest.main()
