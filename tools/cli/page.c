/* SPDX-License-Identifier: BSD-3-Clause
 * Writes self-contained HTML: headings, table cells, charts. */
#include "tools/cli/page.h"
#include "tools/plain_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* units of a chart: at 400 pixels, the width of a telephone, its text is still legible */
enum { WIDTH = 440, HEIGHT = 320, LEFT = 76, TOP = 12, RIGHT = 14, BOTTOM = 50 };
enum { MOST_TICKS = 14, LABEL = 48, BAR = 160, SHAPES = 3 };

/* colours of curves that other code names */
enum { BLUE = 0, ORANGE = 1, GREY = 7 };

const struct colours light_colours = { "#ffffff",
                                       "#1a202c",
                                       { "#0072b2", "#b34700", "#a200f2", "#3c0059", "#a6634b",
                                         "#661b00", "#1a202c", "#6b7280" } },
                     dark_colours = { "#14181f",
                                      "#e2e8f0",
                                      { "#56b4e9", "#e69f00", "#00ffaa", "#ce3df2", "#f23d55",
                                        "#a2f26d", "#e2e8f0", "#9aa3b2" } };

/* Writes text to an HTML page, with markup characters escaped. */
void page_text(FILE *f, const char *s)
{
    char *plain = plain_text_of(s);

    for (const char *c = plain ? plain : ""; *c; c++)
        switch (*c) {
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '&': fputs("&amp;", f); break;
        case '"': fputs("&quot;", f); break;
        default: fputc(*c, f);
        }
    free(plain);
}

/* Writes the colours as variables of the style sheet. */
static void write_colours(FILE *f, const struct colours *c)
{
    fprintf(f, ":root{--page:%s;--text:%s", c->page, c->text);
    for (int i = 0; i < COLOURS; i++)
        fprintf(f, ";--s%d:%s", i, c->curve[i]);
    fputs("}", f);
}

/* Writes the head of an HTML page, with its style sheet. */
void page_begin(FILE *f, const char *title)
{
    fputs("<!DOCTYPE html>\n<html lang=en><meta charset=utf-8>"
          "<meta name=viewport content=\"width=device-width\"><title>Limber: ",
          f);
    page_text(f, title);
    fputs("</title>\n<style>html{color-scheme:light dark}", f);
    write_colours(f, &light_colours);
    fputs("\n@media(prefers-color-scheme:dark){", f);
    write_colours(f, &dark_colours);
    fputs("}\n", f);
    for (int i = 0; i < COLOURS; i++)
        fprintf(f, ".s%d{color:var(--s%d)}", i, i);
    fputs("\nbody{font:15px/1.5 sans-serif;margin:2em auto;max-width:80em;padding:0 1em;"
          "color:var(--text);background:var(--page)}h1{font-size:1.4em;overflow-wrap:anywhere}"
          "div{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.2em .6em;"
          "text-align:left;border-bottom:1px solid #8886;font-size:14px}td.n{text-align:right;"
          "font-variant-numeric:tabular-nums}td.n,td.w{white-space:nowrap}"
          "p.good,p.bad{padding:.5em .8em;border-left:5px solid var(--s0);font-weight:bold}"
          "p.bad{border-color:var(--s1)}svg text{fill:currentColor}"
          "figure{margin:1em 0;max-width:560px}figcaption{font-weight:bold}"
          "svg.chart{display:block;width:100%;height:auto}"
          "figure ul{display:flex;flex-wrap:wrap;gap:0 1em;list-style:none;margin:.3em 0;padding:0;"
          "font-size:13px;overflow-wrap:anywhere}"
          "@media(max-width:30em){body{margin:1em auto}td,th{padding:.2em .3em;font-size:13px}}"
          "</style>\n",
          f);
}

void page_end(FILE *f)
{
    fputs("</html>\n", f);
}

/* ---- cells of tables ------------------------------------------------------------------------- */

/* Writes a table cell with a number, or an empty one for NaN. */
void page_number(FILE *f, double x)
{
    fputs("<td class=n>", f);
    if (!isnan(x))
        fprintf(f, "%.4g", x);
    fputs("</td>", f);
}

