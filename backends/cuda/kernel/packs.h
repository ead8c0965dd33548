/* SPDX-License-Identifier: BSD-3-Clause
 * Both operands by one launch: `pack` is what a block of threads does for either. */
#ifndef LIMBER_CUDA_PACKS_H
#define LIMBER_CUDA_PACKS_H

KERNEL(limber_pack, struct packs_args, PACK_THREADS, 1)
{
    let_next_begin();
    if (block() < args.first)
        pack<0>(args.side[0], block());
    else
        pack<1>(args.side[1], block() - args.first);
}

#endif
