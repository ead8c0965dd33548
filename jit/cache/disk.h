/* SPDX-License-Identifier: BSD-3-Clause
 * Inside the cache on disk. */
#ifndef LIMBER_JIT_CACHE_DISK_H
#define LIMBER_JIT_CACHE_DISK_H

#include "jit/cache/cache.h"
#include "jit/cache/seal.h"
#include "jit/runtime/runtime.h"

#include <sys/stat.h>

/* The cache on disk of one context. */
struct disk {
    char *dir;
    size_t limit;
    enum cache_mode mode;
    double patience;
    void (*warn)(void *user, const char *line);
    void *user;
    char *key_file; /* NULL: none */
    struct at_fork at_fork;
    pthread_mutex_t lock; /* guards the fields below */
    bool walked; /* every folder on the path was checked */
    dev_t device; /* device and inode of the directory that was checked */
    ino_t inode;
    bool has_key;
    struct seal_key key;
    char why_not[256]; /* why the directory is not used at all, or "" */
    char no_write[256]; /* why nothing more is written, or "" */
    bool sized; /* `size` is known */
    uint64_t size; /* bytes of all entries, as far as this process knows */
    uint64_t counter; /* makes names of temporary files unique */
};

/* ---- disk.c ---------------------------------------------------------------------------------- */

/* True if there is a reason in `what` (why_not or no_write). */
bool limber_disk_given_up(struct disk *disk, const char *what);
/* The open directory, or -1: it is absent (no reason is kept) or must not be used.  *roots: root
 * owns it (a site's cache). */
int limber_disk_root(struct disk *disk, bool create, bool *roots);
/* Reads the user's sealing key.  Without it own entries cannot be told from foreign ones. */
bool limber_disk_key(struct disk *disk, bool create, struct seal_key *key);

/* The name of an entry's file, in a folder named by the key's first two digits. */
#define DISK_SUFFIX ".kernel"
struct name {
    char hex[KEY_HEX + 1], file[KEY_HEX - 2 + sizeof DISK_SUFFIX];
};
struct name limber_disk_name(const unsigned char *key);

#endif
