/* SPDX-License-Identifier: BSD-3-Clause
 * Device memory.  Its addresses are inaccessible to the CPU, and its bytes are stored elsewhere.
 * Each byte has a state: whether it belongs to an allocation, and which launch wrote it last.
 * Allocations lie between red zones. */
#define _GNU_SOURCE
#include "test/cuda/simt/engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ZONE: bytes of the red zones between allocations. POISON: what fills new and freed memory. */
enum { DEVICES = 2, ZONE = 64 * 1024, POISON = 0xc5 };

/* State of a byte: unallocated, never written, written before this launch, or, from FIRST on, the
 * number of the launch that wrote it. */
enum { NOBODY, FRESH, WRITTEN, FIRST, LAST = 250 };

/* An allocation of device memory. */
struct piece {
    uint64_t at, size;
    struct piece *next;
};

/* The memory of all devices. */
static struct {
    /* base: first address of all devices; each: bytes of address space of each device */
    uint64_t base, each;
    uint64_t room; /* bytes of memory per device */
    unsigned char *real, *state;
    uint32_t *moment; /* [byte] the record (order.c) of its last write in this launch */
    struct piece *pieces[DEVICES]; /* allocations, by ascending address */
    uint64_t used[DEVICES];
    int launch;
    uint64_t written_to; /* just past the last byte that this launch wrote, by address */
} memory;

