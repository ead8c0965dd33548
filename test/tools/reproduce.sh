#!/bin/sh
# Runs `limber reproduce` with small sizes and checks those parts of each figure that do not depend on
# time.
limber=$1 here=$(cd "$(dirname "$0")" && pwd)
figures=$here/../../docs/figures contrast=$here/contrast.awk
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
drawn=0
command -v gnuplot > /dev/null || drawn=1     # the data is kept, and the status tells

own="ape-types ape-8 ape-10 ape-11 ape-14 ape-15 ape-16 dgemm-tc-accuracy dgemm-tc-slices
    dgemm-tc-speed lpgemm-4 lpgemm-table-4 operators-sums ladder fallbacks mixed-sweep"
expect $drawn 'FP32-F +published +6\.1035e-05 +65520' "$limber" reproduce --quick -o out $own
for name in type-error gemm-error reductions dynamic-range fallbacks mixed-sweep overhead ape-8 ape-10 ape-11 \
    lpgemm-4 ladder slices dgemm-tc-speed; do
    expect 0 , cat out/$name.csv
    [ $drawn = 1 ] || expect 0 '</svg>' tail -3 out/$name.svg
done
# a curve that is drawn with lines has strokes beyond those of its sample in the key
cat > curves.awk <<'END'
function judge() {
    if (moves > 2 && strokes < 2) { print FILENAME ": " title " has no line"; bad = 1 }
    title = ""; moves = strokes = 0
}
/<g id="gnuplot_plot_/ { judge(); title = $0; sub(/.*<title>/, "", title); sub(/<.title>.*/, "", title) }
/<path/ { path = 1 }
path { strokes += gsub(/L[0-9]/, ""); moves += gsub(/M[0-9]/, "") }
path && /\/>/ { path = 0 }
/<\/svg>/ { judge(); exit }
END { print bad ? "broken" : "drawn" }
END
[ $drawn = 1 ] || expect 0 'frontier' "$limber" explore --random 4,4,64 --plot out/explore.svg
for file in out/*.svg "$figures"/*.svg; do
    grep -q 'gnuplot_plot\|limber-chart' "$file" || continue
    expect 0 '^good$' awk -f "$contrast" "$file"
    grep -q gnuplot_plot "$file" || continue
    expect 0 '^drawn$' awk -f curves.awk "$file"
done
# contrast.awk finds colours that are hard to read, or that a dark page does not replace
spoilt() {
    sed "$1" "$figures/ape-8.svg" > spoilt.svg
    expect 0 "$2" awk -f "$contrast" spoilt.svg
}
spoilt "s/color='rgb(  0, 114, 178)'/color='rgb(230, 159,   0)'/" '^rgb.230, 159,   0. has no colour for dark'
spoilt 's/#14181f/#808080/g' '^#e2e8f0 on #808080 has a contrast of'
spoilt '/^<style>/d' '^no colour of dark pages'
# chains that truncate lose accuracy that promotion keeps; numbers that FP16 alone cannot hold are
# exact with line scales
expect 0 lost awk -F, '$1 == "positive" && $2 == 16384 && $5 > 100 * $6 { print "lost" }' out/gemm-error.csv
expect 0 held awk -F, '$1 == "row levels" && $2 == 9 && $3 == 1 && $6 == 0 && $9 == 0 { print "held" }' out/fallbacks.csv
expect 0 '^same$' awk -F, '$1 == "tile levels" && ($9 - $8) ^ 2 > 1e-8 { bad = 1 } END { print bad ? "apart" : "same" }' out/fallbacks.csv
# an FP16 accumulator above 2048 absorbs the terms that are added; FP32 does not
expect 0 lost awk -F, '$1 == "f16" && $2 == "positive" && $3 == 4096 && $8 > 0.2 && $7 == 0 { print "lost" }' out/reductions.csv
expect 0 kept awk -F, '$1 == "bf16" && $2 == "positive" && $3 == 4096 && $6 > 0.5 && $4 < 1e-6 && $5 < 1e-7 { print "kept" }' out/reductions.csv
# contracts hold where a fixed number of slices fails
expect 0 kept awk -F, '$1 == "Ozaki II native" && $2 == 4 && $4 < 10 { print "kept" }' out/dynamic-range.csv
expect 0 lost awk -F, '$1 == "Ozaki I 7 slices" && $2 == 4 && $4 > 1000 { print "lost" }' out/dynamic-range.csv
expect 0 kept awk -F, '$1 == "Ozaki I estimated" && $2 == 4 && $4 < 10 { print "kept" }' out/dynamic-range.csv
# estimated numbers of slices reach the accuracy of native sums
expect 0 '^24 0$' awk -F, 'NR > 1 { rows++; worse += $7 > $8 } END { print rows, worse + 0 }' out/slices.csv
expect 0 '^kept$' awk -F, '$1 == "Ozaki I FP16 estimated" && $2 == 4 && $4 < 10 { print "kept" }' out/dynamic-range.csv
expect 0 '^lost$' awk -F, '$1 == "Ozaki I FP16 6 slices" && $2 == 4 && $4 > 1000 { print "lost" }' out/dynamic-range.csv
expect 0 '^6 0$' awk -F, 'NR > 1 { rows++; worse += $9 > $8 || $10 > $8 || $5 <= 0 } END { print rows, worse + 0 }' out/dgemm-tc-speed.csv
# the time that one plan for all takes stands beside each mixed product
expect 0 '^5$' awk -F, 'NR > 1 && $3 >= 0 && $4 > 0 && $8 > 0 { n++ } END { print n }' out/overhead.csv
# LPGEMM's rows beside ours, whose means are those that its text rounds down
expect 0 '^10 4 0.18 0.78$' awk -F, '$1 + 0 > 0 { rows++; ours += $7 > 0 } $1 == "mean" { printf "%d %d %.2f %.2f\n", rows, ours, $5, $6 }' out/lpgemm-table-4.csv
# a GPU's columns are empty where there is no GPU
expect 0 '^n,.*FP32-F GPU,.*FP32-B GPU$' head -n 1 out/ape-10.csv
LIMBER_CUDA=none expect 0 '' "$limber" reproduce --quick -o none ape-10 ape-11
expect 0 '^2$' awk -F, '$1 > 0 && $2 > 0 && $7 $8 $9 $10 $11 == "" { n++ } END { print n }' none/ape-10.csv
expect 0 '^2$' awk -F, '$1 > 0 && $2 > 0 && $5 $6 $7 == "" { n++ } END { print n }' none/ape-11.csv
# published errors of Ape's types (their text: 1.2e-7), and FP32-B without any
expect 0 '^2$' awk -F, '$1 == "FP32-F" && $4 < 1.21e-7 && $4 > 1e-7 || $1 == "FP32-B" && $4 == 0 { n++ } END { print n }' out/ape-types.csv
expect 0 '^4$' awk -F, '$1 == "FP64" && $4 == 0 || $1 ~ "^(TF32|FP16)$" && $4 > 4e-4 && $4 < 5e-4 || $1 == "BF16" && $4 > 3e-3 && $4 < 4e-3 { n++ } END { print n }' out/ape-types.csv
expect 0 '^59$' awk -F, '$1 == 64 { printf "%.0f\n", $4 }' out/lpgemm-4.csv
# what does not depend on time: each step of the ladder ran, and was compared with the exact product
expect 0 '^7$' awk -F, 'NR > 1 && $4 > 0 { n++ } END { print n }' out/ladder.csv
# a GPU's steps, where NVRTC is installed: an FMA multiplies 32 pairs, a tensor core's instruction
# 2048; permuted pieces need an eighth of the passes, and a warp that copies saves global loads
if [ -f out/ladder-gpu.csv ]; then
    expect 0 '^32 32 0.5 0.5 0.5 0.5 $' awk -F, 'NR > 1 { printf "%s ", $5 }' out/ladder-gpu.csv
    expect 0 '^6 0.75$' awk -F, '/^fragments/ { a = $9 } /^conflict/ { print a, $9 }' out/ladder-gpu.csv
    expect 0 '^less less$' awk -F, '{ all[NR] = $4; global[NR] = $7 } END {
        print (all[2] > all[3] && all[3] > all[4] ? "less" : "more"), (global[7] < global[6] / 4 ? "less" : "more") }' \
        out/ladder-gpu.csv
fi
expect $drawn '"name":.*"fallbacks"' "$limber" reproduce --quick --json -o out fallbacks
# the objects that a program prints stand in the list, too
expect 0 '"applications":|^ape-13: skipped' "$limber" reproduce --quick --json -o out ape-13
expect 0 '^  ape-8 .*figure 8' "$limber" reproduce
expect 0 '"published":.*3\.12' "$limber" reproduce --json
# each figure and table that the sources number has a line
"$limber" reproduce > list
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    expect 0 '^1$' awk -v i="figure $i" '/^Ma/, /^$/ { n += ($0 " ") ~ i "[: ]" } END { print n }' list
done
for i in 'figure 1' 'figure 2' 'figure 3' 'figure 4' 'table 1' 'table 2' 'table 3' 'table 4' 'equations 1 to 4'; do
    expect 0 '^1$' awk -v i="$i" '/^Huang/, /^$/ { n += ($0 " ") ~ i "[: ]" } END { print n }' list
done
expect 0 'here: .*--lpgemm' "$limber" reproduce -o out lpgemm-table-3
expect 2 'nothing is called "colours"' "$limber" reproduce colours
expect 2 'exclude' "$limber" reproduce --all ape-8
expect 2 '--threads' "$limber" reproduce --threads 0 ape-8
expect 0 'example' "$limber" reproduce --help
expect 1 'nowhere' "$limber" reproduce -o nowhere/out ape-14
expect 1 'gnuplot is not installed' env PATH=/nowhere "$limber" reproduce --quick -o out ape-11
for word in ape lpgemm vrr dgemm-tc mask wmma dump prefetch swamping qpytorch tensor-core; do
    expect 0 'Page:' "$limber" help $word
done
finish
