/* SPDX-License-Identifier: BSD-3-Clause
 * Makes the kernel of a key: loads it from disk, takes the library's prebuilt code, or runs the
 * passes and compiles. */
#include "jit/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes the disk key of a plan before the passes.  For a function of one shape the key includes
 * the strides, which are not part of the plan. */
bool limber_plan_key(const limber_context *ctx, const struct machine *machine, const struct plan *p,
                     const struct fixed *f, unsigned char key[KEY_BYTES], char **stated,
                     struct diag *d)
{
    struct text t = { 0 };
    bool ok;

    limber_plan_print(p, &t);
    if (stated && t.s) /* stays NULL if memory runs out */
        *stated = strdup(t.s);
    if (f)
        limber_text_add(&t, "; fixed a=%lld,%lld b=%lld,%lld c=%lld,%lld\n", (long long)f->a.row,
                        (long long)f->a.col, (long long)f->b.row, (long long)f->b.col,
                        (long long)f->c.row, (long long)f->c.col);
    ok = !t.failed && t.s;
    if (ok)
        limber_key_make(key, ctx->build, t.s, t.n, machine->text.s);
    limber_text_clear(&t);
    return ok || limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for the plan's text");
}

/* Returns the word for the contract's promise, such as "correct" or, written into `text`,
 * "bits=40". */
const char *limber_promise_name(const limber_contract *k, char *text, size_t size)
{
    if (k->promise == LIMBER_CONTRACT_BITS)
        snprintf(text, size, "bits=%d", k->bits);
    else
        snprintf(text, size, "%s", limber_promises[k->promise]);
    return text;
}

/* Returns the format of the plan's argument with this index: 0 (A) or 1 (B). */
static limber_format format_of_arg(const struct plan *p, int index)
{
    for (size_t i = 0; i < p->nodes; i++)
        if (p->node[i].op == OP_arg && limber_attr_number(&p->node[i], ATTR_index) == index)
            return p->node[i].type.format;
    return (limber_format){ 0 };
}

/* Fills in what a kernel's entry tells of its plan: error bound, cost, scheme and one line of
 * text. fixed: sizes of a kernel for one shape, or NULL. */
void limber_fill_facts(struct facts *f, const struct plan *p, const struct fixed *fixed)
{
    const limber_contract k = { .promise = p->promise, .bits = p->bits };
    const struct node *products = limber_plan_find(p, OP_products);
    struct text line = { 0 };
    char a[16], b[16], c[16], promise[16], size[40];

    snprintf(size, sizeof size, "k<=2^%d", p->kbits);
    if (fixed)
        snprintf(size, sizeof size, "m=%lld n=%lld k=%lld", (long long)fixed->m,
                 (long long)fixed->n, (long long)fixed->k);
    f->rows = products ? (int32_t)products->rows : 1;
    f->pruned = p->pruned;
    f->bound = p->spent;
    f->cost = p->cost;
    snprintf(f->scheme, sizeof f->scheme, "%s", p->scheme ? p->scheme : "none");
    limber_text_add(&line, "%s a=%s b=%s c=%s contract=%s", p->name,
                    limber_format_name(format_of_arg(p, 0), a, sizeof a),
                    limber_format_name(format_of_arg(p, 1), b, sizeof b),
                    limber_format_name(p->node[p->ret].type.format, c, sizeof c),
                    limber_promise_name(&k, promise, sizeof promise));
    /* for a simulated unit the line has the unit's description in place of the number of rows */
    if (p->model) {
        limber_text_add(&line, "=");
        limber_unit_print(p->model, &line);
    } else
        limber_text_add(&line, " %s %s %d rows", size, f->scheme, (int)f->rows);
    strncpy(f->plan, line.s ? line.s : "", sizeof f->plan - 1);
    f->plan[sizeof f->plan - 1] = 0;
    limber_text_clear(&line);
}

