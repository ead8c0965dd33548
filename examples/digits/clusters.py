# SPDX-License-Identifier: BSD-3-Clause
"""Clusters of handwritten digits, by k-means.

The centre of a cluster is s / n, where s is the sum of its n images.  The squared distance of an
image x from the centre, minus |x|^2, is (|s|^2 / n - 2 x s) / n, where s, x s and |s|^2 are
integers below 2^53.  One exact product a turn gives x s for all images and clusters, so that the
cluster of an image depends on neither the machine nor the BLAS.

    python clusters.py --data FOLDER --k 20 --picture centres.png
    python clusters.py --data FOLDER --blas f32            # the same by NumPy's BLAS"""
import numpy as np

from digits import Products, load, options, picture, tell


def cluster(images, k, most_turns, product):
    """Clusters images until no image changes its cluster, or after most_turns turns.  Returns
    (turns, the cluster of each image, the sum of each cluster's images, the number of its
    images)."""
    sums = images[np.linspace(0, len(images) - 1, k).astype(int)].astype(np.int32)
    sizes, old = np.ones(k, np.int64), None
    for turn in range(1, most_turns + 1):
        squares = (sums.astype(np.float64) ** 2).sum(1)
        members = ((squares / sizes - 2 * product(images, sums.T)) / sizes).argmin(1)
        if old is not None and (members == old).all():
            break
        old = members
        found = np.bincount(members, minlength=k)
        for c in np.flatnonzero(found):     # a cluster that has become empty keeps its centre
            sums[c] = images[members == c].sum(0, dtype=np.int32)
            sizes[c] = found[c]
    return turn, members, sums, sizes


def main():
    chosen = options(__doc__.splitlines()[0], k=(20, "clusters"), turns=(100, "turns, at most"))
    images, labels = load(chosen.data, chosen.count)
    if chosen.k > len(images):
        raise SystemExit(f"--k {chosen.k}: there are {len(images)} images")
    product = Products(chosen.blas, chosen.scheme)
    turns, members, sums, sizes = cluster(images, chosen.k, chosen.turns, product)
    times = product.times()
    pure = sum(np.bincount(labels[members == c], minlength=10).max() for c in range(chosen.k))
    lines = [f"{len(images)} images, {chosen.k} clusters, {turns} turns: "
             f"{100 * pure / len(images):.2f}% have their cluster's most frequent label"]
    others = 0
    if chosen.blas or chosen.scheme:
        exact = cluster(images, chosen.k, chosen.turns, Products())
        others = (members != exact[1]).sum()
        lines.append(f"{others} images are in other clusters than by exact products, which take "
                     f"{exact[0]} turns")
    tell(chosen, times, lines, images=len(images), turns=turns, others=int(others))
    if chosen.picture:
        picture(chosen.picture, sums / sizes[:, None], 10)


main()
