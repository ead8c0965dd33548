/* SPDX-License-Identifier: BSD-3-Clause
 * A mock libnvrtc: compiles kernels for the CPU with test/cuda/simt/device.h.  Its cubins are
 * shared objects after a header (image.h).
 * SIMT_PROGRAMS names a folder that gets the source of every program, so that NVRTC can compile it
 * elsewhere (test/cuda/collect.c).
 * SIMT_CXX names the compiler.  SIMT_CACHE names a folder that caches shared objects, for all
 * processes and builds, by source text and by preprocessed text.
 * SIMT_FAULT has lines of "old text=>new text", in which \n stands for a line's end.  Each replaces
 * a text that must occur exactly once in the source and the headers. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "test/cuda/simt/image.h"

#define EXPORT __attribute__((visibility("default")))

extern char **environ;

enum { OK, NO_MEMORY = 1, BAD_INPUT = 3, BAD_PROGRAM = 4, BAD_OPTION = 5, FAILED = 6 };

/* The source, or a header. */
struct text {
    char *name, *body;
};

/* A program and the results of its compilation. */
struct program {
    struct text *texts;         /* the source, then the headers */
    int count;
    char *log;
    char *image;
    size_t size;
};

/* Adds a line to the program's log. */
static void say(struct program *p, const char *format, ...)
{
    char *more = NULL, *all = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&more, format, args) < 0)
        more = NULL;
    va_end(args);
    if (asprintf(&all, "%s%s\n", p->log ? p->log : "", more ? more : "") >= 0) {
        free(p->log);
        p->log = all;
    }
    free(more);
}

/* ---- faults planted into the source ---------------------------------------------------------- */

/* Counts the occurrences of a text. */
static int occurrences(const char *body, const char *old)
{
    int n = 0;

    for (const char *at = body; (at = strstr(at, old)); at++)
        n++;
    return n;
}

/* Replaces the first occurrence of a text, which must exist. */
static void replace(char **body, const char *old, const char *new)
{
    char *at = strstr(*body, old), *out = NULL;

    if (asprintf(&out, "%.*s%s%s", (int)(at - *body), *body, new, at + strlen(old)) < 0)
        return;
    free(*body);
    *body = out;
}

/* Replaces each \n (two characters) by a line feed, in place. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++)
        if (s[0] == '\\' && s[1] == 'n') {
            *to++ = '\n';
            s++;
        } else {
            *to++ = *s;
        }
    *to = 0;
}

/* Plants a fault "old=>new" in the source or header where `old` occurs.  Returns false unless `old`
 * occurs exactly once in all. */
static bool plant(struct program *p, char *line)
{
    char *new = strstr(line, "=>");
    int found = 0, where = 0;

    if (!new || new == line) {
        say(p, "SIMT_FAULT: no \"old=>new\" in \"%s\"", line);
        return false;
    }
    *new = 0;
    new += 2;
    unescape(line);
    unescape(new);
    for (int i = 0; i < p->count; i++) {
        int n = occurrences(p->texts[i].body, line);

        found += n;
        where = n ? i : where;
    }
    if (found != 1) {
        say(p, "SIMT_FAULT: \"%s\" occurs %d times, not once", line, found);
        return false;
    }
    replace(&p->texts[where].body, line, new);
    return true;
}

/* Plants all faults of SIMT_FAULT, one in a line, in the program's texts.  Returns false if one
 * cannot be planted. */
static bool plant_all(struct program *p)
{
    const char *faults = getenv("SIMT_FAULT");
    char *copy, *save = NULL;
    bool good = true;

    if (!faults)
        return true;
    copy = strdup(faults);
    for (char *line = strtok_r(copy, "\n", &save); line && good; line = strtok_r(NULL, "\n", &save))
        good = plant(p, line);
    free(copy);
    return good;
}

/* ---- assembly that is interpreted instead ---------------------------------------------------- */

/* Returns the end of the string or comment that begins at p, or p if none begins there. */
static const char *skip_text(const char *p)
{
    if (p[0] == '/' && p[1] == '*')
        return strstr(p, "*/") + 2;
    if (*p != '"')
        return p;
    for (p++; *p != '"'; p++)
        p += *p == '\\';
    return p + 1;
}

