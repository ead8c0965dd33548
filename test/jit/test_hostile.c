/* SPDX-License-Identifier: BSD-3-Clause
 * Malformed input must be refused or accepted without a read outside of it: kernels in whose
 * object files one or two fields, or any byte, are changed, and units that were not validated. */
#include "compiler.h"
#include "engine_support.h"

#include "support.h"

#include <elf.h>

/* ---- changed kernels ------------------------------------------------------------------------- */

static const uint64_t values[] = {
    0, 1, 2, 3, 8, 0x7fffffff, 0x80000000, 0xfffffff8, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 7
};

/* A field of an ELF structure. */
struct field {
    size_t at, size;
};
#define FIELD(of, name) { offsetof(of, name), sizeof((of *)0)->name }
static const struct field header[] = {
    FIELD(Elf64_Ehdr, e_shoff),    FIELD(Elf64_Ehdr, e_shentsize), FIELD(Elf64_Ehdr, e_shnum),
    FIELD(Elf64_Ehdr, e_shstrndx), FIELD(Elf64_Ehdr, e_type),
};
static const struct field section[] = {
    FIELD(Elf64_Shdr, sh_type),      FIELD(Elf64_Shdr, sh_flags), FIELD(Elf64_Shdr, sh_offset),
    FIELD(Elf64_Shdr, sh_size),      FIELD(Elf64_Shdr, sh_link),  FIELD(Elf64_Shdr, sh_info),
    FIELD(Elf64_Shdr, sh_addralign),
};
static const struct field relocation[] = {
    FIELD(Elf64_Rela, r_offset),
    FIELD(Elf64_Rela, r_info),
    FIELD(Elf64_Rela, r_addend),
};

/* A good object, of which changed copies are loaded. */
struct object_of {
    const struct backend *backend;
    bool fixed;
    struct blob good;
    long tried;
};

/* Loads a copy of the bytes in a heap block of their exact size, so that a sanitizer sees reads
 * beyond them. */
static struct diag try_load(struct object_of *o, const unsigned char *bytes)
{
    unsigned char *copy = malloc(o->good.size);
    struct diag d = { 0 };
    struct kernel *k = NULL;
    struct function *f = NULL;
    void *entry;

    assert_non_null(copy);
    memcpy(copy, bytes, o->good.size);
    if (o->fixed ? o->backend->cpu->fixed->load(copy, o->good.size, &f, &entry, &d) :
                   o->backend->load(copy, o->good.size, &k, &d)) {
        if (o->fixed)
            o->backend->cpu->fixed->unload(f);
        else
            o->backend->unload(k);
    } else {
        assert_true(d.status == LIMBER_STATUS_IO || d.status == LIMBER_STATUS_NO_MEMORY ||
                    d.status == LIMBER_STATUS_DEVICE || d.status == LIMBER_STATUS_BAD_ARGUMENT);
    }
    free(copy);
    o->tried++;
    return d;
}

/* Sets fields of the structure at byte `at` to wrong values, singly and in pairs, and tries to load
 * each version. */
static void try_fields(struct object_of *o, unsigned char *bytes, size_t at, const struct field *f,
                       size_t count)
{
    unsigned char saved[sizeof(Elf64_Shdr)];
    size_t size = o->good.size - at < sizeof saved ? o->good.size - at : sizeof saved;

    memcpy(saved, bytes + at, size);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i; j < count; j++)
            for (size_t v = 0; v < COUNT(values); v++)
                for (size_t w = 0; w < (j > i ? COUNT(values) : 1); w++) {
                    memcpy(bytes + at + f[j].at, &values[w], f[j].size);
                    memcpy(bytes + at + f[i].at, &values[v], f[i].size);
                    try_load(o, bytes);
                    memcpy(bytes + at, saved, size);
                }
}

/* Sets the kind of the first relocation of each section to one that does not exist; the message
 * must name it. */
static void change_relocations(struct object_of *o, unsigned char *bytes, size_t at,
                               const Elf64_Ehdr *head)
{
    for (size_t i = 0; i < head->e_shnum; i++) {
        Elf64_Shdr s, target;
        Elf64_Rela r;
        struct diag d;

        memcpy(&s, bytes + at + head->e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_RELA || s.sh_size < sizeof r)
            continue;
        try_fields(o, bytes, at + s.sh_offset, relocation, COUNT(relocation));
        memcpy(&target, bytes + at + head->e_shoff + s.sh_info * sizeof s, sizeof target);
        if (!(target.sh_flags & SHF_ALLOC))
            continue; /* the loader does not map this section, and applies no relocations to it */
        memcpy(&r, bytes + at + s.sh_offset, sizeof r);
        r.r_info |= 0xfffff;
        memcpy(bytes + at + s.sh_offset + offsetof(Elf64_Rela, r_info), &r.r_info, 8);
        d = try_load(o, bytes);
        assert_non_null(strstr(d.text, "relocation of kind "));
        r.r_info = ELF64_R_INFO(0xffffff, ELF64_R_TYPE(r.r_info));
        memcpy(bytes + at + s.sh_offset + offsetof(Elf64_Rela, r_info), &r.r_info, 8);
        d = try_load(o, bytes);
        assert_non_null(strstr(d.text, "unknown symbol"));
        break;
    }
}

/* Changes random bytes of an entry, then the fields of the object file in it, and tries to load
 * each version. */
