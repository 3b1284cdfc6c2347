"""Exceptions, one for each result of the C interface; all of them are Error."""

import builtins
from typing import Dict, Optional, Type


class Error(RuntimeError):
    """What ringzero could not do: expected, found, and what to do next, in words.

    `status` is the rz_result_t that the exception stands for.
    """

    status = 15


class InvalidArgumentError(Error, ValueError):
    """A value that cannot be. Nothing has happened; what it was called on stays usable."""

    status = 1


class InvalidHandleError(Error):
    """Used after it was closed."""

    status = 2


class WrongThreadError(Error):
    """Another thread is within a call of this job; nothing has happened."""

    status = 3


class ForkedError(Error):
    """This process was forked from one that used ringzero; start it with `spawn` instead."""

    status = 4


class FailedPreconditionError(Error):
    """Not in this state, or the ranks made calls that do not belong together."""

    status = 5


class TimeoutError(Error, builtins.TimeoutError):  # pylint: disable=redefined-builtin
    """Not done in time; the text says what was waited for."""

    status = 6


class UnavailableError(Error, ConnectionError):
    """A rank has failed, or a rank or the rendezvous cannot be reached."""

    status = 7


class AbortedError(Error):
    """Ended by Communicator.abort, by Ctrl-C, or by a reduce_function that has raised."""

    status = 8


class OutOfMemoryError(Error, MemoryError):
    """Not enough memory, shared memory, or communicator numbers."""

    status = 9


class UnsupportedError(Error, NotImplementedError):
    """Known, but not done by this library, this machine, or this module."""

    status = 10


class PermissionDeniedError(Error, PermissionError):
    """The rendezvous asks for a token, or for another one."""

    status = 11


class AlreadyExistsError(Error):
    """Another live process has this rank."""

    status = 12


class OutOfRangeError(Error):
    """Gradients that are not finite have ended a training run."""

    status = 13


class LibraryError(Error, ImportError):
    """libringzero.so is missing, or a part of it is, or it is of another version."""

    status = 14


class InternalError(Error):
    """A defect of ringzero."""

    status = 15


_BY_STATUS: Dict[int, Type[Error]] = {
    kind.status: kind
    for kind in (
        InvalidArgumentError, InvalidHandleError, WrongThreadError, ForkedError,
        FailedPreconditionError, TimeoutError, UnavailableError, AbortedError, OutOfMemoryError,
        UnsupportedError, PermissionDeniedError, AlreadyExistsError, OutOfRangeError, LibraryError,
        InternalError)
}


def of_status(status: int, text: Optional[str]) -> Error:
    """The exception for a result that is not 0, with the library's text."""
    kind = _BY_STATUS.get(status, InternalError)
    return kind(text or f"result {status} without a text")
