/* SPDX-License-Identifier: BSD-3-Clause
 * The disk cache of kernels: entries are stored and loaded, damaged entries and unsafe folders are
 * refused, old entries are evicted. */
#define _GNU_SOURCE
#include "contexts.h"
#include "engine_support.h"

#include "limber/environment.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>
#include <xxhash.h>

/* Number of the cache's warnings, and the last one. */
static int warnings;
static char warning[700];

static void save_warning(void *user, const char *line)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", line);
}

/* Opens a cache folder for reading and writing.  Its warnings are counted. */
static struct disk *open_disk(const char *dir, size_t limit)
{
    const struct disk_options o = { .dir = dir,
                                    .limit = limit,
                                    .mode = CACHE_rw,
                                    .warn = save_warning,
                                    .key_file = limber_variable_value("LIMBER_CACHE_KEY") };
    struct disk *disk = limber_disk_new(&o);

    warnings = 0;
    *warning = '\0';
    assert_non_null(disk);
    return disk;
}

/* Makes up the facts of entry n. */
static struct facts make_facts(unsigned n)
{
    struct facts f = { .rows = 3, .pruned = 1, .bound = 0x1p-50, .cost = 0.5 };

    for (size_t i = 0; i < KEY_BYTES; i++)
        f.key[i] = (unsigned char)(n * 37 + i);
    snprintf(f.scheme, sizeof f.scheme, "scheme%u", n);
    snprintf(f.plan, sizeof f.plan, "plan %u", n);
    return f;
}

/* Stores entry n with `size` bytes of code. */
static void store(struct disk *disk, unsigned n, size_t size)
{
    struct facts f = make_facts(n);
    struct blob b = { malloc(size + 1), size };

    assert_non_null(b.data);
    for (size_t i = 0; i < size; i++)
        b.data[i] = (unsigned char)(i * 7 + n);
    limber_disk_store(disk, &f, &b);
    free(b.data);
}

/* Loads entry n and checks its contents.  Returns false if the cache has no such entry. */
static bool load(struct disk *disk, unsigned n)
{
    struct facts want = make_facts(n), got;
    struct blob b;
    bool ok = limber_disk_load(disk, want.key, &got, &b);

    if (ok) {
        assert_memory_equal(&got, &want, sizeof got);
        for (size_t i = 0; i < b.size; i++)
            assert_int_equal(b.data[i], (unsigned char)(i * 7 + n));
        free(b.data);
    } else {
        assert_null(b.data);
    }
    return ok;
}

/* Writes the path of entry n's file. */
static void path_of(char *path, size_t size, const char *dir, unsigned n)
{
    struct facts f = make_facts(n);
    char hex[KEY_HEX + 1];

    limber_key_hex(f.key, KEY_BYTES, hex);
    snprintf(path, size, "%s/%.2s/%s.kernel", dir, hex, hex + 2);
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* Stored entries, an empty one too, are loaded again, others are not.  Files and folders can be
 * accessed by their owner only. */
static void stored_entries_are_loaded(void **state)
{
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);
    struct stat st;

    (void)state;
    assert_false(load(disk, 1));
    store(disk, 1, 1000);
    store(disk, 2, 0);
    assert_true(load(disk, 1));
    assert_true(load(disk, 2));
    assert_false(load(disk, 3));
    path_of(path, sizeof path, dir, 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    *strrchr(path, '/') = '\0';
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    limber_disk_free(disk);
    discard(dir);
}

/* Flips a bit in each byte of an entry in turn: the entry must not be loaded, and must be
 * removed. */
static void every_damaged_byte_is_found(void **state)
{
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);
    unsigned char data[1024];
    size_t n;

    (void)state;
    store(disk, 1, 100);
    path_of(path, sizeof path, dir, 1);
    n = slurp(path, data, sizeof data);
    assert_in_range(n, 101, sizeof data - 1);
    for (size_t i = 0; i < n; i++) {
        data[i] ^= (unsigned char)(1 << i % 8);
        spill(path, data, n);
        data[i] ^= (unsigned char)(1 << i % 8);
        if (load(disk, 1) || exists(path))
            fail_msg("byte %zu of %zu may be damaged unseen", i, n);
    }
    spill(path, data, n);
    assert_true(load(disk, 1));
    limber_disk_free(disk);
    discard(dir);
}

