# Prints what is wrong with the colours of a page of `limber report`, or "good": each colour of text
# and curves must have a contrast above 4.5 to the page, in the light and in the dark scheme (the
# formula of WCAG 2), and no other colours are allowed but shades of grey that are half transparent.
# Checks pictures of gnuplot and of limber.chart, too: an SVG's style sheet must give each colour of
# the picture another one for dark pages, and both must have that contrast.
function report(fault) {
    print fault
    ++faults
}
function channel(digits,    c) {
    c = (16 * (index(hex, substr(digits, 1, 1)) - 1) + index(hex, substr(digits, 2, 1)) - 1) / 255
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ^ 2.4
}
function luminance(colour) {
    return 0.2126 * channel(substr(colour, 2)) + 0.7152 * channel(substr(colour, 4)) \
           + 0.0722 * channel(substr(colour, 6))
}
function contrast(a, b) {
    a = luminance(a)
    b = luminance(b)
    return a > b ? (a + 0.05) / (b + 0.05) : (b + 0.05) / (a + 0.05)
}
# Checks one scheme: "--page:#ffffff;--text:#1a202c;--s0:...".
function check_scheme(list,    part, pair, n, i, page) {
    n = split(list, part, ";")
    for (i = 1; i <= n; i++) {
        split(part[i], pair, ":")
        if (pair[2] !~ /^#[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]$/)
            report(pair[1] " is no colour of six digits")
        else if (pair[1] == "--page")
            page = pair[2]
        else if (++colours && contrast(pair[2], page) <= 4.5)
            report(sprintf("%s: %s on %s has a contrast of %.2f", pair[1], pair[2], page,
                           contrast(pair[2], page)))
    }
}
# Returns six digits for a colour that an SVG's attribute names.
function svg_colour(text,    part) {
    if (text ~ /^rgb/) {
        split(substr(text, 5), part, /[,)]/)
        return sprintf("#%02x%02x%02x", part[1], part[2], part[3])
    }
    return text == "black" ? "#000000" : tolower(text)
}
function check_svg(    colour, page) {
    page = dark_of["#ffffff"]
    if (!page)
        report("no colour of dark pages")
    for (colour in dark_of)
        if (svg_colour(colour) != "#ffffff") {
            if (contrast(svg_colour(colour), "#ffffff") <= 4.5)
                report(sprintf("%s on #ffffff has a contrast of %.2f", colour,
                               contrast(svg_colour(colour), "#ffffff")))
            if (page && contrast(dark_of[colour], page) <= 4.5)
                report(sprintf("%s on %s has a contrast of %.2f", dark_of[colour], page,
                               contrast(dark_of[colour], page)))
        }
    for (colour in used)
        if (!(colour in dark_of))
            report(colour " has no colour for dark pages")
}
BEGIN { hex = "0123456789abcdef" }
/^<!DOCTYPE html>/ { html = 1 }
/<svg/ && !html { svg = 1 }
svg {
    line = $0
    while (match(line, /\[(color|fill|stroke)="[^"]*"\]\{[a-z]*:#[0-9a-f]*\}/)) {
        split(substr(line, RSTART, RLENGTH), pair, /"/)
        dark_of[pair[2]] = substr(line, RSTART + RLENGTH - 8, 7)
        line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
    }
    while (match(line, /[ \t](color|fill|stroke) *= *('[^']*'|"[^"]*")/)) {
        found = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        gsub(/^[^=]*= *.|.$/, "", found)
        # greys of grids, and of the background of texts in boxes, which no picture has
        if (found !~ /^(none|currentColor|gray|lightgrey|#888)$/)
            used[found] = 1
    }
    next
}
/^<style>|^@media/ && match($0, /:root\{[^}]*\}/) {
    ++schemes
    dark += /^@media\(prefers-color-scheme:dark\)/
    check_scheme(substr($0, RSTART + 6, RLENGTH - 7))
    sub(/:root\{[^}]*\}/, "")
}
{
    # text of the page may have a "#", so only values of attributes and of the style sheet count
    for (line = $0; match(line, /[": ]#[0-9a-f][0-9a-f][0-9a-f]+/); ) {
        found = substr(line, RSTART + 1, RLENGTH - 1)
        if (found != "#8886" && found != "#8888")
            report(found " is a colour of no scheme")
        line = substr(line, RSTART + RLENGTH)
    }
}
END {
    if (svg)
        check_svg()
    else if (schemes != 2 || dark != 1 || colours != 18)
        report(schemes + 0 " schemes, " dark + 0 " of them dark, " colours + 0 " colours")
    if (!faults)
        print "good"
}
