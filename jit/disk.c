/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels on disk: DIR/<2 hex>/<62 hex>.kernel, one file an entry, written under another name and
 * renamed, so that a reader sees all of it or nothing.
 *
 * What runs from here runs as the user, hence nothing is read from or written to a directory that
 * is another user's, other than root's, or that others may write to; and all is reached from the open directory, so
 * that no path can be exchanged between the look and the use.  Entries carry their key and a
 * checksum of every byte; whatever is wrong with one, it is removed and made again. */
#define _GNU_SOURCE     /* O_DIRECTORY and friends under any standard */
#define XXH_INLINE_ALL
#include "jit/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { SHARDS = 256, NAME = KEY_HEX - 2, DAY = 24 * 60 * 60 };
static const char suffix[] = ".kernel", temporary[] = "tmp.";
static const uint64_t most_bytes = (uint64_t)1 << 28;  /* of one kernel; larger lengths are damage */

struct header {
    char magic[8];
    uint32_t version;
    uint32_t order;             /* of bytes: differs on a machine that reads it otherwise */
    struct facts facts;
    uint64_t bytes;
    uint64_t sum;               /* of the header with sum = 0, then of the bytes */
};

static const struct header model = { .magic = "limberK", .version = 1, .order = 0x01020304 };

struct disk {
    char *dir;
    size_t limit;
    enum cache_mode mode;
    double patience;
    void (*warn)(void *user, const char *line);
    void *user;
    struct at_fork at_fork;
    pthread_mutex_t lock;       /* of what follows */
    char why_not[256];          /* the directory is not used at all */
    char no_write[256];         /* nothing more is written */
    bool sized;
    uint64_t size;              /* of all entries, as far as this process knows */
    uint64_t counter;           /* of temporary names */
};

/* ---- the directory --------------------------------------------------------------------------- */

struct disk *limber_disk_new(const struct disk_options *o)
{
    struct disk *disk = calloc(1, sizeof *disk);

    if (!disk)
        return NULL;
    disk->limit = o->limit;
    disk->mode = o->dir ? o->mode : CACHE_off;
    disk->patience = o->patience;
    disk->warn = o->warn;
    disk->user = o->user;
    pthread_mutex_init(&disk->lock, NULL);
    disk->at_fork = (struct at_fork){ .lock = &disk->lock };
    limber_at_fork(&disk->at_fork);
    if (!o->dir)
        snprintf(disk->why_not, sizeof disk->why_not, "%s", o->why_not ? o->why_not : "");
    else if (o->mode == CACHE_off)
        snprintf(disk->why_not, sizeof disk->why_not, "LIMBER_CACHE is off");
    if (o->dir && !(disk->dir = strdup(o->dir))) {
        limber_disk_free(disk);
        return NULL;
    }
    return disk;
}

void limber_disk_free(struct disk *disk)
{
    if (!disk)
        return;
    limber_at_fork_no_more(&disk->at_fork);
    pthread_mutex_destroy(&disk->lock);
    free(disk->dir);
    free(disk);
}

/* Keeps the first reason in `what` (why_not or no_write) and tells it once. */
static void give_up(struct disk *disk, char what[256], const char *reason)
{
    char line[640];
    bool first;

    pthread_mutex_lock(&disk->lock);
    first = !*what;
    if (first)
        snprintf(what, 256, "%s", reason);
    pthread_mutex_unlock(&disk->lock);
    if (!first || !disk->warn)
        return;
    snprintf(line, sizeof line, "limber: the cache in %.300s %s: %.255s", disk->dir,
             what == disk->why_not ? "is not used" : "is not written to", reason);
    disk->warn(disk->user, line);
}

static bool given_up(struct disk *disk, const char *what)
{
    bool yes;

    pthread_mutex_lock(&disk->lock);
    yes = *what != '\0';
    pthread_mutex_unlock(&disk->lock);
    return yes;
}

