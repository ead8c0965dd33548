/* SPDX-License-Identifier: BSD-3-Clause
 * Speeds of emulated types (Ma et al., ICS 2022, tables 1 and 2, figures 10 and 11), and speeds and
 * distances of simulated units (LPGEMM, table 4 and figure 4), on a CPU. */
#include "tools/bench/bench.h"
#include "tools/figures/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Allocates n x n matrices, and fills the operands: with magnitudes from 1/4 to 1, which every
 * emulated type holds, or with integers over the whole range of their format.  On failure prints a
 * message and returns false. */
static bool make_square(struct factors *x, int64_t n, const char *format, const char *result)
{
    size_t count = (size_t)(n * n);
    uint64_t state = 10;
    double *values = malloc(count * sizeof *values);
    bool ok = factors_alloc(x, n, n, n, format, result) &&
              (values || !complain("reproduce: out of memory"));

    for (int side = 0; side < 2 && ok; side++) {
        for (size_t i = 0; i < count; i++) {
            double u = random_unit(&state), range = ldexp(1, 8 * (int)x->format.size);

            if (x->format.kind == LIMBER_KIND_FLOAT)
                values[i] = (u < 0.5 ? -1 : 1) * (0.25 + 0.75 * fabs(2 * u - 1));
            else
                values[i] = floor((u - 0.5) * range);
        }
        ok = limber_convert(side ? x->b : x->a, x->format, values, format_of("f64"), count,
                            LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK ||
             !complain("%s", limber_error_text());
    }
    free(values);
    if (!ok)
        factors_free(x);
    return ok;
}

/* Returns billions of floating-point operations a second in a product of n x n matrices. */
static double rate(int64_t n, double seconds)
{
    return 2e-9 * (double)n * (double)n * (double)n / seconds;
}

/* Opens the GPU, if there is one. */
static void open_gpu(struct figures *f)
{
    const limber_config config = { .size = sizeof(limber_config), .backend = "cuda" };

    if (!f->gpu && !device_open(0, false) && limber_create(&f->gpu, &config) != LIMBER_STATUS_OK)
        f->gpu = NULL;
}

/* Returns the speed of a product on the GPU, with its matrices in the GPU's memory.  NAN if there
 * is no GPU, or if the contract is refused; on another failure prints a message and sets
 * *failed. */
static double gpu_rate(const struct figures *f, const limber_contract *contract,
                       const struct factors *x, bool *failed)
{
    struct figures wall = *f; /* figure_clock of several threads is the time of day */
    struct factors y = *x;
    size_t a = (size_t)(x->m * x->k) * x->format.size, b = (size_t)(x->k * x->n) * x->format.size,
           c = (size_t)(x->m * x->n) * x->result.size;
    double speed = NAN;

    if (!f->gpu)
        return NAN;
    wall.threads = 2;
    y.a = device_alloc(a);
    y.b = device_alloc(b);
    y.c = device_alloc(c);
    if (y.a && y.b && y.c && device_put(y.a, x->a, a) && device_put(y.b, x->b, b))
        speed = rate(x->n, factors_time(&wall, f->gpu, contract, &y, NULL, failed));
    else
        *failed = complain("%s", device_error());
    device_free(y.a);
    device_free(y.b);
    device_free(y.c);
    return speed;
}

/* ---- emulated types -------------------------------------------------------------------------- */

/* The emulated types. */
static const struct type {
    const char *name, *scheme, *limbs;
} types[] = {
    { "FP32", "native", "" },
    { "FP32-F", "fp32-f", "2 of FP16" },
    { "FP32-M", "fp32-m", "2 of FP16" },
    { "FP32-T", "fp32-t", "2 of TF32" },
    { "FP32-B", "fp32-b", "3 of BF16" },
};
enum { TYPES = sizeof types / sizeof *types };

/* Types that units multiply without limbs. */
static const struct {
    const char *name, *format, *result;
} natives[] = { { "FP64", "f64", "f64" },
                { "TF32", "tf32", "f32" },
                { "FP16", "f16", "f32" },
                { "BF16", "bf16", "f32" } };
enum { NATIVES = sizeof natives / sizeof *natives };

/* Adds the row of a native type to the table of types.  x: floats; one: the identity matrix;
 * fp32: seconds of FP32's product. */
static bool add_native(struct figures *f, int type, const struct factors *x, const float *one,
                       double fp32, struct table *data)
{
    const limber_contract c = { .size = sizeof c, .promise = LIMBER_CONTRACT_NATIVE };
    size_t count = (size_t)(x->n * x->n);
    struct factors y;
    double seconds, worst = 0;
    bool failed = false;

    figure_note(f, "ape-types: %s", natives[type].name);
    /* the operands are those of x, rounded to another format */
    if (!make_square(&y, x->n, natives[type].format, natives[type].result))
        return false;
    seconds = factors_time(f, f->ctx, &c, &y, NULL, &failed);
    failed = failed ||
             limber_convert(y.b, y.format, one, x->format, count, LIMBER_ROUND_NEAREST) !=
                 LIMBER_STATUS_OK ||
             factors_multiply(f->ctx, &c, &y, NULL) != LIMBER_STATUS_OK ||
             limber_convert(x->c, x->result, y.c, y.result, count, LIMBER_ROUND_NEAREST) !=
                 LIMBER_STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        double a = (double)((float *)x->a)[i];

        worst = fmax(worst, fabs((double)((float *)x->c)[i] - a) / fabs(a));
    }
    factors_free(&y);
    table_add(data, "wwnnnn", natives[type].name, "", 1.0, worst, rate(x->n, seconds),
              fp32 / seconds);
    return !failed;
}

