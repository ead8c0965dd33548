#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Limber as a hook of FlexiBLAS, and as a library to which libblastrampoline forwards calls.
# Stand-ins replace both; LIMBER_TEST_FLEXIBLAS and LIMBER_TEST_LBT name real libraries that are
# tested, too.
program=$1 folder=$2 flexiblas=$3 lbt=$4 mock=$5 blas=$6
here=$(dirname "$0")/..
. "$here/expect.sh"
export LIMBER_BACKEND=interp LIMBER_VERBOSE=1

# ---- FlexiBLAS: calls are forwarded without a contract, else served, also among other hooks ----
hook=$folder/libflexiblas_hook_limber.so
expect 1 '^$' sh -c 'nm -D --defined-only "$0" | awk "{ print \$3 }" |
    grep -Ev "^(hook_|_*flexiblas_|limber_blas_)"' "$hook"
for library in "$flexiblas" $LIMBER_TEST_FLEXIBLAS; do
    expect 0 '^dgemm_ is right' "$program" flexiblas "$library"
    expect 0 '^dgemm_ is right' env FLEXIBLAS_HOOK="$hook" "$program" flexiblas "$library"
    lines 0 ' by '
    expect 0 '^dgemm_ is right' env FLEXIBLAS_HOOK="$hook" LIMBER_CONTRACT=correct \
        LIMBER_REPORT="$work/hook" "$program" flexiblas "$library"
    lines 2 'hook_limber: dgemm 120 x 120 x 120 correct, by'
    expect 0 '"library": "libflexiblas_hook_limber"' cat "$work/hook"
    expect 0 '"routine": "dgemm"' cat "$work/hook"
    # a rule for one routine, and a product that is forwarded although a contract is set
    printf 'contract correct\nrule dgemm -> off\n' > "$work/rules"
    expect 0 '^dgemm_ is right' env FLEXIBLAS_HOOK="$hook" LIMBER_CONFIG="$work/rules" "$program" \
        flexiblas "$library"
    lines 2 'hook_limber: dgemm .* a rule leaves it alone'
done
expect 0 '^dgemm_ is right, 1 behind' "$program" flexiblas "$flexiblas"
expect 0 '^dgemm_ is right, 1 behind' env FLEXIBLAS_HOOK="$hook" "$program" flexiblas "$flexiblas"
lines 1 '^hook LIMBER'
cp "$hook" "$work/second.so"
expect 0 '^dgemm_ is right, 1 behind' env FLEXIBLAS_HOOK="$hook:$work/second.so" "$program" \
    flexiblas "$flexiblas"
lines 2 '^hook LIMBER'
expect 0 '^dgemm_ is right, 0 behind' env FLEXIBLAS_HOOK="$hook" LIMBER_CONTRACT=correct \
    "$program" flexiblas "$flexiblas"
lines 2 '^dgemm_ is right, 0 behind'
# calls of CBLAS pass the hooks, and the preloaded library serves them
for preload in "" "$blas"; do
    for contract in "" correct; do
        behind=1
        [ -z "$preload" ] || [ -z "$contract" ] || behind=0
        expect 0 "^cblas_dgemm is right, $behind behind" env FLEXIBLAS_HOOK= LD_PRELOAD="$preload" \
            ${contract:+LIMBER_CONTRACT=$contract} "$program" global "$flexiblas"
        lines 1 "^dgemm_ is right, $behind behind"
    done
done

# ---- libblastrampoline: calls that Limber does not serve reach the library that was loaded before
# it, however often Limber is loaded ----
for library in "$lbt" $LIMBER_TEST_LBT; do
    for bits in 32 64; do
        suffix=64_
        [ $bits = 64 ] || suffix=
        shim=$folder/liblimber_lbt${suffix%_}.so
        expect 0 '^isamax 2, sdot 14$' "$program" trampoline "$library" $bits "$mock$bits.so" \
            "$shim"
        lines 1 '^refused'
        lines 6 '^forwarded'
        lines 6 "^dgemm_$suffix is right, 1 behind"
        lines 1 'forwards to no BLAS with integers of '$bits
        expect 0 '^isamax 2, sdot 14$' env LIMBER_CONTRACT=correct "$program" trampoline \
            "$library" $bits "$mock$bits.so" "$shim"
        lines 6 '^forwarded'
        lines 2 "^dgemm_$suffix is right, 1 behind"
        lines 4 "^dgemm_$suffix is right, 0 behind"
        [ $bits = 64 ] || lines 2 '^cblas_dgemm is right, 0 behind'
        expect 0 '^isamax 2, sdot 14$' env LIMBER_CONTRACT=correct LIMBER_REPORT="$work/lbt" \
            "$program" trampoline "$library" $bits "$mock$bits.so" "$shim"
        expect 0 '"routine": "sdot_' cat "$work/lbt"   # vectors, too, but not the library's tests
        expect 1 '' grep -E 'cdotc|zdotc' "$work/lbt"
        expect 0 '"library": "liblimber_lbt"' cat "$work/lbt"
    done
done
finish
