/* SPDX-License-Identifier: BSD-3-Clause
 * Packs one or both operands by one launch; `pack` packs a block of either. */
#ifndef LIMBER_CUDA_PACKS_H
#define LIMBER_CUDA_PACKS_H

/* Packs both operands; blocks from args.first on pack B. */
KERNEL(limber_pack, struct packs_args, PACK_THREADS, 1)
{
    let_next_begin();
    if (block() < args.first)
        pack<0>(args.side[0], block());
    else
        pack<1>(args.side[1], block() - args.first);
}

#endif
