/* SPDX-License-Identifier: BSD-3-Clause */
#include "compiler.h"
#include "settings.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
const struct llvm *limber_llvm(struct diag *d);

static bool find_compiler(struct diag *d)
{
    settings_from_environment();
    return limber_llvm(d) != NULL;
}

/* The function `compile` of the backend `prebuilt`: takes a prebuilt kernel instead of
 * compiling. */
static bool take_prebuilt(const struct plan *p, const struct target *t, const struct dump *dump,
                          struct blob *out, struct diag *d)
{
    (void)dump;
    return limber_backend_llvm.cpu->prebuilt(p, t, out, d);
}

const struct backend *prebuilt_kernels(void)
{
    static struct backend prebuilt;

    prebuilt = limber_backend_llvm;
    prebuilt.name = "prebuilt";
    prebuilt.compile = take_prebuilt;
    return &prebuilt;
}
#else
static bool find_compiler(struct diag *d)
{
    return limber_fail(d, LIMBER_STATUS_DEVICE, "built without the backend llvm");
}

const struct backend *prebuilt_kernels(void)
{
    return NULL;
}
#endif

bool compiler_here(void)
{
    return find_compiler(&(struct diag){ 0 });
}

void need_compiler(void)
{
    struct diag d = { 0 };

    if (!find_compiler(&d))
        skip_because("%s", d.text);
}

static bool holds_none(const void *p, int device)
{
    (void)p, (void)device;
    return false;
}

static bool records_none(const limber_queue *q, int device)
{
    (void)q, (void)device;
    return false;
}

static bool never_takes_groups(const struct kernel *k, const struct call *c)
{
    (void)k, (void)c;
    return false;
}

const struct device_ops no_device_memory = { .holds = holds_none,
                                             .records = records_none,
                                             .takes_groups = never_takes_groups };
