/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/status.h as they were in version 0.2.  include/limber/status.h
 * documents them.  The test abi_program is compiled with these headers and runs with the newest
 * library. */
#ifndef LIMBER_STATUS_H
#define LIMBER_STATUS_H

/* clang-format off */
#define LIMBER_STATUSES(ROW) \
    ROW(OK, "success") \
    ROW(BAD_ARGUMENT, "an argument is outside its domain; the text names it") \
    ROW(NO_SCHEME, "no scheme keeps the contract for this data; the text says why") \
    ROW(RANGE, "an exact result does not fit the result format") \
    ROW(NO_MEMORY, "memory could not be had") \
    ROW(IO, "a file could not be read or written") \
    ROW(DEVICE, "a device, its driver or its compiler failed or is absent") \
    ROW(INTERNAL, "a fault of Limber itself; please report the text") \
    ROW(NOT_READY, "the kernel is being made, and the contract says not to wait for it")
/* clang-format on */

typedef enum limber_status {
#define LIMBER_STATUS_ROW(name, meaning) LIMBER_STATUS_##name,
    LIMBER_STATUSES(LIMBER_STATUS_ROW)
#undef LIMBER_STATUS_ROW
} limber_status;

#endif
