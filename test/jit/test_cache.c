/* SPDX-License-Identifier: BSD-3-Clause
 * The two kernel caches: what is kept, what is refused, what is made again. */
#include "engine_support.h"

#include "limber/environment.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>
#include <xxhash.h>

enum { NOBODY = 65534 };

static int warnings;
static char warning[700];

static void warn(void *user, const char *line)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", line);
}

static struct disk *open_disk(const char *dir, size_t limit)
{
    const struct disk_options o = { .dir = dir,
                                    .limit = limit,
                                    .mode = CACHE_rw,
                                    .warn = warn,
                                    .key_file = limber_variable_value("LIMBER_CACHE_KEY") };
    struct disk *disk = limber_disk_new(&o);

    warnings = 0;
    *warning = '\0';
    assert_non_null(disk);
    return disk;
}

static struct facts facts_of(unsigned n)
{
    struct facts f = { .rows = 3, .pruned = 1, .bound = 0x1p-50, .cost = 0.5 };

    for (size_t i = 0; i < KEY_BYTES; i++)
        f.key[i] = (unsigned char)(n * 37 + i);
    snprintf(f.scheme, sizeof f.scheme, "scheme%u", n);
    snprintf(f.plan, sizeof f.plan, "plan %u", n);
    return f;
}

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

static size_t slurp(const char *path, unsigned char *data, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(data, 1, room, f);
    fclose(f);
    return n;
}

static void spill(const char *path, const unsigned char *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
    chmod(path, 0600);
}

static void keeps_what_it_is_given(void **state)
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

static void another_key_is_not_taken(void **state)
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

/* Nothing is read from or written to a directory with this mode and owner. */
static void refused(const char *dir, const char *reason)
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
    refused(dir, "others may write");
    assert_int_equal(chmod(dir, 0707), 0);
    refused(dir, "others may write");
    chmod(dir, 0700);
    discard(dir);
}

static void foreign_directories_are_refused(void **state)
{
    char *dir;

    (void)state;
    if (geteuid() != 0)
        skip();                 /* only root can give a directory away */
    dir = with_an_entry();
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    refused(dir, "belongs to user 65534");
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

/* Runs as nobody, as below.  Answers 0, or the number of what went wrong. */
static int another_user(const char *dir)
{
    struct disk *disk;
    bool found;

    if (seteuid(NOBODY) != 0)
        return 1;
    disk = open_disk(dir, 1 << 20);
    warnings = 0;
    found = load(disk, 1);
    store(disk, 2, 10);         /* cannot be */
    limber_disk_free(disk);
    return !found ? 2 : warnings != 1 ? 3 : 0;
}

/* Filled by root for all, who may only read it. */
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

/* From here on, in this process; the folder of it is the caller's. */
static char *use_key_of_its_own(void)
{
    char *folder = scratch(), key[5000];

    snprintf(key, sizeof key, "%s/key", folder);
    setenv("LIMBER_CACHE_KEY", key, 1);
    return folder;
}

/* Runs as nobody: a directory of its own that it may not write to.  Answers 0, or the number of
 * what went wrong. */
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

/* What whoever knows the format can do: the checksum is right, the seal is what it was. */
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

/* Entry 1 of dir, with a byte that is another. */
static void forge(const char *dir, size_t at, bool from_end, size_t bytes)
{
    unsigned char data[1024];
    char path[5000];
    size_t n;

    path_of(path, sizeof path, dir, 1);
    n = slurp(path, data, sizeof data);
    data[from_end ? n - 1 - at : at] ^= 0x10;
    set_right_sum(data, n, bytes);
    spill(path, data, n);
}

static int note_quality(void *user, const limber_cache_entry *e)
{
    int *n = user;

    n[e->good ? 0 : e->foreign ? 1 : 2]++;
    return 0;
}

/* good, foreign, damaged */
static void verified(struct disk *disk, int good, int foreign, int damaged)
{
    int n[3] = { 0 };
    struct diag d = { 0 };

    assert_true(limber_disk_each(disk, true, note_quality, n, &d));
    assert_int_equal(n[0], good);
    assert_int_equal(n[1], foreign);
    assert_int_equal(n[2], damaged);
}

static void a_right_checksum_is_no_seal(void **state)
{
    enum { BYTES = 100, FACTS = 16 + KEY_BYTES };
    char *dir = scratch(), path[5000];
    struct disk *disk = open_disk(dir, 1 << 20);

    (void)state;
    path_of(path, sizeof path, dir, 1);
    for (size_t at = 0; at < 2 * BYTES; at += 7) { /* of the code, and of what is said of it */
        store(disk, 1, BYTES);
        verified(disk, 1, 0, 0);
        forge(dir, at < BYTES ? at : FACTS + at % 8, at < BYTES, BYTES);
        verified(disk, 0, 1, 0);
        assert_false(load(disk, 1));
        assert_false(exists(path));
    }
    limber_disk_free(disk);
    discard(dir);
}

/* As an archive brings them: owner and permissions are the user's. */
static void entries_that_others_made_do_not_run(void **state)
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
    verified(disk, 1, 1, 0);
    assert_true(load(disk, 2));
    assert_false(load(disk, 1));
    verified(disk, 1, 0, 0);
    store(disk, 1, 10); /* made again */
    assert_true(load(disk, 1));
    limber_disk_free(disk);

    /* one's own may be copied and packed, and nothing of the key is in them */
    snprintf(command, sizeof command, "rm -r '%s'/*; tar -C '%s' -cf - . | tar -C '%s' -xf -",
             theirs, mine, theirs);
    assert_int_equal(system(command), 0);
    disk = open_disk(theirs, 1 << 20);
    assert_true(load(disk, 1) && load(disk, 2));
    limber_disk_free(disk);
    snprintf(command, sizeof command, "! grep -rqF \"$(cat '%s')\" '%s' 2> /dev/null", own, mine);
    assert_int_equal(system(command), 0);
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

static void the_way_to_the_directory_is_looked_at(void **state)
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
    refused(dir, "unpacked: others may write");
    *strrchr(dir, '/') = '\0';
    assert_int_equal(chmod(dir, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
        strcat(dir, "/cache");
        refused(dir, "unpacked: it belongs to user 65534");
        *strrchr(dir, '/') = '\0';
        assert_int_equal(chown(dir, 0, 0), 0);
    }
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    refused("cache", "no absolute path");
    refused("./cache", "no absolute path");
    assert_int_equal(chdir(here), 0);
    discard(top);
}

/* Runs as nobody.  Answers 0, or the number of what went wrong: of a folder of its own with a file
 * of root's, and of root's. */
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
        wrong = 5; /* there, no key is needed */
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

static void what_is_in_the_way_of_an_entry_stops_no_other(void **state)
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
    store(disk, 1, 10); /* cannot be */
    assert_false(load(disk, 1));
    path_of(path, sizeof path, dir, 2);
    *strrchr(path, '/') = '\0';
    spill(path, (const unsigned char *)"x", 1);
    store(disk, 2, 10); /* a file in the place of its folder */
    assert_false(load(disk, 2));
    store(disk, 3, 10);
    assert_true(load(disk, 3));
    assert_int_equal(warnings, 0);
    limber_disk_free(disk);
    discard(dir);
}

