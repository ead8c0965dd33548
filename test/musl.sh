#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the library without LLVM against musl, with all warnings, and runs a program with it.
# Debian has no libffi and xxHash for musl.  The headers and static libraries for glibc are used,
# which need nothing that musl lacks.
#
#   musl.sh SOURCE BUILD
set -eu
source=$1 build=$2
for tool in musl-gcc ninja; do
    command -v $tool > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
mkdir -p "$build/headers"
for header in ffi.h ffitarget.h xxhash.h xxh3.h; do
    for folder in /usr/include /usr/include/"$(uname -m)"-linux-gnu; do
        [ ! -e "$folder/$header" ] || cp "$folder/$header" "$build/headers"
    done
done
launcher=
! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER=musl-gcc -DLIMBER_LLVM=OFF \
    -DLIMBER_TOOLS=OFF -DLIMBER_TESTS=OFF -DLIMBER_FORTRAN=OFF -DLIMBER_WERROR=ON \
    -DCMAKE_C_FLAGS="-isystem $build/headers" $launcher > "$build/log" 2>&1 ||
    { cat "$build/log"; exit 1; }
objects=$(ninja -C "$build" -t targets all |
          sed -n 's|^\(CMakeFiles/limber\.dir/[^:]*\.o\):.*|\1|p')
# shellcheck disable=SC2086
ninja -C "$build" $objects > "$build/log" 2>&1 || { tail -n 40 "$build/log"; exit 1; }
echo "$(echo "$objects" | wc -l) files compile against musl"
folder=/usr/lib/$(uname -m)-linux-gnu
for archive in libffi_pic.a libxxhash.a; do
    [ -e "$folder/$archive" ] || { echo "not linked: no $folder/$archive"; exit 0; }
done
# shellcheck disable=SC2086
(cd "$build" && musl-gcc -shared -o liblimber.so $objects "$folder/libffi_pic.a" \
    "$folder/libxxhash.a")
musl-gcc -Wall -Wextra -Werror -I"$source/include" "$source/test/bare.c" "$build/liblimber.so" \
    -Wl,-rpath,"$build" -o "$build/musl"
"$build/musl"
