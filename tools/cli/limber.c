/* SPDX-License-Identifier: BSD-3-Clause
 * The program `limber`: finds and runs the command. */
#include "tools/cli/commands.h"
#include "tools/plain_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Opens /dev/null on standard descriptors that are closed, so that no file which is opened later
 * becomes stdout.  The modes make reads and writes on these descriptors fail, as before. */
static void fill_standard_files(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* Reports a failed write to stdout.  Called at exit, since popt exits after --help. */
static void check_output(void)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return;
    complain("standard output: %s", errno ? strerror(errno) : "writing failed");
    _exit(1);
}

/* Runs the command that the first argument names.  Returns its exit status; 2 if the arguments
 * are wrong. */
int main(int argc, const char **argv)
{
    const struct command *command;
    char name[32];

    /* A set-user-ID program must neither access files that the user names, nor find gnuplot by
     * PATH. */
    if (getauxval(AT_SECURE)) {
        complain("it does not run with rights that its user does not have");
        return 2;
    }
    fill_standard_files();
    plain_text_output();
    atexit(check_output);
    /* A write beyond the file size limit then fails, with a message, instead of raising a
     * signal. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        commands_list(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        commands_list(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("limber %s\n", LIMBER_VERSION);
        return 0;
    }
    command = command_named(argv[1]);
    if (command) {
        snprintf(name, sizeof name, "limber %s", argv[1]); /* for popt's "Usage:" */
        argv[1] = name;
        return command->run(argc - 1, argv + 1);
    }
    if (topic_about(argv[1])) {
        complain("no command is called \"%s\"; %s", argv[1], topic_about(argv[1]));
        return 2;
    }
    complain("no command is called \"%s\"%s", argv[1],
             words_near(word_kind_named("command"), argv[1]));
    commands_list(stderr);
    return 2;
}
