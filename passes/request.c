/* SPDX-License-Identifier: BSD-3-Clause
 * What a product under a contract needs: how much must be known of its operands, and the classes of
 * requests that share a plan. */
#include "ir/num/prim_num.h"
#include "passes/contract.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- classes of k and of sizes --------------------------------------------------------------- */

/* True if the product is so small that neither a second thread nor a scan pays. */
bool limber_is_tiny(const struct product_request *r)
{
    /* a product is tiny if m, n and k are at most this number, and its multiply-adds at most the
     * square */
    enum { TINY = 512 };

    return r->m <= TINY && r->n <= TINY && r->k <= TINY && (r->groups == 1 || !r->conv) &&
           r->m * r->n * r->k <= TINY * TINY;
}

/* True if compiling a kernel for a class of data with fewer bits would take longer than the kernel
 * saves. */
bool limber_is_coarse(const struct product_request *r, const struct target *t)
{
    enum { WORK = 1 << 26 }; /* limit of the multiply-adds of all groups */
    double work = (double)r->m * (double)r->n * (double)r->k * (double)r->groups;

    return limber_is_tiny(r) || (!r->fine && work <= WORK && !limber_is_device(t) && !r->conv);
}

/* The classes of k, as log2 of the largest k of a class.  A kernel computes the values of k that
 * are in its class and in no smaller class.  The limits are the chain lengths at which limbs change
 * their number of bits, and LEAST_SUMS. */
static const int k_classes[] = { 0, 4, 6, 8, 10, 11, 12, 13, 14, 16, 17, 20, 24, 28, 31, 40, 62 };

/* A class of the contract `native` only.  What `native` allows grows with k, and a plan must keep
 * it for the smallest k of its class.  The truncated sums of an H100 keep it from k = 52 on, so
 * they may serve the class above this one. */
enum { LEAST_SUMS = 6 };

/* True if the i-th class is one of this promise. */
static bool has_class(limber_promise promise, size_t i)
{
    return k_classes[i] != LEAST_SUMS || promise == LIMBER_CONTRACT_NATIVE;
}

/* Returns the class of a product's k: log2 of the smallest power of two in a list that is at least
 * k. */
static inline int k_class(const struct product_request *r)
{
    size_t i = 0;

    while (i + 1 < COUNT(k_classes) &&
           (r->k > (int64_t)1 << k_classes[i] || !has_class(r->contract->promise, i)))
        i++;
    return k_classes[i];
}

/* Returns the smallest k of a class (the values of k that one kernel computes).  An error bound for
 * k = 1 also holds for k = 0, which has no error. */
static double least_k(limber_promise promise, int kbits)
{
    double least = 1;

    for (size_t i = 1, last = 0; i < COUNT(k_classes) && k_classes[i] <= kbits; i++)
        if (has_class(promise, i)) {
            least = ldexp(1, k_classes[last]) + 1;
            last = i;
        }
    return least;
}

/* ---- what must be known of the data ---------------------------------------------------------- */

/* True if the machine's own floating-point units can keep the contract. */
static bool suits_own_units(const struct product_request *r)
{
    return limber_needs_native_sums(r->contract) && !limber_num_is_int(r->c) &&
           limber_format_embeds(r->a, LIMBER_F64) && limber_format_embeds(r->b, LIMBER_F64) &&
           limber_format_embeds(r->c, LIMBER_F64);
}

/* True if the machine's own unit is the default, and other schemes can be faster only for data with
 * few bits.  On devices other schemes are always candidates, because their units are much
 * faster. */
static bool is_native(const struct product_request *r, const struct target *t)
{
    return suits_own_units(r) &&
           (r->contract->scheme || limber_order(r->contract) || !limber_is_device(t));
}

/* True if both operands are 8-bit integers.  These need one limb whatever their values, so a scan
 * cannot make a plan cheaper. */
