/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the order in which an implementation sums k products, only from its results.
 *
 * One product is M, another is -M, and all others are "ones": equal terms so small that they vanish
 * when they are added to M.  The result counts the ones that were added after M and -M had
 * cancelled. So k minus the result is the number of terms below the node of the tree where M and -M
 * meet.  For one term, these numbers with all other terms are the sizes of the nodes on its path to
 * the root; terms with equal numbers meet it in the same node.  If sums cannot count to k, only
 * some ones are set at a time.  Roundings other than to nearest also leave multiples of M's last
 * place, which are removed.
 *
 * Source: Xie, Chen, Yan, Lin, FPRev, USENIX ATC 2025: section 4 (the basic tree, and nodes of more
 * than two terms). */
#include "research/reveal.h"

#include <math.h>
#include <stdlib.h>

/* ---- what numbers the sum can have ----------------------------------------------------------- */

void limber_reveal_clear(const struct reveal *r)
{
    for (int64_t p = 0; p < r->sum->k; p++)
        r->a[p] = r->b[p] = 0;
}

/* Sets product p to 2^exponent, by two factors that have half of the exponent each. */
void limber_reveal_power(const struct reveal *r, int64_t p, int exponent)
{
    const int half = exponent >= 0 ? exponent / 2 : -(-exponent / 2);

    r->a[p] = ldexp(1, half);
    r->b[p] = ldexp(1, exponent - half);
}

/* Calls the sum under study on r->a and r->b.  Returns false if it fails. */
bool limber_reveal_ask(struct reveal *r, double *sum)
{
    r->failed = r->sum->call(r->sum->user, r->a, r->b, r->sum->k, sum) != 0;
    if (!r->failed)
        return true;
    return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT, "the sum under study failed");
}

/* Asks for the sum of one product 2^exponent among zeros.  Sets *back to true if the sum is
 * 2^exponent.  Returns false if the sum fails. */
static bool ask_power(struct reveal *r, int exponent, bool *back)
{
    double sum;

    limber_reveal_clear(r);
    limber_reveal_power(r, 0, exponent);
    if (!limber_reveal_ask(r, &sum))
        return false;
    *back = sum == ldexp(1, exponent);
    return true;
}

/* Finds by bisection the last exponent, on the way from `good` to `end`, for which the sum returns
 * the power of two unchanged. */
static bool find_end(struct reveal *r, int good, int end, int *found)
{
    bool back;

    if (!ask_power(r, end, &back))
        return false;
    for (*found = back ? end : good; !back && abs(end - *found) > 1;) {
        const int middle = (*found + end) / 2;
        bool here;

        if (!ask_power(r, middle, &here))
            return false;
        *(here ? found : &end) = middle;
    }
    return true;
}

/* Finds which exponents products can have, and which powers of two sums return unchanged.  Returns
 * false if a sum fails. */
static bool find_range(struct reveal *r)
{
    const limber_format operand = r->sum->operand, result = r->sum->result;
    const int high = 2 * limber_format_emax(operand), low = 2 * limber_format_emin(operand);
    const int most = limber_format_emax(result), least = limber_format_emin(result);
    bool back;

    r->high = high < most ? high : most;
    r->low = low > least ? low : least;
    if (!ask_power(r, 0, &back))
        return false;
    if (!back)
        return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT,
                           "a product 1 among zeros does not give 1: this is no sum of products");
    if (!find_end(r, 0, r->high, &r->top) || !find_end(r, 0, r->low, &r->bottom))
        return false;
    r->unit = r->bottom + 60 > 0 ? r->bottom + 60 : 0;
    r->unit = r->unit < r->top - 1 ? r->unit : r->top - 1;
    return true;
}

/* Asks for the sum of two terms: term i is 1 and term j is 2^-bits.  Sets *kept to true if the sum
 * is exact.  Returns false if the sum fails. */
static bool ask_two_terms(struct reveal *r, int64_t i, int64_t j, int bits, bool *kept)
{
    double sum;

    limber_reveal_clear(r);
    limber_reveal_power(r, i, r->unit);
    limber_reveal_power(r, j, r->unit - bits);
    if (!limber_reveal_ask(r, &sum))
        return false;
    *kept = ldexp(sum, -r->unit) == 1 + ldexp(1, -bits);
    return true;
}

/* Finds the number of fraction bits that sums keep: that of the sum of terms 0 and 1, or of terms 0
 * and k - 1 if it is smaller.  Returns false if a sum fails. */
