/* SPDX-License-Identifier: BSD-3-Clause
 * Code that the libraries in front of BLAS and cuBLAS share: the user's settings from the
 * environment and a file, the rules, the report. */
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

/* For messages: name of this library, and of the library whose calls it intercepts. */
extern const char interpose_name[], interpose_original[];

/* Makes this thread print numbers with a decimal point in any locale.  Undo with
 * uselocale(result). */
locale_t interpose_plain_numbers(void);
/* Copies a string, truncated to size; snprintf would take hundreds of instructions. */
static inline void interpose_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);

    memcpy(to, from, n);
    to[n] = '\0';
}
/* Prints "NAME: ..." and a newline on stderr. */
void interpose_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- isolate.c ------------------------------------------------------------------------------- */

/* First statement of a public function: disables cancellation of the thread until it returns. */
#define INTERPOSE_UNCANCELLED \
    int cancelled __attribute__((cleanup(interpose_stay_no_more), unused)) = interpose_stay()
int interpose_stay(void);
void interpose_stay_no_more(const int *before);
/* Between enter and leave, exceeding the file size limit is an error instead of a signal. */
struct interpose_limits {
    sigset_t before;
    bool pending;
};
void interpose_limits_enter(struct interpose_limits *l);
void interpose_limits_leave(const struct interpose_limits *l);

/* Defines a mutex that is released in a fork's child, even if another thread held it. */
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
    bool on; /* false: forward to the other library */
    limber_contract contract;
    /* text of the contract, which is longest for a unit; the scheme's name */
    char words[320], scheme[64];
    limber_unit unit; /* unit of simulate=UNIT */
};

struct interpose_options {
    /* Some setting is on.  After an invalid value all fields are zero, a message is printed once,
     * and every call is forwarded. */
    bool on;
    struct interpose_setting setting; /* for calls that no rule matches */
    int verbose, quiet;
    const char *report; /* name of the report's file, or NULL */
    const char *capture; /* capture folder, or NULL; most bytes that a process writes there */
    int64_t capture_bytes;
    int rows; /* most rows that the report lists individually; 0: all */
    int check; /* elements to compare in each checked call; 0: none */
    bool refused; /* a setting was invalid */
    bool background; /* kernels are compiled in the background */
    /* from the file; NULL: the library reads the environment itself */
    const char *backend, *cache_dir;
    int threads; /* 0: like backend */
    int trust; /* 1: bits=N is forwarded to a BLAS whose standard error bound keeps it */
};
const struct interpose_options *interpose_options(void);

/* Configuration of contexts: values of the file that the environment does not override. */
limber_config interpose_config(void);

/* Properties of a call that rules test. */
struct interpose_call {
    const char *routine; /* the function's name */
    int64_t m, n, k;
    const void *site; /* an address in the calling code, or NULL */
};
const struct interpose_setting *interpose_choose(const struct interpose_call *call);

/* ---- settings.c ------------------------------------------------------------------------------ */

/* Why the libLLVM that LIMBER_LLVM names cannot be opened, judging by the file; or "". */
const char *interpose_lacks_llvm(void);
/* Whether this process only checks settings before it executes another program.  It then writes no
 * report about having made no calls. */
bool interpose_only_checks(void);
/* Defined by each library: false with a message if a variable that only it reads is invalid. */
bool interpose_check_own(void);

/* ---- rules.c --------------------------------------------------------------------------------- */

struct rules;
/* Parses the words after "rule" and appends the rule; false with a reason. */
bool interpose_rules_add(struct rules **rules, char *words, char *why, size_t size);
/* The setting of the first matching rule; NULL: none matches. */
const struct interpose_setting *interpose_rules_find(struct rules *rules,
                                                     const struct interpose_call *call);
void interpose_rules_each(struct rules *rules, void (*fn)(struct interpose_setting *));
/* Whether the setting of any rule is on. */
bool interpose_rules_serve(const struct rules *rules);
/* Parse a contract ("bits=40"), or one or two schemes ("fp32-f+native"), into the setting.  False:
 * invalid text. */
