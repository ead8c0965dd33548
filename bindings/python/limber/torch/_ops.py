# SPDX-License-Identifier: BSD-3-Clause
"""The operators: a product of matrices and the three directions of a convolution, with gradients
that are such operators themselves.

    wishes      the texts of Wishes, joined by lines
    role        which of them: 0 forward, 1 the gradient of the input, 2 of the weights
    layer, run  whom statistics are of, and the Injection that keeps them (0: none)"""
import contextlib
import functools
import threading
from typing import Dict, List, Tuple

import torch

from .._core import Context
from .._types import numpy
from ._config import TORCH, parts_of
from ._table import table_of

_contexts: Dict[Tuple[str, int], Context] = {}
_lock = threading.Lock()
_FORWARD, _INPUT, _WEIGHT = range(3)
_is_profiled = getattr(torch.autograd, "_profiler_enabled", lambda: False)


def context_of(device):
    """The Context for a device, made when it is first needed."""
    key = (device.type, device.index or 0)
    known = _contexts.get(key)
    if known is None:
        with _lock:
            if key not in _contexts:
                _contexts[key] = Context(backend="cuda", device=key[1]) if key[0] == "cuda" \
                    else Context()
            known = _contexts[key]
    return known


def _readable(x):
    """The form that Limber's functions take: a NumPy array if NumPy has the type, which is
    fastest."""
    if x.requires_grad:
        x = x.detach()
    if x.is_neg():
        x = x.resolve_neg()
    if x.is_conj():
        x = x.resolve_conj()
    if x.device.type == "cpu" and numpy is not None and x.dtype != torch.bfloat16:
        return x.numpy()
    return x


@functools.lru_cache(maxsize=1024)
def _wish(wishes, role):
    """Contract and scheme of one product, or (TORCH, None)."""
    return parts_of(wishes.split("\n")[role])


def _compute(function, out, wishes, role, layer, run, a, b, sizes):
    """Calls a Limber function with `out`, and records statistics of this step if asked to."""
    contract, scheme = _wish(wishes, role)
    table, call = table_of(run), getattr(context_of(out.device), function)
    options = {"contract": table.contract_now(contract) if table else contract, "scheme": scheme,
               "out": _readable(out)}
    operands = _readable(a), _readable(b)
    with _named("limber::" + function) if _is_profiled() else _NAMELESS:
        if table and table.wants():
            table.note(layer, role, call, operands, sizes, options)
        else:
            call(*operands, **sizes, **options)
    return out


# An event of this name under PyTorch's profiler; recording costs as much as a small product.
_named = torch.autograd.profiler.record_function
_NAMELESS = contextlib.nullcontext()


def _is_torch(wishes, role):
    """Whether PyTorch itself computes products in this role (forward, or a gradient)."""
    return _wish(wishes, role)[0] == TORCH


# ---- shapes of results, for fake tensors --------------------------------------------------------

def _product_like(a, b, *_):
    """The result of _product, not filled."""
    return a.new_empty(a.shape[:-1] + b.shape[-1:])


