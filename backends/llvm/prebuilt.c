/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the library's code for a CPU: the prebuilt kernel of a configuration, and functions that
 * need no kernel. */
#include "backends/llvm/llvm.h"
#include "ir/num/prim_num.h"
#include "prebuilt_rows.h"

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
/* The prebuilt kernels, each with the CPU features that it needs, and an empty row at the end. */
static const struct prebuilt {
    unsigned cpu;
    int unit, limb_kind, columns, mr, nr, group, matrix;
    kernel_pack *pack;
    kernel_block *block;
} prebuilt[] = { LIMBER_PREBUILT(ROW){ 0 } };

/* True if the prebuilt kernel makes the limbs of this configuration.  No prebuilt kernel rounds
 * operands.  On CPUs without VNNI (groups of two) only 12-bit residues are prebuilt. */
static bool has_limbs(const struct prebuilt *p, const struct kernel_config *k)
{
    return p->limb_kind == k->side[0].limb_kind && !k->side[0].rounds &&
           (p->limb_kind != LIMB_KIND_residues || (p->group == 2) == (k->wide != 0));
}

/* Returns the unit of the prebuilt kernels for this configuration.  Floats with fewer bits than
 * FP32 are computed in FP32. */
static int prebuilt_unit(const struct kernel_config *k)
{
    return k->unit == UNIT_f64 || k->unit == UNIT_i8 ? k->unit : UNIT_f32;
}

/* Finds the prebuilt kernel with this configuration's unit, register tile and kind of limbs that
 * the CPU can run.  Returns false if there is none. */
bool limber_prebuilt_find(const struct kernel_config *k, unsigned cpu, kernel_pack **pack,
                          kernel_block **block)
{
    if (k->unit == UNIT_model || k->unit == UNIT_exact)
        return false;
    for (const struct prebuilt *p = prebuilt; p->pack; p++)
        if (!(p->cpu & ~cpu) && p->unit == prebuilt_unit(k) && has_limbs(p, k) &&
            p->columns >= k->columns && p->mr == k->mr && p->nr == k->nr && p->group == k->group &&
            p->matrix == k->matrix &&
            limber_same_sign(p->unit, p->group, p->matrix, p->cpu) == k->same_sign) {
            *pack = p->pack;
            *block = p->block;
            return true;
        }
    return false;
}

/* The library's function for the best instruction set of this CPU; NULL if there is none. */
#define CODE_FOR(cpu, name) LIMBER_BEST(LIMBER_VECTORS, cpu, limber_##name, NULL)

/* Implements cpu_ops.direct: computes a product by library code for this CPU's instruction set,
 * without making a kernel.  Returns false if there is no such code. */
bool limber_direct(const struct fixed *f, const struct scaling *x, const struct target *t, int size,
                   const void *a, const void *b, void *c)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_direct *run = CODE_FOR(cpu, direct_run);

    if (run)
        run(f, x, size, a, b, c);
    return run != NULL;
}

/* The numbers 0, 1, 2, ... as constants: limber_direct_along, the offsets of contiguous
 * elements. */
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

/* Returns the code that multiplies 8-bit integers on this CPU; its pointers are NULL if there is
 * none. */
struct bytes_code limber_bytes_code(unsigned cpu)
{
/* kernels for AVX-512 are faster than this code with vectors of half the length */
#define RETURN_CODE(isa, cpu) \
    if (!(NEEDS_##isa & ~(cpu)) && (BITS_##isa > 256 || !((cpu) & CPU_avx512))) \
        return (struct bytes_code){ limber_bytes_##isa, limber_bytes_join_##isa, \
                                    limber_bytes_planes_##isa, GROUP_##isa, \
                                    BITS_##isa > 256 ? BYTES_UNITS : 1 };
    LIMBER_BYTES(RETURN_CODE, cpu)
#undef RETURN_CODE
    (void)cpu;
    return (struct bytes_code){ 0 };
}

#define DEPTHWISE_FOR(cpu, name) LIMBER_BEST(LIMBER_DEPTHWISE, cpu, limber_depthwise_##name, NULL)

/* Implements depthwise_ops.plan: divides a depthwise convolution into tasks.  Returns false if the
 * library has no code for it, or a task needs too much memory. */
static bool plan_depthwise(const struct depthwise *d, const struct target *t, int workers,
                           struct depthwise_plan *plan)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_depthwise_cut *run = DEPTHWISE_FOR(cpu, cut);

    return run && run(d, workers, plan);
}

/* Implements depthwise_ops.run: computes one task of a depthwise convolution. */
static void run_depthwise(const struct depthwise *d, const struct target *t,
                          const struct depthwise_plan *plan, int64_t task, void *room)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_depthwise_piece *run = DEPTHWISE_FOR(cpu, piece);

    run(d, plan, task, room);
}

/* Implements depthwise_ops.wide: computes one channel, rounded correctly from sums in binary64. */
static bool run_wide(const struct depthwise *d, const struct target *t, int64_t task, float *zeros,
                     uint8_t *unsure)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_depthwise_wide *run = DEPTHWISE_FOR(cpu, wide);

