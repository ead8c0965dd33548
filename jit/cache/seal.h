/* SPDX-License-Identifier: BSD-3-Clause
 * Seals (message authentication codes): only the holder of a secret key can make them, and can
 * recognise what was sealed with the key. */
#ifndef LIMBER_SEAL_H
#define LIMBER_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEAL_BYTES = 16 };
struct seal_key {
    unsigned char byte[16];
};

/* Computes SipHash-2-4, with 128 bits of result, of n bytes at `data` followed by m bytes at `more`
 * (Aumasson, Bernstein: SipHash, INDOCRYPT 2012; the long result is as in their reference
 * implementation). */
void limber_seal(const struct seal_key *key, const void *data, size_t n, const void *more, size_t m,
                 unsigned char out[SEAL_BYTES]);

/* Opens the directory at an absolute path (O_PATH).  Checks every directory and link on the path,
 * so that only this user and root can replace it.  create: makes missing directories.  -1 on
 * failure, with a reason in `why`.  The reason is "" if the directory is absent and not created
 * (errno ENOENT), or if memory runs out (ENOMEM). */
int limber_folder_open(const char *path, bool create, char *why, size_t size);

/* Reads the key in a file that only this user can read.  create: makes the key if it is absent; if
 * several processes do so at once, all get the same key.  False on failure, with a reason in `why`,
 * which is "" if the key is absent. */
bool limber_seal_key(const char *path, bool create, struct seal_key *key, char *why, size_t size);

#endif
