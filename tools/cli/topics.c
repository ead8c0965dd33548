/* SPDX-License-Identifier: BSD-3-Clause
 * Words that a user may look up although no command, format or the like has that name, with the
 * page that explains them. */
#include "tools/cli/commands.h"

#include <limber/ops.h>

#include <string.h>

#define RUN "python -m limber run --contract correct SCRIPT (Python), LD_PRELOAD (others)"
#define PAGE(name) "docs/" name ".md"

/* The topics of `limber help`. */
static const struct topic {
    const char *word, *about, *page;
} topics[] = {
    { "run", "a program whose BLAS is Limber: " RUN, PAGE("blas") },
    { "warm", "it is called prebuild now: limber prebuild REPORT makes kernels ahead",
      PAGE("cache") },
    { "preload", "a program whose BLAS is Limber: " RUN, PAGE("blas") },
    { "ld_preload", "a program whose BLAS is Limber: " RUN, PAGE("blas") },
    { "update-alternatives", "liblimber's libblas.so.3 as the machine's BLAS", PAGE("blas") },
    { "csv", "matrices in files: one kind of separator, names in a first line without a number",
      PAGE("cli") },
    { "mtx", "Matrix Market, a form of files that the command line reads and writes", PAGE("cli") },
    { "npy", "NumPy's files, which the command line reads and writes; .npz, too", PAGE("cli") },
    { "idx", "files of images, as MNIST's, which limber conv reads", PAGE("cli") },
    { "blas", "programs on a BLAS: " RUN, PAGE("blas") },
    { "lapack", "LU, Cholesky, QR and solves of a program on a BLAS", PAGE("blas") },
    { "numpy", "arrays: import limber; whole programs: " RUN, PAGE("bindings") },
    { "scipy", "whole programs: " RUN, PAGE("blas") },
    { "python", "the package: import limber", PAGE("bindings") },
    { "fortran", "the module: use limber", PAGE("bindings") },
    { "c", "the library: #include <limber/limber.h>", PAGE("embed") },
    { "r", "before R's BLAS: LD_PRELOAD, or update-alternatives", PAGE("bindings") },
    { "octave", "before Octave's BLAS: LD_PRELOAD", PAGE("blas") },
    { "julia", "before Julia's BLAS, by libblastrampoline", PAGE("blas") },
    { "flexiblas", "the hook of FlexiBLAS: libflexiblas_hook_limber", PAGE("blas") },
    { "torch", "tensors, layers and whole programs of PyTorch", PAGE("pytorch") },
    { "pytorch", "tensors, layers and whole programs of PyTorch", PAGE("pytorch") },
    { "mpi", "reports of ranks, caches of many nodes", PAGE("clusters") },
    { "slurm", "reports of ranks, caches of many nodes", PAGE("clusters") },
    { "clusters", "reports of ranks, caches of many nodes", PAGE("clusters") },
    { "nvidia", "what runs on GPUs; programs on cuBLAS", PAGE("gpu") },
    { "install", "pip, CMake, packages", PAGE("install") },
    { "wheel", "what `pip install` puts where", PAGE("bindings") },
    { "start", "ten minutes with Limber", PAGE("ten-minutes") },
    { "tutorial", "ten minutes with Limber", PAGE("ten-minutes") },
    { "examples", "programs to start from", PAGE("embed") },
    { "accuracy", "contracts, bounds and proofs; which contract to choose: limber help contracts",
      PAGE("accuracy") },
    { "rules", "contracts by routine, size and caller: the file of LIMBER_CONFIG", PAGE("blas") },
    { "threads", "LIMBER_THREADS, OMP_NUM_THREADS, or threads of a context", PAGE("runtime") },
    { "environment", "every variable: limber help variables", PAGE("environment") },
    { "doctor", "what is found on this machine: limber version", PAGE("cli") },
    { "info", "what is found on this machine: limber version", PAGE("cli") },
    { "error", "questions and answers; messages and what to do", PAGE("faq") },
    { "faq", "questions and answers; messages and what to do", PAGE("faq") },
    { "slow", "why a program is slow: limber report FILE, limber plan", PAGE("faq") },
    { "speed", "what products cost", PAGE("performance") },
    { "performance", "what products cost", PAGE("performance") },
    { "kernels", "what is compiled, and kept on disk", PAGE("cache") },
    { "rounding", "nearest, zero, up, down, away, odd, stochastic: of formats and units",
      PAGE("simulation") },
    { "stochastic", "a rounding: limber.quantize in Python, and of units", PAGE("simulation") },
    { "quantize", "limber.quantize and limber.convert in Python", PAGE("bindings") },
    { "solve", "linear systems to binary128: limber_solve, limber.solve", PAGE("api") },
    { "epilogue", "bias, activation and more behind a product", PAGE("operators") },
    { "bias", "bias, activation and more behind a product", PAGE("operators") },
    { "activation", "bias, activation and more behind a product", PAGE("operators") },
    { "quad", "binary128: the format f128, limber.Quad in Python", PAGE("bindings") },
    { "fp8", "floats of 8 bits: the formats e4m3 and e5m2", PAGE("formats") },
    { "fp6", "floats of 6 bits: the formats e3m2 and e2m3", PAGE("formats") },
    { "fp4", "floats of 4 bits: the format e2m1", PAGE("formats") },
    { "float", "the format f32", PAGE("formats") },
    { "longdouble", "x87's 80 bits: in Python arrays of numpy.longdouble are computed as f128",
      PAGE("bindings") },
    { "mx", "blocks with a scale of their own, in simulated units", PAGE("simulation") },
    { "statistics", "what a simulated unit did: limber.statistics, the entry `unit` of a report",
      PAGE("simulation") },
    { "sweep", "many units on two matrices: limber explore", PAGE("simulation") },
    { "tensor", "tensor cores: simulated units, and GPUs", PAGE("simulation") },
    { "convert", "limber.convert and limber.quantize in Python", PAGE("bindings") },
    { "matmul", "products of arrays: limber.matmul in Python, limber_gemm in C", PAGE("bindings") },
    { "einsum", "limber.einsum of two operands in Python", PAGE("bindings") },
    { "batch", "many products of one shape in one call", PAGE("embed") },
    { "conv2d", "images and filters: limber conv; limber.conv2d in Python", PAGE("bindings") },
    { "convolution", "images and filters: limber conv; limber.conv2d in Python", PAGE("bindings") },
    { "ape", "Ma et al. 2022: the schemes fp32-f, -t, -b; its figures: limber reproduce",
      PAGE("papers") },
    { "f16d",
      "an FP16 unit with FP64 sums (Ape, section 8): simulate=in=f16 acc=f64, scheme fp32-fd",
      PAGE("simulation") },
    { "dgemm-tc", "Mukunoki et al. 2020: the schemes ozaki1-; its figures: limber reproduce",
      PAGE("papers") },
    { "lpgemm", "Huang et al. 2024: simulated units; its figures: limber reproduce",
      PAGE("papers") },
    { "figures", "they are made by limber reproduce now", PAGE("papers") },
    { "vrr", "variance retention of sums in few bits: limber.retention, limber explore",
      PAGE("simulation") },
    { "mask", "what each tile of an operand needs: limber plan, limber.inspect", PAGE("explain") },
    { "wmma", "tensor cores: simulated units, and kernels of GPUs", PAGE("gpu") },
    { "tensor-core", "tensor cores: simulated units, and GPUs", PAGE("simulation") },
    { "swamping", "terms that are too small to change a sum: limber.statistics counts them",
      PAGE("simulation") },
    { "qpytorch", "training in low precision, as with QPyTorch: limber.torch", PAGE("pytorch") },
    { "prefetch", "a product in steps, prefetching among them: limber reproduce ladder",
      PAGE("papers") },
    { "fragments", "a GPU's product in steps: limber reproduce ladder", PAGE("papers") },
    { "ptx", "a GPU's product in steps: limber reproduce ladder; kernels: limber plan --source",
      PAGE("gpu") },
    { "dump", "plans and kernels in files: LIMBER_DUMP", PAGE("explain") },
    { "jax", "products under jit, vmap and grad: limber.jax.matmul", PAGE("bindings") },
    { "openblas", "it stays behind Limber: " RUN, PAGE("blas") },
    { "mkl", "it stays behind Limber: " RUN, PAGE("blas") },
    { "cmake", "find_package(limber), and building Limber", PAGE("install") },
    { "pip", "pip install . in the folder of the sources", PAGE("install") },
    { "conda", "a recipe of the sources", PAGE("install") },
    { "spack", "a recipe of the sources", PAGE("install") },
    { "debian", "a package that cpack makes", PAGE("install") },
    { "docker", "what a machine needs", PAGE("install") },
    { "windows", "not supported; where Limber runs", PAGE("platforms") },
    { "macos", "not supported; where Limber runs", PAGE("platforms") },
    { "aarch64", "where Limber runs", PAGE("platforms") },
    { "arm", "where Limber runs", PAGE("platforms") },
    { "troubleshooting", "questions and answers; messages and what to do", PAGE("faq") },
    { "bound", "what an error is at most", PAGE("accuracy") },
    { "precision", "which contract to choose: limber help contracts", PAGE("contracts") },
    { "mixed", "operands whose parts take different schemes", PAGE("mixed") },
    { "reduction", "sums of many numbers: limber_reduce", PAGE("operators") },
    { "sum", "sums of many numbers: limber_reduce", PAGE("operators") },
    { "ir", "the text of plans: limber plan --ir", PAGE("ir") },
    { "lir", "plans in files: limber execute FILE.lir A B, limber plan FILE.lir", PAGE("ir") },
    { "dump", "plans and code of each kernel: LIMBER_DUMP=FOLDER", PAGE("environment") },
    { "moduli", "residue arithmetic: the scheme ozaki2", PAGE("accuracy") },
    { "slices", "limbs of operands: the schemes ozaki1-", PAGE("accuracy") },
    { "ulp", "the distance of a number to the next of its format; correct errs by half of one",
      PAGE("accuracy") },
    { "accumulator", "where a unit adds products up; its width decides how sums are rounded",
      PAGE("simulation") },
    { "modulus", "a number that remainders are taken by: the scheme ozaki2", PAGE("accuracy") },
    { "residue", "a remainder by a modulus: the scheme ozaki2", PAGE("accuracy") },
    { "rows", "products of limbs that are kept; one row multiplies one limb of A by one of B",
      PAGE("explain") },
    { "pruned", "products of limbs that the contract does not need for this data",
      PAGE("explain") },
    { "swamped", "additions that left an accumulator as it was, because it was too large",
      PAGE("simulation") },
    { "retention", "how much of small addends an accumulator of few bits keeps: limber.retention",
      PAGE("simulation") },
    { "capture", "a program's operands, kept for study: LIMBER_CAPTURE; on a GPU, work in a graph",
      PAGE("blas") },
    { "order", "in which a product adds its terms: limber reveal; the word order= of a unit",
      PAGE("simulation") },
    { "kernel", "the code for one class of products, of the library or compiled for it",
      PAGE("cache") },
    { "interpreter", "the backend interp: slow, and the meaning of every scheme", PAGE("design") },
    { "stride", "elements from one row, or column, to the next (leading dimension)", PAGE("api") },
    { "no_scheme", "no scheme keeps the contract for this data; the text says why",
      PAGE("contracts") },
    { "range", "an exact integer does not fit the format of the result", PAGE("contracts") },
    { "bad_argument", "an argument is wrong; the text names it", PAGE("api") },
    { "limb", "a part of a number that a unit can multiply", PAGE("design") },
};
enum { TOPICS = sizeof topics / sizeof *topics };

