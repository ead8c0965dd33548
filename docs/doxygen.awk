# The headers as Doxygen reads them.  A comment before a declaration is its text, line by line as it
# stands; one behind a field is that field's.  A function without a comment that follows another
# function, or a type, has the comment of that one.  A function's example is the lines of
# docs/api.md (`examples`), between two empty ones, that use it first, and declarations before them.
# With `pages` set, docs/api.md itself becomes the reference's first page and the one of all examples.
function take_paragraph(  name, rest, calls)
{
    rest = paragraph
    while (match(rest, /limber_[a-z0-9_]+/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (rest ~ /^["(]/) {
            calls = 1
            if (!(name in example))
                example[name] = paragraph
        }
    }
    paragraph = calls ? "" : paragraph "\n///"     # declarations belong to what follows
}
function read_examples(  line, inside)
{
    while ((getline line < examples) > 0) {
        if (line ~ /^```/) {
            take_paragraph()
            paragraph = ""
            inside = line ~ /^```c$/
        } else if (inside && line == "")
            take_paragraph()
        else if (inside)
            paragraph = paragraph "\n/// " line
    }
    close(examples)
}
function flush_comment()
{
    if (comment != "")
        print comment
}
# LIMBER_API stands first in a line, the function's name before the first parenthesis.
function print_example(declaration)
{
    if (!match(declaration, /limber_[a-z0-9_]+\(/))
        return
    declaration = substr(declaration, RSTART, RLENGTH - 1)
    if (declaration in example)
        print "/// @par Example\n/// @code{.c}" example[declaration] \
              "\n/// @endcode\n/// What it begins with, and all others: @ref examples."
}
function plain(line)
{
    gsub(/\[[^]]*\]\([^)]*\)/, "\1&\1", line)       # [text](file) is its text
    gsub(/\1\[/, "", line)
    gsub(/\]\([^)]*\)\1/, "", line)
    gsub(/`/, "", line)
    gsub(/</, "\\&lt;", line)
    gsub(/--/, "\\--", line)
    return line
}
BEGIN {
    if (examples)
        read_examples()
    if (pages)
        print "/// @mainpage\n/// Functions are listed under <b>Files</b>, by header, each with" \
              " what it promises and an example; \\ref limber.h is the first to read.\n///\n" \
              "/// @page examples An example of every function"
}

# ---- docs/api.md ----
pages && /^<!--/ { hidden = !/-->$/; output = /^<!-- output/; next }
pages && hidden { hidden = !/-->$/; next }
pages && /^# / { next }
pages && /^## / { print "/// @section example" ++sections " " substr($0, 4); next }
pages && /^```c/ { print "/// @code{.c}"; code = 1; next }
pages && /^```$/ && !code { print "/// It prints\n/// @code{.unparsed}"; code = 1; next }
pages && /^```$/ { print "/// @endcode\n///"; code = 0; next }
pages { print "/// " (code ? $0 : plain($0)); next }

# ---- the headers ----
/^\/\* (----|clang-format)/ { comment = ""; next }
/^\/\* / || inside {
    line = $0
    last = line ~ /\*\/$/
    sub(/^\/\* /, "", line)
    sub(/^ \* ?/, "", line)
    sub(/ ?\*\/$/, "", line)
    if (line ~ /^SPDX/) {
        line = "@file\n/// <pre>"
        pre = 1
    } else if (!inside)
        pre = !last
    if (line !~ /^@file/) {
        gsub(/&/, "\\&amp;", line)
        gsub(/</, "\\&lt;", line)
    }
    line = inside ? "\n/// " line : "/// " (pre && line !~ /^@file/ ? "<pre>" : "") line
    comment = inside ? comment line : line
    inside = !last
    if (last) {
        if (pre)
            comment = comment "</pre>"
        flush_comment()
        fresh = 1
    }
    next
}
/^LIMBER_API/ && !fresh && (after_function || after_type) { flush_comment() }
/^LIMBER_API/ { print_example($0) }
{
    if (match($0, /[;,{A-Za-z0-9_})] +\/\* /) && $0 ~ /^ / && !/"/)
        $0 = substr($0, 1, RSTART) " /**< " substr($0, RSTART + RLENGTH)
    if (/^LIMBER_API/)
        declaring = 1
    print
    fresh = 0
    after_type = /^}.*;$/
    after_function = declaring && /;$/
    if (after_function)
        declaring = 0
}
