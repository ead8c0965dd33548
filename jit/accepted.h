/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that were accepted before.  The ways that may compute a call and the layouts of its kernels
 * depend on its form: all but addresses, scalars and data, and so do most checks of a single
 * product.  A table keeps for each form what was decided, so that the next call of this form looks
 * it up by one hash. */
#ifndef LIMBER_JIT_ACCEPTED_H
#define LIMBER_JIT_ACCEPTED_H

#include "jit/engine.h"

#include <stdatomic.h>

/* The form of a product: sizes, strides, formats and contract, by which repeated calls are
 * recognised.  A contract that names a scheme, unit or statistics has no form.  Compared and hashed
 * as bytes, so it has no padding. */
struct form {
    int64_t m, n, k;
    struct strides a, b, c;
    limber_format fa, fb, fc;
    int32_t promise, bits, slices, split, on_miss;
    int32_t flags; /* set of FORM_... */
};
_Static_assert(sizeof(struct form) == 9 * 8 + 3 * 8 + 6 * 4, "a form has no padding");
/* Flags of a form.  FORM_alpha: alpha is not 1. FORM_beta: beta is not 0. FORM_long: the form is
 * the first part of a struct long_form.  The flags that follow are set in long forms only.
 * FORM_one: beta is 1. FORM_a, FORM_b: the operand is prepared.  FORM_listed_a, _b, _c: a batch
 * lists addresses of these matrices. */
enum form_flag {
    FORM_alpha = 1,
    FORM_beta = 2,
    FORM_long = 4,
    FORM_one = 8,
    FORM_a = 16,
    FORM_b = 32,
    FORM_listed_a = 64,
    FORM_listed_b = 128,
    FORM_listed_c = 256
};

/* The form of a batch, a convolution or a call with prepared operands. */
struct long_form {
    struct form form; /* strides are 0 for a convolution */
    int64_t operation; /* a limber_operation */
    int64_t groups, step[3]; /* products of a batch, and elements between their matrices; else 0 */
    int64_t conv[23]; /* the numbers of a limber_conv; 0 for products */
};

/* A kernel that has computed products of a form. */
struct found {
    struct entry *e; /* in use until the form is dropped */
    bool unscanned; /* the kernel computes with data that was not scanned */
    /* mixed.c: 1 if one plan takes so little time that partitioning the product cannot pay, 2 if it
     * takes longer, 0 if that is not known yet */
    atomic_int cheap;
    /* the backend's work layout for launches of this form, allocated by malloc; see struct call */
    void *layout;
    size_t size; /* number of bytes of `key` that are compared */
    struct kernel_key key;
};

enum { MOST_FOUND = 4 }; /* kernels that a form keeps */

/* An entry of the table: a form of calls, and what was decided for it (kernels, ways to compute).
 * `users` counts the calls that use the entry; while it is negative, the other fields are being
 * changed. */
struct accepted {
    atomic_uint_fast64_t hash; /* hash of the form; 0 if there is none */
    atomic_int users;
    atomic_bool used; /* some call has used the form since it was last passed over for reuse */
    struct long_form form; /* only its first part is set, unless it has FORM_long */
    uint32_t open; /* set of the ways (code paths) that accept the form; bit WAY_none: the kernel */
    int64_t bytes_a, bytes_b, bytes_c; /* from a matrix's first element to the end of its last */
    struct scan_wants wants;
    /* kernels of this form; none is removed while the form is in use */
    _Atomic(struct found *) found[MOST_FOUND];
};

/* The table of forms.  A form's hash selects a set of FORM_PLACES entries, any of which may hold
 * the form. */
enum { FORM_BITS = 6, FORM_PLACES = 4 };
struct forms {
    /* hash of the set's last form that was not kept; a form is kept when it comes a second time */
    atomic_uint_fast64_t seen[1 << FORM_BITS];
    _Atomic(struct accepted *) place[1 << FORM_BITS][FORM_PLACES];
};
struct forms *limber_forms_new(void); /* NULL if memory runs out */
/* Frees the table, which no call uses any more; `all` may be NULL.  Its kernels are not given back
 * to their cache, because that is freed next. */
void limber_forms_free(struct forms *all);

/* Returns the table's entry for calls of this form (sizes, strides, formats and contract): the ways
 * and kernels that computed them before.  The caller must give it back by
 * limber_accepted_release.  NULL if the table has none.  Takes no lock. */
struct accepted *limber_accepted_find(const limber_context *ctx, const struct form *f);
/* Returns the number of bytes of a form. */
static inline size_t limber_form_size(const struct form *f)
{
    return f->flags & FORM_long ? sizeof(struct long_form) : sizeof *f;
}
/* Ends a call's use of a table entry.  w may be NULL. */
static inline void limber_accepted_release(struct accepted *w)
{
    if (w)
        atomic_fetch_sub_explicit(&w->users, 1, memory_order_release);
}

/* Keeps the form of a call (the problem p) that has passed all checks.  ways: a function that
 * returns the set of ways (code paths) that may compute the call.  Returns the form's entry, to be
 * released.  NULL if the form is not kept: it comes for the first time, memory runs out, or calls
 * use all entries of its set. */
typedef uint32_t open_ways(const limber_context *ctx, const struct problem *p);
struct accepted *limber_accepted_add(limber_context *ctx, const struct form *f,
                                     const struct problem *p, open_ways *ways);
/* Adds the kernel e, for data of the class in `key`, to those of an accepted call.  On success *w
 * owns the caller's reference to e.  Returns false, and the caller keeps its reference, if *w has
 * this kernel already, or MOST_FOUND others, or if memory runs out. */
bool limber_accepted_keep(struct accepted *w, const struct kernel_key *key, bool unscanned,
                          struct entry *e);
/* Returns the form's kernel for this key (data of a class) or, if key is NULL, its kernel for data
 * that was not scanned.  NULL if there is none, or if another kernel has replaced it; then the
 * form's entry is cleared. */
struct found *limber_accepted_kernel(struct accepted *w, const struct kernel_key *key);

#endif
