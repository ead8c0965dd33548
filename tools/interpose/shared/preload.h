/* SPDX-License-Identifier: BSD-3-Clause
 * What libraries that stand before others share: what the user asks of them, by the environment and
 * by a file, and what they tell at the end. */
#ifndef LIMBER_PRELOAD_H
#define LIMBER_PRELOAD_H

#include <limber/interpose.h>
#include <limber/limber.h>

#include <locale.h>
#include <signal.h>
#include <stdbool.h>

/* The library's own name, and that of what it stands before; for messages. */
extern const char preload_name[], preload_original[];

/* From here on, in this thread, numbers have a point whatever the program's locale is; to be ended
 * by uselocale of what it answers. */
locale_t preload_plain_numbers(void);
/* "NAME: ..." on stderr, one line. */
void preload_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- apart.c
 * ------------------------------------------------------------------------------------- */

/* First in what a program's thread calls: until it returns, the thread is not cancelled. */
#define PRELOAD_UNCANCELLED \
    int cancelled __attribute__((cleanup(preload_stay_no_more), unused)) = preload_stay()
int preload_stay(void);
void preload_stay_no_more(const int *before);
/* Between them a file that grows too large is an error and no signal. */
struct preload_limits {
    sigset_t before;
    bool pending;
};
void preload_limits_enter(struct preload_limits *l);
void preload_limits_leave(const struct preload_limits *l);

/* ---- options.c: LIMBER_CONTRACT and its kin, and the file that LIMBER_CONFIG names
 * --------------- */

struct preload_setting {
    bool on;                    /* false: the other library's */
    limber_contract contract;
    char words[24], scheme[64]; /* of the contract */
};

struct preload_options {
    bool on; /* some setting is; all is zero after anything that is not understood,
                which is told once: every call is the other library's then */
    struct preload_setting setting; /* of calls that no rule is about */
    int verbose;
    const char *report; /* the file's name, or NULL */
    int check; /* elements to look at in a call that is checked; 0: none */
    bool refused; /* something was not understood */
    bool background; /* kernels are made while calls go on */
    const char *backend, *cache_dir; /* from the file; NULL: the library looks itself */
    int threads; /* 0: as above */
};
const struct preload_options *preload_options(void);

/* Of contexts: what the file says and the environment does not; quiet. */
limber_config preload_config(void);

/* A call, as rules see it. */
struct preload_call {
    const char *routine; /* the function's name */
    int64_t m, n, k;
    const void *site; /* an address in the caller, or NULL */
};
const struct preload_setting *preload_choose(const struct preload_call *call);

/* ---- rules.c
 * ------------------------------------------------------------------------------------- */

struct rules;
/* Adds the rule that the words after "rule" are; false with a reason. */
bool preload_rules_add(struct rules **rules, char *words, char *why, size_t size);
/* The setting of the first rule that fits; NULL: none does. */
const struct preload_setting *preload_rules_find(struct rules *rules,
                                                 const struct preload_call *call);
void preload_rules_each(struct rules *rules, void (*fn)(struct preload_setting *));
/* Any of them says more than off. */
bool preload_rules_serve(const struct rules *rules);
/* A contract in words, "bits=40"; a scheme's name, or two with a plus between them.  They become
 * the setting's; false: they are none. */
bool preload_read_contract(const char *s, struct preload_setting *to);
bool preload_read_scheme(const char *s, struct preload_setting *to);
/* All of s, a whole number in [least, most]. */
bool preload_read_number(const char *s, int least, int most, int *out);
/* What the contract lacks, or NULL. */
const char *preload_lacks(const limber_contract *k);

/* ---- report.c
 * ------------------------------------------------------------------------------------ */

/* What elements that were looked at are like, beside exact dot products. */
struct preload_check {
    int elements;
    double error; /* the largest |error| / (|A||B|) */
    double ulps; /* the largest |error| in ulps of the exact value */
    int broken; /* elements that do not keep the contract */
};

struct preload_told {
    const char *routine;
    int64_t m, n, k;
    const limber_report *report; /* NULL: it was not served, and */
    const char *why_not;
    char ops[4]; /* "NT" */
    const void *site; /* an address in the caller, or NULL */
    limber_context *ctx; /* that has the kernels, where it was served */
    double count; /* products, of a batch */
    double seconds; /* 0: not known */
    double original; /* estimated seconds of the other library; 0: not known */
    struct preload_check check;
};

/* Remembers the call as this thread's last and, where a report is asked for, counts it. */
/* Of a product that is a part of what will be counted: its kernels, which its call needs too. */
void preload_kernels(limber_context *ctx, const limber_report *report);
void preload_count(const struct preload_told *t);

#endif
