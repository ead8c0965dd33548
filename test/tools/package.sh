#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Debian package is built from a build folder, installed to a root of its own, used there, and
# removed.  Also tests man pages, and that all files name one version.
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$*"
    exit 1
}

# ---- versions ----
version=$(sed -n 's/^project(limber VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
for place in 'CITATION.cff:^version: ' 'tools/package/conda/recipe.yaml:^  version: "'; do
    grep -q "${place#*:}$version" "$source/${place%%:*}" ||
        fail "${place%%:*} has another version than $version"
done
grep -q "^#define LIMBER_VERSION \"$version\"" "$source"/include/limber/*.h ||
    fail "the headers have another version"

# ---- man pages ----
for page in 1 3; do
    [ -s "$build/man/limber.$page" ] || fail "limber($page) is empty"
    command -v groff > /dev/null || continue
    complaints=$(groff -man -ww -Tutf8 "$build/man/limber.$page" 2>&1 > /dev/null)
    [ -z "$complaints" ] || fail "limber($page): $complaints"
done
grep -q '^\.SH LIMBER REPORT' "$build/man/limber.1" || fail "limber(1) leaves commands out"
names=$(sed -n 's/^LIMBER_API .*[ *]\(limber_[a-z0-9_]*\)(.*/\1/p' "$source"/include/limber/*.h)
for name in $names; do
    grep -qx ".SS $name" "$build/man/limber.3" || fail "limber(3) has no $name"
done

# ---- the package ----
command -v cpack > /dev/null && command -v dpkg > /dev/null && [ "$(id -u)" = 0 ] ||
    { echo "no cpack, no dpkg or not root: the package is not built"; exit 77; }
(cd "$build" && cpack -G DEB -B "$work/package" > "$work/log" 2>&1) ||
    { cat "$work/log"; exit 1; }
package=$(find "$work/package" -maxdepth 1 -name 'limber_*.deb')
[ "$(dpkg-deb -f "$package" Version)" = "$version" ] || fail "the package has another version"
dpkg-deb -f "$package" Depends | grep -q libffi || fail "the package depends on no libffi"
if command -v lintian > /dev/null; then
    lintian --allow-root --fail-on none "$package" > "$work/lintian" 2>&1 ||
        { cat "$work/lintian"; exit 1; }
    ! grep '^[EW]:' "$work/lintian" || fail "lintian finds faults"
else
    echo "lintian is not installed: the package is not checked by it"
fi
mkdir "$work/control"
dpkg-deb -e "$package" "$work/control"
! grep -q libblas "$work/control/shlibs" || fail "others would depend on Limber for their BLAS"
root=$work/root
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/triggers"
: > "$root/var/lib/dpkg/status"
: > "$root/var/lib/dpkg/available"
dpkg --root="$root" --force-depends --force-script-chrootless -i "$package" > "$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
for file in usr/share/doc/limber/LICENSE usr/share/doc/limber/docs/blas.md \
    usr/share/doc/limber/copyright usr/share/man/man1/limber.1.gz usr/share/man/man3/limber.3.gz \
    usr/share/limber/python/limber/__init__.py; do
    [ -f "$root/$file" ] || fail "the package lacks $file"
done
library=$(dirname "$(find "$root/usr" -name liblimber.so)")
export LD_LIBRARY_PATH="$library" LIMBER_CACHE_DIR="$work/cache"
"$root/usr/bin/limber" formats f16 | grep -q '^f16: 1 sign' || fail "the command does not run"
cc "$root/usr/share/doc/limber/examples/hello.c" -o "$work/hello" -I"$root/usr/include" \
    -L"$library" -llimber -lm
"$work/hello" > /dev/null
dpkg --root="$root" --force-script-chrootless -P limber > "$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
left=$(find "$root/usr" -type f 2> /dev/null || true)
[ -z "$left" ] || fail "left behind: $left"
