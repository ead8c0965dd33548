#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fixed.sh LIBRARY LAPACK32 LAPACK64: under `reproducible` and `correct`, NumPy's linear algebra has
# equal bits with different kernels of OpenBLAS, numbers of threads and variants of the C library's
# functions; SciPy's and GNU Octave's, too, if they are there.
library=$1 fixed="$2:$3" here=$(dirname "$0")/../blas
. "$here/expect.sh"
here=$(dirname "$0")
[ -e "$2" ] || { echo "this was built without liblapack-dev: skipped"; exit 77; }
unset LD_LIBRARY_PATH
if ! $python -c 'import numpy' 2> /dev/null; then
    echo "numpy is absent: skipped"
    exit 77
fi
before="env LD_PRELOAD=$library:$fixed LIMBER_CONTRACT=reproducible"

interpreter=$python script="fixed.py 5 100"
narrow=
[ "$(uname -m)" != x86_64 ] || narrow=LIMBER_ISA=avx2      # other kernels of Limber's
# Computes the digests of results with an OpenBLAS kernel, and writes them to a file.
digests() {  # file, kernel, threads, command
    file=$1
    shift
    OPENBLAS_CORETYPE=$1 OPENBLAS_NUM_THREADS=$2 LIMBER_THREADS=$2 expect 0 ' [0-9a-f]{64}$' \
        "$3" $4 $5 $6 $7 $interpreter "$here/"$script
    printf '%s\n' "$out" | grep ' [0-9a-f]*$' > "$work/$file"
}
digests first Haswell 1 $before
for how in "Haswell 2 $before" "Prescott 1 $before $narrow"; do
    digests next $how
    expect 0 '^$' diff "$work/first" "$work/next"
done
# with the C library's functions that use neither FMA nor AVX2
digests next Haswell 1 $before GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable,-AVX2,-FMA
expect 0 '^$' diff "$work/first" "$work/next"
expect 0 '^240$' sh -c 'wc -l < "$1"' sh "$work/first"
correctly="env LD_PRELOAD=$library:$fixed LIMBER_CONTRACT=correct"
digests first Haswell 1 $correctly
digests next Prescott 2 $correctly $narrow
expect 0 '^$' diff "$work/first" "$work/next"
# Compares a program's digests with two kernels of OpenBLAS, under both contracts.
both_contracts() {  # number of digests
    for how in "$before" "$correctly"; do
        digests first Haswell 1 $how
        digests next Prescott 2 $how $narrow
        expect 0 '^$' diff "$work/first" "$work/next"
        expect 0 "^$1$" sh -c 'wc -l < "$1"' sh "$work/first"
    done
    interpreter=$python script="fixed.py 5 100"
}
if $python -c 'import scipy' 2> /dev/null; then
    script="functions.py 6 50"
    both_contracts 388
fi
if command -v octave-cli > /dev/null; then
    interpreter="octave-cli --norc --quiet" script=octave.m
    both_contracts 90
else
    echo "octave-cli is absent: its linear algebra is not tested"
fi
# OpenBLAS by itself has other bits with another kernel
digests next Haswell 1 env
digests other Prescott 1 env
expect 1 . diff "$work/next" "$work/other"
# no call was forwarded to another library
expect 0 '^checked$' $before LIMBER_VERBOSE=1 $python "$here/fixed.py" check 60
lines 0 'FAILED|not reproducible'
expect 0 '^checked$' $correctly $python "$here/fixed.py" check 200
lines 0 'FAILED|not correct'
# another version of LAPACK is named, once
if command -v "${CC:-cc}" > /dev/null; then
    for width in 32 64; do
        cat > "$work/version.c" << END
#include <stdint.h>
void limber${width}_ilaver_(int${width}_t *, int${width}_t *, int${width}_t *);
void limber${width}_ilaver_(int${width}_t *a, int${width}_t *b, int${width}_t *c)
{
    *a = 3;
    *b = 12;
    *c = 1;
}
END
        expect 0 '^$' "${CC:-cc}" -shared -fPIC "$work/version.c" -o "$work/version$width.so"
    done
    newer=$library:$work/version32.so:$work/version64.so:$fixed
    expect 0 '^liblimber_blas: this LAPACK is 3.12.1; results under reproducible may differ' \
        $before LD_PRELOAD="$newer" $python "$here/fixed.py" check 60
    lines 1 'this LAPACK is'
    expect 0 '^checked$' $before LD_PRELOAD="$newer" LIMBER_QUIET=1 \
        $python "$here/fixed.py" check 60
    lines 0 'this LAPACK is'
fi
# wrong arguments do not end the program
cat > "$work/wrong.py" << 'END'
import ctypes
here = ctypes.CDLL(None)
n, bad, info = ctypes.byref(ctypes.c_int(2)), ctypes.byref(ctypes.c_int(-1)), ctypes.c_int(0)
a = (ctypes.c_double * 4)(1, 0, 0, 1)
here.dgetri_(bad, a, n, (ctypes.c_int * 2)(), a, n, ctypes.byref(info))
print("goes on", info.value)
# clocks of LAPACK, which would need libgfortran
here.dsecnd_.restype, here.second_.restype = ctypes.c_double, ctypes.c_float
print("clocks", 0 < here.dsecnd_() < 600, 0 < here.second_() < 600)
END
expect 0 '^clocks True True$' $before $python "$work/wrong.py"
lines 1 '^goes on -1$'
finish
