#!/bin/sh
# Runs the command line on valid and on malicious files: tests results, messages, exit codes, and
# that no files are left or overwritten.
limber=$1
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2

# ---- good files ----
printf '%%%%MatrixMarket matrix array real general\n2 2\n1\n3\n2\n4\n' > a.mtx
printf '%%%%MatrixMarket matrix coordinate real symmetric\n%% a comment\n2 2 2\n1 1 1.5\n2 1 -2\n' > s.mtx
printf '%%%%MatrixMarket matrix array integer general\n2 2\n1\n3\n2\n4\n' > i.mtx
expect 0 'native' "$limber" gemm a.mtx a.mtx -o c.mtx
expect 0 '^7$' cat c.mtx
expect 0 'error +0 ulp' "$limber" gemm a.mtx s.mtx --contract correct --check
expect 0 '"type":.*"f128"' "$limber" gemm a.mtx a.mtx --as f128 --json -o q.mtx
[ "${LIMBER_KERNELS:-}" = prebuilt ] && made=library || made='disk|compiled'
LIMBER_WAYS=-planless expect 0 "\"cache\":.*\"($made)\"" "$limber" gemm a.mtx a.mtx --json
expect 0 'i64' "$limber" gemm i.mtx i.mtx --contract exact --check
# (1 2; 3 4) squared is (7 10; 15 22)
expect 0 'mod=7' "$limber" gemm i.mtx i.mtx --contract mod=7 -o mod.csv
expect 0 '^0,3$' cat mod.csv
expect 0 'mod=7' "$limber" gemm i.mtx i.mtx --contract mod=7,symmetric -o mod.csv
expect 0 '^1,1$' cat mod.csv
for word in mod mod= mod=1 mod=9223372036854775808 mod=-3 mod=7,both; do
    expect 2 "\"$word\" is none" "$limber" gemm i.mtx i.mtx --contract "$word"
done
expect 2 '"mod=7" is none' "$limber" explore i.mtx i.mtx --contracts mod=7,native
expect 2 'check compares' "$limber" gemm i.mtx i.mtx --contract mod=7 --check
expect 1 'only limber_gemm' "$limber" plan gemm i.mtx i.mtx --contract mod=7
printf '1,2\n3,4\n' > f.csv
expect 0 'correct,round=up' "$limber" gemm f.csv f.csv --contract correct,round=up -o up.csv
expect 0 '^7,10$' cat up.csv
expect 0 'rounded once: up' "$limber" plan gemm f.csv f.csv --contract correct,round=down
for word in correct,round correct,round= correct,round=odd native,round=up; do
    expect 2 "\"$word\" is none" "$limber" gemm i.mtx i.mtx --contract "$word"
done
expect 2 'check compares' "$limber" gemm i.mtx i.mtx --contract correct,round=zero --check
expect 0 'error +0 ulp' "$limber" gemm a.mtx a.mtx --alpha 2 --beta 0.5 --c a.mtx --contract correct --check
expect 0 'error +0 ulp' "$limber" gemm a.mtx s.mtx --trans-a --trans-b --contract correct --check
expect 0 'interp' "$limber" gemm a.mtx a.mtx --backend interp
# int4 as ml_dtypes writes it: (1 -8; 7 -1), of which the upper four bits are not read
printf '\223NUMPY\001\000\166\000%-117s\n\001\370\367\377' "{'descr': '<V1', 'fortran_order': False, 'shape': (2, 2), }" > i4.npy
expect 0 'i64' "$limber" gemm i4.npy i.mtx --format-a INT4 -o i4.csv
expect 0 '^-23,-30 4,10 $' sh -c 'tr "\n" " " < i4.csv'
expect 1 'i4.npy: the file does not name the type of its elements; gemm and conv take --format-a' "$limber" gemm i4.npy i.mtx
expect 1 'format-a, -b: bf16 has 2 bytes, elements of i4.npy have 1' "$limber" gemm i4.npy i.mtx --format-a bf16
expect 1 'format-a, -b: no format is called "int5".*near: int8, int4' "$limber" gemm i4.npy i.mtx --format-a int5
# epilogues: (1 2; 3 4)^2 = (7 10; 15 22); inputs per column, per row, per element, and a scalar
printf '1,-30\n' > column.csv
printf '1\n-30\n' > row.csv
printf '10\n' > all.csv
printf '1,2,3\n' > three.csv
steps='%1 = add %x %b
%2 = relu %1'
expect 0 '^epilogue  %1 = add %x %b$' "$limber" gemm a.mtx a.mtx --epilogue "$steps" --input b=column.csv -o e.csv
expect 0 '^8,0 16,0 $' sh -c 'tr "\n" " " < e.csv'
printf '%s' "$steps" > steps.txt
expect 0 '^          %2 = relu %1$' "$limber" gemm a.mtx a.mtx --epilogue @steps.txt --input b=row.csv -o e.csv
expect 0 '^8,11 0,0 $' sh -c 'tr "\n" " " < e.csv'
expect 0 '' "$limber" gemm a.mtx a.mtx --epilogue '%1 = sub %x %y
%2 = div %1 %z' --input y=a.mtx --input z=all.csv --contract correct -o e.csv
expect 0 '^0.6,0.8 1.2,1.8 $' sh -c 'tr "\n" " " < e.csv'
: > empty.txt
expect 1 'empty.txt: names no product' "$limber" prebuild empty.txt
expect 2 'tune takes options alone, no "x"' "$limber" tune x
expect 2 'demo takes nothing, no "x"' "$limber" demo x
expect 2 'it is called prebuild now' "$limber" warm
expect 1 'nan_to_zero' "$limber" gemm a.mtx a.mtx --epilogue '%1 = relu %x' --as e2m1 -o e.mtx
expect 0 '' "$limber" gemm a.mtx a.mtx --epilogue '%1 = relu %x' --as e2m1 --nan-to-zero -o e.mtx
expect 1 'nan-to-zero needs --epilogue' "$limber" gemm a.mtx a.mtx --nan-to-zero -o e.npy
expect 0 '^epilogue  %1 = relu %x$' "$limber" plan gemm a.mtx a.mtx --epilogue '%1 = relu %x'
expect 0 'epilogue {' "$limber" plan gemm a.mtx a.mtx --epilogue "$steps" --input b=row.csv --ir
expect 0 '"epilogue":.*relu' "$limber" gemm a.mtx a.mtx --epilogue "$steps" --input b=row.csv --json
expect 1 "epilogue: steps: line 1, column 6: 'gelo' is neither" "$limber" gemm a.mtx a.mtx --epilogue '%1 = gelo %x'
expect 1 'three.csv: an input has one number, one of each column' "$limber" gemm a.mtx a.mtx --epilogue "$steps" --input b=three.csv
expect 1 '"b" is not NAME=FILE' "$limber" gemm a.mtx a.mtx --epilogue "$steps" --input b
expect 1 'input needs --epilogue' "$limber" gemm a.mtx a.mtx --input b=row.csv
expect 1 'check compares products' "$limber" gemm a.mtx a.mtx --epilogue "$steps" --input b=row.csv --check
expect 1 'nothere.txt' "$limber" gemm a.mtx a.mtx --epilogue @nothere.txt
expect 0 'ozaki1-i8' "$limber" gemm a.mtx a.mtx --contract correct --scheme ozaki1-i8
expect 2 '^limber: --scheme: no scheme is called "ozaki1-i9"; near: ozaki1-i8' "$limber" gemm a.mtx a.mtx --scheme ozaki1-i9
expect 2 "simulate: 'h100-bf61' is neither a preset nor key=value; near: h100-bf16" \
    "$limber" gemm a.mtx a.mtx --contract 'simulate=h100-bf61 group=4'
