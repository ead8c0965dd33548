/* SPDX-License-Identifier: BSD-3-Clause
 * The ways' names and descriptions. */
#include "backends/ways.h"

static const struct {
    const char *name, *about;
} words[] = { { "", "" },
#define WORD(name, about) { #name, about },
              LIMBER_WAY_LIST(WORD)
#undef WORD
};

const char *limber_way_name(enum way_id way)
{
    return words[way].name;
}

const char *limber_way_about(enum way_id way)
{
    return words[way].about;
}
