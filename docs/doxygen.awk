# The headers as Doxygen reads them.  A comment before a declaration is its text, line by line as it
# stands; one behind a field is that field's.  A function without a comment that follows another
# function, or a type, has the comment of that one.
function flush_comment()
{
    if (comment != "")
        print "/** " comment " */"
}
/^\/\* (----|clang-format)/ { comment = ""; next }
/^\/\* / || inside {
    line = $0
    last = line ~ /\*\/$/
    sub(/^\/\* /, "", line)
    sub(/^ \* ?/, "", line)
    sub(/ ?\*\/$/, "", line)
    if (line ~ /^SPDX/) {
        line = "@file"
        pre = 0
    } else if (!inside)
        pre = !last
    gsub(/&/, "\\\&", line)
    gsub(/</, "\\<", line)
    comment = inside ? comment "\n * " line : (pre ? "<pre>" line : line)
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
