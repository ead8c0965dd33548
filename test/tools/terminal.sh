#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Texts that would make a terminal move its cursor or rename its window, in every place where the
# command line reads foreign text: reports, sweeps, benchmarks, files of matrices, plans, units,
# shapes, entries of the cache, and names of files.  Whatever a command answers, neither its output
# nor its messages may contain a control character, and a page may contain no mark-up but its own.
limber=$1
blas=$2
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
LIMBER_BACKEND=interp
export LIMBER_BACKEND

# ESC, BEL, CR, backspace, DEL, and CSI as a character of UTF-8 and as a byte
bytes=$(printf '\033]0;x\007\rz\010\177\302\233J\2332J')
json='\\u001b]0;x\\u0007\\rz\\u0008\\u007f\\u009bJ'

ascii='[\001-\010\013-\037\177]' others='[\200-\237]'
controls=$(printf "$ascii\\|\302$others\\|^$others\\|[\001-\176]$others")
# Checks that an answer has no control characters.
safe() {    # pattern of the answer, command...: whatever its status
    pattern=$1
    shift
    checks=$((checks + 1))
    "$@" > out 2> err < /dev/null
    if LC_ALL=C grep -q "$controls" out err ||
        ! cat out err | grep -Eq -- "$pattern"; then
        failures=$((failures + 1))
        echo "FAILED: $*, wanted $pattern"
        head -n 20 out err | cat -v
    fi
}
# Appends the text to every string of a report or a sweep.
hostile() {
    sed "s/\": \"\([^\"]*\)\"/\": \"\1$json<b id=x>\"/g" "$1" > "hostile_$1"
    safe '.' "$limber" report "hostile_$1"
    safe 'u001b' "$limber" report "hostile_$1" --html -
    ! grep -q '<b id=x>' out || { failures=$((failures + 1)); echo "FAILED: mark-up of $1"; }
    safe '.' "$limber" report "hostile_$1" --json
}

cat > run.json << 'END'
{"limber": "0.2.0", "program": "/bin/p", "library": "liblimber_blas", "interpreted": "no file",
 "wall_seconds": 2, "complete": true, "loaded": ["libblas"], "calls": [
 {"routine": "dgemm_", "m": 8, "n": 8, "k": 8, "calls": 1, "seconds": 1, "served": true,
  "scheme": "accumulator", "caller": "p, main", "unit": {"products": 9}},
 {"routine": "dgemm_", "m": 9, "n": 8, "k": 8, "calls": 1, "seconds": 1, "served": false,
  "why_not": "odd"}]}
END
cat > bench.json << 'END'
{"limber": "0.2.0", "cpu": "some", "peers": [{"name": "other", "version": "1"}], "rows": [
 {"group": "products", "work": "DGEMM", "n": 8, "threads": 1, "by": "native", "value": 2,
  "unit": "GFLOPS", "ratio": 1, "ratio_to": "other", "note": "well", "state": "WRONG", "why": "so"},
 {"group": "products", "work": "DGEMM", "n": 16, "threads": 1, "by": "native", "value": 2,
  "unit": "GFLOPS"}]}
END
cat > apps.json << 'END'
{"limber": "0.2.0", "applications": [{"name": "app", "what": "does", "accuracy": "good",
 "failed": "why", "rows": [{"by": "x", "computed_by": "y", "seconds": 1}]}]}
END
"$limber" explore --random 4,4,8 --formats f16,e5m2 --groups 0 --json > sweep.json 2> /dev/null
for name in run bench apps sweep; do
    sed 's/":"/": "/g; s/":	"/": "/g' "$name.json" > tmp && mv tmp "$name.json"
    hostile $name.json
done
printf '{"%s": "%s", "seconds": 1}\n' "name$json" "x$json" > lines.json
hostile lines.json

