/* SPDX-License-Identifier: BSD-3-Clause
 * Code that the libraries in front of BLAS and cuBLAS share: the user's settings from the
 * environment and from a file, the rules, the report. */
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

/* Names for messages: of this library, and of the library whose calls it intercepts. */
extern const char interpose_name[], interpose_original[];

/* Makes this thread print numbers with a decimal point, whatever its locale is.  Undo by
 * uselocale() of the result. */
locale_t interpose_plain_numbers(void);
/* Copies a string, truncated to `size` bytes.  snprintf would take hundreds of instructions. */
static inline void interpose_copy(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);

    memcpy(to, from, n);
    to[n] = '\0';
}
/* Prints "NAME: ..." and a newline on stderr. */
void interpose_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- isolate.c ------------------------------------------------------------------------------- */

/* First statement of a public function: the thread cannot be cancelled until the function
 * returns. */
#define INTERPOSE_UNCANCELLED \
    int cancelled __attribute__((cleanup(interpose_restore_cancellation), unused)) = \
        interpose_disable_cancellation()
int interpose_disable_cancellation(void);
void interpose_restore_cancellation(const int *before);
/* Between enter and leave, a write beyond the file size limit fails instead of raising SIGXFSZ. */
struct interpose_limits {
    sigset_t before;
    bool pending;
};
void interpose_limits_enter(struct interpose_limits *l);
void interpose_limits_leave(const struct interpose_limits *l);

/* Defines a mutex that a fork's child finds unlocked, even if another thread of the parent held
 * it. */
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

/* How calls are computed. */
struct interpose_setting {
    bool on; /* false if calls are forwarded to the other library */
    limber_contract contract;
    /* words: text of the contract, which may describe a unit; scheme: its name, or "" */
    char words[320], scheme[64];
    limber_unit unit; /* the unit of "simulate=UNIT" */
};

struct interpose_options {
    /* Limber may compute some calls.  If a value is invalid, a message is printed once, all fields
     * but `verbose` and `refused` are zero, and every call is forwarded. */
    bool on;
    struct interpose_setting setting; /* for calls that no rule matches */
    int verbose, quiet;
    const char *report; /* file name of the report, or NULL */
    /* folder of captured operands, or NULL; how many bytes each process may write there */
    const char *capture;
    int64_t capture_bytes;
    int rows; /* largest number of rows that the report lists one by one; 0 if it lists all */
    int check; /* number of elements to compare in each checked call; 0 if none are compared */
    bool refused; /* true if the value of some option was invalid */
    bool background; /* true if kernels are compiled in the background */
    /* values of the file LIMBER_CONFIG; NULL or 0 if absent: the library reads the environment */
    const char *backend, *cache_dir;
    int threads;
    /* 1: calls with bits=N are forwarded to a BLAS whose standard error bound keeps that
     * contract */
    int trust;
};
const struct interpose_options *interpose_options(void);

/* Returns the configuration of contexts, with those values of the file that no environment
 * variable overrides. */
limber_config interpose_config(void);

/* Properties of a call that a rule may test. */
struct interpose_call {
    const char *routine; /* name of the called function */
    int64_t m, n, k;
    const void *site; /* an address in the calling code, or NULL */
};
/* The setting for a call: of the first rule that matches, else the default one. */
const struct interpose_setting *interpose_choose(const struct interpose_call *call);

/* ---- settings.c ------------------------------------------------------------------------------ */

/* Returns why the file of LIMBER_LLVM cannot be opened as libLLVM; "" if it can, or if the variable
 * is not set. */
const char *interpose_lacks_llvm(void);
/* True if this process only checks the settings before it executes another program.  Such a process
 * writes no report. */
bool interpose_only_checks(void);
/* Defined by each library: checks variables that only this library reads.  If one is invalid,
 * prints a message and returns false. */
bool interpose_check_own(void);

/* ---- rules.c --------------------------------------------------------------------------------- */

struct rules;
/* Parses the words after "rule" and appends the rule.  On failure stores the reason in `why`, and
 * returns false. */
bool interpose_rules_add(struct rules **rules, char *words, char *why, size_t size);
/* Setting of the first rule that matches the call; NULL if none does. */
const struct interpose_setting *interpose_rules_find(struct rules *rules,
                                                     const struct interpose_call *call);
/* Calls fn for the setting of each rule. */
void interpose_rules_each(struct rules *rules, void (*fn)(struct interpose_setting *));
/* True if some rule's setting is on. */
bool interpose_rules_serve(const struct rules *rules);
/* Parse a contract ("bits=40"), or schemes with + between ("fp32-f+native"), into a setting.
 * Return false if the text is invalid. */
