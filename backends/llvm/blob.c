/* SPDX-License-Identifier: BSD-3-Clause
 * Blobs, the bytes that backend.compile returns: a kernel's configuration and its object file.
 * Loading a blob does not use LLVM. */
#include "backends/llvm/part.h"

#include <stdlib.h>
#include <string.h>

struct blob_head {
    uint32_t config_size; /* bytes of the configuration before compression */
    uint32_t cpu; /* set of CPU features that the code needs */
    uint32_t packed; /* bytes of the compressed configuration; the object file follows */
    uint32_t unused; /* 0; makes the size a multiple of 8 bytes */
};

/* Returns the offset of the object file in the blob, rounded up to a multiple of 8 bytes. */
static size_t object_at(const struct blob_head *head)
{
    return (sizeof *head + (size_t)head->packed + 7) & ~(size_t)7;
}

/* Writes head, compressed configuration and object file into one new blob.  The object file is
 * empty if the kernel's code is part of this library; at most 7 bytes of padding precede it. */
static bool join_blob(const struct kernel_config *k, unsigned cpu, const struct blob *object,
                      struct blob *out, struct diag *d)
{
    struct blob_head head = { .config_size = sizeof *k, .cpu = cpu };

    out->data = calloc(1, sizeof head + LIMBER_ZEROS_MOST(sizeof *k) + 7 + object->size);
    if (!out->data)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    head.packed = (uint32_t)limber_zeros_pack(k, sizeof *k, out->data + sizeof head);
    memcpy(out->data, &head, sizeof head);
    out->size = object_at(&head) + object->size;
    if (object->size)
        memcpy(out->data + object_at(&head), object->data, object->size);
    return true;
}

/* Flattens a plan into a configuration, which the caller frees.  Returns NULL, with an error, if
 * the plan is not supported. */
static struct kernel_config *config_of(const struct plan *p, const struct target *t, struct diag *d)
{
    struct kernel_config *k = malloc(sizeof *k);

    if (!k)
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    else if (!limber_kernel_config(p, t, k, d)) {
        free(k);
        k = NULL;
    }
    return k;
}

/* Implements backend.compile.  Kernels of the scheme `accumulator` are library code, so their blobs
 * have no object file. */
bool limber_blob_compile(const struct plan *p, const struct target *t, const struct dump *dump,
                         struct blob *out, struct diag *d)
{
    struct kernel_config *k = config_of(p, t, d);
    struct blob object = { 0 };
    bool ok;

    ok = k &&
         (k->unit == UNIT_exact ||
          (limber_object_may_run(d) && limber_llvm_object(k, t, dump, &object, d))) &&
         join_blob(k, limber_cpu_of(t), &object, out, d);
    free(object.data);
    free(k);
    return ok;
}

/* Implements code_ops.source: prints the C source of the plan's kernel. */
bool limber_blob_source(const struct plan *p, const struct target *t, struct text *out,
                        struct diag *d)
{
    struct kernel_config *k = config_of(p, t, d);
    bool ok = k && limber_kernel_source(k, out, d);

    free(k);
    return ok;
}

/* Implements cpu_ops.prebuilt: makes a blob without an object file, if the kernel's code is part of
 * this library. */
bool limber_blob_prebuilt(const struct plan *p, const struct target *t, struct blob *out,
                          struct diag *d)
{
    const struct blob nothing = { NULL, 0 };
    struct kernel_config *k = config_of(p, t, d);
    kernel_pack *pack;
    kernel_block *block;
    bool ok;

    ok =
        k && (k->unit == UNIT_exact || limber_prebuilt_find(k, limber_cpu_of(t), &pack, &block) ||
              limber_fail(d, LIMBER_STATUS_NOT_READY, "llvm: no prebuilt kernel serves this plan"));
    ok = ok && join_blob(k, limber_cpu_of(t), &nothing, out, d);
    free(k);
    return ok;
}

