#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Text files in every form that programs write are read as intended, or refused with the position of
# the error, never read as another matrix.  If a result cannot be written, every command reports
# this.
limber=$1
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
LIMBER_BACKEND=interp   # no kernels: what is computed here is tiny
export LIMBER_BACKEND
printf '1\n' > eye1.csv
printf '1,0\n0,1\n' > eye2.csv
printf '1,0,0\n0,1,0\n0,0,1\n' > eye3.csv

# Checks what is read from a file.
reads() {   # name, what printf makes the file of, columns, the rows
    # shellcheck disable=SC2059
    printf -- "$2" > "$1"
    expect 0 "^$4\$" sh -c '"$0" gemm "$1" eye$2.csv -o csv:- 2> told | tr "\n" "|"' \
        "$limber" "$1" "$3"
}
# Checks that a file is refused.
refuses() { # name, what printf makes the file of, message
    # shellcheck disable=SC2059
    printf -- "$2" > "$1"
    expect 1 "^limber: $1: $3" "$limber" gemm "$1" eye2.csv
}

# ---- CSV: one kind of separator, spaces around fields, marks, comments, names ----
mark='\357\273\277'
for text in '1,2\n3,4\n' '1;2\n3;4\n' '1\t2\n3\t4' '1 2\n3 4\n' '  1   2 \n3 4' '1, 2\n 3 ,4\n' \
    '1,2,\n3,4,\n' '1\t2\t\n3\t4\t\n' '1,2\r\n3,4\r\n' '\n1,2\n\n3,4\n\n' '# 5;6\n1,2 # 7\n3,4\n' \
    'a,b\n1,2\n3,4\n' 'a b;c\n1;2\n3;4\n' 'a b\n1 2\n3 4\n' '"a,b;c",d\n1,2\n3,4\n' \
    '"1","2"\n1,2\n3,4\n' '"","NA"\n1,2\n3,4\n' '"a ""b"", c",d\n1,2\n3,4\n' 'a,b\n\n1,2\n3,4\n' \
    'E,eps\n1e0,.2e+1\n3.,0x4\n'; do
    reads a.csv "$text" 2 '1,2[|]3,4[|]'
    reads a.csv "$mark$text" 2 '1,2[|]3,4[|]'
done
reads a.csv 'time\n1\n2\n' 1 '1[|]2[|]'
reads a.csv 'x,y,z\n1,2,3\n' 3 '1,2,3[|]'
reads text "${mark}1,2\n3,4\n" 2 '1,2[|]3,4[|]'
for text in 'NA,2\n3,4\n' '-,2\n3,4\n' ',2\n3,4\n' '1.O,2\n3,4\n' 'a,2\n3,4\n' '1_0,2\n3,4\n'; do
    refuses a.csv "$text" 'line 1, field 1: ".*" is no number'
    refuses a.csv "$mark$text" 'line 1, field 1: ".*" is no number'
    refuses a.csv "5,6\n$text" 'line 2, field 1: ".*" is no number'
done
refuses a.csv '1,,2\n3,4,5\n' 'line 1, field 2: "" is no number'
refuses a.csv '1\t\t2\n' 'line 1, field 2: "" is no number'
refuses a.csv '1,x\n3,4\n' 'line 1, field 2: "x" is no number, and other fields'
refuses a.csv 'x,1\n3,4\n' 'line 1, field 1: "x" is no number, and other fields'
refuses a.csv 'NA\n1\n2\n' \
    'line 1, field 1: "NA" is no number; the name of a column stands in quotes'
refuses a.csv ',a\n0,1\n' 'line 1, field 1: "" is no number'
refuses a.csv 'a,b\nc,d\n1,2\n' 'line 2, field 1: "c" is no number'
refuses a.csv 'a,b\n"1",2\n' 'line 2, field 1: ""1"" is text'
refuses a.csv '"1",2\n3,4\n' 'line 1, field 1: ""1"" is no number, and other fields'
refuses a.csv '1,2\r3,4\r' 'line 1, field 2: '
refuses a.csv 'a,b\n' 'no numbers'
refuses a.csv "$mark" 'is empty'
refuses a.csv '\377\3761\000,\0002\000\n\000' 'line 1: no text'
for text in '1,5;2,5\n' '1,5\t2,5\n' '1;2,\n' 'a;b,c\n1;2\n' '1,\t2\n'; do
    refuses a.csv "$text" 'line 1: two kinds of separator'
    refuses a.csv "1;2\n$text" 'line 2: two kinds of separator'
