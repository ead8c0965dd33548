/* SPDX-License-Identifier: BSD-3-Clause
 * Pages of `limber report`: self-contained HTML with inline SVG pictures. */
#ifndef LIMBER_PAGE_H
#define LIMBER_PAGE_H

#include <stdbool.h>
#include <stdio.h>

void page_begin(FILE *f, const char *title);
void page_end(FILE *f);
/* escapes characters that are special to HTML, SVG and terminals */
void page_text(FILE *f, const char *s);
/* "<td class=n>" and the number; an empty cell for NaN. */
void page_number(FILE *f, double x);
/* Table cells with pictures. page_bar: a bar from 0 to most, with a line at `beside` if that is
 * above 0. page_ratio: a point beside a line at 1, on a base-2 logarithmic scale from 1/16 to 16.
 * NaN: an empty cell. */
void page_bar(FILE *f, double x, double most, double beside, bool grey);
void page_ratio(FILE *f, double ratio);

struct point {
    double x, y, low, high; /* low to high: confidence interval of y; NaN: none */
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
    /* logarithmic axes, of base 2 and of base 10; a 0 is drawn hollow at the lower edge */
    bool log_x, log_y;
    bool lines; /* connect a curve's points by lines */
    struct curve *curve;
    int n;
};
/* Draws a chart; nothing if no point is finite. */
void page_chart(FILE *f, const struct chart *c);

#endif