expect 1 'h100-bf61.*; near: h100-bf16' "$limber" units h100-bf61
expect 2 'is none of .*; near: correct' "$limber" gemm a.mtx a.mtx --contract corect
expect 1 'no format is called "bf61".*; near: bf16' "$limber" gemm a.mtx a.mtx --as bf61
expect 0 'products' "$limber" gemm a.mtx a.mtx --scheme ozaki1-f16 --slices 3
expect 1 'split=inside' "$limber" gemm a.mtx a.mtx --scheme native --split inside
expect 2 'neither ahead' "$limber" gemm a.mtx a.mtx --split beside
expect 0 '^order +1$' "$limber" gemm a.mtx s.mtx --contract reproducible --check
expect 0 '"contract":.*"reproducible".*"order":.*1' sh -c '"$@" | tr -d "\n"' run "$limber" gemm a.mtx s.mtx --contract reproducible --json
expect 0 'promise=reproducible wanted=native' "$limber" plan gemm a.mtx s.mtx --contract reproducible --ir
expect 1 "a: i64 has no reproducible sums: native ones of integers" "$limber" gemm i.mtx i.mtx --contract reproducible
expect 0 'ret %' "$limber" plan gemm a.mtx a.mtx --contract correct --ir
expect 0 'refused' "$limber" plan gemm a.mtx a.mtx --contract correct --ir
# a plan is printed as plain text; the IR only on request
LIMBER_WAYS=-planless
export LIMBER_WAYS
expect 1 '^$' sh -c '"$1" plan gemm a.mtx a.mtx --contract correct | grep "^ *%[^ ]* = "' run "$limber"
expect 0 '^scheme    [a-z0-9-]+: [a-z]' "$limber" plan gemm a.mtx a.mtx --contract correct --backend llvm
expect 0 '^why       predicted the fastest of [0-9]+ that keep the contract; [a-z0-9-]+ takes [0-9.e-]+ x as long' "$limber" plan gemm a.mtx a.mtx --contract correct
expect 0 '^          not native: its bound [0-9.e-]+ .A..B. exceeds what the contract allows \(0\)$' "$limber" plan gemm a.mtx a.mtx --contract correct
expect 0 '^why       --scheme names it$' "$limber" plan gemm a.mtx a.mtx --contract correct --scheme ozaki2
expect 0 '^products  1 limb product$' "$limber" plan gemm a.mtx a.mtx
expect 0 '^accuracy  bits=40: at most 2\^-N .* off' "$limber" plan gemm a.mtx a.mtx --contract bits=40
expect 0 '^          bound exact before the one rounding$' "$limber" plan gemm a.mtx a.mtx --contract correct
expect 0 '^seconds   [0-9.e-]+ predicted, [0-9.e-]+ x native \([0-9.e-]+\)$' "$limber" plan gemm a.mtx a.mtx --contract correct
expect 0 '^seconds   [0-9.e-]+ predicted, as native$' "$limber" plan gemm a.mtx a.mtx
expect 0 '^memory    [0-9.]+ MB of workspace' "$limber" plan gemm a.mtx a.mtx --contract correct
expect 0 '^memory    none beside' "$limber" plan gemm a.mtx a.mtx --backend interp
expect 0 '"schemes":.*"name":.*"native".*"keeps":.*false.*"why_not":.*"plan":.*ret %' \
    sh -c '"$1" plan gemm a.mtx a.mtx --contract correct --json | tr -d "\n"' run "$limber"
expect 0 '"seconds_predicted_native":.*[0-9]' "$limber" plan gemm a.mtx a.mtx --json
expect 0 '"workspace_best":' "$limber" plan gemm a.mtx a.mtx --json
LIMBER_WAYS= expect 0 'so small that it needs no plan' "$limber" plan gemm a.mtx a.mtx --contract correct
# the source of kernels, also for machines that are not here
expect 0 '#include "args.h"' "$limber" plan gemm a.mtx a.mtx --contract correct --scheme ozaki2 --source --target sm_90a
expect 1 'target: ' "$limber" plan gemm a.mtx a.mtx --contract correct --scheme ozaki2 --source --target sm_9
# a refusal names the call's k beside the largest of the plan's class
expect 1 ': k = 2: scheme native: its bound [0-9.e-]+ .A..B. exceeds what the contract allows \([0-9.e-]+\) at k = 4096, and one plan serves all k up to 4096$' "$limber" gemm a.mtx a.mtx --contract bits=50 --scheme native
# a dumped plan computes what the call did; a plan without a row writes no file
expect 0 "^bound " env LIMBER_DUMP=dumped "$limber" gemm a.mtx a.mtx --contract fast --scheme ozaki1-i8 --slices 2 -o made.mtx
# the IR of a compiled kernel begins with its constants, by name
if ls dumped/*/kernel.ll > /dev/null 2>&1; then
    expect 0 '^;    \.unit = UNIT_i8, /\* 4: ' cat dumped/*/kernel.ll
