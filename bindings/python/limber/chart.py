# SPDX-License-Identifier: BSD-3-Clause
"""Charts of a few series as SVG."""
import math

from ._whole import writable, write_whole

# {on a light page: on a dark page} of the page, then of series; tools/cli/page.c has the same
PAGE = {"#ffffff": "#14181f"}
COLOURS = {"#0072b2": "#56b4e9", "#b34700": "#e69f00", "#a200f2": "#00ffaa", "#3c0059": "#ce3df2",
           "#a6634b": "#f23d55", "#661b00": "#a2f26d", "#1a202c": "#e2e8f0", "#6b7280": "#9aa3b2"}
TEXT = "#1a202c"
WIDTH, LEFT, TOP = 630, 70, 40    # width of the plot without the legend


def escape(text):
    """Text for SVG."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def width(text):
    """Upper bound of the width of a text of size 12 in most fonts (DejaVu Sans is wide)."""
    return sum(5 if c in " .,:;'|!iIjl()[]-/" else 11 if c in "mwMW@%" else 8.4 for c in str(text))


def rows(names, step):
    """Assigns names below the axis to rows, so that names in a row do not overlap."""
    ends, found = [], []
    for i, name in enumerate(names):
        left, right = i * step - width(name) / 2, i * step + width(name) / 2
        row = next((r for r, end in enumerate(ends) if end + 8 <= left), len(ends))
        ends[row:row + 1] = [right]
        found.append(row)
    return found


def dark_style():
    """Rules of CSS that replace the colours where the reader's pages are dark."""
    return "<style>@media(prefers-color-scheme:dark){" + "".join(
        f'.limber-chart[{of}="{light}"],.limber-chart [{of}="{light}"]{{{of}:{dark}}}'
        for light, dark in {**PAGE, **COLOURS}.items() for of in ("fill", "stroke")) + "}</style>"


def ticks(low, high):
    """About five round numbers in a range."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-300)))
    step = next(s for s in (step / 5, step / 2, step, step * 2, step * 5) if (high - low) / s <= 6)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def powers(low, high):
    """The numbers 1, 2, 5 times powers of 10 in a range."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [m * 10.0 ** e for e in range(first, last + 1) for m in (1, 2, 5)]
    return [v for v in every if low <= v <= high]


def joined(series, heights):
    """Joins series that are everywhere within a pixel of each other; heights(value) gives the
    heights in pixels at which a value is drawn, or None."""
    kept = []                                               # of [names, values, heights]
    for name, values in series.items():
        now = [heights(v) for v in values]
        for names, _, other in kept:
            if all(a is b if a is None or b is None else
                   all(abs(x - y) < 1 for x, y in zip(a, b)) for a, b in zip(now, other)):
                names.append(str(name))
                break
        else:
            kept.append(([str(name)], values, now))
    return {" and ".join(names if len(names) < 5 else [*names[:3], f"{len(names) - 3} more"]):
            values for names, values, _ in kept}


