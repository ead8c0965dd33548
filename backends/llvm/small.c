/* SPDX-License-Identifier: BSD-3-Clause
 * Prints a small product of fixed shape as LLVM assembly: one function that reads unpacked
 * operands.  C is divided into register tiles of sizes as equal as possible, so that the tiles at
 * the edges waste little.  A tile keeps its sums in registers over all of k; vectors of B are
 * multiplied by broadcast elements of A.  The last vector of a row is masked.  If B's rows are not
 * contiguous, a panel of B is first transposed on the stack.
 *
 *   needs   C with contiguous rows; limber_small_text exchanges A and B to get them
 *   bits    docs/ir.md: a chain of fused multiply-adds from +0 for each chunk of k; chains are
 *           added in the order of k to a total that starts from +0; then C's old value is added
 *   source  Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_WIDE = 4,          /* largest number of vectors in a row of a tile */
    MOST_SUMS = 32,         /* largest number of accumulators of a tile */
    /* loops over k are fully unrolled if the function has at most this many multiply-adds */
    STRAIGHT = 64
};

/* `count` groups of `size` rows each, or of `size` vectors of columns each.  The last vector of
 * a row may be shorter: `width` lanes, of which `used` hold elements. */
struct part {
    int size, count, width, used;
};

/* The function that is being printed: its product, its tiles, and the last numbers of values and
 * labels. */
struct small {
    struct text *out;
    struct fixed f;         /* the product, transposed if that makes C's rows contiguous */
    int64_t chunk;
    int lanes, bytes, registers;
    const char *scalar, *suffix;        /* LLVM's names of the element type: "double", "f64" */
    /* groups of rows and of columns; `rows` and `cols` are the numbers of groups in use */
    struct part row[2], col[3];
    int rows, cols;
    bool straight; /* all loops over k are unrolled */
    int value, label;       /* numbers of the last LLVM value and of the last label */
    const char *a, *b; /* LLVM's names of the operands, exchanged if the product is transposed */
};

/* Returns the number of the next LLVM value. */
static int new_value(struct small *s)
{
    return ++s->value;
}

/* Returns the name of a vector in LLVM's text.  Number 0 is a vector of zeros. */
static const char *vector_name(int value, char room[24])
{
    snprintf(room, 24, value ? "%%v%d" : "zeroinitializer", value);
    return room;
}

/* ---- choice of tiles ------------------------------------------------------------------------- */

/* Divides n into groups of at most `most`, as equal as possible, larger groups first.  Returns the
 * number of different sizes (1 or 2). */
static int divide_evenly(int n, int most, struct part part[2])
{
    int groups = (n + most - 1) / most, large = n % groups, count = 0;

    if (large)
        part[count++] = (struct part){ .size = n / groups + 1, .count = large };
    part[count++] = (struct part){ .size = n / groups, .count = groups - large };
    return count;
}

/* Returns the estimated cost of a tile of `high` rows of `wide` vectors.  A step along k is bound
 * by the two FMA units, by loads, or by the latency of a sum. */
static double tile_cost(const struct small *s, int high, int wide)
{
    int slots = high * wide;

    slots = slots > high + wide ? slots : high + wide;
    slots = slots > 8 ? slots : 8;
    return (double)s->f.k * slots + 3 * high * wide + 30;
}

/* Returns the estimated cost of all tiles for these groups of rows and columns. */
static double tiling_cost(const struct small *s, const struct part *row, int rows,
                          const struct part *col, int cols)
{
    double sum = 0;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            sum += row[i].count * col[j].count * tile_cost(s, row[i].size, col[j].size);
    return sum;
}

/* If the last vectors of the rows are not full, puts them into a group of their own.  Their width
 * is a power of two, and if all lanes are used they need no mask.  Masks are avoided because a
 * masked load right after a masked store is not forwarded and waits for the cache. */
static void set_tail(struct small *s)
{
    int tail = (int)s->f.n % s->lanes;
    struct part *last = &s->col[s->cols - 1];

    for (int i = 0; i < s->cols; i++)
        s->col[i].width = s->col[i].used = s->lanes;
    if (!tail)
        return;
    if (last->count > 1) {
        last->count--;
        s->col[s->cols++] = (struct part){ .size = last->size, .count = 1 };
        last++;
    }
    last->used = tail;
    for (last->width = 1; last->width < tail;)
        last->width *= 2;
}

