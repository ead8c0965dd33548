/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel that packs one or both operands.  `pack`, defined elsewhere, packs the elements that
 * belong to one thread block. */
#ifndef LIMBER_CUDA_PACKS_H
#define LIMBER_CUDA_PACKS_H

/* Thread blocks from args.first on pack B, all others pack A. */
KERNEL(limber_pack, struct packs_args, PACK_THREADS, 1)
{
    let_next_begin();
    if (block() < args.first)
        pack<0>(args.side[0], block());
    else
        pack<1>(args.side[1], block() - args.first);
}

#endif
