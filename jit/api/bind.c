/* SPDX-License-Identifier: BSD-3-Clause
 * limber_bind: makes functions whose signature is only known at run time.  A signature is parsed
 * into words; each word gives the role of an argument and how it is passed. */
#include "jit/api/api.h"

#include <ffi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The role of an argument. */
enum role {
    ROLE_m,
    ROLE_n,
    ROLE_k,
    ROLE_lda,
    ROLE_ldb,
    ROLE_ldc,
    ROLE_alpha,
    ROLE_beta,
    ROLE_a,
    ROLE_b,
    ROLE_c,
    ROLE_transa,
    ROLE_transb,
    ROLE_order,
    ROLE_count,
    ROLE_ignored = ROLE_count
};

/* What an argument is used for; flags, since a type may suit several uses. */
enum use { USE_size = 1, USE_scalar = 2, USE_data = 4, USE_trans = 8, USE_order = 16 };

static const struct {
    const char *name;
    int use;
    bool needed;
} roles[ROLE_count] = {
    [ROLE_m] = { "m", USE_size, true },
    [ROLE_n] = { "n", USE_size, true },
    [ROLE_k] = { "k", USE_size, true },
    [ROLE_lda] = { "lda", USE_size, false },
    [ROLE_ldb] = { "ldb", USE_size, false },
    [ROLE_ldc] = { "ldc", USE_size, false },
    [ROLE_alpha] = { "alpha", USE_scalar, false },
    [ROLE_beta] = { "beta", USE_scalar, false },
    [ROLE_a] = { "a", USE_data, true },
    [ROLE_b] = { "b", USE_data, true },
    [ROLE_c] = { "c", USE_data, true },
    [ROLE_transa] = { "transa", USE_trans, false },
    [ROLE_transb] = { "transb", USE_trans, false },
    [ROLE_order] = { "order", USE_order, false },
};

/* The type in which an argument is passed. */
enum type_word {
    TYPE_i32,
    TYPE_i64,
    TYPE_f32,
    TYPE_f64,
    TYPE_char,
    TYPE_ptr,
    TYPE_reference,
    TYPE_count
};

static const struct {
    const char *name;
    ffi_type *ffi;
    int use;
} types[TYPE_count] = {
    [TYPE_i32] = { "i32", &ffi_type_sint32, USE_size | USE_trans | USE_order },
    [TYPE_i64] = { "i64", &ffi_type_sint64, USE_size | USE_scalar },
    [TYPE_f32] = { "f32", &ffi_type_float, USE_scalar },
    [TYPE_f64] = { "f64", &ffi_type_double, USE_scalar },
    [TYPE_char] = { "char", &ffi_type_schar, USE_trans },
    [TYPE_ptr] = { "ptr", &ffi_type_pointer, USE_data },
    [TYPE_reference] = { "*", &ffi_type_pointer, 0 }, /* the pointed-to type is another entry */
};

enum { MOST_ARGUMENTS = 64, MOST_WORD = 31 };

/* One argument of a signature. */
struct word {
    enum role role;
    enum type_word type; /* type of the value, also if it is passed by reference */
    bool reference;
    limber_format format;       /* format of a scalar */
};

/* A parsed signature. */
struct signature {
    bool answers; /* true for the signature "int(...)", whose function returns a status */
    size_t n;
    struct word word[MOST_ARGUMENTS];
    ffi_type *ffi[MOST_ARGUMENTS];
    int at[ROLE_count]; /* [role]: index of the argument with this role; -1 if there is none */
};

/* A bound function: what it was bound to, and its code. */
struct binding {
    struct binding *next;
    limber_context *ctx;
    limber_contract contract;
    char scheme[32];
    limber_unit unit;
    limber_format a, b, c;
    struct signature sig;
    ffi_cif cif;
    /* executable memory, owned, with libffi's closure at offset CLOSURE_AT; NULL if not made yet */
    void *page;
};

/* ---- reading a signature --------------------------------------------------------------------- */

