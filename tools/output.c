/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE     /* asprintf, realpath under any standard */
#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 };

/* Returns the descriptor for which a name such as /dev/stdout stands, or -1.  Opening that name
 * would truncate a file to which the descriptor is redirected, and fails for sockets. */
static int descriptor_of(const char *path)
{
    static const char *const folder[] = { "/dev/fd/", "/proc/self/fd/" };

    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
        const char *digits = path + strlen(folder[i]);

        if (strncmp(path, folder[i], strlen(folder[i])) == 0 && *digits && strlen(digits) < 9 &&
            strspn(digits, "0123456789") == strlen(digits))
            return atoi(digits);
    }
    return -1;
}

/* Creates a temporary file beside the output file, under a name that no file has.  Returns its
 * descriptor, or -1 with errno set. */
static int open_temporary(struct output *o)
{
    static unsigned made;
    int fd = -1;

    for (int i = 0; i < TRIES && fd < 0; i++) {
        if (asprintf(&o->temporary, "%s.%ld.%u.tmp", o->path, (long)getpid(),
                     __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED)) < 0) {
            o->temporary = NULL;
            errno = ENOMEM;
            break;
        }
        fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0) {
            free(o->temporary);
            o->temporary = NULL;
            if (errno != EEXIST)
                break;
        }
    }
    return fd;
}

/* Gives the new file the old file's owner and permissions.  If the owner cannot be kept, the umask
 * applies as for a new file. */
static void keep_access(int fd, const struct stat *old)
{
    struct stat new;

    if (fstat(fd, &new) != 0)
        return;
    if ((new.st_uid != old->st_uid || new.st_gid != old->st_gid) &&
        fchown(fd, old->st_uid, old->st_gid) != 0)
        return;
    (void)!fchmod(fd, old->st_mode & 0777);
}

/* Opens a name for writing: a descriptor, device or pipe itself, a regular or new file by way of a
 * temporary one.  Returns the descriptor, or -1 with errno set. */
static int open_file(struct output *o, const char *path)
{
    struct stat st;
    bool there = stat(path, &st) == 0;
    int fd = descriptor_of(path);

    if (fd >= 0)
        return fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (there && !S_ISREG(st.st_mode))
        return open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    /* the name is a link to a file that does not exist; creates that file */
    if (!there && lstat(path, &st) == 0)
        return open(path, O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC, 0666);
    o->path = there ? realpath(path, NULL) : strdup(path);
    fd = o->path ? open_temporary(o) : -1;
    if (fd >= 0 && there)
        keep_access(fd, &st);
    return fd;
}

static void clear_output(struct output *o)
{
    free(o->temporary);
    free(o->path);
    *o = (struct output){ 0 };
}

/* Opens an output file.  Returns false, with errno set, on failure, and leaves no temporary
 * file. */
bool output_open(struct output *o, const char *path)
{
    int fd, error;

    *o = (struct output){ 0 };
    fd = open_file(o, path);
    if (fd >= 0)
        o->f = fdopen(fd, "wb");
    if (o->f)
        return true;
    error = errno;
    if (fd >= 0)
        close(fd);
    if (o->temporary)
        unlink(o->temporary);
    clear_output(o);
    errno = error;
    return false;
}

/* Completes a file: renames the temporary file to its name if all was written, else removes it.
 * False on failure, with the reason in errno. */
bool output_close(struct output *o, bool ok)
{
    int error = 0;

    if (ok && (fflush(o->f) || ferror(o->f) || (o->temporary && fsync(fileno(o->f)))))
        error = errno ? errno : EIO;
    if (fclose(o->f) && ok && !error)
        error = errno;
    if (ok && !error && o->temporary && rename(o->temporary, o->path))
        error = errno;
    if ((!ok || error) && o->temporary)
        unlink(o->temporary);
    clear_output(o);
    errno = error;
    return ok && !error;
}

bool output_append(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    ssize_t n = fd < 0 ? -1 : write(fd, text, length);
    int error = n < 0 ? errno : ENOSPC;

    if (fd >= 0)
        close(fd);
    errno = error;
    return n == (ssize_t)length;
}
