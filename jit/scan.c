/* SPDX-License-Identifier: BSD-3-Clause
 * One pass over an operand: per line and per tile, the exponents and significant bits in use.
 *
 * A run of up to LIMBER_TILE elements of a line is brought to doubles (or, for formats that do not
 * embed in binary64, to exponents) and measured with vector arithmetic.  The lowest set bit of a
 * significand is found by converting s & -s to a float: its exponent is the bit's place. */
#include "jit/scan.h"

#include "ir/prim.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define VECTORISED                                                                              \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define VECTORISED
#endif
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__)
#undef VECTORISED
#define VECTORISED
#endif

enum { RUN = LIMBER_TILE, NONE_LOW = 1 << 20, NONE_HIGH = -(1 << 20) };

/* What a run, a line or a tile holds; low/high sentinels when it has no finite nonzero. */
struct seen {
    int32_t emin, emax, lsb, sig;
    uint8_t special, negative;
};

struct job {
    const struct view *v;
    limber_format f;
    int64_t lines, length;
    enum scan_depth depth;
    struct seen *line;
    struct mask *m;
    atomic_bool stop;           /* a probe has seen enough */
};

static const struct seen nothing = { NONE_LOW, NONE_HIGH, NONE_LOW, 0, 0, 0 };

static void join(struct seen *a, const struct seen *b)
{
    a->emin = b->emin < a->emin ? b->emin : a->emin;
    a->emax = b->emax > a->emax ? b->emax : a->emax;
    a->lsb = b->lsb < a->lsb ? b->lsb : a->lsb;
    a->sig = b->sig > a->sig ? b->sig : a->sig;
    a->special |= b->special;
    a->negative |= b->negative;
}

/* ---- runs ------------------------------------------------------------------------------------------ */

/* Doubles; subnormals are counted and left to the exact path. */
VECTORISED static int run_doubles(const double *x, struct seen *out)
{
    int64_t emin = NONE_LOW, emax = NONE_HIGH, lsb = NONE_LOW, sig = 0, special = 0, negative = 0;
    int64_t subnormal = 0;

    for (int i = 0; i < RUN; i++) {
        int64_t u, field, s, bits, low, place, used;
        double d;

        memcpy(&u, &x[i], 8);
        field = u >> 52 & 0x7ff;
        s = (u & 0xfffffffffffff) | (int64_t)1 << 52;
        low = s & -s;
        d = (double)low;
        memcpy(&bits, &d, 8);
        place = (bits >> 52) - 1023;
        used = (field != 0) & (field != 0x7ff);
        subnormal |= (field == 0) & ((u & INT64_MAX) != 0);
        special |= field == 0x7ff;
        negative |= used & (u < 0);
        emin = used && field < emin ? field : emin;
        emax = used && field > emax ? field : emax;
        lsb = used && field + place < lsb ? field + place : lsb;
        sig = used && 53 - place > sig ? 53 - place : sig;
    }
    *out = nothing;
    if (subnormal)
        return 0;
    out->special = special != 0;
    out->negative = negative != 0;
    if (emax != NONE_HIGH) {
        out->emin = (int32_t)emin - 1023;
        out->emax = (int32_t)emax - 1023;
        out->lsb = (int32_t)lsb - 1075;
        out->sig = (int32_t)sig;
    }
    return 1;
}

static int lowest_bit(limber_u128 s)
{
    return (uint64_t)s ? __builtin_ctzll((uint64_t)s) : 64 + __builtin_ctzll((uint64_t)(s >> 64));
}

/* One element of any format. */
static void element(limber_format f, const char *at, struct seen *out)
{
    struct limber_num x[2];
    struct seen s = nothing;
    int n = limber_parts(x, f, at);

    if (x[0].kind == NUM_inf || x[0].kind == NUM_nan) {
        out->special = 1;
        return;
    }
    if (x[0].kind != NUM_finite)
        return;
    s.emin = s.emax = x[0].exp + limber_sig_bits(limber_num_sig(&x[0])) - 1;
    for (int i = 0; i < n; i++)
        if (x[i].kind == NUM_finite) {
            int at_bit = x[i].exp + lowest_bit(limber_num_sig(&x[i]));

            s.lsb = at_bit < s.lsb ? at_bit : s.lsb;
        }
    s.sig = s.emax - s.lsb + 1;
    s.negative = x[0].sign;
    join(out, &s);
}

