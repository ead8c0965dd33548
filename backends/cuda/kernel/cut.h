/* SPDX-License-Identifier: BSD-3-Clause
 * Splits FP32 elements into limbs inside the multiply kernel.  Elements are first copied to shared
 * memory unchanged (a raw tile).  Then threads split them, 16 bytes of a limb at a time, into the
 * tiles of limbs that the tensor cores read.
 *
 * A raw tile has `lines` rows of A or columns of B, by `depth` elements along k.  Its layout is
 * [line][k], swizzled like limbs or, if neighbouring lines are contiguous in the operand (across),
 * [k][line].  In both layouts threads with neighbouring lines read different banks. */
#ifndef LIMBER_CUDA_CUT_H
#define LIMBER_CUDA_CUT_H

enum { PIECE_ELEMENTS = 16 / BYTES };   /* number of elements in a 16-byte piece of a limb */

/* ---- copying raw elements to shared memory --------------------------------------------------- */

/* Returns the byte offset of an element in a raw tile. */
template <int lines, int depth> DEVICE uint32_t raw_at(int line, int p, bool across)
{
    return across ? (uint32_t)((p * lines + line) * 4) :
           piece_at<4 * depth>(line, p / 4) + (uint32_t)(p % 4 * 4);
}

/* Copies `tall` rows of `pieces` 16-byte pieces.  Elements beyond `rows` and `columns` become zero.
 * permuted: swizzles the pieces.  own: index of this thread. */
template <int tall, int pieces, int threads, bool permuted>
DEVICE void copy_rows(uint32_t at, const char *from, int64_t pitch, int64_t rows, int64_t columns,
                      int own)
{
    static_assert(tall * pieces % threads == 0, "");
    UNROLL for (int x = 0; x < tall * pieces / threads; x++) {
        int c = own + x * threads, row = c / pieces, piece = c % pieces;
        int64_t left = row < rows ? (columns - 4 * piece) * 4 : 0;

        copy16(at + (permuted ? piece_at<16 * pieces>(row, piece) : (uint32_t)(16 * c)),
               from + row * pitch + 16 * piece, left < 0 ? 0 : left > 16 ? 16 : (int)left);
    }
}

/* Copies a raw tile element by element, for operands whose strides or alignment do not allow
 * 16-byte copies. */
template <int S, int lines, int depth, int threads, bool across>
DEVICE void copy_elements(const multiply_args &a, uint32_t at, int product, int64_t line0,
                          int64_t p0, int own)
{
    constexpr int columns = across ? lines : depth;
    const struct origin &o = a.origin[S];
    int64_t first = S ? a.r.j0 : a.r.i0, count = S ? a.r.n : a.r.m;
    struct view v = limber_operand_at(&o.operand, product);

    v.patch = NULL;             /* is NULL already, which the compiler cannot know */
    ROLL for (int x = own; x < lines * depth; x += threads) {
        int line = across ? x % columns : x / columns, p = across ? x / columns : x % columns;
        bool inside = line0 + line < count && p0 + p < a.k;
        uint32_t to = at + raw_at<lines, depth>(line, p, across), e = 0;

        if (!limber_view_strided(&v)) {
            if (inside)
                load_element<S>(e, v, first + line0 + line, p0 + p);
            store_shared<uint32_t>(to, e);
        } else {
            copy4(to, limber_view_at(&v, first + line0 + line, p0 + p, 4), inside ? 4 : 0);
        }
    }
}

/* Copies a raw tile of one product's operand to shared memory: rows of A (or columns of B) from
 * line0 on in this block of C, and elements from p0 on along k.  Copies 16 bytes at once if the
 * layout allows.  All of `threads` threads take part; this one has the index `own`. */
template <int S, int lines, int depth, int threads>
DEVICE void copy_raw(const multiply_args &a, uint32_t at, int product, int64_t line0, int64_t p0,
                     int own)
{
    const struct origin &o = a.origin[S];
    int64_t count = (S ? a.r.n : a.r.m) - line0, first = (S ? a.r.j0 : a.r.i0) + line0;
    const char *from = (const char *)limber_spread_at(o.operand.view.data, &o.operand.each,
                                                      compute_here(product)) +
                       (first * o.operand.view.line + p0 * o.operand.view.p) * 4;

    if (!o.whole && o.across)
        copy_elements<S, lines, depth, threads, true>(a, at, product, line0, p0, own);
    else if (!o.whole)
        copy_elements<S, lines, depth, threads, false>(a, at, product, line0, p0, own);
    else if (o.across)
        copy_rows<depth, lines / 4, threads, false>(at, from, o.operand.view.p * 4, a.k - p0, count,
                                                    own);
    else
        copy_rows<lines, depth / 4, threads, true>(at, from, o.operand.view.line * 4, count,
                                                   a.k - p0, own);
}

/* ---- splitting raw elements into limbs ------------------------------------------------------- */

/* Returns the power-of-two scale of a line (row of A or column of B), as two factors. */
template <int S>
DEVICE struct factors factors_of(const multiply_args &a, int product, int64_t line)
{
    int64_t first = product * (S ? a.r.each_b : a.r.each_a);

    return factors_by(SIDES[S].scaled && line < (S ? a.r.n : a.r.m) ?
                      scale_of<S>(S ? a.r.emax_b : a.r.emax_a, first + line) : 0);
}

/* Splits the elements of a line, from p on, in a raw tile.  The 16 bytes of each limb become piece
 * `to` of line to_line in that limb's tile. */
template <int S, int lines, int depth, int tile>
DEVICE void cut_piece(uint32_t raw, int line, int p, bool across, uint32_t limbs, int to_line,
                      int to, struct factors f)
{
    float x[PIECE_ELEMENTS];

    if (across)
        UNROLL for (int i = 0; i < PIECE_ELEMENTS; i++)
            x[i] = load_shared<float>(raw + raw_at<lines, depth>(line, p + i, true));
    else
        UNROLL for (int i = 0; i < PIECE_ELEMENTS / 4; i++) {
            bytes16 v = load_shared<bytes16>(raw + piece_at<4 * depth>(line, p / 4 + i));

            UNROLL for (int w = 0; w < 4; w++)
                x[4 * i + w] = bits_float(v.w[w]);
        }
    UNROLL for (int i = 0; i < PIECE_ELEMENTS; i++)
        x[i] = scaled<S>(x[i], f);
    UNROLL for (int l = 0; l < SIDES[S].limbs; l++) {
        bytes16 v;

        UNROLL for (int w = 0; w < 4; w++)
            v.w[w] = take_word<S>(x + w * (PIECE_ELEMENTS / 4));
        store_shared<bytes16>(limbs + (uint32_t)(l * tile) + piece_at(to_line, to), v);
    }
}

#endif