/* Runs the named passes on a plan, and writes the plan after each pass to the trace. */
bool limber_passes_traced(struct plan *p, const struct target *t, const char *names,
                          struct trace *s, struct diag *d)
{
    struct pass_watch watch = { limber_trace_pass, s };
    bool ok;

    limber_trace_stage(s, 0, "stated", p);
    ok = limber_passes_run(p, t, names, watch, d);
    limber_trace_end(s, p, t);
    return ok;
}

/* Loads compiled code into the entry, as a kernel or as a function of one shape. */
static bool load_kernel(const struct compile_inputs *m, const struct blob *bytes, struct entry *e,
                        struct diag *d)
{
    const struct backend *b = m->machine->backend;

    if (m->fixed)
        return b->cpu->fixed->load(bytes->data, bytes->size, &e->function, &e->address, d);
    return b->load(bytes->data, bytes->size, &e->kernel, d);
}

/* True if loading failed because the bytes are no valid kernel.  After other failures the same
 * bytes may be loadable later, or by another process. */
static bool is_damaged(const struct diag *d)
{
    return d->status != LIMBER_STATUS_NO_MEMORY && d->status != LIMBER_STATUS_DEVICE;
}

/* Compiles a plan, on which all passes have run, to bytes: a kernel, or a function of one shape. */
static bool generate_bytes(const struct compile_inputs *m, const struct plan *p,
                           const struct dump *dump, struct blob *bytes, struct diag *d)
{
    const struct backend *b = m->machine->backend;
    bool ok;

    if (!limber_compile_enter(b, &m->machine->target, d))
        return false;
    ok = m->fixed ? b->cpu->fixed->compile(p, &m->machine->target, m->fixed, dump, bytes, d) :
                    b->compile(p, &m->machine->target, dump, bytes, d);
    limber_compile_leave();
    return ok;
}

/* ---- code of a plan: from disk, or generated ------------------------------------------------- */

/* How to get the code of a plan.  Different plans often give the same code, which is kept once,
 * under a key of its own, in memory and on disk.  On disk the entry of such a plan holds only that
 * key. */
struct code_request {
    const struct compile_inputs *m;
    const struct plan *p; /* NULL if code is only looked up, not compiled */
    const unsigned char *key; /* key of the code; NULL if no other plan can use the code */
};

/* Loads code from disk into the entry.  Damaged code is removed from the disk.  False if there is
 * no usable code. */
static bool code_from_disk(const struct code_request *c, struct entry *e)
{
    struct disk *disk = c->m->ctx->disk;
    struct diag ignored = { 0 };
    struct facts facts;
    struct blob bytes;
    bool ok;

    if (!limber_disk_load(disk, c->key, &facts, &bytes))
        return false;
    ok = load_kernel(c->m, &bytes, e, &ignored);
    if (!ok && is_damaged(&ignored))
        limber_disk_drop(disk, c->key);
    free(bytes.data);
    return ok;
}

/* Compiles the code, loads it into the entry and stores it on disk. */
static bool generate_code(const struct code_request *c, struct entry *e, struct diag *d)
{
    struct blob bytes = { 0 };
    bool ok;

    if (!c->p)
        return limber_fail(d, LIMBER_STATUS_DEVICE, "the code is not there");
    ok = generate_bytes(c->m, c->p, NULL, &bytes, d) && load_kernel(c->m, &bytes, e, d);
    if (ok)
        limber_disk_store(c->m->ctx->disk, &e->facts, &bytes);
    free(bytes.data);
    return ok;
}

/* The `make` function of entries in the cache of code: loads the code from disk; else compiles it
 * and stores it there. */
