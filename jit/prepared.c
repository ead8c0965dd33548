/* SPDX-License-Identifier: BSD-3-Clause
 * The data that a prepared operand keeps: masks, limbs for each kernel (the least recently used
 * ones are evicted), and a copy as 8-bit integers. */
#include "jit/prepared_operand.h"

#include <stdlib.h>
#include <string.h>

/* Returns the number of masks (scan results).  A matrix has one mask, which all products of a
 * batch share. */
static int64_t mask_count(const struct limber_prepared *o)
{
    return o->parts * o->groups;
}

/* ---- limbs that a prepared operand keeps ----------------------------------------------------- */

/* Frees the limbs that *at points to, and removes them from the list. */
static void drop_limbs(struct limber_prepared *o, struct limbs **at)
{
    struct limbs *l = *at;

    *at = l->next;
    o->bytes -= l->bytes;
    limber_memory_free(&o->ctx->allocator, l->kept.memory);
    free(l);
}

/* Evicts the least recently used limbs until `bytes` more bytes fit the limit.  False if limbs in
 * use prevent that. */
static bool make_room(struct limber_prepared *o, size_t bytes)
{
    while (bytes <= o->bound && o->bytes > o->bound - bytes) {
        struct limbs **oldest = NULL;

        for (struct limbs **at = &o->limbs; *at; at = &(*at)->next)
            if ((*at)->users == 0 && (!oldest || (*at)->tick < (*oldest)->tick))
                oldest = at;
        if (!oldest)
            return false;
        drop_limbs(o, oldest);
    }
    return bytes <= o->bound;
}

/* Adds an entry with memory for a kernel's limbs, which are not packed yet.  NULL if they do not
 * fit the limit, or memory runs out. */
static struct limbs *add_limbs(struct limber_prepared *o, const struct keeping *of, int variant,
                               size_t bytes)
{
    struct limbs *l = make_room(o, bytes) ? calloc(1, sizeof *l) : NULL;

    if (!l)
        return NULL;
    l->kept.memory = limber_memory_alloc(&o->ctx->allocator, bytes);
    if (!l->kept.memory) {
        free(l);
        return NULL;
    }
    memcpy(l->key, of->key, sizeof l->key);
    l->side = of->side;
    l->place = of->place;
    l->variant = variant;
    l->bytes = bytes;
    l->next = o->limbs;
    o->limbs = l;
    o->bytes += bytes;
    return l;
}

/* The `alloc` callback of a keeper: returns the limbs that were kept for a kernel, or memory to
 * pack them into.  NULL if the call must pack limbs of its own. */
static struct kept_limbs *take_limbs(void *self, int variant, size_t bytes)
{
    const struct keeping *of = self;
    struct limber_prepared *o = of->operand;
    struct limbs *l;

    pthread_mutex_lock(&o->lock);
    for (l = o->limbs; l && (memcmp(l->key, of->key, sizeof l->key) || l->side != of->side ||
                             l->place != of->place || l->variant != variant || l->bytes != bytes);)
        l = l->next;
    if (!l)
        l = add_limbs(o, of, variant, bytes);
    else if (!l->kept.packed) /* another thread is packing these limbs */
        l = NULL;
    if (l) {
        l->users++;
        l->tick = ++o->tick;
    }
    pthread_mutex_unlock(&o->lock);
    return l ? &l->kept : NULL;
}

/* The `packed` callback of a keeper: makes limbs available to other calls once they are packed. */
static void mark_packed(void *self, struct kept_limbs *kept)
{
    const struct keeping *of = self;

    pthread_mutex_lock(&of->operand->lock);
    kept->packed = true;
    pthread_mutex_unlock(&of->operand->lock);
}

/* The `free` callback of a keeper: ends a call's use of limbs, after which they may be evicted. */
static void release_limbs(void *self, struct kept_limbs *kept)
{
    const struct keeping *of = self;

    pthread_mutex_lock(&of->operand->lock);
    ((struct limbs *)kept)->users--;
    pthread_mutex_unlock(&of->operand->lock);
}

