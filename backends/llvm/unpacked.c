/* SPDX-License-Identifier: BSD-3-Clause
 * Native products of floats by library code that reads A without packing it.  Rows of A may have
 * any addresses, and a table contains the offsets of a row's elements along k, so neither filters
 * nor windows of an image are packed.  B is read in strips of columns: in place, or from a copy of
 * one chain along k, which fits in L1 and L2.
 *
 *   source  Goto, van de Geijn, ACM TOMS 34(3), 2008, without the packing of A;
 *           rows of windows by address: Dukhan, indirect convolution, arXiv 1907.02129 */
#include "backends/llvm/stage.h"
#include "backends/llvm/unpacked.h"

#include <string.h>

enum {
    /* bytes of C that a task updates chain by chain, so few that they stay cached; an operand with
     * more bytes is prefetched */
    RESULT_BYTES = 1 << 20,
    /* smallest number of rows of A for which it pays to copy a B whose vectors straddle cache
     * lines */
    MANY = 96,
    /* largest k for which storing C takes most of the time.  A task then computes few full rows of
     * C.  This is faster than many rows strip by strip, whose cache lines lie on many pages. */
    SHORT = 64,
    GATHERED = 8, /* number of rows of A that a gathered copy interleaves */
    KEPT_ROWS = 64, /* number of rows of A that a task gathers for a prepared operand */
    TASKS = 4 /* desired number of tasks per worker */
};

/* State of a launch: tables of offsets, buffers and the division into tasks. */
struct launch_state {
    struct unpacked_product p;
    struct view image; /* the operand that is read through windows, before padding is added */
    struct patch unframed; /* the patch (window geometry) of `image` */
    /* planes of the image (SOURCE_planes), or of the image that a gradient reads (ROWS_taps) */
    struct part planes;
    struct patch forward; /* patch of the forward convolution for which the planes are packed */
    kernel_strip *strip;
    /* offsets of elements along k, in elements: in lines of A, and in lines of B */
    int64_t *at, *b_at;
    /* constant distance between neighbours along k, in lines of A and of B; 0 if it varies.  With a
     * constant distance the tables have LIMBER_SMALL_K entries, enough for one chain. */
    int64_t step, b_step;
    bool stretches; /* the elements of a row of A are contiguous along k */
    bool fetches; /* A exceeds the caches, so this code prefetches it */
    int64_t gathered[LIMBER_SMALL_K]; /* offsets of elements along k in gathered rows of A */
    /* frame: the image with padding; packed: strips of B; rooms: memory of all workers */
    char *frame, *packed, *rooms;
    struct kept_limbs *kept; /* prepared strips, used instead of `packed`; NULL if there are none */
    struct kept_limbs *kept_rows; /* prepared gathered rows of A; NULL if there are none */
    int64_t row_keeping; /* number of tasks that gather rows for `kept_rows` */
    int64_t room; /* bytes of one worker's memory */
    int64_t rows, strips; /* number of rows of A, and of strips of B, that a task multiplies */
    /* number of tasks into which rows, and strips, are divided */
    int64_t row_tasks, strip_tasks;
    /* inner: number of columns of a contiguous stretch of C; groups: number of strips in a
     * stretch */
    int64_t inner, groups;
    /* number of tasks that copy rows of the image, and of tasks that pack strips */
    int64_t frame_rows, pack_tasks;
    const struct finisher *finish; /* epilogue of each block of C, or NULL */
};

/* ---- sizes of buffers ------------------------------------------------------------------------ */

/* Returns the number of images in the batch. */
static int64_t image_count(const struct unpacked_product *p)
{
    return (p->source == SOURCE_taps ? p->k : p->m) / (p->window.od * p->window.oh * p->window.ow);
}

/* Returns the distance in elements between pixels in the copy with padding.  If windows would share
 * L1 sets, each pixel becomes one cache line longer. */
static int64_t frame_step(const struct unpacked_product *p)
{
    const int64_t channels = limber_product_channels(p);

    return limber_shares_sets(channels * p->size, p->window.stride[1]) ? channels + LINE / p->size :
                                                                         channels;
}

/* Returns the bytes of the copy of the image with padding, as a double because padding and dilation
 * may exceed any memory. */
static double frame_bytes(const struct unpacked_product *p)
{
    double pixels = 1;

    if (!p->frames)
        return 0;
    for (int i = 0; i < 3; i++) {
        int64_t first, end;

        limber_patch_reach(&p->window, i, &first, &end);
        pixels *= (double)(end - first);
    }
    return pixels * (double)image_count(p) * (double)(frame_step(p) * p->size);
}

/* Returns the number of strips (groups of neighbouring columns) into which B is packed before it
 * is multiplied; 0 if B is not packed. */
static int64_t strip_count(const struct unpacked_product *p)
{
    return p->packs ? ceil_div(p->n, p->width) : 0;
}

/* Returns the bytes of all packed strips. */
static int64_t packed_bytes(const struct unpacked_product *p)
{
    return strip_count(p) * p->width * p->k * p->size;
}

/* Returns the bytes of a strip for one chain, LIMBER_SMALL_K elements along k, with slack, since
 * gathering writes full vectors. */
