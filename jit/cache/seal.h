/* SPDX-License-Identifier: BSD-3-Clause
 * Seals (message authentication codes): the holder of a secret key can recognise what was made with
 * it. */
#ifndef LIMBER_SEAL_H
#define LIMBER_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEAL_BYTES = 16 };
struct seal_key {
    unsigned char byte[16];
};

/* SipHash-2-4 of n bytes at data and then m at more, with 128 bits of result (Aumasson, Bernstein:
 * SipHash, INDOCRYPT 2012; the long result is their reference implementation's). */
void limber_seal(const struct seal_key *key, const void *data, size_t n, const void *more, size_t m,
                 unsigned char out[SEAL_BYTES]);

/* Opens the folder at an absolute path (O_PATH), or returns -1 with a reason in why; "" with errno
 * ENOENT: absent and not created; "" with ENOMEM: no memory.  Only this user and root can replace
 * the folder: that is checked for every folder and link on the path. */
int limber_folder_open(const char *path, bool create, char *why, size_t size);

/* Reads the key in a file that only this user can read.  `create`: makes it if it is absent;
 * processes that do so at once end with one key.  False with a reason in why, or "" if it is
 * absent.
 */
bool limber_seal_key(const char *path, bool create, struct seal_key *key, char *why, size_t size);

#endif
