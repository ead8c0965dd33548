#!/bin/sh
# Tests `limber report` on sweeps and benchmarks: what it prints, its pages, the contrast of their
# colours, and how pages look in a browser (without chromium this part is skipped).
limber=$1
here=$(cd "$(dirname "$0")" && pwd)
check=$here/report_check.html
. "$(dirname "$0")/../support/expect.sh"
cd "$work" || exit 2
browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v $name)
done
[ -n "$browser" ] || echo "no chromium: how pages look is not tested"

# Checks a page's colours.  Renders it in windows of two widths, and checks what report_check.html
# prints.
looks() {  # page, pattern
    expect 0 '^good$' awk -f "$here/contrast.awk" "$1"
    is_shown "$1" "$2"
}
# Checks that a browser shows a page as wanted, wide and narrow.
is_shown() {  # page, pattern
    [ -n "$browser" ] || return 0
    cat "$1" "$check" > looked.html
    for width in 1300 500; do
        expect 0 "$2" sh -c 'timeout 120 "$@" 2> /dev/null' sh "$browser" --headless --no-sandbox \
            --disable-gpu --user-data-dir="$work/profile" --window-size=$width,900 \
            --dump-dom looked.html
    done
}

# ---- a sweep of limber explore ----
"$limber" explore --random 16,16,256 --keep 0.5 --json > explore.json || exit 1
best=$(sed -n 's/.*"unit":[^"]*"\(.*\)",/\1/p' explore.json | tail -1)
expect 0 '^explore.json: simulated units, 18 rows$' "$limber" report explore.json --html page.html
expect 0 '^1$' grep -Fc "keeps 0.5: $best</p>" page.html
[ "$(grep -c '<tr><td class=w>in=' page.html)" = 18 ] || { echo "FAILED: rows"; failures=1; }
looks page.html '3 charts, 1 tables.*id="verdict">good<'
cat > steps.json << 'END'
{"shape": "1 x 1", "keep": 1e-9, "smallest": null, "trials": [
 {"unit": "a <b> & c", "group": 0, "rounding": "rn", "products": "exact", "accumulator_bits": 8,
  "error": 1, "swamped": 0.5, "retention": 0.5, "retention_predicted": null, "frontier": true},
 {"unit": "b", "group": 0, "rounding": "rz", "products": "exact", "accumulator_bits": 12,
  "error": 0.1, "swamped": 0.25, "retention": null, "frontier": true},
 {"unit": "c", "group": 0, "rounding": "rz", "products": "exact", "accumulator_bits": 16,
  "error": 0.01, "swamped": 0, "frontier": false},
 {"unit": "d", "group": 0, "rounding": "rz", "products": "exact", "accumulator_bits": 16,
  "error": 0, "frontier": true},
 {"unit": "e", "accumulator_bits": 9, "error": null}]}
END
expect 0 '^    8 bits, error 1 +a <b> & c$' "$limber" report steps.json --html page.html
expect 0 '<td class=w>a &lt;b&gt; &amp; c</td>' cat page.html
expect 0 'No unit keeps 1e-09' cat page.html
# Powers of ten are equally far apart, and so are 8, 12 and 16 bits; the mark of a 0 is hollow.
expect 0 '^even$' awk -F '"' '
    /Error over the/ { on = 1 }
    on && /<circle.*<title>/ { n++; x[n] = $2; y[n] = $4 + 0; fill[n] = $8 }
    on && /<rect.*<title>/ { n++; x[n] = $2 + 4; y[n] = $4 + 4; fill[n] = $10 }
    /<\/svg>/ { on = 0 }
    END { if (n == 4 && x[2] - x[1] == x[3] - x[2] && (d = y[3] - 2 * y[2] + y[1]) < 0.2 &&
              d > -0.2 && y[1] < y[2] && fill[4] == "none" && fill[3] != "none")
              print "even" }' page.html
looks page.html 'id="verdict">good<'

