#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Counts the instructions of whole products under QEMU, by Limber and by Debian's OpenBLAS for
# arm64: instructions of a second call, divided by its multiply-adds.  Nothing is timed.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 64 128 256
root=$(sed -n 's/^LIMBER_AARCH64_ROOT:PATH=//p' "$build/CMakeCache.txt")
sh "$source/tools/aarch64_root.sh" "$build/openblas" libopenblas0-pthread
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -o "$work/counter.so" "$source/tools/qemu_counter.c"
aarch64-linux-gnu-gcc --sysroot="$root" -O2 -I"$source/include" -o "$work/calls" \
    "$source/tools/aarch64_calls.c" -ldl

libraries=$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
libraries=$libraries:$build/openblas/usr/lib/aarch64-linux-gnu
openblas=$build/openblas/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0
blas=$build/tools/interpose/blas/liblimber_blas.so

# Prints the number of instructions that calls of a routine execute.
instructions() {    # CPU, OpenBLAS's core, library, routine, n, calls
    qemu-aarch64 -cpu "$1" -plugin "$work/counter.so" -d plugin -D "$work/log" \
        -E OPENBLAS_CORETYPE="$2" -E OPENBLAS_NUM_THREADS=1 -E LIMBER_THREADS=1 \
        -E LIMBER_KERNELS=prebuilt -E LIMBER_CACHE=off -E LIMBER_CONTRACT=native \
        "$root/lib/ld-linux-aarch64.so.1" --library-path "$libraries" \
        "$work/calls" "$3" "$4" "$5" "$6"
    sed -n 's/^instructions //p' "$work/log"
}
# Prints a row of the table: instructions for each multiply-add of one call, for each size.
row() {     # CPU, core, name, library, routine, sizes
    cpu=$1 core=$2 name=$3 library=$4 routine=$5
    shift 5
    printf '%s, %s, %s:' "$cpu" "$name" "$routine"
    for n in "$@"; do
        one=$(instructions "$cpu" "$core" "$library" "$routine" "$n" 2)
        two=$(instructions "$cpu" "$core" "$library" "$routine" "$n" 3)
        awk -v n="$n" -v d=$((two - one)) 'BEGIN { printf " %d %.4f", n, d / n / n / n }'
    done
    echo
}
sve=max,sme=off,sve-default-vector-length=32
for routine in ${ROUTINES:-dgemm_ sgemm_}; do
    row neoverse-n1 NEOVERSEN1 OpenBLAS "$openblas" "$routine" "$@"
    row neoverse-n1 - Limber "$blas" "$routine" "$@"
    row a64fx A64FX OpenBLAS "$openblas" "$routine" "$@"
    row a64fx - Limber "$blas" "$routine" "$@"
    row $sve NEOVERSEV1 OpenBLAS "$openblas" "$routine" "$@"
    row $sve - Limber "$blas" "$routine" "$@"
done
for cpu in cortex-a57 neoverse-n1 a64fx max,sme=off,sve-default-vector-length=16 $sve; do
    row "$cpu" - Limber "$build/liblimber.so" limber_gemm "$@"
done
