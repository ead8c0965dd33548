/* SPDX-License-Identifier: BSD-3-Clause
 * Compares the limbs of both operands, and the sums, that a product leaves in its workspace with
 * their expected values.  limber_cuda_lay_out tells where they are; the expected values are
 * computed here by plain loops over the operands. */
#include "smoke.h"

#include "ir/num/digits.h"
#include "ir/num/prim.h"
#include "jit/scan/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct backend limber_backend_cuda;

/* ---- limbs that each element must have ------------------------------------------------------- */

/* How the limbs of one operand are made, according to the plan's node. */
struct limbs {
    const struct node *node;
    limber_format f, limb; /* formats of the operand, and of stored limbs */
    int side;
    int moduli; /* number of distinct moduli */
    uint32_t modulus[LIMBER_MODULI];
    uint32_t factor[LIMBER_MODULI]; /* [modulus] number by which A's residues are multiplied */
    uint32_t wrap[LIMBER_MODULI]; /* [modulus] 2^(64 LIMBER_WIDE) modulo this modulus */
    int digits[LIMBER_MODULI]; /* [modulus] number of limbs */
    /* [modulus][residue] its FP8 digits */
    double digit[LIMBER_MODULI][LIMBER_RESIDUES][LIMBER_DIGITS];
    int of[256], which[256]; /* [limb] index of its modulus; index of its digit */
};

/* Returns the inverse x of a modulo m (a x = 1 mod m), by trial; 1 if there is none. */
static uint32_t inverse_of(uint32_t a, uint32_t m)
{
    for (uint32_t x = 1; x < m; x++)
        if (a % m * x % m == 1 % m)
            return x;
    return 1;
}

/* Returns whether residues are stored as FP8 digits (ir/num/digits.h). */
static bool are_digits(const struct limbs *x)
{
    return x->limb.kind == LIMBER_KIND_FLOAT && x->limb.size == 1;
}

/* Returns whether all slices are signed digits. */
static bool is_balanced(const struct limbs *x)
{
    return limber_attr_number(x->node, ATTR_sign) == SIGN_balanced;
}

/* Sets the moduli.  A's factor is the inverse of the product of the other moduli (docs/gpu.md). */
static void set_moduli(struct limbs *x)
{
    const struct dims_list *all = limber_attr_list(x->node, ATTR_moduli);

    for (int l = 0; l < x->node->type.count; l++) {
        bool next = l == 0 || all->v[l] != all->v[l - 1];

        x->moduli += next;
        x->of[l] = x->moduli - 1;
        x->which[l] = next ? 0 : x->which[l - 1] + 1;
        x->digits[x->moduli - 1] = x->which[l] + 1;
        x->modulus[x->moduli - 1] = (uint32_t)all->v[l];
    }
    for (int i = 0; i < x->moduli; i++) {
        uint32_t m = x->modulus[i], others = 1;

        for (int j = 0; j < x->moduli; j++)
            others = j == i ? others : others * (x->modulus[j] % m) % m;
        x->factor[i] = x->side ? 1 : inverse_of(others, m);
        x->wrap[i] = 1;
        for (int byte = 0; byte < 8 * LIMBER_WIDE; byte++)
            x->wrap[i] = 256 * x->wrap[i] % m;
        if (are_digits(x))
            limber_digits_fill(limber_digits_of(m, x->digits[i]), x->side, x->digit[i]);
    }
}

/* Reads from the plan how limbs of an operand are made. */
static void set_limbs(struct limbs *x, const struct trial *t, int side)
{
    const struct node *products = limber_plan_find(t->plan, OP_products);

    *x = (struct limbs){ .node = &t->plan->node[products->in[side]],
                         .f = t->f,
                         .limb = t->kernel->config.side[side].limb,
                         .side = side };
    if (x->node->op == OP_residues)
        set_moduli(x);
}

/* Returns an integer in two's complement modulo m.  wrap: 2^(64 LIMBER_WIDE) modulo m. */
static uint32_t residue(const uint64_t w[LIMBER_WIDE], uint32_t m, uint32_t wrap)
{
    uint32_t r = 0;

    for (int i = LIMBER_WIDE - 1; i >= 0; i--)
        for (int byte = 7; byte >= 0; byte--)
            r = (256 * r + (uint32_t)(w[i] >> 8 * byte & 255)) % m;
    return w[LIMBER_WIDE - 1] >> 63 ? (r + m - wrap) % m : r;
}

/* Returns limb l of the scaled integer w: a residue, or a digit of one. */
static double residue_limb(const struct limbs *x, int l, const uint64_t w[LIMBER_WIDE])
{
    int of = x->of[l];
    uint32_t m = x->modulus[of], r = residue(w, m, x->wrap[of]) * x->factor[of] % m;

    if (are_digits(x))
        return x->digit[of][r][x->which[l]];
    return limber_attr_number(x->node, ATTR_sign) == SIGN_signed && 2 * r >= m ? (double)r - m : r;
}

