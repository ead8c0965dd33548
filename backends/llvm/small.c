/* SPDX-License-Identifier: BSD-3-Clause
 * A small product of fixed shape as LLVM assembly text: one function over operands as they lie in
 * memory.  C is cut into register tiles, as even as they can be, so that edges waste little; a tile
 * holds its sums in registers while k runs: vectors of B times elements of A for all lanes.  The
 * last vector of a row is masked.  Where B's rows do not lie together, a panel of B is brought into
 * that order on the stack first.
 *
 *   needs   C with rows that lie together; limber_small_text swaps the roles of A and B to get it
 *   bits    docs/ir.md: a chain of fused multiply-adds from +0 for each chunk of k, chains added in
 *           the order of k to a total that starts from +0, then c0
 *   source  Heinecke, Henry, Hutchinson, Pabst: LIBXSMM, SC 2016, section III */
#include "backends/llvm/llvm.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_WIDE = 4,          /* vectors in a tile's row */
    MOST_SUMS = 32,         /* registers of a tile */
    STRAIGHT = 64           /* multiply-adds that may stand in a kernel without a loop over k */
};

/* `count` groups of `size` rows or vectors.  The last vector of a row may be narrower than the
 * others: `width` lanes, of which `used` are. */
struct part {
    int size, count, width, used;
};

struct small {
    struct text *out;
    struct fixed f;         /* with C's rows lying together */
    int64_t chunk;
    int lanes, bytes, registers;
    const char *scalar, *suffix;        /* "double", "f64" */
    struct part row[2], col[3];
    int rows, cols;
    bool straight;
    int value, label;       /* the last numbers given out */
    const char *a, *b; /* names of the products' operands: they trade places with C's roles */
};

static int fresh(struct small *s)
{
    return ++s->value;
}

/* A vector by its number; 0 is zero. */
static const char *name(int value, char room[24])
{
    snprintf(room, 24, value ? "%%v%d" : "zeroinitializer", value);
    return room;
}

/* ---- tiles that fit -------------------------------------------------------------------------- */

/* n into groups of at most `most`, sizes as equal as they can be, the larger ones first. */
static int divide(int n, int most, struct part part[2])
{
    int groups = (n + most - 1) / most, large = n % groups, count = 0;

    if (large)
        part[count++] = (struct part){ .size = n / groups + 1, .count = large };
    part[count++] = (struct part){ .size = n / groups, .count = groups - large };
    return count;
}

/* Slots of the two units that multiply, or load, or wait for a sum: whatever there is most of. */
static double tile_cost(const struct small *s, int high, int wide)
{
    int slots = high * wide;

    slots = slots > high + wide ? slots : high + wide;
    slots = slots > 8 ? slots : 8;
    return (double)s->f.k * slots + 3 * high * wide + 30;
}

static double cost(const struct small *s, const struct part *row, int rows, const struct part *col,
                   int cols)
{
    double sum = 0;

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            sum += row[i].count * col[j].count * tile_cost(s, row[i].size, col[j].size);
    return sum;
}

/* The group with the narrower vector stands alone.  Powers of two need no mask: a masked load right
 * behind a masked store waits for the cache. */
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

