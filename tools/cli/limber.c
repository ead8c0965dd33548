/* SPDX-License-Identifier: BSD-3-Clause
 * limber: the command line. */
#include "tools/cli/cli.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

static const struct {
    const char *name, *about;
    int (*run)(int argc, const char **argv);
} commands[] = {
    { "gemm", "multiply two matrices from files", cmd_gemm },
    { "conv", "convolve an image tensor with filters from files", cmd_conv },
    { "plan", "show what gemm or conv would do, or run passes over a plan", cmd_plan },
    { "cache", "show, verify or clear the kernels on disk", cmd_cache },
    { "prebuild", "make kernels ahead, from a list of shapes or a program's report", cmd_prebuild },
    { "report", "show what a program on liblimber_blas reported", cmd_report },
    { "formats", "list the number formats", cmd_formats },
    { "operators", "list the elementwise functions and their errors", cmd_operators },
    { "units", "list the presets of simulated units, or explain one", cmd_units },
    { "explore", "compare accumulators, groups and roundings on two matrices", cmd_explore },
    { "figures", "compute and draw the figures of docs/figures.md", cmd_figures },
    { "tune", "measure tiles and rates on this machine and keep the best", cmd_tune },
    { "bench", "measure against other libraries and the machine's limits", cmd_bench },
    { "gpu", "measure against NVIDIA's libraries on a GPU", cmd_gpu },
    { "demo", "show accuracies and formats that the machine does not have", cmd_demo },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *out)
{
    fprintf(out, "usage: limber COMMAND [options]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-9s  %s\n", commands[i].name, commands[i].about);
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