static void the_oldest_make_room(void **state)
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
    store(disk, FIT, SIZE); /* 11 entries of 1264 bytes: over the limit */
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

static int tally(void *user, const limber_cache_entry *e)
{
    int *n = user;

    n[e->good ? 1 : 0]++;
    return 0;
}

static void controls_tell_and_clear(void **state)
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
    assert_int_equal(limber_cache_clear(ctx, LIMBER_CACHE_DAMAGED, &removed), LIMBER_STATUS_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(limber_cache_clear(ctx, LIMBER_CACHE_ALL, &removed), LIMBER_STATUS_OK);
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

/* The interpreter serves, unless the backend was asked for by name. */
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
    assert_int_equal(gemm_meanwhile(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_DEVICE);
    assert_non_null(strstr(limber_error_text(), "no compiler is installed"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
        assert_string_equal(r.backend, "interp");
        assert_string_equal(limber_fallback_reason(ctx), "no compiler is installed");
    }
    assert_int_equal(gemm_meanwhile(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_DEVICE);
    do
        status = gemm_meanwhile(ctx, LIMBER_ON_MISS_REFUSE, &r);
    while (status == LIMBER_STATUS_NOT_READY);
    assert_int_equal(status, LIMBER_STATUS_DEVICE);
    limber_destroy(ctx);
    ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = "", .backend = "counted" });
    assert_int_equal(gemm_meanwhile(ctx, LIMBER_ON_MISS_COMPILE, &r), LIMBER_STATUS_OK);
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

/* ---- kernels in memory ----------------------------------------------------------------------- */

struct gate {
    sem_t entered, leave;
    int made;
    bool fails;
};

static bool gated(void *user, struct entry *e, struct diag *d)
{
    struct gate *g = user;

    (void)e;
    g->made++;
    sem_post(&g->entered);
    sem_wait(&g->leave);
    return !g->fails || limber_fail(d, LIMBER_STATUS_DEVICE, "no such luck");
}

static bool at_once(void *user, struct entry *e, struct diag *d)
{
    (void)user, (void)e, (void)d;
    return true;
}

struct asker {
    struct kernel_cache *m;
    struct gate *gate;
    bool ok;
    struct diag d;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct entry *e;
    bool found;

    a->ok = limber_kernels_get(a->m, "slow", 4, (struct kernel_maker){ gated, a->gate }, &e, &found,
                               &a->d);
    if (a->ok)
        limber_kernels_put(a->m, e);
    return NULL;
}

/* Eight threads want what one makes; meanwhile another kernel is found without waiting. */
static void one_makes_and_the_others_wait(bool fails)
{
    struct gate gate = { .fails = fails };
    struct kernel_cache *m = limber_kernels_new(100);
    struct asker asker[8];
    pthread_t thread[8];
    struct entry *e;
    struct diag d = { 0 };
    bool found;

    sem_init(&gate.entered, 0, 0);
    sem_init(&gate.leave, 0, 0);
    assert_true(
        limber_kernels_get(m, "fast", 4, (struct kernel_maker){ at_once, NULL }, &e, &found, &d));
    assert_false(found);
    limber_kernels_put(m, e);
    for (int i = 0; i < 8; i++) {
        asker[i] = (struct asker){ .m = m, .gate = &gate };
        pthread_create(&thread[i], NULL, ask, &asker[i]);
        if (i == 0)
            sem_wait(&gate.entered); /* the first makes it, and is held up */
    }
    assert_true(
        limber_kernels_get(m, "fast", 4, (struct kernel_maker){ at_once, NULL }, &e, &found, &d));
    assert_true(found);
    limber_kernels_put(m, e);
    usleep(50000); /* time for the others to come and wait */
    for (int i = 0; i < 8; i++)
        sem_post(&gate.leave);
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(asker[i].ok, !fails);
        if (fails)
            assert_string_equal(asker[i].d.text, "no such luck");
    }
    if (!fails)
        assert_int_equal(gate.made, 1);
    assert_int_equal(limber_kernels_count(m), fails ? 1 : 2);
    limber_kernels_free(m);
    sem_destroy(&gate.entered);
    sem_destroy(&gate.leave);
}

static void one_makes_a_kernel_for_all(void **state)
{
    (void)state;
    one_makes_and_the_others_wait(false);
}

static void a_failure_is_shared_and_not_kept(void **state)
{
    (void)state;
    one_makes_and_the_others_wait(true);
}

static void memory_is_bounded(void **state)
{
    struct kernel_cache *m = limber_kernels_new(4);
    const struct kernel_maker kernel_maker = { at_once, NULL };
    struct entry *held, *e;
    struct diag d = { 0 };
    bool found;
    int first = -1;

    (void)state;
    assert_true(limber_kernels_get(m, &first, sizeof first, kernel_maker, &held, &found, &d));
    for (int i = 0; i < 20; i++) {
        assert_true(limber_kernels_get(m, &i, sizeof i, kernel_maker, &e, &found, &d));
        limber_kernels_put(m, e);
        assert_true(limber_kernels_count(m) <= 4);
    }
    assert_true(limber_kernels_get(m, &first, sizeof first, kernel_maker, &e, &found, &d));
    assert_true(found); /* what is in use stays, however old */
    assert_ptr_equal(e, held);
    limber_kernels_put(m, e);
    limber_kernels_put(m, held);
    limber_kernels_free(m);
}

/* ---- whole calls ----------------------------------------------------------------------------- */

static void kernels_come_from_memory_then_from_disk(void **state)
{
    char *dir = scratch();
    limber_context *ctx =
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    limber_report r = LIMBER_REPORT_INIT, first = LIMBER_REPORT_INIT;

    (void)state;
    compiles = unloads = loads = 0;
    assert_int_equal(small_gemm(ctx, &first), LIMBER_STATUS_OK);
    assert_int_equal(first.from, 0);
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 2);
    limber_destroy(ctx);
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 1);
    assert_string_equal(r.kernel, first.kernel);
    assert_string_equal(r.scheme, first.scheme);
    assert_int_equal(r.rows, first.rows);
    assert_int_equal(compiles, 1);
    limber_destroy(ctx);
    assert_int_equal(loads, 2);
    assert_int_equal(unloads, 2);
    discard(dir);
}

