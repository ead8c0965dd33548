#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds and tests.  docs/testing.md says what each tier is for.
set -eu
cd "$(dirname "$0")/.."
usage() {
    cat <<'END'
Usage: tools/test.sh [--more | --all | --long] [--jobs N] [--minutes N] [--summary FILE] [ROOM...]

Builds in build-test and runs every room's tests there.
ROOM, a folder of test/ whose tests have its name as label, such as jit: its tests alone.
  --more    in its place what takes longer: the same tests with sanitizers (build-asan), GPUs'
            stand-ins on every architecture, AArch64 by an emulator, other compilers
  --all     both
  --long    both, and what is for a release: tests whose loops are longer, fuzzing for an hour, the
            suites of NumPy, SciPy and R before whose BLAS Limber stands
  --jobs N  how many tests run at once (as many as there are cores)
  --minutes N   the time, builds included, after which no test begins: the others are named
  --summary FILE    adds what an earlier run left in FILE to the summary, and this run to FILE
The end says how many passed, failed and were skipped, and how a failure is repeated alone.  Status
1: a test failed.

example: tools/test.sh jit api
END
}
# the rooms, as test/CMakeLists.txt lists them
known=$(sed -n '/^foreach(room /,/)/p' test/CMakeLists.txt | tr '\n()' '   ')
known=$(echo ${known#foreach room })
quick=yes more='' long='' stop='' given='' began=$(date +%s) jobs=$(nproc) rooms=''
while [ $# -gt 0 ]; do
    case $1 in
    --more) quick='' more=yes ;;
    --all) more=yes ;;
    --long) more=yes long=yes ;;
    --jobs) jobs=${2:?--jobs takes a number}; shift ;;
    --minutes) stop=$(($(date +%s) + 60 * ${2:?--minutes takes a number})); shift ;;
    --summary) given=${2:?--summary takes a file}; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "test.sh: no option is called $1 (see --help)" >&2; exit 2 ;;
    *)  case " $known " in
        *" $1 "*) ;;
        *) echo "test.sh: no room is called $1; there are $known" >&2; exit 2 ;;
        esac
        rooms=$rooms${rooms:+|}$1 ;;
    esac
    shift
done
[ -z "$rooms" ] || [ -z "$more" ] ||
    { echo "test.sh: rooms are of the first tier alone" >&2; exit 2; }

. tools/setup.sh
# shellcheck disable=SC2086
setup $BUILD_PACKAGES $TEST_PACKAGES
# shellcheck disable=SC2086
setup_extras $EXTRA_PACKAGES ${more:+$MORE_PACKAGES}

# Builds share objects that contain no paths: prebuilt kernels take a third of a build's time.
launcher=
! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
export CCACHE_BASEDIR="$PWD"
# GPU kernels are cached by content, for later builds and clones, too.
kept=${XDG_CACHE_HOME:-${HOME:-$PWD/build-test}/.cache}/limber-tests
: "${SIMT_CACHE:=$kept/simt}" "${LIMBER_TEST_CUBINS:=$kept/cubins}"
export SIMT_CACHE LIMBER_TEST_CUBINS
mkdir -p "$SIMT_CACHE" "$LIMBER_TEST_CUBINS"
find "$SIMT_CACHE" -type f -atime +7 -delete
find "$LIMBER_TEST_CUBINS" -name '*.kept*' -atime +14 -delete

# Builds a folder.
build() {  # folder, options
    folder=$1
    shift
    cmake -S . -B "$folder" -G Ninja -DLIMBER_WERROR=ON -DLIMBER_TESTS=ON $launcher "$@" > /dev/null
    cmake --build "$folder"
}
# Runs the tests of folders.
test_folders() {    # folder:labels...
    minutes=
    [ -z "$stop" ] || minutes=$(((stop - $(date +%s)) / 60))
    python3 test/run_tests.py --jobs "$jobs" --summary "$summary" \
        ${minutes:+--minutes "$minutes"} "$@" || status=1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
summary=${given:-$work/summary}
status=0
build build-test
if [ -n "$rooms" ]; then
    test_folders "build-test:$rooms:-more"
    exit $status
fi
[ -z "$quick" ] || test_folders build-test:-more
if [ -n "$more" ]; then
    sh tools/aarch64_root.sh build-aarch64-root ||      # for the test `aarch64`
        echo "no libraries for AArch64: it will not be tested"
    build build-asan -DCMAKE_C_COMPILER=clang-19 -DLIMBER_SANITIZE=ON
    test_folders build-asan build-test:more:-release
fi
if [ -n "$long" ]; then
    LIMBER_TEST_LONG=1 test_folders build-test:long
    sh tools/soak.sh || status=1
    python3 tools/suites.py --library build-test/tools/interpose/blas/liblimber_blas.so || status=1
fi
echo "$((($(date +%s) - began) / 60)) minutes with builds"
exit $status
