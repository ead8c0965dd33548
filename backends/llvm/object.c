/* SPDX-License-Identifier: BSD-3-Clause
 * Turns a relocatable ELF object file into executable memory: lays out its sections in one mapping,
 * applies the few relocations of self-contained code, then removes write permission.  Every offset
 * is checked, and everything that this code does not understand is refused.
 *
 *   source  ELF-64 object file format 1.5 */
#include "backends/llvm/llvm.h"

#include "backends/llvm/reloc.h"

#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
static const char foreign[] = "no AArch64 object file";
#else
enum { MACHINE = EM_X86_64 };
static const char foreign[] = "no x86-64 object file";
#endif

/* limits: number of sections in a file, and bytes of the mapping */
enum { SECTIONS = 64, MOST_BYTES = 1 << 28 };

/* An object file, and the positions of its sections in the mapping. */
struct layout {
    const unsigned char *data;
    size_t size;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *section;
    /* [section]: offset in the mapping; SIZE_MAX if the section is not mapped */
    size_t at[SECTIONS];
    size_t total;
};

/* Reports a fault of an object file and returns false. */
static bool fail_object(struct diag *d, const char *what)
{
    return limber_fail(d, LIMBER_STATUS_IO, "object: %s", what);
}

/* True if the range [offset, offset + size) lies inside the file. */
static bool is_inside(const struct layout *l, uint64_t offset, uint64_t size)
{
    return offset <= l->size && size <= l->size - offset;
}

/* Checks the ELF header and finds the section table.  Returns false with an error. */
static bool read_head(struct layout *l, struct diag *d)
{
    l->head = (const Elf64_Ehdr *)(const void *)l->data;
    if (l->size < sizeof *l->head || memcmp(l->head->e_ident, ELFMAG, SELFMAG) ||
        l->head->e_ident[EI_CLASS] != ELFCLASS64 || l->head->e_type != ET_REL ||
        l->head->e_machine != MACHINE || l->head->e_shentsize != sizeof(Elf64_Shdr))
        return fail_object(d, foreign);
    if (l->head->e_shnum == 0 || l->head->e_shnum > SECTIONS || l->head->e_shoff % 8 ||
        !is_inside(l, l->head->e_shoff, (uint64_t)l->head->e_shnum * sizeof(Elf64_Shdr)))
        return fail_object(d, "section table out of bounds");
    l->section = (const Elf64_Shdr *)(const void *)(l->data + l->head->e_shoff);
    return true;
}

/* Assigns an offset in the mapping to each section that is loaded.  Returns false with an error. */
static bool lay_out(struct layout *l, struct diag *d)
{
    for (int i = 0; i < l->head->e_shnum; i++) {
        const Elf64_Shdr *s = &l->section[i];
        uint64_t align = s->sh_addralign ? s->sh_addralign : 1;

        l->at[i] = SIZE_MAX;
        if (s->sh_type != SHT_NOBITS && !is_inside(l, s->sh_offset, s->sh_size))
            return fail_object(d, "section out of bounds");
        if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0)
            continue;
        if (s->sh_type == SHT_NOBITS)
            return fail_object(d, "a kernel with memory of its own");
        if ((align & (align - 1)) || align > 4096 || s->sh_size > MOST_BYTES)
            return fail_object(d, "section of impossible size or alignment");
        if (s->sh_flags & SHF_WRITE)
            return fail_object(d, "a kernel with data of its own");
        l->total = (l->total + align - 1) & ~(align - 1);
        l->at[i] = l->total;
        l->total += s->sh_size;
        if (l->total > MOST_BYTES)
            return fail_object(d, "sections of impossible size");
    }
    return l->total > 0 || fail_object(d, "nothing to map");
}

/* Returns the symbol table in section `index`, or NULL if there is none or it is damaged.  *count:
 * set to the number of its entries. */
static const Elf64_Sym *find_symbols(const struct layout *l, uint32_t index, size_t *count)
{
    const Elf64_Shdr *s = l->section + (index < l->head->e_shnum ? index : 0);

    if (index >= l->head->e_shnum || s->sh_type != SHT_SYMTAB || s->sh_offset % 8)
        return NULL;
    *count = s->sh_size / sizeof(Elf64_Sym);
    return (const Elf64_Sym *)(const void *)(l->data + s->sh_offset);
}

/* Applies one relocation to a mapped section.  Returns false with an error. */
static bool apply_relocation(const struct layout *l, unsigned char *map, size_t section,
                             const Elf64_Rela *r, const Elf64_Sym *sym, struct diag *d)
{
    const Elf64_Shdr *s = &l->section[section];
    uint64_t base = (uint64_t)(uintptr_t)map;
    struct relocation x = { .machine = MACHINE, .kind = (uint32_t)ELF64_R_TYPE(r->r_info) };
    unsigned width = limber_relocation_width(MACHINE, x.kind);

    if (!width)
        return limber_fail(d, LIMBER_STATUS_IO, "object: relocation of kind %u", x.kind);
    if (sym->st_shndx == SHN_UNDEF || sym->st_shndx >= l->head->e_shnum ||
        l->at[sym->st_shndx] == SIZE_MAX)
        return fail_object(d, "a reference to something outside");
    if (r->r_offset > s->sh_size || s->sh_size - r->r_offset < width)
        return fail_object(d, "relocation out of bounds");
    x.place = base + l->at[section] + r->r_offset;
    x.target = base + l->at[sym->st_shndx] + sym->st_value + (uint64_t)r->r_addend;
    return limber_relocation_apply(&x, map + l->at[section] + r->r_offset) ||
           fail_object(d, "relocation out of range");
}

