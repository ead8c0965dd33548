# SPDX-License-Identifier: BSD-3-Clause
"""torch._scaled_mm: products of FP8 as a GPU's library computes them, or by any contract."""
from typing import Any, Optional

import torch

from ..errors import BadArgument
from . import _ops
from ._config import TORCH, parts_of, wishes_of
from ._table import table_of

EIGHT = {getattr(torch, name): format for name, format in
          (("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2")) if hasattr(torch, name)}
_CALL = "-scaled-mm"                # how presets of such calls end; with -fast: fast accumulation
_INTEGERS = {4: torch.int32, 2: torch.int16, 1: torch.uint8}
_NAN = {4: 0x7fffffff, 2: 0x7fff, 1: 0x7f}      # the NaN of NVIDIA's results


def _words(contract, formats, fast):
    """The contract of this call: the preset of a library's call has variants for fast accumulation,
    and takes the operands' formats."""
    if not contract.startswith("simulate="):
        return contract
    name, _, more = contract[9:].strip().partition(" ")
    if not name.endswith(_CALL) and not name.endswith(_CALL + "-fast"):
        return contract
    name += "-fast" if fast and name.endswith(_CALL) else ""
    for side, format in zip("ab", formats):
        if f"{side}=" not in (word[:2] for word in more.split()):
            more += f" {side}={format}"
    return f"simulate={name} {more.strip()}"


def _check(a, b, scale_a, scale_b, bias, scale_result, out_dtype):
    """Refuses what no GPU computes, or what is not known of its library."""
    for x, what in ((a, "input"), (b, "mat2")):
        if x.dim() != 2 or x.dtype not in EIGHT:
            raise BadArgument(f"{what}: {x.dim()} axes of {x.dtype}: a matrix of float8_e4m3fn or "
                              "float8_e5m2 is wanted")
    if a.shape[1] != b.shape[0]:
        raise BadArgument(f"mat2: shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be "
                          "multiplied")
    if a.dtype == b.dtype and EIGHT[a.dtype] == "e5m2":
        raise BadArgument("mat2: two matrices of float8_e5m2, which PyTorch refuses")
    for scale, what in ((scale_a, "scale_a"), (scale_b, "scale_b"), (scale_result, "scale_result")):
        if scale is not None and (scale.numel() != 1 or scale.dtype != torch.float32):
            raise BadArgument(f"{what}: {scale.numel()} numbers of {scale.dtype}: one of float32 "
                              "is wanted; scales of rows are not simulated")
    if bias is not None:
        raise BadArgument("bias: how the library adds it is not known")
    if out_dtype not in (torch.float32, torch.bfloat16, torch.float16, *EIGHT):
        raise BadArgument(f"out_dtype: {out_dtype} is no result of _scaled_mm")


def _stored(y, dtype, scale):
    """FP32 results in another type: rounded a second time; FP8 saturates."""
    if dtype in EIGHT:
        if scale is not None:
            y = (y.double() * scale.double().reshape(())).float()
        most = torch.finfo(dtype).max
        y = y.clamp(-most, most)
    nan, made = torch.isnan(y), y.to(dtype)
    if nan.any():
        kind = _INTEGERS[made.element_size()]
        made = torch.where(nan, torch.tensor(_NAN[made.element_size()], dtype=kind),
                           made.view(kind)).view(dtype)
    return made


def compute(more, input, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None,
            use_fast_accum=False, out=None):
    """One call with the arguments of torch._scaled_mm. more: wishes, role, layer and run, as
    operators take them."""
    wishes, role, layer, run = more
    contract, scheme = parts_of(wishes.split("\n")[role])
    if contract == TORCH:
        return torch._scaled_mm(input, mat2, scale_a, scale_b, bias, scale_result, out_dtype,
                                use_fast_accum)
    dtype = out_dtype or (out.dtype if out is not None else input.dtype)
    _check(input, mat2, scale_a, scale_b, bias, scale_result, dtype)
    if out is not None and (out.dtype != dtype or
                            out.shape != (input.shape[0], mat2.shape[1])):
        raise BadArgument(f"out: {tuple(out.shape)} of {out.dtype} does not fit the result")
    formats = EIGHT[input.dtype], EIGHT[mat2.dtype]
    a, b = (x.detach().cpu().view(torch.uint8) for x in (input, mat2))
    y = torch.zeros((a.shape[0], b.shape[1]), dtype=torch.float32)
    if a.shape[1] and y.numel():        # without products a result is +0, for every scale
        table, call = table_of(run), _ops.context_of(y.device).matmul
        contract = _words(contract, formats, use_fast_accum)
        options = {"contract": table.contract_now(contract) if table else contract,
                   "scheme": scheme, "out": y.numpy()}
        sizes = {"format": formats, "alpha": float(scale_a.cpu() * scale_b.cpu())}
        if table and table.wants():
            table.note(layer, role, call, (a.numpy(), b.numpy()), sizes, options)
        else:
            call(a.numpy(), b.numpy(), **sizes, **options)
    made = _stored(y, dtype, None if scale_result is None else scale_result.cpu())
    made = made.to(input.device)
    return made if out is None else out.copy_(made)


def scaled_mm(input: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None,
              scale_result: Any = None, out_dtype: Any = None, use_fast_accum: bool = False,
              unit: Optional[str] = None, contract: Optional[str] = None,
              scheme: Optional[str] = None) -> Any:
    """As torch._scaled_mm with one scale for each tensor, on a unit or by a contract, computed on
    the CPU.

    unit    "h100-scaled-mm" (if neither is named) or "ada-scaled-mm": the library call's own bits;
            use_fast_accum=True takes the preset of this name with -fast.  Into how many parts the
            library cuts k depends on the shape: " split=4" says four.  Words of any other unit"""
    given = {"unit": unit, "contract": contract, "scheme": scheme}
    if unit is None and contract is None:
        given["unit"] = "h100-scaled-mm"
    wishes = wishes_of({key: value for key, value in given.items() if value is not None},
                       "unit or contract")
    return compute(("\n".join(wishes), 0, "", 0), input, mat2, scale_a, scale_b, bias,
                   scale_result, out_dtype, use_fast_accum)
