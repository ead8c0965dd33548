/* SPDX-License-Identifier: BSD-3-Clause
 * Partitions a product.  A single plan must suit the lines and tiles with the largest range of
 * exponents; several plans, each for data of one kind, may be faster.
 *
 *   needs   the masks of both operands, and a function that predicts a plan's cost for any mask
 *   leaves  groups of blocks of lines (rows of A, columns of B).  A group of A times a group of B
 *           is a rectangle of C; each element of C is in one rectangle.  If the contract allows C
 *           to be summed in parts, a rectangle has up to three parts, by classes of tiles:
 *           narrow x narrow, wide x all, narrow x wide.  A tile is narrow if its exponents or bits
 *           have a small range (struct narrow_limits).  If the caller names schemes "A+B+C", there
 *           are three classes: tiles that suit A, those that suit B, and all others, unless B for
 *           all of these is not slower; blocks with NaN or infinities form groups for C
 *   proof   docs/accuracy.md, "Mixed products"
 *   source  Ma et al., ICS 2022, sections 5.2 and 5.3: classes of tiles, and counting pairs of
 *           tiles by a product of the masks */
#include "passes/partition.h"

#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* THRESHOLDS: largest number of thresholds that are tried for a group.  ANCHORS: largest number of
 * tiles of a block whose largest exponent is tried as the block's common upper limit. */
enum { THRESHOLDS = 8, ANCHORS = 8 };
/* largest number of parts of a rectangle */
enum { RECTANGLE_PARTS = 2 * SCHEMES - 1 };
/* A cut is made only if the predicted time after it is below this share of the time before it
 * (`worth` for groups of lines, `worth_tiles` for classes of tiles).  The margin is for costs that
 * are not predicted: results that pass through scratch memory, panels that straddle blocks, shorter
 * chains. */
static const double worth = 0.9, worth_tiles = 0.75;
/* Cost of each part of a rectangle beside one plan (its scan and packing, sums through scratch
 * memory), as a share of the parts' limb products: measured on a Zen 4 with FP32-F and FP32-B at
 * n = 1024.  It is used where the caller names several schemes for limbs of floats.  Their choice
 * must not depend on a machine's rates, since bits depend on it. */
static const double part_overhead = 0.15;

/* State while a partition is being made. */
struct partition_work {
    const struct partition_input *in;
    struct partition *p;
    struct diag *d;
    /* predicted seconds of each rectangle, [group of A][group of B] */
    double seconds[PARTITION_GROUPS][PARTITION_GROUPS];
    bool tiles; /* what scans found is known for each tile of both operands */
    /* the schemes for tiles, by falling preference; empty unless the caller names several */
    struct scheme_list named;
    int classes; /* number of classes of nonzero tiles */
    /* number of rectangles that the caller's schemes would have to compute in several parts, but
     * cannot */
    int uncut;
    bool failed;
};

/* Reports that memory ran out, and returns false. */
static bool no_memory(struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "partition: out of memory");
}

/* ---- the price of a rectangle of tiles ------------------------------------------------------- */

/* Predicts the seconds of a part from the cost of a plan for what scans found in it (masks a and
 * b). share: the share of the part's multiply-adds that are not skipped.  Infinity if no plan is
 * possible. */
static double predict_seconds(struct partition_work *w, const struct mask *a, const struct mask *b,
                              const char *scheme, int roundings, double share)
{
    struct price price;

    if (w->failed || a->lines == 0 || b->lines == 0)
        return 0;
    if (!w->in->price(w->in->user, a, b, scheme, roundings, &price, w->d)) {
        w->failed = true;
        return INFINITY;
    }
    if (!(price.product < INFINITY))
        return INFINITY;
    return limber_price(&price, (double)a->lines, (double)b->lines, (double)w->in->k,
                        price.skips ? share : 1);
}

/* Merges what scans found in `count` blocks of lines into one mask. */
static struct mask mask_of_blocks(const struct partition_side *s, const int32_t *block,
                                  int64_t count)
{
    struct mask m;

    limber_mask_join(&m, s->mask, &(struct tile_subset){ .block = block }, count);
    return m;
}

/* Returns the mask (result of a scan) of group g. */
static struct mask mask_of_group(const struct partition_side *s, int g)
{
    return mask_of_blocks(s, s->block + s->first[g], s->first[g + 1] - s->first[g]);
}