static bool are_bytes(const struct product_request *r)
{
    return limber_is_integer(r->a) && limber_is_integer(r->b) && r->a.size == 1 && r->b.size == 1;
}

/* True if, for a native contract on a device, a scan, and the scheme that it may make possible,
 * can be faster than the device's own unit or cuBLAS.  Assumes 3 FP16 products for FP32, and 18
 * INT8 products for FP64 (uniform numbers take 16, normal ones 22).  The constants were measured
 * on an H200 (docs/measured/gpu-h200.md): shares of peak rates; 50 us that the call waits for a
 * scan; `element` and `result`, the bytes that memory could move while an element is scanned and
 * split, and while an element of C is made from one residue. */
static bool scan_may_pay(const struct product_request *r, const struct target *t)
{
    const bool single = limber_format_embeds(r->a, LIMBER_F32) &&
                        limber_format_embeds(r->b, LIMBER_F32) && limber_format_sig(r->c) <= 24;
    const bool cublas = limber_target_has(t, "cublas") && limber_format_is_binary(r->a) &&
                        limber_same_format(r->a, r->b) && limber_same_format(r->a, r->c);
    const double rate = t->rate[single ? UNIT_f16 : UNIT_i8], products = single ? 3 : 18;
    const double own = t->rate[single ? UNIT_f32 : UNIT_f64] * (!cublas ? 0.5 :
                                                                single  ? 0.76 :
                                                                          0.9);
    const double m = (double)r->m, n = (double)r->n, k = (double)r->k, groups = (double)r->groups;
    const double element = single ? 13 + 9 * products : 26 + 4.7 * products;
    const double result = single ? 0 : 3 * products;
    const double bytes = (m + n) * k * element + m * n * result;

    return !(own > 0) || !(rate > 0) ||
           m * n * k * groups * products / (0.75 * rate) + groups * bytes / t->bandwidth + 50e-6 <
               m * n * k * groups / own;
}

/* Returns what a product's plan needs to know of the data: nothing; exponents and bits that
 * follow from the formats; the results of a scan that stops early unless the range of exponents
 * is small or the bits are few; or the results of a full scan. */
enum data_need limber_data_need(const struct product_request *r, const struct target *t)
{
    const char *name = r->contract->scheme;
    const struct scheme *s = name ? limber_scheme_find(name) : NULL;

    if (limber_simulates(r->contract))
        return NEED_nothing;
    if (is_native(r, t))
        return s || limber_order(r->contract) || limber_is_tiny(r) ? NEED_nothing :
               are_bytes(r)                                        ? NEED_format :
                                                                     NEED_probe;
    if (s && s->data == SCHEME_by_special && limber_is_device(t))
        return NEED_nothing;
    if (limber_is_device(t) && !s && !r->conv && suits_own_units(r) && !scan_may_pay(r, t))
        return NEED_nothing;
    return are_bytes(r) ? NEED_format : NEED_masks;
}

/* True if B^T A^T may be computed instead of A B, because the results have the same bits. */
bool limber_may_transpose(const struct product_request *r, const struct target *t)
{
    return is_native(r, t);
}

/* True if the product may be partitioned, with a plan for each part. */
bool limber_can_partition(const struct product_request *r)
{
    const struct scheme *s = r->contract->scheme ? limber_scheme_find(r->contract->scheme) : NULL;

    return r->groups == 1 && !limber_num_is_int(r->c) &&
           (limber_names_several(r->contract) ||
            (!r->conv && !limber_is_tiny(r) && limber_allows_any_scheme(r->contract) &&
             !(s && s->data == SCHEME_by_formats)));
}

/* True if the sums over parts of k may be rounded before they are added.  Under a contract in bits
 * a partial sum must be neither too large for C's format nor subnormal in it.  With beta that is
 * not known, because C was not scanned. */
