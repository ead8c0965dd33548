# SPDX-License-Identifier: BSD-3-Clause
"""Sums of products over labelled axes, as stacks of matrix products.

Each axis of a, b and the result has a label.  Labels of a and the result are rows, those of b and
the result columns, those of all three a stack of matrices; over labels that the result lacks is
summed.  An operand that lacks a label has the stride 0 along it, so that an axis of one operand
alone is summed by the same product.

All of this depends on shapes and strides alone, so that what a call finds serves the next one."""
import functools
import math
import operator
from collections import namedtuple

from .errors import BadArgument

# Two dictionaries: from the labels of an array's axes to their extents, and to their strides in
# bytes.
Axes = namedtuple("Axes", "extent step")

# a, b, order: the labels of a, b and the result. whole: all rows, and all columns, become one axis
# each, even if operands must be copied for that. sums: the labels that are summed over. extents: of
# each label. shape: of the result.
Outline = namedtuple("Outline", "a b order whole sums extents shape")

# stack, rows, columns: groups of labels. m, n, k: sizes of the matrices. a, b, c: row and column
# stride of each (None: the axes cannot be joined). loops: for each loop over the stack, its extent
# and the strides of a, b and c.
Arrangement = namedtuple("Arrangement", "stack rows columns m n k a b c loops")


def axes_of(labels, shape, strides):
    """Axes of an array; a label that occurs twice means the diagonal."""
    extent, step = dict(zip(labels, shape)), {}
    for label, along in zip(labels, strides):
        step[label] = step.get(label, 0) + along
    return Axes(extent, step)


def _run(axes, labels, extents):
    """The byte stride of several axes joined to one, or None if they cannot be joined."""
    rest = [(extents[x], axes.step.get(x, 0)) for x in labels if extents[x] != 1]
    if 0 in [extent for extent, _ in rest]:
        return 0
    for (_, step), (extent, inner) in zip(rest, rest[1:]):
        if step != extent * inner:
            return None
    return rest[-1][1] if rest else 0


@functools.lru_cache(maxsize=4096)
def outline(spell, argument, a_shape, b_shape):
    """The Outline of a product of two shapes. spell: a function that labels the axes, such as
    matmul_labels; argument: what it takes beside the shapes."""
    (a, b, order), whole = spell(argument, a_shape, b_shape)
    sides = {}, {}
    for side, labels, shape, what in zip(sides, (a, b), (a_shape, b_shape), "ab"):
        for label, extent in zip(labels, shape):
            if side.setdefault(label, extent) != extent:
                raise BadArgument(f"{what}: axes {label!r} have {side[label]} and {extent} "
                                  "elements")
    extents = dict(sides[0])
    for label, extent in sides[1].items():
        other = extents.get(label, 1)
        if extent != other and 1 not in (extent, other):
            raise BadArgument(f"axes {label!r} of a and b have {other} and {extent} elements")
        extents[label] = other if extent == 1 else extent
    return Outline(tuple(a), tuple(b), tuple(order), whole,
                   [x for x in extents if x not in order], extents,
                   tuple(extents[x] for x in order))


def sides_of(o, a_shape, a_strides, b_shape, b_strides):
    """The axes of both operands without those of extent 1 that are broadcast."""
    sides = axes_of(o.a, a_shape, a_strides), axes_of(o.b, b_shape, b_strides)
    for side in sides:
        for label in [x for x, extent in side.extent.items() if extent != o.extents[x]]:
            del side.extent[label], side.step[label]
    return sides


def arrange(o, a, b, c, together):
    """Groups the labels of the axes a, b and c. together: axes of the stack that can be joined with
    rows or columns, in the operand and in the result, are joined."""
    e = o.extents
    rows = [x for x in o.order if x in a.extent and x not in b.extent]
    columns = [x for x in o.order if x in b.extent and x not in a.extent]
    if not o.whole:
        rows, columns = _tail(rows, a, c, e, together), _tail(columns, b, c, e, together)
    stack = [x for x in o.order if x not in rows and x not in columns]
    sums = _order_of_sums(o, a, b)
    m, n, k = (math.prod([e[x] for x in group]) for group in (rows, columns, sums))
    strides = [[_run(side, group, e) for group in groups] for side, groups in
               ((a, (rows, sums)), (b, (sums, columns)), (c, (rows, columns)))]
    return Arrangement(stack, (rows, sums), (sums, columns), m, n, k, *strides,
                       _loops(stack, e, (a, b, c)))


def _tail(labels, side, c, extents, together):
    """The trailing labels of rows or columns that form one axis. Labels that are numbers are axes
    of stacks: they join only if `together`, and only if one stride serves the operand and the
    result."""
    own = [x for x in labels if not isinstance(x, int)]
    labels = labels[:-1] if own else labels
    while together and labels and None not in (_run(side, labels[-1:] + own, extents),
                                               _run(c, labels[-1:] + own, extents)):
        own = labels[-1:] + own
        labels = labels[:-1]
    return own


def _order_of_sums(o, a, b):
    """The summed labels in an order that needs few copies."""
    if len(o.sums) < 2:
        return o.sums
    orders = [sorted(o.sums, key=lambda x: -side.step.get(x, 0)) for side in (a, b)]
    return min(orders, key=lambda order: sum(
        math.prod(side.extent.values()) for side in (a, b)
        if _run(side, order, o.extents) is None))


