/* SPDX-License-Identifier: BSD-3-Clause
 * Scans an operand on the device for exponents, lowest bit, significant bits and flags of each line
 * (row of A or column of B), and of tiles.  For host memory jit/scan/scan.c does the same. */
#ifndef LIMBER_CUDA_SCAN_H
#define LIMBER_CUDA_SCAN_H

/* Results of a scan so far (enum scan_field): exponents of the smallest and the largest nonzero
 * magnitude, exponent of the lowest bit, largest number of significant bits, flags. */
struct extremes { int32_t emin, emax, low, sig; uint32_t flags; };

/* Returns the index of the lowest bit of s that is set; s is not 0. */
DEVICE int lowest_bit(limber_u128 s)
{
    return (uint64_t)s ? trailing_zeros((uint64_t)s) : 64 + trailing_zeros((uint64_t)(s >> 64));
}

/* Updates the results by a nonzero number, whose bits have exponents from `low` to `top`. */
DEVICE void include_number(struct extremes &s, int top, int low, uint32_t negative)
{
    s.emin = top < s.emin ? top : s.emin;
    s.emax = top > s.emax ? top : s.emax;
    s.low = low < s.low ? low : s.low;
    s.sig = top - low + 1 > s.sig ? top - low + 1 : s.sig;
    s.flags |= negative ? SCAN_negative : 0;
}

/* Updates the results by an IEEE-like float of at most 64 bits, given by its bit pattern. */
DEVICE void include_ieee_float(struct extremes &s, uint64_t e)
{
    constexpr limber_format f = SIDES[0].f;
    constexpr int most = (1 << f.exp_bits) - 1;
    int exponent = (int)(e >> f.frac_bits) & most;
    uint64_t m = e & (((uint64_t)1 << f.frac_bits) - 1);
    int unit = (exponent ? exponent : 1) - f.bias - f.frac_bits;

    if (exponent == most) {
        s.flags |= SCAN_special;
        return;
    }
    m |= exponent ? (uint64_t)1 << f.frac_bits : 0;
    if (m)
        include_number(s, exponent ? exponent - f.bias : unit + 63 - leading_zeros(m),
                       unit + trailing_zeros(m), (uint32_t)(e >> (f.exp_bits + f.frac_bits)));
}

/* Updates the results by a number of any format. */
template <class raw> DEVICE void include_any_number(struct extremes &s, const raw &e)
{
    limber_num x[2];
    int n = limber_parts(x, SIDES[0].f, &e), top, low = INT32_MAX;

    if (x[0].kind == NUM_inf || x[0].kind == NUM_nan) {
        s.flags |= SCAN_special;
        return;
    }
    if (x[0].kind != NUM_finite)
        return;
    top = x[0].exp + limber_sig_bits(limber_num_sig(&x[0])) - 1;
    UNROLL for (int i = 0; i < 2; i++)
        if (i < n && x[i].kind == NUM_finite) {
            int at = x[i].exp + lowest_bit(limber_num_sig(&x[i]));

            low = at < low ? at : low;
        }
    include_number(s, top, low, x[0].sign);
}

/* Updates the results by an element of the operand's format. */
template <class raw> DEVICE void include_element(struct extremes &s, const raw &e)
{
    if constexpr (is_ieee(SIDES[0].f))
        include_ieee_float(s, e);
    else
        include_any_number(s, e);
}

/* Combines two results, in s. */
DEVICE void combine_extremes(struct extremes &s, const struct extremes &other)
{
    s.emin = other.emin < s.emin ? other.emin : s.emin;
    s.emax = other.emax > s.emax ? other.emax : s.emax;
    s.low = other.low < s.low ? other.low : s.low;
    s.sig = other.sig > s.sig ? other.sig : s.sig;
    s.flags |= other.flags;
}

/* Combines the results of groups of `all` neighbouring lanes. */
template <int all> DEVICE void join_lanes(struct extremes &s)
{
    UNROLL for (int lanes = 1; lanes < all; lanes *= 2)
        combine_extremes(s, { (int32_t)shuffle_xor((uint32_t)s.emin, lanes),
                              (int32_t)shuffle_xor((uint32_t)s.emax, lanes),
                              (int32_t)shuffle_xor((uint32_t)s.low, lanes),
                              (int32_t)shuffle_xor((uint32_t)s.sig, lanes),
                              shuffle_xor(s.flags, lanes) });
}

