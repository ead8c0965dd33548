# SPDX-License-Identifier: BSD-3-Clause
"""What the public functions' hints mean."""
from decimal import Decimal
from fractions import Fraction
from typing import Any, Mapping, Optional, Sequence, Tuple, TypedDict, Union

Array = Any         # whatever shows its memory; a result: NumPy's array, a Quad, an Exported, out
DType = Any         # a format's name, or a type of NumPy's, ml_dtypes' or PyTorch's
Scalar = Union[int, float, complex, Fraction, Decimal, str]
Formats = Union[None, str, Tuple[Optional[str], Optional[str]]]
Sizes = Union[int, Sequence[int]]
Inputs = Optional[Mapping[str, Any]]


class ProductOptions(TypedDict, total=False):
    """The keyword arguments of dot, tensordot and einsum, which mean the same as matmul's."""
    contract: Optional[str]
    out: Array
    alpha: Scalar
    beta: Scalar
    scheme: Optional[str]
    report: bool
    format: Formats
    dtype: DType
    slices: int
    conj_a: bool
    conj_b: bool
    epilogue: Optional[str]
    inputs: Inputs
    nan_to_zero: bool
    result: str
