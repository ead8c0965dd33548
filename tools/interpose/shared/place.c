/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the file for a process's report.  Several processes of a program may have the same
 * LIMBER_REPORT, and none may overwrite another's report. */
#define _GNU_SOURCE     /* getline under any standard */
#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The process that loaded this library; its forked children are not the first. */
static pid_t first_process;
static bool beside_parent; /* the parent process reports to the same file name */
static double started; /* seconds of CLOCK_REALTIME when the process started */
static atomic_int looked; /* the process that has checked whether the name is free */
static bool beside_other; /* another process's report has the name */
static char rank[64]; /* MPI rank, or "" */

/* Saves the MPI rank when the process starts: later, between MPI_Init and MPI_Finalize, a program
 * that was started without mpirun has the variable, too. */
static void note_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                         "SLURM_PROCID" };

    for (size_t i = 0; i < sizeof names / sizeof *names && !*rank; i++)
        if (limber_variable_value(names[i]))
            snprintf(rank, sizeof rank, "%s", limber_variable_value(names[i]));
}

const char *interpose_rank(void)
{
    return *rank ? rank : NULL;
}

void interpose_host(char *name, size_t size)
{
    if (gethostname(name, size) != 0)
        *name = 0;
    name[size - 1] = 0;
}

bool interpose_is_blas(const char *path)
{
    static const char *const words[] = { "blas", "blis", "mkl_", "atlas", "armpl", "lapack" };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return !strstr(name, interpose_name);
    return false;
}

/* True if is_wanted holds for a record of the file; the character `end` ends a record. */
static bool has_record(const char *file, int end,
                       bool (*is_wanted)(const char *text, const void *user), const void *user)
{
    FILE *f = fopen(file, "re");
    char *text = NULL;
    size_t room = 0;
    bool found = false;

    while (f && !found && getdelim(&text, &room, end, f) >= 0) {
        text[strcspn(text, "\n")] = 0;
        found = is_wanted(text, user);
    }
    free(text);
    if (f)
        fclose(f);
    return found;
}

static bool is_equal(const char *text, const void *other)
{
    return strcmp(text, other) == 0;
}

static bool contains(const char *text, const void *part)
{
    return strstr(text, part);
}

static bool names_blas(const char *text, const void *unused)
{
    (void)unused;
    return interpose_is_blas(text);
}

/* Returns whether another process's environment has this process's value of a variable, if there is
 * one. */
static bool has_same_variable(const char *environment, const char *name)
{
    const char *value = limber_variable_value(name);
    char line[4096];

    snprintf(line, sizeof line, "%s=%s", name, value ? value : "");
    return !value || has_record(environment, '\0', is_equal, line);
}

/* True if a process was started with the same LIMBER_REPORT and LIMBER_CONFIG as this one. */
static bool has_same_report(long process)
{
    char environment[64];

    snprintf(environment, sizeof environment, "/proc/%ld/environ", process);
    return has_same_variable(environment, "LIMBER_REPORT") &&
           has_same_variable(environment, "LIMBER_CONFIG");
}

/* True if the parent process reports to the same file.  Only a parent that has loaded this library
 * and a BLAS counts: a shell that starts a program makes no calls, and leaves the name to the
 * program. */
static bool parent_reports(void)
{
    char maps[64];

    snprintf(maps, sizeof maps, "/proc/%ld/maps", (long)getppid());
    return has_same_report(getppid()) && has_record(maps, '\n', contains, interpose_name) &&
           has_record(maps, '\n', names_blas, NULL);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads a process's parent, and its start in clock ticks since boot, from /proc.  Returns false if
 * there is no such process. */
static bool read_stat(long process, long *parent, unsigned long long *start)
{
    char path[64], text[1024];
    const char *behind_name;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    f = fopen(path, "re");
    n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    behind_name = strrchr(text, ')');
    return behind_name &&
           sscanf(
               behind_name + 1,
               " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               parent, start) == 2;
}

/* Identifies the run by its oldest ancestor with the same settings. */
void interpose_run(char *text, size_t size)
{
    unsigned long long start = 0;
    long process = getpid(), parent;

    while (read_stat(process, &parent, &start) && parent > 0 && has_same_report(parent))
        process = parent;
    snprintf(text, size, "%ld.%llu", process, start);
}

/* What a report says of the process that wrote it. */
struct writer {
    long process;
    char run[64], host[256];
    /* true: it had intercepted calls */
    bool called;
    double written;
};

static void read_text(const char *report, const char *name, char *to, size_t size)
{
    const char *at = strstr(report, name);
    size_t n = at ? strcspn(at += strlen(name), "\"") : 0;

    snprintf(to, size, "%.*s", (int)n, at ? at : "");
}

/* Reads from a report which process of which run wrote it, and when.  Returns false if the file is
 * no report. */
static bool read_writer(const char *path, struct writer *w)
{
    FILE *f = fopen(path, "re");
    char text[4096];
    const char *process;
    struct stat s;
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    bool there = f && fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode);

    if (f)
        fclose(f);
    text[n] = '\0';
    process = strstr(text, "\"pid\": ");
    if (!there || !process)
        return false;
    w->process = atol(process + 7);
    w->called = !strstr(text, "\"loaded\": [");
    w->written = (double)s.st_mtim.tv_sec + 1e-9 * (double)s.st_mtim.tv_nsec;
    read_text(text, "\"run\": \"", w->run, sizeof w->run);
    read_text(text, "\"host\": \"", w->host, sizeof w->host);
    return true;
}

/* True if the process that wrote the report is alive.  A process of the same number that started
 * after the report was written is another one. */
static bool is_alive(const struct writer *w)
{
    const double ticks = (double)sysconf(_SC_CLK_TCK),
                 machine = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME);
    unsigned long long start;
    char host[256];
    long parent;

    interpose_host(host, sizeof host);
    return strcmp(w->host, host) == 0 && read_stat(w->process, &parent, &start) &&
           machine + (double)start / ticks <= w->written;
}

