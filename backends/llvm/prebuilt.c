/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the library's prebuilt kernel for a configuration. */
#include "backends/llvm/llvm.h"

#if defined(LIMBER_HAVE_PREBUILT)
#include "prebuilt_rows.h"

/* CPU features that each instruction set needs. */
enum {
    NEEDS_avx2 = CPU_avx2 | CPU_fma,
    NEEDS_avxvnni = NEEDS_avx2 | CPU_avxvnni,
    NEEDS_avx512 = NEEDS_avx2 | CPU_avx512,
    NEEDS_avx512vnni = NEEDS_avx512 | CPU_vnni,
    NEEDS_amx = NEEDS_avx512vnni | CPU_amx,
    NEEDS_neon = CPU_neon,
    NEEDS_dotprod = NEEDS_neon | CPU_dotprod,
    NEEDS_i8mm = NEEDS_dotprod | CPU_i8mm,
    NEEDS_sve256 = NEEDS_neon | CPU_sve256,
    NEEDS_sve512 = NEEDS_neon | CPU_sve512,
    NEEDS_sve256i8mm = NEEDS_sve256 | CPU_i8mm,
    NEEDS_sve512i8mm = NEEDS_sve512 | CPU_i8mm,
    NEEDS_sme256 = NEEDS_neon | CPU_sme256,
    NEEDS_sme512 = NEEDS_neon | CPU_sme512
};

#define DECLARE(isa, unit, kind, columns, ...) \
    kernel_pack limber_pack_##isa##_##unit##_##kind##_##columns; \
    kernel_block limber_block_##isa##_##unit##_##kind##_##columns;
LIMBER_PREBUILT(DECLARE)

