# SPDX-License-Identifier: BSD-3-Clause
"""Tests the reader of OpenQASM and the simulator of examples/circuits.  Gates are compared with
compositions of U and CX, by which the language defines them, and the simulator with a simulation
that neither fuses gates nor multiplies matrices."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/circuits")
sys.path.insert(0, PROGRAMS)
import qasm     # noqa: E402

# Each gate composed of others, down to U and CX.  Both are equal up to a factor of modulus 1.
PARTS = """
gate h_ a { U(pi/2, 0, pi) a; }
gate t_ a { U(0, 0, pi/4) a; }
gate tdg_ a { U(0, 0, -pi/4) a; }
gate u3_(a, b, c) q { U(a, b, c) q; }
gate u_(a, b, c) q { U(a, b, c) q; }
gate u2_(a, b) q { U(pi/2, a, b) q; }
gate u1_(a) q { U(0, 0, a) q; }
gate p_(a) q { U(0, a/2, a/2) q; }
gate u0_(a) q { }
gate id_ q { U(0, 0, 0) q; }
gate x_ q { h_ q; U(0, 0, pi) q; h_ q; }
gate y_ q { U(pi, pi/2, pi/2) q; }
gate z_ q { U(0, 0, pi) q; }
gate s_ q { t_ q; t_ q; }
gate sdg_ q { tdg_ q; tdg_ q; }
gate sx_ q { h_ q; s_ q; h_ q; }
gate sxdg_ q { h_ q; sdg_ q; h_ q; }
gate rz_(a) q { U(0, 0, a) q; }
gate rx_(a) q { h_ q; rz_(a) q; h_ q; }
gate ry_(a) q { sdg_ q; h_ q; rz_(a) q; h_ q; s_ q; }
gate cx_ a, b { CX a, b; }
gate cz_ a, b { h_ b; CX a, b; h_ b; }
gate cy_ a, b { sdg_ b; CX a, b; s_ b; }
gate swap_ a, b { CX a, b; CX b, a; CX a, b; }
gate cu1_(t) a, b { rz_(t/2) a; CX a, b; rz_(-t/2) b; CX a, b; rz_(t/2) b; }
gate cp_(t) a, b { cu1_(t) a, b; }
gate crz_(t) a, b { rz_(t/2) b; CX a, b; rz_(-t/2) b; CX a, b; }
gate crx_(t) a, b { h_ b; crz_(t) a, b; h_ b; }
gate cry_(t) a, b { ry_(t/2) b; CX a, b; ry_(-t/2) b; CX a, b; }
gate ch_ a, b { ry_(-pi/4) b; cz_ a, b; ry_(pi/4) b; }
gate csx_ a, b { h_ b; cu1_(pi/2) a, b; h_ b; }
gate cu3_(t, p, l) a, b { rz_((l+p)/2) a; crz_(l) a, b; cry_(t) a, b; crz_(p) a, b; }
gate cu_(t, p, l, g) a, b { cu3_(t, p, l) a, b; rz_(g) a; }
gate rxx_(t) a, b { h_ a; h_ b; CX a, b; rz_(t) b; CX a, b; h_ b; h_ a; }
gate rzz_(t) a, b { CX a, b; rz_(t) b; CX a, b; }
gate ccx_ a, b, c { csx_ b, c; CX a, b; sxd b, c; CX a, b; csx_ a, c; }
gate cswap_ a, b, c { CX c, b; ccx_ a, b, c; CX c, b; }
gate rccx_ a, b, c { h_ c; t_ c; CX b, c; tdg_ c; CX a, c; t_ c; CX b, c; tdg_ c; h_ c; }
gate rc3x_ a, b, c, d { h_ d; t_ d; CX c, d; tdg_ d; h_ d; CX a, d; t_ d; CX b, d; tdg_ d; CX a, d;
  t_ d; CX b, d; tdg_ d; h_ d; t_ d; CX c, d; tdg_ d; h_ d; }
