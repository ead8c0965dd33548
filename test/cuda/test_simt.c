/* SPDX-License-Identifier: BSD-3-Clause
 * Tests the harness that runs CUDA kernels on the CPU (test/cuda/simt): each primitive of the
 * kernels' dialect computes what it should, and each kind of mistake is found. */
#include "backends/interp/unit.h"
#include "test/cuda/simt/dot.h"
#include "driver.h"
#include "support.h"

#include <dlfcn.h>
#include <limber/limber.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef uint64_t address;

/* ---- the two libraries ---------------------------------------------------------------------- */

#define DECLARE(name, args) static int(*name) args;
DRIVER_FUNCTIONS(DECLARE)
NVRTC_FUNCTIONS(DECLARE)
static const char *(*simt_error)(void);
static void (*simt_reset)(void);
static long (*simt_maps)(void);

/* Loads the simulated driver and compiler, and finds their functions. */
static int open_libraries(void **state)
{
    void *cuda = dlopen(SIMT_CUDA, RTLD_NOW | RTLD_LOCAL);
    void *nvrtc = dlopen(SIMT_NVRTC, RTLD_NOW | RTLD_LOCAL);

    (void)state;
    if (!cuda || !nvrtc) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
#define LOAD_CUDA(name, args) *(void **)&name = dlsym(cuda, #name);
#define LOAD_NVRTC(name, args) *(void **)&name = dlsym(nvrtc, #name);
    DRIVER_FUNCTIONS(LOAD_CUDA)
    NVRTC_FUNCTIONS(LOAD_NVRTC)
    *(void **)&simt_error = dlsym(cuda, "simt_error");
    *(void **)&simt_reset = dlsym(cuda, "simt_reset");
    *(void **)&simt_maps = dlsym(cuda, "simt_maps");
    return cuInit(0);
}

static void set_variable(const char *name, long long v)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", v);
    setenv(name, text, 1);
}

/* Restarts the simulated driver with another device and another order of threads. */
static void start_driver(int capability, int seed)
{
    void *context;

    set_variable("SIMT_CC", capability);
    set_variable("SIMT_SEED", seed);
    simt_reset();
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
}

/* ---- building and launching a kernel --------------------------------------------------------- */

struct args {
    _Alignas(128) uint64_t map[2][16]; /* as `tensor_map` in device.h */
    address a, b, c;
    int n, m;
};

#define HEAD \
    "#include \"device.h\"\n" \
    "struct args { uint64_t map[2][16]; const char *a, *b; char *c; int n, m; };\n"
#define HEAD90 \
    "#include \"device.h\"\n" \
    "struct args { tensor_map map[2]; const char *a, *b; char *c; int n, m; };\n"

/* Part of the error about a read that comes too early: another thread's write to shared memory
 * is not ordered before it. */
#define UNORDERED "shared memory"

/* A kernel to run, and the launch. */
struct kernel {
    const char *source;
    int capability, threads, blocks;
    uint32_t shared;
    int cluster;
};

/* Returns the text of device.h, whose inline assembly the harness simulates. */
static const char *device_header(void)
{
    static char text[1 << 16];
    FILE *f = fopen(LIMBER_TEST_DIR "/../backends/cuda/kernel/device.h", "r");

    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) < sizeof text - 1);
    fclose(f);
    return text;
}

/* The image that was compiled last.  It is kept because several seeds in a row use one kernel. */
static struct {
    char *source, *fault, *image;
    int capability;
} last;

static bool is_last(const struct kernel *k, const char *fault)
{
    return last.image && last.capability == k->capability && strcmp(last.source, k->source) == 0 &&
           strcmp(last.fault, fault) == 0;
}

/* Keeps the compiled kernel, since the next test may use the same one. */
static void keep_image(const struct kernel *k, const char *fault, char *image)
{
    free(last.source);
    free(last.fault);
    free(last.image);
    last.source = strdup(k->source);
    last.fault = strdup(fault);
    last.image = image;
    last.capability = k->capability;
}

/* Compiles a kernel with a fault planted ("": none).  Returns NULL, or the error. */
static const char *compile(const struct kernel *k, const char *fault)
{
    static const char *const names[] = { "device.h" };
    const char *headers[] = { device_header() };
    static char log[4096];
    const char *options[] = { k->capability == 120 ? "--gpu-architecture=sm_120f" :
                              k->capability == 100 ? "--gpu-architecture=sm_100a" :
                              k->capability == 90  ? "--gpu-architecture=sm_90a" :
                              k->capability == 80  ? "--gpu-architecture=sm_80" :
                                                     "--gpu-architecture=sm_70" };
    void *program;
    size_t size;
    char *image;

    if (is_last(k, fault))
        return NULL;
    setenv("SIMT_FAULT", fault, 1);
    assert_int_equal(nvrtcCreateProgram(&program, k->source, "kernel.cu", 1, headers, names), 0);
    if (nvrtcCompileProgram(program, 1, options) != 0) {
        nvrtcGetProgramLogSize(program, &size);
        assert_true(size <= sizeof log);
        nvrtcGetProgramLog(program, log);
        nvrtcDestroyProgram(&program);
        return log;
    }
    assert_int_equal(nvrtcGetCUBINSize(program, &size), 0);
    image = malloc(size);
    assert_int_equal(nvrtcGetCUBIN(program, image), 0);
    nvrtcDestroyProgram(&program);
    keep_image(k, fault, image);
    return NULL;
}

/* Compiles a kernel, with a fault planted unless NULL, and loads it.  Returns NULL, or the
 * error. */
static const char *build_kernel(const struct kernel *k, const char *fault, void **module,
                                void **function)
{
    const char *wrong = compile(k, fault ? fault : "");

    if (wrong)
        return wrong;
    if (cuModuleLoadData(module, last.image))
        return "not loaded";
    assert_int_equal(cuModuleGetFunction(function, *module, "k"), 0);
    return NULL;
}

static address upload(const void *p, size_t size)
{
    address at;

    assert_int_equal(cuMemAlloc_v2(&at, size), 0);
    if (p)
        assert_int_equal(cuMemcpyHtoDAsync_v2(at, p, size, NULL), 0);
    return at;
}

/* Launches a kernel and waits for it.  Returns the driver's status. */
static int launch_kernel(const struct kernel *k, void *function, struct args *args)
{
    void *list[] = { args };
    struct launch_attribute cluster = { 4, 0, { (unsigned)k->cluster, 1, 1 } };
    struct launch_config config = {
        { (unsigned)k->blocks, 1, 1 }, { (unsigned)k->threads, 1, 1 }, k->shared, NULL, &cluster, 1
    };

    if (k->shared > 48 * 1024)
        assert_int_equal(cuFuncSetAttribute(function, 8, (int)k->shared), 0);
    if (k->cluster > 1)
        return cuLaunchKernelEx(&config, function, list, NULL);
    return cuLaunchKernel(function, (unsigned)k->blocks, 1, 1, (unsigned)k->threads, 1, 1,
                          k->shared, NULL, list, NULL);
}

/* A kernel's inputs a and b, and its expected output.  sizes: in bytes; n, m: arguments; maps:
 * makes the tensor maps among the arguments, or NULL. */
struct kernel_test {
    const void *a, *b, *want;
    size_t a_size, b_size, c_size;
    int n, m;
    void (*maps)(struct args *args);
};

/* Runs the kernel.  Returns the harness's error, "" if there is none, or "wrong result" if the
 * output differs. */
static const char *run_kernel_test(const struct kernel *k, const struct kernel_test *d,
                                   const char *fault)
{
    static char told[8192];
    struct args args = { .n = d->n, .m = d->m };
    void *module, *function, *got = calloc(1, d->c_size);
    const char *wrong = build_kernel(k, fault, &module, &function);
    int e;

    if (wrong)
        fail_msg("%s", wrong);
    args.a = d->a_size ? upload(d->a, d->a_size) : 0;
    args.b = d->b_size ? upload(d->b, d->b_size) : 0;
    args.c = upload(NULL, d->c_size);
    if (d->maps)
        d->maps(&args);
    e = launch_kernel(k, function, &args);
    e = e ? e : cuCtxSynchronize();
    snprintf(told, sizeof told, "%s", simt_error());
    assert_true((e == 719) == (told[0] != 0));
    if (e == 0) {
        assert_int_equal(cuMemcpyDtoHAsync_v2(got, args.c, d->c_size, NULL), 0);
        if (memcmp(got, d->want, d->c_size) != 0)
            snprintf(told, sizeof told, "wrong result");
    } else {
        assert_int_equal(e, 719);
        assert_int_equal(cuCtxSynchronize(), 719);
    }
    cuModuleUnload(module);
    free(got);
    return told;
}

/* text: the fault to plant; told: text that the error must then contain. */
struct fault {
    const char *text, *told;
};

/* Checks that a kernel is right, and that each planted fault is found, with three seeds, which
 * change the order of threads. */
static void check_faults(const struct kernel *k, const struct kernel_test *d,
                         const struct fault *faults, int count)
{
    for (int i = -1; i < count; i++)
        for (int seed = 1; seed <= 3; seed++) {
            const char *told;

            start_driver(k->capability, seed);
            told = run_kernel_test(k, d, i < 0 ? NULL : faults[i].text);
            if (i < 0)
                assert_string_equal(told, "");
            else if (!told[0] || !strstr(told, faults[i].told))
                fail_msg("seed %d, fault \"%s\": \"%s\"", seed, faults[i].text, told);
        }
    if (count)
        print_message("%d planted faults found\n", count);
}

#define CHECK(kernel, data, faults) \
    check_faults(kernel, data, faults, sizeof faults / sizeof *(faults))

/* ---- shared and global memory ---------------------------------------------------------------- */

/* A kernel that exchanges numbers through shared memory is right.  Planted faults (a missing
 * barrier, an access out of bounds) must be reported. */
static void shared_memory_is_watched(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 128, 1) {\n"
             "  int t = thread(), v = load<int>(args.a + 4 * (block() * 128 + t));\n"
             "  store_shared<int>(4 * t, v); /* fill */\n"
             "  sync_block(); // first\n"
             "  int w = load_shared<int>(4 * (127 - t));\n"
             "  sync_block(); // second\n"
             "  store_shared<uint8_t>(t, (uint8_t)w);\n"
             "  sync_block(); // third\n"
             "  v = load_shared<uint8_t>(t ^ 1) + 1000 * w;\n"
             "  store(args.c + 4 * (block() * 128 + t), v);\n"
             "}\n",
        80,
        128,
        5,
        512,
        1
    };
    static const struct fault faults[] = {
        { "sync_block(); // first=>", UNORDERED },
        { "sync_block(); // second=>", UNORDERED },
        { "sync_block(); // third=>", UNORDERED },
        { "sync_block(); // first=>sync_warp();", UNORDERED },
        { "sync_block(); // first=>sync_some<1, 64>();", UNORDERED },
        { "4 * (127 - t)=>4 * (128 - t)", "load of bytes 512 to 515" },
        { "4 * (127 - t)=>4 * (127 - t) + 2", "not aligned" },
        { "block() * 128 + t));=>block() * 128 + t + 1));", "out of bounds" },
        { "store_shared<int>(4 * t, v);=>if (t != 77) store_shared<int>(4 * t, v);", UNORDERED },
        { "store_shared<int>(4 * t, v);=>store_shared<uint16_t>(4 * t, v);", UNORDERED },
        { "args.c + 4 * (block() * 128 + t)=>args.c + 4 * (block() * 128 + t + 1)",
          "out of bounds" },
        { "sync_block(); // first=>if (t) sync_block();", "" },
        { "sync_block(); // first=>if (t == 3) return; sync_block();", "ended" },
        { "int w = load_shared<int>(4 * (127 - t));=>int w = args.c[t];", "an access that is not" },
        { "v = load_shared=>v = load<int>(args.c) + load_shared", "never written" },
    };
    int32_t in[5 * 128], out[5 * 128];
    struct kernel_test d = { in, NULL, out, sizeof in, 0, sizeof out, 0, 0, NULL };

    (void)state;
    for (int i = 0; i < 640; i++)
        in[i] = i * 7;
    for (int i = 0; i < 640; i++) {
        int block = i / 128 * 128, t = i % 128;

        out[i] = (in[block + 127 - (t ^ 1)] & 255) + 1000 * in[block + 127 - t];
    }
    CHECK(&k, &d, faults);
}

/* A fault is refused if its text does not occur exactly once in the program, or if the program
 * then does not compile. */
static void planted_faults_must_be_there_once(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 32, 1) { sync_warp(); sync_warp(); }\n", 80, 32, 1, 0, 1
    };
    void *m, *f;

    (void)state;
    start_driver(80, 1);
    assert_non_null(strstr(build_kernel(&k, "sync_warp()=>", &m, &f), "occurs 3 times"));
    assert_non_null(strstr(build_kernel(&k, "sync_nothing()=>", &m, &f), "occurs 0 times"));
    assert_non_null(strstr(build_kernel(&k, "32, 1)=>32, 1) }", &m, &f), "error"));
}

/* ---- copies that land late ------------------------------------------------------------------- */

/* A kernel copies asynchronously through three stages of shared memory.  A read before the copy
 * has been awaited must be reported. */