bool limber_may_sum_parts(const struct product_request *r, const struct mask *a,
                          const struct mask *b, bool scaled)
{
    int64_t low = (int64_t)a->emin + b->emin, high = (int64_t)a->emax + b->emax + 2;

    if (r->contract->promise != LIMBER_CONTRACT_BITS)
        return r->contract->promise != LIMBER_CONTRACT_CORRECT;
    return !scaled && (a->zero || b->zero ||
                       (high + k_class(r) < limber_format_emax(r->c) &&
                        low - r->contract->bits > limber_format_emin(r->c) + 8));
}

/* True if sums must be integers.  Then fractions among the operands may be an error. */
bool limber_needs_integers(const struct product_request *r)
{
    return limber_requires_integers(r->contract->promise);
}

/* ---- how many slices Ozaki I needs ----------------------------------------------------------- */

/* Ozaki I: true if the library has to estimate the number of slices. */
bool limber_estimates_slices(const struct product_request *r)
{
    return r->contract->promise == LIMBER_CONTRACT_FAST && r->contract->slices == 0 &&
           limber_slice_step(r->contract->scheme, k_class(r)) > 0;
}

/* Returns the most slices that an operand has if none of its bits is left out. */
static int all_slices(const struct mask *m, int step, int spare)
{
    return (m->width + spare + step - 1) / step;
}

/* Returns the number d of slices.  Let 2^E and 2^F be the largest powers of two of a row and a
 * column.  A slice of b bits below the top one is uniform in [-1/2, 1/2), in units of the lowest
 * bit of the slice above it.  So the d + 1 products of slices that are left out of a pair of
 * elements have together the standard deviation 4/3 sqrt(d + 1) 2^(E + F - d b), where the first
 * and the last of them are no larger than the others. k such pairs add up like sqrt(k).  Slices
 * in bytes have one more bit that numbers cannot use.  Conventional sums of random signs deviate
 * by 0.4 u sum |a| |b| or, if they are computed in blocks of BLOCK products, by 0.4 u sqrt(BLOCK
 * k) sum |a| |b|.  Sums of positive numbers, and sums in which few products outweigh the others,
 * deviate by more.  The slices may deviate by half of that, for the smallest of all sums.  If d
 * slices hold all bits of both operands, nothing is left out.  This is a probabilistic estimate;
 * the report has the proven bound for the resulting d.  Source: Mukunoki, Ozaki, Ogita, Imamura,
 * ISC High Performance 2020, section 3.2, who compare sums over all columns of a row. */
int limber_slices_needed(const struct product_request *r, const struct mask *a,
                         const struct mask *b, double least)
{
    enum { MOST = 64, BLOCK = 512 };
    const char *scheme = r->contract->scheme;
    int step = limber_slice_step(scheme, k_class(r)), spare = limber_slice_spare(scheme);
    int most = all_slices(a, step, spare) + all_slices(b, step, spare) - 1;
    double k = (double)r->k, allowed = 0.2 * limber_format_roundoff(r->c);
    int d = spare; /* slices in bytes (spare 2) must be two, since a single one is not balanced */

    allowed *= sqrt(BLOCK / fmax(k, BLOCK));
    /* no nonzero element is below 2^-spread of its line's largest power of two */
    allowed *= fmin(fmax(least, ldexp(1, -a->spread - b->spread)), k);
    most = most < MOST ? most : MOST;
    while (d < most && 4.0 / 3 * sqrt((d + 1) * k) * ldexp(1, 2 * (spare - 1) - d * step) > allowed)
        d++;
    return d;
}

/* ---- the first pass of a correct result ------------------------------------------------------ */

/* A first pass must save at least this many bits, added over both operands: the bits of two
 * moduli. */
enum { GAIN = 16 };

/* Returns the bits of scaled integers without a first pass: all bits of the data, or as many as a
 * contract in bits needs, if that is less. */
static int full_bits(const struct product_request *r, const struct mask *m)
{
    int need = r->contract->bits + 3 + m->spread;

    return r->contract->promise == LIMBER_CONTRACT_BITS && need < m->width ? need : m->width;
}

