# SPDX-License-Identifier: BSD-3-Clause
"""Tests limber.reveal, which finds how a library adds: on sums in random order, on simulated units,
and on NumPy's functions."""
import math
import random
import re
import unittest

import numpy

import limber


def parse(text):
    """Parses a summation tree.  [..] adds its items one after the other, {..} adds them at once.
    An item is a term, a range of terms first..last:step, or such a list."""
    tokens = re.findall(r"-?\d+|\.\.|[\[\]{},:]", text)
    at = [0]

    def take():
        """Returns the next token."""
        at[0] += 1
        return tokens[at[0] - 1]

    def items(end):
        """Parses items up to the token `end`."""
        found = []
        while True:
            token = take()
            if token == "[":
                found.append(path())
            elif token == "{":
                found.append(tuple(items("}")))
            else:
                first = int(token)
                if tokens[at[0]] == "..":
                    take()
                    last, step = int(take()), 1
                    if tokens[at[0]] == ":":
                        take()
                        step = int(take())
                    found += list(range(first, last + (1 if step > 0 else -1), step))
                else:
                    found.append(first)
            token = take()
            if token == end:
                return found
            assert token == ",", text

    def path():
        """Parses a list whose items are added one after the other."""
        found = items("]")
        node = list(found[0]) if isinstance(found[0], tuple) else found[0]
        for item in found[1:]:      # a tuple: at once, with what is there
            node = [node, *item] if isinstance(item, tuple) else [node, item]
        return node

    assert take() in "[{", text
    if text[0] == "{":
        return items("}")
    return path()


def terms(tree):
    """Lists the terms (leaves) of a tree."""
    return [tree] if isinstance(tree, int) else [t for child in tree for t in terms(child)]


def meetings(tree, found):
    """Returns {pair of terms: number of terms below their lowest common node}."""
    if isinstance(tree, int):
        return found
    below = [terms(child) for child in tree]
    size = sum(map(len, below))
    for i, left in enumerate(below):
        for right in below[i + 1:]:
            for x in left:
                for y in right:
                    found[min(x, y), max(x, y)] = size
    for child in tree:
        meetings(child, found)
    return found


def draw(leaves, most, drawn):
    """A random tree whose nodes have up to `most` children."""
    if len(leaves) == 1:
        return leaves[0]
    count = drawn.randint(2, min(most, len(leaves)))
    cuts = sorted(drawn.sample(range(1, len(leaves)), count - 1))
    return [draw(leaves[i:j], most, drawn) for i, j in zip([0, *cuts], [*cuts, len(leaves)])]


def evaluate(tree, products):
    """Evaluates a tree in binary32.  A sum of more than two terms truncates small terms."""
    if isinstance(tree, int):
        return products[tree]
    values = [evaluate(child, products) for child in tree]
    if len(values) == 2:
        return numpy.float32(values[0] + values[1])
    most = max(map(abs, values))
    return numpy.float32(sum(float(v) for v in values if abs(v) >= most * 2.0 ** -20))


# Each unit has few products, so that compiling a kernel does not pay.
units = limber.Context(backend="interp")


