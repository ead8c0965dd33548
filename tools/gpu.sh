#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds, tests and measures on a machine with an NVIDIA GPU.
#
#   tools/gpu.sh [--deps DEPS] [--short] [--steps LIST] [--deadline S] [FOLDER]
#   tools/gpu.sh --collect DEPS [--arch 90a] [--device h200] [--nvrtc 13.0] [--short]
#                [--steps LIST]
#   tools/gpu.sh --collect-deps DEPS
#
# FOLDER (build-gpu/results) gets what tools/gpu.py writes, and logs.  The machine needs a C
# compiler, CMake with ninja or make, Python 3, and the driver.  LLVM and cmocka are used where they
# are found.  A machine that lacks the libraries for the build takes them from DEPS: run
# --collect-deps on a similar machine that has them.  --collect adds the kernels of these steps,
# compiled by NVRTC without a GPU.  Plans, and so kernels, depend on the device's rates: --device
# takes h100, h200, or the numbers of multiprocessors, kHz, kHz of the memory and bits of its bus,
# with commas between, as `limber gpu --probe` prints them.  GPU_OPTIONS: more options of
# gpu.py.  GPU_BUILD: another build folder.
# Exit status: 0 all passed, 77 no GPU, 2 usage or kernels that are damaged or of another device or
# NVRTC, 1 else, such as a build that took too long.
#
# example: tools/gpu.sh --collect carried, then on the other machine
#          tools/gpu.sh --deps carried --short results
set -u

# name for pkg-config, header, pattern of the headers that it includes, libraries
libraries='libffi ffi.h ffi* ffi
libxxhash xxhash.h xxh* xxhash
popt popt.h popt* popt
libcjson cjson/cJSON.h cJSON* cjson
zlib zlib.h z* z
mpfr mpfr.h [mg][pm][fp]* mpfr,gmp
cmocka cmocka.h cmocka* cmocka'

usage() {
    sed -n '3,24s/^# \{0,1\}//p' "$0"
    exit "$1"
}

# Ends with a message after a failure.
die() {
    echo "gpu.sh: $*" >&2
    exit 1
}

# Ends with a message if the request cannot be met.
refuse() {
    echo "gpu.sh: $*" >&2
    exit 2
}

# ---- collecting ----

# Copies a library's header and the headers that it includes, if their names match.
collect_headers() {  # folder, module, header, pattern
    into=$1/include
    case $3 in */*) into=$into/${3%/*} ;; esac
    mkdir -p "$into"
    # shellcheck disable=SC2046
    printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h "$3" |
        ${CC:-cc} $(pkg-config --cflags "$2") -M -xc - > "$1/list" || return 1
    tr -s ' \\' '\n' < "$1/list" | while read -r path; do
        # shellcheck disable=SC2254
        case ${path##*/} in $4.h) cp "$path" "$into/" || exit 1 ;; esac
    done || return 1
    rm "$1/list"
}

# Copies a shared library twice, under its link name and its load name, since symbolic links may be
# lost when the folder is copied to the other machine.
collect_library() {  # folder, module, name
    file=
    for path in $(pkg-config --libs-only-L "$2" | tr ' ' '\n' | sed 's/^-L//'); do
        [ -e "$path/lib$3.so" ] && file=$path/lib$3.so
    done
    [ -n "$file" ] || file=$(${CC:-cc} -print-file-name="lib$3.so")
    [ -e "$file" ] || return 1
    name=$(objdump -p "$file" | awk '$1 == "SONAME" { print $2 }')
    mkdir -p "$1/lib"
    cp -L "$file" "$1/lib/lib$3.so" && cp -L "$file" "$1/lib/${name:-lib$3.so}"
}

# Writes a pkg-config file for the copied library.
collect_description() {  # folder, module, header, libraries
    mkdir -p "$1/lib/pkgconfig"
    below=
    case $3 in */*) below=" -I\${prefix}/include/${3%/*}" ;; esac
    cat > "$1/lib/pkgconfig/$2.pc" <<END
prefix=\${pcfiledir}/../..
Name: $2
Description: collected by gpu.sh
Version: $(pkg-config --modversion "$2")
Cflags: -I\${prefix}/include$below
Libs: -L\${prefix}/lib$(echo ",$4" | sed 's/,/ -l/g')
END
}

# Collects pkg-config and the libraries that it loads, except the C library.
collect_program() {  # folder
    program=$(command -v pkg-config) || return 1
    mkdir -p "$1/bin"
    cp -L "$program" "$1/bin/pkg-config.bin" || return 1
    for path in $(ldd "$program" | awk '$3 ~ /^\// { print $3 }'); do
        case ${path##*/} in libc.so*) ;; *) cp -L "$path" "$1/lib/" || return 1 ;; esac
    done
    cat > "$1/bin/pkg-config" <<'END'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$here/../lib exec "$here/pkg-config.bin" "$@"
