/* SPDX-License-Identifier: BSD-3-Clause
 * The cache of kernels in memory and on disk, as calls use it: which thread compiles, which threads
 * wait, what is compiled again.  Also tuning records and dumps. */
#include "engine_support.h"

#include "contexts.h"

#include "limber/environment.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>

/* ---- kernels in memory ----------------------------------------------------------------------- */

/* Where the making of a kernel waits for the test. */
struct gate {
    sem_t entered, leave;
    int made;
    bool fails;
};

/* Makes a cache entry: waits at the gate until the test opens it, then succeeds or fails. */
static bool make_at_gate(void *user, struct entry *e, struct diag *d)
{
    struct gate *g = user;

    (void)e;
    g->made++;
    sem_post(&g->entered);
    sem_wait(&g->leave);
    return !g->fails || limber_fail(d, LIMBER_STATUS_DEVICE, "no such luck");
}

static bool make_at_once(void *user, struct entry *e, struct diag *d)
{
    (void)user, (void)e, (void)d;
    return true;
}

/* A thread that requests a kernel. */
struct asker {
    struct kernel_cache *m;
    struct gate *gate;
    bool ok;
    struct diag d;
};

/* Thread: requests the kernel "slow", and waits for it. */
static void *request_slow(void *arg)
{
    struct asker *a = arg;
    struct entry *e;
    bool found;

    a->ok = limber_kernels_get(a->m, "slow", 4, (struct kernel_maker){ make_at_gate, a->gate }, &e,
                               &found, &a->d);
    if (a->ok)
        limber_kernels_put(a->m, e);
    return NULL;
}

/* Eight threads request a kernel, which one of them compiles.  Meanwhile another kernel is found
 * without waiting. */
static void compile_once_for_waiting_threads(bool fails)
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
    assert_true(limber_kernels_get(m, "fast", 4, (struct kernel_maker){ make_at_once, NULL }, &e,
                                   &found, &d));
    assert_false(found);
    limber_kernels_put(m, e);
    for (int i = 0; i < 8; i++) {
        asker[i] = (struct asker){ .m = m, .gate = &gate };
        pthread_create(&thread[i], NULL, request_slow, &asker[i]);
        if (i == 0)
            sem_wait(&gate.entered); /* the first thread compiles, and is held at the gate */
    }
    assert_true(limber_kernels_get(m, "fast", 4, (struct kernel_maker){ make_at_once, NULL }, &e,
                                   &found, &d));
    assert_true(found);
    limber_kernels_put(m, e);
    usleep(50000); /* lets the other threads begin to wait */
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

static void one_thread_compiles_a_kernel_for_all(void **state)
{
    (void)state;
    compile_once_for_waiting_threads(false);
}

static void a_failed_compilation_is_shared_and_not_cached(void **state)
{
    (void)state;
    compile_once_for_waiting_threads(true);
}

/* Thread: calls limber_kernels_offer for the kernel "slow", which makes the kernel unless
 * another thread is making it. */
static void *offer_slow(void *arg)
{
    struct asker *a = arg;

    a->ok = limber_kernels_offer(a->m, "slow", 4, (struct kernel_maker){ make_at_gate, a->gate });
    return NULL;
}

/* limber_kernels_offer returns at once if another thread is making the kernel.  While a thread
 * makes a kernel by this function, limber_kernels_get in other threads does not wait for it, and
 * does not fail if it fails. */
static void no_thread_waits_for_an_offer(void **state)
{
    const struct kernel_maker kernel_maker = { make_at_once, NULL };

    (void)state;
    for (int first = 0; first < 4; first++) {
        struct gate gate = { .fails = first & 1 };
        struct kernel_cache *m = limber_kernels_new(100);
        struct asker held = { .m = m, .gate = &gate };
        pthread_t thread;
        struct entry *e;
        struct diag d = { 0 };
        bool found, offers = first & 2;

        sem_init(&gate.entered, 0, 0);
        sem_init(&gate.leave, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, offers ? offer_slow : request_slow, &held),
                         0);
        sem_wait(&gate.entered);
        if (offers) {
            assert_true(limber_kernels_get(m, "slow", 4, kernel_maker, &e, &found, &d));
            assert_false(found);
            limber_kernels_put(m, e);
        } else {
            assert_false(limber_kernels_offer(m, "slow", 4, kernel_maker));
        }
        sem_post(&gate.leave);
        pthread_join(thread, NULL);
        assert_int_equal(held.ok, !gate.fails);
        assert_true(limber_kernels_offer(m, "slow", 4, kernel_maker));
        assert_int_equal(limber_kernels_count(m), 1);
        limber_kernels_free(m);
        sem_destroy(&gate.entered);
        sem_destroy(&gate.leave);
    }
}

