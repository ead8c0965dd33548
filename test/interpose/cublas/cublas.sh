#!/bin/sh
# Runs a program with liblimber_cublas preloaded before the mock cuBLAS, and checks that settings of
# the environment take effect and are reported.
program=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
LIMBER_CACHE_DIR=$work/cache
export LIMBER_CACHE_DIR

# expect HOW PATTERN LINES VARIABLES...: stderr must have at most LINES lines, one of which matches
# PATTERN
expect() {
    how=$1 pattern=$2 most=$3
    shift 3
    env LD_PRELOAD="$library" "$@" "$program" "$how" > "$work/out" 2> "$work/err"
    status=$?
    lines=$(wc -l < "$work/err")
    if [ $status != 0 ] || [ "$lines" -gt "$most" ] || ! grep -Eq -- "$pattern" "$work/err"; then
        [ -z "$pattern" ] && [ $status = 0 ] && [ "$lines" = 0 ] && return
        failures=$((failures + 1))
        echo "FAILED: $how $*: status $status, $lines lines"
        head -n 20 "$work/out" "$work/err"
    fi
}

# ---- calls that Limber computes ----
expect served '' 0 LIMBER_CONTRACT=correct LIMBER_BACKEND=auto
expect served '' 0 LIMBER_CONTRACT=correct LIMBER_BACKEND=interp
expect served 'cublasDgemm_v2 m=5 n=4 k=7: .* by interp, correct' 100000 \
       LIMBER_CONTRACT=correct LIMBER_BACKEND=interp LIMBER_VERBOSE=1
expect served 'left to cuBLAS: its arguments are for cuBLAS to refuse' 100000 \
       LIMBER_CONTRACT=correct LIMBER_BACKEND=interp LIMBER_VERBOSE=1
expect served 'left to cuBLAS: run: batch.c = 0 with 3 products' 100000 \
       LIMBER_CONTRACT=correct LIMBER_BACKEND=interp LIMBER_VERBOSE=1
expect served ': ozaki2 by ' 100000 \
       LIMBER_CONTRACT=bits=140 LIMBER_BACKEND=auto LIMBER_SCHEME=ozaki2 LIMBER_VERBOSE=1
expect order '' 0 LIMBER_CONTRACT=reproducible LIMBER_BACKEND=auto
expect order '' 0 LIMBER_CONTRACT=reproducible LIMBER_BACKEND=interp

# ---- calls that are forwarded to cuBLAS ----
expect passed '' 0 LIMBER_BACKEND=interp
expect passed 'left to cuBLAS: LIMBER_CONTRACT is not set' 100000 LIMBER_VERBOSE=1
expect passed 'LIMBER_CONTRACT = "bits=161" is none of' 1 LIMBER_CONTRACT=bits=161
expect passed 'LIMBER_CONTRACT = "exactly" is none of' 1 LIMBER_CONTRACT=exactly
expect passed 'LIMBER_SCHEME = "ozaki3" is no scheme' 1 LIMBER_CONTRACT=correct LIMBER_SCHEME=ozaki3
expect passed 'none is named .LIMBER_SCHEME' 1 LIMBER_CONTRACT=fast
expect passed 'LIMBER_VERBOSE = "yes" is no number' 1 LIMBER_CONTRACT=correct LIMBER_VERBOSE=yes
expect passed 'is no backend of this build' 1 LIMBER_CONTRACT=correct LIMBER_BACKEND=abacus

# ---- captured operands ----
. "$(dirname "$0")/../../support/python.sh"
python=$(python_with numpy)
if [ -n "$python" ]; then
    expect passed '' 0 LIMBER_CAPTURE="$work/kept,64M" OPERANDS="$work/told"
    $python "$(dirname "$0")/capture.py" "$work/kept" "$work/told" || failures=$((failures + 1))
    grep -q '"format": "i8"' "$work/kept/index.jsonl" || failures=$((failures + 1))
else
    echo "no NumPy: what is captured is not compared"
fi
expect passed 'few.: the limit of bytes is reached; 1 products are kept' 1 \
       LIMBER_CAPTURE="$work/few,1000"

[ $failures = 0 ] && echo "calls of cuBLAS are served and passed on"
exit $failures
