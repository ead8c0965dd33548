/* SPDX-License-Identifier: BSD-3-Clause
 * The order in which an implementation sums k products, from its results alone.
 *
 * One product is M, another is -M, all others are 1, which vanish beside M.  What is left are the
 * ones that are added after M and -M have met: k less the number of terms below the node where the
 * two meet.  These numbers of all pairs with one term are the nodes on its way to the root; terms
 * with equal numbers hang from the same node.
 *
 *   source  Xie, Chen, Yan, Lin, FPRev, USENIX ATC 2025: section 4 (the basic tree, and nodes of
 *           more than two terms) */
#include "ir/ir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct branch {
    int32_t leaf; /* -1: a node */
    int32_t first, next; /* child; sibling; -1: none */
    int32_t children, terms;
};

struct reveal {
    const struct revealed_sum *sum;
    double *a, *b;
    struct branch *node;
    int32_t nodes;
    struct diag *d;
};

/* Factors of a power of 2. */
static void set_power(const struct reveal *r, int64_t p, int exponent)
{
    const int half = exponent >= 0 ? exponent / 2 : -(-exponent / 2);

    r->a[p] = ldexp(1, half);
    r->b[p] = ldexp(1, exponent - half);
}

static bool ask(struct reveal *r, double *sum)
{
    if (r->sum->call(r->sum->user, r->a, r->b, r->sum->k, sum) == 0)
        return true;
    return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT, "the sum under study failed");
}

/* Terms below the node where terms i and j meet; 0 after a failure. */
static int64_t meet(struct reveal *r, int32_t i, int32_t j)
{
    const struct revealed_sum *s = r->sum;
    double sum, left;

    set_power(r, i, s->large);
    set_power(r, j, s->large);
    r->a[j] = -r->a[j];
    if (!ask(r, &sum))
        return 0;
    set_power(r, i, s->one);
    set_power(r, j, s->one);
    left = ldexp(sum, -s->one);
    if (!(left >= 0 && left <= (double)(s->k - 2) && left == floor(left))) {
        limber_fail(
            r->d, LIMBER_STATUS_BAD_ARGUMENT,
            "terms %d and %d: %g is no number of terms that are left: this is no sum in one "
            "order of rounded additions, or not in this format",
            (int)i, (int)j, left);
        return 0;
    }
    return s->k - (int64_t)left;
}

static int32_t add_branch(struct reveal *r, int32_t leaf)
{
    r->node[r->nodes] = (struct branch){ leaf, -1, -1, 0, leaf >= 0 };
    return r->nodes++;
}

static void hang(struct reveal *r, int32_t node, int32_t child)
{
    int32_t *at = &r->node[node].first;

    while (*at >= 0)
        at = &r->node[*at].next;
    *at = child;
    r->node[node].children++;
    r->node[node].terms += r->node[child].terms;
}

struct term {
    int32_t leaf;
    int64_t meets; /* with the first of its group */
};

static int by_meeting(const void *a, const void *b)
{
    const struct term *x = a, *y = b;

    return x->meets != y->meets ? (x->meets < y->meets ? -1 : 1) : x->leaf < y->leaf ? -1 : 1;
}

/* The tree of terms, the first of which meets the others as they say; -1 after a failure. */
static int32_t build(struct reveal *r, struct term *term, int64_t count)
{
    int32_t node = add_branch(r, term[0].leaf), parent, child;

    qsort(term + 1, (size_t)(count - 1), sizeof *term, by_meeting);
    for (int64_t i = 1, end; i < count; i = end) {
        const int64_t size = term[i].meets;

        for (end = i; end < count && term[end].meets == size; end++)
            ;
        parent = add_branch(r, -1);
        hang(r, parent, node);
        /* all of one subtree, or several that are added at once */
        for (int64_t first = i, same; first < end; first = same) {
            for (int64_t j = first + 1; j < end; j++)
                if ((term[j].meets = meet(r, term[first].leaf, term[j].leaf)) == 0)
                    return -1;
            qsort(term + first + 1, (size_t)(end - first - 1), sizeof *term, by_meeting);
            for (same = first + 1; same < end && term[same].meets < size; same++)
                ;
            if ((child = build(r, term + first, same - first)) < 0)
                return -1;
            hang(r, parent, child);
        }
        if (r->node[parent].terms != size) {
            limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT,
                        "term %d: %d terms where %d should meet: this is no sum in one order of "
                        "rounded additions, or not in this format",
                        (int)term[0].leaf, (int)r->node[parent].terms, (int)size);
            return -1;
        }
        node = parent;
    }
    return node;
}

