#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Kernels for real devices: what ptxas says of them (test_cubin), and rules for their machine code,
# where nvdisasm is installed or pip has it.
set -eu
program=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/cubins"
LIMBER_CUBIN_DIR="$work/cubins" "$program"
[ -n "$(ls "$work/cubins")" ] || exit 0     # no NVRTC: it has said so
nvdisasm=$(command -v nvdisasm || true)
if [ -z "$nvdisasm" ] && command -v python3 > /dev/null &&
    python3 -m venv "$work/venv" > "$work/log" 2>&1 &&
    "$work/venv/bin/pip" install -q --target "$work/pip" nvidia-cuda-nvdisasm > "$work/log" 2>&1
then
    nvdisasm=$(find "$work/pip" -name nvdisasm -type f)
    chmod +x "$nvdisasm"
fi
if [ -z "$nvdisasm" ]; then
    echo "no nvdisasm, and pip cannot install it: the machine code is not looked at"
    exit 0
fi
python3 "$here/sass.py" "$nvdisasm" "$work"/cubins/*.cubin
