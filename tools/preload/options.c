/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/preload/options.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct preload_options options;
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static bool number(const char *s, int least, int most, int *out)
{
    char *rest;
    long v;

    errno = 0;
    v = strtol(s, &rest, 10);
    *out = (int)v;
    return *s >= '0' && *s <= '9' && !*rest && !errno && v >= least && v <= most;
}

static bool read_contract(const char *s, limber_contract *k)
{
    if (strcmp(s, "native") == 0)
        k->promise = LIMBER_NATIVE;
    else if (strcmp(s, "correct") == 0)
        k->promise = LIMBER_CORRECT;
    else if (strcmp(s, "fast") == 0)
        k->promise = LIMBER_FAST;
    else if (strncmp(s, "fast=", 5) == 0 && number(s + 5, 1, 64, &k->slices))
        k->promise = LIMBER_FAST;
    else if (strncmp(s, "bits=", 5) == 0 && number(s + 5, 1, 160, &k->bits))
        k->promise = LIMBER_BITS;
    else
        return false;
    return true;
}

/* A scheme, or two with a plus between them. */
static bool is_scheme(const char *s)
{
    size_t length = strcspn(s, "+");
    const char *name;

    for (int i = 0; (name = limber_scheme_name(i)); i++)
        if (strlen(name) == length && strncmp(name, s, length) == 0)
            return strcmp(name, "simulate") != 0 && (!s[length] || is_scheme(s + length + 1));
    return false;
}

static const char *variable(const char *name)
{
    const char *s = getenv(name);

    return s && *s ? s : NULL;
}

static void refuse(const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "%s: %s = \"%.60s\" is %s; every product is left to %s\n", preload_name, name,
            value, wanted, preload_original);
}

static void read_options(void)
{
    const char *contract = variable("LIMBER_CONTRACT"), *scheme = variable("LIMBER_SCHEME");
    const char *verbose = variable("LIMBER_VERBOSE");

    if (verbose && !number(verbose, 0, 9, &options.verbose)) {
        refuse("LIMBER_VERBOSE", verbose, "no number from 0 to 9");
        return;
    }
    if (!contract)
        return;
    options.contract_text = contract;
    options.contract.scheme = scheme;
    if (!read_contract(contract, &options.contract))
        refuse("LIMBER_CONTRACT", contract,
               "none of native, bits=N (1 to 160), correct, fast, fast=SLICES (1 to 64)");
    else if (scheme && !is_scheme(scheme))
        refuse("LIMBER_SCHEME", scheme, "no scheme; `limber formats` lists them");
    else if (options.contract.promise == LIMBER_FAST && !scheme)
        refuse("LIMBER_CONTRACT", contract, "a promise of a scheme, and LIMBER_SCHEME names none");
    else
        options.on = true;
}

const struct preload_options *preload_options(void)
{
    pthread_once(&read_once, read_options);
    return &options;
}
