#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests LIMBER_CAPTURE: files hold the operands that the program passed, are complete, and stay
# below the limit of bytes.  Then runs sweeps over these files.
library=$1 program=$2 limber=$3 here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library"
export LIMBER_BACKEND=interp
cd "$work" || exit 2

# Prints names in the index that have no file, files that the index does not name, and unfinished
# files.
cat > strays.sh <<'END'
cd "$1" || exit 2
grep -o '"[ab]": "[^"]*"' index.jsonl | sed 's/.*: "//; s/"//' | sort > named
ls | grep -v '^index.jsonl$' | grep -v '^named$' | sort | diff - named
END

expect 0 '^0 failures' $before LIMBER_CAPTURE=run,64M "$program" left
lines 0 liblimber_blas
expect 0 '^$' sh strays.sh run
expect 0 '"dgemm_?", "m": 131, "n": 140, "k": 150, "format": "f64", "complex": false, "ops": "' \
    cat run/index.jsonl
expect 0 '"complex": true' cat run/index.jsonl
expect 0 '"contract": "", "caller": "blas_program_' cat run/index.jsonl

# calls that a BLAS or LAPACK makes itself are not captured
if $python -c 'import numpy' 2> /dev/null; then
    cat > inner.py <<'END'
import numpy
a = numpy.eye(150) + 1
a @ a[:, :149]
numpy.linalg.solve(a, a)
END
    expect 0 '^$' $before LIMBER_CAPTURE=inner,64M $python inner.py
    expect 0 '^1$' grep -c '"n": 149' inner/index.jsonl
    expect 0 '^1$' sh -c 'wc -l < inner/index.jsonl | tr -d " "'
fi

# the limit is reported once; a second process adds to the folder
expect 0 'few.: the limit of bytes is reached; 2 products are kept' \
    $before LIMBER_CAPTURE=few,400K "$program" left
lines 1 liblimber_blas
expect 0 '^2$' sh -c 'wc -l < few/index.jsonl | tr -d " "'
expect 0 '2 products are kept' \
    $before LIMBER_CAPTURE=few,400K LIMBER_CONTRACT=correct "$program" served
expect 0 '"contract": "correct"' tail -n 1 few/index.jsonl
expect 0 '^$' sh strays.sh few
expect 0 'no: the limit of bytes is reached; 0 products are kept' sh -c \
    "$before LIMBER_CAPTURE=no,1K '$program' left 2>&1 | tr -d '\"'"

# a file that cannot be written is reported once, and the program continues
: > file
expect 0 'Not a directory; 0 products are kept' $before LIMBER_CAPTURE=file/run,64M "$program" left
lines 1 liblimber_blas
lines 1 '^0 failures'
expect 0 'File too large; 0 products are kept' sh -c \
    "ulimit -f 40; exec $before LIMBER_CAPTURE=short,64M '$program' left"
lines 1 '^0 failures'
expect 0 '^$' ls -A short
for wrong in run ,3M run, run,0 run,3X run,M run,99999999999G; do
    expect 0 'is no folder and number of bytes' $before LIMBER_CAPTURE=$wrong "$program" left
done

# the captured values are right for every layout in memory
mock=$(dirname "$program")/libblas_mock_$(case $program in *32) echo 32 ;; *) echo 64 ;; esac).so
if $python -c 'import numpy' 2> /dev/null; then
    cat > calls.py <<'END'
import ctypes, json, sys
import numpy as np

blas, rng, want = ctypes.CDLL(None), np.random.default_rng(1), []
m, n, k = 5, 7, 4
integer, byref = ctypes.c_int32, lambda *x: [ctypes.byref(integer(i)) for i in x]


def lying(shape, kind, op, lead):
    """A column-major matrix with padding between columns, and its op."""
    rows, cols = shape if op == "N" else shape[::-1]
    room = np.zeros((lead, cols), kind, order="F")
    x = rng.standard_normal((rows, cols))
    room[:rows] = x + 1j * rng.standard_normal((rows, cols)) if kind in "FD" else x
    own = room[:rows]
    return room, own if op == "N" else own.T if op == "T" else own.conj().T


for name, kind in (("sgemm_", "f"), ("dgemm_", "d"), ("cgemm_", "F"), ("zgemm_", "D")):
    for ops in ("NN", "TN", "NT", "CC", "CT"):
        a, op_a = lying((m, k), kind, ops[0], 9)
        b, op_b = lying((k, n), kind, ops[1], 8)
        c, one = np.zeros((m, n), kind, order="F"), np.ones(1, kind)
        pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
        getattr(blas, name)(ops[0].encode(), ops[1].encode(), *byref(m, n, k), pointer(one),
                            pointer(a), *byref(9), pointer(b), *byref(8), pointer(one), pointer(c),
                            *byref(m))
        want.append((op_a, op_b))
half = rng.standard_normal((6, 6)).astype("f")
bits = (half.view("u4") >> 16).astype("u2")
c, one = np.zeros((6, 6), "f"), np.ones(1, "f")
blas.sbgemm_(b"N", b"T", *byref(6, 6, 6), pointer(one), pointer(bits), *byref(6), pointer(bits),
             *byref(6), pointer(one), pointer(c), *byref(6))
