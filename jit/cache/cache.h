/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels, in memory and on disk, and the keys under which they are found. */
#ifndef LIMBER_JIT_CACHE_H
#define LIMBER_JIT_CACHE_H

#include "backends/backend.h"
#include "limber/limber.h"

#include <stdatomic.h>

/* ---- key.c ----------------------------------------------------------------------------------- */

enum { KEY_BYTES = 32, KEY_HEX = 2 * KEY_BYTES };

/* Identity of the code that runs: a hash of the library's read-only segments in memory, so that
 * a rebuilt library never meets the kernels of an older one. */
void limber_key_build(unsigned char build[16]);
/* The key of `size` bytes at `what`, such as a kernel key, for a target and the library's build. */
void limber_key_make(unsigned char key[KEY_BYTES], const unsigned char build[16], const void *what,
                     size_t size, const char *target);
void limber_key_hex(const unsigned char *key, size_t bytes, char *hex);

/* ---- kernels, and what is known of one without running the passes again ---------------------- */

struct facts { /* goes to disk as it is: fixed widths, no holes */
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
    struct kernel_cache *codes; /* NULL, or where `code` is, whose kernel this is */
    struct entry *code;
    struct function *function; /* in the place of a kernel: of fixed shape */
    void *address; /* of the function's code */
    limber_origin from;
    bool prebuilt; /* its code is part of the library */
    atomic_int dumped; /* the way of launches (enum way_id) that its dump names last */
    atomic_llong spent; /* nanoseconds of calls that a prebuilt kernel served */
    atomic_bool replaced; /* a specialised one has been asked for */
    double seconds; /* that making it took */
    char *stated; /* the stated plan as text, or NULL */
    limber_promise promise; /* of the plan */
    struct conv_geometry geometry; /* of its conv */
};

/* ---- kernels.c: kernels in memory ------------------------------------------------------------ */

struct kernel_cache;
/* Makes an entry; on failure the entry is left as it was. */
struct kernel_maker {
    bool (*make)(void *user, struct entry *e, struct diag *d);
    void *user;
};
/* Keeps about `bound` kernels that nobody runs. */
struct kernel_cache *limber_kernels_new(size_t bound);
void limber_kernels_free(struct kernel_cache *m);
/* Gives back what an entry holds. */
void limber_entry_clear(struct entry *e);
/* The entry of a kernel key (size bytes at key), made when absent.  Threads that ask for what
 * another is making wait for it and share its failure; nobody else is held up.  *found is false
 * for the thread that made it.  Every success needs limber_kernels_put. */
bool limber_kernels_get(struct kernel_cache *m, const void *key, size_t size,
                        struct kernel_maker kernel_maker, struct entry **e, bool *found,
                        struct diag *d);
void limber_kernels_put(struct kernel_cache *m, struct entry *e);
/* Makes another entry of the same kernel key and puts it in the place of the one that is there,
 * which those who use it keep until they put it.  Where it cannot be made nothing changes. */
bool limber_kernels_replace(struct kernel_cache *m, const void *key, size_t size,
                            struct kernel_maker kernel_maker, struct diag *d);
/* Makes the entry unless one is there, and waits for nobody who is making it.  Is it there? */
bool limber_kernels_offer(struct kernel_cache *m, const void *key, size_t size,
                          struct kernel_maker kernel_maker);
size_t limber_kernels_count(struct kernel_cache *m);

/* A copy of the stated plan of the entry whose key begins so; NULL: there is none, or, of one that
 * is known, no memory. */
char *limber_kernels_stated(struct kernel_cache *m, const unsigned char *key, size_t size,
                            bool *known);
/* Whether a get would find the entry made; the time of its last use is left alone. */
bool limber_kernels_has(struct kernel_cache *m, const void *key, size_t size);

/* ---- disk.c, claim.c: kernels on disk -------------------------------------------------------- */

enum cache_mode { CACHE_off, CACHE_ro, CACHE_rw };

struct disk;
struct disk_options {
    const char *dir; /* NULL: none */
    const char *why_not; /* when dir is NULL */
    const char *key_file; /* of the key that seals entries; NULL: none, and only a site's cache is
                             read */
    size_t limit;
    enum cache_mode mode;
    double patience; /* seconds to wait for a kernel that another process makes */
    void (*warn)(void *user, const char *line); /* once, when the disk is given up */
    void *user;
};
struct disk *limber_disk_new(const struct disk_options *o); /* NULL: no memory */
void limber_disk_free(struct disk *disk);
/* False when the entry is absent, foreign or damaged; the last two are removed.  The bytes are the
 * caller's, to be released with free. */
bool limber_disk_load(struct disk *disk, const unsigned char key[KEY_BYTES], struct facts *f,
                      struct blob *bytes);
/* Keeps an entry.  Never fails a call: what cannot be written is not kept, and after the first
 * refusal of the file system nothing more is tried. */
void limber_disk_store(struct disk *disk, const struct facts *f, const struct blob *bytes);
void limber_disk_drop(struct disk *disk, const unsigned char key[KEY_BYTES]);
/* Before a kernel that is not on disk is made: waits until no other process is making it, after
 * which it may be there.  To be released in any case.  -1: nobody can be asked (a disk that is not
 * written to, a file system without locks, a maker that hangs), and everybody makes their own. */
int limber_disk_claim(struct disk *disk, const unsigned char key[KEY_BYTES]);
void limber_disk_release(int claim, const unsigned char key[KEY_BYTES]);
void limber_disk_describe(struct disk *disk, limber_cache_info *info);
bool limber_disk_each(struct disk *disk, bool verify,
                      int (*visit)(void *user, const limber_cache_entry *), void *user,
                      struct diag *d);
bool limber_disk_clear(struct disk *disk, bool damaged_only, size_t *removed, struct diag *d);

#endif
