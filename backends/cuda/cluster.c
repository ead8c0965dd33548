/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the multiply kernel with persistent thread blocks, in clusters where the device allows
 * them.  The blocks of a cluster share tiles of B. */
#include "backends/cuda/launch.h"

/* Returns launch parameters of the multiply kernel with `blocks` thread blocks in clusters.  early:
 * the launch may begin before the previous one has ended. */
static struct cu_launch cluster_launch(const struct cuda_config *f, int64_t blocks, bool early,
                                       struct cu_launch_attribute attribute[2])
{
    attribute[0] =
        (struct cu_launch_attribute){ CU_LAUNCH_CLUSTER, 0, { (unsigned)f->cluster, 1, 1 } };
    attribute[1] = (struct cu_launch_attribute){ CU_LAUNCH_EARLY, 0, { 1 } };
    return (struct cu_launch){ .grid = { (unsigned)blocks, 1, 1 },
                               .block = { (unsigned)f->threads, 1, 1 },
                               .shared = (unsigned)f->shared,
                               .attribute = attribute,
                               .attributes = early ? 2 : 1 };
}

/* Returns the number of clusters of the multiply kernel that the device can run at once; 0 if it
 * cannot launch clusters. */
int limber_cuda_resident_clusters(const struct cuda_driver *c, const struct cuda_config *f,
                                  cu_function multiply)
{
    struct cu_launch_attribute attribute[2];
    struct cu_launch launch = cluster_launch(f, f->cluster, false, attribute);
    int n = 0;

    if (f->cluster < 2 || !c->cuLaunchKernelEx || !c->cuOccupancyMaxActiveClusters ||
        c->cuOccupancyMaxActiveClusters(&n, multiply, &launch))
        return 0;
    return n;
}

/* Returns the number of thread blocks per cluster for a product of tiles_m rows of tiles; 1 if it
 * uses no clusters. */
int limber_cuda_cluster_size(const struct device_call *r, int64_t tiles_m)
{
    return tiles_m > 1 && r->loaded->clusters > 0 ? r->kernel->config.cluster : 1;
}

/* Starts as many thread blocks (or clusters of blocks) as can run at once, but not more than there
 * are tasks.  Each loops over tasks. */
bool limber_cuda_start_clusters(struct device_call *r, struct multiply_args *args, struct diag *d)
{
    const struct cuda_config *f = &r->kernel->config;
    int most = args->cluster > 1 ? r->loaded->clusters : r->device->multiprocessors;
    int64_t clusters = args->tasks < most ? args->tasks : most;
    struct cu_launch_attribute attribute[2];
    struct cu_launch launch = cluster_launch(
        f, clusters * args->cluster, limber_cuda_begins_early(r, KERNEL_multiply), attribute);

    if (args->cluster == 1)
        return limber_cuda_launch_kernel(r, KERNEL_multiply, clusters, f->threads, f->shared, args,
                                         d);
    launch.stream = r->stream;
    return limber_cuda_ok(r->driver,
                          r->driver->cuLaunchKernelEx(&launch, r->loaded->function[KERNEL_multiply],
                                                      (void *[]){ args }, NULL),
                          "limber_multiply, by clusters", d);
}