static void copies_of_16_bytes_land_late(void **state)
{
    static const struct kernel k = {
        HEAD "DEVICE void ask(const args &args, int stage, int step) {\n"
             "  if (step < args.n)\n"
             "    copy16(stage * 1024 + 16 * thread(), args.a + 1024 * step + 16 * thread(), 16);\n"
             "  copy_group(); // commit\n"
             "}\n"
             "KERNEL(k, args, 64, 1) {\n"
             "  int sum = 0;\n"
             "  ask(args, 0, 0); ask(args, 1, 1);\n"
             "  ROLL for (int i = 0; i < args.n; i++) {\n"
             "    copy_wait<1>(); // wait\n"
             "    sync_block(); // meet\n"
             "    ask(args, (i + 2) % 3, i + 2);\n"
             "    UNROLL for (int j = 0; j < 4; j++)\n"
             "      sum += load_shared<int>(i % 3 * 1024 + 16 * (63 - thread()) + 4 * j);\n"
             "  }\n"
             "  store(args.c + 4 * thread(), sum);\n"
             "}\n",
        80,
        64,
        1,
        3072,
        1
    };
    static const struct fault faults[] = {
        { "copy_wait<1>(); // wait=>", "in flight" },
        { "copy_wait<1>(); // wait=>copy_wait<2>();", "in flight" },
        { "sync_block(); // meet=>", UNORDERED },
        { "(i + 2) % 3=>(i + 1) % 3", UNORDERED },
        { "i % 3 * 1024 + 16=>(i + 1) % 3 * 1024 + 16", UNORDERED },
        { "copy_group(); // commit=>if (step != 3) copy_group();", "in flight" },
        { "step < args.n=>step <= args.n", "out of bounds" },
        { "\"cp.async.commit_group;\"=>\"\"", "in flight" },
        { "\"cp.async.wait_group %0;\"=>\"cp.async.wait_group 2;\"", "in flight" },
        { "[%1], 16, %2;=>[%1], 8, %2;", "of 8 bytes" },
        { "cp.async.cg=>cp.async.ca", "of 16 bytes" },
        { "to_shared(limber_shared) + at=>to_shared(limber_shared)", "" },
        { "(uint32_t)__cvta_generic_to_shared(limber_shared) + at=>at", "no address" },
    };
    int32_t in[7 * 256], out[64] = { 0 };
    struct kernel_test d = { in, NULL, out, sizeof in, 0, sizeof out, 7, 0, NULL };

    (void)state;
    for (int i = 0; i < 7 * 256; i++) {
        in[i] = i * i;
        out[63 - i % 256 / 4] += in[i];
    }
    CHECK(&k, &d, faults);
}

/* ---- products of tensor cores ---------------------------------------------------------------- */

static const char *const unit_names[4][9] = {
    { [SIMT_F16] = "a100-fp16", [SIMT_BF16] = "a100-bf16", [SIMT_TF32] = "a100-tf32" },
    { [SIMT_F16] = "h100-fp16",
      [SIMT_BF16] = "h100-bf16",
      [SIMT_TF32] = "h100-tf32",
      [SIMT_E4M3] = "h100-e4m3",
      [SIMT_E5M2] = "h100-e5m2" },
    { [SIMT_F16] = "b200-fp16",
      [SIMT_BF16] = "b200-bf16",
      [SIMT_TF32] = "b200-tf32",
      [SIMT_E4M3] = "b200-e4m3",
      [SIMT_E5M2] = "b200-e5m2" },
    /* products into tensor memory */
    { [SIMT_F16] = "b200-fp16",
      [SIMT_E4M3] = "in=e4m3 acc=f32:rz:inf block=32 frac=25 floor=-133",
      [SIMT_E5M2] = "in=e5m2 acc=f32:rz:inf block=32 frac=25 floor=-133" },
};
static const char *const format_names[9] = {
    [SIMT_F16] = "f16",   [SIMT_BF16] = "bf16", [SIMT_TF32] = "f32",
    [SIMT_E4M3] = "e4m3", [SIMT_E5M2] = "e5m2",
};

/* Computes the dot product of a line of A and one of B by the interpreter's model of the unit. */
static float model_dot(const limber_unit *u, int kind, const unsigned char *a,
                       const unsigned char *b, float c)
{
    struct loaded x[32], y[32];
    double v[32];
    struct unit_counts counts = { 0 };
    int n = simt_elements(kind);
    limber_format f = named(format_names[kind]);
    struct model_dot d = { .u = u, .a = x, .b = y, .k = n, .start = c, .counts = &counts };

    for (int side = 0; side < 2; side++) {
        assert_int_equal(
            limber_convert(v, named("f64"), side ? b : a, f, (size_t)n, LIMBER_ROUND_NEAREST),
            LIMBER_STATUS_OK);
        limber_unit_load(u, side, v, n, side ? y : x);
    }
    return (float)limber_interp_dot(&d);
}

/* Draws 32 bytes of an operand's elements.  how: selects which numbers are frequent (zeros,
 * subnormals, numbers near 1). */
static void random_operand(struct rng *r, int kind, int how, void *p)
{
    unsigned char *bytes = p;
    int n = simt_elements(kind), size = 32 / n;

    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)rng_next(r);
    for (int i = 0; i < n; i++) {
        unsigned char *top = bytes + (i + 1) * size - 1;

        if (how % 4 && kind != SIMT_E4M3) /* mostly near 1, with some zeros and subnormals */
            *top = (unsigned char)((*top & 0x83) | 0x38);
        else if (how % 8)
            *top &= 0xbf;
        if (rng_below(r, 9) == 0)
            memset(bytes + i * size, 0, (size_t)size);
        else if (rng_below(r, 9) == 0)
            *top &= 0x80;
    }
}

/* The simulator's dot product of each kind and device has the bits of the interpreter's unit on
 * random operands and starts, among them zeros and subnormals. */
static void tensor_core_models_agree_with_the_interpreter(void **state)
{
    static const int capabilities[4] = { 80, 90, 100, 100 };
    struct rng r = { 7 };

    (void)state;
    for (int c = 0; c < 4; c++)
        for (int kind = SIMT_F16; kind <= SIMT_E5M2; kind++) {
            struct model m;
            limber_unit u = LIMBER_UNIT_INIT;

            if (!unit_names[c][kind])
                continue;
            assert_true(simt_model(kind, capabilities[c], c == 3, &m));
            assert_int_equal(limber_unit_parse(unit_names[c][kind], &u), LIMBER_STATUS_OK);
            for (int i = 0; i < 4000; i++) {
                unsigned char a[32], b[32];
                struct line x, y;
                uint32_t bits = (uint32_t)rng_next(&r);
                float start, got, want;

                random_operand(&r, kind, i, a);
                random_operand(&r, kind, i, b);
                if (i % 8)
                    bits = (bits & 0x80ffffff) | 0x3e000000u;
                if (i % 5 == 0)
                    bits &= i % 10 ? 0x80000000u : 0x807fffffu;
                memcpy(&start, &bits, 4);
                simt_line(kind, a, &x);
                simt_line(kind, b, &y);
                got = simt_dot(kind, &m, &x, &y, start);
                want = model_dot(&u, kind, a, b, start);
                if (memcmp(&got, &want, 4) != 0)
                    fail_msg("%s, number %d: %a, not %a", unit_names[c][kind], i, got, want);
            }
        }
}

/* A kernel packs bytes and halves into words, with some of the threads waiting at a named
 * barrier. */
static void words_are_packed(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 96, 1) {\n"
             "  int t = thread();\n"
             "  if (t < 64) {\n"
             "    store_shared<uint32_t>(4 * t, load<uint32_t>(args.a + 4 * t));\n"
             "    sync_some<1, 64>();\n"
             "    uint32_t a = load_shared<uint32_t>(4 * (63 - t));\n"
             "    float x = (float)(int8_t)a, y = (float)(int8_t)(a >> 8) / 1024, low, high;\n"
             "    store(args.c + 4 * t, dot4<0, 0>(a, a >> 4, 5) + 3 * dot4<0, 1>(a, a >> 4, t) +\n"
             "      7 * dot4<1, 0>(a, a >> 4, 0) + 11 * dot4<1, 1>(a, a >> 4, 0));\n"
             "    unpack_f16(pack_f16(x, y), low, high);\n"
             "    store(args.c + 256 + 8 * t, low);\n"
             "    store(args.c + 260 + 8 * t, high);\n"
             "    store(args.c + 768 + 4 * t, pack_bf16(x, y));\n"
             "  } else {\n"
             "    sync_some<2, 32>();\n"
             "  }\n"
             "}\n",
        80,
        96,
        1,
        1024,
        1
    };
    static const struct fault faults[] = {
        { "dp4a.s32.u32=>dp4a.u32.s32", "wrong" },
        { "cvt.rn.f16x2.f32 %0, %1, %2=>cvt.rn.f16x2.f32 %0, %2, %1", "wrong" },
        { "cvt.rn.bf16x2.f32=>cvt.rn.f16x2.f32", "wrong" },
        { "cvt.f32.f16 %1, h=>cvt.f32.f16 %1, l", "wrong" },
        { "mov.b32 {l, h}=>mov.b32 {h, l}", "wrong" },
        { "bar.sync %0, %1=>bar.sync 0, %1", "bar.sync 0" },
        { "bar.sync %0, %1=>bar.sync %0, 32", UNORDERED },
    };
    uint32_t a[64];
    struct {
        int32_t sum[64];
        float half[64][2];
        uint32_t word[64];
    } c;
    struct kernel_test d = { a, NULL, &c, sizeof a, 0, sizeof c, 0, 0, NULL };
    struct rng r = { 4 };

    (void)state;
    for (int t = 0; t < 64; t++)
        a[t] = (uint32_t)rng_next(&r);
    for (int t = 0; t < 64; t++) {
        uint32_t v = a[63 - t], w = v >> 4, bits[2];
        int32_t sum[4] = { 5, t, 0, 0 };

        for (int i = 0; i < 32; i += 8)
            for (int s = 0; s < 4; s++)
                sum[s] += (s & 2 ? (int8_t)(v >> i) : (uint8_t)(v >> i)) *
                          (s & 1 ? (int8_t)(w >> i) : (uint8_t)(w >> i));
        c.sum[t] = sum[0] + 3 * sum[1] + 7 * sum[2] + 11 * sum[3];
        c.half[t][0] = (float)(int8_t)v; /* both values are exact in FP16 and BF16 */
        c.half[t][1] = (float)(int8_t)(v >> 8) / 1024;
        memcpy(bits, c.half[t], sizeof bits);
        c.word[t] = bits[0] >> 16 | (bits[1] & 0xffff0000);
    }
    CHECK(&k, &d, faults);
}

/* A kernel multiplies A (16 rows) by B (8 columns), both with 32 bytes along k, by mma.sync. */
static void warps_multiply(void **state)
{
    static const char source[] =
        HEAD "KERNEL(k, args, 32, 1) {\n"
             "  int l = lane(), g = l >> 2, t = l & 3;\n"
             "  store_shared(32 * l, load<bytes16>(args.a + 32 * l));\n"
             "  store_shared(32 * l + 16, load<bytes16>(args.a + 32 * l + 16));\n"
             "  sync_warp(); // meet\n"
             "  uint32_t a[4], b[4];\n"
             "  NUMBER d[4] = { (NUMBER)1, (NUMBER)-2, (NUMBER)3, (NUMBER)l };\n"
             "  load_fragments(a, 32 * ((l & 7) + 8 * (l >> 3 & 1)) + 16 * (l >> 4));\n"
             "  load_fragments(b, 512 + 32 * (l & 7) + 16 * (l >> 3 & 1));\n"
             "  PRODUCT(d, a, b); // product\n"
             "  store(args.c + 4 * (g * 8 + 2 * t), d[0]);\n"
             "  store(args.c + 4 * (g * 8 + 2 * t + 1), d[1]);\n"
             "  store(args.c + 4 * ((g + 8) * 8 + 2 * t), d[2]);\n"
             "  store(args.c + 4 * ((g + 8) * 8 + 2 * t + 1), d[3]);\n"
             "}\n";
    static const struct {
        int kind;
        const char *number, *product;
    } kinds[] = {
        { SIMT_I8, "int", "(mma_i8<0, 0>)" },     { SIMT_I8 + 1, "int", "(mma_i8<1, 0>)" },
        { SIMT_I8 + 2, "int", "(mma_i8<0, 1>)" }, { SIMT_I8 + 3, "int", "(mma_i8<1, 1>)" },
        { SIMT_F16, "float", "mma_f16" },         { SIMT_BF16, "float", "mma_bf16" },
        { SIMT_TF32, "float", "mma_tf32" },
    };
    struct rng r = { 3 };

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        unsigned char in[1024];
        char text[4096];
        uint32_t out[16 * 8];
        struct kernel_test d = { in, NULL, out, sizeof in, 0, sizeof out, 0, 0, NULL };
        struct kernel k = { text, 80, 32, 1, 1024, 1 };
        static const struct fault faults[] = {
            { "PRODUCT(d, a, b); // product=>if (l < 16) PRODUCT(d, a, b);", "has ended" },
            { "PRODUCT(d, a, b); // product=>if (l < 16) PRODUCT(d, a, b); else sync_warp();",
              "divergent" },
            { "PRODUCT(d, a, b); // product=>if (l < 16) PRODUCT(d, a, b); else sync_block();",
              "divergent" },
            { "sync_warp(); // meet=>", UNORDERED },
        };
        static const struct fault of_assembly[] = {
            { "sa \".\" sb \".s32 \"=>sb \".\" sa \".s32 \"", "wrong" },
            { "MMA_I8(\"s8\", \"u8\")=>MMA_I8(\"s8\", \"s8\")", "wrong" },
            { "MMA_I8(\"u8\", \"s8\")=>MMA_I8(\"u8\", \"u4\")", "not played" },
            { "\"m16n8k16\", \"f16\"=>\"m16n8k8\", \"f16\"", "not played" },
            { "\"m16n8k16\", \"f16\"=>\"m16n8k16\", \"bf16\"", "wrong" },
            { "m8n8.x4.shared.b16 {%0, %1=>m8n8.x4.shared.b16 {%1, %0", "wrong" },
            { "m8n8.x4.shared=>m8n8.x4.trans.shared", "not played" },
            { "\"=r\"(r[2]), \"=r\"(r[3]) : =>\"=r\"(r[3]), \"=r\"(r[2]) : ", "wrong" },
            { "\"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : =>\"r\"(r[0]), "
              "\"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : ",
              "only read" },
            { "\"m16n8k8\", \"tf32\"=>\"m16n8k4\", \"tf32\"", "not played" },
        };
        static const int first_of[COUNT(kinds) + 1] = { 0, 0, 2, 3, 3, 9, 9, 10 };

        snprintf(text, sizeof text, "#define NUMBER %s\n#define PRODUCT %s\n%s", kinds[i].number,
                 kinds[i].product, source);
        for (int p = 0; p < 1024; p += 32)
            random_operand(&r, kinds[i].kind < SIMT_F16 ? SIMT_E4M3 : kinds[i].kind, 1, in + p);
        for (int row = 0; row < 16; row++)
            for (int col = 0; col < 8; col++) {
                int lane = row % 8 * 4 + col / 2;
                int first = row < 8 ? col % 2 ? -2 : 1 : col % 2 ? lane : 3;
                float v = (float)first;

                if (kinds[i].kind < SIMT_F16) {
                    int32_t sum = first;

                    for (int p = 0; p < 32; p++) {
                        int x = in[32 * row + p], y = in[512 + 32 * col + p];

                        sum += (kinds[i].kind & 1 ? (int8_t)x : x) *
                               (kinds[i].kind & 2 ? (int8_t)y : y);
                    }
                    memcpy(&out[8 * row + col], &sum, 4);
                } else {
                    limber_unit u = LIMBER_UNIT_INIT;

                    limber_unit_parse(unit_names[0][kinds[i].kind], &u);
                    v = model_dot(&u, kinds[i].kind, in + 32 * row, in + 512 + 32 * col, v);
                    memcpy(&out[8 * row + col], &v, 4);
                }
            }
        check_faults(&k, &d, faults, i == 4 ? 4 : 0);
        check_faults(&k, &d, &of_assembly[first_of[i]], first_of[i + 1] - first_of[i]);
    }
}