# ---- benchmarks ----
"$limber" bench --rows latency --runs 1 --json > bench.json || exit 1
expect 0 '^bench.json: benchmark, [1-9]' "$limber" report bench.json --html page.html
looks page.html 'id="verdict">good<'
long=$(printf 'é%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
{
    echo '{"limber": "0", "cpu": "c<pu", "rows": ['
    for n in 64 128 1024; do
        for row in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26; do
            printf '{"group": "many", "work": "%s", "n": %d, "threads": 2, "value": %d, ' \
                "$long $row" $n $((n * row))
            echo '"unit": "GFLOPS", "ratio": 2, "ratio_to": "P, any"},'
        done
    done
    cat << 'END'
{"group": "few", "work": "one", "n": 8, "value": 1, "unit": "us", "ratio": 8, "ratio_to": "P, any"},
{"group": "few", "work": "two", "n": 8, "value": 0, "unit": "us", "ratio": 1e9, "ratio_to": "Q"},
{"group": "gpu", "work": "x", "by": "Limber", "rate": null, "state": "WRONG", "why": "row 1",
 "ratio": 1e-9},
{"group": "gpu", "work": "y", "state": "skipped", "why": "none", "note": "n"}],
"peers": [{"name": "P", "usable": true, "version": "1"}, {"name": "R", "usable": false}]}
END
} > made.json
expect 0 '^ +2.04 x P, any, mean of 79$' "$limber" report made.json --html page.html
expect 0 '<p>6 points of further curves are not drawn' cat page.html
expect 0 '<td>WRONG: row 1</td>' cat page.html
expect 0 '^<p>Limber 0, c&lt;pu. Beside P 1</p>$' cat page.html
expect 0 '<td>n; skipped: none</td>' cat page.html
looks page.html '1 charts, 3 tables.*id="verdict">good<'
cat > apps.json << 'END'
{"limber": "0", "threads": 1, "runs": 3, "applications": [
 {"name": "a", "what": "w", "accuracy": "error", "rows": [
  {"by": "blas", "computed_by": null, "beside": "blas", "seconds": 2, "seconds_in_products": 1,
   "speed": 1, "speed_of_products": null, "accuracy": 0.5},
  {"by": "ours", "computed_by": "s", "beside": "blas", "seconds": 4, "seconds_in_products": 3,
   "speed": 0.5, "speed_of_products": 0.33, "accuracy": 0}]},
 {"name": "b", "what": "w", "accuracy": "error", "skipped": "no <data>"},
 {"name": "c", "what": "w", "accuracy": "error", "failed": "it broke"}]}
END
expect 0 '^  a +ours +4 s, 0.50 x blas$' "$limber" report apps.json --html page.html
expect 0 '<p>skipped: no &lt;data&gt;</p>' cat page.html
expect 0 '<p>failed: it broke</p>' cat page.html
looks page.html '0 charts, 1 tables.*id="verdict">good<'

# ---- files with one JSON object per line: training, statistics, and others ----
trained() {  # accumulator, group, lowest, mean, highest
    printf '{"by": "%s", "accumulator": "%s", "group": %d, "lowest": %s, ' "$1" "$1" "$2" "$3"
    printf '"mean": %s, "highest": %s, "seconds_a_step": 0.1, "model_trains": null}\n' "$4" "$5"
}
{
    trained FP32 0 94 95 96
    trained '(1,8,2)' 0 57 59.5 60
    echo
    trained '(1,8,4)' 64 92 92 92
} > training.jsonl
expect 0 '^training.jsonl: measurements, 3 rows$' "$limber" report training.jsonl --html page.html
expect 0 '<title>no groups: 2, 59.5</title>' cat page.html
expect 0 '<title>groups of 64: 4, 92</title>' cat page.html
expect 0 '<title>FP32: 4, 95</title>' cat page.html
looks page.html '1 charts, 1 tables.*id="verdict">good<'
for step in 0 1 2; do
    for tag in a/forward/swamped a/forward/overflow b.c/grad_input/swamped alone; do
        echo "{\"step\": $step, \"tag\": \"$tag\", \"value\": 0.$step}"
    done
