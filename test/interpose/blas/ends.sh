#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every process writes its report, however it ends, and none overwrites another's.
library=$1 program=$2 cublas=${3:-} here=$(dirname "$0")
. "$here/expect.sh"
export LIMBER_CONTRACT=correct LIMBER_BACKEND=interp
before="env LD_PRELOAD=$library LIMBER_REPORT=$work/report"

# reports COUNTS: checks the calls in each report, in ascending order, and removes the reports
reports() {
    for file in "$work"/report*; do
        sed -n 's/.*"served": { "calls": \([0-9]*\).*/\1/p' "$file"
    done | sort -n | tr '\n' ' ' > "$work/counts"
    expect 0 "^$1\$" cat "$work/counts"
    rm -f "$work"/report*
}

for how in exit _exit _Exit quick_exit; do
    expect 7 '^$' $before "$program" $how
    expect 0 '"complete": true' cat "$work/report"
    reports '2 '
done
# Each process uses its own name for its report.
expect 7 '^$' $before "$program" ranked
reports '6 '
expect 7 '^$' $before OMPI_COMM_WORLD_RANK=2 "$program" ranked
expect 0 'report.2$' ls "$work/report.2"
reports '6 '
expect 7 '^$' $before "$program" fork
reports '1 2 '
expect 7 '^$' $before "$program" idle
reports '2 '
expect 7 '^$' $before "$program" vfork
reports '2 '
expect 7 '^$' $before "$program" threads
expect 0 '^31$' sh -c 'ls "$0"* | wc -l' "$work/report"
expect 0 '^30$' sh -c 'grep -l "\"served\": { \"calls\": 1," "$0".* | wc -l' "$work/report"
rm -f "$work"/report*
expect 7 '^$' timeout 120 $before "$program" alarm
rm -f "$work"/report*
# both libraries write their reports, and the exit status is unchanged
expect 7 '^$' $before LD_PRELOAD="$cublas${cublas:+:}$library" "$program" _exit
reports '2 '
# without a request nothing is written
expect 7 '^$' env LD_PRELOAD="$library" "$program" _exit

# ---- processes of one run, one after the other, at once, and as children of each other ----
for script in '"$0" exit; "$0" exit; "$0" _exit' '"$0" exit & "$0" exit & "$0" slow & wait' \
    '(sh -c "$0 exit; true"; "$0" exit); "$0" exit' \
    'ls > /dev/null; for i in 1 2 3; do "$0" exit; done'
do
    expect 0 'report has the report of process [0-9]+; this one.s has \.[0-9]+ behind it$' $before \
        sh -c "$script; true" "$program"
    lines 2 'has the report of process'
    reports '2 2 2 '
done
expect 0 '' $before sh -c 'seq 12 | xargs -P 4 -n 1 "$0" exit; true' "$program"
reports '2 2 2 2 2 2 2 2 2 2 2 2 '
# A single run uses the plain name, and the next run replaces the file, also when the earlier report
# has no calls.
for run in 1 2 3; do
    expect 7 '^$' $before "$program" exit
done
expect 0 '^$' $before sh -c '"$0" exit; true' "$program"
reports '2 '
# Two runs at the same time use one name: the first to write a report keeps the name, whichever run
# ends first.
for i in 1 2; do
    mkfifo "$work/begun$i" "$work/go$i"
done
slow1='"$@" slow "$work/begun1" "$work/go1" & one=$!; read -r _ < "$work/begun1"'
slow2='"$@" slow "$work/begun2" "$work/go2" & two=$!; read -r _ < "$work/begun2"'
go1='echo > "$work/go1"; wait $one' go2='echo > "$work/go2"; wait $two'
for order in "$slow1; \"\$@\" exit; $go1" "$slow1; $slow2; $go1; $go2" \
    "$slow1; $slow2; $go2; $go1"
do
    expect 0 'has the report of process' env work="$work" sh -c "$order; true" sh $before "$program"
    lines 1 'has the report of process'
    reports '2 2 '
done
# Ranks, and forked children, whose reports have the rank in their names.
for name in report report.%r; do
    expect 0 'has the report of process' $before OMPI_COMM_WORLD_RANK=3 \
        LIMBER_REPORT="$work/$name" sh -c '"$0" exit; "$0" fork; true' "$program"
    expect 0 '^3$' sh -c 'ls "$0".3 "$0".3.* | wc -l' "$work/report"
    reports '1 2 2 '
done
# A file that is no report is replaced, and so is the report of an earlier run.
echo '{}' > "$work/report"
expect 7 '^$' $before "$program" exit
reports '2 '

if $python -c 'import numpy' 2> /dev/null; then
    expect 7 '^$' $before $python "$here/ends.py" os._exit
    expect 0 '^40$' $python "$here/ends.py" reports "$work/report"
    rm -f "$work"/report*
    for method in fork spawn forkserver; do
        expect 0 '^$' $before $python "$here/ends.py" work $method 3
        expect 0 '^40 41 42 43 60\+61$' $python "$here/ends.py" reports "$work/report"
        rm -f "$work"/report*
    done
else
    echo "numpy is absent: skipped"
fi
finish