static int64_t strip_bytes(const struct unpacked_product *p)
{
    return round_up((smaller(p->k, LIMBER_SMALL_K) + 16) * p->width * p->size, 64);
}

/* Returns the largest number of rows of C that a task computes. */
static int64_t most_rows(const struct unpacked_product *p)
{
    return ROWS_BYTES / (LIMBER_SMALL_K * p->size);
}

/* Returns the bytes of the buffer for a block of C; 0 if the block is computed in place. */
static int64_t stage_bytes(const struct unpacked_product *p)
{
    return p->result == RESULT_staged ? RESULT_BYTES + most_rows(p) * p->width * p->size : 0;
}

/* Returns the number of elements of GATHERED interleaved rows, `len` elements along k each.  A
 * cache line of padding puts groups of rows into different cache sets. */
static int64_t gathered_group(int64_t len)
{
    return len * GATHERED + LINE / 4;
}

/* Returns the bytes of the buffer to which a task gathers its rows of A, for one chain
 * (LIMBER_SMALL_K elements along k); 0 if it gathers none. */
static int64_t gathered_bytes(const struct unpacked_product *p)
{
    int64_t groups = ceil_div(smaller(most_rows(p), p->m), GATHERED);

    return p->gathers ?
               round_up(groups * gathered_group(smaller(p->k, LIMBER_SMALL_K)) * p->size, 64) :
               0;
}

/* Returns the bytes of all gathered rows of A, for all chains. */
static int64_t kept_rows_bytes(const struct unpacked_product *p)
{
    return ceil_div(p->m, GATHERED) *
           (p->k * GATHERED + ceil_div(p->k, LIMBER_SMALL_K) * (LINE / 4)) * p->size;
}

/* Returns the bytes of a worker's memory: a strip of B, a block of C, the addresses of rows of A
 * and C, and gathered rows of A. */
static int64_t worker_bytes(const struct unpacked_product *p)
{
    return strip_bytes(p) + stage_bytes(p) +
           round_up(2 * most_rows(p) * (int64_t)sizeof(void *), 64) + gathered_bytes(p);
}

/* Returns the bytes of the planes of an image that a forward convolution or a gradient reads. */
static int64_t planes_bytes(const struct unpacked_product *p)
{
    struct call forward;
    struct patch w;

    if (p->source == SOURCE_planes)
        return limber_planes_bytes(p->f, p->call, p->n);
    if (!p->gradient)
        return 0;
    forward = limber_exchange_n_and_k(p->call);
    w = *p->a.patch;
    w.transposed = 0;
    forward.b.patch = &w;
    return limber_planes_bytes(p->f, &forward, p->k);
}

/* Returns the bytes of workspace of a launch. */
static double workspace_bytes(const struct unpacked_product *p)
{
    return frame_bytes(p) + (double)packed_bytes(p) + 2.0 * (double)p->k * 8 +
           (double)p->call->runner->workers * (double)worker_bytes(p) + (double)planes_bytes(p) +
           1024;
}

/* Fills *u with the products that compute a call.  Returns the reason if they are refused, else
 * NULL.  Each NCHW image becomes a product of its own, so that an image, or its planes, fit in
 * L2. */
static const char *find_product(const struct kernel *k, const struct call *c, struct unpacked *u)
{
    const struct patch *w = c->b.patch;
    const int64_t pixels = w ? w->oh * w->ow : 0;

    u->first = *c;
    if (w && !w->transposed && !w->t && w->col == 1 && c->n > pixels && c->c.inner == pixels &&
        !c->c.rows && !c->c.cols) {
        u->first.n = pixels;
        limber_view_straighten(&u->first.b, pixels);
        u->products = c->n / pixels;
        u->image = w->image;
        if (!limber_product_refuses(k, &u->first, &u->product))
            return NULL;
        u->first = *c;
    }
    u->products = 1;
    return limber_product_refuses(k, &u->first, &u->product);
}

/* Fills *u with the products that compute a call.  Refuses them also if their memory, together with
 * `own` more bytes, exceeds the workspace limit.  Returns the reason of a refusal, or NULL. */
static const char *find_fitting_product(const struct kernel *k, const struct call *c, double own,
                                        struct unpacked *u)
{
    const char *why = find_product(k, c, u);
    double bytes;

    if (why)
        return why;
    bytes = own + workspace_bytes(&u->product);
    return limber_workspace_holds(c, bytes, &u->bytes) ? NULL : "the workspace is too small";
}

/* Fills *u for a filter gradient with few channels, which is computed from an NCHW copy of the
 * image.  Returns the reason of a refusal, or NULL. */
static const char *find_planar(const struct kernel *k, const struct call *c, struct unpacked *u)
{
    double own;

    if (!limber_planar_init(c, &u->planar))
        return "it is no gradient of filters of few channels";
    own = limber_planar_bytes(&u->planar, k->config.bytes);
    limber_planar_call(&u->planar, k->config.bytes);
    return find_fitting_product(k, &u->planar.call, own, u);
}

/* Fills *u and returns NULL if this native product can be computed without packing A; else returns
 * the reason why not. */
const char *limber_unpacked_refuses(const struct kernel *k, const struct call *c,
                                    struct unpacked *u)
{
    u->is_planar = !find_planar(k, c, u);
    return u->is_planar ? NULL : find_fitting_product(k, c, 0, u);
}