/* ---- as text --------------------------------------------------------------------------------- */

/* Terms [i, end) of a list that are as far apart as the first two. */
static int32_t stretch(const struct branch *node, const int32_t *item, int32_t i, int32_t count)
{
    int32_t end = i + 1;

    while (end < count && node[item[end]].leaf >= 0 &&
           (end == i + 1 || node[item[end]].leaf - node[item[end - 1]].leaf ==
                                node[item[i + 1]].leaf - node[item[i]].leaf))
        end++;
    return end;
}

/* A node of more than two terms, and of no sums. */
static bool is_block(const struct reveal *r, int32_t at)
{
    if (r->node[at].children < 3)
        return false;
    for (int32_t c = r->node[at].first; c >= 0; c = r->node[c].next)
        if (r->node[c].leaf < 0)
            return false;
    return true;
}

static void print_node(const struct reveal *r, int32_t at, struct text *out);

/* Separated by commas; of terms in a row the first and the last. */
static void print_items(const struct reveal *r, const int32_t *item, int32_t count,
                        struct text *out)
{
    const struct branch *node = r->node;

    for (int32_t i = 0, end; i < count; i = end) {
        limber_text_add(out, "%s", i ? ", " : "");
        end = i + 1;
        if (node[item[i]].leaf < 0) {
            limber_text_add(out, is_block(r, item[i]) ? "[" : "");
            print_node(r, item[i], out);
            limber_text_add(out, is_block(r, item[i]) ? "]" : "");
            continue;
        }
        end = stretch(node, item, i, count);
        if (end - i < 3) {
            end = i + 1;
            limber_text_add(out, "%d", (int)node[item[i]].leaf);
            continue;
        }
        limber_text_add(out, "%d..%d", (int)node[item[i]].leaf, (int)node[item[end - 1]].leaf);
        if (node[item[i + 1]].leaf - node[item[i]].leaf != 1)
            limber_text_add(out, ":%d", (int)(node[item[i + 1]].leaf - node[item[i]].leaf));
    }
}

/* The child with the most terms: the sum that the others are added to. */
static int32_t largest_child(const struct reveal *r, int32_t at)
{
    int32_t largest = r->node[at].first;

    for (int32_t c = largest; c >= 0; c = r->node[c].next)
        if (r->node[c].terms > r->node[largest].terms)
            largest = c;
    return largest;
}

/* Children but one, which may be -1. */
static int32_t list_children(const struct reveal *r, int32_t at, int32_t but, int32_t *item)
{
    int32_t count = 0;

    for (int32_t c = r->node[at].first; c >= 0; c = r->node[c].next)
        if (c != but)
            item[count++] = c;
    return count;
}