static bool by_scheme(const struct plan *p, const struct target *t, struct blob *out,
                      struct diag *d)
{
    (void)t;
    out->size = strlen(p->scheme);
    out->data = (unsigned char *)strdup(p->scheme);
    return out->data || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory");
}

/* Eight numbers of bits, two schemes. */
static void plans_of_one_code_share_it(void **state)
{
    static const char *const scheme[] = { "native", "exact" };
    struct backend sharing = counted;
    const struct backend *const list[] = { &sharing, NULL };
    limber_format f64 = format("f64");
    char *dir = scratch();

    (void)state;
    sharing.code_key = by_scheme;
    compiles = 0;
    for (int round = 0; round < 2; round++) {
        limber_context *ctx;
        struct diag d = { 0 };

        assert_true(limber_context_make(
            &ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = dir }, list, &d));
        for (int i = 0; i < 8; i++) {
            const limber_contract contract = { .size = sizeof(limber_contract),
                                               .promise = LIMBER_CONTRACT_BITS,
                                               .bits = 20 + i / 2,
                                               .scheme = scheme[i % 2] };
            double a = 3, b = 5, c = 0;
            limber_report r = LIMBER_REPORT_INIT;

            assert_int_equal(limber_gemm(ctx, &contract, 1, 1, 1, NULL,
                                         (limber_matrix){ &a, f64, 1, 1 },
                                         (limber_matrix){ &b, f64, 1, 1 }, NULL,
                                         (limber_output){ &c, f64, 1, 1 }, &r),
                             LIMBER_STATUS_OK);
            assert_true(c == 15);
            assert_string_equal(r.scheme, scheme[i % 2]);
            /* others share the code: from disk once, then in memory */
            assert_int_equal(r.from, i < 2 ? round : round && i < 4 ? 1 : 2);
        }
        limber_destroy(ctx);
        assert_int_equal(compiles, 2);
    }
    discard(dir);
}

