/* SPDX-License-Identifier: BSD-3-Clause
 * Gradient of a depthwise convolution's image under a stride of two, for NCHW and 3 x 3 windows.
 * depthwise.h includes this file for floats with AVX-512.
 *
 * There are four kinds of pixels of dx: in even or odd rows and columns of the padded image.  Each
 * kind is a sum over different elements of the window, and a vector of dy gives one vector of each
 * kind.  The two kinds of a row are interleaved.  So dy is read once, and dx is written in full
 * vectors. */

/* Destination of two neighbouring rows of dx: rows 2 y and 2 y + 1 of the padded image. */
struct NAME(halves) {
    REAL *to[2]; /* address of each row; NULL if this piece does not contain the row */
    /* lanes that are stored, of the first and of the second vector of a row */
    some_lanes stored[2];
};

/* Computes two rows of dx.  ahead: two vectors of row y of dy, one from some column on and one from
 * the previous column on.  behind: the same columns of row y - 1. */
FLAT void NAME(deal_rows)(const VEC w[9], const VEC ahead[2], const VEC behind[2],
                          const struct NAME(halves) *x)
{
    const VEC zero = { 0 };
    VEC even[2], odd[2];

    even[0] = MULTIPLY_ADD(ahead[0], w[0], zero);
    even[0] = MULTIPLY_ADD(ahead[1], w[2], even[0]);
    even[0] = MULTIPLY_ADD(behind[0], w[6], even[0]);
    even[0] = MULTIPLY_ADD(behind[1], w[8], even[0]);
    odd[0] = MULTIPLY_ADD(ahead[0], w[1], zero);
    odd[0] = MULTIPLY_ADD(behind[0], w[7], odd[0]);
    even[1] = MULTIPLY_ADD(ahead[0], w[3], zero);
    even[1] = MULTIPLY_ADD(ahead[1], w[5], even[1]);
    odd[1] = MULTIPLY_ADD(ahead[0], w[4], zero);
    UNROLL for (int i = 0; i < 2; i++)
        if (x->to[i]) {
            LANES_STORE(x->to[i], ZIP(even[i], odd[i], 0), x->stored[0]);
            LANES_STORE(x->to[i] + LANES, ZIP(even[i], odd[i], LANES / 2), x->stored[1]);
        }
}

/* Lanes hold elements [first, first + LANES).  Returns the set of those lanes whose element is in
 * [from, end). */
FLAT some_lanes NAME(lanes_of)(int64_t first, int64_t from, int64_t end)
{
    const int64_t begin = first < from ? least(from - first, LANES) : 0;
    const int64_t stop = first < end ? least(end - first, LANES) : 0;

    return begin < stop ? lanes_between(begin, stop) : 0;
}

/* Loads two vectors of row y of dy: from `column` on, and from the previous column on.  seen: the
 * lanes of each vector that are inside the row.  A row outside of dy gives zeros. */
FLAT void NAME(load_dealt)(const struct depthwise *d, const REAL *plane, int64_t y, int64_t column,
                           const some_lanes seen[2], VEC row[2])
{
    const bool inside = y >= 0 && y < d->h;

    UNROLL for (int i = 0; i < 2; i++)
        row[i] = (VEC)LANES_LOAD(inside ? plane + y * d->w + column - i : plane,
                                 inside ? seen[i] : 0);
}

/* Computes dx of one channel in all rows of the piece, from vectors of dy at this column.  w: the
 * filter.  to: address of the channel's dx. */
FLAT void NAME(deal_column)(const struct NAME(piece) *x, const REAL *plane, const VEC w[9],
                            int64_t column, REAL *to)
{
    const struct depthwise *d = x->d;
    const int64_t first = 2 * column - d->pad[1], end = x->p.x + x->p.width;
    const int64_t top = x->p.y + d->pad[0], bottom = top + x->p.height;
    const some_lanes seen[2] = { NAME(lanes_of)(column, 0, d->w),
                                 NAME(lanes_of)(column - 1, 0, d->w) };
    struct NAME(halves) of = { .stored = { NAME(lanes_of)(first, x->p.x, end),
                                           NAME(lanes_of)(first + LANES, x->p.x, end) } };
    VEC ahead[2], behind[2];

    NAME(load_dealt)(d, plane, top / 2 - 1, column, seen, behind);
    _Pragma("clang loop unroll(disable)") for (int64_t y = top / 2; 2 * y < bottom; y++)
    {
        for (int i = 0; i < 2; i++)
            of.to[i] = 2 * y + i >= top && 2 * y + i < bottom ?
                           to + (2 * y + i - d->pad[0]) * d->to[3] + first :
                           NULL;
        NAME(load_dealt)(d, plane, y, column, seen, ahead);
        NAME(deal_rows)(w, ahead, behind, &of);
        UNROLL for (int i = 0; i < 2; i++)
            behind[i] = ahead[i];
    }
}

/* Computes a piece of an image gradient under a stride of two: each row of dy gives two rows. */
static __attribute__((noinline)) void NAME(run_whole)(const struct NAME(piece) *x)
{
    const struct depthwise *d = x->d;
    const int64_t left = x->p.x + d->pad[1], right = left + x->p.width;

    for (int64_t c = x->p.channel; c < x->p.channel + x->p.channels; c++) {
        const REAL *filter = (const REAL *)d->filters + c * d->filter[0];
        const REAL *plane = (const REAL *)d->image + row_of(d, x->p.image, c, 0, 0);
        REAL *to = (REAL *)d->result + x->p.image * d->to[0] + c * d->to[1];
        VEC w[9];

        UNROLL for (int i = 0; i < 9; i++)
            w[i] = (VEC)SAME(filter[i]);
        for (int64_t column = left / 2; 2 * column < right; column += LANES)
            NAME(deal_column)(x, plane, w, column, to);
    }
}
