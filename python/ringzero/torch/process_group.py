"""ringzero as a backend of torch.distributed: init_process_group("ringzero").

A process group is a job of its own, whose ranks meet through the store that torch gives it
(_meeting). Its calls become those of a Communicator, on tensors as _wire lays them out; what is
under way is a Work, which _progress moves.
"""

import contextlib
import inspect
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from ringzero import errors
from ringzero.communicator import Communicator

from . import _meeting, _wire
from ._ending import Ending
from ._progress import LONGEST_TIMEOUT, Progress, Work, seconds_of

NAME = "ringzero"


class ProcessGroup(dist.ProcessGroup):
    """The ranks of a torch.distributed process group over a ringzero communicator.

    torch.distributed's functions call it, with tensors in host memory. All raise ringzero.Error (a
    RuntimeError): InvalidArgumentError and UnsupportedError before any traffic, and what a
    Communicator raises, after which the group has failed on all ranks.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
        super().__init__(rank, size)
        seconds = seconds_of(timeout) or LONGEST_TIMEOUT
        job, server = _meeting.meet(store, rank, size, seconds)
        try:
            comm = Communicator(job, timeout=seconds)
        except BaseException:
            with contextlib.suppress(errors.Error):
                job.close()
            if server is not None:
                server.stop()
            raise
        self._comm = comm
        self._group_name = self._group_desc = ""
        self._size = size
        self._progress = Progress(comm, seconds)
        self._ending = Ending(job, server, self._progress)
        self._functions: Dict[str, Any] = {}  # of NumPy, as reductions of the communicator
        self._together: Optional[List[Work]] = None  # between start and end of coalescing
        # Whoever lets go of it without destroying it; what is alive at exit is ended there.
        weakref.finalize(self, self._ending.end_in_background).atexit = False

    # What torch asks a process group.

    def getBackendName(self) -> str:  # pylint: disable=invalid-name
        """The name that it was registered under."""
        return NAME

    # What torch says to a group's backends, of which this one has none.
    # pylint: disable=invalid-name
    def setGroupName(self, name: str) -> None:
        """What torch calls the group."""
        self._group_name = name

    def getGroupName(self) -> str:
        """That name."""
        return self._group_name

    def setGroupDesc(self, description: str) -> None:
        """What the program calls the group."""
        self._group_desc = description

    def getGroupDesc(self) -> str:
        """That description."""
        return self._group_desc
    # pylint: enable=invalid-name

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    def _get_backend(self, device: Any) -> "ProcessGroup":
        if torch.device(device).type != "cpu":
            raise errors.UnsupportedError(
                f"the backend ringzero has no {device}; it moves host memory")
        return self

    supports_splitting = False
    supports_coalescing = False

    def set_timeout(self, timeout: Any) -> None:
        """What operations from here on may take."""
        self._progress.seconds = seconds_of(timeout) or LONGEST_TIMEOUT

    def shutdown(self) -> None:
        """Ends it, once the other ranks have too, or some seconds are over."""
        self._ending.end("the process group was destroyed")

    def abort(self) -> None:
        """Ends all operations, on all ranks."""
        self._comm.abort("torch.distributed aborted the process group")
        self._ending.end("the process group was aborted")

    def _start(self, what: str, begin: Any, results: Sequence[Any],
               landings: Sequence[_wire.Landing], opts: Any = None, source: int = -1) -> Work:
        work = self._progress.start(what, begin, results, landings,
                                    getattr(opts, "timeout", None), source)
        if self._together is not None:
            self._together.append(work)
        return work

    def _op(self, reduction: _wire.Reduction) -> Any:
        """What ringzero takes for a reduction; made where it is needed first, as on all ranks."""
        if reduction.function is None:
            return reduction.op
        if reduction.op not in self._functions:
            self._functions[reduction.op] = self._comm.reduce_function(reduction.function,
                                                                       any_order=True)
        return self._functions[reduction.op]

    # Collectives. `opts` is torch's struct of each, with its defaults where torch gives none.

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        """Every tensor = the reduction over ranks."""
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """The same, of several as one."""
        given = _listed(tensors)
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        reductions = [_wire.reduction(op, tensor.dtype) for tensor in given]
        landings = [_wire.in_place(tensor) for tensor in given]
        for landing, reduction in zip(landings, reductions):
            if reduction.factor is not None:
                landing.memory.mul_(reduction.factor)
        return self._start("all_reduce", _as_one(
            lambda comm, landing, reduction, **how: comm.all_reduce(
                landing.memory, op=self._op(reduction), **how), landings, reductions),
            given, landings, opts)

    def reduce(self, tensors: Any, opts: Any) -> Work:
        """The root's tensor = the reduction over ranks."""
        (tensor,) = _listed(tensors)
        reduction = _wire.reduction(opts.reduceOp, tensor.dtype)
        root = opts.rootRank
        if self.rank() == root:
            landing = _wire.in_place(tensor)
            if reduction.factor is not None:
                landing.memory.mul_(reduction.factor)
            given = landing.memory
        else:
            given = reduction.scaled(_wire.sent(tensor))
            landing = _wire.Landing(given)
        return self._start("reduce", lambda comm: comm.reduce(
            given, root=root, op=self._op(reduction), async_op=True), [tensor], [landing], opts)

    def broadcast(self, tensors: Any, opts: Any) -> Work:
        """Every tensor = the root's."""
        (tensor,) = _listed(tensors)
        root = opts.rootRank
        landing = (_wire.Landing(_wire.sent(tensor)) if self.rank() == root
                   else _wire.landing(tensor))
        return self._start("broadcast", lambda comm: comm.broadcast(
            landing.memory, root=root, async_op=True), [tensor], [landing], opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Tensor r of the list = rank r's; their sizes may differ."""
        (given,), (taken,) = _listed(inputs), outputs
        _wire.one_each(taken, "output", self._size)
        sent = _wire.sent(given)
        memory, landings = _wire.landings(taken)
        counts = _wire.counts_of(taken, memory)
        return self._start("all_gather", lambda comm: comm.all_gather(
            sent, memory, counts, async_op=True), [taken], landings, opts)

    def allgather_coalesced(self, output_lists: Any, inputs: Any, opts: Any = None) -> Work:
        """The same, for several inputs; output_lists[r] has rank r's."""
        _wire.one_each(output_lists, "list of outputs", self._size)
        columns = [list(column) for column in zip(*output_lists)]
        sent = [_wire.sent(given) for given in inputs]
        targets = [_wire.landings(column) for column in columns]
        return self._start(
            "all_gather", _as_one(Communicator.all_gather, sent, [memory for memory, _ in targets]),
            [list(taken) for taken in output_lists],
            [landing for _, landings in targets for landing in landings], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Every output = all ranks' inputs, one after the other."""
        sent = [_wire.sent(given) for given in inputs]
        landings = [_wire.landing(taken) for taken in outputs]
        return self._start(
            "all_gather",
            _as_one(Communicator.all_gather, sent, [landing.memory for landing in landings]),
            list(outputs), landings, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> Work:
        """The same, of one tensor."""
        return self.all_gather_single_coalesced([output], [given], opts)

    _allgather_base = all_gather_single

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Work:
        """The root's tensor r = rank r's."""
        (given,) = _listed(inputs)
        taken = list(outputs[0]) if outputs else []
        root = opts.rootRank
        sent = _wire.sent(given)
        memory, landings = None, []
        if self.rank() == root:
            _wire.one_each(taken, "output", self._size)
            memory, landings = _wire.landings(taken)
        return self._start("gather", lambda comm: comm.gather(
            sent, memory, root=root, async_op=True), [taken], landings, opts)

    def gather_single(self, output: Any, given: Any, opts: Any) -> Work:
        """The root's output = all ranks' inputs, one after the other."""
        sent, landings = _wire.sent(given), []
        if self.rank() == opts.rootRank:
            landings = [_wire.landing(output)]
        return self._start("gather", lambda comm: comm.gather(
            sent, landings[0].memory if landings else None, root=opts.rootRank, async_op=True),
            [output] if landings else [], landings, opts)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Work:
        """Rank r's tensor = the root's input r."""
        (taken,) = _listed(outputs)
        landing = _wire.landing(taken)
        sent = None
        if self.rank() == opts.rootRank:
            _wire.one_each(inputs[0], "input", self._size)
            sent = _wire.packed(inputs[0])
        return self._start("scatter", lambda comm: comm.scatter(
            sent, landing.memory, root=opts.rootRank, async_op=True), [taken], [landing], opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Rank r's tensor = the reduction over ranks of input r; their sizes may differ."""
        (taken,), (given,) = _listed(outputs), inputs
        _wire.one_each(given, "input", self._size)
        reduction = _wire.reduction(getattr(opts, "reduceOp", dist.ReduceOp.SUM), taken.dtype)
        sent = reduction.scaled(_wire.packed(given))
        landing = _wire.landing(taken)
        counts = _wire.counts_of(given, sent)
        return self._start("reduce_scatter", lambda comm: comm.reduce_scatter(
            sent, landing.memory, self._op(reduction), counts, async_op=True), [taken], [landing],
            opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Every output = block `rank` of the reduction over ranks of its input."""
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        reductions = [_wire.reduction(op, given.dtype) for given in inputs]
        sent = [reduction.scaled(_wire.sent(given)) for reduction, given in zip(reductions, inputs)]
        landings = [_wire.landing(taken) for taken in outputs]
        return self._start("reduce_scatter", _as_one(
            lambda comm, flat, landing, reduction, **how: comm.reduce_scatter(
                flat, landing.memory, self._op(reduction), **how), sent, landings, reductions),
            list(outputs), landings, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> Work:
        """The same, of one tensor."""
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    _reduce_scatter_base = reduce_scatter_single

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Output r = rank r's input for this rank; all sizes may differ."""
        _wire.one_each(outputs, "output", self._size)
        _wire.one_each(inputs, "input", self._size)
        sent = _wire.packed(inputs)
        memory, landings = _wire.landings(outputs)
        to_ranks = _wire.counts_of(inputs, sent, True)
        from_ranks = _wire.counts_of(outputs, memory, True)
        return self._start("all_to_all", lambda comm: comm.all_to_all(
            sent, memory, to_ranks, from_ranks, async_op=True), list(outputs), landings, opts)

    def all_to_all_single(self, output: Any, given: Any, output_splits: Any, input_splits: Any,
                          opts: Any = None) -> Work:
        """The same out of and into one tensor, in rows of its first dimension; no splits: even."""
        sent, landing = _wire.sent(given), _wire.landing(output)
        to_ranks = _wire.counts_of_rows(given, sent, input_splits, "input", self._size)
        from_ranks = _wire.counts_of_rows(output, landing.memory, output_splits, "output",
                                          self._size)
        return self._start("all_to_all", lambda comm: comm.all_to_all(
            sent, landing.memory, to_ranks, from_ranks, async_op=True), [output], [landing], opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Work:
        """Done when every rank has called it."""
        return self._start("barrier", lambda comm: comm.barrier(async_op=True), [], [], opts)

    # Messages.

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Sends to a rank of the group."""
        (tensor,) = _listed(tensors)
        _check_tag(tag)
        sent = _wire.sent(tensor)
        return self._start("send", lambda comm: comm.send(sent, dst, async_op=True), [tensor], [])

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """Receives from a rank of the group: its n-th message of the same count and type."""
        (tensor,) = _listed(tensors)
        _check_tag(tag)
        landing = _wire.landing(tensor)
        return self._start("recv", lambda comm: comm.recv(landing.memory, src, async_op=True),
                           [tensor], [landing], source=src)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receives from the only other rank there is."""
        if self._size != 2:
            raise errors.UnsupportedError(
                f"ringzero receives from a rank that is named, and this group has {self._size}; give "
                f"src, e.g. dist.recv(tensor, src=0)")
        return self.recv(tensors, 1 - self.rank(), tag)

    # Coalescing, as _coalescing_manager does it: the calls between are started at once.

    def _start_coalescing(self, _device: Any = None) -> None:
        self._together = []

    start_coalescing = _start_coalescing

    def _end_coalescing(self, requests: Any = None) -> Any:
        works, self._together = self._together or [], None
        if isinstance(requests, list):  # PyTorch 1.13 has its own list of them
            return None
        return _Together(works)

    end_coalescing = _end_coalescing


class _Together(torch._C._distributed_c10d.Work):
    """Works that are waited for as one."""

    def __init__(self, works: List[Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: Any = None) -> bool:
        """Waits for all."""
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        """Whether all have ended."""
        return all(work.is_completed() for work in self._works)

    def get_future(self) -> Any:
        """A future of all their results, [works, tensors]."""
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(
            lambda all_of: [future.value() for future in all_of.value()])


def _as_one(call: Callable[..., Any], *columns: Sequence[Any]) -> Callable[[Communicator], Any]:
    """What begins `call(comm, *row)` for every row of the columns, as one operation."""
    rows = list(zip(*columns))

    def begin(comm: Communicator) -> Any:
        if len(rows) == 1:
            return call(comm, *rows[0], async_op=True)
        with comm.group(async_op=True) as group:
            for row in rows:
                call(comm, *row)
        return group
    return begin


def _listed(tensors: Any) -> List[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _check_tag(tag: int) -> None:
    if tag != 0:
        raise errors.UnsupportedError(
            f"the tag is {tag}; ringzero matches messages of two ranks in the order in which they "
            f"are sent and has no tags: leave it at 0")


def _create(store: Any, rank: int, size: int, timeout: Any) -> ProcessGroup:
    return ProcessGroup(store, rank, size, timeout)


def register() -> None:
    """Makes "ringzero" a backend of torch.distributed; `import ringzero.torch` has done it."""
    if NAME.upper() in dist.Backend._plugins:
        return
    options = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        options["devices"] = "cpu"
    dist.Backend.register_backend(NAME, _create, **options)