static void a_damaged_kernel_is_made_again(void **state)
{
    char *dir = scratch();
    limber_context *ctx =
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    limber_report r = LIMBER_REPORT_INIT;
    char path[5000];
    unsigned char junk[100] = { 1, 2, 3 };

    (void)state;
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    {
        struct dirent *e;
        char shard[4200];
        DIR *d;

        snprintf(shard, sizeof shard, "%s/%.2s", dir, r.kernel);
        d = opendir(shard);
        assert_non_null(d);
        while ((e = readdir(d)) && *e->d_name == '.')
            ;
        assert_non_null(e);
        snprintf(path, sizeof path, "%s/%.200s", shard, e->d_name);
        closedir(d);
    }
    spill(path, junk, sizeof junk);
    compiles = 0;
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 0);
    assert_int_equal(compiles, 1);
    limber_destroy(ctx);
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 1);
    limber_destroy(ctx);
    discard(dir);
}

/* What limber_tune measured is in the target of contexts to come, unless the entry is damaged. */
static void tuning_is_kept(void **state)
{
    char *dir = scratch();
    const limber_config config = { .size = sizeof(limber_config), .cache_dir = dir, .threads = 1 };
    const limber_tuning brief = { .size = sizeof(limber_tuning), .seconds = 0.01 },
                        bad = { .seconds = -1 };
    limber_context *ctx = counted_context(&config);
    size_t removed;

    (void)state;
    assert_int_equal(limber_tune(ctx, &brief), LIMBER_STATUS_DEVICE);
    assert_int_equal(limber_tune(ctx, &bad), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(limber_tune(NULL, &brief), LIMBER_STATUS_BAD_ARGUMENT);
    limber_destroy(ctx);
    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    if (strcmp(ctx->machine.backend->name, "llvm") == 0) {
        assert_null(strstr(ctx->machine.text.s, "tile.f64="));
        /* a search goes on where the last one ended, on however slow a machine */
        for (int i = 0; i < 1000 && !strstr(ctx->machine.text.s, "tile.f64="); i++) {
            assert_int_equal(limber_tune(ctx, &brief), LIMBER_STATUS_OK);
            limber_destroy(ctx);
            assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        }
        assert_non_null(strstr(ctx->machine.text.s, "tile.f64="));
        assert_int_equal(limber_cache_clear(ctx, LIMBER_CACHE_ALL, &removed), LIMBER_STATUS_OK);
        assert_true(removed >= 1);
        limber_destroy(ctx);
        assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        assert_null(strstr(ctx->machine.text.s, "tile.f64="));
    }
    limber_destroy(ctx);
    discard(dir);
}

/* A record of this machine's tuning, made by hand: the target with f64's tile and rate. */
static void write_record(const char *dir, int mr, int mb, int nb, double rate)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .cache_dir = dir,
                                   .backend = "llvm" };
    struct facts facts = { .plan = "tuning record", .scheme = "none" };
    struct text text = { 0 };
    struct diag d = { 0 };
    struct target t;
    struct blob bytes;
    limber_context *ctx;

    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    assert_true(ctx->machine.backend->probe(&t, &d));
    limber_target_print(&t, &text);
    limber_key_make(facts.key, ctx->build, "tuning\n", text.s);
    limber_text_clear(&text);
    memcpy(t.tile[UNIT_f64], (int[]){ mr, mb, nb }, sizeof t.tile[0]);
    t.rate[UNIT_f64] = rate;
    limber_target_print(&t, &text);
    bytes = (struct blob){ (unsigned char *)text.s, text.n };
    limber_disk_store(ctx->disk, &facts, &bytes);
    limber_text_clear(&text);
    limber_destroy(ctx);
}

