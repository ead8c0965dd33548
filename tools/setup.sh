# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian packages that a build needs; `setup.sh tests` also those that tests need.
# demo.sh and test.sh source it for its functions.

# Prints those of the packages that are not installed.
not_installed() {
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            printf ' %s' "$package"
    done
}
# Installs packages.
install_packages() {
    run=
    [ "$(id -u)" = 0 ] || run=sudo
    $run env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
        $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            "$@" > /dev/null
}
# Installs the packages that are its arguments, unless they are installed.  Ends with an error if
# that fails.
setup() {
    missing=$(not_installed "$@")
    [ -n "$missing" ] || return 0
    command -v apt-get > /dev/null || {
        echo "no apt-get: these packages of Debian 12 are not installed here:$missing" >&2
        return 0
    }
    echo "installing:$missing"
    # shellcheck disable=SC2086
    install_packages $missing || { echo "installing failed" >&2; exit 1; }
}
# As setup, for packages without which a few tests are skipped: a failure is reported only.
setup_extras() {
    missing=$(not_installed "$@")
    [ -n "$missing" ] || return 0
    if command -v apt-get > /dev/null; then
        echo "installing:$missing"
        # shellcheck disable=SC2086
        install_packages $missing || for package in $missing; do
            install_packages "$package" 2> /dev/null || true
        done
    fi
    missing=$(not_installed "$@")
    [ -z "$missing" ] || echo "not installed, so tests that need them are skipped:$missing" >&2
}

BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config llvm-19-dev llvm-19 clang-19 libffi-dev \
libxxhash-dev libmpfr-dev libgmp-dev libcjson-dev libpopt-dev zlib1g-dev \
liblapack-dev liblapack64-dev"
TEST_PACKAGES="libcmocka-dev g++ binutils python3"
EXTRA_PACKAGES="ccache abigail-tools libclang-rt-19-dev clang-format-19 doxygen
    python3-numpy python3-pip python3-venv gfortran gnuplot-nox libblas3 libblas-test
    gdb liblapack3 libopenblas0-pthread libblis4-openmp liblapack-test openmpi-bin libopenmpi-dev
    libscalapack-openmpi-dev hpcc strace libsuitesparse-dev libmumps-seq-dev python3-torch lintian
    r-base-core"
MORE_PACKAGES="gcc-aarch64-linux-gnu qemu-user musl-tools gcc-11 clang-14"

case $0 in
*setup.sh)
    case ${1:-} in
    '') TEST_PACKAGES='' EXTRA_PACKAGES='' ;;
    tests) ;;
    *) echo "usage: sh tools/setup.sh [tests]" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086
    setup $BUILD_PACKAGES $TEST_PACKAGES
    # shellcheck disable=SC2086
    setup_extras $EXTRA_PACKAGES
    ;;
esac
