/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of the figure ladder on a GPU (tools/figures/ladder.cu): each has the bits of a chain
 * of FMAs, or of the simulated tensor core, meets the banks that `limber reproduce` counts, and
 * planted faults are found. */
#include "driver.h"
#include "gpus.h"
#include "support.h"
#include "tools/figures/ladder.cu"

#include <dlfcn.h>
#include <limber/limber.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DECLARE(name, args) static int(*name) args;
NVRTC_FUNCTIONS(DECLARE)

/* Opens NVRTC: the file that LIMBER_NVRTC names, else what the toolkit or NVIDIA's wheels have. */
static void *open_nvrtc(void)
{
    static const char *const names[] = { "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12" };
    const char *file = getenv("LIMBER_NVRTC");
    void *nvrtc = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;

    for (size_t i = 0; !file && !nvrtc && i < sizeof names / sizeof *names; i++)
        nvrtc = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return nvrtc;
}

static int open_all(void **state)
{
    void *nvrtc;

    if (gpu_open(state))
        return -1;
    nvrtc = open_nvrtc();
    if (!nvrtc) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
#define LOAD(name, args) *(void **)&name = dlsym(nvrtc, #name);
    NVRTC_FUNCTIONS(LOAD)
    return 0;
}

/* ---- one product ----------------------------------------------------------------------------- */

/* The sizes of a product. */
struct sizes {
    int m, n, k;
};

/* Operands of a product, and the results that are expected: of a chain of FMAs, of tensor cores. */
struct product {
    struct sizes s;
    uint16_t *a, *b; /* B by columns */
    float *chain, *fragments;
};

/* Draws FP16 numbers: mostly near 1, with zeros and subnormal numbers. */
static uint16_t *random_halves(struct rng *r, int count)
{
    uint16_t *x = malloc((size_t)count * sizeof *x);

    for (int i = 0; i < count; i++) {
        uint64_t v = rng_next(r);

        x[i] = (uint16_t)(v % 11 == 0 ? 0 :
                          v % 13 == 0 ? v >> 8 & 0x83ff :
                                        0x3400 + (v >> 8) % 0x800);
        x[i] |= (uint16_t)(v >> 40 & 0x8000);
    }
    return x;
}

/* Draws operands and computes both expected results. */
static struct product make_product(struct sizes s)
{
    limber_unit unit = LIMBER_UNIT_INIT;
    limber_contract simulate = { .size = sizeof simulate,
                                 .promise = LIMBER_CONTRACT_SIMULATE,
                                 .unit = &unit };
    struct rng r = { 47 };
    struct product p = { s, random_halves(&r, s.m * s.k), random_halves(&r, s.n * s.k),
                         malloc((size_t)(s.m * s.n) * 4), malloc((size_t)(s.m * s.n) * 4) };
    float *a = malloc((size_t)(s.m * s.k) * 4), *b = malloc((size_t)(s.n * s.k) * 4);

    limber_convert(a, named("f32"), p.a, named("f16"), (size_t)(s.m * s.k), LIMBER_ROUND_NEAREST);
    limber_convert(b, named("f32"), p.b, named("f16"), (size_t)(s.n * s.k), LIMBER_ROUND_NEAREST);
    for (int i = 0; i < s.m; i++)
        for (int j = 0; j < s.n; j++) {
            float sum = 0;

            for (int q = 0; q < s.k; q++)
                sum = fmaf(a[i * s.k + q], b[j * s.k + q], sum);
            p.chain[i * s.n + j] = sum;
        }
    free(a);
    free(b);
    assert_int_equal(limber_unit_parse(gpu_capability() < 90 ? "a100-fp16" : "h100-fp16", &unit),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_gemm(reference, &simulate, s.m, s.n, s.k, NULL,
                                 (limber_matrix){ p.a, named("f16"), s.k, 1 },
                                 (limber_matrix){ p.b, named("f16"), 1, s.k }, NULL,
                                 (limber_output){ p.fragments, named("f32"), s.n, 1 }, NULL),
                     LIMBER_STATUS_OK);
    return p;
}

static void free_product(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->chain);
    free(p->fragments);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Returns the text of a source file. */
