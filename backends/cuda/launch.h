/* SPDX-License-Identifier: BSD-3-Clause
 * Devices, and kernels loaded on them. */
#ifndef LIMBER_CUDA_LAUNCH_H
#define LIMBER_CUDA_LAUNCH_H

#include "backends/cuda/cuda.h"

#include <pthread.h>

enum { CUDA_DEVICES = 64, CUDA_STREAMS = 16 };

/* device.c: opened at first use, kept for the process. */
struct device {
    const struct cuda_driver *driver;
    cu_context context;         /* the primary one, which the CUDA runtime uses, too */
    int multiprocessors;
    bool early;                 /* a launch may begin before the one in front of it has ended */
    cu_pool pool;               /* of workspaces and copies */
    pthread_mutex_t lock;
    cu_stream idle[CUDA_STREAMS];       /* of our own, between calls */
    int idle_streams;
    struct cublas_handle *handle[CUDA_STREAMS];     /* likewise */
    int idle_handles;
    struct counters {                   /* of scans, all 0, that no call uses */
        cu_pointer at;
        size_t count;
    } counters[CUDA_STREAMS];
    int idle_counters;
};
struct device *limber_cuda_device(int ordinal, struct diag *d);
bool limber_cuda_stream(struct device *v, cu_stream *s, struct diag *d);
void limber_cuda_stream_back(struct device *v, cu_stream s);

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

struct kernel {
    struct cuda_config config;
    unsigned char *cubin;
    pthread_mutex_t lock;
    struct on_device { /* NULL: not loaded there */
        cu_module module;
        cu_function function[KERNEL_count];
        int clusters;           /* of the multiply kernel, that run at once; 0: none */
    } *loaded[CUDA_DEVICES];
};

/* launch.c: of backend.h.  scan.c, terms.c, weigh.c, planes.c: of struct device_ops. */
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

bool limber_cuda_records(const limber_queue *queue, int device);
bool limber_cuda_ready(struct kernel *k, int device, struct diag *d);
void limber_cuda_workspace(const struct kernel *k, const struct call *c, size_t *least,
                           size_t *most);
/* guard.c: a call with a guard. */
bool limber_cuda_guarded(struct kernel *k, struct call *c, struct diag *d);
size_t limber_cuda_guard_bytes(const struct call *c);

/* memory.c: what of a call lies in host memory gets a place on the device. */
struct run {                    /* one call */
    struct device *device;
    const struct cuda_driver *driver;
    struct kernel *kernel;
    struct on_device *loaded;
    struct call *call;
    cu_stream stream;
    bool own_stream, host;      /* host: some operand lies there, so the call waits */
    cu_pointer a, b, c;         /* copies of ours, or 0 */
    cu_pointer masks;           /* ours, where emax and special lie in it */
    cu_pointer emax[2], special[2], overflow, counts;
    cu_pointer blocks[2], tiles[2], shown[2], addresses[3];
    struct tile_subset
        tile_subset[2];  /* of the operands, on the device; block is NULL where all is shown */
    cu_pointer given;            /* the caller's workspace, or 0 */
    size_t given_bytes;
    cu_pointer workspace;
    bool own_workspace;
    cu_pointer choice;          /* on the device: which alternative is taken; 0: there is one */
    int32_t mine;
    struct view view[2];        /* on the device */
    struct output_view place;
    int64_t groups;             /* products of the call */
    int64_t matrices[2];        /* of A, B: as many, or one for all */
    struct spread each[3];      /* of A, B, C, on the device */
    int64_t k;                  /* along limbs: with a convolution's padding */
    struct view ordered[2];     /* as limbs are made: in the plan's order along k */
    struct index_map map[2];
    int64_t images;             /* whose limbs B is fetched from; 0: from limbs of B itself */
    char *staged;               /* C on its way to or from host memory, dense */
};
bool limber_cuda_holds(const void *p, int device);
bool limber_cuda_on_device(const struct run *r, const void *p);
bool limber_cuda_upload(struct run *r, struct diag *d);
/* Brings C back and frees what upload took; ok: the call went well so far. */
bool limber_cuda_download(struct run *r, bool ok, struct diag *d);
bool limber_cuda_memory(struct run *r, cu_pointer *p, size_t bytes, const char *what,
                        struct diag *d);
/* A copy of host memory, of which nothing is needed afterwards. */
bool limber_cuda_copy(struct run *r, cu_pointer *to, const void *from, size_t bytes,
                      const char *what, struct diag *d);
