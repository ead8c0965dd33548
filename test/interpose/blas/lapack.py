# SPDX-License-Identifier: BSD-3-Clause
"""LAPACK's routines in a process with the reference LAPACK: `lapack.py residuals M N` prints the
worst scaled residual of each, `lapack.py corners` the results for invalid and unusual arguments."""
import ctypes as C
import sys

import numpy as np

library = C.CDLL("liblapack.so.3", mode=C.RTLD_GLOBAL)
program = C.CDLL(None)      # what a program finds by name
rng = np.random.default_rng(1)
TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
GUARD = 7


def address(x):
    """The address of an array's data."""
    return x.ctypes.data_as(C.c_void_p)


def integer(n):
    """A pointer to an integer."""
    return C.byref(C.c_int(n))


def random(t, *shape):
    """Returns a random column-major array of type t."""
    x = rng.standard_normal(shape)
    if t in "cz":
        x = x + 1j * rng.standard_normal(shape)
    return np.asfortranarray(x.astype(TYPES[t]))


def call(name, *arguments):
    """Calls a routine with info and the lengths of two character arguments; returns info."""
    info = C.c_int(-99)
    getattr(program, name)(*arguments, C.byref(info), C.c_size_t(1), C.c_size_t(1))
    return info.value


def exact(a):
    """Converts to long doubles, in which residuals are computed."""
    return a.astype(np.clongdouble if np.iscomplexobj(a) else np.longdouble)


def scaled(t, difference, scale):
    """Returns the largest difference in units of roundoff times scale."""
    return float(np.abs(difference).max() / (scale * np.finfo(TYPES[t]).eps / 2))


def norm(a):
    """The infinity norm."""
    return float(np.abs(a).sum(1).max())


worst = {}


def note(t, name, residual):
    """Keeps the largest residual of each routine."""
    worst[t + name] = max(worst.get(t + name, 0), residual)


def exchanged(a, pivots):
    """Applies LAPACK's row exchanges to a matrix."""
    a = a.copy()
    for row, other in enumerate(pivots):
        a[[row, other - 1]] = a[[other - 1, row]]
    return a


def lu(t, m, n):
    """Checks the residuals of an LU factorisation, and of solving and inverting by it."""
    k = min(m, n)
    a0, pivots = random(t, m, n), np.zeros(k, np.int32)
    a = a0.copy(order="F")
    assert call(t + "getrf_", integer(m), integer(n), address(a), integer(m), address(pivots)) == 0
    lower, upper = np.tril(a[:, :k], -1) + np.eye(m, k), np.triu(a[:k])
    product = exact(lower) @ exact(upper)
    note(t, "getrf", scaled(t, product - exact(exchanged(a0, pivots)), norm(a0)))
    assert np.abs(lower).max() <= (1.0001 if t in "sd" else 1.5)     # pivots are the largest

    a0, b0, pivots = random(t, n, n), random(t, n, 5), np.zeros(n, np.int32)
    a, b = a0.copy(order="F"), b0.copy(order="F")
    assert call(t + "gesv_", integer(n), integer(5), address(a), integer(n), address(pivots),
                address(b), integer(n)) == 0
    note(t, "gesv", scaled(t, exact(a0) @ exact(b) - exact(b0), norm(a0) * np.abs(b).max()))
    for op, of in (("N", a0), ("T", a0.T), ("C", a0.conj().T)):
        b = b0.copy(order="F")
        assert call(t + "getrs_", op.encode(), integer(n), integer(5), address(a), integer(n),
                    address(pivots), address(b), integer(n)) == 0
        note(t, "getrs", scaled(t, exact(of) @ exact(b) - exact(b0), norm(of) * np.abs(b).max()))
    work = np.zeros(64 * n, TYPES[t])
    assert call(t + "getri_", integer(n), address(a), integer(n), address(pivots), address(work),
                integer(work.size)) == 0
    note(t, "getri", scaled(t, exact(a) @ exact(a0) - np.eye(n), norm(a) * norm(a0)))


