#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How the command line describes itself: versions, help on words, completion in shells.
limber=$1 source=$2
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
unset LIMBER_LLVM LIMBER_CUDA LIMBER_BACKEND LIMBER_NO_COMPILE
version=$("$limber" --version | cut -d' ' -f2)

# ---- version ----
expect 0 "^limber +$version\$" "$limber" version
expect 0 "^library +$version\$" "$limber" version
expect 0 '^CPU +[^ ]' "$limber" version
expect 0 '^CUDA +not found: .*no-such-driver' env LIMBER_CUDA=./no-such-driver \
    "$limber" version
expect 0 '^LLVM +not found: ' env LIMBER_LLVM="$work/none" "$limber" version
expect 0 '"library":' "$limber" version --json
expect 0 '"found":.*false.*"version":.*null.*"why_not":.*"LIMBER_LLVM' sh -c \
    'LIMBER_LLVM=none "$1" version --json | tr -d "\n"' run "$limber"
if "$limber" version | grep -q '^LLVM *not found'; then
    echo "no libLLVM: its version is skipped"
else
    expect 0 '^LLVM +(19|2[0-2])\.[0-9.]+, /.*LLVM' "$limber" version
    expect 0 '^CPU .*, kernels for [a-z]' "$limber" version
fi
expect 2 'takes no words' "$limber" version 1
expect 1 '' test -e "$LIMBER_CACHE_DIR"