/* ---- blocks with scales ---------------------------------------------------------------------- */

/* A kind of block-scaled products, and the formats of A and B. */
struct scaled_case {
    enum simt_scaled kind;
    int format[2];
};
static const char *const element_names[SIMT_FORMATS] = {
    "e4m3", "e5m2", "", "e2m3", "e3m2", "e2m1"
};

/* Returns the unit that models a block-scaled product of these formats. */
static limber_unit unit_of_scaled(const struct scaled_case *x)
{
    static const char *const names[] = { "", "b200-mxe4m3", "b200-mxfp4", "b200-nvfp4" };
    limber_unit u = LIMBER_UNIT_INIT;
    char text[64];

    snprintf(text, sizeof text, "%s a=%s b=%s", names[x->kind], element_names[x->format[0]],
             element_names[x->format[1]]);
    assert_int_equal(limber_unit_parse(text, &u), LIMBER_STATUS_OK);
    return u;
}

/* Draws 32 bytes of elements, and their block scales: most scales are near 1, some at the ends of
 * their format, some NaN. */
static void random_scaled(struct rng *r, const struct scaled_case *x, int side, int how,
                          uint8_t bytes[32], uint8_t scales[4])
{
    int format = x->format[side];

    for (int i = 0; i < 32; i++) {
        uint8_t v = (uint8_t)rng_next(r);

        if (rng_below(r, 9) == 0)
            v &= 0x80;
        if (x->kind == SIMT_MXF8F6F4 && format < 2 && how % 8)
            v &= 0xbf; /* clears an exponent bit: neither NaN nor infinity */
        if (x->kind == SIMT_MXF8F6F4 && format > 2)
            v = format == 5 ? (uint8_t)((v & 15) << 2) : v & 63;
        bytes[i] = v;
    }
    for (int i = 0; i < 4; i++) {
        bool odd = rng_below(r, 24) == 0;
        int below = (int)rng_below(r, 20);

        if (x->kind == SIMT_MXF4NVF4)
            scales[i] = (uint8_t)(odd ? rng_below(r, 128) : 0x20 + 2 * below);
        else
            scales[i] =
                (uint8_t)(odd ? 255 * (below & 1) - (below & 2 ? below & 1 : 0) : 117 + below);
    }
}

/* Decodes a line of a block-scaled operand for the interpreter's model of the unit. */
static void load_scaled(const struct scaled_case *x, const limber_unit *u, int side,
                        const uint8_t bytes[32], const uint8_t *scales, struct loaded *to)
{
    limber_format f = named(element_names[x->format[side]]), e4m3 = named("e4m3");
    int each = u->scale_block, low = x->kind == SIMT_MXF8F6F4 && x->format[side] == 5 ? 2 : 0;

    for (int i = 0; i < u->block; i++) {
        uint8_t code =
            (uint8_t)(x->kind == SIMT_MXF8F6F4 ? bytes[i] >> low : bytes[i / 2] >> i % 2 * 4 & 15);
        uint8_t scale = scales[i / each] & 127;
        double v, s;

        limber_convert(&v, named("f64"), &code, f, 1, LIMBER_ROUND_NEAREST);
        if (u->scale == LIMBER_SCALE_UE4M3)
            limber_convert(&s, named("f64"), &scale, e4m3, 1, LIMBER_ROUND_NEAREST);
        else
            s = scales[i / each] == 255 ? (double)NAN : ldexp(1, scales[i / each] - 127);
        to[i].value = v * s;
        to[i].exponent = (s > 0 ? ilogb(s) : 0) + (u->sub > 1 ? 0 : limber_unit_exponent(f, v));
    }
}

/* Computes the dot product of two block-scaled lines by the interpreter's model of the unit. */
static float model_scaled(const struct scaled_case *x, const uint8_t a[32], const uint8_t *scales_a,
                          const uint8_t b[32], const uint8_t *scales_b, float c)
{
    limber_unit u = unit_of_scaled(x);
    struct loaded left[64], right[64];
    struct unit_counts counts = { 0 };
    struct model_dot d = {
        .u = &u, .a = left, .b = right, .k = u.block, .start = c, .counts = &counts
    };

    load_scaled(x, &u, 0, a, scales_a, left);
    load_scaled(x, &u, 1, b, scales_b, right);
    return (float)limber_interp_dot(&d);
}

/* The simulator's dot product with block scales has the bits of the interpreter's unit, for every
 * pair of element formats. */
static void scaled_models_agree_with_the_interpreter(void **state)
{
    struct rng r = { 8 };

    (void)state;
    for (int all = 0; all < SIMT_FORMATS * SIMT_FORMATS + 2; all++) {
        struct scaled_case x = { SIMT_MXF8F6F4, { all / SIMT_FORMATS, all % SIMT_FORMATS } };

        if (all >= SIMT_FORMATS * SIMT_FORMATS)
            x = (struct scaled_case){ all % 2 ? SIMT_MXF4NVF4 : SIMT_MXF4, { 5, 5 } };
        if (x.format[0] == 2 || x.format[1] == 2)
            continue;
        for (int i = 0; i < 1500; i++) {
            uint8_t bytes[2][32], scales[2][4];
            struct scaled_line line[2];
            uint32_t bits = (uint32_t)rng_next(&r);
            float start, got, want;

            for (int side = 0; side < 2; side++) {
                random_scaled(&r, &x, side, i, bytes[side], scales[side]);
                assert_true(simt_scaled_line(x.kind, x.format[side], bytes[side], scales[side],
                                             &line[side]));
            }
            if (i % 8)
                bits = (bits & 0x80ffffff) | 0x3e000000u;
            if (i % 5 == 0)
                bits &= i % 10 ? 0x80000000u : 0x807fffffu;
            memcpy(&start, &bits, 4);
            got = start;
            assert_true(simt_scaled_dot(x.kind, &line[0], &line[1], &got));
            want = model_scaled(&x, bytes[0], scales[0], bytes[1], scales[1], start);
            if (memcmp(&got, &want, 4) != 0)
                fail_msg("kind %d of %s and %s, number %d: %a, not %a", (int)x.kind,
                         element_names[x.format[0]], element_names[x.format[1]], i, got, want);
        }
    }
}

/* A kernel multiplies by mma.sync with block scales: each lane passes a word of scales per
 * operand.  Only words of the lanes that the instruction selects may be used; all others are
 * random. */
static void warps_multiply_blocks_with_scales(void **state)
{
    static const char source[] =
        HEAD "KERNEL(k, args, 32, 1) {\n"
             "  int l = lane(), g = l >> 2, t = l & 3;\n"
             "  uint32_t a[4], b[2];\n"
             "  float d[4] = { 1, -2, 3, (float)l };\n"
             "  for (int i = 0; i < 4; i++)\n"
             "    a[i] = load<uint32_t>(args.a + 32 * (g + 8 * (i & 1)) + 4 * t + 16 * (i >> 1));\n"
             "  for (int i = 0; i < 2; i++)\n"
             "    b[i] = load<uint32_t>(args.a + 512 + 32 * g + 4 * t + 16 * i);\n"
             "  mma_scaled<KIND>(d, a, b, load<uint32_t>(args.b + 4 * l),\n"
             "                   load<uint32_t>(args.b + 128 + 4 * l), BYTE, QUAD_A, QUAD_B);\n"
             "  store(args.c + 4 * (g * 8 + 2 * t), d[0]);\n"
             "  store(args.c + 4 * (g * 8 + 2 * t + 1), d[1]);\n"
             "  store(args.c + 4 * ((g + 8) * 8 + 2 * t), d[2]);\n"
             "  store(args.c + 4 * ((g + 8) * 8 + 2 * t + 1), d[3]);\n"
             "}\n";
    static const struct {
        struct scaled_case x;
        int byte, quad[2];
        const char *wrong; /* NULL, or a part of the expected error */
        struct fault faults[8];
    } cases[] = {
        { { SIMT_MXF8F6F4, { 0, 1 } },
          2,
          { 1, 2 },
          NULL,
          { { "%10, {%12,%13}, %11, {%12,%14}=>%11, {%12,%13}, %10, {%12,%14}", "wrong" },
            { "%10, {%12,%13}, %11, {%12,%14}=>%10, {%12,%14}, %11, {%12,%13}", "of place 2" },
            { "%10, {%12,%13}, %11, {%12,%14}=>%10, {%13,%12}, %11, {%12,%14}", "of place 2" },
            { "%10, {%12,%13}, %11, {%12,%14}=>%10, {%12,%13}, %11, {%12,%13}", "wrong" },
            { "\"h\"((uint16_t)byte)=>\"h\"((uint16_t)0)", "wrong" },
            { "\"h\"((uint16_t)quad_a)=>\"h\"((uint16_t)0)", "wrong" },
            { "\"h\"((uint16_t)quad_b)=>\"r\"(quad_b)", "where \"h\" belongs" },
            { "in_a \".\" in_b \".f32.\" scale=>in_b \".\" in_a \".f32.\" scale", "wrong" } } },
        { { SIMT_MXF8F6F4, { 3, 5 } },
          3,
          { 0, 3 },
          NULL,
          { { "MMA_BYTES_OF(\"e2m3\")=>MMA_BYTES_OF(\"e3m2\")", "wrong" },
            { "MMA_BYTES(in_a, \"e2m1\")=>MMA_BYTES(in_a, \"e3m2\")", "wrong" },
            { "scale_vec::1X\", \"m16n8k32\"=>scale_vec::2X\", \"m16n8k32\"", "not played" },
            { "\"m16n8k32\", in_a, in_b, \"ue8m0\"=>\"m16n8k32\", in_a, in_b, \"ue4m3\"",
              "not played" } } },
        { { SIMT_MXF8F6F4, { 4, 4 } },
          0,
          { 0, 0 },
          NULL,
          { { "MMA_BYTES_OF(\"e3m2\")=>MMA_BYTES_OF(\"e2m1\")", "bits beside an element" } } },
        { { SIMT_MXF8F6F4, { 5, 0 } }, 1, { 1, 1 }, NULL, { { NULL, NULL } } },
        { { SIMT_MXF4, { 5, 5 } },
          2,
          { 1, 3 },
          NULL,
          { { "scale_vec::2X\", \"m16n8k64\"=>scale_vec::4X\", \"m16n8k64\"", "not played" },
            { "mxf4.block_scale.scale_vec::2X\", \"m=>mxf4nvf4.block_scale.scale_vec::2X\", \"m",
              "not played" },
            { "\"m16n8k64\", \"e2m1\", \"e2m1\", \"ue8m0\"=>\"m16n8k64\", \"e2m1\", \"e3m2\", "
              "\"ue8m0\"",
              "not played" } } },
        { { SIMT_MXF4, { 5, 5 } }, 1, { 0, 0 }, "scales from byte 1", { { NULL, NULL } } },
        { { SIMT_MXF4NVF4, { 5, 5 } },
          0,
          { 1, 1 },
          NULL,
          { { "\"m16n8k64\", \"e2m1\", \"e2m1\", \"ue4m3\"=>\"m16n8k64\", \"e2m1\", \"e2m1\", "
              "\"ue8m0\"",
              "not played" } } },
        { { SIMT_MXF4NVF4, { 5, 5 } }, 2, { 0, 0 }, "scales from byte 2", { { NULL, NULL } } },
    };
    struct rng r = { 13 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct scaled_case *x = &cases[i].x;
        uint8_t in[24][32], words[2][32][4], *scales[24], unused[4];
        char text[4096];
        float out[16 * 8];
        struct kernel_test d = { in, words, out, sizeof in, sizeof words, sizeof out, 0, 0, NULL };
        struct kernel k = { text, 120, 32, 1, 0, 1 };
        int faults = 0;

        for (int l = 0; l < 64; l++)
            random_scaled(&r, x, 0, 1, in[0], words[l / 32][l % 32]);
        for (int line = 0; line < 24; line++) {
            random_scaled(&r, x, line >= 16, 1, in[line], unused);
            scales[line] = line < 16 ? words[0][line % 8 * 4 + 2 * cases[i].quad[0] + line / 8] :
                                       words[1][(line - 16) * 4 + cases[i].quad[1]];
            scales[line] += cases[i].byte;
        }
        for (int e = 0; e < 16 * 8 && !cases[i].wrong; e++) {
            int row = e / 8, col = e % 8, first = row < 8 ? col % 2 ? -2 : 1 : col % 2 ? 0 : 3;

            if (row >= 8 && col % 2)
                first = row % 8 * 4 + col / 2;
            out[e] =
                model_scaled(x, in[row], scales[row], in[16 + col], scales[16 + col], (float)first);
        }
        snprintf(text, sizeof text,
                 "#define KIND %d, %d, %d\n#define BYTE %d\n#define QUAD_A %d\n"
                 "#define QUAD_B %d\n%s",
                 (int)x->kind, x->format[0], x->format[1], cases[i].byte, cases[i].quad[0],
                 cases[i].quad[1], source);
        while (faults < 8 && cases[i].faults[faults].text)
            faults++;
        if (cases[i].wrong) {
            start_driver(120, 1);
            assert_non_null(strstr(run_kernel_test(&k, &d, NULL), cases[i].wrong));
        } else {
            check_faults(&k, &d, cases[i].faults, faults);
        }
    }
}

/* A kernel multiplies doubles by mma.sync 8 x 8 x 4: the results are those of fused
 * multiply-adds, and exchanged operands must give wrong results. */
