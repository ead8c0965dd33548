/* SPDX-License-Identifier: BSD-3-Clause
 * NumPy's .npz: a ZIP archive of .npy files, stored or deflated.  Source: PKWARE's APPNOTE 6.3.10,
 * sections 4.3 and 4.5.3.  Sizes are read from the central directory; those of local headers are
 * ignored. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <zlib.h>

enum {
    END_SIZE = 22,
    LONGEST_COMMENT = 65535,
    ENTRY_SIZE = 46,
    HEAD_SIZE = 30,
    STORED = 0,
    DEFLATED = 8,
    MOST_PACKED = 1032, /* most bytes that deflate makes of a compressed byte */
    NAMES_SHOWN = 400
};

static const char member_name[] = "arr_0.npy"; /* numpy.savez's name for the first array */

/* A member of the archive, from the central directory. */
struct member {
    char name[256];
    uint64_t packed, bytes, at;
    uint32_t crc;
    unsigned method, flags;
};

/* Reads a little-endian number. */
static uint64_t read_number(const unsigned char *p, int bytes)
{
    uint64_t v = 0;

    while (bytes-- > 0)
        v = v << 8 | p[bytes];
    return v;
}

static bool report_error(const char *path, const char *what)
{
    complain("%s: %s", path, what);
    return false;
}

/* Finds the end-of-central-directory record, and from it the offset and size of the directory. */
static bool find_directory(FILE *f, const char *path, uint64_t *at, uint64_t *bytes)
{
    unsigned char *tail = malloc(END_SIZE + LONGEST_COMMENT);
    off_t size = fseeko(f, 0, SEEK_END) ? -1 : ftello(f);
    size_t n = size < END_SIZE + LONGEST_COMMENT ? (size_t)(size < 0 ? 0 : size) :
                                                   END_SIZE + LONGEST_COMMENT;
    bool found = false;

    if (!tail)
        return report_error(path, "out of memory");
    if (fseeko(f, size - (off_t)n, SEEK_SET) == 0 && fread(tail, 1, n, f) == n)
        for (size_t i = n >= END_SIZE ? n - END_SIZE + 1 : 0; i-- > 0 && !found;)
            if (memcmp(tail + i, "PK\5\6", 4) == 0 &&
                i + END_SIZE + read_number(tail + i + 20, 2) == n) {
                *bytes = read_number(tail + i + 12, 4);
                *at = read_number(tail + i + 16, 4);
                found = *at + *bytes <= (uint64_t)size;
            }
    free(tail);
    return found || report_error(path, "no whole .npz archive below 4 GB");
}

/* Reads the ZIP64 extra field, which has 64-bit values for those sizes and offsets that 32 bits
 * cannot hold, in the order of `fields`. */
static void read_wide(struct member *m, const unsigned char *extra, size_t n)
{
    uint64_t *const fields[] = { &m->bytes, &m->packed, &m->at };

    for (size_t used; n >= 4; extra += used, n -= used) {
        const unsigned char *v = extra + 4;

        used = 4 + (size_t)read_number(extra + 2, 2);
        if (used > n)
            return;
        if (read_number(extra, 2) != 1)
            continue;
        for (size_t i = 0; i < 3 && v + 8 <= extra + used; i++)
            if (*fields[i] == 0xffffffff) {
                *fields[i] = read_number(v, 8);
                v += 8;
            }
    }
}

/* Parses a directory entry at p.  Returns its size in bytes, or 0 if it is damaged. */
static size_t read_entry(const unsigned char *p, size_t left, struct member *m)
{
    size_t name, extra, all;

    if (left < ENTRY_SIZE || memcmp(p, "PK\1\2", 4))
        return 0;
    name = (size_t)read_number(p + 28, 2);
    extra = (size_t)read_number(p + 30, 2);
    all = ENTRY_SIZE + name + extra + (size_t)read_number(p + 32, 2);
    if (all > left || name == 0 || name >= sizeof m->name)
        return 0;
    memcpy(m->name, p + ENTRY_SIZE, name);
    m->name[name] = 0;
    if (name > 4 && strcmp(m->name + name - 4, ".npy") == 0)
        m->name[name - 4] = 0;
    m->flags = (unsigned)read_number(p + 8, 2);
    m->method = (unsigned)read_number(p + 10, 2);
    m->crc = (uint32_t)read_number(p + 16, 4);
    m->packed = read_number(p + 20, 4);
    m->bytes = read_number(p + 24, 4);
    m->at = read_number(p + 42, 4);
    read_wide(m, p + ENTRY_SIZE + name, extra);
    return all;
}

