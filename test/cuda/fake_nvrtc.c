/* SPDX-License-Identifier: BSD-3-Clause
 * A fake NVRTC for test_kept_nvrtc: its cubin is the concatenation of its inputs, and it counts
 * compilations.  A source that is "wrong" does not compile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SIZE = 256 };

EXPORT int fake_compiled;

struct program {
    char got[SIZE], log[SIZE];
};

EXPORT int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return 0;
}

EXPORT const char *nvrtcGetErrorString(int result)
{
    return result ? "failed" : "good";
}

/* Creates a program whose "source" is the given source with the headers' names and texts appended,
 * each after a `|`. */
EXPORT int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int count,
                              const char *const *texts, const char *const *names)
{
    struct program *p = calloc(1, sizeof *p);

    (void)name;
    strcpy(p->got, source);
    for (int i = 0; i < count; i++) {
        strcat(strcat(p->got, "|"), names[i]);
        strcat(strcat(p->got, "|"), texts[i]);
    }
    *out = p;
    return 0;
}

EXPORT int nvrtcDestroyProgram(struct program **p)
{
    free(*p);
    *p = NULL;
    return 0;
}

EXPORT int nvrtcCompileProgram(struct program *p, int count, const char *const *options)
{
    fake_compiled++;
    for (int i = 0; i < count; i++)
        strcat(strcat(p->got, " "), options[i]);
    sprintf(p->log, "compiled %.100s", p->got);
    return strncmp(p->got, "wrong", 5) ? 0 : 6;
}

EXPORT int nvrtcGetProgramLogSize(struct program *p, size_t *size)
{
    *size = strlen(p->log) + 1;
    return 0;
}

EXPORT int nvrtcGetProgramLog(struct program *p, char *log)
{
    strcpy(log, p->log);
    return 0;
}

EXPORT int nvrtcGetCUBINSize(struct program *p, size_t *size)
{
    *size = strlen(p->got) + 1;
    return 0;
}

EXPORT int nvrtcGetCUBIN(struct program *p, char *cubin)
{
    strcpy(cubin, p->got);
    return 0;
}
