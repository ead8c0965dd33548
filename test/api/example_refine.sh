#!/bin/sh
# Tests examples/refine.c.  At condition 10^12, refinement with FP64 factors must give all digits of
# binary128, where FP64 alone has less than half of a double's digits.  By GMRES it must do so also
# where FP64 has no digit.  A singular matrix must be reported, and bad input refused.
set -eu
refine=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LIMBER_CACHE_DIR="$work/cache"
fail() { echo "$1"; cat "$work/out"; exit 1; }

"$refine" 96 12 > "$work/out"
grep -q 'condition about [0-9.]*e+1[23] ' "$work/out" || fail "not of condition 1e12"
! grep -q 'elements of b are rounded' "$work/out" || fail "b is not exact"
awk '/^refined to / { good = $3 >= 30 && $7 < 8 } END { exit !good }' "$work/out" ||
    fail "expected 30 digits, and fewer than 8 in FP64"
# Elimination in binary128, by loops and by Limber's products, must have the digits that binary128
# allows at this condition.
awk '/^binary128 elimination/ { n++; for (i = 1; i <= NF; i++) if ($i ~ /e-/) { d = $(i + 1); break }
     good += d >= 18 && d <= 30 } END { exit !(n == 2 && good == 2) }' "$work/out" ||
    fail "expected about 22 digits by elimination"

# Hilbert's matrix times a common multiple of its denominators.  Its elements are exact, and its
# condition is above 1e24.
awk 'BEGIN { n = 18; print "%%MatrixMarket matrix coordinate real general"; print n, n, n * n
             for (i = 1; i <= n; i++)
                 for (j = 1; j <= n; j++)
                     printf "%d %d %.0f\n", i, j, 144403552893600 / (i + j - 1) }' > "$work/hilbert.mtx"
"$refine" "$work/hilbert.mtx" > "$work/out"
grep -q 'corrections do not shrink: FP64 factors' "$work/out" || fail "divergence was not noticed"
awk '/^refined to / { good = $3 >= 30 && $7 < 1 } END { exit !good }' "$work/out" ||
    fail "expected 30 digits by GMRES"

printf '%%%%MatrixMarket matrix coordinate real general\n3 3 9\n' > "$work/singular.mtx"
awk 'BEGIN { for (i = 0; i < 9; i++) print int(i / 3) + 1, i % 3 + 1, i + 1 }' >> "$work/singular.mtx"
"$refine" "$work/singular.mtx" > "$work/out" 2>&1 || true
grep -q 'singular' "$work/out" || fail "a singular matrix was not told"

for text in '' '%%MatrixMarket matrix array real general' \
            '%%MatrixMarket matrix coordinate real general
2 2 1
3 1 5'; do
    echo "$text" > "$work/bad.mtx"
    ! "$refine" "$work/bad.mtx" > "$work/out" 2>&1 || fail "accepted a bad file"
    grep -q 'bad.mtx' "$work/out" || fail "the file is not named"
done
! "$refine" 1 99 > "$work/out" 2>&1 || fail "accepted a bad size"