done > statistics.jsonl
expect 0 '12 rows' "$limber" report statistics.jsonl --html page.html
expect 0 '<title>b.c/grad_input: 2, 0.2</title>' cat page.html
looks page.html '3 charts, 0 tables.*id="verdict">good<'
cat > one.json << 'END'
{"by": "one", "seconds": 0.5, "seconds_in_products": 0.25, "inner": {"x": 1}, "done": true}
END
expect 0 '1 rows' "$limber" report one.json --html page.html
expect 0 '<td>yes</td>' cat page.html
looks page.html '0 charts, 2 tables.*id="verdict">good<'

# ---- several runs on one page; if a page cannot be written completely, no file appears ----
cat > run.json << 'END'
{"limber": "0", "library": "lib<x>", "program": "/bin/p&q", "complete": true, "wall_seconds": 1,
 "calls": [
 {"routine": "dgemm_", "m": 4, "n": 4, "k": 4, "calls": 3, "served": true, "scheme": "native",
  "seconds": 1.5, "estimated_original_seconds": 1},
 {"routine": "sgemm_", "m": 4, "n": 4, "k": 4, "calls": 1, "served": false,
  "why_not": "no contract is stated", "seconds": 0.5}]}
END
expect 0 '^Limber +6 calls' "$limber" report run.json steps.json run.json --html page.html
expect 0 '^<h1>p&amp;q, .*1.0 s, 2 reports, no contract, by lib&lt;x&gt;</h1>$' cat page.html
expect 0 '^<p class="good">No contract was stated' cat page.html
expect 0 '^<h1>steps.json</h1>$' cat page.html
looks page.html '2 charts, 4 tables.*id="verdict">good<'
# Counters of a simulated unit are summed by routine and by caller.
unit() {    # routine, n, caller, products, swamped
    printf '{"routine": "%s", "m": 4, "n": %s, "k": 4, "calls": 1, "served": true, ' "$1" "$2"
    printf '"scheme": "simulate", "caller": "%s", ' "$3"
    printf '"unit": {"products": %s, "swamped": %s, ' "$4" "$5"
    printf '"partly_swamped": 10, "underflow": 3, "overflow": 1, "sum_overflow": 1}},'
}
{
    echo '{"limber": "0", "library": "l", "program": "p", "complete": true, "calls": ['
    unit dgemm_ 4 'a<b>:f' 1000 200
    unit dgemm_ 8 'a<b>:f' 3000 200
    unit dgemm_ 8 'a:g' 500 0
    unit scipy_dtrsm_64_ 8 'a:g' 100 50
    echo '{"routine": "dgemm_", "m": 4, "n": 4, "k": 4, "calls": 1, "served": true}]}'
} > unit.json
expect 0 '^unit +products' "$limber" report unit.json --html page.html
expect 0 '^4$' sh -c '"$1" report unit.json | sed -n "/^unit  *products/,/^$/p" | grep -c .' \
    run "$limber"
expect 0 '^dgemm +4000 +10% +0.5% +6 +4  a<b>:f$' "$limber" report unit.json
expect 0 '^dgemm +500 +0% +2% +3 +2  a:g$' "$limber" report unit.json
expect 0 '^dtrsm +100 +50% +10% +3 +2  a:g$' "$limber" report unit.json
expect 0 '^dgemm +8000 +10% +0.5% +12 +8  a<b>:f$' "$limber" report unit.json unit.json
expect 0 '<td>dgemm</td><td class=n>4000</td><td class=n>10%</td>.*<td>a&lt;b&gt;:f</td>' \
    cat page.html
"$limber" report unit.json --json | tr -d ' \t\n' > unit.line
expect 0 '"unit_by_caller":.."products":4000,"swamped":400,[^}]*"caller":"a<b>:f"},.*"a:g"..,' \
    cat unit.line
