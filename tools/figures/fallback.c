/* SPDX-License-Identifier: BSD-3-Clause
 * Figure fallbacks: how much of log-normal data FP16 limbs (FP32-F) cannot hold.
 *
 * A tile has 64 lines and 256 elements along k.  It falls back to a wider scheme
 *   unscaled: if an element is outside [2^-14, 2^15);
 *   lines: if one of its lines, scaled over all of k, spans more than 29 binades;
 *   windows: if the tile is outside the 29 binades that hold most tiles of its block of lines.
 * A product of two tiles falls back if one of them does.  The library scales lines if they hold
 * everything, else it uses windows.
 *
 *   source  Ma et al., ICS 2022, sections 4.3, 5.2 */
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tile has LINES lines and LENGTH elements along k. FP16 holds numbers from 2^LOW to below 2^TOP,
 * which are WINDOW binades. */
enum { LINES = 64, LENGTH = 256, LOW = -14, TOP = 15, WINDOW = 29, BLOCKS = 16, TILES = 8 };
static const char *const kinds[] = { "independent", "row levels", "tile levels" };
enum { INDEPENDENT, ROW_LEVELS, TILE_LEVELS, KINDS };

/* Smallest and largest exponents of an operand: of each line in each tile, and of each tile. */
struct side {
    int blocks, tiles;
    struct span {
        int low, high;
    } line[BLOCKS][TILES][LINES], tile[BLOCKS][TILES];
};

