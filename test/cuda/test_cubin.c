/* SPDX-License-Identifier: BSD-3-Clause
 * Compiles every kind of CUDA kernel by NVRTC for real devices, if the toolkit is found, and checks
 * that registers, spills and shared memory stay within the kernels' design limits.
 * LIMBER_CUBIN_TABLE=FILE writes the numbers as a Markdown table.  LIMBER_CUBIN_DIR=DIR writes the
 * cubins to a folder, which sass.py checks.  `test_cubin I N` checks every Nth kernel from the Ith
 * on, so that several processes share the work.  LIMBER_TEST_CUBINS caches compiled kernels
 * (kept_nvrtc.c). */
#define _GNU_SOURCE /* for memmem */
#include "gpus.h"
#include "plans.h"
#include "settings.h"
#include "support.h"

#include "backends/cuda/cuda.h"
#include "jit/scan/scan.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct backend limber_backend_cuda;

/* A GPU architecture for which kernels are compiled. */
static const struct machine {
    const char *name;
    int major, minor;
    int64_t shared;
} machines[] = {
    { "sm_75", 7, 5, 64 << 10 },     { "sm_80", 8, 0, 163 << 10 },  { "sm_86", 8, 6, 99 << 10 },
    { "sm_89", 8, 9, 99 << 10 },     { "sm_90a", 9, 0, 227 << 10 }, { "sm_100a", 10, 0, 227 << 10 },
    { "sm_103a", 10, 3, 227 << 10 }, { "sm_120", 12, 0, 99 << 10 },
};

/* Returns whether an architecture has kernels that no other has; each run of the test compiles
 * all of these.  Capability 10.3 uses the sources of 10.0, so it has no kernels of its own. */
static bool has_own_kernels(const struct machine *m)
{
    return m->minor == 0 && (m->major == 9 || m->major == 10);
}

enum { ANY = LIMBER_SPLIT_ANY, AHEAD = LIMBER_SPLIT_AHEAD, INSIDE = LIMBER_SPLIT_INSIDE };

#define SIMULATE LIMBER_CONTRACT_SIMULATE

/* Kernels to compile. stack: largest allowed size of local memory per thread, in bytes; only
 * long accumulators need any. */
