/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE     /* dladdr, dl_iterate_phdr */
#include "tools/interpose/shared/behind.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *interpose_object_of(const void *address)
{
    Dl_info at;

    return dladdr(address, &at) ? at.dli_fbase : NULL;
}

bool interpose_is_ours(const void *address)
{
    static const char here = 0;

    return interpose_object_of(address) == interpose_object_of(&here);
}

/* ---- loaded objects -------------------------------------------------------------------------- */

/* Looks up a function in a loaded object, given its file.  If it is found, the object stays
 * loaded. */
static void *find_in_file(const char *file, const char *name, interpose_suits *suits)
{
    void *object = dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
    void *f = object ? dlsym(object, name) : NULL;

    if (f && !interpose_is_ours(f) && suits(object, name, f))
        return f;
    if (object)
        dlclose(object);
    return NULL;
}

void *interpose_find_in_object(const char *name, const void *caller, interpose_suits *suits)
{
    Dl_info at;

    return dladdr(caller, &at) ? find_in_file(at.dli_fname, name, suits) : NULL;
}

/* The files of loaded objects. */
struct files {
    char **list;
    size_t n;
};

/* For dl_iterate_phdr: adds a loaded file's name to `user` (a struct files), if memory allows. */
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

/* Returns the first function `name` in the loaded files, in load order, that `suits` accepts;
 * NULL if there is none. */
void *interpose_find_in_all(const char *name, interpose_suits *suits)
{
    struct files files = { NULL, 0 };
    void *f = NULL;

    dl_iterate_phdr(note_file, &files);
    for (size_t i = 0; i < files.n; i++) {
        if (!f && *files.list[i])
            f = find_in_file(files.list[i], name, suits);
        free(files.list[i]);
    }
    free(files.list);
    return f;
}

/* ---- cache of look-ups ----------------------------------------------------------------------- */

/* The hash table of look-ups.  generation: those of earlier generations are out of date. */
static struct interpose_found *_Atomic table[256];
static atomic_uint generation;

unsigned interpose_generation(void)
{
    return generation;
}

void interpose_forget(void)
{
    generation++;
}

/* Returns the hash bucket of a function's name and caller. */
static struct interpose_found *_Atomic *bucket_of(const char *name, const void *caller)
{
    uintptr_t h = (uintptr_t)caller;

    for (; *name; name++)
        h = h * 31 + (unsigned char)*name;
    return &table[(h ^ h >> 8 ^ h >> 16) % 256];
}

struct interpose_found *interpose_find(const char *name, const void *caller)
{
    struct interpose_found *f = *bucket_of(name, caller);

    while (f && (f->caller != caller || f->when != generation || strcmp(f->name, name) != 0))
        f = f->next;
    return f;
}

/* Adds the result of a look-up to the cache; function is NULL if none was found.  Entries are never
 * freed. */
struct interpose_found *interpose_keep(const char *name, const void *caller, void *function,
                                       unsigned when)
{
    struct interpose_found *f = malloc(sizeof *f + strlen(name) + 1);
    struct interpose_found *_Atomic *at = bucket_of(name, caller);
    Dl_info in;

    if (!f)
        return NULL;
    if (function && dladdr(function, &in))
        /* never closed, so the object stays loaded */
        dlopen(in.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    f->caller = caller;
    f->function = function;
    f->when = when;
    f->wide = f->fixed = -1;
    strcpy(f->name, name);
    f->next = *at;
    while (!atomic_compare_exchange_weak(at, &f->next, f))
        ;
    return f;
}
