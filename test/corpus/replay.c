/* SPDX-License-Identifier: BSD-3-Clause
 * Computes the problems of a file for every machine and compares the results with recorded ones.
 *
 *   replay FOLDER                    compares with FOLDER/expected.txt
 *   replay --write FOLDER            writes that file; see keep_old for what cannot be made here
 *   replay --show LINE[,MACHINE] FOLDER    prints the texts of that line of problems.txt
 *   --part K/N                       compares one of N parts of the problems
 *   --threads N                      threads of a context; results do not depend on it
 *   --cpu MACHINE                    assumes a CPU with no more features than that machine's */
#include "corpus.h"

#include "files.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HASH = 9, LINES = 1000, WIDE = 2000 };

/* The options of the command line. */
struct options {
    const char *folder, *show, *machine;
    bool write;
    int threads, line;
    /* parts = 0: uses all lines; else only those whose number modulo `parts` is `part` */
    int part, parts;
};

/* Counts over all lines. */
struct tally {
    int problems, differ[KIND_count], lines, skipped;
    /* numbers of marks (digests of outcomes) that this computer cannot make: those copied from the
     * file, and unknown ones */
    int kept, open;
    char made_with[256]; /* compiler that made the recorded code for CPUs, from expected.txt */
    bool same_compiler;
};

/* ---- hashes ---------------------------------------------------------------------------------- */

/* Writes a hash of a text (FNV-1a, folded to 32 bits) in hexadecimal. */
static void hash_text(const char *text, size_t size, char out[HASH])
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    snprintf(out, HASH, "%08x", (unsigned)(h ^ h >> 32));
}

/* True if the text is an upper-case word, such as a status. */
static bool is_word(const char *s, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ_!", s[i]))
            return false;
    return size > 0 && size < 32;
}

/* Writes the mark of a text: a hash of its normal form, a status, or "-" if the text is empty. */
static void make_mark(const struct outcome *o, enum kind kind, bool gpu, char out[32])
{
    const char *text = o->text[kind];
    size_t size = o->size[kind];
    char *plain = NULL, h[HASH];
    FILE *f;

    if (size == 0) {
        strcpy(out, "-");
        return;
    }
    if (kind == KIND_bits && is_word(text, size)) {
        snprintf(out, 32, "%.*s", (int)size, text);
        return;
    }
    if (kind == KIND_code) {
        f = open_memstream(&plain, &size);
        (gpu ? plain_c : plain_llvm)(text, f);
        fclose(f);
        text = plain;
    }
    hash_text(text, size, h);
    strcpy(out, h);
    free(plain);
}

/* ---- a problem ------------------------------------------------------------------------------- */

/* [kind][machine]: marks of a problem (digests of its outcomes); "?" if unknown. */
struct marks {
    char at[KIND_count][MACHINES][32];
};

static bool is_gpu(int machine)
{
    return strncmp(corpus_machines[machine], "sm_", 3) == 0;
}

/* Extracts "clang version ..." from the first code's IR. */
static void find_compiler_version(const struct outcome *o, char to[256])
{
    const char *at = o->text[KIND_code] ? strstr(o->text[KIND_code], "clang version ") : NULL;

    if (at && !*to)
        snprintf(to, 256, "%.*s", (int)strcspn(at, "\""), at);
}

/* Runs the problem of `line` for every machine, and stores for each kind of outcome its mark (a
 * short digest).  Returns false, with a reason in `why`, if the line is invalid. */
static bool make_marks(const char *line, int threads, struct marks *marks, char made_with[256],
                       char why[256])
{
    for (int i = 0; corpus_machines[i]; i++) {
        struct outcome o;
        struct words w;

        for (int k = 0; k < KIND_count; k++)
            strcpy(marks->at[k][i], "?");
        if (!corpus_plays(corpus_machines[i]))
            continue;
        if (!words_read(&w, line))
            return snprintf(why, 256, "the words do not read"), false;
        if (!corpus_run(&w, corpus_machines[i], threads, &o, why)) {
            corpus_clear(&o);
            return false;
        }
        if (words_unused(&w)) {
            snprintf(why, 256, "nobody reads \"%s=\"", words_unused(&w));
            corpus_clear(&o);
            return false;
        }
        for (int k = 0; k < KIND_count; k++)
            make_mark(&o, (enum kind)k, is_gpu(i), marks->at[k][i]);
        if (!o.here)
            strcpy(marks->at[KIND_bits][i], "?");
        if (!is_gpu(i))
            find_compiler_version(&o, made_with);
        corpus_clear(&o);
    }
    return true;
}