static bool find_bits(struct reveal *r)
{
    int most = r->unit - r->bottom;

    most = most < 52 ? most : 52;
    r->bits = most;
    for (int turn = 0; turn < 2; turn++) {
        const int64_t j = turn ? r->sum->k - 1 : 1;
        int good = 0, bad = r->bits + 1;

        while (bad - good > 1) {
            /* first try the usual cases: the fraction bits of the result's format, and one more */
            const int guess = r->sum->result.frac_bits + (good == r->sum->result.frac_bits);
            const int middle = guess > good && guess < bad ? guess : (good + bad) / 2;
            bool kept;

            if (!ask_two_terms(r, 0, j, middle, &kept))
                return false;
            *(kept ? &good : &bad) = middle;
        }
        r->bits = good;
    }
    return true;
}

/* ---- the tree in which terms are added ------------------------------------------------------- */

/* Sets terms i and j to M and -M, and up to r->counted other terms, from *next on, to ones.  Adds
 * to *all the number of ones that the sum contains, and moves *next past the terms that were set.
 * Returns false, with an error, if the sum fails or has no such number of ones. */
static bool count_left(struct reveal *r, int32_t i, int32_t j, int32_t *next, int64_t *all)
{
    const double last = ldexp(1, r->large - r->bits - 1);
    int64_t there = 0;
    double sum, left;

    limber_reveal_clear(r);
    limber_reveal_power(r, i, r->large);
    limber_reveal_power(r, j, r->large);
    r->a[j] = -r->a[j];
    for (; *next < r->sum->k && there < r->counted; ++*next)
        if (*next != i && *next != j) {
            limber_reveal_power(r, *next, r->one);
            there++;
        }
    if (!limber_reveal_ask(r, &sum))
        return false;
    left = ldexp(sum - last * floor(sum / last), -r->one);
    if (!(left >= 0 && left <= (double)there && left == floor(left)))
        return limber_fail(
            r->d, LIMBER_STATUS_BAD_ARGUMENT,
            "terms %d and %d: %g is no number of terms that are left: this is no sum in one "
            "order of rounded additions, or not in this format",
            (int)i, (int)j, ldexp(sum, -r->one));
    *all += (int64_t)left;
    return true;
}

/* Returns the number of terms below the lowest node of the tree that has both i and j below it.
 * 0 after a failure. */
static int64_t terms_at_meeting(struct reveal *r, int32_t i, int32_t j)
{
    int64_t left = 0;

    for (int32_t next = 0; next < r->sum->k;)
        if (!count_left(r, i, j, &next, &left))
            return 0;
    return r->sum->k - left;
}

/* Returns a hash of x, computed as in the generator splitmix64. */
uint64_t limber_reveal_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Appends a node without children: a leaf of the tree, or an inner node if `leaf` is negative. */
int32_t limber_reveal_leaf(struct tree *t, int32_t leaf)
{
    const uint64_t set = leaf >= 0 ? limber_reveal_mix((uint64_t)leaf) : 0;

    t->node[t->nodes] = (struct branch){ leaf, -1, -1, 0, leaf >= 0, set };
    return t->nodes++;
}

/* Returns a hash of the sets of terms below all inner nodes.  Trees with the same sets have the
 * same hash. */
uint64_t limber_reveal_hash(const struct tree *t)
{
    uint64_t sum = 0;

    for (int32_t at = 0; at < t->nodes; at++)
        sum += t->node[at].leaf < 0 ? limber_reveal_mix(t->node[at].set) : 0;
    return sum;
}

/* Makes `child` the last child of a node, and counts the child's terms as the node's. */
void limber_reveal_hang(struct tree *t, int32_t node, int32_t child)
{
    int32_t *at = &t->node[node].first;

    while (*at >= 0)
        at = &t->node[*at].next;
    *at = child;
    t->node[node].children++;
    t->node[node].terms += t->node[child].terms;
    t->node[node].set += t->node[child].set;
}

/* A term in a group of terms whose tree is built. */
struct term {
    int32_t leaf;
    /* number of terms below the lowest node that has it and the group's first term below it */
    int64_t meets;
};

static int compare_meetings(const void *a, const void *b)
{
    const struct term *x = a, *y = b;

    return x->meets != y->meets ? (x->meets < y->meets ? -1 : 1) : x->leaf < y->leaf ? -1 : 1;
}

/* Builds the tree of `count` terms. term[i].meets is the number of terms below the lowest node
 * that has both term i and term 0 below it.  Returns the root, or -1 after a failure. */