/* [x, y, z]: y is added to x, then z; {x, y, z}: at once.  item: room for all of its terms. */
static void print_path(const struct reveal *r, int32_t at, int32_t *item, struct text *out)
{
    const struct branch *node = r->node;
    int32_t *path = item + node[at].terms, depth = 0, count = 0, x = at;

    for (; node[x].leaf < 0 && !is_block(r, x); x = largest_child(r, x))
        path[depth++] = x;
    limber_text_add(out, "[");
    if (node[x].leaf < 0) {
        print_node(r, x, out);
        limber_text_add(out, ", ");
    } else {
        item[count++] = x;
    }
    while (depth-- > 0) {
        const bool pair = node[path[depth]].children == 2;
        const int32_t below = largest_child(r, path[depth]);

        if (pair) {
            count += list_children(r, path[depth], below, item + count);
            if (depth > 0 && node[path[depth - 1]].children == 2)
                continue;
        }
        print_items(r, item, count, out);
        if (!pair) {
            limber_text_add(out, count ? ", {" : "{");
            print_items(r, item, list_children(r, path[depth], below, item), out);
            limber_text_add(out, "}");
        }
        count = 0;
        limber_text_add(out, depth > 0 ? ", " : "");
    }
    limber_text_add(out, "]");
}

static void print_node(const struct reveal *r, int32_t at, struct text *out)
{
    const struct branch *node = r->node;
    int32_t *item;

    if (node[at].leaf >= 0) {
        limber_text_add(out, "%d", (int)node[at].leaf);
        return;
    }
    item = malloc((size_t)node[at].terms * 2 * sizeof *item);
    if (!item) {
        out->failed = true;
        return;
    }
    if (is_block(r, at)) {
        limber_text_add(out, "{");
        print_items(r, item, list_children(r, at, -1, item), out);
        limber_text_add(out, "}");
    } else {
        print_path(r, at, item, out);
    }
    free(item);
}

/* ---- as words of a unit ---------------------------------------------------------------------- */

/* Whether `at` adds terms first, first + 1, ... one by one. */
static bool is_chain(const struct reveal *r, int32_t at, int32_t first)
{
    const struct branch *node = r->node;
    int32_t last = first + node[at].terms - 1;

    for (; node[at].leaf < 0; at = node[at].first, last--) {
        const int32_t other = node[node[at].first].next;

        if (node[at].children != 2 || node[other].leaf != last)
            return false;
    }
    return node[at].leaf == first;
}

/* Products in a group, or 0: chains of so many, the last of which may be shorter, one by one. */
static int32_t groups_of(const struct reveal *r, int32_t root)
{
    const struct branch *node = r->node;
    int32_t x = root, group, end = node[root].terms;

    while (!is_chain(r, x, 0))
        x = node[x].first;
    group = node[x].terms;
    if (group < 2)
        return 0;
    for (x = root; node[x].terms > group; x = node[x].first) {
        const int32_t other = node[node[x].first].next, terms = node[other].terms;

        end -= terms;
        if (node[x].children != 2 || end % group || terms > group || (terms < group && x != root) ||
            !is_chain(r, other, end))
            return 0;
    }
    return group;
}

static void clear(const struct reveal *r)
{
    for (int64_t p = 0; p < r->sum->k; p++)
        r->a[p] = r->b[p] = 0;
}

/* x x where x has more bits than half of the sum's, and minus its rounded value: is the product
 * rounded before it is added? */
static bool rounds_products(struct reveal *r, int32_t root, bool *rounds)
{
    const struct branch *node = r->node;
    const int sig = r->sum->sum_bits, half = sig / 2 + 1;
    int32_t x = root, pair[2];
    bool fused = false;

    *rounds = false;
    if (2 * r->sum->operand_bits <= sig || r->sum->operand_bits <= half)
        return true; /* products are exact */
    while (node[x].terms > 2)
        x = largest_child(r, x);
    pair[0] = node[node[x].first].leaf;
    pair[1] = node[node[node[x].first].next].leaf;
    clear(r);
    for (int i = 0; i < 2; i++) {
        const double y = 1 + ldexp(1, -half);
        double sum;

        r->a[pair[i]] = -(1 + ldexp(2, -half));
        r->b[pair[i]] = 1;
        r->a[pair[1 - i]] = r->b[pair[1 - i]] = y;
        if (!ask(r, &sum))
            return false;
        fused = fused || sum != 0;
    }
    *rounds = !fused;
    return true;
}

