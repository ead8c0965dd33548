/* SPDX-License-Identifier: BSD-3-Clause
 * Counts calls when they return, and writes the report when the process ends.  JSON is written
 * without a library, since a library that any program may load should not load others. */
#define _GNU_SOURCE     /* dladdr, program_invocation_name */
#include "tools/output.h"
#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static _Thread_local limber_blas_call last;
static _Thread_local limber_report last_report;
static _Thread_local limber_part last_part[LIMBER_PARTS];
static _Thread_local bool called;

/* Copies all fields except the size to a structure of the caller, which may be of an older version
 * with fewer fields. */
static void copy_sized(void *to, const void *from, size_t full)
{
    size_t size;

    memcpy(&size, to, sizeof size);
    if (size > sizeof size)
        memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
               (size < full ? size : full) - sizeof size);
}

/* Copies the last call's report, and as many parts as fit, to the caller's structure. */
static void copy_report(limber_report *to)
{
    limber_report r = last_report;
    int parts = r.parts < to->part_room ? r.parts : to->part_room;

    for (int i = 0; i < parts && i < LIMBER_PARTS; i++)
        memcpy((char *)to->part + (size_t)i * to->part_size, &last_part[i],
               to->part_size < sizeof *last_part ? to->part_size : sizeof *last_part);
    r.part_room = to->part_room;
    r.part_size = to->part_size;
    r.part = to->part;
    copy_sized(to, &r, sizeof r);
}

PUBLIC int limber_blas_last_call(limber_blas_call *call)
{
    limber_blas_call now = { 0 };

    if (called)
        now = last;
    now.report = call->report;
    copy_sized(call, &now, sizeof now);
    if (now.report && now.served)
        copy_report(now.report);
    return called;
}

/* ---- statistics ------------------------------------------------------------------------------ */

enum { BUCKETS = 1024, MOST_ROWS = 8192 };

/* Smallest number of seconds between two writes.  Writing also takes at most about a hundredth of
 * the time. */
static const double soonest = 1;

/* Sums over calls of the same routine, shape, outcome and caller. */
struct row {
    struct row *next; /* next row in the same hash bucket */
    /* next row in the order of first calls */
    struct row *later;
    char routine[40], ops[4], why_not[160], scheme[32], backend[16], caller[96], contract[64];
    int64_t m, n, k;
    int served; /* 1 if Limber computed the calls, 0 if the other library did */
    /* 0, or, for a row that sums several shapes, their number; m, n and k are then the largest */
    double shapes;
    /* original: estimated seconds of the other library; bound: the largest error bound */
    double calls, products, seconds, compiling, original, bound;
    struct interpose_check check;
    struct interpose_counts counts;
};

/* A kernel that computed calls, and its plan. */
struct kernel {
    struct kernel *next;
    char key[33];
    char *plan;
};

INTERPOSE_LOCK(lock)
/* Held while the report is written, and locked before `lock`.  When the process ends, another
 * thread may still be writing an earlier report. */
INTERPOSE_LOCK(file_lock)

/* The state of the report. */
static struct {
    struct row *bucket[BUCKETS];
    struct row *first, **end;
    size_t rows;
    double unlisted; /* number of calls without a row, since the table is full */
    struct kernel *kernels;
    double began, due; /* when counting began; when the next write is due; seconds since 1970 */
    double opening; /* seconds that opening the Limber library took */
    /* a thread is writing the report; some calls are not in the file yet */
    bool writing, unwritten;
    pid_t pid;
    char interpreted[256]; /* why the interpreter computed a call; set once that was printed */
} all;

/* ---- rows ------------------------------------------------------------------------------------ */

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Starts counting in this process; the caller holds the lock.  A fork's child drops the calls of
 * its parent, which reports them. */
static void begin_process(void)
{
    if (all.pid == getpid())
        return;
    memset(all.bucket, 0, sizeof all.bucket);
    all.first = NULL;
    all.end = &all.first;
    all.rows = 0;
    all.unlisted = 0;
    all.kernels = NULL;
    all.opening = 0;
    all.began = seconds_now();
    all.due = all.began + soonest / 10;
    all.writing = false;
    all.pid = getpid();
    interpose_watch_end();
}