gate q4 a, b { h_ b; cu1_(pi/4) a, b; h_ b; }
gate q4d a, b { h_ b; cu1_(-pi/4) a, b; h_ b; }
gate c3sqrtx_ a, b, c, d { q4x a, d; CX a, b; q4xd b, d; CX a, b; q4x b, d; CX b, c; q4xd c, d;
  CX a, c; q4x c, d; CX b, c; q4xd c, d; CX a, c; q4x c, d; }
gate c3x_ a, b, c, d { q4 a, d; CX a, b; q4d b, d; CX a, b; q4 b, d; CX b, c; q4d c, d;
  CX a, c; q4 c, d; CX b, c; q4d c, d; CX a, c; q4 c, d; }
gate c4x_ a, b, c, d, e { csx_ d, e; c3x_ a, b, c, d; sxd d, e; c3x_ a, b, c, d;
  c3sqrtx_ a, b, c, e; }
"""
FIRST = """
gate hh a { U(pi/2, 0, pi) a; }
gate cc(t) a, b { U(0, 0, t/2) a; CX a, b; U(0, 0, -t/2) b; CX a, b; U(0, 0, t/2) b; }
gate sxd a, b { hh b; cc(-pi/2) a, b; hh b; }
gate q4x a, b { hh b; cc(pi/8) a, b; hh b; }
gate q4xd a, b { hh b; cc(-pi/8) a, b; hh b; }
"""
ANGLES = [0.7, -1.3, 2.9, 0.4]


def read(text):
    """Returns a circuit's number of qubits and its gates."""
    return qasm.Reader(text, "t.qasm", 32).read()


def state_of(qubits, gates, start):
    """Simulates without fusing: applies each gate's matrix to each amplitude, by indices."""
    state = start.astype(complex)
    for gate in gates:
        k = len(gate.qubits)
        new = np.zeros_like(state)
        for i in range(1 << qubits):
            row = sum((i >> q & 1) << (k - 1 - j) for j, q in enumerate(gate.qubits))
            bare = i & ~sum(1 << q for q in gate.qubits)
            for column in range(1 << k):
                j = bare | sum((column >> (k - 1 - n) & 1) << q for n, q in enumerate(gate.qubits))
                new[i] += gate.matrix[row, column] * state[j]
        state = new
    return state


def matrix_of(qubits, gates):
    """Returns the circuit's unitary matrix, column by column."""
    return np.stack([state_of(qubits, gates, np.eye(1 << qubits)[i])
                     for i in range(1 << qubits)], 1)


class Gates(unittest.TestCase):
    """Matrices of the built-in gates are right."""
    def test_every_gate_is_unitary_and_made_of_u_and_cx(self):
        for name, (parameters, qubits, _) in qasm.GATES.items():
            if name in ("U", "CX"):
                continue
            values = f"({', '.join(map(str, ANGLES[:parameters]))})" if parameters else ""
            places = ", ".join(f"q[{i}]" for i in range(qubits))
            head = f"OPENQASM 2.0;\n{FIRST}{PARTS}qreg q[{qubits}];\n"
            with self.subTest(name):
                one = read(f"{head}{name}{values} {places};")
                self.assertEqual(len(one[1]), 1)
                ours = matrix_of(*one)
                np.testing.assert_allclose(ours @ ours.conj().T, np.eye(1 << qubits), atol=1e-14)
                parts = matrix_of(*read(f"{head}{name}_{values} {places};"))
                turned = np.trace(ours.conj().T @ parts) / (1 << qubits)
                self.assertAlmostEqual(abs(turned), 1, places=13)
                np.testing.assert_allclose(parts, turned * ours, atol=1e-13)

    def test_u_and_cx(self):
        """The matrices of the two built-in gates."""
        u = matrix_of(*read("OPENQASM 2.0; qreg q[1]; U(0.3, 0.5, 0.9) q[0];"))
        self.assertAlmostEqual(u[0, 0], math.cos(0.15))
        self.assertAlmostEqual(u[1, 0], complex(math.cos(0.5), math.sin(0.5)) * math.sin(0.15))
        self.assertAlmostEqual(u[0, 1], -complex(math.cos(0.9), math.sin(0.9)) * math.sin(0.15))
        self.assertAlmostEqual(u[1, 1], complex(math.cos(1.4), math.sin(1.4)) * math.cos(0.15))
        cx = matrix_of(*read("OPENQASM 2.0; qreg q[2]; CX q[0], q[1];"))
        self.assertEqual([int(abs(cx[:, i]).argmax()) for i in range(4)], [0, 3, 2, 1])


