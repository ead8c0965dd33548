/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the functions to which calls are forwarded.  The first of these that has the function
 * provides it: the library of LIMBER_BLAS, the next library in the program's global scope,
 * libraries that the caller's own object is linked with, any loaded library, the system's
 * libblas. */
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
/* The program has loaded two interposing libraries, and this is the second. */
static bool second;

/* ---- our place ------------------------------------------------------------------------------- */

PUBLIC extern const char limber_blas_is_here[];
const char limber_blas_is_here[] = "";

/* True if the function is in an object that also defines `name`. */
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

/* True if the function is in a copy of this library. */
static bool is_copy(const void *function)
{
    return is_marked(function, "limber_blas_is_here");
}

/* Finds out whether another copy of this library precedes this one. */
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

/* True if a function of the caller's object or its dependencies may be called.  If this is the
 * second copy of the library, it must not call the first: the first calls the second, so that calls
 * would never end. */
static bool is_no_loop(void *object, const char *name, void *function)
{
    (void)object;
    (void)name;
    return !(limber_blas_is_second() && is_copy(function));
}

/* True if a function of any loaded object may be called: it is not in a copy of this library, and
 * its integers have the expected width.  A name without "64" does not tell the width, so the object
 * must also have an isamax without a suffix: NumPy's 64-bit BLAS has cblas_dgemm_batch_strided, but
 * its other names end in 64_. */
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
        f = interpose_find_in_object(name, caller, is_no_loop);
    return f ? f : interpose_find_in_all(name, is_of_its_kind);
}

/* Looks up a function for calls from `caller`, and caches the result. */
static struct interpose_found *find_original(const char *name, const void *caller)
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
    copy = f; /* a copy of this library, used only if the caller's object has no other BLAS */
    f = interpose_find_in_object(name, caller, is_no_loop);
    if (!f)
        f = copy;
    if (!f)
        f = interpose_find_in_all(name, is_of_its_kind);
    if (!f && (library = limber_blas_system()) != NULL)
        f = dlsym(library, name);
    return interpose_keep(name, caller, f, when);
}

void *limber_blas_real(const char *name, const void *caller, bool quiet)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;
    const struct interpose_found *f = find_original(name, caller);
    void *function = f ? f->function : NULL;

    if (!function && !quiet && !atomic_flag_test_and_set(&printed))
        interpose_message("no BLAS has %s; LIMBER_BLAS names one", name);
    return function;
}

bool limber_blas_is_fixed(const char *name, const void *caller)
{
    struct interpose_found *f = find_original(name, caller);

    if (f && f->fixed < 0)
        f->fixed = f->function && is_marked(f->function, "limber_lapack_is_here");
    return f && f->fixed;
}

void limber_blas_check_lapack(const char *name, const char *contract)
{
    static const int stated[] = { 3, 11, 0 }; /* as limber.h says */
    static atomic_flag checked[2] = { ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT };
    const bool wide = strncmp(name, "limber64_", 9) == 0;
    int64_t part[3] = { 0 }; /* of the version */
    void (*version)(void *, void *, void *);
    int n[3];

    if ((!wide && strncmp(name, "limber32_", 9) != 0) || atomic_flag_test_and_set(&checked[wide]))
        return;
    *(void **)&version = dlsym(RTLD_DEFAULT, wide ? "limber64_ilaver_" : "limber32_ilaver_");
    if (!version)
        return;
    version(&part[0], &part[1], &part[2]);
    for (int i = 0; i < 3; i++)
        n[i] = (int)limber_blas_integer(&part[i], 0, wide);
    if (memcmp(n, stated, sizeof n) != 0 && !interpose_options()->quiet)
        interpose_message("this LAPACK is %d.%d.%d; results under %s may differ from those of "
                          "LAPACK 3.11.0 (LIMBER_QUIET=1 leaves this out)",
                          n[0], n[1], n[2], contract);
}

void *limber_blas_look_up_routine(const struct request *r, const char *routine)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s%s", r->spelling.prefix, routine, r->spelling.suffix);
    return limber_blas_real(name, r->caller, true);
}

/* True if the library has a gemm of some type under one of its usual names: with SciPy's prefix,
 * with CBLAS's, or with a suffix for 64-bit integers. */
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

/* Calls isamax with an n that has the value 3 for a function that reads 32 bits, and is negative
 * for one that reads 64 bits, which returns 0. */
bool limber_blas_asks_wide(void *function)
{
    int64_t n = (int64_t)0xffffffff00000003, step = 1;
    float x[3] = { 1, 3, 2 };
    int (*isamax)(const void *, const float *, const void *);

    *(void **)&isamax = function;
    return isamax(&n, x, &step) == 0;
}

static int ilp64 = -1; /* value of LIMBER_ILP64, 0 or 1; -1 if it is absent */
static pthread_once_t ilp64_once = PTHREAD_ONCE_INIT;

/* Reads LIMBER_ILP64 once. */
static void read_ilp64(void)
{
    const char *wish = limber_variable_value("LIMBER_ILP64");

    if (wish && (!strcmp(wish, "0") || !strcmp(wish, "1")))
        ilp64 = *wish == '1';
    else if (wish)
        interpose_message("LIMBER_ILP64 = \"%.20s\" is neither 0 nor 1", wish);
}

/* Checks the settings LIMBER_BLAS and LIMBER_ILP64.  Prints a message about a LIMBER_BLAS that
 * does not load or is no BLAS. */
bool interpose_check_own(void)
{
    const char *wish = limber_variable_value("LIMBER_BLAS");
    void *library = wish ? dlopen(wish, RTLD_LAZY | RTLD_LOCAL) : NULL;
    bool good = false;

    pthread_once(&ilp64_once, read_ilp64);
    if (wish && !library)
        interpose_message("LIMBER_BLAS = \"%.200s\": %s", wish, dlerror());
    else if (wish && !limber_blas_has_gemm(library))
        interpose_message("LIMBER_BLAS = \"%.200s\" is no BLAS", wish);
    else
        good = true;
    if (library)
        dlclose(library);
    return good && (ilp64 >= 0 || !limber_variable_value("LIMBER_ILP64"));
}

/* True if the caller's BLAS takes 64-bit integers: as LIMBER_ILP64 says, else as its function
 * `isamax` answers, which is asked once. */
bool limber_blas_is_wide(const char *isamax, const void *caller)
{
    struct interpose_found *f;

    pthread_once(&ilp64_once, read_ilp64);
    if (ilp64 >= 0)
        return ilp64;
    f = find_original(isamax, caller);
    if (!f || !f->function)
        return false;
    if (f->wide < 0)
        f->wide = limber_blas_asks_wide(f->function);
    return f->wide;
}
