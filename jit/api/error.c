/* SPDX-License-Identifier: BSD-3-Clause
 * The error text of a thread's last failure. */
#include "jit/api/api.h"

static _Thread_local struct diag last;

limber_status limber_error_set(const struct diag *d)
{
    if (d->status != LIMBER_STATUS_OK)
        last = *d;
    return d->status;
}

const char *limber_error_text(void)
{
    return last.text;
}