back = (bits.astype("u4") << 16).view("f")
want.append((back.T, back))

# other routines: elements of A outside its triangle are NaN in memory, and 0 in the expected file
def triangle(n, kind, upper):
    """A full matrix in which only one triangle is the program's."""
    room, own = lying((n, n), kind, "N", n + 2)
    x = np.tril(own) if not upper else np.triu(own)
    own[~(np.triu(np.ones((n, n), bool)) if upper else np.tril(np.ones((n, n), bool)))] = np.nan
    return room, np.where(np.isnan(x), 0, x)


p = lambda x: x.ctypes.data_as(ctypes.c_void_p)
for letter, kind in (("d", "d"), ("z", "D"), ("s", "f")):
    one, conj = np.ones(1, kind), (lambda x: x.conj())
    families = ["syrk", "syr2k"] + ["herk", "her2k"] * (letter == "z")
    for family in families:
        hermitian = family[0] == "h"
        other = "C" if hermitian else "T"
        for op in "N", other:
            a, op_a = lying((n, k), kind, op, 9)
            b, op_b = lying((n, k), kind, op, 8)
            c = np.zeros((n, n), kind, order="F")
            more = (p(b), *byref(8)) if family.endswith("2k") else ()
            getattr(blas, letter + family + "_")(b"U", op.encode(), *byref(n, k), p(one), p(a),
                                                 *byref(9), *more, p(one), p(c), *byref(n))
            turned = (lambda x: x.conj().T) if hermitian else (lambda x: x.T)
            want.append((op_a, turned(op_b if more else op_a)))
            if more:
                want.append((op_b, turned(op_a)))
    for family in ["symm"] + ["hemm"] * (letter == "z"):
        for side, upper in (("L", True), ("R", False)):
            order = m if side == "L" else n
            a, x = triangle(order, kind, upper)
            mirror = np.triu(x, 1).T if upper else np.tril(x, -1).T
            if family == "hemm":
                x, mirror = x - 1j * np.diag(x.diagonal().imag), mirror.conj()
            full = (x + mirror).astype(kind)
            b, own = lying((m, n), kind, "N", 8)
            c = np.zeros((m, n), kind, order="F")
            getattr(blas, letter + family + "_")(
                side.encode(), b"U" if upper else b"L", *byref(m, n), p(one), p(a),
                *byref(order + 2), p(b), *byref(8), p(one), p(c), *byref(m))
            want.append((full, own) if side == "L" else (own, full))
    for side, upper, op, diag in (("L", True, "N", "N"), ("R", True, "T", "N"),
                                  ("L", False, "C", "U"), ("R", False, "N", "U")):
        order = m if side == "L" else n
        a, x = triangle(order, kind, upper)
        if diag == "U":
            x = x - np.diag(x.diagonal()) + np.eye(order)
        x = (x if op == "N" else x.T if op == "T" else x.conj().T).astype(kind)
        b, own = lying((m, n), kind, "N", 8)
        own = own.copy()                # trmm overwrites it
        getattr(blas, letter + "trmm_")(side.encode(), b"U" if upper else b"L", op.encode(),
                                        diag.encode(), *byref(m, n), p(one), p(a),
                                        *byref(order + 2), p(b), *byref(8))
        want.append((x, own) if side == "L" else (own, x))
    a = [np.asfortranarray(lying((m, k), kind, "N", m)[1]) for _ in range(3)]
    b = [np.asfortranarray(lying((k, n), kind, "N", k)[1]) for _ in range(3)]
    c = [np.zeros((m, n), kind, order="F") for _ in range(3)]
    addresses = [(ctypes.c_void_p * 3)(*(x.ctypes.data for x in list)) for list in (a, b, c)]
    getattr(blas, letter + "gemm_batch_")(b"N", b"N", *byref(m, n, k), p(one), addresses[0],
                                          *byref(m), addresses[1], *byref(k), p(one),
                                          addresses[2], *byref(m), *byref(1), *byref(3))
    want += list(zip(a, b))
lines = [json.loads(line) for line in open("calls/index.jsonl")]
assert [line["format"] for line in lines][20] == "bf16"
assert len(lines) == len(want), (len(lines), len(want))
for line, pair in zip(lines, want):
    for side, x in zip("ab", pair):
        kept = np.load("calls/" + line[side])
        assert kept.dtype == x.dtype and kept.shape == x.shape, (line, side, kept, x)
        assert (kept == x).all(), (line, side, kept, x)
    assert [line["m"], line["k"], line["n"]] == [*pair[0].shape, pair[1].shape[1]], line
print(len(lines), "calls")
END
    case $program in
    *32)
        expect 0 '^74 calls$' $before LIMBER_BLAS="$mock" LIMBER_CAPTURE=calls,1M $python calls.py
        ;;
    esac
else
    echo "numpy is absent: skipped"
fi

