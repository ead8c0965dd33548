# SPDX-License-Identifier: BSD-3-Clause
"""Reads OpenQASM 2.0: a program becomes a list of gates, matrices on qubits.

The language: Cross et al., "Open Quantum Assembly Language", arXiv 1707.03429.  The gates of
qelib1.inc are built in.  Circuits must be unitary: a measured qubit must not be used again, and
`reset`, `if` and uses of opaque gates are refused.  Errors name the file's line and column."""
import cmath
import math
import os
import re

import numpy as np

TOKEN = re.compile(r"""(?P<space>\s+|//[^\n]*)|(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[A-Za-z_]\w*)|(?P<text>"[^"\n]*")|(?P<sign>->|==|[;,(){}\[\]+\-*/^])""", re.X)
FUNCTIONS = {"sin": math.sin, "cos": math.cos, "tan": math.tan, "exp": math.exp, "ln": math.log,
             "sqrt": math.sqrt}
DEEPEST = 100               # nesting depth of brackets and signs
LARGEST = 1 << 20           # bits in a register
LONGEST = 10_000_000        # gates in a program


class Error(Exception):
    """An error in a program, with file name, line and column."""
    pass


# ---- matrices of gates; a gate's first qubit is the highest bit of an index ---------------------

def u3(theta, phi, lam):
    """Returns the rotation of one qubit by three Euler angles, as OpenQASM defines it."""
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    return np.array([[c, -cmath.exp(1j * lam) * s],
                     [cmath.exp(1j * phi) * s, cmath.exp(1j * (phi + lam)) * c]])


def u1(lam):
    """Returns the gate that turns the phase of |1>."""
    return np.diag([1, cmath.exp(1j * lam)])


def rz(angle):
    """Returns the rotation about the z axis."""
    return np.diag([cmath.exp(-0.5j * angle), cmath.exp(0.5j * angle)])


def controlled(matrix, controls=1):
    """Returns a gate with controls in front of its qubits: it acts only if all of these are 1."""
    size = len(matrix) << controls
    big = np.eye(size, dtype=complex)
    big[size - len(matrix):, size - len(matrix):] = matrix
    return big


def two_turns(pauli):
    """Returns a function that maps an angle to e^(-i angle/2 (P x P)), for a Pauli matrix P."""
    both = np.kron(pauli, pauli)
    return lambda angle: math.cos(angle / 2) * np.eye(4) - 1j * math.sin(angle / 2) * both


X, Y, Z = np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])
H = np.array([[1, 1], [1, -1]]) / math.sqrt(2)
SX = np.array([[1 + 1j, 1 - 1j], [1 - 1j, 1 + 1j]]) / 2
SWAP = np.eye(4)[[0, 2, 1, 3]]


def relative_toffoli():
    """rccx: ccx up to signs, as defined in qelib1.inc."""
    m = np.eye(8, dtype=complex)
    m[5, 5], m[6:, 6:] = -1, np.array([[0, -1j], [1j, 0]])
    return m


def relative_cccx():
    """rc3x: a NOT with three controls up to phases, as defined in qelib1.inc."""
    m = np.eye(16, dtype=complex)
    m[12, 12], m[13, 13] = 1j, -1j
    m[14:, 14:] = np.array([[0, 1], [-1, 0]])
    return m


def turn(theta, phi, lam):
    """Returns a function that maps an angle to the matrix u3(angle theta, phi, lam), a rotation."""
    return lambda angle: u3(angle * theta, phi, lam)


