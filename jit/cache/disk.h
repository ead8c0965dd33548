/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the cache on disk. */
#ifndef LIMBER_JIT_CACHE_DISK_H
#define LIMBER_JIT_CACHE_DISK_H

#include "jit/cache/cache.h"
#include "jit/cache/seal.h"
#include "jit/runtime/runtime.h"

#include <sys/stat.h>

struct disk {
    char *dir;
    size_t limit;
    enum cache_mode mode;
    double patience;
    void (*warn)(void *user, const char *line);
    void *user;
    char *key_file; /* NULL: none */
    struct at_fork at_fork;
    pthread_mutex_t lock; /* of what follows */
    bool walked; /* the way to the directory was looked at, up to */
    dev_t device; /* this one */
    ino_t inode;
    bool has_key;
    struct seal_key key;
    char why_not[256]; /* the directory is not used at all */
    char no_write[256]; /* nothing more is written */
    bool sized;
    uint64_t size; /* of all entries, as far as this process knows */
    uint64_t counter; /* of temporary names */
};

/* ---- disk.c ---------------------------------------------------------------------------------- */

/* Is there a reason in `what` (why_not or no_write)? */
bool limber_disk_given_up(struct disk *disk, const char *what);
/* The open directory, or -1: absent (no reason is kept) or not to be used.  *roots: it is a
 * site's. */
int limber_disk_root(struct disk *disk, bool create, bool *roots);
/* The user's key.  Without one nothing can be told from what others made. */
bool limber_disk_key(struct disk *disk, bool create, struct seal_key *key);

/* An entry's key, and its file in the folder of the first two digits. */
#define DISK_SUFFIX ".kernel"
struct name {
    char hex[KEY_HEX + 1], file[KEY_HEX - 2 + sizeof DISK_SUFFIX];
};
struct name limber_disk_name(const unsigned char *key);

#endif