/* Writes a table cell with a bar.  most: value of the longest bar; beside: value at which a line is
 * drawn, 0 for no line. */
void page_bar(FILE *f, double x, double most, double beside, bool grey)
{
    double width = most > 0 ? BAR * x / most : 0;

    if (!isfinite(x)) {
        fputs("<td></td>", f);
        return;
    }
    fprintf(f,
            "<td><svg width=\"%d\" height=\"16\" role=\"img\"><rect width=\"%.1f\" height=\"16\" "
            "fill=\"currentColor\" class=s%d />",
            BAR + 4, width < 1 ? 1 : width, grey ? GREY : BLUE);
    if (beside > 0 && beside < most)
        fprintf(f, "<rect x=\"%.1f\" width=\"3\" height=\"16\" fill=\"currentColor\" class=s%d />",
                BAR * beside / most, ORANGE);
    fprintf(f, "</svg></td>");
}

/* Writes a table's cell with a small plot of a ratio on a logarithmic axis, which ends at 1/16
 * and 16. */
void page_ratio(FILE *f, double ratio)
{
    double x = 80 + 18 * fmax(-4, fmin(4, log2(ratio)));

    if (!(ratio > 0) || isinf(ratio)) {
        fputs("<td></td>", f);
        return;
    }
    fprintf(f,
            "<td><svg width=\"160\" height=\"16\" role=\"img\"><title>%.3g</title>"
            "<path d=\"M8 8H152\" stroke=\"#8888\"/><path d=\"M80 1V15\" stroke=\"currentColor\"/>"
            "<circle cx=\"%.1f\" cy=\"8\" r=\"5\" fill=\"currentColor\" class=s%d /></svg></td>",
            ratio, x, ratio < 1 ? ORANGE : BLUE);
}

/* ---- charts as SVG --------------------------------------------------------------------------- */

/* An axis, which maps [low, high], in units of its scale, to pixels [from, to]. */
struct axis {
    double low, high, from, to;
    int base; /* base of the logarithm; 0 for a linear axis */
    double tick[MOST_TICKS];
    int ticks;
};

/* Returns x on the axis's scale: linear or logarithmic. */
static double to_scale(const struct axis *a, double x)
{
    return a->base == 2 ? log2(x) : a->base == 10 ? log10(x) : x;
}

static bool is_in_range(const struct axis *a, double x)
{
    return isfinite(x) && (!a->base || x >= 0);
}

/* Returns the pixel of value x.  On a logarithmic axis 0 is at the lower end. */
static double pixel_of(const struct axis *a, double x)
{
    double at = a->base && x <= 0 ? a->low : to_scale(a, x);

    return a->from + (a->to - a->from) * (at - a->low) / (a->high - a->low);
}

/* Extends an axis so that it includes x, if the axis can show x. */
static void include_value(struct axis *a, double x)
{
    if (is_in_range(a, x) && (!a->base || x > 0)) {
        a->low = fmin(a->low, to_scale(a, x));
        a->high = fmax(a->high, to_scale(a, x));
    }
}

/* Adds a tick to an axis, once. */
static void add_tick(struct axis *a, double x)
{
    for (int i = 0; i < a->ticks; i++)
        if (a->tick[i] == x)
            return;
    if (a->ticks < MOST_TICKS)
        a->tick[a->ticks++] = x;
}

/* Adds about five ticks at round numbers. */
static void add_round_ticks(struct axis *a)
{
    static const double steps[] = { 0.2, 0.5, 1, 2, 5 };
    double range = a->high - a->low, unit = pow(10, floor(log10(range))), step = unit;
    size_t i = 0;

    while (i < 4 && range / (steps[i] * unit) > 6)
        i++;
    step = steps[i] * unit;
    a->ticks = 0;
    for (double t = ceil(a->low / step); t * step <= a->high + 1e-9 * step; t++)
        add_tick(a, t * step + 0.0); /* adding 0.0 turns -0 into 0 */
}

/* Adds ticks at powers of the base.  If fewer than three powers of 10 are in range, also adds ticks
 * at twice and five times these. */