/* ---- tables of offsets of window elements ---------------------------------------------------- */

/* Sets at[] to the offset of each element of a window, in the order of k. */
static void set_taps(const struct patch *w, int64_t k, int64_t *at)
{
    const int64_t planes = w->t ? w->t : 1;
    int64_t p = 0;

    for (int64_t c = 0; p < k; c++)
        for (int64_t r = 0; r < w->r; r++)
            for (int64_t s = 0; s < w->s; s++)
                at[p++] = c / planes * w->channel + c % planes * w->dilate[2] * w->plane +
                          r * w->dilate[0] * w->row + s * w->dilate[1] * w->col;
}

/* Sets at[] to the offset of each pixel, in the order of k.  down, across, image: distances between
 * rows, pixels and images, in elements. */
static void set_pixels(const struct patch *w, int64_t down, int64_t across, int64_t image,
                       int64_t k, int64_t *at)
{
    int64_t p = 0;

    for (int64_t i = 0; p < k; i++)
        for (int64_t y = 0; y < w->oh; y++)
            for (int64_t x = 0; x < w->ow; x++)
                at[p++] = i * image + y * down + x * across;
}

/* Returns the distance between successive offsets that set_pixels sets, if it is constant; else
 * 0. */
static int64_t pixel_step(const struct patch *w, int64_t down, int64_t across, int64_t image,
                          int64_t k)
{
    return down == w->ow * across && (k <= w->oh * w->ow || image == w->oh * down) ? across : 0;
}

/* Returns the distance in elements between neighbours along k, if it is constant; else 0. */
static int64_t k_step(const struct view *v, int64_t k)
{
    const struct patch *w = v->patch;

    if (!w)
        return v->p;
    if (w->transposed)
        return pixel_step(w, w->row, w->col, w->image, k);
    if (w->t)
        return 0;
    if (w->r * w->s == 1)
        return w->channel;
    return w->row == w->s * w->col && w->channel == w->r * w->row ? w->col : 0;
}

/* Sets at[] to the offsets of elements along k.  step: their constant distance, for which
 * LIMBER_SMALL_K offsets are enough, or 0 if it varies.  If a matrix has the distance 0 along k,
 * all offsets are 0. */
static void set_table(const struct view *v, int64_t k, int64_t step, int64_t *at)
{
    const struct patch *w = v->patch;

    if (step || !w)
        for (int64_t p = 0; p < (step ? smaller(k, LIMBER_SMALL_K) : k); p++)
            at[p] = p * step;
    else if (w && w->transposed)
        set_pixels(w, w->row, w->col, w->image, k, at);
    else
        set_taps(w, k, at);
}

/* Returns the offset of element p along k in a line of B. */
static int64_t b_offset(const struct launch_state *j, int64_t p)
{
    return j->b_step ? p * j->b_step : j->b_at[p];
}

/* Returns the distance in elements from one line of an operand to the next. */
static int64_t line_step(const struct view *v)
{
    return !v->patch ? v->line : v->patch->transposed ? v->patch->channel : v->patch->image;
}

/* Returns the address of an operand's first element.  The windows of an image begin at its
 * origin. */
static const char *first_element(const struct view *v, int size)
{
    return (const char *)v->data + (v->patch ? v->patch->origin * size : 0);
}

/* ---- copying images with their padding ------------------------------------------------------ */

/* If windows need a copy of the image with padding, sets up that copy and points the operand to
 * it. */
static void set_frame(struct launch_state *j)
{
    struct unpacked_product *p = &j->p;
    struct patch *w = &p->window;
    struct view *image = p->source == SOURCE_taps ? &p->b : &p->a;
    int64_t first[3], end[3];

    j->image = *image;
    j->unframed = *w;
    if (!p->frames)
        return;
    for (int i = 0; i < 3; i++) {
        limber_patch_reach(w, i, &first[i], &end[i]);
        w->pad[i] += first[i];
    }
    w->h = end[0] - first[0];
    w->w = end[1] - first[1];
    w->d = end[2] - first[2];
    w->col = frame_step(p);
    w->row = w->w * w->col;
    w->plane = w->h * w->row;
    w->image = w->d * w->plane;
    j->frame_rows = image_count(p) * w->d * w->h;
    image->data = j->frame;
}

/* Task: copies a row of the image, with its padding as zeros.  row: number among the rows of all
 * planes. */
