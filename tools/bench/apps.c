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

/* Folders of the programs, from that of this one: installed, and in a checkout's build. */
static const char *const folders[] = { LIMBER_EXAMPLES, "../../examples" };

/* The folder of this program; false after a message. */
static bool folder_here(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);

    if (length < 0)
        return !complain("/proc/self/exe: %s", strerror(errno));
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    return true;
}

/* A build's library, for a package that runs from its sources. */
static bool name_library(const char *here)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/../liblimber.so", here) >= (int)sizeof path ||
           access(path, R_OK) != 0 || setenv("LIMBER_LIBRARY", path, 0) == 0;
}

int bench_apps(int argc, const char **argv)
{
    char here[PATH_MAX], script[PATH_MAX];
    char **args = calloc((size_t)argc + 2, sizeof *args);
    bool found = false, ok = args && folder_here(here, sizeof here) && name_library(here);

    for (size_t i = 0; ok && !found && i < sizeof folders / sizeof *folders; i++)
        found = snprintf(script, sizeof script, "%s/%s/apps.py", here, folders[i]) <
                    (int)sizeof script &&
                access(script, R_OK) == 0;
    if (ok && found) {
        args[0] = "python3";
        args[1] = script;
        for (int i = 1; i < argc; i++)
            args[i + 1] = (char *)argv[i];
        fflush(stdout);
        execvp(args[0], args);
        complain("bench apps: python3: %s", strerror(errno));
    } else if (ok)
        complain("bench apps: no %s beside this program (a wheel has none); with the sources, "
                 "`python examples/apps.py` does the same",
                 LIMBER_EXAMPLES "/apps.py");
    else if (!args)
        complain("out of memory");
    free(args);
    return 1;
}
