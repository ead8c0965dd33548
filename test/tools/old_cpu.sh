#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a CPU that lacks some of x86-64-v3, which kernels need, the interpreter computes, and one line
# reports this.
#   old_cpu.sh LIMBER
set -eu
command -v qemu-x86_64 > /dev/null || { echo "skipped: qemu-x86_64 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '1,2\n3,4\n' > "$work/a.csv"

# Computes a product as on an old CPU, and checks it.
product() {     # command line, CPU, contract
    LIMBER_CACHE=off qemu-x86_64 -cpu "$2" "$1" gemm "$work/a.csv" "$work/a.csv" -o csv:- \
        --contract "$3" > "$work/out" 2> "$work/told" || { cat "$work/told"; exit 1; }
    [ "$(tr '\n' ' ' < "$work/out")" = "7,10 15,22 " ]
}
# Each feature by QEMU's name and by the manual's.  Without BMI1, QEMU has no BZHI, which the C
# library uses.
for lack in avx2:AVX2 fma:FMA bmi2:BMI2 abm:LZCNT movbe:MOVBE f16c:F16C popcnt:POPCNT; do
    product "$1" "Haswell,-${lack%:*}" native
    cat "$work/told"
    [ "$(grep -c "interpreter.*this CPU lacks ${lack#*:} of x86-64-v3" "$work/told")" = 1 ]
done
product "$1" Nehalem correct
[ "$(grep -c 'interpreter.*this CPU lacks AVX, .*MOVBE.* of x86-64-v3' "$work/told")" = 1 ]
product "$1" Haswell native         # a CPU that has all of x86-64-v3
! grep interpreter "$work/told"
