#!/bin/sh
# Runs a program that multiplies on a device by a mock cuBLAS, with liblimber_cublas preloaded, on
# the libraries that run kernels on the CPU.
program=$1 library=$2
export LIMBER_CUDA=$3 LIMBER_NVRTC=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
LIMBER_CACHE_DIR=$work/cache
export LIMBER_CACHE_DIR
unset LIMBER_BACKEND

# expect HOW PATTERN VARIABLES...: stderr must match PATTERN, or be empty if PATTERN is
expect() {
    how=$1 pattern=$2
    shift 2
    env LD_PRELOAD="$library" "$@" "$program" "$how" > "$work/out" 2> "$work/err"
    status=$?
    if [ -z "$pattern" ]; then
        [ $status = 0 ] && [ ! -s "$work/err" ] && return
    elif [ $status = 0 ] && grep -Eq -- "$pattern" "$work/err"; then
        return
    fi
    failures=$((failures + 1))
    echo "FAILED: $how $*: status $status"
    head -n 20 "$work/out" "$work/err"
}

expect served '' LIMBER_CONTRACT=correct SIMT_CC=90
expect served 'cublasZgemm_v2 m=5 n=4 k=7: .* by cuda, correct' LIMBER_CONTRACT=correct SIMT_CC=90 \
       LIMBER_VERBOSE=1
expect three 'cublasZgemm3m m=5 n=4 k=7: native by cuda, fast, three products' SIMT_CC=90 \
       LIMBER_CONTRACT=fast LIMBER_SCHEME=native LIMBER_VERBOSE=1
expect order '' LIMBER_CONTRACT=reproducible SIMT_CC=90
expect capture 'left to cuBLAS: its stream is being captured' LIMBER_CONTRACT=correct SIMT_CC=80 \
       LIMBER_VERBOSE=1
expect passed '' SIMT_CC=90
expect passed 'backend that does not see' SIMT_CC=90 LIMBER_CONTRACT=correct LIMBER_BACKEND=interp \
       LIMBER_VERBOSE=1

# ---- captured operands, copied from the device ----
. "$(dirname "$0")/../../support/python.sh"
python=$(python_with numpy)
if [ -n "$python" ]; then
    expect passed '' SIMT_CC=90 LIMBER_CAPTURE="$work/kept,64M" OPERANDS="$work/told"
    $python "$(dirname "$0")/capture.py" "$work/kept" "$work/told" || failures=$((failures + 1))
else
    echo "no NumPy: what is captured is not compared"
fi

[ $failures = 0 ] && echo "calls of cuBLAS on a device are served and passed on"
exit $failures
