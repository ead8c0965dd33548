/* SPDX-License-Identifier: BSD-3-Clause
 * Contracts: which ones are valid, and what each promise means. */
#include "ir/num/prim_num.h"
#include "passes/contract.h"
#include "passes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- checks of a contract -------------------------------------------------------------------- */

/* True if the contract names a scheme whose number of slices or moduli the caller may set. */
static bool has_settable_count(const limber_contract *k)
{
    struct scheme_list list = { 0 };
    bool any = false;

    if (!k->scheme || !limber_scheme_list_read(k->scheme, &list))
        return false;
    for (int i = 0; i < list.count; i++)
        any = any || limber_scheme_has_count(list.scheme[i]);
    return any;
}

/* Checks that each number and enumerator of a contract is in its range. */
static bool check_numbers(const limber_contract *k, struct diag *d)
{
    if ((int)k->promise < LIMBER_CONTRACT_NATIVE || (int)k->promise >= PROMISES)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.promise = %d is none of the promises", (int)k->promise);
    if (k->promise == LIMBER_CONTRACT_BITS && (k->bits < 1 || k->bits > 160))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract.bits = %d is not from 1 to 160",
                           k->bits);
    if (k->slices < 0 || k->slices > 64)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.slices = %d is not from 0 to 64", k->slices);
    if ((int)k->split < LIMBER_SPLIT_ANY || k->split > LIMBER_SPLIT_INSIDE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.split = %d is none of its values", (int)k->split);
    if ((int)k->on_miss < LIMBER_ON_MISS_WAIT || k->on_miss > LIMBER_ON_MISS_COMPILE)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.on_miss = %d is none of its values", (int)k->on_miss);
    return !k->modulus ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "contract.modulus: only limber_gemm and limber_run compute modulo a number, "
                       "and without an epilogue");
}

/* Checks the simulated unit, and that statistics are requested only from a simulated unit. */
static bool check_simulation(const limber_contract *k, struct diag *d)
{
    if (!limber_simulates(k))
        return !k->statistics || limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                                             "contract.statistics are of simulated units only");
    if (!k->unit)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.unit is NULL, but simulate needs one");
    if (!limber_unit_verify(k->unit, d)) {
        limber_fail_in(d, "contract.unit");
        return false;
    }
    return !k->scheme || strcmp(k->scheme, "simulate") == 0 ||
           strcmp(k->scheme, "tensor-mx") == 0 ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "contract.scheme = \"%.40s\" simulates no unit", k->scheme);
}

/* Checks that the documented order of additions (limber_order) is possible for sums of elements of
 * this format: floats that binary64 holds. what: the argument's name. */
static bool check_summed(limber_format f, const char *what, struct diag *d)
{
    const char *why = limber_num_is_int(f) ?
                          "native ones of integers have the same bits everywhere" :
                          "only floats that f64 holds have";
    char name[32];

    return limber_format_is_binary(f) || /* fast test for the usual formats */
           (limber_is_real(f) && limber_format_embeds(f, LIMBER_F64)) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s: %s has no reproducible sums: %s", what,
                       limber_format_name(f, name, sizeof name), why);
}

/* If the contract fixes the order of additions, checks that formats and scheme allow it. */
static bool check_order(const limber_contract *k, limber_format a, limber_format b, limber_format c,
                        struct diag *d)
{
    if (!limber_order(k))
        return true;
    if (k->scheme && strcmp(k->scheme, "native") != 0)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.scheme = \"%.40s\": only native has reproducible sums",
                           k->scheme);
    return check_summed(a, "a", d) && (limber_format_equal(a, b) || check_summed(b, "b", d)) &&
           (limber_format_equal(a, c) || check_summed(c, "c", d));
}

/* Checks that results of this format can be rounded as the contract says. */
static bool check_rounding(const limber_contract *k, limber_format c, struct diag *d)
{
    char name[32];

    if (k->rounding == LIMBER_ROUND_NEAREST)
        return true;
    if ((int)k->rounding < 0 || k->rounding > LIMBER_ROUND_AWAY)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.rounding = %d is none of nearest, zero, up, down and away",
                           (int)k->rounding);
    if (k->promise != LIMBER_CONTRACT_CORRECT)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.rounding: only the promise correct rounds in a direction");
    return (c.kind == LIMBER_KIND_FLOAT && limber_format_embeds(c, LIMBER_F128)) ||
           limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                       "contract.rounding: results in %s are rounded to nearest only",
                       limber_format_name(c, name, sizeof name));
}