static void run_any(const struct job *j, int64_t line, int64_t p0, int64_t len, struct seen *out)
{
    *out = nothing;
    for (int64_t p = p0; p < p0 + len; p++) {
        const char *at = limber_view_at(j->v, line, p, j->f.size);

        if (at)
            element(j->f, at, out);
    }
}

#define LOAD(type)                                                                              \
    for (int64_t i = 0; i < len; i++) {                                                         \
        type s;                                                                                 \
                                                                                                \
        memcpy(&s, at + i * step, sizeof s);                                                    \
        x[i] = (double)s;                                                                       \
    }                                                                                           \
    break

/* Elements as doubles where that is direct. */
VECTORISED static int load_run(const struct job *j, int64_t line, int64_t p0, int64_t len,
                               double *x)
{
    const struct view *v = j->v;
    const char *at = (const char *)v->data + (line * v->line + p0 * v->p) * j->f.size;
    int64_t step = v->p * j->f.size;

    if (v->patch || j->f.carried)
        return 0;
    switch (j->f.kind * 16 + j->f.size) {
    case LIMBER_KIND_FLOAT * 16 + 8: LOAD(double);
    case LIMBER_KIND_FLOAT * 16 + 4: LOAD(float);
    default: return 0;
    }
    for (int64_t i = len; i < RUN; i++)
        x[i] = 0;
    return 1;
}

#define MEASURE(type)                                                                           \
    for (int64_t i = 0; i < len; i++) {                                                         \
        type stored;                                                                            \
        int32_t s;                                                                              \
        uint32_t v;                                                                             \
                                                                                                \
        memcpy(&stored, at + i * step, sizeof stored);                                          \
        s = stored;                                                                             \
        v = s < 0 ? 0 - (uint32_t)s : (uint32_t)s;                                              \
        any |= v;                                                                               \
        most = v > most ? v : most;                                                             \
        least = v - 1 < least ? v - 1 : least;      /* a zero wraps beyond all */               \
        negative |= s < 0;                                                                      \
    }                                                                                           \
    break

/* Integers of at most 32 bits: magnitudes and their union tell it all.  sig is that of the run. */
VECTORISED static int run_ints(const struct job *j, int64_t line, int64_t p0, int64_t len,
                               struct seen *out)
{
    const char *at = (const char *)j->v->data + (line * j->v->line + p0 * j->v->p) * j->f.size;
    int64_t step = j->v->p * j->f.size;
    uint32_t any = 0, most = 0, least = UINT32_MAX;
    int negative = 0;

    if (j->v->patch)
        return 0;
    switch (j->f.kind * 16 + j->f.size) {
    case LIMBER_KIND_INT * 16 + 4: MEASURE(int32_t);
    case LIMBER_KIND_INT * 16 + 2: MEASURE(int16_t);
    case LIMBER_KIND_INT * 16 + 1: MEASURE(int8_t);
    case LIMBER_KIND_UINT * 16 + 1: MEASURE(uint8_t);
    default: return 0;
    }
    *out = nothing;
    if (!any)
        return 1;
    out->emax = 31 - __builtin_clz(most);
    out->emin = 31 - __builtin_clz(least + 1);
    out->lsb = __builtin_ctz(any);
    out->sig = out->emax - out->lsb + 1;
    out->negative = negative != 0;
    return 1;
}

/* ---- tiles -------------------------------------------------------------------------------------------- */

static void set_tile(struct mask *m, int64_t row, int64_t col, const struct seen *s)
{
    struct tile_mask *t = &m->tile[row * m->tile_cols + col];
    bool zero = s->emax == NONE_HIGH && !s->special;

    t->emin = (int16_t)(s->emax == NONE_HIGH ? 0 : s->emin);
    t->emax = (int16_t)(s->emax == NONE_HIGH ? 0 : s->emax);
    t->sig = (uint8_t)(s->sig < 255 ? s->sig : 255);
    t->flags = (uint8_t)((zero ? TILE_zero : 0) | (s->special ? TILE_special : 0) |
                         (s->negative ? TILE_negative : 0));
}