/* Returns whether [p, end) is a constraint such as "=r" with a bracket just past it. */
static bool is_constraint(const char *p, const char *end)
{
    const char *letter = p + 1 + (p[1] == '=' || p[1] == '+');

    return *p == '"' && *end == '(' && end == letter + 2 && *letter >= 'a' && *letter <= 'z';
}

/* Copies text, and makes a function call of each constraint of an assembly operand. */
static void copy_marked(FILE *to, const char *p, const char *end)
{
    while (p < end) {
        const char *next = skip_text(p);

        if (next == p) {
            fputc(*p++, to);
            continue;
        }
        fprintf(to, "%.*s%s", (int)(next - p), p, is_constraint(p, next) ? "_c" : "");
        p = next;
    }
}

static bool is_blank(const char *p, const char *end)
{
    while (p < end && strchr(" \n\\", *p))
        p++;
    return p == end;
}

/* Translates asm ("text" : outputs : inputs : clobbers) to simt_asm("text", outputs, inputs).  p:
 * just past the opening bracket.  Returns the end of the statement. */
static const char *copy_assembly(FILE *to, const char *p)
{
    const char *part[5] = { p };
    int parts = 1, depth = 1;

    for (; depth; p++) {
        const char *next = skip_text(p);

        if (next > p)
            p = next - 1;
        else if (*p == '(')
            depth++;
        else if (*p == ')')
            depth--;
        else if (*p == ':' && depth == 1 && parts < 4)
            part[parts++] = p + 1;
    }
    fputs("simt_asm(", to);
    part[parts] = p;
    for (int i = 0; i < parts && i < 3; i++) {
        const char *end = part[i + 1] - 1;

        if (i && is_blank(part[i], end))
            continue;
        fputs(i ? ", " : "", to);
        copy_marked(to, part[i], end);
    }
    fputc(')', to);
    return p;
}

/* Returns the part of the kernels' device.h from its asm statements on, with each asm statement
 * as a call of simt_asm.  The simulation's own device.h replaces the part before. */
static char *play_assembly(const char *text)
{
    static const char mark[] = "#define LIMBER_ASSEMBLY";
    const char *p = strstr(text, mark), *next;
    char *out = NULL;
    size_t size;
    FILE *to;

    if (!p)
        return NULL;
    to = open_memstream(&out, &size);
    fputs("#include \"" SIMT_FOLDER "/device.h\"\n#if 1\n", to);
    while (*p) {
        const char *at = p;

        if (strncmp(p, "asm", 3) == 0 && (p[3] == '(' || p[3] == ' ')) {
            at += 3;
            if (strncmp(at, " volatile", 9) == 0)
                at += 9;
        }
        if (at > p && *at == '(') {
            p = copy_assembly(to, at + 1);
            continue;
        }
        next = skip_text(p);
        copy_marked(to, p, next > p ? next : p + 1);
        p = next > p ? next : p + 1;
    }
    fclose(to);
    return out;
}

/* ---- what was compiled before ---------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A program that this process has compiled before, and its image. */
static struct kept {
    struct kept *next;
    char *key, *image;
    size_t size;
} *kept;

/* Returns the major version of CUDA that SIMT_NVRTC sets. */
static uint32_t toolkit(void)
{
    const char *played = getenv("SIMT_NVRTC");

    return played ? (uint32_t)atoi(played) : 13;
}

/* Concatenates all texts and options on which a compilation's result depends. */
static char *make_key(const struct program *p, char **options)
{
    char *key = NULL;
    size_t size;
    FILE *f = open_memstream(&key, &size);

    for (int i = 0; i < p->count; i++)
        fprintf(f, "%s\1%s\1", p->texts[i].name, p->texts[i].body);
    for (int i = 0; options[i]; i++)
        fprintf(f, "%s\1", options[i]);
    fprintf(f, "%u", toolkit());
    fclose(f);
    return key;
}

/* Copies the image of a program that this process has compiled before; false if there is none. */
static bool find_kept(struct program *p, const char *key)
{
    const struct kept *k;

    pthread_mutex_lock(&lock);
    for (k = kept; k && strcmp(k->key, key) != 0; k = k->next)
        ;
    if (k) {
        p->image = malloc(k->size);
        memcpy(p->image, k->image, k->size);
        p->size = k->size;
    }
    pthread_mutex_unlock(&lock);
    return k != NULL;
}

