/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the cuBLAS functions that the program's call would have reached: a handle belongs to the
 * cuBLAS that made it, and a process may have several.  Searches in this order: the next library in
 * the program's global scope, in the version that the caller is linked with; libraries that the
 * caller's own object is linked with; any loaded library; cuBLAS by its file name. */
#define _GNU_SOURCE     /* RTLD_NEXT, dladdr, dl_iterate_phdr, dlvsym */
#include "cublas.h"

#include "tools/interpose/shared/behind.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>

const char interpose_name[] = "liblimber_cublas", interpose_original[] = "cuBLAS";
_Thread_local int limber_cublas_inside;

bool interpose_check_own(void)
{
    return true;
}

static void *library;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* Opens cuBLAS for programs that have not loaded it. */
static void open_library(void)
{
    static const char *const name[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so" };

    for (size_t i = 0; i < sizeof name / sizeof *name && !library; i++)
        library = dlopen(name[i], RTLD_LAZY);
}

/* ---- the version that a caller is linked with ------------------------------------------------ */

typedef ElfW(Dyn) dynamic_entry;
typedef ElfW(Phdr) segment;
typedef ElfW(Verneed) needed_file;
typedef ElfW(Vernaux) needed_version;

/* An address in the caller, and the version that it is linked with. */
struct wanted {
    uintptr_t caller;
    const char *version;
};

/* True if the address is in a segment of this object. */
static bool holds_address(const struct dl_phdr_info *info, uintptr_t address)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const segment *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && address - info->dlpi_addr - p->p_vaddr < p->p_memsz)
            return true;
    }
    return false;
}

/* Address of a section.  glibc replaces offsets in the table by addresses, other C libraries do
 * not. */
static const char *section_at(const struct dl_phdr_info *info, const dynamic_entry *entries,
                              long tag)
{
    for (const dynamic_entry *d = entries; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return (const char *)(d->d_un.d_ptr +
                                  (d->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr : 0));
    return NULL;
}

/* Returns the version of libcublas that a program's dynamic section requires; NULL if it
 * requires none. */
static const char *version_in(const struct dl_phdr_info *info, const dynamic_entry *entries)
{
    const char *names = section_at(info, entries, DT_STRTAB);
    const char *at = section_at(info, entries, DT_VERNEED);

    while (names && at) {
        const needed_file *need = (const void *)at;
        const needed_version *first = (const void *)(at + need->vn_aux);

        if (strncmp(names + need->vn_file, "libcublas.so", 12) == 0)
            return names + first->vna_name;
        at = need->vn_next ? at + need->vn_next : NULL;
    }
    return NULL;
}

/* For dl_iterate_phdr: stores the version of libcublas that the file containing the caller
 * requires in `user` (a struct wanted), and returns 1 to stop there. */
static int find_version(struct dl_phdr_info *info, size_t size, void *user)
{
    struct wanted *w = user;

    (void)size;
    if (!holds_address(info, w->caller))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            w->version =
                version_in(info, (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    return 1;
}

/* Looks up a function in the libraries after this one, in the symbol version for which the caller
 * was linked, since another cuBLAS may be in the global scope, too. */
static void *find_next(const char *name, const void *caller)
{
#ifdef __GLIBC__
    struct wanted w = { (uintptr_t)caller, NULL };

    dl_iterate_phdr(find_version, &w);
    if (w.version)
        return dlvsym(RTLD_NEXT, name, w.version);
#endif
    return dlsym(RTLD_NEXT, name);
}

/* ---- the function ---------------------------------------------------------------------------- */

/* Accepts any function: cuBLAS has no variants that must be told apart. */
static bool is_any(void *object, const char *name, void *function)
{
    (void)object;
    (void)name;
    return function != NULL;
}

/* Looks up a function of cuBLAS for a caller, and caches the result: in the next libraries, the
 * caller's dependencies, all loaded objects, or a library opened for this. */
static struct interpose_found *find_original(const char *name, const void *caller)
{
    struct interpose_found *known = interpose_find(name, caller);
    unsigned when = interpose_generation();
    void *f;

    if (known)
        return known;
    f = find_next(name, caller);
    if (!f)
        f = interpose_find_in_object(name, caller, is_any);
    if (!f)
        f = interpose_find_in_all(name, is_any);
    if (!f) {
        pthread_once(&opened, open_library);
        f = library ? dlsym(library, name) : NULL;
    }
    return f ? interpose_keep(name, caller, f, when) : NULL;
}

void *limber_cublas_real(const char *name, const void *caller)
{
    static _Atomic bool printed;
    const struct interpose_found *f = find_original(name, caller);
    void *function = f ? f->function : NULL;

    if (!function && !printed) {
        printed = true;
        fprintf(stderr, "liblimber_cublas: no libcublas has %s\n", name);
    }
    return function;
}
