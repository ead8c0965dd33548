/* SPDX-License-Identifier: BSD-3-Clause
 * limber plan --svg: draws exponents and bits of the operands' tiles, groups of lines, and the
 * scheme that computes each part of C.  Cells of one colour are one SVG path, in which adjacent
 * cells are merged to rectangles.  Sources of colours: viridis and cividis (van der Walt, Smith,
 * 2015; Nunez et al., 2018), whose steps look equal; schemes have those of Tol (2021). */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/cli/page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* CELLS: cells along a side of a drawn matrix. The others are pixels: SIDE and LEAST of the longest
 * and the shortest side, STRIP of the strips that show groups of lines, ROW of a line of text. */
enum {
    CELLS = 256,
    SIDE = 280,
    LEAST = 16,
    STRIP = 9,
    GAP = 58,
    ROW = 17,
    LEFT = 24,
    TOP = 64,
    LEVELS = 24
};
/* codes of cells; codes from CODE_first on are levels of colour, or rectangles of C */
enum { CODE_zero, CODE_special, CODE_first };

static const uint32_t viridis[] = { 0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e,
                                    0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725 };
static const uint32_t cividis[] = { 0x00224e, 0x123570, 0x3b496c, 0x575d6d, 0x707173,
                                    0x8a8678, 0xa59c74, 0xc3b369, 0xe1cc55, 0xfee838 };
static const char *const group_colour[] = { "#999999", "#e69f00", "#000000" };
static const char *const scheme_colour[] = { "#4477aa", "#ee6677", "#228833", "#ccbb44",
                                             "#66ccee", "#aa3377", "#bbbbbb" };
enum {
    STOPS = sizeof viridis / sizeof *viridis,
    SCHEMES = sizeof scheme_colour / sizeof *scheme_colour
};

/* A scale of colours, for values from least to most. */
struct scale {
    const uint32_t *stop;
    int least, most;
};

/* The drawing of a plan. */
struct drawing {
    FILE *f;
    const struct cli_product *p;
    const limber_inspection *inspection;
    const limber_cut *cut;
    const limber_report *r;
    double pixels; /* pixels for each element */
    struct scale exponents, bits;
    const char *scheme[LIMBER_PARTS];
    int schemes;
};

/* A rectangle, in pixels. */
struct box {
    double x, y, w, h;
};

/* ---- colours and text ------------------------------------------------------------------------ */

/* Returns the colour between a (t = 0) and b (t = 1), as 0xRRGGBB. */
static uint32_t blend(uint32_t a, uint32_t b, double t)
{
    uint32_t colour = 0;

    for (int shift = 0; shift < 24; shift += 8) {
        double from = a >> shift & 255, to = b >> shift & 255;

        colour |= (uint32_t)lround(from + t * (to - from)) << shift;
    }
    return colour;
}

/* Returns the colour of a scale at t, 0 <= t <= 1. */
static uint32_t colour_at(const struct scale *s, double t)
{
    int i = (int)(t * (STOPS - 1));

    i = i > STOPS - 2 ? STOPS - 2 : i;
    return blend(s->stop[i], s->stop[i + 1], t * (STOPS - 1) - i);
}

/* Number of colours of a scale: one for each value, at most LEVELS. */
static int level_count(const struct scale *s)
{
    return s->most - s->least + 1 < LEVELS ? s->most - s->least + 1 : LEVELS;
}

static int level_of(const struct scale *s, int x)
{
    return (int)((int64_t)(x - s->least) * level_count(s) / (s->most - s->least + 1));
}

static uint32_t level_colour(const struct scale *s, int level)
{
    return colour_at(s, level_count(s) > 1 ? (double)level / (level_count(s) - 1) : 0.5);
}

