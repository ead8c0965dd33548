/* SPDX-License-Identifier: BSD-3-Clause
 * Draws pictures with gnuplot.  Script and data go through a pipe and the picture returns through a
 * descriptor, so that no file name is part of a script or a command. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Starts gnuplot, which writes to the descriptor fd.  *in: a stream to gnuplot's input. */
static int start_gnuplot(int fd, pid_t *child, FILE **in)
{
    static char *const command[] = { "gnuplot", "-d", NULL }; /* -d: ignores the user's settings */
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

bool gnuplot_is_here(void)
{
    static char *const command[] = { "gnuplot", "--version", NULL };
    posix_spawn_file_actions_t quiet;
    pid_t child;
    int error;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    error = posix_spawnp(&child, command[0], &quiet, NULL, command, environ);
    posix_spawn_file_actions_destroy(&quiet);
    /* a child that cannot run the command ends with 127, where posix_spawnp does not say it */
    return (!error && child_status(child) != 127) ||
           !complain("gnuplot is not installed (Debian, Ubuntu: apt install gnuplot-nox), so there "
                     "are no pictures");
}

/* Runs gnuplot with `script` as input, and the draft's file as output.  On failure prints a message
 * and returns false. */
static bool run_gnuplot(struct draft *d, const char *what,
                        void (*script)(FILE *f, const void *user), const void *user)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *in = NULL;
    pid_t child = 0;
    int error = start_gnuplot(fileno(d->f), &child, &in);
    bool ok = !error;

    if (error)
        complain("%s: gnuplot: %s", what, strerror(error));
    if (in) {
        script(in, user);
        fclose(in);
    }
    if (child > 0 && child_status(child) != 0)
        ok = (complain("%s: gnuplot failed", what), false);
    signal(SIGPIPE, before);
    return ok;
}

bool gnuplot(const char *path, const char *what, void (*script)(FILE *f, const void *user),
             const void *user)
{
    struct draft d;

    return draft_open(&d, path) && draft_close(&d, run_gnuplot(&d, what, script, user));
}
