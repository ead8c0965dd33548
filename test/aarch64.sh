#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the library and some tests for AArch64 and runs them under qemu-user, on CPUs without and
# with dot products, and on one with all that QEMU has.  An emulator is slow, and libLLVM's work in
# it more so: few tests, with few numbers (EMULATED of support.h).
#
#   aarch64.sh SOURCE BUILD [TEST...]      the tests by name; default: a choice
#   LIMBER_AARCH64_ROOT    the folder with libraries (tools/aarch64_root.sh)
set -eu
source=$1 build=$2
shift 2
root=${LIMBER_AARCH64_ROOT:-$source/build-aarch64-root}
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(uname -m)" != aarch64 ] || skip "this machine is one: its own tests say more"
for tool in aarch64-linux-gnu-gcc qemu-aarch64 ninja; do
    command -v $tool > /dev/null || skip "$tool is not installed"
done
[ -e "$root/.packages" ] || skip "no AArch64 libraries in $root (sh tools/aarch64_root.sh $root)"

# Kernels of the library itself are met on every CPU, those that libLLVM makes on one.
library="test_object test_zeros test_transpose bare_test_run bare_test_targets bare_test_conv
bare_test_modes bare_test_prebuilt test_cache test_seal"
compiler="test_run test_hostile"
[ $# = 0 ] || { library=$* compiler=; }

mkdir -p "$build"
launcher=
! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/aarch64.cmake \
    -DLIMBER_AARCH64_ROOT="$root" -DLIMBER_WERROR=ON -DLIMBER_TESTS=ON -DLIMBER_FORTRAN=OFF \
    $launcher > "$build/log" 2>&1 || { cat "$build/log"; exit 1; }
# shellcheck disable=SC2046
cmake --build "$build" --target $(echo $library $compiler corpus_replay | sed 's/bare_//g') \
    > "$build/log" 2>&1 ||
    { tail -n 40 "$build/log"; exit 1; }

# Bytes the other way round are refused before anything is built.
if cmake -S "$source" -B "$build-big" -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/aarch64.cmake \
    -DLIMBER_AARCH64_ROOT="$root" -DCMAKE_C_FLAGS=-mbig-endian \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY > "$build/log" 2>&1; then
    echo "a big-endian build was not refused"
    exit 1
fi
grep -q "for little-endian machines" "$build/log" || { cat "$build/log"; exit 1; }
rm -rf "$build-big"

run() {     # CPU, tests
    echo "== $1"
    QEMU_CPU=$1 ctest --test-dir "$build" -j "$(nproc)" -R "^($(echo $2 | tr ' ' '|'))\$" \
        --output-on-failure
}
run cortex-a57 "$library"                               # ARMv8.0
run neoverse-n1 "$library"                              # dot products
run max,sve-default-vector-length=64 "$library"         # INT8 matrix products, SVE of 512 bits
[ -z "$compiler" ] || run neoverse-n1 corpus            # what expected.txt has from x86-64
[ -z "$compiler" ] || run max,sve-default-vector-length=16 "$compiler"
