/* SPDX-License-Identifier: BSD-3-Clause
 * The plan, which the library's folders hand to each other.  docs/ir.md is its text form. */
#ifndef LIMBER_IR_H
#define LIMBER_IR_H

#include "ir/words.h"
#include "limber/limber.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- diag.c: the first error with its path ---------------------------------------------- */

/* Sets the thread's locale to one with a decimal point.  The caller restores the returned locale
 * with uselocale.  The printing functions below do not need it. */
locale_t limber_plain_numbers(void);

/* The first error of a call. */
struct diag {
    limber_status status;
    char text[480];
};

/* Records the failure unless one is recorded already; always returns false. */
bool limber_fail(struct diag *d, limber_status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "where: " in front of the recorded text. */
void limber_fail_in(struct diag *d, const char *where);

/* A growing text; after a failed allocation it stays short and `failed` is set. */
struct text {
    char *s;            /* zero-terminated, or NULL when empty */
    size_t n, capacity;
    bool failed;
};
void limber_text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void limber_text_clear(struct text *t);

/* ---- format.c ------------------------------------------------------------------------------ */

int limber_format_sig(limber_format f); /* significant bits, the hidden one included; dd: 107 */
double limber_format_roundoff(limber_format f); /* u = 2^-sig; dd: 2^-106; integers: 0 */
static inline bool limber_is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}
/* Floats, posits and powers of two: formats of reals with a NaN. */
static inline bool limber_is_real(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_POSIT ||
           f.kind == LIMBER_KIND_POWER;
}
limber_format limber_scalar_format(limber_format c); /* format of alpha and beta for C in c */
bool limber_format_is_binary(limber_format f); /* binary64 or binary32, as they are stored */
int limber_format_emin(limber_format f); /* exponent of the smallest nonzero magnitude */
int limber_format_quantum(limber_format f); /* exponent of the lowest bit of any number */
double limber_format_largest(limber_format f); /* floats of at most binary64 */
int limber_format_emax(limber_format f); /* exponent of the largest finite magnitude */
bool limber_format_embeds(limber_format small, limber_format large); /* every value is exact */
/* Is f a format of elements in memory?  If not, the text names the field of `what`. */
bool limber_format_check(const char *what, limber_format f, struct diag *d);
/* limber_convert that reports its error in d. */
bool limber_format_convert(void *dst, limber_format to, const void *src, limber_format from,
                           size_t count, limber_rounding mode, struct diag *d);
/* The element at p as the nearest double, and x rounded to f, as a double. */
double limber_format_value(limber_format f, const void *p);
double limber_format_round(limber_format f, double x);

/* ---- unit.c: simulated units -------------------------------------------------------------- */

/* limber_unit_parse, limber_unit_check and limber_unit_text that report errors in d. */
bool limber_unit_read(const char *text, limber_unit *unit, struct diag *d);
bool limber_unit_verify(const limber_unit *unit, struct diag *d);
/* True if the unit is one chain, or one per group, of FMAs in binary64, which CPUs compute. */
bool limber_unit_is_chain(const limber_unit *unit);
/* NVIDIA's block-scaled MMA instructions that this unit models, however it rounds operands. */
enum block_scaled {
    BLOCK_SCALED_none,
    BLOCK_SCALED_mxf8f6f4,
    BLOCK_SCALED_mxf4,
    BLOCK_SCALED_mxf4nvf4
};
enum block_scaled limber_unit_block_scaled(const limber_unit *unit);
void limber_unit_print(const limber_unit *unit, struct text *out);
/* Finds the tensor core that sums as the products say (sums=, unit=); false: sums are by fused
 * multiply-adds, or no such core exists.  One instruction takes 32 bytes along k. */
struct node;
bool limber_unit_of_sums(const struct node *products, limber_unit *unit);
/* Integers up to 2^result are exact in the products' accumulator; 0: all. */
int limber_exact_bits(const struct node *products);

/* ---- plans --------------------------------------------------------------------------------- */

enum op {
#define OP(name, least, most, attributes, flags) OP_##name,
#include "ir/ops.h"
    OP_count
};

enum attr {
#define ATTR(name, kind, words) ATTR_##name,
#include "ir/attrs.h"
    ATTR_count
};

enum attr_kind { ATTR_INT, ATTR_LIST, ATTR_WORD };
enum op_flags { OP_EXACT = 1, OP_MANY = 2, OP_ROWS = 4 };

/* An operation: its name, how many operands it has, and the attributes that it needs. */
struct op_info {
    const char *name;
    int least, most;
    uint64_t attrs; /* bit per enum attr */
    int flags;
};
/* An attribute: its name, kind of value and, for words, the words. */
struct attr_info {
    const char *name;
    enum attr_kind kind;
    const char *words;
};
extern const struct op_info limber_ops[OP_count];
extern const struct attr_info limber_attrs[ATTR_count];

