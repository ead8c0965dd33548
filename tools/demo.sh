#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds Limber in build/ and runs its demonstration, also on real data if LIMBER_DATA names a
# folder that has them.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
# shellcheck disable=SC2086
setup $BUILD_PACKAGES
cmake -S . -B build -G Ninja -DLIMBER_TESTS=OFF > build.log 2>&1 || { cat build.log; exit 1; }
cmake --build build >> build.log 2>&1 || { cat build.log; exit 1; }
rm -f build.log
exec build/tools/limber demo