/* Signatures of usual BLAS functions. */
static const struct {
    const char *name, *words;
} usual[] = {
    { "dgemm_", "transa:*char transb:*char m:*i32 n:*i32 k:*i32 alpha:*f64 a:ptr lda:*i32 b:ptr "
                "ldb:*i32 beta:*f64 c:ptr ldc:*i32" },
    { "sgemm_", "transa:*char transb:*char m:*i32 n:*i32 k:*i32 alpha:*f32 a:ptr lda:*i32 b:ptr "
                "ldb:*i32 beta:*f32 c:ptr ldc:*i32" },
    { "cblas_dgemm", "order:i32 transa:i32 transb:i32 m:i32 n:i32 k:i32 alpha:f64 a:ptr lda:i32 "
                     "b:ptr ldb:i32 beta:f64 c:ptr ldc:i32" },
    { "cblas_sgemm", "order:i32 transa:i32 transb:i32 m:i32 n:i32 k:i32 alpha:f32 a:ptr lda:i32 "
                     "b:ptr ldb:i32 beta:f32 c:ptr ldc:i32" },
};

/* Reports an error in a word of the signature, and returns false. */
static bool bad_word(struct diag *d, const char *word, const char *why)
{
    return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "signature: \"%s\": %s", word, why);
}

/* Finds a role by its name in a signature.  "_" is an argument that is ignored.  False if there is
 * none of this name. */
static bool find_role(const char *name, size_t n, enum role *role)
{
    for (int i = 0; i < ROLE_count; i++) {
        if (strlen(roles[i].name) == n && memcmp(roles[i].name, name, n) == 0) {
            *role = (enum role)i;
            return true;
        }
    }
    *role = ROLE_ignored;
    return n == 1 && *name == '_';
}

/* Finds a type by its name in a signature.  False if there is none of this name. */
static bool find_type(const char *name, enum type_word *type)
{
    for (int i = 0; i < TYPE_reference; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *type = (enum type_word)i;
            return true;
        }
    }
    return false;
}

/* Reads the type of a scalar.  By reference a scalar may have any format; by value only a format
 * that is a C type.  False if the type is unknown. */
static bool parse_scalar_type(const char *type, struct word *w)
{
    char name[48];

    if (limber_format_named(type, &w->format) != LIMBER_STATUS_OK)
        return false;
    limber_format_name(w->format, name, sizeof name);
    return w->reference || (find_type(name, &w->type) && types[w->type].use & USE_scalar);
}

/* Reads the type of an argument into *w, and checks that it suits the role.  text: the word, for
 * error texts. */
static bool parse_type(const char *text, const char *type, struct word *w, struct diag *d)
{
    int use = w->role == ROLE_ignored ? ~0 : roles[w->role].use;

    w->reference = *type == '*';
    type += w->reference;
    if (use == USE_scalar)
        return parse_scalar_type(type, w) || bad_word(d, text, "no scalar comes like this");
    if (!find_type(type, &w->type) || !(types[w->type].use & use))
        return bad_word(d, text, "no argument of this name has this type");
    if (w->reference && (use == USE_data || use == USE_order))
        return bad_word(d, text, "this argument does not come by reference");
    return true;
}

/* Reads one word of a signature, such as "m:i32" or "a:*". */
static bool parse_word(struct signature *s, const char *text, struct diag *d)
{
    const char *colon = strchr(text, ':');
    struct word *w = &s->word[s->n];

    if (s->n == MOST_ARGUMENTS)
        return bad_word(d, text, "too many arguments");
    if (!colon)
        return bad_word(d, text, "it is not of the form name:type");
    if (!find_role(text, (size_t)(colon - text), &w->role))
        return bad_word(d, text, "the name is unknown");
    if (!parse_type(text, colon + 1, w, d))
        return false;
    if (w->role != ROLE_ignored) {
        if (s->at[w->role] >= 0)
            return bad_word(d, text, "the name occurs twice");
        s->at[w->role] = (int)s->n;
    }
    s->ffi[s->n++] = w->reference ? &ffi_type_pointer : types[w->type].ffi;
    return true;
}

/* Reads the words between `from` and `end`, separated by spaces. */
static bool parse_words(struct signature *s, const char *from, const char *end, struct diag *d)
{
    while (from < end) {
        const char *space = memchr(from, ' ', (size_t)(end - from));
        const char *stop = space ? space : end;
        char text[MOST_WORD + 1];

        snprintf(text, sizeof text, "%.*s",
                 (int)(stop - from < MOST_WORD ? stop - from : MOST_WORD), from);
        if (stop - from > MOST_WORD)
            return bad_word(d, text, "the word is too long");
        if (stop > from && !parse_word(s, text, d))
            return false;
        from = space ? stop + 1 : end;
    }
    return true;
}