/* Returns limb l of a value that is split into Hi and Lo limbs: limb l is the rounded rest that
 * earlier limbs leave. */
static double hilo_limb(const struct limbs *x, int l, double value, int scale)
{
    double rest = isfinite(value) ? ldexp(value, scale) : 0, limb = 0;

    for (int i = 0; i <= l; i++) {
        limb = limber_format_round(x->limb, rest);
        rest = ldexp(rest - limb, (int)limber_attr_number(x->node, ATTR_shift));
    }
    return limb;
}

/* Returns limb l of the element at address `at`; if that is NULL, the limb of a zero in the
 * padding. */
static double limb_of(const struct limbs *x, int l, const char *at, int scale)
{
    const struct node *n = x->node;
    uint64_t w[LIMBER_WIDE];

    if (!at)
        return 0;
    switch (n->op) {
    case OP_residues: limber_fix(w, x->f, at, scale, 0); return residue_limb(x, l, w);
    case OP_slices:
        limber_fix(w, x->f, at, scale, is_balanced(x));
        if (!is_balanced(x))
            return limber_slice(w, l, n->type.count, (int)limber_attr_number(n, ATTR_step),
                                limber_attr_number(n, ATTR_sign) == SIGN_signed);
        limber_balance(w, n->type.count, (int)limber_attr_number(n, ATTR_step));
        return limber_balanced_slice(w, l, n->type.count, (int)limber_attr_number(n, ATTR_step));
    case OP_hilo: return hilo_limb(x, l, limber_format_value(x->f, at), scale);
    default: return limber_format_round(x->limb, limber_format_value(x->f, at));
    }
}

/* Returns the exponent of the power of two that scales a line, from the exponents that the
 * host's scan found. */
static int scale_of(const struct trial *t, int side, int64_t matrix, int64_t line)
{
    const struct cuda_side *s = &t->kernel->config.side[side];
    const struct mask *m = &t->mask[side][matrix];
    int e = m->line_emax[line];

    for (int64_t i = 0; s->scaled == SCALED_all && i < m->lines; i++)
        e = m->line_emax[i] > e ? m->line_emax[i] : e;
    return !s->scaled || e == INT32_MIN ? 0 : s->top - 1 - e;
}

/* Returns the format in which a product reads a limb.  If slices in bytes are not balanced
 * digits, only the first is signed. */
static limber_format format_of(const struct limbs *x, int limb)
{
    return x->node->op == OP_slices && x->limb.size == 1 && !is_balanced(x) && limb ? LIMBER_U8 :
                                                                                      x->limb;
}

static double value_of(limber_format f, const char *at)
{
    if (f.size == 1 && f.kind == LIMBER_KIND_UINT) /* fast path, as most limbs are bytes */
        return (unsigned char)*at;
    if (f.size == 1 && f.kind == LIMBER_KIND_INT)
        return (signed char)*at;
    return limber_format_value(f, at);
}

/* Compares a stored limb with `want`.  Zeros of both signs are equal, since zeros of the padding
 * beyond k have either sign. */
static void compare_limb(struct stage *s, const struct limbs *x, int limb, int64_t row, int64_t p,
                         const char *got, double want)
{
    limber_format f = format_of(x, limb);
    char due[16];

    if (value_of(f, got) == want) {
        s->compared++;
        return;
    }
    limber_convert(due, f, &want, LIMBER_F64, 1, LIMBER_ROUND_NEAREST);
    smoke_compare(s, limb, row, p, f, got, due);
}

/* Compares the limbs of all matrices or images of an operand, in the layout of the pack kernel. */
static void compare_limbs(struct stage *s, const struct trial *t, const struct layout *l, int side)
{
    const struct pack_args *a = &l->pack[side];
    struct limbs x;
    int64_t per = a->pitch / t->kernel->config.bytes, all = s->rows / a->padded;

    set_limbs(&x, t, side);
    for (int64_t which = 0; which < all; which++) {
        struct view v = limber_operand_at(&a->operand, which);
        int64_t matrix = limber_matrix_of(&a->operand, which);

        for (int64_t line = 0; line < a->padded; line++) {
            /* lines of an image are its pixels, and all of them have the image's scale */
            bool there = line < a->lines;
            int scale = there ? scale_of(t, side, matrix, a->operand.images ? 0 : line) : 0;
            int64_t row = which * a->padded + line;
            const char *got =
                t->space + ((uint64_t)(uintptr_t)a->limbs - t->space_at) + row * a->pitch;

            for (int64_t p = 0; p < per; p++) {
                const char *at = there && p < a->length ?
                                     limber_view_at(&v, a->line0 + line, p, t->f.size) :
                                     NULL;

                for (int limb = 0; limb < x.node->type.count; limb++)
                    compare_limb(s, &x, limb, row, p, got + limb * a->limb + p * x.limb.size,
                                 limb_of(&x, limb, at, scale));
            }
        }
    }
}

