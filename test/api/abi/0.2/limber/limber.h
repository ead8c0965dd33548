/* SPDX-License-Identifier: BSD-3-Clause
 * The declarations of limber/limber.h as they were in version 0.2.  include/limber/limber.h
 * documents them.  The test abi_program is compiled with these headers and runs with the newest
 * library. */
#ifndef LIMBER_H
#define LIMBER_H

#include "format.h"
#include "unit.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIMBER_VERSION "0.2.0"

LIMBER_API const char *limber_version(void);

typedef struct limber_context limber_context;

LIMBER_API const char *limber_error_text(void);

LIMBER_API const char *limber_status_name(limber_status s);
LIMBER_API const char *limber_status_meaning(limber_status s);

typedef struct limber_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *memory);
    void *user;
} limber_allocator;

typedef enum limber_partition { LIMBER_PARTITION_AUTO, LIMBER_PARTITION_OFF } limber_partition;

typedef enum limber_kernels {
    LIMBER_KERNELS_AUTO,
    LIMBER_KERNELS_BOTH,
    LIMBER_KERNELS_PREBUILT,
    LIMBER_KERNELS_SPECIALISED
} limber_kernels;

typedef struct limber_config {
    size_t size;
    const char *backend;
    int threads;
    const char *cache_dir;
    size_t cache_bytes;
    const char *dump_dir;
    int verbose;
    size_t workspace_bytes;
    void (*log)(void *user, const char *line);
    void *log_user;
    int device;
    limber_partition partition;
    limber_allocator allocator;
    limber_kernels kernels;
} limber_config;

LIMBER_API limber_status limber_create(limber_context **ctx, const limber_config *config);

LIMBER_API const char *limber_fallback_reason(limber_context *ctx);

LIMBER_API void limber_destroy(limber_context *ctx);

typedef enum limber_promise {
    LIMBER_CONTRACT_NATIVE,
    LIMBER_CONTRACT_BITS,
    LIMBER_CONTRACT_CORRECT,
    LIMBER_CONTRACT_EXACT,
    LIMBER_CONTRACT_FAST,
    LIMBER_CONTRACT_SIMULATE,
    LIMBER_CONTRACT_REPRODUCIBLE
} limber_promise;

typedef enum limber_split {
    LIMBER_SPLIT_ANY,
    LIMBER_SPLIT_AHEAD,
    LIMBER_SPLIT_INSIDE
} limber_split;

typedef enum limber_on_miss {
    LIMBER_ON_MISS_WAIT,
    LIMBER_ON_MISS_GENERIC,
    LIMBER_ON_MISS_REFUSE,
    LIMBER_ON_MISS_COMPILE
} limber_on_miss;

typedef struct limber_contract {
    size_t size;
    limber_promise promise;
    int bits;
    const char *scheme;
    int slices;
    limber_split split;
    const limber_unit *unit;
    limber_statistics *statistics;
    limber_on_miss on_miss;
} limber_contract;

typedef struct limber_scheme {
    const char *name, *about;
} limber_scheme;
LIMBER_API const limber_scheme *limber_scheme_at(int i);

typedef struct limber_part {
    char scheme[32];
    char kernel[33];
    int rows;
    double bound;
    int64_t m, n;
    double share;
    double cost, seconds;
    int group[2];
    unsigned kinds[2];
} limber_part;
enum { LIMBER_PARTS = 27 };

typedef enum limber_origin {
    LIMBER_FROM_COMPILER,
    LIMBER_FROM_DISK,
    LIMBER_FROM_MEMORY,
    LIMBER_FROM_INTERPRETER,
    LIMBER_FROM_LIBRARY
} limber_origin;

typedef struct limber_report {
    size_t size;
    char scheme[32];
    char backend[16];
    char kernel[33];
    int rows;
    int pruned;
    double bound;
    double cost;
    double seconds_scan, seconds_compile, seconds_run;
    limber_origin from;
    size_t workspace;
    int64_t recomputed;
    int parts;
    int part_room;
    size_t part_size;
    limber_part *part;
    int order;
} limber_report;

LIMBER_API limber_status limber_report_parts(const limber_report *report, char **text);
LIMBER_API void limber_free(void *text);

typedef struct limber_matrix {
    const void *data;
    limber_format format;
    int64_t row_stride, col_stride;
} limber_matrix;

typedef struct limber_output {
    void *data;
    limber_format format;
    int64_t row_stride, col_stride;
} limber_output;

typedef enum limber_operation {
    LIMBER_OPERATION_GEMM,
    LIMBER_OPERATION_CONV_FORWARD,
    LIMBER_OPERATION_CONV_BACKWARD_DATA,
    LIMBER_OPERATION_CONV_BACKWARD_FILTER
} limber_operation;

