/* SPDX-License-Identifier: BSD-3-Clause
 * Calls dgemm_ and ends in the way that the first argument names, with status 7.  `slow` waits for
 * its report between two calls, then ends.  Two further arguments name pipes: the program writes to
 * the first after its first call, and continues after a read from the second. */
#define _GNU_SOURCE     /* for RTLD_DEFAULT, and for vfork under any C standard */
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 40, STATUS = 7, CHILDREN = 30 };

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc);

static double a[N * N], b[N * N];

static void call(void)
{
    const double one = 1, zero = 0;
    const int n = N;
    double c[N * N];

    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
}

static int status_of(pid_t child)
{
    int status;

    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ?
               WEXITSTATUS(status) :
               -1;
}

/* Forks a child that computes and ends by _exit, without exit functions.  Returns the child's
 * status. */
static int fork_once(void)
{
    pid_t child = fork();

    if (child == 0) {
        alarm(60); /* ends the child if it hangs */
        call();
        _exit(STATUS);
    }
    return status_of(child);
}

/* Forks a child that computes nothing, and returns its status.  The child must write no report:
 * neither of calls that the parent made nor of its own. */
static int fork_idle(void)
{
    pid_t child = fork();

    if (child == 0)
        _exit(STATUS);
    return status_of(child);
}

/* Calls vfork, whose child shares the parent's memory and fails to start a program.  Returns the
 * child's status. */
static int vfork_in_vain(void)
{
    pid_t child = vfork();

    if (child == 0) {
        execl("/nonexistent/program", "program", (char *)NULL);
        _exit(STATUS);
    }
    return status_of(child);
}

/* Thread: calls dgemm for ever. */
static void *call_on(void *arg)
{
    (void)arg;
    for (;;)
        call();
    return NULL;
}

/* Thread: writes reports all the time, so that the lock of the counters is held most of the
 * time. */
static void *report_on(void *arg)
{
    int (*report)(const char *) =
        (int (*)(const char *))dlsym(RTLD_DEFAULT, "limber_blas_write_report");

    (void)arg;
    while (report && report("/dev/null") == 0)
        ;
    return NULL;
}

/* Forks several times while other threads are at arbitrary points of calls.  Returns STATUS if all
 * children ended with that status, else -1. */
static int fork_among_threads(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, call_on, NULL) ||
        pthread_create(&thread, NULL, report_on, NULL))
        return -1;
    for (int i = 0; i < CHILDREN; i++)
        if (fork_once() != STATUS)
            return -1;
    return STATUS;
}

/* Plays a single MPI process whose MPI library sets the variable of the rank for some time only. */
static void be_ranked(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                         "SLURM_PROCID" };
    int (*report)(const char *) =
        (int (*)(const char *))dlsym(RTLD_DEFAULT, "limber_blas_write_report");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        report(NULL);
        setenv(names[i], "0", 1);
        call();
        report(NULL);
        unsetenv(names[i]);
    }
    exit(STATUS);
}

static void leave(int signal)
{
    (void)signal;
    _exit(STATUS);
}

/* Ends the process in a signal handler, at any point of a call, where locks may be held. */
static void leave_by_alarm(void)
{
    signal(SIGALRM, leave);
    setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { .tv_usec = 50000 } }, NULL);
    for (;;)
        call();
}

/* Returns whether a report is this process's. */
static int holds_my_pid(const char *path)
{
    char text[4096], mine[64];
    FILE *f = fopen(path, "r");
    size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f)
        fclose(f);
    text[size] = 0;
    snprintf(mine, sizeof mine, "\"pid\": %ld,", (long)getpid());
    return strstr(text, mine) != NULL;
}

/* Returns whether a thread of the library has written this process's report, to the file that
 * the user named or to that name with a suffix. */
static int has_report(void)
{
    char pattern[4096];
    glob_t found;
    int yes = 0;

    snprintf(pattern, sizeof pattern, "%s*", getenv("LIMBER_REPORT"));
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && !yes; i++)
            yes = !strstr(found.gl_pathv[i], ".tmp") && holds_my_pid(found.gl_pathv[i]);
        globfree(&found);
    }
    return yes;
}

/* Writes a line to a named pipe (mode "w"), or reads one ("r"), to keep in step with the test. */
static void pass_pipe(const char *name, const char *mode)
{
    FILE *f = fopen(name, mode); /* waits until the other end is opened */

    if (!f || (*mode == 'w' ? fputc('\n', f) : fgetc(f)) != '\n' || fclose(f))
        _exit(3);
}

/* Waits until the report exists.  With pipes, lets the test act first. */
static void wait_for_report(char **pipes)
{
    if (pipes[0] && pipes[1]) {
        pass_pipe(pipes[0], "w");
        pass_pipe(pipes[1], "r");
    }
    while (!has_report())
        usleep(1000);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";

    for (int i = 0; i < N * N; i++)
        a[i] = i % 7, b[i] = i % 5;
    call();
    if (!strcmp(how, "slow"))
        wait_for_report(argv + 2);
    call();
    if (!strcmp(how, "slow"))
        exit(STATUS);
    if (!strcmp(how, "_exit"))
        _exit(STATUS);
    if (!strcmp(how, "_Exit"))
        _Exit(STATUS);
    if (!strcmp(how, "quick_exit"))
        quick_exit(STATUS);
    if (!strcmp(how, "exit"))
        exit(STATUS);
    if (!strcmp(how, "ranked"))
        be_ranked();
    if (!strcmp(how, "alarm"))
        leave_by_alarm();
    if (!strcmp(how, "fork"))
        _exit(fork_once());
    if (!strcmp(how, "idle"))
        _exit(fork_idle());
    if (!strcmp(how, "vfork"))
        _exit(vfork_in_vain());
    if (!strcmp(how, "threads"))
        _exit(fork_among_threads());
    return 2;
}