#define ROW(isa, unit, kind, columns, mr, nr, group, matrix) \
    { NEEDS_##isa, \
      UNIT_##unit, \
      LIMB_KIND_##kind, \
      columns, \
      mr, \
      nr, \
      group, \
      matrix, \
      limber_pack_##isa##_##unit##_##kind##_##columns, \
      limber_block_##isa##_##unit##_##kind##_##columns },
static const struct prebuilt {
    unsigned cpu;
    int unit, limb_kind, columns, mr, nr, group, matrix;
    kernel_pack *pack;
    kernel_block *block;
} prebuilt[] = { LIMBER_PREBUILT(ROW) };

/* True if the kernel has this kind of limbs.  Residue kernels with groups of two (CPUs without
 * VNNI) serve 12-bit residues only. */
static bool has_limbs(const struct prebuilt *p, const struct kernel_config *k)
{
    return p->limb_kind == k->side[0].limb_kind &&
           (p->limb_kind != LIMB_KIND_residues || (p->group == 2) == (k->wide != 0));
}

/* Units of narrower floats compute in FP32. */
static int prebuilt_unit(const struct kernel_config *k)
{
    return k->unit == UNIT_f64 || k->unit == UNIT_i8 ? k->unit : UNIT_f32;
}

bool limber_prebuilt_find(const struct kernel_config *k, unsigned cpu, kernel_pack **pack,
                          kernel_block **block)
{
    if (k->unit == UNIT_model || k->unit == UNIT_exact)
        return false;
    for (size_t i = 0; i < COUNT(prebuilt); i++) {
        const struct prebuilt *p = &prebuilt[i];

        if (!(p->cpu & ~cpu) && p->unit == prebuilt_unit(k) && has_limbs(p, k) &&
            p->columns >= k->columns && p->mr == k->mr && p->nr == k->nr && p->group == k->group &&
            p->matrix == k->matrix &&
            limber_same_sign(p->unit, p->group, p->matrix, p->cpu) == k->same_sign) {
            *pack = p->pack;
            *block = p->block;
            return true;
        }
    }
    return false;
}

/* The best code for this CPU; NULL if there is none. */
#if defined(__aarch64__)
#define CODE_FOR(cpu, name) (!(NEEDS_neon & ~(cpu)) ? limber_##name##_neon : NULL)
#else
#define CODE_FOR(cpu, name) \
    (!(NEEDS_avx512 & ~(cpu)) ? limber_##name##_avx512 : \
     !(NEEDS_avx2 & ~(cpu))   ? limber_##name##_avx2 : \
                                NULL)
#endif

bool limber_direct(const struct fixed *f, const struct scaling *x, const struct target *t, int size,
                   const void *a, const void *b, void *c)
{
    kernel_direct *run = CODE_FOR(limber_cpu_of(t), direct_run);

    if (run)
        run(f, x, size, a, b, c);
    return run != NULL;
}

#define EIGHT(x) x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7
#define SIXTY_FOUR(x) \
    EIGHT(x), EIGHT(x + 8), EIGHT(x + 16), EIGHT(x + 24), EIGHT(x + 32), EIGHT(x + 40), \
        EIGHT(x + 48), EIGHT(x + 56)
const int64_t limber_direct_along[LIMBER_SMALL_K] = { SIXTY_FOUR(0), SIXTY_FOUR(64),
                                                      SIXTY_FOUR(128), SIXTY_FOUR(192) };
#undef EIGHT
#undef SIXTY_FOUR

kernel_strip *limber_strip_code(unsigned cpu)
{
    return CODE_FOR(cpu, direct_strip);
}

struct bytes_code limber_bytes_code(unsigned cpu)
{
#if !defined(__aarch64__)
    if (!(NEEDS_avx512vnni & ~cpu))
        return (struct bytes_code){ limber_bytes_avx512vnni, limber_bytes_join_avx512vnni,
                                    limber_bytes_planes_avx512vnni, 4, BYTES_UNITS };
    if (!(NEEDS_avxvnni & ~cpu))
        return (struct bytes_code){ limber_bytes_avxvnni, limber_bytes_join_avxvnni,
                                    limber_bytes_planes_avxvnni, 4, 1 };
    if (!(NEEDS_avx2 & ~cpu) && !(cpu & CPU_avx512)) /* AVX-512 has vectors twice as wide */
        return (struct bytes_code){ limber_bytes_avx2, limber_bytes_join_avx2,
                                    limber_bytes_planes_avx2, 2, 1 };
#endif
    (void)cpu;
    return (struct bytes_code){ 0 };
}

/* In order of preference. */
static const struct {
    unsigned needs;
    kernel_depthwise_cut *plan;
    kernel_depthwise_piece *run;
    kernel_depthwise_wide *wide;
} depthwise[] = {
#if defined(__aarch64__)
    { NEEDS_neon, limber_depthwise_cut_neon, limber_depthwise_piece_neon,
      limber_depthwise_wide_neon },
#else
    { NEEDS_avx512vnni, limber_depthwise_cut_avx512vnni, limber_depthwise_piece_avx512vnni,
      limber_depthwise_wide_avx512vnni },
    { NEEDS_avx512, limber_depthwise_cut_avx512, limber_depthwise_piece_avx512,
      limber_depthwise_wide_avx512 },
    { NEEDS_avx2, limber_depthwise_cut_avx2, limber_depthwise_piece_avx2,
      limber_depthwise_wide_avx2 },
#endif
};

/* Index of the best depthwise code for this CPU. */
static size_t find_depthwise(const struct target *t)
{
    unsigned cpu = limber_cpu_of(t);
    size_t i = 0;

    while (i < COUNT(depthwise) && depthwise[i].needs & ~cpu)
        i++;
    return i;
}

static bool plan_depthwise(const struct depthwise *d, const struct target *t, int workers,
                           struct depthwise_plan *plan)
{
    size_t i = find_depthwise(t);

    return i < COUNT(depthwise) && depthwise[i].plan(d, workers, plan);
}

static void run_depthwise(const struct depthwise *d, const struct target *t,
                          const struct depthwise_plan *plan, int64_t task, void *room)
{
    depthwise[find_depthwise(t)].run(d, plan, task, room);
}

static bool run_wide(const struct depthwise *d, const struct target *t, int64_t task, float *zeros,
                     uint8_t *unsure)
{
    size_t i = find_depthwise(t);

    return i < COUNT(depthwise) && depthwise[i].wide(d, task, zeros, unsure);
}

#define FUNCTIONS_FOR(cpu, name) CODE_FOR(cpu, functions_##name)
#define STEPS_FOR(cpu, name) CODE_FOR(cpu, steps_##name)
#define NARROW_FOR(cpu, name) CODE_FOR(cpu, narrow_##name)
#else
#define FUNCTIONS_FOR(cpu, name) ((void)(cpu), (kernel_functions_##name *)NULL)
#define STEPS_FOR(cpu, name) ((void)(cpu), (kernel_steps_##name *)NULL)
#define NARROW_FOR(cpu, name) ((void)(cpu), (kernel_narrow_##name *)NULL)

bool limber_prebuilt_find(const struct kernel_config *k, unsigned cpu, kernel_pack **pack,
                          kernel_block **block)
{
    (void)k, (void)cpu, (void)pack, (void)block;
    return false;
}

bool limber_direct(const struct fixed *f, const struct scaling *x, const struct target *t, int size,
                   const void *a, const void *b, void *c)
{
    (void)f, (void)x, (void)t, (void)size, (void)a, (void)b, (void)c;
    return false;
}

kernel_strip *limber_strip_code(unsigned cpu)
{
    (void)cpu;
    return NULL;
}

struct bytes_code limber_bytes_code(unsigned cpu)
{
    (void)cpu;
    return (struct bytes_code){ 0 };
}

static bool plan_depthwise(const struct depthwise *d, const struct target *t, int workers,
                           struct depthwise_plan *plan)
{
    (void)d, (void)t, (void)workers, (void)plan;
    return false;
}

static void run_depthwise(const struct depthwise *d, const struct target *t,
                          const struct depthwise_plan *plan, int64_t task, void *room)
{
    (void)d, (void)t, (void)plan, (void)task, (void)room;
}

static bool run_wide(const struct depthwise *d, const struct target *t, int64_t task, float *zeros,
                     uint8_t *unsure)
{
    (void)d, (void)t, (void)task, (void)zeros, (void)unsure;
    return false;
}
#endif

/* Computes a function of doubles in place, by code for this CPU; false if there is none. */
static bool run_function(const struct target *t, limber_function f, const struct fn_args *a,
                         double *x, int64_t n, bool single)
{
    kernel_functions_run *run = FUNCTIONS_FOR(limber_cpu_of(t), run);

    if (run)
        run((int)f, a, x, n, single);
    return run != NULL;
}

/* True if the prebuilt functions convert arrays of this format. */
static bool is_small(limber_format f)
{
    return limber_format_is_binary(f) || f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT ||
           (f.kind == LIMBER_KIND_FLOAT && !f.carried && f.size <= 2 &&
            !(f.flags & (LIMBER_FORMAT_NO_SUBNORMAL | LIMBER_FORMAT_NO_MINUS_ZERO)));
}

/* Converts elements to doubles; false if no code for this CPU does. */
static bool widen(const struct target *t, limber_format f, const void *src, double *x, int64_t n)
{
    kernel_functions_widen *run = is_small(f) ? FUNCTIONS_FOR(limber_cpu_of(t), widen) : NULL;

    if (run)
        run(f, src, x, n);
    return run != NULL;
}

/* Converts doubles to elements, rounded once; false if no code for this CPU does. */
static bool narrow(const struct target *t, limber_format f, const double *x, void *dst, int64_t n)
{
    kernel_functions_narrow *run = is_small(f) ? FUNCTIONS_FOR(limber_cpu_of(t), narrow) : NULL;

    if (run)
        run(f, x, dst, n);
    return run != NULL;
}

/* Maps elements by a table of all values; false if no code for this CPU does. */
static bool look_up(const struct target *t, const struct lookup *l, const void *src, void *dst,
                    int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_functions_look_up *run = FUNCTIONS_FOR(cpu, look_up);

#if defined(LIMBER_HAVE_PREBUILT) && !defined(__aarch64__)
    const unsigned bytes = NEEDS_avx512 | CPU_vbmi;

    if (run && l->from == 2 && l->to == 2 && limber_cpu_gathers_slowly())
        run = limber_functions_look_up_avx2; /* loads single elements instead of gathering */
    if (l->from == 1 && l->to == 1 && !(bytes & ~cpu))
        run = limber_functions_look_up_bytes;
#endif
    if (run)
        run(l, src, dst, n);
    return run != NULL;
}

const struct depthwise_ops limber_llvm_depthwise = { plan_depthwise, run_depthwise, run_wide };

/* Runs an epilogue step on arrays of binary32 (narrow) or binary64. false: no prebuilt code
 * does. */
static bool run_step(const struct target *t, const struct epilogue_step *s, bool narrow,
                     const void *x, const void *y, void *to, int64_t n)
{
    kernel_steps_run *run = STEPS_FOR(limber_cpu_of(t), run);

    return run && run(s, narrow, x, y, to, n);
}

/* Converts results x of an epilogue to f. Only binary32 (narrow) has code; false: the caller
 * converts. */
static bool store_converted(const struct target *t, bool narrow, const void *x, limber_format f,
                            void *to, int64_t n)
{
    kernel_steps_store *run = narrow ? STEPS_FOR(limber_cpu_of(t), store) : NULL;

    return run && run(x, f, to, n);
}

const struct function_ops limber_llvm_elementwise = { run_function, widen,    narrow,
                                                      look_up,      run_step, store_converted };

/* True if this CPU has code that finds bytes in floats. */
static bool narrows(const struct target *t)
{
    return NARROW_FOR(limber_cpu_of(t), bytes) != NULL;
}

/* Converts floats to bytes in units of `unit`; false if one is not a byte in [low, high]. */
static bool narrow_bytes(const struct target *t, int size, const void *x, double unit, int low,
                         int high, uint8_t *to, int64_t n)
{
    kernel_narrow_bytes *run = NARROW_FOR(limber_cpu_of(t), bytes);

    return run(size, x, unit, low, high, to, n);
}

/* Converts 32-bit sums to floats in units of the operands. */
static void widen_sums(const struct target *t, const struct widened *w)
{
    kernel_narrow_widen *run = NARROW_FOR(limber_cpu_of(t), widen);

    run(w);
}

const struct narrow_ops limber_llvm_narrow = { narrows, narrow_bytes, widen_sums };
