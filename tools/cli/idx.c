/* SPDX-License-Identifier: BSD-3-Clause
 * Reads IDX files, the format of MNIST, plain or gzipped: big-endian sizes, then big-endian
 * elements. Codes of types: bytes (8, 9), integers of 2 and 4 bytes (11, 12), binary32 and binary64
 * (13, 14). */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { MOST_PACKED = 1032 };    /* most bytes that deflate makes of a compressed byte */

/* The types of elements, with their codes in the file. */
static const struct {
    unsigned char code;
    const char *format;
} types[] = {
    { 8, "u8" }, { 9, "i8" }, { 11, "i16" }, { 12, "i32" }, { 13, "f32" }, { 14, "f64" }
};

static bool report_error(gzFile f, const char *path, const char *what)
{
    gzclose(f);
    complain("%s: %s", path, what);
    return false;
}

/* Sets the array's format by IDX's code of a type.  False if the code is unknown. */
static bool set_format(struct array *a, unsigned char code)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code) {
            a->format = format_of(types[i].format);
            return true;
        }
    return false;
}

/* Reverses the byte order of each element of `size` bytes. */
static void swap_bytes(char *p, int64_t bytes, int size)
{
    for (int64_t at = 0; size > 1 && at < bytes; at += size)
        for (int i = 0; i < size / 2; i++) {
            char c = p[at + i];

            p[at + i] = p[at + size - 1 - i];
            p[at + size - 1 - i] = c;
        }
}

/* Reads an IDX file, which may be gzipped.  On failure prints a message and returns false. */
bool idx_read(FILE *file, const char *path, struct array *a)
{
    int fd = dup(fileno(file));
    gzFile f = fd >= 0 && lseek(fd, 0, SEEK_SET) == 0 ? gzdopen(fd, "rb") : NULL;
    unsigned char head[4], size[4];
    int64_t done = 0, bytes;
    struct stat st;

    if (!f) {
        if (fd >= 0)
            close(fd);
        return complain("%s: cannot be opened", path), false;
    }
    if (gzread(f, head, 4) != 4 || head[0] || head[1])
        return report_error(f, path, "no IDX file");
    if (!set_format(a, head[2]) || head[3] < 1 || head[3] > 4)
        return report_error(f, path, "IDX files of numbers with 1 to 4 dimensions are read");
    a->images = true;
    a->rank = head[3];
    bytes = a->format.size;
    for (int i = 0; i < a->rank; i++) {
        if (gzread(f, size, 4) != 4)
            return report_error(f, path, "the IDX header is cut short");
        a->dim[i] = (int64_t)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
        if (a->dim[i] && bytes > ((int64_t)1 << 40) / a->dim[i])
            return report_error(f, path, "the sizes are implausible");
        bytes *= a->dim[i];
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && bytes / MOST_PACKED > st.st_size)
        return report_error(f, path, "more elements are claimed than the file can hold");
    if (!array_alloc(a, path)) {
        gzclose(f);
        return false;
    }
    while (done < bytes) {
        int64_t want = bytes - done < 1 << 24 ? bytes - done : 1 << 24;
        int got = gzread(f, (char *)a->data + done, (unsigned)want);

        if (got <= 0)
            return report_error(f, path, "the data is cut short or damaged");
        done += got;
    }
    gzclose(f);
    swap_bytes(a->data, bytes, a->format.size);
    return true;
}

void array_as_rows(struct array *a)
{
    for (; a->rank > 2; a->rank--)
        a->dim[1] *= a->dim[a->rank - 1];
}