static const struct work {
    const char *scheme, *format, *result;
    enum data data;
    limber_promise promise;
    bool scalars;
    int stack;
    int split, roundings;
    const char *unit;
} works[] = {
    { "native", "f32", "f32", DATA_unit, LIMBER_CONTRACT_NATIVE, true, 0, ANY },
    { "native", "f64", "f64", DATA_unit, LIMBER_CONTRACT_NATIVE, true, 0, ANY },
    { "native", "f16", "f16", DATA_unit, LIMBER_CONTRACT_FAST, false, 0, ANY },
    { "tensor-e4m3", "e4m3", "bf16", DATA_unit, LIMBER_CONTRACT_FAST, true, 0, ANY },
    { "tensor-e5m2", "e5m2", "f32", DATA_unit, LIMBER_CONTRACT_FAST, false, 0, ANY },
    { "tensor-f16", "f16", "f16", DATA_unit, LIMBER_CONTRACT_NATIVE, false, 0, ANY },
    { "fp32-f", "f32", "f32", DATA_unit, LIMBER_CONTRACT_NATIVE, true, 0, AHEAD },
    { "fp32-m", "f32", "f32", DATA_bytes, LIMBER_CONTRACT_FAST, false, 0, AHEAD },
    { "fp32-t", "f32", "f32", DATA_unit, LIMBER_CONTRACT_FAST, false, 0, AHEAD },
    { "fp32-b", "f32", "f32", DATA_unit, LIMBER_CONTRACT_FAST, false, 0, AHEAD },
    { "fp32-b9", "f32", "f32", DATA_unit, LIMBER_CONTRACT_FAST, false, 0, AHEAD },
    { "fp32-f", "f32", "f32", DATA_unit, LIMBER_CONTRACT_NATIVE, true, 0, INSIDE },
    { "fp32-f", "f32", "f32", DATA_tiny, LIMBER_CONTRACT_FAST, false, 0, INSIDE },
    { "fp32-m", "f32", "f32", DATA_bytes, LIMBER_CONTRACT_FAST, false, 0, INSIDE },
    { "fp32-t", "f32", "f32", DATA_unit, LIMBER_CONTRACT_FAST, false, 0, INSIDE },
    { "fp32-b", "f32", "f32", DATA_special, LIMBER_CONTRACT_FAST, false, 0, INSIDE },
    { "fp32-f", "f32", "f32", DATA_unit, LIMBER_CONTRACT_FAST, true, 0, AHEAD, 2 },
    { "fp32-b", "f32", "f32", DATA_unit, LIMBER_CONTRACT_FAST, true, 0, AHEAD, 2 },
    { "ozaki2", "f64", "f64", DATA_unit, LIMBER_CONTRACT_FAST, true, 8192, AHEAD, 2 },
    { "ozaki1-i8", "f64", "f64", DATA_unit, LIMBER_CONTRACT_FAST, true, 8192, AHEAD, 2 },
    { "ozaki1-f16", "f32", "f32", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki1-bf16", "f32", "f32", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki1-e4m3", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki1-i8", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki1-f64", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki2", "f32", "f32", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki2", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki2", "f64", "f64", DATA_special, LIMBER_CONTRACT_CORRECT, true, 8192, ANY },
    { "ozaki2", "dd", "dd", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 64, ANY },
    { "ozaki2", "f128", "f128", DATA_spread, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki2-f16", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki2-e4m3", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "ozaki2-e4m3", "f128", "f128", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
    { "integer", "i8", "i32", DATA_bytes, LIMBER_CONTRACT_EXACT, false, 0, ANY },
    { "integer", "i32", "i64", DATA_ints, LIMBER_CONTRACT_EXACT, false, 0, ANY },
    { "accumulator", "f64", "f64", DATA_range, LIMBER_CONTRACT_CORRECT, false, 8192, ANY },
    { "tensor-mx", "f32", "f32", DATA_unit, SIMULATE, true, 0, ANY, 0, "b200-mxe4m3" },
    { "tensor-mx", "f32", "f32", DATA_unit, SIMULATE, false, 0, ANY, 0, "b200-mxe5m2 b=e2m1" },
    { "tensor-mx", "bf16", "bf16", DATA_unit, SIMULATE, false, 0, ANY, 0, "b200-mxfp4" },
    { "tensor-mx", "f16", "f32", DATA_unit, SIMULATE, false, 0, ANY, 0, "b200-nvfp4" },
};

/* ---- what ptxas says ------------------------------------------------------------------------- */

struct log {
    char *text;
};

/* Callback of struct dump that keeps NVRTC's log. */
static void save_log(void *user, const char *name, const char *data, size_t size)
{
    struct log *log = user;

    if (strcmp(name, "nvrtc.log"))
        return;
    free(log->text);
    log->text = malloc(size + 1);
    memcpy(log->text, data, size);
    log->text[size] = 0;
}

/* Returns the beginning of the line that `at` is in; `from` is the beginning of the text. */
static const char *line_start(const char *at, const char *from)
{
    while (at > from && at[-1] != '\n')
        at--;
    return at;
}

/* A kernel's resources, as ptxas prints them.  stores, loads: bytes of spilled registers. */
struct usage {
    char name[64];
    int registers, stack, stores, loads;
};

/* Reads the registers, stack and spills of the next kernel in ptxas's log.  Returns NULL at its
 * end. */
static const char *next_usage(const char *log, const char *at, struct usage *u)
{
    const char *kernel = strstr(at, "Compiling entry function '"), *frame, *used;

    memset(u, 0, sizeof *u);
    if (!kernel)
        return NULL;
    sscanf(kernel, "Compiling entry function '%63[^']", u->name);
    frame = strstr(kernel, "bytes stack frame");
    used = strstr(kernel, "Used ");
    if (!frame || !used || sscanf(used, "Used %d", &u->registers) != 1 ||
        sscanf(line_start(frame, log),
               "%*[^0-9]%d bytes stack frame, %d bytes spill stores, %d bytes spill "
               "loads",
               &u->stack, &u->stores, &u->loads) != 3)
        fail_msg("ptxas' report of %s is not understood: %.600s", u->name, kernel);
    return used;
}

/* Writes the cubin in a compiled kernel's blob to LIMBER_CUBIN_DIR/NAME. */
static void write_cubin(const struct blob *blob, const char *name)
{
    const char *folder = getenv("LIMBER_CUBIN_DIR");
    const unsigned char *at = folder ? memmem(blob->data, blob->size, "\177ELF", 4) : NULL;
    char path[500];
    FILE *file;

    if (!folder)
        return;
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/%s.cubin", folder, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(at, blob->size - (size_t)(at - blob->data), 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* ---- one plan on one machine ----------------------------------------------------------------- */

/* A kernel to compile.  direction: of a convolution, or -1 for a matrix product. */
struct wanted {
    const struct work *work;
    int direction;
};

/* Makes the plan whose kernel is compiled. mask: exponent ranges of the data. */
static void state_plan(struct plan *p, const struct wanted *x, struct mask *mask)
{
    static limber_unit unit = LIMBER_UNIT_INIT;
    static const struct conv_geometry geometry = {
        .stride = { 1, 1, 1 }, .pad = { 1, 1, 1, 1 }, .dilate = { 1, 1, 1 }, .groups = 1
    };
    const struct work *w = x->work;
    struct planned planned = { w->promise, w->scheme, named(w->format), named(w->result), mask,
                               mask,       12,        w->scalars };
    struct conv_geometry g = geometry;

    if (x->direction < 0) {
        build_plan(p, &planned);
    } else {
        g.direction = x->direction;
        plan_state_conv(p, &g, &planned);
    }
    if (w->unit) {
        assert_int_equal(limber_unit_parse(w->unit, &unit), LIMBER_STATUS_OK);
        p->model = &unit;
    }
    p->split = (limber_split)w->split;
    p->roundings = w->roundings;
}

/* Returns the direction of a convolution as text, "" for a product. */
static const char *direction_name(int direction)
{
    static const char *const names[] = { "", ", convolution", ", gradient of images",
                                         ", gradient of filters" };

    return names[direction + 1];
}

/* Fills and scans an operand. */
static void scan_data(void *bytes, const struct work *w, limber_format f, struct mask *m)
{
    struct rng r = { 5 };
    struct diag d = { 0 };

    fill(&r, w->data, f, bytes, 16 * 16);
    assert_true(
        limber_scan(m, &(struct view){ bytes, 16, 1, NULL }, f, 16, 16, SCAN_full, NULL, &d));
}

static bool is_nvrtc_missing(const struct diag *d)
{
    return strstr(d->text, "no NVRTC") || strstr(d->text, "invalid value for --gpu-architecture");
}

/* Returns whether ptxas warns that warpgroup products are serialized or, with code C7508, that it
 * ignores setmaxnreg. */
static bool has_warning(const char *log)
{
    static const char *const codes[] = { "C7507", "C7508", "C7510", "C7517", "C7519" };

    for (size_t i = 0; i < COUNT(codes); i++)
        if (strstr(log, codes[i]))
            return true;
    return false;
}

/* This process checks the kernels whose number, modulo `parts`, is `part`. */
static int part, parts = 1;

/* Returns whether this process checks the kernel: it is in this process's share, and its name
 * contains LIMBER_CUBIN_ONLY if that is set. */
static bool is_wanted(const char *name)
{
    static int asked;
    const char *only = getenv("LIMBER_CUBIN_ONLY");

    return asked++ % parts == part && (!only || strstr(name, only));
}

/* Compiles a kernel and checks its resources.  Returns false if the kernel is skipped: without
 * `always`, only kernels with warpgroup products are checked, because the others exist on other
 * architectures, too. */
static bool check_plan(const struct wanted *x, const struct machine *m, bool always, FILE *table)
{
    const struct work *w = x->work;
    static const char *const suffix[] = { "-forward", "-data", "-filter" };
    const char *direction = direction_name(x->direction);
    limber_format f = named(w->format);
    struct mask mask = { 0 };
    struct cuda_config config;
    struct blob blob = { 0 };
    struct target t;
    struct diag d = { 0 };
    struct log log = { NULL };
    const struct dump dump = { save_log, &log };
    char data[16 * 16 * 16], name[100];
    struct usage u;
    struct plan p;
    bool ok;

    snprintf(name, sizeof name, "%s-%s%s%s%s%s-%s", w->scheme, w->unit ? w->unit : w->format,
             w->data == DATA_special ? "-special" :
             w->data == DATA_tiny    ? "-tiny" :
                                       "",
             w->split == INSIDE ? "-inside" : "", w->roundings ? "-parts" : "",
             x->direction < 0 ? "" : suffix[x->direction], m->name);
    if (!is_wanted(name) || (w->roundings && !has_own_kernels(m)))
        /* only architectures with kernels of their own have kernels that skip tiles */
        return false;
    scan_data(data, w, f, &mask);
    assert_true(limber_cuda_arch(&t, m->major, m->minor, 132, 1.7e9, m->shared, 50 << 20, &d));
    state_plan(&p, x, &mask);
    ok = limber_passes_run(&p, &t, NULL, (struct pass_watch){ 0 }, &d);
    if (!ok && (gpu_lacks(d.text) || strstr(d.text, "split=inside")))
        goto done;
    ok = ok && limber_cuda_config(&p, &t, &config, &d);
    if (ok && !always && !limber_cuda_fetches(&config)) {
        ok = false;
        goto done;
    }
    ok = ok && limber_backend_cuda.compile(&p, &t, &dump, &blob, &d);
    if (!ok && !is_nvrtc_missing(&d))
        fail_msg("%s of %s%s for %s: %s\n%s", w->scheme, w->format, direction, m->name, d.text,
                 log.text ? log.text : "");
    if (!ok)
        goto done;
    write_cubin(&blob, name);
    if (strstr(log.text, "serialized") || has_warning(log.text))
        fail_msg("%s of %s%s for %s: %s", w->scheme, w->format, direction, m->name, log.text);
    for (const char *at = log.text; (at = next_usage(log.text, at, &u));) {
        bool multiply = strcmp(u.name, "limber_multiply") == 0;

        if (u.stores || u.loads || u.stack > w->stack || u.registers > 255)
            fail_msg("%s of %s%s for %s: %s has %d registers, a stack of %d, spills %d and %d",
                     w->scheme, w->format, direction, m->name, u.name, u.registers, u.stack,
                     u.stores, u.loads);
        if (table)
            fprintf(table, "| %s, %s%s%s | %s | %s | %d | %d | %d |\n", w->scheme,
                    w->unit ? w->unit : w->format, direction,
                    w->split == INSIDE ? ", inside" :
                    w->roundings       ? ", in parts" :
                                         "",
                    m->name, u.name + 7, u.registers, u.stack, multiply ? config.shared : 0);
    }
    assert_true(config.shared <= m->shared);
    /* registers are allocated for all threads at launch, before setmaxnreg redistributes them */
    if (limber_cuda_fetches(&config))
        assert_true(config.threads * (config.mma_path == MMA_PATH_group ? 168 : 128) <= 65536);
done:
    free(log.text);
    free(blob.data);
    limber_plan_clear(&p);
    limber_mask_clear(&mask);
    return ok;
}

/* Checks kernels that belong to a format and to no plan, such as scans. */
static bool check_scan(const char *format, const struct machine *m)
{
    struct blob blob = { 0 };
    struct target t;
    struct diag d = { 0 };
    struct log log = { NULL };
    const struct dump dump = { save_log, &log };
    struct usage u;
    char name[100];
    bool ok;

    snprintf(name, sizeof name, "scan-%s-%s", format, m->name);
    if (!is_wanted(name))
        return false;
    assert_true(limber_cuda_arch(&t, m->major, m->minor, 132, 1.7e9, m->shared, 50 << 20, &d));
    ok = limber_backend_cuda.device_ops->compile_scan(named(format), &t, &dump, &blob, &d);
    if (!ok && !is_nvrtc_missing(&d))
        fail_msg("scan of %s for %s: %s\n%s", format, m->name, d.text, log.text ? log.text : "");
    if (ok)
        write_cubin(&blob, name);
    for (const char *at = log.text; ok && (at = next_usage(log.text, at, &u));)
        if (u.stores || u.loads || u.stack)
            fail_msg("scan of %s for %s: %s has a stack of %d, spills %d and %d", format, m->name,
                     u.name, u.stack, u.stores, u.loads);
    free(log.text);
    free(blob.data);
    return ok;
}

/* Compiles the scan kernels of several formats for real devices and checks their registers, stack
 * and shared memory.  Skipped without NVRTC. */
static void scans_fit_their_devices(void **state)
{
    static const char *const formats[] = { "f64", "f32", "bf16", "i64", "u8", "dd", "f128" };
    int compiled = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(formats); i++)
        for (size_t j = 0; j < COUNT(machines); j++)
            if (j == i % COUNT(machines) || getenv("LIMBER_CUBIN_ONLY"))
                compiled += check_scan(formats[i], &machines[j]);
    if (compiled == 0)
        skip_because("no NVRTC");
}

/* Checks a kernel of epilogue steps that call functions [first, first + count), one after the
 * other. */
static bool check_steps(int first, int count, const char *from, const char *to,
                        const struct machine *m)
{
    struct steps steps = { .count = count };
    struct epilogue e = { .steps = &steps, .compute = named(to), .planes = 1 };
    struct blob blob = { 0 };
    struct target t;
    struct diag d = { 0 };
    struct log log = { NULL };
    const struct dump dump = { save_log, &log };
    struct usage u;
    char name[100];
    bool ok;

    snprintf(name, sizeof name, "steps-%d-%s-%s-%s", first, from, to, m->name);
    if (!is_wanted(name))
        return false;
    for (int i = 0; i < count; i++)
        steps.step[i] =
            (struct epilogue_step){ .function = (limber_function)(first + i),
                                    .operand = { i ? VALUE_steps + i - 1 : VALUE_product },
                                    .number = { -1, 2 } };
    e.from.format = named(from);
    e.to.format = named(to);
    assert_true(limber_cuda_arch(&t, m->major, m->minor, 132, 1.7e9, m->shared, 50 << 20, &d));
    ok = limber_backend_cuda.device_ops->compile_steps(&e, &t, &dump, &blob, &d);
    if (!ok && !is_nvrtc_missing(&d))
        fail_msg("steps for %s: %s\n%s", m->name, d.text, log.text ? log.text : "");
    for (const char *at = log.text; ok && (at = next_usage(log.text, at, &u));)
        if (u.stores || u.loads || u.stack)
            fail_msg("functions from %d on, %s to %s for %s: a stack of %d, spills %d and %d",
                     first, from, to, m->name, u.stack, u.stores, u.loads);
    free(log.text);
    free(blob.data);
    return ok;
}

/* Compiles kernels of elementwise functions, eight at a time, for real devices and checks their
 * resources.  Skipped without NVRTC. */
static void steps_fit_their_devices(void **state)
{
    static const char *const formats[] = { "f64", "f32" }, *const stored[] = { "bf16", "e4m3" };
    int compiled = 0;

    (void)state;
    for (int f = 0; f < LIMBER_FUNCTION_COUNT; f += 8) {
        int count = LIMBER_FUNCTION_COUNT - f < 8 ? LIMBER_FUNCTION_COUNT - f : 8, i = f / 8;

        compiled += check_steps(f, count, i % 3 ? formats[i % 2] : stored[i / 3 % 2],
                                formats[(i + 1) % 2], &machines[i % (int)COUNT(machines)]);
    }
    if (compiled == 0)
        skip_because("no NVRTC");
}

/* Compiles convolutions in all directions, with one scheme for each way to make and fetch limbs.
 * Unless `all` is set, compiles each for one architecture, and forward convolutions also for
 * architectures with warpgroup products.  Returns the number of compiled programs. */
static int check_convolutions(bool all, FILE *table)
{
    static const struct work convolved[] = {
        { "native", "f32", "f32", DATA_unit, LIMBER_CONTRACT_NATIVE, true, 0, ANY },
        { "fp32-f", "f32", "f32", DATA_unit, LIMBER_CONTRACT_NATIVE, true, 0, AHEAD },
        { "ozaki2", "f64", "f64", DATA_unit, LIMBER_CONTRACT_CORRECT, false, 0, ANY },
        { "integer", "i8", "i32", DATA_bytes, LIMBER_CONTRACT_EXACT, false, 0, ANY },
    };
    int compiled = 0;

    for (size_t i = 0; i < COUNT(convolved); i++)
        for (int direction = 0; direction < 3; direction++)
            for (size_t j = 0; j < COUNT(machines); j++) {
                bool always = all || (3 * i + (size_t)direction + j) % COUNT(machines) == 0;

                if (always || (has_own_kernels(&machines[j]) && direction == DIRECTION_forward))
                    compiled += check_plan(&(struct wanted){ &convolved[i], direction },
                                           &machines[j], always, table);
            }
    return compiled;
}

/* Compiles the kernels of all kinds of products for real devices and checks their resources.
 * LIMBER_CUBIN_TABLE: file for a table of them. */
static void kernels_fit_their_devices(void **state)
{
    const char *path = getenv("LIMBER_CUBIN_TABLE");
    FILE *table = path ? fopen(path, "w") : NULL;
    int compiled = 0;

    (void)state;
    if (table)
        fprintf(table, "| scheme | for | kernel | registers | stack | shared memory |\n"
                       "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(works); i++)
        for (size_t j = 0; j < COUNT(machines); j++) {
            /* the table needs all machines; without it, a kernel is compiled for one machine,
             * and also for machines with matrix instructions of their own */
            bool always = path || (i + j) % COUNT(machines) == 0;

            if (always || has_own_kernels(&machines[j]))
                compiled +=
                    check_plan(&(struct wanted){ &works[i], -1 }, &machines[j], always, table);
        }
    compiled += check_convolutions(path != NULL, table);
    if (table)
        fclose(table);
    if (compiled == 0) {
        skip_because("no NVRTC here: nothing is compiled");
    }
    print_message("%d programs\n", compiled);
}

/* Arguments: which share of the kernels to check, and of how many shares; without arguments all. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_fit_their_devices),
        cmocka_unit_test(scans_fit_their_devices),
        cmocka_unit_test(steps_fit_their_devices),
    };

    if (argc == 3) {
        part = atoi(argv[1]);
        parts = atoi(argv[2]);
    }
    setenv("LIMBER_NVRTC", KEPT_NVRTC, 1);
    settings_from_environment();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