static void fill_frame(const struct launch_state *j, int64_t row)
{
    const struct unpacked_product *p = &j->p;
    const struct patch *to = &p->window, *from = &j->unframed;
    const int64_t channels = limber_product_channels(p);
    int64_t first[3], end[3], image = row / to->h / to->d, y, z, begin, stop;
    char *at = j->frame + row * to->row * p->size;
    const char *line;

    for (int i = 0; i < 3; i++)
        limber_patch_reach(from, i, &first[i], &end[i]);
    y = row % to->h + first[0];
    z = row / to->h % to->d + first[2];
    /* columns [begin, stop) of the copy are pixels; all other columns are padding */
    begin = first[1] < 0 ? smaller(-first[1], to->w) : 0;
    stop = smaller(from->w - first[1], to->w);
    if (y < 0 || y >= from->h || z < 0 || z >= from->d || stop <= begin) {
        memset(at, 0, (size_t)(to->row * p->size));
        return;
    }
    line = (const char *)j->image.data + (image * from->image + z * from->plane + y * from->row +
                                          (first[1] + begin) * from->col) *
                                             p->size;
    memset(at, 0, (size_t)(begin * to->col * p->size));
    if (from->col == channels && to->col == channels) {
        memcpy(at + begin * channels * p->size, line,
               (size_t)((stop - begin) * channels * p->size));
        begin = stop;
    }
    for (int64_t x = begin; x < stop; x++, line += from->col * p->size)
        memcpy(at + x * to->col * p->size, line, (size_t)(channels * p->size));
    memset(at + stop * to->col * p->size, 0, (size_t)((to->w - stop) * to->col * p->size));
}

/* Sets line[l] to the address of the first element of row i + l of A, which is the window of an
 * output pixel. */
static void find_rows(const struct unpacked_product *p, int64_t i, int64_t rows, const void **line)
{
    const struct patch *w = &p->window;
    int64_t x = i % w->ow, row = i / w->ow, y = row % w->oh, plane = row / w->oh;
    const char *data = p->a.data;

    for (int64_t l = 0; l < rows; l++) {
        line[l] =
            data +
            (plane / w->od * w->image + (plane % w->od * w->stride[2] - w->pad[2]) * w->plane +
             (y * w->stride[0] - w->pad[0]) * w->row + (x * w->stride[1] - w->pad[1]) * w->col) *
                p->size;
        if (++x < w->ow)
            continue;
        x = 0;
        if (++y == w->oh) {
            y = 0;
            plane++;
        }
    }
}

/* ---- strips of B ----------------------------------------------------------------------------- */

/* Transposes up to sixteen lines of `count` elements to rows that are `stride` bytes apart.  If
 * there are fewer than sixteen lines, the first line is read again for each missing one. */
static void transpose_lines(const struct unpacked_product *p, const char *data, int64_t line,
                            int64_t lines, int64_t count, char *to, int64_t stride)
{
    int64_t step = 16 < lines ? 16 : lines, whole = count / 16 * 16;
    const char *from[16];

    for (int l = 0; l < 16; l++)
        from[l] = data + (l < step ? l : 0) * line * p->size;
    limber_transpose_here()(from, p->size, (int)step, to, stride, whole);
    for (int64_t i = whole; i < count; i++)
        for (int64_t l = 0; l < step; l++)
            memcpy(to + i * stride + l * p->size, from[l] + i * p->size, (size_t)p->size);
}

/* Packs filters [first, last), which are columns of B, for all of k. */
static void pack_filters(const struct unpacked_product *p, int64_t first, int64_t last, char *to)
{
    const struct patch *w = p->b.patch;
    int64_t taps = w->r * w->s, channels = p->k / taps, stride = p->width * p->size;

    for (int64_t line = first; line < last; line += 16)
        for (int64_t t = 0; t < taps; t++)
            transpose_lines(p,
                            first_element(&p->b, p->size) +
                                (line * w->image + t / w->s * w->row + t % w->s * w->col) * p->size,
                            w->image, last - line, channels,
                            to + t * stride + (line - first) * p->size, taps * stride);
}

/* Returns the number of elements along k, from p on, whose distance is constant. */
static int64_t contiguous_count(const struct view *v, int64_t p)
{
    const struct patch *w = v->patch;

    return w ? w->oh * w->ow - p % (w->oh * w->ow) : INT64_MAX;
}

/* Packs rows [p0, p0 + len) of `lines` columns of B by transposing them.  data: address of the
 * first column. */
static void pack_lines(const struct launch_state *j, const char *data, int64_t lines, int64_t p0,
                       int64_t len, char *to)
{
    const struct unpacked_product *p = &j->p;
    int64_t line = line_step(&p->b);

    for (int64_t done = 0, count; done < len; done += count) {
        count = smaller(len - done, contiguous_count(&p->b, p0 + done));
        for (int64_t l = 0; l < lines; l += 16)
            transpose_lines(p, data + (l * line + b_offset(j, p0 + done)) * p->size, line,
                            lines - l, count, to + (done * p->width + l) * p->size,
                            p->width * p->size);
    }
}

/* Packs a strip of columns of B, for all of k. */
static void pack_strip(const struct launch_state *j, int64_t strip)
{
    const struct unpacked_product *p = &j->p;
    int64_t first = strip * p->width, last = smaller(first + p->width, p->n);
    char *to = j->packed + first * p->k * p->size;
    const char *data = first_element(&p->b, p->size) + first * line_step(&p->b) * p->size;

    if (p->source == SOURCE_filters)
        pack_filters(p, first, last, to);
    else if (p->source == SOURCE_lines)
        pack_lines(j, data, last - first, 0, p->k, to);
    for (int64_t q = 0; q < p->k && p->source == SOURCE_rows; q++)
        memcpy(to + q * p->width * p->size, data + b_offset(j, q) * p->size,
               (size_t)((last - first) * p->size));
}

/* Returns the offset, in the window of the first pixel, of a column of a filter gradient.  Columns
 * run through the channels of one tap, then through those of the next tap. */