/* Keeps a compiled image under its key.  Takes ownership of the key. */
static void keep_image(const struct program *p, char *key)
{
    struct kept *k = malloc(sizeof *k);

    *k = (struct kept){ NULL, key, malloc(p->size), p->size };
    memcpy(k->image, p->image, p->size);
    pthread_mutex_lock(&lock);
    k->next = kept;
    kept = k;
    pthread_mutex_unlock(&lock);
}

/* ---- running the host's compiler ------------------------------------------------------------- */

/* Writes a file into a folder, and creates missing folders.  Returns false on failure. */
static bool write_text(const char *folder, const char *name, const char *body)
{
    char path[1024];
    FILE *f;
    bool good;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    f = fopen(path, "w");
    if (!f)
        return false;
    good = fputs(body, f) >= 0;
    return fclose(f) == 0 && good;
}

/* Reads a file into a new buffer, with `front` free bytes before its contents.  Returns NULL on
 * failure. */
static char *read_all(const char *path, size_t front, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *p = NULL;
    size_t got = 0, room = 0;

    if (!f)
        return NULL;
    for (;;) {
        if (got + 1 >= room) {
            room = room ? 2 * room : 65536;
            p = realloc(p, front + room);
        }
        size_t n = fread(p + front + got, 1, room - got - 1, f);

        if (!n)
            break;
        got += n;
    }
    fclose(f);
    p[front + got] = 0;
    *size = got;
    return p;
}

static void remove_folder(const char *folder)
{
    char *argv[] = { "rm", "-rf", (char *)folder, NULL };
    pid_t pid;
    int status;

    if (posix_spawnp(&pid, "rm", NULL, NULL, argv, environ) == 0)
        waitpid(pid, &status, 0);
}

/* Runs the compiler; its messages become the program's log.  Returns whether it succeeded. */
static bool run_compiler(struct program *p, const char *folder, char **argv)
{
    posix_spawn_file_actions_t actions;
    char path[1024];
    size_t size;
    pid_t pid;
    int status = -1, error;

    snprintf(path, sizeof path, "%s/simt.log", folder);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        say(p, "%s: %s", argv[0], strerror(error));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0) {
        char *log = read_all(path, 0, &size);

        say(p, "%s", log ? log : "the compiler failed without a word");
        free(log);
    }
    return status == 0;
}

/* Reads the compiled library as the program's image, and puts a header before it.  Returns false on
 * failure. */
static bool take_image(struct program *p, const char *path)
{
    struct image head = { SIMT_IMAGE, 0, toolkit(), 0 };
    size_t size;
    char *bytes = read_all(path, sizeof head, &size);

    if (!bytes) {
        say(p, "%s: %s", path, strerror(errno));
        return false;
    }
    head.size = size;
    memcpy(bytes, &head, sizeof head);
    p->image = bytes;
    p->size = size + sizeof head;
    return true;
}

enum { MOST_OPTIONS = 64 };

/* Translates NVRTC's options for the host's compiler: copies -D, makes macros of the architecture,
 * ignores others.  Returns false for an unknown architecture. */
static bool translate_options(struct program *p, int count, const char *const *given, char **out)
{
    static const struct {
        const char *name;
        char *macros[2];
        uint32_t since; /* first major version of CUDA that knows the architecture; 0: all */
    } archs[] = {
        { "_75", { "-D__CUDA_ARCH__=750" } },
        { "_80", { "-D__CUDA_ARCH__=800" } },
        { "_86", { "-D__CUDA_ARCH__=860" } },
        { "_89", { "-D__CUDA_ARCH__=890" } },
        { "_90", { "-D__CUDA_ARCH__=900" } },
        { "_70", { "-D__CUDA_ARCH__=700" } },
        { "_90a", { "-D__CUDA_ARCH__=900", "-D__CUDA_ARCH_FEAT_SM90_ALL" } },
        { "_100", { "-D__CUDA_ARCH__=1000" }, 13 },
        { "_100a", { "-D__CUDA_ARCH__=1000", "-D__CUDA_ARCH_FEAT_SM100_ALL" }, 13 },
        { "_103a", { "-D__CUDA_ARCH__=1030", "-D__CUDA_ARCH_FEAT_SM103_ALL" }, 13 },
        { "_120", { "-D__CUDA_ARCH__=1200" }, 13 },
        { "_120f", { "-D__CUDA_ARCH__=1200", "-D__CUDA_ARCH_FAMILY_SPECIFIC__=1200" }, 13 },
    };
    int n = 0;
    bool found = false;

    for (int i = 0; i < count && n < MOST_OPTIONS - 4; i++) {
        const char *value = strchr(given[i], '=');

        if (strncmp(given[i], "-D", 2) == 0) {
            out[n++] = (char *)given[i];
            continue;
        }
        if (strncmp(given[i], "--gpu-architecture=", 19) != 0 &&
            strncmp(given[i], "-arch=", 6) != 0)
            continue;
        value += strncmp(value, "=sm", 3) == 0 ? 3 : strncmp(value, "=compute", 8) == 0 ? 8 : 0;
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
            if (strcmp(archs[a].name, value) == 0 && archs[a].since <= toolkit()) {
                found = true;
                for (int m = 0; m < 2 && archs[a].macros[m]; m++)
                    out[n++] = archs[a].macros[m];
            }
    }
    if (!found)
        say(p, "no --gpu-architecture that is known here");
    out[n] = NULL;
    return found;
}