/* Combines s into a line's results in memory, which other thread blocks may update, too. */
DEVICE void put_extremes(int32_t *found, int64_t all, const struct extremes &s)
{
    atomic_min(found + SCAN_emin * all, s.emin);
    atomic_max(found + SCAN_emax * all, s.emax);
    atomic_min(found + SCAN_low * all, s.low);
    atomic_max(found + SCAN_sig * all, s.sig);
    atomic_or((uint32_t *)found + SCAN_flags * all, s.flags);
}

/* Returns the results of no elements. */
DEVICE struct extremes no_extremes()
{
    return { INT32_MAX, INT32_MIN, INT32_MAX, 0, 0 };
}

/* Stores the results of a line or tile that no other thread block writes. */
DEVICE void store_extremes(int32_t *found, int64_t all, const struct extremes &s)
{
    store<int32_t>(found + SCAN_emin * all, s.emin);
    store<int32_t>(found + SCAN_emax * all, s.emax);
    store<int32_t>(found + SCAN_low * all, s.low);
    store<int32_t>(found + SCAN_sig * all, s.sig);
    store<uint32_t>((uint32_t *)found + SCAN_flags * all, s.flags);
}

/* Combines results in memory into s. */
DEVICE void combine_stored(struct extremes &s, const int32_t *at, int64_t all)
{
    combine_extremes(s, { load<int32_t>(at + SCAN_emin * all), load<int32_t>(at + SCAN_emax * all),
                          load<int32_t>(at + SCAN_low * all), load<int32_t>(at + SCAN_sig * all),
                          load<uint32_t>((const uint32_t *)at + SCAN_flags * all) });
}

/* ---- combining blocks that share lines ------------------------------------------------------- */

enum { WARPS = PACK_THREADS / 32, SEEN = LINES * PADDED * SIDES[0].f.size };
static_assert(LIMBER_BLOCK % LINES == 0 && SEEN % 4 == 0, "tiles are whole blocks of lines");

/* Returns the number of tiles along k. */
DEVICE int64_t tiles_across(const scan_args &args)
{
    return (args.length + ELEMENTS - 1) / ELEMENTS;
}

/* Returns the number of groups of LINES lines in a matrix or image. */
DEVICE int line_blocks(const scan_args &args)
{
    return (int)((args.lines + LINES - 1) / LINES);
}

/* Combines this warp's results for a tile, and stores them in shared memory for put_tile. */
DEVICE void see_tile(struct extremes s)
{
    uint32_t at = (uint32_t)(SEEN + 4 * (lane() * WARPS + warp()));

    join_lanes<32>(s);
    if (lane() < SCAN_fields)
        store_shared<int32_t>(at,
                              lane() == SCAN_emin ? s.emin :
                              lane() == SCAN_emax ? s.emax :
                              lane() == SCAN_low  ? s.low :
                              lane() == SCAN_sig  ? s.sig :
                                                    (int32_t)s.flags);
}

/* Combines the warps' results for a tile of LINES lines, and stores them.  The first warp calls
 * this after all warps have called see_tile. */
DEVICE void put_tile(const scan_args &args, int line_block, int64_t p0)
{
    int64_t across = tiles_across(args), all = line_blocks(args) * across;
    uint32_t at = (uint32_t)(SEEN + 4 * (lane() % WARPS));
    struct extremes s = { load_shared<int32_t>(at + 4 * SCAN_emin * WARPS),
                          load_shared<int32_t>(at + 4 * SCAN_emax * WARPS),
                          load_shared<int32_t>(at + 4 * SCAN_low * WARPS),
                          load_shared<int32_t>(at + 4 * SCAN_sig * WARPS),
                          load_shared<uint32_t>(at + 4 * SCAN_flags * WARPS) };

    join_lanes<WARPS>(s);
    if (lane() == 0)
        store_extremes(args.halves + line_block * across + p0 / ELEMENTS, all, s);
}

/* True in the last of `count` thread blocks that call this.  That block also sets the counter to
 * 0. */
DEVICE bool is_last(int32_t *counter, int count)
{
    sync_block();
    if (thread() == 0) {
        int32_t before = atomic_pass(counter);

        if (before == count - 1)
            store<int32_t>(counter, 0);
        store_shared<int32_t>(0, before);
    }
    sync_block();
    return load_shared<int32_t>(0) == count - 1;
}

