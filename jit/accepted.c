/* SPDX-License-Identifier: BSD-3-Clause
 * The table of forms of calls that were accepted.  Calls find a form without a lock.  Its memory
 * is reused for another form, when no call uses it, but not freed before the table is. */
#include "jit/accepted.h"

#include <limits.h>
#include <stdlib.h>

/* value that is added to `users` while a form's other fields are being changed; it makes `users`
 * negative */
enum { IN_CHANGE = INT_MIN / 2 };

/* Returns an empty table of calls' forms; NULL if memory runs out. */
struct forms *limber_forms_new(void)
{
    return calloc(1, sizeof(struct forms));
}

/* Adds `words` 64-bit words to a hash. */
static inline uint64_t add_to_hash(uint64_t sum, const void *from, size_t words)
{
    uint64_t word;

    for (size_t i = 0; i < words; i++) {
        memcpy(&word, (const char *)from + 8 * i, 8);
        sum = (sum ^ word ^ sum >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return sum;
}

/* Returns the hash of a form. */
static inline __attribute__((always_inline)) uint64_t form_hash(const struct form *f)
{
    uint64_t sum = add_to_hash(0, f, sizeof *f / 8);

    if (f->flags & FORM_long)
        sum = add_to_hash(sum, f + 1, (sizeof(struct long_form) - sizeof *f) / 8);
    return sum | 1;
}

/* Returns the table's entry for calls of this form (sizes, strides, formats and contract): the ways
 * and kernels that computed them before. */
struct accepted *limber_accepted_find(const limber_context *ctx, const struct form *f)
{
    const uint64_t hash = form_hash(f);
    _Atomic(struct accepted *) *set;

    if (!ctx->forms)
        return NULL;
    set = ctx->forms->place[hash >> (64 - FORM_BITS)];
    for (int i = 0; i < FORM_PLACES; i++) {
        struct accepted *w = atomic_load_explicit(&set[i], memory_order_acquire);

        if (!w || atomic_load_explicit(&w->hash, memory_order_relaxed) != hash)
            continue;
        if (atomic_fetch_add_explicit(&w->users, 1, memory_order_acquire) >= 0 &&
            memcmp(&w->form, f, limber_form_size(f)) == 0) {
            if (!atomic_load_explicit(&w->used, memory_order_relaxed))
                atomic_store_explicit(&w->used, true, memory_order_relaxed);
            return w;
        }
        atomic_fetch_sub_explicit(&w->users, 1, memory_order_relaxed);
    }
    return NULL;
}

/* Removes the kernels that a table entry keeps, and stores them in `list`. */
static void take_kernels(struct accepted *w, struct found *list[MOST_FOUND])
{
    for (size_t i = 0; i < MOST_FOUND; i++)
        list[i] = atomic_exchange(&w->found[i], NULL);
}

/* Frees the list's records of kernels, which no table entry refers to any more.  cache: the cache
 * to which each kernel is given back first; NULL if the cache frees its kernels itself. */
static void free_kernels(struct kernel_cache *cache, struct found *const list[MOST_FOUND])
{
    for (size_t i = 0; i < MOST_FOUND; i++)
        if (list[i]) {
            if (cache)
                limber_kernels_put(cache, list[i]->e);
            free(list[i]->layout);
            free(list[i]);
        }
}

/* Frees the table, which no call uses any more; `all` may be NULL. */
void limber_forms_free(struct forms *all)
{
    for (int i = 0; all && i < FORM_PLACES << FORM_BITS; i++) {
        struct accepted *w = atomic_load(&all->place[i / FORM_PLACES][i % FORM_PLACES]);
        struct found *list[MOST_FOUND];

        if (!w)
            continue;
        take_kernels(w, list);
        free_kernels(NULL, list);
        free(w);
    }
    free(all);
}

/* Returns the number of bytes from the first element of a matrix to the end of the last one. */
static int64_t bytes_of(struct strides s, int64_t rows, int64_t cols, int size)
{
    return rows > 0 && cols > 0 ? ((rows - 1) * s.row + (cols - 1) * s.col + 1) * size : 0;
}

/* Returns an entry of the set that no call uses, for a new form: a new entry, an empty one, or one
 * whose form was not used for long.  Locks it (`users` becomes negative).  The context's lock is
 * held.  NULL if memory is short or calls use all entries. */
static struct accepted *claim_entry(_Atomic(struct accepted *) *set)
{
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < FORM_PLACES; i++) {
            struct accepted *w = atomic_load(&set[i]);

            if (!w) {
                w = calloc(1, sizeof *w);
                if (w)
                    atomic_store(&w->users, IN_CHANGE);
                atomic_store_explicit(&set[i], w, memory_order_release);
                return w;
            }
            /* takes an entry without a form first, then one that was not used since the last
             * search */
            if (turn == 0 ? atomic_load(&w->hash) != 0 : atomic_exchange(&w->used, false))
                continue;
            if (atomic_compare_exchange_strong(&w->users, &(int){ 0 }, IN_CHANGE))
                return w;
        }
    return NULL;
}

/* Keeps the form of a call that has passed all checks, if it comes a second time.  Returns its
 * entry, to be released, or NULL. */
struct accepted *limber_accepted_add(limber_context *ctx, const struct form *f,
                                     const struct problem *p, open_ways *ways)
{
    struct found *old[MOST_FOUND] = { NULL };
    struct accepted *w = limber_accepted_find(ctx, f);
    struct scan_wants wants;
    uint64_t hash;
    uint32_t open;

    if (w || !ctx->forms)
        return w;
    hash = form_hash(f);
    if (atomic_exchange(&ctx->forms->seen[hash >> (64 - FORM_BITS)], hash) != hash)
        return w;
    wants = limber_scan_wants(ctx, p);
    open = ways(ctx, p);
    pthread_mutex_lock(&ctx->lock);
    w = limber_accepted_find(ctx, f);
    if (!w && (w = claim_entry(ctx->forms->place[hash >> (64 - FORM_BITS)]))) {
        atomic_store(&w->hash, 0);
        take_kernels(w, old);
        memcpy(&w->form, f, limber_form_size(f));
        w->bytes_a = bytes_of(f->a, f->m, f->k, f->fa.size);
        w->bytes_b = bytes_of(f->b, f->k, f->n, f->fb.size);
        w->bytes_c = bytes_of(f->c, f->m, f->n, f->fc.size);
        w->wants = wants;
        w->open = open;
        /* not a plain store, because calls that found the entry in this state may still have to
         * subtract 1 from `users` */
        atomic_fetch_sub_explicit(&w->users, IN_CHANGE - 1, memory_order_acq_rel);
        atomic_store_explicit(&w->hash, hash, memory_order_release);
    }
    pthread_mutex_unlock(&ctx->lock);
    free_kernels(ctx->memory, old);
    return w;
}

/* Adds the kernel e, for data of the key's class, to a form's entry.  False if the entry has it
 * already, or is full. */
bool limber_accepted_keep(struct accepted *w, const struct kernel_key *key, bool unscanned,
                          struct entry *e)
{
    struct found *new = malloc(sizeof *new);

    if (!new)
        return false;
    *new = (struct found){
        .e = e, .unscanned = unscanned, .size = limber_kernel_key_size(key), .key = *key
    };
    for (size_t i = 0; i < MOST_FOUND; i++) {
        struct found *none = NULL;

        if (atomic_compare_exchange_strong(&w->found[i], &none, new))
            return true;
        if (none->e == e && none->unscanned == unscanned)
            break; /* another call has kept it */
    }
    free(new);
    return false;
}

/* Returns the form's kernel for this key (data of a class) or, if key is NULL, its kernel for data
 * that was not scanned. */
struct found *limber_accepted_kernel(struct accepted *w, const struct kernel_key *key)
{
    const size_t size = key ? limber_kernel_key_size(key) : 0;

    for (size_t i = 0; i < MOST_FOUND; i++) {
        struct found *x = atomic_load_explicit(&w->found[i], memory_order_acquire);

        if (!x)
            return NULL;
        if (key ? x->size != size || memcmp(&x->key, key, size) != 0 : !x->unscanned)
            continue;
        if (!atomic_load_explicit(&x->e->stale, memory_order_relaxed))
            return x;
        atomic_store(&w->hash, 0); /* the next call keeps the new kernel in another entry */
        return NULL;
    }
    return NULL;
}
