#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An unmodified ScaLAPACK program: Limber computes its local products on every rank and keeps the
# contract, on grids of several shapes, with one and with two threads per rank.
library=$1 program=$2 calls=$3 limber=$4
. "$(dirname "$0")/mpi.sh"

# Prints how many dgemm calls of a rank Limber computed.
served() {
    grep -c '^liblimber_blas: dgemm_ .* by ' "$work/$1"
}

# Returns whether Limber served all dgemm calls of a rank.  Under `native`, which forwards some
# sizes to the BLAS, one served call suffices.
is_served() {   # contract, rank
    asked=$(sed -n 's/^calls: dgemm \([0-9]*\) .*/\1/p' "$work/$2")
    got=$(served "$2")
    [ "$got" -gt 0 ] && { [ "$1" = native ] || [ "$got" = "$asked" ]; }
}

# Counts calls that were forwarded to the BLAS for another reason than that the BLAS is as fast.
unserved() {
    grep 'is left to' "$work/out" |
        grep -Ecv -e 'is as fast below|under native the BLAS' \
            -e 'the triangle is one small block|nothing is multiplied'
}

# Runs the program on a grid of processes, and checks its results.
run() {     # rows, columns, threads, contract, size, error
    ranks $(($1 * $2)) env LD_PRELOAD="$calls:$library" LIMBER_CONTRACT="$4" LIMBER_THREADS="$3" \
        LIMBER_TRUST_BLAS=0 \
        "$program" "$1" "$2" "$5" "$6"
    status=$?
    name="$4 on a grid of $1 x $2, $3 threads a rank"
    check "$name: status $status" [ $status = 0 ]
    check "$name: results" grep -qx '0 failures' "$work/0"
    check "$name: nothing is left to the BLAS" [ "$(unserved)" = 0 ]
    for rank in $(seq 0 $(($1 * $2 - 1))); do
        check "$name: rank $rank is served" is_served "$4" "$rank"
    done
}

for grid in '1 2' '2 1' '2 2'; do
    # shellcheck disable=SC2086
    {
        run $grid 1 native 576 2.9e-14
        run $grid 1 correct 128 0
        run $grid 1 bits=40 128 9.2e-13
    }
done
run 2 2 2 native 576 2.9e-14
run 1 2 2 correct 128 0

# Without a contract the program loses the digits that cancel, which shows that the test above can
# fail.
ranks 2 env LD_PRELOAD="$calls:$library" "$program" 1 2 192 0
status=$?
check "no contract: status $status" [ $status != 0 ]
check "no contract: cancelled sums are lost" grep -q 'large integers: .* FAILED' "$work/0"
check "no contract: nothing is served" [ "$(served 0)" = 0 ]

# Without permission to compile, prebuilt kernels compute.
ranks 2 env LD_PRELOAD="$calls:$library" LIMBER_CONTRACT=correct LIMBER_NO_COMPILE=1 \
    LIMBER_CACHE_DIR="$work/absent" "$program" 1 2 128 0
status=$?
check "LIMBER_NO_COMPILE, prebuilt kernels: status $status" [ $status = 0 ]
check "LIMBER_NO_COMPILE, prebuilt kernels: nothing is left to the BLAS" [ "$(unserved)" = 0 ]
check "LIMBER_NO_COMPILE, prebuilt kernels: rank 1 is served" is_served correct 1

if [ "${LIMBER_KERNELS:-}" = prebuilt ]; then
    echo "needs a compiler: kernels made ahead are skipped"
    finish
    exit
fi
# If kernels are neither available nor allowed to be compiled, the BLAS computes, and a message says
# so.
export LIMBER_KERNELS=specialised
ranks 2 env LD_PRELOAD="$calls:$library" LIMBER_CONTRACT=correct LIMBER_NO_COMPILE=1 \
    LIMBER_CACHE_DIR="$work/absent" "$program" 1 2 192 1
status=$?
check "LIMBER_NO_COMPILE: status $status" [ $status = 0 ]
check "LIMBER_NO_COMPILE: is told" grep -q 'is left to the BLAS: .*LIMBER_NO_COMPILE' "$work/1"
check "LIMBER_NO_COMPILE: nothing is served" [ "$(served 0)" = 0 ]

# The kernels that the ranks' reports name can be compiled ahead, for a job that may not compile.
run_reported() {    # folder of the cache, other variables
    folder=$1
    shift
    ranks 2 env LD_PRELOAD="$calls:$library" LIMBER_CONTRACT=correct LIMBER_THREADS=1 \
        LIMBER_CACHE_DIR="$folder" "$@" "$program" 1 2 128 0
}
run_reported "$work/first" LIMBER_REPORT="$work/report.json"
LIMBER_CACHE_DIR=$work/warm "$limber" prebuild "$work"/report.json.* > "$work/warmed"
check "warm: kernels are made" grep -q '^[1-9][0-9]* compiled, ' "$work/warmed"
run_reported "$work/warm" LIMBER_NO_COMPILE=1
check "warm: results" grep -qx '0 failures' "$work/0"
check "warm: nothing is left to the BLAS" [ "$(unserved)" = 0 ]
check "warm: rank 1 is served" is_served correct 1
finish
