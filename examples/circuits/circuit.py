# SPDX-License-Identifier: BSD-3-Clause
"""Simulates quantum circuits in OpenQASM 2.0, in several formats.

Gates that follow each other are fused to a matrix on at most --fuse qubits.  Axes of the state are
permuted so that these qubits are its first axes, and one GEMM multiplies the matrix by the state.
A complex number is stored as two real numbers, so a matrix M becomes [Re M, -Im M; Im M, Re M], and
the program works with every format and scheme of Limber.

    python circuit.py qft_n18.qasm                         # all formats, errors against binary128
    python circuit.py qft_n18.qasm --formats fp32-f,f64    # some of them
    python circuit.py qft_n18.qasm --blas f32              # NumPy's BLAS
    python circuit.py *.qasm --picture errors.svg          # the errors of several circuits
    python circuit.py qv_25 --against f64 --relative       # a random circuit of 25 qubits

Source: Ma et al., "Ape" (section 6.2.1 and figure 13: the largest error of an amplitude)."""
import argparse
import json
import os
import re
import sys
import time

import numpy as np

import qasm
from limber.chart import chart, writable

# name: (NumPy type of state and matrices, Limber format, contract, scheme); binary128 has no type
FORMATS = {
    "binary128": (None, "f128", "native", None),
    "f64": (np.float64, "f64", "native", None),
    "correct": (np.float64, "f64", "correct", None),
    "f32": (np.float32, "f32", "native", None),
    "fp32-f": (np.float32, "f32", "fast", "fp32-f"),
    "fp32-b": (np.float32, "f32", "fast", "fp32-b"),
    "mixed": (np.float32, "f32", "fast", "ape"),
    "f16": (np.float16, "f16", "native", None),
}
NEGLIGIBLE = 2.0 ** -40
NOTHING = 2.0 ** -50     # smaller elements of a matrix become 0, such as cos(pi / 2) in doubles


def fuse(gates, most):
    """Fuses gates to matrices on at most `most` qubits.  A gate is multiplied into the last matrix
    if both together have at most `most` qubits; otherwise it starts a new matrix."""
    fused = []
    for gate in gates:
        if len(gate.qubits) > most:
            raise SystemExit(f"--fuse {most}: {gate.name} has {len(gate.qubits)} qubits")
        if fused and len(set(fused[-1].qubits) | set(gate.qubits)) <= most:
            last = fused.pop()
            both = last.qubits + tuple(q for q in gate.qubits if q not in last.qubits)
            matrix = widen(gate, both) @ widen(last, both)
            fused.append(qasm.Gate("fused", matrix, both))
        else:
            fused.append(gate)
    return fused


def widen(gate, qubits):
    """Returns the matrix of a gate on `qubits`, which are the gate's qubits and others."""
    rest = [q for q in qubits if q not in gate.qubits]
    matrix = np.kron(gate.matrix, np.eye(1 << len(rest)))
    axes = [(list(gate.qubits) + rest).index(q) for q in qubits]
    k = len(qubits)
    cube = matrix.reshape((2,) * (2 * k)).transpose(axes + [k + a for a in axes])
    return cube.reshape(1 << k, 1 << k)


class Arithmetic:
    """Arrays of a format and their products.  A binary128 number is two 64-bit words, which are the
    last axis of an array.

    seconds     time in products
    refused     products that were computed by `native`, because the scheme refused them"""

    def __init__(self, name, blas=None):
        self.kind, self.format, self.contract, self.scheme = FORMATS[name]
        self.quad, self.blas, self.seconds, self.refused = self.format == "f128", blas, 0, 0
        if not blas:
            import limber
            self.limber, self.context = limber, limber.Context()

    def of(self, numbers):
        """Returns complex numbers in this format."""
        if self.quad:
            return self.limber.Quad(numbers).words
        return numbers.astype(self.kind)

    def product(self, a, b):
        """Returns a b, and adds the time to `seconds`."""
        start = time.perf_counter()
        if self.blas:
            c = a @ b
        elif self.quad:
            quad = self.limber.Quad.of_words
            c = self.context.matmul(quad(a), quad(b)).words
        else:
            try:
                c = self.context.matmul(a, b, contract=self.contract, scheme=self.scheme,
                                        dtype=self.format)
            # The exponents in a row of a or a column of b differ too much for the scheme.
            except self.limber.NoScheme:
                self.refused += 1
                c = self.context.matmul(a, b, contract="native", dtype=self.format)
        self.seconds += time.perf_counter() - start
        return c


