"""The memory of NumPy arrays, PyTorch tensors, DLPack producers and buffers.

Nothing is copied here: a Buffer is where the elements are. Arrays that are not C-contiguous, not in
this machine's memory or not in its byte order are errors, and so are read-only ones to be written.
"""

import ctypes
import math
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import dtypes, errors


class Buffer(NamedTuple):
    """Elements in memory, which `owner` keeps alive."""

    address: Optional[int]  # None: no elements
    count: int
    dtype: dtypes.DType
    shape: Tuple[int, ...]
    readonly: bool
    owner: Any


def _contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], unit: int) -> bool:
    if strides is None:
        return True
    expected = unit
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 0:
            return True
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _strided(strides: Any) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"the array is not C-contiguous (strides {tuple(strides)}); pass a copy, e.g. "
        f"numpy.ascontiguousarray(array) or tensor.contiguous(), and write results back yourself")


def _of_numpy(array: Any) -> Buffer:
    if hasattr(array, "mask"):
        raise errors.InvalidArgumentError(
            "the array is masked, and masks are not sent; pass array.data, or array.filled(value)")
    interface = array.__array_interface__
    if interface["typestr"][0] == (">" if sys.byteorder == "little" else "<"):
        raise errors.InvalidArgumentError(
            f"elements of type {interface['typestr']} are not in this machine's byte order; convert "
            f"them with array.astype(array.dtype.newbyteorder('='))")
    if interface.get("strides") is not None and not array.flags.c_contiguous:
        raise _strided(interface["strides"])
    shape = interface["shape"]
    address, readonly = interface["data"]
    return Buffer(address, math.prod(shape), dtypes.of_name(array.dtype.name), shape, readonly,
                  array)


def _of_torch(tensor: Any) -> Buffer:
    if tensor.device.type != "cpu":
        raise errors.UnsupportedError(
            f"the tensor is on {tensor.device}; this module moves host memory: pass tensor.cpu()")
    if not tensor.is_contiguous():
        raise _strided(tensor.stride())
    name = str(tensor.dtype).rpartition(".")[2]
    count = tensor.numel()
    return Buffer(tensor.data_ptr() if count else None, count, dtypes.of_name(name),
                  tuple(tensor.shape), False, tensor)


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor, the first member of a DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_HOST_DEVICES = (1, 3)  # the CPU's memory, and such that is pinned for CUDA

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(array: Any) -> Buffer:
    # The capsule is never consumed, so its own destructor lets go of the memory.
    capsule = array.__dlpack__()
    tensor = DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if tensor.device_type not in _HOST_DEVICES:
        raise errors.UnsupportedError(
            f"the array is on DLPack device {tensor.device_type}; this module moves host memory: "
            f"copy it to the CPU")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    if not _contiguous(shape, strides, 1):
        raise _strided(strides)
    count = math.prod(shape)
    address = (tensor.data or 0) + tensor.byte_offset if count else None
    return Buffer(address, count, dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes), shape,
                  False, (array, capsule))


class _PyBuffer(ctypes.Structure):
    # Python's Py_buffer.
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


def _of_buffer(view: memoryview) -> Buffer:
    # `view` keeps the memory where it is as long as the Buffer has it.
    if not view.c_contiguous:
        raise _strided(view.strides)
    raw = _PyBuffer()
    _get_buffer(view, ctypes.byref(raw), 0)
    address = raw.buf
    _release_buffer(ctypes.byref(raw))
    dtype = dtypes.of_format(view.format, view.itemsize)
    return Buffer(address if view.nbytes else None, math.prod(view.shape), dtype,
                  tuple(view.shape), view.readonly, view)


def buffer_of(array: Any) -> Buffer:
    """Where the elements of `array` are.

    Args:
      array: a NumPy array, a PyTorch tensor in host memory, or anything else with `__dlpack__` or
        the buffer protocol (bytearray, array.array, memoryview); C-contiguous.

    Raises:
      TypeError: it is nothing of that kind.
      InvalidArgumentError: it is not contiguous, or of elements that ringzero does not have.
      UnsupportedError: it is in the memory of a device.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return _of_numpy(array)
    if hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
        return _of_torch(array)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            f"expected an array with the buffer protocol or __dlpack__, found "
            f"{type(array).__name__}; make one of it with numpy.asarray") from None
    return _of_buffer(view)


def writable_buffer_of(array: Any) -> Buffer:
    """The same, of an array that results go into.

    Raises:
      InvalidArgumentError: it is read-only; otherwise as buffer_of.
    """
    buffer = buffer_of(array)
    if buffer.readonly:
        raise errors.InvalidArgumentError(
            f"the {type(array).__name__} is read-only, and the result would be written into it; "
            f"pass a copy, or another array as out=")
    return buffer


def empty_like(array: Any, shape: Sequence[int]) -> Any:
    """A new array of another shape: a PyTorch tensor for one, otherwise a NumPy array.

    Raises:
      InvalidArgumentError: NumPy is not installed, or the array is none of NumPy's or PyTorch's.
    """
    if hasattr(array, "new_empty"):
        return array.new_empty(tuple(shape))
    if not hasattr(array, "dtype"):
        raise errors.InvalidArgumentError(
            f"there is no new {type(array).__name__} of shape {tuple(shape)} to be made; pass the "
            f"array for the result as out=")
    import numpy  # pylint: disable=import-outside-toplevel
    return numpy.empty(tuple(shape), array.dtype)
