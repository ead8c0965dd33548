/* SPDX-License-Identifier: BSD-3-Clause
 * limber bench apps: starts examples/apps.py, which runs the applications beside a plain BLAS.
 * They are Python programs, so what runs and compares them is one, too: it takes their lines of
 * JSON, and needs nothing of this program. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* From the folder of this program: installed, and in a checkout's build. */
static const char *const scripts[] = { LIMBER_DOC "/examples/apps.py", "../../examples/apps.py" };

int bench_apps(int argc, const char **argv)
{
    char script[PATH_MAX], library[PATH_MAX];
    char **args = calloc((size_t)argc + 2, sizeof *args);

    if (!args)
        return complain("out of memory");
    if (!file_beside(scripts[0], script) && !file_beside(scripts[1], script)) {
        complain("bench apps: there is no %s beside this program; with the sources, "
                 "`python examples/apps.py` does the same",
                 scripts[0]);
        free(args);
        return 1;
    }
    if (file_beside("../liblimber.so", library)) /* a build's, for a package in its sources */
        setenv("LIMBER_LIBRARY", library, 0);
    args[0] = "python3";
    args[1] = script;
    for (int i = 1; i < argc; i++)
        args[i + 1] = (char *)argv[i];
    fflush(stdout);
    execvp(args[0], args);
    complain("bench apps: python3: %s", strerror(errno));
    free(args);
    return 1;
}
