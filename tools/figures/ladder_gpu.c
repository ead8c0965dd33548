/* SPDX-License-Identifier: BSD-3-Clause
 * Figure ladder on a GPU: NVRTC compiles each step of ladder.cu, whose instructions, accesses of
 * shared memory and sectors of global memory are counted.  Where there is a GPU, the steps are
 * compared with the exact product and timed. */
#define _GNU_SOURCE
#include "tools/bench/bench.h"
#include "tools/figures/figures.h"
#include "tools/figures/ladder.cu"
#include "tools/figures/ladder_code.h"

#include <limber/environment.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The texts that NVRTC is given. */
#define EMBED(id, path) \
    __asm__(".section .rodata\n" \
            "limber_ladder_" #id ":\n.incbin \"" LIMBER_LADDER_TEXTS "/" path "\"\n.byte 0\n" \
            ".previous\n"); \
    extern const char limber_ladder_##id[] __attribute__((visibility("hidden")));
EMBED(source, "tools/figures/ladder.cu")
EMBED(device, "backends/cuda/kernel/device.h")

/* The steps: their names, and what each adds. */
static const struct {
    const char *name, *what;
} steps[LADDER_STEPS] = {
    { "naive", "a thread computes one element" },
    { "shared-memory tiles", "8 x 8 sums of a thread in registers" },
    { "fragments", "tensor cores" },
    { "conflict-free", "pieces of rows are permuted" },
    { "pipelined", "copies run two tiles ahead" },
    { "specialised by warp", "one warp copies by TMA" },
};

/* ---- NVRTC ----------------------------------------------------------------------------------- */

/* Functions of NVRTC that are called: name, parameters. */
#define NVRTC(F) \
    F(nvrtcCreateProgram, \
      (void **, const char *, const char *, int, const char *const *, const char *const *)) \
    F(nvrtcCompileProgram, (void *, int, const char *const *)) \
    F(nvrtcDestroyProgram, (void **)) \
    F(nvrtcGetProgramLogSize, (void *, size_t *)) \
    F(nvrtcGetProgramLog, (void *, char *)) \
    F(nvrtcGetCUBINSize, (void *, size_t *)) \
    F(nvrtcGetCUBIN, (void *, char *)) \
    F(nvrtcGetPTXSize, (void *, size_t *)) \
    F(nvrtcGetPTX, (void *, char *))
#define FIELD(name, arguments) int(*name) arguments;
#define SYMBOL(name, arguments) { #name, &nvrtc.name },
/* The functions of NVRTC. */
static struct {
    NVRTC(FIELD)
} nvrtc;
static const struct symbol nvrtc_symbols[] = { NVRTC(SYMBOL) };

/* Opens NVRTC.  False, with the reason in l->why_not, if that is impossible. */
static bool open_nvrtc(struct library *l)
{
    const char *file = limber_variable_value("LIMBER_NVRTC");

    *l = (struct library){ .name = "NVRTC",
                           .files = file ? file : "libnvrtc.so libnvrtc.so.13 libnvrtc.so.12" };
    if (library_load(l))
        return LIBRARY_FIND(l, nvrtc_symbols);
    if (file)
        return false;
    l->files = "/usr/local/cuda/lib64/libnvrtc.so";
    return library_load(l) && LIBRARY_FIND(l, nvrtc_symbols);
}

/* Returns one of the texts of a program, which ends with 0 and the caller frees.  NULL on
 * failure. */
static char *text_of(void *program, int (*get_size)(void *, size_t *), int (*get)(void *, char *),
                     size_t *size)
{
    char *text;

    if (get_size(program, size) || !(text = calloc(1, *size + 1)))
        return NULL;
    if (get(program, text) == 0)
        return text;
    free(text);
    return NULL;
}

/* A step that is compiled; all texts are owned. */
struct compiled {
    char *cubin, *ptx, *log;
    size_t cubin_size;
};

static void compiled_free(struct compiled *c)
{
    free(c->cubin);
    free(c->ptx);
    free(c->log);
}

