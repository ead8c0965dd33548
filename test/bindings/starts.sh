#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Starts `python -m limber run` from an installation and from the sources.  It must run a program
# only if everything that the environment variables name is available, and otherwise print an error.
build=$1 sources=$2 library=$3
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
support=$(cd "$(dirname "$0")/../support" && pwd)
. "$support/expect.sh"
expect 0 '.*' cmake --install "$build" --prefix "$work/limber"
limber=$work/limber/bin/limber
export PYTHONPATH="$work/limber/share/limber/python"
run="python3 -m limber run --contract correct"
cd "$work" || exit 2
unset LIMBER_LLVM LIMBER_CUDA LIMBER_BACKEND LIMBER_KERNELS LIMBER_LIBRARY
echo 'print("ran")' > script.py
expect 0 '^ran$' $run script.py

# Options of the interpreter must also apply to the program, however they are written.
cat > options.py <<'END'
import sys
f = sys.flags
print(__debug__, f.optimize, f.dev_mode, f.utf8_mode, f.dont_write_bytecode, f.verbose, f.no_site,
      sys.warnoptions, sorted(k for k in sys._xoptions), sys.stdout.line_buffering or
      sys.stdout.write_through, sys.argv[1:])
END
cp options.py other.py
# Checks that a program prints the same with and without `python3 -m limber run`.
same() {    # arguments: options of the interpreter, and what it starts
    options=$1
    shift
    # shellcheck disable=SC2086
    wanted=$(python3 $options "$@" 2> plain)
    # shellcheck disable=SC2086
    expect 0 '^equal$' sh -c '[ "$1" = "$(shift; "$@" 2> log)" ] && echo equal || cat log' \
        sh "$wanted" python3 $options -m limber run --contract native "$@"
}
for options in '' -OO '-OBXdev' '-W error -B' '-Werror::DeprecationWarning -bb' '-Xutf8=1 -u' \
    '-uO -X frozen_modules=off' '--check-hash-based-pycs never -O'; do
    same "$options" options.py -O -m a
done
same '-O -X dev' -m other -X b
same '-O -X dev' -mother -c
same '-O -X dev' -c "$(cat options.py)" -m x
expect 0 '^False True$' python3 -OXdev -mlimber run --contract native -c \
    'import sys; print(__debug__, sys.flags.dev_mode)'

# Every variable that such a program reads must be tested.
"$limber" help variables |
    awk '/^[A-Z0-9_]+$/ { name = $1 } /Read by:.*(library|BLAS)/ { print name }' |
    grep '^LIMBER_' > all
# leaves out variables that only code for GPUs reads
grep -vE '^LIMBER_(CUDA|NVRTC|CUBLAS|CUBINS|KEEP_CUBINS)$' all > names
expect 0 '^LIMBER_CACHE$' cat names
expect 0 '^LIMBER_REPORT$' cat names
bad=/dev/null/none      # neither a valid word, nor a number, a file, or a folder that can be made
while read -r name; do
    case $name in
        LIMBER_CONTRACT) command="python3 -m limber run script.py" ;;
        *) command="$run script.py" ;;
    esac
    expect 2 "^liblimber_blas: .*$name.*/dev/null" env $name=$bad $command
    expect 0 '^script.py was not started$' printf '%s\n' "$out"
    expect 1 '^$' sh -c 'printf "%s\n" "$1" | grep -x ran' sh "$out"
done < names
expect 2 'LIMBER_BACKEND = "fpga"|fpga' env LIMBER_BACKEND=fpga $run script.py
expect 2 'LIMBER_BLAS = .* is no BLAS' env LIMBER_BLAS=libm.so.6 $run script.py
expect 2 'LIMBER_LLVM.*libm' env LIMBER_LLVM=libm.so.6 $run script.py
expect 2 'LIMBER_REPORT = "/" cannot be written: Is a dir' env LIMBER_REPORT=/ $run script.py
expect 2 'LIMBER_CACHE ' env LIMBER_CACHE=perhaps LIMBER_REPORT="$work/report" $run script.py
expect 1 '' test -e "$work/report"      # a program that was not started must leave no report
expect 0 '^ran$' env LIMBER_REPORT="$work/report" LIMBER_CAPTURE="$work/kept,1M" \
    LIMBER_DUMP="$work/dump" LIMBER_CACHE=off $run script.py
expect 0 'is no variable of Limber' env LIMBER_CONTRAKT=1 $run script.py

# ---- a library that LIMBER_LLVM names in vain must be reported to the user ----
none="LIMBER_LLVM=$work/none"
expect 0 'LLVM +not found: .*none' env $none "$limber" version
if python3 -c 'import numpy' 2> /dev/null; then
    echo 'import numpy; a = numpy.ones((60, 60)); a @ a' > product.py
    preload="env LD_PRELOAD=$(find "$work/limber" -name liblimber_blas.so)"
    expect 0 'LIMBER_LLVM = ".*none": No such file' $preload $none LIMBER_CONTRACT=correct \
        LIMBER_VERBOSE=1 python3 product.py
    expect 0 '^$' $preload $none LIMBER_CONTRACT=correct LIMBER_REPORT="$work/report" \
        python3 product.py
    expect 0 '"compiler": "LIMBER_LLVM = .*No such file' cat "$work/report"
    expect 0 'LIMBER_LLVM = ".*none": No such file' "$limber" report "$work/report"
fi

# ---- NumPy's own loops: in the program, in what it starts, and beside other sitecustomizes ----
. "$support/python.sh"
python=$(python_with numpy)
if [ -n "$python" ]; then
    start="$python -m limber run --contract correct"
    cat > loops.py <<'END'
