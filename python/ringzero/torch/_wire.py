"""Tensors as ringzero moves and reduces them: flat, dense, in host memory, of types that it has."""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ringzero import dtypes, errors

_NAMES = {kind.name.lower() for kind in dtypes.DType} | {"float8_e4m3fn"}


def _has(dtype: torch.dtype) -> bool:
    return str(dtype).rpartition(".")[2] in _NAMES


def check(tensor: torch.Tensor) -> None:
    """That a tensor can be moved.

    Raises:
      UnsupportedError: it is on a device, or not dense.
    """
    if tensor.device.type != "cpu":
        raise errors.UnsupportedError(
            f"the tensor is on {tensor.device}, and the backend ringzero moves host memory: pass "
            f"tensor.cpu(), or make the process group with another backend for that device")
    if tensor.layout != torch.strided:
        raise errors.UnsupportedError(
            f"the tensor is {tensor.layout}; expected a dense one: tensor.to_dense()")


def _moved(flat: torch.Tensor) -> torch.Tensor:
    """A flat tensor, as bytes where ringzero does not have its type."""
    return flat if _has(flat.dtype) else flat.view(torch.uint8)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Its memory holds its elements one after the other."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The elements, flat; a copy where they do not lie so."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)


def sent(tensor: torch.Tensor) -> torch.Tensor:
    """What is sent for a tensor; raises as check."""
    check(tensor)
    return _moved(_plain(tensor))


class Landing(NamedTuple):
    """Where a result is written, and the tensor that it is for, where that is another one."""

    memory: torch.Tensor  # flat
    home: Optional[torch.Tensor] = None

    def settle(self) -> None:
        """Brings what has come to its tensor."""
        if self.home is None:
            return
        # Within inference mode one may write into tensors of either kind.
        with torch.inference_mode():
            self.home.detach().copy_(self.memory.view(self.home.dtype).view(self.home.shape))


def landing(tensor: torch.Tensor) -> Landing:
    """Where a tensor's new elements go; raises as check."""
    check(tensor)
    if _is_plain(tensor):
        return Landing(_moved(tensor.detach().view(-1)))
    return Landing(_moved(torch.empty(tensor.numel(), dtype=tensor.dtype)), tensor)


