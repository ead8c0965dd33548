#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Groups of rows of `limber bench` that take long.  Each row checks its result.
limber=$1
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2

expect 0 '"work":.*"small FP64, bound function"' "$limber" bench --rows small --runs 1 --json
expect 0 '^batch of 100, FP64 +128 ' "$limber" bench --rows batch --runs 1
expect 0 '^bias, relu, f32 to f32, k 256 +1024 .* x without' \
    "$limber" bench --rows epilogues --runs 1
expect 0 '^1x1 64 -> 384, 14, i32 to i64 .*x the product' "$limber" bench --rows windows --runs 1
expect 0 '^sums cancel exactly, correct +1024 ' "$limber" bench --rows hostile --runs 1
expect 0 'times of the CPU.*mean of 1, FP32 NHWC' \
    sh -c '"$1" bench --rows conv/bert --runs 1 --cpu-time | tr "\n" " "' sh "$limber"
finish
