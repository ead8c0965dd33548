/* SPDX-License-Identifier: BSD-3-Clause
 * Precompiled cubins (machine code), which a program ships in the folder LIMBER_CUBINS.  Cubins
 * that NVRTC compiles are stored in the folder LIMBER_KEEP_CUBINS.
 *
 * A cubin is found by its architecture and by a hash of all inputs of NVRTC: source, headers,
 * options.  The hash depends on nothing else of a device, so devices of the same architecture share
 * cubins.  A file is a line of text, then the cubin:
 *
 *   limber-cubin 1 ARCHITECTURE NVRTC PROGRAM BYTES SUM
 *
 * NVRTC stands for NVRTC's version, PROGRAM for the hash of its inputs, and BYTES for the size of
 * the cubin.  SUM is a hash of the line up to this word and of the cubin.  It detects damage, but
 * not malice: whoever can write to the folder determines which code runs on the device. */
#define _GNU_SOURCE /* for asprintf */
#define XXH_INLINE_ALL
#include "backends/cuda/driver.h"
#include "backends/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

/* number of hexadecimal digits of a hash; largest number of bytes of a file's first line */
enum { HEX = 32, LINE = 128 };

/* ---- messages -------------------------------------------------------------------------------- */

/* Kinds of errors, each of which is printed at most once in a process: no cubin for the
 * architecture, a file that cannot be used, a file that cannot be written. */
enum trouble { TROUBLE_architecture, TROUBLE_entry, TROUBLE_keep, TROUBLES };