/* Gives an entry's file every other length up to 1 KiB: it must not be loaded, and must be
 * removed. */
static void every_other_length_is_found(void **state)
{
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);
    unsigned char data[1024] = { 0 };
    size_t n;

    (void)state;
    store(disk, 1, 100);
    path_of(path, sizeof path, dir, 1);
    n = slurp(path, data, sizeof data);
    for (size_t i = 0; i < sizeof data; i++) {
        if (i == n)
            continue;
        spill(path, data, i);
        if (load(disk, 1) || exists(path))
            fail_msg("%zu of %zu bytes are taken", i, n);
    }
    limber_disk_free(disk);
    discard(dir);
}

/* An entry renamed to another key's file name must not be loaded under that key, and must be
 * removed. */
static void entries_of_another_key_are_not_loaded(void **state)
{
    char *dir = scratch(), one[5000], two[5000];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    store(disk, 1, 10);
    store(disk, 2, 10);
    path_of(one, sizeof one, dir, 1);
    path_of(two, sizeof two, dir, 2);
    assert_int_equal(rename(one, two), 0);
    assert_false(load(disk, 2));
    assert_false(exists(two));
    limber_disk_free(disk);
    discard(dir);
}

/* Checks that the folder is neither read nor written, and that the reason is given. */
static void expect_refused(const char *dir, const char *reason)
{
    struct disk *disk = open_disk(dir, 1 << 20);
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    char path[5000];

    assert_false(load(disk, 1));
    store(disk, 2, 10);
    path_of(path, sizeof path, dir, 2);
    assert_false(exists(path));
    limber_disk_describe(disk, &info);
    assert_non_null(strstr(info.why_not, reason));
    assert_false(info.writable);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, dir));
    limber_disk_free(disk);
}

/* Makes a cache folder that has entry 1. */
static char *with_an_entry(void)
{
    char *dir = scratch();
    struct disk *disk = open_disk(dir, 1 << 20);

    store(disk, 1, 10);
    assert_true(load(disk, 1));
    limber_disk_free(disk);
    return dir;
}

/* A cache folder that its group or other users may write to is neither read nor written. */
static void directories_that_others_write_to_are_refused(void **state)
{
    char *dir = with_an_entry();

    (void)state;
    assert_int_equal(chmod(dir, 0770), 0);
    expect_refused(dir, "others may write");
    assert_int_equal(chmod(dir, 0707), 0);
    expect_refused(dir, "others may write");
    chmod(dir, 0700);
    discard(dir);
}

/* A cache folder that belongs to another user is neither read nor written. */
static void foreign_directories_are_refused(void **state)
{
    char *dir;

    (void)state;
    if (geteuid() != 0)
        skip_because("only root can change the owner of a folder");
    dir = with_an_entry();
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    expect_refused(dir, "belongs to user 65534");
    discard(dir);
}

/* An entry, or its folder, that the group may write to is refused; the entry is removed and can be
 * stored again. */
