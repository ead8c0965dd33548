/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels on disk: DIR/<2 hex>/<62 hex>.kernel, one file per entry.  A file is written under
 * another name and then renamed, so that a reader sees all of it or nothing.
 *
 * Code from this cache runs with the user's rights.  So nothing is read from or written to a
 * directory that belongs to another user (except root), that others may write to, or whose path
 * others may change.  All files are opened relative to the open directory, so that no path can be
 * exchanged between check and use.  The owner of a file need not be its author: files from archives
 * and copies belong to whoever unpacks them.  So entries are sealed with a key of the user, which
 * is stored elsewhere.  Entries that root owns in directories of root, a site's cache, are accepted
 * without a seal.  An entry that is faulty in any way is made again. */
#define _GNU_SOURCE /* O_DIRECTORY and similar flags under any standard */
#define XXH_INLINE_ALL
#include "jit/cache/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { SHARDS = 256, NAME = KEY_HEX - 2, DAY = 24 * 60 * 60 };
static const char suffix[] = DISK_SUFFIX, temporary[] = "tmp.";
/* largest possible kernel in bytes; a larger size means damage */
static const uint64_t most_bytes = (uint64_t)1 << 28;

/* The header of an entry's file.  The kernel's bytes follow the header. */
struct header {
    char magic[8];
    uint32_t version;
    uint32_t order; /* 0x01020304 in the byte order of the machine that wrote the entry */
    struct facts facts;
    /* size of the kernel, which follows */
    uint64_t bytes;
    uint64_t sum; /* checksum of header and kernel, with `sum` and `seal` zero */
    unsigned char seal[SEAL_BYTES]; /* seal of header and kernel, with `seal` zero */
};

static const struct header model = { .magic = "limberK", .version = 2, .order = 0x01020304 };

/* ---- opening the directory and its parents --------------------------------------------------- */

/* Makes a disk cache with these options; its folder is opened later.  NULL if memory is short. */
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
    if ((o->dir && !(disk->dir = strdup(o->dir))) ||
        (o->key_file && !(disk->key_file = strdup(o->key_file)))) {
        limber_disk_free(disk);
        return NULL;
    }
    return disk;
}

/* Frees a disk cache; its entries stay on disk. */
void limber_disk_free(struct disk *disk)
{
    if (!disk)
        return;
    limber_at_fork_no_more(&disk->at_fork);
    pthread_mutex_destroy(&disk->lock);
    free(disk->dir);
    free(disk->key_file);
    explicit_bzero(&disk->key, sizeof disk->key);
    free(disk);
}

/* Records the reason for giving up the cache, or writing to it, in `what` (why_not or no_write),
 * and warns.  Only the first reason is recorded. */
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

/* True if `what`, the reason for not using or not writing the cache, is set. */
bool limber_disk_given_up(struct disk *disk, const char *what)
{
    bool yes;

    pthread_mutex_lock(&disk->lock);
    yes = *what != '\0';
    pthread_mutex_unlock(&disk->lock);
    return yes;
}

/* True if root owns the file or directory and this user is not root: a site's cache. */
static bool is_site_owned(const struct stat *st)
{
    return st->st_uid == 0 && geteuid() != 0;
}

/* True if this user or root owns the file or directory, and nobody else may write to it.  Else
 * `why` gets the reason. */
static bool is_private(const struct stat *st, char *why, size_t size)
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

/* Opens the cache directory without checking its path again, if it is still the directory whose
 * path was checked.  Only this user and root can have changed that path since.  Returns -1 if it is
 * another directory or cannot be opened. */
