#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Records the library's binary interface and holds it against that of version 0.2 (abi.py).  abidiff
# is not used: given the headers' folder it reports nothing, and where additions are allowed too
# little.  The record of an unreleased version is renewed by a copy of the file that this writes:
#   sh test/api/abi.sh test/api/abi/limber-0.2.abi liblimber.so include NEW
set -eu
frozen=$1 library=$2 headers=$3 now=${4:-}
command -v abidw > /dev/null || { echo "abidw is not installed"; exit 77; }
if [ -z "$now" ]; then
    now=$(mktemp)
    trap 'rm -f "$now"' EXIT
fi
abidw --headers-dir "$headers" --drop-private-types --exported-interfaces-only --no-corpus-path \
    --no-show-locs --no-comp-dir-path --out-file "$now" "$library"
sed -i "s|path='$(cd "$headers/.." && pwd)/|path='|" "$now"     # where the sources lie is no matter
python3 "$(dirname "$0")/abi.py" "$frozen" "$now"
