# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of Python programs.

# Prints the first Python that has all modules.  Arguments: the modules, separated by commas, and
# Pythons to try before python3.
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

# Prints the newest version of a package that the package index has for a Python; nothing if the
# index does not answer.  Arguments: Python, package.
newest_version() {
    "$1" -m pip index versions "$2" 2> /dev/null | sed -n '1s/.*(\(.*\))$/\1/p'
}

# Installs packages with pip in a folder, which is kept, so its name says their versions.
# Arguments: Python, folder, packages.  Messages go to $work/log.
fetch() {
    p=$1 folder=$2
    shift 2
    [ -d "$folder" ] && return
    mkdir -p "$(dirname "$folder")"
    part=$(mktemp -d "$(dirname "$folder")/part.XXXXXX")
    if "$p" -m pip install -q --target "$part" "$@" > "$work/log" 2>&1; then
        mv "$part" "$folder" 2> /dev/null || [ -d "$folder" ]
    else
        rm -rf "$part"
        return 1
    fi
}

# The newest Python that starts: also pyenv's, which lie beside each other.
newest_python() {
    beside=$(dirname "$(dirname "$(dirname "$(python3 -c 'import sys; print(sys.executable)')")")")
    for p in python3.15 python3.14 python3.13 python3.12 \
        $(ls -d "$beside"/3.1[2-9].*/bin/python3 2> /dev/null | sort -rV) python3; do
        "$p" -c 'import pip, ctypes' 2> /dev/null && echo "$p" && return
    done
}
