/* SPDX-License-Identifier: BSD-3-Clause
 * Seals: who has a secret key can tell what was made by somebody who has it, too. */
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

/* The folder at an absolute path, open as a place (O_PATH), or -1 with a reason in why; "" and
 * errno ENOENT: absent and not to be created; "" and ENOMEM: no memory.  Nobody but this user and
 * root can put another folder in its place: that holds for every folder and link on the way. */
int limber_folder_open(const char *path, bool create, char *why, size_t size);

/* The key that a file holds, which only this user can read; with `create` it is made where it is
 * absent, and all who make it at once end with one.  As above: false with a reason, or "" where it
 * is absent. */
bool limber_seal_key(const char *path, bool create, struct seal_key *key, char *why, size_t size);

#endif