/* Whether a context that is made now says it is tuned, and its plan for doubles has this tile. */
static bool follows(const char *dir, const char *tile)
{
    const limber_config config = {
        .size = sizeof(limber_config), .cache_dir = dir, .backend = "llvm", .threads = 1
    };
    limber_contract contract = { .size = sizeof(limber_contract),
                                 .promise = LIMBER_CONTRACT_NATIVE };
    double one = 1;
    limber_matrix m = { .data = &one, .row_stride = 1, .col_stride = 1 };
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    limber_context *ctx;
    bool found;
    char *text;

    assert_int_equal(limber_format_named("f64", &m.format), LIMBER_STATUS_OK);
    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    assert_int_equal(
        gemm_plan(ctx, &contract, 1, 1, 1, NULL, m, m, NULL, output_of(m), &text, NULL),
        LIMBER_STATUS_OK);
    assert_int_equal(limber_cache_describe(ctx, &info), LIMBER_STATUS_OK);
    found = strstr(text, tile) != NULL;
    assert_int_equal(info.tuned, found);
    limber_free(text);
    limber_destroy(ctx);
    return found;
}

/* The only entry of the folder, with one byte changed. */
static void damage_only_entry(const char *dir, long at)
{
    char command[256], path[256] = "";
    FILE *f;
    int c;

    snprintf(command, sizeof command, "find '%s' -name '*.kernel'", dir);
    f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(path, sizeof path, f));
    pclose(f);
    path[strcspn(path, "\n")] = 0;
    f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -at, SEEK_END);
    c = fgetc(f);
    fseek(f, -at, SEEK_END);
    fputc(c ^ 1, f);
    fclose(f);
}

static void records_are_followed_or_ignored(void **state)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .cache_dir = "",
                                   .backend = "llvm" };
    char tile[64], *dir;
    limber_context *ctx;
    int mr, columns;

    (void)state;
    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        skip();
    dir = scratch();
    mr = ctx->machine.target.registers >= 32 ? 8 : 6;
    columns = ctx->machine.target.vector_bits / 32;
    limber_destroy(ctx);
    snprintf(tile, sizeof tile, "tile=%d,%d,1,%d,512,", mr, columns, 5 * mr);
    assert_false(follows(dir, tile));
    write_record(dir, mr, 5 * mr, 512, 1e11);
    assert_true(follows(dir, tile));
    damage_only_entry(dir, 40);
    assert_false(follows(dir, tile));
    /* whole, but nothing that a search could have found */
    write_record(dir, mr, 5 * mr, 512, 0);
    assert_false(follows(dir, tile));
    write_record(dir, 17, 5 * 17, 512, 1e11);
    assert_false(follows(dir, tile));
    write_record(dir, mr, 5 * mr + 1, 512, 1e11);
    assert_false(follows(dir, tile));
    write_record(dir, mr, 5 * mr, 65536, 1e11);
    assert_false(follows(dir, tile));
    write_record(dir, mr, 5 * mr, 512, 1e11);
    assert_true(follows(dir, tile));
    discard(dir);
}

static void gather_lines(void *user, const char *line)
{
    limber_text_add(user, "%s\n", line);
}

static void units_are_tuned_on_request(void **state)
{
    char *dir = scratch();
    const limber_config config = { .size = sizeof(limber_config), .cache_dir = dir, .threads = 1 };
    struct text first = { 0 }, again = { 0 };
    limber_tuning how = { .size = sizeof(limber_tuning),
                          .seconds = 0.2,
                          .units = "f32",
                          .line = gather_lines,
                          .user = &first };
    limber_context *ctx;

    (void)state;
    assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
    if (strcmp(ctx->machine.backend->name, "llvm") == 0) {
        struct target before = ctx->machine.target;

        assert_int_equal(limber_tune(ctx, &how), LIMBER_STATUS_OK);
        assert_non_null(strstr(first.s, "tried f32 "));
        assert_null(strstr(first.s, "tried f64 "));
        how.user = &again;
        assert_int_equal(limber_tune(ctx, &how), LIMBER_STATUS_OK);
        first.s[strcspn(first.s, ".") - 1] = 0; /* the first tile, without its rate */
        assert_true(!again.s || !strstr(again.s, first.s));
        limber_destroy(ctx);
        assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        assert_true(ctx->machine.target.tile[UNIT_f32][0] > 0);
        assert_int_equal(ctx->machine.target.tile[UNIT_f64][0], 0);
        assert_memory_equal(ctx->machine.target.rate, before.rate, sizeof before.rate);
        how.units = "f64,f65";
        assert_int_equal(limber_tune(ctx, &how), LIMBER_STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(limber_error_text(), "\"f65\""));
    }
    limber_text_clear(&first);
    limber_text_clear(&again);
    limber_destroy(ctx);
    discard(dir);
}

