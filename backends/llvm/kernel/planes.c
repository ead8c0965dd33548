/* SPDX-License-Identifier: BSD-3-Clause
 * Packs a convolution's image into planes, and gathers panels from planes when a block needs them
 * (an implicit GEMM).  A panel is used by all register tiles in its columns.
 *
 *   source  implicit GEMM: Chetlur et al., cuDNN, arXiv 1410.0759, section 3 */
#include "backends/llvm/kernel/kernel.h"

#include "backends/llvm/kernel/join.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>


#define FLAT static inline __attribute__((always_inline))

typedef int32_t v16i __attribute__((vector_size(64)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef int8_t v16c __attribute__((vector_size(16)));
typedef int16_t v16h __attribute__((vector_size(32)));

/* AHEAD: number of rows of a panel between the current and the prefetched one; ROOM: bytes of words
 * that are gathered before they are interleaved */
enum { VECTOR = 64, BATCH = 16, AHEAD = 12, ROOM = 4 * 4 * KERNEL_NR };

/* `count` columns of a panel, from column `to` on, which are contiguous in each row of the planes,
 * from offset `from` on. */
struct column_run {
    int64_t to, count, from;
};

/* Divides columns [j, j + columns) into runs and returns their number.  Columns past the last one
 * belong to the last run. */
static int find_runs(const struct packed *o, int64_t j, int64_t columns, struct column_run *run)
{
    const struct planes *x = o->planes;
    const struct patch *w = o->view.patch;
    int64_t line = o->line0 + j, end = o->lines - j < columns ? o->lines - j : columns;
    int64_t row = line / w->ow, column = line % w->ow, image = row / w->oh, y = row % w->oh;
    int runs = 0;

    for (int64_t at = 0; at < end; column = 0) {
        int64_t count = w->ow - column < end - at ? w->ow - column : end - at;
        int64_t from = (image * x->high + y - x->first) * x->columns + column;

        if (runs > 0 && from == run[runs - 1].from + run[runs - 1].count)
            run[runs - 1].count += count;
        else
            run[runs++] = (struct column_run){ at, count, from };
        at += count;
        if (++y == w->oh) {
            y = 0;
            image++;
        }
    }
    if (runs > 0 && end < columns)      /* columns past the last one are computed but not stored */
        run[runs - 1].count += columns - end;
    return runs;
}

/* Vectors for copying, since GCC would otherwise copy 16 bytes at a time. */
#if defined(__AVX2__)
typedef char part __attribute__((vector_size(32), aligned(1), may_alias));
#else
typedef char part __attribute__((vector_size(16), aligned(1), may_alias));
#endif

/* Copies VECTOR bytes. */
FLAT void copy_vector(char *to, const char *from)
{
    part v[VECTOR / sizeof(part)];

    for (size_t i = 0; i < VECTOR / sizeof(part); i++)
        v[i] = *(const part *)(const void *)(from + i * sizeof(part));
    for (size_t i = 0; i < VECTOR / sizeof(part); i++)
        *(part *)(void *)(to + i * sizeof(part)) = v[i];
}

/* Copies runs as full vectors.  Bytes that exceed a run are overwritten by the next run or the next
 * row. */
FLAT void copy_runs(const struct column_run *run, int runs, int64_t bytes, const char *from,
                    char *to)
{
    for (int i = 0; i < runs; i++)
        for (int64_t x = 0; x < run[i].count * bytes; x += VECTOR)
            copy_vector(to + run[i].to * bytes + x, from + run[i].from * bytes + x);
}

/* Interleaves `group` rows of n elements, of `bytes` bytes each. */
FLAT void interleave_rows(const char *const *row, int group, int64_t n, int bytes, char *to)
{
    int64_t x = 0;

    for (; group == 4 && bytes == 1 && x + 16 <= n; x += 16)
        join_four((const char *[]){ row[0] + x, row[1] + x, row[2] + x, row[3] + x }, to + 4 * x);
    for (; x < n; x++)
        for (int q = 0; q < group; q++)
            memcpy(to + (x * group + q) * bytes, row[q] + x * bytes, (size_t)bytes);
}

/* Iterator over rows p, p + 1, ... of a panel's limb.  A row consists of elements or words of the
 * planes. */
struct row_iterator {
    /* address in the planes of the row of the current channel or group of channels */
    const char *at;
    int64_t tap; /* index of the current element of the window */
};

/* Returns an iterator at row p: at window element p % taps of channel (or group of channels) p /
 * taps. */
FLAT struct row_iterator iterator_at(const struct kernel_call *c, int limb, int64_t p)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;

    return (struct row_iterator){ o->data + limb * o->limb_bytes +
                                      p / x->taps * x->length * x->group * c->config->bytes,
                                  p % x->taps };
}

/* Returns the address of the current row, and advances to the next row. */
FLAT const char *next_row(struct row_iterator *w, const struct planes *x, int64_t bytes)
{
    const char *at = w->at + x->tap[w->tap] * bytes;

    if (++w->tap == x->taps) {
        w->tap = 0;
        w->at += x->length * bytes;
    }
    return at;
}

/* Gathers `len` rows of a panel from the planes into `room`, from the row of w on.  A row consists
 * of `runs` contiguous runs.  count: `runs` if each run fits one vector, else 0. */
FLAT void gather_some(const struct kernel_call *c, const struct column_run *run, int runs,
                      int count, struct row_iterator w, int64_t len, int64_t bytes, char *room)
{
    const struct planes *x = c->op[1].planes;
    const int64_t row = x->nr * bytes, plane = x->length * bytes;
    const int64_t ahead = (AHEAD + x->taps - 1) / x->taps * plane;
    int64_t from[4] = { 0 }, to[4] = { 0 };

    for (int i = 0; i < count; i++) {
        from[i] = run[i].from * bytes;
        to[i] = run[i].to * bytes;
    }
    for (int64_t end; len > 0; w.tap = 0, w.at += plane) {
        end = x->taps - w.tap < len ? x->taps : w.tap + len;
        len -= end - w.tap;
        for (int64_t t = w.tap; t < end; t++, room += row) {
            const char *at = w.at + x->tap[t] * bytes;

            /* planes lie on different pages, which hardware prefetchers do not cross */
            __builtin_prefetch(at + run[0].from * bytes + ahead);
            if (!count)
                copy_runs(run, runs, bytes, at, room);
            for (int i = 0; i < count; i++)
                copy_vector(room + to[i], at + from[i]);
        }
    }
}

/* Gathers rows of a panel, with the number of runs as a constant if it is small, so that the
 * compiler unrolls loops over runs. */
FLAT void gather_rows(const struct kernel_call *c, const struct column_run *run, int runs,
                      struct row_iterator w, int64_t len, int64_t bytes, char *room)
{
    const bool one = c->op[1].planes->nr * bytes <= VECTOR; /* a run is at most one vector long */

    switch (one ? runs : 0) {
    case 1: gather_some(c, run, runs, 1, w, len, bytes, room); break;
    case 2: gather_some(c, run, runs, 2, w, len, bytes, room); break;
    case 3: gather_some(c, run, runs, 3, w, len, bytes, room); break;
    case 4: gather_some(c, run, runs, 4, w, len, bytes, room); break;
    default: gather_some(c, run, runs, 0, w, len, bytes, room); break;
    }
}

/* Gathers `len` rows of a panel from the planes, and interleaves each `group` neighbouring rows, so
 * that the elements of a group along k are contiguous. */
FLAT void gather_groups(const struct kernel_call *c, const struct column_run *run, int runs,
                        struct row_iterator w, int64_t len, int group, int64_t bytes, char *room)
{
    char copies[BATCH * (KERNEL_NR * 2 + VECTOR)];
    static const char zeros[KERNEL_NR * 2];
    int64_t nr = c->op[1].planes->nr, step = nr * bytes + VECTOR;
    const char *row[BATCH];

    for (int64_t p = 0; p < len; p += BATCH) {
        int64_t rows = len - p < BATCH ? len - p : BATCH;

        for (int64_t i = 0; i < BATCH; i++) {
            row[i] = i < rows ? next_row(&w, c->op[1].planes, bytes) : zeros;
            if (i >= rows)
                continue;
            if (runs == 1) {
                row[i] += run[0].from * bytes;
                continue;
            }
            copy_runs(run, runs, bytes, row[i], copies + i * step);
            row[i] = copies + i * step;
        }
        for (int64_t i = 0; i < rows; i += group, room += nr * group * bytes)
            interleave_rows(row + i, group, nr, (int)bytes, room);
    }
}

/* Interleaves the words of two rows, for groups of eight bytes along k. */
FLAT void pair_rows(const char *first, const char *second, int64_t words, char *to)
{
    for (int64_t x = 0; x < words; x += 4, to += 2 * sizeof(v4i)) {
        v4i a, b, low, high;

        memcpy(&a, first + 4 * x, sizeof a);
        memcpy(&b, second + 4 * x, sizeof b);
        low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        memcpy(to, &low, sizeof low);
        memcpy(to + sizeof low, &high, sizeof high);
    }
}

/* Gathers a panel for groups of eight bytes along k: gathers rows of words, as many as fit in ROOM
 * bytes, and interleaves pairs of them. */
FLAT void gather_pairs(const struct kernel_call *c, const struct column_run *run, int runs,
                       int limb, int64_t p0, int64_t len, char *room)
{
    const int64_t group = c->op[1].planes->group, nr = c->op[1].planes->nr, row = 4 * nr;
    char words[ROOM + VECTOR];

    for (int64_t p = 0, count; p < len; p += ROOM / nr, room += (count + 1) / 2 * 2 * row) {
        const int64_t some = len - p < ROOM / nr ? len - p : ROOM / nr;
        struct row_iterator w = iterator_at(c, limb, (p0 + p) / group);

        count = (some + 3) / 4;
        if (group > 1)
            gather_rows(c, run, runs, w, count, 4, words);
        else
            gather_groups(c, run, runs, w, some, 4, 1, words);
        if (count % 2)
            memset(words + count * row, 0, (size_t)row);
        for (int64_t i = 0; i < count; i += 2)
            pair_rows(words + i * row, words + (i + 1) * row, nr, room + i * row);
    }
}

/* Implements kernel_gather: gathers a panel, by the code for the size and grouping of its
 * elements. */
void FOR_ISA(limber_planes_gather)(const struct kernel_call *c, int64_t j, int limb, int64_t p0,
                                   int64_t len, char *room)
{
    const struct kernel_config *f = c->config;
    struct column_run run[KERNEL_NR];
    int nr = c->op[1].planes->nr, runs = find_runs(&c->op[1], j, nr, run);
    int group = c->op[1].planes->group;
    struct row_iterator w = iterator_at(c, limb, p0 / group);

    if (f->group == 8)
        gather_pairs(c, run, runs, limb, p0, len, room);
    else if (group > 1)
        gather_rows(c, run, runs, w, (len + group - 1) / group, 4, room);
    else if (f->group == 1 && f->bytes == 4)
        gather_rows(c, run, runs, w, len, 4, room);
    else if (f->group == 1)
        gather_rows(c, run, runs, w, len, f->bytes, room);
    else if (f->group == 4 && f->bytes == 1)
        gather_groups(c, run, runs, w, len, 4, 1, room);
    else
        gather_groups(c, run, runs, w, len, f->group, f->bytes, room);
    if (f->matrix)      /* pads the panel to full steps of the matrix unit */
        for (int64_t p = (len + 3) / 4; p % 16; p++)
            memset(room + p * 4 * nr, 0, (size_t)nr * 4);
}

/* Computes for each column the sum of the packed values of the pixels in its window. */
void FOR_ISA(limber_planes_sums)(const struct kernel_call *c, int64_t j, int64_t columns, int limb,
                                 int32_t *sums)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;
    const int32_t *from = o->sums + limb * o->sum_lines;
    int nr = c->config->nr;
    struct column_run run[KERNEL_NR];

    for (int64_t at = 0; at < columns; at += nr, sums += nr) {
        int runs = find_runs(o, j + at, nr, run);

        memset(sums, 0, (size_t)nr * sizeof *sums);
        for (int64_t t = 0; t < x->taps; t++)
            for (int i = 0; i < runs; i++)
                for (int64_t l = 0; l < run[i].count; l++)
                    sums[run[i].to + l] += from[run[i].from + x->tap[t] + l];
    }
}

