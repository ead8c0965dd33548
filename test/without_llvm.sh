#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the library, its tools and all tests as on a machine without LLVM (tools/gpu.sh), and runs
# one of the tests.  The optimiser is off, and ccache is used if it is installed.
#
#   without_llvm.sh SOURCE BUILD
set -eu
source=$1 build=$2
command -v ninja > /dev/null || { echo "skipped: ninja is not installed"; exit 77; }
launcher=
! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
mkdir -p "$build"
cmake -S "$source" -B "$build" -G Ninja -DLIMBER_LLVM=OFF -DLIMBER_TESTS=ON -DLIMBER_FORTRAN=OFF \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 $launcher > "$build/log" 2>&1 ||
    { cat "$build/log"; exit 1; }
ninja -C "$build" > "$build/log" 2>&1 || { grep -A 20 FAILED "$build/log"; exit 1; }
"$build/test/test_ir" > "$build/log" 2>&1 || { cat "$build/log"; exit 1; }
echo "$(find "$build/test" -maxdepth 1 -name 'test_*' | wc -l) programs built without LLVM"