/* Ours alone to write, or root's, who can do anything to us anyway: a cache for a whole site. */
static bool private(const struct stat *st, char *why, size_t size)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        snprintf(why, size, "it belongs to user %ld, not to user %ld", (long)st->st_uid,
                 (long)geteuid());
    else if (st->st_mode & (S_IWGRP | S_IWOTH))
        snprintf(why, size, "others may write to it (mode %o)", (unsigned)st->st_mode & 07777);
    else
        return true;
    return false;
}

static bool make_parents(const char *dir)
{
    char *path = strdup(dir);
    bool ok = path != NULL;

    for (char *s = path ? path + 1 : NULL; ok && s && *s; s++) {
        if (*s != '/')
            continue;
        *s = '\0';
        ok = mkdir(path, 0700) == 0 || errno == EEXIST || errno == EROFS || errno == EACCES;
        *s = '/';
    }
    ok = ok && (mkdir(path, 0700) == 0 || errno == EEXIST);
    free(path);
    return ok;
}

/* The open directory, or -1: absent (errno is ENOENT, no reason) or not to be used. */
static int open_root(struct disk *disk, bool create)
{
    char why[200];
    struct stat st;
    int fd;

    if (given_up(disk, disk->why_not))
        return -1;
    fd = open(disk->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (!create)
            return -1;
        if (make_parents(disk->dir))
            fd = open(disk->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) {
        give_up(disk, disk->why_not, strerror(errno));
        return -1;
    }
    if (fstat(fd, &st) == 0 && private(&st, why, sizeof why))
        return fd;
    give_up(disk, disk->why_not, why);
    close(fd);
    return -1;
}

/* One of the 256 folders, named by two hexadecimal digits.  It lies in a directory that only we
 * can write to, but it may have been brought there with wide permissions. */
static int open_shard(int root, const char *hex, bool create)
{
    const char name[3] = { hex[0], hex[1], '\0' };
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char why[200];
    struct stat st;
    int fd = openat(root, name, how);

    if (fd < 0 && errno == ENOENT && create && (mkdirat(root, name, 0700) == 0 || errno == EEXIST))
        fd = openat(root, name, how);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && private(&st, why, sizeof why))
        return fd;
    close(fd);
    errno = EACCES;
    return -1;
}

struct name { char hex[KEY_HEX + 1], file[NAME + sizeof suffix]; };

static struct name name_of(const unsigned char *key)
{
    struct name n;

