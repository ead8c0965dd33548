/* SPDX-License-Identifier: BSD-3-Clause
 * What the passes may know of an operand that lies on the device: per line the exponents, the
 * lowest bit and the significant bits in use, as jit/scan/scan.c finds them of host memory. */
#ifndef LIMBER_CUDA_SCAN_H
#define LIMBER_CUDA_SCAN_H

struct extremes { int32_t emin, emax, low, sig; uint32_t flags; };

DEVICE int lowest_bit(limber_u128 s)
{
    return (uint64_t)s ? trailing_zeros((uint64_t)s) : 64 + trailing_zeros((uint64_t)(s >> 64));
}

template <class raw> DEVICE void see(struct extremes &s, const raw &e)
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
    s.emin = top < s.emin ? top : s.emin;
    s.emax = top > s.emax ? top : s.emax;
    s.low = low < s.low ? low : s.low;
    s.sig = top - low + 1 > s.sig ? top - low + 1 : s.sig;
    s.flags |= x[0].sign ? SCAN_negative : 0;
}

DEVICE void join(struct extremes &s, const struct extremes &other)
{
    s.emin = other.emin < s.emin ? other.emin : s.emin;
    s.emax = other.emax > s.emax ? other.emax : s.emax;
    s.low = other.low < s.low ? other.low : s.low;
    s.sig = other.sig > s.sig ? other.sig : s.sig;
    s.flags |= other.flags;
}

/* Of so many neighbouring lanes. */
template <int all> DEVICE void join_lanes(struct extremes &s)
{
    UNROLL for (int lanes = 1; lanes < all; lanes *= 2)
        join(s, { (int32_t)shuffle_xor((uint32_t)s.emin, lanes),
                  (int32_t)shuffle_xor((uint32_t)s.emax, lanes),
                  (int32_t)shuffle_xor((uint32_t)s.low, lanes),
                  (int32_t)shuffle_xor((uint32_t)s.sig, lanes), shuffle_xor(s.flags, lanes) });
}

DEVICE void put_extremes(int32_t *found, int64_t all, const struct extremes &s)
{
    atomic_min(found + SCAN_emin * all, s.emin);
    atomic_max(found + SCAN_emax * all, s.emax);
    atomic_min(found + SCAN_low * all, s.low);
    atomic_max(found + SCAN_sig * all, s.sig);
    atomic_or((uint32_t *)found + SCAN_flags * all, s.flags);
}

DEVICE void clear_seen(int32_t *found, int64_t all)
{
    store<int32_t>(found + SCAN_emin * all, INT32_MAX);
    store<int32_t>(found + SCAN_emax * all, INT32_MIN);
    store<int32_t>(found + SCAN_low * all, INT32_MAX);
    store<int32_t>(found + SCAN_sig * all, 0);
    store<int32_t>(found + SCAN_flags * all, 0);
}

/* What a warp saw of a tile. */
DEVICE void put_tile(const scan_args &args, int64_t line0, int64_t p0, struct extremes s)
{
    int64_t across = (args.length + ELEMENTS - 1) / ELEMENTS;

    join_lanes<32>(s);
    if (lane() == 0)
        put_extremes(args.tiles + line0 / LIMBER_BLOCK * across + p0 / ELEMENTS,
                 args.tile_rows * across, s);
}

/* A block takes LINES lines of a matrix or an image, and every blocks_p-th stretch of ELEMENTS of
 * them. */
