/* SPDX-License-Identifier: BSD-3-Clause
 * CPFloat (Fasi, Mikaitis, ACM TOMS 49(2), 2023) as a peer of simulated units, if its headers are
 * found at build time (CPFLOAT_INCLUDE_DIR).  It computes a row of C at a time, in loop order i, k,
 * j, and rounds every product and every sum. */
#include "tools/bench/bench.h"

#ifdef LIMBER_CPFLOAT
#include <cpfloat_binary32.h>

#define TEXT(x) #x
#define VERSION(x) TEXT(x)

const char *cpfloat_name(void)
{
#if defined(__clang__)
    return "CPFloat by clang " VERSION(__clang_major__);
#else
    return "CPFloat by gcc " VERSION(__GNUC__);
#endif
}

/* Describes format f to CPFloat, with rounding to nearest even. */
static void set_options(limber_format f, optstruct *o)
{
    o->format[0] = 0;
    o->precision = f.frac_bits + 1u;
    o->emin = 1 - f.bias;
    o->emax = (1 << f.exp_bits) - 2 - f.bias;
    o->explim = CPFLOAT_EXPRANGE_TARG;
    o->infinity = CPFLOAT_INF_USE;
    o->round = CPFLOAT_RND_NE;
    o->saturation = CPFLOAT_SAT_NO;
    o->subnormal = CPFLOAT_SUBN_USE;
    o->flip = CPFLOAT_SOFTERR_NO;
}

/* Computes row i of C. group: number of products that are summed before the sum is added to C; 0:
 * no groups.  `room` has space for 3 n numbers: the products, an element of A in n copies, and the
 * sums of the current group. */
static void compute_row(const float *a, const float *b, float *y, size_t n, size_t i, int group,
                        float *room, const optstruct *o)
{
    float *out = y + i * n, *t = room, *x = room + n;
    float *sum = group ? room + 2 * n : out;

    memset(out, 0, n * sizeof *out);
    memset(sum, 0, n * sizeof *sum);
    for (size_t k = 0; k < n; k++) {
        for (size_t j = 0; j < n; j++)
            x[j] = a[i * n + k];
        cpf_mulf(t, x, b + k * n, n, o);
        cpf_addf(sum, sum, t, n, o);
        if (!group || ((k + 1) % (size_t)group && k + 1 < n))
            continue;
        cpf_addf(out, out, sum, n, o);
        memset(sum, 0, n * sizeof *sum);
    }
}

/* Returns whether CPFloat can compute the work: units that round every product and every sum to
 * nearest in one format. binary32 is refused, because CPFloat leaves its arithmetic to the
 * compiler, which may fuse operations. */
bool cpfloat_prepare(struct contender *c)
{
    const struct work *w = c->work;
    const limber_unit *u = &w->unit;

    return w->threads == 1 && w->n <= 512 && !w->counts && u->acc.format.frac_bits < 23 &&
           u->block == 1 && u->mul.format.kind && u->acc.rounding == LIMBER_ROUND_NEAREST &&
           limber_format_equal(u->mul.format, u->acc.format) &&
           limber_format_equal(u->a.format, u->acc.format) &&
           (!u->group || limber_format_equal(u->outer.format, u->acc.format));
}

/* Converts both operands to the unit's format, and computes the product row by row with CPFloat's
 * rounding. */
bool cpfloat_gemm(struct contender *c)
{
    optstruct *o = init_optstruct();
    size_t n = (size_t)c->work->n, count = n * n;
    float *room = malloc(3 * n * sizeof *room), *a = malloc(2 * count * sizeof *a);
    bool ok = o && room && a;

    if (ok) {
        set_options(c->work->unit.acc.format, o);
        cpfloatf(a, c->now->a, count, o);
        cpfloatf(a + count, c->now->b, count, o);
    }
    for (size_t i = 0; ok && i < n; i++)
        compute_row(a, a + count, c->now->y, n, i, (int)c->work->unit.group, room, o);
    free(a);
    free(room);
    if (o)
        free_optstruct(o);
    return ok || contender_set_state(c, STATE_failed, "out of memory");
}

#else

const char *cpfloat_name(void)
{
    return NULL;
}

bool cpfloat_prepare(struct contender *c)
{
    (void)c;
    return false;
}

bool cpfloat_gemm(struct contender *c)
{
    (void)c;
    return false;
}
#endif