static void warps_multiply_in_binary64(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 32, 1) {\n"
             "  int l = lane(), g = l >> 2, t = l & 3;\n"
             "  double d[2] = { 1, 2 };\n"
             "  int at = 8 * (g * 4 + t);\n"
             "  mma_f64(d, load<double>(args.a + at), load<double>(args.b + at));\n"
             "  store(args.c + 8 * (g * 8 + 2 * t), d[0]);\n"
             "  store(args.c + 8 * (g * 8 + 2 * t + 1), d[1]);\n"
             "}\n",
        80,
        32,
        1,
        0,
        1
    };
    static const struct fault faults[] = {
        { "\"d\"(a), \"d\"(b)=>\"d\"(b), \"d\"(a)", "wrong" },
        { "\"+d\"(d[0]), \"+d\"(d[1]) : =>\"+d\"(d[1]), \"+d\"(d[0]) : ", "wrong" },
        { "m8n8k4.row.col.f64=>m8n8k4.col.col.f64", "not played" },
    };
    double a[8][4], b[8][4], c[8][8];
    struct kernel_test d = { a, b, c, sizeof a, sizeof b, sizeof c, 0, 0, NULL };
    struct rng r = { 5 };

    (void)state;
    for (int i = 0; i < 32; i++) {
        a[i / 4][i % 4] = rng_unit(&r);
        b[i / 4][i % 4] = rng_unit(&r);
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            c[i][j] = j % 2 ? 2 : 1;
            for (int p = 0; p < 4; p++)
                c[i][j] = fma(a[i][p], b[j][p], c[i][j]);
        }
    CHECK(&k, &d, faults);
}

/* A kernel multiplies doubles by mma.sync 16 x 8 x 4: the results are those of fused
 * multiply-adds, and exchanged registers must give wrong results. */
static void warps_multiply_sixteen_rows_in_binary64(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 32, 1) {\n"
             "  int l = lane(), g = l >> 2, t = l & 3;\n"
             "  double d[4] = { 1, 2, 3, 4 }, a[2];\n"
             "  for (int i = 0; i < 2; i++)\n"
             "    a[i] = load<double>(args.a + 8 * ((g + 8 * i) * 4 + t));\n"
             "  mma_f64_rows(d, a, load<double>(args.b + 8 * (g * 4 + t)));\n"
             "  for (int q = 0; q < 4; q++)\n"
             "    store(args.c + 8 * ((g + q / 2 * 8) * 8 + 2 * t + q % 2), d[q]);\n"
             "}\n",
        90,
        32,
        1,
        0,
        1
    };
    static const struct fault faults[] = {
        { "\"d\"(a[0]), \"d\"(a[1])=>\"d\"(a[1]), \"d\"(a[0])", "wrong" },
        { "\"+d\"(d[2]), \"+d\"(d[3])=>\"+d\"(d[3]), \"+d\"(d[2])", "wrong" },
        { "m16n8k4.row.col.f64=>m16n8k4.col.col.f64", "not played" },
    };
    double a[16][4], b[8][4], c[16][8];
    struct kernel_test d = { a, b, c, sizeof a, sizeof b, sizeof c, 0, 0, NULL };
    struct rng r = { 5 };

    (void)state;
    for (int i = 0; i < 64; i++) {
        a[i / 4][i % 4] = rng_unit(&r);
        b[i % 32 / 4][i % 4] = rng_unit(&r);
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            c[i][j] = i / 8 * 2 + j % 2 + 1;
            for (int p = 0; p < 4; p++)
                c[i][j] = fma(a[i][p], b[j][p], c[i][j]);
        }
    CHECK(&k, &d, faults);
}

/* A kernel loads, multiplies twice and stores by wmma, with the bits of the model.  Each missing
 * barrier must be reported. */
static void the_portable_form_multiplies(void **state)
{
    static const struct kernel k = {
        HEAD
        "KERNEL(k, args, 32, 1) {\n"
        "  int l = lane();\n"
        "  uint32_t a[8], b[8];\n"
        "  float d[8] = { 0 };\n"
        "  for (int i = 0; i < 2; i++) {\n"
        "    store_shared(48 * (l >> 1) + 16 * (l & 1), load<bytes16>(args.a + 16 * l));\n"
        "    store_shared(768 + 32 * (l >> 1) + 16 * (l & 1), load<bytes16>(args.b + 16 * l));\n"
        "    sync_warp(); // one\n"
        "    wmma_load_a(a, 0, 24);\n"
        "    wmma_load_b(b, 768, 16);\n"
        "    wmma_f16(d, a, b);\n"
        "    sync_warp(); // two\n"
        "  }\n"
        "  wmma_store(2048, d, 16);\n"
        "  sync_warp(); // three\n"
        "  for (int i = 0; i < 8; i++)\n"
        "    store(args.c + 4 * (32 * i + l), load_shared<float>(2048 + 4 * (32 * i + l)));\n"
        "}\n",
        70,
        32,
        1,
        3072,
        1
    };
    static const struct fault faults[] = {
        { "sync_warp(); // one=>", UNORDERED },
        { "sync_warp(); // two=>", UNORDERED },
        { "sync_warp(); // three=>", UNORDERED },
        { "b, 768, 16=>b, 784, 16", "not aligned" },
        { "b, 768, 16=>b, 768, 24", UNORDERED },
        { "wmma_f16(d, a, b)=>wmma_f16(d, b, a)", "wrong" },
        { "m16n16k16.row.shared.f16=>m16n16k16.col.shared.f16", "not played" },
        { "\"{%8,%9,%10,%11,%12,%13,%14,%15}, {%16=>\"{%16,%9,%10,%11,%12,%13,%14,%15}, {%8",
          "wrong" },
        { "shared.f32 [%0], \"\\n                 \"{%1,%2=>shared.f32 [%0], \"\\n\"{%2,%1",
          "wrong" },
    };
    unsigned char a[512], b[512];
    float c[256] = { 0 };
    struct kernel_test d = { a, b, c, sizeof a, sizeof b, sizeof c, 0, 0, NULL };
    struct rng r = { 6 };
    limber_unit u = LIMBER_UNIT_INIT;

    (void)state;
    assert_int_equal(limber_unit_parse("v100-fp16", &u), LIMBER_STATUS_OK);
    for (int p = 0; p < 512; p += 32) {
        random_operand(&r, SIMT_F16, 1, a + p);
        random_operand(&r, SIMT_F16, 1, b + p);
    }
    for (int i = 0; i < 256; i++)
        for (int twice = 0; twice < 2; twice++)
            c[i] = model_dot(&u, SIMT_F16, a + i / 16 * 32, b + i % 16 * 32, c[i]);
    CHECK(&k, &d, faults);
}

/* ---- Hopper ---------------------------------------------------------------------------------- */

/* rows and columns of C, within a tile of 128 x 128; steps of 128 bytes along k */
enum { ROWS = 100, COLUMNS = 120, STEPS = 5 };

/* Encodes tensor maps of ROWS and COLUMNS rows, so that the last box reaches beyond the tensor. */
static void encode_maps(struct args *args)
{
    static const uint32_t step[3] = { 1, 1, 1 };

    for (int i = 0; i < 2; i++) {
        uint64_t size[3] = { STEPS * 64 - 8, i ? COLUMNS : ROWS, 1 };
        uint64_t stride[2] = { STEPS * 128, STEPS * 128 * (i ? COLUMNS : ROWS) };
        uint32_t box[3] = { 64, i ? 128 : 64, 1 };

        assert_int_equal(cuTensorMapEncodeTiled(args->map[i], 6, 3, i ? args->b : args->a, size,
                                                stride, box, step, 0, 3, 2, 0),
                         0);
    }
}

/* In a kernel, one warpgroup loads tiles by tensor copies and two others multiply them by wgmma.
 * The result must be right.  Each planted fault in barriers or waits must be reported or change
 * the result. */
static void warpgroups_multiply(void **state)
{
    static const struct kernel k = {
        HEAD90 "enum { STAGES = 2, STAGE = 128 * 256, FULL = STAGES * STAGE, EMPTY = FULL + 16 };\n"
               "KERNEL(k, args, 384, 1) {\n"
               "  int t = thread(), w = warp(), l = lane();\n"
               "  if (t == 0) {\n"
               "    for (int i = 0; i < STAGES; i++) {\n"
               "      barrier_init(FULL + 8 * i, 1);\n"
               "      barrier_init(EMPTY + 8 * i, 2);\n"
               "    }\n"
               "    barrier_init_done(); // init\n"
               "  }\n"
               "  sync_block(); // start\n"
               "  if (w < 4) {\n"
               "    registers_less<40>();\n"
               "    if (t == 0)\n"
               "      for (int s = 0; s < args.n; s++) {\n"
               "        int at = s % STAGES * STAGE, full = FULL + s % STAGES * 8;\n"
               "        barrier_wait(EMPTY + s % STAGES * 8, (s / STAGES & 1) ^ 1); // empty\n"
               "        barrier_expect(full, STAGE); // bytes\n"
               "        tensor_load(at, &args.map[0], 64 * s, 0, 0, full);\n"
               "        tensor_load(at + 8192, &args.map[0], 64 * s, 64, 0, full);\n"
               "        tensor_load(at + 16384, &args.map[1], 64 * s, 0, 0, full);\n"
               "      }\n"
               "  } else {\n"
               "    registers_more<232>();\n"
               "    int g = w / 4 - 1;\n"
               "    float d[64];\n"
               "    for (int s = 0; s < args.n; s++) {\n"
               "      int at = s % STAGES * STAGE;\n"
               "      barrier_wait(FULL + s % STAGES * 8, s / STAGES & 1); // full\n"
               "      group_fence(); // fence\n"
               "      for (int i = 0; i < 4; i++)\n"
               "        group_f16<128>(d, tile_descriptor(at + 8192 * g, 32 * i),\n"
               "                       tile_descriptor(at + 16384, 32 * i), s || i);\n"
               "      group_commit(); // commit\n"
               "      group_wait<1>(); // one\n"
               "      if (s && t % 128 == 0)\n"
               "        barrier_arrive(EMPTY + (s - 1) % STAGES * 8); // free\n"
               "    }\n"
               "    group_wait<0>(); // all\n"
               "    keep_behind(d);\n"
               "    for (int j = 0; j < 64; j++) {\n"
               "      int row = 64 * g + w % 4 * 16 + l / 4 + (j / 2 & 1) * 8;\n"
               "      int column = j / 4 * 8 + l % 4 * 2 + j % 2;\n"
               "      if (row < 100 && column < 120)\n"
               "        store(args.c + 4 * (row * 120 + column), d[j]);\n"
               "    }\n"
               "  }\n"
               "}\n",
        90,
        384,
        1,
        2 * 128 * 256 + 32,
        1
    };
    static const struct fault faults[] = {
        { "barrier_wait(FULL + s % STAGES * 8, s / STAGES & 1); // full=>", UNORDERED },
        { "barrier_wait(FULL=>if (t % 128 < 96) barrier_wait(FULL", "" },
        { "barrier_wait(EMPTY + s % STAGES * 8, (s / STAGES & 1) ^ 1); // empty=>", "" },
        { "(s / STAGES & 1) ^ 1); // empty=>s / STAGES & 1);", "deadlock" },
        { "group_wait<0>(); // all=>", "without group_wait" },
        { "group_wait<1>(); // one=>group_wait<2>();", "" },
        { "group_wait<1>(); // one=>", "" },
        { "group_commit(); // commit=>", "" },
        { "group_fence(); // fence=>", "without group_fence" },
        { "barrier_init_done(); // init=>", "barrier_init_done" },
        { "sync_block(); // start=>", "barrier" },
        { "barrier_expect(full, STAGE); // bytes=>barrier_expect(full, STAGE + 16);", "deadlock" },
        { "barrier_expect(full, STAGE); // bytes=>barrier_expect(full, STAGE - 8192);", "" },
        { "barrier_arrive(EMPTY + (s - 1) % STAGES * 8); // free=>;", "deadlock" },
        { "at + 8192 * g, 32 * i=>at + 8192 * g, 16 * i", "32 bytes" },
        { "s || i=>1", "wrong" },
        { "args.c + 4 * (row * 120 + column)=>args.c + 4 * (row * 121 + column)", "out of bounds" },
        { "64 * s, 64, 0, full=>64 * s, 63, 0, full", "wrong" },
        { "(uint64_t)64 << 32=>(uint64_t)32 << 32", "" },
        { "(uint64_t)1 << 62=>(uint64_t)2 << 62", "descriptor" },
        { "(uint64_t)1 << 16 | =>", "descriptor" },
        { "+ (uint32_t)byte;=>;", "wrong" },
        { "address >> 4 & 0x3fff=>address & 0x3fff", "" },
        { "\"f32.f16.f16\", \"k16\", \", 1, 1,=>\"f32.f16.f16\", \"k16\", \", 1, -1,", "a sign" },
        { "\"f32.f16.f16\", \"k16\", \", 1, 1, 0, 0\"=>\"f32.f16.f16\", \"k16\", \", 1, 1\"",
          "operands" },
        { "\"f32.f16.f16\", \"k16\"=>\"f32.f16.f16\", \"k32\"", "not played" },
        { "setp.ne.b32 p, \" k \", 0;=>setp.ne.b32 p, \" k \", 1;", "wrong" },
        { ": \"l\"(da), \"l\"(db), =>: \"l\"(db), \"l\"(da), ", "" },
        { "\"wgmma.commit_group.sync.aligned;\"=>\"\"", "" },
        { "\"wgmma.wait_group.sync.aligned %0;\"=>\"wgmma.wait_group.sync.aligned 1;\"",
          "without group_wait" },
        { "\"wgmma.fence.sync.aligned;\"=>\"\"", "without group_fence" },
        { "@done bra finished;=>@!done bra finished;", "no end" },
        { "arrive.expect_tx.shared::cta.b64 _, [%0], %1;=>arrive.shared::cta.b64 _, [%0];", "" },
        { "\"fence.mbarrier_init.release.cluster;\"=>\"\"", "barrier_init_done" },
        { "setmaxnreg.inc=>setmaxnreg.dec", "threads begin with" },
        { "{%3, %4, %5}], [%2];\"=>{%4, %3, %5}], [%2];\"", "" },
        { "R10(5) \"%60,%61,%62,%63\"=>R10(5) \"%60,%61,%63,%62\"", "not the one behind" },
        { "\"m64n128\" ks=>\"m64n192\" ks", "" },
    };
    unsigned char *a = calloc(ROWS, STEPS * 128), *b = calloc(COLUMNS, STEPS * 128);
    float *c = calloc(ROWS * COLUMNS, 4);
    struct kernel_test d = {
        a,     b, c,          ROWS * STEPS * 128, COLUMNS * STEPS * 128, ROWS * COLUMNS * 4,
        STEPS, 0, encode_maps
    };
    struct rng r = { 9 };
    struct model m;

    (void)state;
    assert_true(simt_model(SIMT_F16, 90, false, &m));
    for (int i = 0; i < (ROWS + COLUMNS) * STEPS * 4; i++)
        random_operand(&r, SIMT_F16, 1,
                       i < ROWS * STEPS * 4 ? a + 32 * i : b + 32 * (i - ROWS * STEPS * 4));
    for (int i = 0; i < ROWS; i++) /* the maps' rows end 8 elements before the rows in memory */
        for (int j = 0; j < COLUMNS; j++)
            for (int p = 0; p < STEPS * 4; p++) {
                unsigned char x[32], y[32];
                struct line left, right;

                memcpy(x, a + i * STEPS * 128 + 32 * p, 32);
                memcpy(y, b + j * STEPS * 128 + 32 * p, 32);
                memset(x + 16, p == STEPS * 4 - 1 ? 0 : x[16], p == STEPS * 4 - 1 ? 16 : 1);
                memset(y + 16, p == STEPS * 4 - 1 ? 0 : y[16], p == STEPS * 4 - 1 ? 16 : 1);
                simt_line(SIMT_F16, x, &left);
                simt_line(SIMT_F16, y, &right);
                c[i * COLUMNS + j] = simt_dot(SIMT_F16, &m, &left, &right, c[i * COLUMNS + j]);
            }
    CHECK(&k, &d, faults);
    free(a);
    free(b);
    free(c);
}