static int reopen_root(struct disk *disk, struct stat *st)
{
    bool same;
    int fd = -1;

    pthread_mutex_lock(&disk->lock);
    same = disk->walked;
    pthread_mutex_unlock(&disk->lock);
    if (same)
        fd = open(disk->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    pthread_mutex_lock(&disk->lock);
    same = fstat(fd, st) == 0 && st->st_dev == disk->device && st->st_ino == disk->inode;
    pthread_mutex_unlock(&disk->lock);
    if (same)
        return fd;
    close(fd);
    return -1;
}

/* Remembers that the directory's path was checked, and which directory it led to. */
static void remember_status(struct disk *disk, const struct stat *st)
{
    pthread_mutex_lock(&disk->lock);
    disk->walked = true;
    disk->device = st->st_dev;
    disk->inode = st->st_ino;
    pthread_mutex_unlock(&disk->lock);
}

/* Opens the cache folder and checks that this user or root owns it and nobody else can write to
 * it.  *site: set to true if the superuser owns it and this user is another (a site's cache).
 * Returns -1 if the folder cannot be used; with a reason, the cache is given up. */
int limber_disk_root(struct disk *disk, bool create, bool *site)
{
    char why[240] = "";
    struct stat st;
    int fd;

    if (limber_disk_given_up(disk, disk->why_not))
        return -1;
    fd = reopen_root(disk, &st);
    if (fd < 0 && (fd = limber_folder_open(disk->dir, create, why, sizeof why)) >= 0 &&
        fstat(fd, &st) == 0)
        remember_status(disk, &st);
    if (fd >= 0 && is_private(&st, why, sizeof why)) {
        *site = is_site_owned(&st);
        return fd;
    }
    if (*why)
        give_up(disk, disk->why_not, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Gets the key that seals entries, which is read from its file once.  create: makes the key if it
 * is absent.  False if there is no key.  If the key is refused, or cannot be made, the cache is no
 * longer used. */
bool limber_disk_key(struct disk *disk, bool create, struct seal_key *key)
{
    char why[240] = "";
    bool has;

    pthread_mutex_lock(&disk->lock);
    has = disk->has_key;
    *key = disk->key;
    pthread_mutex_unlock(&disk->lock);
    if (has)
        return true;
    if (!disk->key_file)
        snprintf(why, sizeof why,
                 "none of LIMBER_CACHE_KEY, XDG_STATE_HOME and HOME says where the key "
                 "of its entries is");
    else
        has = limber_seal_key(disk->key_file, create, key, why, sizeof why);
    if (!has && !*why && disk->mode == CACHE_ro)
        snprintf(why, sizeof why, "%.150s is absent, and none is made where LIMBER_CACHE is ro",
                 disk->key_file);
    if (*why) {
        give_up(disk, disk->why_not, why);
        return false;
    }
    if (!has)
        return false;
    pthread_mutex_lock(&disk->lock);
    disk->has_key = true;
    disk->key = *key;
    pthread_mutex_unlock(&disk->lock);
    return true;
}

/* Opens one of the 256 subdirectories, named by two hexadecimal digits.  A subdirectory may have
 * been copied there with permissions for others, so it is checked, too.  *site: set to false if
 * the superuser does not own the subdirectory.  Returns -1 on failure. */
static int open_shard(int root, const char *hex, bool create, bool *site)
{
    const char name[3] = { hex[0], hex[1], '\0' };
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    char why[200];
    struct stat st;
    int fd = openat(root, name, flags);

    if (fd < 0 && errno == ENOENT && create && (mkdirat(root, name, 0700) == 0 || errno == EEXIST))
        fd = openat(root, name, flags);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && is_private(&st, why, sizeof why)) {
        *site = *site && is_site_owned(&st);
        return fd;
    }
    close(fd);
    errno = EACCES;
    return -1;
}

/* Returns the file name of a key's entry. */
struct name limber_disk_name(const unsigned char *key)
{
    struct name n;

    limber_key_hex(key, KEY_BYTES, n.hex);
    memcpy(n.file, n.hex + 2, NAME);
    memcpy(n.file + NAME, suffix, sizeof suffix);
    return n;
}

/* ---- reading an entry, and its seal ---------------------------------------------------------- */

/* Reads exactly `size` bytes.  False on an error or at the end of the file. */
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

/* Returns the checksum of an entry's header, with `sum` and `seal` zero, and of its kernel. */
static uint64_t checksum_of(const struct header *h, const void *bytes)
{
    XXH3_state_t state;
    struct header b = *h;

    b.sum = 0;
    memset(b.seal, 0, sizeof b.seal);
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, &b, sizeof b);
    XXH3_64bits_update(&state, bytes, (size_t)h->bytes);
    return XXH3_64bits_digest(&state);
}

/* Computes the seal of an entry and writes it into the header. */
static void seal_entry(struct header *h, const void *bytes, const struct seal_key *key)
{
    struct header b = *h;

    memset(b.seal, 0, sizeof b.seal);
    limber_seal(key, &b, sizeof b, bytes, (size_t)h->bytes, h->seal);
}

/* True if the entry's seal is right.  Compares in constant time, so that an attacker cannot learn
 * the seal byte by byte. */
static bool is_sealed(const struct header *h, const void *bytes, const struct seal_key *key)
{
    struct header right = *h;
    unsigned differ = 0;

    seal_entry(&right, bytes, key);
    for (int i = 0; i < SEAL_BYTES; i++)
        differ |= h->seal[i] ^ right.seal[i];
    return differ == 0;
}

/* True for printable text with a closing zero.  Texts of entries are shown on terminals, which obey
 * control characters. */
static bool is_printable(const char *s, size_t size)
{
    const char *end = memchr(s, 0, size);

    for (; end && s < end; s++)
        if (*s < ' ' || *s > '~')
            return false;
    return end;
}

/* Reads the header of an open entry.  False if it is damaged or does not match the file's name and
 * size. */
static bool read_header(int fd, const char *hex, struct header *h, struct stat *st)
{
    char why[200], own[KEY_HEX + 1];

    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) || !is_private(st, why, sizeof why) ||
        !read_all(fd, h, sizeof *h))
        return false;
    limber_key_hex(h->facts.key, KEY_BYTES, own);
    return memcmp(h->magic, model.magic, sizeof h->magic) == 0 && h->version == model.version &&
           h->order == model.order && h->bytes <= most_bytes &&
           (uint64_t)st->st_size == sizeof *h + h->bytes && memcmp(own, hex, KEY_HEX) == 0 &&
           is_printable(h->facts.scheme, sizeof h->facts.scheme) &&
           is_printable(h->facts.plan, sizeof h->facts.plan);
}

