# SPDX-License-Identifier: BSD-3-Clause
# Defines for the scripts beside it: fetch PACKAGE... installs from Python's package index to
# $work/pip.
fetch() {
    command -v python3 > /dev/null && python3 -m venv "$work/venv" > "$work/log" 2>&1 &&
        "$work/venv/bin/pip" install -q --target "$work/pip" "$@" > "$work/log" 2>&1
}
