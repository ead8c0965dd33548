/* SPDX-License-Identifier: BSD-3-Clause
 * The backends of this build, best first. */
#include "backends/backend.h"

#include <string.h>

extern const struct backend limber_backend_cuda;
#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif

const struct backend *const limber_backends[] = {
#ifdef LIMBER_HAVE_LLVM
    &limber_backend_llvm,
#endif
    &limber_backend_interp,
    /* comes after the CPU backend, so it runs only if the caller names it: copying operands from
     * host memory would cost more time than the device saves */
    &limber_backend_cuda, NULL
};

/* Returns the backend with this name, or NULL if there is none. */
const struct backend *limber_backend_named(const char *name)
{
    int i = 0;

    while (limber_backends[i] && strcmp(limber_backends[i]->name, name) != 0)
        i++;
    return limber_backends[i];
}

/* Sets the field of a target that its text form omits: `blocks`, from the target's backend. */
void limber_target_complete(struct target *t)
{
    const struct backend *b = limber_backend_named(t->backend);

    if (b)
        t->blocks = t->shared ? b->device_ops->blocks : NULL;
}