/* True if a first pass pays.  A contract in bits may use one, too: elements that the first pass
 * leaves uncertain are computed exactly, and a correctly rounded result keeps the contract. */
bool limber_wants_first_pass(const struct product_request *r, const struct target *t,
                             const struct mask *a, const struct mask *b, int decided)
{
    enum { MOST_DECIDED = 8 };

    return (decided < MOST_DECIDED || r->contract->scheme) &&
           (r->contract->promise == LIMBER_CONTRACT_CORRECT ||
            r->contract->promise == LIMBER_CONTRACT_BITS) &&
           !limber_num_is_int(r->c) && !limber_is_device(t) && !r->conv && r->groups == 1 &&
           !limber_is_tiny(r) && a->scanned && b->scanned &&
           full_bits(r, a) + full_bits(r, b) >= 2 * limber_format_sig(r->c) + GAIN;
}

/* Largest number of bits of a first pass.  With more bits the moduli that exist cannot hold sums of
 * 2^12 products. */
enum { MOST_FIRST_PASS_BITS = 164 };

/* Rounds a number of bits up to one of a few values, so that fewer kernels are made; returns 0 if
 * it exceeds all of them.  wide: also allows the largest value.  A scheme that the caller names
 * needs it, because it would otherwise be refused. */
static int first_pass_class(int bits, bool coarse, bool wide)
{
    enum { STEP = 4 };
    static const int few[] = { 80, 112, MOST_FIRST_PASS_BITS };

    if (!coarse)
        return (bits + STEP - 1) / STEP * STEP;
    for (size_t i = 0; i < COUNT(few) - !wide; i++)
        if (bits <= few[i])
            return few[i];
    return 0;
}

/* Returns how many bits a first pass keeps of each element; 0 if there is no first pass.  least:
 * log2 of the smallest sampled |sum|, relative to the product of the largest powers of two of its
 * row and column.  An element x of a line whose largest exponent is E is cut to X = trunc(x 2^(bits
 * - 1 - E)), which loses less than 1 (a double-double: 2).  So an integer sum of 2^kbits products
 * is off by less than 2^(kbits + bits + 3).  Its rounding is certain unless the sum is closer than
 * that to a midpoint of two neighbouring results, which are 2^(1 - sig) of the sum apart. */
int limber_first_pass_bits(const struct product_request *r, const struct target *t,
                           const struct mask *a, const struct mask *b, double least)
{
    enum { MARGIN = 8 }; /* bits, so that less than one element in 2^8 stays uncertain */
    int sig = limber_format_sig(r->c), spared = 0, bits;

    if (!isfinite(least))
        return 0;
    bits = first_pass_class(sig + k_class(r) + 6 + MARGIN + (int)ceil(-least),
                            limber_is_coarse(r, t), sig > 64 || r->contract->scheme);
    spared += full_bits(r, a) > bits ? full_bits(r, a) - bits : 0;
    spared += full_bits(r, b) > bits ? full_bits(r, b) - bits : 0;
    return bits <= MOST_FIRST_PASS_BITS && spared >= GAIN ? bits : 0;
}

/* True if sums in binary64 may be accurate enough to round most elements of the result. */
bool limber_wants_chains(const struct product_request *r, const struct target *t)
{
    return (r->contract->promise == LIMBER_CONTRACT_CORRECT ||
            r->contract->promise == LIMBER_CONTRACT_BITS) &&
           r->c.kind == LIMBER_KIND_FLOAT && limber_format_sig(r->c) <= 24 &&
           limber_format_embeds(r->a, LIMBER_F32) && limber_format_embeds(r->b, LIMBER_F32) &&
           !limber_is_device(t) && !limber_is_tiny(r) && r->k > 0;
}

/* Returns the error bound of a sum in binary64, relative to the product of the Euclidean norms of
 * its row and its column. */
