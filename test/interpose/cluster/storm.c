/* SPDX-License-Identifier: BSD-3-Clause
 * Starts many processes (ranks) at once, which share one cache (LIMBER_CACHE_DIR).
 *
 *   storm run RANKS KERNELS    starts RANKS ranks, whose products need KERNELS kernels, and prints
 *                              how long this took and where the kernels came from
 *   storm kill SECONDS         repeatedly starts a few ranks, kills some of them at random moments,
 *                              and checks that the others end and the cache can still be used
 *   storm check KERNELS        checks the cache once, and empties it
 *   storm rank KERNELS         runs one rank
 *
 * Results are compared with sums of integers. */
#define _GNU_SOURCE     /* for pipe2 */
#include <limber/limber.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A rank's results, which it writes to its standard output in one write. */
struct story {
    /* seconds from the release of all ranks until the context, the first product, all products */
    double context, first, all;
    double cpu; /* CPU seconds of this process */
    /* [origin] number of products whose kernel was compiled, read from disk, found in memory, or
     * replaced by the interpreter */
    int from[4];
    int wrong;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* PATIENCE: seconds after which ranks that still run are lost. */
enum { SIZE = 64, MOST_KERNELS = 30, MOST_RANKS = 512, PATIENCE = 60 };

/* ---- one rank -------------------------------------------------------------------------------- */

static int element_at(int i, int j)
{
    return (i * 31 + j * 17) % 19 - 9;
}

/* Multiplies in one of 32 combinations of formats (`kernel`), no two of which share code, and
 * counts the kernel's origin in from[].  Returns 1 if the call or the result is wrong. */
static int multiply(limber_context *ctx, int kernel, int *from)
{
    static const char *const formats[] = { "f64", "f32", "f16", "bf16" };
    static char a[SIZE * SIZE * 8], b[SIZE * SIZE * 8];
    static double c[SIZE][SIZE];
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_BITS,
                                       .bits = 20,
                                       .scheme = "native" };
    limber_format f64, fa, fb, fc;
    limber_report report = LIMBER_REPORT_INIT;

    limber_format_named("f64", &f64);
    limber_format_named(formats[kernel % 4], &fa);
    limber_format_named(formats[kernel / 4 % 4], &fb);
    limber_format_named(formats[kernel / 16 % 2], &fc);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            double x = element_at(i, j), y = element_at(j, i + 5);

            limber_convert(a + (i * SIZE + j) * fa.size, fa, &x, f64, 1, LIMBER_ROUND_NEAREST);
            limber_convert(b + (i * SIZE + j) * fb.size, fb, &y, f64, 1, LIMBER_ROUND_NEAREST);
        }
    if (limber_gemm(ctx, &contract, SIZE, SIZE, SIZE, NULL, (limber_matrix){ a, fa, SIZE, 1 },
                    (limber_matrix){ b, fb, SIZE, 1 }, NULL, (limber_output){ c, fc, SIZE, 1 },
                    &report) != LIMBER_STATUS_OK) {
        fprintf(stderr, "storm: %s\n", limber_error_text());
        return 1;
    }
    limber_convert(a, f64, c, fc, SIZE * SIZE, LIMBER_ROUND_NEAREST);
    memcpy(c, a, sizeof c);
    from[report.from]++;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            int sum = 0;

            for (int k = 0; k < SIZE; k++)
                sum += element_at(i, k) * element_at(j, k + 5);
            if (c[i][j] != sum)
                return 1;
        }
    return 0;
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int count_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* Runs one rank.  piped: writes a struct story, which the parent reads; otherwise prints text. */
static int run_rank(int kernels, double start, int piped)
{
    int files = count_open_files();
    struct story story = { 0 };
    limber_context *ctx;

    if (limber_create(&ctx, NULL) != LIMBER_STATUS_OK) {
        fprintf(stderr, "storm: %s\n", limber_error_text());
        return 2;
    }
    story.context = now() - start;
    for (int i = 0; i < kernels; i++) {
        story.wrong += multiply(ctx, i, story.from);
        if (i == 0)
            story.first = now() - start;
    }
    story.all = now() - start;
    limber_destroy(ctx);
    story.cpu = cpu_seconds();
    if (count_open_files() != files) {
        fprintf(stderr, "storm: %d files are open, %d were before\n", count_open_files(), files);
        story.wrong++;
    }
    if (!piped || write(1, &story, sizeof story) != (ssize_t)sizeof story)
        printf("%d compiled, %d from disk, %d wrong\n", story.from[0], story.from[1], story.wrong);
    return story.wrong != 0;
}

