/* SPDX-License-Identifier: BSD-3-Clause
 * Products of warps and warpgroups.  The last lane to arrive does the work for all.  A product of a
 * warpgroup counts as reading its operands until group_wait, and its registers hold poison until
 * then. */
#include "test/cuda/simt/dot.h"
#include "test/cuda/simt/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REGISTER_POISON 0xffc5c5c5u

/* How the device sums products of each kind; good: the model was found. */
static struct {
    struct model m;
    int capability;
    bool good;
} models[2][SIMT_E5M2 + 1]; /* [1]: products into tensor memory */

/* Chooses the models of the tensor cores of the simulated device. */
void product_start(void)
{
    for (int columns = 0; columns < 2; columns++)
        for (int kind = SIMT_F16; kind <= SIMT_E5M2; kind++)
            if (models[columns][kind].capability != engine.capability) {
                models[columns][kind].capability = engine.capability;
                models[columns][kind].good =
                    simt_model(kind, engine.capability, columns, &models[columns][kind].m);
            }
}

/* Returns the parameters with which this device sums products of this kind. */
static const struct model *model_of(int kind, bool columns, const char *what)
{
    if (!models[columns][kind].good)
        engine_fail("%s: no model of kind %d on this device", what, kind);
    return &models[columns][kind].m;
}

/* Returns the minimum, entry by entry, of the vector clocks of all threads that take part in an
 * operation: what all of them know.  A vector clock that several threads share lacks their own
 * entries, so each of these threads counts as unknown to the others. */
static struct witness common_witness(const struct meeting *m, int step)
{
    static uint32_t least[MAX_CLUSTER * (2 * MAX_THREADS + AGENTS)];
    const struct fibre *all = &engine.running->block->fibres[m->from];

    memset(least, 0xff, (size_t)engine.clocks_size * sizeof *least);
    for (int i = 0, count; i < m->size; i += count * step) {
        struct clocks *one = all[i].known;

        for (count = 1; i + count * step < m->size && all[i + count * step].known == one; count++)
            ;
        if (count > 1) {
            clocks_keep(one);
        } else {
            one = clocks_new();
            clocks_join_fibre(one, &all[i]);
        }
        for (int k = 0; k < engine.clocks_size; k++)
            least[k] = least[k] < one->at[k] ? least[k] : one->at[k];
        clocks_drop(one);
    }
    return (struct witness){ .known = least, .self = -1 };
}

/* Returns the running thread's warp, which must have 32 threads. */
static struct meeting *whole_warp(const char *what)
{
    struct meeting *m = my_warp();

    if (m->size != 32)
        engine_fail("%s in a warp of %d threads", what, m->size);
    return m;
}

static struct fibre *lane_of(const struct meeting *m, int lane)
{
    return &engine.running->block->fibres[m->from + lane];
}

/* ---- products of a warp ---------------------------------------------------------------------- */

/* A lane's arguments of load_fragments or wmma_load: its registers, and its address and leading
 * dimension in shared memory. */
struct fragments {
    uint32_t *r;
    uint32_t at;
    int ld;
};

/* ldmatrix: loads four 8 x 8 tiles of 16-bit elements.  Lane l gives the address of row l % 8 of
 * tile l / 8; register i of lane l gets a word of row l / 4 of tile i. */
void load_fragments(uint32_t *r, uint32_t at)
{
    struct fragments mine = { r, at, 0 };
    struct block *b = engine.running->block;
    struct meeting *m = whole_warp("load_fragments");

    fibre_maybe_yield();
    shared_range(b, at, 16, 16, "load_fragments");
    if (!meeting_enter(m, "load_fragments", 0, &mine))
        return;
    for (int l = 0; l < 32; l++) {
        const struct fragments *to = lane_of(m, l)->arg;
        struct witness w = fibre_witness(lane_of(m, l));

        for (int i = 0; i < 4; i++) {
            const struct fragments *row = lane_of(m, 8 * i + l / 4)->arg;
            uint32_t from = row->at + 4 * (uint32_t)(l & 3);

            shared_note(b, &w, from, 4, false);
            memcpy(&to->r[i], b->shared + from, 4);
        }
    }
    meeting_end(m);
}

/* 32 bytes as integers. */
struct numbers {
    int16_t at[32];
    bool any; /* some number is not 0 */
};

/* Decodes 32 bytes as signed or unsigned integers. */
static void read_numbers(struct numbers *x, const uint8_t *bytes, bool is_signed)
{
    x->any = false;
    for (int i = 0; i < 32; i++) {
        x->at[i] = is_signed ? (int8_t)bytes[i] : bytes[i];
        x->any |= bytes[i] != 0;
    }
}

