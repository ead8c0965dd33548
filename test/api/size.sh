#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The library must be smaller than 10 MiB without debugging information: size.sh LIBRARY
set -eu
most=10485760
command -v strip > /dev/null || { echo "strip is not installed"; exit 77; }
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
strip -o "$copy" "$1"
size=$(wc -c < "$copy")
echo "$size bytes, at most $most"
[ "$size" -lt "$most" ]