typedef enum limber_layout { LIMBER_LAYOUT_NCHW, LIMBER_LAYOUT_NHWC } limber_layout;

typedef struct limber_conv {
    size_t size;
    int64_t n, c, h, w, o, r, s;
    int64_t stride[2], dilate[2];
    int64_t pad[4];
    int64_t groups;
    limber_layout layout;
} limber_conv;

LIMBER_API limber_status limber_conv_output(const limber_conv *conv, int64_t *oh, int64_t *ow);

typedef enum limber_domain { LIMBER_DOMAIN_REAL, LIMBER_DOMAIN_COMPLEX } limber_domain;

typedef enum limber_conjugate {
    LIMBER_CONJUGATE_NONE,
    LIMBER_CONJUGATE_A,
    LIMBER_CONJUGATE_B,
    LIMBER_CONJUGATE_BOTH
} limber_conjugate;

typedef enum limber_complex_method {
    LIMBER_COMPLEX_AUTO,
    LIMBER_COMPLEX_THREE_PRODUCTS,
    LIMBER_COMPLEX_FOUR_PRODUCTS
} limber_complex_method;

typedef struct limber_batch {
    size_t size;
    int64_t count;
    int64_t a, b, c;
    const void *const *address_a;
    const void *const *address_b;
    void *const *address_c;
} limber_batch;

typedef enum limber_capture { LIMBER_CAPTURE_NONE, LIMBER_CAPTURE_READY } limber_capture;

typedef struct limber_queue {
    size_t size;
    void *stream;
    void *workspace;
    size_t bytes;
    limber_capture capture;
} limber_queue;

typedef struct limber_epilogue limber_epilogue;

typedef struct limber_prepared limber_prepared;

typedef struct limber_problem {
    size_t size;
    limber_operation operation;
    limber_domain domain;
    int64_t m, n, k;
    const limber_conv *conv;
    limber_matrix a, b;
    limber_output c;
    const void *alpha, *beta;
    limber_conjugate conjugate;
    limber_complex_method complex_method;
    const limber_contract *contract;
    const limber_epilogue *epilogue;
    limber_prepared *prepared_a, *prepared_b;
    const limber_batch *batch;
    const limber_queue *queue;
} limber_problem;

LIMBER_API limber_status limber_run(limber_context *ctx, const limber_problem *problem,
                                    limber_report *report);

LIMBER_API limber_status limber_plan(limber_context *ctx, const limber_problem *problem,
                                     char **text, limber_report *report);

LIMBER_API limber_status limber_workspace(limber_context *ctx, const limber_problem *problem,
                                          size_t *least, size_t *best);

typedef enum limber_tile_kind {
    LIMBER_TILE_ZERO,
    LIMBER_TILE_NARROW,
    LIMBER_TILE_WIDE
} limber_tile_kind;

typedef struct limber_cut {
    size_t size;
    size_t part_size;
    int parts;
    limber_part *part;
    double one_plan;
    int64_t blocks[2];
    unsigned char *group[2];
    int64_t tiles, tile;
    unsigned char *kind[2];
} limber_cut;

LIMBER_API limber_status limber_explain(limber_context *ctx, const limber_problem *problem,
                                        limber_cut *cut, limber_report *report);
LIMBER_API void limber_cut_free(limber_cut *cut);

LIMBER_API limber_status limber_gemm(limber_context *ctx, const limber_contract *contract,
                                     int64_t m, int64_t n, int64_t k, const void *alpha,
                                     limber_matrix a, limber_matrix b, const void *beta,
                                     limber_output c, limber_report *report);

LIMBER_API limber_status limber_conv2d(limber_context *ctx, const limber_contract *contract,
                                       const limber_conv *conv, const void *alpha, const void *x,
                                       limber_format xf, const void *w, limber_format wf,
                                       const void *beta, void *y, limber_format yf,
                                       limber_report *report);

typedef enum limber_side { LIMBER_SIDE_A, LIMBER_SIDE_B } limber_side;

typedef enum limber_change_check {
    LIMBER_CHANGES_TRUSTED,
    LIMBER_CHANGES_CHECKED
} limber_change_check;

typedef struct limber_prepare_config {
    size_t size;
    size_t bytes;
    limber_change_check changes;
} limber_prepare_config;

LIMBER_API limber_status limber_prepare(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, limber_side side,
                                        const limber_prepare_config *config,
                                        limber_prepared **prepared);

LIMBER_API void limber_prepared_free(limber_prepared *prepared);

LIMBER_API limber_status limber_prepared_check(limber_prepared *prepared);