# sweeps over captured operands
expect 0 '^2 products of two; operands in the accumulator' sh -c '
    mkdir two && for i in 1 2; do
        grep "\"m\": 131" run/index.jsonl | grep "\"complex\": false" | sed -n ${i}p
    done > lines && for f in $(grep -o "\"[ab]\": \"[^\"]*\"" lines | sed "s/.*: \"//; s/\"//"); do
        cp run/$f two; done && cp lines two/index.jsonl &&
    "$0" explore --captured two --groups 0' "$limber"
expect 0 '^f16 +16 +[0-9.e-]+ \*$' "$limber" explore --captured two --stored f16,bf16,posit8,i4
expect 0 'the cheapest that keeps 1e.300: i4' \
    "$limber" explore --captured two --stored f32,i4,f16 --keep 1e300
expect 0 'the cheapest that keeps 0.5: [a-z]' \
    "$limber" explore --captured two --contracts native,bits=10,correct --keep 0.5
expect 0 '"contract":.*"correct".*"frontier"' sh -c \
    "'$limber' explore --captured two --contracts native,correct --json | tr -d '\n'"
expect 0 '"products":.*2,.*"complex_left_out":.*0,.*"operand_bits":.*4,' sh -c \
    "'$limber' explore --captured two --stored i4,f32 --json --csv two.csv | tr -d '\n'"
expect 0 '^"i4",4,' cat two.csv
"$limber" explore --captured two --stored i4,f32,posit16 --json > stored.json
expect 0 '^stored.json: formats or contracts, 3 rows$' "$limber" report stored.json --html page.html
expect 0 '2 products of two, operands stored in formats' cat page.html
"$limber" explore --captured two --contracts native,correct --json > contracts.json
expect 0 '^contracts.json: formats or contracts, 2 rows$' \
    "$limber" report contracts.json --html page.html
expect 0 'Error over time' cat page.html
expect 0 'complex products are left out' "$limber" explore --captured run --stored f32

# the units of LPGEMM's configuration
printf 'targetFloatType = (1,5,2)\nquantLayer = [one,two]\n[two]\ntargetFloatType = bf16\n' > l.conf
printf 'groupedCumulativeLength = 16\n' >> l.conf
expect 0 '^2 products of two; operands in the formats of its configuration' \
    "$limber" explore --captured two --lpgemm l.conf --layer one,two --csv l.csv
expect 0 '^one +\(1,5,2\) +rn +0 rounded +8 ' \
    "$limber" explore --captured two --lpgemm l.conf --layer one,two
expect 0 '^two +bf16 +rn +16 rounded +16 .*\*$' \
    "$limber" explore --captured two --lpgemm l.conf --layer one,two
expect 0 '^"two","in=bf16 mul=bf16 acc=bf16 group=16 outer=bf16","bf16",rn,16,rounded,16,16,' \
    cat l.csv
# descriptions of the units give the results of the configuration
expect 0 '^$' sh -c "
    '$limber' explore --captured two --formats bf16 --groups 16 --csv words.csv > log &&
    sed -n '3s/^\"two\",//p' l.csv | cut -d, -f1-14 > a && tail -n 1 words.csv | cut -d, -f1-14 |
    diff a -"
expect 0 '"layer":.*"one"' "$limber" explore --captured two --lpgemm l.conf --layer one --json
expect 2 'does not quantise "three"' \
    "$limber" explore --captured two --lpgemm l.conf --layer one,three
expect 2 'are of other sweeps' "$limber" explore --captured two --lpgemm l.conf --stored f16
expect 2 'needs --lpgemm' "$limber" explore --captured two --layer one
if command -v gnuplot > /dev/null; then
    expect 0 'frontier' "$limber" explore --captured two --stored f16,i4,f32 --plot stored.svg
    expect 0 'bits of an operand' cat stored.svg
    expect 0 'frontier' "$limber" explore --captured two --contracts native,correct --plot c.svg
    expect 0 'seconds of all products' cat c.svg
fi
expect 2 'is no format' "$limber" explore --captured two --stored f17
expect 0 '^e8m0 +8 +inf' "$limber" explore --captured two --stored e8m0     # no zero, no sign
expect 2 'none of native' "$limber" explore --captured two --contracts simulate
expect 2 'two sweeps' "$limber" explore --captured two --contracts native --stored f16
expect 2 'takes two files' "$limber" explore --captured two a.npy b.npy
expect 2 'has its operands' "$limber" explore --captured two --trans-a
expect 1 'nowhere/index.jsonl: No such file' "$limber" explore --captured nowhere
mkdir bad
printf '{ "a": "../file", "b": "x" }\n' > bad/index.jsonl
expect 1 'bad/index.jsonl:1: no line of JSON' "$limber" explore --captured bad
printf 'a\n' > bad/index.jsonl
expect 1 'bad/index.jsonl:1: no line of JSON' "$limber" explore --captured bad
printf '{ "a": "a.npy", "b": "b.npy" }\n' > bad/index.jsonl
expect 1 'bad/a.npy: No such file' "$limber" explore --captured bad
: > bad/index.jsonl
expect 1 'no product of real matrices' "$limber" explore --captured bad
finish