END
    chmod +x "$1/bin/pkg-config" "$1/bin/pkg-config.bin"
}

# Collects all libraries with their headers, and pkg-config.
collect() (  # folder
    set -f      # patterns are for headers, not for files in this folder
    mkdir -p "$1" || exit 1
    echo "$libraries" | while read -r module header pattern names; do
        pkg-config --exists "$module" || die "$module is not installed here"
        collect_headers "$1" "$module" "$header" "$pattern" || die "$header cannot be collected"
        for name in $(echo "$names" | tr ',' ' '); do
            collect_library "$1" "$module" "$name" || die "lib$name.so cannot be collected"
        done
        collect_description "$1" "$module" "$header" "$names"
        echo "$module $(pkg-config --modversion "$module")"
    done || exit 1
    collect_program "$1" || die "pkg-config cannot be collected"
    echo "collected in $1; carry it along and pass --deps"
)

# ---- collecting kernels ----

# Programs run with mock libraries in place of the device, which keep the source of each kernel.
# NVRTC then compiles the sources.  An empty library replaces cuBLAS.
collect_nvrtc() {  # version
    [ -z "${LIMBER_NVRTC:-}" ] || return 0
    folder=$build/nvrtc-$1
    case $1 in 12.*) wheel=nvidia-cuda-nvrtc-cu12 ;; *) wheel=nvidia-cuda-nvrtc ;; esac
    [ -d "$folder" ] ||
        python3 -m pip install --quiet --target "$folder" "$wheel==$1.*" ||
        die "pip cannot install NVRTC $1; LIMBER_NVRTC names another"
    LIMBER_NVRTC=$(find "$folder" -name 'libnvrtc.so.*' | head -n 1)
    [ -n "$LIMBER_NVRTC" ] || die "no libnvrtc.so in $folder"
}

# Prints a line for each program: its name, then its command.  Tests, whose commands contain $build,
# run the cases that they run on a device.  test_cuda_ladder takes no carried kernels: it calls
# NVRTC itself, for the device's architecture without a letter.
collect_programs() {
    case $plan in *tests)
        ctest --test-dir "$build" -N -L '^gpu$' | grep -v test_cuda_ladder |
            sed -n 's|.*: \(.*\)_gpu$|\1 env LIMBER_TEST_GPU=1 "$build/test/\1"|p' ;;
    esac
    # shellcheck disable=SC2086
    python3 "$source/tools/gpu.py" --programs $more "$build"
}

# Prints what --device states: multiprocessors, kHz, kHz of the memory, bits of its bus.
device_rates() {  # a device's name, or these numbers with commas between
    case $1 in
    h100) echo 132 1980000 2619000 5120 ;;      # SXM
    h200) echo 132 1980000 3201000 6144 ;;
    *) echo "$1" | grep -qxE '[1-9][0-9]*(,[1-9][0-9]*){3}' && echo "$1" | tr , ' ' ;;
    esac
}