def _conv_like(x, w, stride, pad, dilation, *_):
    """The result of _conv, not filled."""
    return x.new_empty([x.shape[0], w.shape[0]] + [
        (x.shape[2 + i] + 2 * pad[i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(len(stride))])


def _conv_input_like(dy, w, size, stride, pad, dilation, groups, *_):
    """The result of _conv_input, not filled."""
    return dy.new_empty([dy.shape[0], w.shape[1] * groups, *size])


def _conv_weight_like(x, dy, window, stride, pad, dilation, groups, *_):
    """The result of _conv_weight, not filled."""
    return dy.new_empty([dy.shape[1], x.shape[1] // groups, *window])


# ---- the computations ---------------------------------------------------------------------------

def _product(a: torch.Tensor, b: torch.Tensor, wishes: str, role: int, layer: str,
             run: int) -> torch.Tensor:
    """The product of two matrices, or of stacks of them."""
    if _is_torch(wishes, role):
        return torch.matmul(a, b)
    out = _product_like(a, b)
    return _compute("matmul", out, wishes, role, layer, run, a, b, {})


def _conv(x: torch.Tensor, w: torch.Tensor, stride: List[int], pad: List[int], dilation: List[int],
          groups: int, wishes: str, role: int, layer: str, run: int) -> torch.Tensor:
    """A convolution."""
    if _is_torch(wishes, role):
        return _by_torch(x, w, stride, pad, dilation, groups)
    out = _conv_like(x, w, stride, pad, dilation)
    return _compute("conv2d", out, wishes, role, layer, run, x.contiguous(), w.contiguous(),
                    _sizes(stride, pad, dilation, groups))


def _conv_input(dy: torch.Tensor, w: torch.Tensor, size: List[int], stride: List[int],
                pad: List[int], dilation: List[int], groups: int, wishes: str, role: int,
                layer: str, run: int) -> torch.Tensor:
    """The gradient of a convolution's input."""
    out = _conv_input_like(dy, w, size, stride, pad, dilation, groups)
    if _is_torch(wishes, role):
        return torch.nn.grad.__dict__[f"conv{len(size)}d_input"](
            out.shape, w.detach(), dy.detach(), stride, pad, dilation, groups)
    return _compute("conv2d_backward_data", out, wishes, role, layer, run, dy.contiguous(),
                    w.contiguous(), {"size": tuple(size), **_sizes(stride, pad, dilation, groups)})


def _conv_weight(x: torch.Tensor, dy: torch.Tensor, window: List[int], stride: List[int],
                 pad: List[int], dilation: List[int], groups: int, wishes: str, role: int,
                 layer: str, run: int) -> torch.Tensor:
    """The gradient of a convolution's weights."""
    out = _conv_weight_like(x, dy, window, stride, pad, dilation, groups)
    if _is_torch(wishes, role):
        return torch.nn.grad.__dict__[f"conv{len(window)}d_weight"](
            x.detach(), out.shape, dy.detach(), stride, pad, dilation, groups)
    return _compute("conv2d_backward_filter", out, wishes, role, layer, run, x.contiguous(),
                    dy.contiguous(),
                    {"window": tuple(window), **_sizes(stride, pad, dilation, groups)})


def _by_torch(x, w, stride, pad, dilation, groups):
    """A convolution by PyTorch."""
    name = f"conv{len(stride)}d"
    return getattr(torch.nn.functional, name)(x, w, None, stride, pad, dilation, groups)


def _sizes(stride, pad, dilation, groups):
    """The arguments that all three directions share."""
    return {"stride": tuple(stride), "pad": tuple(pad), "dilation": tuple(dilation),
            "groups": groups}


# ---- as operators, or as autograd functions -----------------------------------------------------

def _product_gradients(ctx, g):
    """The gradients of product's operands."""
    a, b = ctx.saved
    more = ctx.more
    return (product(g, b.transpose(-1, -2), more[0], _INPUT, *more[2:])
            if ctx.needs_input_grad[0] else None,
            product(a.transpose(-1, -2), g, more[0], _WEIGHT, *more[2:])
            if ctx.needs_input_grad[1] else None)


def _conv_gradients(ctx, g):
    """The gradients of conv's operands."""
    x, w = ctx.saved
    *geometry, wishes, _, layer, run = ctx.more
    more = (*geometry, wishes)
    return (conv_input(g, w, list(x.shape[2:]), *more, _INPUT, layer, run)
            if ctx.needs_input_grad[0] else None,
            conv_weight(x, g, list(w.shape[2:]), *more, _WEIGHT, layer, run)
            if ctx.needs_input_grad[1] else None)


def _conv_input_gradients(ctx, g):
    """The gradients of conv_input's operands."""
    dy, w = ctx.saved
    _, *geometry, wishes, _, layer, run = ctx.more
    more = (*geometry, wishes)
    return (conv(g, w, *more, _INPUT, layer, run) if ctx.needs_input_grad[0] else None,
            conv_weight(g, dy, list(w.shape[2:]), *more, _WEIGHT, layer, run)
            if ctx.needs_input_grad[1] else None)


def _conv_weight_gradients(ctx, g):
    """The gradients of conv_weight's operands."""
    x, dy = ctx.saved
    _, *geometry, wishes, _, layer, run = ctx.more
    more = (*geometry, wishes)
    return (conv_input(dy, g, list(x.shape[2:]), *more, _INPUT, layer, run)
            if ctx.needs_input_grad[0] else None,
            conv(x, g, *more, _WEIGHT, layer, run) if ctx.needs_input_grad[1] else None)


HAS_OPERATORS = hasattr(torch.library, "custom_op")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_eager(a, b):
    """Whether PyTorch computes eagerly, without a compiler, export, trace, transform or mode, which
    must see an operator."""
    if not (type(a) in _PLAIN and type(b) in _PLAIN) or torch.jit.is_tracing():
        return False
    return not HAS_OPERATORS or not (
        torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or
        torch._C._are_functorch_transforms_active())


def _operator(name, compute, shape, gradients):
    """An operator of torch.library, if PyTorch has it, and an autograd function, which costs a
    third of the operator's overhead and is used in eager mode."""
    def backward(ctx, g):
        """Gradients of the two tensors; the other arguments have none."""
        ctx.saved = ctx.saved_tensors
        return (*gradients(ctx, g), *(None for _ in ctx.more))

    def forward(ctx, a, b, *more):
        ctx.save_for_backward(a, b)
        ctx.more = more
        return compute(a, b, *more)

    function = type(name, (torch.autograd.Function,),
                    {"forward": staticmethod(forward), "backward": staticmethod(backward)}).apply
    if not HAS_OPERATORS:
        return function
    made = torch.library.custom_op(f"limber::{name}", compute, mutates_args=())
    made.register_fake(shape)

    def setup(ctx, inputs, output):
        """Keeps what `backward` needs."""
        ctx.save_for_backward(*inputs[:2])
        ctx.more = inputs[2:]

    made.register_autograd(backward, setup_context=setup)
    operator = getattr(torch.ops.limber, name).default

    def call(a, b, *more):
        """Calls the operator only where something must see it."""
        if not is_eager(a, b):
            return operator(a, b, *more)
        if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
            return function(a, b, *more)
        return compute(a, b, *more)
    return call


product = _operator("product", _product, _product_like, _product_gradients)
conv = _operator("conv", _conv, _conv_like, _conv_gradients)
conv_input = _operator("conv_input", _conv_input, _conv_input_like, _conv_input_gradients)
conv_weight = _operator("conv_weight", _conv_weight, _conv_weight_like, _conv_weight_gradients)
