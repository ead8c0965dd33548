/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for libblastrampoline: the functions that programs use, and the tests that it makes of
 * a library before it forwards calls to that library. */
#include <complex.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int32_t lbt_forward(const char *file, int32_t clear, int32_t verbose, const char *suffix);
const void *lbt_get_forward(const char *name, int32_t bits, int32_t f2c);
const void *lbt_get_default_func(void);

enum { NAMES = 7 };
static const char *names[NAMES] = { "isamax_", "sdot_",       "cdotc_", "zdotc_",
                                    "dgemm_",  "cblas_dgemm", "xerbla_" };
/* [integers of 32 bits, 64 bits]: where each name is forwarded. */
static void *forwards[2][NAMES];

struct config {
    void **libraries;
    uint32_t flags;
    const char **names;
    uint32_t count;
};
const struct config *lbt_get_config(void);
const struct config *lbt_get_config(void)
{
    static const struct config config = { NULL, 0, names, NAMES };

    return &config;
}

/* libblastrampoline's function for names that no library has. */
static void report_missing(void)
{
    printf("no BLAS/LAPACK library loaded\n");
}

const void *lbt_get_default_func(void)
{
    const void *f;

    *(void (**)(void))&f = report_missing;
    return f;
}

const void *lbt_get_forward(const char *name, int32_t bits, int32_t f2c)
{
    (void)f2c;
    for (int i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return forwards[bits == 64][i];
    return (const void *)-1;
}

static void *find_symbol(void *library, const char *name, const char *suffix)
{
    char text[64];

    snprintf(text, sizeof text, "%s%s", name, suffix);
    return dlsym(library, text);
}

/* Returns the width of a BLAS function's integers, 32 or 64, or 0 if it is neither. */
static int integer_width(void *function)
{
    const int64_t n = (int64_t)0xffffffff00000003, step = 1;
    const float x[3] = { 1, 2, 1 };
    int64_t (*isamax)(const int64_t *, const float *, const int64_t *);

    *(void **)&isamax = function;
    switch (isamax(&n, x, &step) & 0xffffffff) {
    case 0: return 64;
    case 2: return 32;
    default: return 0;
    }
}

/* Returns whether the library's functions take arguments and return complex and float numbers by
 * the convention with which this file calls them. */
static int is_normal(void *library, const char *suffix)
{
    const int64_t zero = 0, one = 1;
    const double complex z = 0;
    const float complex c = 0;
    const float half = .5F;
    double complex (*zdotc)(const int64_t *, const double complex *, const int64_t *,
                            const double complex *, const int64_t *);
    float complex (*cdotc)(const int64_t *, const float complex *, const int64_t *,
                           const float complex *, const int64_t *);
    float (*sdot)(const int64_t *, const float *, const int64_t *, const float *, const int64_t *);

    *(void **)&zdotc = find_symbol(library, "zdotc_", suffix);
    *(void **)&cdotc = find_symbol(library, "cdotc_", suffix);
    *(void **)&sdot = find_symbol(library, "sdot_", suffix);
    return zdotc && cdotc && sdot && zdotc(&zero, &z, &zero, &z, &zero) == 0 &&
           cdotc(&zero, &c, &zero, &c, &zero) == 0 && sdot(&one, &half, &one, &half, &one) == .25F;
}

/* Forwards all functions to those of a library, as libblastrampoline does: finds the suffix of
 * the library's names and the width of its integers by test calls. clear: first undoes all
 * forwards.  Returns the number of forwarded functions. */
int32_t lbt_forward(const char *file, int32_t clear, int32_t verbose, const char *hint)
{
    const char *suffixes[] = { hint ? hint : "", "", "64", "_64", "64_" }, *suffix = NULL;
    void *library = dlopen(file, RTLD_LAZY | RTLD_DEEPBIND), *f;
    int bits, forwarded = 0;

    (void)verbose;
    for (int i = 0; i < 5 && library && !suffix; i++)
        if (find_symbol(library, "isamax_", suffixes[i]))
            suffix = suffixes[i];
    bits = suffix ? integer_width(find_symbol(library, "isamax_", suffix)) : 0;
    if (bits == 0 || !is_normal(library, suffix))
        return 0;
    for (int i = 0; i < NAMES; i++) {
        for (int w = 0; w < 2 && clear; w++)
            forwards[w][i] = (void *)(uintptr_t)lbt_get_default_func();
        f = find_symbol(library, names[i], suffix);
        if (f) {
            forwards[bits == 64][i] = f;
            forwarded++;
        }
    }
    return forwarded;
}

__attribute__((constructor)) static void clear(void)
{
    for (int i = 0; i < NAMES; i++)
        forwards[0][i] = forwards[1][i] = (void *)(uintptr_t)lbt_get_default_func();
}

/* ---- functions that programs call ------------------------------------------------------------ */

/* The wrappers jump instead of calling, so that the function sees the return address of the
 * caller. */
#if defined __x86_64__
#define JUMP "jmp *%rax"
/* Defines a function that jumps to forwards[wide][i]. */
#define FORWARD(name, i, wide) \
    __asm__(".text\n .globl " name "\n .type " name ", %function\n" name ":\n" \
            "lea lbt_forwards(%rip), %rax\n mov 8*(" #i "+" #wide \
            "*7)(%rax), %rax\n jmp *%rax\n");
#elif defined __aarch64__
#define FORWARD(name, i, wide) \
    __asm__(".text\n .globl " name "\n .type " name ", %function\n" name ":\n" \
            "adrp x16, lbt_forwards\n add x16, x16, :lo12:lbt_forwards\n" \
            "ldr x16, [x16, 8*(" #i "+" #wide "*7)]\n br x16\n");
#endif
extern void *lbt_forwards[2][NAMES] __attribute__((alias("forwards"), visibility("hidden")));
#define FUNCTION(name, narrow, i) \
    FORWARD(name, i, 0) \
    FORWARD(narrow, i, 1)
FUNCTION("isamax_", "isamax_64_", 0)
FUNCTION("sdot_", "sdot_64_", 1)
FUNCTION("dgemm_", "dgemm_64_", 4)
FUNCTION("cblas_dgemm", "cblas_dgemm64_", 5)
