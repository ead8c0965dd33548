#!/bin/sh
# Runs `limber gpu` on mock libraries of NVIDIA's: rows, checks, skipped steps, exit codes.
limber=$1 mock=$2 cuda=$3 nvrtc=$4 idle=$5
script=$(cd "$(dirname "$0")/../../tools" && pwd)/gpu.sh
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
LIMBER_CUDA=$mock/libcuda.so.1
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LIMBER_CUDA LD_LIBRARY_PATH
gpu() {
    "$limber" gpu --backend "${backend:-auto}" "$@"
}

# rows of all groups that have small problems
expect 0 'cuBLAS SGEMM +[0-9.]+ +[0-9.]+ .*TFLOPS' gpu --rows fp32 --sizes 33
expect 0 'Limber native .* x cuBLAS SGEMM' echo "$out"
expect 0 'Limber fp32-f fast' echo "$out"
expect 0 'not emulated' echo "$out"
expect 0 'Limber correct \((.*ozaki2|pairs)' gpu --rows fp64,quad --sizes 20
# JSON: a line about the device, one line per row, and the summary
gpu --rows fp32 --sizes 33 --json > all.json 2> progress || echo 'failed' >> all.json
expect 0 '^\{"limber":.*"capability":90.*"sm_mhz":1234,.*"clocks":"by NVML".*"name":"cuBLAS","usable":true' head -n 1 all.json
expect 0 '"by":"cuBLAS SGEMM","so_far":"ok","median":' sed -n 2p all.json
expect 0 '"group":"fp32".*"data":"uniform.*"state":"ok".*"sm_mhz":1234,.*"watts":512.5,' grep -m 1 '"state"' all.json
expect 0 '^\{"ok":[0-9]+,"wrong":0,"skipped":0,"failed":0,"seconds":' tail -n 1 all.json
expect 0 'fp32: FP32, normal, rows scaled, n = 33, fp32-f' cat progress
expect 1 '' grep -q cuDNN all.json
expect 0 '^\{"limber".*"capability":90' gpu --probe
expect 0 'Limber ozaki2 correct .*TFLOPS' gpu --rows fp64,quad --sizes 20 --by correct:ozaki2
expect 1 '' sh -c 'printf "%s" "$0" | grep -q "DGEMM\|binary128"' "$out"
expect 0 'ok: not timed' gpu --rows fp64 --sizes 20 --once
expect 0 'clocks and power are not read: NVML answers 18' env GPU_MOCK=nonvml "$limber" gpu --backend auto --rows fp64 --sizes 8 --once
expect 0 'i16 to i64, exact .*TOPS +0' gpu --rows int --sizes 17
expect 0 'copy on the device .*GB/s' gpu --rows units --sizes 16
expect 0 'E4M3 to FP32 .*TFLOPS' echo "$out"
expect 0 'FP16 to FP32 .*Limber \(native\) .* x cuBLAS FP16' echo "$out"
expect 0 'INT8 to INT32 .*cuBLASLt INT8 .*TOPS +0' echo "$out"
expect 0 'FP16 to FP32 .*TFLOPS' gpu --rows units --sizes 21
expect 0 'Limber bits=53 .*MiB' gpu --rows workspace --sizes 24
LIMBER_WAYS=-planless LIMBER_KERNELS=specialised expect 0 'FP32 native .*(disk|compiled)' \
    gpu --rows small --sizes 16
expect 0 'replayed by a CUDA graph.*skipped' echo "$out"
LIMBER_CUBINS=nowhere expect 0 'first call, LIMBER_CUBINS' gpu --rows small --sizes 16
expect 0 'time is up' gpu --rows fp64 --sizes 16 --seconds 0.000001
backend=interp
expect 0 'Limber \(native\)' gpu --rows fp32 --sizes 8
backend=
if "$limber" formats > /dev/null && LIMBER_BACKEND=llvm "$limber" cache info > /dev/null 2>&1; then
    expect 0 'conv1 7x7/2, NCHW .*cuDNN' gpu --rows conv --batch 1 --seconds 3
fi

