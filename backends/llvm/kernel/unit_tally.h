/* SPDX-License-Identifier: BSD-3-Clause
 * Counters of events for kernels of simulated units, with one counter per lane. */
#ifndef LIMBER_KERNEL_UNIT_TALLY_H
#define LIMBER_KERNEL_UNIT_TALLY_H

struct f32_tally {
#define T(name) v16i name;
    LIMBER_UNIT_TALLIES(T)
#undef T
};
struct wide_tally {
#define T(name) v8l name;
    LIMBER_UNIT_TALLIES(T)
#undef T
};
typedef struct f32_tally f32_tally;
typedef struct wide_tally wide_tally;

/* Adds n to a counter that other threads may update, too. */
FLAT void add_count(int64_t *to, int64_t n)
{
    __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

/* Adds the lanes' counters to those of the call.  Lane counters are negative, since masks of -1
 * were added to them. */
FLAT void add_f32_tally(const struct kernel_call *c, const struct f32_tally *t)
{
#define T(name)                                                                                 \
    add_count(&c->counts->name, -__builtin_reduce_add(TO(v8l, LOW(t->name)) +                   \
                                                      TO(v8l, HIGH(t->name))));
    LIMBER_UNIT_TALLIES(T)
#undef T
}

/* Does what add_f32_tally does, for FP64 lanes. */
FLAT void add_wide(const struct kernel_call *c, const struct wide_tally *t)
{
#define T(name) add_count(&c->counts->name, -__builtin_reduce_add(t->name));
    LIMBER_UNIT_TALLIES(T)
#undef T
}

#endif