/* Finds the member `name` or, if that is NULL, the only member. */
static bool find_member(FILE *f, const char *path, const char *name, struct member *found)
{
    uint64_t at, bytes;
    unsigned char *directory, *p;
    char names[NAMES_SHOWN + 300] = "";
    int members = 0, matches = 0;
    bool whole = true;

    if (!find_directory(f, path, &at, &bytes))
        return false;
    directory = malloc(bytes + 1);
    if (!directory || fseeko(f, (off_t)at, SEEK_SET) || fread(directory, 1, bytes, f) != bytes) {
        free(directory);
        return report_error(path, "the archive's directory cannot be read");
    }
    p = directory;
    while (whole && p < directory + bytes) {
        struct member m;
        size_t n = read_entry(p, (size_t)(directory + bytes - p), &m), used = strlen(names);

        whole = n > 0;
        if (!whole)
            break;
        if (used < NAMES_SHOWN)
            snprintf(names + used, sizeof names - used, "%s%s", members ? ", " : "", m.name);
        members++;
        if (!name || strcmp(name, m.name) == 0) {
            *found = m;
            matches++;
        }
        p += n;
    }
    free(directory);
    if (!whole)
        return report_error(path, "the archive's directory is damaged");
    if (matches == 1)
        return true;
    if (members == 0)
        return report_error(path, "the archive is empty");
    if (name)
        complain("%s: no array is called \"%s\"; there are %s", path, name, names);
    else
        complain("%s: holds %d arrays; say one as FILE.npz:NAME, of %s", path, members, names);
    return false;
}

/* Inflates a member into memory of its size.  Returns false if it is damaged. */
static bool inflate_all(unsigned char *to, const struct member *m, const unsigned char *from)
{
    z_stream z = { .next_in = (unsigned char *)(uintptr_t)from,
                   .avail_in = (unsigned)m->packed,
                   .next_out = to,
                   .avail_out = (unsigned)m->bytes };
    bool ok = inflateInit2(&z, -MAX_WBITS) == Z_OK;

    ok = ok && inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == m->bytes;
    inflateEnd(&z);
    return ok;
}

/* Returns the uncompressed bytes of a member, which the caller frees.  On failure prints a message
 * and returns NULL. */
static unsigned char *unpack(FILE *f, const char *path, const struct member *m)
{
    unsigned char head[HEAD_SIZE], *packed = NULL, *all = NULL;
    off_t size = fseeko(f, 0, SEEK_END) ? -1 : ftello(f);
    const char *why = "the archive is damaged";
    bool ok = m->packed <= (uint64_t)size && m->at <= (uint64_t)size && size >= 0 &&
              m->bytes / MOST_PACKED <= m->packed;

    if (m->method != STORED && m->method != DEFLATED) {
        ok = false;
        why = "its compression is neither none nor deflate";
    } else if (m->flags & 1) {
        ok = false;
        why = "it is encrypted";
    } else if (m->bytes > UINT32_MAX || (int64_t)m->bytes > memory_here()) {
        ok = false;
        why = "the array has 4 GB or more; save it as .npy";
    }
    ok = ok && fseeko(f, (off_t)m->at, SEEK_SET) == 0 &&
         fread(head, 1, HEAD_SIZE, f) == HEAD_SIZE && memcmp(head, "PK\3\4", 4) == 0 &&
         fseeko(f, (off_t)(read_number(head + 26, 2) + read_number(head + 28, 2)), SEEK_CUR) == 0;
    ok = ok && (packed = malloc(m->packed + 1)) && fread(packed, 1, m->packed, f) == m->packed;
    if (ok && m->method == STORED) {
        ok = m->packed == m->bytes;
        all = packed;
        packed = NULL;
    } else if (ok) {
        all = malloc(m->bytes + 1);
        ok = all && inflate_all(all, m, packed);
    }
    ok = ok && crc32(crc32(0, NULL, 0), all, (unsigned)m->bytes) == m->crc;
    free(packed);
    if (ok)
        return all;
    free(all);
    complain("%s: %s: %s", path, m->name, why);
    return NULL;
}

