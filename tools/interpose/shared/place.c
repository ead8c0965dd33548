/* SPDX-License-Identifier: BSD-3-Clause
 * Where a process's report goes.  Several processes of a program may have one LIMBER_REPORT; none
 * replaces what another wrote. */
#define _GNU_SOURCE     /* getline under any standard */
#include "tools/interpose/shared/interpose.h"

#include <limber/environment.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static pid_t first_process;
static bool beside_parent; /* the process that started this one reports to the same file */

const char *interpose_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                         "SLURM_PROCID" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (limber_variable_value(names[i]))
            return limber_variable_value(names[i]);
    return NULL;
}

void interpose_host(char *name, size_t size)
{
    if (gethostname(name, size) != 0)
        *name = 0;
    name[size - 1] = 0;
}

bool interpose_is_blas(const char *path)
{
    static const char *const words[] = { "blas", "blis", "mkl_", "atlas", "armpl", "lapack" };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return !strstr(name, interpose_name);
    return false;
}

/* Whether one of the file's texts, which end with `end`, is as wanted. */
static bool some(const char *file, int end, bool (*is_wanted)(const char *text, const void *user),
                 const void *user)
{
    FILE *f = fopen(file, "re");
    char *text = NULL;
    size_t room = 0;
    bool found = false;

    while (f && !found && getdelim(&text, &room, end, f) >= 0) {
        text[strcspn(text, "\n")] = 0;
        found = is_wanted(text, user);
    }
    free(text);
    if (f)
        fclose(f);
    return found;
}

static bool is_equal(const char *text, const void *other)
{
    return strcmp(text, other) == 0;
}

static bool has(const char *text, const void *part)
{
    return strstr(text, part);
}

static bool names_blas(const char *text, const void *unused)
{
    (void)unused;
    return interpose_is_blas(text);
}

static bool has_same(const char *environment, const char *name)
{
    const char *value = limber_variable_value(name);
    char line[4096];

    snprintf(line, sizeof line, "%s=%s", name, value ? value : "");
    return !value || some(environment, '\0', is_equal, line);
}

/* A shell that starts a program makes no calls and leaves the name to it; so the parent counts only
 * with a BLAS. */
static bool parent_reports(void)
{
    char environment[64], maps[64];

    snprintf(environment, sizeof environment, "/proc/%ld/environ", (long)getppid());
    snprintf(maps, sizeof maps, "/proc/%ld/maps", (long)getppid());
    return has_same(environment, "LIMBER_REPORT") && has_same(environment, "LIMBER_CONFIG") &&
           some(maps, '\n', has, interpose_name) && some(maps, '\n', names_blas, NULL);
}

__attribute__((constructor)) static void note_process(void)
{
    const bool may =
        limber_variable_value("LIMBER_REPORT") || limber_variable_value("LIMBER_CONFIG");
    const int before = errno;

    first_process = getpid();
    beside_parent = may && parent_reports();
    errno = before;
}

bool interpose_is_first(void)
{
    return getpid() == first_process && !beside_parent;
}

void interpose_place(const char *pattern, char *path, size_t size)
{
    const char *number = interpose_rank();
    char name[256] = "";
    size_t n = 0;

    interpose_host(name, sizeof name);
    for (const char *s = pattern; *s && n + 1 < size; s++) {
        if (*s != '%' || !s[1]) {
            path[n++] = *s;
            continue;
        }
        s++;
        n += (size_t)(*s == 'p' ? snprintf(path + n, size - n, "%ld", (long)getpid()) :
                      *s == 'h' ? snprintf(path + n, size - n, "%s", name) :
                      *s == 'r' ? snprintf(path + n, size - n, "%s", number ? number : "0") :
                                  snprintf(path + n, size - n, "%c", *s));
    }
    n = n < size ? n : size - 1;
    path[n] = 0;
    if (strstr(pattern, "%p") || strstr(pattern, "%r"))
        return;
    if (number && n < size)
        n += (size_t)snprintf(path + n, size - n, ".%s", number);
    if (!interpose_is_first() && n < size)
        snprintf(path + n, size - n, ".%ld", (long)getpid());
}

bool interpose_can_rewrite(const char *pattern)
{
    char path[4096];
    struct stat s;

    interpose_place(pattern, path, sizeof path);
    return lstat(path, &s) ? errno == ENOENT : S_ISREG(s.st_mode);
}