/* Computes for each column the square root of the sum of squares of the pixels in its window. */
void FOR_ISA(limber_planes_norms)(const struct kernel_call *c, int64_t j, int64_t columns,
                                  double *norms)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;
    int nr = c->config->nr;
    struct column_run run[KERNEL_NR];

    for (int64_t at = 0; at < columns; at += nr, norms += nr) {
        int runs = find_runs(o, j + at, nr, run);

        memset(norms, 0, (size_t)nr * sizeof *norms);
        for (int64_t t = 0; t < x->taps; t++)
            for (int i = 0; i < runs; i++)
                for (int64_t l = 0; l < run[i].count; l++)
                    norms[run[i].to + l] += o->norm[run[i].from + x->tap[t] + l];
        for (int l = 0; l < nr; l++)
            norms[l] = sqrt(norms[l]);
    }
}

/* ---- planes of unchanged elements ------------------------------------------------------------ */

/* Vector types that are no longer than a register, since GCC would process longer ones element by
 * element. */
#if defined(__AVX2__)
#define EVEN_WORDS 0, 2, 4, 6, 8, 10, 12, 14
#define EVEN_BYTES                                                                              \
    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46,  \
        48, 50, 52, 54, 56, 58, 60, 62
typedef int8_t part_bytes __attribute__((vector_size(32)));
typedef int32_t part_words __attribute__((vector_size(32)));
#else
#define EVEN_WORDS 0, 2, 4, 6
#define EVEN_BYTES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
typedef int8_t part_bytes __attribute__((vector_size(16)));
typedef int32_t part_words __attribute__((vector_size(16)));
#endif

