/* SPDX-License-Identifier: BSD-3-Clause
 * Fuzzes the readers of array files: .npy, .npz, Matrix Market, CSV, IDX. */
#define _GNU_SOURCE
#include "fuzz.h"

#include "tools/cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Inputs with which fuzzing begins. */
static const struct {
    const char *s;
    size_t n;
} seeds[] = {
#define SEED(s) { s, sizeof s - 1 }
    SEED("\x93NUMPY\1\0\x76\0{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }           "
         "                   "
         "                            \n0123456701234567012345670123456"),
    SEED("%%MatrixMarket matrix array real general\n2 2\n1\n3\n2e-400\n4\n"),
    SEED(
        "%%MatrixMarket matrix coordinate real skew-symmetric\n% text\n3 3 2\n2 1 1.5\n3 2 -inf\n"),
    SEED("%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 -9223372036854775808\n2 1 "
         "7\n"),
    SEED("%%MatrixMarket matrix array real general\n0 2000000000\n"),
    SEED("%%MatrixMarket matrix coordinate pattern general\n4 5 2\n1 5\n4 1\n"),
    SEED("%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 1 0\n2 1 nan -1e3\n"),
    SEED("\"a\";b\n1;2\n# text\n3e400,-.5\n"),
    SEED("PK\003\004\024\000\000\000\000\000\000\000!\000\202%\225\246L\000\000\000L\000"
         "\000\000\005\000\000\000a.npy\223NUMPY\001\000:\000{'descr': '<c8', 'fortran_ord"
         "er': False, 'shape': (1,), }\012\000\000\000\000\000\000\000\000PK\001\002\024"
         "\003\024\000\000\000\000\000\000\000!\000\202%\225\246L\000\000\000L\000\000\000"
         "\005\000\000\000\000\000\000\000\000\000\000\000\200\001\000\000\000\000a.npyPK"
         "\005\006\000\000\000\000\001\000\001\0003\000\000\000o\000\000\000\000\000"),
    SEED("PK\003\004\024\000\000\000\010\000\000\000!\000\202%\225\246D\000\000\000L\000"
         "\000\000\005\000\000\000a.npy\233\354\027\352\033\020\311\310`\305P\255\236\222Z"
         "\234\\\244n\245\240n\223l\241\256\243\240\236\226_TR\224\230\027\237_\224\222"
         "\012\022wK\314)N\005\212\027g$\026\244\002\371\032\206:\232:\012\265\\\014P\000"
         "\000PK\001\002\024\003\024\000\000\000\010\000\000\000!\000\202%\225\246D\000"
         "\000\000L\000\000\000\005\000\000\000\000\000\000\000\000\000\000\000\200\001"
         "\000\000\000\000a.npyPK\005\006\000\000\000\000\001\000\001\0003\000\000\000g"
         "\000\000\000\000\000"),
    SEED("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02"
         "01234567"),
};

size_t fuzz_seed(int i, uint8_t *to)
{
    if (i >= (int)(sizeof seeds / sizeof *seeds))
        return 0;
    memcpy(to, seeds[i].s, seeds[i].n);
    return seeds[i].n;
}

int complain(const char *format, ...)
{
    (void)format;
    return 1;
}

limber_format format_of(const char *name)
{
    limber_format f;

    limber_format_named(name, &f);
    return f;
}

/* Reads the input as an array file, with and without conversion to doubles. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("array", MFD_CLOEXEC);
    struct array a;
    char path[40];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int wide = 0; wide < 2; wide++)
        if (array_read(path, wide, &a))
            array_clear(&a);
    close(fd);
    return 0;
}