static int64_t tap_offset(const struct unpacked_product *p, int64_t column)
{
    const struct patch *w = &p->window;
    int64_t channels = limber_product_channels(p), tap = column / channels;

    return column % channels + (tap / w->s * w->dilate[0] - w->pad[0]) * w->row +
           (tap % w->s * w->dilate[1] - w->pad[1]) * w->col;
}

/* Sets up the reading of contiguous rows of B: in place, or the micro-kernel first copies them to
 * `room`. */
static void set_rows(const struct launch_state *j, struct direct_strip *s, const char *data,
                     int64_t p0, char *room)
{
    const int64_t step = j->b_step, bytes = step * j->p.size;

    s->b = step ? data + p0 * bytes : data;
    if (step && !(s->m > FEW && bytes >= NEAR) && !(s->m >= MANY && bytes % LINE != 0)) {
        s->b_row = step;
        return;
    }
    s->b_at = step ? j->b_at : j->b_at + p0;
    s->room = room;
}

/* Points s->b to rows [p0, p0 + len) of columns [column, column + width) of B: in place, packed
 * before, or packed into `room` now. */
static void set_strip(const struct launch_state *j, struct direct_strip *s, int64_t column,
                      int64_t width, int64_t p0, int64_t len, char *room)
{
    const struct unpacked_product *p = &j->p;
    const char *data = first_element(&p->b, p->size) + column * line_step(&p->b) * p->size;

    s->b = room;
    s->b_row = p->width;
    s->b_at = NULL;
    s->room = NULL;
    if (p->packs) {
        s->b = j->packed + (column * p->k + p0 * p->width) * p->size;
        return;
    }
    switch (p->source) {
    case SOURCE_rows: set_rows(j, s, data, p0, room); break;
    case SOURCE_lines: pack_lines(j, data, width, p0, len, room); break;
    case SOURCE_taps:
        set_rows(j, s, (const char *)p->b.data + tap_offset(p, column) * p->size, p0, room);
        break;
    case SOURCE_filters: break; /* the strip was packed before */
    default: j->planes.planes.gather(&j->planes.call, column, 0, p0, len, room); break;
    }
}

/* ---- tasks: strips and blocks of C ----------------------------------------------------------- */

/* Sets the first column and the width of a strip.  A strip lies within one contiguous stretch of C.
 * Strips that are not packed have widths as equal as full vectors allow. */
static void place_strip(const struct launch_state *j, int64_t strip, int64_t *column,
                        int64_t *width)
{
    const struct unpacked_product *p = &j->p;
    int64_t stretch = strip / j->groups, of = strip % j->groups;
    int64_t count = smaller(j->inner, p->n - stretch * j->inner), from, to;
    int64_t vectors = ceil_div(count, p->lanes), each = vectors / j->groups;
    int64_t more = vectors % j->groups;

    if (p->packs) { /* packed strips have a fixed width */
        from = of * p->width;
        to = from + p->width;
    } else {
        from = (of * each + smaller(of, more)) * p->lanes;
        to = from + (each + (of < more)) * p->lanes;
    }
    *column = stretch * j->inner + smaller(from, count);
    *width = smaller(to, count) - smaller(from, count);
}

/* Sets line[] to the addresses of rows of A for a block, if the rows are windows or taps. */
static void find_lines(const struct launch_state *j, int64_t i, int64_t rows, const void **line)
{
    const struct unpacked_product *p = &j->p;
    const struct planes *x = &j->planes.planes;

    if (p->rows == ROWS_windows)
        find_rows(p, i, rows, line);
    for (int64_t l = 0; l < rows && p->rows == ROWS_taps; l++)
        line[l] = j->planes.call.op[1].data +
                  ((i + l) / x->taps * x->length + x->tap[(i + l) % x->taps]) * p->size;
}

/* Returns the address of the element of C in row i and column `column`. */
static char *result_at(const struct unpacked_product *p, int64_t i, int64_t column)
{
    if (p->source == SOURCE_taps)
        return (char *)p->c.data + (p->c.origin + i * p->c.row + column) * p->size;
    return limber_output_at(&p->c, i, column, p->size);
}

/* Applies the caller's epilogue to `rows` rows of the strips [first, end), which lie in one stretch
 * of C. */
static void finish_block(const struct launch_state *j, int64_t i, int64_t rows, int64_t first,
                         int64_t end)
{
    int64_t from, to, width;

    place_strip(j, first, &from, &width);
    place_strip(j, end - 1, &to, &width);
    j->finish->block(j->finish, i, rows, from, to + width - from);
}

/* Prefetches one chain of filters whose channels lie on different pages, since hardware prefetchers
 * do not cross pages.  A channel's elements for all rows of A are contiguous. */
static void prefetch_filters(const struct unpacked_product *p, const struct direct_strip *s)
{
    const struct patch *w = p->a.patch;
    int64_t bytes = s->m * s->a_row * p->size;

    if (p->rows != ROWS_apart || !w || !limber_is_window_over_whole_image(w) ||
        w->channel * p->size < NEAR || p->m * p->k * p->size <= RESULT_BYTES)
        return;
    for (int64_t q = 0; q < s->k; q += w->r * w->s)
        for (int64_t b = 0; b < bytes; b += 64)
            __builtin_prefetch((const char *)s->a + s->at[q] * p->size + b, 0, 2);
}