/* Predicts the seconds of a rectangle of C that one plan computes. */
static double rectangle_seconds(struct partition_work *w, const struct mask *a,
                                const struct mask *b)
{
    return predict_seconds(w, a, b, w->in->scheme, 0, 1);
}

/* ---- cutting lines into groups of similar width ---------------------------------------------- */

/* Returns the number of bits of a block's scaled integers, rounded up to a multiple of 4.  All
 * blocks of a group use that of the block with most bits. */
static int width_key(const struct mask *m, int32_t block)
{
    const struct block_mask *b = &m->block[block];

    return b->flags & TILE_zero ? 0 : (b->width + 3) / 4 * 4;
}

/* Collects at most THRESHOLDS of the width keys (numbers of bits, see width_key) of a group's
 * blocks, all below the largest one, in rising order.  Returns how many were collected. */
static int collect_thresholds(const struct partition_side *s, int g, int out[THRESHOLDS])
{
    enum { KEYS = 1100 };
    bool seen[KEYS] = { 0 };
    int all[KEYS], n = 0, kept = 0;

    for (int64_t i = s->first[g]; i < s->first[g + 1]; i++) {
        int k = width_key(s->mask, s->block[i]) / 4;

        seen[k < KEYS ? k : KEYS - 1] = true;
    }
    for (int k = 0; k < KEYS; k++)
        if (seen[k])
            all[n++] = 4 * k;
    n--; /* the largest key cannot be a threshold, since no block exceeds it */
    for (int i = 0; i < n && kept < THRESHOLDS; i++)
        if (n <= THRESHOLDS || i * THRESHOLDS / n >= kept)
            out[kept++] = all[i];
    return kept;
}

/* Writes to `to` the group's blocks whose width keys (bits, see width_key) are at most the
 * threshold, then the others.  Returns the number of blocks up to the threshold. */
static int64_t split_blocks(const struct partition_side *s, int g, int threshold, int32_t *to)
{
    int64_t n = 0, low = 0;

    for (int above = 0; above < 2; above++) {
        for (int64_t i = s->first[g]; i < s->first[g + 1]; i++)
            if ((width_key(s->mask, s->block[i]) > threshold) == above)
                to[n++] = s->block[i];
        low = above ? low : n;
    }
    return low;
}

/* Predicts the seconds of each half of a group times each group of the other operand. out[h][g]:
 * seconds of half h times group g.  Returns the sum of all. side: the operand that is cut, 0 for
 * A. */
static double halves_seconds(struct partition_work *w, int side, const struct mask half[2],
                             double out[2][PARTITION_GROUPS])
{
    const struct partition_side *other = &w->p->side[!side];
    double sum = 0;

    for (int h = 0; h < 2; h++)
        for (int g = 0; g < other->groups; g++) {
            struct mask m = mask_of_group(other, g);

            out[h][g] =
                side ? rectangle_seconds(w, &m, &half[h]) : rectangle_seconds(w, &half[h], &m);
            sum += out[h][g];
        }
    return sum;
}

/* A cut of one group into two at a threshold, and the seconds that it gains. */
struct split {
    int side, group, threshold;
    double gain;
    double seconds[2][PARTITION_GROUPS];
};

/* A cut of a group of A and a group of B at the same time.  Cutting only one operand may gain
 * nothing as long as the other one has lines with a large range of exponents. */
struct double_split {
    int threshold[2];
    double gain;
    double seconds[2][2];
};

/* Returns the address of the predicted seconds of group g of one operand times group `other` of the
 * other operand. */
static double *seconds_at(struct partition_work *w, int side, int g, int other)
{
    return side ? &w->seconds[other][g] : &w->seconds[g][other];
}

/* Tries to cut a group at each threshold.  *best: the cut with the largest gain so far. */
static void try_group(struct partition_work *w, int side, int g, int32_t *scratch,
                      struct split *best)
{
    const struct partition_side *s = &w->p->side[side];
    int at[THRESHOLDS], n = collect_thresholds(s, g, at);
    double before = 0;