static void change_fields(struct object_of *o, unsigned char *bytes)
{
    struct rng r = { 7 };
    size_t at = 0;
    Elf64_Ehdr head;

    for (int i = 0; i < 3000; i++) {
        size_t where = (size_t)(rng_next(&r) % o->good.size);
        unsigned char was = bytes[where];

        bytes[where] = (unsigned char)rng_next(&r);
        try_load(o, bytes);
        bytes[where] = was;
    }
    while (at + sizeof head < o->good.size && memcmp(bytes + at, ELFMAG, SELFMAG))
        at++;
    if (at + sizeof head >= o->good.size)
        return; /* the entry has no object file */
    memcpy(&head, bytes + at, sizeof head);
    try_fields(o, bytes, at, header, COUNT(header));
    for (size_t i = 0; i < head.e_shnum; i++)
        try_fields(o, bytes, at + head.e_shoff + i * sizeof(Elf64_Shdr), section, COUNT(section));
    if (head.e_machine == EM_X86_64 || head.e_machine == EM_AARCH64)
        change_relocations(o, bytes, at, &head);
}

/* The cache's entries to try. */
struct entries {
    limber_context *ctx;
    const struct backend *backend;
    int count;
};

/* Callback for each entry of the cache: loads the entry, and then changed versions of it. */
static int each_entry(void *user, const limber_cache_entry *e)
{
    struct entries *x = user;
    struct object_of o = { .backend = x->backend };
    unsigned char key[KEY_BYTES], *bytes;
    struct facts facts;

    for (int i = 0; i < KEY_BYTES; i++) {
        unsigned byte;

        sscanf(e->key + 2 * i, "%2x", &byte);
        key[i] = (unsigned char)byte;
    }
    assert_true(limber_disk_load(x->ctx->disk, key, &facts, &o.good));
    o.fixed = strstr(facts.plan, " m=") != NULL;
    bytes = malloc(o.good.size);
    assert_non_null(bytes);
    memcpy(bytes, o.good.data, o.good.size);
    change_fields(&o, bytes);
    print_message("%s: %.60s: %ld lies\n", x->backend->name, facts.plan, o.tried);
    free(bytes);
    free(o.good.data);
    x->count++;
    return 0;
}

/* Compiles a kernel and a function on each backend, and tries to load each entry of the cache with
 * changed bytes and fields. */
static void malformed_kernels_are_read_within_bounds(void **state)
{
    (void)state;
    for (int i = 0; limber_backends[i]; i++) {
        struct entries x = { .backend = limber_backends[i] };
        const limber_contract native = { .size = sizeof(limber_contract),
                                         .promise = LIMBER_CONTRACT_NATIVE };
        const limber_matrix m = { NULL, named("f64"), 4, 1 };
        double a[16] = { 1 }, b[16] = { 2 }, c[16];
        limber_kernel function;
        char *dir = scratch();

        if ((!strcmp(x.backend->name, "llvm") && !compiler_here()) ||
            (!strcmp(x.backend->name, "cuda") && EMULATED) ||
            limber_create(&x.ctx, &(limber_config){ .size = sizeof(limber_config),
                                                    .backend = x.backend->name,
                                                    .threads = 1,
                                                    .cache_dir = dir,
                                                    .dump_dir = "",
                                                    .kernels = LIMBER_KERNELS_SPECIALISED }))
            goto next;
        assert_int_equal(limber_gemm(x.ctx, &native, 4, 4, 4, NULL,
                                     (limber_matrix){ a, m.format, 4, 1 },
                                     (limber_matrix){ b, m.format, 4, 1 }, NULL,
                                     (limber_output){ c, m.format, 4, 1 }, NULL),
                         LIMBER_STATUS_OK);
        limber_bind_shape(x.ctx, &native, 4, 4, 4, m, m, output_of(m), LIMBER_ACCUMULATE_NONE,
                          &function);
        assert_int_equal(limber_cache_each(x.ctx, LIMBER_CACHE_LIST, each_entry, &x),
                         LIMBER_STATUS_OK);
        assert_true(x.count > 0);
        limber_destroy(x.ctx);
    next:
        discard(dir);
    }
}

/* ---- units that nobody checked --------------------------------------------------------------- */

/* Overwrites each byte of each preset unit with several values: the check refuses the unit, or its
 * text can be parsed. */
static void unvalidated_units_are_refused_or_printed(void **state)
{
    static const unsigned char bytes[] = { 0, 1, 2, 7, 64, 127, 128, 200, 255 };
    int refused = 0;

    (void)state;
    for (int p = 0; limber_unit_preset_at(p); p++)
        for (size_t at = sizeof(size_t); at < sizeof(limber_unit); at++)
            for (size_t v = 0; v < sizeof bytes; v++) {
                limber_unit u = LIMBER_UNIT_INIT, back = LIMBER_UNIT_INIT;
                char text[600];

                assert_int_equal(limber_unit_parse(limber_unit_preset_at(p)->words, &u),
                                 LIMBER_STATUS_OK);
                memcpy((char *)&u + at, &bytes[v], 1);
                limber_unit_text(&u, text, sizeof text);
                if (limber_unit_check(&u) != LIMBER_STATUS_OK) {
                    assert_string_equal(text, "");
                    refused++;
                } else {
                    if (limber_unit_parse(text, &back) != LIMBER_STATUS_OK)
                        fail_msg("byte %zu = %d: \"%s\": %s", at, bytes[v], text,
                                 limber_error_text());
                }
            }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_kernels_are_read_within_bounds),
        cmocka_unit_test(unvalidated_units_are_refused_or_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
