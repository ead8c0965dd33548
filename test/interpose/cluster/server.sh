#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sh server.sh STORM LIBRARY RANKS KERNELS RATE: starts ranks at once on a shared file system whose
# server answers RATE requests per second (server.c), with a cold cache, with a warm one, and with a
# warm one that is only read.
storm=$1 library=$2 ranks=$3 kernels=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LIMBER_CACHE_DIR=$work/cache LIMBER_THREADS=1 SERVER_FILE=$work/server SERVER_RATE=$5
export LIMBER_CACHE_DIR LIMBER_THREADS SERVER_FILE SERVER_RATE
status=0

# Runs all ranks, and prints the requests to the server.
start() {   # name, mode of the cache
    head -c 24 /dev/zero > "$SERVER_FILE"
    echo "$1:"
    LD_PRELOAD=$library LIMBER_CACHE=$2 "$storm" run "$ranks" "$kernels" || status=1
    od -A n -t d8 -j 8 "$SERVER_FILE" |
        awk '{ print "requests: " $1 " for names, " $2 " for locks" }'
}

start 'cold' rw
start 'warm' rw
start 'warm, read-only' ro
exit $status
