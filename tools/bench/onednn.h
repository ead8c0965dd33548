/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations of the parts of oneDNN's interface that the peers use. */
#ifndef LIMBER_BENCH_ONEDNN_H
#define LIMBER_BENCH_ONEDNN_H

#include "tools/bench/bench.h"

/* Releases 2 and 3 differ in the memory descriptor: in release 2 it is a structure that the caller
 * owns (696 bytes in 2.6), in release 3 an opaque object.  This program holds either by a
 * pointer. */
enum {
    DNN_F16 = 1,
    DNN_BF16 = 2,
    DNN_F32 = 3,
    DNN_S32 = 4,
    DNN_S8 = 5,
    DNN_U8 = 6,
    DNN_ANY = 1,
    DNN_CPU = 1,
    DNN_IN_ORDER = 1,
    DNN_SRC_MD = 129,
    DNN_DIFF_SRC_MD,
    DNN_WEIGHTS_MD,
    DNN_DIFF_WEIGHTS_MD,
    DNN_DST_MD,
    DNN_DIFF_DST_MD,
    DNN_SRC = 1,
    DNN_DST = 17,
    DNN_WEIGHTS = 33,
    DNN_DIFF_SRC = 129,
    DNN_DIFF_DST = 145,
    DNN_DIFF_WEIGHTS = 161,
    /* forward training; its descriptor is also the hint for backward primitives */
    DNN_FORWARD = 64,
    DNN_DIRECT = 1,
    DNN_ROOM = 8192
};

/* An argument of a primitive, laid out like oneDNN's dnnl_exec_arg_t. */
struct dnn_argument {
    int which;
    void *memory;
};

/* oneDNN's functions.  GEMM and MATMUL are used in releases 2 and 3, RELEASE2 only in release 2,
 * all others only in release 3.  Each entry: name in `dnn`, symbol, result, parameters. */
#define GEMM(F) \
    F(version, dnnl_version, const void *, (void)) \
    F(sgemm, dnnl_sgemm, int, \
      (char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, \
       int64_t, float, float *, int64_t)) \
    F(u8, dnnl_gemm_u8s8s32, int, \
      (char, char, char, int64_t, int64_t, int64_t, float, const uint8_t *, int64_t, uint8_t, \
       const int8_t *, int64_t, int8_t, float, int32_t *, int64_t, const int32_t *)) \
    F(s8, dnnl_gemm_s8s8s32, int, \
      (char, char, char, int64_t, int64_t, int64_t, float, const int8_t *, int64_t, int8_t, \
       const int8_t *, int64_t, int8_t, float, int32_t *, int64_t, const int32_t *))
#define MATMUL(F) \
    F(engine_create, dnnl_engine_create, int, (void **, int, size_t)) \
    F(stream_create, dnnl_stream_create, int, (void **, void *, unsigned)) \
    F(stream_wait, dnnl_stream_wait, int, (void *)) \
    F(execute, dnnl_primitive_execute, int, \
      (const void *, void *, int, const struct dnn_argument *)) \
    F(memory_create, dnnl_memory_create, int, (void **, const void *, void *, void *)) \
    F(memory_destroy, dnnl_memory_destroy, int, (void *)) \
    F(query_md, dnnl_primitive_desc_query_md, const void *, (const void *, int, int)) \
    F(primitive_create, dnnl_primitive_create, int, (void **, const void *)) \
    F(primitive_destroy, dnnl_primitive_destroy, int, (void *)) \
    F(desc_destroy, dnnl_primitive_desc_destroy, int, (void *)) \
    F(reorder_create, dnnl_reorder_primitive_desc_create, int, \
      (void **, const void *, void *, const void *, void *, const void *))
#define RELEASE2(F) \
    F(matmul_init, dnnl_matmul_desc_init, int, \
      (void *, const void *, const void *, const void *, const void *)) \
    F(desc_create, dnnl_primitive_desc_create, int, \
      (void **, const void *, const void *, void *, const void *)) \
    F(strides2, dnnl_memory_desc_init_by_strides, int, \
      (void *, int, const int64_t *, int, const int64_t *)) \
    F(tag2, dnnl_memory_desc_init_by_tag, int, (void *, int, const int64_t *, int, int))
#define RELEASE3(F) \
    F(matmul_create, dnnl_matmul_primitive_desc_create, int, \
      (void **, void *, const void *, const void *, const void *, const void *, const void *)) \
    F(strides3, dnnl_memory_desc_create_with_strides, int, \
      (void **, int, const int64_t *, int, const int64_t *)) \
    F(tag3, dnnl_memory_desc_create_with_tag, int, (void **, int, const int64_t *, int, int)) \
    F(md_destroy, dnnl_memory_desc_destroy, int, (void *))
#define CONVOLUTION(F) \
    F(conv_forward, dnnl_convolution_forward_primitive_desc_create, int, \
      (void **, void *, int, int, const void *, const void *, const void *, const void *, \
       const int64_t *, const int64_t *, const int64_t *, const int64_t *, const void *)) \
    F(conv_data, dnnl_convolution_backward_data_primitive_desc_create, int, \
      (void **, void *, int, const void *, const void *, const void *, const int64_t *, \
       const int64_t *, const int64_t *, const int64_t *, const void *, const void *)) \
    F(conv_weights, dnnl_convolution_backward_weights_primitive_desc_create, int, \
      (void **, void *, int, const void *, const void *, const void *, const void *, \
       const int64_t *, const int64_t *, const int64_t *, const int64_t *, const void *, \
       const void *))
#define ELTWISE(F) \
    F(eltwise_forward, dnnl_eltwise_forward_primitive_desc_create, int, \
      (void **, void *, int, int, const void *, const void *, float, float, const void *))
#define FUSED(F) \
    F(attr_create, dnnl_primitive_attr_create, int, (void **)) \
    F(attr_destroy, dnnl_primitive_attr_destroy, int, (void *)) \
    F(post_ops_create, dnnl_post_ops_create, int, (void **)) \
    F(post_ops_destroy, dnnl_post_ops_destroy, int, (void *)) \
    F(append_eltwise, dnnl_post_ops_append_eltwise, int, (void *, int, float, float)) \
    F(set_post_ops, dnnl_primitive_attr_set_post_ops, int, (void *, const void *))
#define DECLARE(here, symbol, result, arguments) result(*here) arguments;

extern struct dnn {
    int major;
    bool matmul; /* the functions for matmul primitives were found */
    bool convolution, eltwise, fused; /* the functions were found; always false for release 2 */
    void *engine, *stream;
    void (*omp_threads)(int);
    GEMM(DECLARE)
    MATMUL(DECLARE)
    RELEASE2(DECLARE) RELEASE3(DECLARE) CONVOLUTION(DECLARE) ELTWISE(DECLARE) FUSED(DECLARE)
} dnn;

/* A copy of a tensor from one layout to another. */
struct dnn_copy {
    const void *from_md, *to_md;
    void *from, *to; /* memory objects with these descriptors */
};
/* Copies p->from to p->to.  Returns false if oneDNN cannot convert between the layouts. */
bool dnn_reorder(const struct dnn_copy *p);

#endif
