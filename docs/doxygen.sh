#!/bin/sh
# Renders the reference of the C interface.  Fails where Doxygen complains or finds a public function
# without a comment; fields that a structure's comment describes need none of their own.
set -eu
doxyfile=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
doxygen "$doxyfile" 2> "$folder/warnings" || { cat "$folder/warnings"; exit 1; }
wrong=$(grep -E 'warning:|error:' "$folder/warnings" |
        grep -vE 'is not documented\.$' || true)
functions=$(grep -E '\(function\).* is not documented\.$' "$folder/warnings" || true)
[ -z "$wrong$functions" ] || { printf '%s\n' "$wrong" "$functions"; exit 1; }
echo "$folder/html/index.html"
