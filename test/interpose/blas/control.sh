#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests the settings of liblimber_blas that need no recompilation: variables, a file with rules, a
# report, and the functions that a program may call.
library=$1 program=$2 limber=$3 linked=$4 clocked=$5 here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library"
rules=$work/rules
export LIMBER_BACKEND=interp

# ---- a program linked with the library before the BLAS; the library exports only names of the BLAS
# and of Limber ----
expect 0 '^0 failures' env LIMBER_CONTRACT=correct "$linked" served
expect 0 '^0 failures' "$linked" left
expect 1 '^$' sh -c 'nm -D --defined-only "$0" | awk "{ print \$3 }" |
    grep -Ev "^(scipy_|limber(32|64)_)?(cblas_)?([sdczq]|s?b|sh)(gemm|symm|hemm|syrk|herk|syr2k|her2k|trmm|trsm|ge(tr|sv|qr)|po(tr|sv)|trtr[is]|(or|un)[gm]qr)" |
    grep -Ev "^(scipy_|limber(32|64)_)?(cblas_)?([sdcz]|s[cd]|d[sz]|sds|cs|zd)(g[eb]mv|(sy|he|sb|hb|sp|hp)mv|t[rbp][ms]v|ge(r|ru|rc)|(sy|he|sp|hp)r2?|dot[uc]?(_sub)?|nrm2|asum|axpy|scal|rot)[64_]*$|^limber_blas_|^_[eE]xit$"' "$library"

# ---- a file, and what is wrong with it ----
config() {
    printf "$1" > "$rules"
}
# Checks that a configuration file is refused with a message, and that nothing is computed.
wrong() {   # text, message
    config "$1"
    expect 0 "$2.*; every product is left to the program" $before LIMBER_CONFIG="$rules" "$program" left
    lines 1 'liblimber_blas:'
}
wrong 'contract correct\ncolour red\n' 'rules:2: unknown key "colour"'
wrong 'contract exactly\n' 'rules:1: contract exactly is none of'
wrong 'contract\n' 'rules:1: "contract" needs one value'
wrong 'contract correct fast\n' 'needs one value'
wrong 'rule dgemm correct\n' 'a rule ends in ->'
wrong 'rule m>3 -> correct\n' 'a rule begins with a routine'
wrong 'rule dgemm m~3 -> perhaps\n' '"perhaps" is neither off nor a contract'
wrong 'rule dgemm m>x -> off\n' '"m>x" compares with no number'
wrong 'rule dgemm q>3 -> off\n' '"q>3" is about none of'
wrong 'rule dgemm -> correct scheme=best\n' 'is no scheme=NAME'
wrong 'rule dgemm -> fast\n' '"fast" is a promise of a scheme, and none is named'
wrong 'check many\n' 'check many is no number'
wrong 'contract simulate=h100\n' 'rules:1: contract simulate=h100 is no unit: .h100. is neither a preset'
wrong 'contract simulate=in=bf16 accc=f32\n' "no unit: 'accc=f32' is no key=value of a unit"
wrong 'rule dgemm -> simulate=in=bf16 acc=f32 group=x\n' 'rules:1: "simulate=in=bf16 acc=f32 group=x" is no unit: .*group'
wrong "contract simulate=in=bf16 acc=f32 $(printf '%400s' x)\n" 'no unit: it is too long'
wrong 'contract correct\nverbose 1\ncontract native\n' 'rules:3: contract stands there twice'
expect 0 'LIMBER_CONFIG = "/nowhere": No such file' $before LIMBER_CONFIG=/nowhere "$program" left
expect 0 'LIMBER_CHECK = "x" is no number' $before LIMBER_CHECK=x LIMBER_CONTRACT=correct "$program" left
expect 0 'LIMBER_CONTRAKT is no variable of Limber' $before LIMBER_CONTRAKT=correct "$program" left
expect 0 'LIMBER_THREADS = "0"' $before LIMBER_THREADS=0 LIMBER_CONTRACT=correct "$program" left