/* Writes "file:function" of a call site to `to`; an empty string if it is unknown. */
void interpose_name_caller(const void *site, char *to, size_t size)
{
    const char *file;
    Dl_info info;

    *to = 0;
    if (!site || !dladdr(site, &info))
        return;
    file = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    snprintf(to, size, "%s:%s",
             file           ? file + 1 :
             info.dli_fname ? info.dli_fname :
                              "",
             info.dli_sname ? info.dli_sname : "");
}

static bool has_same_key(const struct row *a, const struct row *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->served == b->served &&
           !strcmp(a->routine, b->routine) && !strcmp(a->ops, b->ops) &&
           !strcmp(a->why_not, b->why_not) && !strcmp(a->scheme, b->scheme) &&
           !strcmp(a->backend, b->backend) && !strcmp(a->caller, b->caller) &&
           !strcmp(a->contract, b->contract);
}

/* Returns the row of the report with the same key as `like`, and adds a copy of `like` if there
 * is none.  NULL if the table is full or memory is short. */
static struct row *find_row(const struct row *like)
{
    size_t at = (size_t)(like->m * 31 + like->n * 37 + like->k * 41) * 2654435761u % BUCKETS;
    struct row *r = all.bucket[at];

    while (r && !has_same_key(r, like))
        r = r->next;
    if (r || all.rows == MOST_ROWS || !(r = malloc(sizeof *r)))
        return r;
    *r = *like;
    r->next = all.bucket[at];
    all.bucket[at] = r;
    *all.end = r;
    all.end = &r->later;
    all.rows++;
    return r;
}

static void add_check(struct interpose_check *sum, const struct interpose_check *c)
{
    sum->elements += c->elements;
    sum->broken += c->broken;
    sum->error = fmax(sum->error, c->error);
    sum->ulps = fmax(sum->ulps, c->ulps);
}

/* Adds the counts of simulated units' events to *sum. */
static void add_counts(struct interpose_counts *sum, const struct interpose_counts *c)
{
    sum->products += c->products;
    sum->underflow += c->underflow;
    sum->overflow += c->overflow;
    sum->swamped += c->swamped;
    sum->partly_swamped += c->partly_swamped;
    sum->sum_overflow += c->sum_overflow;
}

/* Adds a call's counts, times and checks to its row. */
static void add_result(struct row *r, const struct interpose_result *t)
{
    r->calls++;
    all.unwritten = true;
    r->products += t->count;
    r->seconds += t->seconds;
    r->original += t->original;
    add_check(&r->check, &t->check);
    add_counts(&r->counts, &t->counts);
    if (!t->report)
        return;
    r->compiling += t->report->seconds_compile;
    r->bound = fmax(r->bound, t->report->bound);
}

/* Records a kernel and its plan, unless that was done before; the caller holds the lock. */
static void add_kernel(limber_context *ctx, const char *key)
{
    struct kernel *k = all.kernels;

    while (k && strcmp(k->key, key) != 0)
        k = k->next;
    if (k || !*key || !(k = calloc(1, sizeof *k)))
        return;
    snprintf(k->key, sizeof k->key, "%s", key);
    if (limber_kernel_plan(ctx, key, &k->plan) != LIMBER_STATUS_OK) {
        free(k);
        return;
    }
    k->next = all.kernels;
    all.kernels = k;
}

static bool write_own_report(bool complete);

/* ---- periodic writes ------------------------------------------------------------------------- */

/* True if the report should be rewritten now; the caller holds the lock.  A process that ends by
 * SIGKILL loses calls that are not written, so the report is rewritten periodically. */
static bool is_due(void)
{
    double now = seconds_now();

    if (now < all.due || all.writing)
        return false;
    all.writing = true;
    return true;
}

/* Writes the report, and sets when the next write is due. */
static void write_now(void)
{
    double began = seconds_now(), took;

    if (interpose_can_rewrite(interpose_options()->report))
        write_own_report(false);
    took = seconds_now() - began;
    pthread_mutex_lock(&lock);
    all.due = began + took + fmax(soonest, 100 * took);
    all.writing = false;
    pthread_mutex_unlock(&lock);
}

