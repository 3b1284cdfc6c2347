"""What PyTorch's versions do differently, and tensors on memory that is not PyTorch's."""

import ctypes
import math
import weakref
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import torch
import torch.utils.dlpack

import ringzero
from ringzero import arrays, dtypes, errors
from ringzero.communicator import Communicator

DTYPES: Dict[torch.dtype, dtypes.DType] = {
    torch.float32: dtypes.DType.FLOAT32, torch.bfloat16: dtypes.DType.BFLOAT16}


def world_or(comm: Optional[Communicator]) -> Communicator:
    """The communicator, or the world, which is joined where that was not done."""
    if comm is not None:
        return comm
    return ringzero.world() if ringzero.is_initialized() else ringzero.init()


class _Managed(ctypes.Structure):
    # DLPack's DLManagedTensor.
    _fields_ = [("tensor", arrays.DLTensor), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


_allocate = ctypes.pythonapi.PyMem_RawMalloc
_allocate.restype = ctypes.c_void_p
_allocate.argtypes = [ctypes.c_size_t]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_DLPACK = {torch.float32: (2, 32), torch.bfloat16: (4, 16), torch.uint8: (1, 8)}


def view_of(memory: Any, dtype: torch.dtype, shape: Iterable[int],
            users: Iterable[Any] = ()) -> torch.Tensor:
    """A tensor on a ctypes array, which is kept as long as `users` are.

    The tensor itself keeps nothing: what PyTorch frees when the process ends, e.g. the graph of a
    backward pass that failed, must not need the interpreter, which is gone by then.
    """
    sizes = tuple(shape)
    if ctypes.sizeof(memory) == 0:
        return torch.empty(sizes, dtype=dtype)
    for user in users:
        weakref.finalize(user, len, memory).atexit = False
    code, bits = _DLPACK[dtype]
    count = math.prod(sizes)
    # PyTorch looks at it when the tensor ends, however late: it is never freed.
    managed = _Managed.from_address(_allocate(ctypes.sizeof(_Managed) + 8))
    shape_at = ctypes.c_int64.from_address(ctypes.addressof(managed) + ctypes.sizeof(_Managed))
    shape_at.value = count
    managed.tensor = arrays.DLTensor(
        ctypes.addressof(memory), 1, 0, 1, code, bits, 1,
        ctypes.cast(ctypes.addressof(shape_at), ctypes.POINTER(ctypes.c_int64)), None, 0)
    managed.context, managed.deleter = None, None
    capsule = _new_capsule(ctypes.addressof(managed), b"dltensor", None)
    return torch.utils.dlpack.from_dlpack(capsule).view(sizes)


def check_parameter(name: str, parameter: torch.Tensor) -> None:
    """That ringzero can hold a parameter.

    Raises:
      UnsupportedError: it is on a device, sparse, or of another type than float32 and bfloat16.
    """
    if parameter.device.type != "cpu" or parameter.layout != torch.strided:
        raise errors.UnsupportedError(
            f"parameter {name} is {parameter.layout} on {parameter.device}; ringzero.torch has dense "
            f"ones in host memory: model.cpu()")
    if parameter.dtype not in DTYPES:
        raise errors.UnsupportedError(
            f"parameter {name} is of {parameter.dtype}; expected torch.float32, or torch.bfloat16 "
            f"with float32 master weights: model.float() or model.bfloat16()")


def dense_gradient(name: str, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in one piece.

    Raises:
      UnsupportedError: it is sparse.
    """
    if gradient.layout != torch.strided:
        raise errors.UnsupportedError(
            f"the gradient of {name} is sparse; make the layer's gradients dense (sparse=False)")
    return gradient.detach().contiguous()


def after_accumulation(parameter: torch.Tensor, call: Callable[[], None]) -> Tuple[Any, Any]:
    """Calls back when the gradient of a backward pass has been added to parameter.grad.

    Returns:
      the hook's handle, and what has to be kept as long as it is to work.
    """
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(lambda _: call()), None
    # Before PyTorch 2.1: the node that accumulates, which a view's history leads to.
    with torch.enable_grad():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return node.register_hook(lambda *_: call()), node


def after_backward(call: Callable[[], None]) -> None:
    """Calls back at the end of the backward pass that is under way."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


def keep_freed_memory() -> None:
    """Lets what is freed be had again without new pages, which cost more than to write them.

    glibc takes blocks from the system each time until it has seen one as large freed, up to 32 MiB;
    it then keeps up to twice that. Other allocators, and settings of the user's, are not touched.
    """
    torch.empty((32 << 20) - (64 << 10), dtype=torch.uint8)


def resize_storage(tensor: torch.Tensor, elements: int) -> None:
    """Frees a tensor's memory (0 elements) or gives it back, under all its views."""
    if hasattr(tensor, "untyped_storage"):
        tensor.untyped_storage().resize_(elements * tensor.element_size())
    else:
        tensor.storage().resize_(elements)


def broadcast(comm: Communicator, tensors: Iterable[torch.Tensor]) -> None:
    """Makes tensors on every rank what rank 0 has."""
    with torch.no_grad(), comm.group():
        for tensor in tensors:
            kind = tensor.dtype
            if kind == torch.bool:
                comm.broadcast(tensor.view(torch.uint8))
            elif kind == torch.int16:
                comm.broadcast(tensor.view(torch.uint8) if tensor.dim() else tensor.view(1).view(
                    torch.uint8))
            else:
                comm.broadcast(tensor)
