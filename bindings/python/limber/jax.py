# SPDX-License-Identifier: BSD-3-Clause
"""JAX's products by Limber, to a contract, under jit, vmap and grad, on CPUs.

    import limber.jax
    y = jax.jit(lambda x: limber.jax.matmul(x, w, "reproducible"))(x)

Under `reproducible` a row has the same bits alone and in any batch, on every CPU and with any
number of threads.  Products on GPUs are refused."""
from __future__ import annotations

import ctypes
import functools
import math
import os
import threading
from typing import Any, Optional

import jax
import jax.numpy as jnp
import jaxlib
import numpy

from ._arguments import contract_of
from ._library import lib
from .errors import BadArgument

__all__ = ["matmul"]

_VERSIONS = (0, 5), (0, 12)     # of jaxlib: the first and the last that are known
_TARGET = "limber_product"
_lock = threading.Lock()
_registered = False


def _register():
    """Registers the handler with XLA, once."""
    global _registered
    with _lock:
        if _registered:
            return
        version = tuple(int(x) for x in jaxlib.__version__.split(".")[:2])
        if not _VERSIONS[0] <= version <= _VERSIONS[1]:
            first, last = ("{}.{}".format(*x) for x in _VERSIONS)
            raise RuntimeError(f"limber.jax: jaxlib {jaxlib.__version__} is none of {first} to "
                               f"{last}")
        file = os.path.join(os.path.dirname(lib._name), "limber", "liblimber_jax.so")
        if not os.path.exists(file):
            raise RuntimeError(f"limber.jax: there is no {file}")
        handler = ctypes.CDLL(file).limber_jax_product
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler), platform="cpu")
        _registered = True


def _call(wish, out, a, b):
    """The product of two stacks of equal rank, whose axes have equal lengths or the length 1."""
    contract, scheme = wish
    if contract == "reproducible" and jnp.issubdtype(out, jnp.integer):
        contract = "native"     # integers wrap, in any order
    c = contract_of(contract, scheme, 0)
    if c.modulus or c.rounding:
        raise BadArgument(f"contract = {contract!r}: products of JAX have no "
                          + ("modulus" if c.modulus else "rounding"))
    words = contract.partition("=")[2] if contract and contract.startswith("simulate=") else ""
    stack = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = jax.ShapeDtypeStruct((*stack, a.shape[-2], b.shape[-1]), out)
    return jax.ffi.ffi_call(_TARGET, result, vmap_method="expand_dims")(
        a, b, promise=numpy.int32(c.promise), bits=numpy.int32(c.bits), scheme=scheme or "",
        unit=words)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _product(wish, out, a, b):
    """The product, with gradients by the two functions below."""
    return _call(wish, out, a, b)


def _forward(wish, out, a, b):
    """The product, and what _backward needs."""
    return _product(wish, out, a, b), (a, b)


def _shaped(x, like):
    """Sums x over the axes that the stack of `like` has with length 1."""
    axes = tuple(i for i in range(x.ndim - 2) if like.shape[i] == 1 and x.shape[i] != 1)
    return jnp.sum(x, axes, keepdims=True) if axes else x


def _backward(wish, out, kept, g):
    """The gradients of a and b: products of g with the other operand, transposed."""
    a, b = kept
    return (_shaped(_product(wish, a.dtype, g, jnp.swapaxes(b, -1, -2)), a),
            _shaped(_product(wish, b.dtype, jnp.swapaxes(a, -1, -2), g), b))


_product.defvjp(_forward, _backward)


def matmul(a: Any, b: Any, contract: Optional[str] = None, scheme: Optional[str] = None,
           preferred_element_type: Any = None) -> jax.Array:
    """a @ b as jax.numpy.matmul, computed by Limber to a contract.

    a, b        arrays of one or more axes; stacks are broadcast
    contract    as of limber.matmul: "native" (the default), "reproducible", "correct", "bits=N",
                "exact", "fast" with a scheme, "simulate=UNIT"
    scheme      as of limber.matmul
    preferred_element_type
                the result's type, as of jax.numpy.matmul; otherwise that of both operands together

    Under jit and vmap, and differentiable in reverse (grad, vjp): gradients are products to the
    same contract.  Forward differentiation (jvp) is not there.  Arrays must be on a CPU.
    BadArgument names wrong shapes and words.  Types that are not served, and contracts that cannot
    be kept, are errors of XLA when the product runs.  RuntimeError names a jaxlib that is not
    known."""
    _register()
    contract_of(contract, scheme, 0)    # refuses wrong words at once
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        raise BadArgument(f"{'b' if a.ndim else 'a'}: expected at least one axis")
    left, right = a.ndim == 1, b.ndim == 1
    a, b = a[None] if left else a, b[:, None] if right else b
    if a.shape[-1] != b.shape[-2]:
        raise BadArgument(f"a has {a.shape[-1]} columns and b {b.shape[-2]} rows")
    common = jnp.result_type(a, b)
    out = jax.dtypes.canonicalize_dtype(preferred_element_type or common)
    a, b = a.astype(common), b.astype(common)
    if b.ndim == 2 and a.ndim > 2:      # one product: the rows of all matrices are one matrix
        rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
        c = _product((contract, scheme), out, rows, b)
        c = c.reshape(*a.shape[:-1], b.shape[-1])
    else:
        rank = max(a.ndim, b.ndim)
        a, b = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (a, b))
        try:
            jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise BadArgument(f"stacks of shapes {a.shape[:-2]} and {b.shape[:-2]} do not "
                              "fit") from None
        c = _product((contract, scheme), out, a, b)
    if left:
        c = c[..., 0, :]
    return c[..., 0] if right else c
