/* SPDX-License-Identifier: BSD-3-Clause
 * Reads arrays, whose format the content tells, and writes them in the format that the name
 * tells. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_TEXT = 1 << 24, PIECE = 1 << 20 };

int64_t array_size(const struct array *a)
{
    int64_t n = 1;

    for (int i = 0; i < a->rank; i++)
        n *= a->dim[i];
    return n;
}

int64_t array_numbers(const struct array *a)
{
    return array_size(a) * (a->pairs ? 2 : 1);
}

int64_t array_step(const struct array *a)
{
    return a->format.size * (a->pairs ? 2 : 1);
}

void array_clear(struct array *a)
{
    free(a->data);
    memset(a, 0, sizeof *a);
}

int64_t memory_here(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? pages * page : INT64_MAX;
}

/* Counts the array's elements.  If its bytes exceed `most`, prints a message and returns false. */
bool array_check_size(const struct array *a, const char *path, int64_t most, int64_t *count)
{
    __int128 all = 1, bytes = array_step(a);

    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] < 0)
            return complain("%s: a negative size", path), false;
        all *= a->dim[i];
        bytes *= a->dim[i] ? a->dim[i] : 1;
        if (bytes > PTRDIFF_MAX)
            return complain("%s: the array is larger than memory", path), false;
    }
    *count = (int64_t)all;
    if (bytes <= most)
        return true;
    complain("%s: the array takes %.3g GB, and may take %.3g GB here", path, (double)bytes * 1e-9,
             (double)most * 1e-9);
    return false;
}

bool array_alloc(struct array *a, const char *path)
{
    int64_t count;

    if (!array_check_size(a, path, memory_here(), &count))
        return false;
    a->data = calloc(1, (size_t)(count * array_step(a)) + 16);
    if (!a->data)
        return complain("%s: no memory for %lld elements", path, (long long)count), false;
    return true;
}

int64_t bytes_left(FILE *f)
{
    struct stat s;
    long at = ftell(f);

    if (at < 0 || fstat(fileno(f), &s) || !S_ISREG(s.st_mode))
        return -1;
    return s.st_size - at;
}

bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), e = strlen(end);

    return n >= e && strcmp(s + n - e, end) == 0;
}

/* Copies a pipe into a file in memory, since readers seek, and closes f.  On failure prints a
 * message and returns NULL. */
static FILE *buffer_pipe(FILE *f, const char *path)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    FILE *all = fd >= 0 ? fdopen(fd, "w+b") : NULL;
    int64_t bytes = 0, most = memory_here() / 2;
    char *piece = malloc(PIECE);
    size_t n = 0;
    bool ok = all && piece;

    while (ok && (n = fread(piece, 1, PIECE, f)) > 0) {
        bytes += (int64_t)n;
        ok = bytes <= most && fwrite(piece, 1, n, all) == n;
    }
    ok = ok && !ferror(f) && fflush(all) == 0;
    free(piece);
    if (f != stdin)
        fclose(f);
    if (ok) {
        rewind(all);
        return all;
    }
    if (all)
        fclose(all);
    else if (fd >= 0)
        close(fd);
    complain("%s: %s", path,
             bytes > most ? "has more than half of this machine's memory" : strerror(errno));
    return NULL;
}

/* Opens a file, or standard input for "-".  If there is no such file, "FILE.npz:NAME" opens
 * FILE.npz and sets *name. */
static FILE *open_input(const char *path, const char **name)
{
    static bool taken;
    const char *colon = strstr(path, ".npz:");
    struct stat st;
    FILE *f;

    *name = NULL;
    if (strcmp(path, "-") == 0) {
        if (taken)
            return complain("-: standard input is one file, not two"), NULL;
        taken = true;
        return buffer_pipe(stdin, "standard input");
    }
    f = fopen(path, "rb");
    if (!f && colon && errno == ENOENT) {
        char *file = strndup(path, (size_t)(colon - path) + 4);

        *name = colon + 5;
        f = file ? fopen(file, "rb") : NULL;
        free(file);
    }
    if (!f)
        return complain("%s: %s", path, strerror(errno)), NULL;
    return fstat(fileno(f), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) ?
               buffer_pipe(f, path) :
               f;
}

/* True if the name ends in .csv or .tsv, or the text begins like a number or a comment. */
static bool looks_like_csv(const char *path, const unsigned char *s, size_t n)
{
    size_t i = 0;

    if (ends(path, ".csv") || ends(path, ".tsv"))
        return true;
    while (i < n && strchr(" \t\r\n", s[i]))
        i++;
    return i < n && s[i] && strchr("0123456789+-.#", s[i]);
}

/* Reads an array from a file, whose first bytes tell its format.  On failure prints a message and
 * returns false. */
bool array_read(const char *path, bool wide, struct array *a)
{
    bool ok = array_read_unnamed(path, wide, a);

    if (ok && a->unnamed) {
        complain("%s: the file does not name the type of its elements; gemm and conv take "
                 "--format-a, --format-b",
                 path);
        array_clear(a);
        ok = false;
    }
    return ok;
}

