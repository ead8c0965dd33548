# SPDX-License-Identifier: BSD-3-Clause
"""Operators of PyTorch on CPUs whose results depend on the place of an element in its batch, by
Limber, which has no such dependence: products by the contract `reproducible`, functions of elements
correctly rounded.

The operators replace PyTorch's kernels for CPUs in its dispatcher, so they serve models that call
them in any way; autograd calls them, too."""
import inspect
import math
import os
import threading
import warnings
from typing import Optional, Set

import numpy
import torch

from .. import ops
from . import _ops
from ._config import wishes_of
from ._functions import By

_WISHES = wishes_of({"contract": "reproducible"}, "batch_invariant")
_lock = threading.RLock()
_active: Optional["Invariance"] = None      # that is installed
_NATIVE = wishes_of({"contract": "native"}, "batch_invariant")     # of integers
_told: Set[str] = set()


def _tell(text):
    """Warns, once for each text."""
    if text not in _told:
        _told.add(text)
        warnings.warn(f"limber.torch: {text}", stacklevel=4)


# ---- products ------------------------------------------------------------------------------------

def _product(a, b, out, beta=0, alpha=1):
    """out = beta out + alpha a b, rounded once."""
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != "
                           f"{b.dtype}")
    if a.dtype == torch.bool:
        raise RuntimeError("products of truth values are not defined")
    if a.dtype == torch.uint8:      # of which Limber has no results; int32 wraps to the same bits
        wide = out.to(torch.int32)
        _product(a.to(torch.int32), b.to(torch.int32), wide, beta, alpha)
        return out.copy_(wide)
    contract = "reproducible" if a.dtype.is_floating_point or a.dtype.is_complex else "native"
    to = out if out.is_contiguous() else out.contiguous()
    _ops.context_of(out.device).matmul(_ops._readable(a), _ops._readable(b), contract=contract,
                                       out=_ops._readable(to), alpha=alpha, beta=beta)
    return out if to is out else out.copy_(to)


def _check(a, b, dims, c=None):
    """Refuses what PyTorch's kernels refuse."""
    if a.dim() != dims or b.dim() != dims:
        raise RuntimeError(f"tensors of {dims} axes are expected, not of {a.dim()} and {b.dim()}")
    if dims == 3 and a.shape[0] != b.shape[0]:
        raise RuntimeError(f"batches of {a.shape[0]} and {b.shape[0]} matrices do not fit")
    if c is not None and c.dtype != a.dtype:
        raise RuntimeError(f"the added tensor is {c.dtype}, and the operands are {a.dtype}")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({tuple(a.shape)} and "
                           f"{tuple(b.shape)})")


def _new(c, a, b, beta):
    """A new result, which holds c if it is added."""
    shape = (*a.shape[:-1], b.shape[-1])
    if c is None or beta == 0:
        return a.new_empty(shape)
    return c.expand(shape).clone(memory_format=torch.contiguous_format)


def _matrices(a, b):
    """torch.mm."""
    _check(a, b, 2)
    return _product(a, b, _new(None, a, b, 0))


def _stacks(a, b):
    """torch.bmm."""
    _check(a, b, 3)
    return _product(a, b, _new(None, a, b, 0))


def _bytes(a, b):
    """_int_mm: int32 from int8."""
    _check(a, b, 2)
    if a.dtype != torch.int8 or b.dtype != torch.int8:
        raise RuntimeError(f"_int_mm: expected int8, not {a.dtype} and {b.dtype}")
    out = a.new_empty((a.shape[0], b.shape[1]), dtype=torch.int32)
    _ops.context_of(out.device).matmul(_ops._readable(a), _ops._readable(b), contract="native",
                                       out=_ops._readable(out))
    return out


def _sum(dims):
    """torch.addmm (dims 2) or torch.baddbmm (dims 3)."""
    def added(c, a, b, *, beta=1, alpha=1):
        _check(a, b, dims, c)
        if a.dtype in (torch.bfloat16, torch.float16) and alpha == 1 and beta == 1:
            # PyTorch's linear adds the bias to some layouts afterwards: both ways must agree
            return _product(a, b, _new(None, a, b, 0)).add_(c)
        return _product(a, b, _new(c, a, b, beta), beta, alpha)
    return added


_added, _stacks_added = _sum(2), _sum(3)


def _vector(a, x):
    """torch.mv."""
    return _matrices(a, x.unsqueeze(1)).squeeze(1)


def _vector_added(c, a, x, *, beta=1, alpha=1):
    """torch.addmv."""
    return _added(c if c.dim() == 0 else c.unsqueeze(1), a, x.unsqueeze(1), beta=beta,
                  alpha=alpha).squeeze(1)