/* Gathers one chain of rows of A, interleaved by GATHERED.  The inner loop runs through rows, since
 * their elements are near each other in memory. */
static inline __attribute__((always_inline)) void gather_rows(const struct launch_state *j,
                                                              int64_t i, int64_t rows, int64_t p0,
                                                              int64_t len, int size, char *room)
{
    const int64_t line = line_step(&j->p.a) * size, group = gathered_group(len) * size;
    const char *from = first_element(&j->p.a, size) + i * line;

    for (int64_t q = 0; q < len; q++, room += GATHERED * size) {
        const char *at = from + j->at[p0 + q] * size;
        char *to = room;

        for (int64_t l = 0; l + GATHERED <= rows; l += GATHERED, at += GATHERED * line, to += group)
            _Pragma("GCC unroll 8") for (int n = 0; n < GATHERED; n++)
                memcpy(to + n * size, at + n * line, (size_t)size);
        for (int64_t n = 0; n < rows % GATHERED; n++)
            memcpy(to + n * size, at + n * line, (size_t)size);
    }
}

/* Gathers `len` elements along k, from p0 on, of `rows` rows of A into `room`, interleaved. */
static void gather_a(const struct launch_state *j, int64_t i, int64_t rows, int64_t p0, int64_t len,
                     char *room)
{
    if (j->p.size == 4) /* constant sizes let the compiler specialise the loops */
        gather_rows(j, i, rows, p0, len, 4, room);
    else
        gather_rows(j, i, rows, p0, len, 8, room);
}

/* Returns the address of row i among the prepared gathered rows, for the chain that begins at
 * p0. */
static char *prepared_row(const struct launch_state *j, int64_t i, int64_t p0, int64_t len)
{
    const struct unpacked_product *p = &j->p;
    int64_t before = p0 * GATHERED + p0 / LIMBER_SMALL_K * (LINE / 4);

    return (char *)j->kept_rows->memory +
           (ceil_div(p->m, GATHERED) * before + i / GATHERED * gathered_group(len) + i % GATHERED) *
               p->size;
}

/* Task: gathers some rows of A, for one chain, into the memory of a prepared operand. */
static void gather_prepared_rows(const struct launch_state *j, int64_t task)
{
    const struct unpacked_product *p = &j->p;
    int64_t i = task / ceil_div(p->k, LIMBER_SMALL_K) * KEPT_ROWS;
    int64_t p0 = task % ceil_div(p->k, LIMBER_SMALL_K) * LIMBER_SMALL_K;
    int64_t len = smaller(p->k - p0, LIMBER_SMALL_K);

    gather_a(j, i, smaller(p->m - i, KEPT_ROWS), p0, len, prepared_row(j, i, p0, len));
}

/* Task: copies a row of the image, packs a strip, gathers prepared rows of A, or packs planes.  The
 * task's number tells which. */
static void run_preparation(void *arg, int64_t task, int worker)
{
    const struct launch_state *j = arg;

    (void)worker;
    if (task < j->frame_rows)
        fill_frame(j, task);
    else if ((task -= j->frame_rows) < j->pack_tasks)
        pack_strip(j, task);
    else if ((task -= j->pack_tasks) < j->row_keeping)
        gather_prepared_rows(j, task);
    else
        limber_planes_task(&j->planes, task - j->row_keeping);
}

