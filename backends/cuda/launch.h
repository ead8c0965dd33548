/* SPDX-License-Identifier: BSD-3-Clause
 * Devices, kernels on devices, and launches of kernels. */
#ifndef LIMBER_CUDA_LAUNCH_H
#define LIMBER_CUDA_LAUNCH_H

#include "backends/cuda/cuda.h"

#include <pthread.h>

enum { CUDA_DEVICES = 64, CUDA_STREAMS = 16 };

/* A device.  It is opened at first use and stays open until the process ends (device.c). */
struct device {
    const struct cuda_driver *driver;
    cu_context context; /* the device's primary context, which the CUDA runtime uses, too */
    int multiprocessors;
    bool early; /* true if the device supports programmatic dependent launch */
    cu_pool pool; /* memory pool for workspaces and for copies of operands */
    pthread_mutex_t lock;
    /* Idle resources, which calls return here and later calls take. */
    struct idle {
        struct idle_item {
            uint64_t at; /* an address or a handle; 0 if there is none */
            size_t size; /* memory: bytes; arrays of counters: number of counters */
        } item[CUDA_STREAMS];
        int count;
    } streams, handles, /* `handles` has handles of cuBLAS */
        counters, /* arrays of counters for scan kernels, in which all counters are 0 */
        pinned; /* page-locked host memory, to which scan results are copied */
};
/* Returns the device with this index, which it opens if necessary; NULL, with an error in *d, if
 * that fails. */
struct device *limber_cuda_device(int ordinal, struct diag *d);
/* Takes an idle resource.  The result's `at` is 0 if there is none. */
struct idle_item limber_cuda_take_idle(struct device *v, struct idle *x);
/* Keeps a resource for later calls.  Returns false if enough are kept; then the caller must destroy
 * it. */
bool limber_cuda_keep_idle(struct device *v, struct idle *x, struct idle_item item);
/* Takes an idle stream, or creates one. */
bool limber_cuda_take_stream(struct device *v, cu_stream *s, struct diag *d);
/* Keeps a stream for later calls, or destroys it if enough are kept. */
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

/* A kernel: its cubin in host memory, and its functions on each device that has loaded it. */
struct kernel {
    struct cuda_config config;
    unsigned char *cubin;
    pthread_mutex_t lock;
    /* [device]: the kernel's functions there; NULL if the device has not loaded the kernel */
    struct on_device {
        cu_module module;
        cu_function function[KERNEL_count];
        /* number of clusters of the multiply kernel that can run at once; 0 if it uses none */
        int clusters;
    } *loaded[CUDA_DEVICES];
};

/* Implements backend.launch: computes a call (launch.c). */
bool limber_cuda_launch(struct kernel *k, struct call *c, struct diag *d);
/* The functions below implement the members of struct device_ops (backends/backend.h) with these
 * names, in scan.c, terms.c, weigh.c, planes.c and steps.c. */
bool limber_cuda_scan(struct kernel *k, const struct scan_call *calls, int count, int device,
                      const limber_queue *queue, struct diag *d);