enum unit { LIMBER_UNITS(LIMBER_WORD_CONSTANT) UNIT_count };
enum limb_kind { LIMBER_LIMB_KINDS(LIMBER_WORD_CONSTANT) LIMB_KIND_count };
enum { LIMBER_AXES(LIMBER_WORD_CONSTANT) };
enum { LIMBER_RECONSTRUCTIONS(LIMBER_WORD_CONSTANT) RECONSTRUCT_count };
enum { LIMBER_SIGNS(LIMBER_WORD_CONSTANT) };
enum { LIMBER_LAYOUTS(LIMBER_WORD_CONSTANT) };
enum { LIMBER_DIRECTIONS(LIMBER_WORD_CONSTANT) };
enum { LIMBER_ORDERS(LIMBER_WORD_CONSTANT) };
enum { LIMBER_SPLITS(LIMBER_WORD_CONSTANT) };
enum { LIMBER_SUMS(LIMBER_WORD_CONSTANT) SUMS_count };
enum { LIMBER_ALPHAS(LIMBER_WORD_CONSTANT) };
enum { LIMBER_BETAS(LIMBER_WORD_CONSTANT) };
extern const char *const limber_limb_kinds[LIMB_KIND_count];
extern const char *const limber_reconstructions[RECONSTRUCT_count];
enum { PROMISES = LIMBER_CONTRACT_REPRODUCIBLE + 1 };
extern const char *const limber_promises[PROMISES]; /* by limber_promise */
/* Products in one chain of native sums: part of the order that `reproducible` states. */
enum { NATIVE_CHAIN = 256 };
/* The kind of limbs that an operation makes; LIMB_KIND_count: it makes none. */
enum limb_kind limber_limb_kind(enum op op);

/* Words with bars between them, "a|b|c".  limber_word_at: word i and its length, NULL past the end.
 * limber_word_find: the index of the word of n bytes at s, -1 if absent. */
const char *limber_word_at(const char *words, int64_t i, int *n);
int limber_word_find(const char *words, const char *s, size_t n);

struct unit_info {
    const char *name;
    const char *in, *acc; /* format names; i8 takes i8 and u8 in any mix, acc i32 */
    int exact_bits; /* integers up to 2^exact_bits are exact in the accumulator; 0: all */
    bool tensor; /* floats of tensor cores, which sums= names */
};
extern const struct unit_info limber_units[UNIT_count];

enum counts { COUNT_none, COUNT_swamped /* fully: in acc and in outer sums */, COUNT_all };
struct dims_list {
    const int64_t *v;
    size_t n;
};

enum { MOST_RANK = 5 };

/* A type: "f64[m,k]" or "u8[128,k]x16".  A dimension is a number, or minus a letter. */
struct type {
    limber_format format;
    int rank; /* 2, 4 or 5 */
    int64_t dim[MOST_RANK];
    int count; /* limbs or accumulators; 1 without x */
};

/* One limb product.  The product of limb a of A and limb b of B is added to accumulator acc. */
struct row {
    int a, b, acc;
    int weight; /* the accumulator counts 2^weight (crt: its modulus' index is acc) */
    double share; /* dropping it moves an element by at most share*|A||B|;
                     INFINITY: never droppable */
};

enum { NODE_ATTRS = 9 }; /* most attributes of an operation */

struct node { /* one operation and its one value */
    enum op op;
    int line; /* in the text it was parsed from, else 0 */
    const char *name; /* without % */
    int in[2], nin; /* indices into plan.node */
    struct row *row;
    size_t rows;
    struct type type;
    uint64_t has; /* bit per attribute that is set */
    union attr_value {
        int64_t num; /* INT, WORD (index of the word) */
        const struct dims_list *list; /* LIST: in the plan's arena */
    } attr[NODE_ATTRS]; /* those that the operation may carry, in their order */
};

/* The arithmetic of a first pass that, as a sample of the result predicts, leaves few elements
 * uncertain. */
struct first_pass {
    int bits; /* width of scaled integers that decides all but a few elements; 0: all bits */
    int decided; /* chains in binary64 decide all but a share of 2^-decided; 0: not known */
    int paired; /* pairs of doubles leave up to 2^-paired of the elements open, because their sums
                   cancel; 0: fewer than can be noticed, or not known */
};

enum { SMALL_SIZE = 7 }; /* value of plan.size for a C of at most 256 rows and columns */