fi
cp dumped/*/*-bound.lir bound.lir
expect 0 '^products ' "$limber" execute bound.lir a.mtx a.mtx -o again.mtx
expect 0 same sh -c 'cmp made.mtx again.mtx && echo same'
expect 0 '"scheme":.*ozaki1-i8' "$limber" execute bound.lir a.mtx a.mtx --json --backend interp
grep -v 'acc=0 ' bound.lir > less.lir
expect 0 '^epilogue  %1 = neg %x$' "$limber" execute bound.lir a.mtx a.mtx --epilogue '%1 = neg %x' -o neg.csv
expect 0 '^-7,-10 -15,-22 $' sh -c 'tr "\n" " " < neg.csv'
expect 1 'without the row %' "$limber" execute less.lir a.mtx a.mtx -o none.mtx
expect 2 . ls none.mtx
expect 2 'a plan and two files, 1 given' "$limber" execute bound.lir
expect 0 'limber execute dump' "$limber" execute --help
expect 0 'compute|plan' "$limber" help execute
expect 0 'docs/ir.md' "$limber" help lir
expect 0 'LIMBER_DUMP' "$limber" help dump
unset LIMBER_WAYS
expect 0 'f128' "$limber" formats
expect 0 '^f64 .* double' "$limber" formats
expect 0 '^e4m3: 1 sign' "$limber" formats float8_e4m3fn
expect 0 '"name":.*"f16"' "$limber" formats half --json
expect 0 'result +2 x 2, inner 2 of f128' "$limber" gemm a.mtx a.mtx --as quad
expect 0 'result +2 x 2, inner 2 of f32' "$limber" gemm a.mtx a.mtx --as float32
expect 0 '^gelu  *1  *0.000384' "$limber" operators --format bfloat16
expect 0 '^f16 +rn' env LIMBER_BACKEND=interp "$limber" explore a.mtx a.mtx --formats half
expect 1 "no format is called .int3." "$limber" gemm a.mtx a.mtx --as int3
expect 0 'significant_bits' "$limber" formats --json
expect 0 'kernels' "$limber" cache info
expect 0 '  -  ' "$limber" cache list
expect 0 'good' "$limber" cache verify

# without libLLVM the interpreter replaces specialised kernels, with one message, unless the user
# has requested the interpreter
none="LIMBER_CACHE=off LIMBER_KERNELS=specialised LIMBER_LLVM=$work/none"
expect 0 'contract' env $none "$limber" gemm a.mtx a.mtx --contract correct --scheme ozaki2 -o b.mtx
expect 0 '^1$' sh -c 'printf "%s" "$0" | grep -c "limber: the interpreter computed, .*LIMBER_LLVM: "' "$out"
expect 0 '^limber: the interpreter' sh -c '"$@" > /dev/null' run env $none "$limber" gemm a.mtx a.mtx --contract correct --scheme ozaki2
expect 0 '^$' sh -c '"$@" > /dev/null' run env $none "$limber" gemm a.mtx a.mtx --contract correct --scheme ozaki2 --backend interp
expect 0 '^$' sh -c '"$@" > /dev/null' run env $none "$limber" cache info

# kernels compiled ahead
printf '300 300 300 d native\n\n64 64 64 z bits=40 alpha beta # a comment\n' > shapes
expect 0 '2 compiled, 0 there' env LIMBER_CACHE_DIR="$work/warm" "$limber" prebuild shapes
expect 0 '0 compiled, 2 there' env LIMBER_CACHE_DIR="$work/warm" "$limber" prebuild shapes
expect 0 '"compiled":.*false' env LIMBER_CACHE_DIR="$work/warm" "$limber" prebuild shapes --json
expect 1 '2 kernels are not made: no compiler' env LIMBER_LLVM=$work/none LIMBER_CACHE_DIR="$work/kept" "$limber" prebuild shapes
expect 1 '"made":.*false' env LIMBER_LLVM=$work/none LIMBER_CACHE_DIR="$work/kept" "$limber" prebuild shapes --json
echo '3 3 d native' > shapes
expect 1 'shapes:1: a line is M N K' "$limber" prebuild shapes
echo '3 3 3 q native' > shapes
expect 1 '"q" is no format' "$limber" prebuild shapes
echo '{ "calls": [] }' > shapes
expect 1 'no list of kernels' "$limber" prebuild shapes
expect 1 'cache to fill: LIMBER_CACHE is off' env LIMBER_CACHE=off "$limber" prebuild shapes
expect 2 'none of normal' "$limber" prebuild shapes --data odd

# tuning: if there is a compiler, a moment suffices for a record
if "$limber" tune --seconds 0.01 2>&1 | grep -q 'nothing to tune'; then
    echo "no backend to tune: skipped"
else
    expect 0 'measured' "$limber" tune --seconds 0.01
    expect 0 'tuning record' "$limber" cache list
    expect 0 '^\[' "$limber" tune --seconds 0.01 --json
    expect 0 '"tuned":.*true' "$limber" cache info --json
    expect 0 'tuned +yes' "$limber" cache info
    expect 0 'measured' "$limber" tune --seconds 1 --unit i8
    expect 1 'not written' env LIMBER_CACHE=ro "$limber" tune --seconds 0.01
fi
expect 2 'is negative' "$limber" tune --seconds -1
expect 2 '"f65" is none of' "$limber" tune --unit f64,f65

# small files that claim a huge size are refused at once, with the size and the limit
printf '%%%%MatrixMarket matrix coordinate real general\n1000000 1000000 1\n1 1 1\n' > big.mtx
printf '%%%%MatrixMarket matrix coordinate real general\n1099511627776 1099511627776 1\n1 1 1\n' > huge.mtx
printf '%%%%MatrixMarket matrix array real symmetric\n1099511627776 1099511627776\n1\n' > lies.mtx
printf '%%%%MatrixMarket matrix array real general\n1099511627776 1099511627776\n1\n' > all.mtx
printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (900000000000,), }" > big.npy
printf '\000\000\010\002\000\001\000\000\000\001\000\000' > big.idx
for f in big.mtx huge.mtx lies.mtx all.mtx big.npy big.idx; do
    expect 1 'GB here|larger than memory|claimed' "$limber" gemm $f $f
done
printf '9223372036854775807 9223372036854775807 9223372036854775807 d native\n' > wide
printf '4611686018427387904 3 4611686018427387904 z native\n' > long
expect 1 'GB here|larger than memory' "$limber" prebuild wide
expect 1 'GB here|larger than memory' "$limber" prebuild long

# measuring: every row checks its result, missing libraries are named, no file remains
mkdir scratch
expect 0 'later call +256 +memory.*3x3, 128, INT8, later call +28 +memory' sh -c 'TMPDIR=$1/scratch "$2" bench --rows latency --runs 1 | tr "\n" " "' sh "$work" "$limber"
expect 0 'absent' sh -c 'ls scratch | grep . || echo absent'
expect 0 'OpenBLAS' "$limber" bench --rows latency --runs 1
blas=$(dirname "$limber")/interpose/blas
# (sanitizers refuse that it serves callers of 32 and 64 bits by one function, and are slow)
if [ -e "$blas/liblimber_blas.so" ] && ! grep -q __ubsan_handle "$blas/liblimber_blas.so"; then
    expect 0 '^FP32, cblas_sgemm by Limber +512 +by BLAS .*x limber_gemm' env LD_LIBRARY_PATH="$blas" "$limber" bench --rows interposed --runs 1
fi
# a peer library that computes another result is named, and ends the run
if command -v cc > /dev/null; then
    cat > wrong.c <<'END'
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc)
{
    for (long i = 0; i < (long)m * n; i++)
        c[i] = 1;
}
void cblas_sgemm(void) {}
void openblas_set_num_threads(int threads) {}
END
    expect 0 '' cc -shared -fPIC -w -o libopenblas.so.0 wrong.c
    expect 1 'small FP64, limber_gemm, n = 8, OpenBLAS DGEMM: row 0, column 0 breaks its contract' env LD_LIBRARY_PATH="$work" "$limber" bench --rows small --runs 1
fi
# If a library cannot be opened, its name is printed, and the packages that contain it.
mkdir "$work/none"
for file in libmkl_rt.so.3 libmkl_rt.so.2 libmkl_rt.so; do echo none > "$work/none/$file"; done
expect 0 '^MKL: not found \(libmkl_rt.so.3 ' env LD_LIBRARY_PATH="$work/none" "$limber" bench --rows latency --runs 1
peers=$(dirname "$0")/../../tools/bench/peers.sh
expect 0 'peers.sh FOLDER' "$limber" bench --help
expect 0 'example: sh tools/bench/peers.sh' sh "$peers" --help
expect 0 'pip: mkl' sh "$peers" --dry-run "$work/peers"
expect 2 'usage: ' sh "$peers"
[ ! -e "$work/peers" ] || { echo "a dry run made a folder"; exit 1; }
expect 2 'no rows are called "all"' "$limber" bench --rows fp64,all
expect 2 '--threads takes numbers' "$limber" bench --threads 1,0
expect 2 '--kernels takes both' "$limber" bench --kernels fast
expect 2 '--cpu-time is of one thread' "$limber" bench --threads 2 --cpu-time
expect 2 '--runs takes a number' "$limber" bench --runs 0
expect 2 '--batch takes a number' "$limber" bench --batch 0
expect 2 'takes no files' "$limber" bench a.mtx

# elementwise functions: published figures, and refused arguments
expect 0 '^  largest  *65504  *0 11110 1111111111$' "$limber" formats f16
expect 0 '^  zero up to  *2.98023224e-08$' "$limber" formats f16
expect 0 '^  the guide on largest: 655 .table 1-2.$' "$limber" formats f16 bf16
expect 0 '^  largest  *448  *0 1111 110$' "$limber" formats --tables
expect 0 '^  largest  *1.1897315e.4932$' "$limber" formats f128
expect 0 '^  smallest normal  *3.36210314e-4932$' "$limber" formats f128
expect 0 '^  smallest  *6.47517512e-4966$' "$limber" formats f128
expect 0 '"largest":.*"1.1897315e.4932"' "$limber" formats f128 --json
expect 0 '1.7976931348623157e.308' "$limber" formats f64 --json
expect 0 '9007199254740992' "$limber" formats f64 --json
expect 0 '"name":	"e4m3"' "$limber" formats --tables --json
expect 2 "'f17' is no format: limber formats lists them" "$limber" formats f16 f17
expect 0 '^gelu  *1  *0.000384  *x times the normal distribution' "$limber" operators --format bf16
expect 0 '"largest_relative_error":' "$limber" operators --json
expect 0 '' sh -c '"$0" operators --tables > tables.txt && "$0" operators --tables --json > tables.json &&
    "$0" operators --format f32 > f32.txt' "$limber"
expect 0 '^  square  *16  *1  *0.378427 *0.0828689$' cat tables.txt
expect 0 '^  sin  *0.000244141  *0.000517378  *5.84978e-05  *0.000115849$' cat tables.txt
expect 0 '"published":.*.16, 0.33289' cat tables.json
expect 0 '^  softsign  *0.00070107  *0.000940487  *8.02933e-05  *0.000202588$' cat tables.txt
expect 0 '^  asin  *0.000486255  *0.000471674  *0.000100481  *0.000171306$' cat tables.txt
expect 0 '"evenly in .-1, 1.":' cat tables.json
expect 0 '^atan  *0\.[45]' cat f32.txt
lines_of_f32=$(printf '%s\n' "$out" | grep -cE '^[a-z0-9_]+ +0\.(0|[1-4]|500)')
expect 0 "^$((lines_of_f32 + 1))\$" sh -c 'wc -l < f32.txt'
expect 0 '"largest_ulps":' "$limber" operators --format float32 --json
expect 1 '[-][-]format f64: f16, bf16 or f32' "$limber" operators --format f64

# simulated units
expect 0 'unit +in=e5m2 mul=e5m2:rz acc=e5m2$' "$limber" gemm a.mtx a.mtx --contract 'simulate=in=e5m2 mul=e5m2:rz acc=e5m2' -o u.mtx
expect 0 '^7$' cat u.mtx
expect 0 'result.*f32' "$limber" gemm a.mtx a.mtx --contract simulate=h100-e4m3
expect 0 'result.*f64' "$limber" gemm a.mtx a.mtx --contract simulate=a100-fp64
expect 0 'error +0 ulp' "$limber" gemm a.mtx a.mtx --contract simulate=a100-bf16 --check --threads 2
expect 0 'model=in=f16' "$limber" plan gemm a.mtx a.mtx --contract simulate=a100-fp16 --ir
expect 0 '^accuracy  simulate: bit for bit' "$limber" plan gemm a.mtx a.mtx --contract simulate=a100-fp16
expect 0 'retention measured' "$limber" gemm a.mtx s.mtx --contract 'simulate=in=f16 acc=f16' --statistics
expect 0 'swamped +0 +0.0000%' "$limber" gemm a.mtx a.mtx --contract 'simulate=in=f16 acc=f16' --statistics
expect 0 '"nonzero":.*8' "$limber" gemm a.mtx a.mtx --contract 'simulate=in=f16 acc=f16' --statistics --json
expect 2 'is neither a preset' "$limber" gemm a.mtx a.mtx --contract simulate=z100
expect 2 'acc: the accumulator is missing' "$limber" gemm a.mtx a.mtx --contract simulate=in=f16
expect 2 '--statistics is for simulated units' "$limber" gemm a.mtx a.mtx --statistics
expect 0 'h100-e4m3' "$limber" units
expect 0 '"source":' "$limber" units --json
expect 0 '^in=e4m3 acc=.*group=128 outer=f32$' "$limber" units 'h100-e4m3 group=128 outer=f32'
expect 1 'frac: a fused block needs it' "$limber" units 'in=f16 acc=f32 block=4'
expect 2 'in quotes' "$limber" units in=f16 acc=f16
printf '# two layers\ntargetFloatType = (1,5,2)\nquantLayer = [conv1,FC1]\n[FC1]\nroundingType = truncate\n' > l.conf
expect 0 'unit +in=\(1,5,2\) mul=\(1,5,2\) acc=\(1,5,2\)$' "$limber" gemm a.mtx a.mtx --lpgemm l.conf --layer conv1
expect 0 'mul=\(1,5,2\):rz' "$limber" gemm a.mtx a.mtx --lpgemm l.conf --layer FC1 --statistics
expect 0 'FC2 is not quantised: native f32' "$limber" gemm a.mtx a.mtx --lpgemm l.conf --layer FC2
expect 0 '"quantised":.*false' "$limber" gemm a.mtx a.mtx --lpgemm l.conf --layer FC2 --json
expect 2 'needs --lpgemm' "$limber" gemm a.mtx a.mtx --layer FC1
expect 2 'neither --contract' "$limber" gemm a.mtx a.mtx --lpgemm l.conf --contract exact
expect 2 'none.conf: No such file' "$limber" gemm a.mtx a.mtx --lpgemm none.conf
printf 'targetFloatType = (1,5,2)\nroundingType = up\n' > bad.conf
expect 2 "bad.conf: line 2: roundingType: 'up' is none" "$limber" gemm a.mtx a.mtx --lpgemm bad.conf

expect 2 'operators takes options alone, no "extra"' "$limber" operators extra
expect 2 'no --format beside them' "$limber" operators --tables --format bf16
expect 0 'overflow beyond +1.79769313e\+308 \(2\^1024 - 2\^970\)' "$limber" formats f64
expect 0 'zero up to +2.47032823e-324' "$limber" formats f64
expect 0 '2\^12: 2\^5, ..., 2\^127: 2\^120' "$limber" formats bf16
expect 0 '^260$' sh -c "'$limber' formats --json bf16 | tr -d ' \t\n' | grep -o '\],\[' | wc -l | tr -d ' '"

# summation orders: of units, of Limber, of the installed BLAS
expect 0 '^unit   in=bf16 acc=f32:rz:inf block=16 frac=25 floor=-133$' "$limber" reveal --unit h100-bf16 --shape 2,3,40 --trials 2
expect 0 '^order  \[\{0..15\}, \{16..31\}, \{32..39\}\]$' "$limber" reveal --unit h100-bf16 --shape 2,3,40
expect 0 'predicts 12 of 12 results of random products, of element \(1, 2\) 2 of 2$' "$limber" reveal --unit h100-bf16 --shape 2,3,40 --at 1,2 --trials 2
expect 0 '^order  \[0..255, \[256..299\]\]$' "$limber" reveal --contract reproducible --format f32 --shape 3,2,300
expect 0 '"predicted_there":[^0-9]*3$' "$limber" reveal --contract reproducible --format f32 --shape 3,2,300 --trials 3 --json
expect 0 '^unit +in=f64 acc=f64 group=256 outer=f64$' "$limber" reveal --contract reproducible --shape 3,2,300
expect 0 '^unit   in=f16 acc=f16$' "$limber" reveal --unit 'in=f16 acc=f16' --shape 1,1,30 --trials 0
expect 0 'predicts 30 of 30 ' "$limber" reveal --unit 'in=bf16 acc=bf16:rz group=9 lanes=4 unroll=8 rest=after' --shape 2,3,40 --trials 5
expect 1 'sums are exact' "$limber" reveal --contract correct --shape 1,1,20
expect 1 'too narrow' "$limber" reveal --unit 'in=e2m1 acc=f32' --shape 1,1,30
expect 2 'one of --blas, --unit and --contract' "$limber" reveal --unit h100-bf16 --contract native
expect 2 '^limber: --shape: 3 whole numbers' "$limber" reveal --shape 3,4
expect 2 '^limber: --at: no element of 3 x 4' "$limber" reveal --shape 3,4,5 --at 3,0
expect 2 '^limber: --blas: .*nowhere' "$limber" reveal --blas ./nowhere.so
expect 2 'needs --blas' "$limber" reveal --routine sgemm
expect 2 '^limber: --unit: ' "$limber" reveal --unit h900
expect 2 'no "extra"' "$limber" reveal extra
# Tests each installed library; status 2 means that a library or routine is missing.  A description
# of one element must predict all its bits, and products of these shapes must have a description.
found=
for blas in libblas.so.3 libopenblas.so.0 libscipy_openblas.so libblis.so.4 libmkl_rt.so.3 \
    libmkl_rt.so.2 libdnnl.so.3 libdnnl.so.2; do
    for routine in sgemm dgemm dnnl_sgemm scipy_sgemm_ scipy_dgemm_; do
        for shape in 64,64,40 48,32,301 32,48,700; do
            OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 "$limber" reveal --blas $blas --routine $routine \
                --shape $shape --trials 2 > r.txt 2> r.err
            case $? in
            2) break ;;
            0) ;;
            *) cat r.err; echo "FAILED: reveal $blas $routine $shape"; failures=$((failures + 1)) ;;
            esac
            grep -q 'element (0, 0) 2 of 2$' r.txt || {
                echo "FAILED: no words predict $blas $routine $shape:"; cat r.txt
                failures=$((failures + 1)); }
            found="$found $blas:$routine:$shape"
        done
    done
done
echo "orders of sums:${found:- no BLAS is found}"

# exploring accumulators: once with kernels, then on the interpreter, because a grid has many units
LIMBER_BACKEND=interp
export LIMBER_BACKEND
expect 0 'smallest accumulator that keeps 0.1' "$limber" explore --random 24,20,96,7 --keep 0.1 --csv e.csv
expect 0 '^19$' sh -c 'wc -l < e.csv | tr -d " "'
expect 0 '^"in=f16 mul=f16 acc=f16 group=16 outer=f16","f16",rn,16,rounded,16,16,' cat e.csv
expect 0 'none of these keeps' env -u LIMBER_BACKEND "$limber" explore a.mtx s.mtx \
    --formats 'e2m1' --keep 1e-9
expect 0 '\(1,4,3\) +rs +4 exact +8' "$limber" explore a.mtx a.mtx --formats '(1,4,3),(1,6,9) bf16' --groups 0,4 --roundings rn,rs --mul rounded,exact --in e5m2
expect 0 '"frontier":.*true' "$limber" explore a.mtx a.mtx --json --keep 1
expect 0 'outer=f32' "$limber" explore a.mtx a.mtx --groups 4 --outer f32 --json
expect 2 'is no format' "$limber" explore a.mtx a.mtx --formats 'f16,f17'
expect 2 'is no length of a group' "$limber" explore a.mtx a.mtx --groups -3
expect 2 'neither exact nor rounded' "$limber" explore a.mtx a.mtx --mul both
expect 2 'must end in .svg or .png' "$limber" explore a.mtx a.mtx --plot e.jpg
expect 2 'must end in .svg' "$limber" plan gemm a.mtx a.mtx --svg e
expect 2 'rs16' "$limber" explore a.mtx a.mtx --roundings rs16
expect 2 'takes two files' "$limber" explore a.mtx
expect 1 '--random takes' "$limber" explore --random 4,4
expect 1 'No such file' "$limber" explore none.mtx a.mtx
expect 1 'gnuplot is not installed' env PATH=/nowhere "$limber" explore --random 4,4,64 --plot absent.svg
expect 0 'frontier' cat absent.svg.csv
expect 2 'absent' sh -c 'ls absent.svg || { echo absent; exit 2; }'
if command -v gnuplot > /dev/null; then
    expect 0 'frontier' "$limber" explore --random 4,4,64 --plot "it's|a plot.svg"
    expect 0 '</svg>' cat "it's|a plot.svg"
    # below 64 terms "no groups" and "group 64" coincide: the upper line is thinner
    expect 0 'frontier' "$limber" explore --random 4,4,30 --plot same.svg
    expect 0 '^7.00 4.50 2.00 $' awk -F '"' '
        /class="gridline"/ { next }
        /stroke-width="/ { for (i = 1; i < NF; i++) if ($i ~ /stroke-width=$/) width = $(i + 1) }
        /<path.*L.*L/ && width >= 2 { printf "%s ", width }' same.svg
    if echo 'set terminal pngcairo' | gnuplot > /dev/null 2>&1; then
        expect 0 'frontier' "$limber" explore --random 4,4,64 --plot e.png
        expect 0 'PNG.*IHDR' sh -c 'head -c 16 e.png | tr "\r\n\032" "   "'
    fi
    expect 1 '.' "$limber" explore --random 4,4,64 --plot nowhere/e.svg
    printf '#!/bin/sh\nexit 3\n' > scratch/gnuplot
    chmod +x scratch/gnuplot
    expect 1 'gnuplot failed' env PATH="$work/scratch" "$limber" explore --random 4,4,64 --plot e.svg
    expect 2 'absent' sh -c 'ls e.svg* 2> /dev/null || { echo absent; exit 2; }'
else
    echo "gnuplot is absent: plots are skipped"
fi
unset LIMBER_BACKEND

# statistics of data, and how the data is split into parts
awk 'BEGIN { print "%%MatrixMarket matrix array real general\n150 140"
    for (j = 0; j < 140; j++) for (i = 0; i < 150; i++)
        print (i < 64 ? 0 : i >= 128 && i < 130 ? (1 + j) * 2 ^ (i * j % 50) : i + j) }' > 'u<&.mtx'
printf '%%%%MatrixMarket matrix coordinate real general\n140 140 2\n1 1 nan\n140 140 1\n' > e.mtx
expect 0 '^   \.\.\.$' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b
expect 0 '^   !\.\.$' "$limber" plan gemm e.mtx e.mtx
expect 0 'A  u<&.mtx, 150 x 140 of f64: exponents 0 to ' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b
expect 0 'tiles of A, 64 rows by 256 along k' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native
expect 0 '^   1  a:n   a:n .* native ' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native
expect 0 'predicted  measured' "$limber" gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native
expect 0 'predicted  measured' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native --run
expect 0 '^error +[0-9.]+ ulp' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b --check
expect 0 '"groups":' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native --json
expect 0 '"seconds_predicted":' "$limber" gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native --json
expect 0 '"zero_tiles":' "$limber" plan gemm a.mtx a.mtx --json
expect 0 '"emax":.*2' "$limber" plan gemm a.mtx a.mtx --json
expect 0 '.' "$limber" plan gemm 'u<&.mtx' 'u<&.mtx' --trans-b --scheme native+native --svg h.svg
expect 0 '<title>u&lt;&amp;.mtx times u&lt;&amp;.mtx</title>' cat h.svg
expect 0 'native: [0-9.]+% of products' cat h.svg
expect 0 '</svg>' tail -n 1 h.svg
expect 0 '.' "$limber" plan gemm e.mtx e.mtx --svg n.svg
expect 0 'path fill="#e31a1c"' cat n.svg
# files that are not regular are written in place; links are followed, the umask applies
for name in n.mtx n.npy n.svg n.csv; do
    mkfifo "pipe.$name"
done
(umask 077 && expect 0 '.' "$limber" gemm a.mtx a.mtx -o shut.mtx && finish > /dev/null) || failures=$((failures + 1))
expect 0 '^-rw-------' ls -l shut.mtx
ln -s shut.mtx link.mtx
expect 0 '.' "$limber" gemm a.mtx a.mtx --alpha 0 -o link.mtx
expect 0 '^lrwx' ls -l link.mtx
expect 0 '^0$' cat shut.mtx
expect 0 '^7$' sh -c 'cat pipe.n.mtx & "$0" gemm a.mtx a.mtx -o pipe.n.mtx > /dev/null; wait' "$limber"
expect 0 'NUMPY' sh -c 'cat pipe.n.npy & "$0" gemm a.mtx a.mtx -o pipe.n.npy > /dev/null; wait' "$limber"
expect 0 '</svg>' sh -c 'cat pipe.n.svg & "$0" plan gemm a.mtx a.mtx --svg pipe.n.svg > /dev/null; wait' "$limber"
expect 0 '^4$' sh -c 'ls -l pipe.* | grep -c ^p'
expect 1 'nowhere/h.svg: ' "$limber" plan gemm a.mtx a.mtx --svg nowhere/h.svg
if [ -n "$LIMBER_DATA" ] && [ -f "$LIMBER_DATA/mtx/bp__1400.mtx" ]; then
    bp=$LIMBER_DATA/mtx/bp__1400.mtx
    expect 0 '822 x 822 of f64: exponents .*of tiles zero' "$limber" plan gemm "$bp" "$bp" --svg bp.svg
    expect 0 '</svg>' tail -n 1 bp.svg
else
    echo "LIMBER_DATA has no mtx/bp__1400.mtx: skipped"
fi

# binary128 is written with 36 digits and read back unchanged
printf '%%%%MatrixMarket matrix array real general\n1 1\n3.14159265358979323846264338327950288e+00\n' > pi.mtx
printf '%%%%MatrixMarket matrix array real general\n1 1\n1\n' > one.mtx
expect 0 'f128' "$limber" gemm pi.mtx one.mtx --as f128 --contract correct -o pi2.mtx
expect 0 '3\.14159265358979323846264338327950(279|280)' cat pi2.mtx
expect 0 'f128' "$limber" gemm pi2.mtx one.mtx --as f128 --contract correct -o pi3.mtx
expect 0 '' cmp pi2.mtx pi3.mtx

# NumPy writes, Limber reads and writes, NumPy compares
python=
for p in python3 /usr/bin/python3; do
    [ -z "$python" ] && $p -c 'import numpy' 2>/dev/null && python=$p
done
if [ -n "$python" ]; then
    $python - <<'END'
import numpy as np
r = np.random.default_rng(1)
for t in ['f2', 'f4', '>f8', 'i1', 'u1', '>i2', 'i4', 'i8', 'u2', '?']:
    a = (r.random((5, 7)) * 100).astype(t)
    np.save('a_%s.npy' % t.strip('>?') if t != '?' else 'a_bool.npy', a)
np.save('fortran.npy', np.asfortranarray(r.random((5, 7))))
np.save('right.npy', r.random((7, 3)))
np.save('mixed.npy', np.vstack([r.random((64, 300)), np.exp(12 * r.standard_normal((64, 300)))]).astype('f4'))
np.save('plain.npy', r.random((300, 64)).astype('f4'))
np.save('image.npy', r.random((2, 4, 6, 5)).astype('f4'))
np.save('filters.npy', r.random((6, 2, 3, 3)).astype('f4'))
np.save('signal.npy', r.random((2, 4, 9)).astype('f4'))
np.save('taps.npy', r.random((6, 2, 3)).astype('f4'))
np.save('volume.npy', r.random((2, 5, 7, 6, 4)).astype('f4'))
np.save('cubes.npy', r.random((6, 2, 3, 3, 2)).astype('f4'))
END
    for a in a_f2 a_f4 a_f8 a_i1 a_u1 a_i2 a_i4 a_i8 a_u2 a_bool fortran; do
        expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" gemm $a.npy right.npy --as f64 --contract correct --check -o out.npy
        expect 0 'close' $python -c "
import numpy as np
a = np.load('$a.npy').astype('f8'); b = np.load('right.npy')
print('close' if np.allclose(np.load('out.npy'), a @ b, rtol=1e-14) else 'off')"
    done
    # the source of each part of a mixed product
    expect 0 '^_f16 _f32 $' sh -c '"$@" --source | sed -n "s/.*\.unit = UNIT\(_[a-z0-9]*\),.*/\1/p" | tr "\n" " "' run \
        "$limber" plan gemm mixed.npy plain.npy --scheme fp32-f+native --backend llvm
    expect 0 '^2$' sh -c '"$@" --source --target sm_90a | grep -c "^/\* ---- kernel of part [12] ---- \*/"' run \
        "$limber" plan gemm mixed.npy plain.npy --scheme fp32-f+native
    expect 1 ': %a spreads over [0-9]+, %b over [0-9]+ binades: scheme fp32-f: exponents of one line of %a spread over up to [0-9]+, at most 28 fit$' \
        "$limber" gemm mixed.npy plain.npy --contract fast --scheme fp32-f
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv image.npy filters.npy --groups 2 --pad 1 --stride 2,1 --contract correct --check
    expect 1 'groups' "$limber" conv image.npy filters.npy --groups 3
    expect 0 '^result    2 x 6 x 4 x 3 of f32$' "$limber" plan conv image.npy filters.npy --groups 2
    expect 0 '= image %' "$limber" plan conv image.npy filters.npy --groups 2 --ir
    expect 0 '"scheme":' "$limber" plan conv image.npy filters.npy --groups 2 --json
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv image.npy filters.npy --groups 2 --pad 1 --stride 2,1 --contract correct --check -o y.npy
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv y.npy filters.npy --groups 2 --pad 1 --stride 2,1 --contract correct --check --backward data
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv image.npy y.npy --groups 2 --pad 1 --stride 2,1 --contract correct --check --backward filter --size 3,3 -o dw.npy
    expect 0 'same shape' $python -c "
