/* SPDX-License-Identifier: BSD-3-Clause
 * Compresses bytes that are mostly zeros, for files on disk.  The format is a sequence of runs.  A
 * run has the number of 4-byte words that are zero, the number of words that are not, and then
 * these nonzero words. */
#include "backends/llvm/llvm.h"

#include <string.h>

enum { WORD = 4 };

/* Head of a run: number of zero words, and number of other words, which follow the head. */
struct run_head {
    uint16_t zeros, words;
};

/* Returns the number of words, from `from` on and at most 65535, that are all zero or, if `zero` is
 * false, all nonzero. */
static size_t count_words(const unsigned char *from, size_t count, bool zero)
{
    static const unsigned char none[WORD];
    size_t n = 0;

    while (n < count && n < UINT16_MAX && !memcmp(from + n * WORD, none, WORD) == zero)
        n++;
    return n;
}

/* Compresses `size` bytes to `to`; returns the number of bytes written. */
size_t limber_zeros_pack(const void *from, size_t size, unsigned char *to)
{
    const unsigned char *at = from;
    size_t left = size / WORD, out = 0;

    while (left) {
        struct run_head run;

        run.zeros = (uint16_t)count_words(at, left, true);
        at += run.zeros * (size_t)WORD;
        left -= run.zeros;
        run.words = (uint16_t)count_words(at, left, false);
        memcpy(to + out, &run, sizeof run);
        memcpy(to + out + sizeof run, at, run.words * (size_t)WORD);
        out += sizeof run + run.words * (size_t)WORD;
        at += run.words * (size_t)WORD;
        left -= run.words;
    }
    return out;
}

/* Expands `packed` bytes to exactly `size` bytes.  Returns false if the packed bytes are
 * damaged. */
bool limber_zeros_unpack(const unsigned char *from, size_t packed, void *to, size_t size)
{
    unsigned char *at = to;

    while (packed >= sizeof(struct run_head)) {
        struct run_head run;
        size_t zeros, words;

        memcpy(&run, from, sizeof run);
        zeros = run.zeros * (size_t)WORD;
        words = run.words * (size_t)WORD;
        from += sizeof run;
        packed -= sizeof run;
        if (zeros > size || words > size - zeros || words > packed)
            return false;
        memset(at, 0, zeros);
        memcpy(at + zeros, from, words);
        at += zeros + words;
        size -= zeros + words;
        from += words;
        packed -= words;
    }
    return packed == 0 && size == 0;
}