/* A kernel cache with room for 4 kernels never holds more, but does not remove one that is in
 * use. */
static void memory_is_bounded(void **state)
{
    struct kernel_cache *m = limber_kernels_new(4);
    const struct kernel_maker kernel_maker = { make_at_once, NULL };
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
    assert_true(found); /* an entry in use is kept, however old it is */
    assert_ptr_equal(e, held);
    limber_kernels_put(m, e);
    limber_kernels_put(m, held);
    limber_kernels_free(m);
}

/* ---- calls that make kernels ----------------------------------------------------------------- */

/* The first call compiles, the second finds its kernel in memory, and one in a new context finds it
 * on disk. */
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

/* Replaces a compiler: the code that it makes is the name of the plan's scheme. */
static bool by_scheme(const struct plan *p, const struct target *t, struct blob *out,
                      struct diag *d)
{
    (void)t;
    out->size = strlen(p->scheme);
    out->data = (unsigned char *)strdup(p->scheme);
    return out->data || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory");
}

/* A function of a backend that has nothing to open. */
static void open_nothing(const struct target *t)
{
    (void)t;
}

static struct code_range have_no_code(void)
{
    return (struct code_range){ 0, 0 };
}

/* Counts of a cache's entries.  A plan's entry has a key instead of code, so all plans' entries
 * have one size. */
struct shared_entries {
    int plans, codes;
    size_t bytes; /* size of a plan's entry */
};

/* Callback for each entry of the cache: counts entries of plans, whose sizes must be equal, and of
 * shared code. */
static int count_shared(void *user, const limber_cache_entry *e)
{
    struct shared_entries *x = user;

    if (strcmp(e->plan, "code of several kernels") == 0) {
        x->codes++;
    } else {
        assert_true(x->plans == 0 || e->bytes == x->bytes);
        x->bytes = e->bytes;
        x->plans++;
    }
    return 0;
}

/* Plans of four contracts (numbers of bits), each with two schemes.  The code depends on the
 * scheme only, so two compilations are enough for all eight plans. */
static void plans_with_equal_code_share_it(void **state)
{
    static const char *const scheme[] = { "native", "accumulator" };
    static const struct code_ops code = { .open = open_nothing,
                                          .compiler = have_no_code,
                                          .key = by_scheme };
    struct backend sharing = counted;
    const struct backend *const list[] = { &sharing, NULL };
    struct shared_entries entries;
    limber_format f64 = named("f64");
    char *dir = scratch();

    (void)state;
    sharing.code = &code;
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
            /* later calls share the code of the first two, which comes from the compiler or from
             * disk */
            assert_int_equal(r.from, i < 2 ? round : 2);
        }
        entries = (struct shared_entries){ 0 };
        limber_cache_each(ctx, LIMBER_CACHE_VERIFY, count_shared, &entries);
        assert_int_equal(entries.plans, 4);
        assert_int_equal(entries.codes, 2);
        limber_destroy(ctx);
        assert_int_equal(compiles, 2);
    }
    discard(dir);
}

/* Overwrites a kernel's cache file: the next context compiles it again, and the one after loads
 * it. */
static void a_damaged_kernel_is_recompiled(void **state)
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

/* Contexts use earlier results of limber_tune, unless the stored record is damaged. */
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
        /* each search continues where the previous one ended, so that a slow machine finds a
         * tile after some searches */
        for (int i = 0; i < 1000 && !strstr(ctx->machine.text.s, "tile.f64="); i++) {
            assert_int_equal(limber_tune(ctx, &brief), LIMBER_STATUS_OK);
            limber_destroy(ctx);
            assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        }
        assert_non_null(strstr(ctx->machine.text.s, "tile.f64="));
        assert_int_equal(limber_cache_clear(ctx, LIMBER_CACHE_CLEAR_ALL, &removed),
                         LIMBER_STATUS_OK);
        assert_true(removed >= 1);
        limber_destroy(ctx);
        assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        assert_null(strstr(ctx->machine.text.s, "tile.f64="));
    }
    limber_destroy(ctx);
    discard(dir);
}

/* Writes a tuning record for this machine: the target with a tile and rate for FP64. */
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
    limber_key_make(facts.key, ctx->build, "tuning\n", 7, text.s);
    limber_text_clear(&text);
    memcpy(t.tile[UNIT_f64], (int[]){ mr, mb, nb }, sizeof t.tile[0]);
    t.rate[UNIT_f64] = rate;
    limber_target_print(&t, &text);
    bytes = (struct blob){ (unsigned char *)text.s, text.n };
    limber_disk_store(ctx->disk, &facts, &bytes);
    limber_text_clear(&text);
    limber_destroy(ctx);
}