const char *topic_word(int i)
{
    return i < TOPICS ? topics[i].word : NULL;
}

static const struct topic *topic_named(const char *word)
{
    for (int i = 0; i < TOPICS; i++)
        if (!strcmp(topics[i].word, word))
            return &topics[i];
    return NULL;
}

const char *topic_page(const char *word)
{
    return topic_named(word)->page;
}

const char *topic_about(const char *word)
{
    const struct topic *t = topic_named(word);

    return t ? t->about : NULL;
}

void topic_tell(const char *word)
{
    printf("  %s\n", topic_about(word));
}

/* Names of a routine of BLAS or LAPACK, without cblas_ and suffixes: without a type's letter, and
 * with each of the four letters. */
#define EACH(X, name) X(name), X("s" name), X("d" name), X("c" name), X("z" name)
/* The routines of BLAS and LAPACK that Limber computes. */
static const struct routine {
    const char *name;
    bool lapack;
} routines[] = {
#define LEVEL3(name) { name, false }
#define LAPACK(name) { name, true }
    EACH(LEVEL3, "gemm"),  EACH(LEVEL3, "gemmt"), EACH(LEVEL3, "gemm_batch"),
    EACH(LEVEL3, "symm"),  EACH(LEVEL3, "syrk"),  EACH(LEVEL3, "syr2k"),
    EACH(LEVEL3, "trmm"),  EACH(LEVEL3, "trsm"),  EACH(LAPACK, "getrf"),
    EACH(LAPACK, "getrs"), EACH(LAPACK, "gesv"),  EACH(LAPACK, "getri"),
    EACH(LAPACK, "potrf"), EACH(LAPACK, "potrs"), EACH(LAPACK, "posv"),
    EACH(LAPACK, "trtri"), EACH(LAPACK, "trtrs"), EACH(LAPACK, "geqrf"),
    LEVEL3("chemm"),       LEVEL3("zhemm"),       LEVEL3("cherk"),
    LEVEL3("zherk"),       LEVEL3("cher2k"),      LEVEL3("zher2k"),
    LEVEL3("cgemm3m"),     LEVEL3("zgemm3m"),     LEVEL3("sbgemm"),
    LEVEL3("shgemm"),      LEVEL3("bgemm"),       LAPACK("sorgqr"),
    LAPACK("dorgqr"),      LAPACK("cungqr"),      LAPACK("zungqr"),
    LAPACK("sormqr"),      LAPACK("dormqr"),      LAPACK("cunmqr"),
    LAPACK("zunmqr"),
#undef LEVEL3
#undef LAPACK
};
#undef EACH
enum { ROUTINES = sizeof routines / sizeof *routines };

const char *routine_word(int i)
{
    return i < ROUTINES ? routines[i].name : NULL;
}

void routine_tell(const char *word)
{
    for (int i = 0; i < ROUTINES; i++)
        if (!strcmp(routines[i].name, word))
            printf("  Of %s; Limber serves it in a program: " RUN "\n",
                   routines[i].lapack ? "LAPACK" : "the BLAS, level 3");
}

const char *function_word(int i)
{
    return limber_function_at(i, NULL, NULL);
}

void function_tell(const char *word)
{
    const char *name, *meaning;
    int parameters;

    for (int i = 0; (name = limber_function_at(i, &meaning, &parameters)); i++)
        if (!strcmp(name, word))
            printf("  %s%s\n", meaning,
                   parameters > 1 ? ", of two parameters" :
                   parameters     ? ", of one parameter" :
                                    "");
}
