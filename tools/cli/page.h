/* SPDX-License-Identifier: BSD-3-Clause
 * Pages of `limber report`: HTML that needs no other file, with pictures as SVG in it. */
#ifndef LIMBER_PAGE_H
#define LIMBER_PAGE_H

#include <stdbool.h>
#include <stdio.h>

void page_begin(FILE *f, const char *title);
void page_end(FILE *f);
void page_text(FILE *f, const char *s); /* what HTML, SVG and terminals would obey, as text */
/* "<td class=n>" and the number; an empty cell for NaN. */
void page_number(FILE *f, double x);
/* Cells with pictures: a bar, with a line at `beside` where that is above 0; and a ratio as a point
 * beside a line at 1, on a scale of powers of 2 that ends at 1/16 and 16.  NaN: an empty cell. */
void page_bar(FILE *f, double x, double most, double beside, bool grey);
void page_ratio(FILE *f, double ratio);

struct point {
    double x, y, low, high; /* y between low and high; NaN: no interval */
};
struct curve {
    char name[120];
    struct point *point; /* sorted by page_chart */
    int n;
};
struct chart {
    const char *title, *across, *up;
    bool log_x, log_y; /* powers of 2, of 10; a 0 is drawn at the lower edge, hollow */
    bool lines; /* joins a curve's points */
    struct curve *curve;
    int n;
};
/* Nothing, where no point is a finite number. */
void page_chart(FILE *f, const struct chart *c);

#endif
