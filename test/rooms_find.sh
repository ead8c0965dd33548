#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rooms.sh must accept a tree without faults, and find each fault that is planted in it.
rooms=$1 cc=${CC:-cc}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/jit/runtime" "$tree/jit/api"
mkdir -p "$tree/backends/interp" "$tree/backends/llvm" "$tree/backends/cuda"
for room in include ir passes research tools bindings examples; do
    mkdir "$tree/$room"
done
: > "$tree/jit/runtime/environment.c"
failed=0
sh "$rooms" "$tree" || { echo "FAILED: faults in a tree without any"; failed=1; }

# Checks that a file with a forbidden line is found.
fault() {  # arguments: file, its only line
    printf '%s\n' "$2" > "$tree/$1"
    if sh "$rooms" "$tree" > "$tree/out"; then
        echo "FAILED: not found: $1: $2"
        failed=1
    fi
    grep -qF -- "$1" "$tree/out" || { echo "FAILED: not named: $1: $2"; failed=1; }
    rm "$tree/$1"
}
fault include/a.h '#include "ir/ir.h"'
fault ir/a.c '#include "passes/passes.h"'
fault passes/a.c '#include "backends/backend.h"'
fault backends/a.c '#include "jit/engine.h"'
fault backends/interp/a.c '#include "backends/llvm/llvm.h"'
fault backends/interp/a.c '#include "backends/cuda/cuda.h"'
fault backends/llvm/a.h '#include "backends/interp/eval.h"'
fault backends/llvm/a.h '#include "backends/cuda/cuda.h"'
fault backends/cuda/a.c '#include "backends/interp/unit.h"'
fault backends/cuda/a.c '#include "backends/llvm/llvm.h"'
fault research/a.c '#include "backends/backend.h"'
fault ir/a.c '#include "research/research.h"'
fault jit/a.c '#include "research/research.h"'
fault jit/runtime/a.c '#include "research/research.h"'
fault jit/a.c '#include "test/support/support.h"'
fault tools/a.c '#include "ir/ir.h"'
fault bindings/a.F90 '#include "jit/engine.h"'
fault examples/a.c '#include "jit/engine.h"'
fault jit/a.c '    exit(1);'
fault ir/a.c '    text = getenv("HOME");'
fault tools/a.c '    file = fopen(path, "w");'
mkdir "$tree/docs"
printf '## 1. A heading\n' > "$tree/docs/page.md"
printf '/* docs/page.md, "A heading" */\n' > "$tree/ir/b.c"
sh "$rooms" "$tree" > "$tree/out" || { cat "$tree/out"; failed=1; }
rm "$tree/ir/b.c"
if printf '/* docs/page.md, "Heading" */\n' > "$tree/ir/b.c" && sh "$rooms" "$tree" > "$tree/out"
then
    echo "FAILED: not found: a heading that no page has"
    failed=1
fi

# ---- calls ----

rm "$tree/ir/b.c"
# Compiles objects from files, each of which defines limber_NAME and calls the listed functions.
objects="$tree/a build/CMakeFiles/limber.dir"
add() {  # arguments: file, symbols that it calls
    mkdir -p "$(dirname "$tree/$1")" "$(dirname "$objects/$1")"
    name=$(echo "${1%.c}" | tr / _)
    file=$1
    shift
    {
        for called in "$@"; do
            printf 'void limber_%s(void);\n' "$called"
        done
        printf 'void limber_%s(void);\nvoid limber_%s(void) {\n' "$name" "$name"
        for called in "$@"; do
            printf 'limber_%s();\n' "$called"
        done
        printf '}\n'
    } > "$tree/$file"
    "$cc" -c -o "$objects/$file.o" "$tree/$file" || exit 1
}
# Checks the status and the text of rooms.sh.
says() {  # arguments: status, text
    sh "$rooms" "$tree" "$tree/a build" > "$tree/out"
    status=$?
    [ $status = "$1" ] || { echo "FAILED: status $status, not $1: $2"; cat "$tree/out"; failed=1; }
    grep -qF -- "$2" "$tree/out" ||
        { echo "FAILED: not told: $2"; cat "$tree/out"; failed=1; }
}
mkdir "$tree/a build"
says 77 'a build has no objects of the library'
if ! command -v nm > /dev/null || ! command -v "$cc" > /dev/null; then
    echo "skipped: there is no nm, or no $cc"
    [ $failed = 0 ] && exit 77
    exit 1
fi
add ir/a.c ir_num_a
add ir/num/a.c ir_a
add passes/a.c ir_a memcpy
add backends/a.c ir_a backends_llvm_a
add backends/interp/a.c ir_a
add backends/llvm/a.c ir_a
add backends/cuda/a.c ir_a
add jit/a.c ir_a passes_a backends_a backends_cuda_a
says 0 'no call runs up or across'
says 0 '0 files of jit are in cycles'
add research/a.c ir_a passes_a
add jit/b.c jit_api_c
add jit/api/c.c jit_d research_a
add jit/d.c jit_b jit_a
says 0 '3 files of jit are in cycles, 3 of them in the largest'
says 0 '    jit/api/c.c jit/b.c jit/d.c'

# Checks that a forbidden call is found.
call() {  # arguments: caller, file of the callee
    cp "$objects/$1.o" "$tree/kept"
    symbol=$(echo "${2%.c}" | tr / _)
    add "$1" "$symbol"
    says 1 "$1 calls $2: limber_$symbol"
    cp "$tree/kept" "$objects/$1.o"
}
call ir/a.c passes/a.c
call ir/num/a.c jit/a.c
call ir/a.c backends/a.c
call passes/a.c backends/a.c
call passes/a.c jit/a.c
call passes/a.c research/a.c
call research/a.c backends/a.c
call jit/a.c research/a.c
call backends/a.c passes/a.c
call backends/a.c jit/a.c
call backends/interp/a.c backends/llvm/a.c
call backends/interp/a.c jit/a.c
call backends/llvm/a.c backends/cuda/a.c
call backends/cuda/a.c backends/interp/a.c
call backends/cuda/a.c passes/a.c
says 0 'no call runs up or across'
add backends/llvm/a.c backends_a
says 1 'a cycle of several rooms: backends/a.c backends/llvm/a.c'
rm "$tree/backends/llvm/a.c"    # its object belongs to an earlier build
says 0 'no call runs up or across'
NM=/nonexistent/nm says 77 'skipped: /nonexistent/nm: No such file'
NM=false says 77 'skipped: false cannot read the objects'
[ $failed = 0 ] && echo "each fault is found"
exit $failed
