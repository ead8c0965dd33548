# SPDX-License-Identifier: BSD-3-Clause
"""fixed.py N...: a digest of each function of numpy.linalg on matrices of N rows, of each type; or
`check N`: whether its result is right."""
import hashlib
import sys

import numpy as np
import numpy.linalg as la



def digest(value):
    """Returns a hash of the bits of one or several arrays."""
    parts = value if isinstance(value, tuple) else (value,)
    return hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parts)).hexdigest()


def matrices(n, dtype):
    """Returns a square matrix, right-hand sides, a tall matrix, a Hermitian one and a positive
    definite one."""
    random = np.random.Generator(np.random.PCG64(n))

    def whole(*shape):      # the same on every CPU
        x = random.integers(-1000, 1000, shape) / 997.0
        if np.dtype(dtype).kind == "c":
            x = x + 1j * (random.integers(-1000, 1000, shape) / 997.0)
        return x.astype(dtype)

    a, b, m = whole(n, n), whole(n, 3), whole(n, n // 2 + 1)
    s = a + a.conj().T
    return a, b, m, s, s + 4 * n * np.eye(n, dtype=dtype)


def functions(n, dtype):
    """Lists functions of SciPy and NumPy by name, each with its matrices."""
    a, b, m, s, p = matrices(n, dtype)
    return {
        "solve": lambda: la.solve(a, b), "solve of one": lambda: la.solve(a, b[:, 0]),
        "inv": lambda: la.inv(a), "det": lambda: la.det(a), "slogdet": lambda: tuple(la.slogdet(a)),
        "cholesky": lambda: la.cholesky(p), "qr": lambda: tuple(la.qr(a)),
        "qr of columns": lambda: tuple(la.qr(m)),
        "qr complete": lambda: tuple(la.qr(m, "complete")),
        "eigh": lambda: tuple(la.eigh(s)), "eigvalsh": lambda: la.eigvalsh(s),
        "eigh upper": lambda: tuple(la.eigh(s, "U")), "eig": lambda: tuple(la.eig(a)),
        "eigvals": lambda: la.eigvals(a), "svd": lambda: tuple(la.svd(m)),
        "svd thin": lambda: tuple(la.svd(m, full_matrices=False)),
        "singular values": lambda: la.svd(m, compute_uv=False),
        "lstsq": lambda: tuple(la.lstsq(m, b, rcond=None)[0::3]), "pinv": lambda: la.pinv(m),
        "rank": lambda: la.matrix_rank(m), "cond": lambda: la.cond(a),
        "norm": lambda: la.norm(a), "norm 2": lambda: la.norm(a, 2),
        "power": lambda: la.matrix_power(a, 3),
        "matvec": lambda: a @ b[:, 0], "vecmat": lambda: b[:, 0] @ a,
        "dot": lambda: b[:, 0] @ b[:, 1],
        "vdot": lambda: np.vdot(b[:, 0], b[:, 1]), "rows": lambda: a[:1] @ m,
        "multi_dot": lambda: la.multi_dot([a, m, m.conj().T, b]),
    }


def check(n):
    """Checks that residuals are as small as those of backward stable algorithms."""
    for dtype in "fdFD":
        a, b, m, s, p = matrices(n, dtype)
        unit = 100 * n * np.finfo(dtype).eps
        size = la.norm(a)
        w, v = la.eigh(s)
        u, d, vt = la.svd(m, full_matrices=False)
        q, r = la.qr(a)
        c = la.cholesky(p)
        values, vectors = la.eig(a)
        for name, error in (
                ("solve", la.norm(a @ la.solve(a, b) - b) / la.norm(la.solve(a, b))),
                ("eigh", la.norm(s @ v - v * w)), ("vectors", la.norm(v.conj().T @ v - np.eye(n))),
                ("svd", la.norm(u * d @ vt - m)), ("qr", la.norm(q @ r - a)),
                ("cholesky", la.norm(c @ c.conj().T - p) / n),
                ("eig", la.norm(a @ vectors - vectors * values)),
                ("lstsq", la.norm(m.conj().T @ (m @ la.lstsq(m, b, rcond=None)[0] - b)) / n)):
            if not error < unit * size:
                print(f"FAILED: {name} of {dtype}, {n}: {error}")
    print("checked")


def main():
    if sys.argv[1] == "check":
        check(int(sys.argv[2]))
        return
    for n in map(int, sys.argv[1:]):
        for dtype in "fdFD":
            for name, f in functions(n, dtype).items():
                print(f"{name}, {dtype}, {n}: {digest(f())}")


main()
