/* SPDX-License-Identifier: BSD-3-Clause
 * A context: the machine, the caches, the threads, and what the caller has chosen. */
#ifndef LIMBER_JIT_CONTEXT_H
#define LIMBER_JIT_CONTEXT_H

#include "jit/cache/cache.h"
#include "jit/runtime/runtime.h"
#include "passes/passes.h"

/* ---- context.c ------------------------------------------------------------------------------- */

struct binding;
void limber_bindings_free(struct binding *list);

struct machine {
    const struct backend *backend;
    struct target target;
    struct text text; /* of the target */
};

struct limber_context {
    struct machine machine;
    struct machine spare; /* for what the machine's backend cannot compile here; backend NULL:
                             the caller wants no other */
    struct machine
        host; /* of arrays in host memory where the machine is a device; backend NULL: the
                            machine itself */
    unsigned char build[16];
    struct pool *pool;
    struct kernel_cache *memory;
    struct kernel_cache *codes; /* by what decides about the code: unlike plans may share it */
    struct kernel_cache *functions; /* of fixed shape; none is ever given back */
    struct background *background;
    struct shapes *shapes; /* functions for small products; NULL: none are made */
    limber_context *generic; /* NULL until it is needed */
    limber_context *(*generic_of)(limber_context *); /* limber_context_generic */
    bool shared_pool; /* from the context that this one is the generic one of */
    struct disk *disk;
    char *dump_dir;
    int verbose;
    bool no_compile;
    limber_kernels kernels; /* not AUTO */
    bool tuned; /* the machine's target follows a record */
    size_t workspace; /* 0: from the operands */
    limber_allocator allocator; /* alloc NULL: the system's */
    void (*log)(void *user, const char *line);
    void *log_user;
    pthread_mutex_t lock; /* of what follows */
    char interpreted[256]; /* why the interpreter serves; written once */
    struct at_fork at_fork;
    struct binding *bindings;
    struct recordable *recordable; /* kernel.c: calls that may be recorded */
    uint32_t ways; /* those that may serve */
    atomic_uint_fast64_t whole[64]; /* mixed.c: products that are best by one plan, by hash */
    double brief; /* seconds: products that are predicted to take less are not cut, either */
    int64_t prices; /* found so far */
    struct priced *priced; /* kernel.c: plans whose price is known */
    struct table *tables; /* operators/elementwise.c: of functions of small formats */
};
static inline bool limber_has_way(const limber_context *ctx, enum way_id way)
{
    return ctx->ways >> way & 1;
}
void limber_recordable_free(struct recordable *list);
/* A context of the interpreter, with this one's threads and life.  NULL: no memory. */
limber_context *limber_context_generic(limber_context *ctx);
/* From now on the interpreter computes in the place of the backend, for this reason; the first
 * counts. */
void limber_context_interprets(limber_context *ctx, const char *why);
/* The work of the background thread: makes the kernel of a job. */
void limber_engine_make(void *ctx, const void *kernel_key);
/* The code of the compiler that makes it. */
struct code_range limber_engine_compiler(void *ctx);
/* limber_create with the backends of the caller's choice, best first, NULL at the end. */
bool limber_context_make(limber_context **ctx, const limber_config *config,
                         const struct backend *const *backends, struct diag *d);

/* tune.c: what was measured of this machine, from the disk cache into its target. */
void limber_tuning_read(limber_context *ctx);

/* The part of the machine in keys of code: devices that differ elsewhere share it. */
static inline const char *limber_code_target(const struct machine *m)
{
    return m->backend->code_by_isa ? m->target.isa : m->text.s;
}

static inline const struct machine *limber_host(const limber_context *ctx)
{
    return ctx->host.backend ? &ctx->host : &ctx->machine;
}

#endif
