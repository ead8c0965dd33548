# SPDX-License-Identifier: BSD-3-Clause
"""Charts of a few series as SVG."""
import math

from ._whole import write_whole

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#888888"]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 380, 70, 40, 130, 60


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def ticks(low, high):
    """About five round numbers of a range."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-300)))
    step = next(s for s in (step / 5, step / 2, step, step * 2, step * 5) if (high - low) / s <= 6)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(path, title, across, up, names, series, log=False, lines=False):
    """Draws series over named places.

    across, up   what the axes are
    names        of the places, from left to right
    series       {name: [value or None or (low, middle, high) for each place]}
    log          a scale of powers of 10, on which a 0 is drawn at the lower edge, hollow
    lines        joins a series' values

    The file appears when it is whole."""
    def middle(value):
        return value[1] if isinstance(value, tuple) else value

    def ends(value):
        return (value[0], value[2]) if isinstance(value, tuple) else (value, value)

    every = [e for values in series.values() for v in values if v is not None for e in ends(v)]
    if log:
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
        if log:
            value = math.log10(value) if value > 0 else low
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / ((high - low) or 1)

    def x(i):
        return LEFT + (WIDTH - LEFT - RIGHT) * (i + 0.5) / len(names)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>'
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
           f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>'
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
           f'{escape(across)}</text><text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) '
           f'rotate(-90)" text-anchor="middle">{escape(up)}</text>']
    for value, label in marks:
        at = y(10 ** value if log else value)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for i, name in enumerate(names):
        down = 18 if i % 2 == 0 or len(names) <= 6 else 32      # two rows keep many apart
        out.append(f'<text x="{x(i):.1f}" y="{HEIGHT - BOTTOM + down}" text-anchor="middle">'
                   f'{escape(name)}</text>')
    for s, (name, values) in enumerate(series.items()):
        colour = COLOURS[s % len(COLOURS)]
        shift = 0 if lines else (s - (len(series) - 1) / 2) * 7
        places = [(x(i) + shift, v) for i, v in enumerate(values) if v is not None]
        if lines and len(places) > 1:
            points = " ".join(f"{at:.1f},{y(middle(v)):.1f}" for at, v in places)
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        for at, v in places:
            if isinstance(v, tuple):
                out.append(f'<path d="M{at:.1f} {y(v[0]):.1f}V{y(v[2]):.1f}" stroke="{colour}"/>')
            fill = "none" if log and not middle(v) else colour
            out.append(f'<circle cx="{at:.1f}" cy="{y(middle(v)):.1f}" r="4" fill="{fill}" '
                       f'stroke="{colour}"><title>{escape(name)}: {middle(v):.4g}</title></circle>')
        at = TOP + 18 * s
        out.append(f'<circle cx="{WIDTH - RIGHT + 14}" cy="{at}" r="4" fill="{colour}"/>'
                   f'<text x="{WIDTH - RIGHT + 24}" y="{at + 4}">{escape(name)}</text>')
    write_whole(path, "\n".join(out) + "</svg>\n")