/* Stores the even elements of two registers contiguously. */
FLAT void take_even(char *to, const char *from, int size)
{
    part_bytes a, b, even;

    memcpy(&a, from, sizeof a);
    memcpy(&b, from + sizeof a, sizeof b);
    if (size == 1)
        even = __builtin_shufflevector(a, b, EVEN_BYTES);
    else
        even = (part_bytes)__builtin_shufflevector((part_words)a, (part_words)b, EVEN_WORDS);
    memcpy(to, &even, sizeof even);
}

/* Copies `count` elements that are `step` elements apart to contiguous memory. */
FLAT void copy_apart(char *to, const char *from, int64_t step, int64_t count, int size)
{
    int64_t x = 0, each = (int64_t)sizeof(part_bytes) / size;

    if (step == 1) {
        memcpy(to, from, (size_t)(count * size));
        return;
    }
    /* take_even() reads past the last even element, but not past the next one, so the last vector
     * must end with the last element */
    if (step == 2 && (size == 1 || size == 4) && count > each) {
        for (; x + 2 * each < count; x += 2 * each) {
            take_even(to + x * size, from + 2 * x * size, size);
            take_even(to + (x + each) * size, from + 2 * (x + each) * size, size);
        }
        if (x + each < count)
            take_even(to + x * size, from + 2 * x * size, size);
        x = count - 1;
        take_even(to + (x - each) * size, from + 2 * (x - each) * size, size);
    }
    for (; x < count; x++)
        memcpy(to + x * size, from + x * step * size, (size_t)size);
}

