/* SPDX-License-Identifier: BSD-3-Clause
 * The plan, which the library's folders pass to each other, and what it is made of.  docs/ir.md is
 * its text form. */
#ifndef LIMBER_IR_H
#define LIMBER_IR_H

#include "ir/words.h"
#include "limber/limber.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- diag.c: errors and growing texts ----------------------------------------------------- */

/* Sets the thread's locale to one with a decimal point, and returns the previous locale, which the
 * caller restores with uselocale.  limber_text_add and limber_fail do not need this. */
locale_t limber_plain_numbers(void);

/* Numbers of a call that plans know by their classes: k, and the spread of a line's exponents. */
enum { CLASS_OF_k = 1, CLASS_OF_spread = 2 };

/* The first error of a call: its status, and a message with the path to where it occurred. */
struct diag {
    limber_status status;
    /* CLASS_OF_...: numbers in the message that are those of a class, not the caller's */
    unsigned by_class;
    char text[480];
};

/* Records an error, unless d has one already.  Always returns false. */
bool limber_fail(struct diag *d, limber_status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Records the error `why`, which a diag of its own has, unless d has one already.  Always returns
 * false. */
bool limber_fail_again(struct diag *d, const struct diag *why);
/* Puts "where: " in front of the recorded message. */
void limber_fail_in(struct diag *d, const char *where);

/* A growing text.  After an allocation failed it does not grow any more, and `failed` is true. */
struct text {
    char *s;            /* owned, zero-terminated; NULL if the text is empty */
    size_t n, capacity;
    bool failed;
};
void limber_text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void limber_text_clear(struct text *t);

/* ---- format.c ------------------------------------------------------------------------------ */

/* Returns the number of significant bits, the hidden one included; 107 for dd. */
int limber_format_sig(limber_format f);
/* Returns the unit round-off 2^-sig; 2^-106 for dd, 0 for integers. */
double limber_format_roundoff(limber_format f);
static inline bool limber_is_integer(limber_format f)
{
    return f.kind == LIMBER_KIND_INT || f.kind == LIMBER_KIND_UINT;
}
/* Returns true for floats, posits and powers of two, which are formats of reals with a NaN. */
static inline bool limber_is_real(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT || f.kind == LIMBER_KIND_POSIT ||
           f.kind == LIMBER_KIND_POWER;
}
/* Returns the format of alpha and beta for a C of format c. */
limber_format limber_scalar_format(limber_format c);
/* Returns true if both formats are equal.  limber_format_equal is the public form. */
static inline __attribute__((always_inline)) bool limber_same_format(limber_format x,
                                                                     limber_format y)
{
    return __builtin_memcmp(&x, &y, sizeof x) == 0;
}
/* Returns true for binary64 and binary32. */
static inline bool limber_format_is_binary(limber_format f)
{
    return limber_same_format(f, LIMBER_F64) || limber_same_format(f, LIMBER_F32);
}
/* Returns the exponent of the smallest nonzero magnitude. */
int limber_format_emin(limber_format f);
/* Returns the exponent of the lowest bit that any number of the format can have. */
int limber_format_quantum(limber_format f);
/* Returns the largest finite value of a float of at most binary64, a posit or a power of two. */
double limber_format_largest(limber_format f);
int limber_format_emax(limber_format f); /* returns the exponent of the largest finite magnitude */
/* Returns true if every value of `small` is a value of `large`, which is another format. */
bool limber_other_format_embeds(limber_format small, limber_format large);
/* Returns true if every value of `small` is a value of `large`. */
static inline __attribute__((always_inline)) bool limber_format_embeds(limber_format small,
                                                                       limber_format large)
{
    return limber_same_format(small, large) ? small.kind != LIMBER_KIND_NONE :
                                              limber_other_format_embeds(small, large);
}
/* Returns true if f is a valid format of elements in memory.  Otherwise the message in *d names the
 * field of `what` that is wrong. */
bool limber_format_check(const char *what, limber_format f, struct diag *d);
/* Converts `count` elements between formats, like limber_convert in limber.h.  Returns false, with
 * an error, if an argument is wrong. */
bool limber_format_convert(void *dst, limber_format to, const void *src, limber_format from,
                           size_t count, limber_rounding mode, struct diag *d);
/* Returns the element at p, rounded to the nearest double. */
double limber_format_value(limber_format f, const void *p);
/* Returns x rounded to nearest in format f. */
double limber_format_round(limber_format f, double x);

/* ---- unit.c: simulated units -------------------------------------------------------------- */

/* Reads a unit's description like limber_unit_parse, and reports errors in d. */
bool limber_unit_read(const char *text, limber_unit *unit, struct diag *d);
/* Checks a unit like limber_unit_check, and reports errors in d. */
bool limber_unit_verify(const limber_unit *unit, struct diag *d);
/* Returns true if the unit computes one chain of FMAs in binary64, or one for each group, as CPUs
 * can.  Operands may be rounded to a smaller format before. */
bool limber_unit_is_chain(const limber_unit *unit);
/* Which of NVIDIA's block-scaled MMA instructions a unit models, however the unit rounds
 * operands. */
enum block_scaled {
    BLOCK_SCALED_none,
    BLOCK_SCALED_mxf8f6f4,
    BLOCK_SCALED_mxf4,
    BLOCK_SCALED_mxf4nvf4
};
enum block_scaled limber_unit_block_scaled(const limber_unit *unit);
/* Prints the unit's description in the form that limber_unit_read reads. */
void limber_unit_print(const limber_unit *unit, struct text *out);
/* Sets *unit to the tensor core that sums as the attributes sums= and unit= of the products say.
 * One instruction takes 32 bytes of limbs along k.  False if sums are fused multiply-adds, or no
 * tensor core is known that multiplies this unit's format. */
struct node;
bool limber_unit_of_sums(const struct node *products, limber_unit *unit);
/* Returns b such that integers of magnitude up to 2^b are exact in the products' accumulator; 0 if
 * all integers are. */
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
/* Flags of operations.  OP_EXACT: adds no error.  OP_MANY: its value is a set of limbs or
 * accumulators.  OP_ROWS: has a product table. */
enum op_flags { OP_EXACT = 1, OP_MANY = 2, OP_ROWS = 4 };

/* An operation of the IR. */
struct op_info {
    const char *name;
    /* numbers of operands */
    int least, most;
    uint64_t attrs; /* bit a is set if the operation can have attribute a */
    /* set of enum op_flags */
    int flags;
};
/* An attribute of the IR.  words: for kind ATTR_WORD, its words with bars between them, "a|b|c". */
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
extern const char *const limber_promises[PROMISES]; /* [promise]: its name */
/* Length of a chain of native sums.  It is part of the order of sums that the contract
 * `reproducible` promises. */
enum { NATIVE_CHAIN = 256 };
/* Returns the kind of limbs that an operation makes; LIMB_KIND_count if it makes none. */
enum limb_kind limber_limb_kind(enum op op);

/* Returns word i of words with bars between them, "a|b|c", and sets *n to its length.  NULL if
 * there are no more words. */
const char *limber_word_at(const char *words, int64_t i, int *n);
/* Returns the index of the word of n bytes at s; -1 if it is not among the words. */
int limber_word_find(const char *words, const char *s, size_t n);

/* A unit, which multiplies and adds: a row of LIMBER_UNITS. */
struct unit_info {
    const char *name;
    /* names of the formats of limbs and of the accumulator; i8 takes i8 and u8 in any mix */
    const char *in, *acc;
    /* integers of magnitude up to 2^exact_bits are exact in the accumulator; 0 if all integers
     * are */
    int exact_bits;
    /* the limbs are floats that tensor cores multiply; the attribute sums= names their order of
     * sums */
    bool tensor;
};
extern const struct unit_info limber_units[UNIT_count];

/* What a kernel counts inside a simulated unit: nothing; sums in the accumulator and outer sums
 * that lose all bits of an addend (swamped); or all events of LIMBER_UNIT_TALLIES. */
enum counts { COUNT_none, COUNT_swamped, COUNT_all };
struct dims_list {
    const int64_t *v;
    size_t n;
};

enum { MOST_RANK = 5 };

/* The type of a value: "f64[m,k]" or "u8[128,k]x16".  A dimension is a number, or a letter, which
 * is stored as its negative code. */
struct type {
    limber_format format;
    int rank; /* number of dimensions: 2 for a matrix, 4 or 5 for an image */
    int64_t dim[MOST_RANK];
    int count; /* number of limbs or accumulators; 1 if the value is not a set */
};

/* A row of a product table: the product of limb a of A and limb b of B is added to accumulator
 * acc. */
struct row {
    int a, b, acc;
    /* the accumulator counts units of 2^weight; with CRT, accumulator i belongs to modulus i
     * instead */
    int weight;
    /* deleting the row changes an element of the result by at most share*|A||B|; INFINITY if it
     * must not be deleted */
    double share;
};

enum { NODE_ATTRS = 9 }; /* largest number of attributes that an operation can have */

struct node { /* an operation, and the value that it computes */
    enum op op;
    int line; /* line of the text that it was parsed from, else 0 */
    const char *name; /* the value's name, without % */
    int in[2], nin; /* operands, as indices into plan.node; number of operands */
    /* products only: the product table */
    struct row *row;
    size_t rows;
    struct type type;
    uint64_t has; /* bit a is set if attribute a is set */
    union attr_value {
        int64_t num; /* the number of an ATTR_INT, or the index of an ATTR_WORD's word */
        const struct dims_list *list; /* the numbers of an ATTR_LIST, in the plan's arena */
    } attr[NODE_ATTRS]; /* attributes that the operation can have, in the order of enum attr */
};

/* The arithmetic of a first pass, which is faster than exact sums.  A sample of the result
 * predicts that its error bound is small enough to round all but a few elements with certainty.
 * Those are then recomputed exactly. */
struct first_pass {
    /* bits of scaled integers with which the rounding of all but a few elements is certain; 0: all
     * bits are needed */
    int bits;
    /* chains in binary64 leave the rounding of a share of 2^-decided of the elements uncertain; 0
     * if this is not known */
    int decided;
    /* double-double sums leave the rounding of a share of up to 2^-paired of the elements
     * uncertain, since products cancel; 0 if such elements are too few to show in a sample, or if
     * it is not known */
    int paired;
};

enum { SMALL_SIZE = 7 }; /* value of plan.size if C has at most 256 rows and columns */

/* The intermediate representation of one problem. */
struct plan {
    const char *name; /* "gemm", "conv", or the name in the text */
    limber_promise promise;
    int bits; /* the number of bits for LIMBER_CONTRACT_BITS; 0 for other promises */
    /* for LIMBER_CONTRACT_SIMULATE: the unit, in the arena, with seed 0; else NULL */
    const limber_unit *model;
    int counts; /* an enum counts: which events kernels count inside the simulated unit */
    const char *wanted; /* the scheme that the caller names, or NULL */
    /* number of slices that the caller names or that was estimated; 0: schemes choose */
    int slices;
    limber_split split; /* where the caller wants limbs to be made */
    int kbits; /* the plan can compute every k <= 2^kbits */
    /* the size at which costs of schemes are compared: m = n = 2^size, or 1024 if size is 0; k is
     * 2^kbits on devices, else n */
    int size;
    /* error that the contract allows, relative to |A||B|; INFINITY: any error */
    double budget;
    double spent; /* error bound of the plan, relative to |A||B|; NAN until it is known */
    double cost; /* predicted seconds for 2^30 multiply-adds; NAN until they are known */
    struct price { /* predicted seconds on one core or device; zeros until they are known */
        /* seconds per multiply-add of the caller's product, per element of A, of B and of C, and
         * per launch */
        double product, a, b, result, call;
        /* true: a kernel for a part of a product skips tiles that other parts compute (struct
         * tile_subset), so the price does not include them */
        bool skips;
    } price;
    struct first_pass first_pass;
    /* how often the other parts of the product round an element again (docs/mixed.md); 0 if the
     * plan computes the complete product */
    int roundings;
    const char *scheme; /* the chosen scheme; NULL before the pass `choose` */
    int pruned; /* number of rows of the product table deleted so far */
    double dropped; /* sum of the deleted rows' shares of the error bound */
    struct text refused; /* a line for each scheme: why it was refused, or what it costs */
    /* operations, each after its operands */
    struct node *node;
    size_t nodes, capacity;
    int ret; /* index of the node whose value the plan returns; -1 if none is set */
    /* owned: memory of the plan's nodes, lists and strings */
    void *arena;
};

/* plan.c: builds plans.  A plan owns an arena, which holds its nodes, lists and strings. */
/* Makes an empty plan. */
void limber_plan_init(struct plan *p);
/* Frees the plan's arena. */
void limber_plan_clear(struct plan *p);
/* Returns zeroed memory of the plan's arena.  NULL if memory runs out. */
void *limber_plan_alloc(struct plan *p, size_t bytes);
/* Copies a string to the arena.  Returns NULL if memory runs out. */
const char *limber_plan_string(struct plan *p, const char *s);
/* Appends an operation with operands a and b (-1: none). name: NULL for a new name; a number is
 * appended if the name is taken.  Returns the operation's index, or -1 if memory runs out. */
int limber_plan_add(struct plan *p, enum op op, const char *name, int a, int b, struct type t);
/* Sets an attribute to a number, or to the index of a word. */
void limber_node_set(struct node *n, enum attr a, int64_t value);
/* Sets an attribute to a list of numbers, which it copies.  Returns false if memory runs out. */
bool limber_node_list(struct plan *p, struct node *n, enum attr a, const int64_t *v, size_t count);
static inline bool limber_node_has(const struct node *n, enum attr a)
{
    return n->has >> a & 1;
}
/* Returns the number of an attribute; 0 if it is not set. */
int64_t limber_attr_number(const struct node *n, enum attr a);
/* Returns the list of an attribute; an empty list if it is not set. */
const struct dims_list *limber_attr_list(const struct node *n, enum attr a);
/* Returns the node `patches` or `filters` that value v is, or from which v's limbs are made.  NULL
 * if v is a plain matrix or limbs of one. */
const struct node *limber_plan_map(const struct plan *p, int v);
/* Returns the order along k (ORDER_crs, ...) of value v, if v is a convolution's view or limbs of
 * one; else ORDER_crs. */
int limber_plan_order(const struct plan *p, int v);
/* Returns the `arg` node that a value is computed from. */
const struct node *limber_source(const struct plan *p, int value);
/* Returns the predicted seconds of an m x n x k product, if only a share of its multiply-adds (0 to
 * 1) is done. */
double limber_price(const struct price *p, double m, double n, double k, double share);
/* Returns the largest number of rows of the product table that are added to one accumulator. */
int limber_most_rows(const struct node *products);
/* Returns the first node with this operation, or NULL if there is none. */
struct node *limber_plan_find(const struct plan *p, enum op op);
/* Makes a deep copy with its own arena.  Returns false if memory runs out. */
bool limber_plan_copy(struct plan *to, const struct plan *from);
/* Deletes nodes that the returned value does not depend on.  Moves the others after their
 * operands, in their present order where possible, and renumbers them.  Returns false if memory
 * runs out. */
bool limber_plan_sweep(struct plan *p);

/* Parses the text of a plan into *p (parse.c).  Returns false, with an error, if it is wrong. */
bool limber_plan_parse(struct plan *p, const char *text, struct diag *d);
/* Parses a plan and verifies it.  After a failure *p must be cleared, too. */
bool limber_plan_read(struct plan *p, const char *text, struct diag *d);
/* Prints a plan as canonical text, which caches hash (print.c).  Printing a plan that was parsed
 * from canonical text gives the same bytes. */
void limber_plan_print(const struct plan *p, struct text *out);

/* verify.c: checks numbers of operands, types, shapes, attributes and their ranges, and product
 * tables.  The message begins with the name of the value that is wrong. */
bool limber_plan_verify(const struct plan *p, struct diag *d);

/* ---- mask.c: what a scan found of one operand ------------------------------------------------ */

/* Results of a scan of an operand.  A line is a row of A or a column of B. */
struct mask {
    bool scanned; /* false if nothing below is known */
    /* all elements are zero; NaN or infinities occur; negative elements occur */
    bool zero, special, negative;
    /* smallest and largest exponent e of finite nonzero elements, 2^e <= |x| < 2^(e+1) */
    int emin, emax;
    /* spread: largest emax - emin of a line.  width: largest number of bits of a line's scaled
     * integers.  sig: largest number of significant bits of an element. */
    int spread, width, sig;
    bool has_low;
    /* exponent of the lowest set bit of any element; defined only if has_low is true and some
     * element is not zero */
    int low;
    int64_t lines, length; /* number of lines (rows of A or columns of B), and their length k */
    /* [line]: largest exponent, INT32_MIN if all elements of the line are zero; NULL if the scan
     * was not asked for it */
    int32_t *line_emax;
    uint8_t *line_special; /* [line]: 1 if it has NaN or infinities */
    /* [tile_rows]: for each block of LIMBER_TILE lines, the fields above for its elements only */
    struct block_mask {
        int32_t emin, emax, spread, width, sig;
        int32_t low; /* exponent of the lowest set bit; not set by limber_mask_join */
        /* set of enum tile_flags */
        uint8_t flags;
    } *block;
    /* [tile_rows][tile_cols]: for each tile of LIMBER_TILE lines x LIMBER_TILE elements along k;
     * NULL if not known */
    int64_t tile_rows, tile_cols;
    struct tile_mask {
        int16_t emin, emax, low /* exponent of the lowest set bit */;
        uint8_t sig, flags;
    } *tile;
};
enum { LIMBER_TILE = 64 };
enum tile_flags { TILE_zero = 1, TILE_special = 2, TILE_negative = 4 };
void limber_mask_clear(struct mask *m);
/* Gives each line of *m the exponents and the lowest bit of the complete operand, so that a GPU can
 * split an image into limbs once for all windows.  Returns false, and leaves m unchanged, if the
 * operand has NaN or infinities, or if its exponents differ so much that windows usually need far
 * fewer bits. */
bool limber_mask_make_uniform(struct mask *m);
/* Returns the exponent of the operand's lowest set bit; INT_MIN if it is not known, INT_MAX if all
 * elements are zero. */
int limber_mask_low(const struct mask *m);
struct tile_subset;
/* Makes *out, the mask (exponents and bits that a scan found) of the part of an operand that a tile
 * subset selects: `count` of m's blocks, without tiles.  If the subset omits tiles, all lines of a
 * block get the block's largest exponent. */
void limber_mask_join(struct mask *out, const struct mask *m, const struct tile_subset *x,
                      int64_t count);
/* Makes the mask (what a scan found) of a tile subset like limber_mask_join, and also fills the
 * arrays with an entry for each line, which launches need.  Returns false if memory runs out. */
bool limber_mask_subset(struct mask *out, const struct mask *m, const struct tile_subset *x,
                        int64_t count);
/* How the results of a scan are rounded to a class, so that similar data use the same kernels. */
enum class_use {
    /* fewer classes, since small products take less time than compiling more kernels */
    CLASS_coarse = 1,
    /* only schemes that keep every bit are tried; for these only the number of bits of a line
     * matters, not the exponents */
    CLASS_widths = 2,
    /* the caller names a scheme, whose kernel must compute all data that the scheme can compute */
    CLASS_named = 8,
    CLASS_ranges = 4, /* the values of emin and emax matter, not only whether formats hold them */
    CLASS_reach = 16 /* all lines may share one scale, so the class has `reach` */
};
/* The attributes of an arg node that describe its data are neighbours in ir/attrs.h. */
enum { DATA_FIRST = ATTR_emin, DATA_LAST = ATTR_reach, DATA_ATTRS = DATA_LAST - DATA_FIRST + 1 };
/* What a scan found of an operand's exponents and bits, rounded so that operands with similar data
 * share a plan (a class).  The values are attributes of an arg node.  Two classes are compared by
 * memcmp, so values that are not set must be 0. */
struct data_class {
    uint64_t has; /* bit i is set if attribute DATA_FIRST + i is set */
    int64_t value[DATA_ATTRS];
};
/* Sets an attribute of a class. */
static inline void limber_class_set(struct data_class *c, enum attr a, int64_t value)
{
    c->has |= (uint64_t)1 << (a - DATA_FIRST);
    c->value[a - DATA_FIRST] = value;
}
/* Returns an attribute of a class; 0 if it is not set. */
static inline int64_t limber_class_get(const struct data_class *c, enum attr a)
{
    return c->value[a - DATA_FIRST];
}
/* Rounds what a scan found (m) to the class of such data, in *to; the class is empty if the operand
 * was not scanned.  f: the operand's format.  use: set of enum class_use. */
void limber_mask_class(const struct mask *m, limber_format f, unsigned use, struct data_class *to);
/* Writes a class (rounded results of a scan) into the attributes of an arg node. */
void limber_class_write(const struct data_class *c, struct node *arg);

/* ---- target.c: a machine as passes see it ---------------------------------------------------- */

/* Functions of the backend of a device whose threads share memory in blocks.  Passes call them. */
struct target;
struct block_rules {
    /* Sets the attributes tile and split of the products.  Returns false, with an error in *d, on
     * failure. */
    bool (*tile)(struct plan *p, struct node *products, const struct target *t, struct diag *d);
    /* Returns true if the multiply kernel can make the limbs itself.  Otherwise the reason is in
     * *d. */
    bool (*splits_inside)(const struct plan *p, const struct target *t, struct diag *d);
    /* Predicts the seconds that the plan takes. */
    struct price (*price)(const struct plan *p, const struct target *t);
};

/* What a machine offers.  A backend fills it.  "Not part of the text": limber_target_print omits
 * it. */
struct target {
    char backend[16]; /* "interp", "llvm", "cuda" */
    char isa[16]; /* "any", "avx512", "sm_90a", ... */
    /* the backend's words, sorted and separated by commas; part of kernel keys */
    char features[1024];
    int vector_bits; /* bits of the widest vector; 0 for the interpreter */
    int registers; /* number of vector registers */
    int64_t l1, l2; /* sizes of the data caches in bytes */
    /* [unit]: multiply-adds per second of one core; 0 if there is no such unit */
    double rate[UNIT_count];
    /* i8: number of products that an instruction sums in one i32 lane: 8 for I8MM of NEON, 4 for
     * VNNI, 2 for madd of 16-bit words, which is unit i16, too */
    int group;
    int tile[UNIT_count][3]; /* [unit]: measured mr, mb, nb; zeros: passes/tile.c computes them */
    int matrix; /* i8: rows and columns of a tile of the matrix unit; 0 if there is none */
    double bandwidth; /* bytes per second of memory; 0 if it is not known */
    int device; /* index of the backend's device; not part of the target's text */
    /* order of sums of its tensor cores: a word of LIMBER_SUMS; "" if there are none */
    char sums[8];
    /* bytes of memory that the threads of a block share; 0 if the machine has no blocks of
     * threads */
    int64_t shared;
    const struct block_rules *blocks; /* not NULL if shared is not 0; not part of the text */
    /* `features` as bits; 0 if they were not read yet; not part of the target's text */
    unsigned cpu;
    bool no_compiler; /* true if no compiler may be used; not part of the target's text */
};
/* Returns the unit whose rate and tile hold for this unit.  For i16 it is i8: the CPUs with i16
 * multiply bytes by the same instruction, which sums two products of 16-bit words (group = 2).  For
 * f16d it is f64, whose FMAs of FP16 numbers give the same bits. */
static inline enum unit limber_rated_unit(int64_t unit)
{
    return unit == UNIT_i16 ? UNIT_i8 : unit == UNIT_f16d ? UNIT_f64 : (enum unit)unit;
}
/* Returns true for a device with memory and threads of its own. */
static inline bool limber_is_device(const struct target *t)
{
    return t->shared > 0;
}
/* Returns true if the word is one of the target's features. */
bool limber_target_has(const struct target *t, const char *feature);
/* Returns true if the CPU multiplies by outer products (SME), whose tile of registers is fixed. */
bool limber_target_is_outer(const struct target *t);
/* Parses the text of a target.  Returns false, with an error, if it is wrong. */
bool limber_target_parse(struct target *t, const char *text, struct diag *d);
/* Prints a target as text that limber_target_parse reads. */
void limber_target_print(const struct target *t, struct text *out);

#endif