/* Reads a blob's head and configuration.  The bytes may be damaged.  Returns false with an error if
 * they are. */
static bool read_config(struct kernel *k, const unsigned char *data, size_t size,
                        struct blob_head *head, struct diag *d)
{
    if (size < sizeof *head)
        return limber_fail(d, LIMBER_STATUS_IO, "llvm: the kernel is cut short");
    memcpy(head, data, sizeof *head);
    if (head->config_size != sizeof k->config)
        return limber_fail(d, LIMBER_STATUS_IO, "llvm: a kernel of another version");
    if (head->packed > size - sizeof *head ||
        !limber_zeros_unpack(data + sizeof *head, head->packed, &k->config, sizeof k->config))
        return limber_fail(d, LIMBER_STATUS_IO, "llvm: the kernel is cut short");
    if (k->config.version != KERNEL_VERSION)
        return limber_fail(d, LIMBER_STATUS_IO, "llvm: a kernel of another version");
    return !(head->cpu & ~limber_cpu()) || limber_cpu_lacks(head->cpu & ~limber_cpu(), d);
}

/* Sets the entry points of the scheme `accumulator`, whose kernels are part of the library: the
 * variant for the CPU's instruction set. */
static void set_exact(struct kernel *k, unsigned cpu)
{
    k->pack = LIMBER_CODE(cpu, limber_exact_pack);
    k->block = LIMBER_CODE(cpu, limber_exact_block);
}

/* Maps a kernel's object file and finds its two entry points.  Returns false with an error if that
 * fails. */
static bool load_object(struct kernel *k, const unsigned char *data, size_t size, struct diag *d)
{
    /* the object's tables need alignment */
    unsigned char *aligned = malloc(size + 1);
    bool ok = aligned || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");

    if (ok) {
        memcpy(aligned, data, size);
        ok = limber_object_map(aligned, size, &k->object, d);
    }
    if (ok) {
        *(void **)&k->pack = limber_object_symbol(aligned, size, &k->object, "limber_pack");
        *(void **)&k->block = limber_object_symbol(aligned, size, &k->object, "limber_block");
        ok = (k->pack && k->block) ||
             limber_fail(d, LIMBER_STATUS_IO, "llvm: no entry in the kernel");
    }
    free(aligned);
    return ok;
}

/* Implements backend.load.  A blob without an object file refers to code of the library. */
bool limber_blob_load(const unsigned char *data, size_t size, struct kernel **out, struct diag *d)
{
    struct kernel *k = calloc(1, sizeof *k);
    struct blob_head head;
    bool ok = k || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");

    *out = NULL;
    ok = ok && read_config(k, data, size, &head, d);
    if (ok)
        k->cpu = head.cpu;
    if (ok && k->config.unit == UNIT_exact) {
        set_exact(k, head.cpu);
    } else if (ok) {
        size_t at = object_at(&head);

        if (size > at)
            ok = load_object(k, data + at, size - at, d);
        else
            ok = (size == at && limber_prebuilt_find(&k->config, head.cpu, &k->pack, &k->block)) ||
                 limber_fail(d, LIMBER_STATUS_IO, "llvm: the kernel is cut short");
    }
    if (ok) {
        limber_workspace_begin();
        *out = k;
    } else if (k) {
        limber_object_unmap(&k->object);
        free(k);
    }
    return ok;
}

/* Implements backend.unload: unmaps the kernel's code and frees it. */
void limber_blob_unload(struct kernel *k)
{
    if (!k)
        return;
    limber_object_unmap(&k->object);
    free(k);
    limber_workspace_end();
}

/* Implements code_ops.key: returns the kernel's configuration, on which its code depends. */
bool limber_blob_key(const struct plan *p, const struct target *t, struct blob *out, struct diag *d)
{
    struct kernel_config *k = config_of(p, t, d);

    *out = (struct blob){ (unsigned char *)k, k ? sizeof *k : 0 };
    return k != NULL;
}
