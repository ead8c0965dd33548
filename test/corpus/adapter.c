/* SPDX-License-Identifier: BSD-3-Clause
 * The only part of the corpus that uses the library.  A problem is computed by public calls in a
 * context whose backend is defined here.  This backend describes the machine of a text, keeps what
 * the real backend generates, and launches the real kernel.  The interpreter replaces kernels that
 * cannot run on this computer, and all kernels for GPUs. */
#include "corpus.h"

#include "limber/environment.h"
#include "limber/limber.h"

#include "backends/backend.h"
#include "backends/cuda/cuda.h"
#include "ir/cpu.h"
#include "compiler.h"
#include "jit/api/api.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const corpus_kinds[KIND_count] = { "stated", "told", "plan", "config", "code", "bits" };

/* ---- machines -------------------------------------------------------------------------------- */

/* A machine for which the corpus is recorded. */
static const struct machine_text {
    /* target: text of the target; NULL for the interpreter's target and for a GPU */
    const char *name, *target;
    int major, minor; /* compute capability of a GPU, else 0 */
    /* shared memory of a GPU's block, in bytes */
    int64_t shared;
} machines[] = {
    { "interp", NULL, 0, 0, 0 },
    { "avx2",
      "target llvm isa=avx2 features=avx2,fma vector=256 registers=16 l1=32768 l2=262144 "
      "group=2 rate.f64=2e10 rate.f32=4e10 rate.f16=4e10 rate.i8=8e10 rate.exact=1e8 "
      "rate.model=1e10",
      0, 0, 0 },
    { "avx512",
      "target llvm isa=avx512 features=avx2,fma,avx512 vector=512 registers=32 l1=32768 "
      "l2=1048576 group=2 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 rate.i8=1.6e11 "
      "rate.exact=1e8 rate.model=1e10",
      0, 0, 0 },
    { "vnni",
      "target llvm isa=avx512vnni features=avx2,fma,avx512,avx512vnni vector=512 "
      "registers=32 l1=32768 l2=1048576 group=4 rate.f64=4e10 rate.f32=8e10 rate.f16=8e10 "
      "rate.i8=4e11 rate.exact=1e8 rate.model=1e10",
      0, 0, 0 },
    { "sm_75", NULL, 7, 5, 64 << 10 },
    { "sm_80", NULL, 8, 0, 163 << 10 },
    { "sm_90", NULL, 9, 0, 227 << 10 },
    { "sm_100", NULL, 10, 0, 227 << 10 },
};
const char *const corpus_machines[] = { "interp", "avx2",  "avx512", "vnni", "sm_75",
                                        "sm_80",  "sm_90", "sm_100", NULL };

