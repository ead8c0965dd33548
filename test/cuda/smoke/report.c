/* SPDX-License-Identifier: BSD-3-Clause
 * Writes reports that locate wrong elements by tile, warp and lane. */
#include "smoke.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparing the bytes of a stage ---------------------------------------------------------- */

bool smoke_stage(struct stage *s, const char *name, enum site site, int64_t rows, int64_t cols)
{
    *s = (struct stage){ .name = name, .site = site, .rows = rows, .cols = cols };
    s->bad = calloc((size_t)(rows * cols) + 1, 1);
    return s->bad != NULL;
}

/* Writes a number's bytes in hexadecimal, most significant byte first. */
static void put_bytes(char to[40], const void *from, int size)
{
    const unsigned char *at = from;

    to += sprintf(to, "0x");
    while (size-- > 0)
        to += sprintf(to, "%02x", at[size]);
}

/* Compares an element with the interpreter's.  If they differ, marks its place as bad and keeps the
 * first MOST_DIFFERENCES differences. */
void smoke_compare(struct stage *s, int64_t plane, int64_t row, int64_t col, limber_format f,
                   const void *got, const void *want)
{
    struct difference *x;

    s->compared++;
    if (same_number(f, got, want))
        return;
    s->bad[row * s->cols + col] = 1;
    if (s->wrong++ >= MOST_DIFFERENCES)
        return;
    x = &s->difference[s->wrong - 1];
    *x = (struct difference){ .plane = plane, .row = row, .col = col };
    put_bytes(x->got, got, f.size);
    put_bytes(x->want, want, f.size);
    x->got_value = limber_format_value(f, got);
    x->want_value = limber_format_value(f, want);
}

/* ---- where an element is computed ------------------------------------------------------------ */

/* The tile, warp and lane that compute an element of the result. */
struct place {
    int64_t tile[2];
    int warp, lane; /* within the thread block; -1: several warps or lanes compute the element */
};

/* Returns the lane that holds an element of a 16 x 8 fragment of mma, wgmma or tcgen05
 * (kernel/tile.h): lane l holds rows l / 4 and l / 4 + 8 of columns 2 (l % 4) and 2 (l % 4) + 1. */
static int fragment_lane(int64_t row, int64_t col)
{
    return (int)(row % 8 * 4 + col % 8 / 2);
}

/* Returns the lane of an element in a kernel without tensor cores: a lane holds every fourth row
 * and every eighth column (kernel/lane.h, unit_f32.h). */
static int strided_lane(int64_t row, int64_t col)
{
    return (int)(row % 4 * 8 + col % 8);
}

/* Returns which tile, warp and lane of the multiply kernel compute element (row, col). */
static struct place multiply_place(const struct cuda_config *c, int64_t row, int64_t col)
{
    int64_t r = row % c->bm, x = col % c->bn;
    struct place p = { { row / c->bm, col / c->bn },
                       (int)(r / c->wm * (c->bn / c->wn) + x / c->wn),
                       fragment_lane(r, x) };

    switch (c->mma_path) {
    /* group.h: the first four warps fetch operands */
    case MMA_PATH_group: p.warp = (int)(4 + r / 16); break;
    case MMA_PATH_tensor: /* tensor.h: the first eight warps fetch operands and issue products */
        p.warp = (int)(8 + r % 32 / 16 * 4 + r / 32);
        break;
    case MMA_PATH_lane:
    case MMA_PATH_unit: p.lane = strided_lane(r, x); break;
    case MMA_PATH_portable: p.lane = -1; break;
    default: break;
    }
    return p;
}

/* Returns the place of thread `index` of the block that computes tile (i, j). */
static struct place thread_place(int64_t i, int64_t j, int64_t index)
{
    return (struct place){ { i, j }, (int)(index / 32), (int)(index % 32) };
}

/* How the result is divided into tiles, and these into cells. */
struct grid {
    int64_t height, width; /* sizes of a tile, in elements */
    /* height and width of the cells that one character of a tile's map stands for */
    int64_t cell[2];
};

/* Returns the tiles and cells into which the stage's kernel divides the result. */
static struct grid grid_of(const struct stage *s, const struct cuda_config *c)
{
    switch (s->site) {
    case SITE_pack: return (struct grid){ 32, 64, { 1, 8 } };
    case SITE_multiply: return (struct grid){ c->bm, c->bn, { 16, 8 } };
    case SITE_reconstruct: return (struct grid){ 32, 32, { 1, 4 } };
    default: return (struct grid){ 16, 16, { 1, 1 } };
    }
}

