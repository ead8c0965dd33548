#!/bin/sh
# Compares the Fortran module's types with C's, and runs the module's test and example.
set -eu
layout=$1 fortran_layout=$2 test=$3 example=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LIMBER_CACHE_DIR="$work/cache"

"$layout" | sort > "$work/c"
"$fortran_layout" | sort > "$work/fortran"
diff "$work/c" "$work/fortran"
"$test"
"$example"