/* Copies a row of one stride phase: zeros for padding, every `step`-th element of a row of the
 * image, and zeros again.  first: column of the image of the row's first element. */
FLAT void copy_row(const struct patch *w, const char *from, int64_t first, int64_t columns,
                   int size, char *to)
{
    int64_t step = w->stride[1], before, end;

    /* columns [before, end) are pixels of the image: those with 0 <= first + x * step < w */
    before = first < 0 ? (-first + step - 1) / step : 0;
    end = first < w->w ? (w->w - first + step - 1) / step : 0;
    before = before < columns ? before : columns;
    end = end < before ? before : end < columns ? end : columns;
    memset(to, 0, (size_t)(before * size));
    copy_apart(to + before * size, from + (first + before * step) * w->col * size, step * w->col,
               end - before, size);
    memset(to + end * size, 0, (size_t)((columns - end) * size));
}

/* Adds a unit's offset to the bytes of a row, and adds the results to the sums of their pixels. */
FLAT void offset_row(int8_t *to, int64_t columns, int8_t offset, int32_t *sums)
{
    int64_t x = 0;

    for (; x + 16 <= columns; x += 16) {
        v16c v;
        v16i sum;

        memcpy(&v, to + x, sizeof v);
        memcpy(&sum, sums + x, sizeof sum);
        v += offset;
        sum += __builtin_convertvector(v, v16i);
        memcpy(to + x, &v, sizeof v);
        memcpy(sums + x, &sum, sizeof sum);
    }
    for (; x < columns; x++) {
        to[x] = (int8_t)(to[x] + offset);
        sums[x] += to[x];
    }
}