/* A kernel multiplies tiles that threads wrote to shared memory.  Without a proxy fence after
 * the writes, the products must fail. */
static void products_read_what_was_fenced(void **state)
{
    static const struct kernel k = {
        HEAD90
        "KERNEL(k, args, 128, 1) {\n"
        "  int t = thread(), w = warp(), l = lane();\n"
        "  int d[32];\n"
        "  for (int s = 0; s < 2; s++) {\n"
        "    for (int r = t / 8; r < 128; r += 16)\n"
        "      store_shared(128 * r + 16 * (t % 8 ^ (r & 7)),\n"
        "                   load_constant<bytes16>(args.a + 128 * (r + 128 * s) + 16 * (t % 8)));\n"
        "    fence_async(); // fence\n"
        "    sync_block(); // meet\n"
        "    group_fence();\n"
        "    for (int i = 0; i < 4; i++)\n"
        "      group_i8<64, 1, 0>(d, tile_descriptor(0, 32 * i), tile_descriptor(8192, 32 * i),\n"
        "                         s || i);\n"
        "    group_commit();\n"
        "    group_wait<0>(); // wait\n"
        "    sync_block(); // again\n"
        "  }\n"
        "  for (int j = 0; j < 32; j++)\n"
        "    store(args.c + 256 * (w * 16 + l / 4 + (j / 2 & 1) * 8) +\n"
        "          4 * (j / 4 * 8 + l % 4 * 2 + j % 2), d[j]);\n"
        "}\n",
        90,
        128,
        2,
        16384,
        1
    };
    static const struct fault faults[] = {
        { "fence_async(); // fence=>", "without fence_async" },
        { "fence_async(); // fence\\n    sync_block();=>sync_block(); fence_async();", "" },
        { "sync_block(); // meet=>", UNORDERED },
        { "group_wait<0>(); // wait=>", "" },
        { "128 * r + 16 * (t % 8 ^ (r & 7))=>128 * r + 16 * (t % 8)", "wrong" },
        { "group_i8<64, 1, 0>=>group_i8<64, 1, 1>", "wrong" },
        { "group_commit();=>if (s) d[3] = 0; group_commit();", "before group_wait" },
        { "\"fence.proxy.async.shared::cta;\"=>\"\"", "without fence_async" },
        { "\"s32.s8.u8\", \"k32\"=>\"s32.u8.s8\", \"k32\"", "wrong" },
        { "#define IN_R(x) \"+r\"(x)=>#define IN_R(x) \"+f\"(x)", "belongs" },
        { "#define L32 R30 \"%30,%31\"=>#define L32 R30 \"%31,%30\"", "not the one behind" },
    };
    signed char in[256 * 128];
    int32_t out[64 * 64] = { 0 };
    struct kernel_test d = { in, NULL, out, sizeof in, 0, sizeof out, 0, 0, NULL };
    struct rng r = { 11 };

    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (signed char)rng_next(&r);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            for (int p = 0; p < 256; p++)
                out[64 * i + j] += in[(i + p / 128 * 128) * 128 + p % 128] *
                                   (unsigned char)in[(64 + j + p / 128 * 128) * 128 + p % 128];
    CHECK(&k, &d, faults);
}

/* ---- Blackwell ------------------------------------------------------------------------------- */

/* rows and columns of a tile; number of blocks of 128 bytes along k */
enum { TM = 128, TN = 64, TSTEPS = 5 };

/* Makes the tensor maps of A and B: tiles of 128 bytes x TM or TN lines, swizzled by 128 bytes. */
static void encode_tiles(struct args *args)
{
    static const uint32_t step[3] = { 1, 1, 1 };

    for (int i = 0; i < 2; i++) {
        uint64_t size[3] = { TSTEPS * 128, i ? TN : TM, 1 };
        uint64_t stride[2] = { TSTEPS * 128, TSTEPS * 128 * (i ? TN : TM) };
        uint32_t box[3] = { 128, i ? TN : TM, 1 };

        assert_int_equal(cuTensorMapEncodeTiled(args->map[i], 0, 3, i ? args->b : args->a, size,
                                                stride, box, step, 0, 3, 2, 0),
                         0);
    }
}

/* A kernel that starts new sums for every two blocks of 128 bytes along k.  The sums alternate
 * between two places in tensor memory. */
#define COLUMNS_KERNEL(stage, taken, fetch, issue) \
    HEAD90 "enum { STAGE = " stage ", FULL = 2 * STAGE, EMPTY = FULL + 16, FILLED = EMPTY + 16,\n" \
           "  TAKEN = FILLED + 16, AT = TAKEN + 16 };\n" \
           "KERNEL(k, args, 256, 1) {\n" \
           "  int t = thread(), w = warp(), l = lane();\n" \
           "  if (t == 0) {\n" \
           "    for (int i = 0; i < 6; i++)\n" \
           "      barrier_init(FULL + 8 * i, 1);\n" \
           "    for (int i = 0; i < 2; i++)\n" \
           "      barrier_init(TAKEN + 8 * i, 4);\n" \
           "    barrier_init_done(); // init\n" \
           "  }\n" \
           "  if (w == 2)\n" \
           "    columns_allocate<" taken ">(AT); // take\n" \
           "  sync_block(); // start\n" \
           "  uint32_t columns = load_shared<uint32_t>(AT);\n" \
           "  if (t == 0) {\n" \
           "    for (int s = 0; s < args.n; s++) {\n" \
           "      int at = s % 2 * STAGE, full = FULL + s % 2 * 8;\n" \
           "      barrier_wait(EMPTY + s % 2 * 8, (s / 2 & 1) ^ 1); // empty\n" \
           "      barrier_expect(full, STAGE);\n" \
           "      tensor_load(at, &args.map[0], 128 * s, 0, 0, full);\n" \
           "      tensor_load(at + 16384, &args.map[1], 128 * s, 0, 0, full);\n" fetch "    }\n" \
           "    for (int s = args.n; s < args.n + 2; s++) // tail\n" \
           "      barrier_wait(EMPTY + s % 2 * 8, (s / 2 & 1) ^ 1);\n" \
           "  }\n" \
           "  if (w == 1 && is_chosen())\n" \
           "    for (int s = 0; s < args.n; s++) {\n" \
           "      int at = s % 2 * STAGE, place = s / 2 % 2;\n" \
           "      if (s % 2 == 0) {\n" \
           "        barrier_wait(TAKEN + 8 * place, (s / 4 & 1) ^ 1); // taken\n" \
           "        columns_after(); // told\n" \
           "      }\n" \
           "      barrier_wait(FULL + s % 2 * 8, s / 2 & 1); // full\n" issue \
           "      products_arrive(EMPTY + s % 2 * 8); // free\n" \
           "      if (s % 2 || s == args.n - 1)\n" \
           "        products_arrive(FILLED + 8 * place); // filled\n" \
           "    }\n" \
           "  if (w >= 4) {\n" \
           "    NUMBER total[2][32] = {};\n" \
           "    for (int p = 0; 2 * p < args.n; p++) {\n" \
           "      barrier_wait(FILLED + p % 2 * 8, p / 2 & 1); // sums\n" \
           "      columns_after(); // after\n" \
           "      for (int h = 0; h < 2; h++) {\n" \
           "        uint32_t d[32];\n" \
           "        columns_load(d, columns + 64 * (p % 2) + ((32 * (w - 4) + 16 * h) << 16));\n" \
           "        columns_wait(d); // wait\n" \
           "        for (int x = 0; x < 32; x++)\n" \
           "          total[h][x] += SUM(d[x]);\n" \
           "      }\n" \
           "      columns_before(); // before\n" \
           "      sync_warp(); // all\n" \
           "      if (l == 0)\n" \
           "        barrier_arrive(TAKEN + p % 2 * 8); // again\n" \
           "    }\n" \
           "    for (int x = 0; x < 64; x++) {\n" \
           "      int row = 32 * (w - 4) + x / 32 * 16 + l / 4 + (x & 2) * 4;\n" \
           "      store(args.c + 4 * (64 * row + x % 32 / 4 * 8 + l % 4 * 2 + (x & 1)),\n" \
           "            total[x / 32][x % 32]);\n" \
           "    }\n" \
           "  }\n" \
           "  columns_before(); // last\n" \
           "  sync_block(); // end\n" \
           "  columns_after();\n" \
           "  if (w == 2)\n" \
           "    columns_free<" taken ">(columns); // give\n" \
           "}\n"

/* A kernel multiplies by tcgen05.mma into tensor memory, for each kind of element.  The result
 * must be right.  Each planted fault must be reported or change the result. */
