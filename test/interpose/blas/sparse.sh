#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sparse solvers with the library preloaded.  Under `bits=40` calls go to a BLAS that satisfies this
# contract; Limber computes if the BLAS is not trusted.  Residuals are equally small.
library=$1 here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library LIMBER_REPORT=$work/report"

tried=''
# Builds the test with a solver, and runs it.
try() {  # solver, how it is built
    solver=$1
    shift
    if ! cc -O1 "$here/sparse.c" -o "$work/$solver" "$@" -lm 2> "$work/log"; then
        echo "$solver is absent: skipped"
        return
    fi
    tried=yes
    run="$work/$solver $solver 12"
    expect 0 '^factors ' $run
    expect 0 '^factors ' $before LIMBER_CONTRACT=bits=40 $run
    expect 0 '"served": { "calls": 0,' cat "$work/report"
    expect 0 '"why_not": "the BLAS keeps these bits by the standard error bound"' cat "$work/report"
    for way in 'bits=40 LIMBER_TRUST_BLAS=0' correct; do
        # shellcheck disable=SC2086
        expect 0 '^factors ' $before LIMBER_CONTRACT=$way $run
        expect 0 '"served": { "calls": [1-9][0-9]' cat "$work/report"
    done
}
try cholmod -DHAVE_CHOLMOD -lcholmod
try mumps -DHAVE_MUMPS -I/usr/include/mumps_seq -ldmumps_seq
[ -n "$tried" ] || exit 77
finish