def simulate(qubits, gates, arithmetic, progress):
    """Applies the gates to the state |0...0>; returns the state [2][2^qubits], which is real parts
    and imaginary parts.  The first qubit is the lowest bit of an index."""
    tail = (2,) if arithmetic.quad else ()
    state = np.zeros((2, 1 << qubits))
    state[0, 0] = 1
    state = arithmetic.of(state).reshape((2,) * (qubits + 1) + tail)
    order = list(range(qubits))[::-1]       # [axis of the state - 1]: its qubit
    for i, gate in enumerate(gates):
        progress(i, len(gates))
        k = len(gate.qubits)
        rest = [q for q in order if q not in gate.qubits]
        wanted = list(gate.qubits) + rest
        axes = [0] + [1 + order.index(q) for q in wanted] + ([qubits + 1] if tail else [])
        columns = np.ascontiguousarray(state.transpose(axes)).reshape(
            (2 << k, 1 << (qubits - k)) + tail)
        re, im = gate.matrix.real, gate.matrix.imag
        matrix = np.block([[re, -im], [im, re]])
        matrix = arithmetic.of(np.where(abs(matrix) < NOTHING, 0, matrix))
        state = arithmetic.product(matrix, columns).reshape((2,) * (qubits + 1) + tail)
        order = wanted
    progress(len(gates), len(gates))
    axes = [0] + [1 + order.index(q) for q in range(qubits)[::-1]] + ([qubits + 1] if tail else [])
    return np.ascontiguousarray(state.transpose(axes)).reshape((2, 1 << qubits) + tail)


def amplitudes(state, arithmetic):
    """Converts a state to doubles; returns (doubles, what they lack of binary128 numbers or 0)."""
    if arithmetic.quad:
        return arithmetic.limber.Quad.of_words(state).to_pairs()
    return state, 0


def largest_errors(state, reference):
    """Returns the largest error of an amplitude, and the largest one in units of its amplitude.
    Amplitudes that rounding alone may have made, below NEGLIGIBLE times the largest one, have no
    error of their own."""
    (hi, lo), (exact, rest) = state, reference
    least = NEGLIGIBLE * np.sqrt(max((part ** 2).sum(0).max() for part in pieces(exact)))
    largest, relative = 0.0, 0.0
    for h, l, e, r in zip(pieces(hi), pieces(lo), pieces(exact), pieces(rest)):
        off = np.sqrt((((h - e) + (l - r)) ** 2).sum(0))
        size = np.sqrt((e ** 2).sum(0))
        largest = max(largest, float(off.max()))
        relative = max(relative, float((off[size > least] / size[size > least]).max(initial=0)))
    return largest, relative


def pieces(state):
    """Yields parts of a state [2][2^qubits], so that what is computed of them needs little memory;
    for 0 yields 0 for ever."""
    if np.ndim(state) == 0:
        while True:
            yield state
    for at in range(0, state.shape[1], 1 << 20):
        yield state[:, at:at + (1 << 20)].astype(np.float64)


def bar(name):
    """Returns a function that shows progress, which does nothing if stderr is no terminal."""
    if not sys.stderr.isatty():
        return lambda done, all_of: None

    def show(done, all_of):
        """Shows progress on stderr."""
        end = "\r" if done < all_of else "\r\033[K"
        print(f"{name}: {done} of {all_of} products" if done < all_of else "", end=end,
              file=sys.stderr, flush=True)
    return show


