/* SPDX-License-Identifier: BSD-3-Clause
 * Binds glibc functions to symbol versions that glibc 2.28 has, so that a wheel that was built with
 * a newer glibc runs with glibc 2.28.  The newer symbol versions compute the same: some functions
 * moved to libc.so.6, and those of libm no longer call `matherr`.  This file is linked into each
 * library and program of a wheel, with hidden symbols.  A function for which the linker would take
 * a symbol version of glibc 2.29 or later belongs here.  If one is missing, the wheel's platform
 * tag names a newer glibc. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* FIRST is the oldest symbol version of glibc on this architecture.  GO_ON jumps to the symbol
 * old_NAME through its entry in the global offset table. */
#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#define GO_ON(name) "jmp *old_" name "@GOTPCREL(%rip)\n"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#define GO_ON(name) \
    "adrp x16, :got:old_" name "\n ldr x16, [x16, :got_lo12:old_" name "]\n br x16\n"
#endif
/* Defines a hidden function `name` that jumps to glibc's `name` of symbol version `version`. */
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
/* Only programs call this function.  The old version expects a pointer to a function that runs
 * the program's constructors.  The newer start file passes NULL, which is right for programs of
 * the wheel: they have no constructors. */
OLD(__libc_start_main);
/* clang-format on */

/* Functions that glibc 2.28 does not export under these names. */
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
