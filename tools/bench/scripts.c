/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench apps and limber bench python: execute a Python program of examples/ in place of this
 * process, which compares applications with Limber and with a plain BLAS. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Words of the command line that run a Python script. */
static const struct {
    const char *word, *file;
} scripts[] = { { "apps", "apps.py" }, { "python", "python_calls.py" } };

bool bench_is_script(const char *word, int *which)
{
    for (*which = 0; *which < (int)(sizeof scripts / sizeof *scripts); ++*which)
        if (!strcmp(word, scripts[*which].word))
            return true;
    return false;
}

/* Executes the Python program beside this one with the given options.  Returns only on failure,
 * with the exit status. */
int bench_script(int which, int argc, const char **argv)
{
    const char *word = scripts[which].word, *file = scripts[which].file;
    char script[PATH_MAX];
    char **args = calloc((size_t)argc + 2, sizeof *args);

    if (!args)
        return complain("out of memory");
    if (!example_beside(file, script)) {
        complain("bench %s: there is no examples/%s beside this program; with the sources, "
                 "`python examples/%s` does the same",
                 word, file, file);
        free(args);
        return 1;
    }
    args[0] = (char *)(uintptr_t)python_for_examples();
    args[1] = script;
    for (int i = 1; i < argc; i++)
        args[i + 1] = (char *)argv[i];
    fflush(stdout);
    execvp(args[0], args);
    complain("bench %s: %s: %s", word, args[0], strerror(errno));
    free(args);
    return 1;
}
