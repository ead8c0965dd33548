/* SPDX-License-Identifier: BSD-3-Clause
 * secure PROGRAM TRAP LIMBER: makes a program set-user-id root and starts it as another user, while
 * every variable of Limber's table points into a trap.  No trap may spring, and nothing may be
 * printed.  When the program runs with its user's own rights, the traps must spring. */
#define _GNU_SOURCE
#include <limber/environment.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, NOBODY = 65534, MOST = 80 };
static const char secret[] = "what-others-must-not-read";
static char dir[] = "/tmp/limber-secure-XXXXXX";
static const char *trap;

static bool is_danger(const limber_variable *v, const char *danger)
{
    return strcmp(v->danger, danger) == 0;
}

/* Returns an assignment to the variable, whose value leaves a trace if a program uses it: a
 * library that creates a file, a path in the trap's folder, or a secret.  Other variables get an
 * invalid value, so that their use is reported.  The caller frees the result. */
static char *make_bait(const limber_variable *v)
{
    char *s = NULL;

    if (is_danger(v, "loads"))
        (void)!asprintf(&s, "%s=%s", v->name, trap);
    else if (is_danger(v, "reads"))
        (void)!asprintf(&s, "%s=%s/secret", v->name, dir);
    else if (is_danger(v, "writes") || is_danger(v, "runs"))
        (void)!asprintf(&s, "%s=%s/trap/%s%s", v->name, dir, v->name,
                        strcmp(v->name, "LIMBER_CAPTURE") ? "" : ",1M");
    else
        (void)!asprintf(&s, "%s=no value", v->name);
    if (!s)
        abort();
    return s;
}

