/* SPDX-License-Identifier: BSD-3-Clause
 * Queues of work items, and which of them may run. */
#include "test/cuda/simt/streams.h"

#include <stdlib.h>

/* The legacy default stream, and the list of all others. */
static struct stream legacy, *streams;
/* The number of the last work item, and the state of the random numbers. */
static uint64_t numbers, state;
static bool eager;              /* the seed chose to run work as soon as it is queued */

/* Makes the order of work in streams reproducible; for some seeds it runs as late as possible. */
void streams_seed(uint64_t seed)
{
    state = seed * 0x9e3779b97f4a7c15u + 1;
    eager = seed % 3 != 0;
}

static uint32_t random_below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

struct stream *streams_first(void)
{
    return streams;
}

void streams_add(struct stream *s)
{
    s->next = streams;
    streams = s;
}

/* Removes a stream that is destroyed from the waits of another stream. */
static void forget_waits(struct stream *s, const struct stream *gone)
{
    for (struct work *w = s->first; w; w = w->next)
        if (w->awaited == gone)
            w->awaited = NULL;
}

/* Removes a stream; the others no longer wait for it. */
void streams_remove(struct stream *s)
{
    struct stream **at = &streams;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    forget_waits(&legacy, s);
    for (struct stream *o = streams; o; o = o->next)
        forget_waits(o, s);
}

/* NULL stands for the legacy default stream. */
static const struct stream *or_legacy(const struct stream *s)
{
    return s ? s : &legacy;
}

uint64_t streams_last(const struct stream *s)
{
    s = or_legacy(s);
    return s->last ? s->last->number : 0;
}

bool streams_are_done(const struct stream *s, uint64_t until)
{
    s = or_legacy(s);
    return !s->first || s->first->number > until;
}

/* Returns whether a stream's first work item may run.  The NULL stream and blocking streams wait
 * for each other's earlier work. */
static bool is_ready(const struct stream *s)
{
    const struct work *w = s->first;

    if (!w || (w->kind == WORK_wait && w->awaited && !streams_are_done(w->awaited, w->until)))
        return false;
    if (s != &legacy)
        return s->apart || streams_are_done(&legacy, w->number);
    for (const struct stream *o = streams; o; o = o->next)
        if (!o->apart && !streams_are_done(o, w->number))
            return false;
    return true;
}

static void free_work(struct work *w)
{
    free(w->args);
    free(w);
}

/* Does the first work item of a stream. */
static void run_first(struct stream *s)
{
    struct work *w = s->first;

    work_run(w);
    s->first = w->next;
    s->last = s->first ? s->last : NULL;
    free_work(w);
}

/* Executes the first work item of a random stream whose first item may run; returns false if there
 * is no such stream. */
static bool run_any(void)
{
    struct stream *chosen = NULL;
    uint32_t count = 0;

    if (is_ready(&legacy)) {
        chosen = &legacy;
        count = 1;
    }
    for (struct stream *s = streams; s; s = s->next)
        if (is_ready(s) && random_below(++count) == 0)
            chosen = s;
    if (chosen)
        run_first(chosen);
    return chosen;
}

/* Appends work to a stream (NULL: the default stream).  If not `late`, runs the stream's work at
 * once; else, at random, runs some work of any stream or none. */
void streams_put(struct stream *s, struct work *w, bool late)
{
    s = s ? s : &legacy;
    w->number = ++numbers;
    w->next = NULL;
    if (s->last)
        s->last->next = w;
    else
        s->first = w;
    s->last = w;
    if (!late)
        streams_finish_until(s, w->number);
    else
        while (eager && random_below(3) == 0 && run_any())
            ;
}

/* Does work of any streams until a stream has done its work up to a number. */
void streams_finish_until(const struct stream *s, uint64_t until)
{
    while (!streams_are_done(s, until) && run_any())
        ;
}

/* Does all work of a stream; NULL: of the default stream and of those that synchronise with it. */
void streams_finish(struct stream *s)
{
    streams_finish_until(s, streams_last(s));
    for (struct stream *o = s ? NULL : streams; o; o = o->next)
        if (!o->apart)
            streams_finish_until(o, streams_last(o));
}

void streams_finish_all(void)
{
    while (run_any())
        ;
}

/* Discards a stream's queued work. */
static void forget(struct stream *s)
{
    while (s->first) {
        struct work *w = s->first;

        s->first = w->next;
        free_work(w);
    }
    s->last = NULL;
}

void streams_forget(void)
{
    forget(&legacy);
    for (struct stream *s = streams; s; s = s->next)
        forget(s);
}
