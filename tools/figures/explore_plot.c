/* SPDX-License-Identifier: BSD-3-Clause
 * The plot of `limber explore`: error against cost. */
#include "tools/cli/explore.h"

#include <math.h>
#include <string.h>

/* The curves of a picture: t has n trials. */
struct curves {
    const char *title;
    enum sweep sweep;
    bool png;
    const struct trial *t;
    int n;
};

/* Only finite errors above 0 can be drawn on a logarithmic axis. */
static bool is_drawable(const struct trial *t)
{
    return isfinite(t->error) && t->error > 0;
}

static bool is_same_curve(const struct trial *a, const struct trial *b)
{
    return a->group == b->group && !strcmp(a->rounding, b->rounding) &&
           !strcmp(a->products, b->products);
}

/* Index of the first trial that is on the same curve as trial i. */
static int curve_leader(const struct curves *c, int i)
{
    int j = 0;

    while (!is_drawable(&c->t[j]) || !is_same_curve(&c->t[j], &c->t[i]))
        j++;
    return j;
}

/* True if trial i has the smallest error of all trials on its curve with equal cost.  The curve's
 * line connects these. */
static bool is_best(const struct curves *c, int i)
{
    const struct trial *t = &c->t[i];

    for (int j = 0; j < c->n; j++) {
        const struct trial *x = &c->t[j];

        if (is_drawable(x) && is_same_curve(x, t) && x->cost == t->cost &&
            (x->error < t->error || (x->error == t->error && j < i)))
            return false;
    }
    return true;
}

/* Writes a string in single quotes for gnuplot, in which only the quote itself must be doubled. */
static void print_quoted(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++)
        fprintf(f, *s == '\'' ? "''" : "%c", *s < ' ' ? ' ' : *s);
    fputc('\'', f);
}

/* Writes the curve's legend: the attributes in which curves differ. */
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

static int count_curves(const struct curves *c)
{
    int curves = 0;

    for (int i = 0; i < c->n; i++)
        curves += is_drawable(&c->t[i]) && curve_leader(c, i) == i;
    return curves;
}

/* Writes a data block with the columns cost, error, whether on the frontier, and format.  $all has
 * all trials, $pointsK those on the curve whose first trial is K, $lineK those that its line
 * connects. */
static void write_data(FILE *f, const struct curves *c, const char *name, int curve, bool line)
{
    if (curve < 0)
        fprintf(f, "$%s << END\n", name);
    else
        fprintf(f, "$%s%d << END\n", name, curve);
    for (int i = 0; i < c->n; i++) {
        const struct trial *t = &c->t[i];

        if (is_drawable(t) && (curve < 0 || curve_leader(c, i) == curve) &&
            (!line || is_best(c, i)))
            fprintf(f, "%.9g %.9g %d %s\n", t->cost, t->error, t->frontier, t->format);
    }
    fprintf(f, "END\n");
}

/* Writes gnuplot's commands for title, axes and their ranges. */
static void write_axes(FILE *f, const struct curves *c)
{
    static const char *const costs[] = { "bits of the accumulator", "bits of an operand's element",
                                         "seconds of all products" };
    const bool seconds = c->sweep == SWEEP_contracts;
    double least = INFINITY, most = 0, room;

    for (int i = 0; i < c->n; i++)
        if (is_drawable(&c->t[i])) {
            least = fmin(c->t[i].cost, least);
            most = fmax(c->t[i].cost, most);
        }
    room = fmax(1.5, (most - least) / 6); /* space for the label of the leftmost point */
    fprintf(f, "set terminal %s noenhanced font 'sans,13' background rgb 'white'\nset title ",
            c->png ? "pngcairo size 960,600" : "svg size 960,600 dynamic");
    print_quoted(f, c->title);
    fputc('\n', f);
    gnuplot_style(f);
    fprintf(f,
            "set xlabel \"%s\"\nset ylabel 'relative error (Frobenius)'\n"
            "set logscale y\nset format y '%%.0e'\nset key outside right top\n"
            "set xrange [%.9g:%.9g]\n%s\n",
            costs[c->sweep], seconds ? least / 2 : least - room, seconds ? most * 2 : most + 1,
            seconds ? "set logscale x" : "set xtics 2");
}

/* Writes the commands that plot the curves.  Each curve is thinner than the one before, so that
 * coinciding curves remain visible.  Labels are at the lower left of the frontier's points, where
 * there are no other points. */
static void write_script(FILE *f, const void *user)
{
    const struct curves *c = user;
    int color = 0, behind = count_curves(c);

    write_data(f, c, "all", -1, false);
    for (int i = 0; i < c->n; i++)
        if (is_drawable(&c->t[i]) && curve_leader(c, i) == i) {
            write_data(f, c, "points", i, false);
            write_data(f, c, "line", i, true);
        }
    write_axes(f, c);
    fprintf(f, "plot ");
    for (int i = 0; i < c->n; i++)
        if (is_drawable(&c->t[i]) && curve_leader(c, i) == i) {
            const double width = 2 + 2.5 * fmin(--behind, 4);

            color++;
            fprintf(f,
                    "$points%d using 1:2 with points pt 7 ps %.3g lc %d notitle, "
                    "$line%d using 1:2 smooth unique with lines lw %.3g lc %d title ",
                    i, 0.35 * width, color, i, width, color);
            print_key(f, c, &c->t[i]);
            fprintf(f, ", ");
        }
    fprintf(f, "$all using ($3 > 0 ? $1 : NaN):2 with points pt 6 ps 2 lw 2 lc 7 "
               "title 'frontier', "
               "$all using ($3 > 0 ? $1 : NaN):2:4 with labels right offset -1,-0.8 notitle\n");
}

/* Draws the trials of `limber explore` to a file by gnuplot.  On failure prints a message and
 * returns false. */
bool explore_plot(const char *path, const char *title, enum sweep sweep, const struct trial *t,
                  int n)
{
    const struct curves c = { title, sweep, ends(path, ".png"), t, n };
    int drawn = 0;

    for (int i = 0; i < n; i++)
        drawn += is_drawable(&t[i]);
    if (!drawn)
        return complain("--plot: no error is finite and above zero, nothing to draw"), false;
    return gnuplot(path, "--plot", write_script, &c);
}
