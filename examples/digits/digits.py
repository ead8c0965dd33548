# SPDX-License-Identifier: BSD-3-Clause
"""What the programs on handwritten digits share: reading images in MNIST's format, timed products
by Limber or by NumPy's BLAS, and drawing pictures."""
import argparse
import gzip
import json
import os
import struct
import time
import zlib

import numpy as np

from limber.chart import writable, write_whole


# types of Ape, with their schemes: FP32 from limbs of FP16, of BF16, and of what each tile allows
SCHEMES = {"fp32-f": "fp32-f", "fp32-b": "fp32-b", "mixed": "ape"}


def options(description, **more):
    """Parses the options that all programs have, and the integers `more`, {name: (default,
    help)}."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--data", default=os.environ.get("LIMBER_DATA"), metavar="FOLDER",
                   help="holds mnist/t10k-images-idx3-ubyte.gz and -labels-idx1- (LIMBER_DATA)")
    p.add_argument("--count", type=int, default=10000, help="images, at most (10000)")
    p.add_argument("--blas", choices=["f64", "f32"], help="products by NumPy's BLAS, to compare")
    p.add_argument("--scheme", choices=list(SCHEMES), help="products in FP32 by limbs, to compare")
    p.add_argument("--picture", type=writable, metavar="FILE.png", help="draw the result")
    p.add_argument("--json", action="store_true", help="one object in the place of lines")
    for name, (default, meaning) in more.items():
        p.add_argument("--" + name, type=int, default=default, help=f"{meaning} ({default})")
    chosen = p.parse_args()
    if chosen.blas and chosen.scheme:
        p.error("--blas and --scheme exclude each other")
    if not chosen.data:
        p.error("--data: where the images are (or LIMBER_DATA)")
    for name in ["count", *more]:
        if getattr(chosen, name) < 1:
            p.error(f"--{name}: a whole number from 1 on")
    return chosen


def load(folder, count):
    """Reads MNIST's test images; returns images [count][784] and labels [count], as bytes."""
    def idx(name, *sides):
        """Returns the bytes in a file of MNIST's, with the shape in its header."""
        path = os.path.join(folder, "mnist", name)
        try:
            with gzip.open(path) as file:
                data = file.read()
            if data[:4] != bytes([0, 0, 8, len(sides) + 1]):
                raise ValueError(f"no IDX file of bytes with {len(sides) + 1} axes")
            shape = struct.unpack_from(f">{len(sides) + 1}I", data, 4)
            if shape[1:] != sides:
                raise ValueError(f"images of {shape[1]} x {shape[2]}, not of 28 x 28")
            return np.frombuffer(data, np.uint8, offset=8 + 4 * len(sides)).reshape(shape)
        except OSError as e:
            raise SystemExit(f"{path}: {e.strerror or e}")
        except (EOFError, ValueError, struct.error, zlib.error) as e:
            raise SystemExit(f"{path}: {e}")

    images, labels = idx("t10k-images-idx3-ubyte.gz", 28, 28), idx("t10k-labels-idx1-ubyte.gz")
    if len(images) != len(labels):
        raise SystemExit(f"{folder}/mnist: {len(images)} images and {len(labels)} labels")
    return np.ascontiguousarray(images[:count].reshape(-1, 784)), labels[:count]


class Products:
    """Products of integers: exact ones by Limber, or those of floats by NumPy's BLAS or by limbs.

    seconds     time in all products so far
    scheme      what computed the last product: a scheme of Limber, or BLAS"""

    def __init__(self, blas=None, scheme=None):
        self.blas, self.type, self.seconds, self.start = blas, scheme, 0, time.perf_counter()
        self.scheme = "BLAS"
        if blas is None:
            import limber
            self.context = limber.Context()

    def __call__(self, a, b):
        """Returns a b: exact in int64, in float32 by a type of SCHEMES, in float64 or float32 by
        the BLAS."""
        start = time.perf_counter()
        if self.type:
            c, made = self.context.matmul(a.astype(np.float32), b.astype(np.float32),
                                          contract="fast", scheme=SCHEMES[self.type], report=True)
            self.scheme = made.scheme
        elif self.blas is None:
            c, made = self.context.matmul(a, b, contract="exact", dtype=np.int64, report=True)
            self.scheme = made.scheme
        else:
            to = np.float64 if self.blas == "f64" else np.float32
            c = a.astype(to) @ b.astype(to)
        self.seconds += time.perf_counter() - start
        return c

    def times(self):
        """Returns the seconds since this object was made and those in products, and what
        computed."""
        return {"by": self.type or ("exact" if self.blas is None else f"blas {self.blas}"),
                "computed_by": self.scheme, "seconds": time.perf_counter() - self.start,
                "seconds_in_products": self.seconds}


def tell(chosen, times, lines, **facts):
    """Prints times and results, as lines or as one JSON object."""
    if chosen.json:
        print(json.dumps({**times, **facts}))
        return
    by = (f"NumPy's BLAS, {chosen.blas}" if chosen.blas else
          f"Limber, {chosen.scheme or 'exact'}")
    print(f"{by}: {times['seconds_in_products']:.3f} s in products, {times['seconds']:.3f} s in "
          "all")
    for line in lines:
        print(line)


def picture(path, tiles, across):
    """Writes images [n][784] as a grey PNG with `across` images in a row.  Each image is scaled to
    its own range, and a pixel becomes 3 x 3 pixels."""
    tiles = np.asarray(tiles, np.float64)
    low, high = tiles.min(1, keepdims=True), tiles.max(1, keepdims=True)
    grey = (255 * (tiles - low) / np.where(high > low, high - low, 1)).astype(np.uint8)
    rows = -(-len(grey) // across)
    sheet = np.full((rows * 30 + 2, across * 30 + 2), 255, np.uint8)
    for i, tile in enumerate(grey):
        y, x = i // across * 30 + 2, i % across * 30 + 2
        sheet[y:y + 28, x:x + 28] = tile.reshape(28, 28)
    sheet = sheet.repeat(3, 0).repeat(3, 1)

    def chunk(kind, data):
        """Returns a chunk of a PNG file."""
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", sheet.shape[1], sheet.shape[0], 8, 0, 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in sheet)
    write_whole(path, b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) +
                chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))