/* Chooses the register tile with the lowest estimated cost. */
static void choose_tiles(struct small *s)
{
    int vectors = (int)((s->f.n + s->lanes - 1) / s->lanes), tail = (int)s->f.n % s->lanes;
    bool vector_mask = s->registers < 32 && (tail & (tail - 1));
    double least = 0;

    for (int wide = 1; wide <= MOST_WIDE && wide <= vectors; wide++) {
        /* registers beside sums and B: one for the element of A, one spare, and one for AVX2's
         * mask */
        for (int high = (s->registers - wide - 2 - vector_mask) / wide; high >= 1; high--) {
            struct part row[2], col[2];
            int rows = divide_evenly((int)s->f.m, high, row),
                cols = divide_evenly(vectors, wide, col);
            double c = tiling_cost(s, row, rows, col, cols);

            if (least > 0 && c >= least)
                continue;
            least = c;
            s->rows = rows;
            s->cols = cols;
            for (int i = 0; i < 2; i++) {
                s->row[i] = row[i];
                s->col[i] = col[i];
            }
        }
    }
    set_tail(s);
}

/* ---- emitting single instructions and loops -------------------------------------------------- */

/* width: lanes of a vector; used: how many of them hold elements. */
struct lanes {
    int width, used;
};

/* Emits a constant mask whose first n.used lanes are set. */
static void emit_mask(struct small *s, struct lanes n)
{
    limber_text_add(s->out, "<%d x i1> <", n.width);
    for (int i = 0; i < n.width; i++)
        limber_text_add(s->out, "%si1 %d", i ? ", " : "", i < n.used);
    limber_text_add(s->out, ">");
}

/* Emits the load of a vector from `base` plus `at` bytes, with a mask if some lanes are unused.
 * Returns the number of the vector's LLVM value. */
static int emit_load(struct small *s, const char *base, int64_t at, struct lanes n)
{
    int p = new_value(s), v = new_value(s);

    limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n", p, base,
                    (long long)at);
    if (n.used == n.width) {
        limber_text_add(s->out, "  %%v%d = load <%d x %s>, ptr %%v%d, align %d\n", v, n.width,
                        s->scalar, p, s->bytes);
        return v;
    }
    limber_text_add(s->out,
                    "  %%v%d = call <%d x %s> @llvm.masked.load.v%d%s.p0(ptr %%v%d, "
                    "i32 %d, ",
                    v, n.width, s->scalar, n.width, s->suffix, p, s->bytes);
    emit_mask(s, n);
    limber_text_add(s->out, ", <%d x %s> zeroinitializer)\n", n.width, s->scalar);
    return v;
}

/* Emits the store of vector v at `base` plus `at` bytes, with a mask if some lanes are unused. */
static void emit_store(struct small *s, int v, const char *base, int64_t at, struct lanes n)
{
    char room[24];
    int p = new_value(s);

    limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n", p, base,
                    (long long)at);
    if (n.used == n.width) {
        limber_text_add(s->out, "  store <%d x %s> %s, ptr %%v%d, align %d\n", n.width, s->scalar,
                        vector_name(v, room), p, s->bytes);
        return;
    }
    limber_text_add(s->out,
                    "  call void @llvm.masked.store.v%d%s.p0(<%d x %s> %s, ptr %%v%d, "
                    "i32 %d, ",
                    n.width, s->suffix, n.width, s->scalar, vector_name(v, room), p, s->bytes);
    emit_mask(s, n);
    limber_text_add(s->out, ")\n");
}

/* Emits the load of one element from `base` plus `at` bytes.  Returns the number of its LLVM
 * value. */
static int emit_element(struct small *s, const char *base, int64_t at)
{
    int p = new_value(s), x = new_value(s);

    limber_text_add(s->out,
                    "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n"
                    "  %%v%d = load %s, ptr %%v%d, align %d\n",
                    p, base, (long long)at, x, s->scalar, p, s->bytes);
    return x;
}

