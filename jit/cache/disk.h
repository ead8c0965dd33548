/* SPDX-License-Identifier: BSD-3-Clause
 * Data and functions that the files of the disk cache share. */
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
    char *key_file; /* owned; NULL if there is none */
    struct at_fork at_fork;
    pthread_mutex_t lock; /* guards the fields below */
    bool walked; /* every directory on the path was checked */
    dev_t device; /* device and inode of the directory that was checked */
    ino_t inode;
    bool has_key;
    struct seal_key key;
    char why_not[256]; /* why the directory is not used at all; "" if it is used */
    char no_write[256]; /* why nothing more is written; "" if entries are written */
    uint64_t unlisted; /* bytes that may be written before the entries' sizes are read again */
    uint64_t counter; /* makes names of temporary files unique */
};

/* ---- disk.c ---------------------------------------------------------------------------------- */

/* True if `what` (why_not or no_write) holds a reason. */
bool limber_disk_given_up(struct disk *disk, const char *what);
/* Opens the cache directory. -1 if it is absent, which is not recorded as a reason, or must not
 * be used. create: makes it if it is absent.  *site: set to true if the superuser owns it and
 * this user is another. */
int limber_disk_root(struct disk *disk, bool create, bool *site);
/* Gets the user's sealing key, without which entries cannot be checked.  create: makes the key if
 * it is absent.  False if there is none. */
bool limber_disk_key(struct disk *disk, bool create, struct seal_key *key);

/* The name of an entry's file.  The file is in a subdirectory named by the first two digits of
 * hex. */
#define DISK_SUFFIX ".kernel"
struct name {
    char hex[KEY_HEX + 1], file[KEY_HEX - 2 + sizeof DISK_SUFFIX];
};
struct name limber_disk_name(const unsigned char *key);

#endif
