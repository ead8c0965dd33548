/* SPDX-License-Identifier: BSD-3-Clause
 * Describes GPUs by their compute capability.
 * Source: CUDA C++ Programming Guide 13.0, table of arithmetic throughput; the architectures'
 * white papers. */
#include "backends/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

/* One compute capability.  The numbers from f64 to i8 are multiply-adds per clock and
 * multiprocessor, by the instructions that the kernels use. */
struct arch {
    int major, minor;
    const char *isa, *features, *sums;
    double f64, f32, f16, bf16, tf32, f8, i8;
    double bandwidth; /* bytes per second of device memory, if the device does not report it */
    /* a usual device: multiprocessors, hertz, KiB of shared memory for a block, MiB of L2 */
    int multiprocessors;
    double hertz;
    int shared, l2;
};
static const struct arch archs[] = {
    { 7, 0, "sm_70", "wmma", "v100", 32, 64, 512, 0, 0, 0, 256, 9e11, 80, 1.53e9, 96, 6 },
    { 7, 5, "sm_75", "wmma", "t4", 2, 64, 512, 0, 0, 0, 256, 3.2e11, 40, 1.59e9, 64, 4 },
    { 8, 0, "sm_80", "mma", "a100", 64, 64, 1024, 1024, 512, 0, 2048, 1.9e12, 108, 1.41e9, 163,
      40 },
    { 8, 6, "sm_86", "mma", "a100", 2, 128, 256, 256, 128, 0, 1024, 7e11, 72, 1.7e9, 99, 6 },
    { 8, 9, "sm_89", "mma", "ada", 2, 128, 512, 512, 256, 1024, 1024, 9e11, 58, 2.04e9, 99, 48 },
    { 9, 0, "sm_90a", "mma,wgmma", "h100", 128, 128, 2048, 2048, 1024, 4096, 4096, 4.3e12, 132,
      1.755e9, 227, 50 },
    /* 10.0: FP8 uses tcgen05 only for exact sums.  One published model says how tcgen05 rounds
     * other sums, but there are no outputs to check it.  "b200" names the order of mma.sync's
     * sums. */
    { 10, 0, "sm_100a", "mma,mx,tcgen05,tcgen05-i8", "b200", 64, 128, 4096, 4096, 2048, 8192, 8192,
      7e12, 148, 1.965e9, 227, 126 },
    /* 10.3: low rates for INT8 and FP64: published peaks are 0.15e15 and 1.25e12. */
    { 10, 3, "sm_103a", "mma,mx,tcgen05", "b200", 2, 128, 4096, 4096, 2048, 8192, 256, 8e12, 148,
      1.92e9, 227, 126 },
    /* 12.0: GeForce; workstation cards have twice the FP16 rate.  Sums follow MMA-Sim's models, in
     * which 12.0 equals 10.0. */
    { 12, 0, "sm_120", "mma,mx", "b200", 2, 128, 256, 256, 128, 0, 1024, 1.8e12, 170, 2.41e9, 99,
      96 },
};

/* Returns the newest known GPU of this major version that is not newer than the given one; NULL if
 * there is none. */
static const struct arch *find_arch(int major, int minor)
{
    const struct arch *best = NULL;

    for (size_t i = 0; i < COUNT(archs); i++)
        if (archs[i].major == major && archs[i].minor <= minor)
            best = &archs[i];
    return best;
}

/* Fills *t for a GPU of this compute capability.  hertz: clock rate.  shared: bytes of shared
 * memory per thread block.  l2: bytes of the L2 cache. */
bool limber_cuda_arch(struct target *t, int major, int minor, int multiprocessors, double hertz,
                      int64_t shared, int64_t l2, struct diag *d)
{
    const struct arch *a = find_arch(major, minor);
    double clock = multiprocessors * hertz;

    memset(t, 0, sizeof *t);
    if (!a)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "compute capability %d.%d is not supported",
                           major, minor);
    snprintf(t->backend, sizeof t->backend, "cuda");
    snprintf(t->isa, sizeof t->isa, "%s", a->isa);
    snprintf(t->features, sizeof t->features, "%s", a->features);
    snprintf(t->sums, sizeof t->sums, "%s", a->sums);
    t->registers = 255;
    t->group = 4;
    t->l1 = shared;
    t->l2 = l2;
    t->shared = shared;
    t->blocks = &limber_cuda_blocks;
    t->rate[UNIT_f64] = a->f64 * clock;
    t->rate[UNIT_f32] = a->f32 * clock;
    t->rate[UNIT_f16] = a->f16 * clock;
    t->rate[UNIT_bf16] = a->bf16 * clock;
    t->rate[UNIT_tf32] = a->tf32 * clock;
    t->rate[UNIT_e4m3] = t->rate[UNIT_e5m2] = a->f8 * clock;
    t->rate[UNIT_i8] = a->i8 * clock;
    t->bandwidth = a->bandwidth;
    /* a simulated unit takes eight or more instructions per product */
    t->rate[UNIT_model] = a->f32 / 8 * clock;
    t->rate[UNIT_exact] = 1e-4 * clock;
    return true;
}

/* Implements code_ops.named: describes a usual GPU of this architecture.  Returns false if it is
 * unknown. */
bool limber_cuda_named(struct target *t, const char *name)
{
    for (size_t i = 0; i < COUNT(archs); i++)
        if (strcmp(archs[i].isa, name) == 0)
            return limber_cuda_arch(t, archs[i].major, archs[i].minor, archs[i].multiprocessors,
                                    archs[i].hertz, (int64_t)archs[i].shared << 10,
                                    (int64_t)archs[i].l2 << 20, NULL);
    return false;
}

/* Reads the device's properties from the driver and fills *t.  Returns false with an error. */
bool limber_cuda_target(struct target *t, int ordinal, struct diag *d)
{
    static const int which[] = { CU_MAJOR,        CU_MINOR,    CU_MULTIPROCESSORS, CU_CLOCK_KHZ,
                                 CU_SHARED_OPTIN, CU_L2_BYTES, CU_MEMORY_KHZ,      CU_BUS_BITS };
    const struct cuda_driver *c = limber_cuda(d);
    int device, count = 0, v[COUNT(which)];

    if (!c)
        return false;
    c->cuDeviceGetCount(&count);
    if (ordinal < 0 || ordinal >= count)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "device = %d: the CUDA driver lists %d",
                           ordinal, count);
    if (!limber_cuda_ok(c, c->cuDeviceGet(&device, ordinal), "finding the device", d))
        return false;
    for (size_t i = 0; i < COUNT(which); i++)
        if (!limber_cuda_ok(c, c->cuDeviceGetAttribute(&v[i], which[i], device),
                            "asking a device for its properties", d))
            return false;
    if (!limber_cuda_arch(t, v[0], v[1], v[2], 1e3 * v[3], v[4], v[5], d))
        return false;
    if (limber_cublas_present())
        snprintf(t->features + strlen(t->features), sizeof t->features - strlen(t->features),
                 "%scublas", t->features[0] ? "," : "");
    if (v[6] > 0 && v[7] > 0) /* memory transfers data twice per clock */
        t->bandwidth = 2e3 * v[6] * v[7] / 8;
    return true;
}
