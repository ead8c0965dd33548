/* SPDX-License-Identifier: BSD-3-Clause
 * The plot of `limber explore`. */
#include "tools/cli/explore.h"

#include <math.h>
#include <string.h>

struct curves {
    const char *title;
    enum sweep sweep;
    bool png;
    const struct trial *t;
    int n;
};

static bool drawable(const struct trial *t)
{
    return isfinite(t->error) && t->error > 0;
}

static bool same_curve(const struct trial *a, const struct trial *b)
{
    return a->group == b->group && !strcmp(a->rounding, b->rounding) &&
           !strcmp(a->products, b->products);
}

/* The first trial of i's curve. */
static int leader(const struct curves *c, int i)
{
    int j = 0;

    while (!drawable(&c->t[j]) || !same_curve(&c->t[j], &c->t[i]))
        j++;
    return j;
}

/* Of the trials as wide on its curve, a line joins the best. */
static bool best(const struct curves *c, int i)
{
    const struct trial *t = &c->t[i];

    for (int j = 0; j < c->n; j++) {
        const struct trial *x = &c->t[j];

        if (drawable(x) && same_curve(x, t) && x->cost == t->cost &&
            (x->error < t->error || (x->error == t->error && j < i)))
            return false;
    }
    return true;
}

/* Text for gnuplot's single quotes, in which only a quote itself means anything. */
static void quoted(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++)
        fprintf(f, *s == '\'' ? "''" : "%c", *s < ' ' ? ' ' : *s);
    fputc('\'', f);
}

/* What tells this curve from others. */
static void print_key(FILE *f, const struct curves *c, const struct trial *t)
{
    bool roundings = false, products = false;

    if (c->sweep != SWEEP_units) {
        fprintf(f, c->sweep == SWEEP_stored ? "'operands stored'" : "'contracts'");
        return;
    }
    for (int j = 0; j < c->n; j++) {
        roundings |= strcmp(t->rounding, c->t[j].rounding) != 0;
        products |= strcmp(t->products, c->t[j].products) != 0;
    }
    if (t->group)
        fprintf(f, "'group %lld", (long long)t->group);
    else
        fprintf(f, "'no groups");
    fprintf(f, "%s%s%s%s'", roundings ? ", " : "", roundings ? t->rounding : "",
            products ? ", mul " : "", products ? t->products : "");
}

/* Columns: the curve, cost, error, whether the line goes through it, the frontier, the format. */
static void write_script(FILE *f, const void *user)
{
    const struct curves *c = user;
    static const char *const costs[] = { "bits of the accumulator", "bits of an operand's element",
                                         "seconds of all products" };
    double least = INFINITY, most = 0;
    bool seconds = c->sweep == SWEEP_contracts;
    int color = 0;

    fprintf(f, "$data << END\n");
    for (int i = 0; i < c->n; i++) {
        const struct trial *t = &c->t[i];

        if (!drawable(t))
            continue;
        least = fmin(t->cost, least);
        most = fmax(t->cost, most);
        fprintf(f, "%d %.9g %.9g %d %d %s\n", leader(c, i), t->cost, t->error, best(c, i),
                t->frontier, t->format);
    }
    fprintf(f, "END\nset terminal %s noenhanced font 'sans,13' background rgb 'white'\nset title ",
            c->png ? "pngcairo size 960,600" : "svg size 960,600 dynamic");
    quoted(f, c->title);
    fprintf(f,
            "\nset xlabel \"%s\"\nset ylabel 'relative error (Frobenius)'\n"
            "set logscale y\nset format y '%%.0e'\nset grid\nset key outside right top\n"
            "set xrange [%.9g:%.9g]\n%s\nplot ",
            costs[c->sweep], seconds ? least / 2 : least - 1, seconds ? most * 2 : most + 1,
            seconds ? "set logscale x" : "set xtics 2");
    for (int i = 0; i < c->n; i++)
        if (drawable(&c->t[i]) && leader(c, i) == i) {
            color++;
            fprintf(
                f,
                "$data using ($1 == %d ? $2 : NaN):3 with points pt 7 lc %d notitle, "
                "$data using ($1 == %d && $4 > 0 ? $2 : NaN):3 smooth unique with lines lw 2 lc %d "
                "title ",
                i, color, i, color);
            print_key(f, c, &c->t[i]);
            fprintf(f, ", ");
        }
    fprintf(f, "$data using ($5 > 0 ? $2 : NaN):3 with points pt 6 ps 2 lw 2 lc rgb 'black' "
               "title 'frontier', "
               "$data using ($5 > 0 ? $2 : NaN):3:6 with labels offset 0,1 notitle\n");
}

bool explore_plot(const char *path, const char *title, enum sweep sweep, const struct trial *t,
                  int n, bool *absent)
{
    const struct curves c = { title, sweep, ends(path, ".png"), t, n };
    int drawn = 0;

    *absent = false;
    for (int i = 0; i < n; i++)
        drawn += drawable(&t[i]);
    if (!drawn)
        return complain("--plot: no error is finite and above zero, nothing to draw"), false;
    return gnuplot(path, "--plot", write_script, &c, absent);
}