/* One row of tiles; a task. */
static void scan_lines(void *arg, int64_t task, int worker)
{
    struct job *j = arg;
    int64_t from = task * RUN, to = from + RUN < j->lines ? from + RUN : j->lines;
    double x[RUN];

    (void)worker;
    for (int64_t p0 = 0, col = 0; p0 < j->length; p0 += RUN, col++) {
        int64_t len = j->length - p0 < RUN ? j->length - p0 : RUN;
        struct seen tile = nothing;

        for (int64_t i = from; i < to; i++) {
            struct seen run;

            if (!run_ints(j, i, p0, len, &run) &&
                !(load_run(j, i, p0, len, x) && run_doubles(x, &run)))
                run_any(j, i, p0, len, &run);
            join(&tile, &run);
            join(&j->line[i], &run);
            if (j->depth == SCAN_probe && j->line[i].emax != NONE_HIGH &&
                j->line[i].emax - j->line[i].lsb + 1 > 16)
                atomic_store(&j->stop, true);
        }
        set_tile(j->m, task, col, &tile);
        if (atomic_load(&j->stop))
            return;
    }
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static void conclude(struct mask *m, const struct job *j)
{
    struct seen all = nothing;

    for (int64_t i = 0; i < j->lines; i++) {
        const struct seen *s = &j->line[i];

        join(&all, s);
        if (m->line_emax) {
            m->line_emax[i] = s->emax == NONE_HIGH ? INT32_MIN : s->emax;
            m->line_special[i] = s->special;
        }
        if (s->emax == NONE_HIGH)
            continue;
        m->spread = s->emax - s->emin > m->spread ? s->emax - s->emin : m->spread;
        m->width = s->emax - s->lsb + 1 > m->width ? s->emax - s->lsb + 1 : m->width;
    }
    m->scanned = true;
    m->zero = all.emax == NONE_HIGH;
    m->special = all.special;
    m->negative = all.negative;
    m->emin = m->zero ? 0 : all.emin;
    m->emax = m->zero ? 0 : all.emax;
    m->sig = all.sig;
}

static void inline_run(void *self, int64_t tasks, void (*fn)(void *, int64_t, int), void *arg)
{
    (void)self;
    for (int64_t i = 0; i < tasks; i++)
        fn(arg, i, 0);
}

bool limber_scan(struct mask *m, const struct view *v, limber_format f, int64_t lines,
                 int64_t length, enum scan_depth depth, bool want_lines, const struct runner *r,
                 struct diag *d)
{
    const struct runner alone = { 1, inline_run, NULL };
    struct job j = { .v = v, .f = f, .lines = lines, .length = length, .depth = depth, .m = m };
    bool ok;

    memset(m, 0, sizeof *m);
    m->lines = lines;
    m->length = length;
    m->tile_rows = (lines + RUN - 1) / RUN;
    m->tile_cols = (length + RUN - 1) / RUN;
    j.line = malloc((size_t)(lines + 1) * sizeof *j.line);
    m->tile = calloc((size_t)(m->tile_rows * m->tile_cols + 1), sizeof *m->tile);
    ok = j.line && m->tile;
    if (ok && want_lines) {
        m->line_emax = malloc((size_t)(lines + 1) * sizeof *m->line_emax);
        m->line_special = calloc((size_t)lines + 1, 1);
        ok = m->line_emax && m->line_special;
    }
    if (ok) {
        for (int64_t i = 0; i < lines; i++)
            j.line[i] = nothing;
        r = r ? r : &alone;
        r->run(r->self, m->tile_rows, scan_lines, &j);
        if (!atomic_load(&j.stop))
            conclude(m, &j);
    } else {
        limber_mask_clear(m);
        limber_fail(d, LIMBER_NO_MEMORY, "scan: out of memory");
    }
    free(j.line);
    return ok;
}
