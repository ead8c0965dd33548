#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares every routine with exact integers, and NaN and infinities with the reference BLAS.  Also
# tests schemes that refuse in the middle of a call.
library=$1
here=$(dirname "$0")
. "$here/expect.sh"
needs_python
reference=$(reference_library)
before="env LD_PRELOAD=$library LIMBER_BLAS=$reference LIMBER_BACKEND=interp"

for contract in correct bits=50; do
    expect 0 '^[0-9]{4,} checks, 0 failed' $before LIMBER_CONTRACT=$contract LIMBER_TRUST_BLAS=0 \
        python3 "$here/exact.py" $contract $reference
done
if [ -n "$reference" ]; then
    expect 0 '^6 checks, 0 failed' $before LIMBER_CONTRACT=correct \
        LIMBER_SCHEME=ozaki1-f64 LIMBER_VERBOSE=1 python3 "$here/exact.py" refused "$reference"
    lines 6 'left to the BLAS: run.*bits, at most'
fi
finish