static void add_power_ticks(struct axis *a)
{
    static const double between[] = { 1, 2, 5 };
    double range = a->high - a->low, step = fmax(1, ceil(range / 8));
    int parts = a->base == 10 && range < 3 ? 3 : 1;

    a->ticks = 0;
    for (double t = floor(a->low); t <= a->high + 1e-9; t += step)
        for (int i = 0; i < parts; i++) {
            double x = pow(a->base, t) * between[i];

            if (to_scale(a, x) >= a->low - 1e-9 && to_scale(a, x) <= a->high + 1e-9)
                add_tick(a, x);
        }
}

static bool has_points(const struct chart *c)
{
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < c->curve[i].n; j++)
            if (isfinite(c->curve[i].point[j].x) && isfinite(c->curve[i].point[j].y))
                return true;
    return false;
}

/* Sets up the x axis, with a tick at each value if values are few and integers. */
static void set_up_x(const struct chart *c, struct axis *a)
{
    bool whole = true;

    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < c->curve[i].n; j++) {
            include_value(a, c->curve[i].point[j].x);
            add_tick(a, c->curve[i].point[j].x);
            whole &= c->curve[i].point[j].x == rint(c->curve[i].point[j].x);
        }
    if (!(a->low <= a->high))
        a->low = a->high = 0;
    if (a->high - a->low < 1e-12 * fmax(1, fabs(a->high)))
        a->low -= 0.5, a->high += 0.5;
    if (a->ticks == MOST_TICKS || !whole)
        (a->base ? add_power_ticks : add_round_ticks)(a);
}

/* Sets up the y axis, with the range of all points and intervals. */
static void set_up_y(const struct chart *c, struct axis *a)
{
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < c->curve[i].n; j++) {
            const struct point *p = &c->curve[i].point[j];

            include_value(a, p->y);
            include_value(a, p->low);
            include_value(a, p->high);
        }
    if (!(a->low <= a->high))
        a->low = a->high = 0;
    if (a->base) {
        double more = fmax(0.05 * (a->high - a->low), 0.15);

        a->low -= more;
        a->high += more;
        add_power_ticks(a);
    } else {
        double more = a->high > a->low ? 0.05 * (a->high - a->low) : fmax(fabs(a->high) / 10, 0.5);

        a->low -= more;
        a->high += more;
        add_round_ticks(a);
    }
}

/* Draws both axes, with ticks and labels. */
static void draw_axes(FILE *f, const struct axis *x, const struct axis *y)
{
    double last = -LABEL;

    for (int i = 0; i < y->ticks; i++) {
        double at = pixel_of(y, y->tick[i]);

        fprintf(
            f,
            "<path d=\"M%d %.1fH%d\" stroke=\"#8888\"/><text class=\"tick\" x=\"%d\" y=\"%.1f\" "
            "text-anchor=\"end\">%.6g</text>\n",
            LEFT, at, WIDTH - RIGHT, LEFT - 6, at + 4, y->tick[i]);
    }
    /* labels from left to right, without those that would overlap */
    for (double next = 0; next < INFINITY;) {
        double value = 0;

        next = INFINITY;
        for (int i = 0; i < x->ticks; i++)
            if (is_in_range(x, x->tick[i]) && pixel_of(x, x->tick[i]) >= last + LABEL &&
                pixel_of(x, x->tick[i]) < next) {
                value = x->tick[i];
                next = pixel_of(x, value);
            }
        if (next < INFINITY)
            fprintf(f,
                    "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g"
                    "</text>\n",
                    next, HEIGHT - BOTTOM + 16, value);
        last = next;
    }
}

static int by_x(const void *a, const void *b)
{
    const struct point *p = a, *q = b;

    return p->x < q->x ? -1 : p->x > q->x ? 1 : 0;
}

/* Draws a mark of the i-th curve: a circle, square or diamond.  Curves next to each other differ
 * in colour and shape, and 24 in one of them. */
static void draw_mark(FILE *f, int i, double x, double y, bool hollow)
{
    switch (i % SHAPES) {
    case 0: fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", x, y); break;
    case 1: fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\"", x - 4, y - 4); break;
    default: fprintf(f, "<path d=\"M%.1f %.1fl5 5-5 5-5-5z\"", x, y - 5);
    }
    fprintf(f, " fill=\"%s\" stroke=\"currentColor\" class=s%d>", hollow ? "none" : "currentColor",
            i % COLOURS);
}