/* Fills the table of types: limbs, products, largest relative error of x times 1, and speed. */
static bool fill_types(struct figures *f, struct table *data, struct table *brief)
{
    double native = NAN;
    struct factors x;
    bool failed = false, ok = make_square(&x, f->quick ? 128 : 1024, "f32", "f32");
    float *one = ok ? calloc((size_t)(x.n * x.n), sizeof *one) : NULL;

    (void)brief;
    for (int64_t i = 0; one && i < x.n; i++)
        one[i * x.n + i] = 1;
    for (int t = 0; t < TYPES && one && !failed; t++) {
        const limber_contract c = { .size = sizeof c,
                                    .promise = LIMBER_CONTRACT_FAST,
                                    .scheme = types[t].scheme };
        limber_report r = LIMBER_REPORT_INIT;
        struct factors unit = x;
        double seconds, worst = 0;

        figure_note(f, "ape-types: %s", types[t].name);
        seconds = factors_time(f, f->ctx, &c, &x, &r, &failed);
        unit.b = one;
        failed |= factors_multiply(f->ctx, &c, &unit, NULL) != LIMBER_STATUS_OK;
        for (int64_t i = 0; i < x.n * x.n; i++) {
            double a = (double)((float *)x.a)[i];

            worst = fmax(worst, fabs((double)((float *)x.c)[i] - a) / fabs(a));
        }
        native = t ? native : seconds;
        table_add(data, "wwnnnn", types[t].name, types[t].limbs, fmax(1, (double)r.rows), worst,
                  rate(x.n, seconds), native / seconds);
    }
    for (int t = 0; t < NATIVES && one && !failed; t++)
        failed = !add_native(f, t, &x, one, native, data);
    ok = one && !failed;
    if (failed)
        complain("ape-types: %s", limber_error_text());
    free(one);
    factors_free(&x);
    return ok;
}

const struct figure figure_ape_types = {
    .name = "ape-types",
    .about = "emulated and native types: limbs, products, error, speed",
    .heads = "type,limbs,products,largest error,GFLOPS,of FP32",
    .fill = fill_types,
};

static const int sizes[] = { 128, 256, 512, 1024, 2048 };
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Fills the figure of FP32 products: a row for each size, a column for each type. */
static bool fill_floats(struct figures *f, struct table *data, struct table *brief)
{
    bool failed = false;

    (void)brief;
    open_gpu(f);
    for (int i = 0; i < (f->quick ? 2 : SIZES) && !failed; i++) {
        struct factors x;

        if (!make_square(&x, sizes[i], "f32", "f32"))
            return false;
        table_add(data, "n", (double)sizes[i]);
        for (int t = 0; t < 2 * TYPES && !failed; t++) {
            const limber_contract c = { .size = sizeof c,
                                        .promise = LIMBER_CONTRACT_FAST,
                                        .scheme = types[t % TYPES].scheme };

            figure_note(f, "ape-10: %s, n = %d", types[t % TYPES].name, sizes[i]);
            table_add(data, "n",
                      t < TYPES ? rate(x.n, factors_time(f, f->ctx, &c, &x, NULL, &failed)) :
                                  gpu_rate(f, &c, &x, &failed));
        }
        factors_free(&x);
    }
    return !failed;
}

