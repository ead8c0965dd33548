/* SPDX-License-Identifier: BSD-3-Clause
 * Forces each way of computing.  Counters in the ways' code show that the way that report and plan
 * name has run.  If that way is disabled, another one must give the same bits. */
#include "compiler.h"
#include "engine_support.h"

#include <math.h>

#include "jit/ways.h"

#ifdef LIMBER_HAVE_LLVM
struct windows;
struct unpacked;
extern const struct backend limber_backend_llvm;

/* ---- backends' functions, counted ------------------------------------------------------------ */

enum code { VECTORS, DIRECT, DEPTHWISE, SMALL, INT8, WINDOWS, UNPACKED, LAUNCH, CODES };
/* How often each piece of code was called. */
static atomic_int counts[CODES];

/* Each counting function counts a call, and then calls the backend function in whose place it
 * stands. */
static void count_vectors(const struct vector_sums *s, const struct target *t)
{
    counts[VECTORS]++;
    limber_backend_llvm.cpu->vectors(s, t);
}

static bool count_direct(const struct fixed *f, const struct scaling *x, const struct target *t,
                         int size, const void *a, const void *b, void *c)
{
    counts[DIRECT]++;
    return limber_backend_llvm.cpu->direct(f, x, t, size, a, b, c);
}

static int64_t count_small(const struct call *c, const struct target *t, limber_format a,
                           limber_format b, limber_format to, double allowed)
{
    counts[SMALL]++;
    return limber_backend_llvm.cpu->small(c, t, a, b, to, allowed);
}

static void count_depthwise(const struct depthwise *d, const struct target *t,
                            const struct depthwise_plan *p, int64_t task, void *room)
{
    counts[DEPTHWISE]++;
    limber_backend_llvm.cpu->depthwise->run(d, t, p, task, room);
}

static bool count_wide(const struct depthwise *d, const struct target *t, int64_t task,
                       float *zeros, uint8_t *unsure)
{
    counts[SMALL] += zeros != NULL;
    return limber_backend_llvm.cpu->depthwise->wide(d, t, task, zeros, unsure);
}

static bool count_int8(const struct target *t, int size, const void *x, double unit, int low,
                       int high, uint8_t *to, int64_t n)
{
    counts[INT8]++;
    return limber_backend_llvm.cpu->int8->from_floats(t, size, x, unit, low, high, to, n);
}

static bool count_launch(struct kernel *k, struct call *c, struct diag *d)
{
    counts[LAUNCH]++;
    return limber_backend_llvm.launch(k, c, d);
}

void __real_limber_windows_run(const struct windows *x, char *memory);
void __wrap_limber_windows_run(const struct windows *x, char *memory);
bool __real_limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory);
bool __wrap_limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory);

void __wrap_limber_windows_run(const struct windows *x, char *memory)
{
    counts[WINDOWS]++;
    __real_limber_windows_run(x, memory);
}

bool __wrap_limber_unpacked_run(const struct kernel *k, struct unpacked *u, char *memory)
{
    counts[UNPACKED]++;
    return __real_limber_unpacked_run(k, u, memory);
}

static void drop_line(void *user, const char *line)
{
    (void)user, (void)line;
}

/* Creates a context on the LLVM backend whose code paths count their calls.  `ways`: value of
 * LIMBER_WAYS. */
