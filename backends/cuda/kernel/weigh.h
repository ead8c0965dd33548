/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel of a weigh_call.  It adds in the same order as jit/scan/slices.c, so that it gives the
 * same bits. */
#ifndef LIMBER_CUDA_WEIGH_H
#define LIMBER_CUDA_WEIGH_H

/* Each thread sums the finite magnitudes of one row or column, times `weights`. */
KERNEL(limber_weigh, struct weigh_args, PACK_THREADS, 1)
{
    int64_t line = (int64_t)block() * PACK_THREADS + thread();
    struct view v = limber_operand_view(&args.operand);
    double sum = 0;

    if (line >= args.lines)
        return;
    ROLL for (int64_t p = 0; p < args.length; p++) {
        typename raw_element<0>::type e = {};
        double x;

        load_element<0>(e, v, args.across ? p : line, args.across ? line : p);
        x = double_of(SIDES[0].f, &e);
        x = x < 0 ? -x : x;
        if (x - x == 0)         /* x is finite */
            sum = add64(sum, mul64(x, load<double>(args.weights + p)));
    }
    store(args.to + line, sum);
}

#endif