void limber_cuda_release(struct run *r, cu_pointer *p);

/* A part of C: rows [i, i + m), columns [j, j + n), or of several products all of them; where its
 * limbs and totals lie. */
struct part {
    int64_t i, j, m, n;
    int64_t group, groups;      /* the products */
    int64_t tiles_m, tiles_n;
    int64_t image, images;      /* whose limbs are held */
    int64_t pitch;              /* bytes of a limb's line */
    int64_t limb[2];            /* bytes of a limb of A, of B, of all products */
    int64_t next_b;             /* of B, of one */
    int64_t total_pitch, total_size;
    cu_pointer limbs[2], totals;
    struct slots slots;         /* of a simulated unit */
    int64_t scale_blocks;       /* of a line */
    cu_pointer scales[2], wide[2];
    size_t bytes;
};

/* launch.c: where a call with a workspace of its own puts limbs and totals: its only part, or the
 * first one.  Launches nothing; for tools that look at a workspace after a call.  run refers to
 * itself, so a layout stays where it is. */
struct layout {
    struct run run;
    struct part part;
    struct pack_args pack[2];
};
bool limber_cuda_lay_out(struct layout *l, struct kernel *k, struct call *c, struct diag *d);

/* window.c: of convolutions.  What is known of a call: k, ordered, images. */
void limber_cuda_order(struct run *r);
int64_t limber_cuda_image(const struct run *r);
struct window limber_cuda_window(const struct run *r, const struct part *p);
/* The images that a part holds; all but the limbs' place. */
struct pack_args limber_cuda_pixels(const struct run *r, const struct part *p);

/* cublas.c: *done is false where the operands do not lie as it wants them. */
bool limber_cublas_run(struct run *r, bool *done, struct diag *d);
/* Whether one call of it is for all products of the run. */
bool limber_cublas_takes_groups(const struct run *r);

/* load.c: the run's kernel on a device, which is current. */
bool limber_cuda_find_kernel(struct run *r, int device, struct diag *d);
bool limber_cuda_start(struct run *r, enum cuda_kernel which, int64_t blocks, int threads,
                       int shared, void *arguments, struct diag *d);
/* Whether this kernel awaits the launch in front of it, and may begin before that has ended. */
bool limber_cuda_begins_early(const struct run *r, enum cuda_kernel which);
/* launch.c: what a call says of groups; matrices of A, of B: as many, or one for all. */
void limber_cuda_groups(struct run *r);
int64_t limber_cuda_matrices(const struct call *c, int side);
bool limber_cuda_takes_groups(const struct kernel *k, const struct call *c);
/* Makes the device current, finds kernel and stream; after success leave is due. */
bool limber_cuda_enter(struct run *r, struct diag *d);
void limber_cuda_leave(struct run *r);
/* The kernels of a call whose operands are where they can be reached. */
bool limber_cuda_run(struct run *r, struct diag *d);
/* Where a scan leaves what it finds of lines and, where each is looked at once, of pixels; choice
 * and most, where they are not 0, it makes ready for a decision.  With counters, which are 0 before
 * and after, blocks leave parts there that the last of them joins; without, they join what a launch
 * of its own has set before. */
struct scan_memory {
    cu_pointer found, pixels, choice, most, tiles, counters, parts, halves;
};
/* Tiles of a matrix. */
int64_t limber_cuda_scan_tiles(int64_t lines, int64_t length);
/* Bytes of what is found of pixels; 0 where lines are looked at. */
size_t limber_cuda_scan_pixels(const struct view *v, int64_t lines, int64_t length);
/* Of a job or two whose addresses are on the device. */
bool limber_cuda_scan_start(struct run *r, const struct scan_job *jobs,
                            const struct scan_memory *memory, int count, struct diag *d);
/* A view with its index map, as kernels take it. */
struct operand_args limber_cuda_operand(const struct view *v);
/* cluster.c: of the multiply kernel.  How many fit the device; blocks that a product of so many
 * rows of tiles has in each; starts `tasks` of them, or as many as fit, which take all tasks in
 * turn. */
int limber_cuda_clusters(const struct cuda_driver *c, const struct cuda_config *f,
                         cu_function multiply);
int limber_cuda_cluster(const struct run *r, int64_t tiles_m);
bool limber_cuda_start_clusters(struct run *r, struct multiply_args *args, struct diag *d);

#endif