double limber_chain_share(const struct product_request *r)
{
    return ldexp(1, limber_chain_error(k_class(r)));
}

/* Returns a bound on the share of elements that binary64 sums leave uncertain: the largest r of a
 * few with open <= 2^-r. */
int limber_decided(double open)
{
    static const int classes[] = { 12, 10, 8, 6, 4 };

    for (size_t i = 0; i < COUNT(classes); i++)
        if (open <= ldexp(1, -classes[i]))
            return classes[i];
    return isnan(open) ? 0 : 1;
}

/* True if the scheme `accumulator` may sum in double-double first. */
bool limber_wants_pairs(const struct product_request *r, const struct target *t)
{
    return (r->contract->promise == LIMBER_CONTRACT_CORRECT ||
            r->contract->promise == LIMBER_CONTRACT_BITS) &&
           limber_format_is_binary(r->c) && limber_format_embeds(r->a, LIMBER_F64) &&
           limber_format_embeds(r->b, LIMBER_F64) && !limber_is_device(t) && !limber_is_tiny(r) &&
           r->k > 0;
}

/* Returns the error bound of a double-double sum, relative to the product of the norms.  The
 * exponent is from docs/accuracy.md, "Scaled pairs". */
double limber_pair_share(const struct product_request *r)
{
    return ldexp(1, 2 + 2 * (k_class(r) + 1) - 106);
}

/* Returns a bound on the share of elements that double-double sums leave uncertain: the largest r
 * of a few with open <= 2^-r. */
int limber_paired(double open)
{
    static const int classes[] = { 8, 6, 4 };

    if (isnan(open) || open <= ldexp(1, -10))
        return 0;
    for (size_t i = 0; i < COUNT(classes); i++)
        if (open <= ldexp(1, -classes[i]))
            return classes[i];
    return 1;
}

/* ---- classes of requests, for which one plan serves ------------------------------------------ */

/* Sizes of C are rounded to few classes.  The size decides how often operands are reused, and so
 * the choice of a scheme.  Plans for CPUs have size 0 or COARSE_SIZE.  The smallest class of a
 * device is for small C; the other classes follow the smaller of m and n. */
enum { COARSE_SIZE = 8 };

/* Returns the class of the product's size, in which plans are the same. */
static int size_class(const struct product_request *r)
{
    static const int classes[] = { 8, 10, 11, 12, 13, 14 };
    int64_t least = r->m < r->n ? r->m : r->n, most = r->m < r->n ? r->n : r->m;
    size_t i = 0;

    if (!r->conv && most <= 1 << (SMALL_SIZE + 1))
        return SMALL_SIZE;
    while (i + 1 < COUNT(classes) && least > (int64_t)1 << classes[i])
        i++;
    return classes[i];
}

/* Rounds a number of bits up to one of a few values, so that fewer plans are made.  A result
 * with more bits than the contract asks for also keeps the contract. */
static int bits_class(int bits)
{
    static const int steps[] = { 8, 11, 16, 20, 24, 32, 40, 48, 53, 64, 80, 96, 113, 128, 160 };

    for (size_t i = 0; i < COUNT(steps); i++)
        if (bits <= steps[i])
            return steps[i];
    return bits;
}

/* Rounds log2 k up to one of only a few classes, for promises that do not depend on k. */
static int coarse_k_class(int kbits)
{
    return kbits <= 12 ? 12 : kbits <= 16 ? 16 : kbits <= 24 ? 24 : kbits;
}

/* Returns how the results of scans are rounded for this request, as a set of enum class_use.
 * CLASS_reach is not used on devices, because the bounds that a device checks in a captured call
 * have no `reach`. */
static unsigned use_of_classes(const struct product_request *r, const struct target *t, bool coarse)
{
    bool correct = r->contract->promise == LIMBER_CONTRACT_CORRECT;

    return (coarse ? CLASS_coarse : 0) | (correct && !r->conv ? CLASS_widths : 0) |
           (r->contract->scheme ? CLASS_named : 0) |
           (r->conv ? CLASS_ranges | (limber_is_device(t) ? 0 : CLASS_reach) : 0);
}

