"""ringzero: collective communication and sharding, from Python.

    import numpy as np
    import ringzero as rz

    rz.init()
    total = rz.all_reduce(np.ones(4, np.float32))

under `rz_run -n 4 -- python3 program.py`. docs/python.md is the introduction. The functions below
are those of the communicator that init() made; Communicator has them all, with their documentation.
ringzero.torch has ZeRO for PyTorch.
"""

import atexit
import contextlib
import functools
import os
from typing import Any, Callable, List, Optional, cast

from . import errors
from ._library import library as _library_of
from .collectives import Collectives
from .communicator import Communicator, Group, PremulSum
from .dtypes import DType, Op
from .errors import (
    AbortedError, AlreadyExistsError, Error, FailedPreconditionError, ForkedError, InternalError,
    InvalidArgumentError, InvalidHandleError, LibraryError, OutOfMemoryError, OutOfRangeError,
    PermissionDeniedError, TimeoutError, UnavailableError, UnsupportedError, WrongThreadError)
from .functions import ReduceFunction
from .job import Job, Server, cause_of_exit
from .request import Request
from .zero import Zero

__version__ = "0.1.0"

_world: Optional[Communicator] = None
_left: List[Communicator] = []  # ended by an exception that kept arrays of them, or rebuilt
_process = -1  # the one that called init()


def init(rendezvous: Optional[str] = None, job: Optional[str] = None,
         world_size: Optional[int] = None, rank: Optional[int] = None,
         token_file: Optional[str] = None, connect_timeout: float = 0, join_timeout: float = 0,
         transport: Optional[str] = None, **options: Any) -> Communicator:
    """Joins the job that the environment or the arguments name (see Job), and returns its world.

    Without any it is a world of one. The world is closed when the program ends, or by `with`, or by
    finalize(). Where a program ends through an exception, the other ranks are told.

    Args:
      options: of the Communicator: timeout, numeric_mode, algorithms, flight_dir, shared_memory.

    Raises:
      FailedPreconditionError: there is a world already.
      otherwise: as Job and Communicator.
    """
    global _world, _process  # pylint: disable=global-statement
    if is_initialized():
        raise FailedPreconditionError(
            "ringzero.init() was called before; use ringzero.world(), or finalize() first")
    if _world is not None and _world.handle:
        _left.append(_world)
    _end_left()
    joined = Job(rendezvous, job, world_size, rank, token_file, connect_timeout, join_timeout,
                 transport)
    try:
        _world = Communicator(joined, **options)
    except BaseException:
        with contextlib.suppress(Error):
            joined.close()
        raise
    _world.own(joined)
    _process = os.getpid()
    return _world


def world() -> Communicator:
    """The communicator of all ranks, which init() made.

    Raises:
      FailedPreconditionError: there is none.
    """
    if _world is None or not is_initialized():
        raise FailedPreconditionError("there is no communicator; call ringzero.init() first")
    return _world


def is_initialized() -> bool:
    """Whether init() has been called, and finalize() has not."""
    return _world is not None and bool(_world.handle) and not _world.is_left


def finalize() -> None:
    """Closes the world and ends its job; raises as Communicator.close. Without one: nothing."""
    if _world is not None:
        _world.close()


def rebuild(min_ranks: int = 0, timeout: float = 0) -> Communicator:
    """Goes on after a failure, with the ranks that are left: the new world, as Communicator.rebuild.

    The failed world is closed, or where arrays of its empty() are still there, when they are gone.
    """
    global _world  # pylint: disable=global-statement
    failed = world()
    _world = failed.rebuild(min_ranks, timeout)
    failed.is_left = True
    _left.append(failed)
    _end_left()
    return _world


def rank() -> int:
    """This process's rank in the world."""
    return world().rank


def size() -> int:
    """How many ranks the world has."""
    return world().size


def features() -> List[str]:
    """What the library can do, in words."""
    return _library_of().rz_features().decode().split()


def version() -> str:
    """The library's version."""
    return _library_of().rz_version_string().decode()


def _of_world(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(world(), method.__name__)(*arguments, **options)
    return cast(Callable[..., Any], call)


all_reduce = _of_world(Collectives.all_reduce)
reduce = _of_world(Collectives.reduce)
broadcast = _of_world(Collectives.broadcast)
reduce_scatter = _of_world(Collectives.reduce_scatter)
all_gather = _of_world(Collectives.all_gather)
gather = _of_world(Collectives.gather)
scatter = _of_world(Collectives.scatter)
all_to_all = _of_world(Collectives.all_to_all)
send = _of_world(Collectives.send)
recv = _of_world(Collectives.recv)
barrier = _of_world(Collectives.barrier)
group = _of_world(Communicator.group)
split = _of_world(Communicator.split)
empty = _of_world(Communicator.empty)
premul_sum = _of_world(Communicator.premul_sum)
reduce_function = _of_world(Communicator.reduce_function)
metrics = _of_world(Communicator.metrics)


def _end_left() -> None:
    for comm in list(_left):
        with contextlib.suppress(Error):
            comm.close()
            _left.remove(comm)


@atexit.register
def _close_at_exit() -> None:
    if os.getpid() != _process:
        return  # nothing was made, or this is a forked child and the world is its parent's
    _end_left()
    if _world is not None and _world.is_left:
        _left.append(_world)
    for comm in _left:
        comm.close_at_exit()
    if not is_initialized():
        return
    cause, joined = cause_of_exit(), world().job
    if cause is not None and joined is not None:
        with contextlib.suppress(Error):
            joined.fail(cause)
    world().close_at_exit()
