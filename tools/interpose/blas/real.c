/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the functions behind.  The first of these that has one gives it: LIMBER_BLAS, the next
 * library in the program's global scope, the libraries that the caller's own object is linked with,
 * any library that is loaded, the system's libblas. */
#define _GNU_SOURCE     /* RTLD_DEFAULT, dladdr */
#include "entries.h"
#include "library.h"

#include "tools/interpose/shared/behind.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t placed = PTHREAD_ONCE_INIT;
static bool second;

/* ---- our place ------------------------------------------------------------------------------- */

PUBLIC extern const char limber_blas_is_here[];
const char limber_blas_is_here[] = "";

/* Whether the address is in an object that defines `name`. */
static bool is_marked(const void *function, const char *name)
{
    Dl_info at;
    void *object = dladdr(function, &at) ? dlopen(at.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    const void *mark = object ? dlsym(object, name) : NULL;
    bool is_so = mark && interpose_object_of(mark) == at.dli_fbase;

    if (object)
        dlclose(object);
    return is_so;
}

/* Whether the address is in a copy of this library. */
static bool is_copy(const void *function)
{
    return is_marked(function, "limber_blas_is_here");
}

static void find_first_copy(void)
{
    const void *first = dlsym(RTLD_DEFAULT, "limber_blas_is_here");

    second = first && !interpose_is_ours(first);
    if (second)
        interpose_message("the program has loaded two of them; the second only hands on");
}

bool limber_blas_is_second(void)
{
    pthread_once(&placed, find_first_copy);
    return second;
}

/* ---- the function behind --------------------------------------------------------------------- */

/* False for a function of the other copy of this library, if this is the second copy: only the
 * first may call the second, or calls would never end. */
static bool is_beside(void *object, const char *name, void *function)
{
    (void)object;
    (void)name;
    return !(limber_blas_is_second() && is_copy(function));
}

/* Whether a function may be taken from this object.  If its name does not show the width of
 * integers, the object must have an isamax without a suffix, too: NumPy's 64-bit BLAS has
 * cblas_dgemm_batch_strided, but its other names end in 64_. */
static bool is_of_its_kind(void *object, const char *name, void *function)
{
    return !is_copy(function) &&
           (strstr(name, "64") ||
            dlsym(object, strncmp(name, "scipy_", 6) == 0 ? "scipy_isamax_" : "isamax_"));
}

void *limber_blas_loaded(const char *name, const void *caller)
{
    void *f = limber_blas_next(name);

    if (!f)
        f = interpose_beside(name, caller, is_beside);
    return f ? f : interpose_anywhere(name, is_of_its_kind);
}

static struct interpose_found *find(const char *name, const void *caller)
{
    struct interpose_found *known = interpose_find(name, NULL);
    unsigned when = interpose_generation();
    void *library, *f, *copy;

    if (known || (known = interpose_find(name, caller)))
        return known;
    if (limber_blas_designated(name, caller, &f))
        return interpose_keep(name, NULL, f, when);
    f = limber_blas_next(name);
    if (f && !is_copy(f))
        return interpose_keep(name, NULL, f, when);
    copy = f; /* used last: a copy of this library that does not know the caller */
    f = interpose_beside(name, caller, is_beside);
    if (!f)
        f = copy;
    if (!f)
        f = interpose_anywhere(name, is_of_its_kind);
    if (!f && (library = limber_blas_system()) != NULL)
        f = dlsym(library, name);
    return interpose_keep(name, caller, f, when);
}

void *limber_blas_real(const char *name, const void *caller, bool quiet)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;
    const struct interpose_found *f = find(name, caller);
    void *function = f ? f->function : NULL;

    if (!function && !quiet && !atomic_flag_test_and_set(&printed))
        interpose_message("no BLAS has %s; LIMBER_BLAS names one", name);
    return function;
}

bool limber_blas_is_fixed(const char *name, const void *caller)
{
    struct interpose_found *f = find(name, caller);

    if (f && f->fixed < 0)
        f->fixed = f->function && is_marked(f->function, "limber_lapack_is_here");
    return f && f->fixed;
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
    struct interpose_found *f;

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
