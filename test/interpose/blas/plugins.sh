#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Plugins whose BLAS is loaded in a local scope: with a contract Limber computes, otherwise calls
# are forwarded to the plugin's own BLAS.
library=$1 host=$2
shift 2
here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library LIMBER_BACKEND=interp"

for plugin; do
    expect 0 '^4 products of its own' "$host" "$plugin"
    expect 0 '^4 products of its own' $before "$host" "$plugin"
    lines 1 '^right by address'
    expect 0 '^0 products of its own' $before LIMBER_CONTRACT=correct "$host" "$plugin"
    lines 1 '^right by address'
    expect 0 '^4 products of its own' $before LIMBER_CONTRACT=correct \
        LIMBER_SCHEME=fp32-f "$host" "$plugin"
done

# with two copies of the library the plugin's BLAS is still found
cp "$library" "$work/second.so"
two="env LD_PRELOAD=$library:$work/second.so LIMBER_BACKEND=interp LIMBER_VERBOSE=1"
expect 0 '^4 products of its own' $two LIMBER_CONTRACT=correct LIMBER_SCHEME=fp32-f "$host" "$1"
lines 4 'left to the BLAS'
expect 0 '^0 products of its own' $two LIMBER_CONTRACT=correct "$host" "$1"
finish