def chart(path, title, across, up, names, series, log=False, lines=False, base=None):
    """Draws series over named places.

    across, up   what the axes are
    names        of the places, from left to right
    series       {name: [value or None or (low, middle, high) for each place]}
    log          a scale of powers of 10, on which a 0 is drawn at the lower edge, hollow
    lines        joins a series' values; series that lie on each other are drawn once, under the
                 names of all
    base         draws bars from this value up or down, on a scale of powers; those of a place are
                 beside each other, without gaps for series that have no value there

    The file appears when it is whole."""
    def middle(value):
        """The value, or the middle one of (low, middle, high)."""
        return value[1] if isinstance(value, tuple) else value

    def ends(value):
        """The least and the greatest height that a value is drawn at."""
        return (value[0], value[2]) if isinstance(value, tuple) else (value, value)

    every = [e for values in series.values() for v in values if v is not None for e in ends(v)]
    if base is not None:
        every = [v for v in every if v > 0] + [base]
        low, high = math.log10(min(every) / 1.2), math.log10(max(every) * 1.2)
        marks = [(math.log10(v), f"{v:g}") for v in powers(10 ** low, 10 ** high)]
        log = True
    elif log:
        every = [math.log10(v) for v in every if v > 0] or [0]
        low, high = math.floor(min(every)) - 1, math.ceil(max(every))
        step = -(-(high - low) // 9)
        marks = [(i, f"1e{i}") for i in range(low + 1, high + 1, step)]
    else:
        low, high = min(every), max(every)
        spread = (high - low) or 1
        low, high = low - 0.05 * spread, high + 0.05 * spread
        marks = [(v, f"{v:.6g}") for v in ticks(low, high)]

    def y(value):
        """The height in pixels of a value."""
        if log:
            value = math.log10(value) if value > 0 else low
        return TOP + (bottom - TOP) * (high - value) / ((high - low) or 1)

    bottom = TOP + 280                                      # the lower edge of what is drawn
    if lines:
        series = joined(series, lambda v: v if v is None else [*map(y, (middle(v), *ends(v)))])
    step = (WIDTH - LEFT) / len(names)
    row = rows(names, step)
    height = bottom + 46 + 14 * max(row)
    whole = max(WIDTH + 36 + max(map(width, series)), LEFT + width(title) * 15 / 12)

    def x(i):
        """The middle of place i in pixels from the left."""
        return LEFT + step * (i + 0.5)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole:.0f} {height}" '
           f'font-family="sans-serif" font-size="12" class="limber-chart" fill="{TEXT}">'
           f'<title>{escape(title)}</title>{dark_style()}'
           f'<rect width="{whole:.0f}" height="{height}" fill="{next(iter(PAGE))}"/>'
           f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>'
           f'<text x="{(LEFT + WIDTH) / 2}" y="{height - 8}" text-anchor="middle">'
           f'{escape(across)}</text><text transform="translate(14 {(TOP + bottom) / 2}) '
           f'rotate(-90)" text-anchor="middle">{escape(up)}</text>']
    for value, label in marks:
        at = y(10 ** value if log else value)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH}" stroke="#888" stroke-opacity=".4"/>'
                   f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for i, name in enumerate(names):
        out.append(f'<text x="{x(i):.1f}" y="{bottom + 18 + 14 * row[i]}" text-anchor="middle">'
                   f'{escape(name)}</text>')
    present = [[s for s, values in enumerate(series.values()) if values[i] is not None]
               for i in range(len(names))]
    wide = 0.8 * step / max(1, *map(len, present))          # of a bar
    for s, (name, values) in enumerate(series.items()):
        colour = list(COLOURS)[s % len(COLOURS)]
        shift = 0 if lines else (s - (len(series) - 1) / 2) * 7
        places = [(x(i) + shift, v) for i, v in enumerate(values) if v is not None]
        if base is not None:
            places = [(x(i) + (present[i].index(s) - (len(present[i]) - 1) / 2) * wide, v)
                      for i, v in enumerate(values) if v is not None]
        if lines and len(places) > 1:
            points = " ".join(f"{at:.1f},{y(middle(v)):.1f}" for at, v in places)
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        for at, v in places if base is not None else ():
            upper, lower = sorted((y(v), y(base)))
            out.append(f'<rect x="{at - wide / 2:.1f}" y="{upper:.1f}" width="{wide:.1f}" '
                       f'height="{lower - upper:.1f}" fill="{colour}"><title>{escape(name)}: '
                       f'{v:.4g}</title></rect>')
        for at, v in places if base is None else ():
            if isinstance(v, tuple):
                out.append(f'<path d="M{at:.1f} {y(v[0]):.1f}V{y(v[2]):.1f}" stroke="{colour}"/>')
            fill = "none" if log and not middle(v) else colour
            out.append(f'<circle cx="{at:.1f}" cy="{y(middle(v)):.1f}" r="4" fill="{fill}" '
                       f'stroke="{colour}"><title>{escape(name)}: {middle(v):.4g}</title></circle>')
        at = TOP + 18 * s
        out.append(f'<circle cx="{WIDTH + 14}" cy="{at}" r="4" fill="{colour}"/>'
                   f'<text x="{WIDTH + 24}" y="{at + 4}">{escape(name)}</text>')
    if base is not None:
        out.append(f'<path d="M{LEFT} {y(base):.1f}H{WIDTH}" stroke="{TEXT}"/>')
    write_whole(path, "\n".join(out) + "</svg>\n")