static bool make_code(void *user, struct entry *e, struct diag *d)
{
    struct code_request *c = user;
    struct disk *disk = c->m->ctx->disk;
    int claim;
    bool ok;

    e->backend = c->m->machine->backend;
    e->facts = (struct facts){ .plan = "code of several kernels", .scheme = "none" };
    memcpy(e->facts.key, c->key, KEY_BYTES);
    e->from = LIMBER_FROM_DISK;
    if (code_from_disk(c, e))
        return true;
    claim = c->p ? limber_disk_claim(disk, c->key) : -1;
    ok = claim >= 0 && code_from_disk(c, e);
    if (!ok) {
        e->from = LIMBER_FROM_COMPILER;
        ok = generate_code(c, e, d);
    }
    if (c->p)
        limber_disk_release(claim, c->key);
    return ok;
}

/* Gets code that several plans may share from the cache of code, and makes it if it is absent. */
static bool get_code(struct code_request *c, struct entry *e, struct diag *d)
{
    struct kernel_cache *codes = c->m->ctx->codes;
    struct entry *code;
    bool found;

    if (!limber_kernels_get(codes, c->key, KEY_BYTES, (struct kernel_maker){ make_code, c }, &code,
                            &found, d))
        return false;
    e->codes = codes;
    e->code = code;
    e->kernel = code->kernel;
    e->from = found ? LIMBER_FROM_MEMORY : code->from;
    return true;
}

/* Computes the key of a plan's code.  Plans with the same code have the same key. */
static bool make_code_key(const struct compile_inputs *m, const struct plan *p,
                          unsigned char key[KEY_BYTES], struct diag *d)
{
    struct blob what = { 0 };

    if (!m->machine->backend->code->key(p, &m->machine->target, &what, d))
        return false;
    limber_key_make(key, m->ctx->build, what.data, what.size, limber_code_target(m->machine));
    free(what.data);
    return true;
}

/* Loads the plan's entry from disk.  Does not look there while kernels are dumped, because a dump
 * shows all stages of making a kernel.  False if there is no usable entry. */
static bool load_from_disk(const struct compile_inputs *m, struct entry *e)
{
    struct disk *disk = m->ctx->disk;
    struct diag ignored = { 0 };
    struct facts facts;
    struct blob bytes;
    bool ok;

    if (m->ctx->tells.dump_dir || !limber_disk_load(disk, e->facts.key, &facts, &bytes))
        return false;
    e->from = LIMBER_FROM_DISK;
    /* The bytes are the key of shared code.  If that code no longer exists, the kernel is made
     * again. */
    if (bytes.size == KEY_BYTES)
        ok = get_code(&(struct code_request){ m, NULL, bytes.data }, e, &ignored);
    else if (!(ok = load_kernel(m, &bytes, e, &ignored)) && is_damaged(&ignored))
        limber_disk_drop(disk, e->facts.key);
    if (ok)
        e->facts = facts;
    free(bytes.data);
    return ok;
}

/* Compiles the plan, and dumps the stages of compilation unless dump is NULL. Stores on disk what
 * would be stored without a dump. */
static bool compile_and_dump(const struct code_request *c, const struct dump *dump, struct entry *e,
                             struct diag *d)
{
    struct facts code = { .plan = "code of several kernels", .scheme = "none" }, found;
    struct disk *disk = c->m->ctx->disk;
    struct blob made = { 0 }, old = { 0 };
    bool ok = generate_bytes(c->m, c->p, dump, &made, d) && load_kernel(c->m, &made, e, d);

    if (ok) {
        e->from = LIMBER_FROM_COMPILER;
        if (!c->key) {
            limber_disk_store(disk, &e->facts, &made);
        } else if (!limber_disk_load(disk, c->key, &found, &old)) {
            memcpy(code.key, c->key, KEY_BYTES);
            limber_disk_store(disk, &code, &made);
        }
    }
    free(made.data);
    free(old.data);
    return ok;
}

/* Returns the names of the passes that must run on a plan. */
const char *limber_passes_of(const struct plan *p)
{
    return limber_plan_find(p, OP_products) ? "tile,bound" : NULL;
}