def _dot(a, b):
    """torch.dot, which conjugates neither vector."""
    if a.shape != b.shape or a.dim() != 1:
        raise RuntimeError("1D tensors of one length are expected")
    return _matrices(a.unsqueeze(0), b.unsqueeze(1)).reshape(())


def _convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution, also transposed; the result has channels last in memory if an operand has."""
    if x.dtype != w.dtype or (bias is not None and bias.dtype != x.dtype):
        raise RuntimeError(f"input, weight and bias have different types: {x.dtype}, {w.dtype}"
                           + (f", {bias.dtype}" if bias is not None else ""))
    by = By(_WISHES if x.dtype.is_floating_point or x.dtype.is_complex else _NATIVE)
    if transposed:
        made = by.transposed(x, w, bias, list(stride), list(padding), list(output_padding), groups,
                             list(dilation))
    else:
        made = by.convolution(x, w, bias, list(stride), list(padding), list(dilation), groups)
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last and any(t.is_contiguous(memory_format=last) and not t.is_contiguous() for t in (x, w)):
        made = made.contiguous(memory_format=last)
    return made


def _convolution_backward(g, x, w, bias_sizes, stride, padding, dilation, transposed,
                          output_padding, groups, mask):
    """The gradients of the input, the weights and the bias; mask: which of them are wanted."""
    more = ("\n".join(_WISHES), 0, "", 0)
    stride, padding, dilation = list(stride), list(padding), list(dilation)
    dx = dw = db = None
    if transposed:      # the roles of x and of the gradient change
        if mask[0]:
            dx = _ops.conv(g, w, stride, padding, dilation, groups, *more)
        if mask[1]:
            dw = _ops.conv_weight(g, x, list(w.shape[2:]), stride, padding, dilation, groups, *more)
    else:
        if mask[0]:
            dx = _ops.conv_input(g, w, list(x.shape[2:]), stride, padding, dilation, groups, *more)
        if mask[1]:
            dw = _ops.conv_weight(x, g, list(w.shape[2:]), stride, padding, dilation, groups, *more)
    if mask[2]:
        db = g.sum([0, *range(2, g.dim())])
    return dx, dw, db


# ---- functions of elements -----------------------------------------------------------------------

def _array(x):
    """x as an array of NumPy that holds its values: of binary32 for BF16 and FP16."""
    x = x.detach()
    x = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    return x.contiguous().numpy()


def _laid_out(made, like):
    """The numbers with the strides that PyTorch's kernels give."""
    return made if like.is_contiguous() else torch.empty_like(like, dtype=made.dtype).copy_(made)


def _tensor(function, x, like):
    """A function of limber.ops of an array, rounded once to a tensor's type."""
    if like.dtype == torch.bfloat16:
        bits = numpy.asarray(function(x, dtype="bf16")).view(numpy.int16)
        made = torch.from_numpy(bits.reshape(x.shape)).view(torch.bfloat16)
    else:
        name = str(like.dtype).rpartition(".")[2]
        made = torch.from_numpy(numpy.asarray(function(x, dtype=name)).reshape(x.shape))
    return _laid_out(made, like)


_COMPLEX = {"tanh": numpy.tanh, "sigmoid": lambda z: 1 / (1 + numpy.exp(-z)),
            "silu": lambda z: z / (1 + numpy.exp(-z)), "rsqrt": lambda z: 1 / numpy.sqrt(z),
            "exp2": numpy.exp2}


def _of_complex(name, x):
    """A function of complex numbers, by NumPy."""
    if name not in _COMPLEX:
        raise RuntimeError(f"{name}: complex numbers are not served")
    values = x.detach().resolve_conj().resolve_neg().contiguous().numpy()
    return _laid_out(torch.from_numpy(numpy.asarray(_COMPLEX[name](values), values.dtype)), x)


def _floats(x):
    """x, or integers converted to PyTorch's default type of floats."""
    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())


def _floats_alone(name, x):
    """Refuses integers as PyTorch's kernel does."""
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"{name}: {x.dtype} is no type of floats")
    return x


def _simple(name, integers=True):
    """A PyTorch kernel from the function of limber.ops with this name. integers: they are converted
    to floats, as PyTorch does for some functions."""
    function = getattr(ops, name)

    def apply(x):
        if x.dtype.is_complex:
            return _of_complex(name, x)
        x = _floats(x) if integers else _floats_alone(name, x)
        return _tensor(function, _array(x), x)
    return apply


