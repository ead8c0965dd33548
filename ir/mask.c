/* SPDX-License-Identifier: BSD-3-Clause
 * What a scan found, and its class: the numbers that a kernel may depend on, rounded outwards so
 * that like data share kernels. */
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

void limber_mask_clear(struct mask *m)
{
    free(m->line_emax);
    free(m->line_special);
    free(m->tile);
    memset(m, 0, sizeof *m);
}

static int64_t up_to(const int *steps, size_t n, int64_t x, int64_t multiple)
{
    for (size_t i = 0; i < n; i++)
        if (x <= steps[i])
            return steps[i];
    return (x + multiple - 1) / multiple * multiple;
}

static int64_t width_class(int64_t x)
{
    static const int steps[] = { 0, 1, 7, 8, 11, 15, 16, 22, 24, 31, 32, 40, 48, 53 };

    return up_to(steps, COUNT(steps), x, 4);
}

static int64_t sig_class(int64_t x)
{
    static const int steps[] = { 0, 8, 11, 16, 22, 24, 53, 64, 113, 128 };

    return up_to(steps, COUNT(steps), x, 64);
}

static int64_t floor16(int64_t x)
{
    return (x >= 0 ? x : x - 15) / 16 * 16;
}

void limber_mask_class(const struct mask *m, limber_format f, struct node *arg)
{
    bool integer = f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
    bool half = m->emin >= -14 && m->emax <= 14;

    if (!m->scanned)
        return;
    if (integer) {      /* bits of the integers themselves */
        limber_node_set(arg, ATTR_emin, 0);
        limber_node_set(arg, ATTR_emax, m->zero ? 0 : width_class(m->emax + 1) - 1);
    } else {            /* binary16's range is a class of its own; from 2^-2 on its lo limb needs
                           no scale */
        limber_node_set(arg, ATTR_emin, m->zero ? 0 : !half ? floor16(m->emin) :
                        m->emin >= -2 ? -2 : -14);
        limber_node_set(arg, ATTR_emax, m->zero ? 0 : half ? 14 : -floor16(-(int64_t)m->emax));
    }
    limber_node_set(arg, ATTR_spread, m->zero ? 0 : (m->spread + 3) / 4 * 4);
    limber_node_set(arg, ATTR_width, m->zero ? 0 : width_class(m->width));
    limber_node_set(arg, ATTR_sig, m->zero ? 0 : sig_class(m->sig));
    limber_node_set(arg, ATTR_sign, m->negative ? 0 : 1);
    limber_node_set(arg, ATTR_special, m->special);
}