/* Emits the broadcast of element x to `width` lanes.  Returns the number of the vector's LLVM
 * value. */
static int emit_splat(struct small *s, int x, int width)
{
    int i = new_value(s), v = new_value(s);

    limber_text_add(s->out,
                    "  %%v%d = insertelement <%d x %s> poison, %s %%v%d, i64 0\n"
                    "  %%v%d = shufflevector <%d x %s> %%v%d, <%d x %s> poison, <%d x i32> "
                    "zeroinitializer\n",
                    i, width, s->scalar, s->scalar, x, v, width, s->scalar, i, width, s->scalar,
                    width);
    return v;
}

/* A pointer that each round of a loop advances by `step` bytes or, if `by` is not NULL, by the
 * value named `by`.  In loop number N the counter is named %iN, and pointer number X is named %pN.X
 * and starts at `from`. */
struct loop_pointer {
    const char *from;
    int64_t step;
    const char *by;
};

/* Emits the head of a loop, with a phi node for its counter and for each pointer.  Returns the
 * loop's number. */
static int emit_loop_head(struct small *s, const struct loop_pointer *pointer, int pointers)
{
    int l = ++s->label;

    limber_text_add(s->out,
                    "  br label %%in%d\nin%d:\n  br label %%do%d\ndo%d:\n"
                    "  %%i%d = phi i64 [ 0, %%in%d ], [ %%n%d, %%end%d ]\n",
                    l, l, l, l, l, l, l, l);
    for (int w = 0; w < pointers; w++)
        limber_text_add(s->out, "  %%p%d.%d = phi ptr [ %s, %%in%d ], [ %%q%d.%d, %%end%d ]\n", l,
                        w, pointer[w].from, l, l, w, l);
    return l;
}

/* Emits the end of loop l, which advances the pointers and branches back until `count` rounds are
 * done. */
static void emit_loop_foot(struct small *s, int l, const struct loop_pointer *pointer, int pointers,
                           int64_t count)
{
    limber_text_add(s->out, "  br label %%end%d\nend%d:\n", l, l);
    for (int w = 0; w < pointers; w++) {
        limber_text_add(s->out, "  %%q%d.%d = getelementptr i8, ptr %%p%d.%d, i64 ", l, w, l, w);
        if (pointer[w].by)
            limber_text_add(s->out, "%s\n", pointer[w].by);
        else
            limber_text_add(s->out, "%lld\n", (long long)pointer[w].step);
    }
    limber_text_add(s->out,
                    "  %%n%d = add nuw nsw i64 %%i%d, 1\n"
                    "  %%m%d = icmp ult i64 %%n%d, %lld\n"
                    "  br i1 %%m%d, label %%do%d, label %%out%d\nout%d:\n",
                    l, l, l, l, (long long)count, l, l, l, l);
}

/* ---- emitting the sums of a tile ------------------------------------------------------------- */

/* A register tile of `high` rows of `wide` vectors of C. */
struct tile {
    int high, wide;
    struct lanes last; /* lanes of the last vector of each row */
    const char *a, *b, *c; /* LLVM's names of pointers to the tile's first elements */
    int64_t line; /* distance in bytes from one row of B to the next */
    bool whole; /* rows of B are padded to full vectors, so loads of B need no mask */
    /* LLVM values that hold the current chain's sums, and the totals of earlier chains; 0: a
     * vector of zeros */
    int sum[MOST_SUMS], total[MOST_SUMS];
};

/* Returns the lanes of vector v of a row of the tile. */
static struct lanes lanes_of(const struct small *s, const struct tile *t, int v)
{
    return v == t->wide - 1 ? t->last : (struct lanes){ s->lanes, s->lanes };
}

/* Emits value number n = a * b + sum.  A chain begins with +0, which determines the sign of a sum
 * of zeros. */
static void emit_multiply_add(struct small *s, int n, int width, int a, int b, int sum)
{
    char type[24], room[24];

    snprintf(type, sizeof type, "<%d x %s>", width, s->scalar);
    limber_text_add(s->out, "  %%v%d = call %s @llvm.fma.v%d%s(%s %%v%d, %s %%v%d, %s %s)\n", n,
                    type, width, s->suffix, type, a, type, b, type, vector_name(sum, room));
}

