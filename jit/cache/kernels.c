/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels in memory: found by key, made once, reference-counted while in use.  The least recently
 * used ones are evicted first. */
#define _GNU_SOURCE /* PTHREAD_MUTEX_ADAPTIVE_NP */
#define XXH_INLINE_ALL
#include "jit/cache/cache.h"
#include "jit/runtime/runtime.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

enum { BUCKETS = 256 };

enum state { MAKING, READY, FAILED };

/* An entry of the cache, being made, ready or failed. */
struct slot {
    struct entry entry;         /* must be first: a struct entry * is cast back to struct slot */
    struct slot *next; /* next slot of the same bucket, or of `replaced` */
    enum state state;
    /* Threads that run, make or wait for the entry.  Grows under the lock only, so that no thread
     * starts to use a slot that is being evicted. */
    atomic_size_t users;
    uint64_t tick; /* time of the last use, in uses of the cache */
    struct diag diag; /* the error if the state is FAILED */
    /* hash of the key, which has `size` bytes */
    uint64_t hash;
    size_t size;
    unsigned char key[];
};

/* A hash table of kernels in memory. */
struct kernel_cache {
    struct at_fork at_fork;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot *bucket[BUCKETS];
    /* list of slots that are in no bucket; each is freed when it has no users */
    struct slot *replaced;
    atomic_size_t count; /* slots in buckets; changes under the lock only */
    /* number of slots above which unused ones are evicted */
    size_t bound;
    /* number of uses so far */
    uint64_t tick;
};

/* Repairs the table in a forked child, where the threads that were making entries, or waiting for
 * them, do not exist. */
static void forget_making(void *self)
{
    struct kernel_cache *m = self;

    pthread_cond_init(&m->changed, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct slot **at = &m->bucket[i]; *at;) {
            struct slot *s = *at;

            if (s->state == MAKING) { /* half made, so it cannot be freed safely */
                *at = s->next;
                m->count--;
            } else {
                at = &s->next;
            }
        }
}

/* Makes an empty cache of kernels in memory, which keeps `bound` of them.  NULL if memory is
 * short. */
struct kernel_cache *limber_kernels_new(size_t bound)
{
    struct kernel_cache *m = calloc(1, sizeof *m);
    pthread_mutexattr_t spin;

    if (!m)
        return NULL;
    m->bound = bound;
    pthread_mutexattr_init(&spin);
#if defined(__GLIBC__) /* other C libraries have no adaptive mutexes */
    pthread_mutexattr_settype(&spin, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(&m->lock, &spin);
    pthread_mutexattr_destroy(&spin);
    pthread_cond_init(&m->changed, NULL);
    m->at_fork = (struct at_fork){ &m->lock, forget_making, m };
    limber_at_fork(&m->at_fork);
    return m;
}

/* Frees everything that an entry owns. */
void limber_entry_clear(struct entry *e)
{
    if (e->code)
        limber_kernels_put(e->codes, e->code);
    else if (e->kernel)
        e->backend->unload(e->kernel);
    if (e->function)
        e->backend->cpu->fixed->unload(e->function);
    free(e->stated);
}

static void free_slot(struct slot *s)
{
    limber_entry_clear(&s->entry);
    free(s);
}

static void free_slots(struct slot *s)
{
    while (s) {
        struct slot *next = s->next;

        free_slot(s);
        s = next;
    }
}

/* Frees the cache with all its kernels. */
void limber_kernels_free(struct kernel_cache *m)
{
    if (!m)
        return;
    limber_at_fork_no_more(&m->at_fork);
    free_slots(m->replaced);
    for (size_t i = 0; i < BUCKETS; i++)
        free_slots(m->bucket[i]);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
    free(m);
}

/* Returns the link to a key's slot in its bucket; *result is NULL if there is none. */
static struct slot **find_link(struct kernel_cache *m, uint64_t hash, const void *key, size_t size)
{
    struct slot **at = &m->bucket[hash % BUCKETS];

    while (*at &&
           !((*at)->hash == hash && (*at)->size == size && memcmp((*at)->key, key, size) == 0))
        at = &(*at)->next;
    return at;
}

/* Takes a slot out of its bucket, if it is in one. */
static void remove_slot(struct kernel_cache *m, struct slot *s)
{
    struct slot **at = &m->bucket[s->hash % BUCKETS];

    while (*at && *at != s)
        at = &(*at)->next;
    if (*at) {
        *at = s->next;
        m->count--;
    }
}

/* Returns a new slot for a key, in no bucket; NULL if memory runs out. */
static struct slot *new_slot(uint64_t hash, const void *key, size_t size)
{
    struct slot *s = calloc(1, sizeof *s + size);