    limber_key_hex(key, KEY_BYTES, n.hex);
    memcpy(n.file, n.hex + 2, NAME);
    memcpy(n.file + NAME, suffix, sizeof suffix);
    return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_all(int fd, void *data, size_t size)
{
    char *at = data;

    while (size > 0) {
        ssize_t n = read(fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static uint64_t sum_of(const struct header *h, const void *bytes)
{
    XXH3_state_t state;
    struct header bare = *h;

    bare.sum = 0;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &bare, sizeof bare);
    XXH3_64bits_update(&state, bytes, (size_t)h->bytes);
    return XXH3_64bits_digest(&state);
}

/* The header of an open entry, when file and header agree. */
static bool read_header(int fd, const char *hex, struct header *h, struct stat *st)
{
    char why[200], own[KEY_HEX + 1];

    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) || !private(st, why, sizeof why) ||
        !read_all(fd, h, sizeof *h))
        return false;
    limber_key_hex(h->facts.key, KEY_BYTES, own);
    return memcmp(h->magic, model.magic, sizeof h->magic) == 0 && h->version == model.version &&
           h->order == model.order && h->bytes <= most_bytes &&
           (uint64_t)st->st_size == sizeof *h + h->bytes && memcmp(own, hex, KEY_HEX) == 0 &&
           memchr(h->facts.scheme, 0, sizeof h->facts.scheme) &&
           memchr(h->facts.plan, 0, sizeof h->facts.plan);
}

static bool read_bytes(int fd, const struct header *h, struct blob *out)
{
    out->size = (size_t)h->bytes;
    out->data = malloc(out->size + 1);      /* never of nothing */
    if (out->data && read_all(fd, out->data, out->size) && sum_of(h, out->data) == h->sum)
        return true;
    free(out->data);
    *out = (struct blob){ 0 };
    return false;
}

/* O_NONBLOCK: a pipe that somebody put there must not hold us up. */
static int open_entry(int shard, const char *file)
{
    return openat(shard, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Entries are evicted by their age; once a day is often enough and spares the disk. */
static void touch(int fd, const struct stat *st)
{
    if (time(NULL) - st->st_mtime >= DAY)
        futimens(fd, NULL);
}

bool limber_disk_load(struct disk *disk, const unsigned char key[KEY_BYTES], struct facts *f,
                      struct blob *bytes)
{
    struct name name = name_of(key);
    struct header h;
    struct stat st;
    bool ok = false;
    int root = -1, shard = -1, fd = -1;

    *bytes = (struct blob){ 0 };
    root = open_root(disk, false);
    if (root >= 0)
        shard = open_shard(root, name.hex, false);
    if (shard >= 0)
        fd = open_entry(shard, name.file);
    if (fd >= 0) {
        ok = read_header(fd, name.hex, &h, &st) && read_bytes(fd, &h, bytes);
        if (ok) {
            *f = h.facts;
            if (disk->mode == CACHE_rw)
                touch(fd, &st);
        } else if (disk->mode == CACHE_rw) {
            unlinkat(shard, name.file, 0);
        }
        close(fd);
    }
    if (shard >= 0)
        close(shard);
    if (root >= 0)
        close(root);
    return ok;
}

void limber_disk_drop(struct disk *disk, const unsigned char key[KEY_BYTES])
{
    struct name name = name_of(key);
    int root, shard;

    if (disk->mode != CACHE_rw || (root = open_root(disk, false)) < 0)
        return;
    shard = open_shard(root, name.hex, false);
    if (shard >= 0) {
        unlinkat(shard, name.file, 0);
        close(shard);
    }
    close(root);
}

/* ---- walking --------------------------------------------------------------------------------- */

static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
            return false;
    return true;
}

static bool is_entry(const char *file)
{
    return strlen(file) == NAME + sizeof suffix - 1 && is_hex(file, NAME) &&
           strcmp(file + NAME, suffix) == 0;
}

static bool is_temporary(const char *file)
{
    return strncmp(file, temporary, sizeof temporary - 1) == 0;
}

/* One listing tells which of the 256 there are: on a file system that others share too, names that are not
 * there cost as much as those that are. */
static void find_shards(int root, bool there[SHARDS])
{
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    if (!dir && fd >= 0)
        close(fd);
    while (dir && (e = readdir(dir)))
        if (is_hex(e->d_name, 2) && !e->d_name[2])
            there[strtol(e->d_name, NULL, 16)] = true;
    if (dir)
        closedir(dir);
}

/* Calls step for every file of every shard; a nonzero answer stops. */
static void walk(int root, int (*step)(void *user, int shard, const char *hex, const char *file),
                 void *user)
{
    bool there[SHARDS] = { false };
    int stop = 0;

    find_shards(root, there);
    for (int i = 0; i < SHARDS && !stop; i++) {
        char hex[3];
        struct dirent *e;
        int fd;
        DIR *dir;

        if (!there[i])
            continue;
        limber_key_hex(&(unsigned char){ (unsigned char)i }, 1, hex);
        fd = open_shard(root, hex, false);
        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        while (!stop && (e = readdir(dir)))
            if (is_entry(e->d_name) || is_temporary(e->d_name))
                stop = step(user, dirfd(dir), hex, e->d_name);
        closedir(dir);
    }
}

struct aged { char hex[KEY_HEX + 1]; time_t used; uint64_t bytes; };
struct census { struct aged *entry; size_t n, room; uint64_t bytes; };

static int count(void *user, int shard, const char *hex, const char *file)
{
    struct census *c = user;
    struct stat st;

    if (fstatat(shard, file, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    if (is_temporary(file)) {   /* left by a process that was killed */
        if (time(NULL) - st.st_mtime > DAY)
            unlinkat(shard, file, 0);
        return 0;
    }
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        struct aged *more = realloc(c->entry, room * sizeof *more);

        if (!more)
            return 1;
        c->entry = more;
        c->room = room;
    }
    snprintf(c->entry[c->n].hex, sizeof c->entry->hex, "%s%.62s", hex, file);
    c->entry[c->n].used = st.st_mtime;
    c->entry[c->n].bytes = (uint64_t)st.st_size;
    c->bytes += (uint64_t)st.st_size;
    c->n++;
    return 0;
}

static int older_first(const void *a, const void *b)
{
    const struct aged *x = a, *y = b;

    if (x->used != y->used)
        return x->used < y->used ? -1 : 1;
    return strcmp(x->hex, y->hex);
}

static void evict(int root, struct census *c, uint64_t target, const char *keep)
{
    qsort(c->entry, c->n, sizeof *c->entry, older_first);
    for (size_t i = 0; i < c->n && c->bytes > target; i++) {
        const struct aged *e = &c->entry[i];
        char file[NAME + sizeof suffix];
        int shard;

        if (strcmp(e->hex, keep) == 0 || (shard = open_shard(root, e->hex, false)) < 0)
            continue;
        snprintf(file, sizeof file, "%s%s", e->hex + 2, suffix);
        if (unlinkat(shard, file, 0) == 0 || errno == ENOENT)
            c->bytes -= e->bytes;
        close(shard);
    }
}

/* Accounts for a new entry; over the limit the oldest go, down to four fifths so that this does
 * not happen at every entry.  Other processes write too, so the directory is counted anew then. */
static void make_room(struct disk *disk, int root, uint64_t added, const char *keep)
{
    struct census c = { 0 };
    bool enough;

    pthread_mutex_lock(&disk->lock);
    disk->size += added;
    enough = disk->sized && disk->size <= disk->limit;
    pthread_mutex_unlock(&disk->lock);
    if (enough)
        return;
    walk(root, count, &c);
    if (c.bytes > disk->limit)
        evict(root, &c, disk->limit / 5 * 4, keep);
    pthread_mutex_lock(&disk->lock);
    disk->sized = true;
    disk->size = c.bytes;
    pthread_mutex_unlock(&disk->lock);
    free(c.entry);
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t n = write(fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = ENOSPC;
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Unique among the hosts and processes that share the directory. */
static void temporary_name(struct disk *disk, char *name, size_t size)
{
    char host[65] = "";
    uint64_t counter;

    gethostname(host, sizeof host - 1);
    for (char *s = host; *s; s++)
        if (*s == '/')
            *s = '-';
    pthread_mutex_lock(&disk->lock);
    counter = disk->counter++;
    pthread_mutex_unlock(&disk->lock);
    snprintf(name, size, "%s%s.%ld.%lx.%llu", temporary, host, (long)getpid(),
             (unsigned long)(uintptr_t)disk, (unsigned long long)counter);
}

/* errno tells why not. */
static bool write_entry(struct disk *disk, int shard, const struct name *name,
                        const struct header *h, const void *bytes)
{
    char temp[160];
    int fd, error = 0;

    temporary_name(disk, temp, sizeof temp);
    fd = openat(shard, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if (!write_all(fd, h, sizeof *h) || !write_all(fd, bytes, (size_t)h->bytes))
        error = errno;
    if (close(fd) != 0 && !error)
        error = errno;          /* where quotas of network file systems show */
    if (!error && renameat(shard, temp, shard, name->file) != 0)
        error = errno;
    if (error)
        unlinkat(shard, temp, 0);
    errno = error;
    return !error;
}

void limber_disk_store(struct disk *disk, const struct facts *f, const struct blob *bytes)
{
    struct name name = name_of(f->key);
    struct header h = model;
    int root, shard;

    h.facts = *f;
    h.bytes = bytes->size;
    if (disk->mode != CACHE_rw || given_up(disk, disk->no_write) ||
        sizeof h + h.bytes > disk->limit || h.bytes > most_bytes)
        return;
    h.sum = sum_of(&h, bytes->data);
    root = open_root(disk, true);
    if (root < 0)
        return;
    shard = open_shard(root, name.hex, true);
    if (shard >= 0 && write_entry(disk, shard, &name, &h, bytes->data))
        make_room(disk, root, sizeof h + h.bytes, name.hex);
    else
        give_up(disk, disk->no_write, strerror(errno));
    if (shard >= 0)
        close(shard);
    close(root);
}

/* ---- one maker ------------------------------------------------------------------------------- */

static struct flock byte_of(const unsigned char *key, short type)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

    for (int i = 0; i < 6; i++)
        range.l_start = range.l_start << 8 | key[i];
    return range;
}

static bool is_there(int root, const unsigned char *key)
{
    struct name name = name_of(key);
    char path[3 + sizeof name.file];
    struct stat st;

    snprintf(path, sizeof path, "%.2s/%s", name.hex, name.file);
    return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* errno is EAGAIN where others keep us from it. */
static bool lock_byte(int fd, const unsigned char *key, short type)
{
    struct flock range = byte_of(key, type);
    int failed;

    while ((failed = fcntl(fd, F_OFD_SETLK, &range)) != 0 && errno == EINTR)
        ;
    if (failed && errno == EACCES)
        errno = EAGAIN;
    return !failed;
}

/* Waits until the entry is there, or its maker gone: the system gives back the locks of a process that ends,
 * however it ends.  That is tried by a lock that all who wait can have at once, and more rarely than the
 * entry, which is there before its maker is done.  In steps, since a wait that the file system does cannot
 * be bounded; they grow with the time waited, since a server that many ask often has none for the maker. */
static bool wait_for(int root, int fd, const unsigned char *key, double patience)
{
    const double start = limber_now();
    bool gone;

    while (!lock_byte(fd, key, F_WRLCK)) {
        gone = false;
        for (int i = 1; !gone; i++) {
            double waited = limber_now() - start, step = fmin(fmax(waited / 4, 0.5e-3), 0.25);

            if (errno != EAGAIN || waited > patience)
                return false;
            nanosleep(&(struct timespec){ 0, (long)(1e9 * step) }, NULL);
            if (is_there(root, key))
                return true;
            errno = EAGAIN;
            gone = i % 4 == 0 && lock_byte(fd, key, F_RDLCK);
        }
        lock_byte(fd, key, F_UNLCK);
    }
    return true;
}

int limber_disk_claim(struct disk *disk, const unsigned char key[KEY_BYTES])
{
    int root, fd;

    if (disk->mode != CACHE_rw || given_up(disk, disk->no_write) ||
        (root = open_root(disk, true)) < 0)
        return -1;
    fd = openat(root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0 && !wait_for(root, fd, key, disk->patience)) {
        close(fd);
        fd = -1;
    }
    close(root);
    return fd;
}

void limber_disk_release(int claim, const unsigned char key[KEY_BYTES])
{
    struct flock range = byte_of(key, F_UNLCK);

    if (claim < 0)
        return;
    fcntl(claim, F_OFD_SETLK, &range);      /* also of a child that was forked meanwhile */
    close(claim);
}

/* ---- controls -------------------------------------------------------------------------------- */

void limber_disk_describe(struct disk *disk, limber_cache_info *info)
{
    struct census c = { 0 };
    int root = open_root(disk, false);

    memset(info, 0, sizeof *info);
    if (disk->dir)
        snprintf(info->directory, sizeof info->directory, "%s", disk->dir);
    if (root >= 0) {
        walk(root, count, &c);
        close(root);
    }
    info->entries = c.n;
    info->bytes = (size_t)c.bytes;
    info->limit = disk->limit;
    free(c.entry);
    pthread_mutex_lock(&disk->lock);
    snprintf(info->why_not, sizeof info->why_not, "%s",
             *disk->why_not ? disk->why_not : disk->no_write);
    info->writable = disk->mode == CACHE_rw && !*info->why_not;
    pthread_mutex_unlock(&disk->lock);
}

struct visit {
    bool verify, damaged_only;
    int (*seen)(void *, const limber_cache_entry *);
    void *user;
    size_t removed;
    int error;
};

static bool look(int shard, const char *hex, const char *file, bool verify, limber_cache_entry *e)
{
    struct blob bytes = { 0 };
    struct header h;
    struct stat st;
    bool good = false;
    int fd = open_entry(shard, file);

    memset(e, 0, sizeof *e);
    snprintf(e->key, sizeof e->key, "%s%.62s", hex, file);
    if (fstatat(shard, file, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        e->bytes = (size_t)st.st_size;
        e->used = (int64_t)st.st_mtime;
    }
    if (fd >= 0) {
        good = read_header(fd, e->key, &h, &st) && (!verify || read_bytes(fd, &h, &bytes));
        close(fd);
    }
    if (good)
        snprintf(e->plan, sizeof e->plan, "%s", h.facts.plan);
    free(bytes.data);
    e->good = good;
    return good;
}

static int show(void *user, int shard, const char *hex, const char *file)
{
    struct visit *v = user;
    limber_cache_entry e;

    if (is_temporary(file))
        return 0;
    look(shard, hex, file, v->verify, &e);
    return v->seen(v->user, &e);
}

static int erase(void *user, int shard, const char *hex, const char *file)
{
    struct visit *v = user;
    limber_cache_entry e;

    if (v->damaged_only && (is_temporary(file) || look(shard, hex, file, true, &e)))
        return 0;
    if (unlinkat(shard, file, 0) == 0)
        v->removed += !is_temporary(file);
    else if (errno != ENOENT)
        v->error = errno;
    return 0;
}

/* False with a text when there is a reason not to use the directory; *root is -1 when it is only
 * absent. */
static bool root_for(struct disk *disk, int *root, struct diag *d)
{
    bool refused;

    *root = open_root(disk, false);
    pthread_mutex_lock(&disk->lock);
    refused = disk->dir && disk->mode != CACHE_off && *disk->why_not;
    if (refused)
        limber_fail(d, LIMBER_IO, "the cache in %.200s is not used: %s", disk->dir, disk->why_not);
    pthread_mutex_unlock(&disk->lock);
    return !refused;
}

bool limber_disk_each(struct disk *disk, bool verify,
                      int (*seen)(void *user, const limber_cache_entry *), void *user,
                      struct diag *d)
{
    struct visit v = { .verify = verify, .seen = seen, .user = user };
    int root;

    if (!root_for(disk, &root, d))
        return false;
    if (root >= 0) {
        walk(root, show, &v);
        close(root);
    }
    return true;
}

bool limber_disk_clear(struct disk *disk, bool damaged_only, size_t *removed, struct diag *d)
{
    struct visit v = { .damaged_only = damaged_only };
    int root;

    *removed = 0;
    if (disk->dir && disk->mode == CACHE_ro)
        return limber_fail(d, LIMBER_IO, "LIMBER_CACHE is ro");
    if (!root_for(disk, &root, d))
        return false;
    if (root >= 0) {
        walk(root, erase, &v);
        close(root);
    }
    pthread_mutex_lock(&disk->lock);
    disk->sized = false;        /* the next entry counts what is left */
    pthread_mutex_unlock(&disk->lock);
    *removed = v.removed;
    return !v.error ||
           limber_fail(d, LIMBER_IO, "an entry cannot be removed: %s", strerror(v.error));
}
