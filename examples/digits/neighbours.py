# SPDX-License-Identifier: BSD-3-Clause
"""Classifies handwritten digits by their k nearest neighbours.

The squared distance of images x and y is |x|^2 - 2 x y + |y|^2.  Pixels are bytes, so one exact
product of integers gives all distances without a rounding, and ties are found exactly.  FP64 gives
the same neighbours, because its sums are exact here, too.  In FP32, sums above 2^24 are rounded.

    python neighbours.py --data FOLDER --k 5
    python neighbours.py --data FOLDER --blas f32          # the same by NumPy's BLAS"""
import numpy as np

from digits import Products, load, options, picture, tell


def nearest(known, asked, k, product):
    """Returns the indices of the k nearest known images of each asked image, nearest first.  Of
    images with equal distances, the one with the smaller index comes first."""
    squares = [(x.astype(np.int64) ** 2).sum(1) for x in (asked, known)]
    distances = squares[0][:, None] - 2 * product(asked, known.T) + squares[1]
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def vote(labels):
    """Returns the most frequent label of each row, and the smallest one of equally frequent
    labels."""
    return np.array([np.bincount(row, minlength=10).argmax() for row in labels])


def main():
    chosen = options(__doc__.splitlines()[0], k=(5, "neighbours"))
    images, labels = load(chosen.data, chosen.count)
    split = len(images) * 4 // 5
    if not 0 < chosen.k <= split < len(images):
        raise SystemExit(f"--k {chosen.k}: {split} known images")
    product = Products(chosen.blas, chosen.scheme)
    found = nearest(images[:split], images[split:], chosen.k, product)
    times = product.times()
    guess = vote(labels[:split][found])
    right = (guess == labels[split:]).mean()
    lines = [f"{split} known, {len(images) - split} asked, k = {chosen.k}: {100 * right:.2f}% "
             "right"]
    others = 0
    if chosen.blas or chosen.scheme:
        exact = nearest(images[:split], images[split:], chosen.k, Products())
        others = (found != exact).any(1).sum()
        lines.append(f"{others} images have other neighbours than by exact distances")
    tell(chosen, times, lines, images=len(images), right=float(right), others=int(others))
    if chosen.picture:          # misclassified images, each with its nearest neighbour
        wrong = np.flatnonzero(guess != labels[split:])[:20]
        pairs = np.stack([images[split + wrong], images[found[wrong, 0]]], 1).reshape(-1, 784)
        picture(chosen.picture, pairs, 10)


main()
