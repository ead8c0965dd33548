/* SPDX-License-Identifier: BSD-3-Clause
 * The backends of this build, best first. */
#include "backends/backend.h"

#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif

const struct backend *const limber_backends[] = {
#ifdef LIMBER_HAVE_LLVM
    &limber_backend_llvm,
#endif
    &limber_backend_interp,
    NULL
};