bool interpose_read_contract(const char *s, struct interpose_setting *to);
bool interpose_read_scheme(const char *s, struct interpose_setting *to);
/* Whether the text is "simulate=UNIT"; a unit may have several words. */
bool interpose_is_unit(const char *s);
/* Explains an invalid contract: the unit parser's message for a unit, else `wanted`. */
const char *interpose_no_contract(const char *s, const char *wanted);
/* Removes blanks at both ends of s, in place. */
char *interpose_trim(char *s);
/* Parses all of s as an integer in [least, most]. */
bool interpose_read_number(const char *s, int least, int most, int *out);
/* Says why contract and scheme contradict each other, as the end of a message; NULL if they do
 * not. */
const char *interpose_conflict(const limber_contract *k);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Sums of the comparison of elements with exact dot products. */
struct interpose_check {
    int elements;
    double error; /* largest |error| / (|A||B|) */
    double ulps; /* largest |error| in ulps of the exact value */
    int broken; /* number of elements that break the contract */
};

/* Statistics of simulated units: products of nonzero finite factors, those that underflowed or
 * overflowed, additions that were swamped or lost bits, and sums that overflowed. */
struct interpose_counts {
    double products, underflow, overflow, swamped, partly_swamped, sum_overflow;
};

/* Outcome of one call. */
struct interpose_result {
    const char *routine;
    int64_t m, n, k;
    const limber_report *report; /* NULL: it was not served */
    const char *why_not; /* reason for not serving it */
    const char *contract; /* text of the contract; "": none is stated */
    char ops[4]; /* op of each operand, such as "NT" */
    const void *site; /* an address in the calling code, or NULL */
    limber_context *ctx; /* the context that has the kernels, if the call was served */
    double count; /* number of products in a batch */
    double seconds; /* 0: unknown */
    double original; /* estimated seconds of the other library; 0: unknown */
    struct interpose_check check;
    struct interpose_counts counts;
};

/* Formats the file and symbol of an address in a caller as "FILE:SYMBOL"; "" if unknown. */
void interpose_name_caller(const void *site, char *to, size_t size);
/* Writes a string of JSON, with escapes. */
void interpose_put_text(FILE *f, const char *s);
/* Records the kernels of a product that is only a part of a call. */
void interpose_kernels(limber_context *ctx, const limber_report *report);
/* Adds the seconds of opening the Limber library, which belong to no call. */
void interpose_opened(double seconds);
/* Stores the call as this thread's last one, and counts it if a report is asked for. */
void interpose_count(const struct interpose_result *t);

/* write_rest writes calls that are due and in no file yet; write_last writes a process's final
 * report. */
void interpose_write_rest(void);
void interpose_write_last(bool complete);

/* ---- place.c --------------------------------------------------------------------------------- */

/* Expands a report's name: %p is the process, %h the host, %r the MPI rank.  Ranks append theirs to
 * a name without %p and %r.  Some processes append their number to a name without %p: children of a
 * fork, children of a process that reports there, and those that found the name taken. */
void interpose_place(const char *pattern, char *path, size_t size);
/* Whether this process may use the name without its number. */
bool interpose_is_first(void);
/* Called before the first write: checks whether another process's report has the name, with a
 * message on stderr.  Returns a descriptor to close after writing, or -1. */
int interpose_claim(const char *pattern);
/* Identifies the run of this process: number and start time of the oldest ancestor with the same
 * LIMBER_REPORT. */
void interpose_run(char *text, size_t size);
/* Whether the report's file can be rewritten. */
bool interpose_can_rewrite(const char *pattern);
const char *interpose_rank(void); /* MPI rank at the process's start; NULL: none */
void interpose_host(char *name, size_t size);
/* Whether the file's name is that of a BLAS other than this library. */
bool interpose_is_blas(const char *path);

/* ---- ending.c -------------------------------------------------------------------------------- */

/* Called at a process's first counted call; makes it write its report at the end. */
void interpose_watch_end(void);
/* Has the report written if a call was counted; called before _exit. */
void interpose_leave(void);

#endif