import numpy as np
print('same shape' if np.load('dw.npy').shape == np.load('filters.npy').shape else 'another')"
    set -- --groups 2 --contract correct --check --stride 2 --pad 1
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv signal.npy taps.npy "$@" -o wide.npy
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv wide.npy taps.npy "$@" --backward data
    expect 0 '6 x 2 x 3 of f32' "$limber" conv signal.npy wide.npy "$@" --backward filter
    set -- --groups 2 --contract correct --check --stride 1,2,1 --pad 1,0,1,1,2,0 --dilate 2,1,1 --layout nhwc
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv volume.npy cubes.npy "$@" -o wide.npy
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv wide.npy cubes.npy "$@" --backward data
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv volume.npy wide.npy "$@" --backward filter --size 2,3,3 -o dw.npy
    expect 0 'same shape' $python -c "
import numpy as np
print('same shape' if np.load('dw.npy').shape == np.load('cubes.npy').shape else 'another')"
    expect 1 'pad: expected 1 or 6' "$limber" conv volume.npy cubes.npy --groups 2 --layout nhwc --pad 1,2
    expect 1 'both as many' "$limber" conv volume.npy filters.npy
    expect 2 'backward' "$limber" conv image.npy filters.npy --groups 2 --backward both
    expect 1 'y.npy.*result has' "$limber" conv image.npy y.npy --groups 2 --backward filter --size 1
    # complex numbers, archives, CSV, pipes and images, read and written as by NumPy
    $python - <<'END'
