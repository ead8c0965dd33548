#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs tests for hours, in which they find more faults: fuzz targets with libFuzzer under
# sanitizers, and tests whose number of iterations is set by environment variables.
set -u
hours=1 jobs=2 what='' build=''
usage() {
    cat <<'END'
Usage: tools/soak.sh [--hours N] [--jobs N] [--build DIR] [NAME...]

Runs fuzz targets (text, files, rules, cache) and longer tests.  --hours: the time for all together
(1; fractions are fine).  --jobs: how many run at once (2).  NAME: run these alone.  The build,
corpora and findings stay in DIR (build-soak).  On a terminal it prints its progress, in a pipe only
the results.  Status 1: something was found.

example: tools/soak.sh --hours 8 text cache
END
}
while [ $# -gt 0 ]; do
    case $1 in
    --hours) hours=${2:?--hours takes a number}; shift ;;
    --jobs) jobs=${2:?--jobs takes a number}; shift ;;
    --build) build=${2:?--build takes a folder}; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "soak.sh: no option is called $1 (see --help)" >&2; exit 2 ;;
    *) what="$what $1" ;;
    esac
    shift
done
root=$(cd "$(dirname "$0")/.." && pwd)
build=${build:-$root/build-soak}
awk -v h="$hours" 'BEGIN { exit !(h + 0 > 0) }' || { echo "soak.sh: --hours takes a number above 0" >&2; exit 2; }

# test, and the environment variables that prolong it; %SEED becomes a new number in each run
longer='test_binades LIMBER_TEST_BINADES=40
test_failing LIMBER_TEST_LONG=1
test_small LIMBER_TEST_LONG=1
test_apply LIMBER_TEST_LONG=1
test_random LIMBER_SEED=%SEED
test_bound LIMBER_SEED=%SEED
fuzz_text LIMBER_FUZZ_RUNS=100000
fuzz_cache LIMBER_FUZZ_RUNS=100000'
fuzzers='text files rules cache'

# Shows what is being done, on a terminal.
tell() {
    [ -t 2 ] && printf '\r%-78s' "$1" >&2
    return 0
}
# True if this part was asked for.
wanted() {  # name
    [ -z "$what" ] || case " $what " in *" $1 "*) ;; *) return 1 ;; esac
}

parts=0 list='' targets=''
for name in $fuzzers; do
    wanted "$name" && parts=$((parts + 1)) targets="$targets fuzz_$name fuzzer_$name"
done
list=$(printf '%s\n' "$longer" | while read -r name env; do
    wanted "$name" && { ls "$root"/test/*/"$name.c" > /dev/null 2>&1 || [ "$name" != "${name#fuzz_}" ]; } && echo "$name $env"; done)
[ -z "$list" ] || parts=$((parts + 1)) targets="$targets $(echo "$list" | cut -d' ' -f1 | sort -u | tr '\n' ' ')"
[ $parts -gt 0 ] || { echo "soak.sh: nothing is called$what" >&2; exit 2; }
seconds=$(awk -v h="$hours" -v p="$parts" -v j="$jobs" \
    'BEGIN { s = int(h * 3600 * (p < j ? 1 : j / p)); print s < 1 ? 1 : s }')
found=0

tell 'building'
flags='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'
mkdir -p "$build"
# shellcheck disable=SC2086
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang-19 -DLIMBER_TESTS=ON -DLIMBER_FUZZ=ON \
    -DLIMBER_SANITIZE=ON -DCMAKE_C_FLAGS="$flags" > "$build/log" 2>&1 &&
    cmake --build "$build" -j "$jobs" --target $targets >> "$build/log" 2>&1 ||
    { tell ''; echo "soak.sh: the build failed, see $build/log" >&2; exit 2; }

# Runs a fuzzer for its share of the time.
fuzz() {    # name
    corpus=$build/corpus/$1
    mkdir -p "$corpus" "$build/found"
    "$build/test/fuzz_$1" "$corpus"
    ASAN_OPTIONS=allocator_may_return_null=1 "$build/test/fuzzer_$1" -max_total_time="$seconds" -timeout=60 \
        -rss_limit_mb=4096 -max_len=65536 -artifact_prefix="$build/found/$1-" -print_final_stats=1 "$corpus" \
        > "$build/$1.log" 2>&1
    status=$?
    runs=$(awk '/number_of_executed_units/ { print $2 }' "$build/$1.log")
    [ $status = 0 ] && { echo "$1: ${runs:-0} inputs, nothing found"; return 0; }
    echo "$1: ${runs:-?} inputs, FOUND: $(ls "$build/found" | grep "^$1-" | tr '\n' ' ')($build/$1.log)"
    return 1
}
# Repeats the longer tests for their share of the time.
lengthen() {
    end=$(($(date +%s) + seconds)) rounds=0
    while [ $rounds = 0 ] || [ "$(date +%s)" -lt $end ]; do
        rounds=$((rounds + 1))
        printf '%s\n' "$list" | while read -r name env; do
            [ $rounds -gt 1 ] && [ "$(date +%s)" -ge $end ] && break
            # shellcheck disable=SC2046
            env $(printf '%s' "$env" | sed "s/%SEED/$rounds$$/g") "$build/test/$name" > "$build/$name.log" 2>&1 ||
                { echo "$name, $env, round $rounds: FAILED ($build/$name.log)"; exit 1; }
        done || return 1
    done
    echo "longer tests: $rounds rounds, nothing found"
}

running=''
for name in $fuzzers; do
    wanted "$name" || continue
    tell "fuzzing $name for $seconds s"
    fuzz "$name" &
    running="$running $!"
    # shellcheck disable=SC2086
    if [ "$(echo $running | wc -w)" -ge "$jobs" ]; then
        for pid in $running; do wait "$pid" || found=1; done
        running=''
    fi
done
if [ -n "$list" ]; then
    tell "longer tests for $seconds s"
    lengthen || found=1
fi
for pid in $running; do wait "$pid" || found=1; done
tell ''
exit $found