/* Sets up *of, through which backends keep this operand's packed limbs between calls. */
const struct keeper *limber_prepared_keeper(limber_prepared *o, const struct facts *f, int side,
                                            int64_t place, struct keeping *of)
{
    *of = (struct keeping){ .keeper = { take_limbs, mark_packed, release_limbs, of },
                            .operand = o,
                            .key = f->key,
                            .side = side,
                            .place = place % mask_count(o) };
    return &of->keeper;
}

/* ---- the masks that a prepared operand keeps ------------------------------------------------- */

/* Copies the mask (what the scan found) of one part of the operand to *m.  With SCAN_probe, a
 * mask of an operand that needs too many bits is marked as not scanned, because a probe would
 * have stopped. */
void limber_prepared_mask(const limber_prepared *o, int64_t place, struct mask *m,
                          enum scan_depth depth)
{
    *m = o->mask[place % mask_count(o)];
    if (depth == SCAN_probe && m->width > SCAN_narrow)
        m->scanned = false;
}

/* Initialises the lock of an operand whose other fields are set. */
void limber_prepared_begin(struct limber_prepared *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->at_fork = (struct at_fork){ .lock = &o->lock };
    limber_at_fork(&o->at_fork);
}

/* Scans lines of the operand, on the device if the operand is there. */
static bool scan_lines(const struct limber_prepared *o, const struct view *v, int64_t lines,
                       int64_t length, struct mask *m, struct diag *d)
{
    struct runner r = limber_pool_runner(o->ctx->pool);

    return limber_device_holds(o->ctx, o->x.data) ?
               limber_device_scan(o->ctx, m, v, o->x.format, lines, length, NULL, d) :
               limber_scan(m, v, o->x.format, lines, length, SCAN_full, &r, d);
}

/* Scans, for every group, the part of the filters that one stride phase of backward data reads.
 * Input channels are the lines that are scanned separately. part: index of that part of the
 * window. */
static bool scan_part(const struct limber_prepared *o, int64_t part, struct diag *d)
{
    struct conv c = o->conv;
    struct index_map map;
    struct view v;
    int64_t m, n, k;

    if (!limber_conv_set_part(&c, part))
        return true; /* no phase reads this part */
    limber_conv_map(&map, OP_filters, &c, 0);
    limber_conv_product(&c, &m, &n, &k);
    v = limber_map_view(&map, o->x.data);
    for (int64_t i = 0; i < o->groups; i++) {
        if (!scan_lines(o, &v, m, k, &o->mask[part * o->groups + i], d))
            return false;
        if (v.data) /* it is NULL if there are no elements */
            v.data = (const char *)v.data + map.group * (int64_t)o->x.format.size;
    }
    return true;
}

/* Scans one group of the operand. */
static bool scan_group(const struct limber_prepared *o, int64_t group, struct diag *d)
{
    const limber_matrix *x = &o->x;
    struct view v = { x->data, o->left ? x->row_stride : x->col_stride,
                      o->left ? x->col_stride : x->row_stride, NULL, NULL };
    int64_t lines = (o->left ? o->rows : o->cols) / o->groups;
    int64_t length = o->left ? o->cols : o->rows;

    if (x->data)
        v.data = (const char *)x->data + group * lines * v.line * (int64_t)x->format.size;
    return scan_lines(o, &v, lines, length, &o->mask[group], d);
}

/* Scans all groups of the operand.  Returns false with an error if memory runs out. */
bool limber_prepared_scan(struct limber_prepared *o, struct diag *d)
{
    bool back = o->operation == LIMBER_OPERATION_CONV_BACKWARD_DATA;

    o->mask = calloc((size_t)mask_count(o), sizeof *o->mask);
    if (!o->mask)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for an operand");
    for (int64_t i = 0; i < (back ? o->parts : o->groups); i++)
        if (!(back ? scan_part(o, i, d) : scan_group(o, i, d)))
            return false;
    return true;
}

