# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian packages that a build needs; `setup.sh tests` also those that tests need.
# demo.sh and test.sh source it for the function `setup`, which installs the packages that are its
# arguments, unless they are installed.
setup() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    command -v apt-get > /dev/null || {
        echo "no apt-get: these packages of Debian 12 are not installed here:$missing" >&2
        return 0
    }
    run=
    [ "$(id -u)" = 0 ] || run=sudo
    echo "installing:$missing"
    # shellcheck disable=SC2086
    { $run env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
      $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
           $missing > /dev/null; } || { echo "installing failed" >&2; exit 1; }
}

BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config llvm-19-dev llvm-19 clang-19 libffi-dev \
libxxhash-dev libmpfr-dev libgmp-dev libcjson-dev libpopt-dev zlib1g-dev \
liblapack-dev liblapack64-dev"
TEST_PACKAGES="ccache libcmocka-dev abigail-tools g++ libclang-rt-19-dev binutils clang-format-19
    doxygen
    python3 python3-numpy python3-pip python3-venv gfortran gnuplot-nox libblas3 libblas-test
    gdb liblapack3 libopenblas0-pthread libblis4-openmp liblapack-test openmpi-bin libopenmpi-dev
    libscalapack-openmpi-dev hpcc strace libsuitesparse-dev libmumps-seq-dev python3-torch lintian
    r-base-core"
MORE_PACKAGES="gcc-aarch64-linux-gnu qemu-user musl-tools gcc-11 clang-14"

case $0 in
*setup.sh)
    case ${1:-} in
    '') TEST_PACKAGES= ;;
    tests) ;;
    *) echo "usage: sh tools/setup.sh [tests]" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086
    setup $BUILD_PACKAGES $TEST_PACKAGES
    ;;
esac
