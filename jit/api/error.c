/* SPDX-License-Identifier: BSD-3-Clause
 * The error text of a thread's last failure. */
#include "jit/api/api.h"

static _Thread_local struct diag last;

/* Makes the text in *d the error text of this thread.  Returns the status in *d. */
limber_status limber_error_set(const struct diag *d)
{
    if (d->status != LIMBER_STATUS_OK)
        last = *d;
    return d->status;
}

/* Returns the error text of the last failed call in this thread, or "" if none has failed. */
const char *limber_error_text(void)
{
    return last.text;
}
