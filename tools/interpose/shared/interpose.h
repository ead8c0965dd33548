/* SPDX-License-Identifier: BSD-3-Clause
 * What the libraries before BLAS and cuBLAS share: the user's settings, from the environment and a
 * file; the rules; the report. */
#ifndef LIMBER_INTERPOSE_SHARED_H
#define LIMBER_INTERPOSE_SHARED_H

#include <limber/interpose.h>
#include <limber/limber.h>

#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* For messages: the name of this library, and of the library whose calls it takes over. */
extern const char interpose_name[], interpose_original[];

/* Makes this thread print numbers with a point, whatever the program's locale.  End it with
 * uselocale(result). */
locale_t interpose_plain_numbers(void);
/* As much of the text as fits, without snprintf's hundreds of instructions. */
static inline void interpose_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);

    memcpy(to, from, n);
    to[n] = '\0';
}
/* "NAME: ..." on stderr, one line. */
void interpose_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- isolate.c ------------------------------------------------------------------------------- */

/* The first line of a public function: until it returns, the thread cannot be cancelled. */
#define INTERPOSE_UNCANCELLED \
    int cancelled __attribute__((cleanup(interpose_stay_no_more), unused)) = interpose_stay()
int interpose_stay(void);
void interpose_stay_no_more(const int *before);
/* Between enter and leave, a file that grows too large is an error, not a signal. */
struct interpose_limits {
    sigset_t before;
    bool pending;
};
void interpose_limits_enter(struct interpose_limits *l);
void interpose_limits_leave(const struct interpose_limits *l);