/* Optimisation is off, because compiling takes ten times as long as running.  No option names the
 * architecture, since the preprocessor has expanded its macros already. */
static const char *const compiler_options[] = {
    "-x",
    "c++",
    "-std=c++17",
    "-O0",
    "-w",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fvisibility=hidden",
    "-nostdinc++",
    "-ftrivial-auto-var-init=pattern",
    "-D__CUDACC_RTC__",
    ("-I" SIMT_FOLDER),
};

/* Begins a hash over the compiler's file and its options. */
static XXH3_state_t *begin_hash(const char *compiler)
{
    XXH3_state_t *state = XXH3_createState();
    struct stat about = { 0 };

    stat(compiler, &about);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, compiler, strlen(compiler) + 1);
    XXH3_128bits_update(state, &about.st_size, sizeof about.st_size);
    XXH3_128bits_update(state, &about.st_mtim, sizeof about.st_mtim);
    for (size_t i = 0; i < sizeof compiler_options / sizeof *compiler_options; i++)
        XXH3_128bits_update(state, compiler_options[i], strlen(compiler_options[i]) + 1);
    return state;
}

/* Makes the path in the cache for a hash. */
static void end_hash(XXH3_state_t *state, char place[1024])
{
    XXH128_hash_t hash = XXH3_128bits_digest(state);

    XXH3_freeState(state);
    snprintf(place, 1024, "%s/%016llx%016llx.so", getenv("SIMT_CACHE"),
             (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* Adds a file's contents to a hash.  Returns false if the file cannot be read. */
static bool hash_file(XXH3_state_t *state, const char *path)
{
    size_t size;
    char *text = read_all(path, 0, &size);

    if (text)
        XXH3_128bits_update(state, text, size);
    free(text);
    return text != NULL;
}

/* Makes the cache path for the preprocessed text in the file `path`.  Returns false if the file
 * cannot be read. */
static bool cached_place(const char *compiler, const char *path, char place[1024])
{
    XXH3_state_t *state = begin_hash(compiler);
    bool good = hash_file(state, path);

    end_hash(state, place);
    return good;
}

/* Makes the cache path for a program's source and options.  If that file exists, the preprocessor,
 * which takes most of the time, need not run. */
static void direct_place(const char *compiler, const struct program *p, char **options,
                         const char *folder, char place[1024])
{
    XXH3_state_t *state = begin_hash(compiler);
    char path[600];

    for (int i = 0; options[i]; i++)
        XXH3_128bits_update(state, options[i], strlen(options[i]) + 1);
    for (int i = 0; i < p->count; i++) {
        const char *name = i ? p->texts[i].name : "simt-source.cu";

        snprintf(path, sizeof path, "%s/%s", folder, name);
        XXH3_128bits_update(state, name, strlen(name) + 1);
        hash_file(state, path);
    }
    hash_file(state, SIMT_FOLDER "/device.h");
    hash_file(state, SIMT_FOLDER "/api.h");
    end_hash(state, place);
}

/* Stores an image atomically.  Errors are ignored. */
static void store_image(const struct program *p, const char *place)
{
    char path[1100];
    FILE *f;
    bool good;

    snprintf(path, sizeof path, "%s.%d", place, (int)getpid());
    f = fopen(path, "wb");
    if (!f)
        return;
    good = fwrite(p->image + sizeof(struct image), 1, p->size - sizeof(struct image), f) ==
           p->size - sizeof(struct image);
    good = fclose(f) == 0 && good;
    if (!good || rename(path, place) != 0)
        remove(path);
}

/* Compiles a program with the host's compiler, or copies its image from a cache.  Returns false if
 * there are errors. */
static bool compile(struct program *p, char **options)
{
    const char *tmp = getenv("TMPDIR"), *cxx = getenv("SIMT_CXX"), *cache = getenv("SIMT_CACHE");
    char folder[512], include[600], source[600], text[600], output[600], place[1024];
    char direct[1024] = "";
    char *argv[MOST_OPTIONS + 32] = { (char *)(cxx ? cxx : SIMT_COMPILER) };
    int n = 1, language, from, text_only;
    bool good = true, found = false;

    snprintf(folder, sizeof folder, "%s/simt-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        say(p, "%s: %s", folder, strerror(errno));
        return false;
    }
    snprintf(include, sizeof include, "-I%s", folder);
    snprintf(source, sizeof source, "%s/simt-source.cu", folder);
    for (size_t i = 0; i < sizeof compiler_options / sizeof *compiler_options; i++)
        argv[n++] = (char *)compiler_options[i];
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma"))
        argv[n++] = "-mfma";
#endif
    for (int i = 0; options[i]; i++)
        argv[n++] = options[i];
    argv[n++] = include;
    argv[n++] = "-x";
    argv[language = n++] = "c++";
    argv[from = n++] = source;
    argv[n++] = "-o";
    argv[n++] = output;
    argv[text_only = n++] = "-lm";
    for (int i = 0; i < p->count && good; i++) {
        char *played = i ? play_assembly(p->texts[i].body) : NULL;

        good = write_text(folder, i ? p->texts[i].name : "simt-source.cu",
                          played ? played : p->texts[i].body);
        free(played);
    }
    if (!good)
        say(p, "%s: %s", folder, strerror(errno));
    if (good && cache && *cache) {
        direct_place(argv[0], p, options, folder, direct);
        found = access(direct, R_OK) == 0 && take_image(p, direct);
    }
    snprintf(place, sizeof place, "%s", direct);
    /* a second cache, with the preprocessed text as key: programs with different unused headers
     * may have the same text */
    if (good && !found && cache && *cache && p->count > 2) {
        snprintf(text, sizeof text, "%s/simt-text", folder);
        snprintf(output, sizeof output, "%s", text);
        argv[text_only] = "-E";
        argv[n] = "-P";
        good = run_compiler(p, folder, argv);
        argv[text_only] = "-lm";
        argv[n] = NULL;
        good = good && cached_place(argv[0], output, place);
        found = good && access(place, R_OK) == 0 && take_image(p, place);
        argv[language] = "c++-cpp-output";
        argv[from] = text;
    }
    if (good && !found) {
        snprintf(output, sizeof output, "%s/simt-object.so", folder);
        good = run_compiler(p, folder, argv);
        /* compile the original source, so that errors name its lines */
        if (!good && argv[from] == text) {
            free(p->log);
            p->log = NULL;
            argv[language] = "c++";
            argv[from] = source;
            good = run_compiler(p, folder, argv);
        }
        good = good && take_image(p, output);
        if (good && cache && *cache)
            store_image(p, place);
    }
    if (good && cache && *cache)
        (void)!link(place, direct); /* fails if the name exists, or if the disk is full */
    remove_folder(folder);
    return good;
}

/* ---- programs for NVRTC ---------------------------------------------------------------------- */

/* Writes a program to SIMT_PROGRAMS: the architecture after "//", then the source. */
static void record_program(const struct program *p, int count, const char *const *options)
{
    const char *folder = getenv("SIMT_PROGRAMS"), *source = p->texts[0].body, *arch = "";
    char path[1024], beside[1100];
    XXH128_hash_t hash;
    FILE *f;
    bool good;

    if (!folder || getenv("SIMT_FAULT"))
        return;
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], "--gpu-architecture=", 19) == 0)
            arch = options[i] + 19;
    hash = XXH3_128bits(source, strlen(source));
    snprintf(path, sizeof path, "%s/%s-%016llx%016llx.cu", folder, arch,
             (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid());
    f = fopen(beside, "w");
    if (!f)
        return;
    good = fprintf(f, "//%s\n%s", arch, source) >= 0;
    good = fclose(f) == 0 && good;
    if (!good || rename(beside, path) != 0)
        remove(beside);
}

/* ---- NVRTC's interface ----------------------------------------------------------------------- */

EXPORT int nvrtcVersion(int *major, int *minor)
{
    *major = (int)toolkit();
    *minor = 0;
    return OK;
}

EXPORT int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 7;
    return OK;
}

