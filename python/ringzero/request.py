"""Operations under way, and waits that Ctrl-C ends."""

import contextlib
import ctypes
import os
import select
import signal
import threading
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple

from . import _library, errors

if TYPE_CHECKING:
    from .communicator import Communicator


class _Interrupts:
    # 1. A wait within the library does not see Python's signal handlers, which run between byte
    #    codes; but the interpreter writes the signal's number to a pipe at once.
    # 2. A thread of ours reads it and aborts the communicator that is being waited for, which ends
    #    the wait. What somebody else had the numbers written to before, e.g. asyncio, gets them too.
    # 3. Back in Python, the pending KeyboardInterrupt is raised.
    def __init__(self) -> None:
        self._read_end = self._write_end = -1
        self._process = -1
        self._lock = threading.Lock()
        self._waiting: Optional[ctypes.c_void_p] = None
        self._others = -1  # descriptor

    def _start(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._process = os.getpid()
        threading.Thread(target=self._watch, name="ringzero interrupts", daemon=True).start()

    def _watch(self) -> None:
        arrived = select.poll()
        arrived.register(self._read_end, select.POLLIN)
        while True:
            arrived.poll()
            with self._lock:
                self._read()

    def _read(self) -> None:
        # Under the lock, since it has to be known still who waits and who else is to be told.
        try:
            numbers = os.read(self._read_end, 64)
        except BlockingIOError:
            return
        if self._others >= 0:
            with contextlib.suppress(OSError):
                os.write(self._others, numbers)
        if signal.SIGINT in numbers and self._waiting is not None:
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
        before, previous = (self._waiting, self._others), self._write_end
        try:
            previous = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
            with self._lock:
                self._waiting = comm
                if previous != self._write_end:  # of a wait whose callback this is
                    self._others = previous
            yield
        finally:
            signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
            with self._lock:
                self._waiting = before[0]
                self._read()
                self._others = before[1]


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
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    thread = threading.Thread(target=run, name=f"ringzero {name}", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


class Request:
    """An operation that was started with async_op=True.

    Until it is done its arrays belong to ringzero: they are neither to be read nor written. It moves
    only while this process is within a call of ringzero, or where an optimizer of the communicator
    has a progress thread, at any time.
    """

    def __init__(self, comm: "Communicator", buffers: Any, result: Any) -> None:
        self._comm = comm
        self._handle = ctypes.c_void_p()
        self._buffers = buffers
        self._result = result
        self._failure: Optional[Tuple[int, str]] = None  # what it ended with

    def start(self, name: str, *arguments: Any) -> "Request":
        """Starts the operation by a function of the library that takes the request last."""
        self._comm.keep(self)  # before the call: an interrupt right after it must not free arrays
        with self._settling():
            _library.call(name, *arguments, self._comm.handle, ctypes.byref(self._handle))
        self._raise_failure()
        return self

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits until it is done, and returns the array of the result.

        Args:
          timeout: seconds; None is the communicator's. Afterwards the communicator has failed.

        Raises:
          TimeoutError, UnavailableError, AbortedError, FailedPreconditionError: what it ended with.
          KeyboardInterrupt: Ctrl-C; the communicator is aborted, on all ranks.
        """
        if self._handle:
            with self._settling():
                call_interruptibly(self._comm.handle, "rz_wait", ctypes.byref(self._handle),
                                   timeout or 0.0)
        self._raise_failure()
        return self._result

    def test(self) -> bool:
        """Moves what can be moved without waiting; whether it is done. Raises as wait."""
        if self._handle:
            done = ctypes.c_int32()
            with self._settling():
                _library.call("rz_test", ctypes.byref(self._handle), ctypes.byref(done))
        if self._handle:
            return False
        self._raise_failure()
        return True

    @contextlib.contextmanager
    def _settling(self) -> Iterator[None]:
        # The handle is null after the call that ends the operation, whatever it raises.
        try:
            yield
        except errors.Error as error:
            if not self._handle:
                self._failure = (error.status, str(error))
            raise
        finally:
            if not self._handle:
                self._buffers = None
                self._comm.forget(self)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise errors.of_status(*self._failure)