/* Emits one step along k.  at, bt: byte offsets from the pointers a and b.  The new sums get the
 * numbers in `to`, or new numbers if `to` is NULL. */
static void emit_step(struct small *s, struct tile *t, const char *a, int64_t at, const char *b,
                      int64_t bt, const int *to)
{
    int vector[MOST_WIDE];

    for (int v = 0; v < t->wide; v++) {
        struct lanes n = lanes_of(s, t, v);

        n.used = t->whole ? n.width : n.used;
        vector[v] = emit_load(s, b, bt + v * s->lanes * s->bytes, n);
    }
    for (int r = 0; r < t->high; r++) {
        int x = emit_element(s, a, at + r * s->f.a.row * s->bytes),
            wide = emit_splat(s, x, s->lanes);

        for (int v = 0; v < t->wide; v++) {
            int i = r * t->wide + v, n = to ? to[i] : new_value(s), w = lanes_of(s, t, v).width;
            int y = w == s->lanes ? wide : emit_splat(s, x, w);

            emit_multiply_add(s, n, w, y, vector[v], t->sum[i]);
            t->sum[i] = n;
        }
    }
}

/* Emits `count` unrolled steps along k, from element `from` on. */
static void emit_steps(struct small *s, struct tile *t, const char *a, const char *b, int64_t from,
                       int64_t count)
{
    for (int64_t p = from; p < from + count; p++)
        emit_step(s, t, a, p * s->f.a.col * s->bytes, b, p * t->line, NULL);
}

/* Returns the number of steps along k in one round of the loop: enough to hide the loop's overhead,
 * but few, so that compiling is fast. */
static int steps_per_round(const struct tile *t)
{
    int sums = t->high * t->wide;

    return sums >= 16 ? 1 : sums >= 8 ? 2 : 4;
}

/* Emits a loop over k of `count` rounds, from element `from` on. */
static void emit_k_loop(struct small *s, struct tile *t, int64_t from, int64_t count)
{
    int l = ++s->label, next[MOST_SUMS], sums = t->high * t->wide, deep = steps_per_round(t);
    int64_t ac = s->f.a.col * s->bytes;
    char a[24], b[24], room[24];

    limber_text_add(s->out,
                    "  %%x%d = getelementptr i8, ptr %s, i64 %lld\n"
                    "  %%y%d = getelementptr i8, ptr %s, i64 %lld\n"
                    "  br label %%in%d\nin%d:\n  br label %%do%d\ndo%d:\n",
                    l, t->a, (long long)(from * ac), l, t->b, (long long)(from * t->line), l, l, l,
                    l);
    limber_text_add(s->out,
                    "  %%i%d = phi i64 [ 0, %%in%d ], [ %%n%d, %%do%d ]\n"
                    "  %%a%d = phi ptr [ %%x%d, %%in%d ], [ %%g%d, %%do%d ]\n"
                    "  %%b%d = phi ptr [ %%y%d, %%in%d ], [ %%h%d, %%do%d ]\n",
                    l, l, l, l, l, l, l, l, l, l, l, l, l, l);
    for (int i = 0; i < sums; i++) {
        int v = new_value(s);

        next[i] = new_value(s);
        limber_text_add(s->out, "  %%v%d = phi <%d x %s> [ %s, %%in%d ], [ %%v%d, %%do%d ]\n", v,
                        lanes_of(s, t, i % t->wide).width, s->scalar, vector_name(t->sum[i], room),
                        l, next[i], l);
        t->sum[i] = v;
    }
    snprintf(a, sizeof a, "%%a%d", l);
    snprintf(b, sizeof b, "%%b%d", l);
    for (int u = 0; u < deep; u++)
        emit_step(s, t, a, u * ac, b, u * t->line, u == deep - 1 ? next : NULL);
    limber_text_add(s->out,
                    "  %%g%d = getelementptr i8, ptr %%a%d, i64 %lld\n"
                    "  %%h%d = getelementptr i8, ptr %%b%d, i64 %lld\n"
                    "  %%n%d = add nuw nsw i64 %%i%d, 1\n  %%m%d = icmp ult i64 %%n%d, %lld\n"
                    "  br i1 %%m%d, label %%do%d, label %%out%d\nout%d:\n",
                    l, l, (long long)(deep * ac), l, l, (long long)(deep * t->line), l, l, l, l,
                    (long long)count, l, l, l, l);
}

