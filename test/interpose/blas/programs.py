# SPDX-License-Identifier: BSD-3-Clause
"""numpy.linalg, whatever computes its products: residuals in ulps of the type, and products of integers
exactly."""
import sys
import warnings

import numpy as np


def scaled(error, *factors):
    """Returns |error| over the product of norms, in units of the type's round-off times the
    size."""
    scale = np.prod([np.linalg.norm(f) for f in factors]) * np.finfo(error.dtype).eps * max(error.shape)
    return float(np.linalg.norm(error) / scale)


def draw(rng, kind, *shape):
    """Random numbers of a type."""
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.iscomplexobj(np.zeros(1, kind)) else x).astype(kind)


def residuals(kind, n):
    """Yields the name and the scaled residual of functions of numpy.linalg."""
    rng = np.random.default_rng(n)
    a, b = draw(rng, kind, n, n), draw(rng, kind, n, 7)
    tall, one = draw(rng, kind, 2 * n, n), np.eye(n, dtype=kind)
    hermitian = a + a.conj().T
    positive = a @ a.conj().T + n * one
    x = np.linalg.solve(a, b)
    yield "solve", scaled(a @ x - b, a, x)
    inverse = np.linalg.inv(positive)
    yield "inv", scaled(positive @ inverse - one, positive, inverse)
    q, r = np.linalg.qr(tall)
    yield "qr", scaled(q @ r - tall, tall)
    yield "orthogonality of q", scaled(q.conj().T @ q - one, one)
    u, s, v = np.linalg.svd(tall, full_matrices=False)
    yield "svd", scaled((u * s) @ v - tall, tall)
    values, vectors = np.linalg.eigh(hermitian)
    yield "eigh", scaled(hermitian @ vectors - vectors * values, hermitian)
    values, vectors = np.linalg.eig(a)
    yield "eig", scaled(a @ vectors - vectors * values, a)
    lower = np.linalg.cholesky(positive)
    yield "cholesky", scaled(lower @ lower.conj().T - positive, positive)
    least = np.linalg.lstsq(tall, tall @ b, rcond=None)[0]
    yield "lstsq", scaled(least - b, tall, b)


def integers(kind):
    """Yields the name of a product of integers, and whether it is exact."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-99, 100, (70, 90)) for _ in range(2))
    exact = a @ b.T
    yield "a b^T", np.array_equal(a.astype(kind) @ b.astype(kind).T, exact)
    yield "a a^T", np.array_equal(a.astype(kind) @ a.astype(kind).T, a @ a.T)
    yield "multi_dot", np.array_equal(np.linalg.multi_dot([a.astype(kind), b.astype(kind).T]), exact)
    yield "matrix_power", np.array_equal(np.linalg.matrix_power((a[:5, :5] % 3).astype(kind), 3),
                                         np.linalg.matrix_power(a[:5, :5] % 3, 3))


def main():
    failures = 0
    warnings.simplefilter("error")
    for kind in (np.float32, np.float64, np.complex64, np.complex128):
        for name, right in integers(kind):
            if not right:
                failures += 1
                print(f"{kind.__name__}: {name} is not exact")
        for name, residual in residuals(kind, int(sys.argv[1])):
            if not residual < 5:
                failures += 1
                print(f"{kind.__name__}: {name}: residual {residual:.3g}")
    print(failures, "failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
