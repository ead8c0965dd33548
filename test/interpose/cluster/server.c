/* SPDX-License-Identifier: BSD-3-Clause
 * Simulates a shared file system.  When preloaded, it delays each of Limber's requests for a name
 * or a lock until one server, common to all processes, has answered it.  SERVER_FILE: the file in
 * which processes share the server's clock and counts.  SERVER_RATE: requests that the server
 * answers per second. */
#define _GNU_SOURCE     /* for RTLD_NEXT */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

struct server {
    /* time in ns at which the server will have answered all requests so far */
    _Atomic int64_t free;
    _Atomic int64_t names, locks;
};

static struct server *server;
static int64_t each;            /* ns that the server needs for a request */

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("SERVER_FILE"), *rate = getenv("SERVER_RATE");
    int fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
    void *at =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *server, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    each = rate && atoi(rate) > 0 ? 1000000000 / atoi(rate) : 0;
    server = at == MAP_FAILED ? NULL : at;
}

/* Waits as long as a file server would need to answer.  The server answers one request after the
 * other. */
static void wait_for_server(int lock)
{
    struct timespec t;
    int64_t now, before, done;

    if (!server)
        return;
    atomic_fetch_add(lock ? &server->locks : &server->names, 1);
    clock_gettime(CLOCK_MONOTONIC, &t);
    now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    before = atomic_load(&server->free);
    do
        done = (before > now ? before : now) + each;
    while (!atomic_compare_exchange_weak(&server->free, &before, done));
    t.tv_sec = (time_t)(done / 1000000000);
    t.tv_nsec = (long)(done % 1000000000);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

#define REAL(name) *(void **)&real = dlsym(RTLD_NEXT, #name)

int open(const char *path, int how, ...)
{
    int (*real)(const char *, int, mode_t);
    va_list rest;
    mode_t mode;

    va_start(rest, how);
    mode = how & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (!(how & O_PATH))
        wait_for_server(0);
    REAL(open);
    return real(path, how, mode);
}

int openat(int dir, const char *path, int how, ...)
{
    int (*real)(int, const char *, int, mode_t);
    va_list rest;
    mode_t mode;

    va_start(rest, how);
    mode = how & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (!(how & O_PATH)) /* clients cache opens of folders with O_PATH, so these are no requests */
        wait_for_server(0);
    REAL(openat);
    return real(dir, path, how, mode);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    int (*real)(int, const char *, int, const char *);

    wait_for_server(0);
    REAL(renameat);
    return real(from_dir, from, to_dir, to);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    int (*real)(int, const char *, mode_t);

    wait_for_server(0);
    REAL(mkdirat);
    return real(dir, path, mode);
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int how)
{
    int (*real)(int, const char *, struct stat *, int);

    wait_for_server(0);
    REAL(fstatat);
    return real(dir, path, st, how);
}

int fcntl(int fd, int what, ...)
{
    int (*real)(int, int, void *);
    va_list rest;
    void *arg;

    va_start(rest, what);
    arg = va_arg(rest, void *);
    va_end(rest);
    if (what == F_OFD_SETLK || what == F_OFD_SETLKW)
        wait_for_server(1);
    REAL(fcntl);
    return real(fd, what, arg);
}