/* Writes the last calls of a program that has stopped making calls, if the report is due. */
void interpose_write_rest(void)
{
    bool due;

    pthread_mutex_lock(&lock);
    due = all.pid == getpid() && all.unwritten && is_due();
    pthread_mutex_unlock(&lock);
    if (due)
        write_now();
}

/* Records the kernels of a report; the caller holds the lock. */
static void add_kernels(limber_context *ctx, const limber_report *report)
{
    for (int i = 0; i < report->parts; i++)
        add_kernel(ctx, report->part[i].kernel);
    if (report->parts == 0)
        add_kernel(ctx, report->kernel);
}

void interpose_record_kernels(limber_context *ctx, const limber_report *report)
{
    if (!interpose_options()->report)
        return;
    pthread_mutex_lock(&lock);
    begin_process();
    add_kernels(ctx, report);
    pthread_mutex_unlock(&lock);
}

void interpose_opened(double seconds)
{
    if (!interpose_options()->report)
        return;
    pthread_mutex_lock(&lock);
    begin_process();
    all.opening += seconds;
    pthread_mutex_unlock(&lock);
}

/* Adds a call to its row.  Returns true if the report should be rewritten. */
static bool count_call(const struct interpose_result *t)
{
    const limber_report *report = t->report;
    struct row like = { .m = t->m, .n = t->n, .k = t->k, .served = report != NULL };
    struct row *r;
    bool due;

    memcpy(like.routine, last.routine, sizeof like.routine);
    memcpy(like.why_not, last.why_not, sizeof like.why_not);
    memcpy(like.ops, t->ops, sizeof like.ops);
    interpose_copy(like.contract, sizeof like.contract, t->contract);
    if (report) {
        memcpy(like.scheme, report->scheme, sizeof like.scheme);
        memcpy(like.backend, report->backend, sizeof like.backend);
    }
    interpose_name_caller(t->site, like.caller, sizeof like.caller);
    pthread_mutex_lock(&lock);
    begin_process();
    r = find_row(&like);
    if (r)
        add_result(r, t);
    else
        all.unlisted++;
    if (report)
        add_kernels(t->ctx, report);
    due = is_due();
    pthread_mutex_unlock(&lock);
    return due;
}

/* Prints, once, that the interpreter computes.  Its results are right, but may take hours. */
static void print_interpreted(const struct interpose_result *t)
{
    const char *why = t->ctx && t->report && !strcmp(t->report->backend, "interp") ?
                          limber_fallback_reason(t->ctx) :
                          "";
    bool first;

    if (!*why)
        return;
    pthread_mutex_lock(&lock);
    first = !*all.interpreted;
    if (first)
        snprintf(all.interpreted, sizeof all.interpreted, "%s", why);
    pthread_mutex_unlock(&lock);
    if (first)
        interpose_message(
            "the interpreter computes, some hundred times slower than compiled code: %s%s", why,
            strstr(why, "libLLVM") ? " (LIMBER_LLVM=FILE names libLLVM)" : "");
}

/* Stores the outcome of a call as this thread's last one, and adds it to the report. */
void interpose_record_call(const struct interpose_result *t)
{
    INTERPOSE_UNCANCELLED;

    print_interpreted(t);
    interpose_copy(last.routine, sizeof last.routine, t->routine);
    interpose_copy(last.why_not, sizeof last.why_not, t->report ? "" : t->why_not);
    last.m = t->m;
    last.n = t->n;
    last.k = t->k;
    last.served = t->report != NULL;
    if (t->report) { /* forwarded calls leave out this copy of kilobytes */
        last_report = *t->report;
        memcpy(last_part, t->report->part, (size_t)t->report->parts * sizeof *last_part);
    }
    called = true;
    if (interpose_options()->report && count_call(t))
        write_now();
}

/* ---- writing --------------------------------------------------------------------------------- */

void interpose_put_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*s);
        else
            fputc(*s, f);
    fputc('"', f);
}

/* Writes a number, or null for infinities and NaN, which JSON cannot express. */
static void write_number(FILE *f, double x)
{
    if (isfinite(x))
        fprintf(f, "%.6g", x);
    else
        fputs("null", f);
}

static void write_member(FILE *f, const char *name, const char *text)
{
    fprintf(f, ", \"%s\": ", name);
    interpose_put_text(f, text);
}