# ---- files of other kinds, with the hostile text where it is an error ----
printf '1,0\n0,1\n' > eye.csv
printf '1,%s\n0,1\n' "$bytes" > field.csv
printf '%%%%MatrixMarket matrix %s real general\n2 2\n' "$bytes" > head.mtx
printf '%%%%MatrixMarket matrix array real general\n2 2\n1\n%s\n' "$bytes" > number.mtx
printf '\223NUMPY\001\000\166\000{"descr": "%s", "fortran_order": False, "shape": (2,), }%80s\n' \
    "$bytes" '' > head.npy
printf 'plan %s {\n}\n' "$bytes" > plan.lir
printf '3 3 3 %s native\n' "$bytes" > shapes
printf 'target %s=1\n' "$bytes" > target.txt
for name in field.csv head.mtx number.mtx head.npy; do
    safe "^limber: $name" "$limber" gemm $name eye.csv
done
safe '^limber: ' "$limber" plan plan.lir
safe '^limber: ' "$limber" plan gemm eye.csv eye.csv --source --target target.txt
safe '^limber: --target goes with --source' "$limber" plan gemm eye.csv eye.csv --target sm_90a
safe '^limber: shapes' "$limber" prebuild shapes

# ---- words of the command line, and names of files ----
for words in "gemm $bytes.npy eye.csv" "gemm eye.csv eye.csv -o no/$bytes.npy" \
    "gemm eye.csv eye.csv --contract simulate=$bytes" "gemm eye.csv eye.csv --scheme $bytes" \
    "gemm eye.csv eye.csv --as $bytes" "gemm eye.csv eye.csv --alpha $bytes" "report $bytes" \
    "help $bytes" "formats $bytes" "units $bytes" "operators --format $bytes" "cache $bytes" \
    "$bytes" "explore eye.csv eye.csv --formats $bytes" "gemm eye.csv eye.csv --backend $bytes"; do
    # shellcheck disable=SC2086
    safe 'u001b' "$limber" $words
done
cp eye.csv "$bytes.csv"
cp run.json "$bytes.json"
safe '.' "$limber" plan gemm "$bytes.csv" eye.csv
safe '.' "$limber" report "$bytes.json" lines.json
safe '.' "$limber" report lines.json "$bytes.json" --html -

# ---- a cache entry whose plan contains the hostile text, and which is valid except for its seal
# ----
safe '.' env LIMBER_BACKEND=auto LIMBER_KERNELS=specialised LIMBER_WAYS=-planless \
    "$limber" gemm eye.csv \
    eye.csv --contract correct --scheme ozaki2
entry=$(grep -rl --include='*.kernel' 'gemm a=f64' "$LIMBER_CACHE_DIR" | head -n 1)
if [ -n "$entry" ]; then
    expect 0 '  -  .*gemm' "$limber" cache list
    expect 0 '"good":.*null' "$limber" cache list --json
    expect 0 '  good  .*gemm' "$limber" cache verify
    at=$(LC_ALL=C grep -abo 'gemm a=f64' "$entry" | head -n 1 | cut -d: -f1)
    chmod u+w "$entry"
    printf '\033[2J' | dd of="$entry" bs=1 seek="$at" conv=notrunc 2> /dev/null
    safe 'DAMAGED' "$limber" cache list
    safe 'DAMAGED' "$limber" cache verify
    safe 'false' "$limber" cache list --json
else
    echo "no compiler: entries of the cache are not tested"
fi
safe '.' env LIMBER_CACHE_DIR="$work/$bytes" "$limber" cache info

# ---- messages of liblimber_blas about variables and files ----
printf '%s = correct\n' "$bytes" > rules
if [ -n "$blas" ]; then     # by a path without spaces, at which LD_PRELOAD is cut
    ln -s "$(dirname "$blas")" folder
    blas=./folder/$(basename "$blas")
    safe 'u001b' env LD_PRELOAD="$blas" LIMBER_CONTRACT="$bytes" "$3"
    safe 'u001b' env LD_PRELOAD="$blas" LIMBER_CONFIG=rules "$3"
    safe 'u001b' env LD_PRELOAD="$blas" LIMBER_REPORT="no/$bytes" LIMBER_CONTRACT=native "$3"
fi
finish
