"""Element types and reductions, under the names of NumPy and PyTorch."""

import enum
import operator
import sys
from typing import Any, Union

from . import errors


class DType(enum.IntEnum):
    """An element type of ringzero; the value is its rz_dtype_t."""

    FLOAT32 = 0
    FLOAT64 = 1
    BFLOAT16 = 2
    FLOAT16 = 3
    INT32 = 4
    INT64 = 5
    INT8 = 6
    UINT8 = 7
    UINT32 = 8
    UINT64 = 9
    FLOAT8_E4M3 = 10
    FLOAT8_E5M2 = 11


class Op(enum.IntEnum):
    """A reduction; the value is its rz_op_t. AVG divides by the number of ranks, floats only."""

    SUM = 0
    MIN = 1
    MAX = 2
    AVG = 3
    PROD = 4


# What one may write for `op`; PremulSum and ReduceFunction are more of them.
OpLike = Union[Op, str, int]

_SIZES = {DType.FLOAT64: 8, DType.INT64: 8, DType.UINT64: 8, DType.FLOAT32: 4, DType.INT32: 4,
          DType.UINT32: 4, DType.BFLOAT16: 2, DType.FLOAT16: 2}

# NumPy's, ml_dtypes' and PyTorch's names.
_BY_NAME = {kind.name.lower(): kind for kind in DType}
_BY_NAME.update(float8_e4m3fn=DType.FLOAT8_E4M3)

_OPS = {kind.name.lower(): kind for kind in Op}
_OPS.update(mean=Op.AVG, average=Op.AVG, product=Op.PROD)

# DLPack's (code, bits): 0 signed, 1 unsigned, 2 float, 4 bfloat.
_BY_DLPACK = {(0, 8): DType.INT8, (0, 32): DType.INT32, (0, 64): DType.INT64,
              (1, 8): DType.UINT8, (1, 32): DType.UINT32, (1, 64): DType.UINT64,
              (2, 16): DType.FLOAT16, (2, 32): DType.FLOAT32, (2, 64): DType.FLOAT64,
              (4, 16): DType.BFLOAT16}

# The buffer protocol's letters are C types; their sizes are the machine's.
_SIGNED = {1: DType.INT8, 4: DType.INT32, 8: DType.INT64}
_UNSIGNED = {1: DType.UINT8, 4: DType.UINT32, 8: DType.UINT64}
_FLOAT = {2: DType.FLOAT16, 4: DType.FLOAT32, 8: DType.FLOAT64}


def size_of(dtype: DType) -> int:
    """Bytes of one element."""
    return _SIZES.get(dtype, 1)


def _unknown(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"elements of type {what} cannot be sent; expected one of {', '.join(_BY_NAME)} in this "
        f"machine's byte order. Convert it, or view it as uint8 to move bytes")


def of_name(name: str) -> DType:
    """The type of NumPy's or PyTorch's name.

    Raises:
      InvalidArgumentError: ringzero has no such type.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise _unknown(name)
    return found


def of_any(dtype: Any) -> DType:
    """The type of a name, a DType, or a type of NumPy, ml_dtypes or PyTorch; errors as of_name."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        return of_name(dtype)
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    return of_name(name or str(dtype).rpartition(".")[2])  # PyTorch's are torch.NAME


def of_dlpack(code: int, bits: int, lanes: int) -> DType:
    """The type of a DLDataType; errors as of_name."""
    found = _BY_DLPACK.get((code, bits)) if lanes == 1 else None
    if found is None:
        raise _unknown(f"(DLPack code {code}, {bits} bits, {lanes} lanes)")
    return found


def of_format(text: str, size: int) -> DType:
    """The type of a buffer's format, e.g. "f", and element size; errors as of_name."""
    letter = text.lstrip("@=<" if sys.byteorder == "little" else "@=>!")
    kinds = (_SIGNED if letter in "bhilqn" else _UNSIGNED if letter in "BHILQNc" else
             _FLOAT if letter in "efd" else {})
    found = kinds.get(size) if len(letter) == 1 else None
    if found is None:
        raise _unknown(f"{text!r} of {size} bytes")
    return found


def of_op(op: OpLike) -> int:
    """The rz_op_t of "sum", "min", "max", "avg" or "mean", "prod", an Op, PremulSum, ReduceFunction.

    Raises:
      InvalidArgumentError: there is no such reduction.
    """
    if callable(op):
        raise errors.InvalidArgumentError(
            "op is a function; make a reduction of it once, with reduce_function, and give that")
    found = _OPS.get(op.lower()) if isinstance(op, str) else op
    try:
        return operator.index(found)  # type: ignore[arg-type]
    except TypeError:
        raise errors.InvalidArgumentError(
            f"there is no reduction {op!r}; expected one of {', '.join(_OPS)}") from None