static void modes_of_the_cache(void **state)
{
    char *dir = scratch();
    limber_context *ctx;
    limber_report r = LIMBER_REPORT_INIT;
    int n[2] = { 0, 0 };

    (void)state;
    setenv("LIMBER_CACHE", "ro", 1);
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(limber_cache_each(ctx, LIMBER_CACHE_LIST, tally, n), LIMBER_STATUS_OK);
    assert_int_equal(n[0] + n[1], 0);
    limber_destroy(ctx);
    setenv("LIMBER_CACHE", "rw", 1);
    setenv("LIMBER_NO_COMPILE", "1", 1);
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_DEVICE);
    assert_non_null(strstr(limber_error_text(), "LIMBER_NO_COMPILE"));
    limber_destroy(ctx);
    unsetenv("LIMBER_NO_COMPILE");
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    setenv("LIMBER_NO_COMPILE", "1", 1);
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 1);
    limber_destroy(ctx);
    unsetenv("LIMBER_NO_COMPILE");
    unsetenv("LIMBER_CACHE");
    discard(dir);
}

static void a_call_survives_a_cache_that_cannot_be(void **state)
{
    limber_context *ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = "/dev/null/cache" });
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    limber_report r = LIMBER_REPORT_INIT;

    (void)state;
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 2);
    assert_int_equal(limber_cache_describe(ctx, &info), LIMBER_STATUS_OK);
    assert_true(*info.why_not);
    limber_destroy(ctx);
}

enum { COMPILED = 77 }; /* exit status */

/* A child of the storm: its own context on the common, empty directory. */
static int storm_child(const char *dir)
{
    limber_context *ctx;
    struct diag d = { 0 };
    limber_status s;

    if (!limber_context_make(
            &ctx, &(limber_config){ .size = sizeof(limber_config), .cache_dir = dir, .threads = 2 },
            counted_list, &d))
        return 1;
    compiles = 0;
    s = small_gemm(ctx, NULL);
    limber_destroy(ctx);
    return s != LIMBER_STATUS_OK || compiles > 1 ? 2 : compiles ? COMPILED : 0;
}

static int no_temporary(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag;
    return strncmp(path + ftw->base, "tmp.", 4) == 0;
}

static void many_processes_compile_once(void **state)
{
    enum { CHILDREN = 8 };
    char *dir = scratch();
    limber_context *ctx;
    pid_t child[CHILDREN];
    limber_report r = LIMBER_REPORT_INIT;
    int n[2] = { 0, 0 }, made = 0;

    (void)state;
    compile_delay = 20000;
    for (int i = 0; i < CHILDREN; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0)
            _exit(storm_child(dir));
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == COMPILED);
        made += WEXITSTATUS(status) == COMPILED;
    }
    assert_int_equal(made, 1);
    compile_delay = 0;
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(limber_cache_each(ctx, LIMBER_CACHE_VERIFY, tally, n), LIMBER_STATUS_OK);
    assert_int_equal(n[0], 0);
    assert_int_equal(n[1], 1);
    assert_int_equal(nftw(dir, no_temporary, 16, FTW_PHYS), 0);
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 1);
    limber_destroy(ctx);
    discard(dir);
}

/* Killed while it compiles, it keeps nobody waiting. */
static void a_killed_maker_is_succeeded(void **state)
{
    char *dir = scratch();
    limber_context *ctx;
    limber_report r = LIMBER_REPORT_INIT;
    int status;
    pid_t pid;

    (void)state;
    compile_delay = 60000000;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(storm_child(dir));
    usleep(50000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    compile_delay = 0;
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 0);
    limber_destroy(ctx);
    discard(dir);
}

/* Two disks stand for two processes: locks are of the open file. */
static void claims_are_waited_for_and_not_for_ever(void **state)
{
    static const unsigned char key[KEY_BYTES] = { 1, 2, 3 }, other[KEY_BYTES] = { 1, 2, 4 };
    char *dir = scratch();
    struct disk_options o = { .dir = dir,
                              .limit = 1 << 20,
                              .mode = CACHE_rw,
                              .patience = 0.02,
                              .key_file = limber_variable_value("LIMBER_CACHE_KEY") };
    struct disk *one = limber_disk_new(&o), *two = limber_disk_new(&o), *reader;
    int first, second;

    (void)state;
    first = limber_disk_claim(one, key);
    assert_true(first >= 0);
    assert_int_equal(limber_disk_claim(two, key), -1);
    second = limber_disk_claim(two, other);
    assert_true(second >= 0);
    limber_disk_release(second, other);
    limber_disk_release(first, key);
    second = limber_disk_claim(two, key);
    assert_true(second >= 0);
    limber_disk_release(second, key);
    o.mode = CACHE_ro;
    reader = limber_disk_new(&o);
    assert_int_equal(limber_disk_claim(reader, key), -1);
    limber_disk_free(reader);
    limber_disk_free(one);
    limber_disk_free(two);
    discard(dir);
}

