#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests limber.jax with JAX 0.5 and the newest, which pip installs in folders of their own.
# Argument: the package.  The environment names the library.
package=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/python.sh"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 JAX_PLATFORMS=cpu
kept=${XDG_CACHE_HOME:-$HOME/.cache}/limber-tests/jax
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LIMBER_CACHE_DIR="$work/cache"
failed=0 ran=0
for wanted in jax==0.5.3 newest; do
    p=python3
    if [ $wanted = newest ]; then
        p=$(newest_python)
        wanted=jax==$(newest_version "$p" jax)
        [ "$wanted" != jax== ] ||
            { echo "no package index: the newest JAX is not tested"; continue; }
    fi
    tag=$("$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue
    if ! fetch "$p" "$kept/$wanted-$tag" "$wanted"; then
        echo "pip cannot install $wanted for Python $tag ($(tail -n 1 "$work/log")): not tested"
        continue
    fi
    PYTHONPATH="$kept/$wanted-$tag" "$p" -c 'import jaxlib; print("jaxlib", jaxlib.__version__)'
    PYTHONPATH="$kept/$wanted-$tag:$package" "$p" "$here/test_jax.py" > "$work/log" 2>&1 ||
        { cat "$work/log"; failed=1; }
    ran=1
done
[ $failed = 0 ] || exit 1
[ $ran = 1 ] || { echo "no JAX: skipped"; exit 77; }