static const char floats_script[] =
    "set xlabel 'n'\nset ylabel 'GFLOPS'\nset logscale xy 2\nset offsets 0,0,graph 0.1,0\n"
    "array T = ['FP32', 'FP32-F', 'FP32-M', 'FP32-T', 'FP32-B']\nd(t) = t == 4 ? 2 : 1\n"
    "plot for [t=1:5] $data using 1:t+1 with linespoints pt t+3 ps 0.7 "
    "lw 2 dt d(t) lc t title T[t]"; /* FP32-T's curve lies on that of FP32-F */

const struct figure figure_ape_gemm = {
    .name = "ape-10",
    .about = "speed of FP32 products by emulated types",
    .heads = "n,FP32,FP32-F,FP32-M,FP32-T,FP32-B,FP32 GPU,FP32-F GPU,"
             "FP32-M GPU,FP32-T GPU,FP32-B GPU",
    .fill = fill_floats,
    .picture = { { "ape-10", floats_script, 420 } }
};

/* Fills the figure of integer products: INT16 out of four products of INT8. */
static bool fill_integers(struct figures *f, struct table *data, struct table *brief)
{
    const limber_contract exact = { .size = sizeof exact, .promise = LIMBER_CONTRACT_EXACT };
    const limber_contract native = { .size = sizeof native, .promise = LIMBER_CONTRACT_NATIVE };
    bool failed = false;

    (void)brief;
    open_gpu(f);
    for (int i = 0; i < (f->quick ? 2 : SIZES) && !failed; i++) {
        struct factors bytes, words;
        double speed[2], gpu[2];

        if (!make_square(&bytes, sizes[i], "i8", "i32"))
            return false;
        figure_note(f, "ape-11: n = %d", sizes[i]);
        speed[0] = rate(bytes.n, factors_time(f, f->ctx, &native, &bytes, NULL, &failed));
        gpu[0] = gpu_rate(f, &native, &bytes, &failed);
        factors_free(&bytes);
        if (!make_square(&words, sizes[i], "i16", "i64"))
            return false;
        speed[1] = rate(words.n, factors_time(f, f->ctx, &exact, &words, NULL, &failed));
        gpu[1] = gpu_rate(f, &exact, &words, &failed);
        factors_free(&words);
        table_add(data, "nnnnnnn", (double)sizes[i], speed[0], speed[1], 4 * speed[1] / speed[0],
                  gpu[0], gpu[1], 4 * gpu[1] / gpu[0]);
    }
    return !failed;
}

static const char integers_script[] =
    "set xlabel 'n'\nset ylabel 'GOPS'\nset logscale xy 2\nset offsets 0,0,graph 0.1,0\n"
    "plot $data using 1:2 with linespoints pt 5 ps 0.7 lw 2 lc 1 title 'INT8', "
    "$data using 1:3 with linespoints pt 7 ps 0.7 lw 2 lc 2 title 'INT16, four of INT8'";

const struct figure figure_ape_integers = { .name = "ape-11",
                                            .about = "speed of INT16 products out of INT8",
                                            .heads = "n,INT8 GOPS,INT16 GOPS,of a quarter of INT8,"
                                                     "INT8 GPU,INT16 GPU,of a quarter on GPU",
                                            .fill = fill_integers,
                                            .picture = { { "ape-11", integers_script, 420 } } };

/* ---- simulated units ------------------------------------------------------------------------- */

/* Multiplies on the unit that `text` describes.  seconds: gets the smallest time; NULL: one
 * call. */