/* A lock that is free in the child of a fork, though a thread of the parent held it. */
#define INTERPOSE_LOCK(name) \
    static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER; \
    static void free_##name(void) \
    { \
        pthread_mutex_init(&name, NULL); \
    } \
    __attribute__((constructor)) static void watch_##name(void) \
    { \
        pthread_atfork(NULL, NULL, free_##name); \
    }

/* ---- options.c ------------------------------------------------------------------------------- */

struct interpose_setting {
    bool on; /* false: the other library's */
    limber_contract contract;
    char words[320], scheme[64]; /* of the contract; a unit has the most */
    limber_unit unit; /* of simulate=UNIT */
};

struct interpose_options {
    bool on; /* Some setting is on.  After a value that is not understood everything is zero, a
                message is printed once, and every call goes to the other library. */
    struct interpose_setting setting; /* of calls that no rule matches */
    int verbose, quiet;
    const char *report; /* the file's name, or NULL */
    const char *capture; /* the folder for operands, or NULL; and the most bytes of a process */
    int64_t capture_bytes;
    int rows; /* the most that it lists one by one; 0: all */
    int check; /* elements to compare in a call that is checked; 0: none */
    bool refused; /* something was not understood */
    bool background; /* kernels are made while calls go on */
    const char *backend, *cache_dir; /* from the file; NULL: the library reads the environment */
    int threads; /* 0: as above */
    int trust; /* 1: bits=N is left to a BLAS whose standard bound keeps it */
};
const struct interpose_options *interpose_options(void);

/* The configuration of contexts: what the file sets and the environment does not. */
limber_config interpose_config(void);

/* A call, as rules see it. */
struct interpose_call {
    const char *routine; /* the function's name */
    int64_t m, n, k;
    const void *site; /* an address in the caller, or NULL */
};
const struct interpose_setting *interpose_choose(const struct interpose_call *call);

/* ---- settings.c ------------------------------------------------------------------------------ */

/* Why the libLLVM that LIMBER_LLVM names cannot be there, as far as its name tells; or "". */
const char *interpose_lacks_llvm(void);
/* This process asked about settings to start another program: it leaves no word that it made no
 * call. */
bool interpose_only_checks(void);
/* Each library has its own: false with a message where a variable that only it reads is wrong. */
bool interpose_check_own(void);

/* ---- rules.c --------------------------------------------------------------------------------- */

struct rules;
/* Adds the rule that the words after "rule" are; false with a reason. */
bool interpose_rules_add(struct rules **rules, char *words, char *why, size_t size);
/* The setting of the first rule that fits; NULL: none does. */
const struct interpose_setting *interpose_rules_find(struct rules *rules,
                                                     const struct interpose_call *call);
void interpose_rules_each(struct rules *rules, void (*fn)(struct interpose_setting *));
/* Whether any of them is on. */
bool interpose_rules_serve(const struct rules *rules);
/* Read a contract in words ("bits=40"), or one or two schemes ("fp32-f+native"), into the setting.
 * False: the text is neither. */
bool interpose_read_contract(const char *s, struct interpose_setting *to);
bool interpose_read_scheme(const char *s, struct interpose_setting *to);
/* "simulate=UNIT", whose unit may have several words. */
bool interpose_is_unit(const char *s);
/* What is wrong with a text that is no contract: of a unit the parser's words, else `wanted`. */
const char *interpose_no_contract(const char *s, const char *wanted);
/* s without blanks at its ends; what is cut off behind is zero. */
char *interpose_trim(char *s);
/* All of s, a whole number in [least, most]. */
bool interpose_read_number(const char *s, int least, int most, int *out);
/* What is missing in the contract, or NULL. */
const char *interpose_lacks(const limber_contract *k);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Elements compared with exact dot products. */
struct interpose_check {
    int elements;
    double error; /* the largest |error| / (|A||B|) */
    double ulps; /* the largest |error| in ulps of the exact value */
    int broken; /* elements that do not keep the contract */
};

/* What simulated units count: products with both factors nonzero and finite, those that became 0 or
 * too large, additions that changed nothing or lost bits, and sums that became too large. */
struct interpose_counts {
    double products, underflow, overflow, swamped, partly_swamped, sum_overflow;
};

/* What became of one call. */
struct interpose_result {
    const char *routine;
    int64_t m, n, k;
    const limber_report *report; /* NULL: it was not served */
    const char *why_not; /* the reason then */
    const char *contract; /* in words; "": none is stated */
    char ops[4]; /* "NT" */
    const void *site; /* an address in the caller, or NULL */
    limber_context *ctx; /* has the kernels, where the call was served */
    double count; /* products, of a batch */
    double seconds; /* 0: not known */
    double original; /* estimated seconds of the other library; 0: not known */
    struct interpose_check check;
    struct interpose_counts counts;
};

/* The file and the symbol of an address in a caller; "" where they are not known. */
void interpose_name_caller(const void *site, char *to, size_t size);
/* A string of JSON. */
void interpose_put_text(FILE *f, const char *s);
/* Counts the kernels of a product that is only a part of a call. */
void interpose_kernels(limber_context *ctx, const limber_report *report);
/* Counts seconds that opened the Limber library: they are no call's. */
void interpose_opened(double seconds);
/* Keeps the call as this thread's last and, where a report is asked for, counts it. */
void interpose_count(const struct interpose_result *t);

/* Writes what is due and no file has, and the report of a process that ends. */
void interpose_write_rest(void);
void interpose_write_last(bool complete);

/* ---- place.c --------------------------------------------------------------------------------- */

/* The report's name: %p is the process, %h the host, %r the rank.  Ranks add theirs to a name
 * without %p and %r.  To one without %p these add their number: processes that a fork made, those
 * whose parent reports there, and those that found the name taken. */
void interpose_place(const char *pattern, char *path, size_t size);
/* Whether this process has the name without a number of the process. */
bool interpose_is_first(void);
/* Before the first writing: finds whether another process's report has the name, and says so on
 * stderr.  Close what it returns, where it is not -1, after writing. */
int interpose_claim(const char *pattern);
/* The run that this process belongs to: the first process that was started with the same
 * LIMBER_REPORT, of which all others descend, and its start. */
void interpose_run(char *text, size_t size);
/* Whether a report can be written there more than once. */
bool interpose_can_rewrite(const char *pattern);
const char *interpose_rank(void); /* of MPI, as the process was started; NULL: none */
void interpose_host(char *name, size_t size);
/* Whether the file's name says that it is a BLAS, and it is not this library. */
bool interpose_is_blas(const char *path);

/* ---- ending.c -------------------------------------------------------------------------------- */

/* At a process's first call that is counted. */
void interpose_watch_end(void);
/* Has the report written, where a call was counted; what comes before _exit. */
void interpose_leave(void);

#endif