static limber_context *open_context(const char *ways)
{
    static struct backend counting;
    static struct depthwise_ops depthwise;
    static struct int8_ops int8;
    static struct cpu_ops cpu;
    static const struct backend *const list[] = { &counting, NULL };
    const limber_config config = { .size = sizeof config,
                                   .cache_dir = "",
                                   .threads = 1,
                                   .kernels = LIMBER_KERNELS_BOTH,
                                   .log = drop_line };
    limber_context *ctx;
    struct diag d = { 0 };

    depthwise = *limber_backend_llvm.cpu->depthwise;
    depthwise.run = count_depthwise;
    depthwise.wide = count_wide;
    int8 = *limber_backend_llvm.cpu->int8;
    int8.from_floats = count_int8;
    counting = limber_backend_llvm;
    cpu = *limber_backend_llvm.cpu;
    cpu.vectors = count_vectors;
    cpu.direct = count_direct;
    cpu.small = count_small;
    cpu.depthwise = &depthwise;
    cpu.int8 = &int8;
    counting.cpu = &cpu;
    counting.launch = count_launch;
    setenv("LIMBER_WAYS", ways, 1);
    if (!limber_context_make(&ctx, &config, list, &d)) {
        skip_because("%s", d.text);
    }
    /* 0: small products are also split into parts where this is predicted to pay */
    ctx->pricing.brief = 0;
    return ctx;
}

/* ---- the problem of an example --------------------------------------------------------------- */

enum contents { REAL, BYTES, UNLIKE, INTEGERS, WIDE, WIDER };

/* A call that is computed in a given way. */
struct example {
    enum way_id way;
    bool x86; /* the code exists only on x86, or is chosen only there */
    limber_promise promise;
    const char *format, *to;
    enum contents data;
    int64_t m, n, k; /* sizes of a product; 0: it is a convolution */
    int64_t groups; /* groups of a convolution; 0: it is a product */
    int codes; /* set of bits (1 << code) of the code that must run */
    int may; /* set of bits of code that may run, since it runs on some CPUs only */
};

/* clang-format off */
static const struct example examples[] = {
    { WAY_vectors, false, LIMBER_CONTRACT_NATIVE, "f64", "f64", REAL, 300, 1, 600, 0,
      1 << VECTORS },
    { WAY_vectors, false, LIMBER_CONTRACT_REPRODUCIBLE, "f32", "f32", REAL, 1, 70, 1000, 0,
      1 << VECTORS },
    { WAY_vectors, false, LIMBER_CONTRACT_NATIVE, "f64", "f64", REAL, 1, 90, 90, 0,
      1 << VECTORS },
    { WAY_direct, false, LIMBER_CONTRACT_NATIVE, "f64", "f64", REAL, 16, 16, 16, 0,
      1 << DIRECT },
    { WAY_direct, false, LIMBER_CONTRACT_NATIVE, "f64", "f64", REAL, 20, 1, 40, 0,
      1 << DIRECT },
    { WAY_direct, false, LIMBER_CONTRACT_REPRODUCIBLE, "f64", "f64", REAL, 400, 410, 32, 0,
      1 << DIRECT },
    { WAY_integers, false, LIMBER_CONTRACT_NATIVE, "i64", "i64", INTEGERS, 16, 16, 16, 0, 0 },
    { WAY_integers, true, LIMBER_CONTRACT_NATIVE, "i32", "i64", WIDER, 48, 48, 48, 0, 0 },
    { WAY_depthwise, false, LIMBER_CONTRACT_NATIVE, "f32", "f32", REAL, 0, 0, 0, 16,
      1 << DEPTHWISE },
    { WAY_pairs, false, LIMBER_CONTRACT_CORRECT, "f64", "f64", REAL, 16, 16, 16, 0,
      1 << SMALL },
    { WAY_bytes, true, LIMBER_CONTRACT_CORRECT, "f64", "f64", BYTES, 200, 200, 200, 0,
      1 << INT8 | 1 << LAUNCH, 1 << WINDOWS },
    { WAY_depthwise_exact, false, LIMBER_CONTRACT_CORRECT, "f32", "f32", INTEGERS, 0, 0, 0, 16,
      1 << DEPTHWISE },
    { WAY_depthwise_pairs, false, LIMBER_CONTRACT_CORRECT, "f32", "f32", REAL, 0, 0, 0, 16,
      1 << SMALL },
    { WAY_parts, true, LIMBER_CONTRACT_CORRECT, "f64", "f64", UNLIKE, 512, 512, 512, 0,
      1 << LAUNCH },
    { WAY_windows, true, LIMBER_CONTRACT_NATIVE, "i8", "i32", BYTES, 0, 0, 0, 1,
      1 << WINDOWS | 1 << LAUNCH },
    { WAY_unpacked, false, LIMBER_CONTRACT_NATIVE, "f64", "f64", REAL, 20, 400, 400, 0,
      1 << UNPACKED | 1 << LAUNCH },
    { WAY_packed, false, LIMBER_CONTRACT_CORRECT, "f64", "f64", REAL, 160, 160, 160, 0,
      1 << LAUNCH },
    { WAY_packed, true, LIMBER_CONTRACT_NATIVE, "i32", "i64", WIDE, 160, 160, 160, 0,
      1 << LAUNCH },
};
/* clang-format on */