def cholesky(t, n):
    """Checks the residuals of Cholesky factorisations, and of solving by them."""
    g, b0 = random(t, n, n), random(t, n, 5)
    h0 = np.asfortranarray((g @ g.conj().T + n * np.eye(n)).astype(TYPES[t]))
    for uplo in "UL":
        part, other = (np.triu, np.tril) if uplo == "U" else (np.tril, np.triu)
        h = h0.copy(order="F")
        assert call(t + "potrf_", uplo.encode(), integer(n), address(h), integer(n)) == 0
        f = exact(part(h))
        product = f.conj().T @ f if uplo == "U" else f @ f.conj().T
        note(t, "potrf", scaled(t, product - exact(h0), norm(h0)))
        beside = -1 if uplo == "U" else 1
        assert (other(h, beside) == other(h0, beside)).all()
        b = b0.copy(order="F")
        assert call(t + "potrs_", uplo.encode(), integer(n), integer(5), address(h), integer(n),
                    address(b), integer(n)) == 0
        note(t, "potrs", scaled(t, exact(h0) @ exact(b) - exact(b0), norm(h0) * np.abs(b).max()))
        h, b = h0.copy(order="F"), b0.copy(order="F")
        assert call(t + "posv_", uplo.encode(), integer(n), integer(5), address(h), integer(n),
                    address(b), integer(n)) == 0
        note(t, "posv", scaled(t, exact(h0) @ exact(b) - exact(b0), norm(h0) * np.abs(b).max()))
        for diag in "NU":
            x0 = np.asfortranarray((random(t, n, n) / n + 3 * np.eye(n)).astype(TYPES[t]))
            x = x0.copy(order="F")
            assert call(t + "trtri_", uplo.encode(), diag.encode(), integer(n), address(x),
                        integer(n)) == 0
            assert (other(x, beside) == other(x0, beside)).all()
            p, q = part(x0), part(x)
            if diag == "U":
                assert (np.diag(x) == np.diag(x0)).all()
                np.fill_diagonal(p, 1)
                np.fill_diagonal(q, 1)
            note(t, "trtri", scaled(t, exact(p) @ exact(q) - np.eye(n), norm(p) * norm(q)))


def triangles(t, n):
    """Checks the residuals of triangular systems and inverses."""
    b0 = random(t, n, 5)
    for uplo in "UL":
        for op in "NTC":
            for diag in "NU":
                a = np.asfortranarray((random(t, n, n) / n + 3 * np.eye(n)).astype(TYPES[t]))
                b = b0.copy(order="F")
                assert call(t + "trtrs_", uplo.encode(), op.encode(), diag.encode(), integer(n),
                            integer(5), address(a), integer(n), address(b), integer(n)) == 0
                of = np.triu(a) if uplo == "U" else np.tril(a)
                if diag == "U":
                    np.fill_diagonal(of, 1)
                of = of if op == "N" else of.T if op == "T" else of.conj().T
                # scaled for each column, as in LAPACK's tester (dtrt02)
                left = np.abs(exact(of) @ exact(b) - exact(b0)).sum(0) / np.abs(b).sum(0)
                note(t, "trtrs", scaled(t, left, norm(of.T)))


def qr(t, m, n):
    """Checks the residuals of a QR factorisation, and that Q is orthogonal."""
    k, family = min(m, n), t + ("un" if t in "cz" else "or")
    a0, tau, work = random(t, m, n), np.zeros(k, TYPES[t]), np.zeros(64 * max(m, n), TYPES[t])
    room = (address(work), integer(work.size))
    a = a0.copy(order="F")
    assert call(t + "geqrf_", integer(m), integer(n), address(a), integer(m), address(tau),
                *room) == 0
    assert work[0] >= 1
    q, r = np.asfortranarray(a[:, :k]).copy(order="F"), exact(np.triu(a)[:k])
    assert call(family + "gqr_", integer(m), integer(k), integer(k), address(q), integer(m),
                address(tau), *room) == 0
    note(t, "geqrf", scaled(t, exact(q) @ r - exact(a0), norm(a0)))
    note(t, "orgqr", scaled(t, exact(q).conj().T @ exact(q) - np.eye(k), m))
    whole = np.eye(m, dtype=TYPES[t], order="F")
    for side in "LR":
        for op in "NC" if t in "cz" else "NT":
            c0 = whole if side == "L" and op == "N" else random(t, *((m, 9) if side == "L" else
                                                                   (9, m)))
            c = c0.copy(order="F")
            assert call(family + "mqr_", side.encode(), op.encode(), integer(c.shape[0]),
                        integer(c.shape[1]), integer(k), address(a), integer(m), address(tau),
                        address(c), integer(c.shape[0]), *room) == 0
            if c0 is whole:
                whole = c       # all columns of Q, of which orgqr gave k
                note(t, "ormqr", scaled(t, exact(c[:, :k]) - exact(q), m))
                continue
            of = exact(whole) if op == "N" else exact(whole).conj().T
            wanted = of @ exact(c0) if side == "L" else exact(c0) @ of
            note(t, "ormqr", scaled(t, exact(c) - wanted, m * np.abs(c0).max()))


