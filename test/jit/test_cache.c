/* SPDX-License-Identifier: BSD-3-Clause
 * The disk cache of kernels: stored and loaded entries, refused entries and folders, eviction. */
#define _GNU_SOURCE
#include "engine_support.h"

#include "limber/environment.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>
#include <xxhash.h>

static int warnings;
static char warning[700];

static void save_warning(void *user, const char *line)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", line);
}

/* Opens a cache folder for reading and writing; its warnings are counted. */
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

/* Made-up facts of entry n. */
static struct facts facts_of(unsigned n)
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
    struct facts f = facts_of(n);
    struct blob b = { malloc(size + 1), size };

    assert_non_null(b.data);
    for (size_t i = 0; i < size; i++)
        b.data[i] = (unsigned char)(i * 7 + n);
    limber_disk_store(disk, &f, &b);
    free(b.data);
}

/* Loads entry n, if it is there, and checks that it is what `store` stored. */
static bool load(struct disk *disk, unsigned n)
{
    struct facts want = facts_of(n), got;
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
    struct facts f = facts_of(n);
    char hex[KEY_HEX + 1];

    limber_key_hex(f.key, KEY_BYTES, hex);
    snprintf(path, size, "%s/%.2s/%s.kernel", dir, hex, hex + 2);
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

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

/* Checks that a directory with this mode and owner is neither read nor written. */
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

/* Makes a cache folder with entry 1. */
static char *with_an_entry(void)
{
    char *dir = scratch();
    struct disk *disk = open_disk(dir, 1 << 20);

    store(disk, 1, 10);
    assert_true(load(disk, 1));
    limber_disk_free(disk);
    return dir;
}

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

static void foreign_directories_are_refused(void **state)
{
    char *dir;

    (void)state;
    if (geteuid() != 0)
        skip();                 /* only root can change the owner of a directory */
    dir = with_an_entry();
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    expect_refused(dir, "belongs to user 65534");
    discard(dir);
}

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

/* Runs as nobody.  Returns 0, or the number of the check that failed. */
static int another_user(const char *dir)
{
    struct disk *disk;
    bool found;

    if (seteuid(NOBODY) != 0)
        return 1;
    disk = open_disk(dir, 1 << 20);
    warnings = 0;
    found = load(disk, 1);
    store(disk, 2, 10);         /* must fail */
    limber_disk_free(disk);
    return !found ? 2 : warnings != 1 ? 3 : 0;
}

/* Root fills the cache; all others may only read it. */
static void a_cache_of_the_system_is_read(void **state)
{
    char *dir, path[5000];
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip();
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

/* Sets a key of its own for the rest of this process; returns the key's folder, which the caller
 * removes. */
static char *use_key_of_its_own(void)
{
    char *folder = scratch(), key[5000];

    snprintf(key, sizeof key, "%s/key", folder);
    setenv("LIMBER_CACHE_KEY", key, 1);
    return folder;
}

/* Runs as nobody, with a directory of its own that it may not write to.  Returns 0, or the number
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

/* Corrects the checksum, as anyone can who knows the format, but leaves the seal. */
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

/* Changes one byte of entry 1 in dir and corrects the checksum. */
static void forge(const char *dir, size_t at, bool from_end, size_t bytes)
{
    unsigned char data[1024];
    char path[5000];
    size_t n;

    path_of(path, sizeof path, dir, 1);
    n = slurp(path, data, sizeof data);
    data[from_end ? n - 1 - at : at] ^= 0x40; /* keeps text in lines */
    set_right_sum(data, n, bytes);
    spill(path, data, n);
}

/* Callback of a check of the cache: counts good entries, those sealed by others, and damaged
 * ones. */
static int note_quality(void *user, const limber_cache_entry *e)
{
    int *n = user;

    n[e->good ? 0 : e->foreign ? 1 : 2]++;
    return 0;
}

/* Counts of good, foreign and damaged entries that a verification must find. */
static void expect_verified(struct disk *disk, int good, int foreign, int damaged)
{
    int n[3] = { 0 };
    struct diag d = { 0 };

    assert_true(limber_disk_each(disk, true, note_quality, n, &d));
    assert_int_equal(n[0], good);
    assert_int_equal(n[1], foreign);
    assert_int_equal(n[2], damaged);
}

static void a_right_checksum_does_not_replace_the_seal(void **state)
{
    enum { BYTES = 100, FACTS = 16 + KEY_BYTES };
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    path_of(path, sizeof path, dir, 1);
    for (size_t at = 0; at < 2 * BYTES; at += 7) { /* bytes of the code, and of its description */
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

/* The seal's key, searched for as bytes because it may hold zeros and line feeds. */
static struct {
    unsigned char bytes[16];
    size_t files, found;
} secret;

/* Callback of nftw: counts files in which the sealing key occurs. */
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

/* Entries come from an archive, which gives them the user's owner and permissions. */
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
    store(disk, 1, 10); /* compiled again */
    assert_true(load(disk, 1));
    limber_disk_free(disk);

    /* the user's own entries may be copied and packed, and do not contain the key */
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
        assert_true(exists(path)); /* whose it is cannot be told */
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

/* Runs as nobody.  Returns 0, or the number of the check that failed, in its own folder with a file
 * owned by root and in root's folder. */
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
        wrong = 3; /* its checksum is wrong */
    if (!load(disk, 2))
        wrong = 4;
    limber_disk_free(disk);
    unsetenv("LIMBER_CACHE_KEY");
    disk = open_disk(site, 1 << 20);
    if (!load(disk, 2))
        wrong = 5; /* a folder of root's needs no key */
    limber_disk_free(disk);
    discard(keys);
    return wrong;
}

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
        skip();
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
    disk = open_disk(site, 1 << 20); /* root itself asks for its seal */
    forge(site, 0, true, 10);
    assert_false(load(disk, 1));
    limber_disk_free(disk);
    discard(own);
    discard(site);
}

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
    store(disk, 1, 10); /* must fail */
    assert_false(load(disk, 1));
    path_of(path, sizeof path, dir, 2);
    *strrchr(path, '/') = '\0';
    spill(path, (const unsigned char *)"x", 1);
    store(disk, 2, 10); /* a file where its folder should be */
    assert_false(load(disk, 2));
    store(disk, 3, 10);
    assert_true(load(disk, 3));
    assert_int_equal(warnings, 0);
    limber_disk_free(disk);
    discard(dir);
}

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

/* The interpreter computes, unless the backend was asked for by name. */
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
    assert_int_equal(gemm_on_miss(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_DEVICE);
    assert_non_null(strstr(limber_error_text(), "no compiler is installed"));
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
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_DEVICE);
    assert_non_null(strstr(limber_error_text(), "no compiler is installed"));
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
        cmocka_unit_test(use_renews_an_entry_once_a_day),
        cmocka_unit_test(control_functions_describe_and_clear),
        cmocka_unit_test(without_a_compiler),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
