# SPDX-License-Identifier: BSD-3-Clause
"""Products in binary128 from Python: what plain doubles lose, what binary128 keeps, and how large
the errors are, by exact fractions."""
from fractions import Fraction

import numpy

import limber

n = 8
hilbert = limber.Quad([[Fraction(1, i + j + 1) for j in range(n)] for i in range(n)])
doubles, rest = hilbert.to_pairs()
print("1/3 in binary128:", hilbert[0, 2].to_strings())
print("      in doubles:", limber.Quad([doubles[0, 2]]).to_strings()[0])

# Inverts the Hilbert matrix by Gauss-Jordan elimination in fractions.  The inverse has integer
# entries.
exact = [[Fraction(1, i + j + 1) for j in range(n)] + [Fraction(i == j) for j in range(n)]
         for i in range(n)]
for p in range(n):
    exact[p] = [x / exact[p][p] for x in exact[p]]
    for i in set(range(n)) - {p}:
        exact[i] = [x - exact[i][p] * y for x, y in zip(exact[i], exact[p])]
inverse = numpy.array([[float(x) for x in row[n:]] for row in exact])

off, report = limber.matmul(hilbert, inverse, out=limber.Quad(numpy.eye(n)), beta=-1,
                            contract="correct", report=True)
errors = [abs(float(x)) for row in off.to_fractions() for x in row]
plain = abs(doubles @ inverse - numpy.eye(n)).max()
print(f"H H^-1 - I: {plain:.1e} in doubles, {max(errors):.1e} in binary128 (by {report.scheme})")
assert max(errors) < 1e-24 < plain
