/* SPDX-License-Identifier: BSD-3-Clause
 * SipHash, the file of the sealing key, and the safe opening of its directory. */
#define _GNU_SOURCE /* O_PATH, syscall */
#include "jit/cache/seal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- SipHash --------------------------------------------------------------------------------- */

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* The state of SipHash.  It is passed by value, so that it stays in registers. */
struct words {
    uint64_t a, b, c, d;
};

/* Computes one round of SipHash. */
static inline struct words sip_round(struct words v)
{
    v.a += v.b;
    v.c += v.d;
    v.b = rotate(v.b, 13) ^ v.a;
    v.d = rotate(v.d, 16) ^ v.c;
    v.a = rotate(v.a, 32) + v.d;
    v.c += v.b;
    v.d = rotate(v.d, 21) ^ v.a;
    v.b = rotate(v.b, 17) ^ v.c;
    v.c = rotate(v.c, 32);
    return v;
}

/* Adds a word to the state of SipHash-2-4. */
static inline struct words absorb_word(struct words v, uint64_t word)
{
    v.d ^= word;
    v = sip_round(sip_round(v));
    v.a ^= word;
    return v;
}

/* A SipHash of bytes that are added piece by piece. */
struct sip {
    struct words v;
    uint64_t tail; /* the last length % 8 bytes, which do not fill a word yet */
    /* number of bytes added so far */
    size_t length;
};

static uint64_t load_little_endian(const unsigned char *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
    return le64toh(x);
}

/* Adds n bytes to the hash. */
static void add_bytes(struct sip *s, const unsigned char *p, size_t n)
{
    struct words v = s->v;

    for (; n > 0 && (s->length % 8 != 0 || n < 8); n--) {
        s->tail |= (uint64_t)*p++ << 8 * (s->length++ % 8);
        if (s->length % 8 == 0) {
            v = absorb_word(v, s->tail);
            s->tail = 0;
        }
    }
    for (; n >= 8; n -= 8, p += 8, s->length += 8)
        v = absorb_word(v, load_little_endian(p));
    s->v = v;
    if (n > 0)
        add_bytes(s, p, n);
}

/* Computes the seal of data and more: a 128-bit SipHash with the secret key. */
void limber_seal(const struct seal_key *key, const void *data, size_t n, const void *more, size_t m,
                 unsigned char out[SEAL_BYTES])
{
    const uint64_t k[2] = { load_little_endian(key->byte), load_little_endian(key->byte + 8) };
    struct sip s = { .v = { k[0] ^ 0x736f6d6570736575u, k[1] ^ 0x646f72616e646f6du ^ 0xee,
                            k[0] ^ 0x6c7967656e657261u, k[1] ^ 0x7465646279746573u } };
    struct words v;

    add_bytes(&s, data, n);
    add_bytes(&s, more, m);
    v = absorb_word(s.v, s.tail | (uint64_t)s.length << 56);
    v.c ^= 0xee;
    for (int half = 0; half < 2; half++) {
        uint64_t word;

        v = sip_round(sip_round(sip_round(sip_round(v))));
        word = htole64(v.a ^ v.b ^ v.c ^ v.d);
        memcpy(out + 8 * half, &word, sizeof word);
        v.b ^= 0xdd;
    }
}

/* ---- folders --------------------------------------------------------------------------------- */

enum { MOST_LINKS = 40 };

/* A path that is followed directory by directory. */
struct path_walk {
    int fd; /* the directory reached so far */
    char done[PATH_MAX]; /* the path of that directory, for messages */
    char rest[PATH_MAX]; /* the rest of the path, which is still to be opened */
    /* number of symbolic links followed so far, at most MOST_LINKS */
    int links;
    /* missing directories are created */
    bool create;
    /* buffer of `size` bytes for the reason of a refusal */
    char *why;
    size_t size;
};

/* Writes to w->why which part of the path is refused, and why.  Returns false. */
static bool refuse(struct path_walk *w, const char *name, const char *reason)
{
    snprintf(w->why, w->size, "%.150s%s%.60s: %s", w->done, *name ? "/" : "", name, reason);
    errno = EACCES;
    return false;
}

