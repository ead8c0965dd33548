#!/bin/sh
# Installs to an empty folder and builds examples/hello.c against it, by CMake's package and by
# pkg-config; the library may export limber_* alone.
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/log"
lib=$(find "$work/prefix" -name 'liblimber.so' | head -n 1)
libdir=$(dirname "$lib")

extra=$(nm -D --defined-only "$lib" | awk '$2 != "A" && $3 !~ /^limber_/ { print $3 }')
[ -z "$extra" ] || { echo "exported beside limber_*: $extra"; exit 1; }

mkdir "$work/cmake"
cp "$source/examples/hello.c" "$work/cmake/"
cat > "$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(hello C)
find_package(limber REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello limber::limber)
END
cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/log"
cmake --build "$work/cmake/build" > "$work/log"
LD_LIBRARY_PATH=$libdir "$work/cmake/build/hello"

PKG_CONFIG_PATH="$libdir/pkgconfig"
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
cc "$source/examples/hello.c" -o "$work/hello" $(pkg-config --cflags --libs limber)
LD_LIBRARY_PATH=$libdir "$work/hello"
echo "installed, linked both ways, exports limber_* alone"