/* What one process has used, another makes for a third. */
static void kernels_are_made_ahead(void **state)
{
    char *dir = scratch(), *plan, *again;
    limber_context *ctx =
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = "" });
    limber_report used = LIMBER_REPORT_INIT, r = LIMBER_REPORT_INIT;

    (void)state;
    assert_int_equal(small_gemm(ctx, &used), LIMBER_STATUS_OK);
    assert_int_equal(limber_kernel_plan(ctx, used.kernel, &plan), LIMBER_STATUS_OK);
    assert_non_null(strstr(plan, "plan gemm promise=native"));
    assert_null(strstr(plan, "scheme="));
    assert_int_equal(limber_kernel_plan(ctx, "00000000000000000000000000000000", &again),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(limber_error_text(), "not in memory"));
    assert_int_equal(limber_kernel_plan(ctx, "abc", &again), LIMBER_STATUS_BAD_ARGUMENT);
    limber_destroy(ctx);

    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    compiles = loads = unloads = 0;
    assert_int_equal(limber_kernel_make(ctx, plan, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 0);
    assert_string_equal(r.kernel, used.kernel);
    assert_string_equal(r.scheme, used.scheme);
    assert_int_equal(limber_kernel_make(ctx, plan, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 1);
    assert_int_equal(compiles, 1);
    assert_int_equal(loads, unloads);
    assert_int_equal(limber_kernel_make(ctx, "plan gemm {", NULL), LIMBER_STATUS_BAD_ARGUMENT);
    limber_destroy(ctx);

    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 1);
    assert_string_equal(r.kernel, used.kernel);
    limber_destroy(ctx);
    limber_free(plan);
    discard(dir);
}

static void *one_call(void *arg)
{
    return (void *)(intptr_t)small_gemm(arg, NULL);
}

static void many_threads_compile_once(void **state)
{
    limber_context *ctx =
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = "" });
    pthread_t thread[8];

    (void)state;
    compiles = 0;
    compile_delay = 50000;
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, one_call, ctx);
    for (int i = 0; i < 8; i++) {
        void *answer;

        pthread_join(thread[i], &answer);
        assert_int_equal((intptr_t)answer, LIMBER_STATUS_OK);
    }
    compile_delay = 0;
    assert_int_equal(compiles, 1);
    limber_destroy(ctx);
}

/* Also of a kernel that is on disk. */
static void a_dump_tells_the_whole_way(void **state)
{
    char *dir = scratch(), *cache = scratch(), path[5000];
    limber_context *ctx =
        counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = cache });
    unsigned char data[4096];
    limber_report r = LIMBER_REPORT_INIT;
    size_t n;

    (void)state;
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    ctx = counted_context(
        &(limber_config){ .size = sizeof(limber_config), .cache_dir = cache, .dump_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    snprintf(path, sizeof path, "%s/%.12s/00-stated.lir", dir, r.kernel);
    n = slurp(path, data, sizeof data - 1);
    data[n] = '\0';
    assert_non_null(strstr((char *)data, "gemm %a %b"));
    snprintf(path, sizeof path, "%s/%.12s/plan.txt", dir, r.kernel);
    n = slurp(path, data, sizeof data - 1);
    data[n] = '\0';
    assert_non_null(strstr((char *)data, r.scheme));
    limber_destroy(ctx);
    discard(cache);
    discard(dir);
}

/* Of a product's dump: how many files, and whether only this user may look. */
static int dumped(const char *dir, bool *closed)
{
    char path[5000];
    struct dirent *e, *f;
    struct stat st;
    DIR *top = opendir(dir), *inner;
    int n = 0;

    *closed = true;
    while (top && (e = readdir(top))) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        *closed = *closed && (st.st_mode & 0777) == 0700;
        inner = opendir(path);
        while (inner && (f = readdir(inner)))
            n += f->d_name[0] != '.';
        if (inner)
            closedir(inner);
    }
    if (top)
        closedir(top);
    return n;
}

static void dump(const char *dir, const char *reason)
{
    struct text all = { 0 };
    limber_context *ctx = counted_context(&(limber_config){ .size = sizeof(limber_config),
                                                            .cache_dir = "",
                                                            .dump_dir = dir,
                                                            .verbose = 1,
                                                            .log = gather_lines,
                                                            .log_user = &all });
    limber_report r = LIMBER_REPORT_INIT;

    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    assert_non_null(all.s);
    if (reason)
        assert_non_null(strstr(all.s, reason));
    else
        assert_null(strstr(all.s, "no dump"));
    limber_text_clear(&all);
}

