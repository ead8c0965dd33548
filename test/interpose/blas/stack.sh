#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stack.sh LIBRARY PROGRAM CONTRACT: calls from a thread with a small stack, with a cold and then a
# warm cache, and with a report.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LD_PRELOAD=$1 LIMBER_CONTRACT=$3 LIMBER_TRUST_BLAS=0 LIMBER_REPORT=$work/report \
    LIMBER_CACHE_DIR=$work/cache "$2"
