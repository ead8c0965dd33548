/* SPDX-License-Identifier: BSD-3-Clause
 * What a product under a contract needs: how much must be known of its operands, and the classes by
 * which calls share plans. */
#include "ir/num/prim_num.h"
#include "passes/contract.h"
#include "passes/passes.h"
#include "passes/scheme.h"

#include <math.h>
#include <string.h>

/* ---- classes of k and of sizes --------------------------------------------------------------- */

bool limber_is_tiny(const struct product_request *r)
{
    enum { TINY = 512 }; /* largest m, n, k; at most TINY^2 multiply-adds */

    return r->m <= TINY && r->n <= TINY && r->k <= TINY && (r->groups == 1 || !r->conv) &&
           r->m * r->n * r->k <= TINY * TINY;
}

/* True if a kernel for narrower classes would take longer to compile than it saves. */
bool limber_is_coarse(const struct product_request *r, const struct target *t)
{
    enum { WORK = 1 << 26 }; /* multiply-adds of all groups */
    double work = (double)r->m * (double)r->n * (double)r->k * (double)r->groups;

    return limber_is_tiny(r) || (!r->fine && work <= WORK && !limber_is_device(t) && !r->conv);
}

/* The classes of k: a kernel serves every k <= 2^kbits that no smaller class does.  Chains of
 * these lengths are where limbs change their width. */
static const int k_classes[] = { 0, 4, 8, 10, 11, 12, 13, 14, 16, 17, 20, 24, 28, 31, 40, 62 };

static int k_class(int64_t k)
{
    size_t i = 0;

    while (i + 1 < COUNT(k_classes) && k > (int64_t)1 << k_classes[i])
        i++;
    return k_classes[i];
}

/* The smallest k of a class, whose error bound holds for the whole class; k = 0 has no error. */
static double least_k(int kbits)
{
    double least = 1;

    for (size_t i = 1; i < COUNT(k_classes) && k_classes[i] <= kbits; i++)
        least = ldexp(1, k_classes[i - 1]) + 1;
    return least;
}

/* ---- what must be known of the data ---------------------------------------------------------- */

/* True if the machine's own units can keep the contract. */
static bool suits_own_units(const struct product_request *r)
{
    return limber_is_plain(r->contract) && !limber_num_is_int(r->c) &&
           limber_format_embeds(r->a, LIMBER_F64) && limber_format_embeds(r->b, LIMBER_F64) &&
           limber_format_embeds(r->c, LIMBER_F64);
}

/* True if the machine's own unit serves, so that other schemes win for narrow data only.  On
 * devices their units are so much faster that they are always candidates. */
static bool is_native(const struct product_request *r, const struct target *t)
{
    return suits_own_units(r) &&
           (r->contract->scheme || limber_order(r->contract) || !limber_is_device(t));
}

/* Bytes need one limb whatever their values, so a scan could not make a plan cheaper. */
static bool are_bytes(const struct product_request *r)
{
    return limber_is_integer(r->a) && limber_is_integer(r->b) && r->a.size == 1 && r->b.size == 1;
}

/* Under `native` on a device, whether a scan may find a scheme that is faster, the scan's time
 * included, than the device's own unit or cuBLAS.  It is assumed that FP32 needs 3 products of FP16
 * and FP64 18 of bytes (uniform numbers take 16, normal ones 22).  Measured on an H200
 * (docs/measured/gpu-h200.md): the shares of peaks; the 50 us that a scan keeps the call waiting;
 * the bytes that memory moves in the time of scanning and cutting an element, and of making C from
 * a remainder. */