/* Reads an array from a .npz archive.  On failure prints a message and returns false. */
bool npz_read(FILE *f, const char *path, const char *name, struct array *a)
{
    struct member m;
    unsigned char *all;
    char what[4500];
    FILE *in;
    bool ok;

    if (!find_member(f, path, name, &m) || !(all = unpack(f, path, &m)))
        return false;
    snprintf(what, sizeof what, "%s: %s", path, m.name);
    in = m.bytes > 6 && memcmp(all, "\x93NUMPY", 6) == 0 ? fmemopen(all, m.bytes, "rb") : NULL;
    ok = in ? npy_read(in, what, a) : report_error(what, "is no .npy");
    if (in)
        fclose(in);
    free(all);
    return ok;
}

/* ---- writing a .npz file --------------------------------------------------------------------- */

static unsigned char *put_number(unsigned char *p, uint64_t v, int bytes)
{
    for (; bytes-- > 0; v >>= 8)
        *p++ = (unsigned char)v;
    return p;
}

/* Writes the fields that local headers and directory entries share, from the version to the length
 * of the extra field.  The date is 1 January 1980. */
static unsigned char *put_common_fields(unsigned char *p, uint32_t crc, uint64_t bytes)
{
    p = put_number(p, 20, 2);
    p = put_number(p, 0, 2);
    p = put_number(p, STORED, 2);
    p = put_number(p, 0, 2);
    p = put_number(p, 1 << 5 | 1, 2);
    p = put_number(p, crc, 4);
    p = put_number(p, bytes, 4);
    p = put_number(p, bytes, 4);
    p = put_number(p, sizeof member_name - 1, 2);
    return put_number(p, 0, 2);
}

/* Writes an array as the only, uncompressed member of a .npz archive.  On failure prints a message
 * and returns false. */
bool npz_write(FILE *f, const char *path, const struct array *a)
{
    unsigned char head[HEAD_SIZE], entry[ENTRY_SIZE], end[END_SIZE], *p;
    size_t bytes = 0, name = sizeof member_name - 1;
    char *text = NULL;
    FILE *made = open_memstream(&text, &bytes);
    uint32_t crc;
    bool ok = made || report_error(path, "out of memory");

    ok = ok && npy_write(made, path, a);
    if (made && fclose(made) && ok)
        ok = report_error(path, "out of memory");
    if (ok && bytes > UINT32_MAX - 1024)
        ok = report_error(path, "the array has 4 GB or more; write .npy");
    if (ok) {
        crc = (uint32_t)crc32(crc32(0, NULL, 0), (const unsigned char *)text, (unsigned)bytes);
        put_common_fields(put_number(head, 0x04034b50, 4), crc, bytes);
        p = put_common_fields(put_number(put_number(entry, 0x02014b50, 4), 20, 2), crc, bytes);
        p = put_number(p, 0, 8); /* zeros for comment, disk and attributes */
        p = put_number(p, 0, 2);
        put_number(p, 0, 4);
        p = put_number(put_number(end, 0x06054b50, 4), 0, 4);
        p = put_number(put_number(p, 1, 2), 1, 2);
        p = put_number(put_number(p, ENTRY_SIZE + name, 4), HEAD_SIZE + name + bytes, 4);
        put_number(p, 0, 2);
        ok = fwrite(head, 1, HEAD_SIZE, f) == HEAD_SIZE &&
             fwrite(member_name, 1, name, f) == name && fwrite(text, 1, bytes, f) == bytes &&
             fwrite(entry, 1, ENTRY_SIZE, f) == ENTRY_SIZE &&
             fwrite(member_name, 1, name, f) == name && fwrite(end, 1, END_SIZE, f) == END_SIZE;
        if (!ok)
            report_error(path, "writing failed");
    }
    free(text);
    return ok;
}
