#!/bin/sh
# C is as .clang-format has it, and lines of sources have at most 100 characters.  Files that
# long_lines.txt names, and those of the tools, still have longer ones; no other file may.
cd "$1" || exit 2
LC_ALL=C.UTF-8
export LC_ALL
rooms='include ir passes backends jit tools bindings examples test'
bad=0

# shellcheck disable=SC2086
find $rooms CMakeLists.txt -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' \
    -o -name CMakeLists.txt -o -name '*.[fF]90' |
    grep -vE '^(test/)?tools/' | grep -vxF -f test/long_lines.txt | xargs grep -nE '^.{101,}' &&
    { echo "lines of more than 100 characters"; bad=1; }

if command -v clang-format-19 > /dev/null; then
    # shellcheck disable=SC2086
    find $rooms -name '*.[ch]' | xargs clang-format-19 --dry-run -Werror || bad=1
elif [ $bad = 0 ]; then
    echo "SKIPPED: clang-format-19 is absent"
    exit 77
fi
[ $bad = 0 ] && echo "formatted"
exit $bad