/* Adds products of rows of a and columns of b, of 32 bytes each, to d.  d[i * columns + j] points
 * to the sum of row i and column j.  kind: bit 0 is set if a is signed, bit 1 if b is. */
static void multiply_i8(int kind, int rows, const uint8_t (*a)[32], int columns,
                        const uint8_t (*b)[32], uint32_t *const *d)
{
    static struct numbers x, y[256];

    for (int j = 0; j < columns; j++)
        read_numbers(&y[j], b[j], kind & 2);
    for (int i = 0; i < rows; i++) {
        read_numbers(&x, a[i], kind & 1);
        for (int j = 0; j < columns && x.any; j++) {
            int32_t sum = 0;

            if (!y[j].any)
                continue;
            for (int k = 0; k < 32; k++)
                sum += x.at[k] * y[j].at[k];
            *d[i * columns + j] += (uint32_t)sum;
        }
    }
}

/* Adds products of 32 bytes along k to d, with this device's model for this kind of instruction. */
static void add_products(int kind, bool into_columns, int rows, const uint8_t (*a)[32], int columns,
                         const uint8_t (*b)[32], uint32_t *const *d, const char *what)
{
    static struct line line_a[128], line_b[256];
    const struct model *m;

    if (kind < SIMT_F16) {
        multiply_i8(kind, rows, a, columns, b, d);
        return;
    }
    m = model_of(kind, into_columns, what);
    for (int i = 0; i < rows; i++)
        simt_line(kind, a[i], &line_a[i]);
    for (int j = 0; j < columns; j++)
        simt_line(kind, b[j], &line_b[j]);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            uint32_t *p = d[i * columns + j];
            float c;

            memcpy(&c, p, 4);
            c = simt_dot(kind, m, &line_a[i], &line_b[j], c);
            memcpy(p, &c, 4);
        }
}

/* A lane's registers of mma or wmma. */
struct operands {
    void *d;
    const uint32_t *a, *b;
};

/* Simulates mma.sync of a 16 x 8 tile: gathers the lanes' registers into rows of A and columns
 * of B, and adds the product to the sums d of all lanes. */