static char *read_source(const char *name)
{
    char path[1024], *text = calloc(1, 1 << 18);
    FILE *f;

    snprintf(path, sizeof path, "%s/../%s", LIMBER_TEST_DIR, name);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 18) - 1, f) > 1000);
    fclose(f);
    return text;
}

/* Compiles a step, with text between device.h and the template.  Returns its cubin, which the
 * caller frees; NULL if it does not compile. */
static char *compile_step(int step, const char *between)
{
    static const char *const names[] = { "ladder.cu", "device.h" };
    char *texts[] = { read_source("tools/figures/ladder.cu"),
                      read_source("backends/cuda/kernel/device.h") };
    char arch[64], source[2000], *log, *cubin = NULL;
    const char *options[] = { arch, "--std=c++17", "--fmad=false" };
    void *program;
    size_t size;

    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", gpu_capability());
    snprintf(source, sizeof source,
             "#define LADDER_STEP %d\n#include \"device.h\"\n%s#include \"ladder.cu\"\n", step,
             between);
    assert_int_equal(
        nvrtcCreateProgram(&program, source, "step.cu", 2, (const char *const *)texts, names), 0);
    if (nvrtcCompileProgram(program, 3, options) == 0) {
        assert_int_equal(nvrtcGetCUBINSize(program, &size), 0);
        cubin = malloc(size);
        assert_int_equal(nvrtcGetCUBIN(program, cubin), 0);
    } else if (nvrtcGetProgramLogSize(program, &size) == 0) {
        log = calloc(1, size + 1);
        nvrtcGetProgramLog(program, log);
        fprintf(stderr, "step %d: %s\n", step, log);
        free(log);
    }
    nvrtcDestroyProgram(&program);
    free(texts[0]);
    free(texts[1]);
    return cubin;
}

/* Describes an operand in global memory for the tensor memory accelerator. */
static void map_operand(tensor_map *map, uint64_t data, int lines, int k)
{
    uint64_t size[] = { (uint64_t)k, (uint64_t)lines, 1 };
    uint64_t stride[] = { 2 * size[0], 2 * size[0] * size[1] };
    uint32_t box[] = { DEPTH, TALL, 1 }, every[] = { 1, 1, 1 };

    assert_int_equal(
        driver.cuTensorMapEncodeTiled(map, 1, 3, data, size, stride, box, every, 0, 3, 3, 0), 0);
}

/* Runs a step.  Returns whether it ends without an error and C has the expected bits.  C is
 * surrounded by what must stay. */
static bool run_step(int step, void *function, const struct product *p)
{
    enum { AROUND = 64 };
    struct sizes s = p->s;
    size_t count = (size_t)(s.m * s.n), bytes = 4 * (count + 2 * AROUND);
    int tall = step == LADDER_NAIVE ? NAIVE_TALL : TALL;
    int wide = step == LADDER_NAIVE ? NAIVE_WIDE : WIDE;
    unsigned blocks = (unsigned)((s.m + tall - 1) / tall * ((s.n + wide - 1) / wide));
    float *c = malloc(bytes), *expected = step < LADDER_FRAGMENTS ? p->chain : p->fragments;
    struct gpu_buffer a = gpu_upload_new(p->a, (size_t)(s.m * s.k) * 2);
    struct gpu_buffer b = gpu_upload_new(p->b, (size_t)(s.n * s.k) * 2), to;
    struct ladder_args args = {
        .a = (char *)(uintptr_t)a.at, .b = (char *)(uintptr_t)b.at, .m = s.m, .n = s.n, .k = s.k
    };
    void *list[] = { &args };
    bool same;

    memset(c, 0x77, bytes);
    to = gpu_upload_new(c, bytes);
    args.c = (char *)(uintptr_t)to.at + 4 * AROUND;
    if (step == LADDER_SPECIALISED) {
        map_operand(&args.map[0], a.at, s.m, s.k);
        map_operand(&args.map[1], b.at, s.n, s.k);
    }
    same = driver.cuFuncSetAttribute(function, 8, ladder_shared(step)) == 0 &&
           driver.cuLaunchKernel(function, blocks, 1, 1, (unsigned)ladder_threads(step), 1, 1,
                                 (unsigned)ladder_shared(step), NULL, list, NULL) == 0 &&
           driver.cuCtxSynchronize() == 0 &&
           driver.cuMemcpyDtoHAsync_v2(c, to.at, bytes, NULL) == 0 &&
           driver.cuStreamSynchronize(NULL) == 0 && memcmp(c + AROUND, expected, 4 * count) == 0;
    for (size_t i = 0; same && i < AROUND; i++)
        same = ((unsigned char *)c)[4 * i] == 0x77 &&
               ((unsigned char *)(c + AROUND + count))[4 * i] == 0x77;
    gpu_free(a);
    gpu_free(b);
    gpu_free(to);
    free(c);
    return same;
}