static void write_number_member(FILE *f, const char *name, double x)
{
    fprintf(f, ", \"%s\": ", name);
    write_number(f, x);
}

/* Writes sums over calls as JSON members. */
static void write_sums(FILE *f, const struct row *r)
{
    fprintf(f, "\"calls\": %.0f", r->calls);
    write_number_member(f, "products", r->products);
    write_number_member(f, "seconds", r->seconds);
    write_number_member(f, "estimated_original_seconds", r->original);
    write_number_member(f, "compile_seconds", r->compiling);
    write_number_member(f, "largest_bound", r->bound);
    write_number_member(f, "checked_elements", r->check.elements);
    write_number_member(f, "worst_error", r->check.error);
    write_number_member(f, "worst_ulps", r->check.ulps);
    write_number_member(f, "broken", r->check.broken);
    if (r->counts.products > 0) {
        fprintf(f, ", \"unit\": { \"products\": %.0f", r->counts.products);
        write_number_member(f, "underflow", r->counts.underflow);
        write_number_member(f, "overflow", r->counts.overflow);
        write_number_member(f, "swamped", r->counts.swamped);
        write_number_member(f, "partly_swamped", r->counts.partly_swamped);
        write_number_member(f, "sum_overflow", r->counts.sum_overflow);
        fprintf(f, " }");
    }
}

/* Writes a row's sums.  Rows of forwarded calls omit fields that would say nothing. */
static void write_row_sums(FILE *f, const struct row *r)
{
    if (r->served) {
        write_sums(f, r);
        return;
    }
    fprintf(f, "\"calls\": %.0f", r->calls);
    if (r->products != r->calls)
        write_number_member(f, "products", r->products);
    write_number_member(f, "seconds", r->seconds);
}

/* Writes a row of the report, about calls of one routine, shape, outcome and caller, as a JSON
 * object. */
static void write_row(FILE *f, const struct row *r)
{
    fprintf(f, "{ \"routine\": ");
    interpose_put_text(f, r->routine);
    write_member(f, "ops", r->ops);
    fprintf(f, ", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"served\": %s", (long long)r->m,
            (long long)r->n, (long long)r->k, r->served ? "true" : "false");
    if (r->served) {
        write_member(f, "scheme", r->scheme);
        write_member(f, "backend", r->backend);
    } else {
        write_member(f, "why_not", r->why_not);
    }
    if (*r->contract)
        write_member(f, "contract", r->contract);
    if (*r->caller)
        write_member(f, "caller", r->caller);
    if (r->shapes > 1)
        write_number_member(f, "shapes", r->shapes);
    fprintf(f, ", ");
    write_row_sums(f, r);
    fprintf(f, " }");
}

/* Returns the sums over all rows of calls that Limber computed (`served` is 1), or over those that
 * were forwarded (0). */
static struct row sum_rows(int served)
{
    struct row sum = { .served = served };

    for (const struct row *r = all.first; r; r = r->later)
        if (r->served == served) {
            sum.calls += r->calls;
            sum.products += r->products;
            sum.seconds += r->seconds;
            sum.original += r->original;
            sum.compiling += r->compiling;
            sum.bound = fmax(sum.bound, r->bound);
            add_check(&sum.check, &r->check);
            add_counts(&sum.counts, &r->counts);
        }
    return sum;
}

/* ---- selecting rows -------------------------------------------------------------------------- */

static int compare_seconds(const void *a, const void *b)
{
    const struct row *const *x = a, *const *y = b;
    double d = (*y)->seconds - (*x)->seconds;

    return d > 0 ? 1 : d < 0 ? -1 : 0;
}

/* Merges a row into that row of the list `rest` which has the same routine, outcome and contract,
 * or adds it to the list. */
