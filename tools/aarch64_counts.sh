#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Counts cycles of the main loops of AArch64's register tiles with llvm-mca's models, without
# hardware.
set -eu
build=$1
root=$(sed -n 's/^LIMBER_AARCH64_ROOT:PATH=//p' "$build/CMakeCache.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes the main loop of a tile to $work/name.s.
loop() {    # name, unit, rows, columns, group, bits, isa, features
    qemu-aarch64 -L "$root" "$build/limber_tile_text" tile "$2" "$3" "$4" "$5" 0 "$6" "$7" |
        llc-19 -O1 -mtriple=aarch64-unknown-linux-gnu -mattr="$8" -o - |
        awk '/^\.LBB.*%wide$/ { on = 1 } on { print } on && /b\.(le|ge|lt|gt)/ { exit }' \
            > "$work/$1.s"
}
loop FP64 f64 12 4 1 128 neon +neon
loop FP32 f32 12 8 1 128 neon +neon
loop sdot i8 12 8 4 128 dotprod +neon,+dotprod
loop usmmla i8 12 8 8 128 i8mm +neon,+dotprod,+i8mm
# SVE's loops have the same instructions at 256 and at 512 bits.
loop FP64-SVE f64 12 8 1 256 sve256 +neon,+sve
loop FP32-SVE f32 12 16 1 256 sve256 +neon,+sve
loop sdot-SVE i8 12 16 4 256 sve256 +neon,+sve
loop usmmla-SVE i8 8 16 8 256 sve256i8mm +neon,+sve,+i8mm

for core in neoverse-n1 neoverse-n2 neoverse-v1 neoverse-v2 a64fx apple-m1; do
    # usmmla does not exist on n1, a64fx, m1
    printf '%s' "$core"
    for name in FP64 FP32 sdot usmmla FP64-SVE FP32-SVE sdot-SVE usmmla-SVE; do
        count=$(grep -cE '^[[:space:]](fmla|fmad|sdot|usmmla)' "$work/$name.s")
        llvm-mca-19 -mtriple=aarch64 -mcpu=$core -mattr=+dotprod,+i8mm,+sve -iterations=1000 \
            "$work/$name.s" 2> "$work/error" |
            awk -v n="$count" -v name="$name" \
                '/^Total Cycles/ { printf ", %s %.2f a cycle", name, 1000 * n / $3 }'
    done
    echo
done
