"""Operations under way, and waits that Ctrl-C ends."""

import contextlib
import ctypes
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Iterator, List, Optional

from . import _library, errors

if TYPE_CHECKING:
    from .communicator import Communicator


class _Interrupts:
    # 1. A wait within the library does not see Python's signal handlers, which run between byte
    #    codes; but the interpreter writes the signal's number to a pipe at once.
    # 2. A thread of ours reads it and aborts the communicator that is being waited for, which ends
    #    the wait.
    # 3. Back in Python, the pending KeyboardInterrupt is raised.
    def __init__(self) -> None:
        self._write_end = -1
        self._process = -1
        self._lock = threading.Lock()
        self._waiting: Optional[ctypes.c_void_p] = None

    def _start(self) -> None:
        read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._process = os.getpid()
        threading.Thread(target=self._watch, args=(read_end,), name="ringzero interrupts",
                         daemon=True).start()

    def _watch(self, read_end: int) -> None:
        while True:
            if signal.SIGINT not in os.read(read_end, 64):
                continue
            with self._lock:
                if self._waiting is not None:
                    _library.library().rz_comm_abort(self._waiting, b"interrupted by Ctrl-C")

    @contextlib.contextmanager
    def abort(self, comm: Optional[ctypes.c_void_p]) -> Iterator[None]:
        """Within it, an interrupt of the main thread aborts `comm`."""
        usual = (threading.current_thread() is threading.main_thread() and
                 signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        if not usual or comm is None:
            yield
            return
        if self._process != os.getpid():
            self._start()
        previous = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        with self._lock:
            self._waiting = comm
        try:
            yield
        finally:
            with self._lock:
                self._waiting = None
            signal.set_wakeup_fd(previous, warn_on_full_buffer=False)


_interrupts = _Interrupts()


def call_interruptibly(comm: Optional[ctypes.c_void_p], name: str, *arguments: Any) -> None:
    """Calls a function that may wait; Ctrl-C aborts the communicator and is raised."""
    with _interrupts.abort(comm):
        _library.call(name, *arguments)


def call_in_background(name: str, *arguments: Any) -> None:
    """Calls a function that may wait long and has no communicator yet, so that Ctrl-C ends it.

    The function goes on in a thread of its own until its time is over.
    """
    _library.library()
    failures: List[BaseException] = []

    def run() -> None:
        try:
            _library.call(name, *arguments)
        except errors.Error as error:
            failures.append(error)

    thread = threading.Thread(target=run, name=f"ringzero {name}", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


class Request:
    """An operation that was started with async_op=True.

    Until it is done its arrays belong to ringzero: they are neither to be read nor written. It moves
    only while this process is within a call of ringzero.
    """

    def __init__(self, comm: "Communicator", handle: ctypes.c_void_p, buffers: Any,
                 result: Any) -> None:
        self._comm = comm
        self._handle = handle
        self._buffers = buffers
        self._result = result
        comm.keep(self)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until it is done, and returns the array of the result.

        Args:
          timeout: seconds; None is the communicator's. Afterwards the communicator has failed.

        Raises:
          TimeoutError, UnavailableError, AbortedError, FailedPreconditionError: what it ended with.
          KeyboardInterrupt: Ctrl-C; the communicator is aborted, on all ranks.
        """
        if self._handle:
            try:
                call_interruptibly(self._comm.handle, "rz_wait", ctypes.byref(self._handle),
                                   timeout or 0.0)
            finally:
                self._settle()
        return self._result

    def test(self) -> bool:
        """Moves what can be moved without waiting; whether it is done. Raises as wait."""
        if self._handle:
            done = ctypes.c_int32()
            try:
                _library.call("rz_test", ctypes.byref(self._handle), ctypes.byref(done))
            finally:
                self._settle()
        return not self._handle

    def _settle(self) -> None:
        if not self._handle:
            self._buffers = None
            self._comm.forget(self)
