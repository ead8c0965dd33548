#!/bin/sh
# Checks that C files are formatted by .clang-format (except kernel sources) and name their licence,
# and that lines have at most 100 characters.  Only files in long_lines.txt, none of them in C, may
# have longer lines.
cd "$1" || exit 2
LC_ALL=C.UTF-8
export LC_ALL
rooms='include ir passes backends research jit tools bindings examples test'
bad=0

# shellcheck disable=SC2086
find $rooms CMakeLists.txt -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' \
    -o -name CMakeLists.txt -o -name '*.[fF]90' |
    grep -vxF -f test/long_lines.txt | xargs grep -nE '^.{101,}' &&
    { echo "lines of more than 100 characters"; bad=1; }
# shellcheck disable=SC2086
find $rooms -name '*.[ch]' ! -path 'test/api/abi/*' |
    xargs grep -L 'SPDX-License-Identifier: BSD-3-Clause' | grep . &&
    { echo "files without a licence line"; bad=1; }
while read -r file; do
    case $file in
    *.[ch]) echo "$file: C is not exempt"; bad=1 ;;
    esac
    grep -qE '^.{101,}' "$file" || { echo "$file needs no place in long_lines.txt"; bad=1; }
done < test/long_lines.txt

if command -v clang-format-19 > /dev/null; then
    # shellcheck disable=SC2086
    find $rooms -name '*.[ch]' | xargs clang-format-19 --dry-run -Werror || bad=1
elif [ $bad = 0 ]; then
    echo "SKIPPED: clang-format-19 is absent"
    exit 77
fi
[ $bad = 0 ] && echo "formatted"
exit $bad