/* Prints a problem and its marks (digests of its outcomes).  "=" stands for the mark of the
 * previous machine. */
static void print_marks(FILE *out, const char *line, const struct marks *m)
{
    fprintf(out, "%s\n   ", line);
    for (int k = 0; k < KIND_count; k++) {
        fprintf(out, " %s=%s", corpus_kinds[k], m->at[k][0]);
        for (int i = 1; corpus_machines[i]; i++)
            fprintf(out, ",%s", strcmp(m->at[k][i], m->at[k][i - 1]) ? m->at[k][i] : "=");
    }
    fputc('\n', out);
}

/* Parses the second line of a problem, which has a mark (a hash) for each kind of text and each
 * machine. */
static bool parse_marks(const char *s, struct marks *m)
{
    for (int k = 0; k < KIND_count; k++) {
        s += strspn(s, " ");
        if (strncmp(s, corpus_kinds[k], strlen(corpus_kinds[k])) != 0)
            return false;
        s += strlen(corpus_kinds[k]);
        for (int i = 0; corpus_machines[i]; i++) {
            size_t n = strcspn(++s, ", \n");

            if (n >= sizeof m->at[k][i])
                return false;
            snprintf(m->at[k][i], sizeof m->at[k][i], "%.*s", (int)n, s);
            if (strcmp(m->at[k][i], "=") == 0)
                strcpy(m->at[k][i], m->at[k][i - 1]);
            s += n;
        }
    }
    return true;
}

/* Finds the recorded marks (digests of outcomes) of a problem in the text of expected.txt. */
static bool find_expected(const char *file, const char *line, struct marks *m)
{
    size_t n = strlen(line);

    for (const char *s = file; s && *s; s = strchr(s, '\n'), s += s != NULL)
        if (strncmp(s, line, n) == 0 && s[n] == '\n')
            return parse_marks(s + n + 1, m);
    return false;
}

/* False for "?", which stands for a mark that is unknown. */
static bool is_known(const char *mark)
{
    return strcmp(mark, "?") != 0;
}

/* True if all marks (digests of outcomes) that this computer can make are unchanged. */
static bool is_unchanged(const struct marks *have, const struct marks *old)
{
    for (int k = 0; k < KIND_count; k++)
        for (int i = 0; corpus_machines[i]; i++)
            if (is_known(have->at[k][i]) && is_known(old->at[k][i]) &&
                strcmp(have->at[k][i], old->at[k][i]))
                return false;
    return true;
}

/* For each mark (digest of an outcome) that this computer cannot make: keeps the recorded one if no
 * other mark of the problem has changed, else sets it to unknown. */
static void keep_old(struct tally *t, struct marks *have, const struct marks *old)
{
    bool keep = old && is_unchanged(have, old);

    for (int k = 0; k < KIND_count; k++)
        for (int i = 0; corpus_machines[i]; i++) {
            if (is_known(have->at[k][i]))
                continue;
            if (keep)
                strcpy(have->at[k][i], old->at[k][i]);
            if (is_known(have->at[k][i]))
                t->kept++;
            else
                t->open++;
        }
}

/* Compares a problem's marks (digests of outcomes) with the recorded ones, and prints which kinds
 * of outcome differ on which machines. */