def packed(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one type, one after the other; nothing is copied where they lie so already.

    Raises:
      InvalidArgumentError: they are of several types; otherwise as check.
    """
    one_type(tensors)
    adjacent = _adjacent(tensors)
    if adjacent is not None:
        return _moved(adjacent)
    return _moved(torch.cat([_plain(tensor) for tensor in tensors]))


def in_place(tensor: torch.Tensor) -> Landing:
    """Where a tensor's elements are, and its new ones go; raises as check."""
    found = landing(tensor)
    if found.home is not None:
        found.memory.copy_(sent(tensor))
    return found


def landings(tensors: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, List[Landing]]:
    """Memory for tensors one after the other, and what brings it to them; raises as packed."""
    one_type(tensors)
    adjacent = _adjacent(tensors)
    if adjacent is not None:
        return _moved(adjacent), []
    counts = [tensor.numel() for tensor in tensors]
    memory = torch.empty(sum(counts), dtype=tensors[0].dtype)
    return _moved(memory), [Landing(piece, tensor)
                            for piece, tensor in zip(memory.split(counts), tensors)]


def one_type(tensors: Sequence[torch.Tensor]) -> None:
    """That tensors can be moved together.

    Raises:
      InvalidArgumentError: they are of several types, or there are none; otherwise as check.
    """
    if not tensors:
        raise errors.InvalidArgumentError("the list of tensors is empty; expected at least one")
    for tensor in tensors:
        check(tensor)
        if tensor.dtype != tensors[0].dtype:
            raise errors.InvalidArgumentError(
                f"tensors of one call are of {tensors[0].dtype} and {tensor.dtype}; expected one "
                f"type")


def _storage(tensor: torch.Tensor) -> int:
    """Where the memory begins that a tensor has a piece of."""
    if hasattr(tensor, "untyped_storage"):
        return int(tensor.untyped_storage().data_ptr())
    return int(tensor.storage().data_ptr())  # before PyTorch 2.0


def _adjacent(tensors: Sequence[torch.Tensor]) -> Optional[torch.Tensor]:
    """The tensors as one flat view, where they are pieces of one storage in this order."""
    first = tensors[0]
    at = first.data_ptr()
    for tensor in tensors:
        if (_storage(tensor) != _storage(first) or tensor.data_ptr() != at or
                not _is_plain(tensor)):
            return None
        at += tensor.numel() * tensor.element_size()
    count = sum(tensor.numel() for tensor in tensors)
    return first.detach().as_strided((count,), (1,))


def counts_of(tensors: Sequence[torch.Tensor], flat: torch.Tensor,
               always: bool = False) -> Optional[List[int]]:
    """Elements of `flat` for each tensor; None where they are alike."""
    bytes_of_one = flat.element_size()
    counts = [tensor.numel() * tensor.element_size() // bytes_of_one for tensor in tensors]
    return counts if always or len(set(counts)) > 1 else None


def one_each(things: Sequence[Any], what: str, size: int) -> None:
    """That there is one for each rank.

    Raises:
      InvalidArgumentError: there are more, or fewer.
    """
    if len(things) != size:
        raise errors.InvalidArgumentError(
            f"there are {len(things)} {what}s; expected one for each of {size} ranks")


def counts_of_rows(tensor: torch.Tensor, flat: torch.Tensor, splits: Any, what: str,
                   size: int) -> List[int]:
    """Elements of `flat` for each rank, [N]: `splits` rows of `tensor`, without them equal parts.

    Raises:
      InvalidArgumentError: that are not all rows.
    """
    rows = tensor.shape[0] if tensor.dim() else 1
    if not splits:
        if rows % size != 0:
            raise errors.InvalidArgumentError(
                f"the {what} has {rows} rows, which are not {size} equal parts; give "
                f"{what}_split_sizes")
        splits = [rows // size] * size
    one_each(splits, f"{what} split", size)
    if sum(splits) != rows:
        raise errors.InvalidArgumentError(
            f"{what}_split_sizes {list(splits)} add up to {sum(splits)}, and the {what} has "
            f"{rows} rows")
    width = flat.numel() // rows if rows else 0
    return [int(split) * width for split in splits]


_OPS = torch.distributed.ReduceOp
_NUMBERS = [(_OPS.SUM, "sum"), (_OPS.AVG, "avg"), (_OPS.MIN, "min"), (_OPS.MAX, "max"),
            (_OPS.PRODUCT, "prod")]
# Of truth values, as bytes.
_TRUTHS = [(_OPS.SUM, "max"), (_OPS.MAX, "max"), (_OPS.BOR, "max"),
           (_OPS.PRODUCT, "min"), (_OPS.MIN, "min"), (_OPS.BAND, "min")]
# NumPy's, of whole numbers and truth values.
_BITS = [(_OPS.BAND, "bitwise_and"), (_OPS.BOR, "bitwise_or"), (_OPS.BXOR, "bitwise_xor")]


class Reduction(NamedTuple):
    """What a reduction does: ringzero's operation or NumPy's; a factor for what ranks give."""

    op: str
    factor: Any = None
    function: Any = None

    def scaled(self, flat: torch.Tensor) -> torch.Tensor:
        """What a rank gives; a copy where there is a factor."""
        return flat if self.factor is None else flat * self.factor


def _factor_of(op: Any) -> Any:
    state = op.__getstate__() if hasattr(op, "__getstate__") else None
    if not isinstance(state, tuple):
        raise errors.UnsupportedError(
            f"PyTorch {torch.__version__} does not tell Python the factor of a premul sum; multiply "
            f"the tensor and use ReduceOp.SUM")
    return state[1]


def _bitwise(op: Any, dtype: torch.dtype) -> Optional[Reduction]:
    name = next((name for known, name in _BITS if op == known), None)
    if name is None or dtype.is_floating_point or dtype.is_complex:
        return None
    try:
        import numpy  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return Reduction(name, function=getattr(numpy, name))


def reduction(op: Any, dtype: torch.dtype) -> Reduction:
    """How ringzero does a torch.distributed.ReduceOp of elements of a type.

    Raises:
      UnsupportedError: it does not; the text says what to do instead.
    """
    if hasattr(_OPS, "PREMUL_SUM") and op == _OPS.PREMUL_SUM and dtype.is_floating_point:
        return Reduction("sum", _factor_of(op))
    table = _TRUTHS if dtype == torch.bool else _NUMBERS
    name = next((name for known, name in table if op == known), None)
    bitwise = _bitwise(op, dtype) if name is None else None
    if bitwise is None and (name is None or (name == "avg" and not dtype.is_floating_point)):
        found = next((kind for kind in ("SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR",
                                        "PREMUL_SUM") if op == getattr(_OPS, kind, None)), op)
        raise errors.UnsupportedError(
            f"ringzero has no reduction {found} of {dtype}; it has SUM, MIN, MAX and PRODUCT, AVG "
            f"and premul sums of floats, and, with NumPy, BAND, BOR and BXOR of integers and bool")
    if dtype != torch.bool and not _has(dtype):
        raise errors.UnsupportedError(
            f"ringzero does not reduce {dtype}; expected one of {', '.join(sorted(_NAMES))} or bool: "
            f"convert the tensor")
    return bitwise or Reduction(str(name))