bool limber_cuda_terms(struct kernel *k, const struct terms_call *terms, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_weigh(struct kernel *k, const struct weigh_call *weigh, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_sums(struct kernel *k, struct sums_call *sums, int device,
                      const limber_queue *queue, struct diag *d);
bool limber_cuda_pairs(struct kernel *k, const struct pairs_call *pairs, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_steps(struct kernel *k, const struct epilogue *e, int device,
                       const limber_queue *queue, struct diag *d);
bool limber_cuda_alloc(void **p, size_t bytes, const char *what, int device,
                       const limber_queue *queue, struct diag *d);
void limber_cuda_free(void *p, int device, const limber_queue *queue);

/* Implements device_ops.records: true if the queue's stream is being captured into a graph. */
bool limber_cuda_is_capturing(const limber_queue *queue, int device);
/* Implements device_ops.ready: loads the kernel's code onto the device. */
bool limber_cuda_ready(struct kernel *k, int device, struct diag *d);
/* Implements code_ops.workspace: computes the least workspace of a call, and the one that holds all
 * limbs at once, in bytes. */
void limber_cuda_workspace(const struct kernel *k, const struct call *c, size_t *least,
                           size_t *most);
/* Launches calls that are captured into a graph, with a guard, which checks the data when the graph
 * runs (guard.c; struct capture_check of backends/backend.h). */
bool limber_cuda_guarded(struct kernel *k, struct call *c, struct diag *d);
/* Returns the bytes of the caller's workspace that the guard (the check of a captured call's data)
 * needs. */
size_t limber_cuda_guard_bytes(const struct call *c);

/* Tile subsets of A and of B, with device addresses.  `block` of a subset is NULL if all elements
 * are used. */
struct call_subsets {
    cu_pointer blocks[2], tiles[2], shown[2];
    struct tile_subset tile_subset[2];
};

/* Addresses on the device.  emax: [A, B] exponents of scales.  special: [A, B] flags of lines with
 * NaN or infinities.  Both point into `masks`. */
struct call_scales {
    cu_pointer masks, emax[2], special[2];
};

/* The workspace of a call, on the device. */
struct call_workspace {
    cu_pointer given; /* the caller's workspace that is not yet used; 0 if there is none */
    size_t given_bytes; /* bytes of `given` */
    cu_pointer workspace;
    bool own_workspace; /* true if the library allocated `workspace` and must free it */
};

/* The plan that a captured call's check chose. */
struct call_guard {
    /* Device address of the number of the plan that the guard, the check of the data, chose (0:
     * this plan, 1: the fallback); the address is 0 if the call has no guard.  With a guard,
     * kernels of this call do nothing if that number is not `mine`. */
    cu_pointer choice;
    int32_t mine;
};

/* The state of one call.  memory.c makes its operands accessible to kernels, by copying those in
 * host memory to the device. */
struct device_call {
    struct device *device;
    const struct cuda_driver *driver;
    struct kernel *kernel;
    struct on_device *loaded;
    struct call *call;
    cu_stream stream;
    /* own_stream: true if the stream belongs to the library.  host: true if an operand lies in host
     * memory, so that the call waits for the device. */
    bool own_stream, host;
    int capture_mode; /* this thread's capture mode before the call (limber_cuda_relax) */
    cu_pointer a, b, c; /* copies of the operands on the device; 0 if an operand is not copied */
    struct call_scales scales;
    cu_pointer overflow, counts, addresses[3]; /* on the device */
    struct call_subsets subsets;
    struct call_workspace memory;
    struct call_guard guard;
    struct view view[2]; /* views of A and B with device addresses */
    /* where C is stored on the device */
    struct output_view place;
    int64_t groups; /* number of products in the batch; 1 if there is no batch */
    /* number of matrices of A and of B: `groups`, or 1 if all products share one matrix */
    int64_t matrices[2];
    struct spread each[3]; /* distances or addresses of the matrices of A, B and C, on the device */
    /* number of elements along k of each limb; for a convolution in order rsc, including the zeros
     * that fill up the channels of each pixel */
    int64_t k;
    struct view ordered[2]; /* views of A and B in the plan's order along k */
    struct index_map map[2];
    /* number of images that are packed, if B is read through the window; 0 if B itself is packed */
    int64_t images;
    char *staged; /* dense copy of C in host memory; NULL if C is on the device */
};
/* True if kernels on the device with this index can access the memory at p. */
bool limber_cuda_is_device_memory(const void *p, int device);
/* True if kernels can access the memory at p, during a call whose context is current. */
bool limber_cuda_on_device(const struct device_call *r, const void *p);
/* Makes all operands of a call accessible on the device.  Returns false with an error. */
bool limber_cuda_upload(struct device_call *r, struct diag *d);
/* Copies C back if it lies in host memory, and frees the copies of limber_cuda_upload.  ok: the
 * call has succeeded so far.  Returns false if it has not, or if copying fails. */
bool limber_cuda_download(struct device_call *r, bool ok, struct diag *d);
/* Allocates device memory in the order of the call's stream.  what: names the memory in errors. */
bool limber_cuda_take_memory(struct device_call *r, cu_pointer *p, size_t bytes, const char *what,
                             struct diag *d);
/* Allocates device memory and copies host memory to it.  The host memory may be changed after this
 * function returns. */
bool limber_cuda_copy(struct device_call *r, cu_pointer *to, const void *from, size_t bytes,
                      const char *what, struct diag *d);
/* Frees device memory in the order of the call's stream, and sets *p to 0. */
void limber_cuda_release(struct device_call *r, cu_pointer *p);

/* A block of C that is computed at once: rows [i, i + m) and columns [j, j + n) of one or several
 * products.  Its limbs and totals are in the workspace. */
struct part {
    int64_t i, j, m, n;
    int64_t group, groups; /* first product and number of products */
    /* number of rows, and of columns, of tiles in one product */
    int64_t tiles_m, tiles_n;
    int64_t image, images; /* first image, and number of images, whose limbs the workspace holds */
    int64_t pitch; /* bytes of one line (row of A or column of B) of a limb */
    int64_t limb[2]; /* bytes of one limb of A and of one of B, over all products */
    int64_t next_b; /* bytes of one limb of B in one product */
    /* total_pitch: bytes of a row of totals; total_size: bytes of all totals of one accumulator */
    int64_t total_pitch, total_size;
    /* limbs, totals: their device addresses in the workspace */
    cu_pointer limbs[2], totals;
    struct slots slots; /* for simulated units: how elements along k are padded */
    int64_t scale_blocks; /* number of blocks along k, each of which has a scale */
    /* for [A, B]: block scales, and flags of tiles for which a simulated unit needs FP64 */
    cu_pointer scales[2], wide[2];
    size_t bytes; /* bytes of workspace that the block needs */
};

/* The layout of a call's first part in the caller's workspace (launch.c).  Nothing is launched;
 * tools use it to inspect a workspace after a call.  A layout must not be copied, since `run`
 * points into it. */
struct layout {
    struct device_call run;
    struct part part;
    struct pack_args pack[2];
};
bool limber_cuda_lay_out(struct layout *l, struct kernel *k, struct call *c, struct diag *d);

/* Sets the call's k, `ordered`, `map` and `images` (window.c). */
void limber_cuda_set_order(struct device_call *r);
/* Returns the bytes of one limb of one image. */
int64_t limber_cuda_image_bytes(const struct device_call *r);
/* Returns the window through which the multiply kernel reads B. */
struct window limber_cuda_window(const struct device_call *r, const struct part *p);
/* Returns the arguments of the kernel that packs the part's images, except the addresses of the
 * limbs. */
struct pack_args limber_cuda_pixels(const struct device_call *r, const struct part *p);

/* Computes the product by cuBLAS (cublas.c).  *done is false if cuBLAS cannot take these
 * layouts. */
bool limber_cublas_run(struct device_call *r, bool *done, struct diag *d);
/* True if one cuBLAS call can compute all products of the call. */
bool limber_cublas_takes_groups(const struct device_call *r);

/* Loads the call's kernel on the device, unless it is loaded.  The device's context must be current
 * (load.c). */
bool limber_cuda_find_kernel(struct device_call *r, int device, struct diag *d);
/* Launches one kernel on the call's stream.  blocks: size of the grid.  shared: bytes of dynamic
 * shared memory. */
bool limber_cuda_launch_kernel(struct device_call *r, enum cuda_kernel which, int64_t blocks,
                               int threads, int shared, void *arguments, struct diag *d);
/* True if the kernel itself waits for the previous launch, so that it may begin before that launch
 * ends. */
bool limber_cuda_begins_early(const struct device_call *r, enum cuda_kernel which);
/* Sets the call's fields for batches: groups, each, matrices (launch.c). */
void limber_cuda_set_groups(struct device_call *r);
/* Returns the number of matrices of A (side 0) or B (side 1) in a call. */
int64_t limber_cuda_matrix_count(const struct call *c, int side);
/* Implements device_ops.takes_groups: true if one launch can compute all products of the call. */
bool limber_cuda_takes_groups(const struct kernel *k, const struct call *c);
/* Makes the context of r->device current.  Until limber_cuda_leave, this thread may allocate and
 * copy even if a stream of the program is being captured. */
bool limber_cuda_enter_context(struct device_call *r, struct diag *d);
/* Makes the device's context current, loads the kernel and takes a stream for the call.  After
 * success the caller must call limber_cuda_leave. */
bool limber_cuda_enter(struct device_call *r, struct diag *d);
/* Ends what limber_cuda_enter or limber_cuda_enter_context began. */
void limber_cuda_leave(struct device_call *r);
/* Launches the kernels of a call whose operands are on the device. */
bool limber_cuda_run(struct device_call *r, struct diag *d);
/* Device memory of a scan: its results per line (found) or per pixel (pixels), and per tile.
 * choice and most, unless 0, are initialised for limber_decide.  If there are counters, which are 0
 * before and after the scan, thread blocks store partial results (parts, halves) that the last
 * block combines.  If there are none, blocks update results that a previous launch has
 * initialised. */
struct scan_memory {
    cu_pointer found, pixels, choice, most, tiles, counters, parts, halves;
};
/* Returns the number of tiles for which a scan has results, in a matrix of lines x length
 * elements. */
int64_t limber_cuda_scan_tiles(int64_t lines, int64_t length);
/* Returns the bytes of a scan's results per pixel; 0 if the scan works on lines, not on pixels. */
size_t limber_cuda_scan_pixels(const struct view *v, int64_t lines, int64_t length);
/* Queues the scan of one or two operands, whose addresses are on the device. */
bool limber_cuda_scan_start(struct device_call *r, const struct scan_call *calls,
                            const struct scan_memory *memory, int count, struct diag *d);
/* Returns the kernel arguments of an operand: the view and a copy of its index map. */
struct operand_args limber_cuda_operand(const struct view *v);
/* Returns the number of clusters of the multiply kernel that the device can run at once; 0 if it
 * cannot launch clusters (cluster.c). */
int limber_cuda_resident_clusters(const struct cuda_driver *c, const struct cuda_config *f,
                                  cu_function multiply);
/* Returns the number of thread blocks per cluster for a product of tiles_m rows of tiles; 1 if it
 * uses no clusters. */
int limber_cuda_cluster_size(const struct device_call *r, int64_t tiles_m);
/* Launches the multiply kernel with at most as many blocks or clusters as can run at once.  They
 * loop over all tasks. */
bool limber_cuda_start_clusters(struct device_call *r, struct multiply_args *args, struct diag *d);

#endif