/* Applies all relocations of the mapped sections.  Returns false with an error. */
static bool apply_relocations(const struct layout *l, unsigned char *map, struct diag *d)
{
    for (int i = 0; i < l->head->e_shnum; i++) {
        const Elf64_Shdr *s = &l->section[i];
        const Elf64_Rela *rela;
        const Elf64_Sym *sym;
        size_t count;

        if (s->sh_type == SHT_REL)
            return fail_object(d, "relocations without addends");
        if (s->sh_type != SHT_RELA || s->sh_info >= l->head->e_shnum ||
            l->at[s->sh_info] == SIZE_MAX)
            continue;
        sym = find_symbols(l, s->sh_link, &count);
        if (!sym || s->sh_offset % 8)
            return fail_object(d, "relocations without symbols");
        rela = (const Elf64_Rela *)(const void *)(l->data + s->sh_offset);
        for (size_t j = 0; j < s->sh_size / sizeof *rela; j++) {
            uint64_t symbol = ELF64_R_SYM(rela[j].r_info);

            if (symbol >= count)
                return fail_object(d, "relocation of an unknown symbol");
            if (!apply_relocation(l, map, s->sh_info, &rela[j], &sym[symbol], d))
                return false;
        }
    }
    return true;
}

/* ---- copying code to executable memory ------------------------------------------------------- */

/* known: this process has tried to make memory executable.  refused: the system did not allow
 * it. */
static atomic_bool known, refused;

/* Makes the mapping executable and no longer writable.  Returns false if the system refuses. */
static bool make_executable(void *map, size_t size)
{
    if (mprotect(map, size, PROT_READ | PROT_EXEC) == 0)
        return true;
    if (errno != ENOMEM)
        atomic_store(&refused, true);
    return false;
}

/* Tests, once per process, whether memory that was written can be made executable.  Returns false
 * with an error if not. */
bool limber_object_may_run(struct diag *d)
{
    enum { LEAST = 1 };
    void *map;

    if (!atomic_load(&known)) {
        map = mmap(NULL, LEAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map != MAP_FAILED) {
            make_executable(map, LEAST);
            munmap(map, LEAST);
            atomic_store(&known, true);
        }
    }
    return !atomic_load(&refused) ||
           limber_fail(d, LIMBER_STATUS_DEVICE,
                       "llvm: the system refuses executable memory to this process, so that "
                       "nothing can be compiled");
}

/* Maps the object file: copies its sections, applies relocations, and makes the mapping executable.
 * Returns false with an error. */
bool limber_object_map(const unsigned char *data, size_t size, struct object *o, struct diag *d)
{
    struct layout l = { .data = data, .size = size };
    unsigned char *map;

    memset(o, 0, sizeof *o);
    if (!limber_object_may_run(d) || !read_head(&l, d) || !lay_out(&l, d))
        return false;
    map = mmap(NULL, l.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return limber_fail(d, LIMBER_STATUS_NO_MEMORY, "object: no memory for %zu bytes", l.total);
    for (int i = 0; i < l.head->e_shnum; i++)
        if (l.at[i] != SIZE_MAX)
            memcpy(map + l.at[i], data + l.section[i].sh_offset, l.section[i].sh_size);
    if (!apply_relocations(&l, map, d)) {
        munmap(map, l.total);
        return false;
    }
    /* AArch64's instruction cache is not coherent with the data cache; on x86-64 this emits no
     * code */
    __builtin___clear_cache((char *)map, (char *)map + l.total);
    if (!make_executable(map, l.total)) {
        munmap(map, l.total);
        return limber_object_may_run(d) &&
               limber_fail(d, LIMBER_STATUS_NO_MEMORY, "object: no executable memory");
    }
    o->map = map;
    o->size = l.total;
    return true;
}

/* Returns the address of the symbol `name` in a mapped object file, or NULL if there is none. */
void *limber_object_symbol(const unsigned char *data, size_t size, const struct object *o,
                           const char *name)
{
    struct layout l = { .data = data, .size = size };
    struct diag d = { 0 };

    if (!read_head(&l, &d) || !lay_out(&l, &d))
        return NULL;
    for (uint32_t i = 0; i < l.head->e_shnum; i++) {
        size_t count, length = strlen(name);
        const Elf64_Sym *sym = find_symbols(&l, i, &count);
        const Elf64_Shdr *strings;

        if (!sym || l.section[i].sh_link >= l.head->e_shnum)
            continue;
        strings = &l.section[l.section[i].sh_link];
        if (strings->sh_type != SHT_STRTAB) /* a string table, whose bytes are in the file */
            continue;
        for (size_t j = 0; j < count; j++) {
            uint16_t in = sym[j].st_shndx;

            if (in == SHN_UNDEF || in >= l.head->e_shnum || l.at[in] == SIZE_MAX ||
                sym[j].st_value >= l.section[in].sh_size || sym[j].st_name > strings->sh_size ||
                strings->sh_size - sym[j].st_name <= length)
                continue;
            if (memcmp(data + strings->sh_offset + sym[j].st_name, name, length + 1) == 0)
                return o->map + l.at[in] + sym[j].st_value;
        }
    }
    return NULL;
}

void limber_object_unmap(struct object *o)
{
    if (o->map)
        munmap(o->map, o->size);
    memset(o, 0, sizeof *o);
}