/* Compiles a step for an architecture ("sm_90").  On failure prints a message and returns false. */
static bool compile_step(int step, const char *arch, struct compiled *out)
{
    static const char *const names[] = { "ladder.cu", "device.h" };
    static const char *const texts[] = { limber_ladder_source, limber_ladder_device };
    char target[64], source[80];
    const char *const options[] = { target, "--std=c++17", "--fmad=false", "--ptxas-options=-v",
                                    "--diag-suppress=177,550" };
    void *program = NULL;
    size_t size;
    int result = 1;

    *out = (struct compiled){ .cubin = NULL };
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    snprintf(source, sizeof source,
             "#define LADDER_STEP %d\n#include \"device.h\"\n#include \"ladder.cu\"\n", step);
    if (nvrtc.nvrtcCreateProgram(&program, source, "step.cu", 2, texts, names) == 0) {
        result = nvrtc.nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
        out->log = text_of(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, &size);
    }
    if (result == 0) {
        out->cubin =
            text_of(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, &out->cubin_size);
        out->ptx = text_of(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, &size);
    }
    if (program)
        nvrtc.nvrtcDestroyProgram(&program);
    return (out->cubin && out->ptx && out->log) ||
           !complain("ladder: NVRTC does not compile %s for %s: %.300s", steps[step].name, arch,
                     out->log ? out->log : "out of memory");
}

/* Returns the number of registers that ptxas names in NVRTC's log, NaN if it names none. */
static double registers_of(const char *log)
{
    const char *at = strstr(log, "Used ");

    return at ? strtod(at + 5, NULL) : NAN;
}

/* ---- accesses to memory ---------------------------------------------------------------------- */

enum { LANES = 32, BANKS = 32 };

/* Returns how many times shared memory is accessed when each lane reads 16 bytes: eight lanes at
 * once, and again for each further word of a bank that they read. */
static int passes_of(const uint32_t at[LANES])
{
    int passes = 0;

    for (int first = 0; first < LANES; first += 8) {
        int words[BANKS] = { 0 }, most = 0;

        for (int l = first; l < first + 8; l++) {
            bool known = false; /* lanes that read the same address share a word */

            for (int o = first; o < l; o++)
                known |= at[o] == at[l];
            for (uint32_t w = 0; w < 4 && !known; w++) {
                int n = ++words[(at[l] / 4 + w) % BANKS];

                most = n > most ? n : most;
            }
        }
        passes += most;
    }
    return passes;
}

/* Returns the passes in which the warps read one stage from shared memory. */
static double passes_of_stage(int step)
{
    uint32_t at[LANES];
    double passes = 0;

    for (int w = 0; w < WARPS && step == LADDER_TILES; w++)
        for (int i = 0; i < 2 * REGISTER_TILE * PIECES; i++) {
            for (int l = 0; l < LANES; l++)
                at[l] = piece_at(step, register_line(i & 1, LANES * w + l, i / 2 % REGISTER_TILE),
                                 i / 2 / REGISTER_TILE);
            passes += passes_of(at);
        }
    for (int w = 0; w < WARPS && step >= LADDER_FRAGMENTS; w++)
        for (int side = 0; side < 2; side++) {
            int lines = side ? WARP_WIDE : WARP_TALL;
            int line = (side ? w % (WIDE / WARP_WIDE) : w / (WIDE / WARP_WIDE)) * lines;

            for (int i = 0; i < lines / 16 * (DEPTH / 16); i++) {
                for (int l = 0; l < LANES; l++)
                    at[l] =
                        fragment_at(step, side, l, line + i / (DEPTH / 16) * 16, i % (DEPTH / 16));
                passes += passes_of(at);
            }
        }
    return passes;
}

/* Returns the number of sectors (32 bytes) that hold the lanes' bytes of global memory. */
static int sectors_of(const int64_t at[LANES])
{
    int sectors = 0;

    for (int l = 0; l < LANES; l++) {
        bool known = false;

        for (int o = 0; o < l; o++)
            known |= at[o] / 32 == at[l] / 32;
        sectors += !known;
    }
    return sectors;
}

/* Returns the sectors that a step reads from global memory for 1024 multiply-adds, if no cache
 * holds them: of matrices whose lines have `pitch` bytes. */