/* Fills row `row` of a channel's planes (padded copies of the image, one for each phase of the
 * stride) from the image, with zeros for the padding. */
FLAT void copy_row_of(const struct kernel_call *c, int64_t channel, int64_t row, int size)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;
    const struct patch *w = o->view.patch;
    char *to = o->data + (channel * x->length + row * x->columns) * size;
    int64_t images = (o->line0 + o->lines - 1) / (w->oh * w->ow) + 1;
    int64_t phase = row / x->rows, at = x->first + row % x->rows, image = at / x->high;
    int64_t y = at % x->high * w->stride[0] + x->phase[phase][0] - x->pad[0];
    int64_t begin = image < images && y >= 0 && y < w->h ?
        limber_patch_begin(w, image, channel) : -1;

    if (begin >= 0)
        copy_row(w, (const char *)o->view.data + (begin + y * w->row) * size,
                 x->phase[phase][1] - x->pad[1], x->columns, size, to);
    else
        memset(to, 0, (size_t)(x->columns * size));
    if (size == 1 && c->config->offsets)
        offset_row((int8_t *)to, x->columns, (int8_t)c->config->side[1].offset[0],
                   o->sums + row * x->columns);
}

/* Clears the elements past the last pixels of a plane, since gathered panels may read them. */
FLAT void clear_rest(const struct kernel_call *c, int64_t plane, int64_t size)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;
    int64_t used = x->phases * x->rows * x->columns;

    memset(o->data + (plane * x->length + used) * size, 0, (size_t)((x->length - used) * size));
}

/* ---- planes of words ------------------------------------------------------------------------- */

/* A row of a stride phase: the address of its column 0 in channel 0 (computed even if this column
 * is padding), and the range of columns that are pixels of the image. */
struct plane_row {
    const char *from, *memory_end;      /* memory_end: end of all images in memory */
    int64_t step, begin, end;   /* step: bytes from one column to the next */
};

/* Returns the pixels of the image that row `row` of the planes holds.  `from` is NULL if the row is
 * padding only. */
FLAT struct plane_row find_row_pixels(const struct kernel_call *c, int64_t row)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;
    const struct patch *w = o->view.patch;
    int64_t images = (o->line0 + o->lines - 1) / (w->oh * w->ow) + 1, step = w->stride[1];
    int64_t phase = row / x->rows, at = x->first + row % x->rows, image = at / x->high;
    int64_t y = at % x->high * w->stride[0] + x->phase[phase][0] - x->pad[0];
    int64_t first = x->phase[phase][1] - x->pad[1], begin, end;
    const char *data;

    if (image >= images || y < 0 || y >= w->h)
        return (struct plane_row){ NULL, NULL, 0, 0, 0 };
    begin = first < 0 ? (-first + step - 1) / step : 0;
    end = first < w->w ? (w->w - first + step - 1) / step : 0;
    begin = begin < x->columns ? begin : x->columns;
    end = end < begin ? begin : end < x->columns ? end : x->columns;
    data = (const char *)o->view.data;
    return (struct plane_row){ data + image * w->image + y * w->row + first * w->col,
                               data + (images - 1) * w->image + (x->channels - 1) * w->channel +
                                   (w->h - 1) * w->row + (w->w - 1) * w->col + 1,
                               step * w->col, begin, end };
}

/* Copies every `step`-th byte, from `from` on, of which `count` (at most sixteen) are needed.  May
 * read bytes between and past them, but none at or past `end`. */
