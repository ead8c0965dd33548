#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds and tests: with the system's compiler, with clang, and under sanitizers.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
# shellcheck disable=SC2086
setup $BUILD_PACKAGES $TEST_PACKAGES

build() {  # folder, options
    folder=$1
    shift
    cmake -S . -B "$folder" -G Ninja -DLIMBER_WERROR=ON -DLIMBER_TESTS=ON "$@" > /dev/null
    cmake --build "$folder"
}
build build-clang -DCMAKE_C_COMPILER=clang-19
build build-asan -DCMAKE_C_COMPILER=clang-19 -DLIMBER_SANITIZE=ON
ctest --test-dir build-asan -j "$(nproc)" --output-on-failure
build build-test
ctest --test-dir build-test -j "$(nproc)" --output-on-failure