static double sectors_of_step(int step, int64_t pitch)
{
    int64_t at[LANES];
    double sectors = 0;

    if (step == LADDER_NAIVE) { /* an element of A and one of B for each lane's multiply-add */
        for (int side = 0; side < 2; side++) {
            for (int l = 0; l < LANES; l++)
                at[l] = (side ? l % NAIVE_WIDE : l / NAIVE_WIDE) * pitch;
            sectors += sectors_of(at);
        }
        return sectors * (1024 / LANES);
    }
    for (int t = 0; t < THREADS; t += LANES)
        for (int x = 0; x < TALL * PIECES / THREADS; x++) {
            for (int l = 0; l < LANES; l++)
                at[l] = copied_line(t + l, x) * pitch + 16 * copied_piece(t + l);
            sectors += 2 * sectors_of(at);
        }
    return sectors * 1024 / (double)STAGE_PRODUCTS;
}

/* ---- the device ------------------------------------------------------------------------------ */

/* Functions of the CUDA driver that are called: name, parameters. */
#define DRIVER(F) \
    F(cuModuleLoadData, (void **, const void *)) \
    F(cuModuleUnload, (void *)) \
    F(cuModuleGetFunction, (void **, void *, const char *)) \
    F(cuFuncSetAttribute, (void *, int, int)) \
    F(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                       unsigned, void *, void **, void **)) \
    F(cuTensorMapEncodeTiled, (void *, int, unsigned, void *, const uint64_t *, const uint64_t *, \
                               const unsigned *, const unsigned *, int, int, int, int))
/* The functions of libcuda. */
static struct {
    DRIVER(FIELD)
} cu;

/* A product on the device, and the step that computes it. */
struct device_product {
    struct factors *x;
    char *b_by_columns; /* of the host */
    void *a, *b, *c; /* of the device */
    int step;
    void *module, *function;
};

/* Fills in the map of an operand with `lines` lines of k FP16 numbers, of which TMA copies boxes of
 * DEPTH numbers and TALL lines. */
static bool map_operand(tensor_map *map, void *data, int64_t lines, int64_t k)
{
    enum { U16 = 1, RANK = 3, SWIZZLE_128 = 3, L2_256 = 3 };
    uint64_t size[RANK] = { (uint64_t)k, (uint64_t)lines, 1 };
    uint64_t stride[RANK - 1] = { 2 * size[0], 2 * size[0] * size[1] };
    unsigned box[RANK] = { DEPTH, TALL, 1 }, every[RANK] = { 1, 1, 1 };

    return cu.cuTensorMapEncodeTiled &&
           !cu.cuTensorMapEncodeTiled(map, U16, RANK, data, size, stride, box, every, 0,
                                      SWIZZLE_128, L2_256, 0);
}

/* Starts a step's kernel. */
static bool launch_step(const struct device_product *p)
{
    const struct factors *x = p->x;
    int tall = p->step == LADDER_NAIVE ? NAIVE_TALL : TALL;
    int wide = p->step == LADDER_NAIVE ? NAIVE_WIDE : WIDE;
    int64_t blocks = (x->m + tall - 1) / tall * ((x->n + wide - 1) / wide);
    struct ladder_args args = {
        .a = p->a, .b = p->b, .c = p->c, .m = (int)x->m, .n = (int)x->n, .k = (int)x->k
    };
    void *list[] = { &args };

    if (p->step == LADDER_SPECIALISED && !(map_operand(&args.map[0], p->a, x->m, x->k) &&
                                           map_operand(&args.map[1], p->b, x->n, x->k)))
        return false;
    return cu.cuLaunchKernel(p->function, (unsigned)blocks, 1, 1, (unsigned)ladder_threads(p->step),
                             1, 1, (unsigned)ladder_shared(p->step), device_stream(), list,
                             NULL) == 0;
}

/* Computes C once, compares it with the exact product, and returns the smallest time of a launch in
 * seconds; negative on failure. */