/* State of an entry's file.  FOREIGN: sealed by another key.  UNKNOWN: not checked, because there
 * is no memory or no key. */
enum quality { DAMAGED, FOREIGN, UNKNOWN, GOOD };

/* Reads an entry's kernel into *out and checks checksum and seal.  If key is NULL, root owns the
 * entry, and the seal is not checked.  *out is empty unless the result is GOOD. */
static enum quality read_bytes(int fd, const struct header *h, const struct seal_key *key,
                               struct blob *out)
{
    enum quality q = DAMAGED;

    out->size = (size_t)h->bytes;
    out->data = malloc(out->size + 1); /* malloc(0) might return NULL */
    if (!out->data)
        q = UNKNOWN;
    else if (read_all(fd, out->data, out->size)) {
        if (key && is_sealed(h, out->data, key))
            q = GOOD;
        else if (checksum_of(h, out->data) == h->sum)
            q = key ? FOREIGN : GOOD;
    }
    if (q != GOOD) {
        free(out->data);
        *out = (struct blob){ 0 };
    }
    return q;
}

/* Opens an entry's file; -1 on failure.  O_NONBLOCK keeps open() from blocking on a FIFO. */
static int open_entry(int shard, const char *file)
{
    return openat(shard, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Updates an entry's time of last use, by which entries are evicted, if it is a day old. */
static void touch_entry(int fd, const struct stat *st)
{
    if (time(NULL) - st->st_mtime >= DAY)
        futimens(fd, NULL);
}

/* Reads and verifies the entry of a key.  Damaged entries are removed if the cache is writable.
 * *bytes: the object, to be freed.  False if there is no valid entry. */
bool limber_disk_load(struct disk *disk, const unsigned char key[KEY_BYTES], struct facts *f,
                      struct blob *bytes)
{
    struct name name = limber_disk_name(key);
    struct seal_key sealer;
    struct header h;
    struct stat st;
    enum quality q = DAMAGED;
    bool ok = false, site = false, good;
    int root = -1, shard = -1, fd = -1;

    *bytes = (struct blob){ 0 };
    root = limber_disk_root(disk, false, &site);
    if (root >= 0)
        shard = open_shard(root, name.hex, false, &site);
    if (shard >= 0)
        fd = open_entry(shard, name.file);
    if (fd >= 0) {
        good = read_header(fd, name.hex, &h, &st);
        site = good && site && is_site_owned(&st);
        if (good)
            q = site || limber_disk_key(disk, false, &sealer) ?
                    read_bytes(fd, &h, site ? NULL : &sealer, bytes) :
                    UNKNOWN;
        ok = q == GOOD;
        if (ok) {
            *f = h.facts;
            if (disk->mode == CACHE_rw)
                touch_entry(fd, &st);
        } else if (disk->mode == CACHE_rw && q != UNKNOWN) {
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

/* Removes the entry of a key, if the cache is writable. */
void limber_disk_drop(struct disk *disk, const unsigned char key[KEY_BYTES])
{
    struct name name = limber_disk_name(key);
    bool site;
    int root, shard;

    if (disk->mode != CACHE_rw || (root = limber_disk_root(disk, false, &site)) < 0)
        return;
    shard = open_shard(root, name.hex, false, &site);
    if (shard >= 0) {
        unlinkat(shard, name.file, 0);
        close(shard);
    }
    close(root);
}

/* ---- walking over all entries ---------------------------------------------------------------- */

static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
            return false;
    return true;
}

/* True if the file's name is that of an entry. */
static bool is_entry(const char *file)
{
    return strlen(file) == NAME + sizeof suffix - 1 && is_hex(file, NAME) &&
           strcmp(file + NAME, suffix) == 0;
}

/* True if the file's name is that of a file that is still being written. */
static bool is_temporary(const char *file)
{
    return strncmp(file, temporary, sizeof temporary - 1) == 0;
}

/* Sets there[i] for each subdirectory that exists, from one listing.  On a network file system,
 * trying to open a missing name costs as much as opening an existing one. */
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

/* An open subdirectory of the cache, and its name. site: entries that the superuser owns are a
 * site's. */
struct shard {
    int fd;
    char hex[3];
    bool site;
};

/* Calls `step` for every entry and temporary file of every subdirectory, until `step` returns
 * nonzero. */
static void for_each_file(int root, bool site,
                          int (*step)(void *user, const struct shard *shard, const char *file),
                          void *user)
{
    bool there[SHARDS] = { false };
    int stop = 0;

    find_shards(root, there);
    for (int i = 0; i < SHARDS && !stop; i++) {
        struct shard shard = { .site = site };
        struct dirent *e;
        DIR *dir;

        if (!there[i])
            continue;
        limber_key_hex(&(unsigned char){ (unsigned char)i }, 1, shard.hex);
        shard.fd = open_shard(root, shard.hex, false, &shard.site);
        dir = shard.fd >= 0 ? fdopendir(shard.fd) : NULL;
        if (!dir) {
            if (shard.fd >= 0)
                close(shard.fd);
            continue;
        }
        while (!stop && (e = readdir(dir)))
            if (is_entry(e->d_name) || is_temporary(e->d_name))
                stop = step(user, &shard, e->d_name);
        closedir(dir);
    }
}

/* An entry with the time of its last use and its size. */
struct entry_age {
    char hex[KEY_HEX + 1];
    time_t used;
    uint64_t bytes;
};

/* All entries of the cache, listed before the oldest are removed. */
struct entry_list {
    /* owned; n elements are set, `room` are allocated */
    struct entry_age *entry;
    size_t n, room;
    uint64_t bytes;
};

/* Callback of for_each_file: lists an entry, and removes temporary files older than a day. */
static int count_file(void *user, const struct shard *shard, const char *file)
{
    struct entry_list *c = user;
    struct stat st;

    if (fstatat(shard->fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    if (is_temporary(file)) { /* perhaps left by a process that was killed */
        if (time(NULL) - st.st_mtime > DAY)
            unlinkat(shard->fd, file, 0);
        return 0;
    }
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        struct entry_age *more = realloc(c->entry, room * sizeof *more);

        if (!more)
            return 1;
        c->entry = more;
        c->room = room;
    }
    snprintf(c->entry[c->n].hex, sizeof c->entry->hex, "%s%.62s", shard->hex, file);
    c->entry[c->n].used = st.st_mtime;
    c->entry[c->n].bytes = (uint64_t)st.st_size;
    c->bytes += (uint64_t)st.st_size;
    c->n++;
    return 0;
}

/* Compares files by their last use, for qsort. */
static int compare_age(const void *a, const void *b)
{
    const struct entry_age *x = a, *y = b;

    if (x->used != y->used)
        return x->used < y->used ? -1 : 1;
    return strcmp(x->hex, y->hex);
}

/* Removes the least recently used entries until at most `target` bytes are left. keep: name of an
 * entry that is not removed. */
static void evict_oldest(int root, struct entry_list *c, uint64_t target, const char *keep)
{
    qsort(c->entry, c->n, sizeof *c->entry, compare_age);
    for (size_t i = 0; i < c->n && c->bytes > target; i++) {
        const struct entry_age *e = &c->entry[i];
        char file[NAME + sizeof suffix];
        bool site = false;
        int shard;

        if (strcmp(e->hex, keep) == 0 || (shard = open_shard(root, e->hex, false, &site)) < 0)
            continue;
        snprintf(file, sizeof file, "%s%s", e->hex + 2, suffix);
        if (unlinkat(shard, file, 0) == 0 || errno == ENOENT)
            c->bytes -= e->bytes;
        close(shard);
    }
}

/* Evicts the oldest entries if the cache exceeds its limit, down to four fifths of it, so that
 * evictions are rare.  Other processes write to the directory, too, and this process cannot count
 * their bytes: it lists the entries again each time that it has written a 64th of what was free. */
static void make_room(struct disk *disk, int root, uint64_t added, const char *keep)
{
    struct entry_list c = { 0 };
    bool enough;

    pthread_mutex_lock(&disk->lock);
    enough = added <= disk->unlisted;
    disk->unlisted -= enough ? added : disk->unlisted;
    pthread_mutex_unlock(&disk->lock);
    if (enough)
        return;
    for_each_file(root, false, count_file, &c);
    if (c.bytes > disk->limit)
        evict_oldest(root, &c, disk->limit / 5 * 4, keep);
    pthread_mutex_lock(&disk->lock);
    disk->unlisted = c.bytes < disk->limit ? (disk->limit - c.bytes) / 64 : 0;
    pthread_mutex_unlock(&disk->lock);
    free(c.entry);
}

/* ---- writing an entry ------------------------------------------------------------------------ */

/* Makes a file name that is unique among all hosts and processes that share the directory. */
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

/* Writes an entry under a temporary name and renames the file.  On failure returns false with the
 * reason in errno. */
static bool write_entry(struct disk *disk, int shard, const struct name *name,
                        const struct header *h, const void *bytes)
{
    char temp[160];
    int fd, error = 0;

    temporary_name(disk, temp, sizeof temp);
    fd = openat(shard, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    if (!limber_write(fd, h, sizeof *h) || !limber_write(fd, bytes, (size_t)h->bytes))
        error = errno;
    if (close(fd) != 0 && !error)
        error = errno; /* network file systems report exceeded quotas here */
    if (!error && renameat(shard, temp, shard, name->file) != 0) {
        error = errno;
        if (error == EISDIR && unlinkat(shard, name->file, AT_REMOVEDIR) == 0 &&
            renameat(shard, temp, shard, name->file) == 0)
            error = 0;
    }
    if (error)
        unlinkat(shard, temp, 0);
    errno = error;
    return !error;
}

/* True if an errno means that a file or directory blocks the name of one entry, so that other
 * entries can still be written. */
static bool is_name_blocked(int error)
{
    return error == EISDIR || error == ENOTDIR || error == ENOTEMPTY || error == EEXIST ||
           error == ELOOP;
}

/* Writes an entry for the kernel f->key, and removes older entries beyond the cache's limit.
 * Gives up writing after an error. */
void limber_disk_store(struct disk *disk, const struct facts *f, const struct blob *bytes)
{
    struct name name = limber_disk_name(f->key);
    struct header h = model;
    struct seal_key key;
    bool site;
    int root, shard;

    h.facts = *f;
    h.bytes = bytes->size;
    if (disk->mode != CACHE_rw || limber_disk_given_up(disk, disk->no_write) ||
        sizeof h + h.bytes > disk->limit || h.bytes > most_bytes)
        return;
    root = limber_disk_root(disk, true, &site);
    if (root < 0)
        return;
    if (!limber_disk_key(disk, true, &key)) {
        close(root);
        return;
    }
    h.sum = checksum_of(&h, bytes->data);
    seal_entry(&h, bytes->data, &key);
    shard = open_shard(root, name.hex, true, &site);
    if (shard >= 0 && write_entry(disk, shard, &name, &h, bytes->data))
        make_room(disk, root, sizeof h + h.bytes, name.hex);
    else if (!is_name_blocked(errno))
        give_up(disk, disk->no_write, strerror(errno));
    if (shard >= 0)
        close(shard);
    close(root);
}

/* ---- describing, checking and clearing the cache --------------------------------------------- */

/* Fills *info with the cache's folder, number of entries, size and limit, and the reason if it
 * is unused. */
void limber_disk_describe(struct disk *disk, limber_cache_info *info)
{
    struct entry_list c = { 0 };
    struct seal_key key;
    bool site = false;
    int root = limber_disk_root(disk, false, &site);

    if (disk->dir && !site && disk->mode != CACHE_off)
        limber_disk_key(disk, false, &key); /* sets why_not if there is no key */
    *info = (limber_cache_info)LIMBER_CACHE_INFO_INIT;
    if (disk->dir)
        snprintf(info->directory, sizeof info->directory, "%s", disk->dir);
    if (root >= 0) {
        for_each_file(root, site, count_file, &c);
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

/* Arguments and results of a walk over the entries. */
struct visit {
    struct disk *disk;
    bool verify, damaged_only;
    int (*visit)(void *, const limber_cache_entry *);
    void *user;
    size_t removed; /* number of entries removed */
    int error; /* errno of the last failure */
};

/* Describes a file for the caller in *e, and returns its state. verify: also reads and checks the
 * kernel. */
static enum quality inspect_file(struct visit *v, const struct shard *shard, const char *file,
                                 bool verify, limber_cache_entry *e)
{
    struct blob bytes = { 0 };
    struct seal_key key;
    struct header h;
    struct stat st;
    enum quality q = DAMAGED;
    int fd = open_entry(shard->fd, file);

    memset(e, 0, sizeof *e);
    snprintf(e->key, sizeof e->key, "%s%.62s", shard->hex, file);
    if (fstatat(shard->fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        e->bytes = (size_t)st.st_size;
        e->used = (int64_t)st.st_mtime;
    }
    if (fd >= 0) {
        if (read_header(fd, e->key, &h, &st)) {
            q = GOOD;
            snprintf(e->plan, sizeof e->plan, "%s", h.facts.plan);
        }
        if (q == GOOD && verify) {
            if (shard->site && is_site_owned(&st))
                q = read_bytes(fd, &h, NULL, &bytes);
            else
                q = limber_disk_key(v->disk, false, &key) ? read_bytes(fd, &h, &key, &bytes) :
                                                            UNKNOWN;
        }
        close(fd);
    }
    free(bytes.data);
    e->good = q == GOOD;
    e->foreign = q == FOREIGN || q == UNKNOWN;
    return q;
}

/* Callback of for_each_file: describes one entry and calls the caller's function. */
static int visit_file(void *user, const struct shard *shard, const char *file)
{
    struct visit *v = user;
    limber_cache_entry e;

    if (is_temporary(file))
        return 0;
    inspect_file(v, shard, file, v->verify, &e);
    return v->visit(v->user, &e);
}

/* Callback of for_each_file: removes a file; if damaged_only, only an entry that is damaged or
 * sealed by another key. */
static int erase_file(void *user, const struct shard *shard, const char *file)
{
    struct visit *v = user;
    limber_cache_entry e;

    if (v->damaged_only &&
        (is_temporary(file) || inspect_file(v, shard, file, true, &e) >= UNKNOWN))
        return 0;
    if (unlinkat(shard->fd, file, 0) == 0 ||
        (errno == EISDIR && unlinkat(shard->fd, file, AT_REMOVEDIR) == 0))
        v->removed += !is_temporary(file);
    else if (errno != ENOENT)
        v->error = errno;
    return 0;
}

/* Opens the cache directory.  False, with an error, if it must not be used.  If it is absent, *root
 * is -1 and the result is true. */
static bool open_root(struct disk *disk, int *root, bool *site, struct diag *d)
{
    bool refused;

    errno = 0;
    *root = limber_disk_root(disk, false, site);
    if (*root < 0 && errno == ENOMEM)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                           "no memory for the name of the cache directory");
    pthread_mutex_lock(&disk->lock);
    refused = disk->dir && disk->mode != CACHE_off && *disk->why_not;
    if (refused)
        limber_fail(d, LIMBER_STATUS_IO, "the cache in %.200s is not used: %s", disk->dir,
                    disk->why_not);
    pthread_mutex_unlock(&disk->lock);
    return !refused;
}

/* Calls `visit` for each entry. verify: reads entries completely.  False if the folder cannot be
 * opened. */
bool limber_disk_each(struct disk *disk, bool verify,
                      int (*visit)(void *user, const limber_cache_entry *), void *user,
                      struct diag *d)
{
    struct visit v = { .disk = disk, .verify = verify, .visit = visit, .user = user };
    bool site = false;
    int root;

    if (!open_root(disk, &root, &site, d))
        return false;
    if (root >= 0) {
        for_each_file(root, site, visit_file, &v);
        close(root);
    }
    return true;
}

/* Removes all entries, or the damaged ones.  *removed: their number. */
bool limber_disk_clear(struct disk *disk, bool damaged_only, size_t *removed, struct diag *d)
{
    struct visit v = { .disk = disk, .damaged_only = damaged_only };
    bool site = false;
    int root;

    *removed = 0;
    if (disk->dir && disk->mode == CACHE_ro)
        return limber_fail(d, LIMBER_STATUS_IO, "LIMBER_CACHE is ro");
    if (!open_root(disk, &root, &site, d))
        return false;
    if (root >= 0) {
        for_each_file(root, site, erase_file, &v);
        close(root);
    }
    *removed = v.removed;
    return !v.error ||
           limber_fail(d, LIMBER_STATUS_IO, "an entry cannot be removed: %s", strerror(v.error));
}
