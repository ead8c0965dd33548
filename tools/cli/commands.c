/* SPDX-License-Identifier: BSD-3-Clause
 * The table of commands and their options. */
#include "tools/cli/commands.h"

#include <string.h>

static const struct command commands[] = {
    { "gemm", "multiply two matrices from files", "docs/cli.md", "FILE", cmd_gemm },
    { "conv", "convolve an image tensor with filters from files", "docs/cli.md", "FILE", cmd_conv },
    { "plan", "show what gemm or conv would do, or run passes over a plan", "docs/explain.md",
      "gemm|conv|FILE", cmd_plan, true },
    { "execute", "multiply or convolve by the plan in a file", "docs/ir.md", "FILE", cmd_execute },
    { "cache", "show, verify or clear the kernels on disk", "docs/cache.md",
      "info|list|verify|clear", cmd_cache },
    { "prebuild", "make kernels ahead, from a list of shapes or a program's report",
      "docs/cache.md", "FILE", cmd_prebuild },
    { "report", "show what a program on liblimber_blas reported", "docs/blas.md", "FILE",
      cmd_report },
    { "formats", "list the number formats", "docs/formats.md", "FORMAT", cmd_formats },
    { "operators", "list the elementwise functions and their errors", "docs/operators.md", NULL,
      cmd_operators },
    { "units", "list the presets of simulated units, or explain one", "docs/simulation.md", "UNIT",
      cmd_units },
    { "explore", "compare accumulators, groups and roundings on two matrices", "docs/simulation.md",
      "FILE", cmd_explore },
    { "reveal", "find the order in which a BLAS or a unit sums", "docs/simulation.md", NULL,
      cmd_reveal },
    { "reproduce", "compute the figures and tables of the papers, beside their numbers",
      "docs/papers.md", "NAME", cmd_reproduce },
    { "tune", "measure tiles and rates on this machine and keep the best", "docs/performance.md",
      NULL, cmd_tune },
    { "bench", "measure against other libraries and the machine's limits", "docs/performance.md",
      NULL, cmd_bench },
    { "gpu", "measure against NVIDIA's libraries on a GPU", "docs/gpu.md", NULL, cmd_gpu },
    { "demo", "show accuracies and formats that the machine does not have", "docs/cli.md", NULL,
      cmd_demo },
    { "version", "tell versions, and what is found on this machine", "docs/cli.md", NULL,
      cmd_version },
    { "help", "say what a command, format, contract, scheme, unit or variable is", "docs/cli.md",
      "WORD", cmd_help },
    { "completion", "print a script that completes command lines in a shell", "docs/cli.md",
      "bash|zsh|fish", cmd_completion },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const struct command *command_at(int i)
{
    return i >= 0 && i < COMMANDS ? &commands[i] : NULL;
}

const struct command *command_named(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i].name))
            return &commands[i];
    return NULL;
}

void command_options(const struct command *c, const char *part,
                     void (*visit)(void *user, const struct poptOption *table), void *user)
{
    const char *argv[] = { c->name, part, NULL };

    options_set_visitor(visit, user);
    c->run(part ? 2 : 1, argv);
    options_set_visitor(NULL, NULL);
}
