/* SPDX-License-Identifier: BSD-3-Clause
 * Devices, and launches of kernels on them. */
#ifndef LIMBER_CUDA_LAUNCH_H
#define LIMBER_CUDA_LAUNCH_H

#include "backends/cuda/cuda.h"

#include <pthread.h>

enum { CUDA_DEVICES = 64, CUDA_STREAMS = 16 };

/* device.c: opened at first use and kept for the process. */
struct device {
    const struct cuda_driver *driver;
    cu_context context;         /* the primary context, which the CUDA runtime uses, too */
    int multiprocessors;
    bool early;                 /* supports programmatic dependent launch */
    cu_pool pool;               /* memory of workspaces and copies */
    pthread_mutex_t lock;
    cu_stream idle[CUDA_STREAMS];       /* idle streams of this backend */
    int idle_streams;
    struct cublas_handle *handle[CUDA_STREAMS];     /* idle cuBLAS handles */
    int idle_handles;
    struct counters {                   /* idle arrays of counters for scans, all 0 */
        cu_pointer at;
        size_t count;
    } counters[CUDA_STREAMS];
    int idle_counters;
    struct landing {                    /* idle page-locked host memory for what scans find */
        void *at;
        size_t bytes;
    } landing[CUDA_STREAMS];
    int idle_landings;
};
struct device *limber_cuda_device(int ordinal, struct diag *d);
bool limber_cuda_take_stream(struct device *v, cu_stream *s, struct diag *d);
void limber_cuda_return_stream(struct device *v, cu_stream s);

enum cuda_kernel {
    KERNEL_pack,
    KERNEL_multiply,
    KERNEL_reconstruct,
    KERNEL_special,
    KERNEL_exact,
    KERNEL_scale_a,
    KERNEL_scale_b,
    KERNEL_scan,
    KERNEL_scan_start,
    KERNEL_scan_windows,
    KERNEL_decide,
    KERNEL_terms,
    KERNEL_weigh,
    KERNEL_sums,
    KERNEL_pairs,
    KERNEL_steps,
    KERNEL_count
};

/* A kernel, and its functions on each device that has loaded it. */
struct kernel {
    struct cuda_config config;
    unsigned char *cubin;
    pthread_mutex_t lock;
    struct on_device { /* NULL if the kernel is not loaded on the device */
        cu_module module;
        cu_function function[KERNEL_count];
        int clusters; /* resident clusters of the multiply kernel; 0 if it uses no clusters */
    } *loaded[CUDA_DEVICES];
};

/* launch.c implements functions of backend.h; scan.c, terms.c, weigh.c, planes.c those of struct
 * device_ops. */
bool limber_cuda_launch(struct kernel *k, struct call *c, struct diag *d);
bool limber_cuda_scan(struct kernel *k, const struct scan_job *jobs, int count, int device,
                      const limber_queue *queue, struct diag *d);
