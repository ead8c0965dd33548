/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels made ahead of their use: the text of a kernel's plan, and the kernel of such a text. */
#include "jit/api/api.h"

#include <string.h>

/* Reads a kernel's key: 32 hexadecimal digits, as reports have them.  False if the text is none. */
static bool read_key(const char *hex, unsigned char key[KEY_BYTES / 2])
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(hex) != KEY_BYTES)
        return false;
    for (int i = 0; i < KEY_BYTES; i++) {
        const char *digit = strchr(digits, hex[i]);

        if (!digit)
            return false;
        key[i / 2] = (unsigned char)(key[i / 2] << 4 | (digit - digits));
    }
    return true;
}

/* Sets *plan to a copy of the plan from which a kernel in memory was compiled. kernel: its key
 * in hexadecimal digits. */
limber_status limber_kernel_plan(limber_context *ctx, const char *kernel, char **plan)
{
    CALL_SCOPE;
    unsigned char key[KEY_BYTES / 2] = { 0 };
    struct diag d = { 0 };
    bool known;

    if (plan)
        *plan = NULL;
    if (!ctx || !kernel || !plan)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL",
                    !ctx    ? "ctx" :
                    !kernel ? "kernel" :
                              "plan");
    else if (!read_key(kernel, key))
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT,
                    "kernel = \"%.40s\" is not 32 hexadecimal digits", kernel);
    else if (!(*plan = limber_kernels_stated(ctx->memory, key, sizeof key, &known)))
        limber_fail(&d, known ? LIMBER_STATUS_NO_MEMORY : LIMBER_STATUS_BAD_ARGUMENT,
                    known ? "no memory for the plan of kernel %s" : "kernel %s is not in memory",
                    kernel);
    if (d.status)
        limber_fail_in(&d, "kernel_plan");
    return limber_error_set(&d);
}

/* Makes the kernel of a plan in text form and keeps it on disk, unless it is there already. */
limber_status limber_kernel_make(limber_context *ctx, const char *plan, limber_report *report)
{
    CALL_SCOPE;
    struct diag d = { 0 };
    struct report r = { 0 };

    if (!ctx || !plan)
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", ctx ? "plan" : "ctx");
    else if (limber_report_check(report, &d) && limber_engine_make_stated(ctx, plan, &r, &d) &&
             report)
        limber_report_out(report, &r);
    if (d.status)
        limber_fail_in(&d, "kernel_make");
    return limber_error_set(&d);
}