/* Combines the results of all thread blocks for LINES lines.  Several lanes work on each line. */
DEVICE void join_lines(const scan_args &args, int which, int line_block)
{
    constexpr int lanes = PACK_THREADS / LINES;
    int64_t line = (int64_t)line_block * LINES + thread() / lanes;
    int64_t at = which * args.lines + line;
    struct extremes s = no_extremes();

    ROLL for (int p = thread() % lanes; line < args.lines && p < args.blocks_p; p += lanes)
        combine_stored(s, args.parts + p * SCAN_fields * args.all + at, args.all);
    join_lanes<lanes>(s);
    if (line < args.lines && thread() % lanes == 0)
        store_extremes(args.found + at, args.all, s);
}

/* Combines results of tiles of LINES lines to results of a row of tiles of LIMBER_BLOCK lines. */
DEVICE void join_tiles(const scan_args &args, int row, int first, int count)
{
    int64_t across = tiles_across(args), all = line_blocks(args) * across;

    ROLL for (int64_t t = thread(); t < across; t += PACK_THREADS) {
        struct extremes s = no_extremes();

        ROLL for (int b = first; b < first + count; b++)
            combine_stored(s, args.halves + b * across + t, all);
        store_extremes(args.tiles + row * across + t, args.tile_rows * across, s);
    }
}

/* Stores a thread block's results for its lines.  Then the last block of a group of lines combines
 * the results of all its blocks.  own: index of this block in its matrix.  mine: this lane has the
 * results of line `at`. */
DEVICE void put_lines(const scan_args &args, int which, int own, int64_t at, bool mine,
                      const struct extremes &s)
{
    int blocks = line_blocks(args), group = own / args.blocks_p / args.together;
    int first = group * args.together, rest = blocks - first;
    int count = rest < args.together ? rest : args.together;
    int groups = (blocks + args.together - 1) / args.together;

    if (count * args.blocks_p == 1 && !args.tiles) {
        if (mine)
            store_extremes(args.found + at, args.all, s);
        return;
    }
    if (mine)
        store_extremes(args.parts + own % args.blocks_p * SCAN_fields * args.all + at, args.all, s);
    if (!is_last(args.counters + which * groups + group, count * args.blocks_p))
        return;
    ROLL for (int b = first; b < first + count; b++)
        join_lines(args, which, b);
    if (args.tiles)
        join_tiles(args, group, first, count);
}

/* ---- the kernels of a scan ------------------------------------------------------------------- */

/* Scans the elements that belong to one thread block: LINES lines of a matrix or an image, and
 * every blocks_p-th run of ELEMENTS along k.  With counters the last block combines the results;
 * without, each block updates results in memory. */
DEVICE void scan(const scan_args &args, int index)
{
    constexpr int size = SIDES[0].f.size;
    typedef typename raw_of<size>::type raw;
    int which = index / args.blocks, own = index % args.blocks;
    int64_t line0 = (int64_t)(own / args.blocks_p) * LINES;
    int64_t step = (int64_t)args.blocks_p * ELEMENTS;
    int line = thread() / (ELEMENTS / EACH), p = thread() % (ELEMENTS / EACH) * EACH;
    struct extremes s = no_extremes();
    struct view v = limber_operand_at(&args.operand, which);
    int64_t at = which * args.lines + line0 + line;
    bool is_line = line0 + line < args.lines;

    ROLL for (int64_t p0 = (int64_t)(own % args.blocks_p) * ELEMENTS; p0 < args.length;
              p0 += step) {
        struct extremes here = no_extremes();

        read_block<0>(v, line0, args.lines - line0, p0, args.length);
        UNROLL for (int x = 0; x < EACH; x++)
            include_element(here, load_shared<raw>((uint32_t)((line * PADDED + p + x) * size)));
        combine_extremes(s, here);
        if (args.tiles)
            see_tile(here);
        sync_block();
        if (args.tiles && thread() < 32)
            put_tile(args, own / args.blocks_p, p0);
    }
    join_lanes<ELEMENTS / EACH>(s);
    if (args.counters)
        put_lines(args, which, own, at, p == 0 && is_line, s);
    else if (p == 0 && is_line)
        put_extremes(args.found + at, args.all, s);
}

/* Scans one or two operands.  Thread blocks from args.first on scan the second operand. */
KERNEL(limber_scan, struct scans_args, PACK_THREADS, 1)
{
    if (block() < args.first)
        scan(args.side[0], block());
    else
        scan(args.side[1], block() - args.first);
}

