/* SPDX-License-Identifier: BSD-3-Clause
 * IDX, the files of MNIST, plain or gzipped: big-endian sizes, then elements; the first index
 * stays, the others become one (an image a row). */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { MOST_PACKED = 1032 };    /* bytes that one byte of a gzipped file can stand for */

static bool bad(gzFile f, const char *path, const char *what)
{
    gzclose(f);
    complain("%s: %s", path, what);
    return false;
}

bool idx_read(const char *path, struct array *a)
{
    gzFile f = gzopen(path, "rb");
    unsigned char head[4], size[4];
    int64_t rows = 1, cols = 1, done = 0, bytes;
    struct stat file;

    if (!f)
        return complain("%s: cannot be opened", path), false;
    if (gzread(f, head, 4) != 4 || head[0] || head[1])
        return bad(f, path, "no IDX file");
    if (head[2] != 8 || head[3] < 1 || head[3] > 4)
        return bad(f, path, "only IDX files of unsigned bytes with 1 to 4 dimensions are read");
    for (int i = 0; i < head[3]; i++) {
        int64_t n;

        if (gzread(f, size, 4) != 4)
            return bad(f, path, "the IDX header is cut short");
        n = (int64_t)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
        if (i == 0)
            rows = n;
        else if (n && cols > ((int64_t)1 << 40) / n)
            return bad(f, path, "the sizes are implausible");
        else
            cols *= n;
    }
    if (rows && cols > ((int64_t)1 << 33) / rows)
        return bad(f, path, "the sizes are implausible");
    a->format = format_of("u8");
    a->rank = 2;
    a->dim[0] = rows;
    a->dim[1] = cols;
    bytes = rows * cols;
    if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && bytes / MOST_PACKED > file.st_size)
        return bad(f, path, "more elements are claimed than the file can hold");
    if (!array_alloc(a, path)) {
        gzclose(f);
        return false;
    }
    while (done < bytes) {
        int64_t want = bytes - done < 1 << 24 ? bytes - done : 1 << 24;
        int got = gzread(f, (char *)a->data + done, (unsigned)want);

        if (got <= 0)
            return bad(f, path, "the data is cut short or damaged");
        done += got;
    }
    gzclose(f);
    return true;
}