import gzip, struct, numpy as np
r = np.random.default_rng(2)
z = (r.standard_normal((9, 7)) + 1j * r.standard_normal((9, 7)))
w = (r.standard_normal((7, 5)) + 1j * r.standard_normal((7, 5)))
np.save('z.npy', z); np.save('w.npy', w); np.save('w8.npy', w.astype('c8'))
np.save('zb.npy', z.astype('>c16')); np.save('zf.npy', np.asfortranarray(z))
np.savez('one.npz', z); np.savez_compressed('two.npz', left=z, right=w)
np.savetxt('x.csv', z.real, delimiter=',', header='a row a line')
open('y.csv', 'w').write('"one, two" three four five six\n' + '\n'.join(
    ' '.join(repr(float(v)) for v in row) for row in w.real) + '\n\n')
def mtx(name, kind, rows):
    open(name, 'w').write('%%MatrixMarket matrix ' + kind + '\n' + rows)
n = r.integers(-9, 9, (4, 4, 2)).astype(float)
h = np.tril(n[..., 0], -1) + 1j * np.tril(n[..., 1], -1)
for name, full in ('hermitian', h + h.conj().T + np.diag(range(4))), ('skew-symmetric', h - h.T), \
        ('symmetric', h + h.T + 2j * np.eye(4)):
    low = [(i, j) for j in range(4) for i in range(j, 4) if full[i, j]]
    mtx(name + '.mtx', f'coordinate complex {name}', f'4 4 {len(low)}\n' + ''.join(
        f'{i + 1} {j + 1} {full[i, j].real} {full[i, j].imag}\n' for i, j in low))
    np.save(name + '.npy', full)