# ---- rules of the configuration file ----
config '# all of it\n\ncontract correct # as LIMBER_CONTRACT\nverbose 1\n'
expect 0 'gemm_? 131 x 140 x 150 .*, by' $before LIMBER_CONFIG="$rules" "$program" served
config 'rule * -> correct\nverbose 1\n'
expect 0 'gemm_? 131 x 140 x 150 .*, by' $before LIMBER_CONFIG="$rules" "$program" served
config 'contract correct\nrule [dz]gemm* -> off\nverbose 1\n'
expect 1 'sgemm_? .* by ' $before LIMBER_CONFIG="$rules" "$program" any
lines 0 'dgemm_? .* by '
config 'contract correct\nrule *gemm m>=131 m<=131 work<3e6 k=150 -> off\nverbose 1\n'
expect 0 'a rule leaves it alone' $before LIMBER_CONFIG="$rules" "$program" left
lines 0 ' by '
config 'contract correct\nrule * caller=blas_program_* -> off\nverbose 1\n'
expect 0 'a rule leaves it alone' $before LIMBER_CONFIG="$rules" "$program" left
config 'contract correct\nrule * caller=another* -> off\nverbose 1\n'
expect 0 ' by ' $before LIMBER_CONFIG="$rules" "$program" served
config 'rule *gemm -> fast scheme=ozaki2\nverbose 1\n'
expect 0 ' by ozaki2' $before LIMBER_CONFIG="$rules" "$program" served
config 'contract off\n'
expect 0 'contract off is none of' $before LIMBER_CONFIG="$rules" "$program" left
config 'contract native\nbackend auto\nthreads 1\n'
expect 0 '^0 failures' env -u LIMBER_BACKEND LD_PRELOAD="$library" LIMBER_CONTRACT=correct LIMBER_CONFIG="$rules" \
    "$program" served

# ---- without libLLVM a message says once who computes; `native` calls go back to the BLAS ----
bare="env -u LIMBER_BACKEND LD_PRELOAD=$library LIMBER_CACHE=off LIMBER_LLVM=$work/none"
expect 0 'gemm_? 131 x 140 x 150 .*, by' $bare LIMBER_CONTRACT=correct LIMBER_VERBOSE=1 "$program" served  # prebuilt kernels
lines 0 'the interpreter computes'
bare="$bare LIMBER_KERNELS=specialised"
expect 0 '^0 failures' $bare LIMBER_CONTRACT=native "$program" left
expect 0 "not native: the program.s BLAS computed .*LIMBER_LLVM: $work/none.*LIMBER_QUIET=1" $bare LIMBER_CONTRACT=native "$program" left
lines 4 'liblimber_blas: not native'   # one a routine
expect 0 '"why_not": "[^"]*LIMBER_LLVM' sh -c '"$@" > /dev/null 2>&1; cat "$0"' "$work/bare" $bare LIMBER_CONTRACT=native \
    LIMBER_REPORT="$work/bare" "$program" left
lines 0 '"backend": "interp"'
expect 0 "the interpreter computes, .*LIMBER_LLVM: $work/none" $bare LIMBER_CONTRACT=correct "$program" served
lines 1 'liblimber_blas:'
expect 0 '"interpreted": "[^"]*LIMBER_LLVM' sh -c '"$@" > /dev/null 2>&1; cat "$0"' "$work/bare" $bare LIMBER_CONTRACT=correct \
    LIMBER_REPORT="$work/bare" "$program" served
config 'rule sgemm -> native\nrule * -> correct\nbackground 1\n'
expect 1 'the interpreter computes' $bare LIMBER_CONFIG="$rules" "$program" any
expect 1 '.' $before LIMBER_CONTRACT=correct "$program" left
lines 0 'the interpreter computes'      # no message: LIMBER_BACKEND asked for the interpreter

# ---- a locale with decimal commas: reports and rules still use decimal points ----
comma="LOCPATH=$work/locales LC_ALL=comma.UTF-8"
mkdir "$work/locales"
if localedef -i de_DE -f UTF-8 "$work/locales/comma.UTF-8" > /dev/null 2>&1 &&
   [ "$(env $comma /usr/bin/printf %.1f 0,5 2> /dev/null)" = 0,5 ]; then
    config 'contract native\nrule dgemm work<1.5e6 -> off\nrule * work>=0.5 -> correct\nverbose 1\n'
    expect 0 'gemm_? 131 x 140 x 150 .*, by .* [0-9.e+-]+ ms' env $comma LD_PRELOAD="$library" LIMBER_CONFIG="$rules" "$program" served
    lines 20 ' by [a-z0-9-]+, '
    env $comma LD_PRELOAD="$library" LIMBER_CONFIG="$rules" LIMBER_REPORT="$work/comma" "$program" any > "$work/out" 2>&1
    expect 1 '^$' grep -E '[0-9],[0-9]+ ms' "$work/out"
    expect 0 '"began": [0-9]+\.[0-9]' cat "$work/comma"
    expect 0 '^[0-9]+ compiled' env LIMBER_CACHE_DIR="$work/warm" "$limber" prebuild "$work/comma"
else
    echo "no locale with a comma can be made here: skipped"
fi

