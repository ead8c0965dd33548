#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The CUDA backend from the command line, on the harness: the cache, the dump, and messages when
# something is missing.  Arguments: the tool, the stand-ins for libcuda and NVRTC, collect_cubins.
limber=$1 collect=$4
LIMBER_CUDA=$2 LIMBER_NVRTC=$3 LIMBER_BACKEND=cuda
export LIMBER_CUDA LIMBER_NVRTC LIMBER_BACKEND
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
LIMBER_CACHE_DIR=$dir/cache
export LIMBER_CACHE_DIR
bad=0

# says WHAT TEXT COMMAND...: the command must fail with a message that contains TEXT
says() {
    what=$1 text=$2
    shift 2
    if "$@" > "$dir/out" 2>&1 || ! grep -q "$text" "$dir/out"; then
        echo "$what: expected a failure that says \"$text\":"
        cat "$dir/out"
        bad=1
    fi
}

python3 - "$dir" << 'END' || exit 1
import struct, sys
header = "{'descr': '<f8', 'fortran_order': False, 'shape': (40, 40), }"
header += ' ' * (63 - (len(header) + 10) % 64 + 0) + '\n'
with open(sys.argv[1] + '/a.npy', 'wb') as f:
    f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode())
    f.write(struct.pack('<1600d', *[((i * 7919) % 1009 - 500) / 64 for i in range(1600)]))
END
# Computes a product on the simulated GPU, and checks it.
product() {  # VARIABLE=VALUE...
    env "$@" "$limber" gemm "$dir/a.npy" "$dir/a.npy" --contract correct --check -o "$dir/c.npy"
}

for from in compiled disk; do
    product LIMBER_VERBOSE=1 > "$dir/out" 2>&1 && grep -q "cuda:sm_90a .*$from" "$dir/out" || {
        echo "a product, kernel $from:"
        cat "$dir/out"
        bad=1
    }
done
product LIMBER_NVRTC=/nonexistent/libnvrtc.so SIMT_CLOCK=999000 > "$dir/out" 2>&1 || {
    echo "a product on a device of another clock, kernel from the cache:"
    cat "$dir/out"
    bad=1
}
says "a device of another architecture" "no NVRTC" \
    product LIMBER_NVRTC=/nonexistent/libnvrtc.so SIMT_CC=80
product LIMBER_DUMP="$dir/dump" > /dev/null 2>&1
for file in kernel.cu kernel.cubin plan.txt; do
    ls "$dir"/dump/*/$file > /dev/null 2>&1 || { echo "no $file in the dump"; bad=1; }
done

says "no driver" "no CUDA driver" product LIMBER_CUDA=/nonexistent/libcuda.so
says "no device" "compute capability 6.1 is not supported" product SIMT_CC=61
says "no NVRTC" "no NVRTC" product LIMBER_NVRTC=/nonexistent/libnvrtc.so LIMBER_CACHE=off
says "little memory" "no device memory" product SIMT_MEMORY=4096 LIMBER_CACHE=off
says "a driver older than NVRTC" "is the driver older than NVRTC?  LIMBER_NVRTC names another" \
    product SIMT_DRIVER=12040 SIMT_NVRTC=13 LIMBER_CACHE=off
says "NVRTC that lacks the device" "too old or too new for the device, LIMBER_NVRTC names another" \
    product SIMT_CC=120 SIMT_DRIVER=12040 SIMT_NVRTC=12 LIMBER_CACHE=off
says "a faulty compiler" "NVRTC 13.* for sm_90a" \
    product SIMT_FAULT="DEVICE bool is_special=>DEVICE bool is_special(" LIMBER_CACHE=off \
    LIMBER_DUMP="$dir/failed"
grep -q error "$dir"/failed/*/nvrtc.log || { echo "no log of the failed compilation"; bad=1; }
says "a kernel that fails" "CUDA_ERROR_LAUNCH_FAILED" \
    product SIMT_FAULT="                if (row < r.m)=>                if (row <= r.m)" \
    LIMBER_CACHE=off

# With copied cubins NVRTC is not called, whatever the device's clock is.  If the cubins are damaged
# or for another architecture, NVRTC compiles.
carried() {  # VARIABLE=VALUE...
    product LIMBER_CACHE=off LIMBER_CUBINS="$dir/cubins" LIMBER_NVRTC=/nonexistent/libnvrtc.so "$@"
}
product LIMBER_CACHE=off LIMBER_KEEP_CUBINS="$dir/cubins" > "$dir/out" 2>&1 &&
    carried SIMT_CLOCK=999000 SIMT_SMS=7 > "$dir/out" 2>&1 ||
    { echo "a product by kernels that came along:"; cat "$dir/out"; bad=1; }
says "kernels for another device" "no cubin there is for sm_80" carried SIMT_CC=80
for file in "$dir"/cubins/sm_90a-*.cubin; do
    printf x >> "$file"
done
says "kernels that are damaged" "cubin is of another program, or cut off" carried
product LIMBER_CACHE=off LIMBER_CUBINS="$dir/cubins" LIMBER_KEEP_CUBINS="$dir/cubins" \
    > "$dir/out" 2>&1 && carried > "$dir/out" 2>&1 ||
    { echo "kernels in the place of damaged ones:"; cat "$dir/out"; bad=1; }

# Programs are recorded and compiled elsewhere, as by tools/gpu.sh --collect.
mkdir "$dir/programs"
product LIMBER_CACHE=off SIMT_PROGRAMS="$dir/programs" > "$dir/out" 2>&1 &&
    LIMBER_KEEP_CUBINS=$dir/collected "$collect" "$dir"/programs/*.cu >> "$dir/out" 2>&1 &&
    diff -r "$dir/cubins" "$dir/collected" >> "$dir/out" ||
    { echo "kernels that were collected:"; cat "$dir/out"; bad=1; }
says "a text that is no program" "no program that SIMT_PROGRAMS kept" "$collect" "$dir/out"

# unlike TEXT ENVIRONMENT...: --check must report how many elements the instructions compute
# differently from the unit's model
unlike() {
    text=$1
    shift
    env SIMT_CC=120 LIMBER_CACHE=off "$@" "$limber" gemm "$dir/a.npy" "$dir/a.npy" --as f32 \
        --contract simulate=b200-nvfp4 --scheme tensor-mx --check > "$dir/out" 2>&1 &&
        grep -q "^model  *$text of 1600 elements differ" "$dir/out" || {
        echo "--check with the unit's model, $text: "
        cat "$dir/out"
        bad=1
    }
}
unlike 0
unlike "[1-9][0-9]*" SIMT_FAULT="<< bits * x;=><< bits * (x ^ S);"
exit $bad