static void merge_row(struct row **rest, const struct row *r)
{
    struct row *to = *rest;

    while (to && (strcmp(to->routine, r->routine) != 0 || to->served != r->served ||
                  strcmp(to->why_not, r->why_not) != 0 || strcmp(to->scheme, r->scheme) != 0 ||
                  strcmp(to->backend, r->backend) != 0 || strcmp(to->contract, r->contract) != 0))
        to = to->later;
    if (!to) {
        to = malloc(sizeof *to);
        if (!to)
            return;
        *to = *r;
        to->shapes = 1;
        to->later = *rest;
        *rest = to;
        return;
    }
    to->caller[0] = to->ops[0] = '\0';
    to->m = to->m > r->m ? to->m : r->m;
    to->n = to->n > r->n ? to->n : r->n;
    to->k = to->k > r->k ? to->k : r->k;
    to->shapes++;
    to->calls += r->calls;
    to->products += r->products;
    to->seconds += r->seconds;
    to->compiling += r->compiling;
    to->original += r->original;
    to->bound = fmax(to->bound, r->bound);
    add_check(&to->check, &r->check);
    add_counts(&to->counts, &r->counts);
}

/* Writes the rows with the most seconds, then the sums of all others, in one row for each routine,
 * outcome and contract. */
static void write_rows(FILE *f)
{
    const size_t most = (size_t)interpose_options()->rows;
    const struct row **rows = malloc((all.rows + 1) * sizeof *rows);
    struct row *rest = NULL, *next;
    size_t n = 0, put = 0;

    for (const struct row *r = all.first; r && rows; r = r->later)
        rows[n++] = r;
    if (most && n > most)
        qsort(rows, n, sizeof *rows, compare_seconds);
    for (size_t i = 0; i < n; i++) {
        if (most && i >= most) {
            merge_row(&rest, rows[i]);
            continue;
        }
        fprintf(f, put++ ? ",\n    " : "\n    ");
        write_row(f, rows[i]);
    }
    for (; rest; rest = next) {
        next = rest->later;
        fprintf(f, put++ ? ",\n    " : "\n    ");
        write_row(f, rest);
        free(rest);
    }
    free(rows);
}

/* Writes the report's head: program, host, process, the stated contract, and times. */
static void write_process(FILE *f, bool complete)
{
    const struct interpose_options *o = interpose_options();
    char name[256] = "", run[64];

    interpose_host(name, sizeof name);
    interpose_run(run, sizeof run);
    fprintf(f, "{ \"limber\": ");
    interpose_put_text(f, LIMBER_VERSION);
    write_member(f, "library", interpose_name);
    write_member(f, "program", program_invocation_name);
    write_member(f, "host", name);
    fprintf(f, ", \"pid\": %ld", (long)getpid());
    write_member(f, "run", run);
    if (interpose_rank())
        write_member(f, "rank", interpose_rank());
    if (o->on)
        write_member(f, "contract", o->setting.on ? o->setting.words : "by rules");
    if (*all.interpreted)
        write_member(f, "interpreted", all.interpreted);
    if (*interpose_lacks_llvm())
        write_member(f, "compiler", interpose_lacks_llvm());
    fprintf(f, ", \"began\": %.3f", all.began);
    write_number_member(f, "wall_seconds", seconds_now() - all.began);
    write_number_member(f, "opening_seconds", all.opening);
    fprintf(f, ", \"complete\": %s", complete ? "true" : "false");
}

static const char no_blas[] = "\"loaded\": []";

/* The list of loaded BLAS libraries that is being written. */
struct loaded {
    FILE *f; /* the file; NULL if objects are only counted */
    int count;
};

/* True if the object is this library, which is named libblas.so.3 if it replaces the program's
 * BLAS. */
static bool is_this(const struct dl_phdr_info *info)
{
    Dl_info here;

    return dladdr(no_blas, &here) && (uintptr_t)here.dli_fbase == info->dlpi_addr;
}

/* Callback of dl_iterate_phdr: lists loaded objects whose names are those of a BLAS. */
static int put_blas(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    struct loaded *list = user;

    (void)size;
    if (!interpose_is_blas(info->dlpi_name) || is_this(info))
        return 0;
    if (list->f) {
        fputs(list->count ? ", " : "", list->f);
        interpose_put_text(list->f, slash ? slash + 1 : info->dlpi_name);
    }
    list->count++;
    return 0;
}

/* Lists the loaded libraries that have names of a BLAS. */
static void write_loaded(FILE *f)
{
    struct loaded list = { f, 0 };

    fprintf(f, ",\n  \"loaded\": [");
    dl_iterate_phdr(put_blas, &list);
    fprintf(f, "]");
}