/* Writes the source of a plan's kernel to its dump, if there is a dump.  All passes have run. */
static void dump_source(const struct compile_inputs *m, const struct plan *p, struct trace *trace)
{
    const struct code_ops *code = m->machine->backend->code;
    struct diag ignored = { 0 };
    struct text out = { 0 };

    if (trace->folder && code && !m->fixed && code->source(p, &m->machine->target, &out, &ignored))
        limber_trace_file(trace, code->source_name, out.s, out.n);
    limber_text_clear(&out);
}

/* Runs the passes on a plan, and gets or compiles its code. */
static bool compile_plan(const struct compile_inputs *m, struct plan *p, struct entry *e,
                         struct diag *d)
{
    struct trace trace = { .folder = limber_dump_folder(m->ctx, e->facts.key) };
    const struct dump dump = { limber_trace_file, &trace };
    bool shares = !m->fixed && m->machine->backend->code;
    unsigned char key[KEY_BYTES];
    struct code_request c = { m, p, shares ? key : NULL };
    const struct blob name = { key, KEY_BYTES };
    bool ok;

    ok = limber_passes_traced(p, &m->machine->target, limber_passes_of(p), &trace, d) &&
         (!shares || make_code_key(m, p, key, d));
    if (ok) {
        dump_source(m, p, &trace);
        limber_fill_facts(&e->facts, p, m->fixed);
        ok = shares && !trace.folder ? get_code(&c, e, d) :
                                       compile_and_dump(&c, trace.folder ? &dump : NULL, e, d);
    }
    if (ok && shares)
        limber_disk_store(m->ctx->disk, &e->facts, &name);
    limber_trace_clear(&trace);
    return ok;
}

/* Compiles the plan after claiming its key, so that only one of several processes makes the
 * kernel. */
static bool compile_once(const struct compile_inputs *m, struct plan *p, struct entry *e,
                         struct diag *d)
{
    struct disk *disk = m->ctx->disk;
    unsigned char key[KEY_BYTES];
    int claim;
    bool ok;

    memcpy(key, e->facts.key, sizeof key);
    claim = m->ctx->tells.dump_dir ? -1 : limber_disk_claim(disk, key);
    ok = (claim >= 0 && load_from_disk(m, e)) || compile_plan(m, p, e, d);
    limber_disk_release(claim, key);
    return ok;
}

/* Reads the text of a plan: before the passes, so that no scheme has been chosen yet, or after
 * them. */
static bool read_text(struct plan *p, const char *text, struct diag *d)
{
    return limber_plan_read(p, text, d) &&
           (!p->scheme || limber_plan_find(p, OP_products) ||
            limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                        "a scheme is chosen already: the plan is neither stated nor finished"));
}

/* ---- prebuilt code --------------------------------------------------------------------------- */

/* True if the library may have prebuilt code for these inputs.  It has none for functions of one
 * shape. */
static bool may_be_prebuilt(const struct compile_inputs *m)
{
    return m->machine->cpu && m->code != CODE_SPECIALISED && !m->fixed && !m->stated &&
           m->ctx->kernels != LIMBER_KERNELS_SPECIALISED;
}

/* Makes the kernel from prebuilt code.  The entry is not stored on disk, because reading it would
 * take longer than making it.  False if there is no prebuilt code for the plan. */
static bool load_prebuilt(const struct compile_inputs *m, struct entry *e, struct diag *d)
{
    struct trace trace = { .folder = limber_dump_folder(m->ctx, e->facts.key) };
    const struct target *target = &m->machine->target;
    struct plan plan = { 0 };
    struct blob bytes = { 0 };
    bool ok;

    ok = limber_plan_state(&plan, m->key, NULL, d) &&
         limber_passes_traced(&plan, target, NULL, &trace, d) &&
         m->machine->cpu->prebuilt(&plan, target, &bytes, d) && load_kernel(m, &bytes, e, d);
    if (ok) {
        dump_source(m, &plan, &trace);
        limber_fill_facts(&e->facts, &plan, NULL);
        e->from = LIMBER_FROM_LIBRARY;
        e->prebuilt = true;
    }
    free(bytes.data);
    limber_plan_clear(&plan);
    limber_trace_clear(&trace);
    return ok;
}

