# SPDX-License-Identifier: BSD-3-Clause
"""Principal components of handwritten digits.

The covariance of n images x is (n sum x x' - (sum x)(sum x)') / n^2.  Pixels are bytes, so one
exact product of integers gives sum x x', and the numerator is exact without first subtracting a
mean from every pixel.  Only the division by n^2 rounds.  Eigenvectors come from LAPACK.

    python components.py --data FOLDER --picture components.png
    python components.py --data FOLDER --blas f32          # the same by NumPy's BLAS
    python components.py --data FOLDER --scheme mixed      # the same by limbs (Ape)"""
import numpy as np

from digits import Products, load, options, picture, tell


def covariance(images, product):
    """Returns the covariance of the pixels; the sums before the division are exact if the product
    is."""
    n = len(images)
    sums = images.sum(0, dtype=np.int64)
    return (n * product(images.T, images) - np.outer(sums, sums)) / float(n) ** 2


def main():
    chosen = options(__doc__.splitlines()[0], components=(30, "components"))
    images, _ = load(chosen.data, chosen.count)
    product = Products(chosen.blas, chosen.scheme)
    values, vectors = np.linalg.eigh(covariance(images, product))
    times = product.times()
    values, vectors = values[::-1], vectors[:, ::-1]
    part = values[:chosen.components].sum() / values.sum()
    lines = [f"{len(images)} images: {chosen.components} of 784 components hold {100 * part:.2f}% "
             f"of the variance, the first {values[0]:.10g}"]
    off = 0
    if chosen.blas or chosen.scheme:    # the error that rounding in products causes
        exact = covariance(images, Products())
        rounded = covariance(images, Products(chosen.blas, chosen.scheme))
        off = np.abs(rounded - exact).max() / np.abs(exact).max()
        lines.append(f"largest error of the covariance, of its largest element: {off:.2g}")
    tell(chosen, times, lines, images=len(images), error=float(off))
    if chosen.picture:
        picture(chosen.picture, vectors.T[:chosen.components], 10)


main()
