#!/bin/sh
# Compares with PyTorch, in the first Python that has it and NumPy.  The environment names the
# library.
set -eu
package=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$package${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export LIMBER_CACHE_DIR="$work/cache"

. "$here/../support/python.sh"
python=$(python_with torch,numpy)
[ -n "$python" ] || { echo "no Python with PyTorch and NumPy: skipped"; exit 77; }
$python "$here/compare_torch.py"
