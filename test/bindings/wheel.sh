#!/bin/sh
# Builds the wheel from a copy of the sources, installs it into a new virtual environment, and uses
# everything that it contains.
set -eu
source=$1 python=$2 layout=$3
here=$source/test/bindings
skip() {
    echo "$1: skipped"
    exit 77
}
"$python" -c 'import venv, ensurepip' 2> /dev/null || skip "$python has no venv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset LIMBER_KERNELS LIMBER_LIBRARY LIMBER_CONTRACT LIMBER_CONFIG LD_LIBRARY_PATH LD_PRELOAD \
    PYTHONPATH PKG_CONFIG_PATH
export LIMBER_CACHE_DIR="$work/cache" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

"$python" -m venv venv
bin=$work/venv/bin
"$bin/pip" install -q numpy auditwheel build > log 2>&1 ||
    skip "pip cannot install NumPy, auditwheel and build ($(tail -n 1 log))"

# ---- the archive of the sources, and a wheel that is built from it ----
mkdir copy wheels
(cd "$source" && if git rev-parse -q --verify HEAD > /dev/null 2>&1; then
     git ls-files -z --cached --others --exclude-standard |
         tar -c --null -T - --ignore-failed-read 2> /dev/null     # a file may have been deleted
 else
     tar -c --exclude='./build*' --exclude=./.git .
 fi) | tar -x -C copy
"$bin/python" -m build --sdist -o "$work" copy > log 2>&1 || { cat log; exit 1; }
archive=$(ls limber_gemm-*.tar.gz)
tar -xzf "$archive"
unpacked=${archive%.tar.gz}
lacking=$(diff -rq copy "$unpacked" | grep -v ": PKG-INFO$" || true)
[ -z "$lacking" ] || { echo "$archive is not the sources: $lacking"; exit 1; }
rm -r copy
mv "$unpacked" copy
if command -v ccache > /dev/null; then
    # cache hits must not depend on the folder's name, and prebuilt kernels are those of builds in
    # SOURCE/*
    export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR="$work/copy" CCACHE_NOHASHDIR=1
fi
"$bin/pip" wheel --no-deps -w wheels --config-settings=build-dir="$work/copy/build" \
    ./copy > log 2>&1 || { cat log; exit 1; }
unset CMAKE_C_COMPILER_LAUNCHER
wheel=$(ls wheels)
echo "$wheel: $(wc -c < "wheels/$wheel") bytes"

# ---- its tag must be what auditwheel finds, and its files must name no folder ----
case $wheel in
limber_gemm-*-py3-none-manylinux_2_*.whl) ;;
*) echo "a tag that no index takes"; exit 1 ;;
esac
tag=${wheel#*-none-} tag=${tag%.whl}
PATH="$bin:$PATH" auditwheel show "wheels/$wheel" > log 2>&1 || { cat log; exit 1; }
tr '\n' ' ' < log | grep -q "platform tag: \"$tag\"" || { cat log; exit 1; }
newest=${tag#manylinux_2_}
[ "${newest%%_*}" -le 28 ] || { echo "$tag: needs a glibc newer than 2.28 (old_glibc.c)"; exit 1; }
"$bin/pip" install -q --no-deps "wheels/$wheel"
prefix=$("$bin/python" -m limber --prefix)
find "$prefix" -type f | while read -r file; do
    case $(readelf -dW "$file" 2> /dev/null) in
    *LLVM*) echo "$file is linked with LLVM"; exit 1 ;;
    *path:*"$work"*) echo "$file looks into the folder of its build"; exit 1 ;;
    esac
done
for name in libffi xxHash MPFR GMP popt cJSON; do
    grep -q "^$name .*: [A-Z]" "$prefix"/../limber_gemm-*.dist-info/licenses/THIRD-PARTY.txt ||
        { echo "no licence of $name"; exit 1; }
done
for name in $(nm -D --defined-only "$prefix/lib/liblimber.so.0" | awk '{ print $3 }'); do
    case $name in
    limber_*) ;;
    *) echo "exported beside limber_*: $name"; exit 1 ;;
    esac
done

# ---- the package ----
# What depends on how the library was packed; the test `bindings_python` runs all classes.
classes="Background Layout Hints Interpreter Finding Charts Units Arrays"
[ -z "${LIMBER_TEST_LONG:-}" ] || classes=
# shellcheck disable=SC2086
"$bin/python" "$here/test_python.py" "$layout" $classes > log 2>&1 || { cat log; exit 1; }

# ---- hints ----
if "$bin/pip" install -q mypy typing_extensions > log 2>&1; then
    # (ml_dtypes and others may be absent)
    { "$bin/python" -m mypy --cache-dir mypy --ignore-missing-imports -p limber &&
        "$bin/python" -m mypy --cache-dir mypy --strict "$here/hints.py"; } > log 2>&1 ||
        { cat log; exit 1; }
    "$bin/python" "$here/hints.py"
