/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the masks of operands, tile by tile, as characters and as JSON. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <cjson/cJSON.h>
#include <limits.h>

/* HIGH, WIDE: cells of the printed grid. LEVELS: characters of `ramp`. */
enum { HIGH = 32, WIDE = 64, LEVELS = 8 };
static const char ramp[LEVELS + 1] = ":-=+*#%@";

/* Divides an operand's tiles into at most high x wide cells. */
struct grid inspection_grid(const limber_inspection *l, int side, int64_t high, int64_t wide)
{
    int64_t down = side ? l->tile_cols : l->tile_rows, across = side ? l->tile_rows : l->tile_cols;
    int64_t dy = down > high ? (down + high - 1) / high : 1;
    int64_t dx = across > wide ? (across + wide - 1) / wide : 1;

    return (struct grid){ (down + dy - 1) / dy, (across + dx - 1) / dx, dy, dx };
}

/* Extends the extremes of a cell by those of a tile. */
static void add_tile(struct cell *c, const limber_tile *t)
{
    bool finite = t->bits > 0;

    c->special = c->special || t->flags & LIMBER_TILE_FLAG_SPECIAL;
    if (finite && (c->zero || t->emax > c->emax))
        c->emax = t->emax;
    c->bits = t->bits > c->bits ? t->bits : c->bits;
    c->zero = c->zero && !finite;
}

/* Summarises the tiles of cell (x, y). */
struct cell inspection_cell(const limber_inspection *l, int side, const struct grid *g, int64_t y,
                            int64_t x)
{
    struct cell c = { .zero = true };
    int64_t row = side ? x * g->dx : y * g->dy, rows = side ? g->dx : g->dy;
    int64_t col = side ? y * g->dy : x * g->dx, cols = side ? g->dy : g->dx;

    for (int64_t i = row; i < row + rows && i < l->tile_rows; i++)
        for (int64_t j = col; j < col + cols && j < l->tile_cols; j++)
            add_tile(&c, &l->tile[i * l->tile_cols + j]);
    return c;
}

/* Finds the least and the largest emax of all tiles of both operands.  If no tile has a finite
 * nonzero element, stores zeros and returns false. */
bool inspection_range(const limber_inspection inspection[2], int *least, int *most)
{
    *least = INT_MAX;
    *most = INT_MIN;
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < inspection[side].tile_rows * inspection[side].tile_cols; i++) {
            const limber_tile *t = &inspection[side].tile[i];

            if (t->bits == 0)
                continue;
            *least = t->emax < *least ? t->emax : *least;
            *most = t->emax > *most ? t->emax : *most;
        }
    if (*least <= *most)
        return true;
    *least = *most = 0;
    return false;
}

/* Exponents that one letter of the map stands for. */
static int step_of(int least, int most)
{
    return (most - least + LEVELS) / LEVELS;
}

/* The letter of a cell: '!' special values, '.' zeros, else its largest exponent. */
static char letter_of(const struct cell *c, int least, int most)
{
    return c->special ? '!' : c->zero ? '.' : ramp[(c->emax - least) / step_of(least, most)];
}

static double zero_share(const limber_inspection *l)
{
    int64_t n = l->tile_rows * l->tile_cols, zero = 0;

    for (int64_t i = 0; i < n; i++)
        zero += l->tile[i].flags & LIMBER_TILE_FLAG_ZERO;
    return n ? 100. * (double)zero / (double)n : 0;
}

/* Prints facts about an operand, and a map of its tiles.  least, most: range of exponents in the
 * maps of both operands. */
static void print_operand(const struct cli_product *p, const limber_inspection *l, int side,
                          int least, int most)
{
    struct grid g = inspection_grid(l, side, HIGH, WIDE);
    char format[64];

    printf("%c  %s, %lld x %lld of %s: ", "AB"[side], p -> name[side],
           (long long)(side ? l->length : l->lines), (long long)(side ? l->lines : l->length),
           limber_format_name(side ? p->b.format : p->a.format, format, sizeof format));
    if (l->zero)
        printf("zero");
    else
        printf("exponents %d to %d, %d bits an element, %d a line", l->emin, l->emax, l->bits,
               l->width);
    printf(", %.3g%% of tiles zero%s\n", zero_share(l), l->special ? ", NaN or infinities" : "");
    for (int64_t y = 0; y < g.down; y++) {
        printf("   ");
        for (int64_t x = 0; x < g.across; x++) {
            struct cell c = inspection_cell(l, side, &g, y, x);

            putchar(letter_of(&c, least, most));
        }
        putchar('\n');
    }
}

/* Prints a map of each operand's tiles, and what its characters mean. */
void inspection_print(const struct cli_product *p, const limber_inspection inspection[2])
{
    int least, most;
    bool any = inspection_range(inspection, &least, &most);

    for (int side = 0; side < 2; side++)
        print_operand(p, &inspection[side], side, least, most);
    printf("   a character: tiles of 64 x 64 elements; their largest exponents");
    for (int i = 0; any && i < LEVELS && least + i * step_of(least, most) <= most; i++) {
        int from = least + i * step_of(least, most), to = from + step_of(least, most) - 1;

        to = to < most ? to : most;
        if (from == to)
            printf(" %c %d", ramp[i], from);
        else
            printf(" %c %d..%d", ramp[i], from, to);
    }
    printf(" . zero ! NaN or infinity\n\n");
}

/* Returns facts about both operands as a JSON object. */
cJSON *inspection_json(const limber_inspection inspection[2])
{
    cJSON *j = cJSON_CreateObject();

    for (int side = 0; side < 2; side++) {
        const limber_inspection *l = &inspection[side];
        cJSON *o = cJSON_AddObjectToObject(j, side ? "b" : "a");

        cJSON_AddNumberToObject(o, "lines", (double)l->lines);
        cJSON_AddNumberToObject(o, "length", (double)l->length);
        cJSON_AddBoolToObject(o, "zero", l->zero);
        cJSON_AddBoolToObject(o, "special", l->special);
        cJSON_AddBoolToObject(o, "negative", l->negative);
        cJSON_AddNumberToObject(o, "emin", l->emin);
        cJSON_AddNumberToObject(o, "emax", l->emax);
        cJSON_AddNumberToObject(o, "spread", l->spread);
        cJSON_AddNumberToObject(o, "width", l->width);
        cJSON_AddNumberToObject(o, "bits", l->bits);
        cJSON_AddNumberToObject(o, "zero_tiles", zero_share(l) / 100);
    }
    return j;
}
