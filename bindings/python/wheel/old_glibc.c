/* SPDX-License-Identifier: BSD-3-Clause
 * Binds glibc functions to the versions of glibc 2.28, so that a wheel built with a newer glibc
 * runs there.  The newer versions are the same functions: some moved to libc.so.6, those of libm no
 * longer call `matherr`. Each file of a wheel has these, hidden.  A function that the linker would
 * take from glibc 2.29 or later belongs here; the wheel's tag tells of any that is missing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* Defines a function that jumps to its old version. */
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#define GO_ON(name) "jmp *old_" name "@GOTPCREL(%rip)\n"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#define GO_ON(name) \
    "adrp x16, :got:old_" name "\n ldr x16, [x16, :got_lo12:old_" name "]\n br x16\n"
#endif
#define SINCE(name, version) \
    __asm__(".text\n.globl " name "\n.hidden " name "\n.type " name ", %function\n" name \
            ":\n" GO_ON(name) ".size " name ", . - " name "\n.symver old_" name ", " name \
                              "@" version)
#define OLD(name) SINCE(#name, FIRST)

#if defined(FIRST)
/* clang-format off */
OLD(exp); OLD(exp2); OLD(log); OLD(log2); OLD(pow);
OLD(dladdr); OLD(dlclose); OLD(dlerror); OLD(dlopen); OLD(dlsym); OLD(dlvsym);
OLD(pthread_attr_getguardsize); OLD(pthread_attr_getstack); OLD(pthread_attr_setstacksize);
OLD(pthread_create); OLD(pthread_getattr_np); OLD(pthread_join); OLD(pthread_mutexattr_destroy);
OLD(pthread_mutexattr_init); OLD(pthread_mutexattr_settype);
OLD(pthread_once); OLD(pthread_sigmask);
#if defined(__x86_64__)
SINCE("pthread_setaffinity_np", "GLIBC_2.3.4");
#else
OLD(pthread_setaffinity_np);
#endif
/* For programs only.  The old version takes a function that runs constructors; there are none here,
 * and the new start file passes NULL. */
OLD(__libc_start_main);
/* clang-format on */

/* Functions that have other names in 2.28. */
HIDDEN int fstatat(int folder, const char *path, struct stat *to, int flags)
{
    return (int)syscall(SYS_newfstatat, folder, path, to, flags);
}

HIDDEN int fstat(int file, struct stat *to)
{
    return fstatat(file, "", to, AT_EMPTY_PATH);
}

HIDDEN int stat(const char *path, struct stat *to)
{
    return fstatat(AT_FDCWD, path, to, 0);
}

HIDDEN int lstat(const char *path, struct stat *to)
{
    return fstatat(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW);
}

HIDDEN pid_t gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}
#endif