/* The shape of all convolutions; the example sets the number of groups. */
static const limber_conv shape = { .size = sizeof shape,
                                   .n = 1,
                                   .c = 16,
                                   .h = 12,
                                   .w = 12,
                                   .o = 16,
                                   .r = 3,
                                   .s = 3,
                                   .stride = { 1, 1 },
                                   .pad = { 1, 1, 1, 1 },
                                   .dilate = { 1, 1 } };

/* Returns element i of an operand of `all` elements, with contents of the kind `data`. */
static double value_of(enum contents data, uint64_t *seed, int64_t i, int64_t all)
{
    const int64_t byte = (int64_t)((*seed = *seed * 6364136223846793005u + 1) >> 57) - 64;
    const double x = 1 + (double)(*seed >> 12 & 0xffffffffff) * 0x1p-40;

    switch (data) {
    case BYTES: return (double)byte;
    case INTEGERS: return (double)(byte * 7);
    /* integers of 22 and of 30 bits, whose sums fit and do not fit 64 bits */
    case WIDE: return (double)byte * 0x1p15;
    case WIDER: return (double)byte * 0x1p23;
    /* a tenth of the elements have all significant bits and various exponents, the others are
     * bytes */
    case UNLIKE: return i < all / 10 ? ldexp(x, (int)byte * 2) : (double)byte;
    default: return x;
    }
}

/* The operands of an example, and the call. */
struct operands {
    char *memory[3]; /* memory of a, b and c; owned */
    size_t bytes;
    limber_problem p;
    limber_contract contract;
    limber_conv conv;
};

/* Allocates an operand with these contents. */
static char *make_filled(const char *format, enum contents data, int64_t count, uint64_t seed)
{
    const limber_format f = named(format);
    char *to = malloc((size_t)count * (size_t)f.size);

    assert_non_null(to);
    for (int64_t i = 0; i < count; i++) {
        const double x = value_of(data, &seed, i, count);

        assert_int_equal(
            limber_convert(to + i * f.size, f, &x, LIMBER_F64, 1, LIMBER_ROUND_NEAREST), 0);
    }
    return to;
}

/* Allocates the operands of an example, and fills in its problem. */
static void make_operands(const struct example *e, struct operands *o)
{
    const limber_conv *s = &shape;
    const limber_format f = named(e->format), to = named(e->to);
    const bool conv = e->groups > 0;
    const int64_t a = conv ? s->n * s->c * s->h * s->w : e->m * e->k;
    const int64_t b = conv ? s->o * (s->c / e->groups) * s->r * s->s : e->k * e->n;
    const int64_t c = conv ? s->n * s->o * s->h * s->w : e->m * e->n;

    o->conv = shape;
    o->conv.groups = e->groups;
    o->contract = (limber_contract)LIMBER_CONTRACT_INIT;
    o->contract.promise = e->promise;
    o->memory[0] = make_filled(e->format, e->data, a, 1);
    o->memory[1] = make_filled(e->format, e->data == UNLIKE ? BYTES : e->data, b, 2);
    o->memory[2] = malloc(o->bytes = (size_t)c * (size_t)to.size);
    assert_non_null(o->memory[2]);
    o->p = conv ? conv_problem(&o->contract, &o->conv, NULL, o->memory[0], f, o->memory[1], f, NULL,
                               o->memory[2], to) :
                  gemm_problem(&o->contract, e->m, e->n, e->k, NULL,
                               (limber_matrix){ o->memory[0], f, e->k, 1 },
                               (limber_matrix){ o->memory[1], f, e->n, 1 }, NULL,
                               (limber_output){ o->memory[2], to, e->n, 1 });
}

