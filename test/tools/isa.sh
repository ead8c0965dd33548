#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# LIMBER_ISA limits the instruction set of a process.  Contracts that determine the bits give equal
# bits with every instruction set.
#   isa.sh LIMBER
unset LIMBER_ISA
limber=$1
. "$(dirname "$0")/../support/expect.sh"
awk 'BEGIN { for (i = 0; i < 70; i++) for (j = 0; j < 70; j++)
                 printf "%.3f%s", (i * 31 + j * 17) % 64 / 7 - 3, j < 69 ? "," : "\n" }' \
    > "$work/a.csv"

here=$("$limber" version | sed -n 's/^CPU .*kernels for //p')
case $here in avx* | amx) ;; *) echo "SKIPPED: no kernels for x86-64 here"; exit 77 ;; esac
expect 0 'kernels for avx2$' env LIMBER_ISA=avx2 "$limber" version
expect 0 "kernels for $here\$" env LIMBER_ISA=all "$limber" version
case $here in
avx512* | amx) expect 0 'kernels for avx512$' env LIMBER_ISA=avx512 "$limber" version ;;
*) expect 0 "kernels for avx2\$" env LIMBER_ISA=avx512 "$limber" version ;;
esac
expect 1 'LIMBER_ISA = "sse" is none of avx2, avx512, all' env LIMBER_ISA=sse "$limber" gemm \
    "$work/a.csv" "$work/a.csv"
for contract in reproducible correct; do
    for isa in avx2 avx512 all; do
        expect 0 '' env LIMBER_ISA=$isa "$limber" gemm "$work/a.csv" "$work/a.csv" \
            --contract $contract -o "$work/$isa.csv"
        expect 0 '' cmp "$work/avx2.csv" "$work/$isa.csv"
    done
done
finish
