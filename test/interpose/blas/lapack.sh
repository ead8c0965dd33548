#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# LAPACK's factorisations by Limber's products: residuals are at most LAPACK's, unusual arguments
# give LAPACK's results, and calls for which Limber would be slower go to the program's LAPACK.
library=$1 here=$(dirname "$0")
. "$here/expect.sh"
if ! $python -c 'import numpy, ctypes; ctypes.CDLL("liblapack.so.3")' 2> /dev/null; then
    echo "numpy or liblapack3 is absent: skipped"
    exit 77
fi
before="env LD_PRELOAD=$library LIMBER_REPORT=$work/report"

# Prints the number on a line.
number() {  # the word before it, in the last output
    printf '%s\n' "$out" | sed -n "s/^$1 //p"
}
# Checks that Limber computed calls of a routine.
served() {  # routine
    checks=$((checks + 1))
    if ! grep -q "\"routine\": \"$1_\".*\"served\": true" "$work/report"; then
        failures=$((failures + 1))
        echo "FAILED: $1 is not served"
    fi
}
# Sums that are rounded once have a noticeably smaller error.
for shape in "70 131" "131 70" "300 300"; do
    expect 0 '^worst [0-9]\.' $python "$here/lapack.py" residuals $shape
    plain=$(number sum)
    expect 0 '^worst [0-9]\.' $before LIMBER_CONTRACT=correct $python "$here/lapack.py" \
        residuals $shape
    served=$(number sum)
    expect 0 '^smaller$' awk -v a="$plain" -v b="$served" \
        'BEGIN { if (b < 0.95 * a) print "smaller" }'
    for type in s d c z; do
        for routine in getrf gesv getrs getri potrf potrs posv trtri trtrs geqrf; do
            served $type$routine
        done
    done
    for routine in sorgqr dorgqr cungqr zungqr sormqr dormqr cunmqr zunmqr; do
        served $routine
    done
    expect 0 '^0$' sh -c 'grep -c "\"broken\": [1-9]" "$0" || true' "$work/report"
done
# For few right-hand sides, a solve takes the time of its factorisation, and is estimated by the
# rate of that.
expect 0 '^1\.050$' $python - "$work/report" <<'END'
import json, sys
each = {row["routine"]: row["estimated_original_seconds"] / row["calls"]
        for row in json.load(open(sys.argv[1]))["calls"]
        if row["m"] == 300 and row["n"] in (5, 300)}
print(f"{each['dgesv_'] / each['dgetrf_']:.3f}")     # (n^3/3 + 5 n^2) / (n^3/3)
END
expect 0 '^worst [0-9.]*e\+' $before LIMBER_CONTRACT=simulate=h100-bf16 $python \
    "$here/lapack.py" residuals 70 70
# A message that the contract is not kept names what a program would call.
expect 0 'not correct: .* computed dormqr_? \(part of qr, lstsq, eigh, svd\): .*LIMBER_NO_COMPILE' \
    $before LIMBER_CONTRACT=correct LIMBER_BACKEND=interp LIMBER_NO_COMPILE=1 \
    LIMBER_KERNELS=specialised LIMBER_CACHE_DIR="$work/cold" $python "$here/lapack.py" \
    residuals 70 70
lines 1 'computed dgetrf_? \(part of lu, solve, inv, det\): '
lines 1 'computed dtrtri_? \(part of inv\): '
lines 1 'computed dsyrk_?: |computed cblas_dsyrk: '
for contract in native correct; do
    expect 0 '^singular 41 [0-9.]*e-1[45]$' $before LIMBER_CONTRACT=$contract $python \
        "$here/lapack.py" corners
    for line in 'first True' 'gesv 41 True 41' 'potrf \[70, 70\]' 'trtri 70 True' \
        'trtrs 70 True' 'nan True' 'size 0 True' 'beside True' 'empty 0 0' \
        '(wrong True| .. On entry to DGETRF parameter number +4 .*)'; do
        lines 1 "^$line\$"
    done
done

# ---- calls that are forwarded to the program's LAPACK: instead of these, the BLAS calls that
# LAPACK makes are intercepted and counted ----
left() {  # rules, a pattern, whether the report has a line of it
    printf '%s\n' "$1" > "$work/rules"
    expect 0 '^worst' $before LIMBER_CONFIG="$work/rules" $python "$here/lapack.py" residuals 70 70
    expect 0 "^$3\$" sh -c 'grep -q "$0" "$1" && echo yes || echo no' "$2" "$work/report"
}
left 'contract native' '"dgetrf_".*"why_not": "under native the BLAS.s other routines"' no
left 'contract native' '"dgemm_".*"why_not"' yes
left 'contract bits=40' '"dpotrf_".*"why_not": "[a-zA-Z ]* by the standard error bound"' no
left 'contract reproducible' '"dgemm_".*"served": true' yes
left 'rule dgemm -> correct' '"dgemm_".*"served": true' yes
left 'rule dgemm -> correct' '"dgetrf_".*"served": true' no
left 'rule dge* -> correct' '"dgesv_".*"served": true' yes
finish
