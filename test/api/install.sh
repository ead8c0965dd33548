#!/bin/sh
# Installs to an empty folder and uses what is installed: builds examples/hello.c by CMake's package
# and by pkg-config, and runs programs in Fortran and Python.  The library may export only limber_*.
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/log"
lib=$(find "$work/prefix" -name 'liblimber.so' | head -n 1)
libdir=$(dirname "$lib")

extra=$(nm -D --defined-only "$lib" | awk '$2 != "A" && $3 !~ /^limber_/ { print $3 }')
[ -z "$extra" ] || { echo "exported beside limber_*: $extra"; exit 1; }
for name in $(nm -D --defined-only "$lib" | awk '$3 ~ /^limber_/ { print $3 }'); do
    grep -qrw "$name" "$work/prefix/include/limber" || { echo "$name is in no header"; exit 1; }
done

export LIMBER_CACHE_DIR="$work/cache"
examples=$work/prefix/share/doc/limber/examples
mkdir "$work/cmake"
cp "$examples/hello.c" "$work/cmake/"
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
for name in hello layer embed refine; do
    cc -O2 "$examples/$name.c" -o "$work/$name" $(pkg-config --cflags --libs limber) -lm -pthread
done
LD_LIBRARY_PATH=$libdir "$work/hello"
LD_LIBRARY_PATH=$libdir "$work/layer"
LD_LIBRARY_PATH=$libdir sh "$source/test/api/example_embed.sh" "$work/embed"
LD_LIBRARY_PATH=$libdir sh "$source/test/api/example_refine.sh" "$work/refine"
# shellcheck disable=SC2046
cc "$source/test/bindings/layout.c" -o "$work/layout" $(pkg-config --cflags limber)
if command -v python3 > /dev/null; then
    pages=$work/prefix/share/doc/limber        # the pages' links must lead to installed files
    # shellcheck disable=SC2046
    python3 "$source/test/docs/pages.py" --links "$pages" \
        $(cd "$pages" && ls docs/*.md ./*.md) > "$work/log" || { cat "$work/log"; exit 1; }
    # The Python package finds the library by itself, as both have the same prefix.
    PYTHONPATH=$work/prefix/share/limber/python
    export PYTHONPATH
    unset LIMBER_LIBRARY
    found=$(python3 -m limber --prefix)
    [ "$found" = "$work/prefix" ] || { echo "--prefix is $found"; exit 1; }
    LIMBER_TEST_NO_NUMPY=1 python3 "$source/test/bindings/test_python.py" "$work/layout" \
        > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    if [ -x "$work/prefix/bin/limber" ]; then      # it finds the applications beside itself
        "$work/prefix/bin/limber" bench apps --help | grep -q -e '--pictures FOLDER'
    fi
fi

# Installed as the system's BLAS: the library is found by the name of a link in another folder.
if [ -f "$libdir/limber/libblas.so.3" ]; then
    cat > "$work/blas.c" <<'END'
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);
int main(void)
{
    double a[9] = { 1e16, 0, 0, 1, 0, 0, -1e16, 0, 0 }, b[9] = { 1, 1, 1 }, c[9] = { 0 }, one = 1, zero = 0;
    int n = 3, step = 1;

    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return c[0] == 1 && ddot_(&n, b, &step, b, &step) == 3 ? 0 : 1;
}
END
    cc "$work/blas.c" -o "$work/blas" "$libdir/limber/libblas.so.3" -Wl,--allow-shlib-undefined
    mkdir "$work/links"
    ln -s "$libdir/limber/libblas.so.3" "$work/links/far"
    ln -s far "$work/links/libblas.so.3"
    if [ -n "$(find /usr/lib -name 'libblas.so.3' -path '*blas/*' 2> /dev/null)" ]; then
        run="env LIMBER_CONTRACT=correct LIMBER_BACKEND=interp $work/blas"
        LD_LIBRARY_PATH=$work/links $run
        link=$(find /etc/alternatives -name 'libblas.so.3-*' 2> /dev/null | head -n 1)
        if [ -n "$link" ] && unshare -m true 2> /dev/null; then
            cp -a /etc/alternatives "$work/alternatives"
            ln -sfn "$libdir/limber/libblas.so.3" "$work/alternatives/${link##*/}"
            unshare -m sh -c "mount --bind '$work/alternatives' /etc/alternatives && $run"
            # The system's NumPy and R load the library to which the link leads.  R searches its own
            # folders first.
            served() {  # arguments: program and its arguments
                rm -f "$work/served"
                unshare -m env LIMBER_CONTRACT=correct LIMBER_BACKEND=interp \
                    LIMBER_REPORT="$work/served" sh -c \
                    'mount --bind "$0" /etc/alternatives && "$@" > /dev/null' "$work/alternatives" "$@"
                grep -q '"served": { "calls": [1-9]' "$work/served"
            }
            if /usr/bin/python3 -c 'import numpy' 2> /dev/null; then
                served /usr/bin/python3 -c 'import numpy as n; a = n.ones((40, 40)); a @ (a + 1)'
            fi
            if command -v Rscript > /dev/null; then
                served Rscript -e 'a <- matrix(1:1600 / 7, 40); a %*% t(a + 1)'
            fi
        else
            echo "no alternatives, or no mount namespace: the system's link is not tried"
        fi
    else
        echo "no BLAS behind: Limber as the system's is not tried"
    fi
fi

modules=$work/prefix/include/limber/fortran
if command -v "${FC:-gfortran}" > /dev/null; then
    mkdir "$work/fortran"
    cp "$examples/fortran.f90" "$work/fortran/"
    cat > "$work/fortran/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(example Fortran)
find_package(limber REQUIRED)
add_executable(example fortran.f90)
target_link_libraries(example limber::fortran)
END
    cmake -S "$work/fortran" -B "$work/fortran/build" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/log"
    cmake --build "$work/fortran/build" > "$work/log"
    LD_LIBRARY_PATH=$libdir "$work/fortran/build/example"
    # shellcheck disable=SC2046
    (cd "$work/fortran" && "${FC:-gfortran}" "$modules/limber.F90" "$examples/fortran.f90" \
         -o example $(pkg-config --libs limber))
    LD_LIBRARY_PATH=$libdir "$work/fortran/example"
    if [ -f "$modules/limber.mod" ]; then
        # shellcheck disable=SC2046
        "${FC:-gfortran}" -I"$modules" "$examples/fortran.f90" -o "$work/fortran/example" \
            -L"$libdir" -llimber_fortran $(pkg-config --libs limber)
        LD_LIBRARY_PATH=$libdir "$work/fortran/example"
    else
        echo "built without a Fortran compiler: its module file is not tried"
    fi
else
    echo "no Fortran compiler: the module is not tried"
fi
echo "installed, linked both ways, exports limber_* alone"
