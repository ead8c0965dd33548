/* SPDX-License-Identifier: BSD-3-Clause
 * Draws pictures with gnuplot.  Script and data go through a pipe and the picture returns through a
 * descriptor, so that no file name is part of a script or a command. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/cli/page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
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

/* Returns whether gnuplot can be run. */
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

/* ---- colours --------------------------------------------------------------------------------- */

void gnuplot_style(FILE *f)
{
    for (int i = 0; i < COLOURS; i++)
        fprintf(f, "set linetype %d lc rgb '%s'\n", i + 1, light_colours.curve[i]);
    fprintf(f, "set linetype cycle %d\nset grid\nset style fill solid 1 border -1\n", COLOURS);
}

/* Writes a rule of CSS: what has the colour `from` in one of SVG's attributes gets `to`. */
static void write_rule(FILE *f, const char *from, const char *to)
{
    static const char *const attributes[] = { "color", "fill", "stroke" };

    for (int i = 0; i < 3; i++)
        fprintf(f, "#gnuplot_canvas [%s=\"%s\"]{%s:%s}", attributes[i], from, attributes[i], to);
}

/* Writes a style sheet that gives a picture of gnuplot's the dark scheme's colours. */
static void write_dark_style(FILE *f)
{
    fputs("<style>@media(prefers-color-scheme:dark){", f);
    write_rule(f, "#ffffff", dark_colours.page);
    write_rule(f, "#FFFFFF", dark_colours.page);
    write_rule(f, "black", dark_colours.text);
    for (int i = 0; i < COLOURS; i++) {
        unsigned rgb = (unsigned)strtoul(light_colours.curve[i] + 1, NULL, 16);
        char text[24]; /* as gnuplot writes a colour */

        snprintf(text, sizeof text, "rgb(%3u, %3u, %3u)", rgb >> 16, rgb >> 8 & 255, rgb & 255);
        write_rule(f, text, dark_colours.curve[i]);
    }
    fputs("}</style>\n", f);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Copies what gnuplot has drawn, and adds the style sheet to an SVG. */
static bool copy_picture(FILE *to, FILE *from)
{
    char block[4096], line[4096];
    bool svg;
    size_t n;

    rewind(from);
    svg = fread(block, 1, 5, from) == 5 && !memcmp(block, "<?xml", 5);
    rewind(from);
    if (!svg)
        while ((n = fread(block, 1, sizeof block, from)) > 0)
            fwrite(block, 1, n, to);
    else
        while (fgets(line, sizeof line, from)) {
            if (!strncmp(line, "</svg>", 6))
                write_dark_style(to);
            fputs(line, to);
        }
    return !ferror(from) && !ferror(to);
}

/* Runs gnuplot with `script` as input, and the draft's file as output.  On failure prints a message
 * and returns false. */
static bool run_gnuplot(struct draft *d, const char *what,
                        void (*script)(FILE *f, const void *user), const void *user)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *in = NULL, *drawn = tmpfile();
    pid_t child = 0;
    int error = drawn ? start_gnuplot(fileno(drawn), &child, &in) : errno;
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
    ok = ok && copy_picture(d->f, drawn);
    if (drawn)
        fclose(drawn);
    return ok;
}

bool gnuplot(const char *path, const char *what, void (*script)(FILE *f, const void *user),
             const void *user)
{
    struct draft d;

    return draft_open(&d, path) && draft_close(&d, run_gnuplot(&d, what, script, user));
}