    if (!s)
        return NULL;
    s->hash = hash;
    s->size = size;
    memcpy(s->key, key, size);
    return s;
}

/* Links a slot into its hash bucket. */
static void insert_slot(struct kernel_cache *m, struct slot *s)
{
    s->next = m->bucket[s->hash % BUCKETS];
    m->bucket[s->hash % BUCKETS] = s;
    m->count++;
}

/* Adds a slot for a key, with the caller as its user.  NULL if memory runs out. */
static struct slot *add_slot(struct kernel_cache *m, uint64_t hash, const void *key, size_t size)
{
    struct slot *s = new_slot(hash, key, size);

    if (!s)
        return NULL;
    s->users = 1;
    insert_slot(m, s);
    return s;
}

/* Takes the replaced slots without users out of their list, and returns them as a list.  The lock
 * is held. */
static struct slot *take_unused(struct kernel_cache *m)
{
    struct slot *unused = NULL;

    for (struct slot **at = &m->replaced; *at;) {
        struct slot *s = *at;

        if (atomic_load_explicit(&s->users, memory_order_acquire)) {
            at = &s->next;
        } else {
            *at = s->next;
            s->next = unused;
            unused = s;
        }
    }
    return unused;
}

/* If there are more than `bound` slots, takes the least recently used one without users out of its
 * bucket.  NULL if there are not, or if all have users. */
static struct slot *take_surplus(struct kernel_cache *m)
{
    struct slot *oldest = NULL;

    if (m->count <= m->bound)
        return NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct slot *s = m->bucket[i]; s; s = s->next)
            if (s->users == 0 && s->state == READY && (!oldest || s->tick < oldest->tick))
                oldest = s;
    if (oldest)
        remove_slot(m, oldest);
    return oldest;
}

/* Returns the key's slot, or NULL if there is none. */
static struct slot *find_slot(struct kernel_cache *m, uint64_t hash, const void *key, size_t size)
{
    return *find_link(m, hash, key, size);
}

/* Waits until an entry changes, at most 10 ms, since a thread that makes an entry may be stopped
 * when the process ends.  The lock is held. */
static void wait_for_change(struct kernel_cache *m)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&m->changed, &m->lock, &until);
}

/* Waits until another thread has made the slot's entry, and makes the caller a user of it.  False
 * if that failed.  *left: the maker was stopped, so the slot was taken out of its bucket.  The lock
 * is held. */
static bool await_entry(struct kernel_cache *m, struct slot *s, bool *left, struct diag *d)
{
    s->users++;
    while (s->state == MAKING && !limber_background_stopped())
        wait_for_change(m);
    *left = s->state == MAKING;
    if (s->state == READY)
        return true;
    if (*left) {
        remove_slot(m, s);
        s->users--;
        return false;
    }
    if (d->status == LIMBER_STATUS_OK)
        *d = s->diag;
    if (--s->users == 0)
        free(s); /* a failed slot is in no bucket */
    return false;
}

/* Makes a slot's entry.  The lock is held on entry and return, and released while the entry is
 * made. */
static bool make_entry(struct kernel_cache *m, struct slot *s, struct kernel_maker kernel_maker,
                       struct diag *d)
{
    struct slot *old = NULL;
    bool ok;

    pthread_mutex_unlock(&m->lock);
    ok = kernel_maker.make(kernel_maker.user, &s->entry, d);
    pthread_mutex_lock(&m->lock);
    s->state = ok ? READY : FAILED;
    if (ok) {
        old = take_surplus(m);
    } else { /* the next thread that asks for it will try again */
        s->diag = *d;
        remove_slot(m, s);
        if (--s->users == 0)
            old = s;
    }
    pthread_cond_broadcast(&m->changed);
    if (old) {
        pthread_mutex_unlock(&m->lock);
        free_slot(old);
        pthread_mutex_lock(&m->lock);
    }
    return ok;
}

/* Returns the entry of a key in *e, which the caller must put back.  Makes the kernel if there is
 * none, or waits for the thread that makes it.  *found: the entry was there before. */
bool limber_kernels_get(struct kernel_cache *m, const void *key, size_t size,
                        struct kernel_maker kernel_maker, struct entry **e, bool *found,
                        struct diag *d)
{
    uint64_t hash = XXH3_64bits(key, size);
    struct slot *s;
    bool ok = false, left = false;