/* ---- many ------------------------------------------------------------------------------------ */

/* The processes of a run. */
struct crowd {
    int ranks;
    pid_t pid[MOST_RANKS];
    int out; /* read end of the pipe to which all ranks write */
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "storm: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* Forks all ranks, then lets each of them start `storm rank` with the time of the release. */
static void release_ranks(struct crowd *c, int ranks, int kernels)
{
    double start[MOST_RANKS];
    int gate[2], out[2];

    if (pipe2(gate, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        die("pipe");
    c->ranks = ranks;
    c->out = out[0];
    for (int i = 0; i < ranks; i++) {
        c->pid[i] = fork();
        if (c->pid[i] < 0)
            die("fork");
        if (c->pid[i] == 0) {
            char count[16], since[32];
            double t;

            if (read(gate[0], &t, sizeof t) != (ssize_t)sizeof t || dup2(out[1], 1) < 0)
                _exit(2);
            snprintf(count, sizeof count, "%d", kernels);
            snprintf(since, sizeof since, "%.9f", t);
            execl("/proc/self/exe", "storm", "rank", count, since, (char *)NULL);
            _exit(2);
        }
    }
    start[0] = now();
    for (int i = 1; i < ranks; i++)
        start[i] = start[0];
    if (write(gate[1], start, (size_t)ranks * sizeof *start) < 0)
        die("write");
    close(gate[0]);
    close(gate[1]);
    close(out[1]);
}

/* Reads the ranks' results until all ranks have closed the pipe.  Returns the number of results,
 * or -1 if some rank is still running after PATIENCE seconds. */
static int read_stories(struct crowd *c, struct story *story)
{
    double end = now() + PATIENCE;
    int n = 0;

    for (;;) {
        struct pollfd p = { c->out, POLLIN, 0 };
        double left = end - now();
        ssize_t got;

        if (left <= 0 || poll(&p, 1, (int)(left * 1e3) + 1) <= 0) {
            n = -1;
            break;
        }
        got = read(c->out, &story[n], sizeof *story);
        if (got <= 0)
            break;
        n += got == (ssize_t)sizeof *story;
    }
    close(c->out);
    return n;
}

/* Waits for all ranks; with `all`, kills them first.  Returns the number of ranks that ended
 * neither with status 0 nor by this program's SIGKILL. */
static int wait_for_ranks(struct crowd *c, int all)
{
    int bad = 0;

    for (int i = 0; i < c->ranks; i++) {
        int status = 0;

        if (all)
            kill(c->pid[i], SIGKILL);
        if (waitpid(c->pid[i], &status, 0) == c->pid[i])
            bad += WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL;
    }
    return bad;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Prints first, median and last of a number over all processes; `at` is its offset in struct
 * story. */
static void print_spread(const char *what, const struct story *s, int n, size_t at)
{
    double x[MOST_RANKS];

    for (int i = 0; i < n; i++)
        memcpy(&x[i], (const char *)&s[i] + at, sizeof x[i]);
    qsort(x, (size_t)n, sizeof *x, compare_numbers);
    printf("%s: first %.1f ms, median %.1f ms, last %.1f ms\n", what, 1e3 * x[0], 1e3 * x[n / 2],
           1e3 * x[n - 1]);
}

/* Starts ranks that all multiply at once, each in a new context, and prints how long they took. */
static int run_ranks(int ranks, int kernels)
{
    struct story story[MOST_RANKS + 1];
    int from[4] = { 0 }, wrong = 0, n, bad;
    struct crowd crowd;

    release_ranks(&crowd, ranks, kernels);
    n = read_stories(&crowd, story);
    bad = wait_for_ranks(&crowd, n < 0);
    if (n != ranks || bad) {
        printf("%d of %d ranks told of their products, %d failed\n", n < 0 ? 0 : n, ranks, bad);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 4; k++)
            from[k] += story[i].from[k];
        wrong += story[i].wrong;
    }
    print_spread("context", story, n, offsetof(struct story, context));
    print_spread("first product", story, n, offsetof(struct story, first));
    print_spread("all products", story, n, offsetof(struct story, all));
    print_spread("CPU of a rank", story, n, offsetof(struct story, cpu));
    printf("%d compiled, %d from disk, %d wrong\n", from[0], from[1], wrong);
    return wrong != 0;
}

/* ---- killed ---------------------------------------------------------------------------------- */

static int is_damaged(void *user, const limber_cache_entry *e)
{
    *(int *)user += !e->good;
    return 0;
}

/* Returns whether nothing in the cache is damaged and each of its kernels can be used or compiled
 * again.  Empties the cache. */
static int is_cache_usable(int kernels)
{
    struct story s = { 0 };
    int damaged = 0, wrong = 0;
    limber_context *ctx;

    if (limber_create(&ctx, NULL) != LIMBER_STATUS_OK ||
        limber_cache_each(ctx, LIMBER_CACHE_VERIFY, is_damaged, &damaged) != LIMBER_STATUS_OK)
        die(limber_error_text());
    for (int i = 0; i < kernels; i++)
        wrong += multiply(ctx, i, s.from);
    if (limber_cache_clear(ctx, LIMBER_CACHE_CLEAR_ALL, NULL) != LIMBER_STATUS_OK)
        die(limber_error_text());
    limber_destroy(ctx);
    if (damaged || wrong)
        printf("%d entries are damaged, %d products wrong\n", damaged, wrong);
    return !damaged && !wrong;
}

/* For this many seconds, starts ranks and kills some at random moments.  Returns 1 if one of the
 * others does not end well, if the cache is no longer usable, or if no rank was killed. */
static int kill_some(double seconds)
{
    enum { RANKS = 4, KERNELS = 2 };
    struct story story[MOST_RANKS + 1];
    double end = now() + seconds, usual = 0;
    int rounds = 0, killed = 0, told = 0;
    unsigned seed = (unsigned)getpid();

    printf("seed %u\n", seed);
    srand(seed);
    for (; now() < end; rounds++) {
        int victims = 1 + rand() % (RANKS - 1), n, bad;
        double wait = usual * (rand() / (RAND_MAX + 1.0)), start = now();
        struct crowd crowd;

        /* no rank is killed in the first round, which measures how long a round takes */
        victims = usual > 0 ? victims : 0;
        release_ranks(&crowd, RANKS, KERNELS);
        nanosleep(&(struct timespec){ (time_t)wait, (long)(1e9 * (wait - floor(wait))) }, NULL);
        for (int i = 0; i < victims; i++)
            kill(crowd.pid[i], SIGKILL);
        n = read_stories(&crowd, story);
        bad = wait_for_ranks(&crowd, n < 0);
        if (n < RANKS - victims || bad) {
            printf("round %d, killed after %.1f ms: ", rounds, 1e3 * wait);
            printf(n < 0 ? "the others wait for ever\n" : "%d of %d others told, %d failed\n", n,
                   RANKS - victims, bad);
            return 1;
        }
        usual = usual > 0 ? usual : now() - start;
        told += n;
        killed += RANKS - n;
        if (!is_cache_usable(KERNELS))
            return 1;
    }
    printf("%d rounds, %d killed at work, %d others ended well\n", rounds, killed, told);
    return killed == 0;
}

/* Reads a number from a range; ends the program if it is none. */
static int parse_number(const char *s, int least, int most)
{
    char *rest;
    long v = strtol(s, &rest, 10);

    if (*rest || v < least || v > most) {
        fprintf(stderr, "storm: \"%s\" is no number from %d to %d\n", s, least, most);
        exit(2);
    }
    return (int)v;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "rank") == 0)
        return run_rank(parse_number(argv[2], 0, MOST_KERNELS), argc > 3 ? atof(argv[3]) : now(),
                        argc > 3);
    if (argc == 4 && strcmp(argv[1], "run") == 0)
        return run_ranks(parse_number(argv[2], 1, MOST_RANKS),
                         parse_number(argv[3], 1, MOST_KERNELS));
    if (argc == 3 && strcmp(argv[1], "check") == 0 &&
        is_cache_usable(parse_number(argv[2], 1, MOST_KERNELS)))
        return puts("sound") < 0;
    if (argc == 3 && strcmp(argv[1], "kill") == 0)
        return kill_some(parse_number(argv[2], 1, 3600));
    fprintf(stderr, "usage: storm run RANKS KERNELS | storm kill SECONDS | storm check KERNELS | "
                    "storm rank KERNELS\n");
    return 2;
}