/* Whoever can foretell a dump's names can have put something there. */
static void a_dump_follows_no_links(void **state)
{
    char *dir = scratch(), *fresh = malloc(5000), path[6000], link[6000], victim[5000];
    unsigned char data[4096];
    limber_report r = LIMBER_REPORT_INIT;
    limber_context *ctx;
    struct stat st;
    bool closed;
    int files;

    (void)state;
    assert_non_null(fresh);
    snprintf(fresh, 5000, "%s/dumps", dir);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    dump(fresh, NULL);
    files = dumped(fresh, &closed);
    assert_true(files > 2 && closed);
    assert_int_equal(stat(fresh, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);

    /* links and second names in the place of a file are replaced, not written through */
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = "" });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    spill(victim, (const unsigned char *)"mine", 4);
    snprintf(path, sizeof path, "%s/%.12s/plan.txt", fresh, r.kernel);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(victim, path), 0);
    snprintf(path, sizeof path, "%s/%.12s/00-stated.lir", fresh, r.kernel);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(linkat(AT_FDCWD, victim, AT_FDCWD, path, 0), 0);
    dump(fresh, NULL);
    assert_int_equal(slurp(victim, data, sizeof data), 4);
    assert_int_equal(dumped(fresh, &closed), files);

    /* nor links in the place of a folder */
    snprintf(path, sizeof path, "%s/elsewhere", dir);
    assert_int_equal(rename(fresh, path), 0);
    assert_int_equal(symlink(path, fresh), 0);
    dump(fresh, "it is a link");
    snprintf(link, sizeof link, "%s/", fresh);
    dump(link, "it is a link");
    assert_int_equal(unlink(fresh), 0);
    assert_int_equal(mkdir(fresh, 0700), 0);
    snprintf(link, sizeof link, "%s/%.12s", fresh, r.kernel);
    assert_int_equal(symlink(path, link), 0);
    dump(fresh, "it is a link");
    assert_int_equal(dumped(path, &closed), files); /* what was there */
    assert_int_equal(unlink(link), 0);

    /* nor folders of others */
    if (geteuid() == 0) {
        assert_int_equal(mkdir(link, 0777), 0);
        assert_int_equal(chown(link, NOBODY, NOBODY), 0);
        dump(fresh, "another user");
        assert_int_equal(dumped(fresh, &closed), 0);
        assert_int_equal(chown(fresh, NOBODY, NOBODY), 0);
        dump(fresh, "another user");
    }
    free(fresh);
    discard(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_it_is_given),
        cmocka_unit_test(every_damaged_byte_is_found),
        cmocka_unit_test(every_other_length_is_found),
        cmocka_unit_test(another_key_is_not_taken),
        cmocka_unit_test(directories_that_others_write_to_are_refused),
        cmocka_unit_test(foreign_directories_are_refused),
        cmocka_unit_test(entries_and_folders_that_others_write_to_are_refused),
        cmocka_unit_test(links_and_pipes_are_not_followed),
        cmocka_unit_test(a_path_through_a_file_degrades),
        cmocka_unit_test(a_cache_of_the_system_is_read),
        cmocka_unit_test(a_read_only_directory_degrades),
        cmocka_unit_test(a_right_checksum_is_no_seal),
        cmocka_unit_test(entries_that_others_made_do_not_run),
        cmocka_unit_test(without_a_key_nothing_is_kept),
        cmocka_unit_test(the_way_to_the_directory_is_looked_at),
        cmocka_unit_test(ownership_of_root_counts_in_roots_folders_only),
        cmocka_unit_test(what_is_in_the_way_of_an_entry_stops_no_other),
        cmocka_unit_test(the_oldest_make_room),
        cmocka_unit_test(use_renews_an_entry_once_a_day),
        cmocka_unit_test(controls_tell_and_clear),
        cmocka_unit_test(one_makes_a_kernel_for_all),
        cmocka_unit_test(a_failure_is_shared_and_not_kept),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(kernels_come_from_memory_then_from_disk),
        cmocka_unit_test(plans_of_one_code_share_it),
        cmocka_unit_test(a_damaged_kernel_is_made_again),
        cmocka_unit_test(tuning_is_kept),
        cmocka_unit_test(records_are_followed_or_ignored),
        cmocka_unit_test(units_are_tuned_on_request),
        cmocka_unit_test(modes_of_the_cache),
        cmocka_unit_test(without_a_compiler),
        cmocka_unit_test(a_call_survives_a_cache_that_cannot_be),
        cmocka_unit_test(kernels_are_made_ahead),
        cmocka_unit_test(many_processes_compile_once),
        cmocka_unit_test(a_killed_maker_is_succeeded),
        cmocka_unit_test(claims_are_waited_for_and_not_for_ever),
        cmocka_unit_test(many_threads_compile_once),
        cmocka_unit_test(a_dump_tells_the_whole_way),
        cmocka_unit_test(a_dump_follows_no_links),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
