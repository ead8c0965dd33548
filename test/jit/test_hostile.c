/* SPDX-License-Identifier: BSD-3-Clause
 * Malformed input: kernels whose object files have two fields of a section, or any byte, changed;
 * units that were not validated.  They are refused or accepted, and nothing outside of them is
 * read. */
#include "compiler.h"
#include "engine_support.h"

#include "support.h"

#include <elf.h>

/* ---- changed kernels ------------------------------------------------------------------------- */

static const uint64_t values[] = {
    0, 1, 2, 3, 8, 0x7fffffff, 0x80000000, 0xfffffff8, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 7
};

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

struct object_of {
    const struct backend *backend;
    bool fixed;
    struct blob good;
    long tried;
};

/* Copies the bytes to a heap block of their exact size, so that a sanitizer sees reads beyond
 * them. */
static void load(struct object_of *o, const unsigned char *bytes)
{
    unsigned char *copy = malloc(o->good.size);
    struct diag d = { 0 };
    struct kernel *k = NULL;
    struct function *f = NULL;
    void *entry;

    assert_non_null(copy);
    memcpy(copy, bytes, o->good.size);
    if (o->fixed ? o->backend->fixed->load(copy, o->good.size, &f, &entry, &d) :
                   o->backend->load(copy, o->good.size, &k, &d)) {
        if (o->fixed)
            o->backend->fixed->unload(f);
        else
            o->backend->unload(k);
    } else {
        assert_true(d.status == LIMBER_STATUS_IO || d.status == LIMBER_STATUS_NO_MEMORY ||
                    d.status == LIMBER_STATUS_DEVICE || d.status == LIMBER_STATUS_BAD_ARGUMENT);
    }
    free(copy);
    o->tried++;
}

/* Sets fields of the structure at `at` to values that lie, alone and in pairs, and tries to load
 * each. */
static void lie_about(struct object_of *o, unsigned char *bytes, size_t at, const struct field *f,
                      size_t count)
{
    unsigned char saved[sizeof(Elf64_Shdr)];

    memcpy(saved, bytes + at, sizeof saved);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i; j < count; j++)
            for (size_t v = 0; v < COUNT(values); v++)
                for (size_t w = 0; w < (j > i ? COUNT(values) : 1); w++) {
                    memcpy(bytes + at + f[j].at, &values[w], f[j].size);
                    memcpy(bytes + at + f[i].at, &values[v], f[i].size);
                    load(o, bytes);
                    memcpy(bytes + at, saved, sizeof saved);
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
        load(o, bytes);
        bytes[where] = was;
    }
    while (at + sizeof head < o->good.size && memcmp(bytes + at, ELFMAG, SELFMAG))
        at++;
    if (at + sizeof head >= o->good.size)
        return; /* not an object */
    memcpy(&head, bytes + at, sizeof head);
    lie_about(o, bytes, at, header, COUNT(header));
    for (size_t i = 0; i < head.e_shnum; i++)
        lie_about(o, bytes, at + head.e_shoff + i * sizeof(Elf64_Shdr), section, COUNT(section));
}

struct entries {
    limber_context *ctx;
    const struct backend *backend;
    int count;
};

/* Callback for each entry of the cache: loads it, then tries changed versions of it. */
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
