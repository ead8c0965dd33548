# SPDX-License-Identifier: BSD-3-Clause
"""Makes calls whose report is known beforehand, and checks the report."""
import ctypes
import json
import os
import signal
import sys
import time

# number of calls that NumPy makes when it is imported
BEGAN = int(os.environ.get("BEGAN", 0))


class Call(ctypes.Structure):
    """limber_blas_call, up to the last field that is read."""
    _fields_ = [("size", ctypes.c_size_t), ("routine", ctypes.c_char * 40),
                ("m", ctypes.c_int64), ("n", ctypes.c_int64),
                ("k", ctypes.c_int64), ("served", ctypes.c_int), ("why_not", ctypes.c_char * 160),
                ("report", ctypes.c_void_p)]


def last():
    """Returns what the interposed library says about this thread's last call: a status, and the
    call."""
    call = Call(ctypes.sizeof(Call))
    return ctypes.CDLL(None).limber_blas_last_call(ctypes.byref(call)), call


def is_called(call, name):
    """Wheels of NumPy call their own BLAS by the names scipy_NAME or scipy_NAME64_."""
    return call.routine.decode() in (name, f"scipy_{name}", f"scipy_{name}64_")


def calls():
    """Multiplies three times in each of three types, and returns the last product."""
    import numpy as np
    np.seterr(all="raise")          # the caller sets flags
    rng = np.random.default_rng(5)
    for kind in (np.float64, np.float32, np.complex128):
        a = rng.standard_normal((40, 60)).astype(kind)
        b = (rng.standard_normal((60, 50)) * 10.0 ** rng.integers(-9, 9, (60, 50))).astype(kind)
        for _ in range(3):
            c = a @ b
    return c


def ask():
    """The last call is reported with its routine and sizes; nothing before the first call."""
    assert last()[0] == 0           # no call has reached the library
    calls()
    known, call = last()
    assert known == 1 and is_called(call, "cblas_zgemm"), call.routine
    assert sorted((call.m, call.n, call.k)) == [40, 50, 60] and call.served and not call.why_not
    print(os.getpid())


def served():
    """The last of several calls was computed by Limber."""
    calls()
    known, call = last()
    assert known and call.served, call.why_not
    print("right")


def several(names="cblas_dsyrk"):
    """Makes a call that takes several kernels: for triangles, and for the blocks beside them."""
    import numpy as np
    rng = np.random.default_rng(6)
    a = rng.standard_normal((600, 70)) * 10.0 ** rng.integers(-100, 100, (600, 1))
    a[:300] = rng.integers(-9, 9, (300, 70))
    a @ a.T
    known, call = last()
    assert known and call.served and is_called(call, names), (call.routine, call.why_not)
    print("right")


def routines():
    """Each call takes several products, whose kernels are reported, too."""
    import numpy as np
    rng = np.random.default_rng(7)
    n, k = 300, 200
    library = ctypes.CDLL(None)
    a, b = (np.asfortranarray(rng.standard_normal((n, k)) * 10.0 ** rng.integers(-9, 9, (n, 1)))
            for _ in range(2))
    t = np.asfortranarray(np.triu(rng.uniform(-1, 1, (n, n)) / n) + np.eye(n))
    c, x = (np.zeros((n, n), order="F") for _ in range(2))
    info, pivots = ctypes.c_int(-1), np.zeros(n, dtype=np.int64)
    N, K, one, zero = ctypes.c_int64(n), ctypes.c_int64(k), ctypes.c_double(1), ctypes.c_double(0)

    def call(name, *args):
        """Calls a Fortran routine, and checks that Limber computed it."""
        args = [x.ctypes.data_as(ctypes.c_void_p) if isinstance(x, np.ndarray) else
                x if isinstance(x, bytes) else ctypes.byref(x) for x in args]
        getattr(library, name + "_")(*args, *[ctypes.c_size_t(1)] * 4)
        known, last_call = last()
        assert known and last_call.served and last_call.routine.decode() == name + "_", \
            (name, last_call.routine, last_call.why_not)

    call("dsyrk", b"L", b"N", N, K, one, a, N, zero, c, N)
    call("dsyr2k", b"U", b"N", N, K, one, a, N, b, N, zero, c, N)
    call("dtrmm", b"L", b"U", b"N", b"N", N, K, one, t, N, b, N)
    call("dtrsm", b"L", b"U", b"T", b"N", N, K, one, t, N, b, N)
    try:
        ctypes.CDLL("liblapack.so.3", ctypes.RTLD_GLOBAL)
    except OSError:
        print("liblapack3 is absent: its routines are skipped", file=sys.stderr)
        print("right")
        return
    x[:] = t @ t.T
    last_x = x.copy(order="F")
    call("dgetrf", N, N, x, N, pivots, info)
    assert info.value == 0
    call("dpotrf", b"L", N, last_x, N, info)
    assert info.value == 0
    print("right")


def killed(path):
    """Works until a report exists, and is then killed."""
    for _ in range(100000):
        calls()
        if os.path.exists(path):
            os.kill(os.getpid(), signal.SIGTERM)
    print("no report")


