/* SPDX-License-Identifier: BSD-3-Clause
 * Counts a GPU kernel's instructions, in nvdisasm's text or in PTX.  A loop is what lies between a
 * label and a later branch to it. */
#define _GNU_SOURCE
#include "tools/figures/ladder_code.h"
#include "tools/cli/cli.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

/* ---- nvdisasm -------------------------------------------------------------------------------- */

/* Reads a descriptor to its end.  The caller frees the text; NULL if memory runs out. */
static char *read_text(int fd)
{
    FILE *f = fdopen(fd, "r");
    char *text = NULL;
    size_t room = 0;

    if (!f) {
        close(fd);
        return NULL;
    }
    if (getdelim(&text, &room, 0, f) < 0) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* Runs one file of nvdisasm on the descriptor `cubin`.  Returns its text or NULL. */
static char *run_nvdisasm(const char *file, int cubin)
{
    enum { KEPT = 3 }; /* the descriptor under which the child has the cubin */
    char *command[] = { (char *)(uintptr_t)file, "-c", "/proc/self/fd/3", NULL };
    posix_spawn_file_actions_t actions;
    char *text = NULL;
    int ends[2], error;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC))
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, cubin, KEPT);
    error = posix_spawnp(&child, file, &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return NULL;
    }
    text = read_text(ends[0]);
    if (child_status(child) == 0)
        return text;
    free(text);
    return NULL;
}

