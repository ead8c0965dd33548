/* SPDX-License-Identifier: BSD-3-Clause
 * Partitions a product.  One plan would have to suit its widest rows and tiles; several plans, each
 * for data of its kind, may be faster.
 *
 *   needs   the masks of both operands, and the price of a plan for any mask
 *   leaves  groups of blocks of lines: every element of C belongs to one group of A and one of B.
 *           Within such a rectangle, if the contract allows C to be summed in parts, up to three
 *           parts by classes of tiles: narrow x narrow, wide x all, narrow x wide
 *   proof   docs/accuracy.md, "Mixed products"
 *   source  Ma et al., ICS 2022, sections 5.2 and 5.3: classes of tiles, and the count of their
 * pairs by a product of the masks */
#include "passes/partition.h"

#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THRESHOLDS = 8, ANCHORS = 8 };
/* Parts must be predicted to take less than this share of the time before.  The margin covers costs
 * that are not predicted: results that pass through scratch, panels that straddle blocks, shorter
 * chains. */
static const double worth = 0.9, worth_tiles = 0.75;

/* A partition that is being made. */
struct work {
    const struct partition_input *in;
    struct partition *p;
    struct diag *d;
    double seconds[PARTITION_GROUPS][PARTITION_GROUPS]; /* predicted, [group of A][of B] */
    bool tiles; /* both masks have tiles */
    bool failed;
};

static bool no_memory(struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "partition: out of memory");
}

/* ---- the price of a rectangle of tiles ------------------------------------------------------- */

/* Predicts the seconds of a part by the price of a plan for its masks. share: of its multiply-adds
 * that are done. */
static double predict_seconds(struct work *w, const struct mask *a, const struct mask *b,
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

/* The joined mask of `count` blocks of lines. */
static struct mask mask_of_blocks(const struct partition_side *s, const int32_t *block,
                                  int64_t count)
{
    struct mask m;

    limber_mask_join(&m, s->mask, &(struct tile_subset){ .block = block }, count);
    return m;
}

static struct mask mask_of_group(const struct partition_side *s, int g)
{
    return mask_of_blocks(s, s->block + s->first[g], s->first[g + 1] - s->first[g]);
}

static double rectangle_seconds(struct work *w, const struct mask *a, const struct mask *b)
{
    return predict_seconds(w, a, b, w->in->scheme[1] ? w->in->scheme[1] : w->in->scheme[0], 0, 1);
}

/* ---- cutting lines into groups of similar width ---------------------------------------------- */

/* The width of a block's integers in bits, which the others in its group must take, too. */
static int width_key(const struct mask *m, int32_t block)
{
    const struct block_mask *b = &m->block[block];

    return b->flags & TILE_zero ? 0 : (b->width + 3) / 4 * 4;
}

/* Some of the keys of a group that are below its largest, ascending; returns their number. */
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
    n--; /* nothing lies above the largest */
    for (int i = 0; i < n && kept < THRESHOLDS; i++)
        if (n <= THRESHOLDS || i * THRESHOLDS / n >= kept)
            out[kept++] = all[i];
    return kept;
}

/* Writes the group's blocks with keys up to the threshold, then the others; returns how many come
 * first. */
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

/* Predicts out[h][g], seconds of half h of a group with group g of the other side; returns the
 * sum. */
static double halves_seconds(struct work *w, int side, const struct mask half[2],
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

/* A group that may be cut in two at a threshold, and what that gains. */
struct split {
    int side, group, threshold;
    double gain;
    double seconds[2][PARTITION_GROUPS];
};

/* A cut of both sides at once, since wide lines on one side may hide the gain of cutting the other.
 */
struct double_split {
    int threshold[2];
    double gain;
    double seconds[2][2];
};

/* Predicted seconds of group g of one side with group `other` of the other side. */
static double *seconds_at(struct work *w, int side, int g, int other)
{
    return side ? &w->seconds[other][g] : &w->seconds[g][other];
}

/* Tries all cuts of a group by its blocks' bits; *best: the one that gains most so far. */
static void try_group(struct work *w, int side, int g, int32_t *scratch, struct split *best)
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
        if (isnan(t.gain)) /* INFINITY - INFINITY: no plan with or without the cut */
            t.gain = 0;
        if (t.gain > best->gain)
            *best = t;
    }
}

/* Cuts a group in two; the half above the threshold becomes the last group. */
static void cut_group(struct work *w, const struct split *t, int32_t *scratch)
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

/* Tries all cuts of both sides' only groups at once. */
static void try_both(struct work *w, int32_t *scratch[2], struct double_split *best)
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

/* Cuts a group of A and one of B at their thresholds, and keeps the prices of the four products. */
static void cut_both(struct work *w, const struct double_split *t, int32_t *scratch)
{
    for (int side = 0; side < 2; side++)
        cut_group(w, &(struct split){ .side = side, .threshold = t->threshold[side] }, scratch);
    for (int q = 0; q < 4; q++)
        w->seconds[q / 2][q % 2] = t->seconds[q / 2][q % 2];
}