void mma(int kind, void *d, const uint32_t *a, const uint32_t *b)
{
    struct operands mine = { d, a, b };
    struct meeting *m = whole_warp("mma");
    uint8_t rows[16][32], columns[8][32];
    uint32_t *to[16 * 8];

    if (!meeting_enter(m, "mma", kind, &mine))
        return;
    for (int l = 0; l < 32; l++) {
        const struct operands *o = lane_of(m, l)->arg;
        int g = l >> 2, t = l & 3;

        for (int i = 0; i < 4; i++) {
            memcpy(&rows[g + 8 * (i & 1)][4 * t + 16 * (i >> 1)], &o->a[i], 4);
            to[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = (uint32_t *)o->d + i;
        }
        for (int i = 0; i < 2; i++)
            memcpy(&columns[g][4 * t + 16 * i], &o->b[i], 4);
    }
    add_products(kind, false, 16, (const uint8_t(*)[32])rows, 8, (const uint8_t(*)[32])columns, to,
                 "mma");
    meeting_end(m);
}

/* A lane's registers of mma_scaled. */
struct scaled_operands {
    float *d;
    const uint32_t *a, *b;
    uint32_t scales[2];
};

/* Decodes a line of an operand with its word of block scales. */
static void read_scaled(const struct scaled_product *x, int side, const uint8_t bytes[32],
                        uint32_t word, struct scaled_line *l)
{
    uint8_t scales[4];

    for (int i = 0; i < 4; i++)
        scales[i] = (uint8_t)(word >> 8 * i);
    if (!simt_scaled_line(x->kind, x->format[side], bytes, scales + x->byte[side], l))
        engine_fail("a scaled product: bits beside an element of operand %d", side);
}

/* Simulates block-scaled mma.sync of a 16 x 8 tile.  The scales of a line come from the lane of
 * each group of four that x->quad selects. */
void mma_scaled(const struct scaled_product *x, float *d, const uint32_t *a, const uint32_t *b,
                uint32_t scales_a, uint32_t scales_b)
{
    struct scaled_operands mine = { d, a, b, { scales_a, scales_b } };
    struct meeting *m = whole_warp("mma_scaled");
    static struct scaled_line line_a[16], line_b[8];
    uint8_t rows[16][32], columns[8][32];
    float *to[16][8];

    if (!meeting_enter(m, "mma_scaled",
                       (int)x->kind | x->format[0] << 2 | x->format[1] << 5 | x->byte[0] << 8 |
                           x->byte[1] << 10 | x->quad[0] << 12 | x->quad[1] << 14,
                       &mine))
        return;
    for (int l = 0; l < 32; l++) {
        const struct scaled_operands *o = lane_of(m, l)->arg;
        int g = l >> 2, t = l & 3;

        for (int i = 0; i < 4; i++) {
            memcpy(&rows[g + 8 * (i & 1)][4 * t + 16 * (i >> 1)], &o->a[i], 4);
            to[g + 8 * (i >> 1)][2 * t + (i & 1)] = o->d + i;
        }
        for (int i = 0; i < 2; i++)
            memcpy(&columns[g][4 * t + 16 * i], &o->b[i], 4);
    }
    for (int i = 0; i < 16; i++) {
        const struct scaled_operands *o = lane_of(m, i % 8 * 4 + 2 * x->quad[0] + i / 8)->arg;

        read_scaled(x, 0, rows[i], o->scales[0], &line_a[i]);
    }
    for (int j = 0; j < 8; j++) {
        const struct scaled_operands *o = lane_of(m, 4 * j + x->quad[1])->arg;

        read_scaled(x, 1, columns[j], o->scales[1], &line_b[j]);
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            if (!simt_scaled_dot(x->kind, &line_a[i], &line_b[j], to[i][j]))
                engine_fail("a scaled product: no model of kind %d", (int)x->kind);
    meeting_end(m);
}

/* A lane's registers of mma_f64. */
struct operands64 {
    double *d, a, b;
};

/* Simulates mma.sync in FP64: an 8 x 8 tile and 4 elements along k, added in order of k. */
void mma_f64(double *d, double a, double b)
{
    struct operands64 mine = { d, a, b };
    struct meeting *m = whole_warp("mma_f64");

    if (!meeting_enter(m, "mma_f64", 0, &mine))
        return;
    for (int l = 0; l < 32; l++) {
        const struct operands64 *o = lane_of(m, l)->arg;

        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 4; k++) {
                const struct operands64 *x = lane_of(m, (l & ~3) + k)->arg;
                const struct operands64 *y = lane_of(m, (2 * (l & 3) + i) * 4 + k)->arg;

                o->d[i] = fma(x->a, y->b, o->d[i]);
            }
    }
    meeting_end(m);
}

/* ---- the portable form ----------------------------------------------------------------------- */

/* Checks a collective load or store of a tile.  All 32 lanes must give the same address and leading
 * dimension, which is at least 16 and a multiple of 8 elements.  The tile's `rows` rows of 16
 * elements of `width` bytes must be in shared memory, aligned to 32 bytes. */
static void check_wmma(const struct meeting *m, uint32_t rows, uint32_t width, const char *what)
{
    const struct fragments *first = lane_of(m, 0)->arg;

    for (int l = 1; l < 32; l++) {
        const struct fragments *o = lane_of(m, l)->arg;

        if (o->at != first->at || o->ld != first->ld)
            engine_fail("%s: the lanes give different addresses", what);
    }
    if (first->ld < 16 || first->ld % 8)
        engine_fail("%s: leading dimension %d", what, first->ld);
    shared_range(engine.running->block, first->at,
                 ((uint64_t)(rows - 1) * (uint32_t)first->ld + 16) * width, 32, what);
}

/* Loads 16 elements of two bytes: lane l gets row l & 15 of A, or column l & 15 of B. */
void wmma_load(uint32_t *r, uint32_t at, int ld)
{
    struct fragments mine = { r, at, ld };
    struct block *b = engine.running->block;
    struct meeting *m = whole_warp("wmma_load");
    struct witness w;

    if (!meeting_enter(m, "wmma_load", 0, &mine))
        return;
    check_wmma(m, 16, 2, "wmma_load");
    w = common_witness(m, 1);
    for (int l = 0; l < 32; l++) {
        const struct fragments *o = lane_of(m, l)->arg;
        uint32_t from = at + (uint32_t)((l & 15) * ld * 2);

        w.now = fibre_witness(lane_of(m, l)).now;
        shared_note(b, &w, from, 32, false);
        memcpy(o->r, b->shared + from, 32);
    }
    meeting_end(m);
}

/* wmma of a 16 x 16 tile: lane l has row l & 15 of A and column l & 15 of B, and sums of half a row
 * of C. */
void wmma(float *d, const uint32_t *a, const uint32_t *b)
{
    struct operands mine = { d, a, b };
    struct meeting *m = whole_warp("wmma");
    uint8_t rows[16][32], columns[16][32];
    uint32_t *to[16 * 16];

    if (!meeting_enter(m, "wmma", 0, &mine))
        return;
    for (int l = 0; l < 32; l++) {
        const struct operands *o = lane_of(m, l)->arg;

        memcpy(rows[l & 15], o->a, 32);
        memcpy(columns[l & 15], o->b, 32);
        for (int i = 0; i < 8; i++)
            to[8 * l + i] = (uint32_t *)o->d + i;
    }
    add_products(SIMT_F16, false, 16, (const uint8_t(*)[32])rows, 16, (const uint8_t(*)[32])columns,
                 to, "wmma");
    meeting_end(m);
}

/* Stores a 16 x 16 tile of sums in shared memory.  Each lane stores half a row. */
void wmma_store(uint32_t at, const float *d, int ld)
{
    struct fragments mine = { (uint32_t *)(uintptr_t)d, at, ld };
    struct block *b = engine.running->block;
    struct meeting *m = whole_warp("wmma_store");

    if (!meeting_enter(m, "wmma_store", 0, &mine))
        return;
    check_wmma(m, 16, 4, "wmma_store");
    for (int l = 0; l < 32; l++) {
        const struct fragments *o = lane_of(m, l)->arg;
        struct witness w = fibre_witness(lane_of(m, l));
        uint32_t to = at + (uint32_t)(l / 2 * ld * 4 + l % 2 * 32);

        shared_note(b, &w, to, 32, true);
        memcpy(b->shared + to, o->r, 32);
    }
    meeting_end(m);
}

/* ---- products of a warpgroup ----------------------------------------------------------------- */

/* A thread's arguments of `group`. */
struct group_product {
    uint32_t *d;
    int n;
    struct tile a, b;
    int keep;
};

/* Reads rows of 32 bytes of a swizzled tile.  In the addresses of pieces of 16 bytes, bits 4 to 6
 * are XORed with bits 7 to 9. */
static void read_tile(const struct witness *w, struct tile t, int rows, uint8_t (*to)[32])
{
    struct block *b = engine.running->block;

    if (t.at % 32)
        engine_fail("a product's tile at byte %u: not 32 bytes in a row of 128", t.at);
    for (uint32_t r = 0; r < (uint32_t)rows; r++)
        for (uint32_t c = 0; c < 2; c++) {
            uint32_t from = t.at + r / 8 * t.groups + r % 8 * 128 + 16 * c;

            from ^= from >> 3 & 0x70;
            shared_range(b, from, 16, 16, "a product's tile");
            shared_note(b, w, from, 16, false);
            memcpy(&to[r][16 * c], b->shared + from, 16);
        }
}

/* Multiplies two tiles of shared memory, and adds the products to *d. */
void product_of_tiles(int kind, bool columns, const struct witness *w, int rows, struct tile a,
                      int n, struct tile b, uint32_t *const *d, const char *what)
{
    static uint8_t x[128][32], y[256][32];

    read_tile(w, a, rows, x);
    read_tile(w, b, n, y);
    add_products(kind, columns, rows, (const uint8_t(*)[32])x, n, (const uint8_t(*)[32])y, d, what);
}

/* Reads lines of an operand and their block scales, and decodes them. */
static void read_scaled_lines(const struct scaled_product *x, int side, const uint8_t (*bytes)[32],
                              const uint8_t (*scales)[4], int count, struct scaled_line *to)
{
    for (int i = 0; i < count; i++) {
        uint8_t apart[32];

        if (!simt_unpack(x->kind, x->format[side], bytes[i], apart) ||
            !simt_scaled_line(x->kind, x->format[side], apart, scales[i] + x->byte[side], &to[i]))
            engine_fail("a scaled product: bits beside the elements of operand %d", side);
    }
}

/* Adds block-scaled products of tiles in shared memory to sums: d[i * n + j] points to the sum of
 * row i of A and column j of B. */
void scaled_product_of_tiles(const struct scaled_product *x, const struct witness *w, int rows,
                             struct tile a, int n, struct tile b, uint8_t (*const scales[2])[4],
                             uint32_t *const *d)
{
    static uint8_t bytes_a[128][32], bytes_b[256][32];
    static struct scaled_line line_a[128], line_b[256];

    read_tile(w, a, rows, bytes_a);
    read_tile(w, b, n, bytes_b);
    read_scaled_lines(x, 0, (const uint8_t(*)[32])bytes_a, (const uint8_t(*)[4])scales[0], rows,
                      line_a);
    read_scaled_lines(x, 1, (const uint8_t(*)[32])bytes_b, (const uint8_t(*)[4])scales[1], n,
                      line_b);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            float sum;

            memcpy(&sum, d[i * n + j], 4);
            if (!simt_scaled_dot(x->kind, &line_a[i], &line_b[j], &sum))
                engine_fail("a scaled product: no model of kind %d", (int)x->kind);
            memcpy(d[i * n + j], &sum, 4);
        }
}