EXPORT int nvrtcGetSupportedArchs(int *archs)
{
    static const int known[] = { 75, 80, 86, 89, 90, 100, 120 };

    memcpy(archs, known, sizeof known);
    return OK;
}

EXPORT const char *nvrtcGetErrorString(int code)
{
    static const char *const names[] = { "NVRTC_SUCCESS",
                                         "NVRTC_ERROR_OUT_OF_MEMORY",
                                         "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                         "NVRTC_ERROR_INVALID_INPUT",
                                         "NVRTC_ERROR_INVALID_PROGRAM",
                                         "NVRTC_ERROR_INVALID_OPTION",
                                         "NVRTC_ERROR_COMPILATION" };

    return code >= 0 && code <= FAILED ? names[code] : "NVRTC_ERROR unknown";
}

/* Creates a program with copies of its texts: texts[0] is the source, texts[1 + i] is header i. */
EXPORT int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int count,
                              const char *const *headers, const char *const *names)
{
    struct program *p;

    if (!out || !source || count < 0 || (count && (!headers || !names)))
        return BAD_INPUT;
    p = calloc(1, sizeof *p);
    p->texts = calloc((size_t)count + 1, sizeof *p->texts);
    p->texts[0] = (struct text){ strdup(name ? name : "default_program"), strdup(source) };
    for (int i = 0; i < count; i++)
        p->texts[i + 1] = (struct text){ strdup(names[i]), strdup(headers[i]) };
    p->count = count + 1;
    *out = p;
    return OK;
}

