/* SPDX-License-Identifier: BSD-3-Clause
 * A context: the machine, caches, threads, and the caller's configuration. */
#ifndef LIMBER_JIT_CONTEXT_H
#define LIMBER_JIT_CONTEXT_H

#include "jit/cache/cache.h"
#include "jit/runtime/runtime.h"
#include "passes/passes.h"

/* ---- context.c ------------------------------------------------------------------------------- */

struct binding;
void limber_bindings_free(struct binding *list);

/* A backend, and the machine that it computes on. */
struct machine {
    const struct backend *backend;
    struct target target;
    struct text text; /* the target as text */
};

struct limber_context {
    struct machine machine;
    struct machine spare; /* replaces a machine whose compiler is missing; backend NULL: the caller
                             named one backend only */
    struct machine
        host; /* computes on arrays in host memory if the machine is a device; backend NULL: the
                            machine itself does */
    unsigned char build[16];
    struct pool *pool;
    struct kernel_cache *memory;
    struct kernel_cache *codes; /* loaded code by its own key, which different plans may share */
    struct kernel_cache *functions; /* functions of fixed shapes; live as long as the context */
    struct background *background;
    struct shapes *shapes; /* functions for small products; NULL: none are made */
    limber_context *generic; /* the interpreter's context, for on_miss; NULL until it is needed */
    /* makes or finds `generic` (limber_context_generic) */
    limber_context *(*generic_of)(limber_context *);
    bool shared_pool; /* this is a generic context, whose pool belongs to its parent */
    struct disk *disk;
    char *dump_dir;
    int verbose;
    bool no_compile;
    limber_kernels kernels; /* not AUTO */
    bool tuned; /* the machine's target has measured values of limber_tune */
    size_t workspace; /* bytes; 0: derived from the operands */
    limber_allocator allocator; /* alloc NULL: malloc */
    void (*log)(void *user, const char *line);
    void *log_user;
    pthread_mutex_t lock; /* guards the fields below */
    char interpreted[256]; /* why the interpreter replaces the backend, or ""; written once */
    struct at_fork at_fork;
    struct binding *bindings;
    struct recordable *recordable; /* kernel.c: calls made ready for stream capture */
    uint32_t ways; /* set of allowed ways */
    atomic_uint_fast64_t whole[64]; /* mixed.c: hashes of products that one plan computes best */
    double brief; /* seconds: products that are predicted to take less are not partitioned */
    int64_t prices; /* number of prices computed so far */
    struct priced *priced; /* kernel.c: list of plans with known price */
    struct table *tables; /* operators/elementwise.c: lookup tables of functions */
};
static inline bool limber_has_way(const limber_context *ctx, enum way_id way)
{
    return ctx->ways >> way & 1;
}
void limber_recordable_free(struct recordable *list);
/* A context of the interpreter that shares this one's threads and is freed with it.  NULL: no
 * memory.
 */
limber_context *limber_context_generic(limber_context *ctx);
/* Records that the interpreter computes instead of the backend, and why; only the first reason is
 * kept. */
void limber_context_interprets(limber_context *ctx, const char *why);
/* Entry point of the background thread: makes the kernel of a job. */
void limber_engine_make(void *ctx, const void *kernel_key);
/* The address range of the code of the compiler that the background thread uses. */
struct code_range limber_engine_compiler(void *ctx);
/* limber_create with a given list of backends, best first, NULL at the end. */
bool limber_context_make(limber_context **ctx, const limber_config *config,
                         const struct backend *const *backends, struct diag *d);

/* tune.c: reads measurements of this machine from the disk cache into its target. */
void limber_tuning_read(limber_context *ctx);

/* The target's text in keys of code; devices that differ only in other properties share code. */
static inline const char *limber_code_target(const struct machine *m)
{
    return m->backend->code_by_isa ? m->target.isa : m->text.s;
}

static inline const struct machine *limber_host(const limber_context *ctx)
{
    return ctx->host.backend ? &ctx->host : &ctx->machine;
}

#endif