def ended(signal_name):
    """Works, and is terminated before a report was written."""
    calls()
    os.kill(os.getpid(), getattr(signal, signal_name))
    signal.pause()


def idle(path):
    """Works, then idles, and is killed once all its calls are in the report."""
    calls()
    made = 0
    for _ in range(6000):
        time.sleep(0.01)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                made = json.load(file)["served"]["calls"]
            if made == 9 + BEGAN:
                os.kill(os.getpid(), signal.SIGKILL)
    print(f"the report has {made} calls")


def whole(path):
    """Checks a report of a killed process: it has all calls, and says that it is incomplete."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    assert report["served"]["calls"] == 9 + BEGAN and not report["complete"], report["served"]
    print("right")


def bound(served):
    """17 x 500 x 40: 503 roundings of 2^-53 are below 2^-44, and not below 2^-45."""
    import numpy as np
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((17, 500)), rng.standard_normal((500, 40))
    a @ b
    known, call = last()
    assert known and call.served == int(served), call.why_not
    if not call.served:
        assert b"standard error bound" in call.why_not
    a.astype(np.float32) @ b.astype(np.float32)
    assert last()[1].served
    print("right")


def narrow():
    """BF16 and FP16 under OpenBLAS's names: sums of few bits, which doubles hold exactly."""
    import numpy as np
    rng = np.random.default_rng(10)
    m, n, k = 7, 5, 33
    half = rng.integers(-40, 40, (m, k)) / 8, rng.integers(-40, 40, (k, n)) / 8
    start = rng.integers(-9, 9, (m, n)) / 4

    def bf16(x):        # to nearest even
        bits = np.asarray(x, dtype=np.float32).view(np.uint32)
        return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def back(x):
        """The floats of BF16 bits."""
        return (x.astype(np.uint32) << 16).view(np.float32)

    library = ctypes.CDLL(None)
    sizes = [ctypes.byref(ctypes.c_int64(x)) for x in (m, n, k)]
    for name, code in (("sbgemm", bf16), ("shgemm", lambda x: np.float16(x).view(np.uint16)),
                       ("bgemm", bf16)):
        a, b = (np.asfortranarray(code(x)) for x in half)
        scalars = (np.float32(-2), np.float32(0.5))
        c = np.asfortranarray(bf16(start) if name == "bgemm" else start.astype(np.float32))
        alpha, beta = (np.array(bf16(x) if name == "bgemm" else x) for x in scalars)
        want = (-2 * (half[0] @ half[1]) + start / 2).astype(np.float32)
        lda, ldb, ldc = (ctypes.byref(ctypes.c_int64(x)) for x in (m, k, m))
        letters = ctypes.c_char_p(b"N")
        data = [x.ctypes.data_as(ctypes.c_void_p) for x in (alpha, a, b, beta, c)]
        getattr(library, name + "_64_")(letters, letters, *sizes, data[0], data[1], lda, data[2],
                                        ldb, data[3], data[4], ldc, ctypes.c_size_t(1),
                                        ctypes.c_size_t(1))
        known, call = last()
        assert known and call.served and call.routine.decode() == name + "_64_", call.why_not
        got = c if name != "bgemm" else back(c)
        assert np.array_equal(got, want if name != "bgemm" else back(bf16(want))), name
        c2 = np.ascontiguousarray(bf16(start) if name == "bgemm" else start.astype(np.float32))
        kind = ctypes.c_uint16 if name == "bgemm" else ctypes.c_float
        row_a, row_b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        getattr(library, "cblas_" + name + "_64")(
            101, 111, 111, *(ctypes.c_int64(x) for x in (m, n, k)), kind(alpha.item()),
            row_a.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(k),
            row_b.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(n), kind(beta.item()),
            c2.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(n))
        assert np.array_equal(c2, c), "cblas_" + name
    narrow_batch(library, [bf16(x) for x in half], start, half)
    print("right")


