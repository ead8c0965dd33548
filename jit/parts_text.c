/* SPDX-License-Identifier: BSD-3-Clause
 * Describes how a product is partitioned, as text and as struct cut. */
#include "jit/engine.h"

#include "passes/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WIDE, HIGH: largest numbers of characters of a line, and of lines, of a printed map of tiles.
 * RUNS: largest number of printed runs of equal blocks. */
enum { WIDE = 64, HIGH = 32, RUNS = 24 };

_Static_assert((int)LIMBER_TILE_ZERO == (int)CLASS_zero &&
                   (int)LIMBER_TILE_NARROW == (int)CLASS_narrow &&
                   (int)LIMBER_TILE_WIDE == (int)CLASS_wide &&
                   (int)LIMBER_TILE_BEYOND == (int)CLASS_beyond,
               "kinds are the partition's classes");

/* True if some part reads only tiles of some kinds. */
static bool uses_tiles(const struct partition *parts)
{
    for (int i = 0; i < parts->parts; i++)
        if (parts->part[i].keep[0])
            return true;
    return false;
}

/* Returns the group of every block; the caller frees it.  NULL if memory runs out. */
static unsigned char *groups_of(const struct partition_side *s)
{
    unsigned char *group = malloc((size_t)s->first[s->groups] + 1);

    for (int g = 0; group && g < s->groups; g++)
        for (int64_t i = s->first[g]; i < s->first[g + 1]; i++)
            group[s->block[i]] = (unsigned char)g;
    return group;
}

/* Describes a partition in *cut. whole: predicted seconds of one plan for the entire product. */
bool limber_parts_cut(struct cut *cut, const struct partition *parts, bool transposed,
                      const struct report *r, double whole, struct diag *d)
{
    bool tiles = uses_tiles(parts), ok = true;

    cut->parts = r->parts;
    memcpy(cut->part, r->part, sizeof cut->part);
    cut->one_plan = whole;
    cut->tiles = tiles ? parts->side[0].tiles : 0;
    cut->tile = tiles ? (int64_t)1 << parts->side[0].shift : 0;
    for (int i = 0; i < 2; i++) {
        const struct partition_side *s = &parts->side[transposed ? !i : i];
        size_t size = (size_t)(s->first[s->groups] * cut->tiles);

        cut->blocks[i] = s->first[s->groups];
        cut->group[i] = groups_of(s);
        cut->kind[i] = malloc(size + 1);
        ok = ok && cut->group[i] && cut->kind[i];
        if (ok && tiles)
            memcpy(cut->kind[i], s->tile, size);
    }
    return ok ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for what a product is cut into");
}

/* Frees the arrays of a cut. */
void limber_cut_clear(struct cut *cut)
{
    for (int i = 0; cut && i < 2; i++) {
        free(cut->group[i]);
        free(cut->kind[i]);
    }
    if (cut)
        memset(cut, 0, sizeof *cut);
}

/* ---- a partition as text --------------------------------------------------------------------- */

/* Returns the number of consecutive blocks, from block i on, that are in the same group as block
 * i. */
static int64_t run_length(const unsigned char *group, int64_t i, int64_t n)
{
    int64_t end = i;

    while (end < n && group[end] == group[i])
        end++;
    return end - i;
}

/* Prints a letter for each block.  If there are many blocks, prints each run of blocks of one group
 * as its length and a letter. */
static void print_groups(struct text *out, const unsigned char *group, int64_t n)
{
    int runs = 0;

    for (int64_t i = 0; i < n;) {
        int64_t run = n <= WIDE ? 1 : run_length(group, i, n);

        if (runs++ == RUNS && n > WIDE) {
            limber_text_add(out, " ...");
            break;
        }
        if (n > WIDE)
            limber_text_add(out, "%s%lld", runs > 1 ? " " : "", (long long)run);
        limber_text_add(out, "%c", 'a' + group[i]);
        i += run;
    }
    limber_text_add(out, "\n");
}

/* Returns the kind with the widest range of exponents among the tiles that one printed character
 * stands for. */
static int widest_kind(const struct cut *cut, int side, int64_t block, int64_t blocks, int64_t tile,
                       int64_t tiles)
{
    int kind = LIMBER_TILE_ZERO;

    for (int64_t i = block; i < block + blocks && i < cut->blocks[side]; i++)
        for (int64_t j = tile; j < tile + tiles && j < cut->tiles; j++)
            kind = cut->kind[side][i * cut->tiles + j] > kind ?
                       cut->kind[side][i * cut->tiles + j] :
                       kind;
    return kind;
}