/* Reads a signature, or the name of a usual BLAS function, which stands for its signature. */
static bool parse_signature(struct signature *s, const char *text, struct diag *d)
{
    static const char answer[] = "int(";
    const char *end;

    memset(s, 0, sizeof *s);
    for (int i = 0; i < ROLE_count; i++)
        s->at[i] = -1;
    if (!text)
        return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "signature is NULL");
    for (size_t i = 0; i < COUNT(usual); i++)
        if (strcmp(usual[i].name, text) == 0)
            text = usual[i].words;
    end = text + strlen(text);
    if (strncmp(text, answer, sizeof answer - 1) == 0) {
        if (end[-1] != ')')
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "signature: \"int(\" is not closed");
        s->answers = true;
        text += sizeof answer - 1;
        end--;
    }
    return parse_words(s, text, end, d);
}

/* Describes the C signature to libffi. */
static bool prepare_cif(const struct signature *s, ffi_cif *cif, struct diag *d)
{
    if (ffi_prep_cif(cif, FFI_DEFAULT_ABI, (unsigned)s->n,
                     s->answers ? &ffi_type_sint : &ffi_type_void,
                     (ffi_type **)(uintptr_t)s->ffi) == FFI_OK)
        return true;
    return limber_fail(d, LIMBER_STATUS_INTERNAL, "libffi refuses the signature");
}

/* ---- a bound function's call ----------------------------------------------------------------- */

/* The arguments of one call of a bound function. */
struct bound_call {
    const struct signature *sig;
    void **at; /* from libffi: pointers to the arguments' values */
};

/* Returns the address of the value with a role, also if it is passed by reference.  NULL if the
 * signature lacks the role, or, with an error in *d, if the reference is NULL. */
static const void *value_of_role(const struct bound_call *a, enum role role, struct diag *d)
{
    int i = a->sig->at[role];
    const void *p;

    if (i < 0)
        return NULL;
    p = a->at[i];
    if (!a->sig->word[i].reference)
        return p;
    memcpy(&p, p, sizeof p);
    if (!p)
        limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s is NULL", roles[role].name);
    return p;
}

/* Returns the integer with a role, or `missing` if the signature lacks it. */
static int64_t integer_of_role(const struct bound_call *a, enum role role, int64_t missing,
                               struct diag *d)
{
    const void *p = value_of_role(a, role, d);
    int32_t narrow;
    int64_t wide;

    if (!p)
        return missing;
    if (a->sig->word[a->sig->at[role]].type == TYPE_i64) {
        memcpy(&wide, p, sizeof wide);
        return wide;
    }
    memcpy(&narrow, p, sizeof narrow);
    return narrow;
}

/* Returns the pointer that the caller passed for this role. */
static void *pointer_of_role(const struct bound_call *a, enum role role)
{
    void *p;

    memcpy(&p, a->at[a->sig->at[role]], sizeof p);
    return p;
}

/* True if the argument with a role asks for the transpose.  An unknown code is an error. */
static bool is_transposed(const struct bound_call *a, enum role role, struct diag *d)
{
    const void *p = value_of_role(a, role, d);
    int32_t code;

    if (!p)
        return false;
    if (a->sig->word[a->sig->at[role]].type == TYPE_char) {
        code = *(const signed char *)p;
        switch (code) {
        case 'N':
        case 'n': return false;
        case 'T':
        case 't':
        case 'C':
        case 'c': return true;
        }
    } else {
        memcpy(&code, p, sizeof code);
        switch (code) {
        case 111:
        case 'N':
        case 'n': return false;
        case 112:
        case 113:
        case 'T':
        case 't':
        case 'C':
        case 'c': return true;
        }
    }
    return !limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %d is none of N, T, C",
                        roles[role].name, (int)code);
}

/* True for row-major matrices.  They are column-major unless the argument `order` says
 * otherwise. */
static bool is_row_major(const struct bound_call *a, struct diag *d)
{
    int64_t order = integer_of_role(a, ROLE_order, 102, d);

    if (order != 101 && order != 102)
        limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "order = %lld is neither 101 nor 102",
                    (long long)order);
    return order == 101;
}

/* Returns the operand with a role: a matrix of rows x cols after transposition. ld: role of its
 * leading dimension. rows_stored: the rows are contiguous in memory.  Error if the leading
 * dimension is too small. */
static limber_matrix operand_matrix(const struct bound_call *a, enum role role, enum role ld,
                                    limber_format f, int64_t rows, int64_t cols, bool rows_stored,
                                    struct diag *d)
{
    int64_t line = rows_stored ? cols : rows, least = line > 1 ? line : 1;
    int64_t lead = integer_of_role(a, ld, least, d);

