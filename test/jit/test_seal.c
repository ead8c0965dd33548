/* SPDX-License-Identifier: BSD-3-Clause
 * Seals of cache entries: their hash, the key file, and the permissions of the path to it. */
#include "engine_support.h"

#include "jit/cache/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

static char why[240];

/* ---- the hash of a seal ---------------------------------------------------------------------- */

/* The hash has the values of the reference implementation's test vectors: key 0, 1, .., 15,
 * input 0, 1, .., n - 1. */
static void the_hash_is_siphash(void **state)
{
    static const struct {
        size_t n;
        unsigned char want[SEAL_BYTES];
    } known[] = {
        { 0,
          { 0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55,
            0x02, 0x93 } },
        { 1,
          { 0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22,
            0xfc, 0x45 } },
        { 2,
          { 0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a,
            0xff, 0xe4 } },
        { 63,
          { 0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f,
            0xbd, 0x7c } },
    };
    unsigned char text[64], got[SEAL_BYTES], whole[SEAL_BYTES];
    struct seal_key key;

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)i;
    memcpy(key.byte, text, sizeof key.byte);
    for (size_t i = 0; i < COUNT(known); i++) {
        limber_seal(&key, text, known[i].n, NULL, 0, got);
        assert_memory_equal(got, known[i].want, sizeof got);
    }
    limber_seal(&key, text, sizeof text, NULL, 0, whole);
    /* the text is hashed in two pieces, which meet at every position */
    for (size_t n = 0; n <= sizeof text; n++) {
        limber_seal(&key, text, n, text + n, sizeof text - n, got);
        assert_memory_equal(got, whole, sizeof got);
    }
}

/* ---- the key file ---------------------------------------------------------------------------- */

