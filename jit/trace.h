/* SPDX-License-Identifier: BSD-3-Clause
 * Records the plan after each pass, for a dump or a text. */
#ifndef LIMBER_JIT_TRACE_H
#define LIMBER_JIT_TRACE_H

#include "jit/context.h"

/* ---- trace.c: the plan after each pass ------------------------------------------------------- */

/* Where plans are recorded: in a dump directory, as text, or both. */
struct trace {
    int folder; /* descriptor of the kernel's dump directory; 0 if there is none */
    struct text *out; /* where all stages are written, or NULL */
    struct text last; /* text of the latest stage; owned */
};
/* Opens DIR/<first 12 hex digits of the key>/ in the context's dump_dir, and makes it for this user
 * alone if it is absent.  Returns 0 if nothing is dumped, or after a failure, which is logged. */
int limber_dump_folder(const limber_context *ctx, const unsigned char key[KEY_BYTES]);
void limber_trace_stage(struct trace *s, int number, const char *pass, const struct plan *p);
/* The `visit` callback of a pass_watch: writes the plan after a pass, if the plan has changed. */
void limber_trace_pass(void *trace, const char *pass, const struct plan *p);
void limber_trace_end(struct trace *s, const struct plan *p, const struct target *target);
/* Closes the directory and frees the latest stage. */
void limber_trace_clear(struct trace *s);
/* The `file` callback of a struct dump. trace: the struct trace. */
void limber_trace_file(void *trace, const char *name, const char *data, size_t size);

#endif