def _gelu(x, *, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, not {approximate!r}")
    return _simple("gelu_tanh" if approximate == "tanh" else "gelu", False)(x)


def _wide(x):
    """x in binary64, in which PyTorch's basic operations are those of IEEE 754."""
    return _floats(x).detach().double()


def _narrow(values, x):
    """Doubles rounded to the type of x."""
    return _laid_out(values.to(_floats(x).dtype), x)


def _of_doubles(name, x):
    """A function of limber.ops, from doubles to doubles."""
    return torch.from_numpy(numpy.asarray(getattr(ops, name)(x.contiguous().numpy())))


def _elu(x, alpha=1, scale=1, input_scale=1):
    v = _wide(_floats_alone("elu", x))
    negative = _of_doubles("expm1", v * input_scale) * alpha
    return _narrow(torch.where(v > 0, v, negative) * scale, x)


def _softplus(x, beta=1, threshold=20):
    v = _wide(_floats_alone("softplus", x)) * beta
    return _narrow(torch.where(v > threshold, v, _of_doubles("softplus", v)) / beta, x)


def _mish(x):
    v = _wide(_floats_alone("mish", x))
    return _narrow(v * _of_doubles("tanh", _of_doubles("softplus", v)), x)


def _exp2(x):
    """2^x, as 2^whole e^(log(2) rest)."""
    if x.dtype.is_complex:
        return _of_complex("exp2", x)
    v = _wide(x)
    whole = v.round().nan_to_num(0, 0, 0).clamp(-1200, 1200)
    half = (whole / 2).floor()      # 2^whole may be infinite where the result is not
    root = torch.ldexp(_of_doubles("exp", (v - whole) * math.log(2)), half)
    return _narrow(torch.ldexp(root, whole - half), x)


def _logit(x, eps=None):
    v = _wide(x)
    v = v if eps is None else v.clamp(eps, 1 - eps)
    return _narrow(_of_doubles("log", v / (1 - v)), x)


def _check_axis(x, dim):
    """Refuses an axis that x does not have."""
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        raise IndexError(f"Dimension out of range: {dim} of {x.dim()}")


def _softmax(x, dim, half_to_float=False):
    """torch.softmax by limber.ops.softmax."""
    _check_axis(x, dim)
    _floats_alone("softmax", x)
    if x.dim() == 0:
        return x - x + 1        # NaN for NaN and infinities
    if not x.numel():
        return torch.empty_like(x)
    return _tensor(lambda a, dtype: ops.softmax(a, axis=dim, dtype=dtype), _array(x), x)


def _log_softmax(x, dim, half_to_float=False):
    """torch.log_softmax, with exact sums."""
    _check_axis(x, dim)
    v = _wide(_floats_alone("log_softmax", x))
    if x.dim() == 0:
        return x - x
    if not v.numel():
        return torch.empty_like(x)
    v = v - v.amax(dim, keepdim=True)
    total = ops.sum(_of_doubles("exp", v).numpy(), axis=dim)
    total = torch.from_numpy(numpy.asarray(total)).unsqueeze(dim)
    return _narrow(v - _of_doubles("log", total), x)


# ---- the dispatcher ------------------------------------------------------------------------------

def _into(function):
    """The form of an operator that writes to `out`."""
    def to_out(*arguments, out, **options):
        made = function(*arguments, **options)
        if not torch.can_cast(made.dtype, out.dtype):
            raise RuntimeError(f"result type {made.dtype} can't be cast to {out.dtype}")
        out.resize_(made.shape)
        return out.copy_(made)
    return to_out


def _in_place(function):
    """The form of an operator that overwrites its first argument."""
    def in_place(x, *arguments, **options):
        made = function(x, *arguments, **options)
        if not torch.can_cast(made.dtype, x.dtype):
            raise RuntimeError(f"result type {made.dtype} can't be cast to {x.dtype}")
        return x.copy_(made)
    return in_place


def _of_graph(function):
    """A function of elements.  If its gradient will be wanted, says once that this is PyTorch's."""
    def apply(x, *arguments, **options):
        if x.requires_grad:
            _tell("gradients of activations stay PyTorch's; their bits may depend on the batch")
        return function(x, *arguments, **options)
    return apply


_PRODUCTS = {"mm": _matrices, "bmm": _stacks, "addmm": _added, "baddbmm": _stacks_added,
             "mv": _vector, "addmv": _vector_added, "dot": _dot, "_int_mm": _bytes}
_ADDED = {"addmm", "baddbmm", "addmv"}      # with a form in place
_FUNCTIONS = {"silu": _simple("silu", False), "gelu": _gelu, "tanh": _simple("tanh"),
              "sigmoid": _simple("sigmoid"), "rsqrt": _simple("rsqrt"), "softplus": _softplus,
              "mish": _mish, "elu": _elu, "exp2": _exp2, "logit": _logit}
_ROWS = {"_softmax": _softmax, "_log_softmax": _log_softmax}


def _forms():
    """All operators: (name, function)."""
    for name, function in _PRODUCTS.items():
        yield name, function
        yield f"{name}.out", _into(function)
        if name in _ADDED:
            yield f"{name}_", _in_place(function)
    for name, function in _FUNCTIONS.items():
        function = _of_graph(function)
        yield name, function
        yield f"{name}.out", _into(function)
        yield f"{name}_", _in_place(function)
    for name, function in _ROWS.items():
        yield name, function
        yield f"{name}.out", _into(function)
    yield "convolution", _convolution
    yield "convolution_backward", _convolution_backward


def _is_known(name):
    """Whether this release of PyTorch has the operator."""
    packet = getattr(torch.ops.aten, name.partition(".")[0], None)
    return packet is not None and hasattr(packet, name.partition(".")[2] or "default")


class Invariance:
    """What batch_invariant has replaced, until remove()."""

    def __init__(self):
        self._library = torch.library.Library("aten", "IMPL", "CPU")
        options = {"allow_override": True} if "allow_override" in \
            inspect.signature(self._library.impl).parameters else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # PyTorch says that kernels are overridden
            for name, function in _forms():
                if _is_known(name):
                    self._library.impl(name, function, "CPU", **options)
        self._settings = [(where, name, getattr(where, name)) for where, name in (
            (torch.backends.mkldnn, "enabled"), (torch, "compile")) if hasattr(where, name)]
        self._modes = [(name, getattr(torch.backends.cuda, f"{name}_sdp_enabled")())
                       for name in ("flash", "mem_efficient")
                       if hasattr(torch.backends.cuda, f"{name}_sdp_enabled")]
        _set(torch.backends.mkldnn, "enabled", False)
        for name, _ in self._modes:     # attention in one kernel, on CPUs, too
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(False)
        compiled = getattr(torch, "compile", None)
        if compiled is not None:
            def compile(*arguments, **options):
                _tell("torch.compile fuses operators, whose bits may depend on the batch")
                return compiled(*arguments, **options)
            torch.compile = compile

    def remove(self):
        """Puts PyTorch's kernels and settings back.  A second call does nothing."""
        global _active
        with _lock:
            if _active is not self or _by_run:
                return
            destroy = getattr(self._library, "_destroy", None)
            if destroy:
                destroy()
            self._library = None
            for where, name, value in self._settings:
                _set(where, name, value)
            for name, value in self._modes:
                getattr(torch.backends.cuda, f"enable_{name}_sdp")(value)
            _active = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _set(where, name, value):
    """Sets an attribute; some releases have only a function for mkldnn's."""
    if where is torch.backends.mkldnn:
        try:
            setattr(where, name, value)
        except (AttributeError, RuntimeError):
            torch.backends.mkldnn.set_flags(value)
    else:
        setattr(where, name, value)


def batch_invariant():
    """Makes results of eager PyTorch on CPUs independent of the batch: a row has the same bits
    alone and in any batch, with any number of threads, with padding, in prefill and in decoding.

    Replaced are products (mm, bmm, addmm, baddbmm, mv, addmv, dot), convolutions and their
    gradients by the contract `reproducible`, softmax, log_softmax, silu, gelu, tanh, sigmoid,
    softplus, mish, elu, exp2, logit and rsqrt by correctly rounded functions; oneDNN and fused
    attention are off.  Products of integers are exact modulo their type's range.  Everything that
    calls these operators is served, whole models too, with gradients.

    Not covered: gradients of activations, torch.compile (each said once, as a warning), and what is
    not named above, such as sums along the batch or over very long rows, pow, atan2, logaddexp,
    cdist.  GPUs keep their kernels.  A call costs more than PyTorch's, by some 50 microseconds.

    Returns an object whose remove() puts everything back; it is also a context manager.
    RuntimeError if it is active already, unless `python -m limber run` has made it so, for the
    whole process; then remove() does nothing.  It changes the whole process: call it, and
    remove(), while no other thread computes."""
    global _active
    with _lock:
        if _by_run:
            return _active
        if _active is not None:
            raise RuntimeError("limber.torch.batch_invariant is active already")
        _active = Invariance()
        return _active


_by_run = False     # python -m limber run has installed it


def start():
    """Does what python -m limber run has asked for."""
    global _by_run
    if os.environ.get("LIMBER_TORCH") == "batch_invariant" and _active is None:
        batch_invariant()
        _by_run = True