static void products_go_to_tensor_memory(void **state)
{
    static const char source[] = COLUMNS_KERNEL(
        "128 * 192", "128", "",
        "      for (int i = 0; i < 4; i++)\n"
        "        ISSUE(columns + 64 * place, tile_descriptor(at, 32 * i),\n"
        "              tile_descriptor(at + 16384, 32 * i), product_descriptor(128, 64, WHAT),\n"
        "              s % 2 || i);\n");
    static const struct {
        int kind;
        const char *number, *sum, *issue, *what;
    } kinds[] = {
        { SIMT_F16, "float", "bits_float", "issue_f16", "PRODUCT_f16, PRODUCT_f16, PRODUCT_f32" },
        { SIMT_BF16, "float", "bits_float", "issue_f16",
          "PRODUCT_bf16, PRODUCT_bf16, PRODUCT_f32" },
        { SIMT_TF32, "float", "bits_float", "issue_tf32",
          "PRODUCT_tf32, PRODUCT_tf32, PRODUCT_f32" },
        { SIMT_E4M3, "float", "bits_float", "issue_f8", "PRODUCT_e4m3, PRODUCT_e4m3, PRODUCT_f32" },
        { SIMT_E5M2, "float", "bits_float", "issue_f8", "PRODUCT_e5m2, PRODUCT_e5m2, PRODUCT_f32" },
        { SIMT_I8, "int", "(int)", "issue_i8", "0, 0, PRODUCT_i32" },
        { SIMT_I8 + 1, "int", "(int)", "issue_i8", "1, 0, PRODUCT_i32" },
        { SIMT_I8 + 2, "int", "(int)", "issue_i8", "0, 1, PRODUCT_i32" },
        { SIMT_I8 + 3, "int", "(int)", "issue_i8", "1, 1, PRODUCT_i32" },
    };
    static const struct fault faults[] = {
        { "barrier_init_done(); // init=>", "barrier_init_done" },
        { "sync_block(); // start=>", "" },
        { "columns_allocate<128>(AT); // take=>columns_allocate<64>(AT);", "" },
        { "columns_allocate<128>(AT); // take=>columns_allocate<96>(AT);",
          "columns_allocate of 96" },
        { "columns_allocate<128>(AT); // take=>columns_allocate<128>(AT); "
          "columns_allocate<128>(AT);",
          "wanted no more" },
        { "if (w == 2)\\n    columns_allocate=>if (l < 16 && w == 2)\\n    columns_allocate", "" },
        { "(s / 2 & 1) ^ 1); // empty=>s / 2 & 1);", "deadlock" },
        { "barrier_wait(EMPTY + s % 2 * 8, (s / 2 & 1) ^ 1); // empty=>", "" },
        { "s < args.n + 2; s++) // tail=>s < args.n; s++)", "" },
        { "w == 1 && is_chosen()=>w == 1", "products of threads" },
        { "barrier_wait(TAKEN + 8 * place, (s / 4 & 1) ^ 1); // taken=>", "being read" },
        { "columns_after(); // told=>", "columns_after" },
        { "barrier_wait(FULL + s % 2 * 8, s / 2 & 1); // full=>", UNORDERED },
        { "columns + 64 * place=>columns + 32 * place", "" },
        { "columns + 64 * place=>columns + 64 * place + 128", "are this block's" },
        { "columns + 64 * place=>64 * place", "" },
        { "columns + 64 * place=>columns + 64 * place + (16 << 16)", "from lane 16 on" },
        { "at + 16384, 32 * i=>at + 16384, 16 * i", "32 bytes" },
        { "at + 16384, 32 * i=>at, 32 * i", "wrong" },
        { "s % 2 || i);=>1);", "nothing was written" },
        { "s % 2 || i);=>i);", "wrong" },
        { "(128, 64, WHAT)=>(128, 128, WHAT)", "" },
        { "(128, 64, WHAT)=>(64, 64, WHAT)", "64 x 64" },
        { "products_arrive(EMPTY + s % 2 * 8); // free=>", "deadlock" },
        { "for (int i = 0; i < 4; i++)\\n        ISSUE=>products_arrive(EMPTY + s % 2 * 8);\\n"
          "for (int i = 0; i < 4; i++)\\n        ISSUE\n"
          "products_arrive(EMPTY + s % 2 * 8); // free=>",
          "" },
        { "products_arrive(FILLED + 8 * place); // filled=>;", "deadlock" },
        { "products_arrive(FILLED + 8 * place); // filled=>barrier_arrive(FILLED + 8 * place);",
          "not waited for" },
        { "barrier_wait(FILLED + p % 2 * 8, p / 2 & 1); // sums=>", "" },
        { "columns_after(); // after=>", "columns_after" },
        { "32 * (w - 4) + 16 * h=>32 * (7 - w) + 16 * h", "by warp" },
        { "32 * (w - 4) + 16 * h=>32 * (w - 4) + 8 * h", "by warp" },
        { "32 * (w - 4) + 16 * h=>32 * (w - 4)", "wrong" },
        { "columns + 64 * (p % 2)=>columns + 64 * (p % 2) + 8", "" },
        { "columns_wait(d); // wait=>", "" },
        { "columns_wait(d); // wait=>d[3] = 0; columns_wait(d);", "before columns_wait" },
        { "columns_before(); // before=>", "columns_before" },
        { "sync_warp(); // all=>", "being read" },
        { "barrier_arrive(TAKEN + p % 2 * 8); // again=>;", "deadlock" },
        { "columns_before(); // last\\n  sync_block(); // end\\n  columns_after();=>", "" },
        { "columns_free<128>(columns); // give=>;", "ended with columns" },
        { "columns_free<128>(columns); // give=>columns_free<64>(columns);", "were taken" },
        /* fault in device.h */
        { "(uint64_t)1 << 46 | (uint64_t)2 << 61=>(uint64_t)1 << 62", "descriptor" },
        { "(uint64_t)1 << 46 | =>", "descriptor" },
        { "(uint64_t)64 << 32=>(uint64_t)32 << 32", "" },
        { "sum << 4 | a << 7=>sum << 5 | a << 7", "descriptor" },
        { "(uint32_t)(n >> 3) << 17=>(uint32_t)(n >> 3) << 16", "" },
        { "(uint32_t)(m >> 4) << 24=>(uint32_t)(m >> 4) << 23", "" },
        { "::\"r\"(to), \"l\"(a), \"l\"(b)=>::\"r\"(to), \"l\"(b), \"l\"(a)", "" },
        { "setp.ne.b32 p, %4, 0;=>setp.ne.b32 p, %4, 1;", "" },
        { "kind::\" kind \" [%0], %1, %2, %3, p;=>kind::\" kind \" [%0], %1, %2, p;", "operands" },
        { "16x256b.x8.b32=>16x256b.x4.b32", "not played" },
        { "16x256b.x8=>32x32b.x32", "not played" },
        { "\"tcgen05.wait::ld.sync.aligned;\"=>\"\"", "" },
        { "\"tcgen05.fence::before_thread_sync;\"=>\"\"", "columns_before" },
        { "\"tcgen05.fence::after_thread_sync;\"=>\"\"", "columns_after" },
        { "elect.sync _|p, 0xffffffff;=>elect.sync _|p, 0xffff;", "of some lanes" },
        { "selp.b32 %0, 1, 0, p;=>selp.b32 %0, 0, 1, p;", "products of threads" },
        { "\"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;\"=>\"\"", "ended with columns" },
        { "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;=>", "" },
        { "\"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];\"=>\"\"",
          "deadlock" },
    };
    static const struct fault of_bytes[] = {
        { "product_descriptor(128, 64, WHAT)=>product_descriptor(128, 64, 1, 1, PRODUCT_i32)",
          "wrong" },
        { "product_descriptor(128, 64, WHAT)=>product_descriptor(128, 64, 0, 2, PRODUCT_i32)",
          "none of these types" },
        { "product_descriptor(128, 64, WHAT)=>product_descriptor(128, 64, 0, 1, PRODUCT_f32)",
          "none of these types" },
        { "a << 7 | b << 10=>b << 7 | a << 10", "wrong" },
    };
    static const struct fault of_f8[] = {
        { "PRODUCT_e4m3 = 0, PRODUCT_e5m2 = 1=>PRODUCT_e4m3 = 1, PRODUCT_e5m2 = 0", "wrong" },
        { "product_descriptor(128, 64, WHAT)=>product_descriptor(128, 64, 0, 1, PRODUCT_f32)",
          "none of these types" },
        { "product_descriptor(128, 64, WHAT)=>product_descriptor(128, 64, 0, 0, PRODUCT_i32)",
          "none of these types" },
        { "PRODUCT(\"f8f6f4\")=>PRODUCT(\"f16\")", "wrong" },
        { "PRODUCT(\"f8f6f4\")=>PRODUCT(\"i8\")", "none of these types" },
    };
    unsigned char *a = calloc(TM, TSTEPS * 128), *b = calloc(TN, TSTEPS * 128);
    struct rng r = { 21 };

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        int kind = kinds[i].kind;
        char text[6000];
        uint32_t *c = calloc(TM * TN, 4);
        struct kernel_test d = { a,           b,      c, TM * TSTEPS * 128, TN * TSTEPS * 128,
                                 TM * TN * 4, TSTEPS, 0, encode_tiles };
        struct kernel k = { text, 100, 256, 1, 2 * 128 * 192 + 96, 1 };
        struct model m;

        snprintf(text, sizeof text,
                 "#define NUMBER %s\n#define SUM %s\n#define ISSUE %s\n#define WHAT %s\n%s",
                 kinds[i].number, kinds[i].sum, kinds[i].issue, kinds[i].what, source);
        assert_true(kind < SIMT_F16 || simt_model(kind, 100, true, &m));
        for (int p = 0; p < (TM + TN) * TSTEPS * 4; p++)
            random_operand(&r, kind < SIMT_F16 ? SIMT_E4M3 : kind, 1,
                           p < TM * TSTEPS * 4 ? a + 32 * p : b + 32 * (p - TM * TSTEPS * 4));
        for (int e = 0; e < TM * TN; e++) {
            float part = 0, total = 0;
            int32_t sum = 0;

            for (int p = 0; p < TSTEPS * 4; p++) {
                const unsigned char *x = a + (e / TN * TSTEPS * 4 + p) * 32;
                const unsigned char *y = b + (e % TN * TSTEPS * 4 + p) * 32;
                struct line left, right;

                if (kind < SIMT_F16) {
                    for (int q = 0; q < 32; q++)
                        sum += (kind & 1 ? (int8_t)x[q] : x[q]) * (kind & 2 ? (int8_t)y[q] : y[q]);
                    continue;
                }
                simt_line(kind, x, &left);
                simt_line(kind, y, &right);
                part = simt_dot(kind, &m, &left, &right, part);
                if (p % 8 == 7 || p == TSTEPS * 4 - 1) {
                    total += part;
                    part = 0;
                }
            }
            memcpy(&c[e], kind < SIMT_F16 ? (void *)&sum : (void *)&total, 4);
        }
        check_faults(&k, &d,
                     i == 0            ? faults :
                     kind == SIMT_E4M3 ? of_f8 :
                                         of_bytes,
                     i == 0                       ? (int)COUNT(faults) :
                     kind == SIMT_E4M3            ? (int)COUNT(of_f8) :
                     kinds[i].kind == SIMT_I8 + 2 ? (int)COUNT(of_bytes) :
                                                    0);
        free(c);
    }
    free(a);
    free(b);
}

/* Packs elements of less than a byte densely, as products into tensor memory read them. */
static void pack_elements(const struct scaled_case *x, int side, const uint8_t from[32],
                          uint8_t to[32])
{
    static const int bits[SIMT_FORMATS] = { 8, 8, 0, 6, 6, 4 };
    int format = x->format[side], n = x->kind == SIMT_MXF8F6F4 ? bits[format] : 8;

    memset(to, 0, 32);
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < n; k++) {
            int at = i % 16 * n + k, bit = n == 4 ? k + 2 : k;

            to[i / 16 * 16 + at / 8] |= (uint8_t)((from[i] >> bit & 1) << at % 8);
        }
}

/* A kernel multiplies by tcgen05.mma with block scales: in shared memory they follow the
 * elements of each block along k, in tensor memory the sums of each stage. */
static void products_with_scales_go_to_tensor_memory(void **state)
{
    static const char source[] = COLUMNS_KERNEL(
        "128 * 192 + 256 * SC", "256",
        "      bulk_load(at + 24576, args.a + 128 * (128 * args.n + SC * s), 128 * SC, full);\n"
        "      bulk_load(at + 24576 + 128 * SC, args.b + 128 * (64 * args.n + SC * s), 128 * SC,\n"
        "                full);\n",
        "      uint32_t to = columns + 128 + s % 2 * 2 * SC;\n"
        "      columns_after(); // known\n"
        "      for (int i = 0; i < SC / 2; i++)\n"
        "        issue_scales(to + 4 * i, scales_descriptor(at + 24576 + 512 * i)); // scales\n"
        "      for (int i = 0; i < 4; i++)\n"
        "        issue_scaled<KIND>(columns + 64 * place, tile_descriptor(at, 32 * i),\n"
        "                           tile_descriptor(at + 16384, 32 * i),\n"
        "                           scaled_descriptor(128, 64, FORMATS, i * SC / 4 % 4),\n"
        "                           to + i * SC / 16 * 4, to + SC + i * SC / 16 * 4,\n"
        "                           s % 2 || i);\n");
    static const struct fault of_bytes[] = {
        { "128 * SC, full);\\n      bulk=>128 * SC - 16, full);\\n      bulk", "" },
        { "bulk_load(at + 24576, args.a + 128=>bulk_load(at + 24576, args.a + 8 + 128",
          "bulk_load" },
        { "bulk_load(at + 24576, args=>bulk_load(at, args", "" },
        { "SC * s), 128 * SC, full);=>SC * s + 512), 128 * SC, full);", "bounds" },
        { "barrier_expect(full, STAGE);=>barrier_expect(full, 24576);", "" },
        { "columns + 128 + s % 2 * 2 * SC=>columns + 128", "not waited for" },
        { "columns + 128 + s % 2 * 2 * SC=>columns + 64 + s % 2 * 2 * SC", "" },
        { "columns + 128 + s % 2 * 2 * SC=>columns + 256 + s % 2 * 2 * SC", "are this block's" },
        { "columns + 128 + s % 2 * 2 * SC=>columns + 126 + s % 2 * 2 * SC", "from column" },
        { "columns + 128 + s % 2 * 2 * SC=>columns + 128 + (1 << 16)", "from lane 1 on" },
        { "columns_after(); // known=>", "columns_after" },
        { "i < SC / 2; i++=>i < SC / 4; i++", "nothing was written" },
        { "issue_scales(to + 4 * i=>issue_scales(to + 4 * (i ^ 1)", "wrong" },
        { "issue_scales(to + 4 * i=>issue_scales(to", "not waited for" },
        { "at + 24576 + 512 * i)=>at + 24576 + 512 * i + 16)", "" },
        { "to + SC + i * SC / 16 * 4=>to", "wrong" },
        { "FORMATS, i * SC / 4 % 4)=>FORMATS, 0)", "wrong" },
        { "barrier_wait(FULL + s % 2 * 8, s / 2 & 1); // full=>", UNORDERED },
        /* fault in device.h */
        { "(uint64_t)8 << 32=>(uint64_t)16 << 32", "" },
        { "(uint64_t)8 << 32 | (uint64_t)1 << 46=>(uint64_t)8 << 32", "rows of 16 bytes" },
        { "1 << 16 | (uint64_t)8 << 32=>(uint64_t)8 << 32", "rows of 16 bytes" },
        { "(uint64_t)8 << 32 | (uint64_t)1 << 46=>(uint64_t)8 << 32 | (uint64_t)1 << 46 | "
          "(uint64_t)2 << 61",
          "rows of 16 bytes" },
        { "32x128b.warpx4=>64x128b.warpx2::02_13", "not played" },
        { "(uint32_t)byte) | e8m0=>0) | e8m0", "wrong" },
        { "(uint32_t)byte << 29=>0", "wrong" },
        { "e8m0 << 23=>e8m0 << 22", "none of these types" },
        { "%3, %4, %5, [%1], [%2], p;=>%3, %4, %5, [%2], [%1], p;", "wrong" },
        { "%3, %4, %5, [%1], [%2], p;=>%4, %3, %5, [%1], [%2], p;", "" },
        { "setp.ne.b32 p, %6, 0;=>setp.ne.b32 p, %6, 1;", "" },
        { "mxf8f6f4.block_scale\");=>mxf8f6f4\");", "not played" },
        { "mxf8f6f4.block_scale\");=>mxf4.block_scale.scale_vec::2X\");", "" },
        { "complete_tx::bytes \"\\n                 \"[%0], [%1], %2, [%3];=>complete_tx::bytes "
          "\"\\n"
          "\"[%0], [%1], %2, [%0];",
          "" },
    };
    static const struct fault of_packed[] = {
        { "FORMATS, i=>FORMAT_B, FORMAT_A, E8M0, i", "" },
        { "FORMATS, i=>FORMAT_A, 2, E8M0, i", "none of these types" },
    };
    static const struct fault of_mxf4[] = {
        { "FORMATS, i=>5, 5, E8M0, i", "none of these types" },
        { "i * SC / 4 % 4)=>1)", "scales from byte 1" },
        { "i * SC / 4 % 4)=>0)", "wrong" },
        { "to + i * SC / 16 * 4, to + SC + i * SC / 16 * 4=>to, to + SC", "wrong" },
        { "scale_vec::2X\");=>scale_vec::4X\");", "not played" },
    };
    static const struct fault of_nvf4[] = {
        { "i * SC / 4 % 4)=>2)", "scales from byte 2" },
        { "E8M0 0=>E8M0 1", "none of these types" },
        { "mxf4nvf4.block_scale.scale_vec::4X\");=>mxf4.block_scale.scale_vec::2X\");",
          "none of these" },
        { "to + i * SC / 16 * 4, to + SC + i=>to + i * SC / 16 * 4, to + i", "wrong" },
    };
    static const struct {
        struct scaled_case x;
        int scales; /* scales of a line for each block of 128 bytes along k */
        const struct fault *fault;
        size_t faults;
    } cases[] = {
        { { SIMT_MXF8F6F4, { 0, 1 } }, 4, of_bytes, COUNT(of_bytes) },
        { { SIMT_MXF8F6F4, { 3, 5 } }, 4, of_packed, COUNT(of_packed) },
        { { SIMT_MXF8F6F4, { 5, 4 } }, 4, NULL, 0 },
        { { SIMT_MXF4, { 5, 5 } }, 8, of_mxf4, COUNT(of_mxf4) },
        { { SIMT_MXF4NVF4, { 5, 5 } }, 16, of_nvf4, COUNT(of_nvf4) },
    };
    enum { LINES = TM + TN, PIECES = TSTEPS * 4 };
    static struct scaled_line line[LINES][PIECES];
    struct rng r = { 22 };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct scaled_case *x = &cases[i].x;
        int sc = cases[i].scales, each = sc / 4;
        size_t size[2] = { (size_t)(TM + sc) * TSTEPS * 128, (size_t)(TN + sc) * TSTEPS * 128 };
        uint8_t *in[2] = { calloc(1, size[0]), calloc(1, size[1]) };
        float *c = calloc(TM * TN, 4);
        struct kernel_test d = { in[0],       in[1],  c, size[0],     size[1],
                                 TM * TN * 4, TSTEPS, 0, encode_tiles };
        char text[8000];
        struct kernel k = { text, 100, 256, 1, (uint32_t)(2 * (128 * 192 + 256 * sc) + 96), 1 };

        snprintf(text, sizeof text,
                 "#define NUMBER float\n#define SUM(v) (~(v) & 0x7f800000 ? bits_float(v) : 1)\n"
                 "#define KIND %d\n#define SC %d\n"
                 "#define FORMAT_A %d\n#define FORMAT_B %d\n#define E8M0 %d\n"
                 "#define FORMATS FORMAT_A, FORMAT_B, E8M0\n%s",
                 (int)x->kind, sc, x->kind == SIMT_MXF8F6F4 ? x->format[0] : 1,
                 x->kind == SIMT_MXF8F6F4 ? x->format[1] : 1, x->kind != SIMT_MXF4NVF4, source);
        for (int l = 0; l < LINES; l++)
            for (int p = 0; p < PIECES; p++) {
                int side = l >= TM, own = side ? l - TM : l, lines = side ? TN : TM;
                uint8_t bytes[32], scales[4];

                random_scaled(&r, x, side, 1, bytes, scales);
                assert_true(simt_scaled_line(x->kind, x->format[side], bytes, scales, &line[l][p]));
                pack_elements(x, side, bytes, in[side] + (own * PIECES + p) * 32);
                for (int s = 0; s < each; s++) {
                    int at = p % 4 * each + s;

                    in[side][lines * TSTEPS * 128 + p / 4 * sc * 128 + at / 4 * 512 +
                             own % 32 * 16 + own / 32 * 4 + at % 4] = scales[s];
                }
            }
        for (int e = 0; e < TM * TN; e++) {
            float part = 0;

            for (int p = 0; p < PIECES; p++) {
                simt_scaled_dot(x->kind, &line[e / TN][p], &line[TM + e % TN][p], &part);
                if (p % 8 == 7 || p == PIECES - 1) {
                    /* an infinity is replaced, because sums of infinities could be NaN of either
                     * sign */
                    c[e] += isfinite(part) ? part : 1;
                    part = 0;
                }
            }
        }
        check_faults(&k, &d, cases[i].fault, (int)cases[i].faults);
        free(in[0]);
        free(in[1]);
        free(c);
    }
}

