/* SPDX-License-Identifier: BSD-3-Clause
 * Where the functions behind are searched: among the objects that the process has loaded. */
#ifndef LIMBER_INTERPOSE_BEHIND_H
#define LIMBER_INTERPOSE_BEHIND_H

#include <stdatomic.h>
#include <stdbool.h>

/* The address at which the object that holds `address` lies; NULL: no object does. */
void *interpose_object_of(const void *address);
bool interpose_is_ours(const void *address);

/* Whether a function of that name, found by way of an object's handle, may be called. */
typedef bool interpose_suits(void *object, const char *name, void *function);

/* A function of the object that holds `caller`, or of what that is linked with: plugins are loaded
 * apart from the global scope.  The object is not unloaded then. */
void *interpose_beside(const char *name, const void *caller, interpose_suits *suits);
/* The first in any object that is loaded, in their order.  Who calls by an address need not be
 * linked with the library: SciPy's modules have addresses from cython_lapack. */
void *interpose_anywhere(const char *name, interpose_suits *suits);

/* What was found for callers at one address, or with NULL for all; function NULL: nothing.  Never
 * freed; the function's object stays. */
struct interpose_found {
    const void *caller;
    void *function;
    unsigned when; /* the generation that it was found in */
    atomic_int wide; /* for the caller's own use; -1 at first */
    struct interpose_found *next;
    char name[];
};
/* A new generation forgets what was found before. */
unsigned interpose_generation(void);
void interpose_forget(void);
struct interpose_found *interpose_find(const char *name, const void *caller);
/* NULL: no memory. */
struct interpose_found *interpose_keep(const char *name, const void *caller, void *function,
                                       unsigned when);

#endif
