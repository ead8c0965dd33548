#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests the recipes of Spack and conda and the citation file, each by its own program if pip has
# one.
set -eu
source=$1
here=$(dirname "$0")
command -v python3 > /dev/null || { echo "python3 is absent: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/recipes.py" spack "$source"      # Spack itself is on no package index
if python3 -m venv "$work/venv" > "$work/log" 2>&1 &&
    "$work/venv/bin/pip" install -q cffconvert py-rattler-build > "$work/log" 2>&1; then
    "$work/venv/bin/cffconvert" --validate -i "$source/CITATION.cff"
    "$work/venv/bin/python" "$here/recipes.py" conda "$source"
else
    echo "pip cannot install cffconvert and py-rattler-build ($(tail -n 1 "$work/log")): the" \
        "citation and conda's recipe are not read"
fi
