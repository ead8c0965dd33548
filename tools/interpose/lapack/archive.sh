#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# archive.sh WIDTH OUT LAPACK BLAS [OBJCOPY AR NM]: makes OUT/all.a from the archives of the
# reference LAPACK (of position-independent code) and BLAS, with all symbols renamed, and
# OUT/aliases, which has linker options that give LAPACK's routines the names that programs call.
#
# The new names begin with limber32_ or limber64_.  Routines call each other and the BLAS by them,
# so that Limber recognises these calls, and integers have one width whatever other libraries are
# loaded.
set -eu
export LC_ALL=C
width=$1 out=$2 lapack=$3 blas=$4 objcopy=${5:-objcopy} ar=${6:-ar} nm=${7:-nm}
mkdir -p "$out"
cd "$out"
# Print the symbols that an archive defines, and those that it needs.
defined() {
    "$nm" --defined-only "$1" 2> /dev/null | awk 'NF == 3 && $2 ~ /[TDBRWC]/ { print $3 }' | sort -u
}
undefined() { "$nm" --undefined-only "$1" 2> /dev/null | awk 'NF == 2 { print $2 }' | sort -u; }

cp "$lapack" lapack.a
cp "$blas" blas.a
"$ar" d lapack.a xerbla.o xerbla_array.o
"$ar" d blas.a xerbla.o xerbla_array.o lsame.o $("$ar" t blas.a | grep -E '^cblas_|sub\.o$')
{ defined lapack.a; defined blas.a; echo xerbla_; } | sort -u > names
undefined lapack.a > used
{
    sed "s/.*/& limber${width}_&/" names
    # These functions of libm have last bits that depend on the CPU; math.c replaces them.
    grep -xE '(log|log10|pow|atan2|sin|cos|sincos|cexp|csqrt|cabs)f?' used |
        sed 's/.*/& limber_lapack_&/'
} > map
for archive in lapack blas; do
    "$objcopy" --redefine-syms=map "$archive.a" "$archive$width.a"
done
# Names that programs call, except those that the BLAS of some wheels calls with integers of another
# width.
defined lapack.a | grep '_$' | grep -vxE '[sd]roundup_lwork_|[sdcz]laqz[0-4]_' > plain
defined lapack.a | grep '_$' | sed 's/_$//' > routines
if [ "$width" = 64 ]; then
    sed 's/.*/--defsym=&_64_=limber64_&_\n--defsym=scipy_&_64_=limber64_&_/' routines > aliases
else
    { sed 's/.*/--defsym=&=limber32_&/' plain
      sed 's/.*/--defsym=scipy_&_=limber32_&_/' routines; } > aliases
fi
