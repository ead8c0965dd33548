/* SPDX-License-Identifier: BSD-3-Clause
 * Pages of `limber report`: self-contained HTML with inline SVG pictures. */
#ifndef LIMBER_PAGE_H
#define LIMBER_PAGE_H

#include <stdbool.h>
#include <stdio.h>

/* Colours of pages and of gnuplot's pictures; bindings/python/limber/chart.py has the same.  The
 * classes s0 to s7 of pages are colours of curves, the last but one that of text.  The contrast of
 * each to the page is above 4.5 (WCAG 2, level AA), and readers without one kind of cone can tell
 * them apart, too (by the simulation of Machado, Oliveira, Fernandes 2009). */
enum { COLOURS = 8 };
struct colours {
    const char *page, *text, *curve[COLOURS];
};
extern const struct colours light_colours, dark_colours;

void page_begin(FILE *f, const char *title);
void page_end(FILE *f);
/* Writes text, with the characters escaped that HTML, SVG or terminals interpret. */
void page_text(FILE *f, const char *s);
/* Writes a table cell with a number; an empty cell for NaN. */
void page_number(FILE *f, double x);
/* Table cells with pictures; empty for NaN. page_bar: a bar on a scale from 0 to `most`, and a line
 * at `beside` unless that is 0.  page_ratio: a point, and a line at 1, on a logarithmic scale from
 * 1/16 to 16. */
void page_bar(FILE *f, double x, double most, double beside, bool grey);
void page_ratio(FILE *f, double ratio);

/* A point of a curve. */
struct point {
    double x, y, low, high; /* low, high: confidence interval of y; NaN if there is none */
};
/* One curve of a chart. */
struct curve {
    char name[120];
    struct point *point; /* n points; owned; page_chart sorts them */
    int n;
};
/* A chart: curves, axes and their captions. */
struct chart {
    const char *title, *across, *up;
    /* axes are logarithmic, x of base 2 and y of base 10; a 0 is drawn hollow at the lower edge */
    bool log_x, log_y;
    bool lines; /* lines connect a curve's points */
    struct curve *curve;
    int n;
};
/* Draws a chart.  Draws nothing if no point is finite. */
void page_chart(FILE *f, const struct chart *c);

#endif
