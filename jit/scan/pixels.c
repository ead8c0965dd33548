/* SPDX-License-Identifier: BSD-3-Clause
 * Scans overlapping windows: each pixel is measured once, and its extremes are merged into the
 * lines of all windows that contain it. */
#include "jit/scan/host_scan.h"

#include <stdlib.h>

/* Arguments of join_lines: the extremes (of exponents and bits) of pixels, which are merged into
 * lines. filters: the lines are channels of filters; else they are windows. */
struct joining {
    const struct patch *w;
    const struct extremes *pixel;
    struct extremes *line;
    int64_t lines;
    bool filters;
};

/* Merges into a line the extremes (of exponents and bits) of those pixels of one plane of the image
 * that the line's window contains. */
static void join_plane(const struct joining *x, int64_t line, int64_t plane)
{
    const struct patch *w = x->w;
    int64_t row = line / w->ow;
    int64_t y0 = row % w->oh * w->stride[0] - w->pad[0];
    int64_t x0 = line % w->ow * w->stride[1] - w->pad[1];

    for (int64_t r = 0; r < w->r; r++)
        for (int64_t s = 0; s < w->s; s++) {
            int64_t at_y = y0 + r * w->dilate[0], at_x = x0 + s * w->dilate[1];

            if (w->divide[0]) {
                if (at_y < 0 || at_x < 0 || at_y % w->divide[0] || at_x % w->divide[1])
                    continue;
                at_y /= w->divide[0];
                at_x /= w->divide[1];
            }
            if (at_y >= 0 && at_y < w->h && at_x >= 0 && at_x < w->w)
                join_extremes(&x->line[line], &x->pixel[(plane * w->h + at_y) * w->w + at_x]);
        }
}

/* Merges into a line the extremes (of exponents and bits) of all pixels that its window contains,
 * in all planes. */
static void join_line(const struct joining *x, int64_t line)
{
    const struct patch *w = x->w;
    int64_t image = line / (w->ow * w->oh);

    x->line[line] = nothing;
    if (!w->t)
        join_plane(x, line, image);
    for (int64_t t = 0; t < w->t; t++) {
        int64_t plane = limber_patch_depth(w, image, t);

        if (plane >= 0)
            join_plane(x, line, image / w->od * w->d + plane);
    }
}

/* Merges the extremes (of exponents and bits) of all elements of channel `line` of the filters. */
static void merge_channel_extremes(const struct joining *x, int64_t line)
{
    const struct patch *w = x->w;
    const struct extremes *first = x->pixel + w->origin + line * w->image;

    x->line[line] = nothing;
    for (int64_t t = 0; t < (w->t ? w->t : 1); t++)
        for (int64_t r = 0; r < w->r; r++)
            for (int64_t s = 0; s < w->s; s++)
                join_extremes(&x->line[line], first + t * w->plane + r * w->row + s * w->col);
}

/* Task: merges the extremes (of exponents and bits) of pixels into some lines. */
static void join_lines(void *arg, int64_t task, int worker)
{
    const struct joining *x = arg;

    (void)worker;
    for (int64_t i = task * RUN; i < (task + 1) * RUN && i < x->lines; i++)
        if (x->filters)
            merge_channel_extremes(x, i);
        else
            join_line(x, i);
}

/* Scans lines that are windows of an image or, if `filters` is set, channels of filters.  Returns
 * false if memory runs out. */
bool limber_scan_pixels(struct host_scan *j, const struct pixels *x, bool filters, scan_fn *scan,
                        const struct runner *r)
{
    struct extremes *pixel = malloc((size_t)(x->images * x->lines) * sizeof *pixel);
    struct joining joining = { j->v->patch, pixel, j->line, j->lines, filters };
    bool ok = pixel;

    for (int64_t i = 0; ok && i < x->images; i++) {
        struct view v = x->view;
        struct mask m = { 0 };
        struct host_scan of_image = { .v = &v,
                                      .f = j->f,
                                      .kind = j->kind,
                                      .small = j->small,
                                      .measure = j->measure,
                                      .depth = j->depth,
                                      .lines = x->lines,
                                      .length = x->length,
                                      .m = &m,
                                      .line = pixel + i * x->lines };

        v.data = (const char *)v.data + i * x->image * j->f.size;
        ok = scan(&of_image, r);
        limber_mask_clear(&m);
        if (is_stopped(&of_image)) {
            atomic_store(&j->stop, true);
            break;
        }
    }
    if (ok && !is_stopped(j))
        r->run(r->self, (j->lines + RUN - 1) / RUN, join_lines, &joining);
    free(pixel);
    return ok;
}
