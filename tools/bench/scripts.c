/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench apps and limber bench python: executes a program of examples/ that compares
 * applications with Limber and with a plain BLAS.  These programs are Python, need nothing of this
 * one, and replace it. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *word;
    /* relative to this program's folder: installed, or in a checkout's build */
    const char *file[2];
} scripts[] = {
    { "apps", { LIMBER_DOC "/examples/apps.py", "../../examples/apps.py" } },
    { "python", { LIMBER_DOC "/examples/python_calls.py", "../../examples/python_calls.py" } },
};

bool bench_is_script(const char *word, int *which)
{
    for (*which = 0; *which < (int)(sizeof scripts / sizeof *scripts); ++*which)
        if (!strcmp(word, scripts[*which].word))
            return true;
    return false;
}

int bench_script(int which, int argc, const char **argv)
{
    const char *word = scripts[which].word, *const *file = scripts[which].file;
    char script[PATH_MAX], library[PATH_MAX];
    char **args = calloc((size_t)argc + 2, sizeof *args);

    if (!args)
        return complain("out of memory");
    if (!file_beside(file[0], script) && !file_beside(file[1], script)) {
        complain("bench %s: there is no %s beside this program; with the sources, "
                 "`python examples%s` does the same",
                 word, file[0], strrchr(file[0], '/'));
        free(args);
        return 1;
    }
    /* the build's library, for a Python package used from its sources */
    if (file_beside("../liblimber.so", library))
        setenv("LIMBER_LIBRARY", library, 0);
    args[0] = "python3";
    args[1] = script;
    for (int i = 1; i < argc; i++)
        args[i + 1] = (char *)argv[i];
    fflush(stdout);
    execvp(args[0], args);
    complain("bench %s: python3: %s", word, strerror(errno));
    free(args);
    return 1;
}
