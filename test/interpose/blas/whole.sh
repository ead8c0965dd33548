#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Limber as a program's libblas.so.3 exports all names, computes level 3 itself, and forwards the
# other routines to another BLAS: one that is found, one that a variable names, or one that lacks a
# function.
whole=$1 whole64=$2 library=$3 mock32=$4 mock64=$5
here=$(dirname "$0")
. "$here/expect.sh"

# Calls a function of a library twice from Python.
call() {    # library, function or nothing, environment...
    at=$1 function=$2
    shift 2
    env LIMBER_BACKEND=interp "$@" python3 -c "
import ctypes
library = ctypes.CDLL('$at')
for i in range(2):
    '$function' and getattr(library, '$function')()
print('returned')"
}
if command -v python3 > /dev/null; then
    expect 0 'has no dswap_; LIMBER_BLAS names another' call "$whole/libblas.so.3" dswap_ LIMBER_BLAS="$mock32"
    lines 1 'has no dswap_'
    expect 0 'LIMBER_BLAS = .* is not used: its integers have 64 bits' call "$whole/libblas.so.3" "" \
        LIMBER_BLAS="$mock64"
    expect 0 'has no dswap_' call "$whole64/libblas64.so.3" dswap_ LIMBER_BLAS="$mock64"
    expect 0 'is not used: its integers have 32 bits' call "$whole64/libblas64.so.3" "" \
        LIMBER_BLAS="$mock32"
else
    echo "python3 is absent: skipped"
fi

folder=$(reference_folder)
[ -n "$folder" ] || { finish; exit; }
# Runs a tester with Limber in place of libblas.so.3, and prints its results.
under() {   # tester, input
    mkdir "$work/run"
    [ -z "$2" ] || cp "$folder/$2" "$work/run/in"
    [ -n "$2" ] || : > "$work/run/in"
    (cd "$work/run" && LD_LIBRARY_PATH=$whole LIMBER_BACKEND=interp LIMBER_CONTRACT=$3 LIMBER_BLAS=$4 "$folder/$1" \
        < in > out 2>&1; cat out ./*.out 2> /dev/null | grep -E 'FAIL|SUSPECT|\*\*\*|lookup|liblimber'
     echo "$(cat out ./*.out 2> /dev/null | grep -c PASS) passed")
    rm -r "$work/run"
}
for type in s d c z; do
    wanted=$(case $type in s | d) echo 33 ;; *) echo 35 ;; esac)
    expect 0 "^(1[03]) passed" under xblat1$type ''
    expect 0 "^$wanted passed" under xblat2$type ${type}blat2.in
done
expect 0 '^13 passed' under xblat3d dblat3.in correct "$folder/libblas.so.3"
expect 0 '^49 passed' under xdcblat2 din2 '' "$folder/libblas.so.3"

# the reference LAPACK calls level 3 by exported names
lapack=$(ls "${folder%/blas}"/lapack/liblapack.so.3 2> /dev/null)
if [ -n "$lapack" ]; then
    expect 0 'dtrsm_ .*by ' env LD_LIBRARY_PATH="$whole" LIMBER_BACKEND=interp LIMBER_CONTRACT=correct LIMBER_VERBOSE=1 python3 -c "
import ctypes, random
n = 150
f = ctypes.CDLL('$lapack').dgetrf_
a = (ctypes.c_double * (n * n))(*[random.random() for i in range(n * n)])
pivots, info, size = (ctypes.c_int * n)(), ctypes.c_int(1), ctypes.byref(ctypes.c_int(n))
f(size, size, a, size, pivots, ctypes.byref(info))
assert info.value == 0"
else
    echo "liblapack3 is absent: skipped"
fi

# The report of a program without products names the BLAS to which calls are forwarded, not this
# library's own file.
if command -v python3 > /dev/null; then
    expect 0 '^$' env LD_LIBRARY_PATH="$whole" LIMBER_CONTRACT=correct LIMBER_REPORT="$work/none" \
        python3 -c 'import ctypes
n = ctypes.byref(ctypes.c_int(0))
ctypes.CDLL("libblas.so.3").dcopy_(n, n, n, n, n)'
    expect 0 '"loaded": \["[^"]*"\],' cat "$work/none"
fi

# NumPy uses libblas.so.3, without a preload; a preloaded library precedes it
numpy=$($python -c 'import numpy; print(numpy.__file__.rpartition("/")[0])' 2> /dev/null)
if [ -n "$numpy" ] && ldd "$numpy"/core/_multiarray_umath*.so 2> /dev/null | grep -q 'libblas\.so\.3'; then
    sums='
import numpy as np
a = np.array([[1e16, 1.0, -1e16], [1.0, 2.0, 3.0]])
assert (a @ np.ones((3, 2)))[0, 0] == 1.0 and (a @ a.T)[1, 1] == 14.0
print("right", np.dot([1.0, 2.0], [3.0, 4.0]))'
    expect 0 '^right 11.0' env LD_LIBRARY_PATH="$whole" LIMBER_BACKEND=interp LIMBER_CONTRACT=correct $python -c "$sums"
    expect 0 'loaded two of them' env LD_LIBRARY_PATH="$whole" LD_PRELOAD="$library" LIMBER_BACKEND=interp \
        LIMBER_CONTRACT=correct LIMBER_SCHEME=fp32-f $python -c 'import numpy as np; np.ones((2, 2)) @ np.ones((2, 2))'
else
    echo "no numpy on libblas.so.3: skipped"
fi
finish
