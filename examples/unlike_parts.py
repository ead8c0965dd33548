# SPDX-License-Identifier: BSD-3-Clause
# Writes two matrices of unlike parts, A.npy and B.npy: docs/explain.md reads their plan.
import array, random

def save(name, rows):
    """Writes rows of doubles as an .npy file."""
    # .npy by hand, so that NumPy is not needed
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }"
    head %= len(rows), len(rows[0])
    with open(name, 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00v\x00' + head.ljust(117).encode() + b'\n')
        for row in rows:
            array.array('d', row).tofile(f)

random.seed(1)
M, N, K = 1024, 896, 1280

def a(i, k):
    """Element (i, k) of A."""
    if 320 <= i < 384:                          # hot rows: exponents over 120 binades
        return random.gauss(0, 1) * 2.0 ** random.randrange(-60, 60)
    if 512 <= i < 896 and 256 <= k < 768:       # a block of zeros
        return 0.0
    if 64 <= i < 192 and k >= 1024:             # full significands
        return random.gauss(0, 1)
    return float(random.randrange(-99, 100))

def b(k, j):
    # 64 hot columns
    x = float(random.randrange(-99, 100))
    return x * 2.0 ** random.randrange(-40, 40) * random.gauss(0, 1) if 704 <= j < 768 else x

save('A.npy', [[a(i, k) for k in range(K)] for i in range(M)])
save('B.npy', [[b(k, j) for j in range(N)] for k in range(K)])
