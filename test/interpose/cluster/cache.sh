#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Ranks on one node share a cache: tests who compiles, who waits, what a killed rank leaves, what
# happens if nothing may be written, and how many system calls a start takes.
[ "$LIMBER_KERNELS" = specialised ] || { echo "SKIPPED: needs a compiler"; exit 77; }
storm=$1 server=$2 nodes=$3
. "$(dirname "$0")/../../support/expect.sh"
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export LIMBER_THREADS=1
limit='timeout 100'

# Removes the cache.
fresh() {
    chmod -R u+w "$work/cache" 2> /dev/null
    rm -rf "$work/cache"
}

# ---- many ranks at once: each kernel is compiled once, and in a second run not at all
# --------------
expect 0 '^2 compiled, 14 from disk, 0 wrong' "$storm" run 8 2
expect 0 '^0 compiled, 16 from disk, 0 wrong' "$storm" run 8 2
echo "$out"

# ---- a copy of the cache in another folder can be used -------------------------------------------
mkdir -m 700 "$work/node"
tar -C "$work/cache" -cf - . | (umask 002 && tar -C "$work/node" -xf -)
expect 0 '^0 compiled, 6 from disk, 0 wrong' env LIMBER_CACHE=ro LIMBER_CACHE_DIR="$work/node" "$storm" run 3 2

# ---- a read-only cache is used, and its absence is no error --------------------------------------
chmod -R a-w "$work/cache"
expect 0 '^0 compiled, 6 from disk, 0 wrong' env LIMBER_CACHE=ro "$storm" run 3 2
before=$(ls -lRn --time-style=full-iso "$work/cache")
expect 0 '^2 compiled, 4 from disk, 0 wrong' env LIMBER_CACHE=ro "$storm" run 2 3
expect 1 'LIMBER_NO_COMPILE is set and no cache holds this kernel' env LIMBER_CACHE=ro LIMBER_NO_COMPILE=1 "$storm" run 2 3
expect 0 '' [ "$before" = "$(ls -lRn --time-style=full-iso "$work/cache")" ]
expect 0 '^1 compiled, 0 from disk, 0 wrong' env LIMBER_CACHE=ro LIMBER_CACHE_DIR="$work/absent" "$storm" rank 1
expect 1 '' [ -e "$work/absent" ]
fresh

# ---- no space left: results are right, and no partial file remains
# --------------------------------
full='trap "" XFSZ; ulimit -f 16; exec "$@"'   # files of 8 KiB at most
expect 0 '^2 compiled, 0 from disk, 0 wrong' sh -c "$full" full "$storm" rank 2
expect 0 'is not written to: File too large' env LIMBER_VERBOSE=1 sh -c "$full" full "$storm" rank 2
expect 0 '^0$' sh -c 'find "$0" -name "tmp.*" -o -name "*.kernel" | wc -l' "$work/cache"
fresh

# ---- a cache that is too small for the ranks' kernels: entries are evicted while others look them
# up
expect 0 '^[0-9]+ compiled, [0-9]+ from disk, 0 wrong' env LIMBER_CACHE_MAXSIZE=128K "$storm" run 16 6
bytes=$(find "$work/cache" -name '*.kernel' -exec cat {} + | wc -c)
expect 0 '' [ "$bytes" -le 131072 ]
expect 0 '^sound' "$storm" check 1
fresh

# ---- nodes with different CPUs share a cache -----------------------------------------------------
"$nodes" "$work/cache" > "$work/out"
status=$?
if [ $status = 77 ]; then
    cat "$work/out"
else
    expect 0 '^0$' echo $status
    expect 0 'old node: from disk' cat "$work/out"
fi
fresh

# ---- a file server counts requests.  A warm start looks up 2 names (the folder of tuning records
# and the key of the seals) and 3 for each entry; a kernel has 2 entries (plan and code); no lock is
# taken ----
expect 0 '^requests: 224 for names, 0 for locks' sh "$(dirname "$0")/server.sh" "$storm" "$server" 16 2 20000
expect 0 '^2 compiled, 30 from disk, 0 wrong' echo "$out"

# ---- ranks are killed at any moment, then at each system call of a cold start that writes
# ---------
expect 0 '^[0-9]+ rounds, [1-9][0-9]* killed at work' "$storm" kill 4
echo "$out"
fresh
calls=trace=%file,%desc
mkdir -m 700 "$work/cache"
if ! strace -o "$work/log" -y -e $calls "$storm" rank 1 > /dev/null 2>&1 || ! grep -q "renameat.*$work/cache" "$work/log"; then
    echo "SKIPPED: strace is absent or may not trace: calls are not counted, nor interrupted one by one"
else
    points=$(awk -v dir="$work/cache" '{ name = $0; sub(/\(.*/, "", name); nth[name]++ }
        index($0, dir) { if (/O_CREAT/) on = 1; if (on) print name ":" nth[name]; if (/rename/) left = 5;
                         if (left && !--left) exit }' "$work/log")
    for point in $points; do    # the second fstat: newfstatat:2
        rm -rf "$work/cache"
        mkdir -m 700 "$work/cache"
        strace -o "$work/killed" -y -e $calls -e "inject=${point%:*}:signal=KILL:when=${point#*:}" \
            "$storm" rank 1 > /dev/null 2>&1
        at=$(tail -n 2 "$work/killed" | tr '\n' ' ')
        expect 0 "^${point%:*}\(.*$work/cache.* killed by SIGKILL" echo "$at"
        expect 0 '^sound' "$storm" check 1
    done
    echo "killed at $(echo "$points" | wc -w) calls"

    # ---- what a start costs ----------------------------------------------------------------------
    "$storm" rank 9 > /dev/null
    count() {   # kernels; sets `on` (system calls on the cache), `names` (lookups elsewhere), `lists`
        strace -f -o "$work/log" -y -e $calls "$storm" rank "$1" > /dev/null 2>&1
        on=$(grep -cF "$work/cache" "$work/log")
        names=$(grep -vF "$work/cache" "$work/log" | grep -cE 'open|stat|access|readlink')
        lists=$(grep -F "$work/cache" "$work/log" | grep -c getdents)
    }
    count 1
    one=$on others=$names
    count 9
    each=$(((on - one) / 8))
    echo "warm start: $((one - each)) calls on the cache, $each for each kernel, $others names looked up elsewhere"
    expect 0 '' [ "$each" -le 22 ]   # a kernel has two entries, each takes 11 calls
    expect 0 '' [ $((one - each)) -le 9 ]    # 6, and 3 where a kernel lies in the tuning record's folder
    expect 0 '' [ "$lists" = 0 ]    # nobody reads a directory
fi
finish
