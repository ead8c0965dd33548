/* SPDX-License-Identifier: BSD-3-Clause
 * Writes the plan after each pass, to files or as one text.  A dump that cannot be written does not
 * fail the call. */
#define _GNU_SOURCE /* O_CLOEXEC under any standard */
#include "jit/trace.h"

#include "passes/passes.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_BYTES = 6 }; /* bytes of the key in a folder's name, which has twelve digits */

/* Opens a directory, and makes it if it is absent.  Refuses a directory that another user owns,
 * except root unless `own` is set.  O_NOFOLLOW, because anybody may have planted a link.  Returns
 * -1 on failure, with the reason in *why or errno. */
static int open_folder(int at, const char *name, bool own, const char **why)
{
    struct stat st;
    int fd;

    *why = NULL;
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return -1;
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOTDIR && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode))
            *why = "it is a link";
        return -1;
    }
    if (fstat(fd, &st) == 0 && (st.st_uid == geteuid() || (!own && st.st_uid == 0)))
        return fd;
    close(fd);
    *why = "it belongs to another user";
    return -1;
}

/* Opens the dump directory; -1 on failure, with the reason in *why or errno.  Removes trailing
 * slashes from its name, because they would follow a link in spite of O_NOFOLLOW. */
static int open_dump_dir(const char *dir, const char **why)
{
    char *name = strdup(dir);
    size_t n = name ? strlen(name) : 0;
    int fd = -1;

    while (n > 1 && name[n - 1] == '/')
        name[--n] = 0;
    if (name)
        fd = open_folder(AT_FDCWD, name, false, why);
    free(name);
    return fd;
}

/* Opens the folder for a kernel's dumps.  Returns its descriptor; 0 if there is none. */
int limber_dump_folder(const limber_context *ctx, const unsigned char key[KEY_BYTES])
{
    char hex[2 * FOLDER_BYTES + 1], line[400];
    const char *why = NULL;
    int top, fd = -1, high = 0;

    if (!ctx->tells.dump_dir)
        return 0;
    limber_key_hex(key, FOLDER_BYTES, hex);
    top = open_dump_dir(ctx->tells.dump_dir, &why);
    if (top >= 0)
        fd = open_folder(top, hex, true, &why);
    if (fd >= 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* never 0, which stands for no directory */
    if (high <= 0 && ctx->tells.verbose > 0) {
        snprintf(line, sizeof line, "limber: no dump in %.250s: %s", ctx->tells.dump_dir,
                 why ? why : strerror(errno));
        ctx->tells.log(ctx->tells.log_user, line);
    }
    if (fd >= 0)
        close(fd);
    if (top >= 0)
        close(top);
    return high > 0 ? high : 0;
}

/* Writes a new file.  An existing file with this name is removed first, since it may be a symbolic
 * or hard link. */
static void write_file(int folder, const char *name, const char *data, size_t size)
{
    int fd;

    unlinkat(folder, name, 0);
    fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) {
        limber_write(fd, data, size);
        close(fd);
    }
}

/* The `file` callback of a struct dump. trace: the struct trace. */
void limber_trace_file(void *trace, const char *name, const char *data, size_t size)
{
    struct trace *s = trace;

    if (s->folder && !strchr(name, '/'))
        write_file(s->folder, name, data, size);
}

/* Writes a text to the dump directory, and appends it to the text of all stages. */
static void add_file(struct trace *s, const char *name, const char *data)
{
    if (s->folder)
        write_file(s->folder, name, data, strlen(data));
    if (s->out)
        limber_text_add(s->out, "; %s\n%s\n", name, data);
}

/* Writes the plan after a pass to the dump, unless it is the same as after the last one. */
void limber_trace_stage(struct trace *s, int number, const char *pass, const struct plan *p)
{
    struct text now = { 0 };
    char name[64];

    if (!s->folder && !s->out)
        return;
    limber_plan_print(p, &now);
    if (now.failed || (s->last.s && strcmp(s->last.s, now.s) == 0)) {
        limber_text_clear(&now);
        return;
    }
    snprintf(name, sizeof name, "%02d-%s.lir", number, pass);
    add_file(s, name, now.s);
    limber_text_clear(&s->last);
    s->last = now;
}

/* The `visit` callback of a pass_watch: writes the plan after a pass, if the plan has changed. */
void limber_trace_pass(void *trace, const char *pass, const struct plan *p)
{
    for (size_t i = 0; i < limber_pass_count; i++)
        if (strcmp(limber_passes[i].name, pass) == 0)
            limber_trace_stage(trace, (int)i + 1, pass, p);
}

/* Adds a line on memory traffic for m = n = k = 512, 2048 and 8192. */
static void add_traffic(struct text *out, const struct plan *p, const struct target *t)
{
    const struct traffic small = limber_traffic(p, t, 512), middle = limber_traffic(p, t, 2048),
                         large = limber_traffic(p, t, 8192);

    if (small.bytes > 0)
        limber_text_add(out,
                        "traffic %.3f, %.3f, %.3f bytes a multiply-add at n = 512, 2048, 8192: "
                        "%.1f, %.1f, %.1f GB/s at the peak\n",
                        small.bytes, middle.bytes, large.bytes, small.rate * 1e-9,
                        middle.rate * 1e-9, large.rate * 1e-9);
}

/* Writes the file plan.txt of a dump: scheme, error bound, cost, refused schemes. */
void limber_trace_end(struct trace *s, const struct plan *p, const struct target *target)
{
    struct text t = { 0 };

    if (!s->folder && !s->out)
        return;
    limber_text_add(&t, "scheme  %s\n", p->scheme ? p->scheme : "none");
    limber_text_add(&t, "bound   %.6g |A||B| at k = 2^%d, allowed %.6g\n", p->spent, p->kbits,
                    limber_allowed_error(p, ldexp(1, p->kbits)));
    if (!isnan(p->cost))
        limber_text_add(&t, "cost    %.3g s for 2^30 multiply-adds\n", p->cost);
    add_traffic(&t, p, target);
    limber_text_add(&t, "pruned  %d\n", p->pruned);
    if (p->refused.s)
        limber_text_add(&t, "%s", p->refused.s);
    if (!t.failed)
        add_file(s, "plan.txt", t.s);
    limber_text_clear(&t);
}

/* Closes the directory and frees the latest stage. */
void limber_trace_clear(struct trace *s)
{
    if (s->folder)
        close(s->folder);
    limber_text_clear(&s->last);
}