/* Gives operands with similar numbers of bits the same number, so that only few pairs of classes
 * (kinds of data that need a kernel of their own) occur. */
static void join_widths(struct data_class *a, struct data_class *b, bool first_pass, bool correct)
{
    enum { BYTE = 8, SHORT = 24 };
    int64_t wa = limber_class_get(a, ATTR_width), wb = limber_class_get(b, ATTR_width);
    int64_t most = wa > wb ? wa : wb;

    if (wa == 0 || wb == 0 || most <= BYTE)
        return;
    if (first_pass || (wa > SHORT && wb > SHORT))
        wa = wb = most;
    wa = wa < SHORT ? SHORT : wa;
    wb = wb < SHORT ? SHORT : wb;
    limber_class_set(a, ATTR_width, wa);
    limber_class_set(b, ATTR_width, wb);
    if (correct) {
        limber_class_set(a, ATTR_spread, wa);
        limber_class_set(b, ATTR_spread, wb);
    }
}

/* Sets the scheme of a plan: what the caller names, `native` for the documented order, or
 * `accumulator`, the only scheme that can detect that a sum is no integer. */
static void set_wanted(struct request_class *out, const struct product_request *r, bool fractional)
{
    snprintf(out->wanted, sizeof out->wanted, "%s",
             r->contract->scheme       ? r->contract->scheme :
             limber_order(r->contract) ? "native" :
             fractional                ? "accumulator" :
                                         "");
}

/* Fills *out with the class of a request.  Requests of the same class have the same plan and
 * kernel. */
void limber_request_class(struct request_class *out, const struct product_request *r,
                          const struct target *t, const struct mask *a, const struct mask *b,
                          const struct first_pass *first_pass, bool fractional)
{
    limber_promise promise = r->contract->promise;
    bool coarse = limber_is_coarse(r, t);
    unsigned use = use_of_classes(r, t, coarse);

    memset(out, 0, sizeof *out);
    out->kbits = k_class(r);
    out->bits = promise == LIMBER_CONTRACT_BITS ? r->contract->bits : 0;
    if (coarse && (promise == LIMBER_CONTRACT_BITS || promise == LIMBER_CONTRACT_CORRECT)) {
        out->kbits = coarse_k_class(out->kbits);
        out->bits = out->bits ? bits_class(out->bits) : 0;
    }
    out->size = limber_is_device(t)                             ? size_class(r) :
                coarse && limber_allows_any_scheme(r->contract) ? COARSE_SIZE :
                                                                  0;
    out->wrap = limber_num_is_int(r->c) && limber_wraps(r->contract, r->a, r->b);
    set_wanted(out, r, fractional);
    limber_mask_class(a, r->a, use, &out->data[0]);
    limber_mask_class(b, r->b, use, &out->data[1]);
    if (coarse && !limber_is_integer(r->a) && !limber_is_integer(r->b))
        join_widths(&out->data[0], &out->data[1], first_pass->bits > 0,
                    promise == LIMBER_CONTRACT_CORRECT);
}

/* Returns the error, relative to |A||B|, that the contract allows before the final rounding;
 * infinity if it allows any error. */
double limber_stated_budget(const struct plan *p, limber_format c)
{
    double u = limber_format_roundoff(c);

    switch (p->promise) {
    case LIMBER_CONTRACT_REPRODUCIBLE:
    case LIMBER_CONTRACT_NATIVE:
        return fmax(least_k(p->promise, p->kbits) + 2 - p->roundings, 0) * u;
    case LIMBER_CONTRACT_BITS: return ldexp(1, -p->bits) - p->roundings * u;
    case LIMBER_CONTRACT_FAST:
    case LIMBER_CONTRACT_SIMULATE: return INFINITY;
    default: return 0;
    }
}