class Reading(unittest.TestCase):
    """The reader of OpenQASM accepts and refuses what the language defines."""
    def test_whole_registers_and_measures(self):
        """Gates on whole registers are applied to each qubit."""
        text = """OPENQASM 2.0; include "qelib1.inc"; // a comment
            qreg a[3]; qreg b[3]; creg c[3];
            h a; cx a, b; cx a[1], b; barrier a, b[0]; measure a -> c; x b[2];"""
        qubits, gates = read(text)
        self.assertEqual(qubits, 6)
        self.assertEqual([g.qubits for g in gates],
                         [(0,), (1,), (2,), (0, 3), (1, 4), (2, 5), (1, 3), (1, 4), (1, 5), (5,)])

    def test_expressions(self):
        """Operators have their usual precedence, and functions are computed."""
        text = "OPENQASM 2.0; qreg q[1]; gate g(a, b) q { U(0, 0, -a^2*3 + sin(b)/2 - (1-a)) q; }\n"
        _, gates = read(text + "g(1.5e0, pi/3) q[0];")
        phase = -1.5 ** 2 * 3 + math.sin(math.pi / 3) / 2 - (1 - 1.5)
        self.assertAlmostEqual(gates[0].matrix[1, 1], complex(math.cos(phase), math.sin(phase)))
        for text_of, value in [("2^3^2", 512), ("-2^2", -4), ("8/2/2", 2), ("5-2-1", 2),
                               ("ln(exp(2))", 2)]:
            _, gates = read(f"OPENQASM 2.0; qreg q[1]; U(0, 0, {text_of}) q[0];")
            self.assertAlmostEqual(gates[0].matrix[1, 1], complex(math.cos(value), math.sin(value)))

    def test_definitions_hold_what_was_defined_before(self):
        """A definition with the name of a built-in gate uses that gate.  Definitions that call
        others twice, level by level, terminate."""
        text = "OPENQASM 2.0; qreg q[1]; gate x a { x a; x a; } x q[0];"
        self.assertEqual([g.name for g in read(text)[1]], ["x", "x"])
        text = "OPENQASM 2.0; qreg q[1];" + "".join(
            f"gate g{i + 1} a {{ g{i} a; g{i} a; }}\n" for i in range(60)).replace("g0 ", "x ")
        with unittest.mock.patch.object(qasm, "LONGEST", 1000):
            with self.assertRaisesRegex(qasm.Error, "more than 1000 gates"):
                read(text + "g60 q[0];")

    def test_errors_name_line_and_column(self):
        head = "OPENQASM 2.0;\nqreg q[2];\ncreg c[2];\n"
        for text, where, what in [
                ("cy q[0];", "4:1", "cy takes 2 qubits, not 1"),
                ("  rx q[0];", "4:3", "rx takes 1 parameter, not 0"),
                ("nope q[0];", "4:1", "nope is no gate"),
                ("x q[2];", "4:5", "q[2]: q has 2"),
                ("x r;", "4:3", "r is no quantum register"),
                ("x c;", "4:3", "c is no quantum register"),
                ("cx q[1], q[1];", "4:1", "cx takes the same qubit twice"),
                ("reset q[0];", "4:1", "reset: only unitary"),
                ("if (c == 1) x q[0];", "4:1", "if: only unitary"),
                ("measure q -> c;\nx q[0];", "5:1", "x behind a measurement"),
                ("rx(1/0) q[0];", "4:5", "division by zero"),
                ("rx(sqrt(-1)) q[0];", "4:4", "sqrt:"),
                ("rx(1 q[0];", "4:6", "q where"),
                ("qreg q[3];", "4:6", "q is declared twice"),
                ("qreg z[0];", "4:8", "a register of 0"),
                ("gate g a { x b; }", "4:14", "b is no qubit of g"),
                ("opaque o a;\no q[0];", "5:1", "o is opaque"),
                ('include "other.inc";', "4:9", "only qelib1.inc"),
                ("x q[0]", "4:7", "the end of the file where ; should be"),
                ("x q[0]; $", "4:9", "is no part of OpenQASM"),
                ("u1(0^-1) q[0];", "4:5", "^: "), ("u1((-2)^0.5) q[0];", "4:8", "^: "),
                ("u1(10^400) q[0];", "4:6", "^: "), ("u1(1e999) q[0];", "4:1", "one is inf"),
                ("u1(1e308*10-1e308*10) q[0];", "4:1", "one is nan"),
                (f"u1({'(' * 3000}1) q[0];", "4:104", "in each other"),
                (f"u1({'-' * 3000}1) q[0];", "4:104", "in each other"),
                (f"u1({'1^' * 3000}1) q[0];", "4:204", "in each other"),
                ("gate g a, a { x a; }", "4:11", "a is declared twice"),
                ("gate g(pi) a { x a; }", "4:8", "pi is declared twice"),
                ("qreg r[99999999999999999999];", "4:8", "a register of 9999"),
                ("creg r[99999999];", "4:8", "a register of 9999"),
                ("qreg r[31]; h r;", "4:8", "33 qubits, more than --most 32"),
                ("x q[99999999999999999999];", "4:5", "q has 2")]:
            with self.subTest(text), self.assertRaises(qasm.Error) as caught:
                read(head + text)
            self.assertTrue(str(caught.exception).startswith(f"t.qasm:{where}: "), caught.exception)
            self.assertIn(what, str(caught.exception))
        for text, where, what in [("qreg q[1];", "1:1", "qreg where OPENQASM"),
                                  ("OPENQASM 3.0;", "1:10", "2.0 is read"),
                                  ("OPENQASM 2.0;", "1:14", "no qubits")]:
            with self.subTest(text), self.assertRaises(qasm.Error) as caught:
                read(text)
            self.assertTrue(str(caught.exception).startswith(f"t.qasm:{where}: "), caught.exception)
            self.assertIn(what, str(caught.exception))