struct plan {
    const char *name; /* "gemm", "conv" or what the text says */
    limber_promise promise;
    int bits; /* promise bits */
    const limber_unit *model; /* simulate: the unit, in the arena, with seed 0; else NULL */
    int counts; /* enum counts: what a kernel counts inside the model */
    const char *wanted; /* scheme named by the caller, or NULL */
    int slices; /* named by the caller or estimated; 0: schemes choose */
    limber_split split; /* where limbs must be made */
    int kbits; /* k <= 2^kbits */
    int size; /* schemes are compared at m = n = 2^size, or 1024 if 0; k is 2^kbits on devices,
                 else n */
    double budget; /* error that the promise allows: coefficient of |A||B|; INFINITY: any */
    double spent; /* error bound of the plan: coefficient of |A||B|; NAN until known */
    double cost; /* predicted seconds for 2^30 multiply-adds, NAN until known */
    struct price { /* predicted seconds of one core or device; zeros until known */
        double product, a, b, result, call; /* per multiply-add of the contract's product, element
                                               of A, of B, of C, and launch */
        bool skips; /* the kernel skips tiles that a part of a mixed product leaves to other parts
                       (struct tile_subset), so they cost nothing */
    } price;
    struct first_pass first_pass;
    int roundings; /* times that a mixed product's parts round an element; one plan rounds once */
    const char *scheme; /* chosen; NULL before choose */
    int pruned; /* rows deleted so far */
    double dropped; /* sum of the deleted rows' shares */
    struct text refused; /* a line per scheme: why it was refused, or its cost */
    struct node *node;
    size_t nodes, capacity;
    int ret; /* index of the returned value, -1 */
    void *arena;
};

/* plan.c.  A plan owns an arena, which all its lists and strings live in.  Functions that fill a
 * plan expect it zeroed. */
void limber_plan_init(struct plan *p);
void limber_plan_clear(struct plan *p);
void *limber_plan_alloc(struct plan *p, size_t bytes); /* zeroed; NULL: out of memory */
const char *limber_plan_string(struct plan *p, const char *s);
/* Appends an operation; name NULL gives a fresh one.  Returns its index or -1. */
int limber_plan_add(struct plan *p, enum op op, const char *name, int a, int b, struct type t);
void limber_node_set(struct node *n, enum attr a, int64_t value);
bool limber_node_list(struct plan *p, struct node *n, enum attr a, const int64_t *v, size_t count);
static inline bool limber_node_has(const struct node *n, enum attr a)
{
    return n->has >> a & 1;
}
/* An attribute's number or list; 0 or an empty list if it is not set. */
int64_t limber_num(const struct node *n, enum attr a);
const struct dims_list *limber_list(const struct node *n, enum attr a);
/* The index map of a convolution that value v is, or is limbs of; NULL: none. */
const struct node *limber_plan_map(const struct plan *p, int v);
/* The order along k of value v if it is a convolution's view or limbs of one; else crs. */
int limber_plan_order(const struct plan *p, int v);
/* The `arg` node that a value is computed from. */
const struct node *limber_source(const struct plan *p, int value);
/* Predicted seconds of an m x n x k product of which `share` (0 to 1) of the work is done. */
double limber_price(const struct price *p, double m, double n, double k, double share);
/* The largest number of rows that one accumulator sums. */
int limber_most_rows(const struct node *products);
/* First node with this operation, or NULL. */
struct node *limber_plan_find(const struct plan *p, enum op op);
/* A deep copy in an arena of its own; false: out of memory. */
bool limber_plan_copy(struct plan *to, const struct plan *from);
/* Drops values that the returned one does not need.  Puts the others behind their operands, in
 * their present order where possible, and renumbers them. */
bool limber_plan_sweep(struct plan *p);

/* parse.c, print.c: print(parse(text)) is text, byte for byte, for canonical text.  The plan's
 * canonical text is what the caches hash. */
bool limber_plan_parse(struct plan *p, const char *text, struct diag *d);
void limber_plan_print(const struct plan *p, struct text *out);

/* verify.c: operand counts and types, shapes, attributes and their ranges, rows.  The message
 * begins with the value's name. */
bool limber_plan_verify(const struct plan *p, struct diag *d);

/* ---- mask.c: what one scan found ------------------------------------------------------------- */

