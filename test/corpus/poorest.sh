#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Records that were made on the least capable CPU must hold on this one.  `replay --cpu` simulates a
# less capable CPU by leaving out features of this one, and a change of the library is simulated by
# changed records.
set -eu
replay=$1 problems=$2/problems.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}

# Problems whose kernels count recomputed elements, problems whose code is part of the library,
# functions for one shape, and a sample of the others.
{
    grep -E '^gemm a=f32 alpha=0.75' "$problems"
    grep -E '^gemm m=6 n=7 k=40 a=(f32|f16|e4m3) contract=correct$' "$problems"
    grep -E '^gemm .*small=1' "$problems" | head -n 2
    grep -E '^shape ' "$problems" | head -n 2
    awk '/^[a-z]/ && ++n % 100 == 0' "$problems"
} > "$work/problems.txt"
[ "$(wc -l < "$work/problems.txt")" -ge 10 ] || fail 'too few problems are of the expected kinds'

# Writes the records as a machine with fewer features makes them.
write_as() {    # argument: the machine whose features are assumed
    "$replay" --write --cpu "$1" "$work" > "$work/said" ||
        { cat "$work/said"; fail "--write --cpu $1"; }
}
# Replays the corpus, which must succeed.
replays() {     # arguments: what is replayed, further options of replay
    said=$1
    shift
    "$replay" "$@" "$work" > "$work/said" || { cat "$work/said"; fail "$said"; }
}

# Starting without records, exactly those that need missing instructions must be unknown.
for cpu in interp avx2; do
    : > "$work/expected.txt"
    write_as $cpu
    replays "marks recorded on a CPU like $cpu"
    ! grep -qE ' (stated|told|plan|config|code)=[^ ]*\?' "$work/expected.txt" ||
        fail "a mark that needs no CPU is unknown with $cpu"
done

# Without a change, a less capable CPU must keep this CPU's records byte by byte.
: > "$work/expected.txt"
"$replay" --write "$work" > /dev/null
cp "$work/expected.txt" "$work/rich.txt"
write_as interp
cmp "$work/rich.txt" "$work/expected.txt" || fail 'marks that nothing changed were not kept'

# After a change of any kind it must drop records that it cannot make, because they may be out of
# date.
mark='([0-9a-f]{8}|=)'
for kind in stated told code bits; do
    sed -E "/ $kind=(-,|=,)*[0-9a-f]{8}/{
        s/ $kind=((-,|=,)*)[0-9a-f]{8}/ $kind=\\100000000/
        s/ (bits=$mark,$mark),$mark,$mark,/ \\1,11111111,22222222,/
    }" "$work/rich.txt" > "$work/expected.txt"
    write_as avx2
    replays "a change of $kind, recorded on a CPU like avx2"
done