static double total_seconds(const struct work *w)
{
    double all = 0;

    for (int g = 0; g < w->p->side[0].groups; g++)
        for (int h = 0; h < w->p->side[1].groups; h++)
            all += w->seconds[g][h];
    return all;
}

/* Cuts groups one by one, each time where it gains most. */
static bool cut_lines(struct work *w)
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

/* Tiles of a block are narrow if their exponents, or (bits) all their set bits, lie within
 * `binades` below one power of two. */
struct narrow {
    bool bits;
    int binades;
};

/* A tile of 2^shift elements along k. */
struct tile {
    int low, high;
    bool zero;
};

/* Joins the masks of a tile of the partition. bits: the lowest set bit counts, not the least
 * exponent. */
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

/* True if all exponents of a tile are within `binades` binades at and below 2^top. */
static bool is_narrow(const struct tile *t, int top, int binades)
{
    return t->high <= top && t->low > top - binades;
}

/* The top exponent with which most of the block's tiles are narrow. */
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

/* Classifies all tiles of a side; false: out of memory. */
static bool classify_tiles(struct partition_side *s, struct narrow limits)
{
    struct tile *t = malloc((size_t)(s->tiles + 1) * sizeof *t);

    for (int64_t b = 0; t && b < s->mask->tile_rows; b++) {
        int top;

        for (int64_t c = 0; c < s->tiles; c++)
            t[c] = tile_at(s, (int32_t)b, c, limits.bits);
        top = best_top(t, s->tiles, limits.binades);
        for (int64_t c = 0; c < s->tiles; c++)
            s->tile[b * s->tiles + c] =
                (uint8_t)(t[c].zero                             ? CLASS_zero :
                          is_narrow(&t[c], top, limits.binades) ? CLASS_narrow :
                                                                  CLASS_wide);
    }
    free(t);
    return t != NULL;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks of a grain whose tiles in column c are multiplied: all of them, or none if none is
 * kept. */
static int64_t count_shown(const struct partition_side *s, uint32_t keep, const int32_t *block,
                           int64_t c, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (keep >> s->tile[block[i] * s->tiles + c] & 1)
            return count;
    return 0;
}

/* The share of the rectangle's pairs of tiles that a part multiplies: for each column of tiles the
 * product of the two sides' counts. */
static double pair_share(const struct work *w, const struct partition_part *part)
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
                count[side] += count_shown(s, part->keep[side], block + i, c,
                                           min64(w->in->grain[side], blocks[side] - i));
        }
        pairs += count[0] * count[1];
    }
    return tiles ? (double)pairs / ((double)blocks[0] * (double)blocks[1] * (double)tiles) : 0;
}

/* The joined mask of the tiles that a part multiplies. */
static struct mask mask_of_part(const struct work *w, const struct partition_part *part, int side)
{
    struct tile_subset x = limber_partition_subset(w->p, part, side);
    struct mask m;

    limber_mask_join(&m, w->p->side[side].mask, &x, limber_partition_blocks(w->p, part, side));
    return m;
}

/* The predicted time of a part; sets its share of the multiply-adds. */
static double part_seconds(struct work *w, struct partition_part *part)
{
    struct mask a = mask_of_part(w, part, 0), b = mask_of_part(w, part, 1);

    part->share = pair_share(w, part);
    return part->share > 0 ?
               predict_seconds(w, &a, &b, part->scheme, part->roundings, part->share) :
               0;
}

/* Cuts one rectangle by classes of tiles; returns the number of parts that have products, 0 to
 * 3. */
