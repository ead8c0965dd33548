#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Preloads liblimber_blas before a program's BLAS.  Limber computes under a valid contract; without
# a contract, or with an invalid one, calls are forwarded to the BLAS.
library=$1 program=$2
here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library"

expect 0 '^0 failures' "$program" left
expect 0 '^0 failures' $before "$program" left batches
for contract in native bits=40; do
    expect 0 '^0 failures' $before LIMBER_CONTRACT=$contract LIMBER_TRUST_BLAS=0 "$program" served
done
expect 0 '^0 failures' $before LIMBER_CONTRACT=fast LIMBER_SCHEME=ozaki2 "$program" served
expect 0 '^0 failures' $before LIMBER_CONTRACT=bits=10 "$program" left
expect 0 'dgemm_batch_ 131 x 140 x 150 correct, by (ozaki2|accumulator)' $before LIMBER_VERBOSE=1 LIMBER_CONTRACT=correct "$program" served batches
expect 0 'LIMBER_CONTRACT = "exactly" is none' $before LIMBER_CONTRACT=exactly "$program" left
expect 0 'LIMBER_SCHEME = "ozaki3" is no scheme' $before LIMBER_CONTRACT=native LIMBER_SCHEME=ozaki3 "$program" left
expect 0 'LIMBER_ILP64 = "2" is neither' $before LIMBER_ILP64=2 LIMBER_CONTRACT=correct "$program" served
expect 0 'LIMBER_BLAS: .*nowhere' $before LIMBER_BLAS=/nowhere/libblas.so LIMBER_CONTRACT=correct "$program" served
none=$(ldd "$program" | awk '$1 ~ /^libm[.]/ { print $3 }')
expect 0 'LIMBER_BLAS = .*libm.* is no BLAS; it is not used' $before LIMBER_BLAS="$none" "$program" left
lines 1 '^0 failures'

# if CBLAS calls Fortran functions inside the BLAS, forwarded calls do not come back to Limber: 16
# and 4 calls
expect 0 'dgemm_batch_ .*is native, as no BLAS has it: .*fp32-f' $before LIMBER_VERBOSE=1 LIMBER_CONTRACT=correct \
    LIMBER_SCHEME=fp32-f "$program" left batches
lines 20 'gemm_? .*left to the BLAS: .*fp32-f'
lines 1 '^0 failures'

# two copies of the library: the first chooses who computes, the second only forwards
cp "$library" "$work/second.so"
expect 0 'loaded two of them' env LD_PRELOAD="$library:$work/second.so" LIMBER_VERBOSE=1 LIMBER_CONTRACT=correct \
    LIMBER_SCHEME=fp32-f "$program" left
lines 20 'left to the BLAS'
lines 1 'loaded two of them'

other=$(dirname "$program")/libblas_mock_$(case $program in *32) echo 64 ;; *) echo 32 ;; esac).so
expect 0 'LIMBER_BLAS = .* it is not used' $before LIMBER_BLAS="$other" LIMBER_CONTRACT=correct "$program" served
if $python -c 'import numpy' 2> /dev/null; then
    for behind in $(blas_folders); do
        expect 0 '^[0-9]+ right' $before LD_LIBRARY_PATH="$behind:$LD_LIBRARY_PATH" \
            LIMBER_CONTRACT=correct $python -c '
import numpy as np
rng = np.random.default_rng(1)
right = 0
for kind in (np.float32, np.float64, np.complex64, np.complex128):
    a, b = rng.integers(-9, 9, (140, 150)).astype(kind), rng.integers(-9, 9, (150, 160)).astype(kind)
    exact = a.real.astype(int) @ b.real.astype(int)
    right += (a @ b == exact).all() and (a.T.copy().T @ b == exact).all()
assert right == 4
print(right, "right")'
    done
    # a BLAS that lacks functions that NumPy needs, or LAPACK
    same=$(dirname "$program")/libblas_mock_$(case $program in *32) echo 32 ;; *) echo 64 ;; esac).so
    for contract in '' native correct; do
        expect 0 '^whole$' $before LIMBER_BLAS="$same" LIMBER_CONTRACT=$contract $python -c '
import numpy as np
a = np.random.default_rng(1).standard_normal((80, 80))
u, s, v = np.linalg.svd(a)
w, x = np.linalg.eigh(a + a.T)
q, r = np.linalg.qr(a)
l = np.linalg.cholesky(a @ a.T)
for got, want in ((u * s @ v, a), (x * w @ x.T, a + a.T), (q @ r, a), (l @ l.T, a @ a.T),
                  (a @ np.linalg.solve(a, a), a), (a @ np.linalg.inv(a), np.eye(80))):
    assert abs(got - want).max() < 1e-9
print("whole")'
    done
else
    echo "numpy is absent: skipped"
fi
finish