struct mask {
    bool scanned; /* false: nothing below is known */
    bool zero, special, negative;
    int emin, emax; /* of finite nonzeros; exponent of 2^e <= |x| < 2^(e+1) */
    int spread, width, sig; /* as the attributes of the same name */
    bool has_low;
    int low; /* if has_low: exponent of the lowest set bit; undefined if all are zero */
    int64_t lines, length; /* rows of A or columns of B; k */
    int32_t *line_emax; /* per line; INT32_MIN for a zero line; NULL when not asked for */
    uint8_t *line_special; /* per line: it has NaN or infinities */
    /* tile_rows blocks of LIMBER_TILE lines each; the fields are as those above */
    struct block_mask {
        int32_t emin, emax, spread, width, sig;
        int32_t low; /* of scanned lines */
        uint8_t flags;
    } *block;
    /* per tile of LIMBER_TILE lines x LIMBER_TILE elements, row by row; NULL: not known */
    int64_t tile_rows, tile_cols;
    struct tile_mask {
        int16_t emin, emax, low /* lowest bit */;
        uint8_t sig, flags;
    } *tile;
};
enum { LIMBER_TILE = 64 };
enum tile_flags { TILE_zero = 1, TILE_special = 2, TILE_negative = 4 };
void limber_mask_clear(struct mask *m);
/* Takes each line to have the range and the lowest bit of the whole operand, so that a GPU can cut
 * an image into limbs once for all windows.  False, and no change, if the operand has NaN or
 * infinities, or such a range that windows usually need far fewer bits. */
bool limber_mask_level(struct mask *m);
/* The exponent of the lowest bit; INT_MIN: not known, INT_MAX: all are zero. */
int limber_mask_low(const struct mask *m);
/* Makes the mask of a tile subset: `count` of m's blocks, without tiles.  If the subset leaves out
 * tiles, all lines of a block get the block's largest exponent. */
struct tile_subset;
void limber_mask_join(struct mask *out, const struct mask *m, const struct tile_subset *x,
                      int64_t count);
/* limber_mask_join that also fills the arrays per line, which launches need; false: no memory. */
bool limber_mask_subset(struct mask *out, const struct mask *m, const struct tile_subset *x,
                        int64_t count);
/* Writes the mask's class (rounded outwards so that similar data share kernels) into an arg node.
 */
enum class_use {
    CLASS_coarse = 1, /* far fewer classes */
    CLASS_widths = 2, /* schemes keep every bit: only widths matter, not the exponents */
    CLASS_named = 8, /* a scheme is asked for, and has to serve all data that it can */
    CLASS_ranges = 4, /* emin and emax matter by themselves, not only whether formats hold them */
    CLASS_reach = 16 /* all lines may have one scale */
};
void limber_mask_class(const struct mask *m, limber_format f, unsigned use, struct node *arg);

/* ---- target.c: a machine, described to the passes -------------------------------------------- */

/* Passes' questions about a device whose threads share memory in blocks; its backend answers. */
struct target;
struct block_rules {
    /* Sets the attributes tile and split of the products. */
    bool (*tile)(struct plan *p, struct node *products, const struct target *t, struct diag *d);
    /* Can the multiply kernel make the limbs?  If not, why. */
    bool (*splits_inside)(const struct plan *p, const struct target *t, struct diag *d);
    struct price (*price)(const struct plan *p, const struct target *t);
};

struct target {
    char backend[16]; /* "interp", "llvm", "cuda" */
    char isa[16]; /* "any", "avx512", "sm_90a", ... */
    char features[1024]; /* backend's own words, sorted, comma-separated: part of the key */
    int vector_bits; /* bits of the widest vector; 0 for interp */
    int registers; /* vector registers */
    int64_t l1, l2; /* bytes of data cache */
    double rate[UNIT_count]; /* multiply-adds per second of one core; 0: unit absent */
    int group; /* i8: products summed at once into one i32 lane (8: I8MM of NEON, 4:
                  VNNI, 2: madd of words, which is unit i16, too) */
    int tile[UNIT_count][3]; /* measured mr, mb, nb; zeros: passes/tile.c computes them */
    int matrix; /* i8: rows and columns of a tile of the matrix unit; 0: there is none */
    double bandwidth; /* bytes per second of its memory; 0: unknown */
    int device; /* index of the backend's device; not part of the text */
    char sums[8]; /* the vendor's tensor cores: a word of products' sums; "": none */
    int64_t shared; /* bytes of memory that a block of threads shares; 0: no such blocks */
    const struct block_rules *blocks; /* where shared is not 0; not part of the text */
    unsigned cpu; /* the features as bits; 0: not read yet; not part of the text */
    bool no_compiler; /* true: no compiler may be used; not part of the text */
};
/* The unit whose rate and tile hold for this one: where group = 2, an instruction that sums two
 * products of 16-bit words multiplies bytes, too. */
static inline enum unit limber_rated_unit(int64_t unit)
{
    return unit == UNIT_i16 ? UNIT_i8 : (enum unit)unit;
}
/* True for a device with memory and threads of its own. */
static inline bool limber_is_device(const struct target *t)
{
    return t->shared > 0;
}
/* Is the word one of the target's features? */
bool limber_target_has(const struct target *t, const char *feature);
/* True if sums are outer products (SME), whose register tile the unit fixes. */
bool limber_target_is_outer(const struct target *t);
bool limber_target_parse(struct target *t, const char *text, struct diag *d);
void limber_target_print(const struct target *t, struct text *out);

#endif
