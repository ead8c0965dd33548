# SPDX-License-Identifier: BSD-3-Clause
"""Replaces the products that a model's modules ask PyTorch for."""
import threading
import types

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode

from ..errors import BadArgument
from . import _ops, _scaled
from ._config import TORCH, Config
from ._functions import By
from ._table import Table

_F = torch.nn.functional
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_EIGHT = tuple(_scaled.EIGHT)


def _out(function):
    """Wraps a function so that it takes PyTorch's `out` argument."""
    def call(by, *args, out=None, **options):
        made = function(by, *args, **options)
        return made if out is None else out.copy_(made)
    return call


def _conv(by, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """torch.conv1d, conv2d, conv3d. This and the functions below take the arguments of PyTorch's
    functions under the same names."""
    return by.convolution(input, weight, bias, stride, padding, dilation, groups)


def _transposed(by, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                dilation=1):
    return by.transposed(input, weight, bias, stride, padding, output_padding, groups, dilation)


def _linear(by, input, weight, bias=None):
    return by.linear(input, weight, bias)


def _matmul(by, input, other):
    return by.matmul(input, other)


def _matmul_of(by, input, mat2):
    return by.matmul(input, mat2)


def _vector(by, input, vec):
    return by.matmul(input, vec)


def _dot(by, input, tensor):
    return by.matmul(input, tensor)


def _turned(by, input, other):
    """Tensor.__rmatmul__, whose operands are swapped."""
    return by.matmul(other, input)


def _addmm(by, input, mat1, mat2, beta=1, alpha=1):
    return by.addmm(input, mat1, mat2, beta, alpha)


def _baddbmm(by, input, batch1, batch2, beta=1, alpha=1):
    return by.addmm(input, batch1, batch2, beta, alpha)


def _addmv(by, input, mat, vec, beta=1, alpha=1):
    return by.addmm(input, mat, vec, beta, alpha)


def _einsum(by, equation, *operands):
    return by.einsum(equation, *operands)


def _tensordot(by, a, b, dims=2):
    return by.tensordot(a, b, dims)


def _attention(by, *args, **options):
    return by.attention(*args, **options)


def _scaled_mm(by, *args, **options):
    return _scaled.compute(by.more, *args, **options)


_SERVED = {
    _F.linear: _linear, torch.matmul: _out(_matmul), torch.Tensor.matmul: _matmul,
    torch.Tensor.__matmul__: _matmul, torch.Tensor.__rmatmul__: _turned,
    torch.mm: _out(_matmul_of), torch.Tensor.mm: _matmul_of, torch.bmm: _out(_matmul_of),
    torch.Tensor.bmm: _matmul_of, torch.mv: _out(_vector), torch.Tensor.mv: _vector,
    torch.dot: _out(_dot), torch.Tensor.dot: _dot,
    torch.addmm: _out(_addmm), torch.Tensor.addmm: _addmm, torch.addmv: _out(_addmv),
    torch.Tensor.addmv: _addmv, torch.baddbmm: _out(_baddbmm), torch.Tensor.baddbmm: _baddbmm,
    torch.einsum: _einsum, torch.functional.einsum: _einsum, torch.tensordot: _out(_tensordot),
    torch.functional.tensordot: _out(_tensordot),
    _F.conv1d: _conv, _F.conv2d: _conv, _F.conv3d: _conv, torch.conv1d: _conv, torch.conv2d: _conv,
    torch.conv3d: _conv, _F.conv_transpose1d: _transposed, _F.conv_transpose2d: _transposed,
    _F.conv_transpose3d: _transposed, torch.conv_transpose1d: _transposed,
    torch.conv_transpose2d: _transposed, torch.conv_transpose3d: _transposed}
if hasattr(_F, "scaled_dot_product_attention"):
    _SERVED[_F.scaled_dot_product_attention] = _attention
if hasattr(torch, "_scaled_mm"):
    _SERVED[torch._scaled_mm] = _scaled_mm


def _open(function):
    """A copy of a Python function of PyTorch's whose inner products are intercepted.  The function
    itself would dispatch to the mode again before it computes; the copy finds no mode and
    continues."""
    return types.FunctionType(function.__code__, {**function.__globals__,
                                                  "has_torch_function": lambda *_: False},
                              function.__name__, function.__defaults__, function.__closure__)


_COMPOSED = {_F.multi_head_attention_forward: _open(_F.multi_head_attention_forward)}
# Modules whose products cannot be intercepted, because PyTorch computes them in one piece.
_WHOLE = (torch.nn.RNNBase, torch.nn.RNNCellBase, torch.nn.Bilinear)


def _tensors(values):
    """All tensors among the arguments, also those in lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


class Mode(TorchFunctionMode):
    """The mode in which a module's forward function runs."""

    def __init__(self, by):
        super().__init__()
        self.by = by

    def __torch_function__(self, function, kinds, args=(), options=None):
        """Called by PyTorch in the place of each of its functions."""
        options = options or {}
        composed = _COMPOSED.get(function)
        if composed:
            with self:
                return composed(*args, **options)
        served = _SERVED.get(function)
        if served is None or not _is_served(served, args, options) or _is_torch():
            return function(*args, **options)
        if self.by is None:
            return _by_torch(function, args, options)
        return served(self.by, *args, **options)


def _is_served(served, args, options):
    """Whether the first tensor is one that Limber multiplies: dense, of floats."""
    kinds = _EIGHT if served is _scaled_mm else _FLOATS
    for x in _tensors(list(args) + list(options.values())):
        if x.dtype in kinds and x.layout == torch.strided:
            return True
        return False
    return False


# If a PyTorch layer is inside a replaced one, the outer modes must be disabled.
if hasattr(torch.library, "custom_op"):
    def _is_torch():
        """Never, since _by_torch disables modes itself."""
        return False

    def _by_torch(function, args, options):
        """Calls a function with all modes disabled."""
        with torch._C.DisableTorchFunction():
            return function(*args, **options)
else:       # older releases cannot disable modes
    _rest = threading.local()

    def _is_torch():
        """Whether this thread is inside _by_torch."""
        return getattr(_rest, "now", False)

    def _by_torch(function, args, options):
        """Calls a function while modes leave all functions to PyTorch."""
        _rest.now = True
        try:
            return function(*args, **options)
        finally:
            _rest.now = False


# A module's mode replaces that of the enclosing module. With nested modes, each function and each
# tensor attribute would be dispatched to both.
if all(hasattr(overrides, name) for name in
       ("_get_current_function_mode", "_push_mode", "_pop_mode")) and _ops.HAS_OPERATORS:
    def _forward(self, *args, **options):
        """Takes the place of a module's forward."""
        around = None
        if not torch.compiler.is_compiling():
            around = overrides._get_current_function_mode()
        if not isinstance(around, Mode):
            with self._limber_mode:
                return self._limber_forward(*args, **options)
        overrides._pop_mode()
        overrides._push_mode(self._limber_mode)
        try:
            return self._limber_forward(*args, **options)
        finally:
            overrides._pop_mode()
            overrides._push_mode(around)
else:
    def _forward(self, *args, **options):
        """Takes the place of a module's forward."""
        with self._limber_mode:
            return self._limber_forward(*args, **options)


class Injection:
    """Products of a model that are replaced, until remove() or the end of a with block.

    layers      {name: Wishes} of every module whose code runs under them
    whole       names of modules that PyTorch computes in one piece: these are not replaced"""

    def __init__(self, model, config):
        if not isinstance(model, torch.nn.Module):
            raise BadArgument(f"model: {type(model).__name__} is no torch.nn.Module")
        if hasattr(model, "_orig_mod"):
            raise BadArgument("model: it is compiled; inject comes before torch.compile")
        modules = dict(model.named_modules())
        if any("_limber_mode" in vars(module) for module in modules.values()):
            raise BadArgument("model: its products are replaced already; remove() those first")
        self._config = Config(config, list(modules))
        self._table = Table(self._config.statistics, self._config.every)
        self._modules, self.layers = [], {}
        self.whole = [name for name, module in modules.items() if isinstance(module, _WHOLE)]
        for name, module in modules.items():
            if isinstance(module, torch.jit.ScriptModule):
                raise BadArgument(f"model: {name or 'it'} is a ScriptModule, whose code is not "
                                  "seen")
            self._set(name, module)

    def _set(self, name, module):
        """Replaces the forward function of one module."""
        wishes = self._config.of(name)
        by = None if wishes == (TORCH,) * 3 else By(
            wishes, name or "model", self._table.id)
        if isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            return      # has no code
        self.layers[name] = wishes
        module._limber_forward = module.forward
        module._limber_mode = Mode(by)
        module.forward = types.MethodType(_forward, module)
        self._modules.append(module)

    def remove(self):
        """Gives the model its own products back."""
        for module in self._modules:
            given = module.__dict__.pop("_limber_forward")
            del module.__dict__["_limber_mode"], module.__dict__["forward"]
            if getattr(given, "__func__", None) is not type(module).forward:
                module.forward = given      # the instance had a forward of its own
        self._modules = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    # For statistics, which are kept if the configuration asks for them.

    def step(self):
        """Counts a step: call it after the optimiser's step."""
        self._table.step += 1

    def follow(self, optimizer):
        """Counts steps of an optimiser; PyTorch 2.0 and newer."""
        return optimizer.register_step_post_hook(lambda *_: self.step())

    @property
    def statistics(self):
        """A dictionary for each product of a step that is kept."""
        return list(self._table.rows)

    def means(self):
        """A dictionary for each layer and product: means over steps."""
        return self._table.means()

    def __str__(self):
        lines = [self._table.text()]
        if self.whole:
            lines.append("computed by PyTorch in one piece: " + ", ".join(self.whole))
        return "\n".join(lines)

    def write(self, path):
        """All statistics as lines of JSON: {"step": 3, "tag": "fc1/forward/swamped", "value": .1}.
        The file appears when it is whole."""
        self._table.write(path)

    def picture(self, path, quantity="swamped", product="forward"):
        """Draws a quantity of each layer over the steps, as SVG."""
        self._table.picture(path, quantity, product)


def inject(model, config):
    """Replaces products of a model's modules, forward and backward; returns an Injection.

    model       a torch.nn.Module, which is changed in place; inject before torch.compile
    config      a unit's words, "h100-e4m3" say; a dictionary; or LPGEMM's configuration: a file's
                path, or a dictionary of its keys
      unit, contract, scheme    of all products: a unit that is simulated, or a contract
      forward, grad_input, grad_weight
                  of one of the three products of every layer, as words or a dictionary of the
                  above; None: PyTorch computes it
      layers      {pattern: the same for modules with such names, or None}; * and ? as in file
                  names; of several that fit the last decides; others stay as above
      statistics  True: keep what happens inside, which takes a product more for each
      every       of every how many steps (1); Injection.step() counts

    Modules keep their classes, parameters and names.  Recurrent layers and nn.Bilinear are computed
    by PyTorch in one piece and are not replaced: Injection.whole names them."""
    return Injection(model, config)