# ---- the time that the BLAS would have taken: by its clock, 24 ms for each of ten large products,
# 61 us for each of a hundred small ones, 1.027 us for each of a thousand tiny ones, and 61 us for
# each of ten products of a matrix and a vector ----
expect 0 '^$' $before LIMBER_CONTRACT=correct LIMBER_THREADS=1 LIMBER_REPORT="$work/clocked" "$clocked"
expect 0 '"estimated_original_seconds": 0\.24[,0]' cat "$work/clocked"
lines 1 '"estimated_original_seconds": 0\.0061[,0]'
lines 1 '"estimated_original_seconds": 0\.001027[,0]'
lines 1 '"routine": "dgemv_".*"estimated_original_seconds": 0\.00061[,0]'

# ---- a report of known calls; functions of Limber that the program calls; kernels prebuilt from
# the report ----
if $python -c 'import numpy' 2> /dev/null; then
    # NumPy calls its BLAS when it is imported.
    $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/import" $python -c 'import numpy'
    BEGAN=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["served"]["calls"])' "$work/import")
    export BEGAN
    all=$((9 + BEGAN)) many=$((12 + BEGAN))
    $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/report.%p" LIMBER_CHECK=3 $python "$here/control.py" ask > "$work/pid"
    expect 0 '^right$' python3 "$here/control.py" read "$work/report.$(cat "$work/pid")"
    $before LIMBER_REPORT="$work/report.off" $python "$here/control.py" calls
    expect 0 '^[1-9][0-9]* handed on: no contract is stated' python3 "$here/control.py" left "$work/report.off"
    expect 0 "Limber +$all calls in" "$limber" report "$work/report.$(cat "$work/pid")" --html "$work/page.html"
    lines 1 '^cblas_dgemm +3 +[0-9.]+ +[0-9.e-]+( +[0-9.]+ times)? +[a-z0-9-]+$'
    expect 0 '<svg.*cblas_|cblas_dgemm</td>' cat "$work/page.html"
    expect 0 "Limber +$all calls .*|the BLAS +$all calls|No contract was stated" "$limber" report "$work/report.$(cat "$work/pid")" "$work/report.off"
    lines 1 "^Limber +$all calls"
    lines 1 "^the BLAS +$all calls"
    lines 1 '^- No contract was stated'
    for most in 0 100 3; do
        $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/rows" LIMBER_REPORT_ROWS=$most \
            $python "$here/control.py" many
        expect 0 '^right$' python3 "$here/control.py" rows "$work/rows" $most
        expect 0 "Limber +$many calls" "$limber" report "$work/rows"
        rm "$work/rows"
    done
    $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/nothing" $python -c "import ctypes; ctypes.CDLL('libblas.so.3')"
    expect 0 'No BLAS was called by name: .*name: [^ ]*blas' "$limber" report "$work/nothing"
    lines 1 ' s, contract correct, by liblimber_blas$'
    rm "$work/nothing"
    config 'rule dgemm -> correct\n'
    $before LIMBER_CONFIG="$rules" LIMBER_REPORT="$work/nothing" $python -c "import ctypes; ctypes.CDLL('libblas.so.3')"
    expect 0 ' s, contract by rules, by liblimber_blas$' "$limber" report "$work/nothing"
    $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/shell" sh -c "$python '$here/control.py' calls; true"
    expect 0 "Limber +$all calls" "$limber" report "$work/shell"
    # several processes are summed, each once: of two reports of one process, one is a copy or an
    # earlier state
    sed 's/"pid": /&1/' "$work/report.off" > "$work/report.two"
    sed 's/"wall_seconds": [^,]*/"wall_seconds": 0/; '"s/\"calls\": $all/\"calls\": 1/" "$work/report.off" > "$work/report.early"
    expect 0 "\"calls\":.$((2 * all))" sh -c '"$@" | tr -d "\n"' sh "$limber" report --json "$work/report.off" "$work/report.two"
    for again in "report.off report.off" "report.early report.off" "report.off report.early"; do
        expect 0 'is an earlier report, or a copy, of the process of .*: not counted' sh -c 'cd "$0"; "$@"' "$work" "$limber" report $again
        lines 1 "^the BLAS +$all calls"
    done
    expect 1 'no report of LIMBER_REPORT' "$limber" report "$rules"
    expect 2 'no FILE' "$limber" report
    expect 0 'is not written: No such file' $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/none/report" $python \
        "$here/control.py" calls
    expect 143 '.*' sh -c "$before LIMBER_CONTRACT=correct LIMBER_REPORT='$work/killed' $python '$here/control.py' killed '$work/killed'"
    expect 0 '^right$' python3 "$here/control.py" part "$work/killed"
    expect 0 '1 of 1 reports were written before the program ended' "$limber" report "$work/killed"
    for signal in SIGTERM:143 SIGHUP:129; do    # before anything was written
        expect ${signal#*:} '^$' sh -c "$before LIMBER_CONTRACT=correct LIMBER_REPORT='$work/ended' $python '$here/control.py' ended ${signal%:*} 2> /dev/null"
        expect 0 '^right$' python3 "$here/control.py" whole "$work/ended"
        rm -f "$work/ended"
    done
    expect 143 '.*' sh -c "LIMBER_CONTRACT=correct LIMBER_REPORT='$work/closed' $python '$here/control.py' closed '$library' '$work/closed' 2> /dev/null"
    expect 0 '"served": { "calls": 1,' cat "$work/closed"
    expect 137 '.*' sh -c "$before LIMBER_CONTRACT=correct LIMBER_REPORT='$work/idle' $python '$here/control.py' idle '$work/idle'"
    expect 0 '^right$' python3 "$here/control.py" whole "$work/idle"
    expect 0 '^right$' $before LIMBER_CONTRACT=bits=44 $python "$here/control.py" bound 0
    expect 0 '^right$' $before LIMBER_CONTRACT=bits=45 $python "$here/control.py" bound 1
    expect 0 '^right$' $before LIMBER_CONTRACT=bits=44 LIMBER_TRUST_BLAS=0 $python "$here/control.py" bound 1
    expect 0 '^right$' $before LIMBER_CONTRACT=correct $python "$here/control.py" narrow
    words='in=bf16 acc=f32:rz:inf  block=16 frac=25 floor=-133'       # h100-bf16
    for text in 'rule *gemm -> simulate=h100-bf16' "rule *gemm ->  simulate=$words " "contract simulate=$words # h100"; do
        config "$text\n"
        mkdir "$work/unit"
        expect 0 '^$' $before LIMBER_CONFIG="$rules" LIMBER_REPORT="$work/unit/report" $python "$here/control.py" simulated "$work/unit"
        expect 0 '.*' "$limber" gemm "$work/unit/a.npy" "$work/unit/b.npy" --contract simulate=h100-bf16 -o "$work/unit/want.npy"
        expect 0 '^right$' $python "$here/control.py" same "$work/unit" "$work/unit/report"
        rm -r "$work/unit"
    done
    expect 0 "LIMBER_CONTRACT = .simulate=none. is no unit: 'none' is neither a preset" \
        $before LIMBER_CONTRACT=simulate=none $python "$here/control.py" calls
    OMPI_COMM_WORLD_RANK=3 $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/ranks" $python "$here/control.py" calls
    expect 0 '"rank": "3"' cat "$work/ranks.3"
    expect 0 '^[1-9][0-9]* compiled, 0 there' env LIMBER_CACHE_DIR="$work/warm" "$limber" prebuild "$work/ranks.3"
    expect 0 '^right$' $before LIMBER_CONTRACT=correct LIMBER_CACHE_DIR="$work/warm" LIMBER_NO_COMPILE=1 $python \
        "$here/control.py" served
    for backend in interp auto; do      # kernels of all products of a call are told
        export LIMBER_BACKEND=$backend
        for calls in several routines; do
            expect 0 '^right$' $before LIMBER_CONTRACT=correct LIMBER_REPORT="$work/$calls" $python "$here/control.py" $calls
            [ $backend,${LIMBER_KERNELS:-} = auto,prebuilt ] && continue     # has nothing to make ahead
            expect 0 '^[1-9][0-9]* compiled' env LIMBER_CACHE_DIR="$work/many" "$limber" prebuild "$work/$calls"
            expect 0 '^right$' $before LIMBER_CONTRACT=correct LIMBER_CACHE_DIR="$work/many" LIMBER_NO_COMPILE=1 \
                LIMBER_KERNELS=specialised $python "$here/control.py" $calls
        done
    done
    export LIMBER_BACKEND=interp
    expect 0 'not correct: the program.s BLAS computed .*LIMBER_NO_COMPILE.*LIMBER_QUIET=1' $before LIMBER_CONTRACT=correct \
        LIMBER_CACHE_DIR="$work/cold" LIMBER_NO_COMPILE=1 $python "$here/control.py" calls
    lines $((3 + BEGAN)) 'liblimber_blas: not correct'     # one a routine
    expect 0 '^right$' $before LIMBER_CONTRACT=correct LIMBER_BACKGROUND=1 $python "$here/control.py" served
    expect 0 '^right$' env -u LIMBER_BACKEND LD_PRELOAD="$library" LIMBER_CONTRACT=correct LIMBER_BACKGROUND=1 \
        LIMBER_CACHE_DIR="$work/behind" $python "$here/control.py" served
else
    echo "numpy is absent: skipped"
fi
finish