    for (int o = 0; o < w->p->side[!side].groups; o++)
        before += *seconds_at(w, side, g, o);
    for (int i = 0; i < n; i++) {
        int64_t low = split_blocks(s, g, at[i], scratch);
        struct mask half[2] = { mask_of_blocks(s, scratch, low),
                                mask_of_blocks(s, scratch + low,
                                               s->first[g + 1] - s->first[g] - low) };
        struct split t = { .side = side, .group = g, .threshold = at[i] };

        t.gain = before - halves_seconds(w, side, half, t.seconds);
        if (isnan(t.gain)) /* INFINITY - INFINITY: no plan exists with or without the cut */
            t.gain = 0;
        if (t.gain > best->gain)
            *best = t;
    }
}

/* Cuts a group in two.  The half above the threshold becomes the operand's last group. */
static void cut_group(struct partition_work *w, const struct split *t, int32_t *scratch)
{
    struct partition_side *s = &w->p->side[t->side];
    int64_t from = s->first[t->group], to = s->first[t->group + 1];
    int64_t low = split_blocks(s, t->group, t->threshold, scratch), high = to - from - low;
    int64_t end = s->first[s->groups];

    memmove(s->block + to - high, s->block + to, (size_t)(end - to) * sizeof *s->block);
    memcpy(s->block + from, scratch, (size_t)low * sizeof *scratch);
    memcpy(s->block + end - high, scratch + low, (size_t)high * sizeof *scratch);
    for (int g = t->group + 1; g <= s->groups; g++)
        s->first[g] -= high;
    s->groups++;
    s->first[s->groups] = end;
    for (int o = 0; o < w->p->side[!t->side].groups; o++) {
        *seconds_at(w, t->side, t->group, o) = t->seconds[0][o];
        *seconds_at(w, t->side, s->groups - 1, o) = t->seconds[1][o];
    }
}

/* Tries all pairs of a cut of A and a cut of B, while each is one group of blocks of lines.  *best:
 * the pair with the largest gain so far. */
static void try_both(struct partition_work *w, int32_t *scratch[2], struct double_split *best)
{
    const struct partition_side *s = w->p->side;
    int at[2][THRESHOLDS], n[2];

    for (int side = 0; side < 2; side++)
        n[side] = collect_thresholds(&s[side], 0, at[side]);
    for (int i = 0; i < n[0]; i++)
        for (int j = 0; j < n[1]; j++) {
            struct double_split t = { .threshold = { at[0][i], at[1][j] } };
            int64_t a = split_blocks(&s[0], 0, at[0][i], scratch[0]),
                    b = split_blocks(&s[1], 0, at[1][j], scratch[1]);
            struct mask ma[2] = { mask_of_blocks(&s[0], scratch[0], a),
                                  mask_of_blocks(&s[0], scratch[0] + a, s[0].first[1] - a) };
            struct mask mb[2] = { mask_of_blocks(&s[1], scratch[1], b),
                                  mask_of_blocks(&s[1], scratch[1] + b, s[1].first[1] - b) };
            double sum = 0;

            for (int q = 0; q < 4; q++)
                sum += t.seconds[q / 2][q % 2] = rectangle_seconds(w, &ma[q / 2], &mb[q % 2]);
            t.gain = w->seconds[0][0] - sum;
            if (t.gain > best->gain)
                *best = t;
        }
}

/* Cuts the only group of A and the only group of B at their thresholds, and keeps the predicted
 * seconds of the four rectangles. */
static void cut_both(struct partition_work *w, const struct double_split *t, int32_t *scratch)
{
    for (int side = 0; side < 2; side++)
        cut_group(w, &(struct split){ .side = side, .threshold = t->threshold[side] }, scratch);
    for (int q = 0; q < 4; q++)
        w->seconds[q / 2][q % 2] = t->seconds[q / 2][q % 2];
}

/* Returns the predicted seconds of all rectangles together. */
static double total_seconds(const struct partition_work *w)
{
    double all = 0;

    for (int g = 0; g < w->p->side[0].groups; g++)
        for (int h = 0; h < w->p->side[1].groups; h++)
            all += w->seconds[g][h];
    return all;
}

/* Cuts one group after the other, each time with the largest gain, until no cut gains enough.
 * False on failure. */