/* Task: computes some rows of C for some strips of columns, chain by chain. */
static void run_block(void *arg, int64_t task, int worker)
{
    const struct launch_state *j = arg;
    const struct unpacked_product *p = &j->p;
    int64_t i = task / j->strip_tasks * j->rows, first = task % j->strip_tasks * j->strips;
    int64_t all = ceil_div(p->n, j->inner) * j->groups, end = smaller(first + j->strips, all);
    char *room = j->rooms + worker * j->room;
    const void **line = (const void **)(void *)(room + strip_bytes(p) + stage_bytes(p));
    void **c_line = (void **)(void *)(line + most_rows(p));
    char *gathered = room + j->room - gathered_bytes(p);
    struct staged staged = { .c = &p->c, .size = p->size, .buffer = room + strip_bytes(p) };
    const char *rows = first_element(&p->a, p->size) + i * line_step(&p->a) * p->size;
    struct direct_strip s = { .m = smaller(j->rows, p->m - i),
                              .a_row = line_step(&p->a),
                              .c_row = p->c.row,
                              .size = p->size };

    if (p->rows == ROWS_apart && !p->gathers && !p->a.patch && p->a.line == 1 && p->a.p != 1)
        s.beside = p->a.p;

    if (p->rows != ROWS_apart)
        find_lines(j, i, s.m, line);
    if (p->rows != ROWS_apart || p->gathers)
        s.line = line;
    for (int64_t l = 0; l < s.m && p->result == RESULT_lines; l++) {
        c_line[l] = limber_output_at(&p->c, 0, i + l, p->size);
        s.c_line = c_line;
    }
    if (p->result == RESULT_staged) {
        place_strip(j, first, &staged.j0, &staged.cols);
        place_strip(j, end - 1, &staged.row, &staged.cols);
        staged.i0 = i;
        staged.rows = s.m;
        staged.row += staged.cols - staged.j0;
        staged.cols = staged.row;
        s.c_row = staged.row;
        if (p->adds)
            limber_stage_load(&staged);
    }
    for (int64_t p0 = 0; p0 < p->k; p0 += LIMBER_SMALL_K) {
        s.k = smaller(p->k - p0, LIMBER_SMALL_K);
        s.a = rows + p0 * j->step * p->size;
        s.at = j->step ? j->at : j->at + p0;
        prefetch_filters(p, &s);
        if (j->stretches)
            /* the micro-kernel recognises this table's address and reads contiguous elements */
            s.at = limber_direct_along;
        if (p->gathers && !j->kept_rows)
            gather_a(j, i, s.m, p0, s.k, gathered);
        for (int64_t l = 0; l < s.m && p->gathers; l++)
            line[l] = j->kept_rows ?
                          prepared_row(j, i + l, p0, s.k) :
                          gathered + (l / GATHERED * gathered_group(s.k) + l % GATHERED) * p->size;
        if (p->gathers)
            s.at = j->gathered;
        s.add = p->adds || (p0 > 0 && !p->one_chain);
        s.follows = p0 > 0 && p->one_chain;
        s.scaling = limber_scales(&p->scaling) ? &p->scaling : NULL;
        for (int64_t strip = first; strip < end; strip++) {
            int64_t column;

            place_strip(j, strip, &column, &s.columns);
            if (s.columns == 0)
                continue;
            s.column = column;
            s.c = p->result == RESULT_staged ? staged.buffer + (column - staged.j0) * p->size :
                                               result_at(p, i, column);
            s.fetches = j->fetches && strip == first;
            set_strip(j, &s, column, s.columns, p0, s.k, room);
            j->strip(&s);
        }
    }
    if (p->result == RESULT_staged)
        limber_stage_store(&staged);
    if (j->finish)
        finish_block(j, i, s.m, first, end);
}

/* Divides the work into tasks.  One chain of the rows of A of a task fits in L2, and there are
 * enough tasks for all workers. */
static void divide_work(struct launch_state *j, int busy)
{
    const struct unpacked_product *p = &j->p;
    int64_t all;

    j->inner = p->source == SOURCE_taps  ? limber_product_channels(p) :
               p->result == RESULT_dense ? smaller(p->c.inner, p->n) :
                                           p->n;
    j->groups = p->packs ? ceil_div(j->inner, p->width) :
                           ceil_div(ceil_div(j->inner, p->lanes), p->width / p->lanes);
    all = ceil_div(p->n, j->inner) * j->groups;
    j->rows = ceil_div(p->m, ceil_div(p->m, most_rows(p)));
    if (j->p.lanes * p->size == 64 && p->source == SOURCE_rows && p->result == RESULT_dense &&
        p->k <= SHORT && p->c.row * p->size >= NEAR)
        j->rows = smaller(j->rows, FEW); /* few rows are faster only with AVX-512, as measured */
    j->strips = all;
    if (p->k > LIMBER_SMALL_K || p->result == RESULT_staged)
        j->strips = smaller(all, RESULT_BYTES / (j->rows * p->width * p->size) + 1);
    while (busy > 1 && ceil_div(p->m, j->rows) * ceil_div(all, j->strips) < TASKS * busy) {
        if (j->strips > 1)
            j->strips = ceil_div(j->strips, 2);
        else if (j->rows > 32)
            j->rows = round_up(ceil_div(j->rows, 2), 8);
        else
            break;
    }
    j->row_tasks = ceil_div(p->m, j->rows);
    j->strip_tasks = ceil_div(all, j->strips);
}

/* Sets up planes of B, or of the image that a gradient reads.  Returns the number of tasks that
 * pack them. */
static int64_t begin_planes(struct launch_state *j, char *memory)
{
    const struct unpacked_product *p = &j->p;
    struct view v = p->gradient ? p->a : p->b;
    struct kernel_call *call = &j->planes.call;

    j->forward = *v.patch;
    if (p->gradient) { /* the planes have as many output pixels as the forward convolution has */
        j->forward.transposed = 0;
        v.patch = &j->forward;
    }
    *call = (struct kernel_call){ .config = p->f, .op = { [1] = { .view = v } } };
    call->n = call->op[1].lines = p->gradient ? p->k : p->n;
    call->k = call->view_k = p->gradient ? p->m : p->k;
    j->planes.filters.group = 1;
    limber_planes_begin(p->f, &j->planes, limber_runner_busy(p->call->runner), memory);
    j->planes.planes.nr = (int)p->width;
    return call->tasks[1];
}

/* Sets the table of offsets of the pixels that a filter gradient reads along k. */
static void set_window_table(struct launch_state *j)
{
    const struct patch *w = &j->p.window;
    const int64_t down = w->stride[0] * w->row, across = w->stride[1] * w->col;

    j->b_step = pixel_step(w, down, across, w->image, j->p.k);
    if (j->b_step)
        set_table(&j->p.b, j->p.k, j->b_step, j->b_at);
    else
        set_pixels(w, down, across, w->image, j->p.k, j->b_at);
}