# wrong results are marked, whichever library computed them
expect 1 'cuBLAS SGEMM +WRONG: row 32, column 32' env GPU_MOCK=sgemm "$limber" gpu --backend auto --rows fp32 --sizes 33
expect 1 '"state":"WRONG","why":"row 32, column 32' env GPU_MOCK=sgemm "$limber" gpu --backend auto --rows fp32 --sizes 33 --by sgemm --json
expect 0 '"wrong":3,"skipped":0' echo "$out"
expect 1 'SGEMM +WRONG: row 30, column 20 was not written' env GPU_MOCK=hole "$limber" gpu --backend auto --rows fp32 --sizes 61
expect 1 'Limber.* WRONG' env GPU_MOCK=copy "$limber" gpu --backend auto --rows fp64 --sizes 9
expect 1 'copy on the device.*FAILED|fault|lost' env GPU_MOCK=fault "$limber" gpu --backend auto --rows fp32 --sizes 9
expect 1 'replayed by a CUDA graph.* WRONG' env GPU_MOCK=graph "$limber" gpu --backend auto --rows small --sizes 16

# rows of missing libraries are skipped, with a reason
expect 0 'BF16x9 +skipped: .*does not offer' env GPU_MOCK=declines "$limber" gpu --backend auto --rows fp32 --sizes 9
expect 0 'cuBLAS: skipped' env GPU_MOCK=nocublas "$limber" gpu --backend auto --rows fp32 \
    --sizes 9
expect 0 'Limber \(native\) +[0-9.]+ ' echo "$out"
expect 0 'operands take' gpu --rows fp64 --sizes 8192
expect 77 'no CUDA-capable device' env GPU_MOCK=none "$limber" gpu
expect 77 'there is no device 7: the driver lists 1' gpu --device 7
expect 77 'nowhere.so' env LIMBER_CUDA=nowhere.so "$limber" gpu
ln -s "$mock/libcuda.so.1" 'the driver.so'
expect 0 '"capability":90' env LIMBER_CUDA="$work/the driver.so" "$limber" gpu --probe
expect 77 'has no cuInit' env LIMBER_CUDA="$mock/libcudnn.so.9" "$limber" gpu

# cuBLAS is loaded before the context is made, so that Limber may multiply by it
stand_ins() {
    env LIMBER_CUDA="$cuda" LIMBER_NVRTC="$nvrtc" LD_LIBRARY_PATH="$(dirname "$idle")" "$@"
}
skipped=limber_multiply,limber_pack,limber_reconstruct
expect 1 'Limber \(cublas\) +WRONG' stand_ins SIMT_SKIP=$skipped LIMBER_KEEP_CUBINS=cubins \
    "$limber" gpu --rows fp32 --sizes 33