bool interpose_read_contract(const char *s, struct interpose_setting *to);
bool interpose_read_scheme(const char *s, struct interpose_setting *to);
/* True if the text begins with "simulate=".  Its unit may have several words. */
bool interpose_is_unit(const char *s);
/* Explains why a contract is invalid: for a unit, the message of the unit's parser; else the text
 * `wanted`. */
const char *interpose_no_contract(const char *s, const char *wanted);
/* Removes spaces and tabs at both ends of s, in place; returns its start. */
char *interpose_trim(char *s);
/* Parses all of s as an integer in [least, most]. */
bool interpose_read_number(const char *s, int least, int most, int *out);
/* Returns why contract and scheme contradict each other, as the end of a message; NULL if they do
 * not. */
const char *interpose_conflict(const limber_contract *k);

/* ---- report.c -------------------------------------------------------------------------------- */

/* Result of comparing elements with exact dot products. */
struct interpose_check {
    int elements;
    double error; /* largest |error| / |A||B| */
    double ulps; /* largest |error| in units in the last place of the exact value */
    int broken; /* number of compared elements whose error exceeds the contract */
};

/* Statistics of a simulated unit: products of nonzero finite factors; of these, those that
 * underflowed or overflowed; additions that lost all or some bits of an addend; sums that
 * overflowed. */
struct interpose_counts {
    double products, underflow, overflow, swamped, partly_swamped, sum_overflow;
};

/* The outcome of one call. */
struct interpose_result {
    const char *routine;
    int64_t m, n, k;
    const limber_report *report; /* NULL if Limber did not compute it */
    const char *why_not; /* why Limber did not compute it */
    const char *contract; /* text of the contract; "" if there is none */
    char ops[4]; /* letters of the operands' op, such as "NT" */
    const void *site; /* an address in the calling code, or NULL */
    limber_context *ctx; /* the context that has the call's kernels, if Limber computed it */
    double count; /* number of products, more than 1 for a batch */
    double seconds; /* seconds that the call took; 0 if unknown */
    double original; /* seconds that the other library would take, by an estimate; 0 if unknown */
    struct interpose_check check;
    struct interpose_counts counts;
};

/* Writes the file and symbol of an address in the calling code as "FILE:SYMBOL"; "" if unknown. */
void interpose_name_caller(const void *site, char *to, size_t size);
/* Writes a JSON string, with escapes. */
void interpose_put_text(FILE *f, const char *s);
/* Records the kernels of a product that is only a part of a call, for the report. */
void interpose_record_kernels(limber_context *ctx, const limber_report *report);
/* Adds seconds that opening the Limber library took, which belong to no call. */
void interpose_opened(double seconds);
/* Stores the outcome as that of this thread's last call, and adds it to the report if there is
 * one. */
void interpose_record_call(const struct interpose_result *t);

/* write_rest: rewrites the report if it is due and calls are not in it yet.  write_last: writes the
 * process's final report; complete: the process ends normally. */
void interpose_write_rest(void);
void interpose_write_last(bool complete);

/* ---- place.c --------------------------------------------------------------------------------- */

/* Expands a report's name: %p is the process number, %h the host, %r the MPI rank.  A rank is
 * appended to a name without %p and %r.  A process appends its number to a name without %p if it is
 * a fork's child, or if its parent, or another process, already reports to that name. */
void interpose_expand_name(const char *pattern, char *path, size_t size);
/* True if this process writes its report to the name without its process number. */
bool interpose_is_first(void);
/* Called before the first write: checks whether another process's report has this name, and if so
 * prints a message.  Returns a descriptor that is to be closed after writing, or -1. */
int interpose_claim(const char *pattern);
/* Writes an identity of this run: number and start time of the oldest ancestor process with the
 * same LIMBER_REPORT and LIMBER_CONFIG. */
void interpose_run(char *text, size_t size);
/* True if the report's file is absent or regular, so that it can be rewritten. */
bool interpose_can_rewrite(const char *pattern);
const char *interpose_rank(void); /* MPI rank when the process started; NULL if there was none */
void interpose_host(char *name, size_t size);
/* True if the file name is that of a BLAS other than this library. */
bool interpose_is_blas(const char *path);

/* ---- ending.c -------------------------------------------------------------------------------- */

/* Called at a process's first counted call: makes the process write its report when it ends. */
void interpose_watch_end(void);
/* Has the report written, if calls were counted, before _exit ends the process. */
void interpose_leave(void);

#endif
