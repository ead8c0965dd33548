/* SPDX-License-Identifier: BSD-3-Clause
 * Names and descriptions of the ways. */
#include "backends/ways.h"

static const struct {
    const char *name, *about;
} words[] = { { "", "" },
#define WORD(name, about) { #name, about },
              LIMBER_CALL_WAYS(WORD) LIMBER_LAUNCH_WAYS(WORD)
#undef WORD
};

/* Returns the way's name in plans and reports. */
const char *limber_way_name(enum way_id way)
{
    return words[way].name;
}

/* Returns one line that explains the way. */
const char *limber_way_about(enum way_id way)
{
    return words[way].about;
}