static bool simulate(struct figures *f, const char *text, const struct factors *x, double *seconds)
{
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_contract c = { .size = sizeof c, .promise = LIMBER_CONTRACT_SIMULATE, .unit = &unit };
    bool failed = false;
    double time;

    if (limber_unit_parse(text, &unit) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text()), false;
    time = seconds ? factors_time(f, f->ctx, &c, x, NULL, &failed) : NAN;
    if (!seconds && factors_multiply(f->ctx, &c, x, NULL) != LIMBER_STATUS_OK)
        failed = complain("%s", limber_error_text());
    if (seconds)
        *seconds = time;
    return !failed;
}

/* Table 4 of LPGEMM, on a GPU that it does not name: milliseconds with and without simulation, and
 * those of PyTorch's product. */
static const struct {
    int n;
    double with, without, plain;
} published[] = { { 1024, 0.55, 0.14, 0.12 },     { 2048, 2.2, 0.58, 0.49 },
                  { 3072, 4.97, 1.24, 1.01 },     { 4096, 17.65, 2.62, 2.02 },
                  { 5120, 21.9, 4.54, 3.83 },     { 6144, 47.78, 8.33, 6.21 },
                  { 7168, 58.57, 12.5, 9.7 },     { 8192, 82.21, 20, 13.96 },
                  { 9216, 110.44, 27.25, 19.71 }, { 10240, 153.12, 36.15, 27.23 } };
enum { PUBLISHED = sizeof published / sizeof *published, MOST_SIMULATED = 4096 };

/* Times a simulated BF16 unit, the same kernel without roundings to BF16, and a plain product. */
static bool time_simulated(struct figures *f, int n, double ms[3])
{
    const limber_contract native = { .size = sizeof native, .promise = LIMBER_CONTRACT_NATIVE };
    struct factors x;
    bool failed;

    if (!make_square(&x, n, "f32", "f32"))
        return false;
    figure_note(f, "lpgemm-table-4: n = %d", n);
    failed = !simulate(f, "in=bf16 mul=bf16 acc=bf16 group=16", &x, &ms[0]) ||
             !simulate(f, "in=f32 mul=f32 acc=f32 group=16", &x, &ms[1]);
    ms[2] = failed ? NAN : factors_time(f, f->ctx, &native, &x, NULL, &failed);
    for (int i = 0; i < 3; i++)
        ms[i] *= 1e3;
    factors_free(&x);
    return !failed;
}

/* Fills the table of times with and without simulation: the paper's rows, ours up to a size that a
 * CPU computes in seconds, and the means of both.  Tests take a sixteenth of n. */
static bool fill_simulated(struct figures *f, struct table *data, struct table *brief)
{
    double sum[4] = { 0 };
    int ours = 0;

    (void)brief;
    for (int i = 0; i < PUBLISHED; i++) {
        int n = f->quick ? published[i].n / 16 : published[i].n;
        double with = published[i].plain / published[i].with,
               without = published[i].plain / published[i].without, ms[3] = { NAN, NAN, NAN };
        char size[12];

        snprintf(size, sizeof size, "%d", published[i].n);
        if (published[i].n <= MOST_SIMULATED) {
            if (!time_simulated(f, n, ms))
                return false;
            sum[2] += ms[2] / ms[0];
            sum[3] += ms[2] / ms[1];
            ours++;
        }
        sum[0] += with / PUBLISHED;
        sum[1] += without / PUBLISHED;
        table_add(data, "wnnnnnnnnnn", size, published[i].with, published[i].without,
                  published[i].plain, with, without, ms[0], ms[1], ms[2], ms[2] / ms[0],
                  ms[2] / ms[1]);
    }
    table_add(data, "wnnnnnnnnnn", "mean", NAN, NAN, NAN, sum[0], sum[1], NAN, NAN, NAN,
              sum[2] / ours, sum[3] / ours);
    return true;
}

const struct figure figure_lpgemm_times = {
    .name = "lpgemm-table-4",
    .about = "time with and without simulation beside a plain product",
    .heads = "n,paper: BF16 ms,no simulation ms,PyTorch ms,speed BF16,speed without,"
             "here: BF16 ms,no simulation ms,plain ms,speed BF16,speed without",
    .fill = fill_simulated,
};

