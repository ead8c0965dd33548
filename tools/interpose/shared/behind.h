/* SPDX-License-Identifier: BSD-3-Clause
 * Looks up the functions to which calls are forwarded, among the objects that the process has
 * loaded. */
#ifndef LIMBER_INTERPOSE_BEHIND_H
#define LIMBER_INTERPOSE_BEHIND_H

#include <stdatomic.h>
#include <stdbool.h>

/* Load address of the object that contains `address`; NULL: none does. */
void *interpose_object_of(const void *address);
bool interpose_is_ours(const void *address);

/* Whether a function that was found in an object may be called. */
typedef bool interpose_suits(void *object, const char *name, void *function);

/* Looks a function up in the object that contains `caller` and in its dependencies, because plugins
 * are loaded outside the global scope.  Prevents the object from being unloaded. */
void *interpose_beside(const char *name, const void *caller, interpose_suits *suits);
/* Looks a function up in all loaded objects, in load order.  A caller by address need not be linked
 * with the library: SciPy's modules get addresses from cython_lapack. */
void *interpose_anywhere(const char *name, interpose_suits *suits);

/* A cached look-up, for callers at one address, or NULL for all. function NULL: it was not found.
 * Entries are never freed, and the function's object stays loaded. */
struct interpose_found {
    const void *caller;
    void *function;
    unsigned when; /* generation of the look-up */
    atomic_int wide, fixed; /* free for the user; initially -1 */
    struct interpose_found *next;
    char name[];
};
/* interpose_forget starts a new generation, which invalidates all entries. */
unsigned interpose_generation(void);
void interpose_forget(void);
struct interpose_found *interpose_find(const char *name, const void *caller);
/* Adds an entry; NULL: out of memory. */
struct interpose_found *interpose_keep(const char *name, const void *caller, void *function,
                                       unsigned when);

#endif