static void compare(struct tally *t, int number, const char *line, const struct marks *want,
                    const struct marks *have)
{
    bool any = false;

    for (int k = 0; k < KIND_count; k++) {
        char where[128] = "";

        for (int i = 0; corpus_machines[i]; i++) {
            const char *a = want->at[k][i], *b = have->at[k][i];

            if ((k == KIND_code && !is_gpu(i) && !t->same_compiler) || strcmp(a, b) == 0)
                continue;
            if (!is_known(a) || !is_known(b)) {
                t->skipped++;
                continue;
            }
            snprintf(where + strlen(where), sizeof where - strlen(where), " %s",
                     corpus_machines[i]);
        }
        if (*where) {
            printf("line %d: %s differs on%s: %s\n", number, corpus_kinds[k], where, line);
            t->differ[k]++;
            any = true;
        }
    }
    t->lines += any;
}

/* ---- files ----------------------------------------------------------------------------------- */

static char *read_file(const struct options *o, const char *name)
{
    char path[WIDE];

    snprintf(path, sizeof path, "%s/%s", o->folder, name);
    return test_file_read(path);
}

/* Prints the texts of a problem, for one machine or all. */
static int show_problem(const char *line, const struct options *o)
{
    for (int i = 0; corpus_machines[i]; i++) {
        struct outcome result;
        struct words w;
        char why[256];

        if (*o->machine && strcmp(o->machine, corpus_machines[i]))
            continue;
        if (!words_read(&w, line) || !corpus_run(&w, corpus_machines[i], o->threads, &result, why))
            return printf("%s: %s\n", line, why), 1;
        for (int k = 0; k < KIND_count; k++) {
            const char *s = result.text[k];

            printf("==== %s, %s\n", corpus_machines[i], corpus_kinds[k]);
            if (k == KIND_code)
                (is_gpu(i) ? plain_c : plain_llvm)(s, stdout);
            else if ((k != KIND_bits && k != KIND_config) || is_word(s, result.size[k]))
                printf("%s\n", s);
            else
                for (size_t at = 0; at < result.size[k]; at++)
                    printf("%02x%s", (unsigned char)s[at], (at + 1) % 32 ? "" : "\n");
        }
        printf("\n");
        corpus_clear(&result);
    }
    return 0;
}

/* Hashes the headers of all CUDA sources. */
static void hash_headers(char out[HASH])
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    corpus_headers(f);
    fclose(f);
    hash_text(text, size, out);
    free(text);
}

static void write_head(FILE *out, const char *made_with, const char *headers)
{
    fprintf(out, "# replay --write wrote this.  Machines:");
    for (int i = 0; corpus_machines[i]; i++)
        fprintf(out, " %s", corpus_machines[i]);
    fprintf(out, "; = is as the one before.\n# CPU code by %s\n# CUDA headers %s\n", made_with,
            headers);
}

/* Copies the rest of the line that begins with `begins`. */
static void copy_rest_of_line(const char *file, const char *begins, char *to, size_t size)
{
    const char *at = file ? strstr(file, begins) : NULL;

    snprintf(to, size, "%.*s", at ? (int)strcspn(at + strlen(begins), "\n") : 0,
             at ? at + strlen(begins) : "");
}

static void print_differences(const struct tally *t)
{
    printf("%d problems, %d differ:", t->problems, t->lines);
    for (int k = 0; k < KIND_count; k++)
        printf(" %s %d", corpus_kinds[k], t->differ[k]);
    printf("\n");
}

static int print_summary(const struct tally *t, const char *made_with, const char *headers,
                         const char *want)
{
    if (!t->same_compiler)
        printf("CPU code is not compared: expected.txt has that of %s, this is %s\n", t->made_with,
               made_with);
    if (t->skipped)
        printf("%d marks are not compared: they are unknown, here or in expected.txt\n",
               t->skipped);
    if (strcmp(headers, want))
        printf("the CUDA headers differ\n");
    print_differences(t);
    return t->lines || strcmp(headers, want) ? 1 : 0;
}

/* Writes expected.txt from the new marks, and prints what differs.  Returns the exit status. */
static int write_out(const struct options *o, const struct tally *t, const char *made_with,
                     const char *headers, const char *body)
{
    char path[WIDE], *all;
    size_t size;
    FILE *f = open_memstream(&all, &size);
    int status;

    write_head(f, made_with, headers);
    fputs(body, f);
    fclose(f);
    snprintf(path, sizeof path, "%s/expected.txt", o->folder);
    status = test_file_write(path, all);
    free(all);
    if (status)
        return printf("%s cannot be written\n", path), 2;
    print_differences(t);
    if (t->kept + t->open)
        printf(
            "%d marks are as they were and %d are unknown (?): they need instructions that are not "
            "here\n",
            t->kept, t->open);
    return 0;
}