/* Checks that a product of these formats can have the contract.  False, with an error that names
 * the argument, if not. */
bool limber_contract_check(const limber_contract *k, limber_format a, limber_format b,
                           limber_format c, struct diag *d)
{
    struct scheme_list named;
    char name[32];

    if (!k)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract is NULL");
    if (!check_numbers(k, d) || !check_simulation(k, d))
        return false;
    if (k->promise == LIMBER_CONTRACT_FAST && !k->scheme)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.scheme is NULL, but fast needs one");
    if (k->scheme && !limber_scheme_list_read(k->scheme, &named))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "contract.scheme = \"%.40s\" is unknown",
                           k->scheme);
    if (k->slices > 0 && !has_settable_count(k))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.slices = %d, but contract.scheme = %.40s has neither slices "
                           "(ozaki1-*) nor moduli (ozaki2*)",
                           k->slices, k->scheme ? k->scheme : "NULL");
    if (c.kind == LIMBER_KIND_UINT) /* kernels store signed integers only */
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "c: %s is for operands; results are signed integers or floats",
                           limber_format_name(c, name, sizeof name));
    /* formats of powers of two have no zero, but padding needs zeros */
    if (a.kind == LIMBER_KIND_POWER || b.kind == LIMBER_KIND_POWER)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "%s: %s has no zero; bf16 and f32 hold its numbers",
                           a.kind == LIMBER_KIND_POWER ? "a" : "b",
                           limber_format_name(LIMBER_E8M0, name, sizeof name));
    if (c.kind == LIMBER_KIND_POWER)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "c: %s is no format of results, which are floats, posits or integers",
                           limber_format_name(c, name, sizeof name));
    if (k->promise == LIMBER_CONTRACT_EXACT && !limber_num_is_int(c))
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                           "contract.promise exact needs an integer result, c is %s",
                           limber_format_name(c, name, sizeof name));
    return check_rounding(k, c, d) && check_order(k, a, b, c, d);
}

/* ---- what a promise allows ------------------------------------------------------------------- */

/* True if every value of the format is an integer. */
static bool holds_integers(limber_format f)
{
    return limber_is_integer(f) || f.kind == LIMBER_KIND_SHORT;
}

/* True if integer results wrap modulo 2^bits of their format: native sums of integers. */
bool limber_wraps(const limber_contract *k, limber_format a, limber_format b)
{
    return k->promise == LIMBER_CONTRACT_NATIVE && holds_integers(a) && holds_integers(b);
}

/* True if a result that does not fit into format c makes the call fail (RANGE). */
bool limber_refuses_overflow(const limber_contract *k, limber_format a, limber_format b,
                             limber_format c)
{
    return limber_num_is_int(c) && !limber_wraps(k, a, b);
}

/* True if every scheme within the error bound is allowed, so that a product may be partitioned. */
bool limber_allows_any_scheme(const limber_contract *k)
{
    return k->promise != LIMBER_CONTRACT_SIMULATE && k->promise != LIMBER_CONTRACT_FAST &&
           !limber_order(k);
}

/* True if results must be exact integers, which are never rounded. */
bool limber_requires_integers(limber_promise promise)
{
    return promise == LIMBER_CONTRACT_EXACT;
}

/* True if the promise allows the error of native sums. */
bool limber_errs_natively(limber_promise promise)
{
    return promise == LIMBER_CONTRACT_NATIVE || promise == LIMBER_CONTRACT_REPRODUCIBLE;
}

/* Returns the version of the order of additions that the contract fixes; 0 if it fixes none.  A
 * change of the order needs a new number here, and new expected bits in test/jit/test_order.c. */
int limber_order(const limber_contract *k)
{
    return k->promise == LIMBER_CONTRACT_REPRODUCIBLE ? 1 : 0;
}

/* True if the caller names several schemes, each for the tiles that the schemes before it do not
 * suit. */
