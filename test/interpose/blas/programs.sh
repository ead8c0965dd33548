#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs programs that know nothing of Limber on its products: numpy.linalg, LAPACK's own testers, and
# GNU Octave if it is installed.
library=$1 here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library"

# Checks that Limber computed calls, and kept the contract.
served() {  # at least one product, of the report that was just written
    checks=$((checks + 1))
    if ! grep -q '"served": { "calls": [1-9]' "$work/report" || ! grep -q '"broken": 0 },$' "$work/report"; then
        failures=$((failures + 1))
        echo "FAILED: nothing was served, or not to the contract: $(head -3 "$work/report")"
    fi
    rm -f "$work/report"
}

# bits=113: sums are as accurate as in binary128
if $python -c 'import numpy' 2> /dev/null; then
    expect 0 '^0 failures' $python "$here/programs.py" 60
    for way in native:2 correct:1 correct:2 bits=113:2; do
        expect 0 '^0 failures' $before LIMBER_CONTRACT=${way%:*} LIMBER_THREADS=${way#*:} \
            LIMBER_REPORT="$work/report" $python "$here/programs.py" 100
        served
    done
else
    echo "numpy is absent: skipped"
fi

# LAPACK's testers on the reference BLAS: LU, Cholesky, symmetric indefinite, QR, with their drivers
testers=$(dirname "$(ls /usr/lib/*/lapack/xlintstd 2> /dev/null || echo none/none)")
blas=$(reference_folder)
# Runs LAPACK's tester of linear equations, and prints its failures and successes.
lapack() {  # type's letters, contract, threads, backend
    letter=$(echo "$1" | tr '[:lower:]' '[:upper:]')
    sed "s/^D\([GPSQ]\)/$letter\1/" "$here/lapack.in" > "$work/in"
    env LD_LIBRARY_PATH="$blas" LD_PRELOAD="$library" LIMBER_CONTRACT="$2" LIMBER_THREADS="$3" LIMBER_BACKEND="$4" \
        LIMBER_REPORT="$work/report" "$testers/xlintst$1" < "$work/in" > "$work/out" 2>&1
    grep -E 'fail|illegal|\*\*\*' "$work/out"
    echo "$(grep -c 'passed the' "$work/out") passed"
}
if [ -x "$testers/xlintstd" ] && [ -n "$blas" ]; then
    for way in s:interp d:interp c:auto z:auto; do      # the interpreter is slow where not real
        expect 0 '^14 passed' lapack ${way%:*} correct 1 ${way#*:}
        lines 1 '.'
        served
    done
    expect 0 '^14 passed' lapack d native 2 auto
    expect 0 '^14 passed' lapack d bits=113 2 interp
    served
else
    echo "LAPACK's testers (liblapack-test) are absent: skipped"
fi

if command -v octave-cli > /dev/null; then
    for contract in native correct bits=113; do
        expect 0 '^right$' $before LIMBER_CONTRACT=$contract LIMBER_REPORT="$work/report" octave-cli --norc --eval '
            a = mod(reshape(1:10000, 100, 100), 97) - 48; b = a(:, end:-1:1)'"'"';
            c = zeros(100); x = a + 100 * eye(100);
            for k = 1:100 c += a(:, k) .* b(k, :); end
            if isequal(a * b, c) && norm(x * inv(x) - eye(100)) < 1e-9 && norm(x \ (x * b) - b) < 1e-6
              disp("right")
            end'
        served
    done
else
    echo "octave-cli is absent: skipped"
fi
finish
