/* SPDX-License-Identifier: BSD-3-Clause
 * The environment, which only this file reads.  The environment of a privileged program is chosen
 * by whoever starts it, so such a program ignores it: a variable must not name files that are then
 * loaded, read or written. */
#define _GNU_SOURCE /* secure_getenv, environ */
#include "limber/environment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define BEFORE "BLAS, cuBLAS" /* liblimber_blas, liblimber_cublas */
#define ALL "library, " BEFORE

/* All variables.  Must agree with docs/environment.md. */
static const limber_variable table[] = {
    /* for a program on a BLAS or cuBLAS */
    { "LIMBER_CONTRACT", BEFORE,
      "`native`, `reproducible`, `bits=N`, `correct`, `fast`, `fast=SLICES` or `simulate=UNIT` "
      "(default: none: calls are handed on)",
      "" },
    { "LIMBER_SCHEME", BEFORE,
      "a scheme of `limber formats` (default: none: the cheapest that keeps the contract)", "" },
    { "LIMBER_CONFIG", BEFORE, "file of options and rules (default: none)", "reads" },
    { "LIMBER_REPORT", BEFORE, "file for a report when the process ends (default: none)",
      "writes" },
    { "LIMBER_REPORT_ROWS", BEFORE,
      "how many shapes a report lists, slowest first; `0`: all (default: 100)", "" },
    { "LIMBER_CAPTURE", BEFORE,
      "`FOLDER,BYTES`: operands of products are kept there, up to so many bytes, such as "
      "`run,512M` (default: none)",
      "writes" },
    { "LIMBER_CHECK", BEFORE,
      "elements of a product that are compared with exact values, 0 to 1000 (default: 2 with a "
      "report, else 0)",
      "" },
    { "LIMBER_QUIET", BEFORE,
      "`1`: do not warn at the first call of a routine that does not keep the contract "
      "(default: `0`)",
      "" },
    { "LIMBER_TRUST_BLAS", "BLAS",
      "`0`: compute `bits=N` even if the BLAS keeps it by the standard error bound (default: "
      "`1`)",
      "" },
    { "LIMBER_BACKGROUND", BEFORE,
      "`1`: a thread compiles kernels while calls go on (default: `0`)", "" },
    { "LIMBER_BLAS", "BLAS",
      "file of the BLAS behind (default: the next one that the program loaded, else the system's)",
      "loads" },
    { "LIMBER_ILP64", "BLAS",
      "`1`: functions without suffix take 64-bit integers, `0`: 32 (default: as wide as "
      "those of the BLAS behind)",
      "" },
    { "OMPI_COMM_WORLD_RANK", BEFORE, "rank of an MPI process, for the report", "" },
    { "PMIX_RANK", BEFORE, "the same", "" },
    { "PMI_RANK", BEFORE, "the same", "" },
    { "SLURM_PROCID", BEFORE, "the same", "" },
    /* for every program that uses the library */
    { "LIMBER_BACKEND", ALL, "`auto`, `interp`, `llvm` or `cuda` (default: `auto`)", "" },
    { "LIMBER_THREADS", "library",
      "threads of a context, 1 to 1024 (default: one for each CPU that the process may use)", "" },
    { "OMP_NUM_THREADS", "library", "its first number, where `LIMBER_THREADS` is not set", "" },
    { "LIMBER_PIN", "library", "`1`: each worker thread stays on one CPU (default: `0`)", "" },
    { "LIMBER_WAYS", "library",
      "ways of computing to exclude, such as `-direct,-parts`; `-planless`: all that need no "
      "plan; the plan's kernel and the interpreter cannot be excluded (default: none)",
      "" },
    { "LIMBER_KERNELS", "library",
      "`prebuilt`: only kernels that are part of the library; `specialised`: only compiled ones "
      "(default: `both`)",
      "" },
    { "LIMBER_ISA", "library",
      "`avx2`, `avx512` (without VNNI) or `all`: the most instructions that the process uses on "
      "x86-64 (default: `all`)",
      "" },
    { "LIMBER_NO_COMPILE", "library",
      "`1`: nothing is compiled, kernels come from the library, the cache or `LIMBER_CUBINS` or "
      "not at all (default: `0`)",
      "" },
    { "LIMBER_VERBOSE", ALL, "`1`: a line a call on stderr (default: `0`)", "" },
    { "LIMBER_DUMP", "library",
      "folder for the IR after each pass and the generated code (default: none)", "writes" },
    { "LIMBER_CACHE", "library", "`off`, `ro` or `rw`: use of the cache on disk (default: `rw`)",
      "" },
    { "LIMBER_CACHE_DIR", "library",
      "folder of the cache on disk (default: `$XDG_CACHE_HOME/limber`, else "
      "`$HOME/.cache/limber`)",
      "runs" },
    { "LIMBER_CACHE_MAXSIZE", "library",
      "bound of the cache on disk in bytes, such as `64M` (default: `256M`)", "" },
    { "LIMBER_CACHE_KEY", "library",
      "file of the key that seals what is in the cache on disk (default: "
      "`$XDG_STATE_HOME/limber/cache.key`, else `$HOME/.local/state/limber/cache.key`)",
      "runs" },
    { "XDG_CACHE_HOME", "library", "see `LIMBER_CACHE_DIR`", "runs" },
    { "XDG_STATE_HOME", "library", "see `LIMBER_CACHE_KEY`", "runs" },
    { "HOME", "library", "see `LIMBER_CACHE_DIR`, `LIMBER_CACHE_KEY`", "runs" },
    { "LIMBER_LLVM", "library",
      "file of libLLVM, 19 to 22 (default: the first of these that is found)", "loads" },
    { "LIMBER_CUDA", "library, cuBLAS, command line",
      "file of the CUDA driver (default: `libcuda.so.1`)", "loads" },
    { "LIMBER_NVRTC", "library",
      "file of NVRTC (default: the one of the driver's version, else the newest that is found)",
      "loads" },
    { "LIMBER_CUBINS", "library", "folder of ready GPU kernels, tried before NVRTC (default: none)",
      "runs" },
    { "LIMBER_KEEP_CUBINS", "library",
      "folder to which GPU kernels that NVRTC makes are written (default: none)", "writes" },
    { "LIMBER_CUBLAS", "library",
      "file of cuBLAS, or `1`: search for it; it computes products where it is faster "
      "(default: the one that the program has loaded)",
      "loads" },
    /* for the command line and Python */
    { "LIMBER_DATA", "command line, tests", "folder of data sets (default: none)", "reads" },
    { "TMPDIR", "command line", "folder of temporary files (default: `/tmp`)", "writes" },
    { "OPENBLAS_CORETYPE", "command line",
      "kernels of OpenBLAS that `limber bench` keeps to (default: those that OpenBLAS chooses)",
      "" },
    { "LIMBER_LIBRARY", "Python",
      "file of the library (default: the one beside the package, else that of the system)",
      "loads" },
    { "LIMBER_NUMPY", "Python",
      "file of NumPy's loops, `,longdouble`, `,dot`; set by `python -m limber run` (default: "
      "none)",
      "loads" },
    { "LIMBER_TORCH", "Python", "`batch_invariant`; set by `python -m limber run` (default: none)",
      "" },
    /* for the tests of Limber */
    { "LIMBER_SEED", "tests", "seed of random tests", "" },
    { "LIMBER_BLESS", "tests", "set: golden files that differ are rewritten", "" },
    { "LIMBER_CUBIN_TABLE", "tests", "file for a table of compiled GPU kernels", "" },
    { "LIMBER_TEST_CUBINS", "tests",
      "folder that keeps output of NVRTC and nvdisasm (`tools/test.sh` sets one)", "writes" },
    { "LIMBER_TEST_GPU", "tests", "set: on a real, not an emulated GPU", "" },
    { "LIMBER_TEST_BINADES", "tests", "how often tests run through all binades", "" },
    { "LIMBER_TEST_LONG", "tests", "set: also tests that are long or big", "" },
    { "LIMBER_FUZZ_RUNS", "tests", "number of inputs of a fuzz target that runs as a test", "" },
    { "LIMBER_TEST_UNITS", "tests", "number of random units to test", "" },
    { "LIMBER_TEST_TORCH", "tests", "a Python with PyTorch, tried before the system's", "" },
    { "LIMBER_TEST_LBT", "tests", "libblastrampoline, tested beside its stand-in", "" },
    { "LIMBER_TEST_FLEXIBLAS", "tests", "FlexiBLAS, tested beside its stand-in", "" },
    { "LIMBER_TEST_NO_NUMPY", "tests", "set: as if there were no NumPy", "" },
};
enum { VARIABLES = sizeof table / sizeof *table };

/* Returns the i-th variable, from 0; NULL past the end. */
const limber_variable *limber_variable_at(int i)
{
    return i >= 0 && i < VARIABLES ? &table[i] : NULL;
}

/* True if the library reads a variable of this name. */
static int is_known(const char *name, size_t length)
{
    for (int i = 0; i < VARIABLES; i++)
        if (strncmp(table[i].name, name, length) == 0 && !table[i].name[length])
            return 1;
    return 0;
}

/* Returns the value of a variable that limber_variable_at lists. */
const char *limber_variable_value(const char *name)
{
    const char *s = name && is_known(name, strlen(name)) ? secure_getenv(name) : NULL;

    return s && *s ? s : NULL;
}

/* Calls `visit` for each environment variable LIMBER_... that the library does not know. */
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