expect 0 'limber-cubin 1 sm_90a 13.0 ' head -qn 1 cubins/*

# limber reproduce fills the columns of a GPU
stand_ins LD_LIBRARY_PATH= "$limber" reproduce --quick -o reproduced ape-11 > /dev/null 2>&1
expect 0 '^2$' awk -F, 'NR > 1 && $5 > 0 && $6 > 0 { n++ } END { print n }' reproduced/ape-11.csv

# kernels for another device or by another NVRTC are refused before anything is built
mkdir -p deps/lib/pkgconfig
tar cJf deps/cubins.tar.xz cubins
expect 2 'is for sm_90a, and the device is sm_80' stand_ins GPU_BUILD=build SIMT_CC=80 \
    sh "$script" --deps deps results
expect 2 "was made by NVRTC 13.0, and here is 12.0" stand_ins GPU_BUILD=build SIMT_NVRTC=12 \
    sh "$script" --deps deps results
echo damaged > deps/cubins.tar.xz
expect 2 'gpu.sh: deps/cubins.tar.xz cannot be unpacked' stand_ins GPU_BUILD=build sh "$script" --deps deps results
expect 2 'gpu.sh --collect DEPS' sh "$script" --collect

# collecting kernels in folders with spaces; kernels of other machines and of earlier builds are
# left out
mkdir -p 'a build/tools' 'a build/cubins' nothing
ln -s "$(dirname "$cuda")" 'a build/test'
ln -s "$limber" 'a build/tools/limber'
printf '#!/bin/sh\n' > nothing/cmake
cat > nothing/ctest << 'END'
#!/bin/sh
echo "  Test #1: test_cuda_launches_gpu"
echo "  Test #2: test_cuda_ladder_gpu"
END
chmod +x nothing/*
echo "limber-cubin 1 sm_80 13.0 " > 'a build/cubins/sm_80-0.cubin'
echo "limber-cubin 1 sm_90a 13.0 " > 'a build/cubins/sm_90a-0.cubin'
touch -d 2001-01-01 'a build/cubins/sm_90a-0.cubin'
# Collects what gpu.sh needs on a machine without network.
collect() {  # regular expression of programs, architecture, device
    env PATH="$work/nothing:$PATH" LIMBER_CUDA= LIMBER_NVRTC="$nvrtc" GPU_BUILD='a build' \
        COLLECT_ONLY="$1" GPU_OPTIONS=--tiny sh "$script" --collect 'all of it' --arch "$2" \
        --device "${3:-h200}"
}
expect 0 '[1-9] kernels, sm_90a 13.0' collect '^int8-2048 ' 90
expect 0 'cubins/sm_90a-' tar tJf 'all of it/cubins.tar.xz'
expect 1 '' sh -c 'echo "$0" | grep "sm_80\|sm_90a-0\.cubin"' "$out"
expect 2 '--arch 77: there are kernels for sm_70, sm_75, ' collect '^int8-2048 ' 77
expect 0 '[1-9] kernels, sm_120' collect '^smoke:(scan|block-scaled) ' 120
expect 0 'sm_120-.*sm_120f-' sh -c 'tar tJf "all of it/cubins.tar.xz" | sort | tr "\n" " "'
expect 1 'no program asked for a kernel' collect '^nothing ' 90a
export SIMT_LOST=2
expect 1 'kernels may be missing of: smoke:scan' collect '^smoke:scan ' 90a
unset SIMT_LOST

# on a device, programs find all kernels that they need; test_cuda_ladder compiles its own there
programs='test_cuda_ladder|test_cuda_launches|smoke:scan|smoke:fp32-f-inside'
expect 0 '[1-9] kernels, sm_90a 13.0' collect "^($programs) " 90a
# Runs a command with the simulated device and the carried kernels, and without NVRTC.
on_device() {
    env SIMT_SMS=132 SIMT_CLOCK=1980000 SIMT_MEMORY_CLOCK=3201000 SIMT_BUS=6144 \
        LIMBER_CUDA="$cuda" LIMBER_NVRTC=/nonexistent LIMBER_CUBINS='a build/cubins' \
        LIMBER_TEST_GPU=1 "$@"
}
expect 0 '"passed": true' on_device 'a build/test/gpu_smoke' scan
expect 0 '"passed": true' on_device 'a build/test/gpu_smoke' fp32-f-inside
expect 0 'PASSED' on_device 'a build/test/test_cuda_launches'
expect 1 'no NVRTC' on_device 'a build/test/gpu_smoke' pack

# Kernels are those of the rates that --device states: a scan of this product pays with the memory
# of an H200, but not with that of an H100, so their plans differ.
python3 - square.npy << 'END'
import array, struct, sys
n = 1150
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (n, n)
header += ' ' * (63 - (len(header) + 10) % 64) + '\n'
with open(sys.argv[1], 'wb') as f:
    f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode())
    f.write(array.array('f', [i * 7919 % 10007 / 16384 for i in range(n * n)]).tobytes())
END
rm 'a build/tools/limber'
cat > 'a build/tools/limber' << END
#!/bin/sh
LIMBER_BACKEND=cuda LIMBER_CACHE=off SIMT_SKIP=$skipped exec "$limber" gemm "$work/square.npy" \
    "$work/square.npy" --contract native -o "$work/product.npy"
END
chmod +x 'a build/tools/limber'
h100='SIMT_MEMORY_CLOCK=2619000 SIMT_BUS=5120'
product() {  # VARIABLE=VALUE...
    on_device "$@" 'a build/tools/limber'
}
carried() {  # VARIABLE=VALUE...
    on_device LIMBER_NVRTC="$nvrtc" "$@" python3 "${script%.sh}.py" --carried 'a build/cubins'
}
expect 0 ' kernels, sm_90a 13.0' collect '^int8-2048 ' 90a
expect 0 'ozaki1' product
expect 1 'no NVRTC' product $h100
expect 0 '^$' carried
expect 0 'for --device 132,1980000,3201000,6144, and here is 132,1980000,2619000,5120' carried $h100
expect 0 ' kernels, sm_90a 13.0' collect '^int8-2048 ' 90a 132,1980000,2619000,5120
expect 0 'native, by native' product $h100
expect 0 '^$' carried $h100
expect 2 '--device h300: it takes' collect '^int8-2048 ' 90a h300

# bad options are refused, too
expect 2 'nowhere was not made by' sh "$script" --deps nowhere results
expect 2 'no step is called "fp65"' sh "$script" --steps fp65 results
expect 2 'is too short for' sh "$script" --deadline 5 results
expect 2 'cannot be written to .*full' sh -c ': > full; sh "$0" full' "$script"

# a signal to the script alone reaches gpu.py
mkdir -p fake
cat > fake/cmake << 'END'
#!/bin/sh
[ "$1" = --build ] || exit 0
mkdir -p "$2/tools"
printf '#!/bin/sh\n[ "$2" = --probe ] || exec sleep 1000\n' > "$2/tools/limber"
chmod +x "$2/tools/limber"
END
chmod +x fake/cmake
PATH=$work/fake:$PATH GPU_BUILD='no build' sh "$script" --steps attributes,fp32-4096 \
    'its results' > stopped.log 2>&1 &
pid=$!
tries=0
until grep -q '"attributes"' 'its results/results.jsonl' 2> /dev/null || [ $tries = 60 ]; do
    sleep 1
    tries=$((tries + 1))
done
kill $pid
wait $pid
expect 0 '^143$' echo $?
expect 0 'stopped; what there is' cat stopped.log
expect 0 '"step": "fp32-4096".*"stopped": true' cat 'its results/results.jsonl'

# if the build fails or runs out of time, the programs that it has built are measured
cat > fake/cmake << 'END'
#!/bin/sh
[ "$1" = --build ] || exit 0
mkdir -p "$2/tools"
printf '#!/bin/sh\n' > "$2/tools/limber"
chmod +x "$2/tools/limber"
[ -z "${SLOW:-}" ] || exec sleep 100
exit 1
END
# Runs one step of gpu.sh with a deadline.
partly() {  # folder of results, seconds
    env PATH="$work/fake:$PATH" GPU_BUILD='no build' GPU_OPTIONS='--limit attributes=1' \
        sh "$script" --steps attributes --deadline "$2" "$1"
}
expect 1 'build .* FAILED.*' partly 'its parts' 100
expect 0 '"step": "attributes".*"exit": 0' cat 'its parts/results.jsonl'
export SLOW=1
expect 1 'build .* OUT OF TIME' partly 'its parts' 3
unset SLOW

# a signal during the build ends the build's processes, so that the pipe has no writer
mkdir -p slow
mkfifo pipe
cat > slow/cmake << 'END'
#!/bin/sh
[ "$1" = --build ] || exit 0
(echo begun; exec sleep 100) > "$PIPE"
END
chmod +x slow/cmake
timeout 90 cat pipe > said &
reader=$!
PIPE=$work/pipe PATH=$work/slow:$PATH GPU_BUILD='slow build' sh "$script" 'slow results' \
    > stopped.log 2>&1 &
pid=$!
tries=0
until [ -s said ] || [ $tries = 60 ]; do
    sleep 1
    tries=$((tries + 1))
done
kill $pid
wait $pid
expect 0 '^143$' echo $?
wait $reader
expect 0 '^0$' echo $?
expect 0 'build .* stopped' cat stopped.log

# usage
expect 0 'example:' "$limber" gpu --help
expect 2 'no rows are called "fp16"' gpu --rows fp32,fp16
expect 2 '--sizes takes' gpu --sizes 16,x
expect 2 'nothing of these rows is computed by "sgem,y"' gpu --rows fp64 --by sgem,y
expect 2 '--seconds takes' gpu --seconds 0
expect 2 '--batch takes' gpu --batch 0
expect 2 'takes no files' gpu a.npy

finish
