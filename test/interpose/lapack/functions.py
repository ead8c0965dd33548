# SPDX-License-Identifier: BSD-3-Clause
"""functions.py N...: a digest of each of some hundred functions of SciPy and NumPy that call the
BLAS or LAPACK, on real and complex matrices of N rows."""
import hashlib
import sys
import warnings

import numpy as np
import numpy.linalg as la
import scipy.linalg as sl
import scipy.optimize as so
import scipy.sparse as sp
import scipy.sparse.linalg as sparse

warnings.simplefilter("ignore")     # of ill-conditioned matrices
random = np.random.Generator(np.random.PCG64(3))


def digest(value):
    """Returns a hash of the bits of a result, which may contain lists of arrays."""
    sha = hashlib.sha256()

    def add(part):
        """Adds the bits of a result's arrays to the digest."""
        if isinstance(part, (tuple, list)):
            for one in part:
                add(one)
        elif part is not None:
            sha.update(np.ascontiguousarray(part).tobytes())
    add(value)
    return sha.hexdigest()


def whole(*shape):
    """Returns random multiples of 1/997, the same on every machine."""
    return random.integers(-1000, 1000, shape) / 997.0


def of_scipy(n, is_complex):
    """Lists SciPy's functions of linear algebra by name, each with its matrices."""
    a, b, m = whole(n, n), whole(n, 3), whole(n, n // 2 + 1)
    if is_complex:
        a, b, m = (x + 1j * whole(*x.shape) for x in (a, b, m))
    s = a + a.conj().T
    p = s + 4 * n * np.eye(n)
    t = np.triu(a) + n * np.eye(n)
    bands = np.array([np.r_[0, np.diag(a, 1)], np.diag(p), np.r_[np.diag(a, -1), 0]])
    half = np.array([np.r_[0, np.diag(s, 1)], np.diag(p)])
    diagonal, beside = np.diag(p).real.copy(), np.diag(s, 1).real.copy()
    matrix, ones, third = sp.csc_matrix(p), np.ones(n), np.eye(3)
    q, r = sl.qr(a)
    return {
        "solve": lambda: sl.solve(a, b), "solve pos": lambda: sl.solve(p, b, assume_a="pos"),
        "solve her": lambda: sl.solve(s, b, assume_a="her"),
        "solve_triangular": lambda: sl.solve_triangular(t, b),
        "solve_triangular T": lambda: sl.solve_triangular(t, b, trans=1),
        "solve_banded": lambda: sl.solve_banded((1, 1), bands, b),
        "solveh_banded": lambda: sl.solveh_banded(half, b),
        "inv": lambda: sl.inv(a), "det": lambda: sl.det(a), "lstsq": lambda: sl.lstsq(m, b),
        "lstsq gelsy": lambda: sl.lstsq(m, b, lapack_driver="gelsy"),
        "lstsq gelss": lambda: sl.lstsq(m, b, lapack_driver="gelss"),
        "pinv": lambda: sl.pinv(m), "pinvh": lambda: sl.pinvh(s), "lu": lambda: sl.lu(a),
        "lu_solve": lambda: sl.lu_solve(sl.lu_factor(a), b), "svd": lambda: sl.svd(m),
        "svd gesvd": lambda: sl.svd(m, lapack_driver="gesvd"), "svdvals": lambda: sl.svdvals(m),
        "orth": lambda: sl.orth(m), "null_space": lambda: sl.null_space(m.T),
        "ldl": lambda: sl.ldl(s), "cholesky": lambda: sl.cholesky(p),
        "cho_solve": lambda: sl.cho_solve(sl.cho_factor(p), b),
        "cholesky_banded": lambda: sl.cholesky_banded(half), "polar": lambda: sl.polar(a),
        "qr": lambda: sl.qr(m), "qr pivots": lambda: sl.qr(m, pivoting=True),
        "qr_multiply": lambda: sl.qr_multiply(m, b.T.copy()), "rq": lambda: sl.rq(a),
        "qz": lambda: sl.qz(a, s), "ordqz": lambda: sl.ordqz(a, s), "schur": lambda: sl.schur(a),
        "rsf2csf": lambda: sl.rsf2csf(*sl.schur(a)),
        "hessenberg": lambda: sl.hessenberg(a, calc_q=True), "eig": lambda: sl.eig(a),
        "eig of two": lambda: sl.eig(a, p), "eigvals": lambda: sl.eigvals(a),
        "eigh": lambda: sl.eigh(s), "eigh ev": lambda: sl.eigh(s, driver="ev"),
        "eigh evd": lambda: sl.eigh(s, driver="evd"), "eigh evx": lambda: sl.eigh(s, driver="evx"),
        "eigh of two": lambda: sl.eigh(s, p),
        "eigh of three": lambda: sl.eigh(s, p, subset_by_index=[0, 2]),
        "eigvalsh": lambda: sl.eigvalsh(s), "eig_banded": lambda: sl.eig_banded(half),
        "eigh_tridiagonal": lambda: sl.eigh_tridiagonal(diagonal, beside),
        "expm": lambda: sl.expm(a / n), "sqrtm": lambda: sl.sqrtm(p), "signm": lambda: sl.signm(p),
        "logm": lambda: sl.logm(p), "cosm": lambda: sl.cosm(a / n),
        "power": lambda: sl.fractional_matrix_power(p, .5),
        "expm_frechet": lambda: sl.expm_frechet(a.real / n, s.real / n),
        "sylvester": lambda: sl.solve_sylvester(a, p, m @ m.conj().T),
        "continuous lyapunov": lambda: sl.solve_continuous_lyapunov(a, s),
        "discrete lyapunov": lambda: sl.solve_discrete_lyapunov(a / n, p),
        "discrete are": lambda: sl.solve_discrete_are(a / n, b, p, third),
        "toeplitz": lambda: sl.solve_toeplitz(np.r_[n, a[0, 1:]], b),
        "procrustes": lambda: sl.orthogonal_procrustes(a, s),
        "subspace_angles": lambda: sl.subspace_angles(m, b),
        "cossin": lambda: sl.cossin(q, p=n // 2, q=n // 2),
        "qr_insert": lambda: sl.qr_insert(q, r, b[:, 0], 1, "col"),
        "qr_delete": lambda: sl.qr_delete(q, r, 1),
        "qr_update": lambda: sl.qr_update(q, r, b[:, 0], b[:, 1]),
        "norm": lambda: sl.norm(a), "norm 2": lambda: sl.norm(a, 2),
        "spsolve": lambda: sparse.spsolve(matrix, b), "splu": lambda: sparse.splu(matrix).solve(b),
        "eigsh": lambda: sparse.eigsh(matrix, k=3, v0=ones),
        "eigs": lambda: sparse.eigs(matrix, k=3, v0=ones),
        "svds": lambda: sparse.svds(matrix, k=3, v0=ones),
        "cg": lambda: sparse.cg(p, b[:, 0]), "gmres": lambda: sparse.gmres(p, b[:, 0]),
        "bicgstab": lambda: sparse.bicgstab(p, b[:, 0]),
        "lsqr": lambda: sparse.lsqr(m, b[:, 0])[:1],
        "lobpcg": lambda: sparse.lobpcg(p, np.eye(n, 2, dtype=p.dtype)),
        "expm_multiply": lambda: sparse.expm_multiply(sp.csc_matrix(a / n), b),
    }


def of_numpy(n, is_complex):
    """Lists NumPy's functions of linear algebra by name, each with its matrices."""
    a, b, m = whole(n, n), whole(n, 3), whole(n, n // 2 + 1)
    if is_complex:
        a, b, m = (x + 1j * whole(*x.shape) for x in (a, b, m))
    s = a + a.conj().T
    x = np.arange(n) / n
    return {
        "numpy solve": lambda: la.solve(a, b), "numpy inv": lambda: la.inv(a),
        "numpy lstsq": lambda: la.lstsq(m, b, rcond=None), "numpy eig": lambda: tuple(la.eig(a)),
        "numpy eigh": lambda: tuple(la.eigh(s)), "numpy svd": lambda: tuple(la.svd(m)),
        "numpy qr": lambda: tuple(la.qr(m)), "numpy det": lambda: la.det(a),
        "numpy cholesky": lambda: la.cholesky(s + 4 * n * np.eye(n)),
        "tensorsolve": lambda: la.tensorsolve(a.reshape(n, 1, n), b[:, :1]),
        "matrix_power": lambda: la.matrix_power(a, 3), "tensordot": lambda: np.tensordot(a, s, 1),
        "inner": lambda: np.inner(a, s), "cov": lambda: np.cov(a),
        "einsum": lambda: np.einsum("ij,jk", a, s, optimize=True),
        "polyfit": lambda: np.polyfit(x, b.real, 3),
    }


def of_optimize(n):
    """Lists SciPy's optimizers by name, each with its problem."""
    m, b = whole(n, n // 2 + 1), whole(n)
    p = whole(n, n) + 4 * n * np.eye(n)
    start = np.ones(5) * 1.3
    return {
        "BFGS": lambda: so.minimize(so.rosen, start, method="BFGS").x,
        "SLSQP": lambda: so.minimize(so.rosen, start, method="SLSQP").x,
        "trust-constr": lambda: so.minimize(so.rosen, start, method="trust-constr").x,
        "nnls": lambda: so.nnls(m, b),
        "least_squares": lambda: so.least_squares(lambda x: m @ x - b, np.zeros(m.shape[1])).x,
        "linprog": lambda: so.linprog(np.abs(b), A_ub=-p, b_ub=-np.ones(n)).x,
    }


for rows in map(int, sys.argv[1:]):
    for kind in "dz":
        for name, f in {**of_scipy(rows, kind == "z"), **of_numpy(rows, kind == "z"),
                        **(of_optimize(rows) if kind == "d" else {})}.items():
            print(f"{name},{kind},{rows}".replace(" ", "_"), digest(f()))
