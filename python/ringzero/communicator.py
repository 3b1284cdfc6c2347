"""Communicators: groups of ranks, what they hold, and how they end."""

import contextlib
import ctypes
import gc
import math
import operator
import sys
import weakref
from typing import (
    Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Union)

from . import _library, dtypes, errors, functions
from .collectives import Collectives
from .job import Job
from .loans import Loans
from .request import Request, call_in_background, call_interruptibly

_MANY_REQUESTS = 64  # as many are looked through for those that are done

_NUMERIC_MODES = {None: 0, "deterministic": 1, "fast": 2}


class PremulSum(int):
    """A reduction that multiplies every rank's array by a number and then sums; see premul_sum."""


class Group:
    """Operations that are started as one; see Communicator.group."""

    def __init__(self) -> None:
        self.buffers: List[Any] = []
        self.request: Optional[Request] = None

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all operations of a group with async_op=True are done; raises as Request."""
        if self.request is None:
            raise errors.FailedPreconditionError(
                "the group has not been started; leave its `with` first")
        self.request.wait(timeout)


class _Owner:
    """What the memory of an array of Communicator.empty goes with."""


class Communicator(Collectives):
    """Ranks that make calls together; ringzero.init() makes one of all ranks of a job.

    It is used by one thread at a time, which may change from call to call. After a failure (other
    than InvalidArgumentError, InvalidHandleError and WrongThreadError) it has failed for good, with
    all others of its job, and every later call raises that first cause.

    Args:
      job: whose ranks; one communicator a job, others come of split().
      timeout: seconds that an operation may take; default 300.
      numeric_mode: "deterministic" (the default: the same bits over algorithms) or "fast".
      algorithms: e.g. "all_reduce:ring"; default RZ_ALGO.
      flight_dir: where flight records go on failure; default RZ_FLIGHT_DIR.
      shared_memory: whether ranks of one host share memory.
    """

    def __init__(self, job: Job, timeout: float = 0, numeric_mode: Optional[str] = None,
                 algorithms: Optional[str] = None, flight_dir: Optional[str] = None,
                 shared_memory: bool = True) -> None:
        if numeric_mode not in _NUMERIC_MODES:
            raise errors.InvalidArgumentError(
                f"numeric_mode is {numeric_mode!r}; expected 'deterministic' or 'fast'")
        options = _library.CommOptions(
            ctypes.sizeof(_library.CommOptions), _NUMERIC_MODES[numeric_mode],
            _library.text(algorithms), timeout, _library.text(flight_dir), int(not shared_memory),
            0)
        handle = ctypes.c_void_p()
        call_in_background("rz_comm_create", job.handle, ctypes.byref(options),
                           ctypes.byref(handle))
        self._open(handle)

    def _open(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self.is_left = False  # an exception has ended its `with`, or a rebuilt one has its place
        self._job: Optional[Job] = None
        self._group: Optional[Group] = None
        self._requests: Set[Request] = set()
        self._many_requests = _MANY_REQUESTS
        self._splits: Set["Communicator"] = set()  # of this one and of those, still open
        self._parent: Optional["Communicator"] = None
        # What has to end before: every ringzero.zero.Zero, which views of its memory keep, and the
        # memory of arrays; and what can end a Zero of its own accord.
        self.loans = Loans()
        self.dependents: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._callbacks: List[Any] = []  # of reduce_function
        self.rank = self._number("rz_comm_rank")
        self.size = self._number("rz_comm_count")

    def _number(self, name: str) -> int:
        number = ctypes.c_int32()
        _library.call(name, self._handle, ctypes.byref(number))
        return number.value

    @property
    def handle(self) -> ctypes.c_void_p:
        """The rz_comm_t; null after close."""
        return self._handle

    @property
    def job(self) -> Optional[Job]:
        """The job that ends with this communicator, if any."""
        return self._job

    @property
    def hosts(self) -> int:
        """On how many hosts the ranks are, as far as known; 0: not known."""
        return self._number("rz_comm_hosts")

    def own(self, job: Job) -> None:
        """Lets close() end the job too."""
        self._job = job

    def keep(self, request: Request) -> None:
        """Keeps a request, and so its arrays, until it is done."""
        if len(self._requests) >= self._many_requests:  # perhaps nobody waits for them
            self._settle_requests()
            self._many_requests = max(_MANY_REQUESTS, 2 * len(self._requests))
        self._requests.add(request)

    def forget(self, request: Request) -> None:
        """Lets go of a request that is done."""
        self._requests.discard(request)

    def _submit(self, name: str, arguments: Sequence[Any], buffers: Any, result: Any,
                async_op: bool) -> Any:
        if self._group is not None:
            self._group.buffers.append(buffers)
            _library.call(name, *arguments, self._handle, None)
            return result
        if async_op:
            return Request(self, buffers, result).start(name, *arguments)
        call_interruptibly(self._handle, name, *arguments, self._handle, None)
        return result

    @contextlib.contextmanager
    def group(self, async_op: bool = False) -> Iterator[Group]:
        """Starts the operations within `with` as one, and waits for them at its end.

        Small all_reduces, all_gathers and broadcasts of one type travel packed. What an operation
        within it returns is not there before the end. With async_op=True the Group is waited for.
        An exception within it ends the group, but what was collected is started and waited for,
        since other ranks wait for it.
        """
        _library.call("rz_group_start", self._handle)
        self._group = Group()
        group = self._group
        try:
            yield group
        finally:
            self._group = None
            group.request = Request(self, group.buffers, None)
            if async_op:
                group.request.start("rz_group_end")
            else:
                call_interruptibly(self._handle, "rz_group_end", self._handle, None)

    def split(self, color: Optional[int], key: int = 0) -> Optional["Communicator"]:
        """Splits the ranks into new communicators. Collective.

        Args:
          color: the ranks of one color are together; None: this rank is in none.
          key: their order, by (key, rank).

        Returns:
          the communicator of this rank's color, with the options of this one; None without a color.
          It may outlive this one, but not the job: closing the world closes it too.
        """
        handle = ctypes.c_void_p()
        try:
            call_interruptibly(self._handle, "rz_comm_split", self._handle,
                               -1 if color is None else color, key, ctypes.byref(handle))
            if not handle:
                return None
            made = Communicator.__new__(Communicator)
            made._open(handle)  # pylint: disable=protected-access
            made._parent = self._parent or self
            made._parent._splits.add(made)
            return made
        except BaseException:
            self.loans.add_unused("rz_comm_destroy", handle)
            raise

    def rebuild(self, min_ranks: int = 0, timeout: float = 0) -> "Communicator":
        """Goes on after a failure, with the ranks that are left; ringzero.rebuild() for the world.

        Collective among the ranks of the job that call it. This one, and what was split from it,
        stays failed and is still to be closed; the job is from now on the new one's.

        Args:
          min_ranks: fewer are an error; alike on all ranks; 0: one is enough.
          timeout: seconds to wait for ranks of which nothing is known; 0: 30.

        Returns:
          a communicator of all ranks that are left, in the order of their old ranks, with the
          options of this one.

        Raises:
          FailedPreconditionError: this one has not failed; the others have gone on; too few are left.
          TimeoutError: too few came in time.
          UnavailableError: the rendezvous is not reached, or a rank has failed again: call it again.
        """
        options = _library.RebuildOptions(ctypes.sizeof(_library.RebuildOptions),
                                          _library.int32_field("min_ranks", min_ranks), timeout)
        handle = ctypes.c_void_p()
        call_in_background("rz_comm_rebuild", self._handle, ctypes.byref(options),
                           ctypes.byref(handle))
        made = Communicator.__new__(Communicator)
        made._open(handle)  # pylint: disable=protected-access
        whole = self._parent or self
        made._job, whole._job = whole._job, None
        return made

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "float32") -> Any:
        """A NumPy array of zeros that ranks of one host reach: calls of such arrays copy nothing.

        It is freed with its last view; close() raises as long as there is one. Not collective.

        Raises:
          OutOfMemoryError: there is not so much shared memory.
        """
        import numpy  # pylint: disable=import-outside-toplevel
        wanted = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
        kind = numpy.dtype(dtype)
        nbytes = math.prod(wanted) * kind.itemsize
        if nbytes == 0 or min(wanted, default=0) < 0 or nbytes > sys.maxsize:
            return numpy.empty(wanted, kind)  # which says what is wrong
        self.loans.end_unused()
        owner, pointer = _Owner(), ctypes.c_void_p()
        self.loans.add(owner, "rz_mem_free", pointer, self._handle, at_once=True)
        _library.call("rz_mem_alloc", ctypes.byref(pointer), nbytes, self._handle)
        memory: Any = (ctypes.c_uint8 * nbytes).from_address(pointer.value or 0)
        memory.owner = owner  # the array keeps `memory`
        return numpy.frombuffer(memory, kind).reshape(wanted)

    def premul_sum(self, factor: Any, dtype: Any = "float32") -> PremulSum:
        """A reduction for `op`: every rank's array times factor, then summed.

        It ends with the communicator; there may be 64. Of float16, bfloat16 and float8 the factor
        is a float32.
        """
        kind = dtypes.of_any(dtype)
        ctype = _SCALARS.get(kind, ctypes.c_float)
        scalar, made = ctype(factor), ctypes.c_int32()
        _library.call("rz_op_create_premul_sum", ctypes.byref(made), ctypes.byref(scalar), kind,
                      self._handle)
        return PremulSum(made.value)

    def reduce_function(self, function: Callable[..., Any], *,
                        any_order: bool = False) -> functions.ReduceFunction:
        """A reduction for `op` by a function of two arrays: `function(a, b)` returns a op b.

        `function` is a NumPy ufunc of two arrays (numpy.bitwise_xor), or takes two read-only NumPy
        arrays of one length, pieces of the ranks' arrays, elements of which it combines one by one,
        and returns an array or a number. It keeps none of them, and calls nothing of ringzero. What
        it raises ends the call with AbortedError, whose __cause__ it is, and the communicator on all
        ranks. Ranks make their functions in the same order. The order of combination is that of
        rz_op_create: without any_order the same each time; a op b may differ from b op a only where
        that will do.

        It ends with the communicator; there may be 64, those of premul_sum among them.

        Args:
          any_order: no order of combination changes a bit, as of xor: faster algorithms may be used.
        """
        made, called = ctypes.c_int32(), functions.callback(function, self._handle)
        _library.call("rz_op_create", ctypes.byref(made), called, None, int(any_order),
                      self._handle)
        self._callbacks.append(called)
        return functions.ReduceFunction(made.value)

    def abort(self, cause: str) -> None:
        """Ends all operations of the job on all ranks, from any thread; still to be closed."""
        _library.call("rz_comm_abort", self._handle, _library.text(cause))

    def error(self) -> Optional[errors.Error]:
        """What the communicator has failed with; None: it has not. From any thread."""
        result, text = ctypes.c_int32(), ctypes.create_string_buffer(4096)
        _library.call("rz_comm_get_error", self._handle, ctypes.byref(result), text, len(text))
        if result.value == 0:
            return None
        return errors.of_status(result.value, text.value.decode("utf-8", "replace"))

    def metrics(self) -> Dict[str, int]:
        """Bytes this rank has sent, by operation; what ranks read from shared memory is not sent."""
        filled = _library.CommMetrics(ctypes.sizeof(_library.CommMetrics))
        _library.call("rz_comm_get_metrics", self._handle, ctypes.byref(filled))
        return {name: getattr(filled, name) for name, *_ in filled._fields_ if name != "size"}

    def dump_flight_record(self, directory: str) -> None:
        """Writes the last calls and where each stands to a file there; rz_flight reads them."""
        _library.call("rz_comm_dump_flight_record", self._handle, _library.text(directory))

    def close(self) -> None:
        """Ends it, and the job where ringzero.init made both. Again: nothing happens.

        Raises:
          FailedPreconditionError: an operation is under way, or arrays of empty() or a Zero of it
            are still there; nothing has happened.
        """
        if self._job is not None or self.is_left:
            for split in list(self._splits):
                split.close()
        for dependent in list(self.dependents):
            dependent.close()
        if self._handle:
            self._check_unused()
            with contextlib.suppress(errors.InvalidHandleError):  # ended when an interrupt came
                _library.call("rz_comm_destroy", self._handle)
            self._handle = ctypes.c_void_p()
            self._requests.clear()
            if self._parent is not None:
                self._parent._splits.discard(self)
        if self._job is not None:
            self._job.close()

    def _settle_requests(self) -> None:
        # Those that are done, or have failed, keep no arrays then.
        for request in list(self._requests):
            with contextlib.suppress(errors.Error):
                request.test()

    def _check_unused(self) -> None:
        self._settle_requests()
        if self.loans.count("rz_mem_free") + self.loans.count("rz_zero_destroy") > 0:
            gc.collect()  # they may be in cycles of references, e.g. of an exception
        arrays = self.loans.count("rz_mem_free")
        if arrays > 0:
            raise errors.FailedPreconditionError(
                f"arrays of empty() of this communicator: {arrays}; let go of them and of all their "
                f"views first")
        optimizers = self.loans.count("rz_zero_destroy")
        if optimizers > 0:
            raise errors.FailedPreconditionError(
                f"optimizers of this communicator: {optimizers}; close() them first")
        self.loans.end_unused()

    def close_at_exit(self) -> None:
        """Ends it as far as that goes, when the program ends: arrays of empty() are given back."""
        with contextlib.suppress(errors.Error):
            for comm in (self, *self._splits):
                for dependent in list(comm.dependents):
                    dependent.close()
                comm.loans.end_all_of("rz_zero_destroy")
                comm.loans.end_all_of("rz_mem_free")
            self.close()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is None or isinstance(error, SystemExit) and not error.code:
            self.close()
            return
        # The exception may keep arrays; then it stays open until they are gone, or the program.
        self.is_left = True
        with contextlib.suppress(errors.Error):
            if self._job is not None and self._job.handle:
                self._job.fail(f"{kind.__name__}: {error}")
            self.close()

    def __repr__(self) -> str:
        return f"<ringzero.Communicator rank {self.rank} of {self.size}>"


_SCALARS: Dict[dtypes.DType, Any] = {
    dtypes.DType.FLOAT64: ctypes.c_double, dtypes.DType.INT64: ctypes.c_int64,
    dtypes.DType.UINT64: ctypes.c_uint64, dtypes.DType.INT32: ctypes.c_int32,
    dtypes.DType.UINT32: ctypes.c_uint32, dtypes.DType.INT8: ctypes.c_int8,
    dtypes.DType.UINT8: ctypes.c_uint8}