bool limber_cuda_terms(struct kernel *k, const struct terms_job *j, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_weigh(struct kernel *k, const struct weigh_job *j, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_sums(struct kernel *k, struct sums_job *j, int device, const limber_queue *queue,
                      struct diag *d);
bool limber_cuda_pairs(struct kernel *k, const struct pairs_job *j, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_steps(struct kernel *k, const struct epilogue *e, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_alloc(void **p, size_t bytes, const char *what, int device,
                       const limber_queue *queue, struct diag *d);
void limber_cuda_free(void *p, int device, const limber_queue *queue);

bool limber_cuda_is_capturing(const limber_queue *queue, int device);
bool limber_cuda_ready(struct kernel *k, int device, struct diag *d);
void limber_cuda_workspace(const struct kernel *k, const struct call *c, size_t *least,
                           size_t *most);
/* guard.c: captured calls with a guard. */
bool limber_cuda_guarded(struct kernel *k, struct call *c, struct diag *d);
size_t limber_cuda_guard_bytes(const struct call *c);

/* memory.c: copies operands that lie in host memory to the device. */
struct run {                    /* state of one call */
    struct device *device;
    const struct cuda_driver *driver;
    struct kernel *kernel;
    struct on_device *loaded;
    struct call *call;
    cu_stream stream;
    bool own_stream, host; /* host: an operand lies in host memory, so the call synchronises */
    int capture_mode; /* the thread's mode before the call, see limber_cuda_relax */
    cu_pointer a, b, c; /* device copies, or 0 */
    cu_pointer masks; /* device copy of the masks, to which emax and special point */
    cu_pointer emax[2], special[2], overflow, counts;
    cu_pointer blocks[2], tiles[2], shown[2], addresses[3];
    struct tile_subset tile_subset[2]; /* on the device; block is NULL if nothing is hidden */
    cu_pointer given; /* the caller's workspace, or 0 */
    size_t given_bytes;
    cu_pointer workspace;
    bool own_workspace;
    cu_pointer choice; /* device address of the guard's choice, compared with `mine`; 0: no guard */
    int32_t mine;
    struct view view[2]; /* addresses are on the device */
    struct output_view place;
    int64_t groups; /* products of a batch */
    int64_t matrices[2]; /* matrices of A and of B: as many as products, or one for all */
    struct spread each[3]; /* distances or addresses of A's, B's and C's matrices, on the device */
    int64_t k; /* elements of a limb's line, a convolution's padding included */
    struct view ordered[2]; /* operands in the plan's order of k */
    struct index_map map[2];
    /* images whose limbs are packed, and B fetched from; 0: limbs of B itself are packed */
    int64_t images;
    char *staged; /* dense host copy of C */
};
bool limber_cuda_is_device_memory(const void *p, int device);
bool limber_cuda_on_device(const struct run *r, const void *p);
bool limber_cuda_upload(struct run *r, struct diag *d);
/* Copies C back and frees what upload took. ok: the call succeeded so far. */
bool limber_cuda_download(struct run *r, bool ok, struct diag *d);
bool limber_cuda_take_memory(struct run *r, cu_pointer *p, size_t bytes, const char *what,
                             struct diag *d);
/* Copies host memory, which may be changed afterwards, to the device. */
bool limber_cuda_copy(struct run *r, cu_pointer *to, const void *from, size_t bytes,
                      const char *what, struct diag *d);
void limber_cuda_release(struct run *r, cu_pointer *p);

/* A part of C: rows [i, i + m), columns [j, j + n), of one product or all of several; and its
 * memory. */
struct part {
    int64_t i, j, m, n;
    int64_t group, groups; /* first product and number of products */
    int64_t tiles_m, tiles_n;
    int64_t image, images; /* first image and number of images whose limbs are held */
    int64_t pitch; /* bytes of a line of a limb */
    int64_t limb[2]; /* bytes of a limb of A and of B, over all products */
    int64_t next_b; /* bytes of a limb of B, of one product */
    int64_t total_pitch, total_size;
    cu_pointer limbs[2], totals;
    struct slots slots; /* padding of k for a simulated unit */
    int64_t scale_blocks; /* blocks of k in a line that have a scale each */
    cu_pointer scales[2], wide[2];
    size_t bytes;
};

/* launch.c: the layout of a call's own workspace: its only part, or the first one.  Nothing is
 * launched; tools use it to look at a workspace after a call.  A layout must not be copied, since
 * run refers to itself. */
struct layout {
    struct run run;
    struct part part;
    struct pack_args pack[2];
};
bool limber_cuda_lay_out(struct layout *l, struct kernel *k, struct call *c, struct diag *d);

/* window.c: convolutions.  Sets the run's k, ordered and images. */
void limber_cuda_set_order(struct run *r);
int64_t limber_cuda_image_bytes(const struct run *r);
struct window limber_cuda_window(const struct run *r, const struct part *p);
/* Packing of the images that a part holds; the place of the limbs is not set. */
struct pack_args limber_cuda_pixels(const struct run *r, const struct part *p);

/* cublas.c: *done is false if cuBLAS cannot take these layouts. */
bool limber_cublas_run(struct run *r, bool *done, struct diag *d);
/* True if one cuBLAS call can take all products of the run. */
bool limber_cublas_takes_groups(const struct run *r);

/* load.c: finds the run's kernel on a device, whose context is current. */
bool limber_cuda_find_kernel(struct run *r, int device, struct diag *d);
bool limber_cuda_launch_kernel(struct run *r, enum cuda_kernel which, int64_t blocks, int threads,
                               int shared, void *arguments, struct diag *d);
/* True if this kernel waits for the launch before it on the device, so it may begin early. */
bool limber_cuda_begins_early(const struct run *r, enum cuda_kernel which);
/* launch.c: sets the run's batch fields; number of matrices of A or B. */
void limber_cuda_set_groups(struct run *r);
int64_t limber_cuda_matrix_count(const struct call *c, int side);
bool limber_cuda_takes_groups(const struct kernel *k, const struct call *c);
/* Makes the context of r->device current.  Until limber_cuda_leave, this thread may allocate and
 * copy although a stream of the program is being captured. */
bool limber_cuda_enter_context(struct run *r, struct diag *d);
/* Makes the device current, finds kernel and stream.  After success the caller must call
 * limber_cuda_leave. */
bool limber_cuda_enter(struct run *r, struct diag *d);
void limber_cuda_leave(struct run *r);
/* Launches the kernels of a call whose operands are on the device. */
bool limber_cuda_run(struct run *r, struct diag *d);
/* Destination of a scan's findings: for lines or, if each pixel is scanned once, for pixels.  If
 * choice and most are not 0, the scan initialises them for a decision.  With counters, which are 0
 * before and after, blocks store parts that the last of them combines; without, they update what a
 * previous launch has initialised. */
struct scan_memory {
    cu_pointer found, pixels, choice, most, tiles, counters, parts, halves;
};
/* Number of tiles of a matrix. */
int64_t limber_cuda_scan_tiles(int64_t lines, int64_t length);
/* Bytes of the findings for pixels; 0 if lines are scanned. */
size_t limber_cuda_scan_pixels(const struct view *v, int64_t lines, int64_t length);
/* Scans one or two operands whose addresses are on the device. */
bool limber_cuda_scan_start(struct run *r, const struct scan_job *jobs,
                            const struct scan_memory *memory, int count, struct diag *d);
/* Converts a view with its index map to kernel arguments. */
struct operand_args limber_cuda_operand(const struct view *v);
/* cluster.c: the multiply kernel in clusters.  Resident clusters of a device; blocks of a cluster,
 * for a product of tiles_m rows of tiles; launches clusters, at most as many as are resident, which
 * take all tasks in turn. */
int limber_cuda_resident_clusters(const struct cuda_driver *c, const struct cuda_config *f,
                                  cu_function multiply);
int limber_cuda_cluster_size(const struct run *r, int64_t tiles_m);
bool limber_cuda_start_clusters(struct run *r, struct multiply_args *args, struct diag *d);

#endif
