#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds and tests: with clang and sanitizers, then with the system's compiler.  A build with clang
# alone would say nothing more: warnings are errors in both, and the sanitizers' build has all
# files.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
# shellcheck disable=SC2086
setup $BUILD_PACKAGES $TEST_PACKAGES
sh tools/aarch64_root.sh build-aarch64-root ||      # for the test `aarch64`
    echo "no libraries for AArch64: it will not be tested"

launcher=
if command -v ccache > /dev/null; then
    launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
fi
# Kernels that the stand-in for NVRTC compiled for one build serve the other.
SIMT_CACHE=$PWD/build-test/simt-cache
export SIMT_CACHE
mkdir -p "$SIMT_CACHE"
find "$SIMT_CACHE" -type f -atime +7 -delete

build() {  # folder, options
    folder=$1
    shift
    cmake -S . -B "$folder" -G Ninja -DLIMBER_WERROR=ON -DLIMBER_TESTS=ON $launcher "$@" > /dev/null
    cmake --build "$folder"
}
build build-asan -DCMAKE_C_COMPILER=clang-19 -DLIMBER_SANITIZE=ON
ctest --test-dir build-asan -j "$(nproc)" --output-on-failure
build build-test
ctest --test-dir build-test -j "$(nproc)" --output-on-failure