/* ---- each way runs its own code -------------------------------------------------------------- */

/* Returns the set of code paths that were called, with one bit for each. */
static int codes_that_ran(void)
{
    int ran = 0;

    for (int i = 0; i < CODES; i++)
        ran |= (counts[i] > 0) << i;
    return ran;
}

/* Computes the problem.  The code path that computes it must be the one that the plan names,
 * also when a log is written. */
static void run_as_planned(limber_context *ctx, struct operands *o, const struct example *e,
                           limber_report *report)
{
    limber_report plan = LIMBER_REPORT_INIT;
    char *text, said[40];

    *report = (limber_report)LIMBER_REPORT_INIT;
    assert_int_equal(limber_plan(ctx, &o->p, &text, &plan), 0);
    memset(o->memory[2], 0x55, o->bytes);
    memset(counts, 0, sizeof counts);
    if (limber_run(ctx, &o->p, report))
        fail_msg("%s: %s", limber_way_name(e->way), limber_error_text());
    if (strcmp(plan.way, report->way))
        fail_msg("%s: the plan says %s, and %s ran", limber_way_name(e->way), plan.way,
                 report->way);
    ctx->tells.verbose = 1; /* a log must change nothing */
    *report = (limber_report)LIMBER_REPORT_INIT;
    assert_int_equal(limber_run(ctx, &o->p, report), 0);
    ctx->tells.verbose = 0;
    if (strcmp(plan.way, report->way))
        fail_msg("%s: with a log %s runs", limber_way_name(e->way), report->way);
    snprintf(said, sizeof said, "; way=%s", report->way);
    if (strcmp(report->way, "parts") && !strstr(text, said))
        fail_msg("the text does not say \"%s\":\n%s", said, text);
    limber_free(text);
}

/* For each code path, computes an example that this path must compute.  If LIMBER_WAYS forbids
 * the path, another one must give the same bits. */
static void each_planned_way_runs(void **state)
{
    limber_context *ctx = open_context("");

    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        const struct example *e = &examples[i];
        const char *name = limber_way_name(e->way);
        char without[40], *c;
        limber_context *other;
        limber_report r;
        struct operands o;

#if !defined(__x86_64__)
        if (e->x86)
            continue;
#endif
        make_operands(e, &o);
        run_as_planned(ctx, &o, e, &r);
        if (strcmp(r.way, name))
            fail_msg("%s is to compute it, but %s does", name, r.way);
        if ((codes_that_ran() & ~e->may) != e->codes)
            fail_msg("%s: code of ways 0x%x ran, not 0x%x", name, codes_that_ran(), e->codes);
        if (e->way == WAY_parts)
            assert_true(counts[LAUNCH] > 1);
        c = malloc(o.bytes);
        memcpy(c, o.memory[2], o.bytes);
        if (e->way != WAY_packed) {
            snprintf(without, sizeof without, "-%s", name);
            other = open_context(without);
            run_as_planned(other, &o, e, &r);
            if (!strcmp(r.way, name))
                fail_msg("%s runs though it was taken out", name);
            if (memcmp(c, o.memory[2], o.bytes))
                fail_msg("%s and %s give unlike bits", name, r.way);
            limber_destroy(other);
        }
        for (int j = 0; j < 3; j++)
            free(o.memory[j]);
        free(c);
    }
    limber_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_planned_way_runs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("skipped: this build has no LLVM backend");
    return 77;
}
#endif
