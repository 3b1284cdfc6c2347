"""Reductions by functions of the program's."""

import ctypes
from typing import Any, Callable

from . import _library, dtypes, errors


class ReduceFunction(int):
    """A reduction by a function of the program's; see Communicator.reduce_function."""


def _numpy_type(kind: dtypes.DType) -> Any:
    import numpy  # pylint: disable=import-outside-toplevel
    if kind not in (dtypes.DType.BFLOAT16, dtypes.DType.FLOAT8_E4M3, dtypes.DType.FLOAT8_E5M2):
        return numpy.dtype(kind.name.lower())
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise errors.UnsupportedError(
            f"a function reduces {kind.name.lower()} with ml_dtypes, which is not installed; "
            f"install it, or reduce float32") from None
    name = "float8_e4m3fn" if kind == dtypes.DType.FLOAT8_E4M3 else kind.name.lower()
    return numpy.dtype(getattr(ml_dtypes, name))


def callback(function: Callable[..., Any], comm: ctypes.c_void_p) -> Any:
    """The rz_reduce_function_t of a Python function, to be kept as long as the library may call it.

    An exception in it aborts the communicator `comm`, and is the cause of the error that the
    library's call then ends with (_library.check).
    """
    import numpy  # pylint: disable=import-outside-toplevel
    is_ufunc = isinstance(function, numpy.ufunc)

    def view(address: int, count: int, kind: Any) -> Any:
        memory = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
        return numpy.frombuffer(memory, kind)

    def combine(result: int, a: int, b: int, count: int, dtype: int, _: Any) -> int:
        try:
            kind = _numpy_type(dtypes.DType(dtype))
            first, second, out = (view(address, count, kind) for address in (a, b, result))
            if is_ufunc:
                function(first, second, out=out, casting="same_kind")
            else:
                first.flags.writeable = second.flags.writeable = False
                numpy.copyto(out, function(first, second), casting="same_kind")
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            _library.raised.append(error)
            _library.library().rz_comm_abort(
                comm, f"{type(error).__name__} in a reduction: {error}".encode())
            return 1

    return _library.REDUCE_FUNCTION(combine)
