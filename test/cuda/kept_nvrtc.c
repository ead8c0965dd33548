/* SPDX-License-Identifier: BSD-3-Clause
 * A cache in front of NVRTC: this library calls the installed NVRTC and stores logs and cubins in
 * the folder LIMBER_TEST_CUBINS.  An entry's name is a hash of all inputs (source, headers,
 * options) and of NVRTC's file.  Entries may be deleted at any time; damaged entries are made
 * again. Without the variable every program is compiled. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK, NO_MEMORY = 1, BAD_INPUT = 3, ABSENT = 100 };
/* The first four bytes of an entry's file. */
enum { HEAD = 0x6e727463 };

/* A program, with its log and cubin, which NVRTC made or an entry held. */
struct program {
    void *real;
    XXH3_state_t *key; /* state of the hash of source and headers */
    char *log, *cubin;
    size_t log_size, cubin_size;
};

/* Head of an entry's file; the compiler's log and the cubin follow. */
struct entry {
    uint64_t magic, log_size, cubin_size;
    XXH128_hash_t hash; /* hash of log and cubin */
};

/* The functions of the real NVRTC. */
static struct {
    int (*version)(int *, int *);
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*destroy)(void **);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*cubin_size)(void *, size_t *);
    int (*cubin)(void *, char *);
    const char *(*error)(int);
    XXH128_hash_t hash; /* hash of NVRTC's file */
} real;

