# SPDX-License-Identifier: BSD-3-Clause
# Included by tests of the preloaded libraries, which set `here` to their folder.
. "$here/../../support/expect.sh"

# Checks how many lines match.
lines() {   # number, pattern: of the last command's output
    checks=$((checks + 1))
    got=$(printf '%s\n' "$out" | grep -cE -- "$2")
    if [ "$got" != "$1" ]; then
        failures=$((failures + 1))
        echo "FAILED: $got lines of $2, expected $1, output: $out"
    fi
}

# finds a python3 with NumPy
python=python3
if ! python3 -c 'import numpy' 2> /dev/null && /usr/bin/python3 -c 'import numpy' 2> /dev/null
then
    python=/usr/bin/python3
fi

# Skips the test if Python is missing, since the test calls BLAS functions from Python.
needs_python() {
    if ! command -v python3 > /dev/null; then
        echo "python3 is absent: skipped"
        exit 77
    fi
}

# finds the folder of the reference BLAS with its testers
reference_folder() {
    for folder in /usr/lib/*/blas; do
        if [ -x "$folder/xblat3d" ] && [ -e "$folder/libblas.so.3" ]; then
            echo "$folder"
            return
        fi
    done
    echo "the reference BLAS and its testers (libblas3, libblas-test) are absent: skipped" >&2
}
# Prints the file of the reference BLAS, or nothing.
reference_library() {
    folder=$(reference_folder)
    echo "${folder:+$folder/libblas.so.3}"
}

# finds folders with a libblas.so.3 of the reference, of OpenBLAS and of BLIS
blas_folders() {
    for file in /usr/lib/*/blas/libblas.so.3 /usr/lib/*/openblas*/libblas.so.3 \
        /usr/lib/*/blis*/libblas.so.3
    do
        [ ! -e "$file" ] || echo "${file%/*}"
    done
}

# Programs load the reference BLAS, whichever BLAS the system has selected.
plain=$(reference_folder 2> /dev/null)
if [ -n "$plain" ]; then
    LD_LIBRARY_PATH=$plain:${plain%/blas}/lapack
    export LD_LIBRARY_PATH
fi
