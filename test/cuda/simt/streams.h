/* SPDX-License-Identifier: BSD-3-Clause
 * Streams that execute work late: when a thread waits for it, or at random, but never before its
 * dependencies. */
#ifndef LIMBER_SIMT_STREAMS_H
#define LIMBER_SIMT_STREAMS_H

#include "test/cuda/simt/engine.h"

enum work_kind { WORK_launch, WORK_copy, WORK_set, WORK_free, WORK_wait };

/* Work of a stream, executed later or when a graph runs. */
struct work {
    struct work *next;
    enum work_kind kind;
    struct launch launch;
    void *args;                 /* owned: arguments of a launch, or a copy of host memory */
    uint64_t to, from, to_pitch, from_pitch, width, height;
    bool to_host, from_host;
    uint32_t value, unit;
    const struct stream *awaited;       /* stream to wait for; NULL: nothing */
    uint64_t until;             /* last work item of that stream to wait for */
    uint64_t number;            /* number of this work, counted over all streams */
};

/* A stream and the work that waits in it. */
struct stream {
    struct capture *capture;
    bool apart;                 /* non-blocking: not ordered with the NULL stream */
    struct work *first, *last;
    struct stream *next;
};

/* The fields are private to streams.c; NULL means the legacy default stream everywhere. */
void streams_add(struct stream *s);
void streams_remove(struct stream *s);  /* removes the stream once its work is done */
struct stream *streams_first(void);     /* list of streams, by next, without the NULL stream */

/* Appends work to the stream and takes ownership of it.  With `late`, the call returns before the
 * whole queue has run, as an asynchronous launch may; without it, the call first runs the queue up
 * to and including this work. */
void streams_put(struct stream *s, struct work *w, bool late);
uint64_t streams_last(const struct stream *s);  /* number of its newest work; 0: none */
bool streams_are_done(const struct stream *s, uint64_t until);

/* Runs the remaining work of a stream and its dependencies; for the NULL stream, of all streams
 * that it waits for. */
void streams_finish(struct stream *s);
void streams_finish_until(const struct stream *s, uint64_t until);
void streams_finish_all(void);
void streams_forget(void);      /* discards all work */
void streams_seed(uint64_t seed);

/* driver.c: executes work. */
void work_run(const struct work *w);

#endif
