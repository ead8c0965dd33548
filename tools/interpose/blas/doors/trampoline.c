/* SPDX-License-Identifier: BSD-3-Clause
 * The library as a forward of libblastrampoline, which Julia uses: lbt_forward with clear = 0
 * redirects the functions that this library has, and leaves all others to the previous BLAS.
 * libblastrampoline first calls a library's isamax, to detect its integers, and then sdot, cdotc
 * and zdotc, to detect its calling convention.  These calls are forwarded to the previous BLAS.
 * libblastrampoline's present forwards are saved at the call of isamax, since it will then forward
 * to this library. */
#define _GNU_SOURCE     /* dladdr, dl_iterate_phdr */
#include "entries.h"
#include "library.h"

#include "tools/interpose/shared/behind.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WIDTH is 32 or 64, the bits of integers.  With 64, names end in 64_. */
#if WIDTH == 64
#define SUFFIX "64_"
#define INTEGER int64_t
#define NAME(f) f##_64_
#else
#define SUFFIX ""
#define INTEGER int32_t
#define NAME(f) f##_
#endif

const char interpose_name[] = "liblimber_lbt", interpose_original[] = "the BLAS forwarded to";

/* Returns a handle of the loaded object that contains the address. */
static void *open_object(const void *address)
{
    Dl_info at;

    return dladdr(address, &at) ? dlopen(at.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
}

/* ---- saved forwards of libblastrampoline ----------------------------------------------------- */

/* First fields of the structure that lbt_get_config returns. */
struct lbt_config {
    void **libraries;
    uint32_t flags;
    const char **names;
    uint32_t count;
};

/* A function to which libblastrampoline forwarded before.  Never freed, since other threads may
 * read it. */
struct behind {
    const char *name; /* owned by libblastrampoline */
    void *_Atomic function;
    struct behind *next;
};

/* The list of saved forwards. */
static struct behind *_Atomic all;
INTERPOSE_LOCK(keeping)

/* Returns the record of a function, or NULL. */
static struct behind *find_forward(const char *name)
{
    struct behind *b = all;

    while (b && strcmp(b->name, name) != 0)
        b = b->next;
    return b;
}

/* True if calls of the function `name` are computed by this library, or if this library calls
 * it. */
static bool is_wanted(void *self, const char *name)
{
    static const char *const called[] = { "isamax_", "xerbla", "larft_" };
    char ours[96];

    for (size_t i = 0; i < sizeof called / sizeof *called; i++)
        if (strstr(name, called[i]))
            return true;
    return snprintf(ours, sizeof ours, "%s" SUFFIX, name) < (int)sizeof ours && dlsym(self, ours);
}

/* Stores the address of the original function `name`, in a new entry if it has none. */
static void save_forward(const char *name, void *function)
{
    struct behind *b = find_forward(name);

    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b)
            return;
        b->name = name;
        b->next = all;
        b->function = function;
        all = b;
    }
    b->function = function;
}

/* Saves the functions to which libblastrampoline forwards now.  Entries for functions that are
 * forwarded to this library are kept. */
static void save_forwards(void *lbt)
{
    void *self = open_object(interpose_name);
    const struct lbt_config *(*config)(void);
    const void *(*forward)(const char *, int32_t, int32_t), *(*none)(void);

    *(void **)&config = dlsym(lbt, "lbt_get_config");
    *(void **)&forward = dlsym(lbt, "lbt_get_forward");
    *(void **)&none = dlsym(lbt, "lbt_get_default_func");
    if (!config || !forward || !none || !self)
        return;
    pthread_mutex_lock(&keeping);
    for (uint32_t i = 0; i < config()->count; i++) {
        const char *name = config()->names[i];
        const void *f = is_wanted(self, name) ? forward(name, WIDTH, 0) : NULL;

        if (f && !interpose_is_ours(f))
            save_forward(name, f == none() ? NULL : (void *)(uintptr_t)f);
    }
    interpose_forget(); /* cached look-ups are no longer valid */
    pthread_mutex_unlock(&keeping);
    dlclose(self);
    if (!find_forward("isamax_") || !find_forward("isamax_")->function)
        interpose_message("libblastrampoline forwards to no BLAS with integers of %d bits; load "
                          "one first",
                          WIDTH);
}

/* ---- recognising libblastrampoline's calls --------------------------------------------------- */

/* The loaded segment [from, to) that contains `address`. */
struct segment {
    uintptr_t address, from, to;
};

/* For dl_iterate_phdr: stores the bounds of the loaded segment that contains the address of
 * `user` (a struct segment), and returns 1 to stop there. */
static int find_segment(struct dl_phdr_info *info, size_t size, void *user)
{
    struct segment *s = user;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;

        if (p->p_type == PT_LOAD && s->address >= from && s->address < to) {
            s->from = from;
            s->to = to;
            return 1;
        }
    }
    return 0;
}

/* If the caller is libblastrampoline itself, saves its forwards.  Calls of the program have the
 * program's return address, since libblastrampoline only jumps. */
static void note_caller(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    struct segment s = { address, 0, 0 };
    void *object;

    if (limber_blas_tests_to &&
        (address < limber_blas_tests_from || address >= limber_blas_tests_to))
        return;
    object = open_object(caller);
    if (object && dlsym(object, "lbt_get_forward") && dl_iterate_phdr(find_segment, &s)) {
        limber_blas_tests_from = s.from;
        limber_blas_tests_to = s.to;
        save_forwards(object);
    }
    if (object)
        dlclose(object);
}

/* Returns the function to which libblastrampoline forwarded `name` before. */
static void *function_behind(const char *name)
{
    struct behind *b = find_forward(name);

    return b ? b->function : NULL;
}

/* ---- the function that libblastrampoline calls first ----------------------------------------- */

/* Without a previous BLAS it returns a value that no BLAS returns, so that libblastrampoline
 * refuses this library. */
PUBLIC INTEGER NAME(isamax)(const void *n, const void *x, const void *step);
PUBLIC INTEGER NAME(isamax)(const void *n, const void *x, const void *step)
{
    INTEGER (*behind)(const void *, const void *, const void *);

    note_caller(__builtin_return_address(0));
    *(void **)&behind = function_behind("isamax_");
    return behind ? behind(n, x, step) : -1;
}

/* ---- looking up the BLAS behind -------------------------------------------------------------- */

/* Finds the function to which libblastrampoline forwarded before. */
bool limber_blas_designated(const char *name, const void *caller, void **function)
{
    char plain[96];
    size_t length = (size_t)snprintf(plain, sizeof plain, "%s", name), end = sizeof SUFFIX - 1;

    (void)caller;
    if (length > end && length < sizeof plain && strcmp(plain + length - end, SUFFIX) == 0)
        plain[length - end] = 0;
    *function = function_behind(plain);
    return true;
}

void *limber_blas_next(const char *name)
{
    (void)name;
    return NULL;
}

void *limber_blas_system(void)
{
    return NULL;
}
