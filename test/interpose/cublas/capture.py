# SPDX-License-Identifier: BSD-3-Clause
"""Compares the operands in LIMBER_CAPTURE's folder with those that a program has printed, in the
order of its calls.  Captured calls that the program did not print may lie between.

    python capture.py FOLDER PRINTED"""
import json
import sys

import numpy

folder, results = sys.argv[1:]
kept = iter([json.loads(line) for line in open(f"{folder}/index.jsonl")])
lines = open(results).read().splitlines()
found = 0
for name, *texts in zip(lines[::3], lines[1::3], lines[2::3]):
    want = [numpy.array(text.split(), float).view(complex) for text in texts]
    for line in kept:
        have = [numpy.load(f"{folder}/{line[side]}") for side in "ab"]
        if line["routine"] == name and all(
                x.size == y.size and (x.reshape(-1) == y).all() for x, y in zip(have, want)):
            break
    else:
        sys.exit(f"product {found} of {name} is not kept")
    m, n, k = line["m"], line["n"], line["k"]
    assert [x.shape for x in have] == [(m, k), (k, n)], line
    assert line["complex"] == (have[0].dtype.kind == "c"), line
    found += 1
print(found, "products")