expect 0 '"served":.[^}]*"unit":."products":4600,[^}]*"overflow":8' cat unit.line
expect 0 '"longest":.*"unit":."products":3000,.*"unit_by_caller"' cat unit.line
looks page.html '0 charts, 4 tables.*id="verdict">good<'
expect 1 '' sh -c '"$1" report run.json | grep "^unit"' run "$limber"
# Ratios: only calls with an estimate of the BLAS's time are compared, and only where Limber or the
# BLAS needs 10 ms.  Elements under `reproducible` are compared with the stated order.
cat > rated.json << 'END'
{"limber": "0", "library": "l", "program": "p", "complete": true, "contract": "correct", "calls": [
 {"routine": "dgemm_", "m": 400, "n": 400, "k": 400, "calls": 2, "served": true,
  "contract": "correct", "scheme": "pairs", "seconds": 4.5, "compile_seconds": 0.5,
  "estimated_original_seconds": 0.002, "checked_elements": 4, "worst_ulps": 0.5},
 {"routine": "dgemv_", "m": 4, "n": 4, "k": 0, "calls": 100, "served": true,
  "contract": "correct", "scheme": "pairs", "seconds": 30},
 {"routine": "dsymm_", "m": 4, "n": 4, "k": 4, "calls": 2, "served": true,
  "contract": "reproducible", "scheme": "lanes", "seconds": 0.25,
  "estimated_original_seconds": 0.17, "checked_elements": 7, "worst_ulps": 105},
 {"routine": "dsyrk_", "m": 4, "n": 4, "k": 4, "calls": 3, "served": true,
  "contract": "correct", "scheme": "pairs", "seconds": 0.0043,
  "estimated_original_seconds": 1e-7}]}
END
expect 0 '^Limber +107 calls in 34.3 s; 7 of them in 4.25 s, 24.7 times as long as the BLAS ' \
    "$limber" report rated.json --html page.html
expect 0 '^routine +calls +seconds +BLAS.s seconds +time . BLAS.s  computed by$' \
    "$limber" report rated.json
expect 0 '^dgemm +2 +4 +0.002 +2000 times  pairs$' "$limber" report rated.json
expect 0 '^dgemv +100 +30 +0  +pairs$' "$limber" report rated.json
expect 0 '^dsymm +2 +0.25 +0.17 +1.47 times  lanes$' "$limber" report rated.json
expect 0 '^dsyrk +3 +0.0043 +1e-07  +pairs$' "$limber" report rated.json
expect 0 '^dsyrk +4 +4 +4 +3 +0.0043  +$' "$limber" report rated.json
expect 0 '^checked +4 elements against exact values: all keep .*, largest error 0.5 ulp$' \
    "$limber" report rated.json
expect 0 '^checked +7 elements against the stated order: all equal$' "$limber" report rated.json
expect 0 '<td>7 elements against the stated order: all equal</td>' cat page.html
expect 0 '^<tr><td>dgemm</td><td class=n>2</td><td class=n>4</td><td class=n>2000 times</td>' \
    cat page.html
expect 0 '^<tr><td>dsyrk</td><td class=n>3</td><td class=n>0.0043</td><td class=n></td>' \
    cat page.html
# Calls that only the program's LAPACK computed: advice for them, and what was said of one call.
cat > lapack.json << 'END'
{"limber": "0", "library": "l", "program": "p", "complete": true, "calls": [
 {"routine": "dgemm_", "m": 400, "n": 400, "k": 400, "calls": 5, "served": true,
  "contract": "reproducible", "scheme": "lanes", "seconds": 4, "estimated_original_seconds": 1},
 {"routine": "dgesv_", "m": 400, "n": 400, "k": 400, "calls": 1, "served": false,
  "contract": "reproducible",
  "why_not": "part of it runs in the program's LAPACK; results may differ on another CPU",
  "seconds": 1}]}
END
expect 0 '^NOT KEPT by all: the BLAS computed 1 of 6 calls, dgesv: part of it runs in the ' \
    "$limber" report lapack.json
expect 0 "^- The program.s LAPACK computed 1 call, .* preload Limber.s LAPACK" \
    "$limber" report lapack.json
