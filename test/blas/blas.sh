#!/bin/sh
# A program whose BLAS stands behind liblimber_blas: served where a contract says so, left alone where
# none does, or one that nobody understands.
library=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LIMBER_CACHE_DIR=$work/cache
export LIMBER_CACHE_DIR
failures=0 checks=0

expect() {  # status, pattern, command...
    status=$1 pattern=$2
    shift 2
    checks=$((checks + 1))
    out=$("$@" 2>&1)
    got=$?
    if [ $got != "$status" ] || ! printf '%s\n' "$out" | grep -Eq -- "$pattern"; then
        failures=$((failures + 1))
        echo "FAILED: $*"
        echo "  status $got (expected $status), wanted $pattern, output: $out"
    fi
}
before="env LD_PRELOAD=$library"

expect 0 '^0 failures' "$program" left
expect 0 '^0 failures' $before "$program" left
for contract in native correct bits=40; do
    expect 0 '^0 failures' $before LIMBER_CONTRACT=$contract "$program" served
done
expect 0 '^0 failures' $before LIMBER_CONTRACT=fast LIMBER_SCHEME=ozaki2 "$program" served
expect 0 'dgemm_ 131 x 140 x 150 by ozaki' $before LIMBER_VERBOSE=1 LIMBER_CONTRACT=correct "$program" served
expect 0 'LIMBER_CONTRACT = "exactly" is none' $before LIMBER_CONTRACT=exactly "$program" left
expect 0 'LIMBER_SCHEME = "ozaki3" is no scheme' $before LIMBER_CONTRACT=native LIMBER_SCHEME=ozaki3 "$program" left
expect 0 'left to the BLAS: .*fp32-f' $before LIMBER_VERBOSE=1 LIMBER_CONTRACT=correct LIMBER_SCHEME=fp32-f "$program" left
expect 0 'LIMBER_ILP64 = "2" is neither' $before LIMBER_ILP64=2 LIMBER_CONTRACT=correct "$program" served
if python3 -c 'import numpy' 2> /dev/null; then
    expect 0 '^[0-9]+ right' $before LIMBER_CONTRACT=correct python3 -c '
import numpy as np
rng = np.random.default_rng(1)
right = 0
for kind in (np.float32, np.float64, np.complex64, np.complex128):
    a, b = rng.integers(-9, 9, (140, 150)).astype(kind), rng.integers(-9, 9, (150, 160)).astype(kind)
    exact = a.real.astype(int) @ b.real.astype(int)
    right += (a @ b == exact).all() and (a.T.copy().T @ b == exact).all()
assert right == 4
print(right, "right")'
else
    echo "numpy is absent: skipped"
fi

# the testers of the reference BLAS, Fortran's and C's, where they are installed
folder=$(ls -d /usr/lib/*/blas 2> /dev/null | head -1)
tester() {  # backend, contract, program, its input
    mkdir "$work/run"
    (cd "$work/run" && LIMBER_BACKEND=$1 LIMBER_CONTRACT=$2 LIMBER_VERBOSE=1 LD_LIBRARY_PATH=$folder LD_PRELOAD=$library \
        "$folder/$3" < "$folder/$4" > out 2> err; cat out ./*.out; grep -c ' by ' err | sed 's/$/ served/')
    rm -r "$work/run"
}
if [ "$(basename "$program")" != blas_program_32 ]; then
    :
elif [ -x "$folder/xblat3d" ] && [ -e "$folder/libblas.so.3" ]; then
    for type in s d c z; do
        expect 0 'GEMM +PASSED THE COMPUTATIONAL TESTS' tester interp correct xblat3$type ${type}blat3.in
        expect 0 '^[0-9]{4,} served' tester interp correct x${type}cblat3 ${type}in3
    done
    expect 0 'cblas_dgemm +PASSED THE ROW-MAJOR +COMPUTATIONAL TESTS' tester auto bits=50 xdcblat3 din3
else
    echo "the reference BLAS and its testers are absent: skipped"
fi
echo "$checks checks, $failures failed"
[ $failures = 0 ]
