/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the functions behind.  The first of these that has one gives it: LIMBER_BLAS, the next
 * library in the program's global scope, the libraries that the caller's own object is linked with,
 * any library that is loaded, the system's libblas. */
#define _GNU_SOURCE     /* RTLD_DEFAULT, dladdr, dl_iterate_phdr */
#include "entries.h"
#include "library.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t placed = PTHREAD_ONCE_INIT;
static bool second;

/* ---- our place ------------------------------------------------------------------------------- */

PUBLIC extern const char limber_blas_is_here[];
const char limber_blas_is_here[] = "";

static void *object_of(const void *address)
{
    Dl_info at;

    return dladdr(address, &at) ? at.dli_fbase : NULL;
}

static bool is_ours(const void *address)
{
    return object_of(address) == object_of(&second);
}

/* Whether the address is in a copy of this library. */
static bool is_copy(const void *function)
{
    Dl_info at;
    void *object = dladdr(function, &at) ? dlopen(at.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    const void *mark = object ? dlsym(object, "limber_blas_is_here") : NULL;
    bool copy = mark && object_of(mark) == at.dli_fbase;

    if (object)
        dlclose(object);
    return copy;
}

static void find_first_copy(void)
{
    const void *first = dlsym(RTLD_DEFAULT, "limber_blas_is_here");

    second = first && !is_ours(first);
    if (second)
        interpose_message("the program has loaded two of them; the second only hands on");
}

bool limber_blas_is_second(void)
{
    pthread_once(&placed, find_first_copy);
    return second;
}

/* ---- the function behind --------------------------------------------------------------------- */

/* What was found for callers at one address, or with NULL for all; function NULL: nothing.  Never
 * freed; the objects stay. */
struct found {
    const void *caller;
    void *function;
    unsigned when; /* as `generation` was */
    atomic_int wide; /* of an isamax: 1, 0, or -1 as long as nobody asked */
    struct found *next;
    char name[];
};

static struct found *_Atomic table[256];
static atomic_uint generation;

void limber_blas_forget(void)
{
    generation++;
}

static struct found *_Atomic *slot(const char *name, const void *caller)
{
    uintptr_t h = (uintptr_t)caller;

    for (; *name; name++)
        h = h * 31 + (unsigned char)*name;
    return &table[(h ^ h >> 8 ^ h >> 16) % 256];
}

static struct found *find_cached(const char *name, const void *caller)
{
    struct found *f = *slot(name, caller);

    while (f && (f->caller != caller || f->when != generation || strcmp(f->name, name) != 0))
        f = f->next;
    return f;
}

static struct found *add_cached(const char *name, const void *caller, void *function, unsigned when)
{
    struct found *f = malloc(sizeof *f + strlen(name) + 1);
    struct found *_Atomic *at = slot(name, caller);
    Dl_info in;

    if (!f)
        return NULL;
    if (function && dladdr(function, &in))
        dlopen(in.dli_fname, RTLD_NOLOAD | RTLD_LAZY); /* so that it is not unloaded */
    f->caller = caller;
    f->function = function;
    f->when = when;
    f->wide = -1;
    strcpy(f->name, name);
    f->next = *at;
    while (!atomic_compare_exchange_weak(at, &f->next, f))
        ;
    return f;
}

/* What the object that holds `caller` is linked with: plugins are loaded apart from the global
 * scope.  The first copy may call the second; the other way would never end. */
static void *beside(const char *name, const void *caller)
{
    Dl_info at;
    void *object, *f;

    if (!dladdr(caller, &at) || !(object = dlopen(at.dli_fname, RTLD_NOLOAD | RTLD_LAZY)))
        return NULL;
    f = dlsym(object, name);
    if (f && !is_ours(f) && !(limber_blas_is_second() && is_copy(f)))
        return f;
    dlclose(object);
    return NULL;
}

struct files {
    char **list;
    size_t n;
};

static int note_file(struct dl_phdr_info *info, size_t size, void *user)
{
    struct files *files = user;
    char **grown = realloc(files->list, (files->n + 1) * sizeof *grown);
    char *name = strdup(info->dlpi_name);

    (void)size;
    if (grown)
        files->list = grown;
    if (grown && name)
        files->list[files->n++] = name;
    else
        free(name);
    return 0;
}

/* A name that does not tell the width of integers is taken from a library whose isamax is spelt so,
 * too: NumPy's BLAS of 64 bits has cblas_dgemm_batch_strided, and its other names end in 64_. */
static bool is_of_its_kind(void *object, const char *name)
{
    return strstr(name, "64") ||
           dlsym(object, strncmp(name, "scipy_", 6) == 0 ? "scipy_isamax_" : "isamax_");
}

/* Of all that is loaded, in its order.  Who calls by an address need not be linked with a BLAS: it
 * can have the address from another object, as SciPy's modules have those of cython_lapack. */
static void *anywhere(const char *name)
{
    struct files files = { NULL, 0 };
    void *f = NULL;

    dl_iterate_phdr(note_file, &files);
    for (size_t i = 0; i < files.n; i++) {
        void *object = !f && *files.list[i] ? dlopen(files.list[i], RTLD_NOLOAD | RTLD_LAZY) : NULL;
        void *its = object ? dlsym(object, name) : NULL;

        if (its && !is_ours(its) && !is_copy(its) && is_of_its_kind(object, name))
            f = its;
        else if (object)
            dlclose(object);
        free(files.list[i]);
    }
    free(files.list);
    return f;
}

void *limber_blas_loaded(const char *name, const void *caller)
{
    void *f = limber_blas_next(name);

    if (!f)
        f = beside(name, caller);
    return f ? f : anywhere(name);
}

static struct found *find(const char *name, const void *caller)
{
    struct found *known = find_cached(name, NULL);
    unsigned when = generation;
    void *library, *f, *copy;

    if (known || (known = find_cached(name, caller)))
        return known;
    if (limber_blas_only(name, caller, &f))
        return add_cached(name, NULL, f, when);
    f = limber_blas_next(name);
    if (f && !is_copy(f))
        return add_cached(name, NULL, f, when);
    copy = f; /* the last resort: it would not know who called */
    f = beside(name, caller);
    if (!f)
        f = copy;
    if (!f)
        f = anywhere(name);
    if (!f && (library = limber_blas_system()) != NULL)
        f = dlsym(library, name);
    return add_cached(name, caller, f, when);
}

void *limber_blas_real(const char *name, const void *caller, bool quiet)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;
    const struct found *f = find(name, caller);
    void *function = f ? f->function : NULL;

    if (!function && !quiet && !atomic_flag_test_and_set(&printed))
        interpose_message("no BLAS has %s; LIMBER_BLAS names one", name);
    return function;
}