static bool cut_lines(struct partition_work *w)
{
    int64_t a = w->in->mask[0]->tile_rows, b = w->in->mask[1]->tile_rows;
    int32_t *memory = malloc((size_t)(a + b + 2) * sizeof *memory);
    int32_t *scratch[2] = { memory, NULL };

    if (!memory)
        return no_memory(w->d);
    scratch[1] = memory + a + 1;
    while (!w->failed) {
        struct double_split two = { .gain = 0 };
        struct split one = { .gain = 0 };
        double least = (1 - worth) * total_seconds(w);

        for (int side = 0; side < 2; side++)
            for (int g = 0; g < w->p->side[side].groups; g++)
                if (w->p->side[side].groups < PARTITION_GROUPS)
                    try_group(w, side, g, memory, &one);
        if (one.gain <= least && w->p->side[0].groups * w->p->side[1].groups == 1)
            try_both(w, scratch, &two);
        if (two.gain > least)
            cut_both(w, &two, memory);
        else if (one.gain > least)
            cut_group(w, &one, memory);
        else
            break;
    }
    free(memory);
    return !w->failed;
}

/* ---- dividing tiles into narrow and wide ones ------------------------------------------------ */

/* Defines narrow tiles: the exponents of a tile's elements or, if `bits`, all their set bits lie
 * within `binades` powers of two.  The highest of these is 2^top if `fixed`, else it may differ
 * from tile to tile. */
struct narrow_limits {
    bool bits;
    int binades, top;
    bool fixed;
};

/* Extremes of a tile of 2^shift elements along k: `high` is the largest exponent, `low` the
 * smallest exponent or the exponent of the lowest set bit. */
struct tile {
    int low, high;
    bool zero;
};

/* Merges what the scan found in the tiles that form tile c of a block. bits: `low` is the
 * exponent of the lowest set bit, else the smallest exponent. */
static struct tile tile_at(const struct partition_side *s, int32_t block, int64_t c, bool bits)
{
    const struct mask *m = s->mask;
    int64_t span = ((int64_t)1 << s->shift) / LIMBER_TILE, end = (c + 1) * span;
    struct tile t = { .zero = true };

    for (int64_t i = c * span; i < end && i < m->tile_cols; i++) {
        const struct tile_mask *x = &m->tile[block * m->tile_cols + i];
        int low = bits ? x->low : x->emin;

        if (x->flags & TILE_zero)
            continue;
        t.low = t.zero || low < t.low ? low : t.low;
        t.high = t.zero || x->emax > t.high ? x->emax : t.high;
        t.zero = false;
    }
    return t;
}

/* True if all exponents of a tile are in the `binades` powers of two up to 2^top. */
static bool is_narrow(const struct tile *t, int top, int binades)
{
    return t->high <= top && t->low > top - binades;
}

/* Tries the largest exponents of some tiles as the common upper limit of a block, and returns the
 * one with which most of the block's n tiles are narrow. */
static int best_top(const struct tile *t, int64_t n, int binades)
{
    int best = 0;
    int64_t most = -1, step = (n + ANCHORS - 1) / ANCHORS;

    for (int64_t i = 0; i < n; i += step) {
        int64_t count = 0, from = i;

        while (from < n && t[from].zero)
            from++;
        for (int64_t j = 0; from < n && j < n; j++)
            count += !t[j].zero && is_narrow(&t[j], t[from].high, binades);
        if (from < n && count > most) {
            most = count;
            best = t[from].high;
        }
    }
    return best;
}

/* Classes of tiles are numbered from the narrowest to the widest.  Moves tiles of a block from
 * class `from` to the class before it, if they are narrow by these limits.  t: scratch. */
static void lower_class(struct partition_side *s, int32_t block, int from,
                        const struct narrow_limits *limits, struct tile *t)
{
    uint8_t *class = s->tile + block * s->tiles;
    int top;

    for (int64_t c = 0; c < s->tiles; c++) {
        t[c] = tile_at(s, block, c, limits->bits);
        t[c].zero = t[c].zero || class[c] != from;
    }
    top = limits->fixed ? limits->top : best_top(t, s->tiles, limits->binades);
    for (int64_t c = 0; c < s->tiles; c++)
        if (!t[c].zero && is_narrow(&t[c], top, limits->binades))
            class[c] = (uint8_t)(from - 1);
}

/* Assigns a class to each tile of an operand: class i + 1 if limits[i] is the first limit by
 * which it is narrow, or count + 1 if it is narrow by none.  A scheme for a class also
 * multiplies tiles of lower classes, so tiles must be narrow by the limits of all classes above
 * their own, too.  False if memory runs out. */
