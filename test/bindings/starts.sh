#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Starts python -m limber from an installation and from its sources: it must run a program only
# where everything that the variables name is available, and otherwise print a message.
build=$1 sources=$2 library=$3
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
. "$(dirname "$0")/../support/expect.sh"
expect 0 '.*' cmake --install "$build" --prefix "$work/limber"
limber=$work/limber/bin/limber
export PYTHONPATH="$work/limber/share/limber/python"
run="python3 -m limber run --contract correct"
cd "$work" || exit 2
unset LIMBER_LLVM LIMBER_CUDA LIMBER_BACKEND LIMBER_KERNELS LIMBER_LIBRARY
echo 'print("ran")' > script.py
expect 0 '^ran$' $run script.py

# The interpreter's options also apply to the script, however they are written.
cat > options.py <<'END'
import sys
f = sys.flags
print(__debug__, f.optimize, f.dev_mode, f.utf8_mode, f.dont_write_bytecode, f.verbose, f.no_site,
      sys.warnoptions, sorted(k for k in sys._xoptions), sys.stdout.line_buffering or
      sys.stdout.write_through, sys.argv[1:])
END
cp options.py other.py
same() {    # the interpreter's options, what it starts
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

# Every variable of the table that such a program reads is tested.
"$limber" help variables |
    awk '/^[A-Z0-9_]+$/ { name = $1 } /Read by:.*(library|BLAS)/ { print name }' |
    grep '^LIMBER_' > all
# Variables that only code for GPUs reads are left out.
grep -vE '^LIMBER_(CUDA|NVRTC|CUBLAS|CUBINS|KEEP_CUBINS)$' all > names
expect 0 '^LIMBER_CACHE$' cat names
expect 0 '^LIMBER_REPORT$' cat names
bad=/dev/null/none      # no word, no number, no file, and no folder that anybody can make
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
expect 1 '' test -e "$work/report"      # what starts nothing leaves no word that nothing was called
expect 0 '^ran$' env LIMBER_REPORT="$work/report" LIMBER_CAPTURE="$work/kept,1M" \
    LIMBER_DUMP="$work/dump" LIMBER_CACHE=off $run script.py
expect 0 'is no variable of Limber' env LIMBER_CONTRAKT=1 $run script.py

# ---- what names no libLLVM is told where one looks ----
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

# ---- from the sources ----
export PYTHONPATH="$sources"
expect 1 '^python -m limber: this package was not installed' env LIMBER_LIBRARY="$library" \
    python3 -m limber --prefix
expect 1 '^limber: this package was not installed' env LIMBER_LIBRARY="$library" \
    python3 -c 'import limber._install as i; i.command_line()'
expect 2 'script.py was not started' env LIMBER_LIBRARY="$library" $run script.py
for wrong in '--prefix' 'run --contract correct script.py'; do
    expect 1 '^python -m limber: the library of Limber was not found' env LIMBER_LIBRARY=/none \
        python3 -m limber $wrong
    expect 1 '^$' sh -c 'printf "%s" "$1" | grep Traceback' sh "$out"
done
expect 1 'ImportError' env LIMBER_LIBRARY=/none python3 -c 'import limber'
finish
