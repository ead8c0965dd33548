#!/bin/sh
# The library's binary interface beside that of version 0.2: what abidiff finds, other than what was
# added, breaks programs that are compiled already.  Renews the record of an unreleased version:
#   abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-corpus-path
#         --no-show-locs --no-comp-dir-path --out-file test/api/abi/limber-0.2.abi liblimber.so
set -eu
frozen=$1 library=$2 headers=$3
command -v abidiff > /dev/null || { echo "abidiff is not installed"; exit 77; }
status=0
abidiff --no-added-syms --drop-private-types --headers-dir2 "$headers" "$frozen" "$library" ||
    status=$?
# bit 3 (8): an incompatible change; bit 2 (4) alone: additions, such as appended fields
[ $((status & 8)) = 0 ] && [ $((status & 3)) = 0 ]