static void entries_and_folders_that_others_write_to_are_refused(void **state)
{
    char *dir = with_an_entry(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    path_of(path, sizeof path, dir, 1);
    assert_int_equal(chmod(path, 0620), 0);
    assert_false(load(disk, 1));
    assert_false(exists(path));
    store(disk, 1, 10);
    assert_true(load(disk, 1));
    *strrchr(path, '/') = '\0';
    assert_int_equal(chmod(path, 0720), 0);
    assert_false(load(disk, 1));
    limber_disk_free(disk);
    discard(dir);
}

/* A symbolic link to a good entry, or a FIFO in its place, is not loaded, and reading does not
 * block. */
static void links_and_pipes_are_not_followed(void **state)
{
    char *dir = with_an_entry(), path[5000], other[5100];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    path_of(path, sizeof path, dir, 1);
    snprintf(other, sizeof other, "%s.kept", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_false(load(disk, 1));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(load(disk, 1));
    limber_disk_free(disk);
    discard(dir);
}

/* A cache whose path leads through a file stores nothing, warns once, and does not fail. */
static void a_path_through_a_file_degrades(void **state)
{
    char *dir = scratch(), file[5000], under[5100];
    struct disk *disk;

    (void)state;
    snprintf(file, sizeof file, "%s/file", dir);
    snprintf(under, sizeof under, "%s/cache", file);
    spill(file, (const unsigned char *)"x", 1);
    disk = open_disk(under, 1 << 20);
    store(disk, 1, 10);
    store(disk, 2, 10);
    assert_false(load(disk, 1));
    assert_int_equal(warnings, 1);
    limber_disk_free(disk);
    discard(dir);
}

/* Runs as the user nobody.  Returns 0, or the number of the check that failed. */
static int another_user(const char *dir)
{
    struct disk *disk;
    bool found;

    if (seteuid(NOBODY) != 0)
        return 1;
    disk = open_disk(dir, 1 << 20);
    warnings = 0;
    found = load(disk, 1);
    store(disk, 2, 10);         /* this user may not store entries */
    limber_disk_free(disk);
    return !found ? 2 : warnings != 1 ? 3 : 0;
}

/* A cache that root fills may be read by all other users. */
static void a_cache_of_the_system_is_read(void **state)
{
    char *dir, path[5000];
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip_because("only root can change the owner of a folder");
    dir = with_an_entry();
    path_of(path, sizeof path, dir, 1);
    assert_int_equal(chmod(path, 0644), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(chmod(dir, 0755), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(another_user(dir));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    discard(dir);
}

/* Makes this process use a new sealing key.  Returns the key's folder, which the caller removes. */
static char *use_key_of_its_own(void)
{
    char *folder = scratch(), key[5000];

    snprintf(key, sizeof key, "%s/key", folder);
    setenv("LIMBER_CACHE_KEY", key, 1);
    return folder;
}

/* Runs as the user nobody, on a folder that this user may not write to.  Returns 0, or the number
 * of the check that failed. */
static int read_only_child(const char *dir)
{
    struct disk *disk;
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    char *keys;

    if (geteuid() == 0 && seteuid(NOBODY) != 0)
        return 1;
    keys = use_key_of_its_own();
    disk = open_disk(dir, 1 << 20);
    store(disk, 1, 10);
    store(disk, 2, 10);
    discard(keys);
    if (warnings != 1 || !strstr(warning, "not written to"))
        return 2;
    limber_disk_describe(disk, &info);
    limber_disk_free(disk);
    return info.writable || !*info.why_not ? 3 : 0;
}

/* In a folder that cannot be written, a child process without root's rights must get along without
 * a cache. */
static void a_read_only_directory_degrades(void **state)
{
    char *dir = scratch();
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() == 0)
        assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(dir, 0500), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(read_only_child(dir));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    chmod(dir, 0700);
    discard(dir);
}

/* ---- forged entries ----------------------------------------------------------------------------
 */

enum { SEAL = 16, SUM = 8 };

/* Corrects the checksum of an entry's file, but not its seal, as anyone can who knows the
 * format. n: size of the file; bytes: size of the code in it. */
static void set_right_sum(unsigned char *file, size_t n, size_t bytes)
{
    size_t header = n - bytes;
    unsigned char seal[SEAL];
    uint64_t sum;

    memcpy(seal, file + header - SEAL, SEAL);
    memset(file + header - SEAL - SUM, 0, SEAL + SUM);
    sum = XXH3_64bits(file, n);
    memcpy(file + header - SEAL - SUM, &sum, SUM);
    memcpy(file + header - SEAL, seal, SEAL);
}

/* Changes one byte of entry 1 and corrects the checksum.  at: offset of the byte, from the end of
 * the file if from_end. */
static void forge(const char *dir, size_t at, bool from_end, size_t bytes)
{
    unsigned char data[1024];
    char path[5000];
    size_t n;

    path_of(path, sizeof path, dir, 1);
    n = slurp(path, data, sizeof data);
    data[from_end ? n - 1 - at : at] ^= 0x40; /* flips a bit that changes no line feed */
    set_right_sum(data, n, bytes);
    spill(path, data, n);
}

/* Callback of a verification of the cache: counts good entries, entries sealed by others, and
 * damaged ones. */
static int note_quality(void *user, const limber_cache_entry *e)
{
    int *n = user;

    n[e->good ? 0 : e->foreign ? 1 : 2]++;
    return 0;
}

/* Checks the numbers of good, foreign and damaged entries that a verification finds. */
static void expect_verified(struct disk *disk, int good, int foreign, int damaged)
{
    int n[3] = { 0 };
    struct diag d = { 0 };

    assert_true(limber_disk_each(disk, true, note_quality, n, &d));
    assert_int_equal(n[0], good);
    assert_int_equal(n[1], foreign);
    assert_int_equal(n[2], damaged);
}

/* Changes bytes of an entry's code or description and forges its checksum: the seal, which needs
 * the secret key, must show that. */
static void a_right_checksum_does_not_replace_the_seal(void **state)
{
    enum { BYTES = 100, FACTS = 16 + KEY_BYTES };
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    path_of(path, sizeof path, dir, 1);
    for (size_t at = 0; at < 2 * BYTES; at += 7) { /* bytes of the code and of its description */
        store(disk, 1, BYTES);
        expect_verified(disk, 1, 0, 0);
        forge(dir, at < BYTES ? at : FACTS + at % 8, at < BYTES, BYTES);
        expect_verified(disk, 0, 1, 0);
        assert_false(load(disk, 1));
        assert_false(exists(path));
    }
    limber_disk_free(disk);
    discard(dir);
}

/* The sealing key, as bytes, because it may hold zeros and line feeds. */
static struct {
    unsigned char bytes[16];
    size_t files, found;
} secret;

/* Callback of nftw: counts files, and those that contain the sealing key. */
static int look_for_secret(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    static unsigned char data[1 << 16];

    (void)st, (void)ftw;
    if (flag == FTW_F) {
        size_t n = slurp(path, data, sizeof data);

        secret.files++;
        secret.found += memmem(data, n, secret.bytes, sizeof secret.bytes) != NULL;
    }
    return 0;
}

/* Entries from an archive have the user's owner and permissions, but another user's seal. */
static void entries_sealed_by_others_do_not_run(void **state)
{
    char *theirs = scratch(), *mine = scratch(), *keys, command[10000];
    char *own = strdup(limber_variable_value("LIMBER_CACHE_KEY"));
    struct disk *disk;

    (void)state;
    assert_non_null(own);
    keys = use_key_of_its_own();
    disk = open_disk(theirs, 1 << 20);
    store(disk, 1, 10);
    assert_true(load(disk, 1));
    limber_disk_free(disk);
    setenv("LIMBER_CACHE_KEY", own, 1);
    disk = open_disk(mine, 1 << 20);
    store(disk, 2, 10);
    snprintf(command, sizeof command, "tar -C '%s' -cf - . | tar -C '%s' --no-same-owner -xf -",
             theirs, mine);
    assert_int_equal(system(command), 0);
    expect_verified(disk, 1, 1, 0);
    assert_true(load(disk, 2));
    assert_false(load(disk, 1));
    expect_verified(disk, 1, 0, 0);
    store(disk, 1, 10); /* stores the entry again, as after a compilation */
    assert_true(load(disk, 1));
    limber_disk_free(disk);

    /* the user's own entries may be packed and unpacked, and do not contain the key */
    snprintf(command, sizeof command, "rm -r '%s'/*; tar -C '%s' -cf - . | tar -C '%s' -xf -",
             theirs, mine, theirs);
    assert_int_equal(system(command), 0);
    disk = open_disk(theirs, 1 << 20);
    assert_true(load(disk, 1) && load(disk, 2));
    limber_disk_free(disk);
    assert_int_equal(slurp(own, secret.bytes, sizeof secret.bytes), sizeof secret.bytes);
    secret.files = secret.found = 0;
    assert_int_equal(nftw(mine, look_for_secret, 16, FTW_PHYS), 0);
    assert_true(secret.files > 1 && secret.found == 0);
    free(own);
    discard(keys);
    discard(theirs);
    discard(mine);
}

/* Without a usable key for seals the cache stores and loads nothing, says why, and leaves entries
 * of others alone. */
static void without_a_key_nothing_is_kept(void **state)
{
    char *dir = with_an_entry(), *own = strdup(limber_variable_value("LIMBER_CACHE_KEY")),
         path[5000];
    static const char *const reasons[] = { "LIMBER_CACHE_KEY", "no absolute path",
                                           "Not a directory" };
    struct disk *reader;
    limber_cache_info told = LIMBER_CACHE_INFO_INIT;

    (void)state;
    assert_non_null(own);
    path_of(path, sizeof path, dir, 1);
    for (size_t i = 0; i < COUNT(reasons); i++) {
        limber_cache_info info = LIMBER_CACHE_INFO_INIT;
        struct disk *disk;

        if (i == 0)
            unsetenv("LIMBER_CACHE_KEY");
        else
            setenv("LIMBER_CACHE_KEY", i == 1 ? "key" : "/dev/null/key", 1);
        disk = open_disk(dir, 1 << 20);
        assert_false(load(disk, 1));
        store(disk, 2, 10);
        assert_int_equal(warnings, 1);
        limber_disk_describe(disk, &info);
        assert_non_null(strstr(info.why_not, reasons[i]));
        assert_false(info.writable);
        /* the entry is kept, since without a key nobody can tell whose it is */
        assert_true(exists(path));
        limber_disk_free(disk);
    }
    snprintf(path, sizeof path, "%s/absent", dir);
    setenv("LIMBER_CACHE_KEY", path, 1);
    reader = limber_disk_new(
        &(struct disk_options){ .dir = dir, .limit = 1 << 20, .mode = CACHE_ro, .key_file = path });
    limber_disk_describe(reader, &told);
    assert_non_null(strstr(told.why_not, "absent, and none is made"));
    assert_false(exists(path));
    limber_disk_free(reader);
    setenv("LIMBER_CACHE_KEY", own, 1);
    free(own);
    discard(dir);
}

/* A cache below a folder that others may write to, or that belongs to another user, or with a
 * relative path is refused. */
static void permissions_of_parent_folders_are_checked(void **state)
{
    char *top = scratch(), dir[5000], here[5000];
    struct disk *disk;

    (void)state;
    snprintf(dir, sizeof dir, "%s/unpacked/cache", top);
    disk = open_disk(dir, 1 << 20);
    store(disk, 1, 10);
    assert_true(load(disk, 1));
    limber_disk_free(disk);
    *strrchr(dir, '/') = '\0';
    assert_int_equal(chmod(dir, 0777), 0);
    strcat(dir, "/cache");
    expect_refused(dir, "unpacked: others may write");
    *strrchr(dir, '/') = '\0';
    assert_int_equal(chmod(dir, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
        strcat(dir, "/cache");
        expect_refused(dir, "unpacked: it belongs to user 65534");
        *strrchr(dir, '/') = '\0';
        assert_int_equal(chown(dir, 0, 0), 0);
    }
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    expect_refused("cache", "no absolute path");
    expect_refused("./cache", "no absolute path");
    assert_int_equal(chdir(here), 0);
    discard(top);
}

/* Runs as the user nobody: looks in the user's own folder, with a file that root owns, and in
 * root's folder.  Returns 0, or the number of the check that failed. */
static int reader_of_roots(const char *own, const char *site)
{
    struct disk *disk;
    char *keys;
    int wrong = 0;

    if (seteuid(NOBODY) != 0)
        return 1;
    keys = use_key_of_its_own();
    disk = open_disk(own, 1 << 20);
    if (load(disk, 1))
        wrong = 2;
    limber_disk_free(disk);
    disk = open_disk(site, 1 << 20);
    if (load(disk, 1))
        wrong = 3; /* the number of this check: the entry's checksum is wrong */
    if (!load(disk, 2))
        wrong = 4;
    limber_disk_free(disk);
    unsetenv("LIMBER_CACHE_KEY");
    disk = open_disk(site, 1 << 20);
    if (!load(disk, 2))
        wrong = 5; /* the number of this check: entries in root's folder need no key */
    limber_disk_free(disk);
    discard(keys);
    return wrong;
}

/* Entries that root owns are trusted by other users only in a folder of root's, not in a user's own
 * folder.  Root itself needs the right seal.  The test must run as root. */
static void ownership_of_root_counts_in_roots_folders_only(void **state)
{
    char *own, *site, command[10000], path[5000];
    unsigned char data[1024];
    struct disk *disk;
    size_t n;
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip_because("only root can change the owner of a folder");
    own = with_an_entry();
    site = with_an_entry();
    disk = open_disk(site, 1 << 20);
    store(disk, 2, 10);
    limber_disk_free(disk);
    path_of(path, sizeof path, site, 1);
    n = slurp(path, data, sizeof data);
    data[n - 1] ^= 1;
    spill(path, data, n);
    snprintf(command, sizeof command, "chmod -R a+rX '%s' '%s'; chown -R %d '%s'; chown 0 '%s'/*/*",
             own, site, NOBODY, own, own);
    assert_int_equal(system(command), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(reader_of_roots(own, site));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    disk = open_disk(site, 1 << 20); /* root itself needs the right seal */
    forge(site, 0, true, 10);
    assert_false(load(disk, 1));
    limber_disk_free(disk);
    discard(own);
    discard(site);
}

/* A folder where an entry's file should be, or a file where its folder should be, must not keep
 * other entries from being stored and loaded. */
static void an_obstacle_to_one_entry_leaves_the_others_usable(void **state)
{
    char *dir = scratch(), path[5000], inner[5100];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    path_of(path, sizeof path, dir, 1);
    store(disk, 1, 10);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(load(disk, 1));
    store(disk, 1, 10);
    assert_true(load(disk, 1));
    assert_int_equal(unlink(path), 0);
    snprintf(inner, sizeof inner, "%s/full", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    store(disk, 1, 10); /* an entry cannot replace a folder */
    assert_false(load(disk, 1));
    path_of(path, sizeof path, dir, 2);
    *strrchr(path, '/') = '\0';
    spill(path, (const unsigned char *)"x", 1);
    store(disk, 2, 10); /* must fail, since a file is where the entry's folder should be */
    assert_false(load(disk, 2));
    store(disk, 3, 10);
    assert_true(load(disk, 3));
    assert_int_equal(warnings, 0);
    limber_disk_free(disk);
    discard(dir);
}

/* When the cache exceeds its limit, the entries that were used longest ago are removed, until at
 * most 4/5 of the limit are used. */
static void the_oldest_entries_are_evicted(void **state)
{
    enum { SIZE = 1000, FIT = 10 };
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, FIT * 1300);
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    time_t now = time(NULL);

    (void)state;
    for (unsigned i = 0; i < FIT; i++) {
        store(disk, i, SIZE);
        path_of(path, sizeof path, dir, i);
        assert_true(exists(path));
        utime(path, &(struct utimbuf){ now - 1000 + i, now - 1000 + i });
    }
    limber_disk_describe(disk, &info);
    assert_int_equal(info.entries, FIT);
    store(disk, FIT, SIZE); /* 11 entries of 1264 bytes exceed the limit */
    limber_disk_describe(disk, &info);
    assert_true(info.bytes <= info.limit / 5 * 4);
    assert_true(info.entries >= FIT / 2);
    assert_true(load(disk, FIT));
    assert_false(load(disk, 0));
    assert_true(load(disk, FIT - 1));
    limber_disk_free(disk);
    discard(dir);
}

/* Processes that share a folder keep its limit together, although none counts what others write:
 * each of two caches alone stays far below the limit. */
static void the_limit_holds_for_all_processes_together(void **state)
{
    enum { SIZE = 1000, FIT = 10 };
    char *dir = scratch();
    struct disk *disk[2] = { open_disk(dir, FIT * 1300), open_disk(dir, FIT * 1300) };
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;

    (void)state;
    store(disk[0], 0, SIZE);
    for (unsigned i = 1; i < FIT; i++)
        store(disk[1], i, SIZE);
    limber_disk_describe(disk[0], &info);
    assert_int_equal(info.entries, FIT);
    store(disk[0], FIT, SIZE);
    limber_disk_describe(disk[0], &info);
    assert_true(info.bytes <= info.limit);
    assert_true(load(disk[1], FIT));
    limber_disk_free(disk[0]);
    limber_disk_free(disk[1]);
    discard(dir);
}

/* Loading renews the modification time of an entry that is a week old, but not of one that is an
 * hour old. */
static void use_renews_an_entry_once_a_day(void **state)
{
    char *dir = with_an_entry(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);
    time_t now = time(NULL), hour = now - 3600, week = now - 7 * 24 * 3600;
    struct stat st;

    (void)state;
    path_of(path, sizeof path, dir, 1);
    utime(path, &(struct utimbuf){ hour, hour });
    assert_true(load(disk, 1));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mtime, hour);
    utime(path, &(struct utimbuf){ week, week });
    assert_true(load(disk, 1));
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mtime >= now);
    limber_disk_free(disk);
    discard(dir);
}

/* limber_cache_describe, _each and _clear with three entries of which one is damaged: counts and
 * removals must be right. */
static void control_functions_describe_and_clear(void **state)
{
    char *dir = scratch(), path[5000];
    unsigned char data[2048];
    limber_context *ctx =
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    int n[2] = { 0, 0 };
    size_t size, removed;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        store(ctx->disk, i, 500);
    path_of(path, sizeof path, dir, 1);
    size = slurp(path, data, sizeof data);
    data[size - 1] ^= 1;
    spill(path, data, size);
    assert_int_equal(limber_cache_describe(ctx, &info), LIMBER_STATUS_OK);
    assert_int_equal(info.entries, 3);
    assert_string_equal(info.directory, dir);
    assert_true(info.writable);
    assert_int_equal(limber_cache_each(ctx, LIMBER_CACHE_VERIFY, tally, n), LIMBER_STATUS_OK);
    assert_int_equal(n[0], 1);
    assert_int_equal(n[1], 2);
    assert_int_equal(limber_cache_clear(ctx, LIMBER_CACHE_CLEAR_DAMAGED, &removed),
                     LIMBER_STATUS_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(limber_cache_clear(ctx, LIMBER_CACHE_CLEAR_ALL, &removed), LIMBER_STATUS_OK);
    assert_int_equal(removed, 2);
    limber_destroy(ctx);
    discard(dir);
}

static bool no_compiler(const struct plan *p, const struct target *t, const struct dump *dump,
                        struct blob *out, struct diag *d)
{
    (void)p, (void)t, (void)dump, (void)out;
    return limber_fail(d, LIMBER_STATUS_DEVICE, "no compiler is installed");
}

/* Without a compiler the interpreter computes, unless the caller named the backend. */
static void without_a_compiler(void **state)
{
    struct backend bare = counted;
    const struct backend *const list[] = { &bare, &limber_backend_interp, NULL };
    struct diag d = { 0 };
    limber_report r = LIMBER_REPORT_INIT;
    limber_context *ctx;
    limber_status status;

    (void)state;
    bare.compile = no_compiler;
    assert_true(limber_context_make(
        &ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = "" }, list, &d));
    assert_string_equal(limber_fallback_reason(ctx), "");
    assert_refused(gemm_on_miss(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_DEVICE,
                   "no compiler is installed");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
        assert_string_equal(r.backend, "interp");
        assert_string_equal(limber_fallback_reason(ctx), "no compiler is installed");
    }
    assert_int_equal(gemm_on_miss(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_DEVICE);
    do
        status = gemm_on_miss(ctx, LIMBER_ON_MISS_REFUSE, &r);
    while (status == LIMBER_STATUS_NOT_READY);
    assert_int_equal(status, LIMBER_STATUS_DEVICE);
    limber_destroy(ctx);
    ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .backend = "counted" });
    assert_int_equal(gemm_on_miss(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_OK);
    assert_string_equal(limber_fallback_reason(ctx), "");
    limber_destroy(ctx);
    assert_true(limber_context_make(
        &ctx,
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .backend = "counted" },
        list, &d));
    assert_refused(small_gemm(ctx, &r), LIMBER_STATUS_DEVICE, "no compiler is installed");
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_entries_are_loaded),
        cmocka_unit_test(every_damaged_byte_is_found),
        cmocka_unit_test(every_other_length_is_found),
        cmocka_unit_test(entries_of_another_key_are_not_loaded),
        cmocka_unit_test(directories_that_others_write_to_are_refused),
        cmocka_unit_test(foreign_directories_are_refused),
        cmocka_unit_test(entries_and_folders_that_others_write_to_are_refused),
        cmocka_unit_test(links_and_pipes_are_not_followed),
        cmocka_unit_test(a_path_through_a_file_degrades),
        cmocka_unit_test(a_cache_of_the_system_is_read),
        cmocka_unit_test(a_read_only_directory_degrades),
        cmocka_unit_test(a_right_checksum_does_not_replace_the_seal),
        cmocka_unit_test(entries_sealed_by_others_do_not_run),
        cmocka_unit_test(without_a_key_nothing_is_kept),
        cmocka_unit_test(permissions_of_parent_folders_are_checked),
        cmocka_unit_test(ownership_of_root_counts_in_roots_folders_only),
        cmocka_unit_test(an_obstacle_to_one_entry_leaves_the_others_usable),
        cmocka_unit_test(the_oldest_entries_are_evicted),
        cmocka_unit_test(the_limit_holds_for_all_processes_together),
        cmocka_unit_test(use_renews_an_entry_once_a_day),
        cmocka_unit_test(control_functions_describe_and_clear),
        cmocka_unit_test(without_a_compiler),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
