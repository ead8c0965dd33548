#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Counts the function calls of a warm call before its first operand is packed, and the functions
# called.  Inlined functions do not count, nor do those of the C library and those that read the
# lines of operands, which are the scan itself.
#
#   warm.sh PROGRAM [CONTRACT=MOST...]    status 1: there are more calls
#   CALLS_SHOW=1                          prints each of them
set -eu
program=$1 here=$(dirname "$0")
shift
for tool in gdb nm; do
    command -v $tool > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm "$program" | awk '$2 ~ /^[tT]$/ && $3 ~ /^[a-z]/ &&
    $3 !~ /^(main|counting_begins|number|frame_dummy|(de)?register_tm_clones)$/ &&
    $3 !~ /^(limber_measure_|resolve_line|load_line)/ { print $1, $3 }' \
    > "$work/functions"
status=0
for limit in "${@:-correct=}"; do
    contract=${limit%%=*} most=${limit#*=}
    CALLS_FUNCTIONS=$work/functions gdb -q -batch -x "$here/count.py" \
        --args "$program" "$contract" > "$work/out" 2>&1 || true
    if ! grep -q '^calls: [0-9]' "$work/out"; then
        tail -n 3 "$work/out"
        echo "skipped: gdb runs no program here"
        exit 77
    fi
    sed -n "s/^calls:/$contract:/p; s/^call: //p" "$work/out"
    calls=$(sed -n 's/^calls: \([0-9]*\) .*/\1/p' "$work/out")
    [ -z "$most" ] || [ "$calls" -le "$most" ] ||
        { echo "$contract: at most $most calls are wanted"; status=1; }
done
exit $status