/* Whether terms are added from the last to the first. */
static bool is_reversed(const struct reveal *r, int32_t at)
{
    const struct branch *node = r->node;
    int32_t p = 0;

    for (; node[at].leaf < 0; at = node[node[at].first].next, p++)
        if (node[at].children != 2 || node[node[at].first].leaf != p)
            return false;
    return node[at].leaf == p;
}

/* Terms that are added at once, to the sum of those before them, or 0: so many each time, the last
 * time fewer, from the first to the last. */
static int32_t blocks_of(const struct reveal *r, int32_t root)
{
    const struct branch *node = r->node;
    int32_t x = root, block, end = node[root].terms;

    while (node[x].leaf < 0 && !is_block(r, x))
        x = node[x].first;
    block = node[x].terms;
    if (block < 3 || x == root) /* of one block alone nothing says what follows it */
        return 0;
    for (int32_t at = root, first;; at = node[at].first) {
        const bool last = at == x;
        const int32_t terms = node[at].terms - (last ? 0 : node[node[at].first].terms);

        first = end - terms;
        if ((at == root ? terms > block : terms != block) || first % block)
            return 0;
        for (int32_t c = last ? node[at].first : node[node[at].first].next; c >= 0;
             c = node[c].next, first++)
            if (node[c].leaf != first)
                return 0;
        if (last)
            return block;
        end -= terms;
    }
}

/* Fraction bits of sums: those of 1 + 2^-t that are kept.  near, far: terms that are added one
 * behind the other. */
static bool find_fraction(struct reveal *r, int32_t near, int32_t far, int *bits, bool *truncates)
{
    double sum;

    clear(r);
    set_power(r, near, 0);
    for (*bits = r->sum->sum_bits - 1; *bits > 0; --*bits) {
        set_power(r, far, -*bits);
        if (!ask(r, &sum))
            return false;
        if (sum == 1 + ldexp(1, -*bits))
            break;
    }
    set_power(r, far, -*bits - 2);
    r->a[far] *= 3;
    if (!ask(r, &sum))
        return false;
    *truncates = sum == 1;
    return true;
}

/* Bits below the largest exponent that are kept of terms that are added at once. */
static bool find_alignment(struct reveal *r, int *bits)
{
    double sum = 1;

    clear(r);
    set_power(r, 2, 0);
    for (*bits = 0; sum == 1; ++*bits) {
        set_power(r, 0, *bits + 1);
        set_power(r, 1, *bits + 1);
        r->a[1] = -r->a[1];
        if (*bits + 1 >= r->sum->large)
            return true;
        if (!ask(r, &sum))
            return false;
    }
    --*bits;
    return true;
}

/* What is added late: the sum of a block's products does not know acc's exponent. */
struct late {
    int bits, reach;
    bool halves;
};

/* Powers of 2, or 0: acc, which the first block leaves, and two products of the next block. */
static bool ask_next(struct reveal *r, int32_t block, const double value[3], double *sum)
{
    clear(r);
    for (int i = 0; i < 3; i++) {
        const int32_t at = i ? block + i - 1 : 0;

        if (value[i] == 0)
            continue;
        set_power(r, at, ilogb(value[i]));
        r->a[at] *= value[i] < 0 ? -1 : 1;
    }
    return ask(r, sum);
}

/* What is aligned to acc loses what lies `frac` bits below it.  A sum to which acc is added late
 * keeps more, as ties of acc's tell.  There a negative term that vanishes is rounded down, and cut
 * elsewhere. */