# Runs the programs.  Measurements of large products do not execute most kernels, so their results
# are wrong (exit status 1).  Other failures count, and the file `failed` names these programs.
collect_sources() {  # capability, what device_rates prints
    rm -rf "$build/programs" "$build/programs.log"
    mkdir -p "$build/programs" "$build/programs.log" "$build/simt"
    unexecuted=limber_multiply,limber_pack,limber_reconstruct,limber_special,limber_exact
    unexecuted=$unexecuted,limber_scale_a,limber_scale_b,limber_steps
    SIMT_PROGRAMS=$build/programs SIMT_CACHE=${SIMT_CACHE:-$build/simt}
    SIMT_CC=$1 SIMT_SMS=$2 SIMT_CLOCK=$3 SIMT_MEMORY_CLOCK=$4 SIMT_BUS=$5
    export SIMT_CC SIMT_SMS SIMT_CLOCK SIMT_MEMORY_CLOCK SIMT_BUS
    export SIMT_PROGRAMS SIMT_CACHE build unexecuted
    collect_programs > "$build/programs.txt" || exit 1
    grep -E "${COLLECT_ONLY:-.}" "$build/programs.txt" |
        LIMBER_CACHE=off LIMBER_CUDA=$build/test/libsimt_cuda.so \
        LIMBER_NVRTC=$build/test/libsimt_nvrtc.so \
        LD_LIBRARY_PATH=$build/test/idle xargs -d '\n' -P "$jobs" -I{} sh -c '
            set -- {}
            name=$1
            shift
            log=$SIMT_PROGRAMS.log/$name
            case $name in
            test_* | smoke:*) wanted=[0] ;;
            *) wanted=[01] SIMT_SKIP=$unexecuted SIMT_MEMORY=17179869184
               export SIMT_SKIP SIMT_MEMORY ;;
            esac
            "$@" > "$log" 2>&1
            case $? in $wanted) ! grep -q FAILED "$log" ;; *) false ;; esac || {
                echo "$name failed, so kernels may be missing; see $log"
                echo "$name" >> "$build/programs.log/failed"
            }'
    kernels=$(find "$build/programs" -name '*.cu' | wc -l)
    [ "$kernels" -gt 0 ] || die "no program asked for a kernel"
    echo "$kernels kernels are needed"
}

# Compiles the kernels of the collected programs, and packs the cubins.
collect_cubins() {  # folder, architecture, what device_rates prints
    mkdir -p "$build/cubins"
    # some devices have kernels for sm_120 and sm_120f, say
    made=$(find "$build/programs" -name '*.cu' | sed 's|.*/||; s|-.*||' | sort -u | tr '\n' ' ')
    for each in $made; do
        case $each in
        "sm_${2%[af]}" | "sm_${2%[af]}"[af]) ;;
        *) refuse "--arch $2: there are kernels for ${made% } only" ;;
        esac
    done
    version=$(LIMBER_NVRTC=$LIMBER_NVRTC python3 "$source/tools/gpu.py" --ask nvrtc_version)
    # removes cubins of an earlier build, or for another machine
    find "$build/cubins" -name '*.cubin' ! -newer "$build/test/collect_cubins" -delete
    kind="limber-cubin 1 sm_${2%[af]}"
    for file in "$build"/cubins/*.cubin; do
        case $(head -n 1 "$file" 2> /dev/null) in
        "$kind $version "* | "$kind"[af]" $version "*) ;;
        *) rm -f "$file" ;;
        esac
    done
    find "$build/programs" -name '*.cu' -print0 | LIMBER_CUBINS=$build/cubins \
        LIMBER_KEEP_CUBINS=$build/cubins LIMBER_NVRTC=$LIMBER_NVRTC \
        xargs -0 -P "$jobs" -n 8 "$build/test/collect_cubins" ||
        echo 'programs whose kernels NVRTC refused' >> "$build/programs.log/failed"
    echo "$3" | tr " " , > "$build/cubins/rates"
    (cd "$build" && tar cJf "$1/cubins.tar.xz" cubins) || die "tar cannot write cubins.tar.xz"
    set -- "$build"/cubins/*.cubin "$1"
    echo "$(($# - 1)) kernels, $(head -n 1 "$1" | cut -d ' ' -f 3,4)"
}

# Collects all that a machine without network or NVRTC needs.
collect_all() {  # folder, architecture, NVRTC's version, what device_rates prints
    collect "$1" && into=$(cd "$1" && pwd) || exit 1
    jobs=${JOBS:-$(nproc)}
    choice=$(options)
    out=$build
    mkdir -p "$out"
    # shellcheck disable=SC2086
    step configure cmake -S "$source" -B "$build" $choice -DLIMBER_TESTS=ON &&
        step build cmake --build "$build" --parallel "$jobs" --target collect || exit 1
    collect_nvrtc "$3"
    # shellcheck disable=SC2086
    collect_sources "$(echo "$2" | tr -d a-z)" $4
    collect_cubins "$into" "$2" "$4"
    du -sh "$1"
    [ ! -f "$build/programs.log/failed" ] ||
        die "kernels may be missing of: $(tr '\n' ' ' < "$build/programs.log/failed")"
}

# ---- carried kernels ----

# Unpacks the cubins of an archive, which the library then loads.
use_cubins() {  # archive
    rm -rf "$build/cubins"
    mkdir -p "$build"
    tar xJf "$1" -C "$build" 2> /dev/null || python3 -m tarfile -e "$1" "$build" ||
        refuse "$1 cannot be unpacked"
    (find_libraries && python3 "$source/tools/gpu.py" --carried "$build/cubins") || exit 2
    LIMBER_CUBINS=$build/cubins
    export LIMBER_CUBINS
}

# ---- preparing ----

# Builds with the libraries of a collected folder.
use_deps() {  # folder
    [ -d "$1/lib/pkgconfig" ] || refuse "$1 was not made by --collect-deps"
    here=$(cd "$1" && pwd)
    # copying may have lost the execute permission
    chmod +x "$here/bin/pkg-config" "$here/bin/pkg-config.bin" 2> /dev/null
    if "$here/bin/pkg-config" --version > /dev/null 2>&1; then
        PKG_CONFIG=$here/bin/pkg-config
        export PKG_CONFIG
    fi
    PKG_CONFIG_LIBDIR=$here/lib/pkgconfig
    unset PKG_CONFIG_PATH
    carried=$here/lib
    export PKG_CONFIG_LIBDIR
}

# Adds to the library path the carried libraries, and then NVIDIA's that the loader does not find:
# those of the toolkit and of Python's packages.  Call it after building, since compilers use such
# libraries of their own.
find_libraries() {
    found=${carried:+:$carried}
    for path in /usr/local/cuda/lib64 /usr/local/nvidia/lib64; do
        [ -d "$path" ] && found=$found:$path
    done
    packages=$(python3 -c '
import glob, importlib.util
nvidia = importlib.util.find_spec("nvidia")
folders = nvidia.submodule_search_locations if nvidia else []
print(":".join(lib for f in folders for lib in glob.glob(glob.escape(f) + "/*/lib")))')
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}$found${packages:+:$packages}
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
    export LD_LIBRARY_PATH
}