/* Returns whether a new context reports that it is tuned, and plans products of FP64 with this
 * tile. */
static bool uses_tile(const char *dir, const char *tile)
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

/* Changes one byte of the folder's only entry. */
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

/* A stored tile is used if its record is intact and a search can have such a result; other
 * records are ignored. */
static void valid_tuning_records_are_used_and_others_ignored(void **state)
{
    const limber_config config = { .size = sizeof(limber_config),
                                   .cache_dir = "",
                                   .backend = "llvm" };
    char tile[64], *dir;
    limber_context *ctx;
    int mr, columns;

    (void)state;
    if (limber_create(&ctx, &config) != LIMBER_STATUS_OK)
        skip_because("%s", limber_error_text());
    dir = scratch();
    mr = ctx->machine.target.registers >= 32 ? 8 : 6;
    columns = ctx->machine.target.vector_bits / 32;
    limber_destroy(ctx);
    snprintf(tile, sizeof tile, "tile=%d,%d,1,%d,512,", mr, columns, 5 * mr);
    assert_false(uses_tile(dir, tile));
    write_record(dir, mr, 5 * mr, 512, 1e11);
    assert_true(uses_tile(dir, tile));
    damage_only_entry(dir, 40);
    assert_false(uses_tile(dir, tile));
    /* The record is intact, but no search has such a result: a rate of 0; then a tile of too
     * many rows; a block that is no multiple of the tile; a block with too many elements along
     * k. */
    write_record(dir, mr, 5 * mr, 512, 0);
    assert_false(uses_tile(dir, tile));
    write_record(dir, 17, 5 * 17, 512, 1e11);
    assert_false(uses_tile(dir, tile));
    write_record(dir, mr, 5 * mr + 1, 512, 1e11);
    assert_false(uses_tile(dir, tile));
    write_record(dir, mr, 5 * mr, 65536, 1e11);
    assert_false(uses_tile(dir, tile));
    write_record(dir, mr, 5 * mr, 512, 1e11);
    assert_true(uses_tile(dir, tile));
    discard(dir);
}

static void gather_lines(void *user, const char *line)
{
    limber_text_add(user, "%s\n", line);
}

/* limber_tune measures the named units only, returns stored rates if it is called again, and
 * refuses unknown names. */
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
        /* cuts the text before the first tile's rate, which differs between measurements */
        first.s[strcspn(first.s, ".") - 1] = 0;
        assert_true(!again.s || !strstr(again.s, first.s));
        /* prebuilt kernels exist for few tiles only */
        how.seconds = ctx->kernels == LIMBER_KERNELS_PREBUILT ? 20 : 0.2;
        assert_int_equal(limber_tune(ctx, &how), LIMBER_STATUS_OK);
        limber_destroy(ctx);
        assert_int_equal(limber_create(&ctx, &config), LIMBER_STATUS_OK);
        assert_true(ctx->machine.target.tile[UNIT_f32][0] > 0);
        assert_int_equal(ctx->machine.target.tile[UNIT_f64][0], 0);
        assert_memory_equal(ctx->machine.target.rate, before.rate, sizeof before.rate);
        how.units = "f64,f65";
        assert_refused(limber_tune(ctx, &how), LIMBER_STATUS_BAD_ARGUMENT, "\"f65\"");
    }
    limber_text_clear(&first);
    limber_text_clear(&again);
    limber_destroy(ctx);
    discard(dir);
}

/* LIMBER_CACHE=ro stores nothing; LIMBER_NO_COMPILE=1 refuses kernels that are not cached and
 * loads those that are. */
static void the_cache_has_modes(void **state)
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
    assert_refused(small_gemm(ctx, &r), LIMBER_STATUS_DEVICE, "LIMBER_NO_COMPILE");
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

/* With a cache folder that cannot be made, calls succeed with kernels in memory only, and
 * limber_cache_describe tells the reason. */
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

enum { COMPILED = 77 }; /* exit status of a child that compiled */

/* Child process: computes with its own context on the shared folder, which is empty at first.
 * Returns COMPILED if it has compiled one kernel, 0 if none, 1 if there is no context, 2 if it has
 * compiled more or the call failed. */
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

/* Callback of nftw: fails at a temporary file. */
static int no_temporary(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag;
    return strncmp(path + ftw->base, "tmp.", 4) == 0;
}

/* Eight processes need the same kernel at once: one compiles it, the others load it from the
 * disk cache, and no temporary file is left. */
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

/* If a process is killed while it compiles a kernel, other processes compile it and do not wait
 * forever. */