enum { LIMBER_INSPECT_TILE = 64 };
typedef enum limber_tile_flags {
    LIMBER_TILE_FLAG_ZERO = 1,
    LIMBER_TILE_FLAG_SPECIAL = 2,
    LIMBER_TILE_FLAG_NEGATIVE = 4
} limber_tile_flags;
typedef struct limber_tile {
    int16_t emin, emax;
    int16_t low;
    uint8_t bits;
    uint8_t flags;
} limber_tile;
typedef struct limber_inspection {
    size_t size;
    int64_t lines, length;
    int zero, special, negative;
    int emin, emax;
    int spread;
    int width;
    int bits;
    int64_t tile_rows, tile_cols;
    limber_tile *tile;
} limber_inspection;

LIMBER_API limber_status limber_inspect(limber_context *ctx, limber_matrix x, int64_t rows,
                                        int64_t cols, limber_side side, limber_inspection *out);
LIMBER_API void limber_inspection_free(limber_inspection *inspection);

LIMBER_API limber_status limber_plan_text(limber_context *ctx, const char *plan, const char *passes,
                                          const char *target, char **text);

LIMBER_API limber_status limber_kernel_plan(limber_context *ctx, const char *kernel, char **plan);
LIMBER_API limber_status limber_kernel_make(limber_context *ctx, const char *plan,
                                            limber_report *report);

LIMBER_API limber_status limber_bind(limber_context *ctx, const limber_contract *contract,
                                     limber_format a, limber_format b, limber_format c,
                                     const char *signature, void (**function)(void));

typedef void (*limber_kernel)(const void *a, const void *b, void *c);

typedef enum limber_accumulate { LIMBER_ACCUMULATE_NONE, LIMBER_ACCUMULATE_ADD } limber_accumulate;

LIMBER_API limber_status limber_bind_shape(limber_context *ctx, const limber_contract *contract,
                                           int64_t m, int64_t n, int64_t k, limber_matrix a,
                                           limber_matrix b, limber_output c,
                                           limber_accumulate accumulate, limber_kernel *function);

typedef struct limber_tuning {
    size_t size;
    double seconds;
    const char *units;
    void (*line)(void *user, const char *line);
    void *user;
} limber_tuning;

LIMBER_API limber_status limber_tune(limber_context *ctx, const limber_tuning *tuning);

typedef struct limber_cache_entry {
    char key[65];
    char plan[128];
    size_t bytes;
    int64_t used;
    int good;
    int foreign;
} limber_cache_entry;

typedef struct limber_cache_info {
    size_t size;
    char directory[4096];
    char why_not[256];
    int writable;
    size_t entries, bytes, limit;
    int tuned;
} limber_cache_info;

typedef enum limber_cache_depth { LIMBER_CACHE_LIST, LIMBER_CACHE_VERIFY } limber_cache_depth;
typedef enum limber_cache_choice {
    LIMBER_CACHE_CLEAR_ALL,
    LIMBER_CACHE_CLEAR_DAMAGED
} limber_cache_choice;

LIMBER_API limber_status limber_cache_describe(limber_context *ctx, limber_cache_info *info);
LIMBER_API limber_status limber_cache_each(limber_context *ctx, limber_cache_depth depth,
                                           int (*visit)(void *user, const limber_cache_entry *),
                                           void *user);
LIMBER_API limber_status limber_cache_clear(limber_context *ctx, limber_cache_choice choice,
                                            size_t *removed);

#ifdef __cplusplus
}
#endif

#define LIMBER_CONFIG_INIT LIMBER_SIZED(limber_config)
#define LIMBER_CONTRACT_INIT LIMBER_SIZED(limber_contract)
#define LIMBER_PROBLEM_INIT LIMBER_SIZED(limber_problem)
#define LIMBER_CONV_INIT LIMBER_SIZED(limber_conv)
#define LIMBER_BATCH_INIT LIMBER_SIZED(limber_batch)
#define LIMBER_QUEUE_INIT LIMBER_SIZED(limber_queue)
#define LIMBER_PREPARE_CONFIG_INIT LIMBER_SIZED(limber_prepare_config)
#define LIMBER_INSPECTION_INIT LIMBER_SIZED(limber_inspection)
#define LIMBER_TUNING_INIT LIMBER_SIZED(limber_tuning)
#define LIMBER_CACHE_INFO_INIT LIMBER_SIZED(limber_cache_info)
#ifdef __cplusplus
extern "C++" {
template <class T> inline T limber_sized_parts()
{
    T x = limber_sized<T>();
    x.part_size = sizeof(limber_part);
    return x;
}
}
#define LIMBER_REPORT_INIT (limber_sized_parts<limber_report>())
#define LIMBER_CUT_INIT (limber_sized_parts<limber_cut>())
#else
#define LIMBER_REPORT_INIT { .size = sizeof(limber_report), .part_size = sizeof(limber_part) }
#define LIMBER_CUT_INIT { .size = sizeof(limber_cut), .part_size = sizeof(limber_part) }
#endif

#endif
