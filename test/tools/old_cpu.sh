#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a CPU older than the least that kernels are made for, the interpreter computes, and one line
# says so.
#
#   old_cpu.sh LIMBER
set -eu
command -v qemu-x86_64 > /dev/null || { echo "skipped: qemu-x86_64 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '1,2\n3,4\n' > "$work/a.csv"
LIMBER_CACHE=off qemu-x86_64 -cpu Nehalem "$1" gemm "$work/a.csv" "$work/a.csv" -o csv:- \
    --contract correct > "$work/out" 2> "$work/told"
cat "$work/out" "$work/told"
[ "$(grep -c 'interpreter.*this CPU lacks AVX2 and FMA' "$work/told")" = 1 ]
[ "$(tr '\n' ' ' < "$work/out")" = "7,10 15,22 " ]