    if (lead < least)
        limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "%s = %lld is less than %lld", roles[ld].name,
                    (long long)lead, (long long)least);
    return (limber_matrix){ pointer_of_role(a, role), f, rows_stored ? lead : 1,
                            rows_stored ? 1 : lead };
}

/* Multiplies with the arguments of one call of a bound function. */
static limber_status call_bound(const struct binding *b, const struct bound_call *args)
{
    struct diag d = { 0 };
    bool rows = is_row_major(args, &d), ta = is_transposed(args, ROLE_transa, &d),
         tb = is_transposed(args, ROLE_transb, &d);
    int64_t m = integer_of_role(args, ROLE_m, 0, &d), n = integer_of_role(args, ROLE_n, 0, &d),
            k = integer_of_role(args, ROLE_k, 0, &d);
    limber_matrix ma = operand_matrix(args, ROLE_a, ROLE_lda, b->a, m, k, rows != ta, &d);
    limber_matrix mb = operand_matrix(args, ROLE_b, ROLE_ldb, b->b, k, n, rows != tb, &d);
    limber_matrix mc = operand_matrix(args, ROLE_c, ROLE_ldc, b->c, m, n, rows, &d);
    const void *alpha = value_of_role(args, ROLE_alpha, &d),
               *beta = value_of_role(args, ROLE_beta, &d);

    if (d.status) {
        limber_fail_in(&d, "bound function");
        return limber_error_set(&d);
    }
    return limber_gemm(
        b->ctx, &b->contract, m, n, k, alpha, ma, mb, beta,
        (limber_output){ (void *)(uintptr_t)mc.data, mc.format, mc.row_stride, mc.col_stride },
        NULL);
}

/* libffi calls this function for each call of a bound function.  user: the binding. */
static void closure_entry(ffi_cif *cif, void *ret, void **at, void *user)
{
    const struct binding *b = user;
    const struct bound_call args = { &b->sig, at };
    limber_status s = call_bound(b, &args);

    (void)cif;
    if (b->sig.answers)
        *(ffi_sarg *)ret = (ffi_sarg)s;
}

/* ---- making a function of the wanted signature ----------------------------------------------- */

/* Checks that a signature has sizes and matrices, and that its scalars are in C's format (for
 * integers in i64). */
static bool check_signature(const struct signature *s, limber_format c, struct diag *d)
{
    limber_format want = limber_scalar_format(c);
    char name[32];

    for (int i = 0; i < ROLE_count; i++) {
        if (roles[i].needed && s->at[i] < 0)
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "signature: \"%s\" is missing",
                               roles[i].name);
        if (roles[i].use == USE_scalar && s->at[i] >= 0 &&
            !limber_format_equal(s->word[s->at[i]].format, want))
            return limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT,
                               "signature: \"%s\" has to be in format %s", roles[i].name,
                               limber_format_name(want, name, sizeof name));
    }
    return true;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Offset of the closure in its page, in bytes.  Callers that check function types (Clang's
 * -fsanitize=function) read the bytes before a function, so these must be mapped. */
enum { CLOSURE_AT = 64 };

/* Returns the address of the libffi closure in a page. */
static void *closure_in_page(void *page)
{
    return (char *)page + CLOSURE_AT;
}

/* Writes libffi's closure of a binding.  page: its address for writing; executed: its address for
 * execution. */
static bool write_closure(struct binding *b, void *page, void *executed, struct diag *d)
{
    char *code = closure_in_page(executed);

    if (ffi_prep_closure_loc(closure_in_page(page), &b->cif, closure_entry, b, code) != FFI_OK)
        return limber_fail(d, LIMBER_STATUS_INTERNAL, "libffi refuses the closure");
    __builtin___clear_cache(code, code + sizeof(ffi_closure));
    return true;
}

/* Maps a writable page, writes the closure into it and makes the page executable.  NULL if the
 * system refuses. */
static void *map_closure_write_then_execute(struct binding *b, struct diag *d)
{
    void *page =
        mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    if (write_closure(b, page, page, d) && mprotect(page, page_bytes(), PROT_READ | PROT_EXEC) == 0)
        return page;
    munmap(page, page_bytes());
    return NULL;
}

/* Maps the same memory at two addresses, one writable and one executable, for systems that refuse
 * to make written memory executable.  NULL if the system refuses. */