bool limber_names_several(const limber_contract *k)
{
    struct scheme_list list;

    return k->scheme && limber_scheme_list_read(k->scheme, &list) && list.count > 1;
}

/* True if the caller names the scheme `pairs`. */
bool limber_names_pairs(const limber_contract *k)
{
    return k->scheme && strcmp(k->scheme, "pairs") == 0;
}

/* True if the scheme `pairs` (double-double sums) can keep the contract. */
bool limber_pairs_serve(const limber_contract *k, double *allowed)
{
    *allowed = k->promise == LIMBER_CONTRACT_BITS ? ldexp(1, -k->bits) : 0;
    return (k->promise == LIMBER_CONTRACT_CORRECT || k->promise == LIMBER_CONTRACT_BITS) &&
           (!k->scheme || limber_names_pairs(k));
}

/* True if the contract needs only native sums, in any order or the documented one, and names no
 * scheme with limbs. */
bool limber_needs_native_sums(const limber_contract *k)
{
    const struct scheme *s = k->scheme ? limber_scheme_find(k->scheme) : NULL;

    return limber_errs_natively(k->promise) && (!k->scheme || (s && s->data == SCHEME_by_formats));
}

/* ---- functions of one shape, and complex products -------------------------------------------- */

/* Checks that a function that is compiled for one shape (limber_bind_shape) can have this contract.
 */
bool limber_fixed_check(const limber_contract *k, struct diag *d)
{
    if (k->promise != LIMBER_CONTRACT_NATIVE)
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "contract.promise: only native has functions for "
                           "one shape");
    return limber_needs_native_sums(k) ||
           limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                       "contract.scheme = \"%s\": only native has functions "
                       "for one shape",
                       k->scheme);
}

/* Checks that a complex product with these formats may be computed by three real products under
 * the contract. */
bool limber_three_products_check(const limber_contract *k, limber_format a, limber_format b,
                                 limber_format c, struct diag *d)
{
    if (limber_is_integer(a) && limber_is_integer(b) && limber_is_integer(c))
        return k->promise == LIMBER_CONTRACT_NATIVE || k->promise == LIMBER_CONTRACT_EXACT ||
               limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "problem.complex_method, three products: integers need contract.promise "
                           "native or exact");
    if (!limber_format_equal(a, b) || !limber_format_equal(a, c) || !limber_format_is_binary(a))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "problem.complex_method, three products: a, b and c must be integers, "
                           "all f32 or all f64");
    return k->promise == LIMBER_CONTRACT_FAST ||
           limber_fail(
               d, LIMBER_STATUS_NO_SCHEME,
               "problem.complex_method, three products: the error of floats is bounded by norms "
               "only, which contract.promise fast allows");
}

/* Returns the contract of each of the three real products of a complex product. */
limber_contract limber_three_products_part(const limber_contract *k)
{
    limber_contract part = *k;

    if (part.promise == LIMBER_CONTRACT_EXACT)
        part.promise = LIMBER_CONTRACT_NATIVE;
    return part;
}

/* Returns a scheme that keeps the promise without a scan of the data: `native` for native, or
 * `accumulator` for correct and bits.  NULL for other promises, and for formats of more than eight
 * bytes, for which the accumulator would be too long. */
static const char *unscanned_scheme(limber_promise promise, limber_format f)
{
    if (f.kind != LIMBER_KIND_FLOAT || f.size > 8)
        return NULL;
    return promise == LIMBER_CONTRACT_CORRECT || promise == LIMBER_CONTRACT_BITS ? "accumulator" :
           promise == LIMBER_CONTRACT_NATIVE && limber_format_is_binary(f)       ? "native" :
                                                                                   NULL;
}

/* Returns the contract for a sum of a few products in format f, which yields a result under
 * contract k. unscanned: the returned contract names a scheme that needs no scan of the data, if
 * there is one. */
limber_contract limber_contract_of_sum(const limber_contract *k, limber_format f, bool unscanned)
{
    limber_promise promise =
        k->promise == LIMBER_CONTRACT_FAST ? LIMBER_CONTRACT_NATIVE : k->promise;

    return (limber_contract){ .promise = promise,
                              .bits = k->bits,
                              .scheme = unscanned ? unscanned_scheme(promise, f) : NULL };
}