/* Frees a program and sets the caller's pointer to NULL. */
EXPORT int nvrtcDestroyProgram(struct program **program)
{
    struct program *p = program ? *program : NULL;

    if (!p)
        return BAD_PROGRAM;
    for (int i = 0; i < p->count; i++) {
        free(p->texts[i].name);
        free(p->texts[i].body);
    }
    free(p->texts);
    free(p->log);
    free(p->image);
    free(p);
    *program = NULL;
    return OK;
}

/* Compiles a program: plants the faults that are asked for, then looks for an image that this
 * process has made before, else compiles. */
EXPORT int nvrtcCompileProgram(struct program *p, int count, const char *const *given)
{
    char *options[MOST_OPTIONS], *key;

    if (!p)
        return BAD_PROGRAM;
    if (!translate_options(p, count, given, options))
        return BAD_OPTION;
    record_program(p, count, given);
    if (!plant_all(p))
        return FAILED;
    key = make_key(p, options);
    if (find_kept(p, key)) {
        free(key);
        return OK;
    }
    if (!compile(p, options)) {
        free(key);
        return FAILED;
    }
    keep_image(p, key);
    return OK;
}

EXPORT int nvrtcGetProgramLogSize(struct program *p, size_t *size)
{
    *size = p && p->log ? strlen(p->log) + 1 : 1;
    return p ? OK : BAD_PROGRAM;
}

EXPORT int nvrtcGetProgramLog(struct program *p, char *log)
{
    strcpy(log, p && p->log ? p->log : "");
    return p ? OK : BAD_PROGRAM;
}

EXPORT int nvrtcGetCUBINSize(struct program *p, size_t *size)
{
    if (!p || !p->image)
        return BAD_PROGRAM;
    *size = p->size;
    return OK;
}

EXPORT int nvrtcGetCUBIN(struct program *p, char *cubin)
{
    if (!p || !p->image)
        return BAD_PROGRAM;
    memcpy(cubin, p->image, p->size);
    return OK;
}

EXPORT int nvrtcGetPTXSize(struct program *p, size_t *size)
{
    return nvrtcGetCUBINSize(p, size);
}

EXPORT int nvrtcGetPTX(struct program *p, char *ptx)
{
    return nvrtcGetCUBIN(p, ptx);
}
