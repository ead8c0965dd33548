# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's products by Limber's operators, with PyTorch's shapes, broadcasting and biases."""
import functools
import operator

import torch

from ..errors import BadArgument
from . import _ops
from ._config import wishes_of


def _added(made, bias):
    """Adds a bias to a new result: in place if that gives the same, because allocating memory costs
    more than the addition."""
    if bias is None:
        return made
    if _ops.is_eager(made, bias) and bias.dtype == made.dtype and bias.dim() <= made.dim():
        return made.add_(bias)
    return made + bias


class By:
    """The products of one layer.  wishes: a Wishes; layer, run: the layer's name and the number of
    the Injection, for statistics (0: none are kept)."""

    def __init__(self, wishes, layer="", run=0):
        self.more = ("\n".join(wishes), 0, layer, run)

    def matmul(self, a, b):
        """torch.matmul."""
        if a.dim() == 0 or b.dim() == 0:
            raise RuntimeError("both arguments to matmul need to be at least 1D")
        if b.dim() == 1:
            return self.matmul(a, b.unsqueeze(-1)).squeeze(-1)
        if a.dim() == 1:
            return self.matmul(a.unsqueeze(0), b).squeeze(-2)
        if a.shape[-1] != b.shape[-2]:
            raise RuntimeError(f"shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
        if b.dim() == 2:        # one product for all leading axes of a
            if a.dim() == 2:
                return _ops.product(a, b, *self.more)
            made = _ops.product(a.reshape(_count(a.shape[:-1]), a.shape[-1]), b, *self.more)
            return made.reshape(a.shape[:-1] + b.shape[-1:])
        stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (x.expand(stack + x.shape[-2:]).reshape((_count(stack),) + x.shape[-2:])
                for x in (a, b))
        made = _ops.product(a, b, *self.more)
        return made.reshape(stack + made.shape[-2:])

    def linear(self, x, weight, bias=None):
        """torch.nn.functional.linear."""
        made = self.matmul(x, weight.transpose(-1, -2) if weight.dim() > 1 else weight)
        return _added(made, bias)

    def addmm(self, added, a, b, beta=1, alpha=1):
        """beta added + alpha a b, for addmm, addmv and baddbmm."""
        made = self.matmul(a, b)
        made = made if alpha == 1 else alpha * made
        return made if beta == 0 else made + (added if beta == 1 else beta * added)

    def convolution(self, x, weight, bias, stride, padding, dilation, groups):
        """torch.nn.functional.conv1d, conv2d or conv3d."""
        sides = weight.dim() - 2
        stride, dilation = _each(stride, sides), _each(dilation, sides)
        if x.dim() == sides + 1:
            return self.convolution(x.unsqueeze(0), weight, bias, stride, padding, dilation,
                                    groups).squeeze(0)
        if padding == "valid":
            padding = 0
        elif padding == "same":
            reach = [d * (r - 1) for d, r in zip(dilation, weight.shape[2:])]
            if any(r % 2 for r in reach):       # one more pad after than before
                ends = [(0, r % 2) for r in reversed(reach)]
                x = torch.nn.functional.pad(x, [end for pair in ends for end in pair])
            padding = [r // 2 for r in reach]
        made = _ops.conv(x, weight, stride, _each(padding, sides), dilation, groups, *self.more)
        return made if bias is None else _added(made, bias.view([-1] + [1] * sides))

    def transposed(self, x, weight, bias, stride, padding, output_padding, groups, dilation):
        """torch.nn.functional.conv_transpose1d, conv_transpose2d or conv_transpose3d."""
        sides = weight.dim() - 2
        stride, dilation = _each(stride, sides), _each(dilation, sides)
        if x.dim() == sides + 1:
            return self.transposed(x.unsqueeze(0), weight, bias, stride, padding, output_padding,
                                   groups, dilation).squeeze(0)
        padding, more = _each(padding, sides), _each(output_padding, sides)
        steps = [m // s for m, s in zip(more, stride)]
        # Whole strides of output padding, which dilation allows, become zeros after x.
        if any(steps):
            ends = [(0, n) for n in reversed(steps)]
            x = torch.nn.functional.pad(x, [end for pair in ends for end in pair])
            more = [m % s for m, s in zip(more, stride)]
        size = [(x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] +
                dilation[i] * (weight.shape[2 + i] - 1) + more[i] + 1 for i in range(sides)]
        made = _ops.conv_input(x, weight, size, stride, padding, dilation, groups, *self.more)
        return made if bias is None else _added(made, bias.view([-1] + [1] * sides))

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                  scale=None, enable_gqa=False):
        """torch.nn.functional.scaled_dot_product_attention."""
        if enable_gqa:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
            value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = self.matmul(query * scale, key.transpose(-1, -2))
        if is_causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~seen, float("-inf"))
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(~attn_mask, float("-inf"))
            else:
                scores = scores + attn_mask
        weights = torch.nn.functional.dropout(torch.softmax(scores, -1), dropout_p,
                                              training=dropout_p > 0)
        return self.matmul(weights, value)

    def einsum(self, equation, *operands):
        """Contracts two operands at a time, from the left."""
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        inputs, result = _labels(equation, [x.dim() for x in operands])
        operands, inputs = list(operands), list(inputs)
        while len(operands) > 1:
            kept = set(result).union(*inputs[2:])
            made, labels = self._pair(operands[0], inputs[0], operands[1], inputs[1], kept)
            operands[:2], inputs[:2] = [made], [labels]
        x, labels = _diagonals(operands[0], inputs[0])
        x, labels = _summed(x, labels, set(result))
        return x.permute([labels.index(l) for l in result])

    def _pair(self, a, a_labels, b, b_labels, kept):
        """The product of two operands, summed over labels that are not kept."""
        a, a_labels = _diagonals(a, a_labels)
        b, b_labels = _diagonals(b, b_labels)
        a, a_labels = _summed(a, a_labels, kept | set(b_labels))
        b, b_labels = _summed(b, b_labels, kept | set(a_labels))
        both = [l for l in a_labels if l in b_labels]
        stack, inner = [l for l in both if l in kept], [l for l in both if l not in kept]
        rows = [l for l in a_labels if l not in both]
        columns = [l for l in b_labels if l not in both]
        size = dict(zip(a_labels, a.shape))
        for label, extent in zip(b_labels, b.shape):        # an extent of 1 is broadcast
            size[label] = max(size.get(label, 1), extent)

        def as_stack(x, labels, order, shape):
            """An operand with its axes in this order, broadcast and reshaped to a stack of
            matrices."""
            x = x.permute([labels.index(l) for l in order]).expand([size[l] for l in order])
            return x.reshape(shape)

        def extent(labels):
            """The number of elements over these labels."""
            return _count([size[l] for l in labels])

        deep, high, long, wide = map(extent, (stack, rows, inner, columns))
        a = as_stack(a, a_labels, stack + rows + inner, (deep, high, long))
        b = as_stack(b, b_labels, stack + inner + columns, (deep, long, wide))
        order = stack + rows + columns
        return self.matmul(a, b).reshape([size[l] for l in order]), order

    def tensordot(self, a, b, dims=2):
        """torch.tensordot."""
        if isinstance(dims, torch.Tensor):
            dims = dims.tolist()
        if isinstance(dims, int):
            dims = (list(range(a.dim() - dims, a.dim())), list(range(dims)))
        ours = [d % a.dim() for d in dims[0]]
        theirs = [d % b.dim() for d in dims[1]]
        rows = [d for d in range(a.dim()) if d not in ours]
        columns = [d for d in range(b.dim()) if d not in theirs]
        shape = [a.shape[d] for d in rows] + [b.shape[d] for d in columns]
        inner = _count([a.shape[d] for d in ours])
        made = self.matmul(a.permute(rows + ours).reshape(_count(shape[:len(rows)]), inner),
                           b.permute(theirs + columns).reshape(inner, _count(shape[len(rows):])))
        return made.reshape(shape)


def _count(extents):
    """The product of extents."""
    return functools.reduce(operator.mul, extents, 1)


def _each(value, sides):
    """A list with a number for each spatial axis, from such a list or one number."""
    value = list(value) if hasattr(value, "__len__") else [value]
    return value * sides if len(value) == 1 else value


def _labels(equation, dims):
    """The labels of the operands and of the result; an ellipsis becomes labels of its own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    longest = max((n - len(text.replace("...", "")) for text, n in zip(inputs, dims)
                   if "..." in text), default=0)
    dots = [f"({i})" for i in range(longest)]

    def split(text, count):
        """The labels of `count` axes."""
        before, found, behind = text.partition("...")
        return list(before) + (dots[longest - count:] if found else []) + list(behind)

    made = [split(text, n - len(text.replace("...", ""))) for text, n in zip(inputs, dims)]
    if arrow:
        return made, split(right, longest)
    every = [label for labels in made for label in labels]
    return made, dots + sorted(label for label in set(every)
                               if every.count(label) == 1 and label not in dots)


def _diagonals(x, labels):
    """Takes the diagonal over labels that occur twice."""
    labels = list(labels)
    for label in list(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = x.diagonal(0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return x, labels


def _summed(x, labels, kept):
    """Sums over the labels that are not kept."""
    gone = [i for i, label in enumerate(labels) if label not in kept]
    return (x.sum(gone) if gone else x), [label for label in labels if label in kept]


def _by(unit, contract, scheme, wishes):
    """Products by the arguments that the functions below share."""
    if wishes is not None:
        if unit or contract or scheme:
            raise BadArgument("wishes say all: neither unit, contract nor scheme beside them")
        return By(wishes_of(wishes, "wishes"))
    given = {"unit": unit, "contract": contract, "scheme": scheme}
    return By(wishes_of({key: value for key, value in given.items() if value is not None},
                        "unit or contract"))


def matmul(a, b, unit=None, contract=None, scheme=None, wishes=None):
    """As torch.matmul, on a unit or by a contract, its gradients too.  wishes: in the place of
    unit, contract and scheme, what wishes_of takes; it can name others for the gradients."""
    return _by(unit, contract, scheme, wishes).matmul(a, b)


def linear(x, weight, bias=None, unit=None, contract=None, scheme=None, wishes=None):
    """As torch.nn.functional.linear; others as matmul."""
    return _by(unit, contract, scheme, wishes).linear(x, weight, bias)


def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, unit=None, contract=None,
         scheme=None, wishes=None):
    """As torch.nn.functional.conv1d, conv2d or conv3d, as the weights' axes say; others as
    matmul."""
    return _by(unit, contract, scheme, wishes).convolution(x, weight, bias, stride, padding,
                                                           dilation, groups)


def conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                   dilation=1, unit=None, contract=None, scheme=None, wishes=None):
    """As torch.nn.functional.conv_transpose1d and its like; others as matmul."""
    return _by(unit, contract, scheme, wishes).transposed(x, weight, bias, stride, padding,
                                                          output_padding, groups, dilation)
