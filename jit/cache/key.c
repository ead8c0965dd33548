/* SPDX-License-Identifier: BSD-3-Clause
 * The key of a kernel: a hash of the library's build, the plan before the passes and the target. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#define XXH_INLINE_ALL
#include "jit/cache/cache.h"

#include <link.h>
#include <string.h>
#include <xxhash.h>

enum { ENTRY_FORMAT = 1 }; /* version of keys and of the meaning of struct facts and kernels */

/* Two arbitrary, different seeds, for two hashes of 128 bits. */
static const uint64_t seed[2] = { UINT64_C(0x6c696d6265722d31), UINT64_C(0x6c696d6265722d32) };

/* True if the address lies in a segment of this loaded module. */
static bool is_in_module(const struct dl_phdr_info *info, const void *address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr, at = (uintptr_t)address;

        if (p->p_type == PT_LOAD && at >= start && at - start < p->p_memsz)
            return true;
    }
    return false;
}

/* Hashes memory.  A sanitizer poisons the gaps between constants, which must be read here, so this
 * function copies to a buffer and is not sanitized. */
__attribute__((no_sanitize("address", "thread"))) static void
hash_range(XXH3_state_t *state, const volatile unsigned char *at, size_t size)
{
    unsigned char buffer[4096];

    while (size > 0) {
        size_t n = size < sizeof buffer ? size : sizeof buffer;

        for (size_t i = 0; i < n; i++)
            buffer[i] = at[i];
        XXH3_128bits_update(state, buffer, n);
        at += n;
        size -= n;
    }
}

static size_t round_up(size_t size, size_t align)
{
    return (size + align - 1) / align * align;
}

/* Hashes the build ID (the linker's hash of its output) if this note segment holds one.  False if
 * it does not. */
static bool hash_build_id(XXH3_state_t *state, const unsigned char *at, size_t size, size_t align)
{
    ElfW(Nhdr) head;

    for (size_t next; size >= sizeof head; at += next, size -= next) {
        size_t name = sizeof head, data;

        memcpy(&head, at, sizeof head);
        data = round_up(name + head.n_namesz, align);
        next = round_up(data + head.n_descsz, align);
        if (next > size)
            break;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == sizeof ELF_NOTE_GNU &&
            !memcmp(at + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU)) {
            XXH3_128bits_update(state, at + data, head.n_descsz);
            return true;
        }
    }
    return false;
}

/* Callback of dl_iterate_phdr: hashes the module that holds this function.  Hashes its build ID,
 * which is fast, or else its code and constants, some milliseconds for 2 MB.  Writable segments are
 * left out, since relocation makes them differ from run to run. */
static int hash_module(struct dl_phdr_info *info, size_t size, void *state)
{
    (void)size;
    if (!is_in_module(info, (const void *)(uintptr_t)limber_key_build))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_NOTE &&
            hash_build_id(state, (const unsigned char *)(info->dlpi_addr + p->p_vaddr), p->p_filesz,
                          p->p_align < 4 ? 4 : p->p_align))
            return 1;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_W)) == PF_R)
            hash_range(state, (const unsigned char *)(info->dlpi_addr + p->p_vaddr), p->p_filesz);
    }
    return 1;
}

/* Computes the identity of the library's code: a hash of the library's build ID, or of its
 * read-only segments if there is none. */
void limber_key_build(unsigned char build[16])
{
    XXH3_state_t state;
    XXH128_canonical_t sum;

    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, LIMBER_VERSION, sizeof LIMBER_VERSION);
    dl_iterate_phdr(hash_module, &state);
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(&state));
    memcpy(build, sum.digest, sizeof sum.digest);
}

/* Hashes a kernel's description (`what`), the library's build and the target into the key of its
 * entry. */
void limber_key_make(unsigned char key[KEY_BYTES], const unsigned char build[16], const void *what,
                     size_t size, const char *target)
{
    const uint64_t head[3] = { ENTRY_FORMAT, size, strlen(target) };

    for (size_t i = 0; i < 2; i++) {
        XXH3_state_t state;
        XXH128_canonical_t sum;

        XXH3_INITSTATE(&state);
        XXH3_128bits_reset_withSeed(&state, seed[i]);
        XXH3_128bits_update(&state, head, sizeof head);
        XXH3_128bits_update(&state, build, 16);
        XXH3_128bits_update(&state, what, size);
        XXH3_128bits_update(&state, target, strlen(target));
        XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(&state));
        memcpy(key + 16 * i, sum.digest, sizeof sum.digest);
    }
}

/* Writes 2 * bytes hexadecimal digits and a closing zero to hex. */
void limber_key_hex(const unsigned char *key, size_t bytes, char *hex)
{
    static const char digit[] = "0123456789abcdef";

    for (size_t i = 0; i < bytes; i++) {
        *hex++ = digit[key[i] >> 4];
        *hex++ = digit[key[i] & 15];
    }
    *hex = '\0';
}