/* Returns the time 0 of the warpgroup's tensor core, which has a clock like a thread's. */
static epoch group_agent(const struct meeting *m)
{
    return (epoch)(engine.running->block->rank * BLOCK_IDS + AGENT_GROUP + m->from / 128)
           << CLOCK_BITS;
}

static struct group_product *product_of_thread(const struct meeting *m, int thread)
{
    return lane_of(m, thread)->arg;
}

/* Returns the sum whose registers are those of the product that is being issued.  Adds a sum if
 * there is none. */
static struct sum *find_sum(struct group *g, const struct meeting *m)
{
    const struct group_product *first = product_of_thread(m, 0);
    struct sum *s;

    for (s = g->sums; s; s = s->next)
        if (s->d[0] == first->d && s->n == first->n)
            return s;
    s = calloc(1, sizeof *s);
    s->value = calloc((size_t)(64 * first->n), sizeof *s->value);
    s->n = first->n;
    s->next = g->sums;
    g->sums = s;
    return s;
}

/* Returns whether a thread's registers of a sum still hold the poison of issue_product. */
static bool is_poison(const struct sum *s, int thread)
{
    for (int i = 0; i < s->n / 2; i++)
        if (s->d[thread][i] != REGISTER_POISON)
            return false;
    return true;
}