/* Closes the element that draw_mark() has opened for curve i. */
static void end_mark(FILE *f, int i)
{
    static const char *const names[SHAPES] = { "circle", "rect", "path" };

    fprintf(f, "</%s>", names[i % SHAPES]);
}

/* Writes the legend: each curve's mark and name. */
static void write_legend(FILE *f, const struct chart *c)
{
    fputs("<ul>", f);
    for (int i = 0; i < c->n; i++) {
        fputs("<li><svg width=\"14\" height=\"14\">", f);
        draw_mark(f, i, 7, 7, false);
        end_mark(f, i);
        fputs("</svg> ", f);
        page_text(f, c->curve[i].name);
        fputs("</li>\n", f);
    }
    fputs("</ul>", f);
}

/* Draws a curve: its line, its points, and their intervals. */
static void draw_curve(FILE *f, const struct chart *c, int i, const struct axis *x,
                       const struct axis *y)
{
    const struct curve *curve = &c->curve[i];
    int strokes = 0;

    if (c->lines)
        for (int j = 0; j < curve->n; j++) {
            const struct point *p = &curve->point[j];

            if (is_in_range(x, p->x) && is_in_range(y, p->y))
                fprintf(f, "%s%.1f,%.1f", strokes++ ? " " : "<polyline points=\"",
                        pixel_of(x, p->x), pixel_of(y, p->y));
        }
    if (strokes)
        fprintf(f, "\" fill=\"none\" stroke=\"currentColor\" class=s%d />\n", i % COLOURS);
    for (int j = 0; j < curve->n; j++) {
        const struct point *p = &curve->point[j];

        if (!is_in_range(x, p->x) || !is_in_range(y, p->y))
            continue;
        if (is_in_range(y, p->low) && is_in_range(y, p->high))
            fprintf(f, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"currentColor\" class=s%d />",
                    pixel_of(x, p->x), pixel_of(y, p->low), pixel_of(y, p->high), i % COLOURS);
        draw_mark(f, i, pixel_of(x, p->x), pixel_of(y, p->y), c->log_y && p->y == 0);
        fputs("<title>", f);
        page_text(f, curve->name);
        fprintf(f, ": %.6g, %.4g</title>", p->x, p->y);
        end_mark(f, i);
        fputs("\n", f);
    }
}

/* Draws a chart: its title, axes and curves as an SVG element, a legend. */
void page_chart(FILE *f, const struct chart *c)
{
    struct axis x = { .low = INFINITY,
                      .high = -INFINITY,
                      .from = LEFT + 20,
                      .to = WIDTH - RIGHT - 20,
                      .base = c->log_x ? 2 : 0 };
    struct axis y = { .low = INFINITY,
                      .high = -INFINITY,
                      .from = HEIGHT - BOTTOM,
                      .to = TOP,
                      .base = c->log_y ? 10 : 0 };

    if (!has_points(c))
        return;
    set_up_x(c, &x);
    set_up_y(c, &y);
    fputs("<figure><figcaption>", f);
    page_text(f, c->title);
    fprintf(f,
            "</figcaption>\n<svg class=chart role=\"img\" viewBox=\"0 0 %d %d\" font-size=\"12\">"
            "<title>",
            WIDTH, HEIGHT);
    page_text(f, c->title);
    fprintf(f, "</title>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    page_text(f, c->across);
    fprintf(f, "</text>\n<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">",
            (TOP + HEIGHT - BOTTOM) / 2);
    page_text(f, c->up);
    fputs("</text>\n", f);
    draw_axes(f, &x, &y);
    for (int i = 0; i < c->n; i++) {
        qsort(c->curve[i].point, (size_t)c->curve[i].n, sizeof *c->curve[i].point, by_x);
        draw_curve(f, c, i, &x, &y);
    }
    fputs("</svg>\n", f);
    write_legend(f, c);
    fputs("</figure>\n", f);
}
