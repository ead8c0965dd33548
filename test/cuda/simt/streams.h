/* SPDX-License-Identifier: BSD-3-Clause
 * Streams that execute work late: at random, or when a thread waits for it, but never before its
 * dependencies. */
#ifndef LIMBER_SIMT_STREAMS_H
#define LIMBER_SIMT_STREAMS_H

#include "test/cuda/simt/engine.h"

enum work_kind { WORK_launch, WORK_copy, WORK_set, WORK_free, WORK_wait };

/* A work item of a stream or a graph. */
struct work {
    struct work *next;
    enum work_kind kind;
    struct launch launch;
    void *args; /* owned: a launch's arguments, or a copy of the bytes to be copied from the host */
    uint64_t to, from, to_pitch, from_pitch, width, height;
    bool to_host, from_host;
    uint32_t value, unit;
    /* WORK_wait: the stream to wait for, or NULL if it was destroyed */
    const struct stream *awaited;
    uint64_t until; /* WORK_wait: number of the last work item to wait for */
    uint64_t number; /* number of this item, counted over all streams */
};

/* A stream and its queued work. */
struct stream {
    struct capture *capture;
    bool apart; /* non-blocking: not ordered with the NULL stream */
    struct work *first, *last;
    struct stream *next;
};

/* In this header a NULL stream is the legacy default stream.  Only streams.c uses a stream's
 * fields. */
void streams_add(struct stream *s);
void streams_remove(struct stream *s); /* the stream's work must be done */
/* first of all streams except the NULL stream, linked by `next` */
struct stream *streams_first(void);

/* Appends work to the stream and takes ownership of it.  If `late`, the call returns before the
 * work has run, as an asynchronous launch may; else it runs the queue up to and including this
 * work. */
void streams_put(struct stream *s, struct work *w, bool late);
/* Returns the number of the stream's newest work item; 0 if the stream has none. */
uint64_t streams_last(const struct stream *s);
bool streams_are_done(const struct stream *s, uint64_t until);

/* Runs all work of a stream and of what it depends on; for the NULL stream, that of all blocking
 * streams. */
void streams_finish(struct stream *s);
void streams_finish_until(const struct stream *s, uint64_t until);
void streams_finish_all(void);
void streams_forget(void); /* discards all work */
void streams_seed(uint64_t seed);

/* Executes a work item (driver.c). */
void work_run(const struct work *w);

#endif