/* Writes a key file of `size` equal bytes with these permissions. */
static void write_bad_key(const char *path, size_t size, mode_t mode)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (size_t i = 0; i < size; i++)
        fputc('k', f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

/* A key is generated only if requested, and read again later.  Another file gets another key.
 * Other users cannot access file and folder. */
static void a_key_is_generated_once(void **state)
{
    struct seal_key one, two;
    struct stat st;

    (void)state;
    assert_false(limber_seal_key(in_dir("new/folder/key"), false, &one, why, sizeof why));
    assert_string_equal(why, "");
    assert_int_not_equal(access(in_dir("new"), F_OK), 0);
    assert_true(limber_seal_key(in_dir("new/folder/key"), true, &one, why, sizeof why));
    assert_true(limber_seal_key(in_dir("new/folder/key"), true, &two, why, sizeof why));
    assert_memory_equal(&one, &two, sizeof one);
    assert_true(limber_seal_key(in_dir("new/folder/other"), true, &two, why, sizeof why));
    assert_memory_not_equal(&one, &two, sizeof one);
    assert_int_equal(stat(in_dir("new/folder/key"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(in_dir("new/folder"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(st.st_nlink, 2);
}

/* Keys that others can read or write, links, FIFOs, files of wrong length, relative paths and other
 * users' keys are refused. */
static void keys_that_others_may_know_are_refused(void **state)
{
    static const mode_t modes[] = { 0640, 0604, 0620, 0660, 0666 };
    struct seal_key key;

    (void)state;
    for (size_t i = 0; i < COUNT(modes); i++) {
        write_bad_key(in_dir("key"), sizeof key, modes[i]);
        assert_false(limber_seal_key(in_dir("key"), true, &key, why, sizeof why));
        assert_non_null(strstr(why, "alone may read"));
    }
    write_bad_key(in_dir("key"), sizeof key, 0600);
    assert_true(limber_seal_key(in_dir("key"), true, &key, why, sizeof why));
    assert_int_equal(symlink(in_dir("key"), in_dir("link")), 0);
    assert_false(limber_seal_key(in_dir("link"), true, &key, why, sizeof why));
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_false(limber_seal_key(in_dir("pipe"), true, &key, why, sizeof why));
    /* a key file of wrong length is refused and not replaced */
    for (size_t n = 0; n < 20; n += 5) {
        write_bad_key(in_dir("key"), n, 0600);
        assert_false(limber_seal_key(in_dir("key"), true, &key, why, sizeof why));
        assert_non_null(strstr(why, "does not hold 16 bytes"));
    }
    assert_false(limber_seal_key("key", true, &key, why, sizeof why));
    assert_non_null(strstr(why, "no absolute path"));
    if (geteuid() == 0) {
        write_bad_key(in_dir("key"), sizeof key, 0600);
        assert_int_equal(chown(in_dir("key"), NOBODY, NOBODY), 0);
        assert_false(limber_seal_key(in_dir("key"), true, &key, why, sizeof why));
    }
}

/* 24 processes ask for a new key at the same time: all must get the same one. */
static void concurrent_processes_generate_one_key(void **state)
{
    enum { MANY = 24 };
    struct seal_key key[MANY];
    int go[2], out[MANY][2];

    (void)state;
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(pipe(out[i]), 0);
        if (fork() == 0) {
            char c;

            close(go[1]);
            /* read returns when the parent has started all processes and closes the pipe */
            _exit(read(go[0], &c, 1) != 0 ||
                  !limber_seal_key(in_dir("one/key"), true, &key[i], why, sizeof why) ||
                  write(out[i][1], &key[i], sizeof key[i]) != (ssize_t)sizeof key[i]);
        }
        close(out[i][1]);
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(read(out[i][0], &key[i], sizeof key[i]), sizeof key[i]);
        close(out[i][0]);
        assert_memory_equal(&key[i], &key[0], sizeof key[0]);
    }
    while (wait(NULL) > 0)
        ;
}

/* ---- the path to the key --------------------------------------------------------------------- */

/* The folder must be accepted: all folders on its path are safe. */
static void expect_opens(const char *path)
{
    int fd = limber_folder_open(path, false, why, sizeof why);

    if (fd < 0)
        fail_msg("%s: %s", path, why);
    close(fd);
}

/* The folder must be refused for this reason. */
static void expect_refused(const char *path, const char *reason)
{
    assert_int_equal(limber_folder_open(path, false, why, sizeof why), -1);
    if (!strstr(why, reason))
        fail_msg("%s: \"%s\" does not say \"%s\"", path, why, reason);
}

/* If any folder on the path to the key can be written by other users, the path is refused. */
static void permissions_of_every_parent_folder_are_checked(void **state)
{
    static const char *const ancestor[] = { "a", "a/b", "a/b/c" };

    (void)state;
    close(limber_folder_open(in_dir("a/b/c/d"), true, why, sizeof why));
    expect_opens(in_dir("a/b/c/d"));
    expect_opens(in_dir("a//b/./c/../c/d/"));
    for (size_t i = 0; i < COUNT(ancestor); i++) {
        assert_int_equal(chmod(in_dir(ancestor[i]), 0777), 0);
        expect_refused(in_dir("a/b/c/d"), "others may write");
        assert_non_null(strstr(why, ancestor[i]));
        assert_int_equal(chmod(in_dir(ancestor[i]), 0770), 0);
        expect_refused(in_dir("a/b/c/d"), "others may write");
        assert_int_equal(chmod(in_dir(ancestor[i]), 01777), 0);
        expect_opens(in_dir("a/b/c/d"));
        assert_int_equal(chmod(in_dir(ancestor[i]), 0755), 0);
        expect_opens(in_dir("a/b/c/d"));
        if (geteuid() != 0)
            continue;
        assert_int_equal(chown(in_dir(ancestor[i]), NOBODY, NOBODY), 0);
        expect_refused(in_dir("a/b/c/d"), "belongs to user 65534");
        assert_int_equal(chown(in_dir(ancestor[i]), 0, 0), 0);
    }
}

/* Symbolic links in a path are followed, but each folder on the way must be safe; endless links and
 * links of other users are refused. */
static void links_in_the_path_are_checked(void **state)
{
    char text[5000];

    (void)state;
    close(limber_folder_open(in_dir("real/folder"), true, why, sizeof why));
    assert_int_equal(symlink("real", in_dir("relative")), 0);
    assert_int_equal(symlink(in_dir("relative/folder"), in_dir("absolute")), 0);
    assert_int_equal(symlink("round", in_dir("round")), 0);
    expect_opens(in_dir("relative/folder"));
    expect_opens(in_dir("absolute"));
    expect_refused(in_dir("round/x"), strerror(ELOOP));
    close(limber_folder_open(in_dir("open"), true, why, sizeof why));
    assert_int_equal(symlink(in_dir("open/on"), in_dir("first")), 0);
    assert_int_equal(symlink(in_dir("real"), in_dir("open/on")), 0);
    expect_opens(in_dir("first/folder"));
    assert_int_equal(chmod(in_dir("open"), 0777), 0); /* the folder that has the second link */
    expect_refused(in_dir("first/folder"), "others may write");
    if (geteuid() == 0) {
        snprintf(text, sizeof text, "%s", in_dir("relative"));
        assert_int_equal(lchown(text, NOBODY, NOBODY), 0);
        expect_refused(in_dir("relative/folder"), "belongs to user");
    }
    expect_refused("relative", "no absolute path");
    expect_refused("", "no absolute path");
    write_bad_key(in_dir("file"), 1, 0600);
    expect_refused(in_dir("file/x"), strerror(ENOTDIR));
    assert_int_equal(limber_folder_open(in_dir("absent"), false, why, sizeof why), -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_siphash),
        unit_test_in_dir(a_key_is_generated_once),
        unit_test_in_dir(keys_that_others_may_know_are_refused),
        unit_test_in_dir(concurrent_processes_generate_one_key),
        unit_test_in_dir(permissions_of_every_parent_folder_are_checked),
        unit_test_in_dir(links_in_the_path_are_checked),
    };

    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
