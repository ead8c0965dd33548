# SPDX-License-Identifier: BSD-3-Clause
"""Tests NumPy with liblimber_blas preloaded, and the package limber, on an emulated AArch64.
test/aarch64.sh runs this."""
import itertools
import operator
import os
import sys
from fractions import Fraction

import numpy

import limber


ONE = 1 << 200      # the integer that stands for 1.0


def as_integers(rows):
    """Returns the elements as integers in units of 1 / ONE."""
    return [[n * (ONE // d) for n, d in map(float.as_integer_ratio, row)] for row in rows.tolist()]


def product(a, b):
    """Multiplies exactly.  Elements are integers in units of 1 / ONE^2."""
    columns = as_integers(b.T)
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in as_integers(a)]


def exact(a, b):
    """Rounds every element to the nearest double: the quotient of integers is correctly rounded."""
    return numpy.array([[x / ONE**2 for x in row] for row in product(a, b)])


def within(what, got, a, b, bound):
    """Checks that every element of `got` is within `bound` of the exact one."""
    for row, wanted, most in zip(got.astype("f8").tolist(), product(a, b), bound.tolist()):
        for x, want, m in zip(row, wanted, most):
            if abs(Fraction(x) * ONE**2 - want) > Fraction(m) * ONE**2:
                sys.exit(f"{what}: {x} is not within {m} of {want / ONE**2}")
    print(what)


def check(what, got, want):
    """Ends the program unless both arrays are equal."""
    if not (got == want).all():
        sys.exit(f"{what}: {got.flat[0]} is not {want.flat[0]}")
    print(what)


rng = numpy.random.default_rng(1)
a, b = (numpy.ldexp(rng.standard_normal(s), rng.integers(-30, 30, s)) for s in ((9, 40), (40, 7)))
want = exact(a, b)
check("a program on a BLAS", a @ b, want)
check("the package", limber.matmul(a, b, contract="correct"), want)
# with one thread, because QEMU 7.2 stops when a child process ends
if "LIMBER_REPORT" not in os.environ:
    child = os.fork()
    if child == 0:
        check("a child of a fork", b.T @ a.T, want.T)
        check("its package", limber.matmul(a, b, contract="correct"), want)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the child failed")
# Products too large for the code of small products: they use kernels.  Results are compared with
# exact ones by the contracts' error bounds.
a, b = (numpy.ldexp(rng.standard_normal(s), rng.integers(-9, 9, s)) for s in ((50, 150), (150, 35)))
check("correct", limber.matmul(a, b, contract="correct"), exact(a, b))
within("bits=40", limber.matmul(a, b, contract="bits=40"), a, b, 2.0**-40 * (abs(a) @ abs(b)))
within("native", limber.matmul(a, b, contract="native"), a, b, 150 * 2.0**-53 * (abs(a) @ abs(b)))
x, y = a.astype("f4"), b.astype("f4")
got = limber.matmul(x, y, contract="correct")
within("correct, single", got, x, y, numpy.spacing(abs(got)).astype("f8") / 2)
# k is longer than a chain, and operands and results are row-major and column-major.
with limber.Context(backend="interp") as meaning:
    for kind in "f4", "f8":
        x, y = (rng.standard_normal(s).astype(kind) for s in ((27, 259), (259, 21)))
        want = meaning.matmul(x, y, contract="native")
        for orders in itertools.product("CF", repeat=3):
            got = numpy.zeros_like(want, order=orders[2])
            limber.matmul(numpy.array(x, order=orders[0]), numpy.array(y, order=orders[1]),
                          contract="native", out=got)
            check(f"native, {kind} {''.join(orders)}", got, want)
integers = rng.integers(-128, 128, (33, 70), "i1")
check("integers", limber.matmul(integers, integers.T),
      (integers.astype("i8") @ integers.T.astype("i8")).astype("i4"))
with limber.Context(backend="interp") as meaning, limber.Context(backend="llvm") as llvm:
    a, b = a[:9, :40], b[:40, :7]
    for contract in ("correct", "reproducible", "simulate=h100-bf16"):
        x, y = (v.astype("f4") for v in (a, b))
        check(contract, llvm.matmul(x, y, contract=contract),
              meaning.matmul(x, y, contract=contract))
