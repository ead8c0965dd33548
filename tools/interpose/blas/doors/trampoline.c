/* SPDX-License-Identifier: BSD-3-Clause
 * The library in front of libblastrampoline's BLAS, which Julia uses: lbt_forward with clear = 0
 * replaces the functions that this library has, and leaves all others to the previous BLAS.
 *
 * libblastrampoline calls a library's isamax, sdot, cdotc and zdotc to detect its integer width and
 * calling convention.  Here they forward to the previous BLAS and so behave as it does.  A call
 * from libblastrampoline means that it is about to forward to this library.  Its current forwards
 * are saved then. */
#define _GNU_SOURCE     /* dladdr, dl_iterate_phdr */
#include "entries.h"
#include "library.h"

#include "tools/interpose/shared/behind.h"

#include <complex.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WIDTH is 32 or 64: names of functions with 64-bit integers end in 64_. */
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

/* ---- saved forwards of libblastrampoline ----------------------------------------------------- */

/* The first members of the structure that lbt_get_config returns. */
struct lbt_config {
    void **libraries;
    uint32_t flags;
    const char **names;
    uint32_t count;
};

/* A function to which libblastrampoline forwarded.  Never freed, since other threads may read
 * it. */
struct behind {
    const char *name; /* owned by libblastrampoline */
    void *_Atomic function;
    struct behind *next;
};

static struct behind *_Atomic all;
INTERPOSE_LOCK(keeping)

static struct behind *find_forward(const char *name)
{
    struct behind *b = all;

    while (b && strcmp(b->name, name) != 0)
        b = b->next;
    return b;
}

static bool is_wanted(const char *name)
{
    static const char *const words[] = { "gemm",  "symm",   "hemm",   "syrk",   "herk",  "syr2k",
                                         "her2k", "trmm",   "trsm",   "getrf",  "getrs", "gesv_",
                                         "getri", "potrf",  "potrs",  "posv_",  "trtri", "trtrs",
                                         "geqrf", "larft",  "orgqr",  "ungqr",  "ormqr", "unmqr",
                                         "sdot_", "cdotc_", "zdotc_", "isamax_" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

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

/* Saves the current forwards.  An entry that already forwards to this library is left as it is. */
static void save_forwards(void *lbt)
{
    const struct lbt_config *(*config)(void);
    const void *(*forward)(const char *, int32_t, int32_t), *(*none)(void);

    *(void **)&config = dlsym(lbt, "lbt_get_config");
    *(void **)&forward = dlsym(lbt, "lbt_get_forward");
    *(void **)&none = dlsym(lbt, "lbt_get_default_func");
    if (!config || !forward || !none)
        return;
    pthread_mutex_lock(&keeping);
    for (uint32_t i = 0; i < config()->count; i++) {
        const char *name = config()->names[i];
        const void *f = is_wanted(name) ? forward(name, WIDTH, 0) : NULL;

        if (f && !interpose_is_ours(f))
            save_forward(name, f == none() ? NULL : (void *)(uintptr_t)f);
    }
    interpose_forget(); /* cached look-ups are now stale */
    pthread_mutex_unlock(&keeping);
    if (!find_forward("isamax_") || !find_forward("isamax_")->function)
        interpose_message("libblastrampoline forwards to no BLAS with integers of %d bits; load "
                          "one first",
                          WIDTH);
}

/* ---- recognising libblastrampoline's calls --------------------------------------------------- */

struct segment {
    uintptr_t address, from, to;
};
static _Atomic uintptr_t lbt_from, lbt_to;

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

static void *open_object(const void *address)
{
    Dl_info at;

    return dladdr(address, &at) ? dlopen(at.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
}

/* Saves the forwards if libblastrampoline itself called.  A program's call has the program's return
 * address, because libblastrampoline only jumps. */
static void note_caller(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    struct segment s = { address, 0, 0 };
    void *object;

    if (lbt_to && (address < lbt_from || address >= lbt_to))
        return;
    object = open_object(caller);
    if (object && dlsym(object, "lbt_get_forward") && dl_iterate_phdr(find_segment, &s)) {
        lbt_from = s.from;
        lbt_to = s.to;
        save_forwards(object);
    }
    if (object)
        dlclose(object);
}

static void *function_behind(const char *name)
{
    struct behind *b = find_forward(name);

    return b ? b->function : NULL;
}

/* ---- functions that libblastrampoline calls for detection ------------------------------------ */

/* Without a previous BLAS they return values that no BLAS returns, so that libblastrampoline
 * refuses this library. */
#define ASKED(result, name, list, pass, none) \
    PUBLIC result NAME(name) list; \
    PUBLIC result NAME(name) list \
    { \
        result(*behind) list; \
\
        note_caller(__builtin_return_address(0)); \
        *(void **)&behind = function_behind(#name "_"); \
        return behind ? behind pass : none; \
    }
#define VECTOR const void *x, const void *step
#define VECTORS const void *x, const void *step_x, const void *y, const void *step_y

ASKED(INTEGER, isamax, (const void *n, VECTOR), (n, x, step), -1)
ASKED(float, sdot, (const void *n, VECTORS), (n, x, step_x, y, step_y), -1)
ASKED(float _Complex, cdotc, (const void *n, VECTORS), (n, x, step_x, y, step_y), -1)
ASKED(double _Complex, zdotc, (const void *n, VECTORS), (n, x, step_x, y, step_y), -1)

/* ---- looking up the BLAS behind -------------------------------------------------------------- */

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
