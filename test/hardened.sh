#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hardened.sh FOLDER: checks every library and program of a build.  Each must look for libraries in
# absolute folders or relative to itself, bind all symbols when it starts, and have no memory that
# is both writable and executable.
folder=$1 files=0 failed=0
command -v readelf > /dev/null || { echo "readelf is absent: skipped"; exit 77; }

wrong() {
    echo "$1"
    failed=$((failed + 1))
}

# Checks how a file is linked: its run path, when symbols are bound, and that no code or stack can
# be both written and executed.
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

# Checks only outputs of the build, not files that tests have left in its folder.
command -v ninja > /dev/null && [ -e "$folder/build.ninja" ] ||
    { echo "skipped: the build is none of ninja, which tells its files"; exit 77; }
list=$(cd "$folder" && ninja -t targets all | sed 's/: [^:]*$//' | while read -r file; do
    [ ! -f "$file" ] || [ ! -x "$file" ] || readlink -f "$file"
done | sort -u)
IFS='
'
for file in $list; do
    unset IFS
    check "$file"
done
echo "$files files, $failed faults"
[ "$files" -gt 0 ] && [ "$failed" -eq 0 ]
