/* SPDX-License-Identifier: BSD-3-Clause
 * limber: the command line. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <popt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct {
    const char *name, *about;
    int (*run)(int argc, const char **argv);
} commands[] = {
    { "gemm", "multiply two matrices from files", cmd_gemm },
    { "conv", "convolve an image tensor with filters from files", cmd_conv },
    { "plan", "show what gemm or conv would do, or run passes over a plan", cmd_plan },
    { "cache", "show, verify or clear the kernels on disk", cmd_cache },
    { "prebuild", "make kernels ahead, from a list of shapes or a program's report", cmd_prebuild },
    { "formats", "list the number formats", cmd_formats },
    { "units", "list the presets of simulated units, or explain one", cmd_units },
    { "explore", "compare accumulators, groups and roundings on two matrices", cmd_explore },
    { "figures", "compute and draw the figures of docs/figures.md", cmd_figures },
    { "tune", "measure tiles and rates on this machine and keep the best", cmd_tune },
    { "bench", "measure against other libraries and the machine's limits", cmd_bench },
    { "gpu", "measure against NVIDIA's libraries on a GPU", cmd_gpu },
    { "demo", "show accuracies and formats that the machine does not have", cmd_demo },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

int complain(const char *format, ...)
{
    va_list args;

    fputs("limber: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return 1;
}

bool options_read(poptContext o, const char *help)
{
    int code;

    poptSetOtherOptionHelp(o, help);
    code = poptGetNextOpt(o);
    return code >= -1 ||
           !complain("%s: %s", poptBadOption(o, POPT_BADOPTION_NOALIAS), poptStrerror(code));
}

void context_end(limber_context *ctx)
{
    static bool printed;

    if (*limber_fallback_reason(ctx) && !printed) {
        complain("the interpreter computed, some hundred times slower than compiled code: %s "
                 "(LIMBER_LLVM=FILE names libLLVM)",
                 limber_fallback_reason(ctx));
        printed = true;
    }
    limber_destroy(ctx);
}

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
#endif
    snprintf(name, size, "unknown CPU");
}

limber_format format_of(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

static void help(FILE *out)
{
    fprintf(out, "usage: limber COMMAND [options]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\n`limber COMMAND --help` has the options and an example.\n"
                 "example: limber gemm A.npy B.npy -o C.npy --contract correct --check\n");
}

int main(int argc, const char **argv)
{
    char name[32];

    /* It reads and writes the files that the user names, and finds gnuplot by PATH. */
    if (getauxval(AT_SECURE)) {
        complain("it does not run with rights that its user does not have");
        return 2;
    }
    /* A file that grows beyond a limit is an error of the write, with a message. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("limber %s\n", LIMBER_VERSION);
        return 0;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name)) {
            snprintf(name, sizeof name, "limber %s", argv[1]); /* for "Usage:" */
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    complain("no command is called \"%s\"", argv[1]);
    help(stderr);
    return 2;
}
