#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Routines of levels 1 and 2 have the bits of level 3, whatever the backend, checks or threads, and
# pass the testers of the reference BLAS.
library=$1 here=$(dirname "$0")
. "$here/expect.sh"
needs_python
reference=$(reference_library)
[ -n "$reference" ] || { echo "libblas3 and libblas-test are absent: skipped"; exit 77; }
before="env LD_PRELOAD=$library:$reference"
run="python3 $here/vectors.py"

expect 0 '^[0-9]{4} checks, 0 failed' $before LIMBER_CONTRACT=reproducible $run
expect 0 '^[0-9]{4} checks, 0 failed' $before LIMBER_CONTRACT=correct $run correct
# the reference BLAS has other bits
expect 0 ' checks, [1-9][0-9]* failed' env LD_PRELOAD="$reference" $run short
# short vectors have code of their own; LIMBER_CHECK compares it with the products that it must
# equal
expect 0 '^[0-9]{4} checks, 0 failed' $before LIMBER_CONTRACT=reproducible LIMBER_CHECK=1 $run short

# Runs a tester with or without Limber, and prints its results.
tester() {  # library or "", contract, program, input
    input=/dev/null
    [ -z "$4" ] || input=$folder/$4
    mkdir "$work/run"
    (cd "$work/run" && LIMBER_CONTRACT=$2 LD_LIBRARY_PATH=$folder LD_PRELOAD=$1 "$folder/$3" \
        < "$input" > out 2>&1; cat out ./*.out > all 2> /dev/null
     grep -E 'FAIL|SUSPECT|\*\*\*' all && echo BAD
     echo "$(grep -c PASS all) passed")
    rm -r "$work/run"
}
folder=$(dirname "$reference")
for type in s d c z; do
    for one in "xblat1$type" "xblat2$type ${type}blat2.in" "x${type}cblat1" \
        "x${type}cblat2 ${type}in2"; do
        expect 0 '^[1-9][0-9]* passed' tester "" "" $one
        passed=$out
        for contract in reproducible correct; do
            expect 0 "^$passed$" tester "$library" $contract $one
        done
    done
done
finish