# name: (number of parameters, number of qubits, function from parameters to the matrix)
GATES = {
    "U": (3, 1, u3), "CX": (0, 2, lambda: controlled(X)),
    "u3": (3, 1, u3), "u": (3, 1, u3), "u2": (2, 1, lambda p, q: u3(math.pi / 2, p, q)),
    "u1": (1, 1, u1), "p": (1, 1, u1), "u0": (1, 1, lambda _: np.eye(2)),
    "id": (0, 1, lambda: np.eye(2)), "x": (0, 1, lambda: X), "y": (0, 1, lambda: Y),
    "z": (0, 1, lambda: Z), "h": (0, 1, lambda: H), "s": (0, 1, lambda: np.diag([1, 1j])),
    "sdg": (0, 1, lambda: np.diag([1, -1j])), "t": (0, 1, lambda: u1(math.pi / 4)),
    "tdg": (0, 1, lambda: u1(-math.pi / 4)), "sx": (0, 1, lambda: SX),
    "sxdg": (0, 1, lambda: SX.conj().T),
    "rx": (1, 1, turn(1, -math.pi / 2, math.pi / 2)), "ry": (1, 1, turn(1, 0, 0)), "rz": (1, 1, rz),
    "cx": (0, 2, lambda: controlled(X)), "cy": (0, 2, lambda: controlled(Y)),
    "cz": (0, 2, lambda: controlled(Z)), "ch": (0, 2, lambda: controlled(H)),
    "swap": (0, 2, lambda: SWAP), "csx": (0, 2, lambda: controlled(SX)),
    "crx": (1, 2, lambda a: controlled(u3(a, -math.pi / 2, math.pi / 2))),
    "cry": (1, 2, lambda a: controlled(u3(a, 0, 0))), "crz": (1, 2, lambda a: controlled(rz(a))),
    "cu1": (1, 2, lambda a: controlled(u1(a))), "cp": (1, 2, lambda a: controlled(u1(a))),
    "cu3": (3, 2, lambda a, b, c: controlled(u3(a, b, c))),
    "cu": (4, 2, lambda a, b, c, d: controlled(cmath.exp(1j * d) * u3(a, b, c))),
    "rxx": (1, 2, two_turns(X)), "rzz": (1, 2, two_turns(Z)),
    "ccx": (0, 3, lambda: controlled(X, 2)), "cswap": (0, 3, lambda: controlled(SWAP)),
    "rccx": (0, 3, relative_toffoli), "rc3x": (0, 4, relative_cccx),
    "c3x": (0, 4, lambda: controlled(X, 3)), "c3sqrtx": (0, 4, lambda: controlled(SX, 3)),
    "c4x": (0, 5, lambda: controlled(X, 4)),
}


# ---- the reader --------------------------------------------------------------------------------

class Gate:
    """A matrix [2^k][2^k] on k qubits.  The first qubit is the highest bit of an index."""

    def __init__(self, name, matrix, qubits):
        self.name, self.matrix, self.qubits = name, np.asarray(matrix, complex), tuple(qubits)