def _loops(stack, extents, sides):
    """The stack as few loops: axes that follow each other without gaps in all three arrays are
    joined."""
    loops = []
    for label in stack:
        extent, steps = extents[label], [side.step.get(label, 0) for side in sides]
        if extent == 1:
            continue
        if loops and all(outer == extent * step for outer, step in zip(loops[-1][1], steps)):
            loops[-1] = (loops[-1][0] * extent, steps)
        else:
            loops.append((extent, steps))
    return loops


# ---- how public functions label axes: ((labels of a, of b, of the result), whole) ----------------

def matmul_labels(_, a, b):
    """Labels of numpy.matmul; axes of stacks are numbered from the right."""
    for shape, what in ((a, "a"), (b, "b")):
        if not shape:
            raise BadArgument(f"{what}: expected at least one axis")
    rows, columns = a[-1], b[-2:][0]
    if rows != columns:
        raise BadArgument(f"a has {rows} columns and b {columns} rows")
    stacks = [range(len(shape) - 2, 0, -1) for shape in (a, b)]
    for i in set(stacks[0]) & set(stacks[1]):
        if a[-2 - i] != b[-2 - i] and 1 not in (a[-2 - i], b[-2 - i]):
            raise BadArgument(f"stacks of a {a[:-2]} and b {b[:-2]} do not match")
    i, j = ["row"] * (len(a) > 1), ["column"] * (len(b) > 1)
    return ([*stacks[0], *i, "k"], [*stacks[1], "k", *j], [*max(stacks, key=len), *i, *j]), False


def tensordot_labels(axes, a, b):
    """Labels of numpy.tensordot: pairs of axes to sum over, or their number."""
    of_a, of_b = _axis_pairs(axes, len(a), len(b))
    left, right = ([f"{what}[{i}]" for i in range(len(shape))] for what, shape in
                   (("a", a), ("b", b)))
    for i, j in zip(of_a, of_b):
        if a[i] != b[j]:
            raise BadArgument(f"axes: axis {i} of a has {a[i]} elements, axis {j} of b {b[j]}")
        right[j] = left[i]
    return (left, right, [x for i, x in enumerate(left) if i not in of_a] +
            [x for j, x in enumerate(right) if j not in of_b]), True


def axes_named(axes):
    """tensordot's axes in a hashable form."""
    if isinstance(axes, int):
        return axes
    try:
        return tuple((x,) if isinstance(x, int) else tuple(map(operator.index, x)) for x in axes)
    except TypeError:
        raise BadArgument(f"axes = {axes!r}: expected a number, or axes of a and of b") from None


def _axis_pairs(axes, of_a, of_b):
    """The axes of a and of b to sum over, from tensordot's `axes`."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(of_a, of_b):
            raise BadArgument(f"axes = {axes}: a has {of_a} axes, b {of_b}")
        return list(range(of_a - axes, of_a)), list(range(axes))
    found = [[_axis(x, count) for x in side] for side, count in zip(axes, (of_a, of_b))]
    if len(axes) != 2 or len(found[0]) != len(found[1]) or \
            any(len(set(side)) != len(side) for side in found):
        raise BadArgument(f"axes = {axes!r}: expected as many axes of a as of b, each once")
    return found


def _axis(axis, count):
    """An axis counted from the start; `axis` may be negative."""
    if not -count <= axis < count:
        raise BadArgument(f"axes: there is no axis {axis} of {count}")
    return axis % count


def dot_labels(_, a, b):
    """Labels of numpy.dot: a's last axis is summed with b's last but one."""
    if not (a and b):
        return tensordot_labels(0, a, b)
    return tensordot_labels(((-1,), (max(len(b) - 2, 0),)), a, b)


MATMUL, DOT = (matmul_labels, None), (dot_labels, None)


def einsum_labels(subscripts, a, b):
    """Labels of numpy.einsum with two operands."""
    terms, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = terms.split(",")
    if len(terms) != 2:
        raise BadArgument(f"subscripts = {subscripts!r}: expected those of two operands")
    sides = [_spell(term, len(shape), subscripts) for term, shape in zip(terms, (a, b))]
    both = sides[0] + sides[1]
    hidden = sorted({x for x in both if isinstance(x, int)}, reverse=True)
    order = hidden + sorted(x for x in both if isinstance(x, str) and both.count(x) == 1)
    if arrow:
        dots = "..." in result
        if hidden and not dots:
            raise BadArgument(f"subscripts = {subscripts!r}: the result lacks `...`")
        order = _spell(result, len(result) - 3 * dots + len(hidden), subscripts)
        if len(set(order)) != len(order) or not set(order) <= set(both):
            raise BadArgument(f"subscripts = {subscripts!r}: the result's occur once, and in an "
                              "operand")
    return (*sides, order), True


def _spell(term, axes, subscripts):
    """The labels of a term; axes of "..." are numbered from the right."""
    before, dots, after = term.partition("...")
    hidden = axes - len(before) - len(after)
    if before + after and not (before + after).isalpha() or hidden < 0 or hidden and not dots:
        raise BadArgument(f"subscripts = {subscripts!r}: {term!r} does not name {axes} axes")
    return [*before, *range(hidden, 0, -1), *after]
