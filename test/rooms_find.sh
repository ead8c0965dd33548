#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rooms.sh passes a tree without faults, and finds each fault that is planted in it.
rooms=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/jit/runtime" "$tree/backends/interp" "$tree/backends/llvm" "$tree/backends/cuda"
for room in include ir passes tools bindings examples; do
    mkdir "$tree/$room"
done
: > "$tree/jit/runtime/environment.c"
failed=0
sh "$rooms" "$tree" || { echo "FAILED: faults in a tree without any"; failed=1; }

fault() {  # file, its one line
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
fault backends/cuda/a.c '#include "backends/llvm/cpu.h"'
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
[ $failed = 0 ] && echo "each fault is found"
exit $failed