/* Reads the start values of a sum from a thread's registers, and checks that other code has not
 * changed these registers without a fence. */
static void take_registers(struct sum *s, const struct meeting *m, int thread)
{
    struct fibre *f = lane_of(m, thread);
    const struct group_product *p = f->arg;
    uint32_t *value = s->value + thread * (s->n / 2);
    size_t size = (size_t)(s->n / 2) * 4;

    if (s->open[thread / 32]) {
        if (s->d[thread] != p->d || !is_poison(s, thread))
            engine_fail("thread %d wrote the registers of a product before group_wait", f->thread);
        return;
    }
    if (!f->group_fenced && (s->d[thread] != p->d || memcmp(value, p->d, size) != 0))
        engine_fail("thread %d: a product of registers that other code wrote, without group_fence",
                    f->thread);
    s->d[thread] = p->d;
    if (p->keep)
        memcpy(value, p->d, size);
}

/* Returns the address of element (row, column) of a sum. */
static uint32_t *element_of(struct sum *s, int row, int column)
{
    int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;

    return s->value + thread * (s->n / 2) + column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
}

/* Requires all threads of a warpgroup to issue the same product. */
static void check_products(const struct group *g, const struct meeting *m)
{
    const struct group_product *first = product_of_thread(m, 0);

    for (int t = 1; t < 128; t++) {
        const struct group_product *p = product_of_thread(m, t);

        if (memcmp(&p->a, &first->a, sizeof p->a) || memcmp(&p->b, &first->b, sizeof p->b) ||
            p->n != first->n || p->keep != first->keep)
            engine_fail("the threads of a warpgroup ask for different products");
    }
    if (first->keep != 0 && first->keep != 1)
        engine_fail("a product with keep = %d", first->keep);
    for (int w = 1; w < 4; w++)
        if (g->committed[w] != g->committed[0])
            engine_fail("the warps of a warpgroup have committed different numbers of groups");
}

/* Computes a warpgroup's product at once, but fills its registers with poison until group_wait. */
static void issue_product(struct group *g, const struct meeting *m, int kind)
{
    static uint32_t *to[64 * 256];
    const struct group_product *first = product_of_thread(m, 0);
    struct sum *s = find_sum(g, m);
    struct witness w = common_witness(m, 32);
    int n = first->n;

    for (int t = 0; t < 128; t++)
        take_registers(s, m, t);
    if (!first->keep)
        memset(s->value, 0, (size_t)(64 * n) * 4);
    w.async = true;
    w.now = group_agent(m) | (g->committed[0] + 1);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < n; j++)
            to[i * n + j] = element_of(s, i, j);
    product_of_tiles(kind, false, &w, 64, first->a, n, first->b, to, "group product");
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < n / 2; i++)
            s->d[t][i] = REGISTER_POISON;
    for (int v = 0; v < 4; v++) {
        s->open[v] = true;
        s->last[v] = g->committed[v] + 1;
    }
}