/* Returns the least span that contains both. */
static struct span union_of(struct span a, struct span b)
{
    return (struct span){ a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high };
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Draws exp(sigma N(0,1)), and draws again while it is outside a range well within the normal
 * numbers. */
static double draw_level(double sigma, uint64_t *state)
{
    double x;

    do
        x = exp(sigma * random_normal(state));
    while (!(x > 0x1p-116 && x < 0x1p116));
    return x;
}

/* Adds the exponent of element p of a line to the ranges of the line in its tile and of the
 * tile. */
static void note_exponent(struct side *s, int64_t line, int64_t p, float x)
{
    struct span e = { ilogbf(x), ilogbf(x) };
    int64_t block = line / LINES, tile = p / LENGTH;
    struct span *l = &s->line[block][tile][line % LINES], *t = &s->tile[block][tile];

    *l = p % LENGTH ? union_of(*l, e) : e;
    *t = p % LENGTH || line % LINES ? union_of(*t, e) : e;
}

/* Draws an operand of `lines` lines of k elements, and stores its exponents in s.  Element p of
 * line i is x[i row + p col]. */
static void draw_operand(int kind, double sigma, int64_t lines, int64_t k, float *x, int64_t row,
                         int64_t col, struct side *s, uint64_t *state)
{
    double tile[BLOCKS][TILES];

    for (int b = 0; b < s->blocks; b++)
        for (int t = 0; t < s->tiles; t++)
            tile[b][t] = draw_level(sigma, state);
    for (int64_t i = 0; i < lines; i++) {
        double of_row = draw_level(sigma, state);

        for (int64_t p = 0; p < k; p++) {
            double y = kind == INDEPENDENT ?
                           draw_level(sigma, state) :
                           (kind == ROW_LEVELS ? of_row : tile[i / LINES][p / LENGTH]) *
                               exp2(6 * random_unit(state) - 3);

            x[i * row + p * col] = (float)y * (random_bits(state) >> 63 ? 1.0f : -1.0f);
            note_exponent(s, i, p, (float)y);
        }
    }
}

/* ---- tiles that fall back -------------------------------------------------------------------- */

typedef bool verdicts[BLOCKS][TILES];

/* Sets out[block][tile] if a tile exceeds the range of exponents [LOW, TOP) of unscaled numbers. */
static void judge_unscaled(const struct side *s, verdicts out)
{
    for (int b = 0; b < s->blocks; b++)
        for (int t = 0; t < s->tiles; t++)
            out[b][t] = s->tile[b][t].low < LOW || s->tile[b][t].high >= TOP;
}

/* Sets out[block][tile] if some line of the block has exponents that differ by WINDOW or more;
 * all tiles of a block get the same verdict. */
static void judge_lines(const struct side *s, verdicts out)
{
    for (int b = 0; b < s->blocks; b++) {
        bool bad = false;

        for (int i = 0; i < LINES; i++) {
            struct span all = s->line[b][0][i];

            for (int t = 1; t < s->tiles; t++)
                all = union_of(all, s->line[b][t][i]);
            bad |= all.high - all.low >= WINDOW;
        }
        for (int t = 0; t < s->tiles; t++)
            out[b][t] = bad;
    }
}

/* True if the exponents lie in the window of WINDOW binades that ends at `top`. */
static bool is_in_window(struct span t, int top)
{
    return t.high <= top && t.low > top - WINDOW;
}

/* For each block of lines, finds the window of exponents that holds the largest number of tiles;
 * out: tiles outside the window. */
static void judge_windows(const struct side *s, verdicts out)
{
    for (int b = 0; b < s->blocks; b++) {
        int best = 0, most = -1;

        for (int t = 0; t < s->tiles; t++) {
            int count = 0;

            for (int q = 0; q < s->tiles; q++)
                count += is_in_window(s->tile[b][q], s->tile[b][t].high);
            if (count > most) {
                most = count;
                best = s->tile[b][t].high;
            }
        }
        for (int t = 0; t < s->tiles; t++)
            out[b][t] = !is_in_window(s->tile[b][t], best);
    }
}

/* Finds the shares of A's tiles, and of products of two tiles, that need the scheme with more
 * exponent range. */
static void find_shares(const struct side *a, const struct side *b,
                        void (*judge)(const struct side *s, verdicts out), double *tiles,
                        double *products)
{
    verdicts out[2];
    double bad = 0, good = 0;

    judge(a, out[0]);
    judge(b, out[1]);
    for (int t = 0; t < a->tiles; t++) {
        int in[2] = { 0, 0 };

        for (int i = 0; i < a->blocks; i++)
            in[0] += !out[0][i][t];
        for (int j = 0; j < b->blocks; j++)
            in[1] += !out[1][j][t];
        bad += a->blocks - in[0];
        good += in[0] * in[1];
    }
    *tiles = bad / (a->blocks * a->tiles);
    *products = 1 - good / (a->blocks * b->blocks * a->tiles);
}

/* Returns the share of the product that the library computed by the scheme with more exponent
 * range; NAN if it refused the contract. */
static double run_library(struct figures *f, const struct factors *x, bool *ok)
{
    static const limber_contract fast = { .size = sizeof(limber_contract),
                                          .promise = LIMBER_CONTRACT_FAST,
                                          .scheme = "fp32-f+native" };
    limber_part part[LIMBER_PARTS];
    limber_report r = {
        .size = sizeof r, .part_size = sizeof *part, .part_room = LIMBER_PARTS, .part = part
    };
    limber_status s = factors_multiply(f->ctx, &fast, x, &r);
    double wide = 0;

    if (s != LIMBER_STATUS_OK && s != LIMBER_STATUS_NO_SCHEME)
        *ok = (complain("%s", limber_error_text()), false);
    for (int i = 0; s == LIMBER_STATUS_OK && i < r.parts; i++)
        wide += strcmp(r.part[i].scheme, "fp32-f") ? r.part[i].share : 0;
    return s == LIMBER_STATUS_OK && r.parts ? wide : NAN;
}

/* ---- the figure ------------------------------------------------------------------------------ */

/* Adds a row of the figure: for random operands, the shares of tiles and products that need more
 * exponent range by each criterion, and the library's own share. */
static bool measure(struct figures *f, int kind, double sigma, const struct factors *x,
                    struct side side[2], struct table *data)
{
    static void (*const judges[])(const struct side *s,
                                  verdicts out) = { judge_unscaled, judge_lines, judge_windows };
    uint64_t state = 7;
    bool ok = true;