static bool find_late(struct reveal *r, int32_t block, int frac, struct late *late)
{
    const int most = r->sum->large < 60 ? r->sum->large : 60, tie = r->sum->sum_bits;
    const int least = frac > tie ? frac : tie;
    const double far = ldexp(1, frac + 3);
    double sum;

    *late = (struct late){ 0, 0, false };
    if (r->sum->k < block + 2)
        return true;
    for (late->bits = least; late->bits < 40; late->bits++) {
        if (!ask_next(r, block, (double[3]){ 1, ldexp(1, -tie), ldexp(1, -late->bits - 1) }, &sum))
            return false;
        if (sum == 1)
            break;
    }
    if (late->bits == least) {
        late->bits = 0;
        return true;
    }
    if (!ask_next(r, block, (double[3]){ 0, far, -1 }, &sum))
        return false;
    late->halves = sum != far;
    for (int e = frac + 1; e <= most; e++) {
        if (!ask_next(r, block, (double[3]){ -1, ldexp(1, e), 0 }, &sum))
            return false;
        if (sum == ldexp(1, e)) {
            late->reach = e - 1;
            break;
        }
    }
    return true;
}

/* Nothing where no words say this order. */
static bool set_words(struct reveal *r, int32_t root, struct text *words)
{
    const struct revealed_sum *s = r->sum;
    const bool forward = is_chain(r, root, 0), backward = !forward && is_reversed(r, root);
    const int32_t group = forward || backward ? 0 : groups_of(r, root);
    const int32_t block = forward || backward || group ? 0 : blocks_of(r, root);
    struct late late = { 0, 0, false };
    int fraction, aligned = 0;
    bool rounds = false, truncates;
    char name[32];

    if (!forward && !backward && !group && !block)
        return true;
    if (!find_fraction(r, backward ? (int32_t)s->k - 1 : 0,
                       backward ? (int32_t)s->k - 2 :
                       block    ? block :
                                  1,
                       &fraction, &truncates) ||
        (block ? !find_alignment(r, &aligned) || !find_late(r, block, aligned, &late) :
                 !rounds_products(r, root, &rounds)))
        return false;
    if (fraction == s->sum_bits - 1)
        snprintf(name, sizeof name, "%s", s->name);
    else
        snprintf(name, sizeof name, "(1,%d,%d)", s->exponent_bits, fraction);
    limber_text_add(words, "in=%s", s->operand);
    if (!block)
        limber_text_add(words, " mul=%s", rounds ? name : "exact");
    limber_text_add(words, truncates ? " acc=%s:rz" : " acc=%s", name);
    if (block)
        limber_text_add(words, " block=%d frac=%d", (int)block, aligned);
    if (late.bits)
        limber_text_add(words, " late=%d", late.bits);
    if (late.reach)
        limber_text_add(words, " reach=%d", late.reach);
    if (late.halves)
        limber_text_add(words, " halves=yes");
    if (backward)
        limber_text_add(words, " order=reverse");
    if (group)
        limber_text_add(words, " group=%d", (int)group);
    return true;
}

bool limber_reveal_order(const struct revealed_sum *sum, struct text *tree, struct text *words,
                         struct diag *d)
{
    const size_t k = (size_t)sum->k;
    struct reveal r = { .sum = sum, .d = d };
    struct term *term = malloc(k * sizeof *term);
    int32_t root = -1;
    bool good = true, exact = k > 2;

    r.a = malloc(k * sizeof *r.a);
    r.b = malloc(k * sizeof *r.b);
    r.node = malloc(2 * k * sizeof *r.node);
    if (!term || !r.a || !r.b || !r.node) {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %zu terms", k);
    } else {
        for (int32_t p = 0; p < sum->k; p++)
            set_power(&r, p, sum->one);
        for (int32_t p = 0; p < sum->k && good; p++) {
            term[p] = (struct term){ p, p ? meet(&r, 0, p) : 0 };
            good = p == 0 || term[p].meets > 0;
            exact = exact && (p == 0 || term[p].meets == 2);
        }
        if (good && exact)
            good = limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "nothing is lost beside a large term: sums are exact, or of more "
                               "bits than the format of results");
        root = good ? build(&r, term, sum->k) : -1;
    }
    if (root >= 0) {
        print_node(&r, root, tree);
        good = set_words(&r, root, words);
        if (good && (tree->failed || words->failed))
            good = limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a text");
    }
    free(term);
    free(r.a);
    free(r.b);
    free(r.node);
    return root >= 0 && good;
}