# ---- help ----
expect 0 '^  completion  ' "$limber" help
expect 0 'usage: limber COMMAND' "$limber" help
for c in $("$limber" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    expect 0 "^$c: a command" "$limber" help "$c"
    expect 0 'example:' "$limber" "$c" --help
done
expect 0 '^f16: a format' "$limber" help half
expect 0 '  Also read as fp32, float32, ' "$limber" help f32
expect 0 'Largest 1\.1897315e\+4932, 113 ' "$limber" help quad
expect 1 '' sh -c 'for f in $("$1" formats | sed -n "s/^\([a-z][a-z0-9]*\) .*/\1/p"); do
    "$1" help "$f"; done | grep "Largest inf"' run "$limber"
for word in dgemm trsm ztrsm getrf dtrtrs cgemm3m zunmqr gesv; do
    expect 0 "^$word: a routine" "$limber" help "$word"
done
expect 0 '^zher2k$' "$limber" help routines
for word in dgemm_ cblas_dgemm dgemm_64_ dgemm64_ scipy_dgemm_64_ scipy_cblas_dgemm64_ \
    CBLAS_DGEMM; do
    expect 0 '^dgemm: a routine' "$limber" help "$word"       # as programs call it
done
expect 0 'gpu.md$' "$limber" help cuda
for word in csv mtx longdouble update-alternatives fp8 fp4 convert \
        matmul einsum conv2d statistics sweep mx jax mkl openblas pip \
        conda docker windows arm; do
    expect 0 "^$word: a topic" "$limber" help "$word"
done
expect 0 '^\(1,4,3\): a format' "$limber" help '(1,4,3)'
expect 0 'rounded once' "$limber" help correct
expect 0 '^bits=\.\.\.: a contract' "$limber" help bits=40
expect 0 '^simulate=\.\.\.: a contract' "$limber" help simulate
expect 0 '^native: a scheme' "$limber" help native
expect 0 '^native: a contract' "$limber" help native
expect 0 'in=e4m3 acc=' "$limber" help h100-e4m3
expect 0 'Limber loads what it names' "$limber" help LIMBER_LLVM
expect 0 'set: 3\.$' env LIMBER_THREADS=3 "$limber" help LIMBER_THREADS
expect 0 '^reproducible$' "$limber" help contracts
expect 0 '^OMP_NUM_THREADS$' "$limber" help variables
expect 0 '^f32: a format' "$limber" help FP32
expect 0 '^ozaki2: a scheme' "$limber" help Ozaki2
expect 0 '^LIMBER_CACHE: a variable' "$limber" help limber_cache
expect 0 '^ozaki2: a scheme' "$limber" help ozaki
expect 2 'simulate=UNIT$' "$limber" gemm a.npy a.npy --contract bits=
expect 2 'nothing is called "corect"; near: correct' "$limber" help corect
expect 2 'near: LIMBER_LLVM' "$limber" help limbr_llvm
expect 2 'near: float32' "$limber" help flaot32
expect 2 '"xyzzyxyzzy"$' sh -c '"$1" help xyzzyxyzzy 2>&1 | head -n 1; exit 2' run "$limber"
expect 0 '^gelu: a function' "$limber" help gelu
expect 0 '^ozaki1-f64: a scheme' "$limber" help ozaki1
expect 0 '^h100-bf16: a unit' "$limber" help h100
expect 0 '^formats: a command' "$limber" help format
expect 0 '^correct$' "$limber" help contract
expect 0 '^ape-8: a figure' "$limber" help ape-8
expect 0 '^ladder: a figure' "$limber" help LADDER
expect 0 'More: limber reproduce lpgemm-table-4' "$limber" help lpgemm-table-4
"$limber" reproduce | sed -n 's/^  \([a-z0-9-]*\) .*/\1/p' > figures.txt
expect 0 '' [ "$(wc -l < figures.txt)" -gt 15 ]
while read -r name; do
    expect 0 "^$name: a figure" "$limber" help "$name"
done < figures.txt
expect 0 'Page: docs/contracts.md' "$limber" help correct
expect 0 'docs/contracts.md' "$limber" help contracts
expect 0 'prebuild' "$limber" help warm
expect 0 'python -m limber run' "$limber" help run
expect 0 '^numpy: a topic' "$limber" help NumPy
expect 0 '^llvm: a backend' "$limber" help LLVM
expect 2 'warm.*limber prebuild' "$limber" warm report
expect 2 'python -m limber run' "$limber" run script.py
expect 2 'one word' "$limber" help gemm conv
expect 2 'no command is called "gem"; near: gemm' "$limber" gem

# every page that help names exists, and every word is explained
{
    for kind in contracts schemes backends variables functions topics; do
        "$limber" help $kind | sed -n 's/^\([^ .]*\)\(\.\.\.\)*$/\1/p'
    done
    for kind in formats units; do
        "$limber" $kind --json | sed -n 's/.*"name":[^"]*"\(.*\)",/\1/p'
    done
    "$limber" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'
} > words
sort -u words > sorted
for word in gemm f16 native fp32-f h100-e4m3 cuda LIMBER_WAYS 'bits=' gelu numpy; do
    expect 0 '' grep -qxF -- "$word" words
done
# all words of the library's tables occur, as the other lists print them
expect 0 '^cast$' cat words
expect 0 '^$' sh -c '"$1" operators --json | sed -n "s/.*\"name\":[^\"]*\"\([a-z0-9_]*\)\".*/\1/p" |
    sort -u | comm -23 - "$2"' run "$limber" sorted
expect 0 '^$' sh -c 'sed -n "s/^    { \"\([A-Z_]*\)\",.*/\1/p" "$1/jit/runtime/environment.c" |
    sort -u | comm -23 - sorted' run "$source"
while read -r word; do
    "$limber" help "$word" || echo "  Page: none for $word"
done < words 2>&1 | sed -n 's/^  Page: //p' | sort -u > pages
expect 0 'docs/cli.md' cat pages
while read -r page; do
    expect 0 '' test -f "$source/$page"
done < pages

# ---- completion ----
expect 2 'none of bash, zsh, fish' "$limber" completion csh
expect 2 'takes bash' "$limber" completion
if command -v bash > /dev/null; then
    cat > try.bash << 'END'
source completion.bash
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
words=()
for word; do
    while [[ $word == *=* ]]; do    # as readline cuts
        words+=("${word%%=*}" =)
        word=${word#*=}
    done
    words+=("$word")
done
COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
_limber
printf '%s ' "${COMPREPLY[@]}"
END
    "$limber" completion bash > completion.bash
    touch A.npy
    expect 0 '^$' bash -n completion.bash
    expect 0 '^gemm $' bash try.bash limber ge
    expect 0 '^correct correct,round= $' bash try.bash limber gemm --contract cor
    expect 0 '^correct correct,round= $' bash try.bash limber gemm A.npy A.npy --contract=cor
    expect 0 '^f16 f32 f64 f128 $' bash try.bash limber conv --as f
    expect 0 '^ahead inside $' bash try.bash limber gemm --split ''
    expect 0 '^A.npy $' bash try.bash limber gemm A
    expect 0 '^A.npy $' bash try.bash limber gemm --contract correct A
    expect 0 '^gemm $' bash try.bash limber plan ge
    expect 0 '^--svg $' bash try.bash limber plan gemm --sv
    expect 0 '^--target $' bash try.bash limber plan x.lir --tar
    expect 0 '^info list verify clear $' bash try.bash limber cache ''
    expect 0 '^h100-e4m3 ' bash try.bash limber units h100-e4
    expect 0 '^LIMBER_LLVM $' bash try.bash limber help LIMBER_LL
    expect 0 '^bash zsh fish $' bash try.bash limber completion ''
    # each long option of each --help is offered as a completion
    for c in $("$limber" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
        "$limber" "$c" --help |
            sed -n 's/^   *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' | sort -u > shown
        bash try.bash limber "$c" -- | tr ' ' '\n' | sort -u > offered
        expect 0 '^$' sh -c 'comm -23 shown offered'
    done
else
    echo "bash is absent: its completion is skipped"
fi
if command -v fish > /dev/null; then
    "$limber" completion fish > completion.fish
    HOME=$work
    export HOME
    complete() {
        fish --no-config -c "source completion.fish; complete -C '$1'" | cut -f1 | tr '\n' ' '
    }
    expect 0 '^gemm $' complete 'limber ge'
    expect 0 '^correct correct,round= $' complete 'limber gemm --contract cor'
    expect 0 '^clear info list verify $' complete 'limber cache '
    expect 0 '^--svg $' complete 'limber plan gemm --sv'
else
    echo "fish is absent: its completion is skipped"
fi
if command -v zsh > /dev/null; then
    "$limber" completion zsh > _limber
    expect 0 '^$' zsh -n _limber
    # zsh runs in a terminal; a tab at the end of a line completes it
    cat > try.zsh << 'END'
zmodload zsh/zpty
zpty shell zsh -f -i
for line in 'PS1=' 'autoload -U compinit; compinit -u -D' "source $PWD/_limber" \
            "limber() { echo \"got: \$*\" }"; do
    zpty -w shell $line
done
zpty -w -n shell "limber ${1}"$'\t\n'
zpty -w shell 'echo done; exit'
while zpty -r shell out '*'$'\n'; do print -rn -- $out; done
END
    expect 0 'got: gemm' zsh try.zsh 'gem'
    expect 0 'got: gemm --contract=correct' zsh try.zsh 'gemm --contract=cor'
    expect 0 'got: plan gemm --svg' zsh try.zsh 'plan gemm --sv'
    expect 0 'got: cache verify' zsh try.zsh 'cache ver'
else
    echo "zsh is absent: its completion is skipped"
fi
finish