done
refuses a.csv '1,5\n2;5\n' 'line 2: two kinds of separator'
refuses a.csv '1 2\n2,5\n' 'line 2: two kinds of separator'
refuses a.csv '1,5 2,5\n' 'line 1, field 2: "5 2" is no number'
refuses a.csv '1,2\n3 4\n' 'line 2, field 1: "3 4" is no number'
refuses a.csv '1\t2 3\n' 'line 1, field 2: "2 3" is no number'
refuses a.csv '1,2\n3\n' 'line 2: fewer than the 2 fields'
refuses a.csv 'a,b\n1,2,3\n' 'line 2: more than the 2 fields'

# ---- Matrix Market: no part of the file is ignored ----
head='%%%%MatrixMarket matrix'
reads a.mtx "$head coordinate real general\n%% c\n2 2 2\n1 1 3\n\n2 1 4\n\n%% end\n" 2 \
    '3,0[|]4,0[|]'
reads a.mtx "$mark$head array real general\n1 2\n3\n4\n" 2 '3,4[|]'
reads a.mtx "$head coordinate real symmetric\n2 2 2\n1 1 3\n1 2 4\n" 2 '3,4[|]4,0[|]'
refuses a.mtx "$head coordinate real general\n2 2 3\n1 1 3\n2 2 1\n1 1 4\n" \
    'line 5: row 1, column 1 has a value already$'
refuses a.mtx "$head coordinate real symmetric\n2 2 2\n2 1 3\n1 2 4\n" \
    'line 4: row 1, column 2 has a value already, or its mirror image'
refuses a.mtx "$head coordinate pattern general\n2 2 2\n2 1\n2 1\n" 'line 4: row 2, column 1 has'
refuses a.mtx "$head coordinate real general\n2 2 1\n1 1 3\n2 2 1\n" \
    'line 4: more values than the sizes claim'
refuses a.mtx "$head array real general\n1 1\n3\n4\n" 'line 4: more values than the sizes claim'
refuses a.mtx "$head coordinate real general\n2 2 1\n1 1 3 4\n" \
    'line 3: expected row, column and one'
refuses a.mtx "$head coordinate pattern general\n2 2 1\n1 1 3\n" 'line 3: expected row and column'
refuses a.mtx "$head coordinate complex general\n2 2 1\n1 1 3\n" \
    'line 3: expected row, column and two'
refuses a.mtx "$head coordinate real general\n2 2 1 7\n1 1 3\n" 'line 2: expected three sizes'
refuses a.mtx "$head array real general\n1 1 1\n3\n" 'line 2: expected two sizes'
refuses a.mtx '%%%%MatrixMarkt matrix array real general\n1 1\n1\n' \
    'line 1: expected "%%MatrixMarket'
refuses a.mtx '%%%%' 'line 1: expected "%%MatrixMarket'

# ---- matrices without elements, and folders that cannot be made ----
printf '\223NUMPY\001\000\166\000%-117s\n' \
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2), }" > 0.npy
expect 0 '^contract  correct; nothing is multiplied$' \
    "$limber" gemm 0.npy eye2.csv --contract correct
expect 0 '^contract  native; nothing is multiplied$' "$limber" gemm eye2.csv 0.npy --trans-b
expect 0 '^result    2 x 2, inner 0' "$limber" gemm 0.npy 0.npy --trans-a
unset LIMBER_CACHE_DIR
someone=        # who may not write everywhere
[ "$(id -u)" != 0 ] || someone='setpriv --reuid=65534 --clear-groups'
if $someone "$limber" --version > /dev/null 2>&1; then
    expect 0 '^writable +no: .*cannot be made' $someone env HOME=/nonexistent "$limber" cache info
    expect 0 '"writable":.*false' $someone env HOME=/nonexistent "$limber" cache info --json
