/* SPDX-License-Identifier: BSD-3-Clause
 * What the environment asks of libraries that stand before others: LIMBER_CONTRACT, LIMBER_SCHEME,
 * LIMBER_VERBOSE.  Without a contract, and with one that is not understood, which is told once on
 * stderr, every call is the other library's. */
#ifndef LIMBER_PRELOAD_OPTIONS_H
#define LIMBER_PRELOAD_OPTIONS_H

#include <limber/limber.h>

#include <stdbool.h>

struct preload_options {
    bool on;
    limber_contract contract;
    const char *contract_text;
    int verbose;
};
const struct preload_options *preload_options(void);

/* The library's own name, and that of what it stands before; for messages. */
extern const char preload_name[], preload_original[];

#endif
