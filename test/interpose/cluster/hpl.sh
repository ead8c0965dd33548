#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the HPL of the HPC Challenge with its products served by Limber; its own check of the
# solution must pass.
library=$1
. "$(dirname "$0")/mpi.sh"
if ! command -v hpcc > /dev/null; then
    echo "SKIPPED: hpcc is absent"
    exit 77
fi

# Prints HPL's input file.
input() {   # N, NB, P, Q
    cat << END
HPLinpack benchmark input file
as small as gives products that are worth serving
HPL.out output file
8 device
1 problem
$1 N
1 block
$2 NB
0 process mapping: rows
1 grid
$3 P
$4 Q
16.0 threshold
1 panel factorisation
2 right-looking
1 recursion stops
4 NBMIN
1 panels in recursion
2 NDIV
1 recursive factorisation
1 Crout
1 broadcast
1 1rM
1 lookahead
1 depth
2 swap: mix
64 threshold
0 L1 transposed
0 U transposed
1 equilibration
8 alignment
##### this line is ignored #####
0 sizes for PTRANS
0 N
0 blocks for PTRANS
0 NB
END
}

# Runs HPL with Limber, and checks the solution.
run() {     # contract, N, NB, P, Q
    rm -rf "$work/run"
    mkdir "$work/run"
    input "$2" "$3" "$4" "$5" > "$work/run/hpccinf.txt"
    ranks $(($4 * $5)) sh -c "cd $work/run && \
        LD_PRELOAD=$library LIMBER_CONTRACT=$1 LIMBER_THREADS=1 exec hpcc"
    name="$1, N = $2, grid $4 x $5"
    check "$name: the solution" grep -q '^||Ax-b||.* PASSED' "$work/run/hpccoutf.txt"
    check "$name: no residual fails" \
        grep -q '^ *0 tests completed and failed' "$work/run/hpccoutf.txt"
    for rank in $(seq 0 $(($4 * $5 - 1))); do
        # updates of the trailing matrix; DGEMM and the other tests have no products with this k
        check "$name: rank $rank is served" \
            grep -q "^liblimber_blas: .*dgemm.* x $3 .*, by " "$work/$rank"
    done
    grep '^||Ax-b||' "$work/run/hpccoutf.txt"
}

run native 640 128 1 2
run correct 128 32 1 2
finish