/* Returns which tile, warp and lane compute an element of the stage. */
static struct place place_of(const struct stage *s, const struct cuda_config *c, int64_t row,
                             int64_t col)
{
    switch (s->site) {
    /* kernel/pack.h: a tile has 32 lines by 64 elements, and each thread computes eight elements */
    case SITE_pack: return thread_place(row / 32, col / 64, row % 32 * 8 + col % 64 / 8);
    case SITE_multiply: return multiply_place(c, row, col);
    case SITE_reconstruct: /* kernel/reconstruct.h: each thread computes four elements */
        return thread_place(row / 32, col / 32, row % 32 * 8 + col % 32 / 4);
    case SITE_element: /* each thread computes one element, or more if C exceeds the grid */
        return thread_place(row / 16, col / 16, (row * s->cols + col) % 128);
    default: return (struct place){ { row / 16, col / 16 }, -1, -1 };
    }
}

/* ---- maps of wrong elements ------------------------------------------------------------------ */

/* Returns a character for a share of wrong elements: '.' none, '#' all, else a digit, in tenths. */
static char share_character(int64_t wrong, int64_t all)
{
    return wrong == 0   ? '.' :
           wrong == all ? '#' :
                          (char)('0' + (wrong * 10 / all > 0 ? wrong * 10 / all : 1));
}

/* Returns the character for the share of wrong elements in a cell. */
static char share_of_cell(const struct stage *s, int64_t row, int64_t col, int64_t height,
                          int64_t width)
{
    int64_t wrong = 0, all = 0;

    for (int64_t i = row; i < row + height && i < s->rows; i++)
        for (int64_t j = col; j < col + width && j < s->cols; j++, all++)
            wrong += s->bad[i * s->cols + j];
    return all ? share_character(wrong, all) : ' ';
}

enum { MAP_ROWS = 64, MAP_COLS = 128 };

/* Prints a map of rows [from[0], end[0]) and columns [from[1], end[1]) of the stage's result: one
 * character per cell, at most MAP_ROWS x MAP_COLS cells. */
static void map_cells(FILE *out, const struct stage *s, const int64_t from[2], const int64_t end[2],
                      const int64_t cell[2])
{
    int64_t rows = 0;

    fprintf(out, ", \"rows\": [");
    for (int64_t i = from[0]; i < end[0] && i < s->rows && rows < MAP_ROWS; i += cell[0], rows++) {
        int64_t cols = 0;

        fprintf(out, "%s\"", rows ? ", " : "");
        for (int64_t j = from[1]; j < end[1] && j < s->cols && cols < MAP_COLS;
             j += cell[1], cols++)
            fputc(share_of_cell(s, i, j, cell[0], cell[1]), out);
        fputc('"', out);
    }
    fprintf(out, "]}\n");
}

enum { WARPS = 32, LANES = 32 };

/* Prints a line with one character per warp or lane: the share of its elements that are wrong.  of:
 * [warp or lane] numbers of wrong elements and of all. */
static void print_shares(FILE *out, const char *name, int64_t (*of)[2])
{
    int end = WARPS;

    while (end > 0 && of[end - 1][1] == 0)
        end--;
    if (end == 0)
        return;
    fprintf(out, "{\"map\": \"%s\", \"rows\": [\"", name);
    for (int x = 0; x < end; x++)
        fputc(of[x][1] ? share_character(of[x][0], of[x][1]) : ' ', out);
    fprintf(out, "\"]}\n");
}

/* Prints the shares of wrong elements by warp and by lane, summed over all tiles. */
static void map_threads(FILE *out, const struct stage *s, const struct cuda_config *c)
{
    int64_t warp[WARPS][2] = { { 0 } }, lane[LANES][2] = { { 0 } };

    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->cols; j++) {
            struct place p = place_of(s, c, i, j);
            int wrong = s->bad[i * s->cols + j];

            if (p.warp >= 0) {
                warp[p.warp % WARPS][0] += wrong;
                warp[p.warp % WARPS][1]++;
            }
            if (p.lane >= 0) {
                lane[p.lane][0] += wrong;
                lane[p.lane][1]++;
            }
        }
    print_shares(out, "warps", warp);
    print_shares(out, "lanes", lane);
}