has() {
    ${PKG_CONFIG:-pkg-config} --exists "$1" 2> /dev/null
}

all_found() {  # programs
    for program in "$@"; do
        command -v "$program" > /dev/null || return 1
    done
}

# Prints CMake's options for what is installed here.
options() {
    llvm=-DLIMBER_LLVM=OFF
    for version in 19 20 21 22; do
        all_found llvm-config-$version clang-$version opt-$version || continue
        llvm="-DLIMBER_LLVM=ON -DLIMBER_LLVM_VERSION=$version"
        break
    done
    tests=OFF
    has cmocka && has mpfr && tests=ON
    echo "$llvm -DLIMBER_TESTS=$tests $(all_found ninja && echo '-G Ninja')"
}

# ---- steps ----

failed=0
# Forwards a signal to the step's process group, so also to the step's children.
stop_step() {  # the signal's number
    trap '' INT TERM HUP
    echo "stopped"
    [ -z "$child" ] || kill -s TERM -- "-$child" 2> /dev/null ||
        kill "$child" 2> /dev/null      # it has no process group yet
    wait
    exit $((128 + $1))
}

# Runs a command in a process group of its own, with its output in a log.
run_step() {  # log, command...
    log=$1
    shift
    child=
    trap 'stop_step 1' HUP
    trap 'stop_step 2' INT
    trap 'stop_step 15' TERM
    python3 -c 'import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])' "$@" \
        > "$log" 2>&1 &
    child=$!
    wait "$child"
    status=$?
    trap - INT TERM HUP
    return $status
}

# Runs a step, and prints whether it succeeded.
step() {  # name, command...
    name=$1
    shift
    printf '%-10s ... ' "$name"
    begun=$(date +%s)
    if run_step "$out/$name.log" "$@"; then
        echo "done, $(($(date +%s) - begun)) s"
        return 0
    fi
    case $status in 124 | 137) verdict='OUT OF TIME' ;; *) verdict=FAILED ;; esac
    echo "$verdict, $(($(date +%s) - begun)) s; the first errors and the end of $out/$name.log:"
    { grep -m 3 'error: ' "$out/$name.log"; tail -n 20 "$out/$name.log"; } | sed 's/^/    /'
    failed=1
    return 1
}

