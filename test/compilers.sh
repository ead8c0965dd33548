#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compiles the library's sources with every GCC and Clang of this machine (GCC 10 to 14, Clang 14 to
# 22, found by their names with numbers), with all warnings as errors.  Leaves out the compilers of
# the build (GCC 12, Clang 19 on Debian 12), which compile everything anyway.
#
#   compilers.sh SOURCE BUILD [COMPILER...]
set -eu
source=$1 build=$2
launcher=
! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
found=
shift 2
[ $# -gt 0 ] || set -- gcc-10 gcc-11 gcc-13 gcc-14 clang-14 clang-15 clang-16 clang-17 clang-18 \
    clang-20 clang-21 clang-22
mkdir -p "$build"
for compiler in "$@"; do
    command -v "$compiler" > /dev/null || continue
    found="$found $compiler"
    here=$build/$compiler
    cmake -S "$source" -B "$here" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DLIMBER_LLVM=OFF \
        -DLIMBER_TOOLS=OFF -DLIMBER_TESTS=OFF -DLIMBER_FORTRAN=OFF -DLIMBER_WERROR=ON \
        -DCMAKE_BUILD_TYPE=Debug $launcher > "$build/log" 2>&1 || { cat "$build/log"; exit 1; }
    ninja -C "$here" > "$build/log" 2>&1 || { tail -n 40 "$build/log"; exit 1; }
    "$compiler" -I"$source/include" "$source/test/bare.c" "$here/liblimber.so" -Wl,-rpath,"$here" \
        -lpthread -o "$here/program"
    "$here/program" > "$build/log" 2>&1 || { cat "$build/log"; exit 1; }
done
[ -n "$found" ] || { echo "skipped: no compiler beside the build's is installed"; exit 77; }
echo "built and run:$found"
