/* SPDX-License-Identifier: BSD-3-Clause
 * The plot of `limber explore`. */
#include "tools/cli/explore.h"

#include <math.h>
#include <string.h>

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
    fprintf(f,
            "\nset xlabel 'bits of the accumulator'\nset ylabel 'relative error (Frobenius)'\n"
            "set logscale y\nset format y '%%.0e'\nset grid\nset key outside right top\n"
            "set xrange [%d:%d]\nset xtics 2\n",
            least - 1, most + 1);
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
            fprintf(f,
                    "$points%d using 1:2 with points pt 7 lc %d notitle, "
                    "$line%d using 1:2 with lines lw 2 lc %d title ",
                    i, color, i, color);
            key(f, t, n, i);
            fprintf(f, ", ");
        }
    fprintf(f, "$frontier using 1:2 with points pt 6 ps 2 lw 2 lc rgb 'black' title 'frontier', "
               "$frontier using 1:2:3 with labels offset 0,1 notitle\n");
}

struct curves {
    const char *title;
    const struct trial *t;
    int n;
};

static void write_script(FILE *f, const void *user)
{
    const struct curves *c = user;

    script(f, c->title, c->t, c->n);
}

bool explore_plot(const char *path, const char *title, const struct trial *t, int n, bool *absent)
{
    const struct curves c = { title, t, n };
    int drawn = 0;

    *absent = false;
    for (int i = 0; i < n; i++)
        drawn += drawable(&t[i]);
    if (!drawn)
        return complain("--plot: no error is finite and above zero, nothing to draw"), false;
    return gnuplot(path, "--plot", write_script, &c, absent);
}