static void a_killed_compiling_process_is_replaced(void **state)
{
    char *dir = scratch();
    limber_context *ctx;
    limber_report r = LIMBER_REPORT_INIT;
    int status, begun[2];
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(begun), 0);
    compile_delay = 60000000;
    compile_tells = begun[1];
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(storm_child(dir));
    assert_int_equal(read(begun[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(begun[0]);
    close(begun[1]);
    compile_delay = 0;
    compile_tells = -1;
    ctx = counted_context(&(limber_config){ .size = sizeof(limber_config), .cache_dir = dir });
    assert_int_equal(small_gemm(ctx, &r), LIMBER_STATUS_OK);
    assert_int_equal(r.from, 0);
    limber_destroy(ctx);
    discard(dir);
}

/* Waiting for a kernel that another process compiles is bounded.  Two disk caches in this
 * process play two processes, because locks belong to open files. */
static void waiting_for_another_process_is_bounded(void **state)
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

/* A process records the kernels that it uses.  A second process compiles them before a third
 * needs them. */
static void kernels_are_compiled_ahead(void **state)
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
    assert_refused(limber_kernel_plan(ctx, "00000000000000000000000000000000", &again),
                   LIMBER_STATUS_BAD_ARGUMENT, "not in memory");
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

/* Thread: multiplies once. */
static void *one_call(void *arg)
{
    return (void *)(intptr_t)small_gemm(arg, NULL);
}

/* Eight threads need the same kernel at once: it is compiled once. */
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

/* A dump is complete even if the kernel is loaded from disk. */
static void a_dump_shows_all_stages(void **state)
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

/* Counts the files of a product's dump.  *closed: whether only this user may read them. */
static int count_dumped(const char *dir, bool *closed)
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

/* Computes a product with dumps to a folder.  The log must contain `reason`, or, if that is NULL,
 * no message about dumps. */
static void compute_with_dump(const char *dir, const char *reason)
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

/* An attacker who predicts the names of a dump's files may place links there first. */
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
    compute_with_dump(fresh, NULL);
    files = count_dumped(fresh, &closed);
    assert_true(files > 2 && closed);
    assert_int_equal(stat(fresh, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);

    /* symbolic and hard links in the place of a file are replaced, not followed */
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
    compute_with_dump(fresh, NULL);
    assert_int_equal(slurp(victim, data, sizeof data), 4);
    assert_int_equal(count_dumped(fresh, &closed), files);

    /* links in the place of a folder are not followed */
    snprintf(path, sizeof path, "%s/elsewhere", dir);
    assert_int_equal(rename(fresh, path), 0);
    assert_int_equal(symlink(path, fresh), 0);
    compute_with_dump(fresh, "it is a link");
    snprintf(link, sizeof link, "%s/", fresh);
    compute_with_dump(link, "it is a link");
    assert_int_equal(unlink(fresh), 0);
    assert_int_equal(mkdir(fresh, 0700), 0);
    snprintf(link, sizeof link, "%s/%.12s", fresh, r.kernel);
    assert_int_equal(symlink(path, link), 0);
    compute_with_dump(fresh, "it is a link");
    assert_int_equal(count_dumped(path, &closed), files); /* the files from before */
    assert_int_equal(unlink(link), 0);

    /* folders that belong to other users are not used */
    if (geteuid() == 0) {
        assert_int_equal(mkdir(link, 0777), 0);
        assert_int_equal(chown(link, NOBODY, NOBODY), 0);
        compute_with_dump(fresh, "another user");
        assert_int_equal(count_dumped(fresh, &closed), 0);
        assert_int_equal(chown(fresh, NOBODY, NOBODY), 0);
        compute_with_dump(fresh, "another user");
    }
    free(fresh);
    discard(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_compiles_a_kernel_for_all),
        cmocka_unit_test(a_failed_compilation_is_shared_and_not_cached),
        cmocka_unit_test(no_thread_waits_for_an_offer),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(kernels_come_from_memory_then_from_disk),
        cmocka_unit_test(plans_with_equal_code_share_it),
        cmocka_unit_test(a_damaged_kernel_is_recompiled),
        cmocka_unit_test(tuning_is_kept),
        cmocka_unit_test(valid_tuning_records_are_used_and_others_ignored),
        cmocka_unit_test(units_are_tuned_on_request),
        cmocka_unit_test(the_cache_has_modes),
        cmocka_unit_test(a_call_survives_a_cache_that_cannot_be),
        cmocka_unit_test(kernels_are_compiled_ahead),
        cmocka_unit_test(many_processes_compile_once),
        cmocka_unit_test(a_killed_compiling_process_is_replaced),
        cmocka_unit_test(waiting_for_another_process_is_bounded),
        cmocka_unit_test(many_threads_compile_once),
        cmocka_unit_test(a_dump_shows_all_stages),
        cmocka_unit_test(a_dump_follows_no_links),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