static void draw_text(const struct drawing *d, double x, double y, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void draw_text(const struct drawing *d, double x, double y, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(d->f, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    page_text(d->f, text);
    fputs("</text>\n", d->f);
}

static void draw_rectangle(const struct drawing *d, struct box b, const char *fill,
                           const char *stroke)
{
    fprintf(
        d->f,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"%s\"/>\n",
        b.x, b.y, b.w, b.h, fill, stroke);
}

/* ---- cells ----------------------------------------------------------------------------------- */

struct field {
    struct grid g;
    uint8_t code[CELLS][CELLS];
};

/* Removes the rectangle of equal cells that begins at (y, x) and is extended first to the right,
 * then down.  *h, *w: its size. */
static void take_rectangle(struct field *f, int64_t y, int64_t x, int64_t *h, int64_t *w)
{
    uint8_t code = f->code[y][x];
    bool equal = true;

    for (*w = 0; x + *w < f->g.across && f->code[y][x + *w] == code;)
        ++*w;
    for (*h = 0; equal && y + *h < f->g.down;) {
        for (int64_t i = 0; i < *w && equal; i++)
            equal = f->code[y + *h][x + i] == code;
        *h += equal;
    }
    for (int64_t i = 0; i < *h; i++)
        memset(&f->code[y + i][x], CODE_zero, (size_t)*w);
}

/* Coordinate of edge i of n equal cells, rounded to the tenths in which it is written. */
static double cell_edge(double from, double size, int64_t i, int64_t n)
{
    return round(10 * (from + size * (double)i / (double)n)) / 10;
}

/* Draws all cells of the field that have this code as one path of rectangles, and removes them
 * from the field. */
static void draw_code(const struct drawing *d, struct field *f, struct box b, uint8_t code,
                      const char *fill)
{
    bool any = false;

    for (int64_t y = 0; y < f->g.down; y++)
        for (int64_t x = 0; x < f->g.across; x++) {
            int64_t h, w;
            double left, top;

            if (f->code[y][x] != code)
                continue;
            if (!any)
                fprintf(d->f, "<path fill=\"%s\" d=\"", fill);
            any = true;
            take_rectangle(f, y, x, &h, &w);
            left = cell_edge(b.x, b.w, x, f->g.across);
            top = cell_edge(b.y, b.h, y, f->g.down);
            fprintf(d->f, "M%g %gh%gv%gH%gz", left, top,
                    cell_edge(b.x, b.w, x + w, f->g.across) - left,
                    cell_edge(b.y, b.h, y + h, f->g.down) - top, left);
        }
    if (any)
        fputs("\"/>\n", d->f);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Draws all cells of a field: special values red, zeros left blank, all others in the scale's
 * colours. */
static void draw_field(const struct drawing *d, struct field *f, struct box b,
                       const struct scale *s)
{
    draw_code(d, f, b, CODE_special, "#e31a1c");
    for (int i = 0; i < level_count(s); i++) {
        char fill[16];

        snprintf(fill, sizeof fill, "#%06x", (unsigned)level_colour(s, i));
        draw_code(d, f, b, (uint8_t)(CODE_first + i), fill);
    }
    draw_rectangle(d, b, "none", "#999");
}

/* Draws the tiles of A (side 0) or B (side 1) in box b, coloured by significant bits or by
 * largest exponents. */
static void draw_operand(const struct drawing *d, int side, bool bits, struct box b)
{
    const struct scale *s = bits ? &d->bits : &d->exponents;
    struct field f = { .g = inspection_grid(&d->inspection[side], side, CELLS, CELLS) };

    for (int64_t y = 0; y < f.g.down; y++)
        for (int64_t x = 0; x < f.g.across; x++) {
            struct cell c = inspection_cell(&d->inspection[side], side, &f.g, y, x);

            f.code[y][x] = (uint8_t)(c.special ? CODE_special :
                                     c.zero    ? CODE_zero :
                                                 CODE_first + level_of(s, bits ? c.bits : c.emax));
        }
    draw_field(d, &f, b, s);
}

/* Draws the groups of an operand's blocks beside the result: A's on the left, B's on top. */
static void draw_groups(const struct drawing *d, int side, struct box of)
{
    int64_t n = d->cut->blocks[side], step = (n + CELLS - 1) / CELLS;
    struct field f = { .g = { .down = 1, .across = 1 } };
    struct box b = side ? (struct box){ of.x, of.y - STRIP - 2, of.w, STRIP } :
                          (struct box){ of.x - STRIP - 2, of.y, STRIP, of.h };

    if (n == 0)
        return;
    *(side ? &f.g.across : &f.g.down) = (n + step - 1) / step;
    for (int64_t i = 0; i < n; i += step)
        f.code[side ? 0 : i / step][side ? i / step : 0] =
            (uint8_t)(CODE_first + d->cut->group[side][i]);
    for (int g = 0; g < (int)(sizeof group_colour / sizeof *group_colour); g++)
        draw_code(d, &f, b, (uint8_t)(CODE_first + g), group_colour[g]);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Index of a scheme in the legend; the number of schemes if it is not there yet. */
static int scheme_of(const struct drawing *d, const char *name)
{
    int i = 0;

    while (i < d->schemes && strcmp(d->scheme[i], name))
        i++;
    return i;
}

static const char *colour_of(const struct drawing *d, const char *scheme)
{
    return scheme_colour[scheme_of(d, scheme) % SCHEMES];
}

/* Defines a fill pattern whose stripes are as wide as the shares of a rectangle's parts.  Work that
 * tiles of zeros save stays white. */
static void define_stripes(const struct drawing *d, int g, int h)
{
    enum { PERIOD = 12 };
    double at = 0, all = 0;

    fprintf(d->f,
            "<pattern id=\"c%d%d\" width=\"%d\" height=\"%d\" patternUnits=\"userSpaceOnUse\" "
            "patternTransform=\"rotate(45)\"><rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>",
            g, h, PERIOD, PERIOD, PERIOD, PERIOD);
    for (int i = 0; i < d->r->parts; i++) {
        const limber_part *p = &d->r->part[i];

        if (p->group[0] != g || p->group[1] != h)
            continue;
        all = (double)p->m * (double)p->n / ((double)d->p->c.dim[0] * (double)d->p->c.dim[1]);
        fprintf(d->f, "<rect x=\"%.3f\" width=\"%.3f\" height=\"%d\" fill=\"%s\"/>", at,
                PERIOD * p->share / all, PERIOD, colour_of(d, p->scheme));
        at += PERIOD * p->share / all;
    }
    fputs("</pattern>\n", d->f);
}

/* Draws C in box b, each cell with the stripes of its groups of A and B, or all in the scheme's
 * colour if C is not cut. */
static void draw_result(const struct drawing *d, struct box b)
{
    const limber_cut *c = d->cut;
    int64_t dy = (c->blocks[0] + CELLS - 1) / CELLS, dx = (c->blocks[1] + CELLS - 1) / CELLS;
    struct field f = { .g = { .dy = dy, .dx = dx } };

    if (c->parts == 0) {
        draw_rectangle(d, b, colour_of(d, d->r->scheme), "#999");
        return;
    }
    f.g.down = (c->blocks[0] + dy - 1) / dy;
    f.g.across = (c->blocks[1] + dx - 1) / dx;
    for (int64_t y = 0; y < f.g.down; y++)
        for (int64_t x = 0; x < f.g.across; x++)
            f.code[y][x] = (uint8_t)(CODE_first + 3 * c->group[0][y * dy] + c->group[1][x * dx]);
    for (int i = 0; i < 9; i++) {
        char fill[16];

        snprintf(fill, sizeof fill, "url(#c%d%d)", i / 3, i % 3);
        draw_code(d, &f, b, (uint8_t)(CODE_first + i), fill);
    }
    draw_rectangle(d, b, "none", "#999");
    draw_groups(d, 0, b);
    draw_groups(d, 1, b);
}

/* ---- legends --------------------------------------------------------------------------------- */

/* Draws a scale of colours at (x, y), with numbers below and the title `what` above it. */
static void draw_scale(const struct drawing *d, const struct scale *s, double x, double y,
                       const char *what)
{
    enum { LENGTH = 200, TICKS = 5 };
    int n = level_count(s), ticks = n < TICKS ? n : TICKS;

    draw_text(d, x, y, "%s", what);
    for (int i = 0; i < n; i++) {
        char fill[16];

        snprintf(fill, sizeof fill, "#%06x", (unsigned)level_colour(s, i));
        draw_rectangle(d, (struct box){ x + (double)LENGTH * i / n, y + 5, (double)LENGTH / n, 10 },
                       fill, "none");
    }
    for (int i = 0; i < ticks; i++) {
        int level = ticks > 1 ? i * (n - 1) / (ticks - 1) : 0;
        int64_t value =
            s->least + ((int64_t)level * (s->most - s->least) + (n - 1) / 2) / (n > 1 ? n - 1 : 1);

        draw_text(d, x + (level + 0.5) * LENGTH / n - 6, y + 27, "%lld", (long long)value);
    }
}

/* Draws a line of the legend: a coloured square and a text. */
static void draw_key(const struct drawing *d, double x, double y, const char *fill,
                     const char *text)
{
    draw_rectangle(d, (struct box){ x, y - 9, 11, 11 }, fill, "#999");
    draw_text(d, x + 17, y, "%s", text);
}

/* Draws a line of the key for each group, with its numbers of blocks.  Advances *y. */
static void draw_groups_key(const struct drawing *d, double x, double *y)
{
    for (int g = 0; g < (int)(sizeof group_colour / sizeof *group_colour); g++) {
        int64_t count[2] = { 0, 0 };
        char text[96];

        for (int side = 0; side < 2; side++)
            for (int64_t i = 0; i < d->cut->blocks[side]; i++)
                count[side] += d->cut->group[side][i] == g;
        if (count[0] + count[1] == 0)
            continue;
        snprintf(text, sizeof text, "group %c: %lld blocks of A, %lld of B", 'a' + g,
                 (long long)count[0], (long long)count[1]);
        draw_key(d, x, *y += ROW, group_colour[g], text);
    }
}

/* Draws a line of the legend for each scheme, with its share of products, predicted seconds and
 * error bound.  Advances *y. */
static void draw_schemes_key(const struct drawing *d, double x, double *y)
{
    for (int i = 0; i < d->schemes; i++) {
        double share = d->r->parts ? 0 : 1, cost = d->r->parts ? 0 : d->r->cost;
        double bound = d->r->parts ? 0 : d->r->bound;
        char text[160], seconds[40] = "", error[40];

        for (int j = 0; j < d->r->parts; j++) {
            const limber_part *p = &d->r->part[j];

            if (strcmp(p->scheme, d->scheme[i]))
                continue;
            share += p->share;
            cost += p->cost;
            bound = p->bound > bound ? p->bound : bound;
        }
        if (cost > 0) /* only plans predict costs; the report of a run without a plan has none */
            snprintf(seconds, sizeof seconds, "%.3g s predicted, ", cost);
        snprintf(error, sizeof error, "bound %.3g |A||B|", bound);
        snprintf(text, sizeof text, "%s: %.3g%% of products, %s%s", d->scheme[i], 100 * share,
                 seconds, bound > 0 ? error : "exact");
        draw_key(d, x, *y += ROW, scheme_colour[i % SCHEMES], text);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Returns a matrix's rectangle at (x, y), in proportion to its sizes. */
static struct box size_of(const struct drawing *d, double x, double y, int64_t rows, int64_t cols)
{
    return (struct box){ x, y, fmax((double)cols * d->pixels, LEAST),
                         fmax((double)rows * d->pixels, LEAST) };
}

/* Draws the complete picture: A and B twice (exponents and bits), C, scales and keys. */
static void draw_page(struct drawing *d)
{
    int64_t m = d->inspection[0].lines, n = d->inspection[1].lines, k = d->inspection[0].length;
    struct box a = size_of(d, LEFT + STRIP, TOP + STRIP, m, k);
    struct box b = size_of(d, a.x + a.w + GAP, a.y, k, n);
    struct box c = size_of(d, b.x + fmax(b.w, 150) + GAP, a.y, m, n);
    double high = fmax(fmax(a.h, b.h), c.h), y;
    double width = c.x + fmax(c.w, 440) + LEFT; /* a key's text has up to 440 pixels */
    double height = a.y + high + GAP + LEFT + fmax(high, 82 + ROW * (7 + d->schemes));
    struct box bits[2] = { a, b };
    const char *name[] = { "A", "B" };

    fprintf(d->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n<title>",
            width, height, width, height);
    page_text(d->f, d->p->name[0]);
    fputs(" times ", d->f);
    page_text(d->f, d->p->name[1]);
    fputs("</title>\n<defs>\n", d->f);
    for (int i = 0; i < 9 && d->cut->parts; i++)
        define_stripes(d, i / 3, i % 3);
    fputs("</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
          "<g shape-rendering=\"crispEdges\">\n",
          d->f);
    draw_text(d, LEFT, 20, "%s times %s: %lld x %lld, inner %lld", d->p->name[0], d->p->name[1],
              (long long)m, (long long)n, (long long)k);
    for (int side = 0; side < 2; side++) {
        struct box *of = side ? &b : &a;

        bits[side].y += high + GAP;
        draw_text(d, of->x, of->y - STRIP - 8, "%s, largest exponents", name[side]);
        draw_text(d, of->x, bits[side].y - STRIP - 8, "%s, significant bits", name[side]);
        draw_operand(d, side, false, *of);
        draw_operand(d, side, true, bits[side]);
        draw_groups(d, side, *of);
        draw_groups(d, side, bits[side]);
    }
    draw_text(d, c.x, c.y - STRIP - 8, "C, by scheme");
    draw_result(d, c);
    y = a.y + high + GAP;
    draw_scale(d, &d->exponents, c.x, y, "largest exponent of a tile of 64 x 64");
    draw_scale(d, &d->bits, c.x, y + 48, "significant bits of a tile");
    y += 82;
    draw_key(d, c.x, y += ROW, "#fff", "zero");
    draw_key(d, c.x, y += ROW, "#e31a1c", "NaN or infinity");
    draw_groups_key(d, c.x, &y);
    draw_schemes_key(d, c.x, &y);
    fputs("</g>\n</svg>\n", d->f);
}

/* Lists the schemes that compute the product or its parts. */
static void name_schemes(struct drawing *d)
{
    for (int i = 0; i < d->r->parts; i++)
        if (scheme_of(d, d->r->part[i].scheme) == d->schemes)
            d->scheme[d->schemes++] = d->r->part[i].scheme;
    if (d->r->parts == 0)
        d->scheme[d->schemes++] = d->r->scheme;
}

/* Writes a picture of a product's operands and partition to an SVG file.  On failure prints a
 * message and returns false. */
bool plan_svg_write(const char *path, const struct cli_product *p,
                    const limber_inspection inspection[2], const limber_cut *cut,
                    const limber_report *r)
{
    int64_t longest =
        inspection[0].lines > inspection[1].lines ? inspection[0].lines : inspection[1].lines;
    struct drawing d = { .p = p,
                         .inspection = inspection,
                         .cut = cut,
                         .r = r,
                         .exponents = { viridis, 0, 0 },
                         .bits = { cividis, 1, 1 } };
    struct draft draft;

    longest = inspection[0].length > longest ? inspection[0].length : longest;
    d.pixels = (double)SIDE / (double)(longest ? longest : 1);
    inspection_range(inspection, &d.exponents.least, &d.exponents.most);
    for (int side = 0; side < 2; side++)
        d.bits.most = inspection[side].bits > d.bits.most ? inspection[side].bits : d.bits.most;
    name_schemes(&d);
    if (!draft_open(&draft, path))
        return false;
    d.f = draft.f;
    draw_page(&d);
    return draft_close(&draft, true);
}