    *e = NULL;
    pthread_mutex_lock(&m->lock);
    while ((s = find_slot(m, hash, key, size)) && !(ok = await_entry(m, s, &left, d)) && left)
        ;
    *found = s != NULL;
    if (!s && (s = add_slot(m, hash, key, size)))
        ok = make_entry(m, s, kernel_maker, d);
    else if (!*found)
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a kernel's entry");
    if (ok) {
        s->tick = ++m->tick;
        *e = &s->entry;
    }
    pthread_mutex_unlock(&m->lock);
    return ok;
}

/* Makes an entry for which no thread waits, and inserts it.  If the key has an entry already, that
 * is replaced if `anew` is set and it is ready; else the new one is discarded. */
static bool make_apart(struct kernel_cache *m, const void *key, size_t size,
                       struct kernel_maker kernel_maker, bool anew, struct diag *d)
{
    struct slot *s = new_slot(XXH3_64bits(key, size), key, size), *old, *unused;

    if (!s)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a kernel's entry");
    if (!kernel_maker.make(kernel_maker.user, &s->entry, d)) {
        free(s);
        return false;
    }
    s->state = READY;
    pthread_mutex_lock(&m->lock);
    old = find_slot(m, s->hash, key, size);
    /* keep the existing slot, and discard the new one */
    if (old && (!anew || old->state != READY)) {
        old = s;
    } else {
        if (old) {
            remove_slot(m, old);
            atomic_store(&old->entry.stale, true);
        }
        s->tick = ++m->tick;
        insert_slot(m, s);
    }
    if (old) {
        old->next = m->replaced;
        m->replaced = old;
    }
    unused = take_unused(m);
    pthread_mutex_unlock(&m->lock);
    free_slots(unused);
    return true;
}

/* Makes a new entry for a key and replaces the present one, which threads that use it keep until
 * they call limber_kernels_put. */
bool limber_kernels_replace(struct kernel_cache *m, const void *key, size_t size,
                            struct kernel_maker kernel_maker, struct diag *d)
{
    return make_apart(m, key, size, kernel_maker, true, d);
}

/* Makes the kernel of a key unless an entry exists.  Returns whether it is ready for use. */
bool limber_kernels_offer(struct kernel_cache *m, const void *key, size_t size,
                          struct kernel_maker kernel_maker)
{
    const struct slot *s;
    struct diag ignored = { 0 };
    bool known, ready;

    pthread_mutex_lock(&m->lock);
    s = find_slot(m, XXH3_64bits(key, size), key, size);
    known = s != NULL;
    ready = known && s->state == READY;
    pthread_mutex_unlock(&m->lock);
    return known ? ready : make_apart(m, key, size, kernel_maker, false, &ignored);
}

/* Returns a copy of the plan of the kernel with this key, to be freed; NULL if it has none.
 * *known: the kernel is in memory. */
char *limber_kernels_stated(struct kernel_cache *m, const unsigned char *key, size_t size,
                            bool *known)
{
    char *copy = NULL;

    *known = false;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < BUCKETS && !copy; i++)
        for (const struct slot *s = m->bucket[i]; s && !copy; s = s->next)
            if (s->state == READY && memcmp(s->entry.facts.key, key, size) == 0) {
                *known = true;
                copy = s->entry.stated ? strdup(s->entry.stated) : NULL;
            }
    pthread_mutex_unlock(&m->lock);
    return copy;
}

/* True if limber_kernels_get would find the entry.  Does not count as a use. */
bool limber_kernels_has(struct kernel_cache *m, const void *key, size_t size)
{
    const struct slot *s;
    bool ready;

    pthread_mutex_lock(&m->lock);
    s = find_slot(m, XXH3_64bits(key, size), key, size);
    ready = s && s->state == READY;
    pthread_mutex_unlock(&m->lock);
    return ready;
}

/* Ends the use of an entry, and frees a surplus one if the cache is over its bound. */
void limber_kernels_put(struct kernel_cache *m, struct entry *e)
{
    struct slot *s = (struct slot *)e, *old;

    /* the slot may be freed from here on */
    atomic_fetch_sub_explicit(&s->users, 1, memory_order_release);
    if (atomic_load_explicit(&m->count, memory_order_relaxed) <= m->bound)
        return;
    pthread_mutex_lock(&m->lock);
    old = take_surplus(m);
    pthread_mutex_unlock(&m->lock);
    if (old)
        free_slot(old);
}

size_t limber_kernels_count(struct kernel_cache *m)
{
    size_t n;

    pthread_mutex_lock(&m->lock);
    n = m->count;
    pthread_mutex_unlock(&m->lock);
    return n;
}