def narrow_batch(library, codes, start, half):
    """A batch of two groups: two products and one."""
    import numpy as np
    (m, k), n = half[0].shape, half[1].shape[1]
    a, b = (np.ascontiguousarray(x) for x in codes)
    c = [np.ascontiguousarray(start.astype(np.float32)) for _ in range(3)]
    ints = lambda values: (ctypes.c_int64 * len(values))(*values)
    places = lambda arrays: (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    no = (ctypes.c_int * 2)(111, 111)
    library.cblas_sbgemm_batch_64(
        101, no, no, ints([m, m]), ints([n, n]), ints([k, k]), (ctypes.c_float * 2)(-2, 1),
        places([a, a, a]), ints([k, k]), places([b, b, b]), ints([n, n]),
        (ctypes.c_float * 2)(0.5, 0), places(c), ints([n, n]), ctypes.c_int64(2), ints([2, 1]))
    known, call = last()
    assert known and call.served and call.routine.decode() == "cblas_sbgemm_batch_64", call.why_not
    want = -2 * (half[0] @ half[1]) + start / 2
    assert np.array_equal(c[0], want) and np.array_equal(c[1], want)
    assert np.array_equal(c[2], half[0] @ half[1])


def simulated(folder):
    """Multiplies on a simulated unit, and stores the operands and the product for a comparison."""
    import numpy as np
    rng = np.random.default_rng(9)
    a = rng.standard_normal((33, 150)).astype(np.float32)
    b = (rng.standard_normal((150, 20)) * 4.0 ** rng.integers(-6, 6, (150, 20))).astype(np.float32)
    np.save(f"{folder}/a.npy", a)
    np.save(f"{folder}/b.npy", b)
    np.save(f"{folder}/c.npy", a @ b)
    assert last()[1].served, last()[1].why_not


def same(folder, report):
    """Compares the stored product with the expected one, and checks the counts in the report."""
    import numpy as np
    c, want = np.load(f"{folder}/c.npy"), np.load(f"{folder}/want.npy")
    assert c.dtype == want.dtype and np.array_equal(c, want)
    with open(report, encoding="utf-8") as file:
        row = next(row for row in json.load(file)["calls"] if "gemm" in row["routine"])
    assert row["scheme"] == "simulate" and row["broken"] == 0
    assert row["unit"]["products"] == 33 * 150 * 20 and row["unit"]["partly_swamped"] > 0, row
    print("right")


def part(path):
    """Checks the report of a process that ended early: it has some calls."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    assert report["served"]["calls"] > 0 and report["calls"] and not report["complete"]
    print("right")


def many():
    """Products of 12 shapes, the last of which has most work."""
    import numpy as np
    for n in list(range(40, 51)) + [200]:
        a = np.ones((n, n))
        a @ (a + a)


def rows(path, most):
    """The shapes of most seconds are listed, `most` of them (0: all).  The other products are
    summed in one row, and no call is lost.  NumPy's own dot product, made on import, may be among
    those that are listed."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    calls = [row for row in report["calls"] if "gemm" in row["routine"]]
    shapes = [row.get("shapes", 1) for row in calls]
    listed = int(most) or len(report["calls"])
    named = {row["m"] for row in report["calls"][:listed] if "gemm" in row["routine"]}
    assert len(calls) == min(len(named) + 1, 12) and sum(shapes) == 12, calls
    assert sum(row["calls"] for row in calls) == report["served"]["calls"] - BEGAN == 12
    seconds = sum(row["seconds"] for row in report["calls"])
    assert abs(seconds / report["served"]["seconds"] - 1) < 1e-3
    if len(named) < 12:
        rest = max(m for m in [*range(40, 51), 200] if m not in named)
        assert calls[-1]["m"] == rest and "caller" not in calls[-1], calls
        least = min(row["seconds"] for row in report["calls"][:listed])
        assert least >= calls[-1]["seconds"] / shapes[-1], calls
    print("right")


def read(path):
    """Checks the report of calls(): routines, counts, schemes, errors and kernels."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    assert report["complete"]
    assert report["library"] == "liblimber_blas" and report["pid"] == int(path.rpartition(".")[2])
    rows = {row["routine"]: row for row in report["calls"] if "gemm" in row["routine"]}
    bare = {name.replace("scipy_", "").replace("64_", "") for name in rows}     # of wheels
    assert bare == {"cblas_dgemm", "cblas_sgemm", "cblas_zgemm"}, rows
    for row in rows.values():
        assert row["calls"] == 3 and row["served"] and row["ops"] == "NN" and row["k"] == 60
        assert row["scheme"] and row["backend"] == "interp" and row["largest_bound"] == 0
        assert row["seconds"] > 0 and row["estimated_original_seconds"] > 0
        assert "multiarray" in row["caller"]
        assert row["broken"] == 0 and row["worst_ulps"] <= 0.5
    assert sum(row["checked_elements"] for row in rows.values()) >= 9
    assert report["served"]["calls"] == 9 + BEGAN and report["handed_on"]["calls"] == 0
    plans = [kernel["plan"] for kernel in report["kernels"]]
    assert plans and all("promise=correct" in plan for plan in plans)
    print("right")


def left(path):
    """Prints how many calls were left to the other BLAS, and why."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    row = report["calls"][0]
    assert not row["served"] and report["served"]["calls"] == 0
    print(f"{report['handed_on']['calls']:.0f} handed on: {row['why_not']}")


def closed(path, report):
    """Loads, uses and closes the library, whose thread still writes the report."""
    import _ctypes
    library = ctypes.CDLL(path)
    n, one = ctypes.c_int64(40), ctypes.c_double(1)
    a = (ctypes.c_double * 1600)(*[1 / 7] * 1600)
    b, c = (ctypes.c_double * 1600)(*[3.0] * 1600), (ctypes.c_double * 1600)()
    library.cblas_dgemm_64(102, 111, 111, n, n, n, one, a, n, b, n, ctypes.c_double(0), c, n)
    _ctypes.dlclose(library._handle)
    while not os.path.exists(report):
        time.sleep(0.01)
    signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