/* Emits *x + y and sets *x to the number of the result.  If there is no *x yet (0), the result is y
 * itself, which keeps -0. */
static void emit_add(struct small *s, int *x, int y, int width)
{
    char rx[24], ry[24];
    int v = *x ? new_value(s) : y;

    if (!*x) {
        *x = y;
        return;
    }
    limber_text_add(s->out, "  %%v%d = fadd <%d x %s> %s, %s\n", v, width, s->scalar,
                    vector_name(y, ry), vector_name(*x, rx));
    *x = v;
}

/* Emits the sums over all of k: chains of at most `chunk` products, each from +0, which are added
 * in order. */
static void emit_chains(struct small *s, struct tile *t)
{
    int sums = t->high * t->wide, deep = steps_per_round(t);

    for (int i = 0; i < sums; i++)
        t->total[i] = 0;
    for (int64_t p = 0; p < s->f.k; p += s->chunk) {
        int64_t len = s->f.k - p < s->chunk ? s->f.k - p : s->chunk;
        int64_t turns = s->straight ? 0 : (len - 1) / deep, lead = len - turns * deep;

        for (int i = 0; i < sums; i++)
            t->sum[i] = 0;
        emit_steps(s, t, t->a, t->b, p, lead);
        if (turns)
            emit_k_loop(s, t, p + lead, turns);
        for (int i = 0; i < sums; i++)
            emit_add(s, &t->total[i], t->sum[i], lanes_of(s, t, i % t->wide).width);
    }
}

/* Returns the byte offset in C of vector v of row r of a tile. */
static int64_t c_offset(const struct small *s, int r, int v)
{
    return (r * s->f.c.row + v * s->lanes) * s->bytes;
}

/* Emits the addition of C's old values to vector v of row r. */
static void emit_add_c0(struct small *s, struct tile *t, int r, int v)
{
    struct lanes n = lanes_of(s, t, v);

    emit_add(s, &t->total[r * t->wide + v], emit_load(s, t->c, c_offset(s, r, v), n), n.width);
}

/* Emits the stores of a tile, after adding C's old values if the product asks for it.  If stores
 * are masked, all old values are loaded first: a load that overlaps an earlier masked store would
 * stall, even in lanes that the store does not write. */
static void emit_result(struct small *s, struct tile *t)
{
    bool masked = t->last.used != t->last.width;

    for (int r = 0; s->f.add && masked && r < t->high; r++)
        for (int v = 0; v < t->wide; v++)
            emit_add_c0(s, t, r, v);
    for (int r = 0; r < t->high; r++)
        for (int v = 0; v < t->wide; v++) {
            if (s->f.add && !masked)
                emit_add_c0(s, t, r, v);
            emit_store(s, t->total[r * t->wide + v], t->c, c_offset(s, r, v), lanes_of(s, t, v));
        }
}

/* ---- emitting the packing of a panel of B ---------------------------------------------------- */

/* Emits the transposition of a square matrix in registers: `lanes` vectors, in place.  Each round
 * exchanges blocks of 1, 2, 4, ... elements. */
static void emit_transpose(struct small *s, int *v)
{
    char x[24], y[24];

    for (int w = 1; w < s->lanes; w *= 2)
        for (int i = 0; i < s->lanes; i++) {
            int low = new_value(s), high = new_value(s);

            if (i & w)
                continue;
            for (int side = 0; side < 2; side++) {
                limber_text_add(s->out,
                                "  %%v%d = shufflevector <%d x %s> %s, <%d x %s> %s, "
                                "<%d x i32> <",
                                side ? high : low, s->lanes, s->scalar, vector_name(v[i], x),
                                s->lanes, s->scalar, vector_name(v[i + w], y), s->lanes);
                for (int j = 0; j < s->lanes; j++)
                    limber_text_add(s->out, "%si32 %d", j ? ", " : "",
                                    (j & w ? s->lanes + j - w : j) + (side ? w : 0));
                limber_text_add(s->out, ">\n");
            }
            v[i] = low;
            v[i + w] = high;
        }
}

