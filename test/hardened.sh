#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hardened.sh FOLDER: every library and program of a build looks for others in named folders alone,
# binds all symbols when it starts, and has no memory that is both written and executed.
folder=$1 files=0 failed=0
command -v readelf > /dev/null || exit 77

wrong() {
    echo "$1"
    failed=$((failed + 1))
}

check() {
    dynamic=$(readelf -dW "$1" 2> /dev/null)
    segments=$(readelf -lW "$1" 2> /dev/null)
    case $segments in *DYNAMIC*) ;; *) return ;; esac    # an object file, or linked statically
    files=$((files + 1))
    path=$(echo "$dynamic" | sed -n 's/.*(R[A-Z]*PATH).*\[\(.*\)\]$/\1/p')
    case :$path: in
    ::) ;;
    *::*) wrong "$1: the run path has an empty element" ;;
    esac
    for element in $(echo "$path" | tr ':' ' '); do
        case $element in
        /* | \$ORIGIN*) ;;
        *) wrong "$1: the run path has $element, which depends on the current folder" ;;
        esac
    done
    echo "$dynamic" | grep -q 'BIND_NOW\|FLAGS_1.*NOW' || wrong "$1: symbols are bound late"
    echo "$segments" | grep -q 'LOAD.* RWE ' && wrong "$1: a segment is written and executed"
    echo "$segments" | grep -q 'GNU_STACK.* RWE ' && wrong "$1: its stack is executed"
    echo "$segments" | grep -q 'GNU_STACK' || wrong "$1: it does not say that its stack is data"
}

# Folders with a build of their own, and what CMake has tried, are left out.
own='-name CMakeFiles -o -exec test -e {}/CMakeCache.txt ;'
# shellcheck disable=SC2086
list=$(find "$folder" -mindepth 1 -type d \( $own \) -prune -o \
    -type f \( -perm -u+x -o -name '*.so*' \) -print)
IFS='
'
for file in $list; do
    unset IFS
    check "$file"
done
echo "$files files, $failed faults"
[ "$files" -gt 0 ] && [ "$failed" -eq 0 ]
