/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels, in memory and on disk, and the keys under which they are found. */
#ifndef LIMBER_JIT_CACHE_H
#define LIMBER_JIT_CACHE_H

#include "backends/backend.h"
#include "limber/limber.h"

#include <stdatomic.h>

/* ---- key.c ----------------------------------------------------------------------------------- */

enum { KEY_BYTES = 32, KEY_HEX = 2 * KEY_BYTES };

/* The identity of the running code: a hash of the library's read-only segments in memory, so that a
 * rebuilt library never loads kernels of an older one. */
void limber_key_build(unsigned char build[16]);
/* The key of `size` bytes at `what`, such as a kernel key, with a target and the library's
 * build. */
void limber_key_make(unsigned char key[KEY_BYTES], const unsigned char build[16], const void *what,
                     size_t size, const char *target);
void limber_key_hex(const unsigned char *key, size_t bytes, char *hex);

/* ---- kernels, and the facts of their plans --------------------------------------------------- */

struct facts { /* stored on disk as it is: fixed widths, no padding */
    unsigned char key[KEY_BYTES];
    char scheme[32];
    char plan[128]; /* one line: problem and scheme */
    double bound, cost; /* as plan.spent and plan.cost */
    int32_t rows, pruned;
};

struct entry {
    struct facts facts;
    const struct backend *backend;
    struct kernel *kernel;
    struct kernel_cache *codes; /* NULL, or the cache of `code`, which owns the kernel */
    struct entry *code;
    struct function *function; /* a function of fixed shape, instead of a kernel */
    void *address; /* address of the function's code */
    limber_origin from;
    bool prebuilt; /* its code is part of the library */
    atomic_int dumped; /* the way of launches (enum way_id) that its dump names last */
    atomic_llong spent; /* nanoseconds of calls that a prebuilt kernel served */
    atomic_bool replaced; /* a specialised one has been asked for */
    double seconds; /* time that making it took */
    char *stated; /* the stated plan as text, or NULL; owned */
    limber_promise promise; /* the plan's promise */
    struct conv_geometry geometry; /* geometry of the plan's convolution */
};

/* ---- kernels.c: kernels in memory ------------------------------------------------------------ */

struct kernel_cache;
/* Makes an entry; after a failure the entry is unchanged. */
struct kernel_maker {
    bool (*make)(void *user, struct entry *e, struct diag *d);
    void *user;
};
/* A cache that keeps about `bound` kernels that no call uses. */
struct kernel_cache *limber_kernels_new(size_t bound);
void limber_kernels_free(struct kernel_cache *m);
/* Frees everything that an entry owns. */
void limber_entry_clear(struct entry *e);
/* Gets the entry of a kernel key (size bytes at key), and makes it if it is absent.  Threads that
 * want an entry that another is making wait for it and share its failure; other threads do not
 * wait. *found is false for the thread that made it.  Every success needs limber_kernels_put. */
bool limber_kernels_get(struct kernel_cache *m, const void *key, size_t size,
                        struct kernel_maker kernel_maker, struct entry **e, bool *found,
                        struct diag *d);
void limber_kernels_put(struct kernel_cache *m, struct entry *e);
/* Makes a new entry for a kernel key and replaces the present one, which its users keep until they
 * put it.  If it cannot be made nothing changes. */
bool limber_kernels_replace(struct kernel_cache *m, const void *key, size_t size,
                            struct kernel_maker kernel_maker, struct diag *d);
/* Makes the entry unless it exists; does not wait for a thread that is making it.  Returns whether
 * it exists. */
bool limber_kernels_offer(struct kernel_cache *m, const void *key, size_t size,
                          struct kernel_maker kernel_maker);
size_t limber_kernels_count(struct kernel_cache *m);

/* A copy of the stated plan of the entry whose key begins with these bytes; the caller frees it.
 * NULL: there is no such entry, or, if *known, no memory. */
char *limber_kernels_stated(struct kernel_cache *m, const unsigned char *key, size_t size,
                            bool *known);
/* True if a get would find the entry; does not count as a use. */
bool limber_kernels_has(struct kernel_cache *m, const void *key, size_t size);

/* ---- disk.c, claim.c: kernels on disk -------------------------------------------------------- */

enum cache_mode { CACHE_off, CACHE_ro, CACHE_rw };

struct disk;
struct disk_options {
    const char *dir; /* NULL: none */
    const char *why_not; /* why there is no dir */
    const char *key_file; /* file of the key that seals entries; NULL: none, and only a site's cache
                             is read */
    size_t limit;
    enum cache_mode mode;
    double patience; /* seconds to wait for a kernel that another process is making */
    void (*warn)(void *user, const char *line); /* called once, when the disk is given up */
    void *user;
};
struct disk *limber_disk_new(const struct disk_options *o); /* NULL: no memory */
void limber_disk_free(struct disk *disk);
/* False if the entry is absent, foreign or damaged; the last two are removed.  The caller frees the
 * bytes. */
bool limber_disk_load(struct disk *disk, const unsigned char key[KEY_BYTES], struct facts *f,
                      struct blob *bytes);
/* Stores an entry.  Never fails a call: what cannot be written is not kept, and after the file
 * system's first refusal nothing more is tried. */
void limber_disk_store(struct disk *disk, const struct facts *f, const struct blob *bytes);
void limber_disk_drop(struct disk *disk, const unsigned char key[KEY_BYTES]);
/* To be called before making a kernel that is not on disk.  Waits until no other process is making
 * it; then it may be on disk.  Must be released in any case.  -1: no lock is possible (a disk that
 * is not written, a file system without locks, a maker that hangs), and each process makes its
 * own. */
int limber_disk_claim(struct disk *disk, const unsigned char key[KEY_BYTES]);
void limber_disk_release(int claim, const unsigned char key[KEY_BYTES]);
void limber_disk_describe(struct disk *disk, limber_cache_info *info);
bool limber_disk_each(struct disk *disk, bool verify,
                      int (*visit)(void *user, const limber_cache_entry *), void *user,
                      struct diag *d);
bool limber_disk_clear(struct disk *disk, bool damaged_only, size_t *removed, struct diag *d);

#endif