    return run && run(d, task, zeros, unsure);
}

/* Computes a function of doubles in place.  Returns false if the library has no code for this
 * CPU. */
static bool run_function(const struct target *t, limber_function f, const struct fn_args *a,
                         double *x, int64_t n, bool single)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_functions_run *run = CODE_FOR(cpu, functions_run);

    if (run)
        run((int)f, a, x, n, single);
    return run != NULL;
}

/* True if the library has code that converts arrays of this format. */
static bool has_conversion(limber_format f)
{
    return limber_format_is_binary(f) || f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT ||
           limber_num_is_small(f);
}

/* Converts elements of format f to doubles.  Returns false if the library has no code for this
 * format and CPU. */
static bool widen(const struct target *t, limber_format f, const void *src, double *x, int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_functions_widen *run = has_conversion(f) ? CODE_FOR(cpu, functions_widen) : NULL;

    if (run)
        run(f, src, x, n);
    return run != NULL;
}

/* Converts doubles to elements of format f, rounded once.  Returns false if the library has no code
 * for this format and CPU. */
static bool narrow(const struct target *t, limber_format f, const double *x, void *dst, int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_functions_narrow *run = has_conversion(f) ? CODE_FOR(cpu, functions_narrow) : NULL;

    if (run)
        run(f, x, dst, n);
    return run != NULL;
}

/* Maps elements by a table with an entry for each bit pattern.  Returns false if the library has no
 * code for this CPU. */
static bool map_by_table(const struct target *t, const struct lookup *l, const void *src, void *dst,
                         int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_functions_look_up *run = CODE_FOR(cpu, functions_look_up);

#if defined(__x86_64__)
    const unsigned bytes = NEEDS_avx512 | CPU_vbmi;

    if (run && l->from == 2 && l->to == 2 && limber_cpu_gathers_slowly())
        /* this variant loads entries of the table one by one, since gather instructions are slow on
         * this CPU */
        run = limber_functions_look_up_avx2;
    if (l->from == 1 && l->to == 1 && !(bytes & ~cpu))
        run = limber_functions_look_up_bytes;
#endif
    if (run)
        run(l, src, dst, n);
    return run != NULL;
}

const struct depthwise_ops limber_llvm_depthwise = { plan_depthwise, run_depthwise, run_wide };

/* Applies a step of an epilogue to arrays of binary32 (if `is_f32`) or binary64.  Returns false if
 * the library has no code for the step and this CPU. */
static bool run_step(const struct target *t, const struct epilogue_step *s, bool is_f32,
                     const void *x, const void *y, void *to, int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_steps_run *run = CODE_FOR(cpu, steps_run);

    return run && run(s, is_f32, x, y, to, n);
}

/* Converts results x of an epilogue, binary32 (if `is_f32`) or binary64, to format f.  Returns
 * false if the caller must convert; the library has code only for binary32. */
static bool store_converted(const struct target *t, bool is_f32, const void *x, limber_format f,
                            void *to, int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_steps_store *run = is_f32 ? CODE_FOR(cpu, steps_store) : NULL;

    return run && run(x, f, to, n);
}

const struct function_ops limber_llvm_elementwise = { run_function, widen,    narrow,
                                                      map_by_table, run_step, store_converted };

/* True if the library has code for this CPU that converts floats to 8-bit integers. */
static bool has_int8_code(const struct target *t)
{
    const unsigned cpu = limber_cpu_of(t);

    return CODE_FOR(cpu, int8_from_floats) != NULL;
}

/* Divides floats by `unit` and converts them to 8-bit integers.  Returns false if a quotient is not
 * an integer in [low, high]. */
static bool floats_to_int8(const struct target *t, int size, const void *x, double unit, int low,
                           int high, uint8_t *to, int64_t n)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_int8_from_floats *run = CODE_FOR(cpu, int8_from_floats);

    return run(size, x, unit, low, high, to, n);
}

/* Converts 32-bit integer sums to floats and multiplies them by w->unit. */
static void int32_to_floats(const struct target *t, const struct widened *w)
{
    const unsigned cpu = limber_cpu_of(t);
    kernel_int8_to_floats *run = CODE_FOR(cpu, int8_to_floats);

    run(w);
}

const struct int8_ops limber_llvm_int8 = { has_int8_code, floats_to_int8, int32_to_floats };
