# SPDX-License-Identifier: BSD-3-Clause
# The sum 1e16 + 1 - 1e16 in plain NumPy.  NumPy's BLAS gives 0.0; the exact value 1.0 is given by
#     python -m limber run --contract correct numpy_product.py
import numpy as np

a = np.tile([1e16, 1, -1e16], (100, 1))     # each row adds up to 1
b = np.ones((3, 100))
print((a @ b)[0, 0])