static void *map_closure_twice(struct binding *b, struct diag *d)
{
    int file = (int)syscall(SYS_memfd_create, "limber", 1u /* MFD_CLOEXEC */);
    void *page = MAP_FAILED, *code = MAP_FAILED;
    bool ok;

    if (file >= 0 && ftruncate(file, (off_t)page_bytes()) == 0) {
        page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        code = mmap(NULL, page_bytes(), PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    }
    ok = page != MAP_FAILED && code != MAP_FAILED && write_closure(b, page, code, d);
    if (page != MAP_FAILED)
        munmap(page, page_bytes());
    if (code != MAP_FAILED && !ok)
        munmap(code, page_bytes());
    if (file >= 0)
        close(file);
    return ok ? code : NULL;
}

/* Makes the closure in executable memory. libffi's own allocation is not used, since it would first
 * try memory that is writable and executable at the same time. */
static bool make_closure(struct binding *b, struct diag *d)
{
    if (!prepare_cif(&b->sig, &b->cif, d))
        return false;
    b->page = map_closure_write_then_execute(b, d);
    if (!b->page && !d->status)
        b->page = map_closure_twice(b, d);
    return b->page ||
           (!d->status && limber_fail(d, LIMBER_STATUS_NO_MEMORY,
                                      "the system refuses executable memory; call limber_gemm, or "
                                      "allow it to this process"));
}

static void free_binding(struct binding *b)
{
    if (b && b->page)
        munmap(b->page, page_bytes());
    free(b);
}

/* Frees a list of bindings. */
void limber_bindings_free(struct binding *list)
{
    while (list) {
        struct binding *next = list->next;

        free_binding(list);
        list = next;
    }
}

/* Checks the arguments and makes a binding with its executable code.  NULL on failure. */
static struct binding *new_binding(limber_context *ctx, const limber_contract *contract,
                                   limber_format a, limber_format b, limber_format c,
                                   const char *signature, struct diag *d)
{
    struct binding *new;

    if (!ctx) {
        limber_fail(d, LIMBER_STATUS_BAD_ARGUMENT, "ctx is NULL");
        return NULL;
    }
    if (!limber_check_format(a, "a", d) || !limber_check_format(b, "b", d) ||
        !limber_check_format(c, "c", d) || !limber_contract_check(contract, a, b, c, d))
        return NULL;
    new = calloc(1, sizeof *new);
    if (!new) {
        limber_fail(d, LIMBER_STATUS_NO_MEMORY, "no memory for a binding");
        return NULL;
    }
    new->ctx = ctx;
    new->contract = *contract;
    new->a = a;
    new->b = b;
    new->c = c;
    if (contract->scheme) {
        snprintf(new->scheme, sizeof new->scheme, "%s", contract->scheme);
        new->contract.scheme = new->scheme;
    }
    if (contract->unit) {
        new->unit = *contract->unit;
        new->contract.unit = &new->unit;
    }
    new->contract.statistics = NULL; /* statistics would be shared by calls from several threads */
    if (parse_signature(&new->sig, signature, d) && check_signature(&new->sig, c, d) &&
        make_closure(new, d))
        return new;
    free_binding(new);
    return NULL;
}

/* Makes a function with the caller's signature that computes products under `contract`, and
 * stores its address in *function; NULL on failure.  The context owns the function. */
limber_status limber_bind(limber_context *ctx, const limber_contract *contract, limber_format a,
                          limber_format b, limber_format c, const char *signature,
                          void (**function)(void))
{
    CALL_SCOPE;
    struct diag d = { 0 };
    struct binding *new;
    limber_contract k;
    limber_unit unit;

    if (!function) {
        limber_fail(&d, LIMBER_STATUS_BAD_ARGUMENT, "bind: function is NULL");
        return limber_error_set(&d);
    }
    *function = NULL;
    new = limber_contract_in(&k, &unit, contract, &d) ?
              new_binding(ctx, &k, a, b, c, signature, &d) :
              NULL;
    if (new) {
        const void *closure = closure_in_page(new->page);

        memcpy(function, &closure, sizeof *function);
        pthread_mutex_lock(&ctx->lock);
        new->next = ctx->bindings;
        ctx->bindings = new;
        pthread_mutex_unlock(&ctx->lock);
    } else {
        limber_fail_in(&d, "bind");
    }
    return limber_error_set(&d);
}