bool array_read_unnamed(const char *path, bool wide, struct array *a)
{
    const char *name;
    unsigned char start[9] = { 0 }, *magic = start;
    FILE *f;
    size_t n;
    bool ok;

    memset(a, 0, sizeof *a);
    f = open_input(path, &name);
    if (!f)
        return false;
    n = fread(start, 1, sizeof start, f);
    if (memcmp(start, "\xef\xbb\xbf", 3) == 0) { /* skips a UTF-8 byte order mark */
        magic += 3;
        n -= 3;
    }
    fseek(f, magic - start, SEEK_SET);
    if (n == 0)
        ok = (complain("%s: is empty", path), false);
    else if (n >= 6 && memcmp(magic, "\x93NUMPY", 6) == 0)
        ok = npy_read(f, path, a);
    else if (n >= 4 && (memcmp(magic, "PK\3\4", 4) == 0 || memcmp(magic, "PK\5\6", 4) == 0))
        ok = npz_read(f, path, name, a);
    else if (n >= 2 && memcmp(magic, "%%", 2) == 0)
        ok = mtx_read(f, path, wide, a);
    else if (n >= 4 && ((magic[0] == 0 && magic[1] == 0) || (magic[0] == 0x1f && magic[1] == 0x8b)))
        ok = idx_read(f, path, a);
    else if (looks_like_csv(path, magic, n))
        ok = csv_read(f, path, wide, a);
    else
        ok = (complain("%s: none of .npy, .npz, Matrix Market, IDX and CSV", path), false);
    fclose(f);
    if (!ok)
        array_clear(a);
    return ok;
}

bool is_pipe(const char *path)
{
    size_t n = strlen(path);

    return strcmp(path, "-") == 0 || (n == 5 && strcmp(path + 3, ":-") == 0);
}

/* The descriptor of standard output, which moves if messages are sent to standard error. */
static int result = STDOUT_FILENO;

void send_messages_to_stderr(const char *path)
{
    if (!path || !is_pipe(path) || result != STDOUT_FILENO)
        return;
    result = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

bool draft_open(struct draft *d, const char *path)
{
    char name[32];

    d->path = is_pipe(path) ? "standard output" : path;
    snprintf(name, sizeof name, "/dev/fd/%d", result);
    if (output_open(&d->output, is_pipe(path) ? name : path)) {
        d->f = d->output.f;
        return true;
    }
    return complain("%s: %s", d->path, strerror(errno)), false;
}

bool draft_close(struct draft *d, bool ok)
{
    if (output_close(&d->output, ok))
        return true;
    if (ok)
        complain("%s: %s", d->path, strerror(errno));
    return false;
}

bool check_picture_name(const char *path, const char *option, bool png)
{
    return !path || ends(path, ".svg") || (png && ends(path, ".png")) ||
           (complain("%s %s: pictures are SVG%s, the name must end in .svg%s", option, path,
                     png ? " or PNG" : "", png ? " or .png" : ""),
            false);
}

/* The kinds of files that can be written. */
static const struct form {
    const char *ending, *pipe; /* extension; name that stands for standard output */
    bool (*write)(FILE *f, const char *path, const struct array *a);
} forms[] = { { ".npy", "npy:-", npy_write },
              { ".npz", "npz:-", npz_write },
              { ".mtx", "mtx:-", mtx_write },
              { ".csv", "csv:-", csv_write } };

/* Returns the file format that the name's extension tells; with a message, NULL if it tells
 * none. */
static const struct form *form_of(const char *path)
{
    if (strcmp(path, "-") == 0)
        return &forms[0];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (ends(path, forms[i].ending) || strcmp(path, forms[i].pipe) == 0)
            return &forms[i];
    complain("%s: the name must end in .npy, .npz, .mtx or .csv, or be -, npz:-, mtx:- or csv:-",
             path);
    return NULL;
}

bool array_writable(const char *path)
{
    return form_of(path) != NULL;
}

bool array_write(const char *path, const struct array *a)
{
    const struct form *form = form_of(path);
    struct draft d;

    return form && draft_open(&d, path) && draft_close(&d, form->write(d.f, d.path, a));
}

/* Reads all of a text file into memory that the caller frees.  On failure prints a message and
 * returns NULL. */
char *text_read(const char *path)
{
    const char *name;
    FILE *f = open_input(path, &name);
    char *s = NULL;
    size_t n = 0;

    if (!f)
        return NULL;
    for (;;) {
        char *grown = realloc(s, n + 65537);
        size_t got;

        if (!grown || n > LONGEST_TEXT) {
            free(grown ? grown : s);
            complain("%s: %s", path, grown ? "too long for a text" : "out of memory");
            fclose(f);
            return NULL;
        }
        s = grown;
        got = fread(s + n, 1, 65536, f);
        n += got;
        if (got == 0)
            break;
    }
    fclose(f);
    s[n] = 0;
    if (strlen(s) == n)
        return s;
    complain("%s: no text", path);
    free(s);
    return NULL;
}