void *limber_blas_sibling(const struct request *r, const char *routine)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s%s", r->spelling.prefix, routine, r->spelling.suffix);
    return limber_blas_real(name, r->caller, true);
}

bool limber_blas_has_gemm(void *library)
{
    static const char *const before[] = { "", "scipy_", "cblas_", "scipy_cblas_" };
    static const char *const behind[] = { "_", "_64_", "64_", "", "_64" };
    char name[64];

    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        for (size_t k = 0; k < sizeof behind / sizeof *behind; k++)
            for (const char *type = "sdcz"; *type; type++) {
                snprintf(name, sizeof name, "%s%cgemm%s", before[i], *type, behind[k]);
                if (dlsym(library, name))
                    return true;
            }
    return false;
}

/* ---- the width of integers ------------------------------------------------------------------- */

/* A function that reads 32 bits sees n = 3.  One that reads 64 sees a negative n and answers 0. */
bool limber_blas_asks_wide(void *function)
{
    int64_t n = (int64_t)0xffffffff00000003, step = 1;
    float x[3] = { 1, 3, 2 };
    int (*isamax)(const void *, const float *, const void *);

    *(void **)&isamax = function;
    return isamax(&n, x, &step) == 0;
}

static int wished = -1; /* 0 or 1: LIMBER_ILP64 */
static pthread_once_t wish_read = PTHREAD_ONCE_INIT;

static void read_wish(void)
{
    const char *wish = limber_variable_value("LIMBER_ILP64");

    if (wish && (!strcmp(wish, "0") || !strcmp(wish, "1")))
        wished = *wish == '1';
    else if (wish)
        interpose_message("LIMBER_ILP64 = \"%.20s\" is neither 0 nor 1", wish);
}

bool interpose_check_own(void)
{
    const char *wish = limber_variable_value("LIMBER_BLAS");
    void *library = wish ? dlopen(wish, RTLD_LAZY | RTLD_LOCAL) : NULL;
    bool good = false;

    pthread_once(&wish_read, read_wish);
    if (wish && !library)
        interpose_message("LIMBER_BLAS = \"%.200s\": %s", wish, dlerror());
    else if (wish && !limber_blas_has_gemm(library))
        interpose_message("LIMBER_BLAS = \"%.200s\" is no BLAS", wish);
    else
        good = true;
    if (library)
        dlclose(library);
    return good && (wished >= 0 || !limber_variable_value("LIMBER_ILP64"));
}

bool limber_blas_is_wide(const char *isamax, const void *caller)
{
    struct found *f;

    pthread_once(&wish_read, read_wish);
    if (wished >= 0)
        return wished;
    f = find(isamax, caller);
    if (!f || !f->function)
        return false;
    if (f->wide < 0)
        f->wide = limber_blas_asks_wide(f->function);
    return f->wide;
}