/* Emits the packing of `deep` steps along k, at most `lanes`, for the columns of one vector, as a
 * transposition in registers.  used: number of columns that exist. */
static void emit_pack_block(struct small *s, const char *from, const char *to, int used, int deep)
{
    int v[16];

    for (int i = 0; i < s->lanes; i++)
        v[i] = i < used ?
                   emit_load(s, from, i * s->f.b.col * s->bytes, (struct lanes){ s->lanes, deep }) :
                   0;
    emit_transpose(s, v);
    for (int i = 0; i < deep; i++) {
        int p = new_value(s);
        char room[24];

        limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %%line%d\n", p, to, i);
        emit_store(s, v[i], vector_name(p, room), 0, (struct lanes){ s->lanes, s->lanes });
    }
}

/* Emits the packing of `deep` steps along k for the columns of one vector, element by element in a
 * loop. */
static void emit_pack_elements(struct small *s, const char *a, const char *b, int used, int deep)
{
    const struct loop_pointer pointer[2] = { { a, s->f.b.row * s->bytes, NULL },
                                             { b, 0, "%line" } };
    int l = emit_loop_head(s, pointer, 2);
    char from[24], to[24];

    snprintf(from, sizeof from, "%%p%d.0", l);
    snprintf(to, sizeof to, "%%p%d.1", l);
    for (int j = 0; j < s->lanes; j++) {
        int x = j < used ? emit_element(s, from, j * s->f.b.col * s->bytes) : 0, q = new_value(s);

        limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %d\n  store %s ", q, to,
                        j * s->bytes, s->scalar);
        if (x)
            limber_text_add(s->out, "%%v%d", x);
        limber_text_add(s->out, "%s, ptr %%v%d, align %d\n", x ? "" : "0.0", q, s->bytes);
    }
    emit_loop_foot(s, l, pointer, 2, deep);
}

/* Emits the packing of all of k for the columns of one vector, in blocks that are transposed. */
static void emit_pack_blocks(struct small *s, int used)
{
    const struct loop_pointer pointer[2] = { { "%from", s->lanes * s->bytes, NULL },
                                             { "%to", 0, "%lines" } };
    int turns = (int)s->f.k / s->lanes, rest = (int)s->f.k % s->lanes, l = 0;
    char from[24] = "%from", to[24] = "%to";

    for (int i = 0; i < s->lanes; i++)
        limber_text_add(s->out, "  %%line%d = mul i64 %%line, %d\n", i, i);
    limber_text_add(s->out, "  %%lines = mul i64 %%line, %d\n", s->lanes);
    if (turns) {
        l = emit_loop_head(s, pointer, 2);
        snprintf(from, sizeof from, "%%p%d.0", l);
        snprintf(to, sizeof to, "%%p%d.1", l);
        emit_pack_block(s, from, to, used, s->lanes);
        emit_loop_foot(s, l, pointer, 2, turns);
        *strchr(from, 'p') = *strchr(to, 'p') = 'q';
    }
    /* use a loop over elements for the few last steps, since large transpositions are slow to
     * compile */
    if (rest && turns && s->lanes > 8)
        emit_pack_elements(s, from, to, used, rest);
    else if (rest)
        emit_pack_block(s, from, to, used, rest);
}

/* Emits a function that packs the columns of one vector: transposes all of k to rows at `to` that
 * are `line` bytes apart.  `used` of the columns exist; the others are filled with zeros. */
static void emit_packer(struct small *s, int used)
{
    limber_text_add(s->out, "define internal void @pack%d(ptr %%from, ptr %%to, i64 %%line) {\n",
                    used);
    if (s->f.b.row == 1)
        emit_pack_blocks(s, used);
    else
        emit_pack_elements(s, "%from", "%to", used, (int)s->f.k);
    limber_text_add(s->out, "  ret void\n}\n");
}

/* True if rows of B are not contiguous, so that panels of B must be packed. */
static bool needs_packing(const struct small *s)
{
    return s->f.b.col != 1 && s->f.n > 1;
}