/* Compiles and loads a step, and runs products.  Returns 0 if all are right, 1 if one is wrong, 3
 * if the step does not compile. */
static int check_step(int step, const struct product *p, int count)
{
    char *cubin = compile_step(step, "");
    void *module, *function;
    int wrong = 0;

    if (!cubin)
        return 3;
    assert_int_equal(driver.cuModuleLoadData(&module, cubin), 0);
    assert_int_equal(driver.cuModuleGetFunction(&function, module, "limber_ladder"), 0);
    for (int i = 0; i < count && !wrong; i++)
        if (!run_step(step, function, &p[i])) {
            print_message("step %d is wrong: %d x %d x %d %s\n", step, p[i].s.m, p[i].s.n, p[i].s.k,
                          driver.simt_error ? driver.simt_error() : "");
            wrong = 1;
        }
    driver.cuModuleUnload(module);
    free(cubin);
    return wrong;
}

static bool has_step(int step)
{
    return step != LADDER_SPECIALISED || gpu_capability() >= 90;
}

/* Every step has the expected bits, also at sizes that are no multiples of a tile's. */
static void steps_have_the_stated_bits(void **state)
{
    static const struct sizes sizes[] = {
        { 1, 1, 8 }, { 128, 128, 64 }, { 136, 131, 264 }, { 7, 200, 72 }, { 257, 3, 328 },
    };
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct product p[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        p[i] = make_product(sizes[i]);
    for (int step = 0; step < LADDER_STEPS; step++)
        if (has_step(step))
            assert_int_equal(check_step(step, p, COUNT), 0);
    for (int i = 0; i < COUNT; i++)
        free_product(&p[i]);
}

/* ---- bank conflicts -------------------------------------------------------------------------- */

/* Makes each warp count the passes in which it reads shared memory, and store them in the place of
 * its sums.  Eight lanes read at once; pieces of 16 bytes, 128 bytes apart, are in the same
 * banks. */
static const char counting[] =
    "static uint32_t noted_at[1024], noted_passes[32];\n"
    "static void note(uint32_t at) {\n"
    "    noted_at[thread()] = at;\n"
    "    sync_warp();\n"
    "    for (int eight = 0; lane() == 0 && eight < 32; eight += 8) {\n"
    "        const uint32_t *a = noted_at + thread() + eight;\n"
    "        int most = 0;\n"
    "        for (int i = 0; i < 8; i++) {\n"
    "            int same = 0;\n"
    "            for (int j = 0, k; j < 8; j++) {\n"
    "                for (k = 0; k < j && a[k] != a[j]; k++)\n"
    "                    ;\n"
    "                same += k == j && a[j] / 16 % 8 == a[i] / 16 % 8;\n"
    "            }\n"
    "            most = same > most ? same : most;\n"
    "        }\n"
    "        noted_passes[thread() / 32] += most;\n"
    "    }\n"
    "    sync_warp();\n"
    "}\n"
    "static void noted_fragments(uint32_t *r, uint32_t at) { note(at); load_fragments(r, at); }\n"
    "template <class T> static T noted_shared(uint32_t at) { note(at); return load_shared<T>(at); "
    "}\n"
    "#define load_fragments noted_fragments\n"
    "#define load_shared noted_shared\n"
    "#define store(p, v) store(p, (float)noted_passes[thread() / 32])\n";

/* `limber reproduce ladder` counts passes from the lanes' addresses, without executing a step.  An
 * executed step has as many: for 1024 multiply-adds 18 from tiles, 6 from fragments, and 0.75
 * without conflicts. */
static void passes_are_as_counted(void **state)
{
    static const float passes[LADDER_STEPS] = { 0, 18, 6, 0.75f, 0.75f, 0.75f };
    struct product p = make_product((struct sizes){ TALL, WIDE, DEPTH });

    (void)state;
    if (getenv("LIMBER_TEST_GPU"))
        skip_because("passes are counted by stand-ins");
    for (int step = LADDER_TILES; step < LADDER_STEPS; step++) {
        float *expected = step < LADDER_FRAGMENTS ? p.chain : p.fragments;
        void *module, *function;
        char *cubin;

        if (!has_step(step))
            continue;
        for (int i = 0; i < TALL * WIDE; i++)
            expected[i] = passes[step] * STAGE_PRODUCTS / 1024 / WARPS;
        cubin = compile_step(step, counting);
        assert_non_null(cubin);
        assert_int_equal(driver.cuModuleLoadData(&module, cubin), 0);
        assert_int_equal(driver.cuModuleGetFunction(&function, module, "limber_ladder"), 0);
        assert_true(run_step(step, function, &p));
        driver.cuModuleUnload(module);
        free(cubin);
    }
    free_product(&p);
}

/* ---- planted faults -------------------------------------------------------------------------- */

static int step_under_test;

/* Returns 0 if a planted fault makes the step wrong. */
static int find_fault(void *arg)
{
    int result = check_step(step_under_test, arg, 1);

    return result == 3 ? 3 : result == 0;
}

static void planted_faults_are_found(void **state)
{
    static const struct {
        int step;
        struct gpu_fault fault;
    } faults[] = {
        { LADDER_NAIVE, { 90, "a row too many", "if (i >= a.m ||=>if (i > a.m ||" } },
        { LADDER_TILES, { 90, "reads tiles too early", "sync_block(); /* copied */=>" } },
        { LADDER_TILES, { 90, "copies too early", "sync_block(); /* multiplied */=>" } },
        { LADDER_TILES,
          { 90, "another order",
            "UNROLL for (int p = 0; p < 2; p++)=>"
            "UNROLL for (int p = 1; p >= 0; p--)" } },
        { LADDER_TILES, { 90, "elements beyond k", "element < k;=>element <= k;" } },
        { LADDER_FRAGMENTS, { 90, "another fragment of B", "b[j / 2] + j % 2 * 2=>b[j / 2]" } },
        { LADDER_FRAGMENTS,
          { 90, "rows and columns", "(uint32_t)(r * ROW +=>(uint32_t)(r * 64 +" } },
        { LADDER_FREE,
          { 90, "another swizzle",
            "uint32_t to = at + piece_at(LADDER_STEP,=>"
            "uint32_t to = at + piece_at(0," } },
        { LADDER_PIPELINED,
          { 90, "waits for too few", "copy_wait<STAGES - 2>=>copy_wait<STAGES - 1>" } },
        { LADDER_PIPELINED,
          { 90, "overwrites a stage", "int next = s + STAGES - 1;=>int next = s + STAGES;" } },
        { LADDER_SPECIALISED,
          { 90, "overwrites a stage",
            "barrier_wait(empty_at(stage), (uint32_t)(s / STAGES + 1) & 1); /* read */=>" } },
        { LADDER_SPECIALISED,
          { 90, "reads too early",
            "barrier_wait(full_at(s % STAGES), (uint32_t)(s / STAGES) & 1); /* copied */=>" } },
        { LADDER_SPECIALISED,
          { 90, "lanes read later",
            "sync_warp();\\n        if (lane() == 0)\\n            barrier_arrive=>"
            "if (lane() == 0)\\n            barrier_arrive" } },
    };
    struct product p = make_product((struct sizes){ 130, 72, 344 });

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        step_under_test = faults[i].step;
        gpu_faults_are_found(&faults[i].fault, 1, find_fault, &p);
    }
    free_product(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_the_stated_bits),
        cmocka_unit_test(passes_are_as_counted),
        cmocka_unit_test(planted_faults_are_found),
    };

    if (gpu_is_missing())
        return 77;
    return cmocka_run_group_tests(tests, open_all, gpu_close);
}
