/* SPDX-License-Identifier: BSD-3-Clause
 * Runs a fuzz target on valid inputs and on random changes of them.  With a folder as argument it
 * writes the valid inputs there, as a corpus for libFuzzer. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 0x9e3779b97f4a7c15;

static size_t random_below(size_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (size_t)(state % n) : 0;
}

/* Changes an input at random.  Returns its new size. */
static size_t change_input(uint8_t *data, size_t size)
{
    static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff, '0', '9', '-', ' ', '\n' };
    size_t at = random_below(size), n = random_below(16) + 1;

    if (size < 2)
        return size;
    switch (random_below(5)) {
    case 0: data[at] = (uint8_t)random_below(256); break;
    case 1: data[at] = odd[random_below(sizeof odd)]; break;
    case 2: return at + 1;
    case 3: /* deletes a piece */
        n = n < size - at ? n : size - at - 1;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    default: /* repeats a piece */
        n = n < size - at ? n : size - at;
        if (size + n > FUZZ_MOST)
            return size;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    }
    return size;
}

static int write_seeds(const char *folder)
{
    static uint8_t data[FUZZ_MOST];
    char name[4096];
    size_t size;

    for (int i = 0; (size = fuzz_seed(i, data)); i++) {
        FILE *f;

        snprintf(name, sizeof name, "%s/seed-%d", folder, i);
        f = fopen(name, "wb");
        if (!f || fwrite(data, 1, size, f) != size || fclose(f))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *wanted = getenv("LIMBER_FUZZ_RUNS");
    long runs = wanted ? atol(wanted) : 3000;
    static uint8_t data[FUZZ_MOST];
    int seeds = 0;
    size_t size;

    if (argc > 1)
        return write_seeds(argv[1]);
    for (; (size = fuzz_seed(seeds, data)); seeds++)
        LLVMFuzzerTestOneInput(data, size);
    for (long i = 0; i < runs; i++) {
        uint8_t *copy;

        size = fuzz_seed((int)random_below((size_t)seeds), data);
        for (size_t changes = random_below(6) + 1; changes > 0; changes--)
            size = change_input(data, size);
        /* a heap block of the exact size, so that a sanitizer detects reads past its end */
        copy = malloc(size + 1);
        if (!copy)
            return 2;
        memcpy(copy, data, size);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
    }
    printf("%d good inputs, %ld others\n", seeds, runs);
    return 0;
}