def measure(path, names, chosen):
    """Simulates a circuit in each format.  Returns (qubits, state in the format --against, {name:
    (seconds, seconds in products, largest error, largest relative error, products that `native`
    computed)})."""
    made = re.fullmatch(r"qv_(\d{1,3})", path)
    try:
        if made:
            qubits = int(made[1])
            if not 2 <= qubits <= chosen.most:
                raise qasm.Error(f"{path}: from 2 to --most {chosen.most} qubits")
            gates = qasm.volume(qubits, chosen.depth)
        else:
            qubits, gates = qasm.read(path, chosen.most)
    except (qasm.Error, OSError) as e:
        raise SystemExit(f"circuit.py: {e}")
    fused = fuse(gates, chosen.fuse)
    if not chosen.json:
        print(f"{path}: {qubits} qubits, {len(gates)} gates, {len(fused)} products")
    found, reference = {}, None
    for name in [chosen.against] + [name for name in names if name != chosen.against]:
        arithmetic = Arithmetic(name, chosen.blas if name != chosen.against else None)
        start = time.perf_counter()
        state = simulate(qubits, fused, arithmetic, bar(name))
        seconds = time.perf_counter() - start
        state = amplitudes(state, arithmetic)
        reference = reference or state
        found[name] = (seconds, arithmetic.seconds, *largest_errors(state, reference),
                       arithmetic.refused)
    return qubits, reference, {name: found[name] for name in names}


def show(path, qubits, reference, found, chosen):
    """Prints the results of a circuit."""
    by = "blas " if chosen.blas else ""
    if chosen.json:
        for name, (seconds, inside, error, relative, refused) in found.items():
            print(json.dumps({"circuit": os.path.basename(path), "qubits": qubits,
                              "by": by + name, "seconds": seconds, "seconds_in_products": inside,
                              "largest_error": error, "largest_relative_error": relative,
                              "products_native": refused}))
        return
    print("format     seconds  in products  largest error of an amplitude, relative")
    for name, (seconds, inside, error, relative, refused) in found.items():
        note = f"  ({refused} products native: beyond the scheme's range)" if refused else ""
        print(f"{by + name:10} {seconds:7.3f}  {inside:11.3f}  {error:<29.2g}  {relative:.2g}"
              f"{note}")
    chances = np.concatenate([(part ** 2).sum(0) for part in pieces(reference[0])])
    for i in np.argsort(-chances, kind="stable")[:chosen.largest]:
        re, im = reference[0][:, i]
        print(f"|{i:0{qubits}b}>  {re:+.6f} {im:+.6f}i  probability {chances[i]:.6f}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("circuits", metavar="FILE.qasm", nargs="+",
                   help="files, or qv_N: a quantum-volume circuit of N qubits, made here")
    p.add_argument("--formats", default=",".join(FORMATS),
                   help=f"with commas between: {', '.join(FORMATS)}")
    p.add_argument("--fuse", type=int, default=5,
                   help="qubits of a fused gate, at most (5; up to 10)")
    p.add_argument("--blas", choices=["f64", "f32"], help="products by NumPy's BLAS instead")
    p.add_argument("--most", type=int, default=25, help="qubits, at most (25); a state of Q in "
                   "binary64 has 2^(Q+4) bytes")
    p.add_argument("--depth", type=int, default=8, help="layers of a circuit qv_N (8)")
    p.add_argument("--against", choices=["binary128", "f64"], default="binary128",
                   help="format without errors (binary128, which takes minutes from 20 qubits on)")
    p.add_argument("--relative", action="store_true",
                   help="draw errors in units of their amplitudes")
    p.add_argument("--largest", type=int, default=3, help="amplitudes to print (3)")
    p.add_argument("--json", action="store_true", help="one object for each circuit and format")
    p.add_argument("--picture", type=writable, metavar="FILE.svg", help="draw the largest errors")
    chosen = p.parse_args()
    names = [chosen.blas] if chosen.blas else chosen.formats.split(",")
    for name in names:
        if name not in FORMATS:
            p.error(f"--formats: {name} is none of {', '.join(FORMATS)}")
    if not 1 <= chosen.fuse <= 10:
        p.error("--fuse: a number from 1 to 10")
    if chosen.largest < 0:
        p.error("--largest: a number from 0 on")
    if chosen.depth < 1:
        p.error("--depth: a number from 1 on")
    errors = {}
    for path in chosen.circuits:
        measured = measure(path, names, chosen)
        show(path, *measured, chosen)
        errors[os.path.basename(path).split(".")[0]] = measured[2]
    if chosen.picture:
        series = {name: [found[name][3 if chosen.relative else 2] for found in errors.values()]
                  for name in names if name != chosen.against}
        chart(chosen.picture, f"Largest {'relative ' * chosen.relative}error of an amplitude, "
              f"against {chosen.against}", "circuit", "error", list(errors), series, log=True)


main()