FLAT void copy_sixteen_apart(char *to, const char *from, int64_t step, int64_t count,
                             const char *end)
{
    if (step == 1 && end - from >= 16) {
        memcpy(to, from, 16);
    } else if (step == 2 && end - from >= 32) {
        v16h pairs;
        v16c even;

        memcpy(&pairs, from, sizeof pairs);
        even = __builtin_convertvector(pairs, v16c);
        memcpy(to, &even, sizeof even);
    } else {
        for (int64_t i = 0; i < count && i < 16; i++)
            to[i] = from[i * step];
    }
}

/* Interleaves `count` NCHW channels, from `channel` on, into words.  step: bytes from one channel
 * to the next. */
FLAT void interleave_row(const struct plane_row *p, int64_t channel, int64_t step, int count,
                         char *to)
{
    char room[4][16] = { 0 }, words[64];

    for (int64_t x = p->begin; x < p->end; x += 16) {
        const char *row[4] = { room[0], room[1], room[2], room[3] };
        int64_t n = p->end - x;

        for (int q = 0; q < count; q++) {
            const char *from = p->from + (channel + q) * step + x * p->step;

            if (p->step == 1 && p->memory_end - from >= 16)
                row[q] = from;
            else
                copy_sixteen_apart(room[q], from, p->step, n, p->memory_end);
        }
        join_four(row, n < 16 ? words : to + 4 * x);
        if (n < 16)
            memcpy(to + 4 * x, words, (size_t)(4 * n));
    }
}

/* Interleaves one or two (`count`) NCHW channels, each byte extended to 16 bits. */
FLAT void widen_row(const struct plane_row *p, int64_t channel, int64_t step, int count,
                    int is_unsigned, char *to)
{
    for (int64_t x = p->begin; x < p->end; x += 16) {
        const char *from = p->from + channel * step + x * p->step;
        int64_t n = p->end - x < 16 ? p->end - x : 16;
        char room[2][16] = { 0 }, words[64];

        copy_sixteen_apart(room[0], from, p->step, n, p->memory_end);
        if (count > 1)
            copy_sixteen_apart(room[1], from + step, p->step, n, p->memory_end);
        join_two_widened((const char *[]){ room[0], room[1] }, !is_unsigned, words);
        memcpy(to + 4 * x, words, (size_t)(4 * n));
    }
}

/* Transposes the words of NHWC pixels, of channel groups [from, end), to planes that are `plane`
 * bytes apart. */
FLAT void transpose_row(const struct plane_row *p, int64_t from, int64_t end, int64_t plane,
                        char *to)
{
    int64_t x = p->begin, turned = (end - from) / 16 * 16;

    for (; x + 16 <= p->end && turned > 0; x += 16) {
        const char *line[16];

        for (int l = 0; l < 16; l++)
            line[l] = p->from + (x + l) * p->step + 4 * from;
        FOR_ISA(limber_transpose)(line, 4, 16, to + 4 * x, plane, turned);
        for (int64_t q = turned; q < end - from; q++)
            for (int l = 0; l < 16; l++)
                memcpy(to + q * plane + 4 * (x + l), line[l] + 4 * q, 4);
    }
    for (; x < p->end; x++)
        for (int64_t q = 0; q < end - from; q++)
            memcpy(to + q * plane + 4 * x, p->from + x * p->step + 4 * (from + q), 4);
}

/* Adds 128 to each byte by flipping its sign bit (XOR with `flip`; 0: no offset), and adds the four
 * bytes of each pixel's word to that pixel's sum. */
