/* SPDX-License-Identifier: BSD-3-Clause
 * The environment, which is read here and nowhere else.  Whoever starts a privileged program
 * chooses its environment, so nothing of it may name what is loaded, read or written there. */
#define _GNU_SOURCE     /* secure_getenv, environ */
#include "limber/environment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define BEFORE "BLAS, cuBLAS"       /* the libraries before one */
#define ALL "library, " BEFORE

/* docs/environment.md has the same rows. */
static const limber_variable table[] = {
    { "LIMBER_BACKEND", ALL, "`auto`, `interp`, `llvm` or `cuda`", "" },
    { "LIMBER_THREADS", "library", "threads of a context, 1 to 1024", "" },
    { "OMP_NUM_THREADS", "library", "its first number, where `LIMBER_THREADS` is not set", "" },
    { "LIMBER_PIN", "library", "`1`: each worker stays on one CPU", "" },
    { "LIMBER_NO_PARTS", "library", "`1`: one plan a product, no parts", "" },
    { "LIMBER_SMALL", "library",
      "`0`: small products and depthwise convolutions have kernels of their own, too", "" },
    { "LIMBER_KERNELS", "library",
      "`both`, `prebuilt` or `specialised`: which code serves plans on CPUs", "" },
    { "LIMBER_VERBOSE", ALL, "`1`: a line a call on stderr", "" },
    { "LIMBER_DUMP", "library", "folder for the IR after each pass and the generated code",
      "writes" },
    { "LIMBER_CACHE", "library", "`off`, `ro` or `rw`: use of the cache on disk", "" },
    { "LIMBER_CACHE_DIR", "library", "folder of the cache on disk", "runs" },
    { "LIMBER_CACHE_KEY", "library", "file of the key that seals what is in the cache on disk",
      "runs" },
    { "XDG_STATE_HOME", "library",
      "its `limber/cache.key` is that file, where `LIMBER_CACHE_KEY` is "
      "not set",
      "runs" },
    { "LIMBER_CACHE_MAXSIZE", "library", "bound of the cache on disk in bytes, such as `64M`", "" },
    { "LIMBER_NO_COMPILE", "library", "`1`: kernels come from the cache or not at all", "" },
    { "XDG_CACHE_HOME", "library",
      "its folder `limber` is the cache, where `LIMBER_CACHE_DIR` is "
      "not set",
      "runs" },
    { "HOME", "library",
      "has the cache (`.cache/limber`) and the key (`.local/state/limber/cache.key`) "
      "that no other variable names",
      "runs" },
    { "LIMBER_LLVM", "library", "file of libLLVM, 19 to 22", "loads" },
    { "LIMBER_CUDA", "library, cuBLAS, command line", "file of the CUDA driver", "loads" },
    { "LIMBER_NVRTC", "library", "file of NVRTC", "loads" },
    { "LIMBER_CUBLAS", "library", "file of cuBLAS, or `1` to look for it", "loads" },
    { "LIMBER_CONTRACT", BEFORE,
      "`native`, `reproducible`, `bits=N`, `correct`, `fast`, `fast=SLICES` or `simulate=UNIT`",
      "" },
    { "LIMBER_SCHEME", BEFORE, "a scheme of `limber formats`", "" },
    { "LIMBER_CONFIG", BEFORE, "file of options and rules", "reads" },
    { "LIMBER_REPORT", BEFORE, "file for a report when the process ends", "writes" },
    { "LIMBER_REPORT_ROWS", BEFORE, "shapes that a report lists, those of most time; 100, `0`: all",
      "" },
    { "LIMBER_CAPTURE", BEFORE,
      "`FOLDER,BYTES`: operands of products are kept there, up to so many bytes, such as "
      "`run,512M`",
      "writes" },
    { "LIMBER_CHECK", BEFORE, "elements to look at in a product that is checked, 0 to 1000", "" },
    { "LIMBER_TRUST_BLAS", "BLAS",
      "`0`: `bits=N` is not left to a BLAS that keeps it by the standard bound", "" },
    { "LIMBER_BACKGROUND", BEFORE, "`1`: kernels are made while calls go on", "" },
    { "LIMBER_BLAS", "BLAS", "file of the BLAS behind", "loads" },
    { "LIMBER_ILP64", "BLAS", "`0` or `1`: integers of names without a suffix have 64 bits", "" },
    { "OMPI_COMM_WORLD_RANK", BEFORE, "rank of an MPI process, for the report", "" },
    { "PMIX_RANK", BEFORE, "the same", "" },
    { "PMI_RANK", BEFORE, "the same", "" },
    { "SLURM_PROCID", BEFORE, "the same", "" },
    { "LIMBER_DATA", "command line, tests", "folder of data sets", "reads" },
    { "TMPDIR", "command line", "folder for what is gone at the end", "writes" },
    { "OPENBLAS_CORETYPE", "command line", "kernels of OpenBLAS that `limber bench` keeps to", "" },
    { "LIMBER_LIBRARY", "Python", "file of the library", "loads" },
    { "LIMBER_SEED", "tests", "seed of random tests", "" },
    { "LIMBER_BLESS", "tests", "set: texts that differ are written anew", "" },
    { "LIMBER_CUBIN_TABLE", "tests", "file for a table of compiled GPU kernels", "" },
    { "LIMBER_TEST_GPU", "tests", "set: on a GPU and not on what stands for it", "" },
    { "LIMBER_TEST_BINADES", "tests", "rounds of the sweeps over binades", "" },
    { "LIMBER_TEST_LONG", "tests", "set: what takes minutes or gigabytes, too", "" },
    { "LIMBER_FUZZ_RUNS", "tests", "inputs of a fuzz target that runs as a test", "" },
    { "LIMBER_TEST_UNITS", "tests", "simulated units to draw", "" },
    { "LIMBER_TEST_TORCH", "tests", "a Python with PyTorch, to test with before the system's", "" },
    { "LIMBER_TEST_LBT", "tests", "libblastrampoline, tested beside its stand-in", "" },
    { "LIMBER_TEST_FLEXIBLAS", "tests", "FlexiBLAS, tested beside its stand-in", "" },
    { "LIMBER_TEST_NO_NUMPY", "tests", "set: as if there were no NumPy", "" },
};
enum { VARIABLES = sizeof table / sizeof *table };

const limber_variable *limber_variable_at(int i)
{
    return i >= 0 && i < VARIABLES ? &table[i] : NULL;
}

static int is_known(const char *name, size_t length)
{
    for (int i = 0; i < VARIABLES; i++)
        if (strncmp(table[i].name, name, length) == 0 && !table[i].name[length])
            return 1;
    return 0;
}

const char *limber_variable_value(const char *name)
{
    const char *s = name && is_known(name, strlen(name)) ? secure_getenv(name) : NULL;

    return s && *s ? s : NULL;
}

void limber_variable_unknown(void (*visit)(void *user, const char *name), void *user)
{
    char name[64];

    for (char **e = getauxval(AT_SECURE) ? NULL : environ; e && *e; e++) {
        size_t length = strcspn(*e, "=");

        if (strncmp(*e, "LIMBER_", 7) != 0 || is_known(*e, length))
            continue;
        length = length < sizeof name ? length : sizeof name - 1;
        memcpy(name, *e, length);
        name[length] = 0;
        visit(user, name);
    }
}