# Builds targets in a limited time; goes on after errors.
build_some() {  # step, seconds from this script's start, targets...
    seconds=$(($2 - ($(date +%s) - started)))
    [ $seconds -gt 0 ] || seconds=1
    case $choice in *Ninja*) keep_going='-k 0' ;; *) keep_going=-k ;; esac
    name=$1
    shift 2
    # shellcheck disable=SC2086
    step "$name" timeout -k 5 $seconds cmake --build "$build" --parallel "${JOBS:-$(nproc)}" \
        --target "$@" -- $keep_going
}

# Builds the measuring programs, until two thirds of the time have passed, then the tests, if less
# than half of it has passed.  Steps whose programs were not built are skipped.
build_all() {
    # shellcheck disable=SC2086
    step configure timeout -k 5 "$deadline" cmake -S "$source" -B "$build" $choice \
        -DLIMBER_FORTRAN=OFF || return
    rm -f "$build/tools/limber" "$build/test/gpu_smoke"     # of an earlier build, if this one fails
    case $choice in
    *TESTS=OFF*) build_some build $((deadline * 2 / 3)) limber_cli timed_cuda; return ;;
    esac
    build_some build $((deadline * 2 / 3)) limber_cli timed_cuda gpu_smoke
    [ -x "$build/tools/limber" ] || return
    case $plan in *tests) build_some build-tests $((deadline / 2)) gpu ;; esac
}

# Runs the steps that need the device.  The time limit counts from this script's start.  A signal to
# this script also ends gpu.py, which keeps the results that it has.
measure() {
    # shellcheck disable=SC2086
    python3 "$source/tools/gpu.py" --used "$(($(date +%s) - started))" \
        ${LIMBER_CUBINS:+--carried "$LIMBER_CUBINS"} $more "$build" "$out" &
    child=$! signalled=
    trap 'signalled=1; kill "$child" 2> /dev/null' INT TERM HUP
    wait "$child"
    status=$?
    [ -z "$signalled" ] || { wait "$child"; status=$?; }
    trap - INT TERM HUP
    return $status
}

started=$(date +%s)
deps='' carried='' out='' more=${GPU_OPTIONS:-}    # more: options of gpu.py
collected='' arch=90a device=h200 nvrtc=13.0    # options of --collect
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage 0 ;;
    --collect-deps) [ $# = 2 ] || usage 2; collect "$2"; exit ;;
    --short) more="$more $1" ;;
    --deps | --steps | --deadline | --collect | --arch | --device | --nvrtc)
        [ $# -ge 2 ] || usage 2
        case $1 in
        --deps) deps=$2 ;;
        --collect) [ -n "$2" ] || usage 2; collected=$2 ;;
        --arch) arch=$2 ;;
        --device) device=$2 ;;
        --nvrtc) nvrtc=$2 ;;
        *) more="$more $1 $2" ;;
        esac
        shift ;;
    -*) usage 2 ;;
    *) [ -z "$out" ] || usage 2; out=$1 ;;
    esac
    shift
done

source=$(cd "$(dirname "$0")/.." && pwd)
build=${GPU_BUILD:-$source/build-gpu}
case $build in /*) ;; *) build=$(pwd)/$build ;; esac    # steps run in other folders, too
# shellcheck disable=SC2086
# check options before minutes of building
plan=$(python3 "$source/tools/gpu.py" --check $more) || exit 2
deadline=${plan%% *} deadline=${deadline%%.*}
if [ -n "$collected" ]; then
    python3 "$source/tools/gpu.py" --check-architecture "$arch" || exit 2
    rates=$(device_rates "$device") ||
        refuse "--device $device: it takes h100, h200 or SMS,KHZ,MEMORY_KHZ,BITS"
    collect_all "$collected" "$arch" "$nvrtc" "$rates"
    exit
fi
out=${out:-$build/results}
[ -z "$deps" ] || use_deps "$deps"
mkdir -p "$out" && [ -w "$out" ] || refuse "results cannot be written to $out"
[ -z "$deps" ] || [ ! -f "$deps/cubins.tar.xz" ] || use_cubins "$deps/cubins.tar.xz"
choice=$(options)
echo "options: $choice"
build_all
if [ -x "$build/tools/limber" ]; then
    find_libraries
    measure
    status=$?
    case $status in 0 | 77) ;; *) failed=$status ;; esac
    [ $failed != 0 ] || failed=$status
fi
echo "results in $out: $(ls "$out" | tr '\n' ' ')"
exit $failed