/* ---- sums of the limbs' products ------------------------------------------------------------- */

/* Computes the limbs [limb][line][p] of one matrix of an operand, in the plan's order along k.
 * Returns NULL if memory is exhausted; the caller frees the result. */
static double *limbs_of_matrix(const struct trial *t, const struct layout *l, int side,
                               int64_t matrix)
{
    struct view v = l->run.ordered[side];
    int64_t lines = side ? t->call.n : t->call.m, k = l->run.k;
    const struct spread *each = &l->run.each[side];
    struct limbs x;
    double *all;

    set_limbs(&x, t, side);
    all = malloc(((size_t)(x.node->type.count * lines * k) + 1) * sizeof *all);
    v.data = limber_spread_at(v.data, each, matrix);
    for (int limb = 0; all && limb < x.node->type.count; limb++)
        for (int64_t i = 0; i < lines; i++) {
            int scale = scale_of(t, side, matrix, i);

            for (int64_t p = 0; p < k; p++)
                all[(limb * lines + i) * k + p] =
                    limb_of(&x, limb, limber_view_at(&v, i, p, t->f.size), scale);
        }
    return all;
}

/* Returns the exact sum of an accumulator, or its remainder by the accumulator's modulus. */
static int64_t sum_of(const struct trial *t, const double *a, const double *b, int acc, int64_t i,
                      int64_t j, int64_t k)
{
    const struct node *products = limber_plan_find(t->plan, OP_products);
    int64_t sum = 0;

    for (size_t r = 0; r < products->rows; r++) {
        const double *x = a + (products->row[r].a * t->call.m + i) * k;
        const double *y = b + (products->row[r].b * t->call.n + j) * k;

        if (products->row[r].acc == acc)
            for (int64_t p = 0; p < k; p++)
                sum += (int64_t)(x[p] * y[p]);
    }
    return sum;
}

/* Compares the sums of all accumulators of one product with exact ones. */
static void compare_sums_of(struct stage *s, const struct trial *t, const struct layout *l,
                            int64_t product, const double *a, const double *b)
{
    const struct cuda_config *f = &t->kernel->config;
    const struct part *p = &l->part;
    int64_t size = p->total_pitch / (p->tiles_n * f->bn);
    limber_format as = size == 1 ? LIMBER_U8 : size == 4 ? LIMBER_I32 : LIMBER_I64;
    struct limbs x;

    set_limbs(&x, t, 1);
    for (int acc = 0; acc < f->accumulators; acc++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                const char *got = t->space + (p->totals - t->space_at) + acc * p->total_size +
                                  (product * p->m + i) * p->total_pitch + j * size;
                int64_t want = sum_of(t, a, b, acc, i, j, l->run.k), m;
                int32_t narrow;
                uint8_t byte;

                if (f->reconstruct == RECONSTRUCT_crt) {
                    m = (int64_t)x.modulus[acc];
                    want = (want % m + m) % m;
                }
                narrow = (int32_t)want;
                byte = (uint8_t)want;
                smoke_compare(s, acc, product * p->m + i, j, as, got,
                              size == 1 ? (void *)&byte :
                              size == 4 ? (void *)&narrow :
                                          (void *)&want);
            }
}

/* Compares the sums of all products of a batch.  Returns false if memory is exhausted. */
static bool compare_sums(struct stage *s, const struct trial *t, const struct layout *l)
{
    bool ok = true;

    for (int64_t g = 0; ok && g < l->run.groups; g++) {
        double *a = limbs_of_matrix(t, l, 0, l->run.matrices[0] > 1 ? g : 0);
        double *b = limbs_of_matrix(t, l, 1, l->run.matrices[1] > 1 ? g : 0);

        ok = a && b;
        if (ok)
            compare_sums_of(s, t, l, g, a, b);
        free(a);
        free(b);
    }
    return ok;
}

/* ---- comparing all stages of a product ------------------------------------------------------- */

/* False if the kernels leave no limbs in the workspace. */
static bool has_limbs(const struct cuda_config *f)
{
    return f->mma_path != MMA_PATH_element && f->mma_path != MMA_PATH_unit && !f->mx.kind &&
           !f->inside && f->packed == 1;
}

/* Compares what the kernels left in the workspace with expected values: limbs of both operands,
 * and sums of all accumulators.  If the workspace does not hold all of C at once, compares
 * nothing.  Returns false if memory is exhausted. */
