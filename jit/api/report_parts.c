/* SPDX-License-Identifier: BSD-3-Clause
 * limber_report_parts: writes the parts of a report as a table. */
#include "jit/api/api.h"

#include <string.h>

/* Sets *text to a table of the parts in a report, which the caller frees; NULL on failure. */
limber_status limber_report_parts(const limber_report *report, char **text)
{
    struct text out = { 0 };
    struct diag d = { 0 };

    if (!report || !text)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", report ? "text" : "report");
    else if (limber_report_check(report, &d)) {
        int count = report->parts < report->part_room ? report->parts : report->part_room;
        limber_part part[LIMBER_PARTS] = { 0 };

        for (int i = 0; i < count && i < LIMBER_PARTS; i++)
            memcpy(&part[i], (const char *)report->part + (size_t)i * report->part_size,
                   report->part_size < sizeof *part ? report->part_size : sizeof *part);
        limber_parts_table(&out, part, count);
    }
    if (out.failed) {
        limber_text_clear(&out);
        limber_fail(&d, LIMBER_STATUS_NO_MEMORY, "no memory for the table");
    }
    if (text)
        *text = out.s;
    if (d.status)
        limber_fail_in(&d, "report_parts");
    return limber_error_set(&d);
}
