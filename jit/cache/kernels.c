/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels in memory: looked up by key, made once, reference-counted while they run, evicted least
 * recently used first. */
#define _GNU_SOURCE     /* mutexes that spin a little before they sleep */
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

struct slot {
    struct entry entry;         /* must be first: a struct entry * is cast back to struct slot */
    struct slot *next;          /* the next slot of its bucket */
    enum state state;
    atomic_size_t users;        /* threads that run it, make it or wait for it; grows under the
                     lock only, so that nobody starts to use a slot that is being evicted */
    uint64_t tick;              /* time of the last use */
    struct diag diag;           /* if FAILED: the error */
    uint64_t hash;
    size_t size;
    unsigned char key[];
};

/* A hash table of kernels in memory. bound: how many it keeps; tick: number of uses so far. */
struct kernel_cache {
    struct at_fork at_fork;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot *bucket[BUCKETS];
    struct slot *replaced;      /* list of slots out of their buckets, freed when unused */
    atomic_size_t count;        /* slots in buckets; changes under the lock */
    size_t bound;
    uint64_t tick;
};

/* In a forked child: threads that were making an entry, or waited for one, do not exist there. */
static void forget_making(void *self)
{
    struct kernel_cache *m = self;

    pthread_cond_init(&m->changed, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct slot **at = &m->bucket[i]; *at;) {
            struct slot *s = *at;

            if (s->state == MAKING) {       /* half made, so it is leaked */
                *at = s->next;
                m->count--;
            } else {
                at = &s->next;
            }
        }
}

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

void limber_entry_clear(struct entry *e)
{
    if (e->code)
        limber_kernels_put(e->codes, e->code);
    else if (e->kernel)
        e->backend->unload(e->kernel);
    if (e->function)
        e->backend->fixed->unload(e->function);
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

/* Where a key's slot is linked in its bucket; *result is NULL if there is none. */
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

/* A new slot for a key, in no bucket; NULL: no memory. */
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

static void insert_slot(struct kernel_cache *m, struct slot *s)
{
    s->next = m->bucket[s->hash % BUCKETS];
    m->bucket[s->hash % BUCKETS] = s;
    m->count++;
}

/* Adds a slot for a key, with the caller as its user; NULL: no memory. */
static struct slot *add_slot(struct kernel_cache *m, uint64_t hash, const void *key, size_t size)
{
    struct slot *s = new_slot(hash, key, size);

    if (!s)
        return NULL;
    s->users = 1;
    insert_slot(m, s);
    return s;
}

/* Removes replaced slots that nobody uses any more.  The lock is held. */
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

/* Removes the least recently used slot without users, if there are too many; else NULL. */
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

static struct slot *find_slot(struct kernel_cache *m, uint64_t hash, const void *key, size_t size)
{
    return *find_link(m, hash, key, size);
}

/* Waits with a timeout, since a thread that makes an entry may be stopped when the process ends.
 * The lock is held. */
static void wait_for_change(struct kernel_cache *m)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&m->changed, &m->lock, &until);
}

/* Waits until another thread has made the slot's entry.  *left: its maker was stopped, and the slot
 * is out of its bucket.  The lock is held. */
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
        free(s); /* failed slots are in no bucket */
    return false;
}

/* Makes a slot's entry.  The lock is held, but released meanwhile. */
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
    } else { /* the next thread that asks tries again */
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

/* Makes an entry that nobody waits for and inserts it.  If one exists, the new one replaces it if
 * `anew` is set and nobody is making it; else the old one stays. */
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
    if (old && (!anew || old->state != READY)) { /* keep the existing one */
        old = s;
    } else {
        if (old)
            remove_slot(m, old);
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

bool limber_kernels_replace(struct kernel_cache *m, const void *key, size_t size,
                            struct kernel_maker kernel_maker, struct diag *d)
{
    return make_apart(m, key, size, kernel_maker, true, d);
}

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

void limber_kernels_put(struct kernel_cache *m, struct entry *e)
{
    struct slot *s = (struct slot *)e, *old;

    atomic_fetch_sub_explicit(&s->users, 1, memory_order_release); /* s may be freed from here on */
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
