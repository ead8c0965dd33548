/* SPDX-License-Identifier: BSD-3-Clause
 * Output files that the user names: what happens if the path is an existing file, link, pipe or
 * device. */
#include "engine_support.h"

#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

/* Writes a file through output_open; if not `ok`, the writing is given up. */
static bool write_text(const char *path, const char *text, bool ok)
{
    struct output o;

    return output_open(&o, path) && (fputs(text, o.f), output_close(&o, ok));
}

static void assert_holds(const char *path, const char *text)
{
    char got[200] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    assert_true(fread(got, 1, sizeof got - 1, f) < sizeof got);
    fclose(f);
    assert_string_equal(got, text);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

/* Counts the files in the test's folder, since no temporary file may remain. */
static int count_names(void)
{
    char command[5000];
    FILE *f;
    int n = -1;

    snprintf(command, sizeof command, "ls -A '%s' | wc -l", dir);
    f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* A new file gets the permissions that the umask allows. */
static void new_files_have_the_umask(void **state)
{
    static const mode_t masks[] = { 022, 077, 027, 0 };

    (void)state;
    for (size_t i = 0; i < COUNT(masks); i++) {
        mode_t before = umask(masks[i]);

        assert_true(write_text(in_dir("new"), "text", true));
        umask(before);
        assert_holds(in_dir("new"), "text");
        assert_int_equal(mode_of(in_dir("new")) & 07777, 0666 & ~masks[i]);
        assert_int_equal(count_names(), 1);
        unlink(in_dir("new"));
    }
}

/* A replaced file keeps its permissions and its owner. */
static void files_keep_their_permissions_and_owner(void **state)
{
    static const mode_t modes[] = { 0600, 0640, 0664, 0400 };
    struct stat st;

    (void)state;
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_true(write_text(in_dir("old"), "old", true));
        assert_int_equal(chmod(in_dir("old"), modes[i]), 0);
        if (geteuid() == 0)
            assert_int_equal(chown(in_dir("old"), NOBODY, NOBODY), 0);
        assert_true(write_text(in_dir("old"), "new", true));
        assert_int_equal(stat(in_dir("old"), &st), 0);
        assert_int_equal(st.st_mode & 07777, modes[i]);
        if (geteuid() == 0)
            assert_int_equal(st.st_uid, NOBODY);
        unlink(in_dir("old"));
    }
}

/* If writing fails or is given up, the old file stays unchanged and no other file remains. */
static void a_failure_leaves_the_old_file(void **state)
{
    struct output o;

    (void)state;
    assert_true(write_text(in_dir("kept"), "old", true));
    assert_false(write_text(in_dir("kept"), "new", false));
    assert_holds(in_dir("kept"), "old");
    assert_true(output_open(&o, in_dir("kept")));
    fputs("half", o.f);
    fflush(o.f);
    assert_holds(in_dir("kept"), "old");
    assert_false(output_close(&o, false));
    assert_false(write_text(in_dir("absent"), "new", false));
    assert_int_equal(count_names(), 1);
    assert_false(output_open(&o, in_dir("nowhere/file")));
    assert_int_equal(errno, ENOENT);
    assert_false(output_open(&o, dir));
    assert_int_equal(errno, EISDIR);
}

/* Writing to a symbolic link, also to a link to a link or to a missing file, writes its target; the
 * link stays. */
static void links_are_followed(void **state)
{
    (void)state;
    assert_true(write_text(in_dir("target"), "old", true));
    assert_int_equal(symlink("target", in_dir("one")), 0);
    assert_int_equal(symlink(in_dir("one"), in_dir("two")), 0);
    assert_int_equal(symlink("made", in_dir("three")), 0);
    assert_true(write_text(in_dir("two"), "new", true));
    assert_holds(in_dir("target"), "new");
    assert_true(S_ISLNK(mode_of(in_dir("one"))) && S_ISLNK(mode_of(in_dir("two"))));
    assert_true(write_text(in_dir("three"), "new", true)); /* the link's target is created */
    assert_true(S_ISLNK(mode_of(in_dir("three"))));
    assert_holds(in_dir("made"), "new");
    assert_int_equal(count_names(), 5);
}

static void *read_pipe(void *path)
{
    assert_holds(path, "through");
    return NULL;
}

/* Text is written to a named pipe itself, which is not replaced by a file. */
static void pipes_are_written_to(void **state)
{
    char path[5000];
    pthread_t thread;

    (void)state;
    snprintf(path, sizeof path, "%s", in_dir("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_pipe, path), 0);
    assert_true(write_text(path, "through", true));
    pthread_join(thread, NULL);
    assert_true(S_ISFIFO(mode_of(path)));
    assert_int_equal(count_names(), 1);
}

/* Makes device nodes like /dev/null and /dev/full in the test's folder. */
static void devices_stay_devices(void **state)
{
    struct output o;

    (void)state;
    if (mknod(in_dir("null"), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
        mknod(in_dir("full"), S_IFCHR | 0600, makedev(1, 7)) != 0) {
        skip_because("no device can be made here");
    }
    if (!output_open(&o, in_dir("null"))) {
        assert_true(S_ISCHR(mode_of(in_dir("null"))));
        skip_because("devices cannot be opened here");
    }
    assert_true(output_close(&o, true));
    assert_true(write_text(in_dir("null"), "gone", true));
    assert_false(write_text(in_dir("full"), "too much", true));
    assert_int_equal(errno, ENOSPC);
    assert_true(S_ISCHR(mode_of(in_dir("null"))) && S_ISCHR(mode_of(in_dir("full"))));
    assert_int_equal(count_names(), 2);
}

/* If standard output is redirected to a file, output is appended: the file is neither truncated nor
 * replaced. */
static void redirected_standard_output_is_continued(void **state)
{
    static const char *const name[] = { "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1" };

    (void)state;
    for (size_t i = 0; i < COUNT(name); i++) {
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
            int fd = open(in_dir("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

            dup2(fd, 1);
            dprintf(1, "before ");
            _exit(!write_text(name[i], "text", true) || dprintf(1, " after") < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_holds(in_dir("out"), "before text after");
        assert_int_equal(count_names(), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_in_dir(new_files_have_the_umask),
        unit_test_in_dir(files_keep_their_permissions_and_owner),
        unit_test_in_dir(a_failure_leaves_the_old_file),
        unit_test_in_dir(links_are_followed),
        unit_test_in_dir(pipes_are_written_to),
        unit_test_in_dir(devices_stay_devices),
        unit_test_in_dir(redirected_standard_output_is_continued),
    };

    alarm(60); /* fails instead of waiting forever for a pipe */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
