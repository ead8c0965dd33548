/* SPDX-License-Identifier: BSD-3-Clause
 * Records the stages between the stated plan and the finished one, for a dump or a text. */
#ifndef LIMBER_JIT_TRACE_H
#define LIMBER_JIT_TRACE_H

#include "jit/context.h"

/* ---- trace.c: the plan after each pass ------------------------------------------------------- */

struct trace {
    int folder; /* descriptor of the kernel's dump folder; 0: none */
    struct text *out; /* NULL, or where all stages are written */
    struct text last; /* the newest stage; owned */
};
/* Makes DIR/<first 12 hex of the key>/ in the context's dump_dir, both for this user alone, and
 * opens it.  Returns 0 without a dump, or after a failure, which is logged. */
int limber_dump_folder(const limber_context *ctx, const unsigned char key[KEY_BYTES]);
void limber_trace_stage(struct trace *s, int number, const char *pass, const struct plan *p);
/* A pass_watch.visit that writes the stages that changed something. */
void limber_trace_pass(void *trace, const char *pass, const struct plan *p);
void limber_trace_end(struct trace *s, const struct plan *p, const struct target *target);
/* Closes the folder and frees the last stage. */
void limber_trace_clear(struct trace *s);
/* A dump.file; user is the trace. */
void limber_trace_file(void *trace, const char *name, const char *data, size_t size);

#endif