/* Reserves address space.  Returns NULL on failure. */
static void *reserve(uint64_t size, int protection)
{
    void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Reserves the simulated memory of all devices; `each`: what one device may allocate.  Programs
 * see addresses from `base` on, which cannot be accessed.  For each byte, `real` has its value,
 * `state` its state, and `moment` the record of its last write. */
bool memory_start(uint64_t each)
{
    memset(&memory, 0, sizeof memory);
    memory.room = each;
    /* more address space than memory, for red zones and fragmentation */
    each = 2 * each / 4096 * 4096 + (UINT64_C(4) << 30);
    memory.each = each;
    memory.launch = FIRST;
    memory.base = (uint64_t)(uintptr_t)reserve(DEVICES * each, PROT_NONE);
    memory.real = reserve(DEVICES * each, PROT_READ | PROT_WRITE);
    memory.state = reserve(DEVICES * each, PROT_READ | PROT_WRITE);
    memory.moment = reserve(4 * DEVICES * each, PROT_READ | PROT_WRITE);
    return memory.base && memory.real && memory.state && memory.moment;
}

/* Frees the simulated memory of all devices, if there is any. */
void memory_stop(void)
{
    if (!memory.base)
        return;
    for (int d = 0; d < DEVICES; d++)
        while (memory.pieces[d]) {
            struct piece *p = memory.pieces[d];

            memory.pieces[d] = p->next;
            free(p);
        }
    munmap((void *)(uintptr_t)memory.base, DEVICES * memory.each);
    munmap(memory.real, DEVICES * memory.each);
    munmap(memory.state, DEVICES * memory.each);
    munmap(memory.moment, 4 * DEVICES * memory.each);
    memory.base = 0;
}

/* Allocates device memory: the first gap that is large enough, with red zones around it.  Returns
 * its address; 0 if memory is exhausted. */
uint64_t memory_allocate(int device, uint64_t size)
{
    struct piece **p = &memory.pieces[device], *new;
    uint64_t at = memory.base + (uint64_t)device * memory.each + ZONE;
    uint64_t end = memory.base + (uint64_t)(device + 1) * memory.each;

    if (size > memory.room - memory.used[device])
        return 0;
    for (; *p && (*p)->at < at + size + ZONE; p = &(*p)->next)
        at = ((*p)->at + (*p)->size + ZONE + 255) & ~UINT64_C(255);
    if (at + size + ZONE > end)
        return 0;
    new = malloc(sizeof *new);
    *new = (struct piece){ at, size, *p };
    *p = new;
    memory.used[device] += size;
    memset(memory.real + (at - memory.base), POISON, size);
    memset(memory.state + (at - memory.base), FRESH, size);
    return at;
}

/* Frees an allocation; returns false if none begins at this address. */
bool memory_free(uint64_t at)
{
    for (int d = 0; d < DEVICES; d++)
        for (struct piece **p = &memory.pieces[d]; *p; p = &(*p)->next)
            if ((*p)->at == at) {
                struct piece *old = *p;

                memset(memory.state + (at - memory.base), NOBODY, old->size);
                memset(memory.real + (at - memory.base), POISON, old->size);
                if (old->size >= 1 << 20) /* return pages to the system */
                    madvise(memory.real + ((at - memory.base + 4095) & ~UINT64_C(4095)),
                            (old->size - 4096) & ~UINT64_C(4095), MADV_DONTNEED);
                memory.used[d] -= old->size;
                *p = old->next;
                free(old);
                return true;
            }
    return false;
}

uint64_t memory_left(int device)
{
    return memory.room - memory.used[device];
}

bool memory_inside(uint64_t at)
{
    return memory.base && at >= memory.base && at - memory.base < DEVICES * memory.each;
}

int memory_device(uint64_t at)
{
    return (int)((at - memory.base) / memory.each);
}

/* Finds the allocation that contains an address. */
bool memory_find(uint64_t at, uint64_t *base, uint64_t *size)
{
    if (!memory_inside(at))
        return false;
    for (const struct piece *p = memory.pieces[memory_device(at)]; p; p = p->next)
        if (at >= p->at && at < p->at + p->size) {
            *base = p->at;
            *size = p->size;
            return true;
        }
    return false;
}

/* Returns where the simulator keeps bytes of global memory, or NULL if they are in no
 * allocation. */
unsigned char *memory_host_address(uint64_t at, uint64_t size)
{
    uint64_t base, room;

    if (!memory_find(at, &base, &room) || size > base + room - at)
        return NULL;
    return memory.real + (at - memory.base);
}

void memory_written(uint64_t at, uint64_t size)
{
    memset(memory.state + (at - memory.base), WRITTEN, size);
}

void memory_copy(uint64_t to, uint64_t from, uint64_t size)
{
    memmove(memory.real + (to - memory.base), memory.real + (from - memory.base), size);
    memmove(memory.state + (to - memory.base), memory.state + (from - memory.base), size);
}

/* Starts a launch.  When launch numbers run out, older writes become plain WRITTEN. */
void memory_begin_launch(void)
{
    memory.written_to = 0;
    if (++memory.launch <= LAST)
        return;
    memory.launch = FIRST;
    for (int d = 0; d < DEVICES; d++)
        for (const struct piece *p = memory.pieces[d]; p; p = p->next) {
            unsigned char *s = memory.state + (p->at - memory.base);

            for (uint64_t i = 0; i < p->size; i++)
                s[i] = s[i] > WRITTEN ? WRITTEN : s[i];
        }
}

/* ---- accesses of threads --------------------------------------------------------------------- */

/* Returns the states of bytes [at, at + size), which must be in memory of the launch's device. */
static unsigned char *own_range(uint64_t at, uint64_t size, const char *what)
{
    const char *why = !at ? "null" :
                      !memory_inside(at) || !memory_inside(at + size - 1) ?
                            "not device memory" :
                      memory_device(at) != engine.launch->device ||
                              memory_device(at + size - 1) != engine.launch->device ?
                            "another device's memory" :
                            NULL;

    if (why)
        engine_fail("%s of %llu bytes at %#llx: %s", what, (unsigned long long)size,
                    (unsigned long long)at, why);
    return memory.state + (at - memory.base);
}

/* Reports an access outside all allocations, relative to the allocation before it. */
static void fail_out_of_bounds(uint64_t at, uint64_t byte, uint64_t size, const char *what)
{
    int device = memory_device(at);
    const struct piece *near = NULL;

    for (const struct piece *p = memory.pieces[device]; p && p->at <= byte; p = p->next)
        near = p;
    if (near)
        engine_fail("%s of %llu bytes at %#llx, out of bounds: %llu bytes from the begin of an "
                    "allocation of %llu",
                    what, (unsigned long long)size, (unsigned long long)at,
                    (unsigned long long)(at - near->at), (unsigned long long)near->size);
    engine_fail("%s of %llu bytes at %#llx, out of bounds", what, (unsigned long long)size,
                (unsigned long long)at);
}

/* Returns whether up to 16 bytes were all written before this launch, so that any thread may read
 * them. */
static bool is_old(const unsigned char *s, uint32_t size)
{
    const uint64_t old = UINT64_C(0x0101010101010101) * WRITTEN;
    uint64_t word[2] = { old, old };

    if (size > sizeof word)
        return false;
    memcpy(word, s, size);
    return word[0] == old && word[1] == old;
}

/* Checks that a read of `size` bytes is valid: allocated, written before and, if constant, not by
 * this launch.  Returns where the bytes are; else fails the launch. */
const unsigned char *memory_check(uint64_t at, uint64_t size, bool constant, const char *what)
{
    const unsigned char *s = own_range(at, size, what);

    for (uint64_t i = 0; i < size; i++)
        if (s[i] < WRITTEN || (constant && s[i] == memory.launch)) {
            if (s[i] == NOBODY)
                fail_out_of_bounds(at, at + i, size, what);
            if (s[i] == FRESH)
                engine_fail("%s at %#llx: byte %llu was never written", what,
                            (unsigned long long)at, (unsigned long long)i);
            engine_fail("%s at %#llx, as a constant, of what this launch wrote", what,
                        (unsigned long long)at);
        }
    return memory.real + (at - memory.base);
}

static void check_align(uint64_t at, uint32_t align, const char *what)
{
    if (at % align)
        engine_fail("%s at %#llx, not aligned to %u", what, (unsigned long long)at, align);
}

/* Checks a load of the running thread from device memory, and returns the bytes' host address.
 * Bytes that this launch wrote must be ordered before the load. */
void *global_read(const void *p, uint32_t size, uint32_t align, int constant)
{
    uint64_t at = (uint64_t)(uintptr_t)p, i = at - memory.base, end = i + size;
    const unsigned char *real;

    check_align(at, align, "load");
    order_began("load");
    if (constant && engine.launch->early)
        engine_fail("load at %#llx, as a constant, in a launch that begins early",
                    (unsigned long long)at);
    if (is_old(own_range(at, size, "load"), size))
        return memory.real + i;
    real = memory_check(at, size, constant, "load");
    for (uint32_t before = 0; i < end; i++)
        if (memory.state[i] == memory.launch && memory.moment[i] != before) {
            before = memory.moment[i];
            order_check(memory.base + i, before);
        }
    return (void *)(uintptr_t)real;
}

/* Checks a write to device memory, notes the writer, and returns the bytes' host address. */
static void *write_range(uint64_t at, uint32_t size, uint32_t align, const char *what)
{
    unsigned char *s = own_range(at, size, what);
    uint32_t *moment = memory.moment + (at - memory.base), now = order_record();

    check_align(at, align, what);
    order_began(what);
    if (at + size > memory.written_to)
        memory.written_to = at + size;
    for (uint32_t i = 0; i < size; i++)
        if (s[i] == NOBODY)
            fail_out_of_bounds(at, at + i, size, what);
    memset(s, memory.launch, size);
    for (uint32_t i = 0; i < size; i++)
        moment[i] = now;
    return memory.real + (at - memory.base);
}

void *global_write(void *p, uint32_t size, uint32_t align)
{
    return write_range((uint64_t)(uintptr_t)p, size, align, "store");
}

void *global_atomic(void *p, uint32_t size, uint32_t align)
{
    fibre_maybe_yield();
    memory_check((uint64_t)(uintptr_t)p, size, false, "atomic");
    return write_range((uint64_t)(uintptr_t)p, size, align, "atomic");
}

/* Changes a bit of memory that a kernel has written. */
void memory_flip_bit(void)
{
    if (memory.written_to)
        memory.real[memory.written_to - 1 - memory.base] ^= 0x40;
}