/* Prints a message to stderr, unless an error of this kind has been printed before. */
__attribute__((format(printf, 2, 3))) static void report_once(enum trouble which,
                                                              const char *format, ...)
{
    static atomic_bool said[TROUBLES];
    va_list args;

    if (atomic_exchange(&said[which], true))
        return;
    va_start(args, format);
    fputs("limber: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- file names: hashes of a program --------------------------------------------------------- */

/* Writes a 128-bit hash as hexadecimal digits. */
static void print_hex(XXH128_hash_t hash, char hex[HEX + 1])
{
    snprintf(hex, HEX + 1, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

/* Adds a string to a hash, with its closing zero, so that two strings cannot merge. */
static void hash_text(XXH3_state_t *state, const char *text)
{
    XXH3_128bits_update(state, text, strlen(text) + 1);
}

/* Hashes all inputs of NVRTC for a program: source, headers and options. */
static void hash_program(const struct cuda_program *p, char hex[HEX + 1])
{
    XXH3_state_t state;

    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &p->headers, sizeof p->headers);
    hash_text(&state, p->source);
    for (int i = 0; i < p->headers; i++) {
        hash_text(&state, p->header[i].name);
        hash_text(&state, p->header[i].text);
    }
    for (int i = 0; i < p->options; i++)
        hash_text(&state, p->option[i]);
    print_hex(XXH3_128bits_digest(&state), hex);
}

/* Hashes the first line of a file, without the hash at its end, and the cubin, to detect damage. */
static void hash_entry(const char *line, size_t length, const unsigned char *cubin, size_t size,
                       char hex[HEX + 1])
{
    XXH3_state_t state;

    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, line, length);
    XXH3_128bits_update(&state, cubin, size);
    print_hex(XXH3_128bits_digest(&state), hex);
}

/* ---- reading a cubin ------------------------------------------------------------------------- */

/* Reads a regular file into memory that the caller frees.  Returns NULL if it cannot be opened or
 * memory is short.  If reading stops early, *size is smaller than the file. */
static unsigned char *read_file(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    unsigned char *bytes = NULL;
    struct stat about;
    ssize_t got = 1;
    size_t at = 0;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        bytes = malloc((size_t)about.st_size + 1);
    while (bytes && at < (size_t)about.st_size && got > 0)
        if ((got = read(fd, bytes + at, (size_t)about.st_size - at)) > 0)
            at += (size_t)got;
    close(fd);
    *size = at;
    return bytes;
}

/* Returns a text that says why the bytes of a file are not the program's cubin, or NULL if they
 * are.  *begin: set to the offset of the cubin. */
static const char *find_fault(const struct cuda_program *p, const char *program,
                              const unsigned char *bytes, size_t size, size_t *begin)
{
    const struct cuda_driver *c = limber_cuda(&(struct diag){ 0 });
    const unsigned char *end = memchr(bytes, '\n', size < LINE ? size : LINE);
    char line[LINE + 1], sum[HEX + 1], want[LINE + 1];
    int major = 0, minor = 0, length;

    if (!end || end - bytes <= HEX)
        return "is no cubin of Limber's";
    *begin = (size_t)(end - bytes) + 1;
    memcpy(line, bytes, *begin - 1);
    line[*begin - 1] = 0;
    if (sscanf(line, "limber-cubin 1 %*15s %d.%d", &major, &minor) != 2)
        return "is no cubin of Limber's";
    length = snprintf(want, sizeof want, "limber-cubin 1 %s %d.%d %s %zu ", p->arch, major, minor,
                      program, size - *begin);
    if (length >= LINE - HEX || strncmp(line, want, (size_t)length) != 0)
        return "is of another program, or cut off";
    hash_entry(line, (size_t)length, bytes + *begin, size - *begin, sum);
    if (size == *begin || strcmp(line + length, sum) != 0)
        return "is damaged";
    return c && major > c->version / 1000 ? "is of an NVRTC that is newer than the driver" : NULL;
}

/* Reports a folder that cannot be opened, or has no cubin at all for this architecture and so was
 * probably made for other devices.  Reports nothing while cubins are being stored
 * (LIMBER_KEEP_CUBINS). */
static void report_missing_architecture(const char *folder, const char *arch)
{
    DIR *d = opendir(folder);
    size_t length = strlen(arch);
    bool found = limber_setting("LIMBER_KEEP_CUBINS") != NULL;

    if (!d && !found)
        report_once(TROUBLE_architecture, "LIMBER_CUBINS=%s: %s", folder, strerror(errno));
    if (!d)
        return;
    for (const struct dirent *e; !found && (e = readdir(d));)
        found = strncmp(e->d_name, arch, length) == 0 && e->d_name[length] == '-';
    closedir(d);
    if (!found)
        report_once(TROUBLE_architecture, "LIMBER_CUBINS=%s: no cubin there is for %s", folder,
                    arch);
}

/* Looks for the program's file in LIMBER_CUBINS, checks it and copies its cubin to *out.  Returns
 * false if there is no valid file. */
bool limber_cubin_find(const struct cuda_program *p, struct blob *out)
{
    const char *folder = limber_setting("LIMBER_CUBINS"), *why;
    char program[HEX + 1], *path = NULL;
    unsigned char *bytes;
    size_t size, begin = 0;

    if (!folder)
        return false;
    hash_program(p, program);
    if (asprintf(&path, "%s/%s-%s.cubin", folder, p->arch, program) < 0)
        return false;
    bytes = read_file(path, &size);
    if (!bytes) {
        report_missing_architecture(folder, p->arch);
    } else if ((why = find_fault(p, program, bytes, size, &begin))) {
        report_once(TROUBLE_entry, "LIMBER_CUBINS: %s %s, so it is not used", path, why);
    } else {
        memmove(bytes, bytes + begin, size - begin);
        *out = (struct blob){ bytes, size - begin };
    }
    if (!out->data)
        free(bytes);
    free(path);
    return out->data != NULL;
}

/* ---- storing a cubin ------------------------------------------------------------------------- */

/* Writes a temporary file and renames it, so that readers never see an incomplete file, even if
 * several processes write the same one.  Returns false if that fails. */
static bool write_file(const char *path, const char *line, const struct blob *cubin)
{
    char *beside = NULL;
    FILE *f = NULL;
    int fd = -1;
    bool ok;

    if (asprintf(&beside, "%s.%d", path, (int)getpid()) < 0)
        return false;
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    f = fd < 0 ? NULL : fdopen(fd, "wb");
    ok = f && fputs(line, f) >= 0 && fwrite(cubin->data, cubin->size, 1, f) == 1;
    if (f && fclose(f) != 0)
        ok = false;
    ok = ok && rename(beside, path) == 0;
    if (!ok && fd >= 0)
        unlink(beside);
    free(beside);
    return ok;
}

/* Writes a file with its first line and the cubin.  Does nothing if LIMBER_KEEP_CUBINS is not
 * set. */
void limber_cubin_keep(const struct cuda_program *p, int major, int minor, const struct blob *cubin)
{
    const char *folder = limber_setting("LIMBER_KEEP_CUBINS");
    char program[HEX + 1], sum[HEX + 1], line[LINE + 2], *path = NULL;
    int length;

    if (!folder)
        return;
    hash_program(p, program);
    length = snprintf(line, sizeof line, "limber-cubin 1 %s %d.%d %s %zu ", p->arch, major, minor,
                      program, cubin->size);
    hash_entry(line, (size_t)length, cubin->data, cubin->size, sum);
    snprintf(line + length, sizeof line - (size_t)length, "%s\n", sum);
    mkdir(folder, 0777);
    if (asprintf(&path, "%s/%s-%s.cubin", folder, p->arch, program) < 0)
        return;
    if (!write_file(path, line, cubin))
        report_once(TROUBLE_keep, "LIMBER_KEEP_CUBINS: %s: %s", path, strerror(errno));
    free(path);
}
