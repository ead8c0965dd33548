#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Generates man pages: limber(1) from --help, limber(3) from the headers.
set -eu
export LC_ALL=C

usage() {
    cat << 'TEXT'
usage: sh tools/package/man.sh SECTION FOLDER VERSION

SECTION 1 writes FOLDER/limber.1 from the help of the program that $LIMBER names, 3 writes
FOLDER/limber.3 from the headers in the folder $HEADERS.

example: LIMBER=build/tools/limber sh tools/package/man.sh 1 build/man 0.2.0
TEXT
}

# Escapes backslashes and leading points, so that a line appears literally.
plain() {
    sed 's/\\/\\e/g; s/^\([.'\'']\)/\\\&\1/; s/-/\\-/g'
}

# Prints the head of a page.
head_of() { # section, name, what it is
    printf '.TH LIMBER %s "" "limber %s"\n.SH NAME\n%s \\- %s\n' "$1" "$version" "$2" "$3"
}

# Prints the names of all commands.
commands() {
    "$LIMBER" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'
}

page1() {
    head_of 1 limber "products of matrices in the format and at the accuracy asked for"
    printf '.SH SYNOPSIS\n.B limber\n.I COMMAND\n[options]\n.SH DESCRIPTION\n.nf\n'
    "$LIMBER" --help | plain
    printf '.fi\n'
    for name in $(commands); do
        printf '.SH LIMBER %s\n.nf\n' "$(printf '%s' "$name" | tr a-z A-Z)"
        "$LIMBER" "$name" --help | plain
        printf '.fi\n'
    done
    printf '.SH SEE ALSO\n.BR limber (3)\n'
}

# Prints each LIMBER_API declaration, with the comment that precedes it.
page3() {
    head_of 3 limber "products of matrices, convolutions and functions in any format"
    printf '.SH SYNOPSIS\n.nf\n#include <limber/limber.h>\n.fi\nLink with \\-llimber.\n'
    for file in "$HEADERS/limber.h" "$HEADERS"/*.h; do
        header=$(basename "$file" .h)
        [ "$header" != limber ] || [ -z "${begun:-}" ] || continue
        begun=yes
        grep -q '^LIMBER_API' "$file" || continue
        printf '.SH <LIMBER/%s.H>\n' "$(printf '%s' "$header" | tr a-z A-Z)"
        awk '
            function plain(s) {
                gsub(/\\/, "\\e", s)
                gsub(/-/, "\\-", s)
                if (s ~ /^[.\x27]/) s = "\\&" s
                return s
            }
            /^\/\*/ { comment = ""; inside = 1 }
            inside {
                line = $0
                done = line ~ /\*\//
                sub(/^\/\* ?/, "", line)
                sub(/^ \* ?/, "", line)
                sub(/ *\*\/.*$/, "", line)
                comment = comment plain(line) "\n"
                if (done) inside = 0
                next
            }
            /^LIMBER_API/ { declaration = ""; declares = 1 }
            declares {
                declaration = declaration plain($0) "\n"
                if (/;/) {
                    sub(/^LIMBER_API /, "", declaration)
                    name = declaration
                    sub(/\(.*/, "", name)
                    sub(/.*[ *]/, "", name)
                    printf ".SS %s\n.nf\n.B\n%s\n%s.fi\n", name, declaration, comment
                    declares = 0
                    comment = ""
                }
                next
            }
            /^$/ { comment = "" }' "$file"
    done
    printf '.SH SEE ALSO\n.BR limber (1)\n'
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
esac
[ $# = 3 ] || { usage >&2; exit 2; }
version=$3
mkdir -p "$2"
case $1 in
    1) page1 > "$2/limber.1.new" && mv "$2/limber.1.new" "$2/limber.1" ;;
    3) page3 > "$2/limber.3.new" && mv "$2/limber.3.new" "$2/limber.3" ;;
    *) usage >&2; exit 2 ;;
esac