/* ---- clusters -------------------------------------------------------------------------------- */

/* Encodes the tensor map of half a tile: 8 rows of 128 bytes. */
static void encode_halves(struct args *args)
{
    static const uint32_t step[3] = { 1, 1, 1 }, box[3] = { 32, 8, 1 };
    uint64_t size[3] = { (uint64_t)args->n * 32, 16, 1 };
    uint64_t stride[2] = { (uint64_t)args->n * 128, (uint64_t)args->n * 128 * 16 };

    assert_int_equal(
        cuTensorMapEncodeTiled(args->map[0], 2, 3, args->a, size, stride, box, step, 0, 3, 2, 0),
        0);
}

/* Each of two blocks in a cluster fetches half of the data that both read. */
static void blocks_of_a_cluster_share_copies(void **state)
{
    static const struct kernel k = {
        HEAD90
        "enum { STAGE = 2048, FULL = 2 * STAGE, EMPTY = FULL + 16 };\n"
        "KERNEL(k, args, 64, 1) {\n"
        "  int t = thread(), rank = block() % 2, sum = 0;\n"
        "  if (t == 0) {\n"
        "    for (int i = 0; i < 2; i++) {\n"
        "      barrier_init(FULL + 8 * i, 1);\n"
        "      barrier_init(EMPTY + 8 * i, 2);\n"
        "    }\n"
        "    barrier_init_done(); // init\n"
        "  }\n"
        "  sync_cluster(); // start\n"
        "  if (warp() == 0) {\n"
        "    for (int s = 0; t == 0 && s < args.n; s++) {\n"
        "      int at = s % 2 * STAGE, full = FULL + s % 2 * 8;\n"
        "      barrier_wait(EMPTY + s % 2 * 8, (s / 2 & 1) ^ 1); // empty\n"
        "      barrier_expect(full, STAGE); // bytes\n"
        "      tensor_load_all(at + 1024 * rank, &args.map[0], 32 * s, 8 * rank, 0, full, 3);\n"
        "    }\n"
        "  } else {\n"
        "    for (int s = 0; s < args.n; s++) {\n"
        "      barrier_wait(FULL + s % 2 * 8, s / 2 & 1); // full\n"
        "      for (int r = 0; r < 16; r++)\n"
        "        sum += (r + 1) * load_shared<int>(s % 2 * STAGE + 128 * r + 4 * lane());\n"
        "      sync_warp(); // read\n"
        "      if (lane() < 2)\n"
        "        barrier_arrive_in(EMPTY + s % 2 * 8, lane());\n"
        "    }\n"
        "    store(args.c + 4 * (32 * block() + lane()), sum);\n"
        "  }\n"
        "  sync_cluster(); // end\n"
        "}\n",
        90,
        64,
        6,
        2 * 2048 + 32,
        2
    };
    static const struct fault faults[] = {
        { "sync_cluster(); // start=>sync_block();", "barrier" },
        { "sync_cluster(); // end=>", "ended" },
        { "sync_cluster(); // end=>if (rank) sync_cluster();", "" },
        { "barrier_init_done(); // init=>", "barrier_init_done" },
        { "barrier_init(EMPTY + 8 * i, 2)=>barrier_init(EMPTY + 8 * i, 1)", "" },
        { "barrier_wait(EMPTY + s % 2 * 8, (s / 2 & 1) ^ 1); // empty=>", "" },
        { "barrier_wait(FULL + s % 2 * 8, s / 2 & 1); // full=>", UNORDERED },
        { "barrier_expect(full, STAGE); // bytes=>barrier_expect(full, STAGE / 2);", "" },
        { "32 * s, 8 * rank, 0=>32 * s, 8 - 8 * rank, 0", "wrong" },
        { "at + 1024 * rank=>at", "" },
        { "0, full, 3)=>0, full, 1 << rank)", "deadlock" },
        { "0, full, 3)=>0, full, 7)", "cluster of 2" },
        { "sync_warp(); // read=>", UNORDERED },
        { "if (lane() < 2)=>if (lane() == rank)", "deadlock" },
        { "s % 2 * 8, lane());=>s % 2 * 8, 2 * lane());", "cluster of 2" },
        { "\"h\"((uint16_t)blocks)=>\"h\"((uint16_t)(blocks >> 1))", "deadlock" },
        { "_, [there];=>_, [%0];", "" },
        { "there, %0, %1;=>there, %0, 0;", "" },
        { "barrier.cluster.arrive.release;=>", "without an arrival" },
        { "{%3, %4, %5}], [%2], %6;=>{%3, %5, %4}], [%2], %6;", "" },
    };
    enum { N = 7 };
    int32_t in[16][N][32], out[6][32] = { 0 };
    struct kernel_test d = { in, NULL, out, sizeof in, 0, sizeof out, N, 0, encode_halves };
    struct rng r = { 21 };

    (void)state;
    for (int i = 0; i < 16; i++)
        for (int s = 0; s < N; s++)
            for (int l = 0; l < 32; l++)
                in[i][s][l] = rng_below(&r, 1000);
    for (int b = 0; b < 6; b++)
        for (int i = 0; i < 16; i++)
            for (int s = 0; s < N; s++)
                for (int l = 0; l < 32; l++)
                    out[b][l] += (i + 1) * in[i][s][((l / 4) ^ (i & 7)) * 4 + l % 4];
    CHECK(&k, &d, faults);
}

/* Launches are refused if the grid is no multiple of the cluster, the cluster has a wrong size,
 * or the device has no clusters. */
static void launches_of_clusters_are_checked(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 64, 1) { sync_block(); }\n", 90, 64, 4, 0, 2
    };
    struct args args = { .n = 5 };
    struct kernel other = k;
    struct launch_attribute cluster = { 4, 0, { 2, 1, 1 } };
    struct launch_config config = { { 4, 1, 1 }, { 64, 1, 1 }, 100 * 1024, NULL, &cluster, 1 };
    void *m, *f;
    int n;

    (void)state;
    start_driver(90, 1);
    assert_null(build_kernel(&k, NULL, &m, &f));
    assert_int_equal(launch_kernel(&k, f, &args), 0);
    other.blocks = 3;
    assert_int_equal(launch_kernel(&other, f, &args), 1);
    other.blocks = 6;
    other.cluster = 3;
    assert_int_equal(launch_kernel(&other, f, &args), 1);
    assert_int_equal(cuOccupancyMaxActiveClusters(&n, f, &config), 0);
    assert_int_equal(n, 4); /* 5 multiprocessors hold two blocks each */
    assert_int_equal(cuModuleUnload(m), 0);
    start_driver(80, 1);
    other = k;
    other.capability = 80;
    assert_null(build_kernel(&other, NULL, &m, &f));
    assert_int_equal(launch_kernel(&other, f, &args), 1);
    assert_int_equal(cuModuleUnload(m), 0);
}

/* ---- blocks that share work ------------------------------------------------------------------ */

/* Blocks take pieces of work from an atomic counter until all are done; each barrier left out, or a
 * wrong counter, must be reported. */
static void blocks_share_work_by_counting(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 64, 1) {\n"
             "  for (;;) {\n"
             "    if (thread() == 0)\n"
             "      store_shared<int>(0, atomic_next((int *)args.b));\n"
             "    sync_block(); // one\n"
             "    int next = load_shared<int>(0);\n"
             "    sync_block(); // two\n"
             "    if (next >= args.n)\n"
             "      break;\n"
             "    uint32_t v = load<int>(args.a + 4 * (next * 64 + thread()));\n"
             "    v += shuffle_xor(v, 1);\n"
             "    v = permute(v, 0x12345678, 0x7610); // bytes\n"
             "    store(args.c + 4 * (next * 64 + thread()), v);\n"
             "  }\n"
             "}\n",
        80,
        64,
        5,
        4,
        1
    };
    static const struct fault faults[] = {
        { "sync_block(); // one=>", "" },
        { "sync_block(); // two=>", "" },
        { "sync_block(); // two=>if (warp() == 1) sync_block();", "" },
        { "atomic_next((int *)args.b)=>atomic_next((int *)args.c)", "never written" },
        { "shuffle_xor(v, 1)=>(lane() < 16 ? shuffle_xor(v, 1) : 0)", "" },
        { "0x7610=>0x7654", "wrong" },
    };
    int32_t in[1280], zero = 0;
    uint32_t out[1280];
    struct kernel_test d = { in, &zero, out, sizeof in, 4, sizeof out, 20, 0, NULL };

    (void)state;
    for (int i = 0; i < 1280; i++)
        in[i] = i * 1000;
    /* each word of the result is the sum of bytes 0, 1, 6 and 7 of two input words */
    for (int i = 0; i < 1280; i++) {
        uint32_t sum = (uint32_t)(in[i] + in[i ^ 1]);

        out[i] = (sum & 0xffff) | 0x12340000;
    }
    CHECK(&k, &d, faults);
}

/* ---- the driver: streams, memory, graphs ----------------------------------------------------- */

/* Two streams store different values to one address.  Returns the set of values that remain
 * after runs with many seeds: both if the streams are not ordered, else one. */
static unsigned run_unordered(bool first_apart, bool second_null, bool waits)
{
    unsigned seen = 0;

    for (int seed = 1; seed <= 24; seed++) {
        void *one, *other = NULL, *event;
        int32_t got;
        address at;

        start_driver(90, seed);
        assert_int_equal(cuMemAlloc_v2(&at, 4), 0);
        assert_int_equal(cuStreamCreate(&one, first_apart), 0);
        if (!second_null)
            assert_int_equal(cuStreamCreate(&other, 1), 0);
        assert_int_equal(cuEventCreate(&event, 2), 0);
        assert_int_equal(cuMemsetD32Async(at, 1, 1, one), 0);
        assert_int_equal(cuEventRecord(event, one), 0);
        if (waits)
            assert_int_equal(cuStreamWaitEvent(other, event, 0), 0);
        assert_int_equal(cuMemsetD32Async(at, 2, 1, other), 0);
        assert_int_equal(cuCtxSynchronize(), 0);
        assert_int_equal(cuMemcpyDtoHAsync_v2(&got, at, 4, NULL), 0);
        seen |= 1u << got;
        assert_int_equal(cuEventDestroy_v2(event), 0);
        assert_int_equal(cuStreamDestroy_v2(one), 0);
        if (other)
            assert_int_equal(cuStreamDestroy_v2(other), 0);
        assert_int_equal(cuMemFree_v2(at), 0);
    }
    return seen;
}

/* Work in a stream runs as late as the real driver may run it: without synchronisation, kernels
 * run in a wrong order and copies have not arrived. */
