#!/bin/sh
# The library alone needs only libffi, xxHash, a C compiler and LLVM's tools.  CMake finds nothing
# else here, no source may include more, and the built library may be linked only with libffi and
# the C library.
set -eu
source=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/pc"
for name in libffi libxxhash; do
    cp "$(pkg-config --variable=pcfiledir $name)/$name.pc" "$work/pc"
done
# Configures Limber where pkg-config finds only the packages of this test.
configure() {
    rm -rf "$work/build"
    env -u PKG_CONFIG_PATH PKG_CONFIG_LIBDIR="$work/pc" \
        cmake -S "$source" -B "$work/build" -DLIMBER_TESTS=OFF "$@" > "$work/log" 2>&1
}
configure -DLIMBER_TOOLS=OFF || { cat "$work/log"; exit 1; }
# Checks that CMake refuses to configure, with a message.
refused() {  # arguments: what the error text names, CMake's arguments
    named=$1
    shift
    ! configure "$@" || { echo "configured without $named"; exit 1; }
    tr -s ' \n' ' ' < "$work/log" | grep -q "$named" || { cat "$work/log"; exit 1; }
}
refused 'no popt. .*tools/setup.sh'
refused 'VERSION is 33, and .* is of LLVM [0-9]' -DLIMBER_TOOLS=OFF -DLIMBER_LLVM_VERSION=33
for name in libffi libxxhash; do
    mv "$work/pc/$name.pc" "$work"
    refused "no $name. .*tools/setup.sh" -DLIMBER_TOOLS=OFF
    mv "$work/$name.pc" "$work/pc"
done

cd "$source"
! grep -rnE '#include <(mpfr|gmp|popt|cjson|zlib)' include ir passes backends research \
    jit tools/interpose tools/output.c || exit 1
for file in "$@"; do
    more=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
           grep -vE '^(lib(c|m|dl|pthread|gcc_s|ffi|limber)|ld-linux.*)\.so\.') || true
    [ -z "$more" ] || { echo "$file is linked with $more"; exit 1; }
done
echo "the library alone needs libffi and xxHash"
