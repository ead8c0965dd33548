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
    /* used only if named, since copying operands from host memory would cost more than it saves */
    &limber_backend_cuda, NULL
};

void limber_target_complete(struct target *t)
{
    for (int i = 0; limber_backends[i]; i++)
        if (strcmp(limber_backends[i]->name, t->backend) == 0)
            t->blocks = t->shared ? limber_backends[i]->blocks : NULL;
}