static void streams_are_late(void **state)
{
    int32_t *pinned;
    void *stream;
    address at;

    (void)state;
    assert_int_equal(run_unordered(true, false, false), 6);
    assert_int_equal(run_unordered(true, true, false), 6);
    assert_int_equal(run_unordered(true, false, true), 4);
    assert_int_equal(run_unordered(true, true, true), 4);
    assert_int_equal(run_unordered(false, true, false),
                     4); /* the NULL stream waits for a blocking stream */
    start_driver(90, 3);
    assert_int_equal(cuMemAlloc_v2(&at, 4), 0);
    assert_int_equal(cuMemHostAlloc((void **)&pinned, 4, 0), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    *pinned = 1;
    assert_int_equal(cuMemsetD32Async(at, 2, 1, stream), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, at, 4, stream), 0);
    assert_int_equal(*pinned, 1);
    assert_int_equal(cuStreamSynchronize(stream), 0);
    assert_int_equal(*pinned, 2);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemFreeHost(pinned), 0);
    assert_int_equal(cuMemFree_v2(at), 0);
}

/* A cubin of a toolkit that is newer than the driver is not loaded. */
static void drivers_refuse_newer_kernels(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 32, 1) { store<int>(args.c, 1); }\n", 90, 32, 1, 0, 1
    };

    (void)state;
    for (int newer = 0; newer < 2; newer++) {
        void *module, *function;

        set_variable("SIMT_DRIVER", 12040);
        set_variable("SIMT_NVRTC", newer ? 13 : 12);
        /* compile anew, since the cached image was made by the other compiler */
        last.capability = 0;
        start_driver(90, 1);
        assert_int_equal(build_kernel(&k, NULL, &module, &function) != NULL, newer);
        if (!newer)
            assert_int_equal(cuModuleUnload(module), 0);
    }
    unsetenv("SIMT_DRIVER");
    unsetenv("SIMT_NVRTC");
    start_driver(90, 1);
}

/* A pool unmaps memory above its threshold whenever a thread waits for the device. */
static void pools_keep_their_threshold(void **state)
{
    static const struct {
        int type, handles, location, device;
        char zero[72];
    } props = { .type = 1, .location = 1 };
    uint64_t threshold = 1000;
    void *pool;
    address at;
    long maps;

    (void)state;
    start_driver(90, 1);
    assert_int_equal(cuMemPoolCreate(&pool, &props), 0);
    assert_int_equal(cuMemPoolSetAttribute(pool, 4, &threshold), 0);
    maps = simt_maps();
    for (int i = 0; i < 3; i++)
        for (int large = 0; large < 2; large++) {
            assert_int_equal(cuMemAllocFromPoolAsync(&at, large ? 2000 : 1000, pool, NULL), 0);
            assert_int_equal(cuMemFreeAsync(at, NULL), 0);
            assert_int_equal(cuMemFreeAsync(at, NULL), 1);
            assert_int_equal(cuCtxSynchronize(), 0);
        }
    /* the small allocation was mapped once, the large one each time */
    assert_int_equal(simt_maps() - maps, 4);
    assert_int_equal(cuMemPoolDestroy(pool), 0);
}

/* The last block that increments a counter sums the values that all blocks have stored.  Each
 * planted fault in their order must be reported. */
static void counters_pass_on_what_blocks_wrote(void **state)
{
    static const struct kernel k = {
        HEAD
        "KERNEL(k, args, 64, 1) {\n"
        "  char *part = args.c + 4 + 256 * block();\n"
        "  store(part + 4 * (thread() ^ 1), load<int>(args.a + 256 * block() + 4 * thread()));\n"
        "  sync_block(); // written\n"
        "  if (thread() == 0)\n"
        "    store_shared<int>(0, atomic_pass((int *)args.b));\n"
        "  sync_block(); // known\n"
        "  if (load_shared<int>(0) != blocks() - 1)\n"
        "    return;\n"
        "  if (thread() == 0) {\n"
        "    int sum = 0;\n"
        "    for (int i = 0; i < 64 * blocks(); i++)\n"
        "      sum += load<int>(args.c + 4 + 4 * i);\n"
        "    store(args.c, sum);\n"
        "  }\n"
        "}\n",
        80,
        64,
        5,
        4,
        1
    };
    static const struct fault faults[] = {
        { "sync_block(); // written=>", "race on device memory" },
        { "atom.acq_rel.gpu=>atom.relaxed.gpu", "race on device memory" },
        { "atomic_pass((int *)args.b)=>atomic_next((int *)args.b)", "race on device memory" },
        { "!= blocks() - 1=>!= 0", "" },
        { "!= blocks() - 1=>!= blocks() - 2", "" },
        { "load<int>(args.c + 4 + 4 * i)=>load_constant<int>(args.c + 4 + 4 * i)",
          "as a constant" },
        { "sync_block(); // known=>", UNORDERED },
    };
    int32_t in[5 * 64], zero = 0, out[1 + 5 * 64] = { 0 };
    struct kernel_test d = { in, &zero, out, sizeof in, 4, sizeof out, 0, 0, NULL };

    (void)state;
    for (int i = 0; i < 5 * 64; i++)
        in[i] = i * i % 1000;
    for (int i = 0; i < 5 * 64; i++) {
        out[0] += in[i];
        out[1 + i] = in[i ^ 1];
    }
    CHECK(&k, &d, faults);
}

/* A launch that may begin before the previous launch has ended must wait for its end before it
 * accesses memory. */
static void early_launches_are_checked(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 64, 1) {\n"
             "  store_shared<int>(4 * thread(), 7);\n"
             "  await_launch();\n"
             "  let_next_begin();\n"
             "  store(args.c + 4 * thread(), load<int>(args.a + 4 * thread()));\n"
             "}\n",
        90,
        64,
        1,
        256,
        1
    };
    static const struct fault faults[] = {
        { "await_launch();\\n  let=>let", "before the launch in front" },
        { "await_launch();\\n  let=>if (thread() < 32) await_launch();\\n  let",
          "before the launch in front" },
        { "load<int>(args.a=>load_constant<int>(args.a", "as a constant" },
        { "await_launch();\\n  let=>if (thread() & 1) return;\\n  await_launch();\\n  let",
          "ends" },
    };
    struct launch_attribute early = { 6, 0, { 1 } };
    struct launch_config config = { { 1, 1, 1 }, { 64, 1, 1 }, 256, NULL, &early, 1 };
    int32_t in[64] = { 5 };
    void *m, *f;

    (void)state;
    for (int i = -1; i < (int)(sizeof faults / sizeof *faults); i++) {
        struct args args = { .n = 0 };
        void *list[] = { &args };

        start_driver(90, 1);
        assert_null(build_kernel(&k, i < 0 ? NULL : faults[i].text, &m, &f));
        args.a = upload(in, sizeof in);
        args.c = upload(NULL, sizeof in);
        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 256, NULL, list, NULL), 0);
        /* this launch cannot begin early, so that its kernel need not wait */
        assert_string_equal(simt_error(), "");
        assert_int_equal(cuLaunchKernelEx(&config, f, list, NULL), 0);
        assert_int_equal(cuCtxSynchronize(), i < 0 ? 0 : 719);
        assert_non_null(strstr(simt_error(), i < 0 ? "" : faults[i].told));
        cuModuleUnload(m);
    }
    print_message("%d planted faults found\n", (int)(sizeof faults / sizeof *faults));
    start_driver(80, 1);
    {
        struct kernel other = k;
        struct args args = { .n = 0 };
        void *list[] = { &args };

        other.capability = 80;
        assert_null(build_kernel(&other, NULL, &m, &f));
        assert_int_equal(cuLaunchKernelEx(&config, f, list, NULL), 1);
        cuModuleUnload(m);
    }
}

/* On a device of 3 MiB: allocations beyond it, freeing twice and copies out of bounds give the
 * driver's errors. */
static void exhausted_memory_is_reported(void **state)
{
    address at[3];
    size_t left, total;
    char byte[2];

    (void)state;
    set_variable("SIMT_MEMORY", 3 << 20);
    start_driver(90, 1);
    assert_int_equal(cuMemAlloc_v2(&at[0], 1 << 20), 0);
    assert_int_equal(cuMemAlloc_v2(&at[1], 1 << 20), 0);
    assert_int_equal(cuMemAlloc_v2(&at[2], (1 << 20) + 1), 2);
    cuMemGetInfo_v2(&left, &total);
    assert_int_equal(left, 1 << 20);
    assert_int_equal(total, 3 << 20);
    assert_int_equal(cuMemFree_v2(at[0]), 0);
    assert_int_equal(cuMemFree_v2(at[0]), 1);
    assert_int_equal(cuMemAlloc_v2(&at[2], 2 << 20), 0);
    assert_int_equal(at[2] % 256, 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(byte, at[1] + (1 << 20), 1, NULL), 1);
    assert_int_equal(cuMemcpyHtoDAsync_v2(at[1], (void *)at[2], 1, NULL), 1);
    assert_int_equal(cuMemcpyHtoDAsync_v2(at[1] + (1 << 20) - 1, byte, 2, NULL), 1);
    unsetenv("SIMT_MEMORY");
}

/* Launches, copies and allocations captured into a graph run when the graph does; calls that a
 * capture forbids end it with an error. */
static void launches_are_captured(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 32, 1) {\n"
             "  store(args.c + 4 * thread(), load<int>(args.c + 4 * thread()) + args.n);\n"
             "}\n",
        90,
        32,
        1,
        0,
        1
    };
    struct args args = { .n = 5 };
    static const struct {
        int type, handles, location, device;
        char zero[72];
    } props = { .type = 1, .location = 1 };
    void *list[] = { &args }, *m, *f, *stream, *graph, *exec, *pinned, *pool;
    int32_t got[32];
    address other;

    (void)state;
    start_driver(90, 1);
    assert_int_equal(cuMemPoolCreate(&pool, &props), 0);
    assert_null(build_kernel(&k, NULL, &m, &f));
    args.c = upload(NULL, 128);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuMemHostAlloc(&pinned, 128, 0), 0);
    /* the first launch of a function loads it, which a capture forbids */
    assert_int_equal(cuStreamBeginCapture_v2(stream, 1), 0);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, list, NULL), 900);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 901);
    assert_int_equal(cuFuncLoad(f), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 1), 0);
    assert_int_equal(cuMemsetD32Async(args.c, 7, 32, stream), 0);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, list, NULL), 0);
    args.n = 1000;
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, args.c, 128, stream), 0);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    memset(pinned, 0, 128);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cuGraphLaunch(exec, stream), 0);
    assert_int_equal(cuStreamSynchronize(stream), 0);
    for (int i = 0; i < 32; i++)
        assert_int_equal(((int32_t *)pinned)[i], 12);
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(cuStreamBeginCapture_v2(stream, 1), 0);
        if (i == 0)
            assert_int_equal(cuMemAlloc_v2(&other, 128), 900);
        else if (i == 1)
            assert_int_equal(cuStreamSynchronize(stream), 900);
        else if (i == 2)
            assert_int_equal(cuMemcpyDtoHAsync_v2(got, args.c, 128, stream), 900);
        else
            assert_int_equal(cuMemAllocFromPoolAsync(&other, 128, pool, stream), 900);
        assert_int_equal(cuStreamEndCapture(stream, &graph), 901);
    }
    assert_int_equal(cuMemFreeHost(pinned), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuModuleUnload(m), 0);
}

/* Launches with too much shared memory, too many threads or an empty grid are refused. */
static void launches_are_checked(void **state)
{
    static const struct kernel k = {
        HEAD "KERNEL(k, args, 64, 1) { sync_block(); }\n", 80, 64, 1, 0, 1
    };
    struct args args = { .n = 5 };
    void *list[] = { &args }, *m, *f;
    int v;

    (void)state;
    start_driver(80, 1);
    assert_null(build_kernel(&k, NULL, &m, &f));
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 49152, NULL, list, NULL), 0);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 49153, NULL, list, NULL), 1);
    assert_int_equal(cuDeviceGetAttribute(&v, 97, 0), 0);
    assert_int_equal(v, 163 * 1024);
    assert_int_equal(cuFuncSetAttribute(f, 8, v + 1), 1);
    assert_int_equal(cuFuncSetAttribute(f, 8, v), 0);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, (unsigned)v, NULL, list, NULL), 0);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 96, 1, 1, 0, NULL, list, NULL), 1);
    assert_int_equal(cuLaunchKernel(f, 0, 1, 1, 64, 1, 1, 0, NULL, list, NULL), 1);
    assert_int_equal(cuModuleUnload(m), 0);
    start_driver(90, 1);
    assert_int_equal(cuDeviceGetAttribute(&v, 97, 0), 0);
    assert_int_equal(v, 227 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory_is_watched),
        cmocka_unit_test(planted_faults_must_be_there_once),
        cmocka_unit_test(copies_of_16_bytes_land_late),
        cmocka_unit_test(tensor_core_models_agree_with_the_interpreter),
        cmocka_unit_test(words_are_packed),
        cmocka_unit_test(warps_multiply),
        cmocka_unit_test(scaled_models_agree_with_the_interpreter),
        cmocka_unit_test(warps_multiply_blocks_with_scales),
        cmocka_unit_test(warps_multiply_in_binary64),
        cmocka_unit_test(warps_multiply_sixteen_rows_in_binary64),
        cmocka_unit_test(the_portable_form_multiplies),
        cmocka_unit_test(warpgroups_multiply),
        cmocka_unit_test(products_read_what_was_fenced),
        cmocka_unit_test(products_go_to_tensor_memory),
        cmocka_unit_test(products_with_scales_go_to_tensor_memory),
        cmocka_unit_test(blocks_of_a_cluster_share_copies),
        cmocka_unit_test(launches_of_clusters_are_checked),
        cmocka_unit_test(blocks_share_work_by_counting),
        cmocka_unit_test(counters_pass_on_what_blocks_wrote),
        cmocka_unit_test(early_launches_are_checked),
        cmocka_unit_test(exhausted_memory_is_reported),
        cmocka_unit_test(pools_keep_their_threshold),
        cmocka_unit_test(streams_are_late),
        cmocka_unit_test(drivers_refuse_newer_kernels),
        cmocka_unit_test(launches_are_captured),
        cmocka_unit_test(launches_are_checked),
    };

    return cmocka_run_group_tests(tests, open_libraries, NULL);
}