mtx('dense.mtx', 'array complex general', '7 5\n' + ''.join(
    f'{float(v.real)!r} {float(v.imag)!r}\n' for v in w.T.ravel()))
images = r.integers(0, 255, (3, 8, 6)).astype('u1')
open('i.idx', 'wb').write(struct.pack('>BBBBIII', 0, 0, 8, 3, 3, 8, 6) + images.tobytes())
gzip.open('f.idx.gz', 'wb').write(struct.pack('>BBBBIII', 0, 0, 13, 3, 3, 8, 6) +
                                  images.astype('>f4').tobytes())
np.save('i.npy', images[:, None]); np.save('i2.npy', images.reshape(3, 48))
np.save('taps4.npy', r.standard_normal((2, 1, 3, 3)).astype('f4'))
END
    equal() {   # file, expression of NumPy
        expect 0 '^close$' $python -c "
import numpy as np
got, z, w = np.load('$1'), np.load('z.npy'), np.load('w.npy')
got = got['arr_0'] if hasattr(got, 'files') else got
want = $2
print('close' if got.shape == want.shape and got.dtype.kind == want.dtype.kind
      and np.allclose(got, want, rtol=0, atol=${3:-1e-13}) else (got, want))"
    }
    for right in w.npy dense.mtx two.npz:right; do
        for left in z.npy zb.npy zf.npy one.npz two.npz:left; do
            expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" gemm $left $right --contract correct --check -o out.npy
            equal out.npy 'z @ w'
        done
    done
    expect 0 'of complex f32' "$limber" gemm z.npy w8.npy --as f32 -o out.npy
    equal out.npy 'z @ w' 1e-5
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" gemm z.npy z.npy --trans-b --conj-b --contract correct --check -o out.npz
    equal out.npz 'z @ z.conj().T'
    expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" gemm z.npy z.npy --trans-a --conj-a --contract correct --check -o out.npy
    equal out.npy 'z.conj().T @ z'
    expect 0 '"complex":.*true' "$limber" gemm z.npy w.npy --alpha 2 --json --check -o out.npy
    equal out.npy '2 * z @ w'
    expect 0 'complex' "$limber" gemm z.npy w.npy --alpha 2,-0.5 --beta -1,3 --c out.npy -o scaled.npy
    equal scaled.npy '(2 - 0.5j) * (z @ w) + (-1 + 3j) * 2 * (z @ w)' 1e-12
    expect 1 'check takes a real one' "$limber" gemm z.npy w.npy --alpha 2,1 --check
    expect 1 'alpha: .2,x. is no number' "$limber" gemm z.npy w.npy --alpha 2,x
    expect 1 'out.npy: is complex' "$limber" gemm x.csv y.csv --c out.npy
    for name in hermitian skew-symmetric symmetric; do
        expect 0 'complex f64' "$limber" gemm $name.mtx $name.npy -o out.mtx
        expect 0 'complex f64' "$limber" gemm out.mtx $name.mtx -o out.npy
        equal out.npy "np.linalg.matrix_power(np.load('$name.npy'), 3)" 0
    done
    expect 0 'of f64' "$limber" gemm x.csv y.csv --contract correct --check -o out.csv
    equal z.npy 'z'
    expect 0 '^close$' $python -c "