/* True if files of this user are trusted: root's and our own. */
static bool is_trusted_owner(uid_t user)
{
    return user == 0 || user == geteuid();
}

/* True if no other user can change this directory or link.  A directory in which others may write
 * only their own files (sticky, such as /tmp) is safe: they cannot replace ours. */
static bool is_safe(struct path_walk *w, const char *name, const struct stat *st)
{
    char reason[80];

    if (!is_trusted_owner(st->st_uid)) {
        snprintf(reason, sizeof reason, "it belongs to user %ld, not to user %ld", (long)st->st_uid,
                 (long)geteuid());
        return refuse(w, name, reason);
    }
    if (S_ISDIR(st->st_mode) && (st->st_mode & (S_IWGRP | S_IWOTH)) && !(st->st_mode & S_ISVTX)) {
        snprintf(reason, sizeof reason, "others may write to it (mode %o)",
                 (unsigned)st->st_mode & 07777);
        return refuse(w, name, reason);
    }
    return true;
}

/* Makes fd the directory that the walk has reached.  False if other users can change that
 * directory. */
static bool step_to(struct path_walk *w, int fd)
{
    struct stat st;

    if (w->fd >= 0)
        close(w->fd);
    w->fd = fd;
    return fd >= 0 && fstat(fd, &st) == 0 ? is_safe(w, "", &st) : refuse(w, "", strerror(errno));
}

/* Starts a walk along a path at the root directory.  False, with a reason, if that is not safe. */
static bool start_at_root(struct path_walk *w)
{
    *w->done = 0;
    return step_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Replaces a symbolic link by its target in the path that is left.  False, with a reason, if there
 * are too many links or the path is too long. */
static bool follow_link(struct path_walk *w, int link, const char *name)
{
    char text[2 * PATH_MAX];
    ssize_t n = readlinkat(link, "", text, PATH_MAX - 1);

    if (n < 0 || ++w->links > MOST_LINKS || (size_t)n + strlen(w->rest) + 2 > PATH_MAX)
        return refuse(w, name, strerror(n < 0 ? errno : ELOOP));
    text[n] = '/';
    strcpy(text + n + 1, w->rest);
    strcpy(w->rest, text);
    return *text != '/' || start_at_root(w);
}

/* Enters a directory, or follows a link.  If the directory is missing, creates it if w->create is
 * set.  False if it stays missing (errno ENOENT) or, with a reason, is refused. */
static bool enter_folder(struct path_walk *w, const char *name)
{
    const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(w->fd, name, flags);
    struct stat st;
    bool ok;

    if (fd < 0 && errno == ENOENT) {
        if (!w->create)
            return false;
        if (mkdirat(w->fd, name, 0700) == 0 || errno == EEXIST)
            fd = openat(w->fd, name, flags);
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        ok = refuse(w, name, strerror(errno));
    } else if (S_ISLNK(st.st_mode)) {
        ok = is_safe(w, name, &st) && follow_link(w, fd, name);
    } else if (!S_ISDIR(st.st_mode)) {
        ok = refuse(w, name, strerror(ENOTDIR));
    } else {
        snprintf(w->done + strlen(w->done), sizeof w->done - strlen(w->done), "/%s", name);
        return step_to(w, fd);
    }
    if (fd >= 0) {
        int error = errno;

        close(fd);
        errno = error;
    }
    return ok;
}

/* Follows the path from the root directory, one name after the other.  False, with a reason in
 * w->why or errno, if a directory is missing or refused. */
static bool walk_path(struct path_walk *w)
{
    bool ok = start_at_root(w);

    while (ok && *w->rest) {
        size_t n = strcspn(w->rest, "/");
        char name[NAME_MAX + 1];

        if (n > NAME_MAX)
            return refuse(w, "", strerror(ENAMETOOLONG));
        memcpy(name, w->rest, n);
        name[n] = 0;
        memmove(w->rest, w->rest + n, strlen(w->rest) - n + 1);
        memmove(w->rest, w->rest + strspn(w->rest, "/"),
                strlen(w->rest) - strspn(w->rest, "/") + 1);
        ok = n == 0 || strcmp(name, ".") == 0 || enter_folder(w, name);
    }
    return ok;
}

/* Opens a folder by an absolute path, checking each folder on the way; `create` makes those that
 * are missing.  Returns -1 on failure, with the reason in errno and `why`. */
int limber_folder_open(const char *path, bool create, char *why, size_t size)
{
    struct path_walk *w = calloc(1, sizeof *w); /* too large for the small stacks of some threads */
    int fd = -1, error;

    *why = 0;
    if (!w) {
        errno = ENOMEM;
        return -1;
    }
    *w = (struct path_walk){ .fd = -1, .create = create, .why = why, .size = size };
    if (*path != '/') {
        snprintf(why, size, "%.150s: it is no absolute path", path);
        errno = EACCES;
    } else if (strlen(path) >= sizeof w->rest) {
        snprintf(why, size, "%s", strerror(errno = ENAMETOOLONG));
    } else {
        strcpy(w->rest, path);
        if (walk_path(w))
            fd = w->fd;
    }
    error = errno;
    if (fd < 0 && w->fd >= 0)
        close(w->fd);
    free(w);
    errno = error;
    return fd;
}

/* ---- the key --------------------------------------------------------------------------------- */

/* Reads the key from its file.  False, with a reason, unless this user alone may read and write the
 * file. */
static bool read_key(int fd, struct seal_key *key, char *why, size_t size)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & (S_IRWXG | S_IRWXO)))
        snprintf(why, size, "it is no file that user %ld alone may read", (long)geteuid());
    else if (st.st_size != sizeof *key || pread(fd, key, sizeof *key, 0) != (ssize_t)sizeof *key)
        snprintf(why, size, "it does not hold %zu bytes", sizeof *key);
    else
        return true;
    return false;
}

