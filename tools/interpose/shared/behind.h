/* SPDX-License-Identifier: BSD-3-Clause
 * Looks up the functions to which calls are forwarded, in the objects that the process has
 * loaded. */
#ifndef LIMBER_INTERPOSE_BEHIND_H
#define LIMBER_INTERPOSE_BEHIND_H

#include <stdatomic.h>
#include <stdbool.h>

/* Load address of the object that contains `address`; NULL if none does. */
void *interpose_object_of(const void *address);
/* True if the address is in this library. */
bool interpose_is_ours(const void *address);

/* Tells whether a function that was found in an object may be used. */
typedef bool interpose_suits(void *object, const char *name, void *function);

/* Looks up a function in the object that contains `caller` and in its dependencies, since plugins
 * are loaded outside the global scope.  The object is never unloaded then. */
void *interpose_find_in_object(const char *name, const void *caller, interpose_suits *suits);
/* Looks up a function in all loaded objects, in load order.  The calling object need not depend on
 * the library: SciPy's modules get functions' addresses from cython_lapack. */
void *interpose_find_in_all(const char *name, interpose_suits *suits);

/* A cached look-up, for callers at one address, or for all callers if `caller` is NULL.  `function`
 * is NULL if none was found.  Entries are never freed, and the function's object stays loaded. */
struct interpose_found {
    const void *caller;
    void *function;
    unsigned when; /* generation in which the function was looked up */
    atomic_int wide, fixed; /* answers that the cache's user may store; -1 if there is none yet */
    struct interpose_found *next;
    char name[];
};
/* An entry is valid in its generation only; interpose_forget starts a new one. */
unsigned interpose_generation(void);
void interpose_forget(void);
/* Valid entry for a name and a caller; NULL if there is none. */
struct interpose_found *interpose_find(const char *name, const void *caller);
/* Adds an entry; NULL if memory is out. */
struct interpose_found *interpose_keep(const char *name, const void *caller, void *function,
                                       unsigned when);

#endif
