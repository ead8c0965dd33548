# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of Python programs.

# Modules with commas between, and Pythons to try first: prints the first that has them.
python_with() {
    modules=$1
    shift
    for p in "$@" python3 /usr/bin/python3; do
        if $p -c "import $modules" 2> /dev/null; then
            echo "$p"
            return
        fi
    done
}
