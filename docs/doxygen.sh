#!/bin/sh
# Renders the reference of the C interface.  Fails where Doxygen complains, where it finds a public
# function without a comment (fields that a structure's comment describes need none of their own),
# and where the page of a header lacks an example of a function.
set -eu
doxyfile=$1 folder=$2 source=$3
rm -rf "$folder"
mkdir -p "$folder"
awk -v pages=1 -f "$source/docs/doxygen.awk" "$source/docs/api.md" > "$folder/pages.dox"
doxygen "$doxyfile" 2> "$folder/warnings" || { cat "$folder/warnings"; exit 1; }
wrong=$(grep -E 'warning:|error:' "$folder/warnings" |
        grep -vE 'is not documented\.$' || true)
functions=$(grep -E '\(function\).* is not documented\.$' "$folder/warnings" || true)
[ -z "$wrong$functions" ] || { printf '%s\n' "$wrong" "$functions"; exit 1; }

# Of a function's part of the page: its name, and whether "Example" stands there.
for page in "$folder"/html/*_8h.html; do
    awk '/class="memtitle".*\(\)/ { tell(); name = $0; has = 0 }
         /<dt>Example/ { has = 1 }
         function tell() { if (name != "" && !has) print name }
         END { tell() }' "$page"
done | sed 's/.*<\/span>//; s/().*/ has no example in docs\/api.md/' > "$folder/lacking"
[ ! -s "$folder/lacking" ] || { cat "$folder/lacking"; exit 1; }
echo "$(grep -ho '<dt>Example' "$folder"/html/*_8h.html | wc -l) functions, each with an example"
echo "$folder/html/index.html"
