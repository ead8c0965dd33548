#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the testers of the reference BLAS, for Fortran and C, on all routines of level 3: with sizes
# below and above the block size of solvers, errors, and alpha and beta 0.  The Fortran testers run
# with each installed BLAS.
library=$1
here=$(dirname "$0")
. "$here/expect.sh"
folder=$(reference_folder)
[ -n "$folder" ] || exit 0
behind=$folder

# Runs a tester of the reference BLAS with Limber, and prints its results.
tester() {  # backend, contract, program, its input, sizes
    mkdir "$work/run"
    line=$(grep -n 'NUMBER OF VALUES OF N *$' "$folder/$4" | cut -d: -f1)
    sed "${line}s/^[0-9]*/$(echo $5 | wc -w)/; $((line + 1))s/^[0-9 ]*/$5 /" "$folder/$4" > "$work/run/in"
    (cd "$work/run" && LIMBER_BACKEND=$1 LIMBER_CONTRACT=$2 LIMBER_TRUST_BLAS=0 LIMBER_VERBOSE=1 LD_LIBRARY_PATH=$behind \
        LD_PRELOAD=$library "$folder/$3" < in > out 2> err; cat out ./*.out
     grep -E 'FAIL|SUSPECT|\*\*\*' out ./*.out > /dev/null && echo BAD
     echo "$(cat out ./*.out 2> /dev/null | grep -c PASSED) passed, $(grep -c ' by ' err) served")
    rm -r "$work/run"
}
# Checks that a tester passes.
passes() {  # expected number of lines, tester's arguments
    lines=$1
    shift
    expect 0 "^$lines passed, [0-9]{3,} served" tester "$@"
    if printf '%s\n' "$out" | grep -q '^BAD'; then
        failures=$((failures + 1))
        echo "FAILED: $*: $out"
    fi
}
for type in s d; do
    passes 12 interp correct xblat3$type ${type}blat3.in "3 40"
    passes 18 interp correct x${type}cblat3 ${type}in3 "3 40"
done
for type in c z; do
    passes 18 interp correct xblat3$type ${type}blat3.in "3 40"
    passes 27 interp correct x${type}cblat3 ${type}in3 "3 35"
done
passes 12 auto bits=50 xblat3d dblat3.in "40"
for behind in $(blas_folders); do
    passes 12 interp correct xblat3d dblat3.in "3 40"
    passes 18 interp correct xblat3z zblat3.in "3 40"
done
finish
