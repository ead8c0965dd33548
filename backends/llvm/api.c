/* SPDX-License-Identifier: BSD-3-Clause
 * Opens libLLVM when the first kernel must be compiled. */
#define _GNU_SOURCE     /* for dl_iterate_phdr */
#include "backends/llvm/llvm.h"
#include "backends/settings.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct llvm llvm;        /* set once while the lock is held, constant afterwards */
static struct code_range code;  /* libLLVM's executable pages; set together with `llvm` */
static atomic_bool ready;

static const char *const name[] = { "libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so",
                                    "libLLVM.so.20.1", "libLLVM.so.21.1", "libLLVM.so.22.1" };

/* Opens libLLVM: the file that LIMBER_LLVM names (`wish`) or, if that is NULL, the first installed
 * version.  Returns its handle, or NULL. */
static void *open_library(const char *wish)
{
    if (wish)
        return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < COUNT(name); i++) {
        void *h = dlopen(name[i], RTLD_NOW | RTLD_LOCAL);

        if (h)
            return h;
    }
    return NULL;
}

/* Callback of dl_iterate_phdr.  If the library contains `function`, stores the library's executable
 * address range in `code` and returns 1, which ends the iteration. */
static int find_code(struct dl_phdr_info *info, size_t size, void *function)
{
    struct code_range found = { UINTPTR_MAX, 0 };
    uintptr_t at = (uintptr_t)function;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;

        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        found.from = from < found.from ? from : found.from;
        found.to = to > found.to ? to : found.to;
    }
    if (at < found.from || at >= found.to)
        return 0;
    code = found;
    return 1;
}

/* Finds libLLVM's functions.  Returns false with an error if one is missing. */
static bool resolve_functions(void *h, struct diag *d)
{
#define F(name) \
    *(void **)&llvm.name = dlsym(h, #name); \
    if (!llvm.name) \
        return limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: libLLVM lacks " #name);
    LIMBER_LLVM_API(F)
#undef F
    return true;
}

/* Calls libLLVM's function `name`, which registers a part of an architecture's code generator.  The
 * enclosing function returns false if this libLLVM was built without that architecture. */
#define F(name) \
    { \
        __typeof__(&name) start; \
\
        *(void **)&start = dlsym(h, #name); \
        if (!start) \
            return false; \
        start(); \
    }
/* Registers LLVM's code generator for x86-64.  Returns false if libLLVM lacks it. */
static bool start_x86(void *h)
{
    LIMBER_LLVM_X86(F)
    return true;
}

/* Registers LLVM's code generator for AArch64.  Returns false if libLLVM lacks it. */
static bool start_aarch64(void *h)
{
    LIMBER_LLVM_AARCH64(F)
    return true;
}
#undef F

/* MiB that RLIMIT_AS must leave free for libLLVM to be used.  libLLVM ends the process if an
 * allocation fails, so this is far more than the largest kernel takes: about 130 MiB for the
 * library, and as much for its work. */
enum { ROOM_MIB = 512 };

/* True if RLIMIT_AS leaves enough memory for libLLVM; otherwise reports an error. */
static bool has_room(struct diag *d)
{
    struct rlimit limit;
    unsigned long pages, page = (unsigned long)sysconf(_SC_PAGESIZE);
    FILE *f;
    bool ok;

    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return true;
    f = fopen("/proc/self/statm", "re");
    ok = !f || fscanf(f, "%lu", &pages) != 1 ||
         limit.rlim_cur / ((unsigned long)1 << 20) >=
             pages * page / ((unsigned long)1 << 20) + ROOM_MIB;
    if (f)
        fclose(f);
    return ok || limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                             "llvm: less than %d MiB are left of the address space that the "
                             "system allows (RLIMIT_AS), and libLLVM would end the process",
                             ROOM_MIB);
}

/* Returns libLLVM's functions, which the first call looks up.  Returns NULL, with an error, if
 * libLLVM cannot be used. */
const struct llvm *limber_llvm(struct diag *d)
{
    void *h;

    if (!has_room(d))
        return NULL;
    pthread_mutex_lock(&lock);
    if (!ready) {
        const char *wish = limber_setting("LIMBER_LLVM");

        h = open_library(wish);
        if (!h && wish)
            limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: LIMBER_LLVM: %s", dlerror());
        else if (!h)
            limber_fail(d, LIMBER_STATUS_DEVICE, "llvm: no libLLVM 19 to 22 is installed");
        else if (resolve_functions(h, d)) {
            llvm.x86 = start_x86(h);
            llvm.aarch64 = start_aarch64(h);
            dl_iterate_phdr(find_code, *(void **)&llvm.LLVMContextCreate);
            ready = true; /* libLLVM is never closed, since it cannot be unloaded safely */
        } else {
            dlclose(h);
        }
    }
    pthread_mutex_unlock(&lock);
    return ready ? &llvm : NULL;
}

/* Returns the address range of libLLVM's code; an empty range while libLLVM is not open. */
struct code_range limber_llvm_code(void)
{
    return ready ? code : (struct code_range){ 0, 0 };
}
