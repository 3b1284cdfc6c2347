"""DataParallel: a model whose gradients are means over ranks, for any optimizer of PyTorch."""

import contextlib
import ctypes
from typing import Any, Iterator, List, Optional, Set

import torch

from ringzero import errors
from ringzero.communicator import Communicator

from . import _tensors


class _Bucket:
    """Gradients that are reduced together."""

    def __init__(self, memory: torch.Tensor, parameters: List[torch.Tensor]) -> None:
        self.parameters = parameters
        self.memory = memory
        self.views = [piece.view(parameter.shape) for piece, parameter in zip(
            self.memory.split([parameter.numel() for parameter in parameters]), parameters)]
        self.ready: Set[int] = set()
        self.request: Any = None

    def fill(self, position: int) -> None:
        """Brings a gradient here; parameter.grad is a view from then on."""
        parameter, view = self.parameters[position], self.views[position]
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad.data_ptr() != view.data_ptr():
            view.copy_(_tensors.dense_gradient("a parameter", parameter.grad))
        parameter.grad = view


class DataParallel(torch.nn.Module):
    """Wraps a model as torch's DistributedDataParallel does.

    The model starts from rank 0's parameters and buffers on all ranks. Gradients are reduced to their
    mean over ranks, bucket by bucket while backward goes on, and are there when it returns. They live
    in the buckets (a copy of each where zero_grad has set them to None; none with
    zero_grad(set_to_none=False)). A gradient that a rank does not have counts as zeros. All ranks
    call backward equally often. Used by one thread.

    Args:
      module: the model, float32 or bfloat16 in host memory.
      comm: whose ranks; default the world.
      bucket_bytes: gradients that are reduced together.

    Raises:
      UnsupportedError: a parameter is on a device or of another type.
    """

    def __init__(self, module: torch.nn.Module, comm: Optional[Communicator] = None,
                 bucket_bytes: int = 25 << 20) -> None:
        super().__init__()
        self.module = module
        self._comm = _tensors.world_or(comm)
        self._synchronizing = True
        self._waiting = False  # for the end of the backward pass under way
        self._next = 0  # the first bucket that has not been started: all ranks go in order
        _tensors.broadcast(self._comm, [p.data for p in module.parameters()] +
                           [b.data for b in module.buffers()])
        self._buckets: List[_Bucket] = []
        self._memory: Any = None  # of the buckets; tensors do not keep it
        self._hooks: List[Any] = []
        self._fill_buckets(bucket_bytes)
        self._comm.dependents.add(self)

    def _fill_buckets(self, bucket_bytes: int) -> None:
        held = 0
        together: List[List[torch.Tensor]] = []
        for name, parameter in reversed(list(self.module.named_parameters())):
            if not parameter.requires_grad:
                continue
            _tensors.check_parameter(name, parameter)
            nbytes = parameter.numel() * parameter.element_size()
            if (not together or held + nbytes > bucket_bytes or
                    together[-1][0].dtype != parameter.dtype):
                together.append([])
                held = 0
            together[-1].append(parameter)
            held += nbytes
        for parameters, memory in zip(together, self._memory_for(together)):
            bucket = _Bucket(memory, parameters)
            self._buckets.append(bucket)
            for position, parameter in enumerate(parameters):
                self._hooks.append(_tensors.after_accumulation(
                    parameter,
                    lambda bucket=bucket, position=position: self._ready(bucket, position)))

    def _memory_for(self, together: List[List[torch.Tensor]]) -> List[torch.Tensor]:
        # One region for all that is float32, which the ranks of this host share, so that nothing is
        # copied; NumPy has no bfloat16.
        counts = [sum(parameter.numel() for parameter in parameters) for parameters in together]
        shared = [count if parameters[0].dtype == torch.float32 else 0
                  for count, parameters in zip(counts, together)]
        self._memory = self._comm.empty(sum(shared))
        memory = (ctypes.c_uint8 * self._memory.nbytes).from_buffer(self._memory)
        pieces = _tensors.view_of(memory, torch.float32, [sum(shared)]).split(shared)
        return [piece if of_it == count else torch.zeros(count, dtype=parameters[0].dtype)
                for piece, of_it, count, parameters in zip(pieces, shared, counts, together)]

    def close(self) -> None:
        """Ends it: gradients become None, and backward is the model's own again."""
        for handle, _ in self._hooks:
            handle.remove()
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.grad = None
        self._hooks, self._buckets, self._memory = [], [], None
        self._comm.dependents.discard(self)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The model's forward."""
        return self.module(*inputs, **options)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward within it adds up gradients on this rank alone; the next one outside reduces."""
        before, self._synchronizing = self._synchronizing, False
        try:
            yield
        finally:
            self._synchronizing = before

    def _ready(self, bucket: _Bucket, position: int) -> None:
        if not self._synchronizing:
            return
        if not self._waiting:
            self._waiting = True
            _tensors.after_backward(self._finish)
        if position in bucket.ready:
            raise errors.FailedPreconditionError(
                "a backward pass before this one has failed, and its gradients are under way; make "
                "another DataParallel")
        bucket.fill(position)
        bucket.ready.add(position)
        while (self._next < len(self._buckets) and
               len(self._buckets[self._next].ready) == len(self._buckets[self._next].parameters)):
            self._start_next()

    def _start_next(self) -> None:
        bucket = self._buckets[self._next]
        self._next += 1
        bucket.request = self._comm.all_reduce(bucket.memory, op="mean", async_op=True)

    def _finish(self) -> None:
        while self._next < len(self._buckets):
            bucket = self._buckets[self._next]
            if len(bucket.ready) < len(bucket.parameters):
                for position in range(len(bucket.parameters)):
                    bucket.fill(position)
            self._start_next()
        for bucket in self._buckets:
            bucket.request.wait()
            bucket.ready, bucket.request = set(), None
        self._next, self._waiting = 0, False