static int32_t build_tree(struct reveal *r, struct term *term, int64_t count)
{
    int32_t node = limber_reveal_leaf(&r->found, term[0].leaf), parent, child;

    qsort(term + 1, (size_t)(count - 1), sizeof *term, compare_meetings);
    for (int64_t i = 1, end; i < count; i = end) {
        const int64_t size = term[i].meets;

        for (end = i; end < count && term[end].meets == size; end++)
            ;
        parent = limber_reveal_leaf(&r->found, -1);
        limber_reveal_hang(&r->found, parent, node);
        /* Terms whose lowest common node with term `first` is smaller than `parent` belong to the
         * same child of `parent` as `first`. */
        for (int64_t first = i, same; first < end; first = same) {
            for (int64_t j = first + 1; j < end; j++)
                if ((term[j].meets = terms_at_meeting(r, term[first].leaf, term[j].leaf)) == 0)
                    return -1;
            qsort(term + first + 1, (size_t)(end - first - 1), sizeof *term, compare_meetings);
            for (same = first + 1; same < end && term[same].meets < size; same++)
                ;
            if ((child = build_tree(r, term + first, same - first)) < 0)
                return -1;
            limber_reveal_hang(&r->found, parent, child);
        }
        if (r->found.node[parent].terms != size) {
            limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT,
                        "term %d: %d terms where %d should meet: this is no sum in one order of "
                        "rounded additions, or not in this format",
                        (int)term[0].leaf, (int)r->found.node[parent].terms, (int)size);
            return -1;
        }
        node = parent;
    }
    return node;
}

/* ---- the tree as text ------------------------------------------------------------------------ */

/* Returns the end of the arithmetic progression of terms' indices that begins at item i. */
static int32_t progression_end(const struct branch *node, const int32_t *item, int32_t i,
                               int32_t count)
{
    int32_t end = i + 1;

    while (end < count && node[item[end]].leaf >= 0 &&
           (end == i + 1 || node[item[end]].leaf - node[item[end - 1]].leaf ==
                                node[item[i + 1]].leaf - node[item[i]].leaf))
        end++;
    return end;
}

/* Returns true for a node with more than two children that are all terms.  The sum adds these terms
 * at once, as a block. */
static bool is_block(const struct reveal *r, int32_t at)
{
    if (r->found.node[at].children < 3)
        return false;
    for (int32_t c = r->found.node[at].first; c >= 0; c = r->found.node[c].next)
        if (r->found.node[c].leaf < 0)
            return false;
    return true;
}

static void print_node(const struct reveal *r, int32_t at, struct text *out);

/* Prints nodes separated by commas.  Prints three or more equally spaced terms as
 * first..last[:step]. */
static void print_items(const struct reveal *r, const int32_t *item, int32_t count,
                        struct text *out)
{
    const struct branch *node = r->found.node;