else
    echo "no other user: a folder that cannot be made is not tried"
fi
expect 0 '^writable +the folder is not there yet' env HOME="$work/new" "$limber" cache info
expect 1 '' test -e new
expect 0 '^writable +no$' env LIMBER_CACHE=off "$limber" cache info
LIMBER_CACHE_DIR=$work/cache
export LIMBER_CACHE_DIR

# ---- standard output that cannot be written to: every command that prints ----
printf '{"limber": "0.2.0", "calls": [], "complete": true}' > run.json
cat > commands <<'END'
--help
--version
help
help f16
help contracts
formats
formats f16 --json
units
units h100-bf16
operators --format bf16
version
version --json
completion bash
cache info
cache list
gemm eye2.csv eye2.csv
gemm eye2.csv eye2.csv --json
gemm eye2.csv eye2.csv -o -
gemm eye2.csv eye2.csv -o csv:-
plan gemm eye2.csv eye2.csv
plan gemm eye2.csv eye2.csv --ir
explore --random 4,4,8 --formats f16 --groups 0
explore --random 4,4,8 --formats f16 --groups 0 --json
explore --random 4,4,8 --formats f16 --groups 0 --csv -
reveal --contract native --shape 1,1,8 --trials 0
report run.json
report run.json --json
report run.json --html -
gemm --help
END
while read -r words; do
    # shellcheck disable=SC2086
    expect 0 '.' "$limber" $words
    # shellcheck disable=SC2086
    [ ! -e /dev/full ] ||
        expect 1 '^limber: standard output: (No space left|writing failed)' sh -c \
            '"$@" > /dev/full' sh "$limber" $words
    # shellcheck disable=SC2086
    expect 1 '^limber: standard output: ' sh -c '"$@" >&-' sh "$limber" $words
done < commands
# If standard output is closed, a file that is opened must not take its descriptor.
expect 1 '^limber: standard output: ' sh -c '"$0" gemm eye2.csv eye2.csv -o C.csv >&-' "$limber"
expect 0 '^1,0 0,1 $' sh -c 'tr "\n" " " < C.csv'

# ---- "-" is standard input or output ----
expect 0 '^- No BLAS was called by name' sh -c '"$0" report - < run.json' "$limber"
expect 0 ', 2 reports' sh -c 'cat run.json run.json | "$0" report -' "$limber"
expect 0 ', 2 reports' sh -c '"$0" report - run.json < run.json' "$limber"
expect 1 'is one file, not two' sh -c '"$0" report - - < run.json' "$limber"
expect 0 '^<!DOCTYPE html>' sh -c '"$0" report run.json --html - 2> told' "$limber"
expect 0 '</html>' sh -c '"$0" report run.json --html - 2> told | tail -1' "$limber"
expect 0 '^- No BLAS was called by name' cat told
expect 0 '^"?unit,' sh -c \
    '"$0" explore --random 4,4,8 --formats f16 --groups 0 --csv - 2> told' "$limber"
expect 0 '^f16 +rn ' cat told
expect 0 '^epilogue  %1 = relu %x' sh -c \
    'echo "%1 = relu %x" | "$0" gemm eye2.csv eye2.csv --epilogue @-' "$limber"
expect 1 '' test -e ./-

# ---- files that are no reports ----
head -c 30 run.json > cut.json
expect 1 'cut.json: ends early: what begins in line 1 is cut off' "$limber" report cut.json
expect 1 'ends early: what begins in line 1 is cut off' sh -c \
    'head -c 30 run.json | "$0" report -' "$limber"
printf '{"a": 1}\n{"a": 2}\n{"a": "x' > cut.json
expect 1 'cut.json: ends early: what begins in line 3 is cut off' "$limber" report cut.json
printf '[{"a": 1},\n' > cut.json
expect 1 'cut.json: ends early: what begins in line 1 is cut off' "$limber" report cut.json
printf '{"a": 1}\nno\n' > cut.json
expect 1 'cut.json: no report of LIMBER_REPORT, and line 2 is no object' "$limber" report cut.json
: > cut.json
expect 1 'cut.json: is empty' "$limber" report cut.json
finish