/* Computes one product.  Returns true if the caller's epilogue has been applied. */
static bool run_product(const struct kernel *k, const struct unpacked_product *p, char *memory)
{
    const struct call *c = p->call;
    struct launch_state j = { .p = *p, .strip = limber_strip_code(k->cpu) };
    int64_t planes = 0, begin;

    memory = limber_aligned(memory);
    j.at = (int64_t *)(void *)limber_take_memory(&memory, j.p.k * 8);
    j.b_at = (int64_t *)(void *)limber_take_memory(&memory, j.p.k * 8);
    j.frame = limber_take_memory(&memory, (int64_t)frame_bytes(&j.p));
    j.packed = limber_take_memory(&memory, packed_bytes(&j.p));
    j.room = worker_bytes(&j.p);
    j.rooms = limber_take_memory(&memory, c->runner->workers * j.room);
    set_frame(&j);
    if (j.p.source == SOURCE_planes || j.p.gradient)
        planes = begin_planes(&j, memory);
    if (j.p.rows == ROWS_windows)
        set_taps(&j.p.window, j.p.k, j.at);
    else if (j.p.rows == ROWS_taps)
        set_pixels(&j.forward, j.planes.planes.columns, 1,
                   j.planes.planes.high * j.planes.planes.columns, j.p.k, j.at);
    else
        j.step = j.p.gathers ? 0 : k_step(&j.p.a, j.p.k);
    if (j.p.rows == ROWS_apart)
        set_table(&j.p.a, j.p.k, j.step, j.at);
    j.stretches = j.step == 1;
    j.fetches = j.stretches && j.p.m * j.p.k * j.p.size > RESULT_BYTES;
    if (j.p.source == SOURCE_rows || j.p.source == SOURCE_lines)
        j.b_step = k_step(&j.p.b, j.p.k);
    if (j.p.source == SOURCE_rows || j.p.source == SOURCE_lines)
        set_table(&j.p.b, j.p.k, j.b_step, j.b_at);
    else if (j.p.source == SOURCE_taps)
        set_window_table(&j);
    for (int64_t q = 0; q < LIMBER_SMALL_K && j.p.gathers; q++)
        j.gathered[q] = q * GATHERED;
    divide_work(&j, limber_runner_busy(c->runner));
    if (c->finish && j.inner >= j.p.n)
        j.finish = p->turned ? c->finish->turned : c->finish;
    if (j.p.packs && j.p.keep)
        j.kept = j.p.keep->alloc(j.p.keep->self, KEPT_strips, (size_t)packed_bytes(&j.p));
    j.packed = j.kept ? j.kept->memory : j.packed;
    j.pack_tasks = j.kept && j.kept->packed ? 0 : strip_count(&j.p);
    if (p->keep_rows)
        j.kept_rows =
            p->keep_rows->alloc(p->keep_rows->self, KEPT_rows, (size_t)kept_rows_bytes(p));
    if (j.kept_rows && !j.kept_rows->packed)
        j.row_keeping = ceil_div(p->m, KEPT_ROWS) * ceil_div(p->k, LIMBER_SMALL_K);
    begin = j.frame_rows + j.pack_tasks + j.row_keeping + planes;
    if (begin > 0)
        c->runner->run(c->runner->self, begin, run_preparation, &j);
    if (j.kept && !j.kept->packed)
        j.p.keep->packed(j.p.keep->self, j.kept);
    if (j.row_keeping > 0)
        p->keep_rows->packed(p->keep_rows->self, j.kept_rows);
    c->runner->run(c->runner->self, j.row_tasks * j.strip_tasks, run_block, &j);
    if (j.kept)
        j.p.keep->free(j.p.keep->self, j.kept);
    if (j.kept_rows)
        p->keep_rows->free(p->keep_rows->self, j.kept_rows);
    return j.finish != NULL;
}

/* Points the product's operands and result to those of the call, exchanged if it is transposed. */
static void set_data(struct unpacked_product *p, const struct call *c)
{
    p->a.data = p->turned ? c->b.data : c->a.data;
    p->b.data = p->turned ? c->a.data : c->b.data;
    p->c.data = c->c.data;
}

/* Computes the products of a launch, one after another.  A filter gradient with few channels is
 * computed from an NCHW copy of its image.  Returns true if the caller's epilogue has been
 * applied. */
bool limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory)
{
    struct call *c = &u->first;
    bool finished = true;

    if (u->is_planar) {
        limber_planar_place(&u->planar, memory);
        limber_planar_fill(&u->planar);
        memory += (int64_t)limber_planar_bytes(&u->planar, u->product.size);
        c->b.data = u->planar.call.b.data;
        c->c.data = u->planar.call.c.data;
    }
    if (u->products > 1)
        /* the caller applies the epilogue after the results of all images are stored */
        c->finish = NULL;
    for (int64_t i = 0; i < u->products; i++) {
        if (i > 0) {
            c->b.data = (const char *)c->b.data + u->image * u->product.size;
            c->c.data = (char *)c->c.data + c->c.outer * u->product.size;
        }
        set_data(&u->product, c);
        finished = run_product(k, &u->product, memory) && finished;
    }
    if (u->is_planar)
        limber_planar_store(&u->planar);
    return finished;
}