/* Flag RENAME_NOREPLACE of renameat2, which musl does not declare. */
enum { NO_REPLACE = 1 };

/* Writes a random key to a temporary file and links it as `name`.  If several processes do so, the
 * first one's key is kept.  False, with errno, on failure. */
static bool make_key(int folder, const char *name)
{
    struct {
        struct seal_key key;
        uint64_t name;
    } random;
    char temporary[32];
    int fd, error = 0;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(temporary, sizeof temporary, "tmp.%016llx", (unsigned long long)random.name);
    fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    errno = EIO;
    if (write(fd, &random.key, sizeof random.key) != (ssize_t)sizeof random.key || fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && linkat(folder, temporary, folder, name, 0) != 0 && errno != EEXIST &&
        syscall(SYS_renameat2, folder, temporary, folder, name, NO_REPLACE) != 0 && errno != EEXIST)
        error = errno;
    unlinkat(folder, temporary, 0);
    errno = error;
    return !error;
}

/* Opens the key's file in its directory; -1 on failure.  create: makes the key if it is absent.
 * O_NONBLOCK keeps open() from blocking on a FIFO. */
static int open_key(int folder, const char *name, bool create)
{
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = openat(folder, name, flags);

    if (fd < 0 && errno == ENOENT && create && make_key(folder, name))
        fd = openat(folder, name, flags);
    return fd;
}

/* Reads the secret key in a file.  create: makes the key if it is absent.  False on failure, with
 * the reason in `why`, which is "" if the key is absent. */
bool limber_seal_key(const char *path, bool create, struct seal_key *key, char *why, size_t size)
{
    char *folder = strdup(path), *name = folder ? strrchr(folder, '/') : NULL, text[160] = "";
    int fd = -1, at;
    bool ok = false;

    *why = 0;
    if (!folder) {
        errno = ENOMEM;
        snprintf(why, size, "no memory");
        return false;
    }
    if (!name || !name[1]) {
        snprintf(why, size, "%.150s: it is no absolute path of a file", path);
        free(folder);
        return false;
    }
    *name++ = 0;
    at = limber_folder_open(*folder ? folder : "/", create, why, size);
    if (at >= 0) {
        fd = open_key(at, name, create);
        ok = fd >= 0 && read_key(fd, key, text, sizeof text);
        if (fd < 0 && (errno != ENOENT || create))
            snprintf(text, sizeof text, "%s", strerror(errno));
        if (*text)
            snprintf(why, size, "%.90s/%.40s: %.120s", folder, name, text);
        if (fd >= 0)
            close(fd);
        close(at);
    }
    free(folder);
    return ok;
}
