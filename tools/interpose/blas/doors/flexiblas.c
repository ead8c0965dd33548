/* SPDX-License-Identifier: BSD-3-Clause
 * The library as a hook of FlexiBLAS, which calls hook_NAME instead of its backend's NAME.
 * flexiblas_chain_NAME_ is the next hook or the backend, flexiblas_real_NAME_ is the backend.  The
 * structures and names are those of FlexiBLAS 3.  Only Fortran names are hooked: FlexiBLAS 3.4
 * would register hook_cblas_NAME as a further hook of NAME, whose arguments differ. */
#define _GNU_SOURCE     /* dladdr */
#include "entries.h"
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char interpose_name[] = "libflexiblas_hook_limber",
           interpose_original[] = "FlexiBLAS' backend";

/* ---- symbols that FlexiBLAS reads ------------------------------------------------------------ */

/* The description of a hook, as FlexiBLAS defines it. */
struct flexiblas_hook {
    const char *name, *section, *description, *authors;
};
/* An option of a hook, as FlexiBLAS defines it. */
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

/* Allocates the section's name, since FlexiBLAS 3.4 frees it if FLEXIBLAS_HOOK names the hook's
 * file. */
__attribute__((constructor)) static void name_section(void)
{
    flexiblas_register.section = strdup("LIMBER");
}

/* An empty list: FlexiBLAS sets no options of this hook, environment variables and LIMBER_CONFIG
 * do. */
PUBLIC extern struct flexiblas_option flexiblas_options[];
struct flexiblas_option flexiblas_options[] = { { NULL, NULL, 0, NULL } };

/* ---- the BLAS behind ------------------------------------------------------------------------- */

/* Handle of FlexiBLAS, which a plugin may have loaded with RTLD_LOCAL. */
static void *flexiblas;

PUBLIC void __flexiblas_hook_initialize(void);
/* FlexiBLAS calls this when it loads the hook: finds FlexiBLAS itself. */
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

/* Finds the function that FlexiBLAS designates as the next one. */
bool limber_blas_designated(const char *name, const void *caller, void **function)
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

/* Returns the next library's function of this name.  There is none: under FlexiBLAS, calls are
 * passed on to the functions above alone. */
void *limber_blas_next(const char *name)
{
    (void)name;
    return NULL;
}

/* Returns the system's BLAS: NULL, since FlexiBLAS chooses the library. */
void *limber_blas_system(void)
{
    return NULL;
}