/* Simulates wgmma.mma_async: the product of tiles a and b into the registers d of a warpgroup. */
void group(int kind, int n, void *d, struct tile a, struct tile b, int keep)
{
    struct group_product mine = { d, n, a, b, keep };
    struct meeting *m = my_warpgroup();
    struct group *g = &engine.running->block->groups[m->from / 128];

    if (!meeting_enter(m, "a product of a warpgroup", kind * 512 + n, &mine))
        return;
    check_products(g, m);
    issue_product(g, m, kind);
    meeting_end(m);
}

static struct group *group_of_warp(struct meeting *m, int *warp)
{
    *warp = m->from / 32 % 4;
    return &engine.running->block->groups[m->from / 128];
}

/* Simulates wgmma.fence for a warp. */
void group_fence(void)
{
    struct meeting *m = whole_warp("group_fence");

    if (!meeting_enter(m, "group_fence", 0, NULL))
        return;
    for (int l = 0; l < 32; l++)
        lane_of(m, l)->group_fenced = true;
    meeting_end(m);
}

/* Simulates wgmma.commit_group for a warp. */
void group_commit(void)
{
    struct meeting *m = whole_warp("group_commit");
    int w;

    if (!meeting_enter(m, "group_commit", 0, NULL))
        return;
    group_of_warp(m, &w)->committed[w]++;
    meeting_end(m);
}

/* Writes the sums of all products up to commit group `upto` to a warp's registers, which must still
 * hold poison. */
static void retire(struct group *g, const struct meeting *m, int warp, uint32_t upto)
{
    for (struct sum *s = g->sums; s; s = s->next) {
        if (!s->open[warp] || s->last[warp] > upto)
            continue;
        s->open[warp] = false;
        for (int t = 32 * warp; t < 32 * warp + 32; t++) {
            if (!is_poison(s, t))
                engine_fail("thread %d wrote the registers of a product before group_wait",
                            m->from + t % 32);
            memcpy(s->d[t], s->value + t * (s->n / 2), (size_t)(s->n / 2) * 4);
        }
    }
}

/* Orders the lanes of a warp after the products up to commit group `upto`. */
static void acquire_products(const struct meeting *m, uint32_t upto)
{
    struct clocks *before = NULL, *after = NULL;
    size_t entry = clocks_index(group_agent(m));

    for (int l = 0; l < 32; l++) {
        struct fibre *f = lane_of(m, l);

        if (f->known != before) {
            if (before) {
                clocks_drop(before);
                clocks_drop(after);
            }
            before = clocks_keep(f->known);
            after = clocks_new();
            clocks_join(after, before);
            after->at[entry] = upto > after->at[entry] ? upto : after->at[entry];
        }
        clocks_drop(f->known);
        f->known = clocks_keep(after);
        f->group_fenced = false;
    }
    clocks_drop(before);
    clocks_drop(after);
}

/* Simulates wgmma.wait_group: the warp waits until at most n of its groups of products are
 * unfinished. */
void group_wait(int n)
{
    struct meeting *m = whole_warp("group_wait");
    struct group *g;
    int w;

    if (!meeting_enter(m, "group_wait", n, NULL))
        return;
    g = group_of_warp(m, &w);
    if (g->committed[w] > (uint32_t)n) {
        retire(g, m, w, g->committed[w] - (uint32_t)n);
        acquire_products(m, g->committed[w] - (uint32_t)n);
    }
    meeting_end(m);
}

/* Fails if a thread ends before its warp has waited for its products. */
void product_end(struct fibre *f)
{
    const struct group *g = &f->block->groups[f->thread / 128];

    for (const struct sum *s = g->sums; s; s = s->next)
        if (s->open[f->thread / 32 % 4])
            engine_fail("has ended without group_wait for its products");
}

/* Frees the product groups of a block that has ended. */
void product_drop(struct block *b)
{
    for (int i = 0; i < MAX_GROUPS; i++) {
        struct group *g = &b->groups[i];

        while (g->sums) {
            struct sum *s = g->sums;

            g->sums = s->next;
            free(s->value);
            free(s);
        }
        *g = (struct group){ 0 };
    }
}
