#!/bin/sh
# Checks the dependencies between rooms (top folders): include -> ir -> passes -> backends -> jit.
# No backend may use another.  Research may use ir and passes, and only jit/api may use research.
# rooms.sh SOURCE [BUILD] prints every #include that breaks these rules, and everything that the
# library must not do.  With a build folder it also checks calls (calls.py).
# Exit status: 0 no fault, 1 a fault, 2 usage, 77 calls cannot be checked.
# rooms_find.sh tests that each check finds what it is for.
here=$(cd "$(dirname "$0")" && pwd)
build=${2:+$(cd "$2" && pwd)} || exit 2
cd "$1" || exit 2
bad=0

# Refuses #include of files that a room must not use.
forbid() {  # arguments: room, pattern of paths that it must not include
    if grep -rnHE "#include \"($2)" --include='*.c' --include='*.h' --include='*.F90' "$1"; then
        bad=1
    fi
}
forbid include '(ir|passes|backends|research|jit|tools|test)/'
forbid ir '(passes|backends|research|jit|tools|test)/'
forbid passes '(backends|research|jit|tools|test)/'
forbid backends '(passes|research|jit|tools|test)/'
forbid research '(backends|jit|tools|test)/'
forbid backends/interp 'backends/(llvm|cuda)/'
forbid backends/llvm 'backends/(interp|cuda)/'
forbid backends/cuda 'backends/(interp|llvm)/'
forbid jit '(tools|test)/'
for room in jit/*; do
    [ "$room" = jit/api ] || forbid "$room" 'research/'
done
forbid tools '(ir|passes|backends|research|jit|test)/'
forbid bindings '(ir|passes|backends|research|jit|tools|test)/'
forbid examples '(ir|passes|backends|research|jit|tools|test)/'

if grep -rnE '\b(exit|abort|printf|puts)\(' --include='*.c' --exclude=tile_text.c \
       ir passes backends research jit |
   grep -vE 'f?n?printf\((stderr|[a-z]+,)|snprintf|vsnprintf|dprintf|_exit'; then
    echo "the library must not exit, abort or print"
    bad=1
fi
# Only one file may read the environment, and its table must have all variables that other files ask
# for.
if grep -rnE '\b(secure_)?getenv *\(' --include='*.[ch]' \
       include ir passes backends research jit tools examples |
   grep -v '^jit/runtime/environment.c:'; then
    echo "only jit/runtime/environment.c reads the environment"
    bad=1
fi
for name in $(grep -rhoE '"LIMBER_[A-Z0-9_]+"' --include='*.[ch]' \
                  ir passes backends research jit tools examples | sort -u); do
    grep -q "^    { $name," jit/runtime/environment.c ||
        { echo "$name is not in jit/runtime/environment.c"; bad=1; }
done

# Only one file of the tools may write files that users name.  It preserves devices, links and
# permissions.
if grep -rnE '\b(fopen|freopen)\([^)]*"[wa]|\b(rename|mkstemps?|creat)\(|O_CREAT' \
       --include='*.[ch]' tools |
   grep -v '^tools/output.c:'; then
    echo "only tools/output.c writes files"
    bad=1
fi

# Each heading of a page that a comment cites must exist.
grep -rhoE 'docs/[a-z]+\.md, "[^"]+"' --include='*.[ch]' \
     ir include passes backends research jit tools |
    sort -u | {
    missing=0
    while read -r cited; do
        page=${cited%%,*} heading=${cited#*\"}
        sed -nE 's/^#+ ([0-9]+\. )?//p' "$page" | grep -qxF -- "${heading%\"}" ||
            { echo "cited, but no heading: $cited"; missing=1; }
    done
    exit $missing
} || bad=1

[ $bad = 0 ] && echo "no include runs up or across"
[ $# -gt 1 ] || exit $bad
python3 "$here/calls.py" . "$build"
calls=$?
[ $calls = 127 ] && echo "skipped: calls are checked by python3" && calls=77
[ $bad = 0 ] || exit $bad
exit $calls