    draw_operand(kind, sigma, x->m, x->k, x->a, x->k, 1, &side[0], &state);
    draw_operand(kind, sigma, x->n, x->k, x->b, 1, x->n, &side[1], &state);
    table_add(data, "wn", kinds[kind], sigma);
    for (int i = 0; i < 3; i++) {
        double tiles, products;

        find_shares(&side[0], &side[1], judges[i], &tiles, &products);
        table_add(data, "nn", tiles, products);
    }
    table_add(data, "n", run_library(f, x, &ok));
    return ok;
}

static const char script[] =
    "set yrange [-0.03:1.03]\nset xlabel 'sigma (natural logarithm)'\nset ylabel 'share'\n"
    "set key center right vertical\nset multiplot layout 3,1\n"
    "array K = ['independent', 'row levels', 'tile levels']\n"
    "array J = ['unscaled', 'lines scaled', 'windows of blocks']\n"
    "y(k,i) = strcol(1) eq K[k] ? column(i) : NaN\n"
    "more(x,y) = x > y ? x : y\nless(x,y) = x < y ? x : y\n"
    /* for independent numbers the curves coincide, so that only the least and the largest share
     * are drawn */
    "set title K[1]\n"
    "plot $data using 2:(more(more(y(1,4),y(1,6)),more(y(1,8),more(y(1,3),more(y(1,5),y(1,7)))))) "
    "with lines lw 3 lc 8 title 'least and largest share', "
    "$data using 2:(less(less(y(1,4),y(1,6)),less(y(1,8),less(y(1,3),less(y(1,5),y(1,7)))))) "
    "with lines lw 3 lc 8 notitle, "
    "$data using 2:(y(1,9)) with points pt 6 ps 1 lc 7 title 'reported by the library'\n"
    /* the legend in the second picture is that of the third, too */
    "do for [k=2:3] {\nset title K[k]\n"
    "plot for [j=1:3] $data using 2:(y(k,1+2*j)) with lines lw 1.2 "
    "dt j lc j title 'tiles, '.J[j], "
    "for [j=1:3] $data using 2:(y(k,2+2*j)) "
    "with linespoints pt 2*j+2 ps 0.8 lw 3 dt j lc j title 'products, '.J[j], "
    "$data using 2:(y(k,9)) with points pt 6 ps 1 lc 7 title 'reported by the library'\n"
    "unset key\n}\nunset multiplot";

/* Fills the figure of tiles that need more exponent range, for random data of growing spread. */
static bool fill_fallbacks(struct figures *f, struct table *data, struct table *brief)
{
    int blocks = f->quick ? 6 : BLOCKS, tiles = f->quick ? 3 : TILES;
    struct side *side = calloc(2, sizeof *side);
    struct factors x;
    bool ok = factors_alloc(&x, blocks * LINES, blocks * LINES, tiles * LENGTH, "f32", "f32") &&
              (side || !complain("figures: out of memory"));

    (void)brief;
    for (int kind = 0; kind < KINDS && ok; kind++)
        for (int sigma = 1; sigma <= 20 && ok; sigma += f->quick ? 4 : 1) {
            figure_note(f, "fallbacks: %s, sigma = %d", kinds[kind], sigma);
            side[0].blocks = side[1].blocks = blocks;
            side[0].tiles = side[1].tiles = tiles;
            ok = measure(f, kind, sigma, &x, side, data);
        }
    factors_free(&x);
    free(side);
    return ok;
}

const struct figure figure_fallbacks = {
    .name = "fallbacks",
    .about = "tiles of log-normal data that FP16 limbs cannot hold",
    .heads = "kind,sigma,tiles unscaled,products unscaled,tiles lines,products lines,"
             "tiles windows,products windows,reported",
    .fill = fill_fallbacks,
    .picture = { { "fallbacks", script, 900 } }
};