char *ladder_disassemble(const void *cubin, size_t size)
{
    static const char *const files[] = { "nvdisasm", "/usr/local/cuda/bin/nvdisasm" };
    int made = memfd_create("cubin", MFD_CLOEXEC), fd = made < 0 ? -1 : fcntl(made, F_DUPFD, 10);
    char *text = NULL;

    if (made >= 0)
        close(made);
    if (fd < 0)
        return NULL;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (write(fd, cubin, size) == (ssize_t)size)
        for (size_t i = 0; !text && i < sizeof files / sizeof *files; i++)
            text = run_nvdisasm(files[i], fd);
    close(fd);
    return text;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Beginnings of names of instructions, in machine code and in PTX, with the multiply-adds of a
 * warp's instruction.  The first that fits counts. */
static const struct {
    const char *name;
    enum ladder_class of;
    double macs;
} kinds[] = {
    { "HMMA.16816", CLASS_product, 2048 },
    { "mma.sync.aligned.m16n8k16", CLASS_product, 2048 },
    { "FFMA", CLASS_product, 32 },
    { "fma.rn.f32", CLASS_product, 32 },
    { "LDGDEPBAR", CLASS_barrier, 0 },
    { "LDGSTS", CLASS_global, 0 },
    { "LDG", CLASS_global, 0 },
    { "UTMALDG", CLASS_global, 0 },
    { "ld.global", CLASS_global, 0 },
    { "cp.async.cg", CLASS_global, 0 },
    { "cp.async.bulk", CLASS_global, 0 },
    { "LDS", CLASS_shared, 0 }, /* and LDSM */
    { "STS", CLASS_shared, 0 },
    { "ld.shared", CLASS_shared, 0 },
    { "st.shared", CLASS_shared, 0 },
    { "ldmatrix", CLASS_shared, 0 },
    { "BAR", CLASS_barrier, 0 },
    { "SYNCS", CLASS_barrier, 0 },
    { "DEPBAR", CLASS_barrier, 0 },
    { "WARPSYNC", CLASS_barrier, 0 },
    { "bar.", CLASS_barrier, 0 },
    { "mbarrier", CLASS_barrier, 0 },
    { "cp.async", CLASS_barrier, 0 }, /* groups of copies: commit and wait */
};

enum { MOST_LINES = 20000, MOST_LOOPS = 64, NAME = 48 };

/* A label, or an instruction. */
struct code_line {
    const char *text; /* the instruction, from its predicate or name on, to the end of the line */
    int target; /* position of the label to which it branches; -1: it does not */
    enum ladder_class of;
    double macs;
    bool is_tma, ends; /* ends: ends the thread */
};
/* A label, and the index of the line after it. */
struct code_label {
    char name[NAME];
    int at;
};
/* The code of a kernel. */
struct code {
    struct code_line line[MOST_LINES];
    struct code_label label[2000];
    int lines, labels;
};

/* Returns the instruction in a line of text, NULL if there is none. */
static const char *instruction_of(const char *line)
{
    const char *p = line + strspn(line, " \t"), *end = strchr(p, '\n');
    const char *semicolon = strchr(p, ';');

    if (!semicolon || (end && semicolon > end))
        return NULL;
    if (!strncmp(p, "/*", 2)) { /* the address, in nvdisasm's text */
        p = strstr(p, "*/");
        if (!p || p > semicolon)
            return NULL;
        p += 2 + strspn(p + 2, " \t");
    }
    return (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '@' ? p : NULL;
}

/* Fills in class, multiply-adds and kind of an instruction. */
static void classify(struct code_line *l)
{
    const char *name = l->text;

    if (*name == '@') /* a predicate */
        name += strcspn(name, " \t"), name += strspn(name, " \t");
    l->of = CLASS_other;
    l->ends = *l->text != '@' && (!strncmp(name, "EXIT", 4) || !strncmp(name, "ret;", 4));
    l->is_tma = !strncmp(name, "UTMALDG", 7) || !strncmp(name, "cp.async.bulk", 13);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(name, kinds[i].name, strlen(kinds[i].name))) {
            l->of = kinds[i].of, l->macs = kinds[i].macs;
            return;
        }
}

/* Returns the position of the earlier label that an instruction names, -1 if it names none. */
static int branch_target(const struct code *c, const char *text)
{
    size_t length = strcspn(text, "\n");

    for (int i = c->labels - 1; i >= 0; i--) {
        const char *at = memmem(text, length, c->label[i].name, strlen(c->label[i].name));

        if (at && strchr(") ;\t", at[strlen(c->label[i].name)]))
            return c->label[i].at;
    }
    return -1;
}

/* Reads a text's labels and instructions.  False if they are too many. */
static bool read_code(struct code *c, const char *text)
{
    for (; text && *text; text = strchr(text, '\n'), text += text != NULL) {
        size_t word = strcspn(text, ": \t\n");
        const char *instruction = instruction_of(text);

        if (text[word] == ':' && word && word < NAME && (*text == '.' || *text == '$')) {
            if (c->labels == (int)(sizeof c->label / sizeof *c->label))
                return false;
            memcpy(c->label[c->labels].name, text, word);
            c->label[c->labels++].at = c->lines;
        } else if (instruction && strncmp(instruction, "NOP", 3)) {
            struct code_line *l = &c->line[c->lines];

            if (++c->lines == MOST_LINES)
                return false;
            l->text = instruction;
            classify(l);
            l->target = strcasestr(instruction, "bra") ? branch_target(c, instruction) : -1;
        }
    }
    return true;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* A range of instructions, of which the last branches to the first. */
struct loop {
    int from, to; /* to: behind the last */
    double macs;
    bool copies, ends; /* ends: it holds the end of the thread, so the branch is no loop's */
};

/* Sums up the instructions of the loop that the branch at this position closes. */
static struct loop loop_at(const struct code *c, int branch)
{
    struct loop l = { .from = c->line[branch].target, .to = branch + 1 };

    for (int i = l.from; i < l.to; i++) {
        l.macs += c->line[i].macs;
        l.copies |= c->line[i].is_tma;
        l.ends |= c->line[i].ends;
    }
    return l;
}

/* Adds what the instructions of a loop count for 1024 multiply-adds, each `times` times.  Those in
 * the loop `within`, where there is one, are left out. */
static void add_loop(const struct code *c, const struct loop *l, const struct loop *within,
                     double times, struct ladder_counts *counts)
{
    for (int i = l->from; i < l->to; i++)
        if (!within || i < within->from || i >= within->to)
            counts->of[c->line[i].of] += times;
}

/* Counts the instructions of the largest loop that holds products, and of the largest that only
 * copies.  Where an inner loop holds the products, the outer one is counted once for each stage. */
static bool count_loops(const struct code *c, struct ladder_tile tile, struct ladder_counts *counts)
{
    struct loop outer = { 0, 0, 0, false, false }, inner = outer, copier = outer;
    double share = tile.macs / tile.warps; /* multiply-adds of a warp for a stage */

    for (int i = 0; i < c->lines; i++) {
        struct loop l;

        if (c->line[i].target < 0)
            continue;
        l = loop_at(c, i);
        if (l.ends)
            continue;
        if (l.macs > outer.macs || (l.macs > 0 && l.macs >= outer.macs && l.from <= outer.from))
            outer = l;
        if (l.macs == 0 && l.copies && l.to - l.from > copier.to - copier.from)
            copier = l;
    }
    for (int i = outer.from; i < outer.to - 1; i++)
        if (c->line[i].target >= outer.from && loop_at(c, i).macs > inner.macs)
            inner = loop_at(c, i);
    if (outer.macs == 0)
        return false;
    if (inner.macs > 0) {
        double trips = (share - (outer.macs - inner.macs)) / inner.macs;

        add_loop(c, &outer, &inner, 1024 / share, counts);
        add_loop(c, &inner, NULL, trips * 1024 / share, counts);
    } else {
        add_loop(c, &outer, NULL, 1024 / outer.macs, counts);
    }
    add_loop(c, &copier, NULL, 1024 / tile.macs, counts);
    return true;
}

bool ladder_count(const char *text, struct ladder_tile tile, struct ladder_counts *counts)
{
    struct code *c = calloc(1, sizeof *c);
    bool ok;

    *counts = (struct ladder_counts){ { 0 } };
    ok = c && read_code(c, text) && count_loops(c, tile, counts);
    free(c);
    return ok;
}
