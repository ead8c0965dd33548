/* SPDX-License-Identifier: BSD-3-Clause
 * The version as a function, for programs that load the library without its header. */
#include "ir/ir.h"

const char *limber_version(void)
{
    return LIMBER_VERSION;
}