/* Frees a prepared operand, its packed limbs and its copy as bytes. */
void limber_prepared_drop(struct limber_prepared *o)
{
    if (!o)
        return;
    limber_prepared_drop(o->int8);
    while (o->limbs)
        drop_limbs(o, &o->limbs);
    for (int64_t i = 0; o->mask && i < mask_count(o); i++)
        limber_mask_clear(&o->mask[i]);
    free(o->mask);
    limber_at_fork_no_more(&o->at_fork);
    pthread_mutex_destroy(&o->lock);
    limber_memory_free(&o->ctx->allocator, o->elements);
    free(o);
}

/* ---- the operand as bytes -------------------------------------------------------------------- */

/* True if all values are signed 8-bit integers times 2^*exponent: *exponent is 0 if they are
 * integers, else that of their lowest set bit.  False also if a copy would exceed the limit of
 * memory. */
static bool fits_bytes(const struct limber_prepared *o, int *exponent)
{
    int low = INT32_MAX, high = INT32_MIN;

    if ((double)o->rows * (double)o->cols > (double)o->bound)
        return false;
    for (int64_t g = 0; g < o->groups; g++) {
        const struct mask *m = &o->mask[g];

        if (!m->scanned || m->special)
            return false;
        if (m->zero)
            continue;
        low = limber_mask_low(m) < low ? limber_mask_low(m) : low;
        high = m->emax > high ? m->emax : high;
    }
    *exponent = low > high || (low >= 0 && high <= 6) ? 0 : low;
    return low > high || high - *exponent <= 6;
}

/* Returns whether a copy of the operand as 8-bit integers exists, in *bytes, or is to be made by
 * the caller.  *exponent: the integers are multiplied by 2^*exponent. */
enum int8_state limber_prepared_int8(limber_prepared *o, int *exponent, limber_prepared **bytes)
{
    enum int8_state state;

    if (!fits_bytes(o, exponent))
        return INT8_none;
    pthread_mutex_lock(&o->lock);
    state = o->int8 ? INT8_there : o->makes_int8 ? INT8_elsewhere : INT8_to_make;
    *bytes = o->int8;
    o->makes_int8 = true;
    pthread_mutex_unlock(&o->lock);
    return state;
}

/* Returns the address of the operand's elements. */
const void *limber_prepared_data(const limber_prepared *o)
{
    return o->x.data;
}

/* Makes a prepared operand of the 8-bit integers at `memory`.  The new operand has no hash, because
 * nobody else can change its elements.  NULL on failure. */
static struct limber_prepared *make_byte_operand(const struct limber_prepared *o, void *memory,
                                                 int64_t line, int64_t p)
{
    struct limber_prepared *n = calloc(1, sizeof *n);
    struct diag ignored = { 0 };

    if (!n)
        return NULL;
    *n = (struct limber_prepared){ .ctx = o->ctx,
                                   .x = { memory, LIMBER_I8, o->left ? line : p,
                                          o->left ? p : line },
                                   .rows = o->rows,
                                   .cols = o->cols,
                                   .left = o->left,
                                   .operation = o->operation,
                                   .conv = o->conv,
                                   .parts = o->parts,
                                   .groups = o->groups,
                                   .bound = o->bound - (size_t)(o->rows * o->cols) };
    limber_prepared_begin(n);
    if (limber_prepared_scan(n, &ignored)) {
        n->elements = memory;
        return n;
    }
    limber_prepared_drop(n);
    return NULL;
}

/* Gives the operand the copy of its elements as 8-bit integers, with these strides, in memory that
 * the operand frees from now on. memory is NULL if the copy could not be made. */
limber_prepared *limber_prepared_set_bytes(limber_prepared *o, void *memory, int64_t line,
                                           int64_t p)
{
    struct limber_prepared *n = memory ? make_byte_operand(o, memory, line, p) : NULL;

    pthread_mutex_lock(&o->lock);
    o->int8 = n;
    o->makes_int8 = memory != NULL; /* memory is NULL if the maker gave up */
    pthread_mutex_unlock(&o->lock);
    return n;
}
