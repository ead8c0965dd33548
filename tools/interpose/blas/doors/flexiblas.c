/* SPDX-License-Identifier: BSD-3-Clause
 * Before FlexiBLAS, as a hook of it.  FlexiBLAS calls hook_NAME in the place of its backend's NAME,
 * flexiblas_chain_NAME_ is the next hook or the backend, flexiblas_real_NAME_ is the backend.
 * Both structures, and the names, are FlexiBLAS 3's.
 *
 * There are hooks of Fortran's names only: FlexiBLAS 3.4 enters hook_cblas_NAME as one more hook of
 * NAME, which has other arguments. */
#define _GNU_SOURCE     /* dladdr */
#include "entries.h"
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char interpose_name[] = "libflexiblas_hook_limber",
           interpose_original[] = "FlexiBLAS' backend";

/* ---- what FlexiBLAS reads -------------------------------------------------------------------- */

struct flexiblas_hook {
    const char *name, *section, *description, *authors;
};
struct flexiblas_option {
    const char *name, *description;
    int type;
    const char *value;
};

PUBLIC extern struct flexiblas_hook flexiblas_register;
struct flexiblas_hook flexiblas_register = {
    "Limber", NULL, "Products in the format and with the accuracy that LIMBER_CONTRACT states.",
    "Limber"
};

/* FlexiBLAS 3.4 frees the section's name of a hook that FLEXIBLAS_HOOK gives as a file. */
__attribute__((constructor)) static void name_section(void)
{
    flexiblas_register.section = strdup("LIMBER");
}

/* There is none: variables and the file of LIMBER_CONFIG say everything. */
PUBLIC extern struct flexiblas_option flexiblas_options[];
struct flexiblas_option flexiblas_options[] = { { NULL, NULL, 0, NULL } };

/* ---- what is behind -------------------------------------------------------------------------- */

/* FlexiBLAS, which a plugin may have loaded for itself alone. */
static void *flexiblas;

PUBLIC void __flexiblas_hook_initialize(void);
PUBLIC void __flexiblas_hook_initialize(void)
{
    Dl_info at;

    if (!flexiblas && dladdr(__builtin_return_address(0), &at))
        flexiblas = dlopen(at.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

PUBLIC void __flexiblas_hook_finalize(void);
PUBLIC void __flexiblas_hook_finalize(void)
{
}

bool limber_blas_only(const char *name, const void *caller, void **function)
{
    char behind[96];

    (void)caller;
    if (strncmp(name, "real_", 5) == 0)
        snprintf(behind, sizeof behind, "flexiblas_%s", name);
    else
        snprintf(behind, sizeof behind, "flexiblas_chain_%s_", name);
    *function = flexiblas ? dlsym(flexiblas, behind) : NULL;
    return true;
}

void *limber_blas_next(const char *name)
{
    (void)name;
    return NULL;
}

void *limber_blas_system(void)
{
    return NULL;
}
