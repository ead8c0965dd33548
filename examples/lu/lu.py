# SPDX-License-Identifier: BSD-3-Clause
"""Solves a dense system as HPL does, with updates of a choice of formats.

The method is Gaussian elimination with partial pivoting, which halves the columns recursively until
few are left.  Nearly all of the work is then in updates C - A B.  The system and the test are those
of HPL: elements are between -1/2 and 1/2, and |Ax - b| / (u (|A| |x| + |b|) n) must be below 16,
where all norms are infinity norms and u = 2^-53.

    python lu.py --n 2000                       # the ways of Limber, NumPy's BLAS and its LAPACK
    python lu.py --n 4000 --by correct,blas     # some of them

native       FP64 on the CPU's FP64 units
int8         FP64 by residues in integers, with 2^-53 |A||B| at most (contract bits=53, ozaki2)
correct      each element rounded once, by what is fastest
refined      FP32 elimination; then x is corrected by residuals in FP64 that are rounded once
refined-bits the same, with products that keep 24 bits of |A||B| (contract bits=24)
blas, lapack the same elimination by NumPy's BLAS, and numpy.linalg.solve"""
import argparse
import json
import sys
import time

import numpy as np

# name: (contract of the updates, or None for NumPy; NumPy type of the elimination)
WAYS = {"native": ("native", np.float64), "int8": ("bits=53", np.float64),
        "correct": ("correct", np.float64), "refined": ("native", np.float32),
        "refined-bits": ("bits=24", np.float32), "blas": (None, np.float64), "lapack": (None, None)}
FEW = 16        # a block of at most this many columns is eliminated column by column


class Updates:
    """Computes updates c -= a b in place, by Limber or by NumPy.

    seconds     time in all updates
    schemes     {scheme of Limber: its number of operations}, of large updates"""

    def __init__(self, contract, scheme=None):
        self.wanted = scheme
        self.contract, self.seconds, self.schemes = contract, 0, {}
        if contract:
            import limber
            self.context = limber.Context()

    def __call__(self, c, a, b):
        start = time.perf_counter()
        if self.contract:
            work = 2 * a.shape[0] * a.shape[1] * b.shape[1]
            asked = work > 1e7      # for a small product a report takes longer than the product
            made = self.context.matmul(a, b, contract=self.contract, scheme=self.wanted,
                                       out=c, alpha=-1, beta=1, report=asked)
            if asked:
                self.schemes[made[1].scheme] = self.schemes.get(made[1].scheme, 0) + work
        else:
            c -= a @ b
        self.seconds += time.perf_counter() - start

    def scheme(self):
        """The scheme that did most of the work."""
        if not self.contract:
            return "BLAS"
        return max(self.schemes, key=self.schemes.get) if self.schemes else "-"


def lower(l, b, update):
    """Replaces b by L^-1 b.  L is the lower triangle of l, with ones on the diagonal."""
    n = len(l)
    if n <= FEW:
        for i in range(1, n):
            b[i] -= l[i, :i] @ b[:i]
        return
    h = n // 2
    lower(l[:h, :h], b[:h], update)
    update(b[h:], l[h:, :h], b[:h])
    lower(l[h:, h:], b[h:], update)


def eliminate(a, update, progress, done=0, of=0):
    """Factors a [m][n], m >= n, in place into L and U; returns the row permutation.  `done` of `of`
    columns were factored before."""
    m, n = a.shape
    of = of or n
    if n <= FEW:
        rows = np.arange(m)
        for j in range(n):
            best = j + int(np.abs(a[j:, j]).argmax())
            if a[best, j] == 0:
                raise SystemExit("lu.py: the matrix is singular")
            if best != j:
                a[[j, best]] = a[[best, j]]
                rows[[j, best]] = rows[[best, j]]
            a[j + 1:, j] /= a[j, j]
            a[j + 1:, j + 1:] -= np.outer(a[j + 1:, j], a[j, j + 1:])
        progress(done + n, of)
        return rows
    h = n // 2
    rows = eliminate(a[:, :h], update, progress, done, of)
    a[:, h:] = a[rows, h:]
    lower(a[:h, :h], a[:h, h:], update)
    update(a[h:, h:], a[h:, :h], a[:h, h:])
    below = eliminate(a[h:, h:], update, progress, done + h, of)
    a[h:, :h] = a[h + below, :h]
    rows[h:] = rows[h + below]
    return rows