/* Emits the functions that pack columns of B: one for full vectors and one for the last, partial
 * vector, as far as the product needs them. */
static void emit_packers(struct small *s)
{
    int last = s->col[s->cols - 1].used;

    if (!needs_packing(s))
        return;
    if (s->f.n >= s->lanes)
        emit_packer(s, s->lanes);
    if (last != s->lanes)
        emit_packer(s, last);
}

/* Emits calls that pack the columns of one group into a panel. */
static void emit_pack_calls(struct small *s, const char *b, const struct part *c, int64_t line)
{
    for (int v = 0; v < c->size; v++) {
        int from = new_value(s), to = new_value(s);

        limber_text_add(s->out,
                        "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n"
                        "  %%v%d = getelementptr i8, ptr %%panel, i64 %d\n"
                        "  call void @pack%d(ptr %%v%d, ptr %%v%d, i64 %lld)\n",
                        from, b, (long long)(v * s->lanes * s->f.b.col * s->bytes), to,
                        v * s->lanes * s->bytes, v == c->size - 1 ? c->used : s->lanes, from, to,
                        (long long)line);
    }
}

/* ---- emitting the function ------------------------------------------------------------------ */

/* Emits the tiles of one group of rows, in a loop if the group has several tiles. */
static void emit_row_tiles(struct small *s, const struct part *r, const char *a, const char *c,
                           struct tile t)
{
    const struct loop_pointer pointer[2] = { { a, r->size * s->f.a.row * s->bytes, NULL },
                                             { c, r->size * s->f.c.row * s->bytes, NULL } };
    char pa[24], pc[24];
    int l = 0;

    t.high = r->size;
    if (r->count > 1) {
        l = emit_loop_head(s, pointer, 2);
        snprintf(pa, sizeof pa, "%%p%d.0", l);
        snprintf(pc, sizeof pc, "%%p%d.1", l);
    }
    t.a = l ? pa : a;
    t.c = l ? pc : c;
    emit_chains(s, &t);
    emit_result(s, &t);
    if (l)
        emit_loop_foot(s, l, pointer, 2, r->count);
}

/* Emits the tiles of all rows for one group of columns. */
static void emit_columns(struct small *s, const struct part *col, const char *b, const char *c)
{
    struct tile t = {
        .wide = col->size, .last = { col->width, col->used }, .b = b, .line = s->f.b.row * s->bytes
    };
    char pa[24], pc[24];
    int64_t down = 0;

    if (needs_packing(s)) {
        t.line = col->size * s->lanes * s->bytes;
        emit_pack_calls(s, b, col, t.line);
        t.b = "%panel";
        t.whole = true;
    }
    for (int i = 0; i < s->rows; i++) {
        int p = new_value(s), q = new_value(s);

        limber_text_add(s->out,
                        "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n"
                        "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n",
                        p, s->a, (long long)(down * s->f.a.row * s->bytes), q, c,
                        (long long)(down * s->f.c.row * s->bytes));
        emit_row_tiles(s, &s->row[i], vector_name(p, pa), vector_name(q, pc), t);
        down += s->row[i].size * s->row[i].count;
    }
}

/* Emits the function's body: for each group of columns, the tiles of all rows. */
static void emit_body(struct small *s)
{
    int64_t along = 0;

    for (int i = 0; i < s->cols; i++) {
        const struct part *c = &s->col[i];
        int64_t wide = c->size * s->lanes;
        char pb[24], pc[24], lb[24], lc[24];
        int p = new_value(s), q = new_value(s), l;
        struct loop_pointer pointer[2] = { { vector_name(p, pb), wide * s->f.b.col * s->bytes,
                                             NULL },
                                           { vector_name(q, pc), wide * s->bytes, NULL } };

        limber_text_add(s->out,
                        "  %s = getelementptr i8, ptr %s, i64 %lld\n"
                        "  %s = getelementptr i8, ptr %%c, i64 %lld\n",
                        pb, s->b, (long long)(along * s->f.b.col * s->bytes), pc,
                        (long long)(along * s->bytes));
        if (c->count > 1) {
            l = emit_loop_head(s, pointer, 2);
            snprintf(lb, sizeof lb, "%%p%d.0", l);
            snprintf(lc, sizeof lc, "%%p%d.1", l);
            emit_columns(s, c, lb, lc);
            emit_loop_foot(s, l, pointer, 2, c->count);
        } else {
            emit_columns(s, c, pb, pc);
        }
        along += wide * c->count;
    }
}

