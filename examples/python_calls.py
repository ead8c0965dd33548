# SPDX-License-Identifier: BSD-3-Clause
"""Times products of small matrices in Python: limber.matmul, NumPy with liblimber_blas preloaded,
and NumPy alone.

    python python_calls.py                          # a table, some seconds
    python python_calls.py --sizes 4,16 --json

Each contender is a process of its own, because a preloaded library serves a whole process.
Contenders take turns, so that load by other programs affects all of them alike.  A time is the
median of --runs turns; a turn's time is that of the fastest of three loops of some milliseconds.
`limber bench python` runs this file."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from apps import environment, progress

LOOP = 0.004        # seconds that a loop of calls takes at least
WAYS = {            # contender: (library that multiplies, contract, or None for NumPy's own BLAS)
    "numpy": ("numpy", None),
    "limber native": ("limber", "native"),
    "limber correct": ("limber", "correct"),
    "numpy, preloaded native": ("numpy", "native"),
    "numpy, preloaded correct": ("numpy", "correct"),
}


def preload():
    """Finds liblimber_blas in the package or in a build tree; returns its path, or None."""
    from limber._library import lib

    folder = os.path.dirname(lib._name)
    for name in ("liblimber_blas.so", "tools/interpose/blas/liblimber_blas.so"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def blas_of(numpy):
    """Returns the name and version of NumPy's BLAS if NumPy tells them, else "its BLAS"."""
    try:
        found = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    except (TypeError, KeyError):       # NumPy before 1.25
        return "its BLAS"


def work(library, contract, clock):
    """Runs in a contender's process.  Answers a line such as "f8 16", a NumPy type and n, by
    [seconds of a call, bits of the result if n is 4]."""
    import numpy

    multiply = numpy.matmul
    if library == "limber":
        import limber

        multiply = limber.Context(threads=1, contract=contract).matmul
    print(json.dumps([numpy.__version__, blas_of(numpy)]), flush=True)
    clock = time.process_time if clock == "cpu" else time.perf_counter
    for line in sys.stdin:
        kind, n = line.split()
        random = numpy.random.default_rng(int(n))
        a, b = (random.standard_normal((int(n), int(n))).astype(kind) for _ in range(2))
        for _ in range(50):     # meanwhile kernels are specialised for this shape
            c = multiply(a, b)
        count, seconds = 1, 0
        while seconds < LOOP:
            count *= 2
            seconds = loop(multiply, a, b, count, clock)
        best = min([seconds] + [loop(multiply, a, b, count, clock) for _ in range(2)])
        print(json.dumps([best / count, c.tobytes().hex() if n == "4" else ""]), flush=True)


def loop(multiply, a, b, count, clock):
    """Returns the time of `count` calls."""
    start = clock()
    for _ in range(count):
        multiply(a, b)
    return clock() - start


class Contender:
    """A process that multiplies in one of WAYS when asked."""
    def __init__(self, name, library, clock, env):
        kind, contract = WAYS[name]
        if kind == "numpy" and contract:
            env = {**env, "LD_PRELOAD": library, "LIMBER_CONTRACT": contract}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", kind, contract or "", clock], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.version = json.loads(self.process.stdout.readline())

    def ask(self, kind, n):
        """Has the process multiply n x n matrices; returns its answer."""
        self.process.stdin.write(f"{kind} {n}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: its process ended")
        return json.loads(line)

    def end(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def measure(contenders, kind, n, runs):
    """Returns {name: median of seconds}.  Ends the program if limber.matmul and the preloaded
    library give different bits under `correct`; bits are compared for n = 4 only."""
    times = {c.name: [] for c in contenders}
    bits = {}
    for run in range(runs):
        for c in contenders:
            progress(f"{kind} {n} x {n}, run {run + 1} of {runs}: {c.name}")
            seconds, bits[c.name] = c.ask(kind, n)
            times[c.name].append(seconds)
    correct = {bits[name] for name in bits if name.endswith("correct")}
    if len(correct) > 1:
        sys.exit(f"{kind} {n} x {n}: correct results differ")
    return {name: statistics.median(x) for name, x in times.items()}


def show(rows, names):
    """Prints the times as a table."""
    print(f"{'':13}" + "".join(f"{name:>26}" for name in names))
    for row in rows:
        base = row["seconds"]["numpy"]
        cells = [f"{1e6 * t:.2f} µs" + (f" {base / t:6.2f} x" if name != "numpy" else "")
                 for name, t in row["seconds"].items()]
        print(f"{row['format']} {row['n']:4}     " + "".join(f"{cell:>26}" for cell in cells))


def numbers(text):
    """A type for argparse: sizes from 1 to 4096, separated by commas."""
    made = [int(word) for word in text.split(",")]
    if not made or min(made) < 1 or max(made) > 4096:
        raise ValueError(text)
    return made


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                epilog="example: python python_calls.py --sizes 4,16 --runs 3")
    p.add_argument("--sizes", type=numbers, default=[4, 8, 16, 32, 64, 128], metavar="N,N",
                   help="sides of the square matrices, 1 to 4096 (4,8,16,32,64,128)")
    p.add_argument("--runs", type=int, default=5, choices=range(1, 100), metavar="1..99",
                   help="turns of each contender (5)")
    p.add_argument("--cpu-time", action="store_true",
                   help="time of the CPU in the place of the clock's")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.work:
        return work(*o.work)
    env = environment(1)
    sys.path += filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    try:
        import limber
        import numpy        # noqa: F401
    except ImportError as error:
        p.error(str(error))
    library = preload()
    names = [name for name, (kind, contract) in WAYS.items()
             if library or kind == "limber" or not contract]
    contenders = []
    try:
        for name in names:
            contenders.append(Contender(name, library, "cpu" if o.cpu_time else "", env))
        version, blas = contenders[0].version
        rows = [{"format": kind, "n": n, "seconds": measure(contenders, kind, n, o.runs)}
                for kind in ("f8", "f4") for n in o.sizes]
    finally:
        for c in contenders:
            c.end()
    progress("")
    head = {"limber": limber.__version__, "numpy": version, "blas": blas, "runs": o.runs,
            "threads": 1, "cpu_time": o.cpu_time, "preload": library}
    for row in rows:
        row["format"] = {"f8": "f64", "f4": "f32"}[row["format"]]
    if o.json:
        print(json.dumps({**head, "products": rows}, indent=1))
        return 0
    print(f"Limber {head['limber']}, NumPy {version} with {blas}; one thread, medians of "
          f"{o.runs} runs; x: speed beside NumPy alone" +
          ("" if library else "; no liblimber_blas.so beside the library: nothing is preloaded"))
    show(rows, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
