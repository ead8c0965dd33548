/* SPDX-License-Identifier: BSD-3-Clause
 * The plot of `limber explore`, by gnuplot.  Its script and data go through a pipe and its picture
 * comes through a descriptor, so that no file name is ever part of a script or a command. */
#define _GNU_SOURCE
#include "explore.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool drawable(const struct trial *t)
{
    return isfinite(t->error) && t->error > 0;
}

static bool same_curve(const struct trial *a, const struct trial *b)
{
    return a->group == b->group && !strcmp(a->rounding, b->rounding) &&
           !strcmp(a->products, b->products);
}

/* The first trial of every curve leads it. */
static bool leads(const struct trial *t, int i)
{
    for (int j = 0; j < i; j++)
        if (drawable(&t[j]) && same_curve(&t[j], &t[i]))
            return false;
    return drawable(&t[i]);
}

static void point(FILE *f, const struct trial *t)
{
    fprintf(f, "%d %.9g %s\n", t->bits, t->error, t->format);
}

/* Points of the curve that trial i leads; then the best of each width, which a line joins. */
static void curve(FILE *f, const struct trial *t, int n, int i)
{
    fprintf(f, "$points%d << END\n", i);
    for (int j = i; j < n; j++)
        if (drawable(&t[j]) && same_curve(&t[i], &t[j]))
            point(f, &t[j]);
    fprintf(f, "END\n$line%d << END\n", i);
    for (int bits = 0; bits <= 64; bits++) {
        const struct trial *best = NULL;

        for (int j = i; j < n; j++)
            if (drawable(&t[j]) && same_curve(&t[i], &t[j]) && t[j].bits == bits &&
                (!best || t[j].error < best->error))
                best = &t[j];
        if (best)
            point(f, best);
    }
    fprintf(f, "END\n");
}

/* Text for gnuplot's single quotes, in which only a quote itself means anything. */
static void quoted(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++) {
        if (*s == '\'')
            fputc('\'', f);
        fputc(*s < ' ' ? ' ' : *s, f);
    }
    fputc('\'', f);
}

static void key(FILE *f, const struct trial *t, int n, int i)
{
    bool roundings = false, products = false;

    for (int j = 0; j < n; j++) {
        roundings |= strcmp(t[i].rounding, t[j].rounding) != 0;
        products |= strcmp(t[i].products, t[j].products) != 0;
    }
    fprintf(f, "'%s", t[i].group ? "group " : "no groups");
    if (t[i].group)
        fprintf(f, "%lld", (long long)t[i].group);
    fprintf(f, "%s%s%s%s'", roundings ? ", " : "", roundings ? t[i].rounding : "",
            products ? ", mul " : "", products ? t[i].products : "");
}

static void script(FILE *f, const char *title, const struct trial *t, int n)
{
    int least = 99, most = 0, color = 0;

    for (int i = 0; i < n; i++)
        if (drawable(&t[i])) {
            least = t[i].bits < least ? t[i].bits : least;
            most = t[i].bits > most ? t[i].bits : most;
        }
    fprintf(f, "set terminal svg size 960,600 dynamic noenhanced font 'sans,13' "
               "background rgb 'white'\nset title ");
    quoted(f, title);
    fprintf(f, "\nset xlabel 'bits of the accumulator'\nset ylabel 'relative error (Frobenius)'\n"
               "set logscale y\nset format y '%%.0e'\nset grid\nset key outside right top\n"
               "set xrange [%d:%d]\nset xtics 2\n", least - 1, most + 1);
    for (int i = 0; i < n; i++)
        if (leads(t, i))
            curve(f, t, n, i);
    fprintf(f, "$frontier << END\n");
    for (int i = 0; i < n; i++)
        if (t[i].frontier && drawable(&t[i]))
            point(f, &t[i]);
    fprintf(f, "END\nplot ");
    for (int i = 0; i < n; i++)
        if (leads(t, i)) {
            color++;
            fprintf(f, "$points%d using 1:2 with points pt 7 lc %d notitle, "
                       "$line%d using 1:2 with lines lw 2 lc %d title ", i, color, i, color);
            key(f, t, n, i);
            fprintf(f, ", ");
        }
    fprintf(f, "$frontier using 1:2 with points pt 6 ps 2 lw 2 lc rgb 'black' title 'frontier', "
               "$frontier using 1:2:3 with labels offset 0,1 notitle\n");
}

/* Starts gnuplot with its output in fd; its input is *in. */
static int start(int fd, pid_t *child, FILE **in)
{
    static char *const command[] = { "gnuplot", "-d", NULL };   /* -d: no settings of the user */
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

static bool draw(struct draft *d, const char *title, const struct trial *t, int n, bool *absent)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *in = NULL;
    pid_t child = 0;
    int error = start(fileno(d->f), &child, &in);
    bool ok = !error;

    *absent = error == ENOENT;
    if (*absent)
        complain("--plot: gnuplot is not installed (Debian, Ubuntu: apt install gnuplot-nox)");
    else if (error)
        complain("--plot: gnuplot: %s", strerror(error));
    if (in) {
        script(in, title, t, n);
        fclose(in);
    }
    if (child > 0 && !ended_well(child))
        ok = (complain("--plot: gnuplot failed"), false);
    signal(SIGPIPE, before);
    return ok;
}

bool explore_plot(const char *path, const char *title, const struct trial *t, int n, bool *absent)
{
    struct draft d;
    int drawn = 0;

    *absent = false;
    for (int i = 0; i < n; i++)
        drawn += drawable(&t[i]);
    if (!drawn)
        return complain("--plot: no error is finite and above zero, nothing to draw"), false;
    return draft_open(&d, path) && draft_close(&d, draw(&d, title, t, n, absent));
}