static void choose_tiles(struct small *s)
{
    int vectors = (int)((s->f.n + s->lanes - 1) / s->lanes), tail = (int)s->f.n % s->lanes;
    bool vector_mask = s->registers < 32 && (tail & (tail - 1));
    double least = 0;

    for (int wide = 1; wide <= MOST_WIDE && wide <= vectors; wide++) {
        /* one register for the element of A, one to spare, one for AVX2's mask */
        for (int high = (s->registers - wide - 2 - vector_mask) / wide; high >= 1; high--) {
            struct part row[2], col[2];
            int rows = divide((int)s->f.m, high, row), cols = divide(vectors, wide, col);
            double c = cost(s, row, rows, col, cols);

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

/* ---- words ----------------------------------------------------------------------------------- */

/* Lanes of a vector, and how many of them are used. */
struct lanes {
    int width, used;
};

static void mask(struct small *s, struct lanes n)
{
    limber_text_add(s->out, "<%d x i1> <", n.width);
    for (int i = 0; i < n.width; i++)
        limber_text_add(s->out, "%si1 %d", i ? ", " : "", i < n.used);
    limber_text_add(s->out, ">");
}

static int load(struct small *s, const char *base, int64_t at, struct lanes n)
{
    int p = fresh(s), v = fresh(s);

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
    mask(s, n);
    limber_text_add(s->out, ", <%d x %s> zeroinitializer)\n", n.width, s->scalar);
    return v;
}

static void store(struct small *s, int v, const char *base, int64_t at, struct lanes n)
{
    char room[24];
    int p = fresh(s);

    limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n", p, base,
                    (long long)at);
    if (n.used == n.width) {
        limber_text_add(s->out, "  store <%d x %s> %s, ptr %%v%d, align %d\n", n.width, s->scalar,
                        name(v, room), p, s->bytes);
        return;
    }
    limber_text_add(s->out,
                    "  call void @llvm.masked.store.v%d%s.p0(<%d x %s> %s, ptr %%v%d, "
                    "i32 %d, ",
                    n.width, s->suffix, n.width, s->scalar, name(v, room), p, s->bytes);
    mask(s, n);
    limber_text_add(s->out, ")\n");
}

/* The element at this address. */
static int element(struct small *s, const char *base, int64_t at)
{
    int p = fresh(s), x = fresh(s);

    limber_text_add(s->out,
                    "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n"
                    "  %%v%d = load %s, ptr %%v%d, align %d\n",
                    p, base, (long long)at, x, s->scalar, p, s->bytes);
    return x;
}

static int splat(struct small *s, int x, int width)
{
    int i = fresh(s), v = fresh(s);

    limber_text_add(s->out,
                    "  %%v%d = insertelement <%d x %s> poison, %s %%v%d, i64 0\n"
                    "  %%v%d = shufflevector <%d x %s> %%v%d, <%d x %s> poison, <%d x i32> "
                    "zeroinitializer\n",
                    i, width, s->scalar, s->scalar, x, v, width, s->scalar, i, width, s->scalar,
                    width);
    return v;
}

/* A loop's head and foot.  %iN counts; its pointers are %pN.X, which begin at `from` and advance by
 * `step` bytes. */
struct walk {
    const char *from;
    int64_t step;
    const char *by;
}; /* by: a value instead of step */

static int loop_head(struct small *s, const struct walk *walk, int walks)
{
    int l = ++s->label;

    limber_text_add(s->out,
                    "  br label %%in%d\nin%d:\n  br label %%do%d\ndo%d:\n"
                    "  %%i%d = phi i64 [ 0, %%in%d ], [ %%n%d, %%end%d ]\n",
                    l, l, l, l, l, l, l, l);
    for (int w = 0; w < walks; w++)
        limber_text_add(s->out, "  %%p%d.%d = phi ptr [ %s, %%in%d ], [ %%q%d.%d, %%end%d ]\n", l,
                        w, walk[w].from, l, l, w, l);
    return l;
}

static void loop_foot(struct small *s, int l, const struct walk *walk, int walks, int64_t count)
{
    limber_text_add(s->out, "  br label %%end%d\nend%d:\n", l, l);
    for (int w = 0; w < walks; w++) {
        limber_text_add(s->out, "  %%q%d.%d = getelementptr i8, ptr %%p%d.%d, i64 ", l, w, l, w);
        if (walk[w].by)
            limber_text_add(s->out, "%s\n", walk[w].by);
        else
            limber_text_add(s->out, "%lld\n", (long long)walk[w].step);
    }
    limber_text_add(s->out,
                    "  %%n%d = add nuw nsw i64 %%i%d, 1\n"
                    "  %%m%d = icmp ult i64 %%n%d, %lld\n"
                    "  br i1 %%m%d, label %%do%d, label %%out%d\nout%d:\n",
                    l, l, l, l, (long long)count, l, l, l, l);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

struct tile {
    int high, wide;
    struct lanes last; /* of the last vector of its rows */
    const char *a, *b, *c; /* its first elements */
    int64_t line; /* bytes from one row of B to the next */
    bool whole; /* rows of B are full vectors, used or not */
    int sum[MOST_SUMS], total[MOST_SUMS];
};

static struct lanes lanes_of(const struct small *s, const struct tile *t, int v)
{
    return v == t->wide - 1 ? t->last : (struct lanes){ s->lanes, s->lanes };
}

/* n = a b + sum, or a b + 0 where a chain begins: the zero decides about the sign of another. */
static void multiply_add(struct small *s, int n, int width, int a, int b, int sum)
{
    char type[24], room[24];

    snprintf(type, sizeof type, "<%d x %s>", width, s->scalar);
    limber_text_add(s->out, "  %%v%d = call %s @llvm.fma.v%d%s(%s %%v%d, %s %%v%d, %s %s)\n", n,
                    type, width, s->suffix, type, a, type, b, type, name(sum, room));
}

/* One step of k, whose elements lie at these distances; results get the numbers in `to` if any. */
static void step(struct small *s, struct tile *t, const char *a, int64_t at, const char *b,
                 int64_t bt, const int *to)
{
    int vector[MOST_WIDE];

    for (int v = 0; v < t->wide; v++) {
        struct lanes n = lanes_of(s, t, v);

        n.used = t->whole ? n.width : n.used;
        vector[v] = load(s, b, bt + v * s->lanes * s->bytes, n);
    }
    for (int r = 0; r < t->high; r++) {
        int x = element(s, a, at + r * s->f.a.row * s->bytes), wide = splat(s, x, s->lanes);

        for (int v = 0; v < t->wide; v++) {
            int i = r * t->wide + v, n = to ? to[i] : fresh(s), w = lanes_of(s, t, v).width;
            int y = w == s->lanes ? wide : splat(s, x, w);

            multiply_add(s, n, w, y, vector[v], t->sum[i]);
            t->sum[i] = n;
        }
    }
}

static void steps(struct small *s, struct tile *t, const char *a, const char *b, int64_t from,
                  int64_t count)
{
    for (int64_t p = from; p < from + count; p++)
        step(s, t, a, p * s->f.a.col * s->bytes, b, p * t->line, NULL);
}

/* Steps in one turn of the loop over k: enough to hide the loop, no more to compile. */
static int unroll(const struct tile *t)
{
    int sums = t->high * t->wide;

    return sums >= 16 ? 1 : sums >= 8 ? 2 : 4;
}

/* `count` turns from element `from` of k. */
static void looped(struct small *s, struct tile *t, int64_t from, int64_t count)
{
    int l = ++s->label, next[MOST_SUMS], sums = t->high * t->wide, deep = unroll(t);
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
        int v = fresh(s);

        next[i] = fresh(s);
        limber_text_add(s->out, "  %%v%d = phi <%d x %s> [ %s, %%in%d ], [ %%v%d, %%do%d ]\n", v,
                        lanes_of(s, t, i % t->wide).width, s->scalar, name(t->sum[i], room), l,
                        next[i], l);
        t->sum[i] = v;
    }
    snprintf(a, sizeof a, "%%a%d", l);
    snprintf(b, sizeof b, "%%b%d", l);
    for (int u = 0; u < deep; u++)
        step(s, t, a, u * ac, b, u * t->line, u == deep - 1 ? next : NULL);
    limber_text_add(s->out,
                    "  %%g%d = getelementptr i8, ptr %%a%d, i64 %lld\n"
                    "  %%h%d = getelementptr i8, ptr %%b%d, i64 %lld\n"
                    "  %%n%d = add nuw nsw i64 %%i%d, 1\n  %%m%d = icmp ult i64 %%n%d, %lld\n"
                    "  br i1 %%m%d, label %%do%d, label %%out%d\nout%d:\n",
                    l, l, (long long)(deep * ac), l, l, (long long)(deep * t->line), l, l, l, l,
                    (long long)count, l, l, l, l);
}

/* What nothing was added to is y itself, -0 too. */
static void add(struct small *s, int *x, int y, int width)
{
    char rx[24], ry[24];
    int v = *x ? fresh(s) : y;

    if (!*x) {
        *x = y;
        return;
    }
    limber_text_add(s->out, "  %%v%d = fadd <%d x %s> %s, %s\n", v, width, s->scalar, name(y, ry),
                    name(*x, rx));
    *x = v;
}

static void multiply(struct small *s, struct tile *t)
{
    int sums = t->high * t->wide, deep = unroll(t);

    for (int i = 0; i < sums; i++)
        t->total[i] = 0;
    for (int64_t p = 0; p < s->f.k; p += s->chunk) {
        int64_t len = s->f.k - p < s->chunk ? s->f.k - p : s->chunk;
        int64_t turns = s->straight ? 0 : (len - 1) / deep, lead = len - turns * deep;

        for (int i = 0; i < sums; i++)
            t->sum[i] = 0;
        steps(s, t, t->a, t->b, p, lead);
        if (turns)
            looped(s, t, p + lead, turns);
        for (int i = 0; i < sums; i++)
            add(s, &t->total[i], t->sum[i], lanes_of(s, t, i % t->wide).width);
    }
}

static int64_t place(const struct small *s, int r, int v)
{
    return (r * s->f.c.row + v * s->lanes) * s->bytes;
}

static void add_old(struct small *s, struct tile *t, int r, int v)
{
    struct lanes n = lanes_of(s, t, v);

    add(s, &t->total[r * t->wide + v], load(s, t->c, place(s, r, v), n), n.width);
}

/* With a mask, all of c0 is read before the first store: a masked store that touches what is read
 * next, even with lanes that it leaves alone, would hold the load up. */
static void reconstruct(struct small *s, struct tile *t)
{
    bool masked = t->last.used != t->last.width;

    for (int r = 0; s->f.add && masked && r < t->high; r++)
        for (int v = 0; v < t->wide; v++)
            add_old(s, t, r, v);
    for (int r = 0; r < t->high; r++)
        for (int v = 0; v < t->wide; v++) {
            if (s->f.add && !masked)
                add_old(s, t, r, v);
            store(s, t->total[r * t->wide + v], t->c, place(s, r, v), lanes_of(s, t, v));
        }
}

/* ---- a panel of B ---------------------------------------------------------------------------- */

/* lanes x lanes elements change rows and columns: blocks of 1, 2, 4 .. trade places. */
static void transpose(struct small *s, int *v)
{
    char x[24], y[24];

    for (int w = 1; w < s->lanes; w *= 2)
        for (int i = 0; i < s->lanes; i++) {
            int low = fresh(s), high = fresh(s);

            if (i & w)
                continue;
            for (int side = 0; side < 2; side++) {
                limber_text_add(s->out,
                                "  %%v%d = shufflevector <%d x %s> %s, <%d x %s> %s, "
                                "<%d x i32> <",
                                side ? high : low, s->lanes, s->scalar, name(v[i], x), s->lanes,
                                s->scalar, name(v[i + w], y), s->lanes);
                for (int j = 0; j < s->lanes; j++)
                    limber_text_add(s->out, "%si32 %d", j ? ", " : "",
                                    (j & w ? s->lanes + j - w : j) + (side ? w : 0));
                limber_text_add(s->out, ">\n");
            }
            v[i] = low;
            v[i + w] = high;
        }
}

/* `deep` <= lanes steps of k of one vector's columns. */
static void pack_block(struct small *s, const char *from, const char *to, int used, int deep)
{
    int v[16];

    for (int i = 0; i < s->lanes; i++)
        v[i] = i < used ?
                   load(s, from, i * s->f.b.col * s->bytes, (struct lanes){ s->lanes, deep }) :
                   0;
    transpose(s, v);
    for (int i = 0; i < deep; i++) {
        int p = fresh(s);
        char room[24];

        limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %%line%d\n", p, to, i);
        store(s, v[i], name(p, room), 0, (struct lanes){ s->lanes, s->lanes });
    }
}

/* `deep` steps of k, element by element. */
static void pack_elements(struct small *s, const char *a, const char *b, int used, int deep)
{
    const struct walk walk[2] = { { a, s->f.b.row * s->bytes, NULL }, { b, 0, "%line" } };
    int l = loop_head(s, walk, 2);
    char from[24], to[24];

    snprintf(from, sizeof from, "%%p%d.0", l);
    snprintf(to, sizeof to, "%%p%d.1", l);
    for (int j = 0; j < s->lanes; j++) {
        int x = j < used ? element(s, from, j * s->f.b.col * s->bytes) : 0, q = fresh(s);

        limber_text_add(s->out, "  %%v%d = getelementptr i8, ptr %s, i64 %d\n  store %s ", q, to,
                        j * s->bytes, s->scalar);
        if (x)
            limber_text_add(s->out, "%%v%d", x);
        limber_text_add(s->out, "%s, ptr %%v%d, align %d\n", x ? "" : "0.0", q, s->bytes);
    }
    loop_foot(s, l, walk, 2, deep);
}

static void pack_blocks(struct small *s, int used)
{
    const struct walk walk[2] = { { "%from", s->lanes * s->bytes, NULL }, { "%to", 0, "%lines" } };
    int turns = (int)s->f.k / s->lanes, rest = (int)s->f.k % s->lanes, l = 0;
    char from[24] = "%from", to[24] = "%to";

    for (int i = 0; i < s->lanes; i++)
        limber_text_add(s->out, "  %%line%d = mul i64 %%line, %d\n", i, i);
    limber_text_add(s->out, "  %%lines = mul i64 %%line, %d\n", s->lanes);
    if (turns) {
        l = loop_head(s, walk, 2);
        snprintf(from, sizeof from, "%%p%d.0", l);
        snprintf(to, sizeof to, "%%p%d.1", l);
        pack_block(s, from, to, used, s->lanes);
        loop_foot(s, l, walk, 2, turns);
        *strchr(from, 'p') = *strchr(to, 'p') = 'q';
    }
    if (rest && turns && s->lanes > 8) /* a few, and large blocks are slow to compile */
        pack_elements(s, from, to, used, rest);
    else if (rest)
        pack_block(s, from, to, used, rest);
}

/* A function that brings the columns of one vector, of which `used` are there, into rows at `to`
 * that lie `line` bytes apart. */
static void packer(struct small *s, int used)
{
    limber_text_add(s->out, "define internal void @pack%d(ptr %%from, ptr %%to, i64 %%line) {\n",
                    used);
    if (s->f.b.row == 1)
        pack_blocks(s, used);
    else
        pack_elements(s, "%from", "%to", used, (int)s->f.k);
    limber_text_add(s->out, "  ret void\n}\n");
}

static bool packs(const struct small *s)
{
    return s->f.b.col != 1 && s->f.n > 1;
}

static void packers(struct small *s)
{
    int last = s->col[s->cols - 1].used;

    if (!packs(s))
        return;
    if (s->f.n >= s->lanes)
        packer(s, s->lanes);
    if (last != s->lanes)
        packer(s, last);
}

static void pack(struct small *s, const char *b, const struct part *c, int64_t line)
{
    for (int v = 0; v < c->size; v++) {
        int from = fresh(s), to = fresh(s);

        limber_text_add(s->out,
                        "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n"
                        "  %%v%d = getelementptr i8, ptr %%panel, i64 %d\n"
                        "  call void @pack%d(ptr %%v%d, ptr %%v%d, i64 %lld)\n",
                        from, b, (long long)(v * s->lanes * s->f.b.col * s->bytes), to,
                        v * s->lanes * s->bytes, v == c->size - 1 ? c->used : s->lanes, from, to,
                        (long long)line);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void tiles_of_rows(struct small *s, const struct part *r, const char *a, const char *c,
                          struct tile t)
{
    const struct walk walk[2] = { { a, r->size * s->f.a.row * s->bytes, NULL },
                                  { c, r->size * s->f.c.row * s->bytes, NULL } };
    char pa[24], pc[24];
    int l = 0;

    t.high = r->size;
    if (r->count > 1) {
        l = loop_head(s, walk, 2);
        snprintf(pa, sizeof pa, "%%p%d.0", l);
        snprintf(pc, sizeof pc, "%%p%d.1", l);
    }
    t.a = l ? pa : a;
    t.c = l ? pc : c;
    multiply(s, &t);
    reconstruct(s, &t);
    if (l)
        loop_foot(s, l, walk, 2, r->count);
}

/* All rows of one group of columns. */
static void columns(struct small *s, const struct part *col, const char *b, const char *c)
{
    struct tile t = {
        .wide = col->size, .last = { col->width, col->used }, .b = b, .line = s->f.b.row * s->bytes
    };
    char pa[24], pc[24];
    int64_t down = 0;

    if (packs(s)) {
        t.line = col->size * s->lanes * s->bytes;
        pack(s, b, col, t.line);
        t.b = "%panel";
        t.whole = true;
    }
    for (int i = 0; i < s->rows; i++) {
        int p = fresh(s), q = fresh(s);

        limber_text_add(s->out,
                        "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n"
                        "  %%v%d = getelementptr i8, ptr %s, i64 %lld\n",
                        p, s->a, (long long)(down * s->f.a.row * s->bytes), q, c,
                        (long long)(down * s->f.c.row * s->bytes));
        tiles_of_rows(s, &s->row[i], name(p, pa), name(q, pc), t);
        down += s->row[i].size * s->row[i].count;
    }
}

static void body(struct small *s)
{
    int64_t along = 0;

    for (int i = 0; i < s->cols; i++) {
        const struct part *c = &s->col[i];
        int64_t wide = c->size * s->lanes;
        char pb[24], pc[24], lb[24], lc[24];
        int p = fresh(s), q = fresh(s), l;
        struct walk walk[2] = { { name(p, pb), wide * s->f.b.col * s->bytes, NULL },
                                { name(q, pc), wide * s->bytes, NULL } };

        limber_text_add(s->out,
                        "  %s = getelementptr i8, ptr %s, i64 %lld\n"
                        "  %s = getelementptr i8, ptr %%c, i64 %lld\n",
                        pb, s->b, (long long)(along * s->f.b.col * s->bytes), pc,
                        (long long)(along * s->bytes));
        if (c->count > 1) {
            l = loop_head(s, walk, 2);
            snprintf(lb, sizeof lb, "%%p%d.0", l);
            snprintf(lc, sizeof lc, "%%p%d.1", l);
            columns(s, c, lb, lc);
            loop_foot(s, l, walk, 2, c->count);
        } else {
            columns(s, c, pb, pc);
        }
        along += wide * c->count;
    }
}

/* C's rows lie together, or else its columns: then C^T = B^T A^T. */
static void orient(struct small *s, const struct fixed *f)
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

static void declare(struct small *s, int width)
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

/* Something readable stands in front of the code: sanitizers of indirect calls look there. */
static void head(struct small *s)
{
    int wide = 0, last = s->col[s->cols - 1].width;

    limber_text_add(s->out, "source_filename = \"%lld x %lld x %lld in tiles of %d x %d\"\n",
                    (long long)s->f.m, (long long)s->f.n, (long long)s->f.k, s->row[0].size,
                    s->col[0].size * s->lanes);
    declare(s, s->lanes);
    if (last != s->lanes)
        declare(s, last);
    for (int i = 0; i < s->cols; i++)
        wide = s->col[i].size > wide ? s->col[i].size : wide;
    packers(s);
    limber_text_add(s->out,
                    "define void @limber_fixed(ptr noalias readonly %%a, ptr noalias readonly "
                    "%%b, ptr noalias %%c) align 64 prefix [8 x i64] zeroinitializer {\n");
    if (packs(s))
        limber_text_add(s->out, "  %%panel = alloca [%lld x i8], align 64\n",
                        (long long)(s->f.k * wide * s->lanes * s->bytes));
}

/* Without loops over k where all tiles together stay short. */
static bool is_straight(const struct small *s)
{
    int64_t total = 0;

    for (int i = 0; i < s->rows; i++)
        for (int j = 0; j < s->cols; j++)
            total += s->row[i].size * s->col[j].size * s->f.k;
    return total <= STRAIGHT;
}

bool limber_small_text(const struct fixed *f, enum unit unit, int64_t chunk, const struct target *t,
                       struct text *out)
{
    /* SVE serves register tiles alone */
    bool large = t->vector_bits >= 512 && !(limber_cpu_of(t) & CPU_neon), wide = unit == UNIT_f64;
    struct small s = { .out = out,
                       .chunk = chunk,
                       .registers = t->registers,
                       .bytes = wide ? 8 : 4,
                       .scalar = wide ? "double" : "float",
                       .suffix = wide ? "f64" : "f32" };

    s.lanes = (large ? 64 : 32) / s.bytes;
    orient(&s, f);
    choose_tiles(&s);
    s.straight = is_straight(&s);
    head(&s);
    body(&s);
    limber_text_add(out, "  ret void\n}\n");
    return !out->failed;
}