static int cut_rectangle(struct work *w, const int group[2], struct partition_part out[3],
                         double *seconds)
{
    enum { NARROW = 1 << CLASS_narrow, WIDE = 1 << CLASS_wide };
    static const uint32_t keep[3][2] = { { NARROW, NARROW },
                                         { WIDE, NARROW | WIDE },
                                         { NARROW, WIDE } };
    int n = 0;

    for (int i = 0; i < 3; i++) {
        struct partition_part t = { .group = { group[0], group[1] },
                                    .keep = { keep[i][0], keep[i][1] },
                                    .adds = n > 0,
                                    .scheme = w->in->scheme[1] ? w->in->scheme[i > 0] :
                                                                 w->in->scheme[0] };

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

static bool is_special(const struct partition_side *s, int g)
{
    return mask_of_group(s, g).special;
}

/* True if so many parts are enough faster than one plan; parts that are added need a result that
 * may be rounded part by part. */
static bool is_worthwhile(const struct work *w, int parts, double seconds, double whole)
{
    if (parts > 1 && !w->in->sums)
        return false;
    return w->in->scheme[1] ? isfinite(seconds) :
                              seconds < (parts > 1 ? worth_tiles : worth) * whole;
}

/* Cuts rectangles along k where that gains or the caller wants it; returns all predicted
 * seconds. */
static double cut_tiles(struct work *w, bool apply)
{
    struct partition *p = w->p;
    double all = 0;

    if (apply)
        p->parts = 0;
    for (int g = 0; g < p->side[0].groups; g++)
        for (int h = 0; h < p->side[1].groups; h++) {
            struct partition_part part[3];
            double seconds = INFINITY;
            bool finite = !is_special(&p->side[0], g) && !is_special(&p->side[1], h);
            int n = w->tiles && finite ? cut_rectangle(w, (int[]){ g, h }, part, &seconds) : 0;

            if (n == 0 || !is_worthwhile(w, n, seconds, w->seconds[g][h])) {
                n = 1;
                seconds = w->seconds[g][h];
                part[0] = (struct partition_part){ .group = { g, h },
                                                   .share = 1,
                                                   .seconds = seconds,
                                                   .scheme = w->in->scheme[1] ? w->in->scheme[1] :
                                                                                w->in->scheme[0] };
            }
            all += seconds;
            for (int i = 0; apply && i < n; i++)
                p->part[p->parts++] = part[i];
        }
    return all;
}

static bool classify_both(struct work *w, struct narrow limits)
{
    return (classify_tiles(&w->p->side[0], limits) && classify_tiles(&w->p->side[1], limits)) ||
           no_memory(w->d);
}

/* Candidates: all that is not zero; the range of scaled binary16 limbs; integers of 8 and 16
 * bits. */
enum { ALL, RANGED, BYTES };
static const struct narrow narrows[] = {
    { false, 1 << 20 }, { false, 28 }, { true, 8 }, { true, 16 }
};

/* The candidate that fits a named scheme: float limbs are limited in range, integers in bits. */
static size_t candidate_for(const char *scheme)
{
    const struct scheme *s = limber_scheme_find(scheme);

    return !s || s->unit == UNIT_f64 || s->unit == UNIT_exact ? ALL : s->limbs > 1 ? RANGED : BYTES;
}

/* Classifies tiles by each candidate range, and divides the product by the one predicted fastest.
 */
static bool cut_along_k(struct work *w)
{
    size_t best = 0;
    double least = INFINITY;

    if (w->in->scheme[1])
        best = candidate_for(w->in->scheme[0]);
    for (size_t i = 0; i < COUNT(narrows) && !w->in->scheme[1]; i++) {
        double seconds;

        if (!classify_both(w, narrows[i]))
            return false;
        seconds = cut_tiles(w, false);
        if (seconds < least || !isfinite(least)) {
            least = seconds;
            best = i;
        }
    }
    if (w->failed || !classify_both(w, narrows[best]))
        return false;
    w->p->seconds = cut_tiles(w, true);
    return !w->failed;
}

/* ---- making partitions, and the parts they have ---------------------------------------------- */

/* Begins one side's partition: one group of all blocks. */
static bool start_side(struct work *w, int side)
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

/* True if the narrow scheme, of limited range, can take the whole product: its scale per line may
 * suit lines of different sizes better than tiles do.  Then it is the only part. */
static bool is_narrow_throughout(struct work *w, const struct mask *a, const struct mask *b)
{
    bool ranged = candidate_for(w->in->scheme[0]) == RANGED;
    double seconds = ranged ? predict_seconds(w, a, b, w->in->scheme[0], 0, 1) : INFINITY;

    if (!isfinite(seconds))
        return false;
    w->p->seconds = seconds;
    w->p->parts = 1;
    w->p->part[0] =
        (struct partition_part){ .scheme = w->in->scheme[0], .share = 1, .seconds = seconds };
    return true;
}

bool limber_partition_make(const struct partition_input *in, struct partition *p, struct diag *d)
{
    struct work w = { .in = in, .p = p, .d = d };
    struct mask a, b;

    memset(p, 0, sizeof *p);
    if (!start_side(&w, 0) || !start_side(&w, 1))
        return false;
    a = mask_of_group(&p->side[0], 0);
    b = mask_of_group(&p->side[1], 0);
    p->whole = w.seconds[0][0] = rectangle_seconds(&w, &a, &b);
    if (in->scheme[1] && is_narrow_throughout(&w, &a, &b))
        return !w.failed;
    if (w.failed || (!in->scheme[1] && !cut_lines(&w)))
        return false;
    w.tiles = in->mask[0]->tile && in->mask[1]->tile && in->k > 0;
    if (w.tiles)
        return cut_along_k(&w);
    p->seconds = cut_tiles(&w, true);
    return true;
}

void limber_partition_clear(struct partition *p)
{
    for (int side = 0; side < 2; side++) {
        free(p->side[side].block);
        free(p->side[side].tile);
    }
    memset(p, 0, sizeof *p);
}

struct tile_subset limber_partition_subset(const struct partition *p,
                                           const struct partition_part *part, int side)
{
    const struct partition_side *s = &p->side[side];

    return (struct tile_subset){ s->block + s->first[part->group[side]],
                                 part->keep[side] ? s->tile : NULL, s->tiles, part->keep[side],
                                 s->shift };
}

int64_t limber_partition_blocks(const struct partition *p, const struct partition_part *part,
                                int side)
{
    const struct partition_side *s = &p->side[side];
    int g = part->group[side];

    return s->first[g + 1] - s->first[g];
}