import numpy as np
z, w = np.load('z.npy').real, np.load('w.npy').real
print('close' if np.allclose(np.loadtxt('out.csv', delimiter=','), z @ w, atol=1e-13) else 'off')"
    expect 0 'complex f64' sh -c 'cat z.npy | "$0" gemm - w.npy -o out.npy' "$limber"
    equal out.npy 'z @ w'
    expect 0 '^$' sh -c '"$0" gemm z.npy - -o - < w.npy 2> told > out.npy' "$limber"
    equal out.npy 'z @ w'
    expect 0 'complex f64' cat told
    expect 0 '^2,4$' sh -c 'printf "1 0\n0 1\n" | "$0" gemm - a.mtx --alpha 2 -o csv:- 2> told' "$limber"
    expect 0 '^%%MatrixMarket matrix array real general' sh -c '"$0" gemm a.mtx a.mtx -o mtx:- 2> told' "$limber"
    expect 1 'one file, not two' sh -c '"$0" gemm - - < z.npy' "$limber"
    expect 1 'holds 2 arrays; say one as FILE.npz:NAME, of left, right' "$limber" gemm two.npz w.npy
    expect 1 'no array is called "up"; there are left, right' "$limber" gemm two.npz:up w.npy
    expect 1 'convolutions are of real' "$limber" conv z.npy w.npy
    expect 1 'explore takes real' "$limber" explore z.npy w.npy
    expect 1 'serves real matrices' "$limber" plan gemm z.npy w.npy
    head -c 700 two.npz > short.npz
    expect 1 'no whole .npz' "$limber" gemm short.npz w.npy
    $python -c "
b = bytearray(open('one.npz', 'rb').read()); b[300] ^= 1; open('bent.npz', 'wb').write(b)"
    expect 1 'arr_0: the archive is damaged' "$limber" gemm bent.npz w.npy
    printf '1,2\n3\n' > odd.csv
    expect 1 'odd.csv: line 2: fewer than the 2 fields' "$limber" gemm odd.csv a.mtx
    printf 'a,b\n1,"2"\n' > odd.csv
    expect 1 'odd.csv: line 2, field 2: ""2"" is text' "$limber" gemm odd.csv a.mtx
    printf '1,2\n3,x\n' > odd.csv
    expect 1 'odd.csv: line 2, field 2: "x" is no number' "$limber" gemm odd.csv a.mtx
    printf 'a,b\n' > odd.csv
    expect 1 'odd.csv: no numbers' "$limber" gemm odd.csv a.mtx
    for layout in nchw nhwc; do
        $python -c "
import numpy as np
x, w = np.load('i.npy'), np.load('taps4.npy')
axes = (0, 2, 3, 1) if '$layout' == 'nhwc' else (0, 1, 2, 3)
np.save('ia.npy', x.transpose(axes)); np.save('wa.npy', w.transpose(axes))"
        expect 0 'of f32' "$limber" conv ia.npy wa.npy --layout $layout --pad 1 --contract correct -o want.npy
        for images in i.idx f.idx.gz; do
            expect 0 'error +0(\.[0-4][0-9]*)? ulp' "$limber" conv $images wa.npy --layout $layout --pad 1 --contract correct --check -o out.npy
            equal out.npy "np.load('want.npy')" 0
        done
    done
    expect 0 '3 x 3, inner 48' "$limber" gemm i.idx i2.npy --trans-b -o out.npy
    equal out.npy "np.load('i2.npy').astype(int) @ np.load('i2.npy').astype(int).T" 0
    if [ -f "${LIMBER_DATA:-}/mnist/t10k-images-idx3-ubyte.gz" ]; then
        expect 0 '^result    10000 x 2 x 13 x 13 of f32' "$limber" conv "$LIMBER_DATA/mnist/t10k-images-idx3-ubyte.gz" taps4.npy --stride 2
    fi
    expect 0 'unit +in=f16' "$limber" conv image.npy filters.npy --groups 2 --contract simulate=h100-fp16 --statistics
    expect 0 'inner 18; operands in e5m2' env LIMBER_BACKEND=interp "$limber" explore --conv image.npy filters.npy --conv-groups 2 --pad 1 --in e5m2
    expect 2 'stride' "$limber" explore --conv image.npy filters.npy --conv-groups 2 --stride x