class Reader:
    """Reads an OpenQASM program by recursive descent. Methods consume tokens from
    self.tokens[self.next] on."""
    def __init__(self, text, name, most=LARGEST):
        self.name, self.text, self.at, self.most, self.depth = name, text, 0, most, 0
        self.tokens = []
        while self.at < len(text):
            match = TOKEN.match(text, self.at)
            if not match:
                raise self.error(self.at, f"{text[self.at]!r} is no part of OpenQASM")
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup, match[0], self.at))
            self.at = match.end()
        self.tokens.append(("end", "the end of the file", len(text)))
        self.next = 0
        self.registers, self.sizes, self.qubits = {}, {}, 0
        self.defined, self.gates, self.measured = {}, [], set()

    def error(self, at, message):
        """Returns an Error for a position in the text."""
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return Error(f"{self.name}:{line}:{column}: {message}")

    def peek(self):
        """Returns the next token without consuming it."""
        return self.tokens[self.next][1]

    def take(self, what=None, kind=None):
        """Consumes and returns the next token, which must be the text `what` or of this kind."""
        found, text, at = self.tokens[self.next]
        if (what is not None and text != what) or (kind is not None and found != kind):
            raise self.error(at, f"{text} where {what or 'a ' + kind} should be")
        self.next += 1
        return text

    def here(self):
        """Returns the position of the next token."""
        return self.tokens[self.next][2]

    # An expression becomes a function that maps {parameter's name: value} to a number.

    def expression(self, names):
        """Parses sums and differences."""
        left = self.product(names)
        while self.peek() in ("+", "-"):
            sign, right = self.take(), self.product(names)
            left = (lambda a, b, s: lambda v: a(v) + b(v) if s == "+" else a(v) - b(v))(
                left, right, sign)
        return left

    def product(self, names):
        """Parses products and quotients."""
        left = self.power(names)
        while self.peek() in ("*", "/"):
            at, sign = self.here(), self.take()
            right = self.power(names)
            left = self.quotient(left, right, at) if sign == "/" else (
                lambda a, b: lambda v: a(v) * b(v))(left, right)
        return left

    def quotient(self, a, b, at):
        """Returns the function a / b, which reports a division by zero at its place in the
        program."""
        def value(v):
            divisor = b(v)
            if divisor == 0:
                raise self.error(at, "division by zero")
            return a(v) / divisor
        return value

    def power(self, names):
        """Calls power_inside, and limits how deep its calls are nested."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(self.here(), f"more than {DEEPEST} brackets and signs in each other")
        made = self.power_inside(names)
        self.depth -= 1
        return made

    def power_inside(self, names):
        """Parses a power, a sign or an atom."""
        if self.peek() == "-":
            self.take()
            inner = self.power(names)
            return lambda v: -inner(v)
        base = self.atom(names)
        if self.peek() != "^":
            return base
        at = self.here()
        self.take()
        exponent = self.power(names)
        return lambda v: self.computed(at, "^", math.pow, base(v), exponent(v))

    def computed(self, at, name, function, *values):
        """Calls a function; reports a bad argument at its place in the program."""
        try:
            return function(*values)
        except (ValueError, OverflowError) as e:
            raise self.error(at, f"{name}: {e}")

    def atom(self, names):
        """Parses a number, a parameter, a call of a function, or an expression in brackets."""
        kind, text, at = self.tokens[self.next]
        self.next += 1
        if text == "(":
            inner = self.expression(names)
            self.take(")")
            return inner
        if kind == "number":
            return lambda v: float(text)
        if text == "pi":
            return lambda v: math.pi
        if text in names:
            return lambda v: v[text]
        if text in FUNCTIONS:
            self.take("(")
            inner = self.expression(names)
            self.take(")")

            return lambda v: self.computed(at, text, FUNCTIONS[text], inner(v))
        raise self.error(at, f"{text} where a number should be")

    # Statements.

    def register(self, quantum):
        """Parses the declaration of a qreg or creg."""
        self.take()
        at, name = self.here(), self.take(kind="word")
        self.take("[")
        size = self.take(kind="number")
        where = self.tokens[self.next - 1][2]
        if not size.isdigit() or len(size) > 9 or not 0 < int(size) <= LARGEST:
            raise self.error(where, f"a register of {size}")
        many = self.qubits + int(size)
        if quantum and many > self.most:
            raise self.error(where, f"{many} qubits, more than --most {self.most}")
        self.take("]")
        self.take(";")
        if name in self.sizes:
            raise self.error(at, f"{name} is declared twice")
        self.sizes[name] = int(size)
        if quantum:
            self.registers[name] = self.qubits
            self.qubits += int(size)

    def argument(self, quantum=True):
        """Parses q or q[i].  Returns (its qubits or classical bits, whether it is a whole
        register)."""
        at, name = self.here(), self.take(kind="word")
        if name not in self.sizes or (name in self.registers) != quantum:
            raise self.error(at, f"{name} is no {'quantum' if quantum else 'classical'} register")
        first, size = self.registers.get(name, 0), self.sizes[name]
        if self.peek() != "[":
            return range(first, first + size), True
        self.take("[")
        at, index = self.here(), self.take(kind="number")
        if not index.isdigit() or len(index) > 9 or int(index) >= size:
            raise self.error(at, f"{name}[{index}]: {name} has {size}")
        self.take("]")
        return [first + int(index)], False

    def arguments(self):
        """Parses arguments with commas between them."""
        found = [self.argument()]
        while self.peek() == ",":
            self.take()
            found.append(self.argument())
        return found

    def values(self, names):
        """Parses a gate's parameters, which may be absent."""
        found = []
        if self.peek() == "(":
            self.take()
            while self.peek() != ")":
                found.append(self.expression(names))
                if self.peek() != ")":
                    self.take(",")
            self.take(")")
        return found

    def known(self, name, at):
        """Returns how many parameters and qubits a gate takes."""
        if name in self.defined:
            if self.defined[name] is None:
                raise self.error(at, f"{name} is opaque: what it does is not known")
            return len(self.defined[name][0]), len(self.defined[name][1])
        if name not in GATES:
            raise self.error(at, f"{name} is no gate")
        return GATES[name][:2]

    def check(self, name, at, parameters, qubits):
        """Checks the number of a gate's parameters and qubits."""
        wanted = self.known(name, at)
        for have, want, what in (parameters, wanted[0], "parameter"), (qubits, wanted[1], "qubit"):
            if have != want:
                raise self.error(at, f"{name} takes {want} {what}{'s' * (want != 1)}, not {have}")

    def apply(self, name, made_of, values, qubits, at):
        """Appends a gate to self.gates, split into built-in gates.  made_of is its definition, or
        None for a built-in gate."""
        if len(set(qubits)) < len(qubits):
            raise self.error(at, f"{name} takes the same qubit twice")
        if self.measured & set(qubits):
            raise self.error(at, f"{name} behind a measurement of its qubit")
        for value in values:
            if not math.isfinite(value):
                raise self.error(at, f"{name} takes numbers, and one is {value}")
        if made_of is None:
            if len(self.gates) == LONGEST:
                raise self.error(at, f"more than {LONGEST} gates")
            self.gates.append(Gate(name, GATES[name][2](*values), qubits))
            return
        names, places, body = made_of
        known, where = dict(zip(names, values)), dict(zip(places, qubits))
        for inner, inside, expressions, inner_places, inner_at in body:
            self.apply(inner, inside, [e(known) for e in expressions],
                       [where[p] for p in inner_places], inner_at)

    def gate(self):
        """Parses the use of a gate.  With registers as arguments, the gate is applied once for each
        index into them."""
        at, name = self.here(), self.take(kind="word")
        values = [e({}) for e in self.values([])]
        found = self.arguments()
        self.take(";")
        self.check(name, at, len(values), len(found))
        sizes = {len(q) for q, whole in found if whole}
        if len(sizes) > 1:
            raise self.error(at, f"{name} of registers of different sizes")
        for i in range(max(sizes, default=1)):
            self.apply(name, self.defined.get(name), values,
                       [q[i] if whole else q[0] for q, whole in found], at)

    def definition(self):
        """Parses the definition of a gate by other gates."""
        self.take("gate")
        at, name = self.here(), self.take(kind="word")
        if name in self.defined:
            raise self.error(at, f"{name} is declared twice")
        names, body = [], []
        if self.peek() == "(":
            self.take()
            names = self.words(")", once=True)
            self.take(")")
        places = self.words("{", once=True)
        self.take("{")
        while self.peek() != "}":
            inner_at, inner = self.here(), self.take(kind="word")
            expressions = self.values(names)
            where_at, where = self.here(), self.words(";")
            self.take(";")
            for place in where:
                if place not in places:
                    raise self.error(where_at, f"{place} is no qubit of {name}")
            if inner != "barrier":
                self.check(inner, inner_at, len(expressions), len(where))
                body.append((inner, self.defined.get(inner), expressions, where, inner_at))
        self.take("}")
        self.defined[name] = names, places, body

    def words(self, end, once=False):
        """Parses names with commas between them, up to the token `end`."""
        found = []
        while self.peek() != end:
            at, word = self.here(), self.take(kind="word")
            if once and (word in found or word == "pi"):
                raise self.error(at, f"{word} is declared twice")
            found.append(word)
            if self.peek() != end:
                self.take(",")
        return found

    def statement(self):
        """Parses any statement."""
        at, word = self.here(), self.peek()
        if word in ("qreg", "creg"):
            self.register(word == "qreg")
        elif word == "gate":
            self.definition()
        elif word == "opaque":
            self.take()
            self.defined[self.take(kind="word")] = None
            while self.take() != ";":
                pass
        elif word == "barrier":
            self.take()
            self.arguments()
            self.take(";")
        elif word == "measure":
            self.take()
            found, _ = self.argument()
            self.take("->")
            bits, _ = self.argument(quantum=False)
            self.take(";")
            if len(found) != len(bits):
                raise self.error(at, "measure of registers of different sizes")
            self.measured.update(found)
        elif word in ("if", "reset"):
            raise self.error(at, f"{word}: only unitary circuits are simulated")
        elif word == "include":
            self.take()
            at, file = self.here(), self.take(kind="text")
            if file != '"qelib1.inc"':
                raise self.error(at, f"include {file}: only qelib1.inc is known")
            self.take(";")
        else:
            self.gate()

    def read(self):
        """Reads the whole program; returns (number of qubits, gates)."""
        if self.peek() != "include":        # published files sometimes omit the version
            self.take("OPENQASM")
            at, version = self.here(), self.take(kind="number")
            if float(version) != 2:
                raise self.error(at, f"OpenQASM {version}: 2.0 is read")
            self.take(";")
        while self.tokens[self.next][0] != "end":
            self.statement()
        if not self.qubits:
            raise self.error(self.here(), "the program has no qubits")
        return self.qubits, self.gates


def volume(qubits, depth, seed=1):
    """Returns the gates of a quantum-volume circuit: `depth` layers, each of which pairs the qubits
    at random and applies a random matrix of SU(4) to each pair (Cross et al., "Validating quantum
    computers using randomized model circuits", Phys. Rev. A 100, 2019)."""
    random = np.random.default_rng(seed)
    gates = []
    for _ in range(depth):
        order = random.permutation(qubits)
        for first, second in zip(order[::2], order[1::2]):
            drawn = random.standard_normal((4, 4)) + 1j * random.standard_normal((4, 4))
            unitary, upper = np.linalg.qr(drawn)    # uniform, once the diagonal's phases are gone
            unitary = unitary * (np.diag(upper) / abs(np.diag(upper)))
            gates.append(Gate("su4", unitary / np.linalg.det(unitary) ** 0.25,
                              (int(first), int(second))))
    return gates


def read(path, most=LARGEST):
    """Reads a file; returns (number of qubits, list of Gate).  More qubits than `most` are an
    error."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return Reader(file.read(), os.path.basename(path), most).read()
