# SPDX-License-Identifier: BSD-3-Clause
"""A NumPy program before whose BLAS the library stands, and the package limber, on an emulated
AArch64: by whom it is run, test/aarch64.sh."""
import os
import sys
from fractions import Fraction

import numpy

import limber


def exact(a, b):
    """Every element as the nearest double of the sum of fractions."""
    columns = [[Fraction(x) for x in column] for column in b.T.tolist()]
    return numpy.array([[float(sum(Fraction(x) * y for x, y in zip(row, column)))
                         for column in columns] for row in a.tolist()])


def check(what, got, want):
    if not (got == want).all():
        sys.exit(f"{what}: {got.flat[0]} is not {want.flat[0]}")
    print(what)


rng = numpy.random.default_rng(1)
a, b = (numpy.ldexp(rng.standard_normal(s), rng.integers(-30, 30, s)) for s in ((9, 40), (40, 7)))
want = exact(a, b)
check("a program on a BLAS", a @ b, want)
check("the package", limber.matmul(a, b, contract="correct"), want)
if "LIMBER_REPORT" not in os.environ:       # without threads: QEMU 7.2 stops at a child's
    child = os.fork()
    if child == 0:
        check("a child of a fork", b.T @ a.T, want.T)
        check("its package", limber.matmul(a, b, contract="correct"), want)
        os._exit(0)
    sys.exit(os.waitpid(child, 0)[1] != 0 and "the child failed")
integers = rng.integers(-128, 128, (33, 70), "i1")
check("integers", limber.matmul(integers, integers.T),
      (integers.astype("i8") @ integers.T.astype("i8")).astype("i4"))
with limber.Context(backend="interp") as meaning, limber.Context(backend="llvm") as llvm:
    for contract in ("correct", "reproducible", "simulate=h100-bf16"):
        x, y = (v.astype("f4") for v in (a, b))
        check(contract, llvm.matmul(x, y, contract=contract),
              meaning.matmul(x, y, contract=contract))
