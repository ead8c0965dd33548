#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compiles kernels for real devices, checks what ptxas says of them (test_cubin), and applies rules
# to their machine code.  NVRTC and nvdisasm are the installed ones, else those of Python's package
# index.  Without NVRTC the test is skipped.
set -eu
program=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/cubins"
. "$here/fetch.sh"

# Compiles all kernels.
compile() {     # in two processes
    for part in 0 1; do
        LIMBER_CUBIN_DIR="$work/cubins" "$program" $part 2 > "$work/part$part" 2>&1 &
        eval "pid$part=$!"
    done
    failed=0
    for part in 0 1; do
        eval "wait \$pid$part" || failed=1
        cat "$work/part$part"
    done
    return $failed
}

compile || exit 1
if [ -z "$(ls "$work/cubins")" ]; then
    fetch nvidia-cuda-nvrtc || {
        echo "no NVRTC, and pip cannot install it: nothing is compiled"
        exit 77
    }
    folder=$(dirname "$(find "$work/pip" -name 'libnvrtc.so.*' | head -n 1)")
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    compile || exit 1
fi
nvdisasm=$(command -v nvdisasm || true)
if [ -z "$nvdisasm" ] && fetch nvidia-cuda-nvdisasm; then
    nvdisasm=$(find "$work/pip" -name nvdisasm -type f)
    chmod +x "$nvdisasm"
fi
if [ -z "$nvdisasm" ]; then
    echo "no nvdisasm, and pip cannot install it: the machine code is not looked at"
    exit 77
fi
python3 "$here/sass.py" "$nvdisasm" "$work"/cubins/*.cubin
