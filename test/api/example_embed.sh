#!/bin/sh
# Tests examples/embed.c: results are right from every thread, with a cache in memory only and with
# a cache folder of its own.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/out"; exit 1; }
export LIMBER_KERNELS="${LIMBER_KERNELS:-specialised}"

for directory in "" "$work/cache"; do
    "$1" ${directory:+"$directory"} > "$work/out"
    grep -q '^5 lines in the log; elements or calls that are wrong: 0$' "$work/out" || fail
    grep -q '^refused: BAD_ARGUMENT ' "$work/out" || fail
done
[ "$LIMBER_KERNELS" = prebuilt ] && exit    # prebuilt kernels are not stored on disk
grep -q "^kernels on disk: [1-9].*; directory: $work/cache\$" "$work/out" || fail
grep -Eq ' (hit|interpreter) ' "$work/out" || fail