else
    echo "pip cannot install mypy ($(tail -n 1 log)): hints are not checked"
fi

# ---- a script ----
cat > script.py <<'END'
import sys
import numpy
a = numpy.zeros((80, 80))
a[0, :3] = 1e16, 1, -1e16
print((a @ numpy.ones((80, 80)))[0, 0], *sys.argv[1:])
END
answer=$(LIMBER_REPORT="$work/report" "$bin/python" -m limber run --contract correct \
             script.py one --contract two)
[ "$answer" = "1.0 one --contract two" ] || { echo "the script says $answer"; exit 1; }
"$bin/python" - "$work/report" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
products = [call for call in report["calls"] if "gemm" in call["routine"]]
assert len(products) == 1 and products[0]["served"], report
assert report["handed_on"]["calls"] == 0, report
END
status=0
"$bin/python" -m limber run --contract korrect script.py > out 2> log || status=$?
[ $status = 2 ] && [ ! -s out ] && grep -q '"korrect" is none of native' log ||
    { echo "a wrong contract: $status"; cat out log; exit 1; }
status=0
LIMBER_CACHE=sometimes "$bin/python" -m limber run --contract correct script.py > out 2> log ||
    status=$?
[ $status = 2 ] && [ ! -s out ] && grep -q 'LIMBER_CACHE = "sometimes"' log ||
    { echo "a wrong variable of the library: $status"; cat out log; exit 1; }
status=0
"$bin/python" -m limber run script.py > out 2> log || status=$?
[ $status = 2 ] && [ ! -s out ] && grep -q '^no contract' log ||
    { echo "no contract: $status"; cat out log; exit 1; }
status=0
LIMBER_CONTRACT=native "$bin/python" -m limber run script.py > log 2>&1 || status=$?
[ $status = 0 ] || { cat log; exit 1; }
[ "$("$bin/python" -m limber run --contract correct -m script one)" = "1.0 one" ] &&
    [ "$("$bin/python" -m limber run --contract correct -mscript one)" = "1.0 one" ] &&
    [ "$("$bin/python" -m limber run --contract correct -c 'import script' two)" = "1.0 two" ] ||
    { echo "a module or code was not served"; exit 1; }
[ "$("$bin/python" -m limber run --contract native -c 'import numpy, limber.numpy as loops
a = numpy.ones((80, 80), int); a @ a; print(loops.calls()[0] == 13)')" = True ] ||
    { echo "NumPy's own loops were not served"; exit 1; }
LIMBER_CONTRAKT=native "$bin/python" -m limber run --contract native script.py 2>&1 > out |
    grep -c LIMBER_CONTRAKT | grep -q '^1$' || { echo "a wrong variable is told twice"; exit 1; }
echo 'raise SystemExit(3)' > three.py
"$bin/python" -m limber run --contract native three.py || status=$?
[ $status = 3 ] || { echo "the script's status 3 became $status"; exit 1; }

# ---- NumPy's BLAS of 64-bit integers has a name that does not tell its width, and a system's BLAS
# has none of NumPy's names ----
cat > width.py <<'END'
import ctypes, numpy as np
strided = ctypes.CDLL(None).cblas_dgemm_batch_strided
a, b = np.ones((3, 4, 5)), np.ones((3, 5, 6))
address = [ctypes.c_void_p(x.ctypes.data) for x in (a, b)]
for alpha in 0, 2:
    c = np.ones((3, 4, 6))
    strided(101, 111, 111, 4, 6, 5, ctypes.c_double(alpha), address[0], 5, 20, address[1], 6, 30,
            ctypes.c_double(3), ctypes.c_void_p(c.ctypes.data), 6, 24, 3)
    assert (c == 3 + 5 * alpha).all(), c
x = np.random.default_rng(1).standard_normal((80, 80))
u, s, v = np.linalg.svd(x)
assert abs(u * s @ v - x).max() < 1e-9 and abs(x @ np.linalg.solve(x, x) - x).max() < 1e-9
print("right")
END
for contract in native correct; do
    [ "$("$bin/python" -m limber run --contract $contract width.py)" = right ] ||
        { echo "a BLAS of another width: $contract"; exit 1; }
done
if "$bin/python" -c 'import ctypes; ctypes.CDLL("libblas.so.3")' 2> /dev/null; then
    [ "$(LIMBER_BLAS=libblas.so.3 "$bin/python" -m limber run --contract correct width.py \
             2> log)" = right ] || { cat log; exit 1; }
fi

# ---- the command line, and programs in C ----
"$bin/limber" formats | grep -q '^bf16 '
(cd / && env PATH=/usr/bin:/bin "$bin/limber" bench apps --quick --apps lu) > log 2>&1 &&
    grep -q '^  correct ' log || { cat log; exit 1; }      # python3 is that of the environment
page=$("$bin/limber" help bf16 | sed -n 's/^  Page: //p')
[ -s "$page" ] || { echo "limber help names the page '$page', which is not there"; exit 1; }
for name in mpfr gmp cjson; do
    ldd "$prefix/bin/limber" | grep -q "lib$name\.so\.[0-9]* => $prefix/" ||
        { echo "the command line does not use the wheel's lib$name"; exit 1; }
done
include=$("$bin/python" -c 'import limber; print(limber.get_include())')
cc "$source/examples/hello.c" -o hello -I"$include" -L"$prefix/lib" -llimber -lm
[ "$(LD_LIBRARY_PATH=$prefix/lib ./hello)" = 1 ]
cat > blas.c <<'END'
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *,
            const double *, const int *, const double *, const int *, const double *, double *,
            const int *);