class Program(unittest.TestCase):
    """The program circuit.py simulates circuits and refuses bad options."""
    def run_on(self, text, *options, ok=True):
        """Runs circuit.py on a program; returns what it prints, or its error messages if it must
        fail."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.qasm")
            with open(path, "w") as file:
                file.write(text)
            done = subprocess.run([sys.executable, os.path.join(PROGRAMS, "circuit.py"), path,
                                   *options], capture_output=True, text=True)
        self.assertEqual(done.returncode == 0, ok, done.stderr)
        return done.stdout if ok else done.stderr

    def test_random_circuits(self):
        """Random circuits, with gates fused or not, have the amplitudes of a plain simulation."""
        drawn = random.Random(5)
        for turn in range(2):
            qubits = 6 + turn
            lines = ["OPENQASM 2.0;", 'include "qelib1.inc";', f"qreg q[{qubits}];"]
            names = [n for n, (_, q, _) in qasm.GATES.items() if q <= 3]
            for _ in range(30):
                name = drawn.choice(names)
                parameters, places, _ = qasm.GATES[name]
                values = ",".join(str(drawn.uniform(-3, 3)) for _ in range(parameters))
                where = ",".join(f"q[{i}]" for i in drawn.sample(range(qubits), places))
                lines.append(f"{name}{f'({values})' if values else ''} {where};")
            text = "\n".join(lines)
            wanted = state_of(*read(text), np.eye(1 << qubits)[0])
            for most in 3, 5:
                printed = self.run_on(text, "--fuse", str(most), "--largest", str(1 << qubits))
                found = np.zeros(1 << qubits, complex)
                errors = {}
                for line in printed.splitlines():
                    words = line.split()
                    if line.startswith("|"):
                        found[int(words[0][1:-1], 2)] = float(words[1]) + 1j * float(words[2][:-1])
                    elif len(words) > 3 and words[1][0].isdigit() and "." in words[1]:
                        errors[words[0]] = float(words[3])
                np.testing.assert_allclose(found, wanted, atol=1e-6)
                self.assertEqual(errors["binary128"], 0)
                self.assertLess(errors["correct"], 2e-15)
                for name, least, most_of in [("f64", 1e-18, 2e-15), ("f32", 1e-10, 1e-6),
                                             ("fp32-f", 1e-10, 1e-6), ("fp32-b", 1e-10, 1e-6),
                                             ("f16", 1e-6, 1e-2)]:
                    self.assertTrue(least < errors[name] < most_of, (name, errors[name]))

    def test_quantum_volume(self):
        """Gates of a random circuit are unitary, each layer pairs all qubits, and FP16 alone errs
        by much in units of an amplitude."""
        gates = qasm.volume(5, 3)
        self.assertEqual(len(gates), 6)
        for gate in gates:
            np.testing.assert_allclose(gate.matrix @ gate.matrix.conj().T, np.eye(4), atol=1e-14)
            self.assertAlmostEqual(np.linalg.det(gate.matrix), 1)
        for layer in range(3):
            pairs = [q for gate in gates[2 * layer:2 * layer + 2] for q in gate.qubits]
            self.assertEqual(len(set(pairs)), 4)
        done = subprocess.run([sys.executable, os.path.join(PROGRAMS, "circuit.py"), "qv_9",
                               "--depth", "9", "--against", "f64", "--json", "--formats",
                               "f64,f32,fp32-f,fp32-b,mixed,f16"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        errors = {row["by"]: row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(errors["f64"]["largest_relative_error"], 0)
        for name, least, most in [("f32", 1e-7, 1e-4), ("fp32-f", 1e-7, 1e-4),
                                  ("fp32-b", 1e-7, 1e-4), ("mixed", 1e-7, 1e-4),
                                  ("f16", 1e-3, 1)]:
            self.assertTrue(least < errors[name]["largest_relative_error"] < most, errors[name])
            self.assertLess(errors[name]["largest_error"], errors[name]["largest_relative_error"])

    def test_blas(self):
        """The program with NumPy's BLAS."""
        text = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[2]; h q[0]; cx q[0], q[1];'
        for name in "f32", "f64":
            printed = self.run_on(text, "--blas", name)
            self.assertIn(f"blas {name}", printed)
            self.assertIn("|00>  +0.707107 +0.000000i  probability 0.500000", printed)
            self.assertIn("|11>  +0.707107 +0.000000i  probability 0.500000", printed)

    def test_bad_uses(self):
        """Bad options and programs are refused with a message."""
        text = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[30]; ccx q[0], q[1], q[2];'
        self.assertIn("30 qubits, more than --most 25", self.run_on(text, ok=False))
        self.assertIn("--formats: f99 is none of", self.run_on(text, "--formats", "f99", ok=False))
        self.assertIn("ccx has 3 qubits",
                      self.run_on(text, "--fuse", "2", "--most", "30", ok=False))
        self.assertIn("t.qasm:1:1: ", self.run_on("x", ok=False))
        text = 'OPENQASM 2.0; qreg q[1]; U(1, 2, 3) q[0];'
        for options, words in [(("--fuse", "0"), "--fuse: a number from 1 to 10"),
                               (("--largest", "-1"), "--largest: "),
                               (("--depth", "0"), "--depth: "), (("qv_99",), "qv_99: from 2 to "),
                               (("--picture", "/nowhere/x.svg"), "/nowhere: no such folder"),
                               (("--picture", "/"), "--picture: /: Is a directory")]:
            self.assertIn(words, self.run_on(text, *options, ok=False))

    def test_bytes(self):
        """Bytes that are not UTF-8 are reported like other characters."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.qasm")
            with open(path, "wb") as file:
                file.write(b"OPENQASM 2.0;\n\xff\xfe")
            with self.assertRaisesRegex(qasm.Error, "^t.qasm:2:1: .* is no part of OpenQASM"):
                qasm.read(path)


if __name__ == "__main__":
    unittest.main()