static void print_number(FILE *out, const char *name, double x)
{
    if (isfinite(x))
        fprintf(out, ", \"%s\": %.17g", name, x);
    else
        fprintf(out, ", \"%s\": \"%s\"", name, isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf");
}

/* Writes a JSON line about one wrong element: its position, and what computes it. */
static void print_element(FILE *out, const struct stage *s, const struct cuda_config *c,
                          const struct difference *x)
{
    struct place p = place_of(s, c, x->row, x->col);

    fprintf(out, "{\"element\": [%lld, %lld], \"plane\": %lld, \"tile\": [%lld, %lld]",
            (long long)x->row, (long long)x->col, (long long)x->plane, (long long)p.tile[0],
            (long long)p.tile[1]);
    if (p.warp >= 0)
        fprintf(out, ", \"warp\": %d", p.warp);
    if (p.lane >= 0)
        fprintf(out, ", \"lane\": %d", p.lane);
    fprintf(out, ", \"got\": \"%s\", \"want\": \"%s\"", x->got, x->want);
    print_number(out, "got_value", x->got_value);
    print_number(out, "want_value", x->want_value);
    if (x->from[0])
        fprintf(out, ", \"got_is\": \"%s\", \"want_is\": \"%s\"", x->from, x->due);
    fprintf(out, "}\n");
}

/* Writes what is known of a wrong stage: maps of wrong elements by tile, warp and lane, a map of
 * the first wrong tile, and the first wrong elements. */
void smoke_describe(FILE *out, const struct stage *s, const struct cuda_config *c)
{
    static const struct cuda_config none = { .bm = 16, .bn = 16, .wm = 16, .wn = 16 };
    const struct cuda_config *f = c ? c : &none;
    const struct difference *first = &s->difference[0];
    struct grid g = grid_of(s, f);
    const int64_t all[2] = { s->rows, s->cols }, zero[2] = { 0, 0 };
    const int64_t tile[2] = { g.height, g.width };
    const int64_t at[2] = { first->row / g.height * g.height, first->col / g.width * g.width };
    const int64_t end[2] = { at[0] + g.height, at[1] + g.width };
    int64_t listed = s->wrong < MOST_DIFFERENCES ? s->wrong : MOST_DIFFERENCES;

    fprintf(out, "{\"map\": \"tiles\", \"of\": \"%s\", \"tile\": [%lld, %lld]", s->name,
            (long long)g.height, (long long)g.width);
    map_cells(out, s, zero, all, tile);
    map_threads(out, s, f);
    fprintf(out, "{\"map\": \"first wrong tile\", \"tile\": [%lld, %lld], \"cell\": [%lld, %lld]",
            (long long)(first->row / g.height), (long long)(first->col / g.width),
            (long long)g.cell[0], (long long)g.cell[1]);
    map_cells(out, s, at, end, g.cell);
    for (int64_t i = 0; i < listed; i++)
        print_element(out, s, f, &s->difference[i]);
}

/* ---- what a kind found ----------------------------------------------------------------------- */

void smoke_print_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *c = text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if ((unsigned char)*c < ' ')
            fprintf(out, "\\u%04x", (unsigned char)*c);
        else
            fputc(*c, out);
    fputc('"', out);
}

/* Counts a run.  The first wrong run is named in the report.  Returns true only for that run, so
 * that its caller prints details. */
bool smoke_count_run(struct report *r, bool right, const char *stage, const char *run)
{
    r->runs++;
    if (right)
        return false;
    if (r->wrong++)
        return false;
    snprintf(r->stage, sizeof r->stage, "%s", stage);
    snprintf(r->run, sizeof r->run, "%s", run);
    fprintf(r->details, "{\"stage\": ");
    smoke_print_json_string(r->details, stage);
    fprintf(r->details, ", \"run\": ");
    smoke_print_json_string(r->details, run);
    fprintf(r->details, "}\n");
    return true;
}

bool smoke_failed(struct report *r, const char *stage, const char *run, const char *error)
{
    if (!smoke_count_run(r, false, stage, run))
        return false;
    fprintf(r->details, "{\"error\": ");
    smoke_print_json_string(r->details, error);
    fprintf(r->details, "}\n");
    return true;
}
