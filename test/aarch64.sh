#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the library and some tests for AArch64 and runs them under qemu-user, on CPUs without and
# with dot products, matrix products, SVE and SME.  An emulator is slow, and libLLVM in it
# even slower, so few tests run, with few cases (EMULATED of support.h).
#
#   aarch64.sh SOURCE BUILD [TEST...]      the tests by name; default: a choice
#   LIMBER_AARCH64_ROOT    the folder with libraries (tools/aarch64_root.sh)
set -eu
source=$1 build=$2
shift 2
root=${LIMBER_AARCH64_ROOT:-$source/build-aarch64-root}
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(uname -m)" != aarch64 ] || skip "this machine is one: its own tests say more"
for tool in aarch64-linux-gnu-gcc qemu-aarch64 ninja; do
    command -v $tool > /dev/null || skip "$tool is not installed"
done
[ -e "$root/.packages" ] || skip "no AArch64 libraries in $root (sh tools/aarch64_root.sh $root)"

# Prebuilt kernels are tested on every CPU.  Code that is the same on all CPUs is tested on one.
library="test_object bare_test_run bare_test_targets bare_test_conv bare_test_prebuilt"
once="test_zeros test_transpose bare_test_modes test_cache test_seal"
int8="test_int8"  # products of bytes, on CPUs where bytes are faster than doubles
compiler="test_run test_hostile"
[ $# = 0 ] || { library=$* once="" int8="" compiler=""; }

mkdir -p "$build"
launcher=
! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/aarch64.cmake \
    -DLIMBER_AARCH64_ROOT="$root" -DLIMBER_WERROR=ON -DLIMBER_TESTS=ON -DLIMBER_FORTRAN=OFF \
    $launcher > "$build/log" 2>&1 || { cat "$build/log"; exit 1; }
# shellcheck disable=SC2046
cmake --build "$build" --target limber_cli limber_blas blas_program_32 limber_cublas \
    cublas_program $(echo $library $once $int8 $compiler test_sme corpus_replay |
        sed 's/bare_//g') \
    > "$build/log" 2>&1 ||
    { tail -n 40 "$build/log"; exit 1; }

# A big-endian target must be refused before anything is built.
if cmake -S "$source" -B "$build-big" -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/aarch64.cmake \
    -DLIMBER_AARCH64_ROOT="$root" -DCMAKE_C_FLAGS=-mbig-endian \
    -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY > "$build/log" 2>&1; then
    echo "a big-endian build was not refused"
    exit 1
fi
grep -q "for little-endian machines" "$build/log" || { cat "$build/log"; exit 1; }
rm -rf "$build-big"

# Runs tests as on a CPU.
run() {     # arguments: CPU, tests
    echo "== $1"
    QEMU_CPU=$1 ctest --test-dir "$build" -j "$(nproc)" -R "^($(echo $2 | tr ' ' '|'))\$" \
        --output-on-failure
}
# Some plans are computed by kernels that libLLVM compiles for this CPU.
compile() {
    echo "== $1, compiled"
    cpu=$1
    shift
    for plan in "$@"; do
        set -- "$@" "$source/test/run/$plan.lir"
        shift
    done
    qemu-aarch64 -cpu "$cpu" "$root/lib/ld-linux-aarch64.so.1" \
        --library-path "$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu" \
        "$build/test/test_run" "$@"
}
# Runs a C program with the library preloaded before its BLAS or cuBLAS.  Stand-ins take the place
# of those libraries.
preloaded() {   # arguments: library, program, variables
    echo "== neoverse-n1, $2"
    # shellcheck disable=SC2086
    qemu-aarch64 -cpu neoverse-n1 -E "LD_PRELOAD=$here/tools/interpose/$1" -E LIMBER_CACHE=off \
        -E LIMBER_TRUST_BLAS=0 $3 "$root/lib/ld-linux-aarch64.so.1" --library-path \
        "$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu" "$build/test/$2" served
}
# Computes a product by a kernel that libLLVM compiles, or that is in the cache.  The bits must be
# the same.
cached() {      # arguments: CPU, folder of the cache, expected origin of the kernel
    qemu-aarch64 -cpu "$1" -E "HOME=$here/cached" -E XDG_STATE_HOME= -E XDG_CONFIG_HOME= \
        -E "LIMBER_CACHE_DIR=$here/cached/$2" -E LIMBER_KERNELS=specialised \
        -E LIMBER_WAYS=-planless \
        "$root/lib/ld-linux-aarch64.so.1" --library-path \
        "$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu" "$build/tools/limber" gemm \
        "$here/cached/a.csv" "$here/cached/a.csv" -o csv:- --contract native \
        > "$here/cached/out" 2> "$here/cached/told" || { cat "$here/cached/told"; exit 1; }
    echo "$1: $(grep seconds "$here/cached/told")"
    grep -q "^seconds.*($3)" "$here/cached/told"
    [ -e "$here/cached/want" ] || cp "$here/cached/out" "$here/cached/want"
    cmp "$here/cached/out" "$here/cached/want"
}
# CPUs that share a cache must keep separate kernels.  An entry for another CPU or vector length
# that takes the place of this CPU's must be compiled again.
caches() {
    echo "== caches"
    rm -rf "$here/cached"
    mkdir -p "$here/cached"
    awk 'BEGIN { for (i = 0; i < 60; i++) for (j = 0; j < 60; j++)
                     printf "%g%s", (i * 31 + j * 17) % 64 / 8 - 3, j < 59 ? "," : "\n" }' \
        > "$here/cached/a.csv"
    for from in compiled disk; do
        for cpu in "$@"; do
            cached "$cpu" shared $from
        done
    done
    for cpu in "$@"; do
        cached "$cpu" own compiled
        cp "$(ls "$here"/cached/own/*/*.kernel | head -n 1)" "$here/cached/next"
        [ ! -e "$here/cached/last" ] || {
            for entry in "$here"/cached/own/*/*.kernel; do
                cp "$here/cached/last" "$entry"
            done
            cached "$cpu" own compiled
        }
        mv "$here/cached/next" "$here/cached/last"
        rm -rf "$here/cached/own"
    done
}
# NumPy with the library preloaded before its BLAS, and the Python package.
program() {     # arguments: CPU, variables
    echo "== $1, Python"
    set -- -cpu "$1" -E "LD_PRELOAD=$here/tools/interpose/blas/liblimber_blas.so" \
        -E LIMBER_CONTRACT=correct -E LIMBER_CACHE=off -E LIMBER_THREADS=1 \
        -E "PYTHONHOME=$root/usr" \
        -E "PYTHONPATH=$root/usr/lib/python3/dist-packages:$source/bindings/python" \
        -E "LIMBER_LIBRARY=$here/liblimber.so" -E PYTHONDONTWRITEBYTECODE=1 ${2:+-E "$2"}
    libraries=$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
    qemu-aarch64 "$@" "$root/lib/ld-linux-aarch64.so.1" --library-path \
        "$libraries:${libraries##*:}/blas:${libraries##*:}/lapack" "$root/usr/bin/python3" \
        "$source/test/aarch64.py"
}
run cortex-a57 "$library $once"                 # ARMv8.0
run neoverse-n1 "$library $int8"              # dot products
run a64fx "$library"                            # SVE of 512 bits
for bytes in 16 32; do                          # INT8 matrix products; SVE of 128 and 256 bits
    run max,sme=off,sve-default-vector-length=$bytes "$library"
done
[ -n "$compiler" ] || exit 0
here=$(cd "$build" && pwd)
program cortex-a57 "LIMBER_REPORT=$here/report.json"
grep -q '"cblas_dgemm".*"served": true' "$here/report.json" || { cat "$here/report.json"; exit 1; }
program max,sme=off,sve-default-vector-length=32
program a64fx
preloaded blas/liblimber_blas.so blas_program_32 "-E LIMBER_CONTRACT=native"
preloaded cublas/liblimber_cublas.so cublas_program \
    "-E LIMBER_CONTRACT=correct -E LIMBER_BACKEND=llvm -E LIMBER_KERNELS=prebuilt"
caches neoverse-n1 a64fx max,sme=off,sve-default-vector-length=32
# compares with the records in expected.txt, which were made on x86-64
run neoverse-n1 corpus
run max,sme=off,sve-default-vector-length=16 test_hostile
some="native_f32 native_f64 fp32_f integer_i8 ozaki1_i8_f64 ozaki2_f64 conv_native"
# shellcheck disable=SC2086
compile max,sme=off,sve-default-vector-length=16 $some f128_ozaki2 integer_i32 model_f16 \
    model_bfdot conv_integer
# shellcheck disable=SC2086
compile max,sme=off,sve-default-vector-length=32 $some
# shellcheck disable=SC2086
compile a64fx $some
# Outer products on a CPU that has no NEON in streaming mode, such as Apple's M4.  QEMU before 9.1
# computes every second column of byte products wrongly, and all products with vectors of 256 bits.
sme=max,sme_fa64=off,sve-default-vector-length=16,sme-default-vector-length
outer="native_f32 native_f64 fp32_f conv_native" lengths=64
[ "$(printf '9.1\n%s\n' "$(qemu-aarch64 --version | sed -n 's/.* version \([0-9.]*\).*/\1/p')" |
    sort -V | head -n 1)" != 9.1 ] || { outer=$some lengths="32 64"; }
for bytes in $lengths; do
    run $sme=$bytes test_sme
    # shellcheck disable=SC2086
    compile $sme=$bytes $outer
done
