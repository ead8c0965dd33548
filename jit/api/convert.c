/* SPDX-License-Identifier: BSD-3-Clause
 * The public conversion of arrays: argument checks.  ir/format.c converts. */
#include "jit/api/api.h"

/* Converts `count` numbers from one format to another, after checks of the arguments. */
limber_status limber_convert(void *dst, limber_format to, const void *src, limber_format from,
                             size_t count, limber_rounding mode)
{
    struct diag d = { 0 };

    if (limber_format_check("to", to, &d) && limber_format_check("from", from, &d) &&
        limber_check_arrays(dst, to, src, from, count, &d))
        limber_format_convert(dst, to, src, from, count, mode, &d);
    return limber_error_set(&d);
}