/* Returns the hash of a file's contents; 0 if the file is empty or cannot be read. */
static XXH128_hash_t hash_file(const char *path)
{
    XXH128_hash_t hash = { 0, 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    void *bytes;

    if (fd < 0)
        return hash;
    if (fstat(fd, &info) == 0 && info.st_size > 0 &&
        (bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) != MAP_FAILED) {
        hash = XXH3_128bits(bytes, (size_t)info.st_size);
        munmap(bytes, (size_t)info.st_size);
    }
    close(fd);
    return hash;
}

/* Loads the installed NVRTC unless it has been loaded.  Returns false if there is none. */
static bool open_real(void)
{
    static const char *const names[] = { "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                         "/usr/local/cuda/lib64/libnvrtc.so" };
    void *handle = NULL;
    Dl_info info;

    if (real.create)
        return true;
    for (size_t i = 0; !handle && i < sizeof names / sizeof *names; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
#define GET(field, name) *(void **)&real.field = dlsym(handle, "nvrtc" name)
    GET(version, "Version");
    GET(destroy, "DestroyProgram");
    GET(compile, "CompileProgram");
    GET(log_size, "GetProgramLogSize");
    GET(log, "GetProgramLog");
    GET(cubin_size, "GetCUBINSize");
    GET(cubin, "GetCUBIN");
    GET(error, "GetErrorString");
    GET(create, "CreateProgram");
#undef GET
    if (real.create && dladdr(*(void **)&real.create, &info))
        real.hash = hash_file(info.dli_fname);
    return real.create != NULL;
}

/* ---- kept results of compilations ------------------------------------------------------------ */

/* Makes the path of a program's entry from the hash of sources and options.  Returns false if the
 * cache is off. */
static bool name_entry(const struct program *p, int count, const char *const *options, char *path,
                       size_t room)
{
    const char *folder = getenv("LIMBER_TEST_CUBINS");
    XXH128_hash_t hash;

    if (!folder || !*folder)
        return false;
    for (int i = 0; i < count; i++)
        XXH3_128bits_update(p->key, options[i], strlen(options[i]) + 1);
    hash = XXH3_128bits_digest(p->key);
    return snprintf(path, room, "%s/%016llx%016llx.nvrtc.kept", folder,
                    (unsigned long long)hash.high64, (unsigned long long)hash.low64) < (int)room;
}

/* Reads exactly `size` bytes; returns false if there are fewer, or on an error. */
static bool read_bytes(int fd, void *to, size_t size)
{
    for (ssize_t got; size; size -= (size_t)got, to = (char *)to + got)
        if ((got = read(fd, to, size)) <= 0)
            return false;
    return true;
}

/* Returns whether an entry that was read is complete and has the recorded hash.  Log and cubin
 * share one allocation, at p->log. */
static bool is_whole(const struct entry *e, struct program *p)
{
    XXH128_hash_t hash = XXH3_128bits(p->log, e->log_size + e->cubin_size);

    p->log_size = e->log_size;
    p->cubin_size = e->cubin_size;
    p->cubin = p->log + e->log_size;
    return XXH128_isEqual(hash, e->hash);
}

/* Loads the log and the cubin of a program from its entry.  Returns false if there is no intact
 * entry. */
static bool load(struct program *p, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct entry e;
    struct stat info;
    bool good;

    if (fd < 0)
        return false;
    good = fstat(fd, &info) == 0 && read_bytes(fd, &e, sizeof e) && e.magic == HEAD &&
           e.log_size <= (uint64_t)info.st_size && e.cubin_size <= (uint64_t)info.st_size &&
           sizeof e + e.log_size + e.cubin_size == (uint64_t)info.st_size &&
           (p->log = malloc(e.log_size + e.cubin_size + 1)) != NULL &&
           read_bytes(fd, p->log, e.log_size + e.cubin_size) && is_whole(&e, p);
    if (!good) {
        free(p->log);
        p->log = NULL;
    }
    close(fd);
    return good;
}

/* Stores an entry atomically: writes a temporary file and renames it. */
static void store(const struct program *p, const char *path)
{
    struct entry e;
    char beside[1100];
    FILE *file;
    int fd;
    bool good;

    memset(&e, 0, sizeof e);
    e.magic = HEAD;
    e.log_size = p->log_size;
    e.cubin_size = p->cubin_size;
    e.hash = XXH3_128bits(p->log, p->log_size + p->cubin_size);
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    fd = mkostemp(beside, O_CLOEXEC);
    file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file)
        return;
    good = fwrite(&e, sizeof e, 1, file) == 1 &&
           fwrite(p->log, p->log_size + p->cubin_size, 1, file) == 1;
    good = fclose(file) == 0 && good;
    if (!good || rename(beside, path))
        unlink(beside);
}

/* ---- NVRTC's interface, which this library stands in for ------------------------------------- */

EXPORT int nvrtcVersion(int *major, int *minor)
{
    *major = *minor = 0;
    return open_real() ? real.version(major, minor) : ABSENT;
}

EXPORT const char *nvrtcGetErrorString(int result)
{
    return result == ABSENT ? "no NVRTC is installed" : real.error(result);
}

/* Creates a program with the real NVRTC and begins the hash that is its key in the cache: of
 * NVRTC's file, the source and the headers. */
EXPORT int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int count,
                              const char *const *texts, const char *const *names)
{
    struct program *p = calloc(1, sizeof *p);
    int result;

    if (!p || !(p->key = XXH3_createState())) {
        free(p);
        return NO_MEMORY;
    }
    *out = p;
    if (!open_real())
        return OK; /* the compile call reports the failure */
    XXH3_128bits_reset(p->key);
    XXH3_128bits_update(p->key, &real.hash, sizeof real.hash);
    XXH3_128bits_update(p->key, &count, sizeof count);
    XXH3_128bits_update(p->key, source, strlen(source) + 1);
    for (int i = 0; i < count; i++) {
        XXH3_128bits_update(p->key, names[i], strlen(names[i]) + 1);
        XXH3_128bits_update(p->key, texts[i], strlen(texts[i]) + 1);
    }
    result = real.create(&p->real, source, name, count, texts, names);
    if (result) {
        XXH3_freeState(p->key);
        free(p);
    }
    return result;
}

EXPORT int nvrtcDestroyProgram(struct program **program)
{
    struct program *p = *program;

    if (p->real)
        real.destroy(&p->real);
    XXH3_freeState(p->key);
    free(p->log);
    free(p);
    *program = NULL;
    return OK;
}

/* Copies the log and, if the program compiled, the cubin from NVRTC. */
static int copy_results(struct program *p, bool compiled)
{
    int result = real.log_size(p->real, &p->log_size);

    if (!result && compiled)
        result = real.cubin_size(p->real, &p->cubin_size);
    if (result)
        return result;
    p->log = malloc(p->log_size + p->cubin_size + 1);
    if (!p->log)
        return NO_MEMORY;
    p->cubin = p->log + p->log_size;
    result = real.log(p->real, p->log);
    return result || !compiled ? result : real.cubin(p->real, p->cubin);
}

/* Takes the compiled program from the cache if it has an entry; else compiles it by the real NVRTC
 * and, on success, stores it. */
EXPORT int nvrtcCompileProgram(struct program *p, int count, const char *const *options)
{
    char path[1024];
    bool keeps;
    int result, taken;

    if (!p->real)
        return ABSENT;
    keeps = name_entry(p, count, options, path, sizeof path);
    if (keeps && load(p, path))
        return OK;
    result = real.compile(p->real, count, options);
    taken = copy_results(p, result == OK);
    if (result == OK && taken == OK && keeps)
        store(p, path);
    return result ? result : taken;
}

EXPORT int nvrtcGetProgramLogSize(struct program *p, size_t *size)
{
    *size = p->log_size;
    return OK;
}

EXPORT int nvrtcGetProgramLog(struct program *p, char *log)
{
    if (!p->log)
        return BAD_INPUT;
    memcpy(log, p->log, p->log_size);
    return OK;
}

EXPORT int nvrtcGetCUBINSize(struct program *p, size_t *size)
{
    *size = p->cubin_size;
    return OK;
}

EXPORT int nvrtcGetCUBIN(struct program *p, char *cubin)
{
    if (!p->cubin_size)
        return BAD_INPUT;
    memcpy(cubin, p->cubin, p->cubin_size);
    return OK;
}
