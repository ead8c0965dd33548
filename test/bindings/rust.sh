#!/bin/sh
# Tests the Rust crates with the library in a folder: builds them without the network, runs their
# tests, the examples of their documentation and the example program.
set -eu
crates=$1 library=$2 layout=$3
command -v cargo > /dev/null || { echo "no cargo: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$crates" "$work/rust"    # cargo writes a lock file beside the crates
cd "$work/rust"
"$layout" > "$work/layout"
export LIMBER_LIB_DIR="$library" LD_LIBRARY_PATH="$library" LIMBER_LAYOUT="$work/layout" \
    LIMBER_CACHE_DIR="$work/cache" RUSTFLAGS="-D warnings" CARGO_TARGET_DIR="$work/target"
cargo test -q --offline
cargo run -q --offline -p limber --example product > "$work/out"
cat "$work/out"
grep -q '^Correct: \[1.0, 1.0\]$' "$work/out"