/* Returns whether a BLAS is loaded. */
static bool has_blas(void)
{
    struct loaded list = { NULL, 0 };

    dl_iterate_phdr(put_blas, &list);
    return list.count > 0;
}

/* Writes the whole report: head, sums of calls that Limber computed and of forwarded ones, rows,
 * kernels. */
static void write_json(FILE *f, bool complete)
{
    struct row served = sum_rows(1), left = sum_rows(0);

    write_process(f, complete);
    if (!all.first) /* no call was seen: name the BLAS libraries that are loaded */
        write_loaded(f);
    fprintf(f, ",\n  \"served\": { ");
    write_sums(f, &served);
    fprintf(f, " },\n  \"handed_on\": { ");
    write_sums(f, &left);
    fprintf(f, " },\n  \"unlisted_calls\": %.0f,\n  \"calls\": [", all.unlisted);
    write_rows(f);
    fprintf(f, "\n  ],\n  \"kernels\": [");
    for (const struct kernel *k = all.kernels; k; k = k->next) {
        fprintf(f, k == all.kernels ? "\n    { \"key\": \"%s\"" : ",\n    { \"key\": \"%s\"",
                k->key);
        write_member(f, "plan", k->plan);
        fprintf(f, " }");
    }
    fprintf(f, "\n  ]\n}\n");
}

/* Writes the report to its file by way of a temporary one.  Prints a message and returns false on
 * failure. */
static bool write_report(const char *pattern, bool complete)
{
    struct interpose_limits limits;
    struct output o;
    char path[4096];
    bool ok;
    int claim = -1;

    interpose_limits_enter(&limits);
    if (pattern == interpose_options()->report)
        claim = interpose_claim(pattern);
    interpose_expand_name(pattern, path, sizeof path);
    ok = output_open(&o, path);
    if (ok) {
        locale_t before = interpose_plain_numbers();

        pthread_mutex_lock(&lock);
        begin_process();
        write_json(o.f, complete);
        all.unwritten = false;
        pthread_mutex_unlock(&lock);
        uselocale(before);
        ok = output_close(&o, true);
    }
    if (claim >= 0)
        close(claim);
    if (!ok)
        interpose_message("the report %.200s is not written: %s", path, strerror(errno));
    interpose_limits_leave(&limits);
    return ok;
}

/* Writes the report to the file of LIMBER_REPORT.  A complete report is the process's last one:
 * later incomplete ones are not written. */
static bool write_own_report(bool complete)
{
    static pid_t completed;
    bool ok = true;

    pthread_mutex_lock(&file_lock);
    if (complete || completed != getpid())
        ok = write_report(interpose_options()->report, complete);
    if (complete)
        completed = getpid();
    pthread_mutex_unlock(&file_lock);
    return ok;
}

void interpose_write_last(bool complete)
{
    write_own_report(complete);
}

PUBLIC limber_status limber_blas_write_report(const char *path)
{
    INTERPOSE_UNCANCELLED;
    const char *name = path ? path : interpose_options()->report;

    return !name || !*name           ? LIMBER_STATUS_BAD_ARGUMENT :
           write_report(name, false) ? LIMBER_STATUS_OK :
                                       LIMBER_STATUS_IO;
}

/* True if the file is a report of a process without calls and without a BLAS, such as a helper of
 * the script that started this program. */
static bool is_report_without_blas(const char *path)
{
    FILE *f = fopen(path, "re");
    char text[4096];
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f)
        fclose(f);
    text[n] = 0;
    return strstr(text, no_blas);
}

/* True if a program without intercepted calls should write a report that says so: no report of that
 * name has calls. */
static bool lacks_report(const char *pattern)
{
    char path[4096];
    struct stat s;

    if (!pattern || strstr(pattern, "%p") || !interpose_is_first() || interpose_only_checks())
        return false;
    interpose_expand_name(pattern, path, sizeof path);
    if (lstat(path, &s))
        return errno == ENOENT;
    return S_ISREG(s.st_mode) && is_report_without_blas(path) && has_blas();
}

/* Writes the final report at exit.  A process without calls must not overwrite a report of another:
 * the shell that started a program ends later than it. */
__attribute__((destructor)) static void write_at_end(void)
{
    if (all.pid == getpid() || lacks_report(interpose_options()->report))
        write_own_report(true);
}