static const struct machine_text *machine_named(const char *name)
{
    for (size_t i = 0; i < COUNT(machines); i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

/* The machine for which the current problem is computed, and the plans, constants and code that
 * are collected for the current line. */
static struct {
    const struct machine_text *machine;
    /* the backend that generates code for the machine; for a GPU the interpreter computes the
     * results */
    const struct backend *real;
    FILE *plan, *config, *code;
    bool lacks; /* this computer lacks instructions of the machine and cannot execute its code */
    /* false if the bits do not count, because this computer cannot execute the machine's code */
    bool here;
} now;

/* CPU features that this computer is assumed to have. */
static unsigned features = ~0u;

/* Returns the CPU features that the machine's code needs. */
static unsigned machine_features(const struct machine_text *m)
{
#ifdef LIMBER_HAVE_LLVM
    struct target t;
    struct diag d = { 0 };

    return m->target && limber_target_parse(&t, m->target, &d) ? limber_cpu_of(&t) : 0;
#else
    return (void)m, 0;
#endif
}

bool corpus_pretend(const char *machine)
{
    const struct machine_text *m = machine_named(machine);

    if (m)
        features = machine_features(m);
    return m != NULL;
}

extern const struct backend limber_backend_cuda;
#ifdef LIMBER_HAVE_LLVM
extern const struct backend limber_backend_llvm;
#endif

bool corpus_plays(const char *machine)
{
    const struct machine_text *m = machine_named(machine);
#ifdef LIMBER_HAVE_LLVM
    struct target here;
    struct diag d = { 0 };

    return !m->target || (limber_backend_llvm.probe(&here, &d) && compiler_here());
#else
    return !m->target;
#endif
}

/* ---- the backend that keeps what is generated ------------------------------------------------ */

/* A kernel that backend `by` loaded. */
struct kernel {
    const struct backend *by;
    struct kernel *inner;
};

/* Replaces a backend's probe: describes the machine that is played. */
static bool probe(struct target *t, struct diag *d)
{
    const struct machine_text *m = now.machine;

    if (m->major)
        return limber_cuda_arch(t, m->major, m->minor, 132, 1.7e9, m->shared, 50 << 20, d);
    return m->target ? limber_target_parse(t, m->target, d) : limber_backend_interp.probe(t, d);
}

static void keep_code(void *user, const char *name, const char *data, size_t size)
{
    if (strcmp(name, "kernel.ll") == 0)
        fwrite(data, size, 1, user);
}

/* Appends the plan after all passes to the texts of the current line. */
static void keep_plan(const struct plan *p)
{
    struct text t = { 0 };

    limber_plan_print(p, &t);
    fputs(t.s ? t.s : "", now.plan);
    limber_text_clear(&t);
}

/* Collects the constants with which the real backend specialises its templates. */
static bool keep_config(const struct plan *p, const struct target *t, struct diag *d)
{
    struct blob bytes = { 0 };

    if (!now.real->code)
        return true;
    if (!now.real->code->key(p, t, &bytes, d))
        return false;
    fwrite(bytes.data, bytes.size, 1, now.config);
    free(bytes.data);
    return true;
}

/* Collects the generated CUDA source of a plan. */
static bool keep_source(const struct plan *p, const struct target *t, struct diag *d)
{
    struct cuda_config config;
    struct text source = { 0 };
    bool ok = limber_cuda_config(p, t, &config, d) && limber_cuda_source(p, &config, &source, d);

    fputs(ok ? source.s : "", now.code);
    limber_text_clear(&source);
    return ok;
}

/* Cache of generated code, by the text of the plan after all passes: many problems differ only
 * in data and strides, and so have the same plan. */
static struct compiled {
    struct compiled *next;
    const struct machine_text *machine;
    char *plan, *code;
    size_t code_size;
    struct blob blob;
} *known;

/* Returns the code for a plan on the current machine, from the cache or compiled now.  NULL if
 * compilation fails. */
static struct compiled *compiled_for(const char *plan, const struct plan *p, const struct target *t,
                                     struct diag *d)
{
    struct compiled *c;
    struct dump mine = { keep_code, NULL, "kernel.s" };
    FILE *code;
    bool ok;

    for (c = known; c; c = c->next)
        if (c->machine == now.machine && strcmp(c->plan, plan) == 0)
            return c;
    c = calloc(1, sizeof *c);
    mine.user = code = open_memstream(&c->code, &c->code_size);
    ok = now.real->compile(p, t, &mine, &c->blob, d);
    fclose(code);
    if (!ok) {
        free(c->code);
        free(c);
        return NULL;
    }
    c->machine = now.machine;
    c->plan = strdup(plan);
    c->next = known;
    return known = c;
}

void corpus_end(void)
{
    for (struct compiled *c = known, *next; c; c = next) {
        next = c->next;
        free(c->plan);
        free(c->code);
        free(c->blob.data);
        free(c);
    }
    known = NULL;
}

/* Writes the machine's code for a plan to the recorded code; *blob is what can be launched. */
static bool keep_compiled(const char *plan, const struct plan *p, const struct target *t,
                          struct blob *blob, struct diag *d)
{
    struct compiled *c = compiled_for(plan, p, t, d);

    if (!c)
        return false;
    fwrite(c->code, c->code_size, 1, now.code);
    *blob = c->blob;
    return true;
}

/* Compiles a plan for the machine and for the interpreter.  The blob has the size of the machine's
 * code, that code, and the interpreter's code. */
static bool compile(const struct plan *p, const struct target *t, const struct dump *dump,
                    struct blob *out, struct diag *d)
{
    struct blob first = { 0 }, second = { 0 };
    uint64_t size;
    bool ok;

    (void)dump;
    keep_plan(p);
    ok = limber_backend_interp.compile(p, t, NULL, &second, d) && keep_config(p, t, d) &&
         (now.machine->major ?
              keep_source(p, t, d) :
              !now.machine->target || keep_compiled((const char *)second.data, p, t, &first, d));
    if (ok) {
        size = first.size;
        out->size = sizeof size + first.size + second.size;
        out->data = malloc(out->size);
        memcpy(out->data, &size, sizeof size);
        if (size)
            memcpy(out->data + sizeof size, first.data, first.size);
        memcpy(out->data + sizeof size + first.size, second.data, second.size);
    }
    free(second.data);
    return ok;
}

/* Loads the machine's code if this computer can execute it, else the interpreter's. */
static bool load(const unsigned char *data, size_t size, struct kernel **out, struct diag *d)
{
    struct kernel *k = calloc(1, sizeof *k);
    struct diag ignored = { 0 };
    uint64_t first;
    bool ok = false;

    memcpy(&first, data, sizeof first);
    if (first) {
        k->by = now.real;
        ok = !now.lacks && k->by->load(data + sizeof first, first, &k->inner, &ignored);
        now.here = now.here && ok;
    }
    if (!ok) {
        k->by = &limber_backend_interp;
        ok = k->by->load(data + sizeof first + first, size - sizeof first - first, &k->inner, d);
    }
    if (!ok)
        free(k);
    *out = ok ? k : NULL;
    return ok;
}

/* Launches a kernel.  A dry call (it only counts overflows before anything is stored) finds no
 * overflow here, because the interpreter, which executes in a GPU's place, counts overflows only
 * after it has stored. */
static bool launch(struct kernel *k, struct call *c, struct diag *d)
{
    return c->dry ? (c->out.overflow = 0, true) : k->by->launch(k->inner, c, d);
}

static void unload(struct kernel *k)
{
    k->by->unload(k->inner);
    free(k);
}

static struct functions functions;

#ifdef LIMBER_HAVE_LLVM
/* Compiles a kernel of a fixed shape, and records its plan and its code. */
static bool compile_fixed(const struct plan *p, const struct target *t, const struct fixed *f,
                          const struct dump *dump, struct blob *out, struct diag *d)
{
    const struct dump mine = { keep_code, now.code, "kernel.s" };

    (void)dump;
    keep_plan(p);
    return now.real->cpu->fixed->compile(p, t, f, &mine, out, d);
}

/* A function in place of code that this computer cannot execute; it leaves C unchanged. */
static void multiply_nothing(const void *a, const void *b, void *c)
{
    (void)a, (void)b, (void)c;
}

/* Loads a compiled function.  If this computer cannot execute it, loads one that does not change C
 * in its place. */
static bool load_fixed(const unsigned char *data, size_t size, struct function **out, void **entry,
                       struct diag *d)
{
    const limber_kernel nothing = multiply_nothing;

    if (!now.lacks)
        return now.real->cpu->fixed->load(data, size, out, entry, d);
    now.here = false;
    *out = NULL;
    memcpy(entry, &nothing, sizeof nothing);
    return true;
}

static void unload_fixed(struct function *f)
{
    if (f)
        now.real->cpu->fixed->unload(f);
}

/* Computes small products by prebuilt code, for this computer's own target if it lacks instructions
 * of t. */
static int64_t small_here(const struct call *c, const struct target *t, limber_format a,
                          limber_format b, limber_format to, double allowed)
{
    struct target own;
    struct diag d = { 0 };

    if (now.lacks) {
        now.here = false;
        limber_backend_llvm.probe(&own, &d);
        t = &own;
    }
    return limber_backend_llvm.cpu->small(c, t, a, b, to, allowed);
}

/* Returns false: there is no prebuilt kernel for any plan. */
static bool no_prebuilt(const struct plan *p, const struct target *t, struct blob *out,
                        struct diag *d)
{
    (void)p, (void)t, (void)out;
    return limber_fail(d, LIMBER_STATUS_NOT_READY, "no prebuilt kernels");
}

static bool never_serves(const struct target *t)
{
    (void)t;
    return false;
}

static const struct int8_ops no_int8 = { .serves = never_serves };
static struct cpu_ops cpu;
#endif

/* names of the ways to compute a product whose code the cpu_ops of this file lack */
static const char without_code[] =
    "-vectors,-direct,-integers,-depthwise,-depthwise_exact,-depthwise_pairs";

/* Creates a context on the machine. small: small products may be computed without a plan; whole:
 * problems are not divided into parts. */
static limber_context *open_context(const struct machine_text *m, int threads, bool small,
                                    bool whole, struct diag *d)
{
    static struct backend mine;
    static const struct backend *list[] = { &mine, NULL };
    const limber_config config = { .size = sizeof(limber_config),
                                   .backend = "auto",
                                   .threads = threads,
                                   .cache_dir = "",
                                   .dump_dir = "",
                                   .verbose = -1,
                                   .partition =
                                       whole ? LIMBER_PARTITION_OFF : LIMBER_PARTITION_AUTO };
    limber_context *ctx;

    now.machine = m;
    now.here = true;
#ifdef LIMBER_HAVE_LLVM
    now.lacks = machine_features(m) & ~(limber_cpu() & features);
#else
    now.lacks = false;
#endif
    now.real = &limber_backend_interp;
    mine = (struct backend){ .name = "corpus",
                             .probe = probe,
                             .compile = compile,
                             .load = load,
                             .launch = launch,
                             .unload = unload,
                             .predict_way = m->major ? limber_backend_cuda.predict_way :
                                                       now.real->predict_way };
#ifdef LIMBER_HAVE_LLVM
    if (m->target) {
        now.real = &limber_backend_llvm;
        mine.predict_way = now.real->predict_way;
        functions = *now.real->cpu->fixed;
        functions.compile = compile_fixed;
        functions.load = load_fixed;
        functions.unload = unload_fixed;
        cpu = (struct cpu_ops){
            .fixed = &functions, .small = small_here, .int8 = &no_int8, .prebuilt = no_prebuilt
        };
        mine.cpu = &cpu;
    }
#endif
    if (m->major)
        mine.device_ops = &no_device_memory;
    setenv("LIMBER_WAYS", !small ? "-planless" : mine.cpu ? without_code : "", 1);
    return limber_context_make(&ctx, &config, list, d) ? ctx : NULL;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Returns the position of a name in a list of names; -1 if it is absent. */
static int index_of_name(const char *names, const char *name)
{
    for (int i = 0; *names; i++) {
        size_t n = strcspn(names, " ");

        if (strlen(name) == n && strncmp(names, name, n) == 0)
            return i;
        names += n + (names[n] == ' ');
    }
    return -1;
}

static enum data data_named(const char *name)
{
    for (int i = 0; i < DATA_count; i++)
        if (strcmp(data_name((enum data)i), name) == 0)
            return (enum data)i;
    return DATA_count;
}

/* Fills a matrix of rows x cols elements, row by row. left: the matrix is an operand A, else B.
 * kind: name of one of enum data; or "tiles": 8-bit integers in the first half of k, uniform
 * numbers in the second; or "lines": exponents in a range of 40 in a tenth of the lines (rows of
 * A or columns of B), 8-bit integers in the others. */
static bool fill_matrix(struct rng *r, const char *kind, limber_format f, char *p, size_t rows,
                        size_t cols, bool left)
{
    bool tiles = strcmp(kind, "tiles") == 0, lines = strcmp(kind, "lines") == 0;
    enum data data = tiles || lines ? DATA_bytes : data_named(kind);
    char *other;

    if (data == DATA_count)
        return false;
    fill(r, data, f, p, rows * cols);
    if (!tiles && !lines)
        return true;
    other = poisoned(rows * cols * f.size);
    fill(r, tiles ? DATA_unit : DATA_spread, f, other, rows * cols);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t line = left ? i : j, at = left ? j : i, length = left ? cols : rows;

            if (tiles ? at >= length / 2 : line % 10 == 3)
                memcpy(p + (i * cols + j) * f.size, other + (i * cols + j) * f.size, f.size);
        }
    free(other);
    return true;
}

/* The matrices of a batch with `parts` numbers per element (2 for complex numbers), in a layout:
 * row-major, column-major, or with padding. */
struct operand {
    limber_matrix m;
    int64_t rows, cols, step; /* step: distance of consecutive matrices, in elements */
    size_t bytes;
    char *memory;
};

/* Number of elements from the first to the last of one matrix. */
static int64_t extent(const struct operand *x)
{
    return x->rows && x->cols ?
               (x->rows - 1) * x->m.row_stride + (x->cols - 1) * x->m.col_stride + 1 :
               0;
}

/* Allocates the matrices of an operand.  layout: r (row-major), c (column-major), g (with padding
 * after rows) or s (with padding after elements).  Returns false if the layout is unknown. */
static bool lay_out(struct operand *x, char layout, limber_format f, int64_t rows, int64_t cols,
                    int64_t count, int parts)
{
    *x = (struct operand){ .m = { NULL, f, 0, 0 }, .rows = rows, .cols = cols };
    switch (layout) {
    case 'r':
        x->m.row_stride = cols;
        x->m.col_stride = 1;
        break;
    case 'c':
        x->m.row_stride = 1;
        x->m.col_stride = rows;
        break;
    case 'g':
        x->m.row_stride = cols + 3;
        x->m.col_stride = 1;
        break;
    case 's':
        x->m.row_stride = 2 * cols + 3;
        x->m.col_stride = 2;
        break;
    default: return false;
    }
    x->step = extent(x) + 5;
    x->bytes = (size_t)(x->step * count * parts) * f.size;
    x->memory = malloc(x->bytes + 1);
    memset(x->memory, 0xa5, x->bytes + 1);
    x->m.data = x->memory;
    return true;
}

/* Fills the matrices of an operand with random data.  Padding keeps its pattern.  Returns false if
 * the kind of data is unknown. */
static bool fill_operand(struct rng *r, const char *kind, struct operand *x, int64_t count,
                         int parts, bool left)
{
    size_t size = x->m.format.size * (size_t)parts, n = (size_t)(x->rows * x->cols);
    char *dense = malloc(n * size + 1);
    bool ok = true;

    for (int64_t g = 0; g < count && ok; g++) {
        ok = fill_matrix(r, kind, x->m.format, dense, (size_t)x->rows,
                         (size_t)x->cols * (size_t)parts, left);
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t j = 0; j < x->cols; j++)
                memcpy(x->memory +
                           (size_t)(g * x->step + i * x->m.row_stride + j * x->m.col_stride) * size,
                       dense + (size_t)(i * x->cols + j) * size, size);
    }
    free(dense);
    return ok;
}

/* Writes a result's bits.  All NaN are written alike, because it is unspecified which one
 * occurs. */
static void write_bits(FILE *out, limber_format f, const char *p, size_t bytes)
{
    static const char nan[16] = "NaN";
    limber_format f64 = named("f64");

    for (size_t i = 0; i + f.size <= bytes; i += f.size) {
        double x = 0;
        bool is_nan =
            f.kind != LIMBER_KIND_INT && f.kind != LIMBER_KIND_UINT &&
            limber_convert(&x, f64, p + i, f, 1, LIMBER_ROUND_NEAREST) == LIMBER_STATUS_OK &&
            isnan(x);

        fwrite(is_nan ? nan : p + i, f.size, 1, out);
    }
}

/* ---- parsing a problem ----------------------------------------------------------------------- */

/* A problem of the corpus: the line's request, its operands, and what is recorded. */
struct work {
    struct words *w;
    /* planner: a context with one thread, which makes the plans, since predicted times depend on
     * the number of threads */
    limber_context *ctx, *planner;
    limber_contract contract;
    limber_unit unit;
    limber_statistics statistics;
    int64_t m, n, k;
    limber_format fa, fb, fc;
    struct operand a, b, c;
    char alpha[32], beta[32]; /* two numbers for complex products */
    bool has_alpha, has_beta;
    int parts; /* 1, or 2 for complex numbers */
    int64_t count;
    limber_report report;
    limber_part part[LIMBER_PARTS];
    FILE *told, *bits;
    char *why;
};

static bool refuse_value(struct work *x, const char *what, const char *value)
{
    snprintf(x->why, 256, "%.60s \"%.150s\" is not known", what, value);
    return false;
}

/* Reads a format from the line's word `key`. */
static bool format_of(struct work *x, const char *key, const char *otherwise, limber_format *f)
{
    const char *name = word(x->w, key, otherwise);

    return limber_format_named(name, f) == LIMBER_STATUS_OK || refuse_value(x, key, name);
}

/* Parses the contract and its options.  If a word is unknown, sets the reason and returns false. */
static bool read_contract(struct work *x)
{
    static const char promises[] = "native bits correct exact fast simulate reproducible";
    const char *s = word(x->w, "contract", "native"), *split = word(x->w, "split", "any");
    char name[16] = "";
    size_t n = strcspn(s, "=");
    int promise;

    snprintf(name, sizeof name, "%.*s", (int)n, s);
    promise = index_of_name(promises, name);
    x->contract =
        (limber_contract){ .size = sizeof(limber_contract),
                           .promise = (limber_promise)promise,
                           .scheme = word(x->w, "scheme", NULL),
                           .slices = (int)number(x->w, "slices", 0),
                           .split = (limber_split)index_of_name("any ahead inside", split) };
    if (promise < 0 || (int)x->contract.split < 0)
        return refuse_value(x, "contract", s);
    if (promise == LIMBER_CONTRACT_BITS)
        x->contract.bits = s[n] ? atoi(s + n + 1) : 0;
    if (promise == LIMBER_CONTRACT_SIMULATE) {
        if (limber_unit_parse(s[n] ? s + n + 1 : "", &x->unit) != LIMBER_STATUS_OK)
            return refuse_value(x, "unit", limber_error_text());
        x->contract.unit = &x->unit;
        if (number(x->w, "statistics", 0))
            x->contract.statistics = &x->statistics;
    }
    return true;
}

/* Parses a scalar in C's format, or in i64 for integers. */
static void read_scalar(struct work *x, const char *key, char *to, bool *has)
{
    bool integer = x->fc.kind == LIMBER_KIND_INT || x->fc.kind == LIMBER_KIND_UINT;
    limber_format f = integer ? named("i64") : x->fc;
    double v[2];

    *has = word(x->w, key, NULL) != NULL;
    numbers(x->w, key, 0, v, 2);
    if (!strchr(word(x->w, key, ""), ','))
        v[1] = 0;
    limber_convert(to, f, v, named("f64"), 2, LIMBER_ROUND_NEAREST);
}

/* Reads the formats of the matrices, alpha and beta. */
static bool read_formats(struct work *x)
{
    if (!format_of(x, "a", "f64", &x->fa) || !format_of(x, "b", word(x->w, "a", "f64"), &x->fb) ||
        !format_of(x, "c", word(x->w, "a", "f64"), &x->fc))
        return false;
    read_scalar(x, "alpha", x->alpha, &x->has_alpha);
    read_scalar(x, "beta", x->beta, &x->has_beta);
    return true;
}

static const void *alpha(const struct work *x)
{
    return x->has_alpha ? x->alpha : NULL;
}

static const void *beta(const struct work *x)
{
    return x->has_beta ? x->beta : NULL;
}

/* Fills both operands with the data that the line names. */
static bool fill_all(struct work *x, bool left_is_lines)
{
    const char *data = word(x->w, "data", "unit"), *data_b = word(x->w, "data_b", data);
    struct rng r = { (uint64_t)number(x->w, "seed", 1) };

    return (fill_operand(&r, data, &x->a, x->count, x->parts, left_is_lines) ||
            refuse_value(x, "data", data)) &&
           (fill_operand(&r, data_b, &x->b, x->count, x->parts, false) ||
            refuse_value(x, "data_b", data_b)) &&
           fill_operand(&r, "unit", &x->c, x->count, x->parts, true);
}

/* Parses sizes, formats and layouts of a product, and makes its operands. */
static bool read_matrices(struct work *x)
{
    const char *layout = word(x->w, "layout", "rrr");

    x->m = number(x->w, "m", 7);
    x->n = number(x->w, "n", 9);
    x->k = number(x->w, "k", 33);
    x->count = number(x->w, "count", 1);
    return read_formats(x) &&
           ((strlen(layout) == 3 &&
             lay_out(&x->a, layout[0], x->fa, x->m, x->k, x->count, x->parts) &&
             lay_out(&x->b, layout[1], x->fb, x->k, x->n, x->count, x->parts) &&
             lay_out(&x->c, layout[2], x->fc, x->m, x->n, x->count, x->parts)) ||
            refuse_value(x, "layout", layout)) &&
           fill_all(x, true);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Writes the plan's text, or the error if there is none, and frees it. */
static void tell_plan(struct work *x, limber_status s, char **text)
{
    fprintf(x->told, "%s\n", s == LIMBER_STATUS_OK ? *text : limber_error_text());
    limber_free(*text);
}

/* Computes a product.  If the line asks for prepared operands, computes it twice with them, and
 * writes the bits of both results. */
static limber_status run_gemm(struct work *x)
{
    const char *prepared = word(x->w, "prepared", NULL);
    limber_prepared *a = NULL, *b = NULL;
    limber_status s = LIMBER_STATUS_OK;
    char *text = NULL;

    tell_plan(x,
              gemm_plan(x->planner, &x->contract, x->m, x->n, x->k, alpha(x), x->a.m, x->b.m,
                        beta(x), output_of(x->c.m), &text, NULL),
              &text);
    if (!prepared)
        return limber_gemm(x->ctx, &x->contract, x->m, x->n, x->k, alpha(x), x->a.m, x->b.m,
                           beta(x), output_of(x->c.m), &x->report);
    if (strchr(prepared, 'a'))
        s = limber_prepare(x->ctx, x->a.m, x->m, x->k, LIMBER_SIDE_A, NULL, &a);
    if (s == LIMBER_STATUS_OK && strchr(prepared, 'b'))
        s = limber_prepare(x->ctx, x->b.m, x->k, x->n, LIMBER_SIDE_B, NULL, &b);
    /* the first call makes limbs, the second one uses them */
    for (int i = 0; i < 2 && s == LIMBER_STATUS_OK; i++) {
        s = gemm_prepared(x->ctx, &x->contract, x->m, x->n, x->k, alpha(x), a, x->a.m, b, x->b.m,
                          beta(x), output_of(x->c.m), &x->report);
        write_bits(x->bits, x->fc, x->c.memory, x->c.bytes);
    }
    limber_prepared_free(a);
    limber_prepared_free(b);
    return s;
}

/* Computes a batch of products, whose matrices are at constant distances or at given addresses. */
static limber_status run_batch(struct work *x)
{
    bool shared = number(x->w, "shared", 0), addresses = number(x->w, "addresses", 0);
    limber_batch batch = { .size = sizeof(limber_batch),
                           x->count,
                           x->a.step,
                           shared ? 0 : x->b.step,
                           x->c.step,
                           NULL,
                           NULL,
                           NULL };
    const void *pa[16], *pb[16];
    void *pc[16];

    for (int64_t g = 0; addresses && g < x->count && g < 16; g++) {
        int64_t h = x->count - 1 - g;

        pa[g] = x->a.memory + (size_t)(h * x->a.step) * x->fa.size;
        pb[g] = x->b.memory + (size_t)(g * x->b.step) * x->fb.size;
        pc[g] = x->c.memory + (size_t)(h * x->c.step) * x->fc.size;
    }
    if (addresses)
        batch = (limber_batch){
            .size = sizeof(limber_batch), x->count < 16 ? x->count : 16, 0, 0, 0, pa, pb, pc
        };
    return gemm_batch(x->ctx, &x->contract, NULL, &batch, x->m, x->n, x->k, alpha(x), x->a.m,
                      x->b.m, beta(x), output_of(x->c.m), &x->report);
}

static limber_status run_complex(struct work *x)
{
    const char *conj = word(x->w, "conj", "");

    return gemm_complex(x->ctx, &x->contract, NULL, x->m, x->n, x->k, alpha(x), x->a.m,
                        strchr(conj, 'a') != NULL, x->b.m, strchr(conj, 'b') != NULL, beta(x),
                        output_of(x->c.m), &x->report, (int)number(x->w, "products", 0));
}

static limber_status run_shape(struct work *x)
{
    limber_kernel f;
    limber_status s = limber_bind_shape(
        x->ctx, &x->contract, x->m, x->n, x->k, x->a.m, x->b.m, output_of(x->c.m),
        (int)number(x->w, "add", 0) ? LIMBER_ACCUMULATE_ADD : LIMBER_ACCUMULATE_NONE, &f);

    if (s == LIMBER_STATUS_OK)
        f(x->a.memory, x->b.memory, x->c.memory);
    return s;
}

/* Parses a convolution and makes its tensors. */
static bool read_window(struct work *x, limber_conv *v)
{
    const char *layout = word(x->w, "layout", "nchw");
    double stride[2], dilate[2], pad[4];
    int64_t oh, ow;

    numbers(x->w, "stride", 1, stride, 2);
    numbers(x->w, "dilate", 1, dilate, 2);
    numbers(x->w, "pad", 0, pad, 4);
    *v =
        (limber_conv){ .size = sizeof(limber_conv),
                       .n = number(x->w, "n", 1),
                       .c = number(x->w, "channels", 3),
                       .h = number(x->w, "h", 7),
                       .w = number(x->w, "w", 6),
                       .o = number(x->w, "filters", 5),
                       .r = number(x->w, "r", 3),
                       .s = number(x->w, "s", 3),
                       .stride = { (int64_t)stride[0], (int64_t)stride[1] },
                       .dilate = { (int64_t)dilate[0], (int64_t)dilate[1] },
                       .pad = { (int64_t)pad[0], (int64_t)pad[1], (int64_t)pad[2],
                                (int64_t)pad[3] },
                       .groups = number(x->w, "groups", 1),
                       .layout = strcmp(layout, "nhwc") ? LIMBER_LAYOUT_NCHW : LIMBER_LAYOUT_NHWC };
    x->count = 1;
    if (limber_conv_output(v, &oh, &ow) != LIMBER_STATUS_OK)
        return refuse_value(x, "window", limber_error_text());
    return read_formats(x) && lay_out(&x->a, 'r', x->fa, v->n, v->c * v->h * v->w, 1, 1) &&
           lay_out(&x->b, 'r', x->fb, v->o, v->c / v->groups * v->r * v->s, 1, 1) &&
           lay_out(&x->c, 'r', x->fc, v->n, v->o * oh * ow, 1, 1) && fill_all(x, false);
}

static limber_status run_conv(struct work *x, const limber_conv *v)
{
    char *text = NULL;

    tell_plan(x,
              conv2d_plan(x->planner, &x->contract, v, alpha(x), x->a.memory, x->fa, x->b.memory,
                          x->fb, beta(x), x->fc, &text, NULL),
              &text);
    return limber_conv2d(x->ctx, &x->contract, v, alpha(x), x->a.memory, x->fa, x->b.memory, x->fb,
                         beta(x), x->c.memory, x->fc, &x->report);
}

/* ---- outcomes -------------------------------------------------------------------------------- */

/* Writes the plans before all passes, one for each part of the product. */
static void write_stated(struct work *x, FILE *out)
{
    for (int i = 0; i < (x->report.parts ? x->report.parts : 1); i++) {
        const char *key = x->report.parts ? x->report.part[i].kernel : x->report.kernel;
        char *plan = NULL;

        if (*key && limber_kernel_plan(x->ctx, key, &plan) == LIMBER_STATUS_OK)
            fputs(plan, out);
        limber_free(plan);
    }
}

/* Writes the report's fields that do not depend on the machine's speed. */
static void write_report(struct work *x)
{
    const limber_report *r = &x->report;

    fprintf(x->told, "scheme %s, rows %d, pruned %d, bound %a, parts %d\n", r->scheme, r->rows,
            r->pruned, r->bound, r->parts);
    for (int i = 0; i < r->parts; i++)
        fprintf(x->told, "part %s, rows %d, bound %a, %lld x %lld, share %a\n", r->part[i].scheme,
                r->part[i].rows, r->part[i].bound, (long long)r->part[i].m, (long long)r->part[i].n,
                r->part[i].share);
}

/* Writes the counts of rounding events, if the contract counts them. */
static void write_statistics(struct work *x)
{
    const limber_statistics *s = &x->statistics;

    if (x->contract.statistics)
        fprintf(x->bits, "%lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld",
                (long long)s->products, (long long)s->nonzero, (long long)s->mul_inexact,
                (long long)s->mul_underflow, (long long)s->mul_overflow, (long long)s->swamped,
                (long long)s->partly_swamped, (long long)s->sum_overflow, (long long)s->outer_sums,
                (long long)s->outer_swamped, (long long)s->outer_partly);
}

/* Writes the status of a refused call, and "!" if the call has changed C.  C is not checked for
 * GPUs, since the interpreter in their place finds an overflow only after it has stored results. */
static void write_refusal(struct work *x, limber_status s, const char *before)
{
    bool changed = memcmp(before, x->c.memory, x->c.bytes) != 0;

    fprintf(x->told, "%s\n", limber_error_text());
    fprintf(x->bits, "%s%s", limber_status_name(s), changed && !now.machine->major ? "!" : "");
}

/* Computes the problem and writes the outcome. */
static void run(struct work *x, const limber_conv *window, FILE *stated)
{
    char *before = malloc(x->c.bytes + 1);
    limber_status s;

    memcpy(before, x->c.memory, x->c.bytes);
    s = window                         ? run_conv(x, window) :
        !strcmp(x->w->verb, "gemm")    ? run_gemm(x) :
        !strcmp(x->w->verb, "batch")   ? run_batch(x) :
        !strcmp(x->w->verb, "complex") ? run_complex(x) :
                                         run_shape(x);
    if (s == LIMBER_STATUS_OK) {
        write_stated(x, stated);
        write_report(x);
        write_bits(x->bits, x->fc, x->c.memory, x->c.bytes);
        write_statistics(x);
        if (x->report.recomputed) /* only compiled kernels count recomputed elements */
            fprintf(x->bits, " recomputed %lld", (long long)x->report.recomputed);
    } else {
        write_refusal(x, s, before);
    }
    free(before);
}

/* Computes a line's problem for a machine, and collects plans, code and bits in o.  Returns false,
 * with a reason in `why`, if the line is invalid. */
bool corpus_run(struct words *w, const char *machine, int threads, struct outcome *o, char why[256])
{
    static const char verbs[] = "gemm batch complex shape conv";
    struct work x = { .w = w,
                      .parts = strcmp(w->verb, "complex") ? 1 : 2,
                      .why = why,
                      .contract = LIMBER_CONTRACT_INIT,
                      .unit = LIMBER_UNIT_INIT,
                      .statistics = LIMBER_STATISTICS_INIT,
                      .report = LIMBER_REPORT_INIT };
    const struct machine_text *m = machine_named(machine);
    bool conv = strcmp(w->verb, "conv") == 0;
    FILE *file[KIND_count];
    struct diag d = { 0 };
    limber_conv window;
    bool ok, small, whole;

    memset(o, 0, sizeof *o);
    x.report.part = x.part;
    x.report.part_room = LIMBER_PARTS;
    for (int i = 0; i < KIND_count; i++)
        file[i] = open_memstream(&o->text[i], &o->size[i]);
    x.told = file[KIND_told];
    x.bits = file[KIND_bits];
    now.plan = file[KIND_plan];
    now.config = file[KIND_config];
    now.code = file[KIND_code];
    ok = (index_of_name(verbs, w->verb) >= 0 || refuse_value(&x, "verb", w->verb)) &&
         read_contract(&x) && (conv ? read_window(&x, &window) : read_matrices(&x));
    small = number(w, "small", 0);
    whole = number(w, "whole", 0);
    if (ok && (!(x.ctx = open_context(m, threads, small, whole, &d)) ||
               !(x.planner = open_context(m, 1, small, whole, &d))))
        ok = refuse_value(&x, d.text, machine);
    if (ok)
        run(&x, conv ? &window : NULL, file[KIND_stated]);
    limber_destroy(x.ctx);
    limber_destroy(x.planner);
    for (int i = 0; i < KIND_count; i++)
        fclose(file[i]);
    o->here = now.here;
    free(x.a.memory);
    free(x.b.memory);
    free(x.c.memory);
    return ok;
}

void corpus_clear(struct outcome *o)
{
    for (int i = 0; i < KIND_count; i++)
        free(o->text[i]);
}

void corpus_headers(FILE *out)
{
    for (int i = 0; i < limber_cuda_header_count; i++)
        plain_c(limber_cuda_headers[i].text, out);
}

void corpus_begin(void)
{
    for (int i = 0; limber_variable_at(i); i++)
        if (strcmp(limber_variable_at(i)->name, "LIMBER_LLVM") &&
            strncmp(limber_variable_at(i)->name, "LIMBER_", 7) == 0)
            unsetenv(limber_variable_at(i)->name);
}
