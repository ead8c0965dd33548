#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares byte positions in fragments and tiles, and the instructions of device.h, with CuTe and
# CUTLASS from Python's package index.  Without them the test is skipped.  Then plants faults in
# copies of the kernels, which must be found.  Usage: layouts.sh KERNELS
set -eu
kernels=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$here/fetch.sh"
fetch nvidia-cutlass nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl || {
    echo "pip cannot install CUTLASS and CUDA's headers: nothing is compared"
    exit 77
}
tensor=$(find "$work/pip" -path '*/include/cute/tensor.hpp')
cutlass=${tensor%/cute/tensor.hpp}
runtime=$(dirname "$(find "$work/pip" -name cuda_runtime_api.h)")

# CuTe takes longest to compile.  Its tables do not depend on the kernels, so they are made once and
# kept in LIMBER_TEST_CUBINS for later builds.
key=$({ c++ --version; cat "$here/layouts_cute.cc" "$cutlass/cutlass/version.h"; } |
    sha256sum | cut -c1-32)
kept=${LIMBER_TEST_CUBINS:-$work}/$key.kept.tables
if [ ! -s "$kept" ]; then
    c++ -std=c++17 -w -I"$cutlass" -I"$runtime" -I"$runtime/cccl" "$here/layouts_cute.cc" \
        -o "$work/cute"
    "$work/cute" "$work/made" > /dev/null
    cp "$work/made" "$kept.$$"
    mv "$kept.$$" "$kept"
fi
cp "$kept" "$work/tables"
headers=$(find "$cutlass/cute/arch" "$cutlass/cutlass/arch" "$runtime/cccl/cuda/__ptx" \
    -name '*.h*' | tr '\n' ' ')

# Compares the kernels' layouts with CUTLASS's; fails if they differ.
compare() {  # kernels, program
    rm -rf "$work/out"
    mkdir "$work/out"
    python3 "$here/layouts.py" "$1" "$headers" "$work/out" > "$work/said" &&
        c++ -std=c++17 -w -I"$work/out" "$here/$2.cc" -o "$work/out/$2" >> "$work/said" 2>&1 &&
        "$work/out/$2" "$work/tables" >> "$work/said"
}

# Checks that a fault in the kernels' source is found.
find_fault() {  # program, file, what sed does there
    rm -rf "$work/faulty"
    cp -r "$kernels" "$work/faulty"
    sed "$3" "$kernels/$2" > "$work/faulty/$2"
    if cmp -s "$kernels/$2" "$work/faulty/$2"; then
        echo "$2: $3 changes nothing"
        exit 1
    fi
    if compare "$work/faulty" "$1" ||
        ! grep -q '^[1-9][0-9]* numbers compared, [1-9]\|not in CUTLASS: [^n]' "$work/said"; then
        echo "$2: $3: not found"
        cat "$work/said"
        exit 1
    fi
    faults=$((faults + 1))
}

for program in layouts layouts_scaled; do
    compare "$kernels" $program || {
        cat "$work/said"
        exit 1
    }
    tail -n 1 "$work/said"
done
faults=0
find_fault layouts tile.h 's/(l >> 2) + 8 \* (q >> 1)/(l >> 2) + 8 * (q \& 1)/'
find_fault layouts warp.h 's/(l >> 4) \* 8,/(l >> 3 \& 1) * 8,/'
find_fault layouts warp.h 's/line_b + 8 \* j + g/line_b + 8 * j + t/'
find_fault layouts warp.h 's/8 \* (l \& 3) + (l >> 2)) \* SCALES/8 * (l >> 3) + (l \& 7)) * SCALES/'
find_fault layouts stage.h 's/: r & 7;/: r >> 1 \& 7;/'
find_fault layouts device.h 's/(uint64_t)64 << 32/(uint64_t)32 << 32/'
find_fault layouts device.h 's/(uint64_t)2 << 61/(uint64_t)4 << 61/'
find_fault layouts device.h 's/a << 7 | b << 10/b << 7 | a << 10/'
find_fault layouts device.h 's/MMA_FLOAT("m16n8k16", "bf16")/MMA_FLOAT("m16n8k32", "bf16")/'
find_fault layouts_scaled device.h 's/(uint64_t)8 << 32/(uint64_t)16 << 32/'
find_fault layouts_scaled device.h 's/e8m0 << 23/e8m0 << 22/'
find_fault layouts_scaled mx_load.h 's/line % 32 \* 16/line % 32 * 8/'
find_fault layouts_scaled tensor.h 's/q \* each \/ 4 \* 4)/q * each)/'
echo "$faults planted faults found"