def corners():
    """Checks info for singular matrices, NaN, workspace queries, and memory outside of matrices."""
    n = 100
    a0 = random("d", n, n)
    pivots, b = np.zeros(n, np.int32), random("d", n, 2)
    # a column of zeros: info is the first zero pivot, and the other columns are factored
    a = a0.copy(order="F")
    a[:, 40] = 0
    singular = a.copy()
    info = call("dgetrf_", integer(n), integer(n), address(a), integer(n), address(pivots))
    lower, upper = np.tril(a, -1) + np.eye(n), np.triu(a)
    print("singular", info, "%.3g" % np.abs(lower @ upper - exchanged(singular, pivots)).max())
    # rounding decides which pivots of a singular matrix are zero; info must be the first
    correct = []
    for rank in range(1, n, 14):
        a = np.asfortranarray(rng.integers(-3, 4, (n, rank)) @ rng.integers(-3, 4, (rank, n)), "d")
        info = call("dgetrf_", integer(n), integer(n), address(a), integer(n), address(pivots))
        correct.append(info == next(iter(np.flatnonzero(a.diagonal() == 0) + 1), 0))
    print("first", all(correct))
    # gesv of the singular matrix leaves b unchanged, and getri refuses
    b0, a = b.copy(), singular.copy(order="F")
    info = call("dgesv_", integer(n), integer(2), address(a), integer(n), address(pivots),
                address(b), integer(n))
    work = np.zeros(n)
    print("gesv", info, (b == b0).all(),
          call("dgetri_", integer(n), address(a), integer(n), address(pivots), address(work),
               integer(n)))
    # not positive definite from row 70 on
    h = np.asfortranarray(np.eye(n))
    h[69, 69] = -1
    print("potrf", [call("dpotrf_", u, integer(n), address(h.copy(order="F")), integer(n))
                    for u in (b"U", b"L")])
    # a zero on the diagonal of a triangle: nothing changes
    h[69, 69] = 0
    x = h.copy(order="F")
    print("trtri", call("dtrtri_", b"U", b"N", integer(n), address(x), integer(n)),
          (x == h).all())
    print("trtrs", call("dtrtrs_", b"U", b"N", b"N", integer(n), integer(2), address(x), integer(n),
                        address(b), integer(n)), (b == b0).all())
    # NaN and infinities
    a = a0.copy(order="F")
    a[3, 4] = np.nan
    call("dgetrf_", integer(n), integer(n), address(a), integer(n), address(pivots))
    print("nan", np.isnan(a).any())
    # workspace queries work, and elements outside the matrix stay
    work = np.zeros(1)
    print("size", call("dgeqrf_", integer(n), integer(n), address(a0), integer(n), address(b),
                       address(work), integer(-1)), work[0] >= n)
    large = np.full((n + 1, n + 1), float(GUARD), order="F")
    large[:n, :n] = a0
    call("dgetrf_", integer(n), integer(n), address(large), integer(n + 1), address(pivots))
    print("beside", (large[n] == GUARD).all() and (large[:, n] == GUARD).all())
    none, one = integer(0), integer(1)
    print("empty", call("dgetrf_", none, none, address(a0), one, address(pivots)),
          call("dpotrf_", b"L", none, address(a0), one))
    try:    # NumPy's xerbla raises an exception
        print("wrong", call("dgetrf_", integer(n), integer(n), address(a0), integer(n - 1),
                            address(pivots)))
    except SystemError as error:
        print("wrong", "number 4" in str(error.__cause__))


if sys.argv[1] == "corners":
    corners()
else:
    m, n = int(sys.argv[2]), int(sys.argv[3])
    for letter in TYPES:
        lu(letter, m, n)
        cholesky(letter, n)
        triangles(letter, n)
        qr(letter, m, n)
    print("worst %.3g" % max(worst.values()))
    print("sum %.4g" % sum(worst.values()))
    for name, residual in worst.items():
        print("%s %.3g" % (name, residual))