static double time_step(const struct figures *f, const struct device_product *p)
{
    double best = INFINITY;
    size_t bytes = (size_t)(p->x->m * p->x->n) * 4;

    if (!device_fill(p->c, 0xff, bytes) || !launch_step(p) || !device_wait() ||
        !device_get(p->x->c, p->c, bytes)) {
        complain("ladder: %s: %s", steps[p->step].name,
                 *device_error() ? device_error() : "the driver refuses the launch");
        return -1;
    }
    /* tensor cores truncate their sums: two units in the last place for each addition */
    if (!(factors_check(p->x).relative <= (double)p->x->k * 0x1p-22)) {
        complain("ladder: %s gives a wrong product", steps[p->step].name);
        return -1;
    }
    for (int i = 0; i < (f->quick ? 1 : 10); i++) {
        double t;

        if (!device_start() || !launch_step(p) || (t = device_stop()) < 0)
            return complain("ladder: %s: %s", steps[p->step].name, device_error()), -1;
        best = t < best ? t : best;
    }
    return best;
}

/* Loads a compiled step and times it.  Returns TFLOPS, negative on failure. */
static double measure_on_device(const struct figures *f, struct device_product *p, int step,
                                const struct compiled *code)
{
    enum { SHARED = 8 }; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    double seconds = -1;

    p->step = step;
    if (cu.cuModuleLoadData(&p->module, code->cubin))
        return complain("ladder: the driver does not load %s", steps[step].name), -1;
    if (cu.cuModuleGetFunction(&p->function, p->module, "limber_ladder") == 0 &&
        cu.cuFuncSetAttribute(p->function, SHARED, ladder_shared(step)) == 0)
        seconds = time_step(f, p);
    else
        complain("ladder: the driver does not load %s", steps[step].name);
    cu.cuModuleUnload(p->module);
    return seconds < 0 ? seconds : 2e-12 * (double)(p->x->m * p->x->n * p->x->k) / seconds;
}

/* Fills A and B with random FP16 numbers, and copies them to the device, B by columns. */
static bool prepare_product(struct device_product *p)
{
    struct factors *x = p->x;
    size_t size_a = (size_t)(x->m * x->k) * 2, size_b = (size_t)(x->k * x->n) * 2;
    uint64_t state = 6;
    uint16_t *a = x->a, *b = x->b, *columns = malloc(size_b);

    p->b_by_columns = (char *)columns;
    if (!columns)
        return !complain("ladder: out of memory");
    for (int64_t i = 0; i < x->m * x->k; i++) /* 0x3400: 0.25; numbers from 0.25 to 1 */
        a[i] = (uint16_t)(0x3400 + random_bits(&state) % 0x800 + random_bits(&state) % 2 * 0x8000);
    for (int64_t i = 0; i < x->k * x->n; i++)
        b[i] = (uint16_t)(0x3400 + random_bits(&state) % 0x800 + random_bits(&state) % 2 * 0x8000);
    for (int64_t i = 0; i < x->k; i++)
        for (int64_t j = 0; j < x->n; j++)
            columns[j * x->k + i] = b[i * x->n + j];
    p->a = device_alloc(size_a);
    p->b = device_alloc(size_b);
    p->c = device_alloc((size_t)(x->m * x->n) * 4);
    return (p->a && p->b && p->c && device_put(p->a, a, size_a) &&
            device_put(p->b, columns, size_b)) ||
           !complain("ladder: %s", device_error());
}

static void free_product(struct device_product *p)
{
    device_free(p->a);
    device_free(p->b);
    device_free(p->c);
    free(p->b_by_columns);
}

/* Opens a GPU that has asynchronous copies.  False if there is none. */
static bool open_device(void)
{
    if (device_open(0, false))
        return false;
#define FIND(name, arguments) *(void **)&cu.name = device_symbol(#name);
    DRIVER(FIND)
#undef FIND
    if (device_info()->major >= 8 && cu.cuModuleLoadData && cu.cuModuleUnload &&
        cu.cuModuleGetFunction && cu.cuFuncSetAttribute && cu.cuLaunchKernel)
        return true;
    device_close();
    return false;
}

/* ---- the figure ------------------------------------------------------------------------------ */

