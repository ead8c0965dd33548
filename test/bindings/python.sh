#!/bin/sh
# Tests the Python package in a folder, with NumPy (if it is installed) and without.  The
# environment names the library.
set -eu
package=$1 layout=$2 cuda=${3:-} nvrtc=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$package" PYTHONDONTWRITEBYTECODE=1 LIMBER_CACHE_DIR="$work/cache"

. "$here/../support/python.sh"
python=$(python_with numpy)
if [ -n "$python" ]; then
    $python "$here/test_python.py" "$layout"
    # This tests the memory of the binding itself, which does not depend on kernels; so none is
    # compiled.
    LIMBER_KERNELS=prebuilt $python "$here/test_guarded.py"
    $python "$here/test_reveal.py"
    $python "$here/../../examples/python_quad.py"
    torch=$(python_with torch,numpy ${LIMBER_TEST_TORCH:-})
    if [ -n "$torch" ]; then
        $torch "$here/test_torch.py"
        $torch "$here/test_invariant.py"
        $torch "$here/test_scaled.py"
    else
        echo "no PyTorch: limber.torch is not tested"
    fi
    if [ -n "$cuda" ]; then
        LIMBER_CUDA=$cuda LIMBER_NVRTC=$nvrtc $python "$here/test_cuda.py"
    fi
    # The types of ml_dtypes, in a version that works with every NumPy since 1.21.
    if ! $python -c 'import ml_dtypes' 2> /dev/null; then
        if $python -m venv --system-site-packages "$work/venv" > "$work/log" 2>&1 &&
            "$work/venv/bin/pip" install -q --no-deps 'ml_dtypes==0.5.1' > "$work/log" 2>&1; then
            "$work/venv/bin/python" "$here/test_python.py" "$layout" Ops Quads Conversions \
                Arrays.test_types_of_ml_dtypes
        else
            echo "pip cannot install ml_dtypes ($(tail -n 1 "$work/log")): its types are not tested"
        fi
    fi
else
    echo "no NumPy: its tests and the example are skipped"
fi
${python:-python3} "$here/test_same.py"
LIMBER_TEST_NO_NUMPY=1 ${python:-python3} "$here/test_python.py" "$layout"