/* Prints a character for each tile, arranged as in the matrix: blocks of A downwards, blocks of B
 * from left to right. */
static void print_kinds(struct text *out, const struct cut *cut, int side)
{
    int64_t down = side ? cut->tiles : cut->blocks[0], across = side ? cut->blocks[1] : cut->tiles;
    int64_t dy = (down + HIGH - 1) / HIGH, dx = (across + WIDE - 1) / WIDE;

    for (int64_t y = 0; y < down; y += dy) {
        limber_text_add(out, "  ");
        for (int64_t x = 0; x < across; x += dx)
            limber_text_add(out, "%c",
                            ".nWX"[side ? widest_kind(cut, 1, x, dx, y, dy) :
                                          widest_kind(cut, 0, y, dy, x, dx)]);
        limber_text_add(out, "\n");
    }
}

/* Prints which lines of an operand a part reads: "a" for the group a; "a:nW" if it reads only the
 * group's narrow (n) and wide (W) tiles. */
static void print_side(struct text *out, const limber_part *p, int side)
{
    char name[8];

    snprintf(name, sizeof name, "%c%s%s%s%s", 'a' + p->group[side], p->kinds[side] ? ":" : "",
             p->kinds[side] >> LIMBER_TILE_NARROW & 1 ? "n" : "",
             p->kinds[side] >> LIMBER_TILE_WIDE & 1 ? "W" : "",
             p->kinds[side] >> LIMBER_TILE_BEYOND & 1 ? "X" : "");
    limber_text_add(out, "  %-4s", name);
}

/* Prints a table with one line for each part. */
void limber_parts_table(struct text *out, const limber_part *part, int parts)
{
    bool measured = false;

    for (int i = 0; i < parts; i++)
        measured = measured || part[i].seconds > 0;
    limber_text_add(
        out, "part  A     B     rows x columns   products  scheme       predicted%s     bound\n",
        measured ? "  measured" : "");
    for (int i = 0; i < parts; i++) {
        const limber_part *p = &part[i];

        limber_text_add(out, "%4d", i + 1);
        print_side(out, p, 0);
        print_side(out, p, 1);
        limber_text_add(out, "  %6lld x %-6lld %8.2f%%  %-12s %9.3g", (long long)p->m,
                        (long long)p->n, 100 * p->share, p->scheme, p->cost);
        if (measured)
            limber_text_add(out, "  %8.3g", p->seconds);
        limber_text_add(out, "  %8.3g\n", p->bound);
    }
}

/* Prints how a product is cut: groups of lines, kinds of tiles, and the table of parts. */
void limber_parts_text(struct text *out, const struct cut *cut)
{
    static const char *const name[] = { "A", "B" }, *const lines[] = { "rows", "columns" };
    double sum = 0;
    bool beyond = false;

    for (int i = 0; i < cut->parts; i++) {
        sum += cut->part[i].cost;
        beyond = beyond || (cut->part[i].kinds[0] | cut->part[i].kinds[1]) >> CLASS_beyond;
    }
    limber_text_add(out, "; parts\n%d part%s: predicted %.3g s", cut->parts,
                    cut->parts > 1 ? "s" : "", sum);
    limber_text_add(out,
                    isfinite(cut->one_plan) ? ", by one plan for all %.3g s\n" :
                                              ", and no plan serves all\n",
                    cut->one_plan);
    for (int i = 0; i < 2; i++) {
        limber_text_add(out, "groups of %s, blocks of 64 %s: ", name[i], lines[i]);
        print_groups(out, cut->group[i], cut->blocks[i]);
    }
    for (int i = 0; i < 2 && cut->tiles; i++) {
        limber_text_add(out, "tiles of %s, 64 %s by %lld along k: . zero, n narrow, W wide%s\n",
                        name[i], lines[i], (long long)cut->tile, beyond ? ", X beyond" : "");
        print_kinds(out, cut, i);
    }
    limber_parts_table(out, cut->part, cut->parts);
}

/* Prints the schemes with their shares of the product, in the order of the parts. */
void limber_parts_shares(struct text *out, const struct report *r)
{
    const char *comma = " ";

    for (int i = 0; i < r->parts; i++) {
        double share = 0;
        int first = 0;

        while (strcmp(r->part[first].scheme, r->part[i].scheme))
            first++;
        for (int j = i; j < r->parts; j++)
            share += strcmp(r->part[j].scheme, r->part[i].scheme) ? 0 : r->part[j].share;
        if (first == i) {
            limber_text_add(out, "%s%.3g%% %s", comma, 100 * share, r->part[i].scheme);
            comma = ", ";
        }
    }
}
