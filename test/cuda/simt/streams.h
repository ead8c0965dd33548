/* SPDX-License-Identifier: BSD-3-Clause
 * Streams that do their work late: when someone waits for it, or at random, but never before what
 * it has to follow. */
#ifndef LIMBER_SIMT_STREAMS_H
#define LIMBER_SIMT_STREAMS_H

#include "test/cuda/simt/engine.h"

enum work_kind { WORK_launch, WORK_copy, WORK_set, WORK_free, WORK_wait };

/* Something that a stream does, now or when a graph runs. */
struct work {
    struct work *next;
    enum work_kind kind;
    struct launch launch;
    void *args;                 /* of a launch, or host memory that is copied: the work's own */
    uint64_t to, from, to_pitch, from_pitch, width, height;
    bool to_host, from_host;
    uint32_t value, unit;
    const struct stream *awaited;       /* NULL: nothing any more */
    uint64_t until;             /* its last work that is waited for */
    uint64_t number;            /* counted over all streams */
};

struct stream {
    struct capture *capture;
    bool apart;                 /* does not wait for the NULL stream, nor that for it */
    struct work *first, *last;
    struct stream *next;
};

/* Its fields are this file's; NULL stands for the legacy default stream everywhere. */
void streams_add(struct stream *s);
void streams_remove(struct stream *s);  /* when its work is done */
struct stream *streams_first(void);     /* of a list by next; without the NULL stream */

/* Takes work over.  late: at most some of it is done before the call returns. */
void streams_put(struct stream *s, struct work *w, bool late);
uint64_t streams_last(const struct stream *s);  /* the number of its newest work, or 0 */
bool streams_are_done(const struct stream *s, uint64_t until);

/* Does what is left, and whatever that waits for; of the NULL stream: of all that it waits for. */
void streams_finish(struct stream *s);
void streams_finish_until(const struct stream *s, uint64_t until);
void streams_finish_all(void);
void streams_forget(void);      /* all work */
void streams_seed(uint64_t seed);

/* driver.c: does it. */
void work_run(const struct work *w);

#endif