bool smoke_stages(struct stage s[STAGE_count], const struct trial *t, struct diag *d)
{
    static const char *const limbs[] = { "limbs of A", "limbs of B" };
    const struct cuda_config *f = &t->kernel->config;
    struct layout *l = malloc(sizeof *l);
    limber_queue queue = { .size = sizeof queue,
                           .workspace = (void *)(uintptr_t)t->space_at,
                           .bytes = t->space_bytes };
    struct call call = t->call;
    bool whole, ok;

    call.queue = &queue;
    ok = l && (!has_limbs(f) || limber_cuda_lay_out(l, t->kernel, &call, d));
    whole = ok && has_limbs(f) && l->part.m == call.m && l->part.n == call.n &&
            l->part.groups == l->run.groups && l->part.images == l->run.images;
    for (int i = 0; ok && i < STAGE_count; i++) {
        int64_t rows = 0, cols = 0;

        if (whole && i < STAGE_sums) {
            cols = l->pack[i].pitch / f->bytes;
            rows = l->part.limb[i] / l->pack[i].pitch;
        } else if (whole) {
            rows = l->run.groups * call.m;
            cols = call.n;
        }
        ok = smoke_stage(&s[i],
                         i < STAGE_sums                    ? limbs[i] :
                         f->reconstruct == RECONSTRUCT_crt ? "remainders" :
                                                             "sums",
                         i < STAGE_sums ? SITE_pack : SITE_multiply, rows, cols);
        if (ok && whole && i < STAGE_sums)
            compare_limbs(&s[i], t, l, i);
    }
    if (ok && whole && f->totals)
        ok = compare_sums(&s[STAGE_sums], t, l);
    free(l);
    return ok || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for stages");
}

/* ---- scans by the device --------------------------------------------------------------------- */

/* Sets the fields (enum scan_field) of a line that the host's scan finds.  All others are copied
 * from the device's result; for a line of zeros also fields that then have no meaning. */
static bool scan_line(int32_t want[SCAN_fields], const int32_t got[SCAN_fields],
                      const struct view *v, limber_format f, int64_t line, int64_t length,
                      struct diag *d)
{
    struct view one = *v;
    struct mask m = { 0 };
    bool ok;

    one.data = limber_view_at(v, line, 0, f.size);
    ok = limber_scan(&m, &one, f, 1, length, SCAN_full, NULL, d);
    memcpy(want, got, SCAN_fields * sizeof *want);
    want[SCAN_emax] = ok ? m.line_emax[0] : 0;
    want[SCAN_flags] = (m.special ? SCAN_special : 0) | (m.negative ? SCAN_negative : 0);
    if (ok && !m.zero && m.line_emax[0] != INT32_MIN) {
        want[SCAN_emin] = m.emin;
        want[SCAN_sig] = m.sig;
        want[SCAN_low] = limber_mask_low(&m);
    }
    limber_mask_clear(&m);
    return ok;
}

/* Returns the scan kernel for format f.  It is kept until a kernel for another format is
 * requested. */
static struct kernel *scan_kernel(struct report *r, limber_format f, struct diag *d)
{
    static struct kernel *kept;
    static limber_format of;
    struct target t = { .device = 0 };
    struct blob blob = { 0 };

    if (kept && limber_format_equal(f, of))
        return kept;
    if (kept)
        limber_backend_cuda.unload(kept);
    kept = NULL;
    of = f;
    if (limber_backend_cuda.probe(&t, d) &&
        limber_backend_cuda.device_ops->compile_scan(f, &t, NULL, &blob, d) &&
        !limber_backend_cuda.load(blob.data, blob.size, &kept, d))
        kept = NULL;
    r->kernels += kept != NULL;
    free(blob.data);
    return kept;
}

/* Scans an operand on the device and compares each line's fields with the host's scan.  The
 * stage's matrix has a row for each line and a column for each field. */
bool smoke_scan(struct report *r, struct stage *s, const struct view *host,
                const struct view *there, limber_format f, int64_t lines, int64_t length,
                struct diag *d)
{
    int32_t *found = malloc((size_t)lines * SCAN_fields * sizeof *found);
    struct kernel *k = scan_kernel(r, f, d);
    struct scan_call call = {
        .v = there, .matrices = 1, .lines = lines, .length = length, .found = found
    };
    bool ok = found && k && smoke_stage(s, "scan", SITE_none, lines, SCAN_fields) &&
              limber_backend_cuda.device_ops->scan(k, &call, 1, 0, NULL, d);

    for (int64_t i = 0; ok && i < lines; i++) {
        int32_t want[SCAN_fields], got[SCAN_fields];

        for (int x = 0; x < SCAN_fields; x++)
            got[x] = found[x * lines + i];
        ok = scan_line(want, got, host, f, i, length, d);
        for (int x = 0; ok && x < SCAN_fields; x++)
            smoke_compare(s, x, i, x, LIMBER_I32, &got[x], &want[x]);
    }
    free(found);
    return ok;
}
