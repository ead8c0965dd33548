/* SPDX-License-Identifier: BSD-3-Clause
 * Functions for products of one fixed shape.  A blob consists of a short head and an object file
 * with one function, which callers call directly.  Loading a blob does not use LLVM. */
#include "backends/llvm/llvm.h"

#include <stdlib.h>
#include <string.h>

/* A loaded function. */
struct function {
    struct object object;
};

/* Head of a blob. */
struct head {
    char magic[8];
    uint32_t version, cpu;      /* cpu: mask of features that the code needs */
};

static const struct head expected_head = { .magic = "fixed", .version = 1 };

/* Checks that the plan is one product, all FP64 or all FP32, of a supported shape.  Stores its
 * arithmetic unit in *unit and the length of its chains along k in *chunk.  Returns false with an
 * error if it is not. */
static bool check_plan(const struct plan *p, const struct fixed *f, enum unit *unit, int64_t *chunk,
                       struct diag *d)
{
    const struct node *n = limber_plan_find(p, OP_products);
    const struct node *end = limber_plan_find(p, OP_epilogue);
    limber_format in;

    if (!limber_llvm_serves(p, d))
        return false;
    *unit = n ? (enum unit)limber_attr_number(n, ATTR_unit) : UNIT_count;
    if (!n || !end || n->rows != 1 || (*unit != UNIT_f64 && *unit != UNIT_f32))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "llvm: no function of fixed shape for scheme %s",
                           p->scheme ? p->scheme : "none");
    limber_format_named(limber_units[*unit].in, &in);
    for (size_t i = 0; i < p->nodes; i++)
        if (p->node[i].op == OP_arg && !limber_format_equal(p->node[i].type.format, in))
            return limber_fail(d, LIMBER_STATUS_NO_SCHEME, "llvm: %%%s is not in the unit's format",
                               p->node[i].name);
    if (!limber_format_equal(end->type.format, in))
        return limber_fail(d, LIMBER_STATUS_NO_SCHEME,
                           "llvm: the result is not in the unit's format");
    *chunk = limber_attr_number(n, ATTR_chunk);
    if (f->m < 1 || f->n < 1 || f->k < 1 || *chunk < 1 ||
        (f->c.col != 1 && f->n > 1 && f->c.row != 1 && f->m > 1))
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "llvm: a shape that is not served");
    return true;
}

/* Implements functions.compile: makes a blob with the function of one product. */
static bool compile(const struct plan *p, const struct target *t, const struct fixed *f,
                    const struct dump *dump, struct blob *out, struct diag *d)
{
    struct head head = expected_head;
    struct blob object = { 0 };
    struct text text = { 0 };
    enum unit unit;
    int64_t chunk = 0;
    bool ok;

    if (!check_plan(p, f, &unit, &chunk, d) || !limber_object_may_run(d))
        return false;
    ok = (limber_small_text(f, unit, chunk, t, &text) ||
          limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory")) &&
         limber_llvm_text_object(&text, t, dump, &object, d);
    limber_text_clear(&text);
    if (ok) {
        head.cpu = limber_cpu_of(t);
        out->size = sizeof head + object.size;
        out->data = malloc(out->size);
        ok = out->data || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    }
    if (ok) {
        memcpy(out->data, &head, sizeof head);
        memcpy(out->data + sizeof head, object.data, object.size);
    }
    free(object.data);
    return ok;
}

/* Checks the head of a stored function.  The bytes may be damaged.  Returns false with an error. */
static bool check_head(const unsigned char *data, size_t size, struct diag *d)
{
    struct head head;

    if (size < sizeof head)
        return limber_fail(d, LIMBER_STATUS_IO, "llvm: the function is cut short");
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, expected_head.magic, sizeof head.magic) ||
        head.version != expected_head.version)
        return limber_fail(d, LIMBER_STATUS_IO, "llvm: a function of another version");
    if (head.cpu & ~limber_cpu())
        return limber_cpu_lacks(head.cpu & ~limber_cpu(), d);
    return true;
}

/* Implements functions.unload: unmaps the code. */
static void unload(struct function *f)
{
    if (!f)
        return;
    limber_object_unmap(&f->object);
    free(f);
}

/* Implements functions.load: maps the object file and finds the function. */
static bool load_function(const unsigned char *data, size_t size, struct function **out,
                          void **entry, struct diag *d)
{
    struct function *f;
    unsigned char *aligned;
    bool ok;

    *out = NULL;
    *entry = NULL;
    if (!check_head(data, size, d))
        return false;
    size -= sizeof(struct head);
    f = calloc(1, sizeof *f);
    aligned = malloc(size + 1); /* the object's tables need alignment */
    ok = (f && aligned) || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "llvm: out of memory");
    if (ok) {
        memcpy(aligned, data + sizeof(struct head), size);
        ok = limber_object_map(aligned, size, &f->object, d);
    }
    if (ok) {
        *entry = limber_object_symbol(aligned, size, &f->object, "limber_fixed");
        ok = *entry || limber_fail(d, LIMBER_STATUS_IO, "llvm: no entry in the function");
    }
    free(aligned);
    if (ok)
        *out = f;
    else
        unload(f);
    return ok;
}

const struct functions limber_llvm_functions = { .compile = compile,
                                                 .load = load_function,
                                                 .unload = unload,
                                                 .cost = 12e6,
                                                 .saved = 30,
                                                 .saved_each = 1.0 / 1600 };