else
    echo "numpy is absent: its files are skipped"
fi

# ---- bad input ----
expect 1 'No such file' "$limber" gemm none.mtx a.mtx
expect 2 'takes two files' "$limber" gemm a.mtx
expect 2 'unknown option' "$limber" gemm a.mtx a.mtx --nonsense
expect 1 'inner dimensions differ' "$limber" gemm pi.mtx a.mtx
expect 2 'contract' "$limber" gemm a.mtx a.mtx --contract bits=0
expect 1 'no format' "$limber" gemm a.mtx a.mtx --as f7
expect 2 'scheme' "$limber" gemm a.mtx a.mtx --scheme nothing
expect 1 'backend' "$limber" gemm a.mtx a.mtx --backend gpu9
expect 1 'alpha' "$limber" gemm a.mtx a.mtx --alpha x
expect 1 'alpha: "2,-1" is complex, and the result is real' "$limber" gemm a.mtx a.mtx --alpha 2,-1
expect 0 '^seconds   not predicted' "$limber" plan gemm a.mtx a.mtx --contract correct --svg small.svg
expect 1 '' grep -q predicted small.svg
expect 2 'no command' "$limber" dance
printf '\223NUMPY' > t.npy
expect 1 'cut short' "$limber" gemm t.npy a.mtx
printf "\\223NUMPY\\001\\000\\166\\000{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999), }                                           \\n" > h.npy
expect 1 'h.npy: ' "$limber" gemm h.npy a.mtx
printf 'PK\003\004 what is this' > x.npy
expect 1 'no whole .npz' "$limber" gemm x.npy a.mtx
printf 'what is this' > x.npy
expect 1 'none of .npy, .npz, Matrix Market, IDX and CSV' "$limber" gemm x.npy a.mtx
printf '%%%%MatrixMarket matrix array real general\n2 2\n1\n2\n' > short.mtx
expect 1 'ends too early|can hold' "$limber" gemm short.mtx a.mtx
printf '%%%%MatrixMarket matrix array real general\n2 2\n1\n2\nx\n4\n' > word.mtx
expect 1 'line 5.*expected a number' "$limber" gemm word.mtx a.mtx

# Commands that only look change neither the result nor the kernels on disk.
mkdir plain seen
for contract in native bits=40 correct; do
    LIMBER_WAYS=-planless LIMBER_CACHE_DIR=$PWD/plain "$limber" gemm a.mtx s.mtx --contract $contract -o plain.mtx > out 2>&1
    LIMBER_WAYS=-planless LIMBER_CACHE_DIR=$PWD/seen LIMBER_DUMP=$PWD/dumps LIMBER_VERBOSE=9 "$limber" gemm a.mtx s.mtx \
        --contract $contract --check --json -o seen.mtx > out 2>&1
    LIMBER_WAYS=-planless LIMBER_CACHE_DIR=$PWD/seen "$limber" gemm a.mtx s.mtx --contract $contract -o after.mtx > out 2>&1
    expect 0 '' cmp plain.mtx seen.mtx
    expect 0 '' cmp plain.mtx after.mtx
done
expect 0 '' diff -r -x lock plain seen
expect 0 '^; way=' sh -c 'cat dumps/*/way.txt'

# An integer keeps all digits: it is read exactly, or refused with file, line and value.
printf '%%%%MatrixMarket matrix array integer general\n1 1\n1\n' > unit.mtx
# Writes a matrix of one integer.
integer() {
    printf '%%%%MatrixMarket matrix array integer general\n1 1\n%s\n' "$1" > integer.mtx
}
for v in 9223372036854775807 -9223372036854775808 +5 -0; do
    integer $v
    expect 0 'i64' "$limber" gemm integer.mtx unit.mtx --contract exact -o back.mtx
    expect 0 "^$(printf %s $v | sed 's/^+//; s/^-0$/0/')\$" cat back.mtx
done
for v in 9223372036854775808 -9223372036854775809 18446744073709551616 99999999999999999999999; do
    integer $v
    expect 1 "integer.mtx: line 3: $v does not fit" "$limber" gemm integer.mtx unit.mtx
    expect 0 'f128' "$limber" gemm integer.mtx unit.mtx --as f128 --contract correct --json -o back.mtx
    expect 0 "^-?$(printf %s $v | tr -d - | cut -c1)[.]$(printf %s $v | tr -d - | cut -c2-)0*e" cat back.mtx
done
integer 20769187434139310514121985316880384     # 2^114
expect 0 'f128' "$limber" gemm integer.mtx unit.mtx --as f128 --contract correct --json -o back.mtx
expect 0 '2[.]0769187434139310514121985316880384' cat back.mtx
integer 10384593717069655257060992658440193     # 2^113 + 1
expect 1 'integer.mtx: line 3: 10384593717069655257060992658440193 has more bits' \
    "$limber" gemm integer.mtx unit.mtx --as f128
printf '%%%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 -9223372036854775808\n' > skew.mtx
expect 1 'skew.mtx: line 3: -9223372036854775808 has no negative' "$limber" gemm skew.mtx skew.mtx
expect 1 "is no number of the result.s format" "$limber" gemm i.mtx i.mtx --alpha 99999999999999999999
printf '%%%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 5\n' > outside.mtx
expect 1 'outside' "$limber" gemm outside.mtx a.mtx
printf '%%%%MatrixMarket matrix coordinate real general\n900000000 900000000 1\n1 1 5\n' > huge.mtx
expect 1 'huge.mtx' "$limber" gemm huge.mtx a.mtx
printf '%%%%MatrixMarket matrix array quaternion general\n1 1\n1 0\n' > other.mtx
expect 1 'real, complex, integer or pattern' "$limber" gemm other.mtx a.mtx
printf '%%%%MatrixMarket matrix array real hermitian\n1 1\n1\n' > other.mtx
expect 1 'a Hermitian matrix has complex' "$limber" gemm other.mtx a.mtx
printf '%%%%MatrixMarket matrix array real general\n1 1\nnan\n' > nan.mtx
expect 0 '.' "$limber" gemm nan.mtx one.mtx -o nan_out.mtx
expect 0 'nan' cat nan_out.mtx

# a failed write leaves the old file and no temporary file
cp a.mtx keep.mtx
expect 1 'no type for this format' "$limber" gemm a.mtx a.mtx --as f128 -o q.npy
expect 2 'must end in' "$limber" gemm a.mtx a.mtx -o keep.txt
expect 1 '.' "$limber" gemm a.mtx a.mtx -o nowhere/c.mtx
expect 1 'absent' sh -c 'ls q.npy* keep.mtx.* 2>/dev/null || { echo absent; exit 1; }'

expect 0 'writable +the folder is not there yet' env LIMBER_CACHE_DIR="$work/absent" "$limber" cache info
expect 1 'absent' sh -c 'ls absent 2> /dev/null || { echo absent; exit 1; }'
# damaged cache entries are found and compiled again
find "$LIMBER_CACHE_DIR" -type f -name '*.kernel' | head -n 1 | while read -r f; do
    printf 'overwritten' | dd of="$f" bs=1 seek=200 conv=notrunc 2>/dev/null
done
expect 1 'DAMAGED' "$limber" cache verify
expect 0 'removed' "$limber" cache clear --damaged
expect 0 '.' "$limber" cache verify
expect 0 'removed' "$limber" cache clear

finish