expect 1 '' sh -c '"$1" report lapack.json | grep "rule "' run "$limber"
cat > off.json << 'END'
{"limber": "0", "program": "p", "contract": "correct", "calls": [{"routine": "dgemm_", "m": 4,
 "n": 4, "k": 4, "calls": 3, "served": false, "why_not": "a rule leaves it alone", "seconds": 1}]}
END
expect 0 '^Rules said off: the BLAS computed all 3 calls.$' "$limber" report off.json
echo '{"limber": "0", "program": "none", "contract": "bits=40", "calls": []}' > none.json
expect 0 '^Limber +0 calls' "$limber" report none.json --html page.html
expect 0 '^none, 0.0 s, contract bits=40, by $' "$limber" report none.json
looks page.html '0 charts, 1 tables.*id="verdict">good<'
rm none.json
echo before > kept.html
for bad in '{"limber": "0"}' '{"rows": []}' '[]' '[1]' '[{"a": "b"}]' '{"a": 1} [2]' '{' '' \
    '{"a": {"b": 1}}'; do
    printf '%s' "$bad" > bad.json
    expect 1 '^limber: bad.json: (no report of LIMBER_REPORT, and |ends early|is empty)' \
        "$limber" report steps.json bad.json --html kept.html
done
printf '\n{"a": 1}\n{"a": nan}\n' > bad.json
expect 1 'line 3 is no object of JSON' "$limber" report bad.json
expect 1 'none.json: No such file' "$limber" report none.json
expect 1 '--json is for reports of runs' "$limber" report run.json apps.json --json
expect 1 'No such file' "$limber" report steps.json --html none/page.html
expect 0 '^before$' cat kept.html

# ---- report_check.html finds what is wrong with a page ----
page='<!DOCTYPE html><html><body>'
while read -r bad; do
    echo "$page${bad%:*}" > page.html
    is_shown page.html "id=\"verdict\">.*${bad##*:}"
done << 'END'
<svg width=50 height=50><title>t</title><text x=45 y=20>long text</text></svg>:sticks out
<svg width=50 height=50><circle cx=10 cy=inf r=3></circle></svg>:is no number
<svg width=90 height=50><text x=5 y=20>ab</text><text x=6 y=22>cd</text></svg>:on each other
<svg width=0 height=50></svg>:has no size
<svg class=chart width=9 height=9></svg>:is empty
<table><tr><th>a<tr><td>b<td>c</table>:a row has 2 cells
<table><tr><th>a</table>:a table is empty
<p style="width:4000px">x</p>:is wider
<img src="check.png">:it loads other files
<style>p{background:url(a.png)}</style>:it loads other files
END

# ---- contrast.awk finds colours that are hard to read, and a scheme that is absent ----
"$limber" report steps.json --html page.html || exit 1
# Checks that a spoilt page is found.
spoilt() {  # the sed program that spoils the page, what is found
    sed "$1" page.html > spoilt.html
    expect 0 "$2" awk -f "$here/contrast.awk" spoilt.html
}
spoilt '/^<style>/s/--s1:#[0-9a-f]*/--s1:#e69f00/' '^--s1: #e69f00 on #ffffff has a contrast of 2.2'
spoilt '/^@media/s/--text:#[0-9a-f]*/--text:#1a202c/' '^--text: #1a202c on #14181f has .* of 1.0'
spoilt '/^<style>/s/--s3:#[0-9a-f]*/--s3:grey/' '^--s3 is no colour of six digits$'
spoilt 's/svg text{fill:currentColor/svg text{fill:#cc79a7/' '^#cc79a7 is a colour of no scheme$'
spoilt '/^@media(prefers/d' '^1 schemes, 0 of them dark, 9 colours$'
# Charts shrink with the window.  At 400 pixels their text is 10 high, as 12 of 440 units.
expect 0 'svg.chart.display:block;width:100%' cat page.html
expect 0 'viewBox="0 0 440 320" font-size="12"' cat page.html
expect 1 '' grep -q 'min-width' page.html
finish