/* Initialises results that thread blocks of the scan will update. */
DEVICE void clear_found(const scan_args &args, int index)
{
    int64_t line = (int64_t)index * PACK_THREADS + thread();

    if (line == 0 && args.choice)
        store<int32_t>(args.choice, 0);
    if (line == 0 && args.most)
        store<int32_t>(args.most, INT32_MIN);
    if (line < args.all)
        store_extremes(args.found + line, args.all, no_extremes());
}

/* Initialises the results of both operands. */
KERNEL(limber_scan_start, struct scans_args, PACK_THREADS, 1)
{
    if (block() < args.first)
        clear_found(args.side[0], block());
    else
        clear_found(args.side[1], block() - args.first);
}

/* Combines, for each window of a convolution, the results of the pixels that it covers. */
KERNEL(limber_scan_windows, struct windows_args, PACK_THREADS, 1)
{
    int64_t own = (int64_t)block() * PACK_THREADS + thread(), all = args.matrices * args.lines;
    int64_t matrix = limber_quotient(own, args.lines), line = own - matrix * args.lines;
    const struct patch &w = args.patch;
    struct extremes s = no_extremes();
    int64_t row = limber_quotient(line, w.ow), image = limber_quotient(row, w.oh), plane = image;
    int64_t y0 = (row - image * w.oh) * w.stride[0] - w.pad[0];
    int64_t x0 = (line - row * w.ow) * w.stride[1] - w.pad[1];

    if (own >= all)
        return;
    ROLL for (int64_t t = 0; t < (w.t ? w.t : 1); t++) {
        if (w.t) {
            plane = limber_patch_depth(&w, image, t);
            if (plane < 0)
                continue;
            plane += image / w.od * w.d;
        }
        ROLL for (int64_t r = 0; r < w.r; r++)
            ROLL for (int64_t c = 0; c < w.s; c++) {
                int64_t y = y0 + r * w.dilate[0], x = x0 + c * w.dilate[1];

                if (w.divide[0]) {
                    if (y < 0 || x < 0 || y % w.divide[0] || x % w.divide[1])
                        continue;
                    y /= w.divide[0];
                    x /= w.divide[1];
                }
                if (y >= 0 && y < w.h && x >= 0 && x < w.w)
                    combine_stored(s,
                                   args.pixels + matrix * args.count + (plane * w.h + y) * w.w + x,
                                   args.matrices * args.count);
            }
    }
    store_extremes(args.found + own, all, s);
}

/* True if a line (row of A or column of B) that is not zero is within the plan's bounds. */
DEVICE bool is_within(const decide_args &a, int64_t line)
{
    int32_t emax = load<int32_t>(a.found + SCAN_emax * a.lines + line);
    int32_t emin = load<int32_t>(a.found + SCAN_emin * a.lines + line);
    int32_t low = load<int32_t>(a.found + SCAN_low * a.lines + line);

    return emin >= a.emin && emax <= a.emax && emax - emin <= a.spread &&
           emax - low + 1 <= a.width &&
           load<int32_t>(a.found + SCAN_sig * a.lines + line) <= a.sig;
}

/* Sets the flags of lines with NaN or infinities, computes the largest exponent, and sets *choice
 * to 1, the fallback plan, if a line is not within this plan's bounds. */
KERNEL(limber_decide, struct decide_args, PACK_THREADS, 1)
{
    int64_t line = (int64_t)block() * PACK_THREADS + thread();
    int32_t emax = line < args.lines ? load<int32_t>(args.found + SCAN_emax * args.lines + line) :
                   INT32_MIN, most = emax;
    uint32_t flags;

    UNROLL for (int lanes = 1; lanes < 32; lanes *= 2) {
        int32_t other = (int32_t)shuffle_xor((uint32_t)most, lanes);

        most = other > most ? other : most;
    }
    if (lane() == 0 && most != INT32_MIN)
        atomic_max(args.most, most);
    if (line >= args.lines)
        return;
    flags = load<uint32_t>(args.found + SCAN_flags * args.lines + line);
    store<uint8_t>(args.special + line, (flags & SCAN_special) != 0);
    if ((emax != INT32_MIN && !is_within(args, line)) ||
        (flags & SCAN_negative && args.is_unsigned) ||
        (flags & SCAN_special && !args.may_be_special))
        atomic_or((uint32_t *)args.choice, 1);
}

#endif