/* True if the report at `path` must be kept: it has calls, and its process belongs to this run, is
 * alive, or wrote it after this process started.  *by: number of that process. */
static bool is_taken(const char *path, long *by)
{
    struct writer w;
    char run[64];

    if (!read_writer(path, &w) || !w.called)
        return false;
    interpose_run(run, sizeof run);
    *by = w.process;
    return w.written >= started || strcmp(w.run, run) == 0 ||
           (w.process != getpid() && is_alive(&w));
}

/* Opens and locks the folder of a file, so that only one process at a time claims the name.
 * Returns the descriptor, or -1 on failure.  Goes on without the lock after one second. */
static int lock_folder(const char *path)
{
    char folder[4096];
    char *slash;
    int fd;

    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < 100 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return fd;
}

/* Locks the folder of the report, and finds out whether another process has claimed its name.
 * Returns the lock's descriptor; -1 if there is no need for a claim or the lock fails. */
int interpose_claim(const char *pattern)
{
    char path[4096];
    long by = 0;
    int fd;

    if (strstr(pattern, "%p") || !interpose_is_first() || atomic_load(&looked) == getpid())
        return -1;
    interpose_expand_name(pattern, path, sizeof path);
    fd = lock_folder(path);
    beside_other = is_taken(path, &by);
    atomic_store(&looked, getpid());
    if (beside_other)
        interpose_message("%.1000s has the report of process %ld; this one's has .%ld behind it",
                          path, by, (long)getpid());
    return fd;
}

/* ---- names ----------------------------------------------------------------------------------- */

__attribute__((constructor)) static void note_process(void)
{
    const bool may =
        limber_variable_value("LIMBER_REPORT") || limber_variable_value("LIMBER_CONFIG");
    const int before = errno;

    first_process = getpid();
    note_rank();
    started = seconds_of(CLOCK_REALTIME);
    beside_parent = may && parent_reports();
    errno = before;
}

bool interpose_is_first(void)
{
    return getpid() == first_process && !beside_parent && !beside_other;
}

/* Expands %p, %h and %r in a report's name, and appends the MPI rank and the process number where
 * reports would else have one name. */
void interpose_expand_name(const char *pattern, char *path, size_t size)
{
    const char *number = interpose_rank();
    char name[256] = "";
    size_t n = 0;

    interpose_host(name, sizeof name);
    for (const char *s = pattern; *s && n + 1 < size; s++) {
        if (*s != '%' || !s[1]) {
            path[n++] = *s;
            continue;
        }
        s++;
        n += (size_t)(*s == 'p' ? snprintf(path + n, size - n, "%ld", (long)getpid()) :
                      *s == 'h' ? snprintf(path + n, size - n, "%s", name) :
                      *s == 'r' ? snprintf(path + n, size - n, "%s", number ? number : "0") :
                                  snprintf(path + n, size - n, "%c", *s));
    }
    n = n < size ? n : size - 1;
    path[n] = 0;
    if (strstr(pattern, "%p"))
        return;
    if (number && !strstr(pattern, "%r") && n < size)
        n += (size_t)snprintf(path + n, size - n, ".%s", number);
    if (!interpose_is_first() && n < size)
        snprintf(path + n, size - n, ".%ld", (long)getpid());
}

bool interpose_can_rewrite(const char *pattern)
{
    char path[4096];
    struct stat s;

    interpose_expand_name(pattern, path, sizeof path);
    return lstat(path, &s) ? errno == ENOENT : S_ISREG(s.st_mode);
}