static char *in_dir(const char *name)
{
    char *s = NULL;

    if (asprintf(&s, "%s/%s", dir, name) < 0)
        abort();
    return s;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

/* Empties the folder `trap`. */
static void make_trap(void)
{
    char *name = in_dir("trap");

    nftw(name, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (mkdir(name, 0755) != 0 || chmod(name, 0755) != 0)
        abort();
    free(name);
}

/* True if a variable was used: the folder `trap`, to which all variables point, is not empty or
 * has been removed. */
static bool has_sprung(void)
{
    char *name = in_dir("trap");
    DIR *d = opendir(name);
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    free(name);
    return n != 2;
}

/* Runs the program.  Returns its exit status; said: gets what it printed. */
static int run_program(const char *program, char **environment, bool as_nobody, char *said,
                       size_t size)
{
    char *name = in_dir("said"), *argv[] = { (char *)(uintptr_t)program, NULL };
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666), status = -1;
    ssize_t n;
    pid_t pid = fork();

    free(name);
    if (pid < 0 || fd < 0)
        abort();
    if (pid == 0) {
        dup2(fd, 1);
        dup2(fd, 2);
        if (as_nobody && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
                          setresuid(NOBODY, NOBODY, NOBODY)))
            _exit(99);
        execve(program, argv, environment);
        _exit(98);
    }
    waitpid(pid, &status, 0);
    n = pread(fd, said, size - 1, 0);
    said[n > 0 ? n : 0] = 0;
    close(fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Copies a file to the test's folder.  Returns the new path. */
static char *copy_file(const char *from, const char *name, mode_t mode)
{
    char *to = in_dir(name), *command = NULL;

    if (asprintf(&command, "cp '%s' '%s'", from, to) < 0 || system(command) != 0 ||
        chown(to, 0, 0) != 0 || chmod(to, mode) != 0)
        abort();
    free(command);
    return to;
}

static int fail(const char *what, const char *said)
{
    printf("FAILED: %s; printed: %s\n", what, said);
    return 1;
}

static bool needs_gpu(const char *name)
{
    return !strcmp(name, "LIMBER_NVRTC") || !strcmp(name, "LIMBER_CUBLAS") ||
           strstr(name, "CUBINS");
}

/* Checks that each dangerous variable has its effect (it loads the trap or prints the secret) in a
 * program that runs with the user's own rights.  Variables of GPUs are checked only if there is a
 * GPU.  Returns the number of variables without effect. */
static int check_own_rights(const char *program)
{
    char said[4096], *file = in_dir("trap/loaded"), *at = NULL;
    int failures = 0, tried = 0;

    if (asprintf(&at, "TRAP_FILE=%s", file) < 0)
        abort();
    for (int i = 0; limber_variable_at(i); i++) {
        const limber_variable *v = limber_variable_at(i);
        char contract[] = "LIMBER_CONTRACT=correct", *it = make_bait(v), *other = NULL;
        /* prebuilt kernels would make a compiler unnecessary */
        char compiled[] = "LIMBER_KERNELS=specialised";
        char *environment[] = { at, contract, compiled, it, NULL, NULL };

        /* the variables of the cache and of its key have an effect only together */
        if (is_danger(v, "runs")) {
            bool key = strstr(v->name, "KEY") || strstr(v->name, "STATE");

            if (asprintf(&other, key ? "LIMBER_CACHE_DIR=%s/other" : "LIMBER_CACHE_KEY=%s/key",
                         dir) < 0)
                abort();
            environment[4] = other;
        }
        make_trap();
        if (*v->danger && strstr(v->reader, "tests") == NULL &&
            (strstr(v->reader, "library") || strstr(v->reader, "BLAS")) && !needs_gpu(v->name)) {
            run_program(program, environment, false, said, sizeof said);
            tried++;
            if (!has_sprung() && !strstr(said, secret))
                failures += fail(v->name, said);
        }
        free(it);
        free(other);
    }
    printf("%d traps tried with one's own rights\n", tried);
    free(at);
    free(file);
    return failures;
}

/* A program with elevated privileges must ignore all dangerous variables.  wanted: its exit
 * status. */
static int variables_are_ignored_with_elevated_privileges(const char *program, const char *what,
                                                          int wanted, const char *message)
{
    char said[4096], *environment[MOST] = { 0 }, *file = in_dir("trap/loaded");
    int n = 0, status;

    make_trap();
    for (int i = 0; limber_variable_at(i) && n < MOST - 3; i++)
        environment[n++] = make_bait(limber_variable_at(i));
    if (asprintf(&environment[n], "TRAP_FILE=%s", file) < 0)
        abort();
    environment[++n] = (char *)(uintptr_t)"LIMBER_UNKNOWN=1";
    status = run_program(program, environment, true, said, sizeof said);
    while (n-- > 0)
        free(environment[n]);
    free(file);
    if (status == 3) {
        printf("SKIPPED: set-user-id programs have no rights in /tmp\n");
        return SKIPPED;
    }
    if (status != wanted || strcmp(said, message) != 0) {
        printf("status %d, not %d\n", status, wanted);
        return fail(what, said);
    }
    return has_sprung() ? fail(what, "a trap has sprung") : 0;
}

int main(int argc, char **argv)
{
    char *plain, *elevated, *tool, *name;
    int failures;
    FILE *f;

    if (argc != 4)
        return 2;
    if (geteuid() != 0) {
        printf("SKIPPED: only root can make a set-user-id program of another user's\n");
        return SKIPPED;
    }
    if (!mkdtemp(dir) || chmod(dir, 0755) != 0)
        return 1;
    name = in_dir("secret");
    f = fopen(name, "w");
    if (!f || fprintf(f, "%s\n", secret) < 0 || fclose(f) != 0)
        return 1;
    chmod(name, 0600);
    plain = copy_file(argv[1], "plain", 0755);
    elevated = copy_file(argv[1], "elevated", 04755);
    tool = copy_file(argv[3], "limber", 04755);
    trap = copy_file(argv[2], "library.so", 0755);
    failures = variables_are_ignored_with_elevated_privileges(elevated, "the program", 0, "");
    if (failures != SKIPPED)
        failures += variables_are_ignored_with_elevated_privileges(
                        tool, "the command line", 2,
                        "limber: it does not run with rights that its user does not have\n") +
                    check_own_rights(plain);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf("%d failures\n", failures == SKIPPED ? 0 : failures);
    return failures;
}
