/* SPDX-License-Identifier: BSD-3-Clause
 * Draws pictures with gnuplot.  Script and data go through a pipe and the picture returns through a
 * descriptor, so that no file name is part of a script or a command. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts gnuplot with its output on fd; *in becomes its input. */
static int start_gnuplot(int fd, pid_t *child, FILE **in)
{
    static char *const command[] = { "gnuplot", "-d", NULL }; /* -d: ignore the user's settings */
    posix_spawn_file_actions_t actions;
    int ends[2], error;

    if (pipe(ends))
        return errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    error = posix_spawnp(child, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    *in = error ? NULL : fdopen(ends[1], "w");
    if (!*in)
        close(ends[1]);
    return error ? error : *in ? 0 : errno;
}

static bool ended_well(pid_t child)
{
    int status = -1;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool draw(struct draft *d, const char *what, void (*script)(FILE *f, const void *user),
                 const void *user, bool *absent)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *in = NULL;
    pid_t child = 0;
    int error = start_gnuplot(fileno(d->f), &child, &in);
    bool ok = !error;

    *absent = error == ENOENT;
    if (*absent)
        complain("%s: gnuplot is not installed (Debian, Ubuntu: apt install gnuplot-nox)", what);
    else if (error)
        complain("%s: gnuplot: %s", what, strerror(error));
    if (in) {
        script(in, user);
        fclose(in);
    }
    if (child > 0 && !ended_well(child))
        ok = (complain("%s: gnuplot failed", what), false);
    signal(SIGPIPE, before);
    return ok;
}

bool gnuplot(const char *path, const char *what, void (*script)(FILE *f, const void *user),
             const void *user, bool *absent)
{
    struct draft d;

    *absent = false;
    return draft_open(&d, path) && draft_close(&d, draw(&d, what, script, user, absent));
}
