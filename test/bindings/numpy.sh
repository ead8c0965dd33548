#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests limber.numpy with the NumPy at hand, and with others that pip installs in folders of their
# own.  Arguments: the package, and any word for all sizes and instruction sets, and for NumPys
# that pip fetches.  The environment names the library.  With LIMBER_TEST_LONG, NumPy's own tests of
# products run on these loops, too.
package=$1 whole=${2:+whole}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/python.sh"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
kept=${XDG_CACHE_HOME:-$HOME/.cache}/limber-tests/numpy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LIMBER_CACHE_DIR="$work/cache"
failed=0 ran=0

# Tests one NumPy.  Arguments: Python, folder of NumPy or nothing.
try() {
    version=$(PYTHONPATH="$2" "$1" -c 'import numpy; print(numpy.__version__)') || return
    install='import limber.numpy; limber.numpy.install()'
    if ! answer=$(PYTHONPATH="$2:$package" "$1" -c "$install" 2>&1); then
        case $answer in
        *"NumPy $version is none of"*) echo "NumPy $version is left alone: not tested" ;;
        *) echo "$answer"; failed=1 ;;
        esac
        return
    fi
    echo "NumPy $version"
    # shellcheck disable=SC2086
    PYTHONPATH="$2:$package" "$1" "$here/test_numpy.py" $whole > "$work/log" 2>&1 ||
        { cat "$work/log"; failed=1; }
    grep '^skipped: ' "$work/log"
    ran=1
}

python=$(python_with numpy)
[ -z "$python" ] || try "$python" ""
for version in ${whole:+1.26.4 2.0.2 2.4.6 newest}; do
    p=python3 wanted=numpy==$version
    if [ $version = newest ]; then
        p=$(newest_python)
        version=$(newest_version "$p" numpy)
        [ -n "$version" ] || { echo "no package index: the newest NumPy is not tested"; continue; }
        wanted=numpy==$version
    fi
    tag=$("$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue
    if fetch "$p" "$kept/$version-$tag" "$wanted"; then
        try "$p" "$kept/$version-$tag"
    else
        echo "pip cannot install $wanted for Python $tag ($(tail -n 1 "$work/log")): not tested"
    fi
done

if [ -n "${LIMBER_TEST_LONG:-}" ]; then
    tag=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if fetch python3 "$kept/suite-2.4.6-$tag" numpy==2.4.6 pytest hypothesis; then
        loops=$(dirname "$LIMBER_LIBRARY")/limber/liblimber_numpy.so
        cd "$work" || exit 2
        PYTHONPATH="$package/limber/_start:$kept/suite-2.4.6-$tag" LIMBER_NUMPY="$loops,dot" \
            python3 -m pytest -q -p no:cacheprovider --pyargs numpy._core.tests.test_multiarray \
            numpy._core.tests.test_numeric numpy.linalg.tests.test_linalg \
            -k "mul or Dot or dot or Vec or vec or inner or power" > log 2>&1 ||
            { cat log; failed=1; }
        tail -n 1 log
    else
        echo "pip cannot install NumPy's tests ($(tail -n 1 "$work/log")): not run"
    fi
fi
[ $failed = 0 ] || exit 1
[ $ran = 1 ] || { echo "no NumPy: skipped"; exit 77; }