class Reveal(unittest.TestCase):
    """limber.reveal finds the order in which products sum their terms."""
    def test_random_trees(self):
        """The tree of sums in a random order is found, up to the order of operands."""
        drawn = random.Random(8)
        for turn in range(200):
            k = drawn.randint(2, 40)
            leaves = list(range(k))
            if turn % 2:
                drawn.shuffle(leaves)
            tree = draw(leaves, 2 + turn % 4, drawn)
            found = limber.reveal(
                lambda a, b: [[evaluate(tree, (a[0] * b[:, 0]))]], k)
            with self.subTest(tree=tree, found=found.tree):
                got = parse(found.tree)
                self.assertEqual(sorted(terms(got)), list(range(k)))
                self.assertEqual(meetings(got, {}), meetings(tree, {}))

    def test_units_have_their_words(self):
        """From products of a simulated unit, reveal finds the unit's description."""
        for words, result, *rest in [
                ("in=f32 mul=f32 acc=f32", "f32"), ("in=f32 mul=exact acc=f32 group=7", "f32"),
                ("in=f32 mul=f32 acc=f32 order=reverse", "f32"),
                ("in=f32 mul=exact acc=f32 order=reverse", "f32"),
                ("in=bf16 mul=exact acc=bf16", "bf16"), ("in=f16 mul=exact acc=f16", "f16"),
                ("in=e4m3 mul=exact acc=(1,8,9)", "f32"), ("in=e5m2 mul=exact acc=f32:rz", "f32"),
                ("in=f16 acc=f32:rz block=4 frac=23", "f32"),
                ("in=bf16 acc=f32:rz block=16 frac=25", "f32"),
                ("in=tf32 acc=f32 block=8 frac=26", "f32"),
                ("in=e4m3 acc=(1,8,13):rz block=32 frac=13", "f32"),
                ("in=f16 acc=f32 block=8 frac=24 late=31", "f32"),
                ("in=bf16 acc=f32 block=5 frac=24 late=30 reach=27", "f32"),
                ("in=e5m2fnuz acc=f32 block=16 frac=24 late=31 reach=25 halves=yes", "f32"),
                ("in=f64 mul=exact acc=f64", "f64"),
                ("in=f64 mul=exact acc=f64 group=7", "f64"),
                ("in=f64 mul=exact acc=f64 group=16", "f64"),
                # units that add in other orders
                ("in=e4m3fnuz acc=f32 block=16 frac=24 late=31 reach=25 halves=yes", "f32"),
                ("in=bf16:ftz acc=f32:ftz block=4 tree=yes", "f32"),
                ("in=f32 mul=f32 acc=f32 block=8 tree=yes", "f32"),
                ("in=f16 acc=f32 block=2 tree=yes", "f32"),
                ("in=bf16:ftz acc=f32:ro:ftz:inf block=2 tree=yes", "f32"),
                ("in=bf16 acc=f32 order=swapped", "f32"),
                ("in=bf16:ftz acc=f32:ftz group=32 lanes=2", "f32"),
                ("in=f32 mul=f32 acc=f32 group=20 lanes=4 unroll=8 join=halves", "f32"),
                ("in=f32 acc=f32 group=24 lanes=4 unroll=4 rest=after halve=6", "f32"),
                ("in=e4m3 acc=f32:rz block=16 frac=25 order=quads group=32 outer=f32", "f32"),
                ("in=e5m2 acc=(1,8,13):rz block=8 frac=13 group=16 outer=f32", "f32"),
                ("in=f64 mul=f64 acc=f64 group=12 halve=3", "f64"),
                ("in=f64 mul=f64 acc=f64 group=4 split=3", "f64"),
                # accumulators whose format only results show
                ("in=f16 acc=f16", "f32"), ("in=f16 acc=f16 block=16 frac=25", "f32"),
                ("in=bf16 acc=f32 out=bf16", "f32"), ("in=e4m3 acc=e4m3", "f32"),
                ("in=f32 mul=bf16 acc=f32", "f32"), ("in=f32 mul=(1,8,4):rz acc=(1,8,9):ru", "f32"),
                ("in=e5m2 mul=e5m2 acc=e5m2", "f32"), ("in=bf16 acc=bf16:rd", "f32"),
                ("in=f16 acc=f32:ra", "f32"), ("in=tf32 acc=f32", "f32", "f32"),
                ("in=bf16:rz acc=f32", "f32", "f32"),
                ("in=tf32:rz acc=f32:rz block=8 frac=25", "f32", "f32"),
                # outer sums wider than the result, and wider than the alignment
                ("in=e5m2 acc=f32 out=f16", "f32"), ("in=f16 acc=f16 group=16 outer=f32", "f32"),
                ("in=e5m2 acc=f32:rz block=32 frac=13", "f32"),
                ("in=e5m2 acc=(1,8,15):rz block=32 frac=13", "f32"),
                ("in=bf16 acc=f32 block=4 frac=30", "f32"),
                ("in=f32 mul=f32:ftz acc=f32", "f32"), ("in=f32 mul=f32 acc=f32:ftz", "f32"),
                ("in=f32 mul=f32:ftz acc=f32:ftz", "f32"),
                # alignment: how many bits are kept, and whether the accumulator takes part
                ("in=bf16 acc=f32:rz:inf block=16 frac=25 floor=-133", "f32"),
                ("in=bf16 acc=f32 block=8 frac=24 floor=-130", "f32"),
                ("in=bf16 acc=f32:ru block=8 frac=24 floor=-130", "f32"),
                ("in=bf16 acc=f32:rd block=8 frac=26 floor=-130", "f32"),
                ("in=bf16 acc=f32:ro block=8 frac=24 floor=-130", "f32"),
                ("in=bf16 acc=f32:ra block=8 frac=24 floor=-100", "f32"),
                ("in=f16 acc=f16 block=16 frac=25 floor=-21", "f32"),
                ("in=f16 acc=f16 block=16 frac=25 floor=-21 zeros=keep", "f32"),
                ("in=f16 acc=f32:rz block=8 frac=24 zeros=keep", "f32"),
                ("in=bf16 acc=f32 block=8 frac=24 late=31 zeros=keep", "f32"),
                ("in=e5m2 acc=f32:rz block=32 frac=13 floor=-3", "f32"),
                # scales
                ("in=e4m3:sat scale=e8m0:32 acc=f32:rz block=32 frac=25", "f32"),
                ("in=e4m3 scale=e8m0:16:ceil acc=f32:rz block=32 frac=25", "f32"),
                ("in=e4m3:sat scale=e8m0:7:even acc=f32", "f32"),
                ("in=e5m2 scale=e8m0:32:even acc=f32", "f32"),
                ("in=e5m2 scale=e8m0:8 acc=f32 group=16", "f32"),
                ("in=e5m2 scale=e8m0:1:ceil acc=f32", "f32")]:
            operand = rest[0] if rest else re.match(r"in=([\w()]+)", words)[1]
            kind = "f64" if operand == "f64" else "f32"
            found = limber.reveal(lambda a, b: units.matmul(
                a, b, contract=f"simulate={words}", dtype=kind), 50, operand, result)
            self.assertEqual(found.unit and limber.unit(found.unit), limber.unit(words), found)

    def test_operands_of_another_format(self):
        """A unit that is said to take FP8 but accepts all numbers has no scales."""
        for operand in "e4m3", "e5m2", "e4m3fnuz":
            found = limber.reveal(lambda a, b: [[numpy.add.accumulate(a[0] * b[:, 0])[-1]]], 50,
                                  operand, "f32")
            self.assertEqual(limber.unit(found.unit), limber.unit(f"in={operand} acc=f32"), found)

    def test_random_roundings(self):
        """Stochastic units have an order but no description, because no result shows their random
        numbers."""
        for words in ("in=bf16 acc=bf16:rs seed=3", "in=f16 mul=f16:rs acc=f16:rs seed=1",
                      "in=f32 mul=f32:rs acc=f32 seed=3", "in=bf16 acc=f32:rs seed=7",
                      "in=f32 acc=f32:rs group=8 outer=f32 seed=9",
                      "in=e4m3 acc=f16:rs bits=4 seed=2",
                      "in=f16 acc=f16:rs block=4 frac=14 seed=3"):
            found = limber.reveal(lambda a, b: units.matmul(
                a, b, contract=f"simulate={words}", dtype="f32"), 40, re.match(
                    r"in=(\w+)", words)[1], "f32")
            self.assertIsNone(found.unit, (words, found.tree))

    def test_presets(self):
        """The descriptions found give the bits of tensor cores, for ordinary numbers, all
        exponents, small numbers, and with zeros among them."""
        drawn = numpy.random.default_rng(9)

        def numbers(operand, kind, low, high):
            """Random numbers of an operand's format, with exponents from low to high and some
            zeros."""
            facts = limber.finfo(operand)
            low = max(low, round(math.log2(facts.smallest)))
            high = max(min(high, math.floor(math.log2(facts.largest))), low + 8)
            x = numpy.ldexp(drawn.standard_normal((60, 60)), drawn.integers(low, high, (60, 60)))
            x[drawn.random(x.shape) < 0.2] = 0
            return limber.quantize(x.astype("f8" if kind == "f64" else "f4"), operand)

        seen = 0
        for name, preset in limber.units().items():
            operand = re.match(r"in=([\w()]+)", preset.words)[1]
            if re.search("in=i8|in=e[23]m", preset.words):
                continue        # exact accumulators and very narrow ones have no order to find
            kind = "f64" if operand == "f64" else "f32"
            found = limber.reveal(lambda x, y: units.matmul(
                x, y, contract=f"simulate={name}", dtype=kind), 60, operand, kind)
            self.assertIsNotNone(found.unit, (name, found.tree))
            seen += 1
            # presets that truncate operands on load are left out
            for range_ in (-3, 3), (-200, 127), (-76, -66):
                x = numbers(operand, kind, *range_)[:15], numbers(operand, kind, *range_)[:, :15]
                want = units.matmul(*x, contract=f"simulate={name}", dtype=kind)
                got = units.matmul(*x, contract=f"simulate={found.unit}", dtype=kind)
                numpy.testing.assert_array_equal(got.view(f"u{got.itemsize}"),
                                                 want.view(f"u{got.itemsize}"),
                                                 f"{name}: {found.unit}, {range_}")
        self.assertGreater(seen, 45)

    def test_limber_and_numpy(self):
        """The order of Limber's reproducible sums, and that of NumPy's BLAS, whatever it is."""
        for kind in "f32", "f64":
            found = limber.reveal(lambda a, b: limber.matmul(a, b, contract="reproducible"), 600,
                                  kind, shape=(5, 7), at=(4, 2))
            self.assertEqual(found.tree, "[0..255, [256..511], [512..599]]")
        drawn = numpy.random.default_rng(4)
        # with any BLAS, the description found predicts an element's bits
        for kind in "f32", "f64":
            for k in 40, 301:
                found = limber.reveal(numpy.matmul, k, kind, shape=(16, 24))
                self.assertEqual(sorted(terms(parse(found.tree))), list(range(k)))
                self.assertIsNotNone(found.unit, found.tree)
                for _ in range(5):
                    a = drawn.standard_normal((16, k)).astype({"f32": "f4", "f64": "f8"}[kind])
                    b = drawn.standard_normal((k, 24)).astype({"f32": "f4", "f64": "f8"}[kind])
                    want = units.matmul(a[:1], b[:, :1], contract=f"simulate={found.unit}")
                    self.assertEqual((a @ b)[0, 0].tobytes(), want[0, 0].tobytes(), found)
        found = limber.reveal(lambda a, b: [[numpy.add.accumulate(a[0] * b[:, 0])[-1]]], 50)
        self.assertEqual(found, ("[0..49]", "in=f32 mul=f32 acc=f32"))
        # a format of few bits cannot count to k, so only some factors are 1 at a time
        found = limber.reveal(lambda a, b: limber.matmul(
            a, b, contract="simulate=in=bf16 acc=bf16 group=100"), 400, "bf16")
        self.assertEqual(found.tree, "[0..99, [100..199], [200..299], [300..399]]")

    def test_what_has_no_order(self):
        """Functions that sum in no fixed order are refused."""
        with self.assertRaisesRegex(limber.BadArgument, "no sum in one order"):
            limber.reveal(lambda a, b: limber.matmul(a, b, contract="correct") +
                          0.3 * (numpy.count_nonzero(a) > 2), 20)
        with self.assertRaisesRegex(limber.BadArgument, "sums are exact"):
            limber.reveal(lambda a, b: limber.matmul(a, b, contract="correct"), 20)
        with self.assertRaisesRegex(limber.BadArgument, "k = 1: from 2"):
            limber.reveal(numpy.matmul, 1)
        with self.assertRaisesRegex(limber.BadArgument, "does not give 1"):
            limber.reveal(lambda a, b: limber.matmul(a, b) * 0.3, 20)
        with self.assertRaisesRegex(limber.BadArgument, "too narrow"):
            limber.reveal(numpy.matmul, 600, "e2m1", "f32")
        with self.assertRaisesRegex(limber.BadArgument, "at = "):
            limber.reveal(numpy.matmul, 6, shape=(2, 2), at=(2, 0))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            limber.reveal(lambda a, b: 1 / 0, 6)


if __name__ == "__main__":
    unittest.main()
