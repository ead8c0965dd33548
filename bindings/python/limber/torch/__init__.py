# SPDX-License-Identifier: BSD-3-Clause
"""Products of PyTorch models by Limber: on simulated units, or at a stated accuracy.

    import limber.torch

    injected = limber.torch.inject(model, {"unit": "h100-e4m3"})    # every product of every layer
    loss = model(x).sum()                   # forward on that unit,
    loss.backward()                         # and both products of each gradient
    injected.remove()                       # the model is what it was

    limber.torch.matmul(a, b, unit="h100-bf16")     # single products, with gradients

Products are those of nn.Linear, convolutions, attention, torch.matmul and its like, wherever a
model's code calls them.  Additions, activations and normalisations stay PyTorch's.  torch.compile
and torch.export see operators of torch.library (PyTorch 2.4 and newer)."""
from ._config import Wishes, wishes_of
from ._functions import conv, conv_transpose, linear, matmul
from . import _invariant
from ._inject import Injection, inject
from ._invariant import Invariance, batch_invariant
from ._scaled import scaled_mm

__all__ = ["inject", "Injection", "batch_invariant", "Invariance", "matmul", "linear", "conv",
           "conv_transpose", "scaled_mm", "Wishes", "wishes_of"]

_invariant.start()