/* Sets the product, transposed (C^T = B^T A^T) if C has contiguous columns instead of contiguous
 * rows. */
static void orient_product(struct small *s, const struct fixed *f)
{
    s->f = *f;
    s->a = "%a";
    s->b = "%b";
    if (f->c.col == 1 || f->n == 1)
        return;
    s->f.m = f->n;
    s->f.n = f->m;
    s->f.a = (struct strides){ f->b.col, f->b.row };
    s->f.b = (struct strides){ f->a.col, f->a.row };
    s->f.c = (struct strides){ f->c.col, f->c.row };
    s->a = "%b";
    s->b = "%a";
}

/* Emits declarations of the intrinsics for vectors of `width` lanes. */
static void emit_declarations(struct small *s, int width)
{
    char v[24];

    snprintf(v, sizeof v, "<%d x %s>", width, s->scalar);
    limber_text_add(s->out,
                    "declare %s @llvm.fma.v%d%s(%s, %s, %s)\n"
                    "declare %s @llvm.masked.load.v%d%s.p0(ptr, i32, <%d x i1>, %s)\n"
                    "declare void @llvm.masked.store.v%d%s.p0(%s, ptr, i32, <%d x i1>)\n",
                    v, width, s->suffix, v, v, v, v, width, s->suffix, width, v, width, s->suffix,
                    v, width);
}

/* Emits declarations, packing functions and the function's head.  The `prefix` puts readable memory
 * before the entry point, since sanitizers of indirect calls read there. */
static void emit_head(struct small *s)
{
    int wide = 0, last = s->col[s->cols - 1].width;

    limber_text_add(s->out, "source_filename = \"%lld x %lld x %lld in tiles of %d x %d\"\n",
                    (long long)s->f.m, (long long)s->f.n, (long long)s->f.k, s->row[0].size,
                    s->col[0].size * s->lanes);
    emit_declarations(s, s->lanes);
    if (last != s->lanes)
        emit_declarations(s, last);
    for (int i = 0; i < s->cols; i++)
        wide = s->col[i].size > wide ? s->col[i].size : wide;
    emit_packers(s);
    limber_text_add(s->out,
                    "define void @limber_fixed(ptr noalias readonly %%a, ptr noalias readonly "
                    "%%b, ptr noalias %%c) align 64 prefix [8 x i64] zeroinitializer {\n");
    if (needs_packing(s))
        limber_text_add(s->out, "  %%panel = alloca [%lld x i8], align 64\n",
                        (long long)(s->f.k * wide * s->lanes * s->bytes));
}

/* True if the product is so short that all loops over k are unrolled. */
static bool is_straight(const struct small *s)
{
    int64_t total = 0;

    for (int i = 0; i < s->rows; i++)
        for (int j = 0; j < s->cols; j++)
            total += s->row[i].size * s->col[j].size * s->f.k;
    return total <= STRAIGHT;
}

/* Prints the function of a small product: chooses its tiles, then emits its head and its body.
 * Returns false if the text cannot be made. */
bool limber_small_text(const struct fixed *f, enum unit unit, int64_t chunk, const struct target *t,
                       struct text *out)
{
    /* Arm code uses NEON here; SVE is used only in micro-kernels */
    bool large = t->vector_bits >= 512 && !(limber_cpu_of(t) & CPU_neon), wide = unit == UNIT_f64;
    struct small s = { .out = out,
                       .chunk = chunk,
                       .registers = t->registers,
                       .bytes = wide ? 8 : 4,
                       .scalar = wide ? "double" : "float",
                       .suffix = wide ? "f64" : "f32" };

    s.lanes = (large ? 64 : 32) / s.bytes;
    orient_product(&s, f);
    choose_tiles(&s);
    s.straight = is_straight(&s);
    emit_head(&s);
    emit_body(&s);
    limber_text_add(out, "  ret void\n}\n");
    return !out->failed;
}