    for (int32_t i = 0, end; i < count; i = end) {
        limber_text_add(out, "%s", i ? ", " : "");
        end = i + 1;
        if (node[item[i]].leaf < 0) {
            limber_text_add(out, is_block(r, item[i]) ? "[" : "");
            print_node(r, item[i], out);
            limber_text_add(out, is_block(r, item[i]) ? "]" : "");
            continue;
        }
        end = progression_end(node, item, i, count);
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

/* Returns the child with the most terms.  It is the sum to which the other children are added. */
static int32_t largest_child(const struct reveal *r, int32_t at)
{
    int32_t largest = r->found.node[at].first;

    for (int32_t c = largest; c >= 0; c = r->found.node[c].next)
        if (r->found.node[c].terms > r->found.node[largest].terms)
            largest = c;
    return largest;
}

/* Lists the children of a node, without the child `but` (-1: lists all).  Returns their number. */
static int32_t list_children(const struct reveal *r, int32_t at, int32_t but, int32_t *item)
{
    int32_t count = 0;

    for (int32_t c = r->found.node[at].first; c >= 0; c = r->found.node[c].next)
        if (c != but)
            item[count++] = c;
    return count;
}

/* Prints a chain of additions: [x, y, z] adds y to x, then z to the sum; {x, y, z} adds them at
 * once.  item: memory for twice as many indices as the node has terms. */
static void print_path(const struct reveal *r, int32_t at, int32_t *item, struct text *out)
{
    const struct branch *node = r->found.node;
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

/* Prints a node: a term, a block of terms, or a sum in the order of its additions. */
static void print_node(const struct reveal *r, int32_t at, struct text *out)
{
    const struct branch *node = r->found.node;
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

/* ---- the search ------------------------------------------------------------------------------ */

/* Returns the logarithm of count to base 2, rounded up. */
static int bits_of(int64_t count)
{
    int bits = 0;

    while ((int64_t)1 << bits < count)
        bits++;
    return bits;
}

/* Chooses the exponents of the large term M, which masks others, and of the small equal terms (the
 * ones), so that `counted` ones together are still at least `beyond` binades below M.  If the range
 * of numbers is too small, lowers r->counted; returns false if not even a single one fits. */
static bool set_attempt(struct reveal *r, int64_t counted, int beyond)
{
    const int span = r->top - r->bottom;
    int bits = bits_of(counted);

    if (span < beyond)
        return false;
    bits = bits < span - beyond ? bits : span - beyond;
    r->counted = counted < (int64_t)1 << bits ? counted : (int64_t)1 << bits;
    beyond += bits;
    r->large = beyond < r->top ? beyond : r->top;
    if (r->large - beyond < r->bottom)
        r->large = r->bottom + beyond;
    r->one = r->large - beyond;
    return true;
}

/* Finds the tree of all terms from the number of terms below the lowest common node of each term
 * and term 0.  Returns false if the search fails, or if no term vanishes beside M. */
static bool find_tree(struct reveal *r, struct term *term)
{
    const int64_t k = r->sum->k;
    bool exact = k > 2;

    r->found.nodes = 0;
    for (int32_t p = 0; p < k; p++) {
        term[p] = (struct term){ p, p ? terms_at_meeting(r, 0, p) : 0 };
        if (p && term[p].meets == 0)
            return false;
        exact = exact && (p == 0 || term[p].meets == 2);
    }
    if (exact)
        return limber_fail(r->d, LIMBER_STATUS_BAD_ARGUMENT,
                           "nothing is lost beside a large term: sums are exact, or of more bits "
                           "than the format of results");
    r->root = build_tree(r, term, k);
    return r->root >= 0;
}

/* Tries three settings of the ones:
 * (1) just small enough to vanish beside M if sums round to nearest;
 * (2) so few of them that what other roundings leave is still visible;
 * (3) as far below M as numbers reach, since fused blocks keep more bits of terms.
 * The result is the first tree for which there is a unit, else the first tree.  If fused blocks
 * keep many bits, ones do not vanish, so a tree may be wrong.  If all settings fail, the first
 * error is reported. */
static bool try_attempts(struct reveal *r, struct term *term, struct text *tree, struct text *words)
{
    const int64_t k = r->sum->k, all = (int64_t)1 << (r->bits < 30 ? r->bits : 30);
    const int64_t few = r->bits > 4 ? (int64_t)1 << (r->bits - 4) / 2 : 1, most = all < k ? all : k;
    const int near = r->bits + 3, far = r->top - r->bottom - bits_of(most);
    const struct {
        int64_t counted;
        int beyond;
        bool differs;
    } attempt[] = { { most, near, true },
                    { few, near, few < most },
                    { most, far < near + 47 ? far : near + 47, far > near } };
    struct diag first = { 0 }, *d = r->d;
    bool found = false, good = true;

    for (size_t i = 0; i < COUNT(attempt) && !r->failed && good && !words->n; i++) {
        struct diag here = { 0 };

        r->d = &here;
        if (!attempt[i].differs || !set_attempt(r, attempt[i].counted, attempt[i].beyond))
            continue;
        if (find_tree(r, term)) {
            r->d = d;
            good = limber_reveal_words(r, words);
            if (!found || words->n) {
                limber_text_clear(tree);
                print_node(r, r->root, tree);
            }
            found = true;
        }
        first = first.status ? first : here;
    }
    r->d = d;
    if (found)
        return good;
    return first.status ?
               limber_fail_again(d, &first) :
               limber_fail(
                   d, LIMBER_STATUS_BAD_ARGUMENT,
                   "k = %lld: the range of operands or sums is too narrow for a term beside "
                   "which others vanish",
                   (long long)k);
}

/* Finds the order in which the caller's function adds products, and writes it to `tree`. words:
 * the description of a simulated unit that adds in this order, if there is one. */
bool limber_reveal_order(const struct revealed_sum *sum, struct text *tree, struct text *words,
                         struct diag *d)
{
    const size_t k = (size_t)sum->k;
    struct reveal r = { .sum = sum, .d = d, .root = -1 };
    struct term *term = malloc(k * sizeof *term);
    bool good;

    r.a = malloc(k * sizeof *r.a);
    r.b = malloc(k * sizeof *r.b);
    r.found.node = malloc(2 * k * sizeof *r.found.node);
    r.said.node = malloc(2 * k * sizeof *r.said.node);
    good = (term && r.a && r.b && r.found.node && r.said.node) ||
           limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for %zu terms", k);
    good = good && find_range(&r) && find_bits(&r) && try_attempts(&r, term, tree, words) &&
           (!(tree->failed || words->failed) ||
            limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a text"));
    free(term);
    free(r.a);
    free(r.b);
    free(r.found.node);
    free(r.said.node);
    return good;
}
