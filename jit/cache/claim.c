/* SPDX-License-Identifier: BSD-3-Clause
 * Claims: one process makes a kernel, and others wait for it.  Each key stands for one byte of a
 * file, and the maker locks that byte. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "jit/cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Returns the range of the lock file that stands for a key: one byte, at an offset of 48 bits of
 * the key. */
static struct flock lock_range(const unsigned char *key, short type)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

    for (int i = 0; i < 6; i++)
        range.l_start = range.l_start << 8 | key[i];
    return range;
}

/* True if the cache directory has an entry for this key. */
static bool has_entry(int root, const unsigned char *key)
{
    struct name name = limber_disk_name(key);
    char path[3 + sizeof name.file];
    struct stat st;

    snprintf(path, sizeof path, "%.2s/%s", name.hex, name.file);
    return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Locks or unlocks a key's byte (type: F_WRLCK, F_RDLCK or F_UNLCK).  Returns false on failure;
 * errno is EAGAIN if another process holds a conflicting lock. */
static bool lock_byte(int fd, const unsigned char *key, short type)
{
    struct flock range = lock_range(key, type);
    int failed;

    while ((failed = fcntl(fd, F_OFD_SETLK, &range)) != 0 && errno == EINTR)
        ;
    if (failed && errno == EACCES)
        errno = EAGAIN;
    return !failed;
}

/* Waits until the entry exists or its maker has ended.  The system releases the locks of a process
 * however it ends.  A shared lock, which all waiters can hold at once, tests whether the maker has
 * ended.  The entry itself is tested more often, since it appears before its maker releases the
 * lock. This polls because a blocking lock has no timeout.  Intervals grow with the time waited, so
 * that many waiters do not slow down the maker's file server.  False after `patience` seconds or an
 * error. */
static bool wait_for_maker(int root, int fd, const unsigned char *key, double patience)
{
    const double start = limber_now();
    bool maker_ended;

    while (!lock_byte(fd, key, F_WRLCK)) {
        maker_ended = false;
        for (int i = 1; !maker_ended; i++) {
            double waited = limber_now() - start, step = fmin(fmax(waited / 4, 0.5e-3), 0.25);

            if (errno != EAGAIN || waited > patience)
                return false;
            nanosleep(&(struct timespec){ 0, (long)(1e9 * step) }, NULL);
            if (has_entry(root, key))
                return true;
            errno = EAGAIN;
            maker_ended = i % 4 == 0 && lock_byte(fd, key, F_RDLCK);
        }
        lock_byte(fd, key, F_UNLCK);
    }
    return true;
}

/* Locks `key` in the cache's lock file, so that only one process makes its kernel.  Returns the
 * lock's descriptor; -1 if the cache cannot be written, or another process keeps the lock for too
 * long. */
int limber_disk_claim(struct disk *disk, const unsigned char key[KEY_BYTES])
{
    struct seal_key sealer;
    bool site;
    int root, fd;

    if (disk->mode != CACHE_rw || limber_disk_given_up(disk, disk->no_write) ||
        (root = limber_disk_root(disk, true, &site)) < 0)
        return -1;
    if (!limber_disk_key(disk, true, &sealer)) { /* without a key no entry can be stored */
        close(root);
        return -1;
    }
    fd = openat(root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0 && !wait_for_maker(root, fd, key, disk->patience)) {
        close(fd);
        fd = -1;
    }
    close(root);
    return fd;
}

/* Releases the lock that limber_disk_claim took. claim: its descriptor, or -1. */
void limber_disk_release(int claim, const unsigned char key[KEY_BYTES])
{
    struct flock range = lock_range(key, F_UNLCK);

    if (claim < 0)
        return;
    fcntl(claim, F_OFD_SETLK, &range); /* unlocks even if a forked child still has the file open */
    close(claim);
}
