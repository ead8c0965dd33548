# SPDX-License-Identifier: BSD-3-Clause
# Included by the scripts beside it: fetch PACKAGE... installs packages from Python's package index
# to $work/pip.
fetch() {
    command -v python3 > /dev/null && python3 -m venv "$work/venv" > "$work/log" 2>&1 &&
        "$work/venv/bin/pip" install -q --target "$work/pip" "$@" > "$work/log" 2>&1
}
