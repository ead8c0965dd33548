/* SPDX-License-Identifier: BSD-3-Clause
 * A context: the machine, the caches, the threads and the caller's configuration. */
#ifndef LIMBER_JIT_CONTEXT_H
#define LIMBER_JIT_CONTEXT_H

#include "jit/cache/cache.h"
#include "jit/runtime/runtime.h"
#include "passes/passes.h"

/* ---- context.c ------------------------------------------------------------------------------- */

struct binding;
void limber_bindings_free(struct binding *list);

/* A backend, and the machine on which it computes. */
struct machine {
    const struct backend *backend;
    const struct cpu_ops *cpu; /* backend->cpu */
    struct target target;
    struct text text; /* owned; the target as text */
};

/* Settings of a context's dump and log. */
struct log_settings {
    char *dump_dir; /* owned; NULL if nothing is dumped */
    int verbose;
    void (*log)(void *user, const char *line);
    void *log_user;
};

/* Predicted costs of plans, by which products are partitioned. */
struct pricing {
    /* mixed.c: hashes of products that one plan computes best, so that no partition is tried */
    atomic_uint_fast64_t whole[64];
    double brief; /* seconds; a product that is predicted to take less is not partitioned */
    int64_t prices; /* number of predicted costs (prices) that were computed so far */
    struct priced *priced; /* kernel.c: list of plans whose predicted cost is known */
};

struct limber_context {
    struct machine machine;
    /* A machine that is used in place of `machine` if the compiler of `machine` is missing. backend
     * is NULL if there is none, because the caller named a backend. */
    struct machine spare;
    /* Computes on arrays in host memory if `machine` is a device. backend is NULL if `machine` is
     * no device. */
    struct machine host;
    /* identity of the library's code (limber_key_build) */
    unsigned char build[16];
    struct pool *pool;
    /* kernels in memory, by kernel key */
    struct kernel_cache *memory;
    /* loaded code, by the code's own key; different plans may share code */
    struct kernel_cache *codes;
    struct kernel_cache *functions; /* functions of one shape; never evicted */
    struct background *background;
    struct forms *forms; /* accepted.c: products that were accepted; NULL if none are kept */
    struct shapes *shapes; /* functions for frequent small products; NULL if none are made */
    /* a context of the interpreter, for contract.on_miss; NULL until it is needed */
    limber_context *generic;
    /* returns `generic`, which it makes first if needed (limber_context_generic) */
    limber_context *(*generic_of)(limber_context *);
    bool shared_pool; /* this is a generic context, whose pool belongs to its parent */
    struct disk *disk;
    struct log_settings tells;
    bool no_compile; /* true if the variable LIMBER_NO_COMPILE is set */
    limber_kernels kernels; /* which kernels calls may use, never LIMBER_KERNELS_AUTO */
    bool tuned; /* the machine's target has values that limber_tune measured */
    /* largest number of bytes of a launch's workspace; 0: derived from the operands */
    size_t workspace;
    limber_allocator allocator; /* if its `alloc` is NULL, malloc is used */
    pthread_mutex_t lock; /* guards the fields below, except atomic ones */
    /* why the interpreter computes in place of the backend; "" if it does not; written once */
    char interpreted[256];
    struct at_fork at_fork;
    struct binding *bindings;
    /* kernel.c: list of calls that were made ready for stream capture */
    struct recordable *recordable;
    uint32_t ways; /* set of allowed code paths, called ways (limber_way_bit) */
    struct pricing pricing;
    struct table *tables; /* operators/elementwise.c: lookup tables of functions */
};
/* True if the context's calls may use this way (code path). */
static inline bool limber_has_way(const limber_context *ctx, enum way_id way)
{
    return ctx->ways >> way & 1;
}
void limber_recordable_free(struct recordable *list);
/* Returns a context of the interpreter that uses the threads of this context and is freed with it.
 * NULL if memory runs out. */
limber_context *limber_context_generic(limber_context *ctx);
/* Records why the interpreter computes instead of the backend.  Only the first reason is kept. */
void limber_context_interprets(limber_context *ctx, const char *why);
/* The background thread calls this to do a job (struct background_job). */
void limber_run_background_job(void *ctx, const void *kernel_key);
/* Returns the address range of the compiler's code that the background thread runs. */
struct code_range limber_engine_compiler(void *ctx);
/* Does limber_create with a given list of backends, best first, which NULL ends. */
bool limber_context_make(limber_context **ctx, const limber_config *config,
                         const struct backend *const *backends, struct diag *d);

/* tune.c: copies measurements of this machine from the disk cache to its target. */
void limber_tuning_read(limber_context *ctx);

/* Returns the target's text that is part of keys of code.  Devices that differ only in properties
 * that do not affect code have the same text. */
static inline const char *limber_code_target(const struct machine *m)
{
    const struct code_ops *code = m->backend->code;

    return code && code->by_isa ? m->target.isa : m->text.s;
}

/* True if the backend has prebuilt kernels, which need no compiler at run time. */
static inline bool limber_carries(const struct backend *b)
{
    return b->code && b->code->carries;
}

/* Returns the machine that computes on arrays in host memory. */
static inline const struct machine *limber_host(const limber_context *ctx)
{
    return ctx->host.backend ? &ctx->host : &ctx->machine;
}

/* Returns the vector code for elementwise functions of the machine that computes on host memory;
 * NULL if there is none, or no context. */
static inline const struct function_ops *limber_host_functions(const limber_context *ctx)
{
    const struct cpu_ops *cpu = ctx ? limber_host(ctx)->cpu : NULL;

    return cpu ? cpu->functions : NULL;
}

#endif
