/* SPDX-License-Identifier: BSD-3-Clause
 * Functions that the commands share. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/plain_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <popt.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Prints a formatted error message to stderr, without control characters.  Returns 1. */
int complain(const char *format, ...)
{
    char *text = NULL, *plain;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    plain = text ? plain_text_of(text) : NULL;
    fprintf(stderr, "limber: %s\n", plain ? plain : "not enough memory");
    free(plain);
    free(text);
    return 1;
}

/* The function to which options_open passes each option table; set by options_set_visitor. */
static struct {
    void (*visit)(void *user, const struct poptOption *table);
    void *user;
} show;

void options_set_visitor(void (*visit)(void *user, const struct poptOption *table), void *user)
{
    show.visit = visit;
    show.user = user;
}

poptContext options_open(int argc, const char **argv, const struct poptOption *table)
{
    if (show.visit)
        show.visit(show.user, table);
    return poptGetContext("limber", argc, argv, table, 0);
}

bool options_read(poptContext o, const char *help)
{
    int code;

    if (show.visit)
        return false;
    poptSetOtherOptionHelp(o, help);
    code = poptGetNextOpt(o);
    return code >= -1 ||
           !complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS), poptStrerror(code));
}

/* Ends a context.  If the interpreter had to compute, prints the reason once. */
void context_end(limber_context *ctx)
{
    static bool printed;
    const char *why;

    if (!ctx)
        return;
    why = limber_fallback_reason(ctx);
    if (*why && !printed) {
        complain("the interpreter computed, some hundred times slower than compiled code: %s%s",
                 why, strstr(why, "libLLVM") ? " (LIMBER_LLVM=FILE names libLLVM)" : "");
        printed = true;
    }
    limber_destroy(ctx);
}

/* Returns the word for where a kernel came from. */
const char *origin_name(int from)
{
    static const char *const names[] = { [LIMBER_FROM_COMPILER] = "compiled",
                                         [LIMBER_FROM_DISK] = "disk",
                                         [LIMBER_FROM_MEMORY] = "memory",
                                         [LIMBER_FROM_INTERPRETER] = "interpreter",
                                         [LIMBER_FROM_LIBRARY] = "library" };

    return from >= 0 && (size_t)from < sizeof names / sizeof *names ? names[from] : "unknown";
}

double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__aarch64__)
/* Reads an Arm CPU's name from MIDR_EL1.  Linux emulates the read for programs if HWCAP_CPUID is
 * set. */
static bool read_arm_name(char *name, size_t size)
{
    static const struct {
        unsigned implementer, part;
        const char *name;
    } known[] = {
        { 0x41, 0xd03, "Arm Cortex-A53" },  { 0x41, 0xd07, "Arm Cortex-A57" },
        { 0x41, 0xd08, "Arm Cortex-A72" },  { 0x41, 0xd0b, "Arm Cortex-A76" },
        { 0x41, 0xd0c, "Arm Neoverse N1" }, { 0x41, 0xd40, "Arm Neoverse V1" },
        { 0x41, 0xd49, "Arm Neoverse N2" }, { 0x41, 0xd4f, "Arm Neoverse V2" },
        { 0x41, 0xd84, "Arm Neoverse V3" }, { 0x41, 0xd8e, "Arm Neoverse N3" },
        { 0x46, 0x001, "Fujitsu A64FX" },   { 0x61, 0x022, "Apple M1, efficient core" },
        { 0x61, 0x023, "Apple M1" },        { 0x61, 0x032, "Apple M2, efficient core" },
        { 0x61, 0x033, "Apple M2" },
    };
    unsigned long id;
    unsigned implementer, part;

    if (!(getauxval(AT_HWCAP) & HWCAP_CPUID))
        return false;
    __asm__("mrs %0, MIDR_EL1" : "=r"(id));
    implementer = id >> 24 & 0xff;
    part = id >> 4 & 0xfff;
    snprintf(name, size, "AArch64 CPU, implementer 0x%02x, part 0x%03x", implementer, part);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].implementer == implementer && known[i].part == part)
            snprintf(name, size, "%s", known[i].name);
    return true;
}
#endif

/* Writes the CPU's name, as CPUID or Arm's MIDR register tells it. */
void cpu_name(char *name, size_t size)
{
#if defined(__x86_64__)
    unsigned words[12];
    char *s = (char *)words;

    if (__get_cpuid_max(0x80000000, NULL) >= 0x80000004) {
        for (unsigned i = 0; i < 3; i++)
            __cpuid(0x80000002 + i, words[4 * i], words[4 * i + 1], words[4 * i + 2],
                    words[4 * i + 3]);
        while (*s == ' ')
            s++;
        snprintf(name, size, "%.*s", (int)(sizeof words - (size_t)(s - (char *)words)), s);
        return;
    }
#elif defined(__aarch64__)
    if (read_arm_name(name, size))
        return;
#endif
    snprintf(name, size, "unknown CPU");
}

bool file_beside(const char *name, char *path)
{
    char program[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    if (n < 1)
        return false;
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    return snprintf(joined, sizeof joined, "%s/%s", program, name) < (int)sizeof joined &&
           access(joined, R_OK) == 0 && realpath(joined, path);
}

bool example_beside(const char *name, char *path)
{
    char place[2][PATH_MAX], library[PATH_MAX];

    snprintf(place[0], sizeof place[0], "%s/examples/%s", LIMBER_DOC, name);
    snprintf(place[1], sizeof place[1], "../../examples/%s", name);
    if (!file_beside(place[0], path) && !file_beside(place[1], path))
        return false;
    /* a Python package that is used from its sources then finds the library of this build */
    if (file_beside("../liblimber.so", library))
        setenv("LIMBER_LIBRARY", library, 0);
    return true;
}

/* True if this Python executes a line without an error. */
static bool python_runs(const char *python, const char *line)
{
    const char *const command[] = { python, "-c", line, NULL };
    posix_spawn_file_actions_t quiet;
    pid_t child;
    int error;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    error = posix_spawnp(&child, python, &quiet, NULL, (char **)(uintptr_t)command, environ);
    posix_spawn_file_actions_destroy(&quiet);
    return !error && child_status(child) == 0;
}

const char *python_for_examples(void)
{
    static const char *const pythons[] = { "python3", "/usr/local/bin/python3",
                                           "/usr/bin/python3" },
                             *const needed[] = { "import limber, torch, numpy",
                                                 "import limber, numpy", "import torch, numpy",
                                                 "import numpy" },
                             *const packages[] = { "../../bindings/python",
                                                   "../share/limber/python" };
    const char *python = NULL;
    char place[PATH_MAX];

    for (int i = 0; i < 12 && !python; i++)
        if (python_runs(pythons[i % 3], needed[i / 3]))
            python = pythons[i % 3];
    python = python ? python : pythons[0];
    for (int i = 0; i < 2 && !python_runs(python, "import limber"); i++)
        if (file_beside(packages[i], place))
            setenv("PYTHONPATH", place, 0);
    return python;
}

int child_status(pid_t child)
{
    int status = -1;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

limber_format format_of(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}
