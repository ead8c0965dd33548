/* SPDX-License-Identifier: BSD-3-Clause
 * The way from the stated plan to the finished one, as files or as one text.  A dump that cannot
 * be written is no reason to fail a call. */
#define _GNU_SOURCE     /* O_CLOEXEC under any standard */
#include "jit/engine.h"

#include "passes/passes.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_BYTES = 6 };      /* of the key: twelve digits */

char *limber_dump_folder(const char *dir, const unsigned char key[KEY_BYTES])
{
    char hex[2 * FOLDER_BYTES + 1];
    struct text t = { 0 };

    limber_key_hex(key, FOLDER_BYTES, hex);
    limber_text_add(&t, "%s/%s", dir, hex);
    if (!t.failed && (mkdir(dir, 0777) == 0 || errno == EEXIST) &&
        (mkdir(t.s, 0777) == 0 || errno == EEXIST))
        return t.s;
    limber_text_clear(&t);
    return NULL;
}

static void write_file(const char *folder, const char *name, const char *data, size_t size)
{
    struct text path = { 0 };
    int fd;

    limber_text_add(&path, "%s/%s", folder, name);
    fd = path.failed ? -1 : open(path.s, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    while (fd >= 0 && size > 0) {
        ssize_t n = write(fd, data, size);

        if (n <= 0)
            break;
        data += n;
        size -= (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    limber_text_clear(&path);
}

void limber_story_file(void *story, const char *name, const char *data, size_t size)
{
    struct story *s = story;

    if (s->folder && !strchr(name, '/'))
        write_file(s->folder, name, data, size);
}

static void tell(struct story *s, const char *name, const char *data)
{
    if (s->folder)
        write_file(s->folder, name, data, strlen(data));
    if (s->out)
        limber_text_add(s->out, "; %s\n%s\n", name, data);
}

void limber_story_stage(struct story *s, int number, const char *pass, const struct plan *p)
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
    tell(s, name, now.s);
    limber_text_clear(&s->last);
    s->last = now;
}

void limber_story_seen(void *story, const char *pass, const struct plan *p)
{
    for (size_t i = 0; i < limber_pass_count; i++)
        if (strcmp(limber_passes[i].name, pass) == 0)
            limber_story_stage(story, (int)i + 1, pass, p);
}

void limber_story_end(struct story *s, const struct plan *p)
{
    struct text t = { 0 };

    if (!s->folder && !s->out)
        return;
    limber_text_add(&t, "scheme  %s\n", p->scheme ? p->scheme : "none");
    limber_text_add(&t, "bound   %.6g |A||B| at k = 2^%d, allowed %.6g\n", p->spent, p->kbits,
                    limber_budget(p, ldexp(1, p->kbits)));
    if (!isnan(p->cost))
        limber_text_add(&t, "cost    %.3g s for 2^30 multiply-adds\n", p->cost);
    limber_text_add(&t, "pruned  %d\n", p->pruned);
    if (p->refused.s)
        limber_text_add(&t, "%s", p->refused.s);
    if (!t.failed)
        tell(s, "plan.txt", t.s);
    limber_text_clear(&t);
}

void limber_story_clear(struct story *s)
{
    limber_text_clear(&s->last);
}
