/* SPDX-License-Identifier: BSD-3-Clause
 * CPFloat (Fasi, Mikaitis, ACM TOMS 49(2), 2023) as a peer of simulated units, where its headers
 * are found when this is built (CPFLOAT_INCLUDE_DIR).  Its way of a product: whole rows at once,
 * in the order i, k, j, every product and every sum rounded. */
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

static void options(limber_format f, optstruct *o)
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

/* Row i of C; of the three rows of room t is for the products, x for one element of A, and s for
 * the sum of a group. */
static void row(const struct call *c, int i, int group, float *room, const optstruct *o)
{
    size_t n = (size_t)c->n;
    float *out = (float *)c->c + (size_t)i * n, *t = room, *x = room + n;
    float *sum = group ? room + 2 * n : out;

    memset(out, 0, n * sizeof *out);
    memset(sum, 0, n * sizeof *sum);
    for (size_t k = 0; k < n; k++) {
        for (size_t j = 0; j < n; j++)
            x[j] = ((const float *)c->a)[(size_t)i * n + k];
        cpf_mulf(t, x, (const float *)c->b + k * n, n, o);
        cpf_addf(sum, sum, t, n, o);
        if (!group || ((k + 1) % (size_t)group && k + 1 < n))
            continue;
        cpf_addf(out, out, sum, n, o);
        memset(sum, 0, n * sizeof *sum);
    }
}

bool cpfloat_gemm(const struct call *c, limber_format f, int group)
{
    optstruct *o = init_optstruct();
    float *room = malloc(3 * (size_t)c->n * sizeof *room);
    size_t count = (size_t)c->n * (size_t)c->n;
    struct call rounded = *c;
    float *a = malloc(2 * count * sizeof *a);
    bool ok = o && room && a;

    if (ok) {
        options(f, o);
        rounded.a = a;
        rounded.b = a + count;
        cpfloatf(a, c->a, count, o);
        cpfloatf(a + count, c->b, count, o);
    }
    for (int i = 0; ok && i < c->n; i++)
        row(&rounded, i, group, room, o);
    free(a);
    free(room);
    if (o)
        free_optstruct(o);
    return ok;
}

#else

const char *cpfloat_name(void)
{
    return NULL;
}

bool cpfloat_gemm(const struct call *c, limber_format f, int group)
{
    (void)c;
    (void)f;
    (void)group;
    return false;
}
#endif
