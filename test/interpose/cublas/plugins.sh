#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Modules that are linked with one of two cuBLAS libraries: loaded in the global or a local scope,
# alone or together, with and without liblimber_cublas, while both libraries are on the search path.
# The products of each module are computed by the cuBLAS that made its handle, or by Limber.
library=$1 host=$2 path=$3 twelve=$4 thirteen=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
export LD_LIBRARY_PATH="$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" LIMBER_BACKEND=interp \
       LIMBER_CACHE_DIR="$work/cache"

# expect COUNT MODULE...: COUNT products of each module are computed by its own cuBLAS.  MODULE
# begins with its scope; VARIABLES are set for the host.
expect() {
    count=$1
    shift
    : > "$work/want"
    for module; do
        echo "$(basename "$module"): right, $count of its own" >> "$work/want"
    done
    env $VARIABLES "$host" "$@" > "$work/out" 2> "$work/err"
    status=$?
    if [ $status != 0 ] || ! cmp -s "$work/want" "$work/out" || [ -s "$work/err" ]; then
        failures=$((failures + 1))
        echo "FAILED: $VARIABLES $*: status $status, expected"
        cat "$work/want"
        echo "found"
        head -n 20 "$work/out" "$work/err"
    fi
}

for VARIABLES in "A=" "LD_PRELOAD=$library" "LD_PRELOAD=$library LIMBER_CONTRACT=correct"; do
    own=3 both=2
    case $VARIABLES in *correct) own=0 both=0 ;; esac
    for one in "$twelve" "$thirteen"; do
        other=$thirteen
        [ "$one" = "$thirteen" ] && other=$twelve
        for scope in private global; do
            expect $own "$scope:$one"
            expect $both "$scope:$one" "private:$other"
            expect $both "$scope:$one" "global:$other"
        done
    done
done
[ $failures = 0 ] && echo "each module's products go to its own cuBLAS"
exit $failures