static bool scan_may_pay(const struct product_request *r, const struct target *t)
{
    const bool single = limber_format_embeds(r->a, LIMBER_F32) &&
                        limber_format_embeds(r->b, LIMBER_F32) && limber_format_sig(r->c) <= 24;
    const bool cublas = limber_target_has(t, "cublas") && limber_format_is_binary(r->a) &&
                        limber_format_equal(r->a, r->b) && limber_format_equal(r->a, r->c);
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

bool limber_may_transpose(const struct product_request *r, const struct target *t)
{
    return is_native(r, t);
}

static bool names_two(const struct product_request *r)
{
    return r->contract->scheme && strchr(r->contract->scheme, '+');
}

bool limber_may_part(const struct product_request *r)
{
    const struct scheme *s = r->contract->scheme ? limber_scheme_find(r->contract->scheme) : NULL;

    return r->groups == 1 && !r->conv && !limber_is_tiny(r) && !limber_num_is_int(r->c) &&
           (names_two(r) ||
            (limber_frees_scheme(r->contract) && !(s && s->data == SCHEME_by_formats)));
}

/* Under a contract in bits a partial sum must neither overflow C's format nor be subnormal in it.
 * The range of beta c is unknown. */
bool limber_may_sum_parts(const struct product_request *r, const struct mask *a,
                          const struct mask *b, bool scaled)
{
    int64_t low = (int64_t)a->emin + b->emin, high = (int64_t)a->emax + b->emax + 2;

    if (r->contract->promise != LIMBER_CONTRACT_BITS)
        return r->contract->promise != LIMBER_CONTRACT_CORRECT;
    return !scaled && (a->zero || b->zero ||
                       (high + k_class(r->k) < limber_format_emax(r->c) &&
                        low - r->contract->bits > limber_format_emin(r->c) + 8));
}

bool limber_needs_integers(const struct product_request *r)
{
    return limber_is_integral(r->contract->promise);
}

/* ---- how many slices Ozaki I needs ----------------------------------------------------------- */

int limber_estimated_step(const struct product_request *r)
{
    return r->contract->promise == LIMBER_CONTRACT_FAST && r->contract->slices == 0 ?
               limber_slice_step(r->contract->scheme, k_class(r->k)) :
               0;
}

/* With d slices of b bits the omitted products of one pair of elements are about
 * (d + 1) 2^(1 - d b) of the product of their lines' largest powers of two, and k of them add
 * up like sqrt(k).  The conventional sum errs like sqrt(k) u |A||B|.  Summed over the columns, d
 * must satisfy for every row i
 *     (d + 1) 2^(1 - d b) 2^(E_i) sum_j 2^(F_j)  <=  u sum_p |a_ip| sum_j |b_pj|.
 * A probabilistic estimate; the report carries the proven bound of the count it gives.
 * Source: Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020, section 3.2. */
int limber_slices_needed(const struct product_request *r, const struct mask *a,
                         const double *what_rounds, double scales, int step)
{
    enum { MOST = 64 };
    double u = limber_format_roundoff(r->c);
    int most = 1;

    for (int64_t i = 0; i < r->m; i++) {
        double omitted;

        if (a->line_emax[i] == INT32_MIN)
            continue;
        omitted = ldexp(scales, a->line_emax[i] + 1);
        while (most < MOST && (most + 1) * ldexp(omitted, -most * step) > u * what_rounds[i])
            most++;
    }
    return most;
}

/* ---- the first pass of a correct result ------------------------------------------------------ */

/* a first pass must save at least so many bits, added over both operands: two moduli */
enum { GAIN = 16 };

/* Bits of scaled integers without a first pass: all, or as many as a contract in bits asks for. */
static int full_bits(const struct product_request *r, const struct mask *m)
{
    int need = r->contract->bits + 3 + m->spread;

    return r->contract->promise == LIMBER_CONTRACT_BITS && need < m->width ? need : m->width;
}

/* Elements that the first pass leaves uncertain are computed exactly.  So `bits` gets a first pass,
 * too: a correctly rounded result keeps it. */
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

/* Rounds bits up to a class; 0: they exceed all classes.  wide: with the widest class, also for a
 * scheme that the caller names, which might otherwise be refused. */
static int first_pass_class(int bits, bool coarse, bool wide)
{
    enum { STEP = 4, MOST = 164 }; /* the largest for which all moduli hold 2^12 products */
    static const int few[] = { 80, 112, MOST };

    if (!coarse)
        return (bits + STEP - 1) / STEP * STEP;
    for (size_t i = 0; i < COUNT(few) - !wide; i++)
        if (bits <= few[i])
            return few[i];
    return 0;
}

/* Returns how many bits a first pass keeps of each element; 0: there is no first pass.  least: log2
 * of the smallest sampled |sum|, relative to the product of its two lines' largest powers of two.
 * An element x of a line whose largest exponent is E is cut to X = trunc(x 2^(bits - 1 - E)), which
 * loses less than 1 (a double-double: 2), so an integer sum of 2^kbits products is off by less than
 * 2^(kbits + bits + 3).  Its rounding is certain unless the sum lies that close to a midpoint of
 * two neighbours, which are 2^(1 - sig) of the sum apart. */
int limber_first_pass_bits(const struct product_request *r, const struct target *t,
                           const struct mask *a, const struct mask *b, double least)
{
    enum { MARGIN = 8 /* bits: fewer than one element in 2^8 stays uncertain */, MOST = 165 };
    int sig = limber_format_sig(r->c), spared = 0, bits;

    if (!isfinite(least))
        return 0;
    bits = first_pass_class(sig + k_class(r->k) + 6 + MARGIN + (int)ceil(-least),
                            limber_is_coarse(r, t), sig > 64 || r->contract->scheme);
    spared += full_bits(r, a) > bits ? full_bits(r, a) - bits : 0;
    spared += full_bits(r, b) > bits ? full_bits(r, b) - bits : 0;
    return bits <= MOST && spared >= GAIN ? bits : 0;
}

bool limber_wants_chains(const struct product_request *r, const struct target *t)
{
    return (r->contract->promise == LIMBER_CONTRACT_CORRECT ||
            r->contract->promise == LIMBER_CONTRACT_BITS) &&
           r->c.kind == LIMBER_KIND_FLOAT && limber_format_sig(r->c) <= 24 &&
           limber_format_embeds(r->a, LIMBER_F32) && limber_format_embeds(r->b, LIMBER_F32) &&
           !limber_is_device(t) && !limber_is_tiny(r) && r->k > 0;
}

double limber_chain_share(const struct product_request *r)
{
    return ldexp(1, limber_chain_error(k_class(r->k)));
}

int limber_decided(double open)
{
    static const int classes[] = { 12, 10, 8, 6, 4 };

    for (size_t i = 0; i < COUNT(classes); i++)
        if (open <= ldexp(1, -classes[i]))
            return classes[i];
    return isnan(open) ? 0 : 1;
}

bool limber_wants_pairs(const struct product_request *r, const struct target *t)
{
    return (r->contract->promise == LIMBER_CONTRACT_CORRECT ||
            r->contract->promise == LIMBER_CONTRACT_BITS) &&
           limber_format_is_binary(r->c) && limber_format_embeds(r->a, LIMBER_F64) &&
           limber_format_embeds(r->b, LIMBER_F64) && !limber_is_device(t) && !limber_is_tiny(r) &&
           r->k > 0;
}

/* Source: docs/accuracy.md, "Scaled pairs". */
double limber_pair_share(const struct product_request *r)
{
    return ldexp(1, 2 + 2 * (k_class(r->k) + 1) - 106);
}

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

/* The size of C's sides, which says how often operands are reused, affects the choice of a scheme.
 * CPUs have two classes.  A device's smallest class is for small C, the next for short sides. */
enum { COARSE_SIZE = 8 };

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

/* Rounds up: more bits than the contract asks for keep it, too. */
static int bits_class(int bits)
{
    static const int steps[] = { 8, 11, 16, 20, 24, 32, 40, 48, 53, 64, 80, 96, 113, 128, 160 };

    for (size_t i = 0; i < COUNT(steps); i++)
        if (bits <= steps[i])
            return steps[i];
    return bits;
}

/* Fewer classes of k, for promises that do not depend on k. */
static int coarse_k_class(int kbits)
{
    return kbits <= 12 ? 12 : kbits <= 16 ? 16 : kbits <= 24 ? 24 : kbits;
}

/* Returns the properties that a mask's class keeps.  Devices compare a captured call's data with
 * bounds, which have no `reach`. */
static unsigned use_of_classes(const struct product_request *r, const struct target *t, bool coarse)
{
    bool correct = r->contract->promise == LIMBER_CONTRACT_CORRECT;

    return (coarse ? CLASS_coarse : 0) | (correct && !r->conv ? CLASS_widths : 0) |
           (r->contract->scheme ? CLASS_named : 0) |
           (r->conv ? CLASS_ranges | (limber_is_device(t) ? 0 : CLASS_reach) : 0);
}

/* Gives operands of similar widths one width, so that few pairs of classes occur. */
static void join_widths(struct node *a, struct node *b, bool first_pass, bool correct)
{
    enum { BYTE = 8, SHORT = 24 };
    int64_t wa = limber_num(a, ATTR_width), wb = limber_num(b, ATTR_width);
    int64_t most = wa > wb ? wa : wb;

    if (wa == 0 || wb == 0 || most <= BYTE)
        return;
    if (first_pass || (wa > SHORT && wb > SHORT))
        wa = wb = most;
    wa = wa < SHORT ? SHORT : wa;
    wb = wb < SHORT ? SHORT : wb;
    limber_node_set(a, ATTR_width, wa);
    limber_node_set(b, ATTR_width, wb);
    if (correct) {
        limber_node_set(a, ATTR_spread, wa);
        limber_node_set(b, ATTR_spread, wb);
    }
}

/* Sets the scheme of one plan for all data: the second of two named ones, the named one, `native`
 * for a stated order, or `accumulator`, which alone can tell that a sum is no integer. */
static void set_wanted(struct request_class *out, const struct product_request *r, bool fractional)
{
    char name[2][SCHEME_NAME];

    limber_scheme_names(r->contract, name);
    strcpy(out->wanted, *name[1]                  ? name[1] :
                        *name[0]                  ? name[0] :
                        limber_order(r->contract) ? "native" :
                        fractional                ? "accumulator" :
                                                    "");
}

void limber_request_class(struct request_class *out, const struct product_request *r,
                          const struct target *t, const struct mask *a, const struct mask *b,
                          const struct first_pass *first_pass, bool fractional)
{
    limber_promise promise = r->contract->promise;
    bool coarse = limber_is_coarse(r, t);
    unsigned use = use_of_classes(r, t, coarse);

    memset(out, 0, sizeof *out);
    out->kbits = k_class(r->k);
    out->bits = promise == LIMBER_CONTRACT_BITS ? r->contract->bits : 0;
    if (coarse && (promise == LIMBER_CONTRACT_BITS || promise == LIMBER_CONTRACT_CORRECT)) {
        out->kbits = coarse_k_class(out->kbits);
        out->bits = out->bits ? bits_class(out->bits) : 0;
    }
    out->size = limber_is_device(t)                        ? size_class(r) :
                coarse && limber_frees_scheme(r->contract) ? COARSE_SIZE :
                                                             0;
    out->wrap = limber_num_is_int(r->c) && limber_wraps(r->contract, r->a, r->b);
    set_wanted(out, r, fractional);
    limber_mask_class(a, r->a, use, &out->data[0]);
    limber_mask_class(b, r->b, use, &out->data[1]);
    if (coarse && !limber_is_integer(r->a) && !limber_is_integer(r->b))
        join_widths(&out->data[0], &out->data[1], first_pass->bits > 0,
                    promise == LIMBER_CONTRACT_CORRECT);
}

double limber_stated_budget(const struct plan *p, limber_format c)
{
    double u = limber_format_roundoff(c);

    switch (p->promise) {
    case LIMBER_CONTRACT_REPRODUCIBLE:
    case LIMBER_CONTRACT_NATIVE: return fmax(least_k(p->kbits) + 2 - p->roundings, 0) * u;
    case LIMBER_CONTRACT_BITS: return ldexp(1, -p->bits) - p->roundings * u;
    case LIMBER_CONTRACT_FAST:
    case LIMBER_CONTRACT_SIMULATE: return INFINITY;
    default: return 0;
    }
}
