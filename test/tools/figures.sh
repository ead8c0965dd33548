#!/bin/sh
# Runs `limber figures` with small sizes and checks the parts of each figure that do not depend on
# time.
limber=$1 figures=$(cd "$(dirname "$0")/../../docs/figures" && pwd)
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
drawn=0
command -v gnuplot > /dev/null || drawn=1     # the data is kept, and the status tells

expect $drawn 'FP32-F +published +6\.1035e-05 +65520' "$limber" figures --quick out
for name in type-error gemm-error reductions dynamic-range fallbacks mixed-sweep overhead; do
    expect 0 , cat out/$name.csv
    [ $drawn = 1 ] || expect 0 '</svg>' tail -3 out/$name.svg
done
# a curve that is drawn with lines continues beyond the sample in the key
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
for file in out/*.svg "$figures"/*.svg; do
    grep -q gnuplot_plot "$file" || continue
    expect 0 '^drawn$' awk -f curves.awk "$file"
done
# chains that truncate lose what promotion keeps; line scales hold numbers that FP16 alone does not
expect 0 lost awk -F, '$1 == "positive" && $2 == 16384 && $5 > 100 * $6 { print "lost" }' out/gemm-error.csv
expect 0 held awk -F, '$1 == "row levels" && $2 == 9 && $3 == 1 && $6 == 0 && $9 == 0 { print "held" }' out/fallbacks.csv
expect 0 '^same$' awk -F, '$1 == "tile levels" && ($9 - $8) ^ 2 > 1e-8 { bad = 1 } END { print bad ? "apart" : "same" }' out/fallbacks.csv
# an FP16 accumulator beyond 2048 absorbs the terms that are added; binary32 does not
expect 0 lost awk -F, '$1 == "f16" && $2 == "positive" && $3 == 4096 && $8 > 0.2 && $7 == 0 { print "lost" }' out/reductions.csv
expect 0 kept awk -F, '$1 == "bf16" && $2 == "positive" && $3 == 4096 && $6 > 0.5 && $4 < 1e-6 && $5 < 1e-7 { print "kept" }' out/reductions.csv
# contracts hold where fixed numbers of slices fail
expect 0 kept awk -F, '$1 == "Ozaki II native" && $2 == 4 && $4 < 10 { print "kept" }' out/dynamic-range.csv
expect 0 lost awk -F, '$1 == "Ozaki I 7 slices" && $2 == 4 && $4 > 1000 { print "lost" }' out/dynamic-range.csv
expect $drawn '"name":.*"fallbacks"' "$limber" figures --quick --json out fallbacks
expect 2 'no figure is called "colours"' "$limber" figures out colours
expect 2 'takes a folder' "$limber" figures
expect 2 '--threads' "$limber" figures --threads 0 out
expect 0 'example' "$limber" figures --help
expect 1 'nowhere' "$limber" figures nowhere/out type-error
finish
