/* SPDX-License-Identifier: BSD-3-Clause
 * Checks of the arguments of products modulo a number (limber_contract.modulus). */
#include "jit/operators/modular.h"

#include "jit/api/api.h"
#include "jit/device.h"

/* Describes in *d which option products modulo a number do not have. */
static bool refuse(const char *argument, const char *why, struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s", argument, why);
}

/* Refuses contracts that products modulo a number cannot have. */
static bool check_contract(const limber_contract *k, struct diag *d)
{
    if (k->promise != LIMBER_CONTRACT_EXACT)
        return refuse("contract.modulus", "only results of the promise exact have a modulus", d);
    if (k->modulus < 2 || k->modulus > INT64_MAX)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.modulus = %llu is not from 2 to 2^63 - 1",
                           (unsigned long long)k->modulus);
    if ((int)k->residues < LIMBER_RESIDUES_LEAST || k->residues > LIMBER_RESIDUES_SYMMETRIC)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.residues = %d is none of its values", (int)k->residues);
    if (k->scheme || k->slices || k->split || k->unit || k->statistics || k->rounding)
        return refuse(k->rounding ? "contract.rounding" :
                      k->scheme   ? "contract.scheme" :
                      k->slices   ? "contract.slices" :
                      k->split    ? "contract.split" :
                      k->unit     ? "contract.unit" :
                                    "contract.statistics",
                      "products modulo a number have none", d);
    return true;
}

/* Refuses what only products without a modulus have. */
static bool check_problem(const limber_problem *p, struct diag *d)
{
    static const char alone[] = "a product modulo a number has none";

    return p->operation != LIMBER_OPERATION_GEMM ?
               refuse("operation", "convolutions are not computed modulo a number", d) :
           p->domain != LIMBER_DOMAIN_REAL ?
               refuse("domain", "complex products are not computed modulo a number", d) :
           p->prepared_a || p->prepared_b ? refuse("prepared_a, prepared_b", alone, d) :
           p->queue                       ? refuse("queue", alone, d) :
                                            true;
}

/* Checks that i64 or binary64 holds every value of the format. */
static bool check_format(limber_format f, const char *what, struct diag *d)
{
    char name[32];

    return limber_is_integer(f) || limber_format_embeds(f, LIMBER_F64) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "%s: products modulo a number take integers, or floats that f64 holds, "
                       "not %s",
                       what, limber_format_name(f, name, sizeof name));
}

/* True if the format holds every integer from 0 to `most`.  Floats hold those of at most as many
 * bits as their significand, if 1 is a normal number.  Posits have fewer bits far from 1. */
static bool holds(limber_format f, int64_t most)
{
    const bool real = limber_is_real(f);
    struct diag ignored = { 0 };
    char number[16];
    int64_t back;

    return f.kind != LIMBER_KIND_POSIT &&
           (!real || (limber_format_emin(f) <= 0 && limber_format_quantum(f) <= 0 &&
                      most <= (int64_t)1 << limber_format_sig(f))) &&
           limber_format_convert(number, f, &most, LIMBER_I64, 1, LIMBER_ROUND_NEAREST, &ignored) &&
           limber_format_convert(&back, LIMBER_I64, number, f, 1, LIMBER_ROUND_NEAREST, &ignored) &&
           back == most;
}

/* Checks that f64 or i64 holds the operands, and that C's format holds every residue. */
static bool check_formats(const limber_problem *p, struct diag *d)
{
    const int64_t modulus = (int64_t)p->contract->modulus;
    const int64_t most = p->contract->residues == LIMBER_RESIDUES_LEAST ? modulus - 1 : modulus / 2;
    char name[32];

    return check_format(p->a.format, "a", d) && check_format(p->b.format, "b", d) &&
           check_format(p->c.format, "c", d) &&
           (holds(p->c.format, most) ||
            limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                        "c: %s does not hold %lld, a residue modulo %lld",
                        limber_format_name(p->c.format, name, sizeof name), (long long)most,
                        (long long)modulus));
}

/* Computes a product modulo a number.  r may be NULL. */
bool limber_modular_run(limber_context *ctx, const limber_problem *p, struct report *r,
                        struct diag *d)
{
    limber_contract native = { .size = sizeof native, .on_miss = p->contract->on_miss };
    limber_problem plain = *p;
    struct problem stated;

    plain.contract = &native; /* for the checks of sizes, strides, addresses and overlap */
    if (!check_contract(p->contract, d) || !check_problem(p, d) ||
        !limber_gemm_state(ctx, &plain, true, &stated, d) || !check_formats(p, d))
        return false;
    if (p->m == 0 || p->n == 0 || stated.groups == 0) {
        if (r)
            limber_report_clear(r);
        return true;
    }
    if (limber_device_holds(ctx, stated.a.data) || limber_device_holds(ctx, stated.b.data) ||
        limber_device_holds(ctx, stated.c.data))
        return refuse("a, b, c", "matrices of a product modulo a number lie in host memory", d);
    return limber_modular_multiply(ctx, p, &stated, r, d);
}