int main(void)
{
    double a[9] = { 1e16, 0, 0, 1, 0, 0, -1e16 }, b[9] = { 1, 1, 1 }, c[9] = { 0 };
    double one = 1, zero = 0;
    int n = 3;

    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return c[0] != 1;
}
END
cc blas.c -o blas -L"$prefix/lib/limber" -Wl,--allow-shlib-undefined -lblas
readelf -d blas | grep -q 'NEEDED.*\[libblas.so.3\]'
LIMBER_CONTRACT=correct LD_LIBRARY_PATH="$prefix/lib/limber" ./blas
for where in CMAKE_PREFIX_PATH="$prefix" \
        limber_DIR="$("$bin/python" -c 'import limber; print(limber.get_cmake_dir())')"; do
    rm -rf cmake
    mkdir cmake
    cp "$source/examples/hello.c" cmake
    cat > cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(hello C)
find_package(limber REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello limber::limber)
END
    { cmake -S cmake -B cmake/build -D"$where" && cmake --build cmake/build; } > log 2>&1 ||
        { cat log; exit 1; }
    # it finds the library by the run path that its build has set
    [ "$(cmake/build/hello)" = 1 ]
done

# ---- Fortran: the module's source, for any compiler ----
if command -v gfortran > /dev/null; then
    mkdir fortran
    (cd fortran && gfortran "$include/limber/fortran/limber.F90" "$source/examples/fortran.f90" \
         -o example -L"$prefix/lib" -llimber)
    LD_LIBRARY_PATH=$prefix/lib ./fortran/example | grep -q '^limber_multiply:  1.0;'
    cp "$source/examples/fortran.f90" fortran
    cat > fortran/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(example Fortran)
find_package(limber REQUIRED)
add_executable(example fortran.f90)
target_link_libraries(example limber::fortran)
END
    { cmake -S fortran -B fortran/build -DCMAKE_PREFIX_PATH="$prefix" &&
          cmake --build fortran/build; } > log 2>&1 || { cat log; exit 1; }
    fortran/build/example | grep -q '^limber_multiply:  1.0;'
else
    echo "no gfortran: the module is not tried"
fi

# ---- together with another LLVM in the process ----
if ! "$bin/pip" install -q llvmlite > log 2>&1; then
    echo "pip cannot install llvmlite ($(tail -n 1 log)): not tried beside another LLVM"
else
    # the system's PyTorch, if it is for this Python
    torch=$(/usr/bin/python3 -c 'import os, torch; print(os.path.dirname(torch.__path__[0]))' \
                2> /dev/null || true)
    PYTHONPATH=$torch "$bin/python" -c 'import torch' 2> /dev/null || torch=
    beside() {      # argument: name of libLLVM
        for first in limber llvmlite; do
            PYTHONPATH=$torch \
            LIMBER_KERNELS=specialised LIMBER_CACHE=off "$bin/python" "$here/llvms.py" $first "$1"
        done
    }
    if "$bin/python" "$here/llvms.py" find; then
        beside libLLVM
    else
        echo "no libLLVM: the system's is not tried beside another"
    fi
    unset LIMBER_LLVM
    "$bin/pip" wheel -q --no-deps -w wheels copy/bindings/python/llvm > log 2>&1 ||
        { cat log; exit 1; }
    "$bin/pip" install -q --no-deps wheels/limber_llvm-*-py3-none-manylinux_2_*.whl
    (cd wheels && wc -c limber_llvm-*)
    extra=$(nm -D --defined-only "$prefix"_llvm/libLLVM-limber.so |
            awk '$3 !~ /^LLVM/ { print $3 }')
    [ -z "$extra" ] || { echo "visible beside LLVM's C functions: $extra"; exit 1; }
    beside limber_llvm/libLLVM-limber.so
fi
echo "installed by pip; package, script, command line, C, CMake and Fortran are served"
