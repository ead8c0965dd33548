/* SPDX-License-Identifier: BSD-3-Clause
 * Caches of kernels, in memory and on disk, and the keys by which kernels are found. */
#ifndef LIMBER_JIT_CACHE_H
#define LIMBER_JIT_CACHE_H

#include "backends/backend.h"
#include "limber/limber.h"

#include <stdatomic.h>

/* ---- key.c ----------------------------------------------------------------------------------- */

enum { KEY_BYTES = 32, KEY_HEX = 2 * KEY_BYTES };

/* Computes the identity of the library's code: a hash of the library's build ID, or of its
 * read-only segments if there is none.  So a rebuilt library never loads kernels of an older
 * one. */
void limber_key_build(unsigned char build[16]);
/* Computes a disk key from `size` bytes at `what` (the text of a plan before the passes), a
 * target's text and the library's build. */
void limber_key_make(unsigned char key[KEY_BYTES], const unsigned char build[16], const void *what,
                     size_t size, const char *target);
/* Writes 2 * bytes hexadecimal digits and a closing zero to hex. */
void limber_key_hex(const unsigned char *key, size_t bytes, char *hex);

/* ---- kernels, and the facts of their plans --------------------------------------------------- */

struct facts { /* stored on disk as it is, so it has fixed widths and no padding */
    unsigned char key[KEY_BYTES];
    char scheme[32];
    char plan[128]; /* one line that names problem and scheme */
    double bound, cost; /* plan.spent and plan.cost of struct plan */
    int32_t rows, pruned;
};

/* A cached kernel, or a function for one shape. */
struct entry {
    struct facts facts;
    const struct backend *backend;
    struct kernel *kernel;
    struct kernel_cache *codes; /* cache that holds `code`, or NULL */
    /* the entry in `codes` that owns the kernel; or NULL */
    struct entry *code;
    struct function *function; /* the function of one shape, in an entry without a kernel */
    void *address; /* address of the function's code */
    limber_origin from;
    bool prebuilt; /* the kernel's code is part of the library */
    /* the code path (enum way_id) of launches for which the entry's plan and code were dumped */
    atomic_int dumped;
    atomic_llong spent; /* nanoseconds that calls spent in this prebuilt kernel */
    atomic_bool replaced; /* a specialised kernel has been requested that will replace this one */
    atomic_bool stale; /* the cache has another entry for this key */
    double seconds; /* seconds that it took to make the entry */
    char *stated; /* owned; text of the plan before the passes; or NULL */
    limber_promise promise; /* the plan's promise */
    struct conv_geometry geometry; /* geometry of the plan's convolution */
};

/* ---- kernels.c: kernels in memory ------------------------------------------------------------ */

struct kernel_cache;
/* How to fill a new entry.  If make fails, the entry is unchanged. */
struct kernel_maker {
    bool (*make)(void *user, struct entry *e, struct diag *d);
    void *user;
};
/* Makes a cache.  While it holds more than `bound` kernels, it evicts those that no call uses.
 * NULL if memory runs out. */
struct kernel_cache *limber_kernels_new(size_t bound);
void limber_kernels_free(struct kernel_cache *m);
/* Frees everything that an entry owns. */
void limber_entry_clear(struct entry *e);
/* Gets the entry of a key (`size` bytes), and makes it if it is absent.  A thread that asks for an
 * entry that another thread is making waits, and shares its failure; threads that ask for other
 * entries do not wait.  *found: false if this call made the entry.  Every success must be followed
 * by limber_kernels_put. */
bool limber_kernels_get(struct kernel_cache *m, const void *key, size_t size,
                        struct kernel_maker kernel_maker, struct entry **e, bool *found,
                        struct diag *d);
void limber_kernels_put(struct kernel_cache *m, struct entry *e);
/* Makes a new entry for a key and replaces the present one, which threads that use it keep until
 * they call limber_kernels_put.  If making fails, nothing changes. */
bool limber_kernels_replace(struct kernel_cache *m, const void *key, size_t size,
                            struct kernel_maker kernel_maker, struct diag *d);
/* Makes the entry of a key if it is absent.  Does not wait for another thread that is making the
 * entry.  True if the entry can be used now. */
bool limber_kernels_offer(struct kernel_cache *m, const void *key, size_t size,
                          struct kernel_maker kernel_maker);
size_t limber_kernels_count(struct kernel_cache *m);

/* Returns a copy of the plan (before the passes) of the entry whose key begins with these bytes;
 * the caller frees it.  NULL if there is no such entry (*known is false), or if memory runs out
 * (*known is true). */
char *limber_kernels_stated(struct kernel_cache *m, const unsigned char *key, size_t size,
                            bool *known);
/* True if limber_kernels_get would find the entry.  Does not count as a use. */
bool limber_kernels_has(struct kernel_cache *m, const void *key, size_t size);

/* ---- disk.c, claim.c: kernels on disk -------------------------------------------------------- */

enum cache_mode { CACHE_off, CACHE_ro, CACHE_rw };

struct disk;
struct disk_options {
    const char *dir; /* NULL if there is none */
    const char *why_not; /* why `dir` is NULL */
    /* file of the key that signs entries.  If it is NULL, only entries that root owns are read:
     * those of a cache that an administrator made for all users. */
    const char *key_file;
    /* largest number of bytes of all entries */
    size_t limit;
    enum cache_mode mode;
    double patience; /* seconds to wait for a kernel that another process is making */
    /* called once, when the cache on disk is no longer used because of an error */
    void (*warn)(void *user, const char *line);
    void *user;
};
struct disk *limber_disk_new(const struct disk_options *o); /* NULL if memory runs out */
void limber_disk_free(struct disk *disk);
/* Reads an entry.  False if it is absent, sealed by another key, or damaged; in the last two cases
 * its file is removed if the cache is writable.  The caller frees the bytes. */
bool limber_disk_load(struct disk *disk, const unsigned char key[KEY_BYTES], struct facts *f,
                      struct blob *bytes);
/* Stores an entry.  A failure is not reported: the entry is then not kept, and after the file
 * system's first refusal no more entries are written. */
void limber_disk_store(struct disk *disk, const struct facts *f, const struct blob *bytes);
void limber_disk_drop(struct disk *disk, const unsigned char key[KEY_BYTES]);
/* Claims the right to make a kernel that is not on disk.  Waits until no other process is making
 * that kernel, which may then be on disk.  Returns a claim, to be passed to limber_disk_release in
 * any case: -1 if no lock is possible, because the cache is not writable, the file system has no
 * locks, or another maker hangs.  Without locks each process makes its own kernel. */
int limber_disk_claim(struct disk *disk, const unsigned char key[KEY_BYTES]);
void limber_disk_release(int claim, const unsigned char key[KEY_BYTES]);
void limber_disk_describe(struct disk *disk, limber_cache_info *info);
bool limber_disk_each(struct disk *disk, bool verify,
                      int (*visit)(void *user, const limber_cache_entry *), void *user,
                      struct diag *d);
bool limber_disk_clear(struct disk *disk, bool damaged_only, size_t *removed, struct diag *d);

#endif