/* ---- choice between prebuilt and own code ---------------------------------------------------- */

/* Compiles the plan.  Fails if the inputs, the environment or the configuration forbids
 * compiling. */
static bool compile_where_allowed(const struct compile_inputs *m, struct plan *p, struct entry *e,
                                  struct diag *d)
{
    const limber_context *ctx = m->ctx;

    if (m->code == CODE_READY)
        return limber_fail(d, LIMBER_STATUS_NOT_READY, "the kernel has to be compiled");
    if (ctx->no_compile && !limber_carries(m->machine->backend))
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "LIMBER_NO_COMPILE is set and no cache holds this kernel");
    if (ctx->kernels == LIMBER_KERNELS_PREBUILT && m->machine->cpu && !m->stated)
        return limber_fail(d, LIMBER_STATUS_DEVICE,
                           "no prebuilt kernel serves this product, and others are not wanted");
    return compile_once(m, p, e, d);
}

/* Makes the entry for the machine of the inputs: from disk, from prebuilt code, or by compiling. */
static bool make_on_machine(const struct compile_inputs *m, struct entry *e, struct diag *d)
{
    struct plan plan = { 0 };
    struct diag why = { 0 };
    const struct node *conv;
    bool ok;

    e->backend = m->machine->backend;
    ok = (m->stated ? read_text(&plan, m->stated, d) :
                      limber_plan_state(&plan, m->key, m->fixed, d)) &&
         limber_plan_key(m->ctx, m->machine, &plan, m->fixed, e->facts.key,
                         e->stated ? NULL : &e->stated, d);
    e->promise = plan.promise;
    conv = limber_conv_node(&plan);
    if (ok && conv) {
        limber_conv_read(conv, &e->geometry);
        e->geometry.order = ORDER_crs; /* kernels know the order of limbs from the plan */
    }
    if (ok && !load_from_disk(m, e) && !(may_be_prebuilt(m) && load_prebuilt(m, e, &why)))
        ok = why.status && why.status != LIMBER_STATUS_NOT_READY ?
                 limber_fail_again(d, &why) :
                 compile_where_allowed(m, &plan, e, d);
    limber_plan_clear(&plan);
    return ok;
}

/* Arguments of make_here. */
struct make_arguments {
    const struct compile_inputs *m;
    struct entry *e;
};

/* Makes the entry on the context's machine or, if the compiler is missing there, on the spare
 * backend.  Stores how long that took. */
static bool make_here(void *arg, struct diag *d)
{
    const struct make_arguments *x = arg;
    struct entry *e = x->e;
    struct compile_inputs m = *x->m;
    double start = limber_now();
    struct diag why = { 0 };
    bool ok = make_on_machine(&m, e, &why);

    if (!ok && why.status == LIMBER_STATUS_DEVICE && m.ctx->spare.backend && !m.fixed &&
        !m.ctx->no_compile && m.code == CODE_ANY) {
        m.machine = &m.ctx->spare;
        limber_context_interprets(m.ctx, why.text);
        ok = make_on_machine(&m, e, d);
    } else if (!ok) {
        limber_fail_again(d, &why);
    }
    if (!ok) {
        free(e->stated);
        e->stated = NULL;
    }
    e->seconds = limber_now() - start;
    return ok;
}

/* The `make` function of struct kernel_maker. user: a struct compile_inputs. */
bool limber_make_kernel(void *user, struct entry *e, struct diag *d)
{
    return limber_with_stack(STACK_compile, make_here, &(struct make_arguments){ user, e }, d);
}