import subprocess
import sys
import numpy
import limber.numpy
a, x, made = numpy.ones((80, 80), int), numpy.ones((9, 9), "g"), []
for product in (lambda: a @ a, lambda: numpy.dot(a, a), lambda: x @ x):
    before = limber.numpy.calls()[0]
    product()
    made.append(limber.numpy.calls()[0] - before)
print(limber.numpy.installed(), made, [path for path in sys.path if "_start" in path],
      getattr(sys.modules.get("sitecustomize"), "mine", "none"), flush=True)
if not sys.argv[1:]:
    subprocess.run([sys.executable, __file__, "child"], check=True)
END
    mkdir site
    echo 'mine = "its own"' > site/sitecustomize.py
    served='^True \[1, 0, 0\] \[\] '
    expect 0 "$served.*none$" $python -m limber run --contract native loops.py
    expect 0 '^2$' sh -c 'printf "%s\n" "$1" | grep -c "^True"' sh "$out"
    { echo 'import importlib.util as u; u.find_spec("numpy")'; cat loops.py; } > found.py
    expect 0 "$served.*none$" $python -m limber run --contract native found.py child
    expect 0 "$served.*its own$" env PYTHONPATH="$PYTHONPATH:$work/site" $start loops.py child
    expect 0 '^True \[1, 1, 0\] ' $start --numpy-dot loops.py child
    expect 0 '^True \[1, 0, 1\] ' $start --numpy-longdouble loops.py child
    expect 0 '^False \[0, 0, 0\] ' $start --no-numpy loops.py child
    torch=$(python_with torch,numpy ${LIMBER_TEST_TORCH:-})
    if [ -n "$torch" ]; then
        cat > rows.py <<'END'
import torch
x, w = torch.randn(9, 300), torch.randn(300, 40)
whole = torch.sigmoid(x @ w)
print(all(torch.equal(torch.sigmoid(x[i:i + 1] @ w), whole[i:i + 1]) for i in range(9)))
END
        expect 0 '^True$' $torch -m limber run --batch-invariant rows.py
        for first in 'import importlib.util as u; u.find_spec("torch"); u.find_spec("numpy")' \
            'import limber.torch' 'import limber.torch as t; t.batch_invariant().remove()'; do
            { echo "$first"; cat rows.py; } > first.py
            expect 0 '^True$' $torch -m limber run --same-everywhere first.py
        done
        cat > nested.py <<'END'
import subprocess, sys
subprocess.run([sys.executable, "-m", "limber", "run", "--no-numpy", "-c",
                "import torch, sys; print('limber.torch' in sys.modules)"], check=True)
END
        expect 0 '^False$' $torch -m limber run --batch-invariant nested.py
        expect 0 'PyTorch keeps its own operators: LIMBER_TORCH: .x. is not batch_invariant' \
            env PYTHONPATH="$PYTHONPATH/limber/_start:$PYTHONPATH" LIMBER_TORCH=x \
            $torch -c 'import torch'
    else
        echo "no PyTorch: its operators are not replaced"
    fi
    expect 0 '^True' $python -m limber run --contract fast --scheme ozaki2 loops.py child
    expect 2 'fast.*a promise of a scheme' $python -m limber run --contract fast loops.py child
    expect 2 'nothing' $python -m limber run --contract fast --scheme nothing loops.py child
    expect 2 'no-numpy excludes' $start --no-numpy --numpy-dot loops.py
    expect 0 'NumPy and PyTorch keep their own loops under' env PYTHONNOUSERSITE=1 PYTHONPATH= \
        $python -I -c "import sys; sys.path.insert(0, '$PYTHONPATH')
import limber._install as i; i.run('native', ['script.py'])"
    for wrong in x,both /none; do
        expect 0 'NumPy keeps its own loops: .*(neither longdouble nor dot|there is no /none)' \
            env PYTHONPATH="$PYTHONPATH/limber/_start:$PYTHONPATH" LIMBER_NUMPY=$wrong \
            $python -c 'import numpy'
    done
    mkdir -p unknown/numpy
    echo '__version__ = "9.1"' > unknown/numpy/__init__.py
    expect 0 'keeps its own loops: limber.numpy: NumPy 9.1 is none of 1.24 to 2.5' \
        env PYTHONPATH="$work/unknown:$PYTHONPATH" $python -c \
        "import limber._install as i; i.run('native', ['-c', 'import numpy'])"
else
    echo "no NumPy: its loops are not replaced"
fi

# ---- started from the sources, which are not installed ----
export PYTHONPATH="$sources"
expect 1 '^python -m limber: this package was not installed' env LIMBER_LIBRARY="$library" \
    python3 -m limber --prefix
expect 1 '^limber: this package was not installed' env LIMBER_LIBRARY="$library" \
    python3 -c 'import limber._install as i; i.command_line()'
# the library that is preloaded is found in a build folder, but not beside a lone liblimber
expect 0 '^ran$' env LIMBER_LIBRARY="$build/liblimber.so" $run script.py
mkdir -p alone
cp "$library" alone
expect 2 'script.py was not started' env LIMBER_LIBRARY="$work/alone/$(basename "$library")" \
    $run script.py
for wrong in '--prefix' 'run --contract correct script.py'; do
    expect 1 '^python -m limber: the library of Limber was not found' env LIMBER_LIBRARY=/none \
        python3 -m limber $wrong
    expect 1 '^$' sh -c 'printf "%s" "$1" | grep Traceback' sh "$out"
done
expect 1 'ImportError' env LIMBER_LIBRARY=/none python3 -c 'import limber'
finish
