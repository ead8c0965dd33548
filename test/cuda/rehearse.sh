#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rehearses what tools/gpu.sh does on a bare machine with a GPU.  A copy of the sources is built
# where there is no network, LLVM or pkg-config, nor any header or library that the build needs but
# those that `gpu.sh --collect-deps` took along.  The run must end by saying that there is no
# device (77).  A header that was forgotten must be an error.  ccache is used if it is installed.
#
#   rehearse.sh SOURCE FOLDER
#
# The bare machine is a view of /usr without these files, in namespaces of its own.
set -eu
source=$1 folder=$2

if [ "${3:-}" != inside ]; then
    for program in unshare ninja pkg-config objdump python3 tar; do
        command -v $program > /dev/null || { echo "skipped: $program is not installed"; exit 77; }
    done
    unshare -r -m -n true 2> /dev/null ||
        { echo "skipped: this system allows no namespaces (unshare -r -m -n)"; exit 77; }
    rm -rf "$folder"
    mkdir -p "$folder/source" "$folder/view"
    list=$folder/files
    git -C "$source" ls-files -co --exclude-standard > "$list" 2> /dev/null ||
        (cd "$source" && find . -type d \( -name 'build*' -o -name .git \) -prune -o \
            -type f -print) > "$list"
    (cd "$source" && while read -r file; do [ ! -f "$file" ] || echo "$file"; done < "$list" |
        tar cf - -T -) | tar xf - -C "$folder/source"
    sh "$source/tools/gpu.sh" --collect-deps "$folder/deps" > "$folder/log" 2>&1 ||
        { cat "$folder/log"; exit 1; }
    mkdir "$folder/cubins"      # one that no program asks for
    echo "limber-cubin 1 sm_90a 13.0 0 0 0" > "$folder/cubins/sm_90a-0.cubin"
    tar cJf "$folder/deps/cubins.tar.xz" -C "$folder" cubins
    launcher=
    ! command -v ccache > /dev/null || launcher=ccache
    exec env CMAKE_C_COMPILER_LAUNCHER=$launcher CMAKE_CXX_COMPILER_LAUNCHER=$launcher \
        unshare -r -m -n sh "$0" "$source" "$folder" inside
fi

# ---- inside the namespaces ----

mount -t tmpfs none "$folder/view"
mkdir "$folder/view/upper" "$folder/view/work"
mount -t overlay -o "lowerdir=/usr,upperdir=$folder/view/upper,workdir=$folder/view/work" \
    overlay /usr 2> /dev/null || { echo "skipped: no overlay can be mounted here"; exit 77; }
mkdir "$folder/view/empty"
# Hides paths from the build.
hide() {    # a file is removed from the view, a folder covered
    for path in "$@"; do
        if [ -d "$path" ] && [ ! -L "$path" ]; then
            mount --bind "$folder/view/empty" "$path"
        else
            rm -f "$path"
        fi
    done
}
hide /usr/lib/llvm* /usr/bin/*llvm-config* /usr/bin/clang* /usr/bin/opt /usr/bin/opt-* \
    /usr/bin/*pkg-config /usr/bin/pkgconf* /usr/lib/*/pkgconfig /usr/lib/pkgconfig \
    /usr/share/pkgconfig /usr/local/lib/pkgconfig
for headers in /usr/include /usr/include/*-linux-* /usr/local/include; do
    for name in 'ffi*' 'xxh*' popt.h cjson 'z*.h' mpfr.h mpf2mpfr.h gmp.h 'cmocka*' llvm llvm-c; do
        # shellcheck disable=SC2086
        hide "$headers"/$name
    done
done
# Compilers and CMake need some of these libraries to run, so of those only the files for linking
# are hidden.
for folder_of in /usr/lib /usr/lib/*-linux-* /usr/local/lib; do
    for name in ffi xxhash popt cjson z mpfr gmp cmocka; do
        hide "$folder_of/lib$name.so" "$folder_of/lib$name.a"
    done
    hide "$folder_of"/libxxhash.so.* "$folder_of"/libpopt.so.* "$folder_of"/libcjson.so.* \
        "$folder_of"/libcmocka.so.* "$folder_of"/libLLVM*
done
for program in pkg-config pkgconf clang llvm-config-19; do
    ! command -v $program > /dev/null || { echo "$program is still there"; exit 1; }
done
! echo '#include <xxhash.h>' | cc -E - > /dev/null 2>&1 || { echo "a header is left"; exit 1; }
unset PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR

# Runs gpu.sh, which must end with this status.
run() { # wanted status, and what it is run for
    status=0
    GPU_BUILD=$folder/build LIMBER_CUDA=/nonexistent/libcuda.so \
        sh "$folder/source/tools/gpu.sh" --deadline 3000 --deps "$folder/deps" "$folder/results" \
        > "$folder/log" 2>&1 || status=$?
    [ $status = "$1" ] || { echo "$2: status $status, not $1"; cat "$folder/log"; exit 1; }
}

mv "$folder/deps/include/popt.h" "$folder/popt.h"
run 1 "a header is missing"
grep -q 'popt.h' "$folder/log" || { echo "nothing of popt.h:"; cat "$folder/log"; exit 1; }
mv "$folder/popt.h" "$folder/deps/include/popt.h"
run 77 "nothing is missing but a device"
grep -q 'no CUDA driver\|libcuda' "$folder/results/log.txt" "$folder/log" ||
    { cat "$folder/log"; exit 1; }
for built in tools/libtimed_cuda.so test/gpu_smoke test/test_cuda; do
    [ -f "$folder/build/$built" ] || { echo "$built was not built"; exit 1; }
done
LD_LIBRARY_PATH=$folder/deps/lib ctest --test-dir "$folder/build" -L '^gpu$' > "$folder/tests"
[ "$(grep -c 'Skipped' "$folder/tests")" -gt 1 ] || { cat "$folder/tests"; exit 1; }
[ -f "$folder/build/cubins/sm_90a-0.cubin" ] || { echo "no kernels came along"; exit 1; }
sed -n '/ \.\.\. /p' "$folder/log"
