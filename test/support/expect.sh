# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of programs: makes a folder for the test and its kernels, and defines functions
# that check a program's output and status.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LIMBER_CACHE_DIR=$work/cache
export LIMBER_CACHE_DIR
unset XDG_CACHE_HOME XDG_STATE_HOME XDG_CONFIG_HOME     # the caller's folders are not used
failures=0 checks=0
limit=          # a command that runs each checked command, such as timeout

# Runs a command, and checks its status and output.
expect() {  # arguments: status, pattern of the output, command...
    status=$1 pattern=$2
    shift 2
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    out=$($limit "$@" 2>&1)
    got=$?
    if [ $got != "$status" ] || ! printf '%s\n' "$out" | grep -Eq -- "$pattern"; then
        failures=$((failures + 1))
        echo "FAILED: $*"
        echo "  status $got (expected $status), wanted $pattern, output: $out"
    fi
}

# Prints the numbers of checks and failures; fails if there are failures.
finish() {
    echo "$checks checks, $failures failed"
    [ $failures = 0 ]
}