FLAT void offset_words(char *to, int64_t columns, int32_t flip, int32_t *sums)
{
    int64_t x = 0;

    for (; x + 16 <= columns; x += 16) {
        v16i word, sum;

        memcpy(&word, to + 4 * x, sizeof word);
        memcpy(&sum, sums + x, sizeof sum);
        word ^= flip;
        sum += (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
        memcpy(to + 4 * x, &word, sizeof word);
        memcpy(sums + x, &sum, sizeof sum);
    }
    for (; x < columns; x++) {
        int8_t v[4];
        int32_t word;

        memcpy(&word, to + 4 * x, 4);
        word ^= flip;
        memcpy(to + 4 * x, &word, 4);
        memcpy(v, &word, 4);
        sums[x] += v[0] + v[1] + v[2] + v[3];
    }
}

/* Packs row `row` of the planes of channel groups [from, end), as words of channels. */
FLAT void words_of_row(const struct kernel_call *c, int64_t from, int64_t end, int64_t row)
{
    const struct packed *o = &c->op[1];
    const struct planes *x = o->planes;
    const struct plane_row p = find_row_pixels(c, row);
    int is_unsigned = c->config->side[1].f.kind == LIMBER_KIND_UINT;
    int64_t plane = 4 * x->length, whole = x->channels / 4 < end ? x->channels / 4 : end;
    char *to = o->data + from * plane + 4 * row * x->columns;
    int32_t flip = c->config->side[1].offset[0] ? (int32_t)0x80808080 : 0;

    for (int64_t q = from; q < end; q++) {
        char *at = to + (q - from) * plane;

        memset(at, 0, (size_t)(4 * p.begin));
        memset(at + 4 * p.end, 0, (size_t)(4 * (x->columns - p.end)));
    }
    if (x->group == 2) {
        for (int64_t q = from; q < end; q++)
            widen_row(&p, 2 * q, o->view.patch->channel, x->channels - 2 * q < 2 ? 1 : 2,
                      is_unsigned, to + (q - from) * plane);
    } else if (o->view.patch->channel == 1) {
        transpose_row(&p, from, whole, plane, to);
        for (int64_t at = p.begin; at < p.end && whole < end; at++) {
            char word[4] = { 0 };

            memcpy(word, p.from + at * p.step + 4 * whole, (size_t)(x->channels - 4 * whole));
            memcpy(to + (whole - from) * plane + 4 * at, word, 4);
        }
    } else {
        for (int64_t q = from; q < end; q++)
            interleave_row(&p, 4 * q, o->view.patch->channel,
                           (int)(x->channels - 4 * q < 4 ? x->channels - 4 * q : 4),
                           to + (q - from) * plane);
    }
    for (int64_t q = from; q < end && c->config->offsets; q++) {
        int64_t count = x->channels - 4 * q; /* bytes for channels that do not exist stay 0 */

        offset_words(to + (q - from) * plane, x->columns,
                     count < 4 ? flip & ((1 << 8 * count) - 1) : flip,
                     o->sums + row * x->columns);
    }
}

/* Implements kernel_plane_copy for elements of `size` bytes.  If register tiles are stored
 * directly, also multiplies sums by minus A's offset. */
FLAT void copy_rows(const struct kernel_call *c, int64_t from, int64_t to, int64_t first,
                    int64_t end, int size)
{
    const struct planes *x = c->op[1].planes;
    int32_t factor = c->stores ? -c->config->side[0].offset[0] : 1;

    for (int64_t row = first; row < end && x->group > 1; row++)
        words_of_row(c, from / x->group, (to + x->group - 1) / x->group, row);
    /* the outer loop runs over channels and the inner loop over rows, as an NCHW image lies in
     * memory */
    for (int64_t channel = from; channel < to && x->group == 1; channel++)
        for (int64_t row = first; row < end; row++)
            copy_row_of(c, channel, row, size);
    for (int64_t i = first * x->columns; i < end * x->columns && c->config->offsets; i++)
        c->op[1].sums[i] *= factor;
    for (int64_t channel = from; channel < to && end == x->phases * x->rows; channel += x->group)
        clear_rest(c, channel / x->group, size * x->group);
}

/* Implements kernel_plane_copy, by the code for the elements' size. */
void FOR_ISA(limber_planes_copy)(const struct kernel_call *c, int64_t from, int64_t to,
                                 int64_t first, int64_t end)
{
    switch (c->config->bytes) {
    case 1: copy_rows(c, from, to, first, end, 1); break;
    case 2: copy_rows(c, from, to, first, end, 2); break;
    case 4: copy_rows(c, from, to, first, end, 4); break;
    default: copy_rows(c, from, to, first, end, 8); break;
    }
}