def substitute(lu, rows, b):
    """Solves A x = b in FP64 by the factors of A and their row permutation."""
    x = b[rows].astype(np.float64)
    for i in range(0, len(x), 64):
        at = slice(i, i + 64)
        x[at] -= lu[at, :i] @ x[:i]
        for j in range(i + 1, min(i + 64, len(x))):
            x[j] -= lu[j, i:j] @ x[i:j]
    for j in range(len(x) - 1, -1, -1):
        x[j] = (x[j] - lu[j, j + 1:] @ x[j + 1:]) / lu[j, j]
    return x


class System:
    """A system A x = b with random elements between -1/2 and 1/2."""

    def __init__(self, n, seed):
        import limber
        drawn = np.random.default_rng(seed)
        self.a, self.b = drawn.random((n, n)) - 0.5, drawn.random(n) - 0.5
        self.norm = np.abs(self.a).sum(1).max()
        self.context = limber.Context()

    def residual(self, x):
        """Returns b - A x, each element rounded once."""
        r = self.b.reshape(-1, 1).copy()
        self.context.matmul(self.a, x.reshape(-1, 1), contract="correct", out=r, alpha=-1, beta=1)
        return r[:, 0]

    def measure(self, x):
        """Returns HPL's measure of x, which is below 16 if x passes HPL's test."""
        scale = self.norm * np.abs(x).max() + np.abs(self.b).max()
        return float(np.abs(self.residual(x)).max() / (2.0 ** -53 * scale * len(x)))


def solve(system, way, progress):
    """Solves the system in one of WAYS.  An elimination in FP32 is followed by at most 20
    corrections.  Returns (x, number of corrections, seconds in products or None, scheme)."""
    contract, kind = WAYS[way]
    if way == "lapack":
        return np.linalg.solve(system.a, system.b), 0, None, "LAPACK"
    update = Updates(contract, "ozaki2" if way == "int8" else None)
    lu = system.a.astype(kind)
    rows = eliminate(lu, update, progress)
    if kind == np.float64:
        return substitute(lu, rows, system.b), 0, update.seconds, update.scheme()
    lu = lu.astype(np.float64)      # converted once for all corrections
    x, made = substitute(lu, rows, system.b), 0
    while system.measure(x) >= 1 and made < 20:
        x += substitute(lu, rows, system.residual(x))
        made += 1
    return x, made, update.seconds, update.scheme()


def bar(way):
    """Returns a function that shows progress, which does nothing if stderr is no terminal."""
    if not sys.stderr.isatty():
        return lambda done, of: None
    return lambda done, of: print(f"{way}: {100 * done // of}%" if done < of else "\033[K",
                                  end="\r", file=sys.stderr, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                epilog=__doc__[__doc__.index("native  "):],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--n", type=int, default=2000, help="unknowns (2000)")
    p.add_argument("--seed", type=int, default=1, help="of the system's elements (1)")
    p.add_argument("--by", default=",".join(WAYS), help=f"with commas between: {', '.join(WAYS)}")
    p.add_argument("--json", action="store_true", help="one object for each way")
    chosen = p.parse_args()
    if chosen.n < 1:
        p.error("--n: a whole number from 1 on")
    if chosen.seed < 0:
        p.error("--seed: a whole number from 0 on")
    for way in chosen.by.split(","):
        if way not in WAYS:
            p.error(f"--by: {way} is none of {', '.join(WAYS)}")
    system = System(chosen.n, chosen.seed)
    if not chosen.json:
        print(f"{chosen.n} unknowns\n"
              "by            computed by  seconds  in products  GFLOPS  corrections  HPL's measure")
    failed = False
    for way in chosen.by.split(","):
        start = time.perf_counter()
        x, made, inside, scheme = solve(system, way, bar(way))
        seconds = time.perf_counter() - start
        rate = (2 / 3 * chosen.n ** 3 + 1.5 * chosen.n ** 2) / seconds / 1e9
        measure = system.measure(x)
        failed |= not measure < 16
        if chosen.json:
            print(json.dumps({"n": chosen.n, "by": way, "computed_by": scheme, "seconds": seconds,
                              "seconds_in_products": inside, "gflops": rate, "corrections": made,
                              "hpl": measure, "passed": measure < 16}))
        else:
            share = "          -" if inside is None else f"{inside:11.3f}"
            print(f"{way:13} {scheme:11}  {seconds:7.3f}  {share}  {rate:6.1f}  {made:11}  "
                  f"{measure:.3g} {'passed' if measure < 16 else 'FAILED'}")
    sys.exit(failed)


main()