static bool classify_tiles(struct partition_side *s, const struct narrow_limits *limits, int count)
{
    struct tile *t = malloc((size_t)(s->tiles + 1) * sizeof *t);

    for (int32_t b = 0; t && b < s->mask->tile_rows; b++) {
        for (int64_t c = 0; c < s->tiles; c++)
            s->tile[b * s->tiles + c] =
                (uint8_t)(tile_at(s, b, c, false).zero ? CLASS_zero : count + 1);
        for (int i = count; i > 0; i--)
            lower_class(s, b, i + 1, &limits[i - 1], t);
    }
    free(t);
    return t != NULL;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns how many of `count` neighbouring blocks have their tile in column c multiplied: all if
 * the tile of one of them is of a class in `keep`, else none, because kernels skip tiles only
 * for all of these blocks together. */
static int64_t count_multiplied(const struct partition_side *s, uint32_t keep, const int32_t *block,
                                int64_t c, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (keep >> s->tile[block[i] * s->tiles + c] & 1)
            return count;
    return 0;
}

/* Returns the share of a rectangle's pairs of tiles that a part multiplies: in each column of
 * tiles along k, the number of A's tiles times the number of B's tiles. */
static double pair_share(const struct partition_work *w, const struct partition_part *part)
{
    int64_t blocks[2], pairs = 0, tiles = w->p->side[0].tiles;

    for (int side = 0; side < 2; side++)
        blocks[side] = limber_partition_blocks(w->p, part, side);
    for (int64_t c = 0; c < tiles; c++) {
        int64_t count[2] = { 0, 0 };

        for (int side = 0; side < 2; side++) {
            const struct partition_side *s = &w->p->side[side];
            const int32_t *block = s->block + s->first[part->group[side]];

            for (int64_t i = 0; i < blocks[side]; i += w->in->grain[side])
                count[side] += count_multiplied(s, part->keep[side], block + i, c,
                                                min64(w->in->grain[side], blocks[side] - i));
        }
        pairs += count[0] * count[1];
    }
    return tiles ? (double)pairs / ((double)blocks[0] * (double)blocks[1] * (double)tiles) : 0;
}

/* Merges what the scan found in those tiles of one operand that a part multiplies. */
static struct mask mask_of_part(const struct partition_work *w, const struct partition_part *part,
                                int side)
{
    struct tile_subset x = limber_partition_subset(w->p, part, side);
    struct mask m;

    limber_mask_join(&m, w->p->side[side].mask, &x, limber_partition_blocks(w->p, part, side));
    return m;
}

/* Returns the predicted seconds of a part, and sets part->share, its share of the multiply-adds. */
static double part_seconds(struct partition_work *w, struct partition_part *part)
{
    struct mask a = mask_of_part(w, part, 0), b = mask_of_part(w, part, 1);

    part->share = pair_share(w, part);
    return part->share > 0 ?
               predict_seconds(w, &a, &b, part->scheme, part->roundings, part->share) :
               0;
}

/* Cuts one rectangle by classes of tiles.  Returns the number of parts that multiply anything, and
 * in *seconds their predicted seconds. */
static int cut_rectangle(struct partition_work *w, const int group[2],
                         struct partition_part out[RECTANGLE_PARTS], double *seconds)
{
    int n = 0;

    for (int i = 0; i < 2 * w->classes - 1; i++) {
        /* most: the larger class of a pair of tiles, as a bit; less: the bits of all classes
         * below it */
        const uint32_t most = 2u << (i + 1) / 2, less = most - 2;
        struct partition_part t = {
            .group = { group[0], group[1] },
            .keep = { i % 2 || !i ? most : less, i % 2 || !i ? most | less : most },
            .adds = n > 0,
            .scheme = w->named.count > 1 ? w->named.scheme[(i + 1) / 2]->name : w->in->scheme
        };

        t.share = pair_share(w, &t);
        if (t.share > 0)
            out[n++] = t;
    }
    *seconds = 0;
    for (int i = 0; i < n; i++) {
        out[i].roundings = n - 1;
        *seconds += out[i].seconds = part_seconds(w, &out[i]);
    }
    return n;
}

/* True if a group holds NaN or infinities. */
static bool is_special(const struct partition_side *s, int g)
{
    return mask_of_group(s, g).special;
}

/* True if the parts of a rectangle are sufficiently faster than one plan or, if the caller named
 * several schemes, have plans at all.  Several parts are summed, so the result must allow a
 * rounding after each part.  seconds, whole: predicted seconds of the parts, and of one plan. */
static bool is_worthwhile(const struct partition_work *w, int parts, double seconds, double whole)
{
    if (parts > 1 && !w->in->sums)
        return false;
    return w->named.count > 1 ? isfinite(seconds) :
                                seconds < (parts > 1 ? worth_tiles : worth) * whole;
}

/* Stores in *part a rectangle that one plan computes.  Returns true if the rectangle must not be
 * cut although the caller named several schemes: the first scheme suits complete lines (a scale
 * per line may fit where one range of exponents per tile does not), there are NaN or infinities,
 * which must be multiplied by complete lines of the other operand, or nothing is known of tiles. */
static bool take_whole(struct partition_work *w, const int group[2], struct partition_part *part)
{
    const struct partition_side *s = w->p->side;
    bool special = is_special(&s[0], group[0]) || is_special(&s[1], group[1]);
    struct scheme_range ignored;

    *part = (struct partition_part){ .group = { group[0], group[1] },
                                     .share = 1,
                                     .seconds = w->seconds[group[0]][group[1]],
                                     .scheme = w->in->scheme };
    if (w->named.count > 1 && !special && limber_scheme_range(w->named.scheme[0], &ignored)) {
        struct mask a = mask_of_group(&s[0], group[0]), b = mask_of_group(&s[1], group[1]);
        double seconds = predict_seconds(w, &a, &b, w->named.scheme[0]->name, 0, 1);

        if (isfinite(seconds)) {
            part->scheme = w->named.scheme[0]->name;
            part->seconds = seconds;
            return true;
        }
    }
    return special || !w->tiles;
}

/* Returns the predicted seconds of a multiply-add by a scheme for data with these scan results
 * (masks), without packing and storing; infinity if there is no plan. */
static double product_price(struct partition_work *w, const struct mask *a, const struct mask *b,
                            const char *scheme, int roundings)
{
    struct price price;

    w->failed = w->failed || !w->in->price(w->in->user, a, b, scheme, roundings, &price, w->d);
    return w->failed ? INFINITY : price.product;
}

/* True if one of the named schemes for limbs of floats suits a whole rectangle, and is predicted to
 * take no longer than the rectangle's n parts.  Then stores the whole rectangle in *one. */
static bool prefer_one_scheme(struct partition_work *w, const struct partition_part *part, int n,
                              struct partition_part *one)
{
    const struct mask a = mask_of_group(&w->p->side[0], one->group[0]),
                      b = mask_of_group(&w->p->side[1], one->group[1]);
    double share = 0, parts = 0;
    struct scheme_range ignored;

    for (int i = 0; i < n; i++) {
        const struct mask ma = mask_of_part(w, &part[i], 0), mb = mask_of_part(w, &part[i], 1);

        if (!limber_scheme_range(limber_scheme_find(part[i].scheme), &ignored))
            return false; /* its time relative to other schemes depends on the machine */

        share += part[i].share;
        parts += part[i].share * product_price(w, &ma, &mb, part[i].scheme, part[i].roundings);
    }
    parts *= 1 + part_overhead * n;
    for (int i = 1; i < w->named.count; i++) {
        const char *name = w->named.scheme[i]->name;

        if (!limber_scheme_range(w->named.scheme[i], &ignored) ||
            share * product_price(w, &a, &b, name, 0) > parts)
            continue;
        one->scheme = name;
        one->seconds = predict_seconds(w, &a, &b, name, 0, share);
        return true;
    }
    return false;
}

/* Cuts each rectangle along k where that gains, or where the caller named several schemes.  Returns
 * the predicted seconds of all rectangles. apply: also stores the parts. */
static double cut_tiles(struct partition_work *w, bool apply)
{
    struct partition *p = w->p;
    double all = 0;

    w->uncut = 0;
    if (apply)
        p->parts = 0;
    for (int g = 0; g < p->side[0].groups; g++)
        for (int h = 0; h < p->side[1].groups; h++) {
            struct partition_part part[RECTANGLE_PARTS], one;
            double seconds = INFINITY;
            bool whole = take_whole(w, (int[]){ g, h }, &one);
            int n = whole ? 0 : cut_rectangle(w, (int[]){ g, h }, part, &seconds);

            if (n == 0 || !is_worthwhile(w, n, seconds, w->seconds[g][h])) {
                w->uncut += n > 0 && w->named.count > 1;
                n = 1;
                seconds = one.seconds;
                part[0] = one;
            } else if (n > 1 && w->named.count > 1 && prefer_one_scheme(w, part, n, &one)) {
                n = 1;
                seconds = one.seconds;
                part[0] = one;
            }
            all += seconds;
            for (int i = 0; apply && i < n; i++)
                p->part[p->parts++] = part[i];
        }
    return all;
}

/* Assigns a class to each tile of both operands. */
static bool classify_both(struct partition_work *w, const struct narrow_limits *limits, int count)
{
    w->classes = count + 1;
    return (classify_tiles(&w->p->side[0], limits, count) &&
            classify_tiles(&w->p->side[1], limits, count)) ||
           no_memory(w->d);
}

/* Candidate limits for narrow tiles: all nonzero tiles; the exponent range of scaled binary16
 * limbs; integers of 8 bits; integers of 16 bits. */
enum { ALL, BYTES = 2 };
static const struct narrow_limits narrows[] = {
    { false, 1 << 20, 0, false },
    { false, 28, 0, false },
    { true, 8, 0, false },
    { true, 16, 0, false },
};

/* Returns the limits of tiles that suit a named scheme: float limbs limit the range of exponents,
 * integer limbs the number of bits. */
static struct narrow_limits limits_of(const struct scheme *s)
{
    struct scheme_range r;

    return limber_scheme_range(s, &r) ?
               (struct narrow_limits){ false, r.binades, r.top, r.fixed } :
               narrows[s->unit == UNIT_f64 || s->unit == UNIT_exact ? ALL : BYTES];
}

/* Cuts tiles by the schemes that the caller names.  Schemes that cannot be planned on this
 * machine or under this contract are left out, except the last one.  False on failure. */
static bool cut_by_named_schemes(struct partition_work *w, const struct scheme_list *all)
{
    /* sets of schemes that are tried in turn, one bit per scheme, bit 2 for the last one: all of
     * three; without the second; without the first; the last one alone */
    static const unsigned sets[] = { 7, 5, 6, 4 };
    for (size_t i = 0; i < COUNT(sets); i++) {
        struct narrow_limits limits[SCHEMES];

        w->named.count = 0;
        for (int j = 0; j < all->count; j++)
            if (sets[i] >> (j + SCHEMES - all->count) & 1) {
                limits[w->named.count] = limits_of(all->scheme[j]);
                w->named.scheme[w->named.count++] = all->scheme[j];
            }
        if (w->tiles && !classify_both(w, limits, w->named.count - 1))
            return false;
        w->p->seconds = cut_tiles(w, true);
        if (w->failed || w->uncut == 0)
            break;
    }
    return !w->failed;
}

/* Classifies tiles by each candidate's limits, and cuts the product by the candidate that is
 * predicted to be fastest.  False on failure. */
static bool cut_along_k(struct partition_work *w)
{
    size_t best = 0;
    double least = INFINITY;

    for (size_t i = 0; i < COUNT(narrows); i++) {
        double seconds;

        if (!classify_both(w, &narrows[i], 1))
            return false;
        seconds = cut_tiles(w, false);
        if (seconds < least || !isfinite(least)) {
            least = seconds;
            best = i;
        }
    }
    if (w->failed || !classify_both(w, &narrows[best], 1))
        return false;
    w->p->seconds = cut_tiles(w, true);
    return !w->failed;
}

/* ---- making partitions, and the parts they have ---------------------------------------------- */

/* Starts the partition of one operand with a single group that holds all blocks.  Returns false,
 * with an error, if memory runs out. */
static bool start_side(struct partition_work *w, int side)
{
    struct partition_side *s = &w->p->side[side];

    s->mask = w->in->mask[side];
    s->shift = w->in->shift;
    s->tiles = (w->in->k + ((int64_t)1 << s->shift) - 1) >> s->shift;
    s->groups = 1;
    s->first[1] = s->mask->tile_rows;
    s->block = malloc((size_t)(s->mask->tile_rows + 1) * sizeof *s->block);
    s->tile = calloc((size_t)(s->mask->tile_rows * s->tiles + 1), 1);
    if (!s->block || !s->tile)
        return no_memory(w->d);
    for (int64_t i = 0; i < s->mask->tile_rows; i++)
        s->block[i] = (int32_t)i;
    return true;
}

/* Returns the index of the scheme for a block of lines: the last one if the block has NaN or
 * infinities; 0 if scans know the block's tiles, which can then be cut; else the first named scheme
 * that suits the block's complete lines. */
static int scheme_of_block(const struct partition_work *w, const struct scheme_list *named,
                           const struct block_mask *b)
{
    int i = 0;

    if (b->flags & TILE_special)
        return named->count - 1;
    for (; !w->tiles && !(b->flags & TILE_zero) && i < named->count - 1; i++) {
        const struct narrow_limits limits = limits_of(named->scheme[i]);

        if (limits.fixed ?
                is_narrow(&(struct tile){ b->emin, b->emax, false }, limits.top, limits.binades) :
                (limits.bits ? b->width : b->spread + 1) <= limits.binades)
            break;
    }
    return i;
}

/* Puts the blocks of an operand into groups, by the scheme that suits them. */
static void group_by_scheme(const struct partition_work *w, const struct scheme_list *named,
                            struct partition_side *s)
{
    const int64_t blocks = s->mask->tile_rows;
    int64_t n = 0;

    s->groups = 0;
    for (int scheme = 0; scheme < named->count; scheme++) {
        s->first[s->groups] = n;
        for (int64_t i = 0; i < blocks; i++)
            if (scheme_of_block(w, named, &s->mask->block[i]) == scheme)
                s->block[n++] = (int32_t)i;
        s->groups += n > s->first[s->groups];
    }
    s->first[s->groups] = n;
}

/* Divides a product for which the caller names several schemes.  False on failure. */
static bool divide_by_named(struct partition_work *w, const struct scheme_list *named)
{
    for (int side = 0; side < 2; side++)
        group_by_scheme(w, named, &w->p->side[side]);
    for (int g = 0; g < w->p->side[0].groups; g++)
        for (int h = 0; h < w->p->side[1].groups; h++) {
            struct mask a = mask_of_group(&w->p->side[0], g), b = mask_of_group(&w->p->side[1], h);

            w->seconds[g][h] = rectangle_seconds(w, &a, &b);
        }
    return !w->failed && cut_by_named_schemes(w, named);
}

/* Partitions the product, into groups of lines and of tiles along k, if that is predicted to
 * pay; otherwise *p has one part.  False if memory runs out, or a cost cannot be predicted. */
bool limber_partition_make(const struct partition_input *in, struct partition *p, struct diag *d)
{
    struct partition_work w = { .in = in, .p = p, .d = d };
    struct scheme_list named;
    struct mask a, b;

    memset(p, 0, sizeof *p);
    if (!start_side(&w, 0) || !start_side(&w, 1))
        return false;
    a = mask_of_group(&p->side[0], 0);
    b = mask_of_group(&p->side[1], 0);
    p->whole = w.seconds[0][0] = rectangle_seconds(&w, &a, &b);
    w.tiles = in->mask[0]->tile && in->mask[1]->tile && in->k > 0;
    if (in->scheme && limber_scheme_list_read(in->scheme, &named) && named.count > 1)
        return !w.failed && divide_by_named(&w, &named);
    if (w.failed || !cut_lines(&w))
        return false;
    if (w.tiles)
        return cut_along_k(&w);
    p->seconds = cut_tiles(&w, true);
    return true;
}

/* Frees the partition. */
void limber_partition_clear(struct partition *p)
{
    for (int side = 0; side < 2; side++) {
        free(p->side[side].block);
        free(p->side[side].tile);
    }
    memset(p, 0, sizeof *p);
}

/* Returns the tiles of one operand that a part multiplies. */
struct tile_subset limber_partition_subset(const struct partition *p,
                                           const struct partition_part *part, int side)
{
    const struct partition_side *s = &p->side[side];

    return (struct tile_subset){ s->block + s->first[part->group[side]],
                                 part->keep[side] ? s->tile : NULL, s->tiles, part->keep[side],
                                 s->shift };
}

/* Returns the number of blocks of lines of one operand that a part multiplies. */
int64_t limber_partition_blocks(const struct partition *p, const struct partition_part *part,
                                int side)
{
    const struct partition_side *s = &p->side[side];
    int g = part->group[side];

    return s->first[g + 1] - s->first[g];
}