/* Adds a step's row.  p: the product on the device; NULL without a device. */
static bool add_step(struct figures *f, int step, const char *arch, struct device_product *p,
                     struct table *data)
{
    const struct ladder_tile tile = { (double)STAGE_PRODUCTS, WARPS };
    struct ladder_counts n;
    struct compiled code;
    double all = 0, speed = NAN;
    char *machine = NULL;
    bool ok, counted = false;

    figure_note(f, "ladder: %s", steps[step].name);
    ok = compile_step(step, arch, &code);
    if (ok) {
        machine = ladder_disassemble(code.cubin, code.cubin_size);
        counted = ladder_count(machine ? machine : code.ptx, tile, &n);
        for (int i = 0; i < CLASSES && !counted; i++) /* a stand-in for NVRTC makes no GPU's code */
            n.of[i] = NAN;
        for (int i = 0; i < CLASSES; i++)
            all += n.of[i];
        speed = p ? measure_on_device(f, p, step, &code) : NAN;
        ok = !(speed < 0);
    }
    if (ok)
        table_add(data, "wwwnnnnnnnnnn", steps[step].name, steps[step].what,
                  !counted ? "" :
                  machine  ? arch :
                             "PTX",
                  all, n.of[CLASS_product], n.of[CLASS_shared], n.of[CLASS_global],
                  n.of[CLASS_barrier],
                  step == LADDER_NAIVE ? NAN : passes_of_stage(step) * 1024 / tile.macs,
                  sectors_of_step(step, 8192), registers_of(code.log),
                  (double)ladder_shared(step) / 1024, speed);
    free(machine);
    compiled_free(&code);
    return ok;
}

/* Fills the figure: a row for each step that the device has.  Without a device, steps are compiled
 * for 9.0. */
static bool fill_ladder_gpu(struct figures *f, struct table *data, struct table *brief)
{
    int64_t n = f->quick ? 136 : 4096;
    struct device_product p = { .a = NULL };
    struct library l;
    struct factors x;
    char arch[16] = "sm_90";
    bool here, ok = true;

    (void)brief;
    if (!open_nvrtc(&l))
        return complain("ladder-gpu is left out: NVRTC, which compiles its steps, is %s",
                        l.why_not),
               true;
    here = open_device();
    if (here) {
        snprintf(arch, sizeof arch, "sm_%d%d", device_info()->major, device_info()->minor);
        ok = factors_alloc(&x, n, n, n, "f16", "f32");
        p.x = &x;
        ok = ok && prepare_product(&p);
    }
    for (int i = 0; ok && i < LADDER_STEPS; i++)
        if (i < LADDER_SPECIALISED || !here || device_info()->major >= 9)
            ok = add_step(f, i, arch, here ? &p : NULL, data);
    if (here) {
        free_product(&p);
        factors_free(&x);
        device_close();
    }
    /* an NVRTC that compiles nothing for 9.0 is as good as none */
    return ok || (!here && data->count == data->columns);
}

static const char ladder_gpu_script[] =
    "set style data histograms\nset style fill solid 0.8 border -1\nset boxwidth 0.9\n"
    "set style histogram clustered gap 1\n"
    "set ylabel 'for 1024 multiply-adds'\nset logscale y 2\nset yrange [0.25:4096]\nset key top "
    "right\n"
    "set xtics rotate by -25\n"
    "label(name, speed) = speed eq '' ? name : name.sprintf(': %.0f TFLOPS', real(speed))\n"
    "plot $data using 4:xtic(label(strcol(1), strcol(13))) title 'instructions of a warp', "
    "$data using 9 title 'passes of shared memory', "
    "$data using 10 title 'sectors of global memory'";

const struct figure figure_ladder_gpu = {
    .name = "ladder-gpu",
    .about = "one FP16 product on a GPU, from one thread an element to warps with roles, in steps",
    .heads = "step,what,code,instructions,products,shared,global,barriers,passes,sectors,"
             "registers,KiB,TFLOPS",
    .fill = fill_ladder_gpu,
    .picture = { { "ladder-gpu", ladder_gpu_script, 460 } }
};