/* Rounds floats to E5M2 and back, as QPyTorch does: to nearest, ties away from zero. */
static bool round_to_e5m2(float *to, const void *from, const char *format, size_t count)
{
    limber_format e5m2 = format_of("e5m2");
    char *codes = malloc(count);
    bool ok = codes &&
              limber_convert(codes, e5m2, from, format_of(format), count, LIMBER_ROUND_AWAY) ==
                  LIMBER_STATUS_OK &&
              limber_convert(to, format_of("f32"), codes, e5m2, count, LIMBER_ROUND_NEAREST) ==
                  LIMBER_STATUS_OK;

    free(codes);
    return ok || !complain("lpgemm-4: out of memory");
}

/* Fills n x n floats with standard normal numbers (Box and Muller, 1958). */
static void fill_normal(float *to, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n * n; i++) {
        double radius = sqrt(-2 * log(1 - random_unit(&seed)));

        to[i] = (float)(radius * cos(6.283185307179586 * random_unit(&seed)));
    }
}

/* Returns the mean distance of two matrices. */
static double distance(const float *x, const float *y, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += fabs((double)x[i] - (double)y[i]);
    return sum / (double)count;
}

/* Computes products of one size: `truth` by the simulated unit, `inner` with FP16 sums of
 * groups, `outside` by FP32 sums that are rounded once. */
static bool compare_simulators(struct figures *f, const struct factors *x, float *truth,
                               float *inner, float *outside)
{
    const limber_contract native = { .size = sizeof native, .promise = LIMBER_CONTRACT_NATIVE };
    size_t count = (size_t)(x->n * x->n);
    struct factors y = *x;

    y.c = truth;
    if (!simulate(f, "in=e5m2 mul=e5m2 acc=e5m2 group=16", &y, NULL))
        return false;
    y.c = inner;
    if (!simulate(f, "in=e5m2 mul=e5m2 acc=e5m2 group=16 outer=f16", &y, NULL))
        return false;
    y.c = outside;
    if (!round_to_e5m2(y.a, y.a, "f32", count) || !round_to_e5m2(y.b, y.b, "f32", count))
        return false;
    if (factors_multiply(f->ctx, &native, &y, NULL) != LIMBER_STATUS_OK)
        return complain("%s", limber_error_text()), false;
    return round_to_e5m2(outside, outside, "f32", count);
}

/* Fills the figure of distances from an FP8 unit that adds in groups of 16. */
static bool fill_distances(struct figures *f, struct table *data, struct table *brief)
{
    bool ok = true;
    double less = 0;
    int count = f->quick ? 2 : 4, most = 0;

    for (int i = 0; i < count && ok; i++) {
        int n = 64 << i;
        struct factors x;
        float *c;
        double apart[2];

        if (!make_square(&x, n, "f32", "f32"))
            return false;
        fill_normal(x.a, n, 1);
        fill_normal(x.b, n, 2);
        c = malloc(3 * sizeof *c * (size_t)(n * n));
        figure_note(f, "lpgemm-4: n = %d", n);
        ok = c && compare_simulators(f, &x, c, c + n * n, c + 2 * n * n);
        if (ok) {
            apart[0] = distance(c, c + 2 * n * n, (int64_t)n * n);
            apart[1] = distance(c, c + n * n, (int64_t)n * n);
            table_add(data, "nnnn", (double)n, apart[0], apart[1], 100 * (1 - apart[1] / apart[0]));
            less += 100 * (1 - apart[1] / apart[0]) / count;
            most = (int)fmax(most, round(100 * (1 - apart[1] / apart[0])));
        }
        free(c);
        factors_free(&x);
    }
    table_add(brief, "nn", (double)most, less);
    return ok;
}

static const char distances_script[] =
    "set xlabel 'n'\nset ylabel 'mean distance'\nset logscale x 2\nset yrange [0:*]\n"
    "set offsets 0,0,graph 0.15,0\n"
    "plot $data using 1:2 with linespoints pt 5 ps 0.7 lw 2 lc 1 title 'operands and results "
    "rounded', $data using 1:3 with linespoints pt 7 ps 0.7 lw 2 lc 2 title 'sums rounded, too'";

const struct figure figure_lpgemm_error = {
    .name = "lpgemm-4",
    .about = "distance of two simulators from an FP8 unit",
    .heads = "n,operands and results rounded,sums rounded too,less by %",
    .brief = "at most less by %,mean %",
    .fill = fill_distances,
    .picture = { { "lpgemm-4", distances_script, 420 } }
};