/* Makes the marks (digests of outcomes) of all problems, and compares, shows or writes them.
 * Returns the exit status. */
static int replay_problems(const struct options *o, char *problems, const char *file)
{
    struct tally t = { 0 };
    char now_with[256] = "", headers[HASH], want_headers[32], *body, why[256];
    size_t size;
    FILE *out = open_memstream(&body, &size);
    int number = 0, status = 0;
    bool known;

    hash_headers(headers);
    copy_rest_of_line(file, "\n# CPU code by ", t.made_with, sizeof t.made_with);
    copy_rest_of_line(file, "\n# CUDA headers ", want_headers, sizeof want_headers);
    for (char *line = problems, *next; line && *line && status == 0; line = next) {
        struct marks have, want;

        next = line + strcspn(line, "\n");
        next += *next ? (*next = 0, 1) : 0;
        number++;
        if (!*line || *line == '#') {
            if (*line)
                fprintf(out, "%s\n", line);
            continue;
        }
        if (o->line) {
            if (number == o->line)
                status = show_problem(line, o);
            continue;
        }
        if (o->parts && number % o->parts != o->part % o->parts)
            continue;
        t.problems++;
        if (!make_marks(line, o->threads, &have, now_with, why)) {
            printf("line %d: %s: %s\n", number, why, line);
            status = 2;
        }
        known = find_expected(file, line, &want);
        if (o->write)
            keep_old(&t, &have, known ? &want : NULL);
        print_marks(out, line, &have);
        t.same_compiler = !*now_with || strcmp(now_with, t.made_with) == 0;
        if (status)
            continue;
        if (known) {
            compare(&t, number, line, &want, &have);
        } else {
            printf("line %d is not in expected.txt: %s\n", number, line);
            t.lines++;
        }
    }
    fclose(out);
    if (status == 0 && o->write)
        status = write_out(o, &t, *now_with ? now_with : t.made_with, headers, body);
    else if (status == 0 && !o->line)
        status = print_summary(&t, now_with, headers, want_headers);
    free(body);
    return status;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    *o = (struct options){ .threads = 1, .machine = "" };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--write") == 0)
            o->write = true;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            o->threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--cpu") == 0 && i + 1 < argc) {
            if (!corpus_pretend(argv[++i]))
                return false;
        } else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc) {
            if (sscanf(argv[++i], "%d/%d", &o->part, &o->parts) != 2 || o->part < 1 ||
                o->parts < o->part)
                return false;
        } else if (strcmp(argv[i], "--show") == 0 && i + 1 < argc)
            o->show = argv[++i];
        else if (*argv[i] != '-' && !o->folder)
            o->folder = argv[i];
        else
            return false;
    }
    if (o->show) {
        const char *comma = strchr(o->show, ',');

        o->line = atoi(o->show);
        o->machine = comma ? comma + 1 : "";
    }
    return o->folder && o->threads > 0 && !(o->write && o->parts);
}

int main(int argc, char **argv)
{
    struct options o;
    char *problems, *file;
    int status;

    if (!read_options(argc, argv, &o)) {
        fprintf(stderr, "replay [--write | --show LINE[,MACHINE] | --part K/N] [--threads N] "
                        "[--cpu MACHINE] FOLDER\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    corpus_begin();
    for (int i = 0; o.write && corpus_machines[i]; i++)
        if (!corpus_plays(corpus_machines[i])) {
            fprintf(stderr, "expected.txt is not written: nothing here compiles for %s\n",
                    corpus_machines[i]);
            return 2;
        }
    problems = read_file(&o, "problems.txt");
    file = read_file(&o, "expected.txt");
    status = problems ? replay_problems(&o, problems, file) :
                        (printf("%s has no problems.txt\n", o.folder), 2);
    corpus_end();
    free(problems);
    free(file);
    return status;
}