DEVICE void scan(const scan_args &args, int index)
{
    constexpr int size = SIDES[0].f.size;
    typedef typename raw_of<size>::type raw;
    int which = index / args.blocks, own = index % args.blocks;
    int64_t line0 = (int64_t)(own / args.blocks_p) * LINES;
    int64_t step = (int64_t)args.blocks_p * ELEMENTS;
    int line = thread() / (ELEMENTS / EACH), p = thread() % (ELEMENTS / EACH) * EACH;
    struct extremes s = { INT32_MAX, INT32_MIN, INT32_MAX, 0, 0 };
    struct view v = limber_operand_at(&args.operand, which);
    int32_t *found = args.found + which * args.lines + line0 + line;

    ROLL for (int64_t p0 = (int64_t)(own % args.blocks_p) * ELEMENTS; p0 < args.length;
              p0 += step) {
        struct extremes here = { INT32_MAX, INT32_MIN, INT32_MAX, 0, 0 };

        read_block<0>(v, line0, args.lines - line0, p0, args.length);
        UNROLL for (int x = 0; x < EACH; x++)
            see(here, load_shared<raw>((uint32_t)((line * PADDED + p + x) * size)));
        sync_block();
        join(s, here);
        if (args.tiles)
            put_tile(args, line0, p0, here);
    }
    join_lanes<ELEMENTS / EACH>(s);
    if (p == 0 && line0 + line < args.lines)
        put_extremes(found, args.all, s);
}

KERNEL(limber_scan, struct scans_args, PACK_THREADS, 1)
{
    if (block() < args.first)
        scan(args.side[0], block());
    else
        scan(args.side[1], block() - args.first);
}

/* Before a scan, by block number `index` of `count`. */
DEVICE void clear_all(const scan_args &args, int index, int count)
{
    int64_t line = (int64_t)index * PACK_THREADS + thread();
    int64_t step = (int64_t)count * PACK_THREADS;
    int64_t tiles = args.tile_rows * ((args.length + ELEMENTS - 1) / ELEMENTS);

    if (line == 0 && args.choice)
        store<int32_t>(args.choice, 0);
    if (line == 0 && args.most)
        store<int32_t>(args.most, INT32_MIN);
    if (line < args.all)
        clear_seen(args.found + line, args.all);
    ROLL for (int64_t tile = line; args.tiles && tile < tiles; tile += step)
        clear_seen(args.tiles + tile, tiles);
}

KERNEL(limber_scan_start, struct scans_args, PACK_THREADS, 1)
{
    if (block() < args.first)
        clear_all(args.side[0], block(), args.first);
    else
        clear_all(args.side[1], block() - args.first, blocks() - args.first);
}

/* What was found of a line of `all`. */
DEVICE void join_found(struct extremes &s, const int32_t *at, int64_t all)
{
    join(s, { load<int32_t>(at + SCAN_emin * all), load<int32_t>(at + SCAN_emax * all),
              load<int32_t>(at + SCAN_low * all), load<int32_t>(at + SCAN_sig * all),
              load<uint32_t>((const uint32_t *)at + SCAN_flags * all) });
}

KERNEL(limber_scan_windows, struct windows_args, PACK_THREADS, 1)
{
    int64_t own = (int64_t)block() * PACK_THREADS + thread(), all = args.matrices * args.lines;
    int64_t matrix = limber_quotient(own, args.lines), line = own - matrix * args.lines;
    int32_t *found = args.found + own;
    const struct patch &w = args.patch;
    struct extremes s = { INT32_MAX, INT32_MIN, INT32_MAX, 0, 0 };
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
                    join_found(s, args.pixels + matrix * args.count + (plane * w.h + y) * w.w + x,
                               args.matrices * args.count);
            }
    }
    store<int32_t>(found + SCAN_emin * all, s.emin);
    store<int32_t>(found + SCAN_emax * all, s.emax);
    store<int32_t>(found + SCAN_low * all, s.low);
    store<int32_t>(found + SCAN_sig * all, s.sig);
    store<uint32_t>((uint32_t *)found + SCAN_flags * all, s.flags);
}

/* Of a line that is not zero. */
DEVICE bool is_within(const decide_args &a, int64_t line)
{
    int32_t emax = load<int32_t>(a.found + SCAN_emax * a.lines + line);
    int32_t emin = load<int32_t>(a.found + SCAN_emin * a.lines + line);
    int32_t low = load<int32_t>(a.found + SCAN_low * a.lines + line);

    return emin >= a.emin && emax <= a.emax && emax - emin <= a.spread &&
           emax - low + 1 <= a.width &&
           load<int32_t>(a.found + SCAN_sig * a.lines + line) <= a.sig;
}

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
