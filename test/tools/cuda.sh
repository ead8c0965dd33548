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

# The steps of the ladder run on the device and are right; a wrong one is named.  Instructions are
# counted in what nvdisasm prints, here one stage of 32 rounds, with a jump back that is no loop.
unset LIMBER_BACKEND
mkdir "$dir/bin"
cat > "$dir/bin/nvdisasm" << 'END'
#!/bin/sh
cat "$2" > /dev/null && cat << 'TEXT'
limber_ladder:
.text.limber_ladder:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDGSTS.E.BYPASS.128 [R3], [R2.64] ;
        /*0020*/                   STS.128 [R3], R4 ;
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_0:
        /*0040*/                   LDSM.16.M88.4 R8, [R3] ;
.L_x_5:
        /*0050*/                   HMMA.16816.F32 R12, R8, R4, R12 ;
        /*0060*/                   HMMA.16816.F32 R16, R8, R6, R16 ;
        /*0070*/                   NOP ;
        /*0080*/              @!P0 BRA `(.L_x_0) ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
.L_x_10:
        /*00a0*/                   UTMALDG.3D [UR8], [UR18] ;
        /*00b0*/               @P0 BRA `(.L_x_10) ;
        /*00c0*/                   EXIT ;
.L_x_8:
        /*00d0*/                   BRA `(.L_x_5) ;
TEXT
END
chmod +x "$dir/bin/nvdisasm"
ladder() {  # TEXT VARIABLE=VALUE...: the row of each step must have TEXT
    text=$1
    shift
    env "$@" "$limber" reproduce --quick -o "$dir/ladder" ladder > "$dir/out" 2>&1
    [ "$(grep -c "$text" "$dir/ladder/ladder-gpu.csv")" = "$steps" ] || {
        echo "steps of the ladder, not $steps rows with $text:"
        cat "$dir/out"
        bad=1
    }
    rm -rf "$dir/ladder"
}
steps=6 # LDSM, HMMA, HMMA and BRA 32 times a stage, four instructions once a warp, two once a block
ladder ',sm_90,1.0332,0.5,0.25781,0.0087891,0.0078125,.*,[0-9.e-]*$' SIMT_CC=90 \
    PATH="$dir/bin:$PATH"
steps=5
ladder '[a-z],,,,,,,.*,[0-9.e-]*$' SIMT_CC=80
says "a wrong step" "specialised by warp gives a wrong product" env SIMT_CC=90 \
    SIMT_FAULT="a.map[1], s * DEPTH=>a.map[1], DEPTH" \
    "$limber" reproduce --quick -o "$dir/ladder" ladder
says "a step that does not compile" "NVRTC does not compile naive for sm_90" env SIMT_CC=90 \
    SIMT_FAULT="float sum = 0, x, y, unused;=>float sum = 0" \
    "$limber" reproduce --quick -o "$dir/ladder" ladder
LIMBER_NVRTC=/nonexistent "$limber" reproduce --quick -o "$dir/ladder" ladder > "$dir/out" 2>&1 &&
    grep -q "ladder-gpu is left out: NVRTC" "$dir/out" ||
    { echo "steps without NVRTC:"; cat "$dir/out"; bad=1; }
exit $bad
