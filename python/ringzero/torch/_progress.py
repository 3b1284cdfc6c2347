"""Works: operations of a process group under way, and the thread that moves them.

1. Operations of ringzero move while a call of their job is made, by one thread at a time, and
   torch.distributed's are to move, and to end, while the program does something else. So every call
   is made under a lock, and as long as something is under way either a thread that waits for it or
   the group's own thread tests it again and again, with pauses that grow with the time that nothing
   moved.
2. While a thread waits, the group's own leaves the moving to it. Calls that are waited for at once
   never meet it: it begins some time after the call, and at once where a future was asked for, as
   DistributedDataParallel does.
3. Who finds an operation done brings its results to their tensors and sets its future, outside the
   lock: callbacks may make calls, and wait for them. Where one does so on the group's thread, another
   thread takes its place.
"""

import collections
import datetime
import os
import threading
import time
from typing import Any, Callable, Deque, List, Optional, Sequence

import torch
import torch.distributed  # pylint: disable=unused-import

from ringzero import errors
from ringzero.communicator import Communicator

from ._wire import Landing

# Seconds. What is not waited for within _GRACE is moved by the thread, which goes on looking for
# new calls for _LINGER. Where nothing has moved, who looks yields for a while, and then sleeps.
_GRACE = 1e-3
_LINGER = 0.02
_SPIN = 2e-4
_SPIN_OF_A_WAIT = 1e-3
_MOVING = 2e-5  # a look that takes longer has moved something
_SHORTEST_PAUSE = 2e-5
_LONGEST_PAUSE = 5e-4

# The library's longest wait.
LONGEST_TIMEOUT = 86400.0

# Until PyTorch wrapped the works that Python gives to C++, those died with their Python object; the
# C++ code that calls waits for them soon.
_KEPT = 64


def seconds_of(timeout: Any) -> Optional[float]:
    """Seconds of a timedelta; None where it is none or not above zero: torch's defaults."""
    if not isinstance(timeout, datetime.timedelta) or timeout <= datetime.timedelta(0):
        return None
    return min(timeout.total_seconds(), LONGEST_TIMEOUT)


def _pause(waited: float, spin: float = _SPIN) -> None:
    """Lets others go on, for longer the longer nothing has moved."""
    if waited < spin:
        os.sched_yield()
    else:
        time.sleep(min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, waited / 20)))


class Work(torch._C._distributed_c10d.Work):
    """An operation under way. Its tensors belong to ringzero until it is done.

    `wait` raises what the operation ended with (ringzero.Error, a RuntimeError); the future of
    `get_future` has a RuntimeError with that text.
    """

    def __init__(self, progress: "Progress", what: str, request: Any, results: Sequence[Any],
                 landings: Sequence[Landing], seconds: float, source: int) -> None:
        super().__init__()
        self.request = request
        self.what = what
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        self.is_message = what in ("send", "recv")
        self._progress = progress
        self._results = list(results)
        self._landings = list(landings)
        self._source = source
        self._done = False
        self._error: Optional[BaseException] = None
        self._future: Any = None
        self._lock = threading.Lock()

    # For Progress.

    @property
    def done(self) -> bool:
        """It has ended, its results are where they belong."""
        return self._done

    def finish(self, error: Optional[BaseException]) -> None:
        """Ends it; once, by who has taken it out of what is under way."""
        try:
            if error is None:
                for landing in self._landings:
                    landing.settle()
        except RuntimeError as failure:
            error = failure
        self._landings, self.request = [], None
        with self._lock:
            self._error, self._done = error, True
            future = self._future
        if future is not None:
            future.set_result(self._results)

    # torch.distributed.Work.

    def wait(self, timeout: Any = None) -> bool:
        """Waits until it is done: at most `timeout`, by default what the group was made with."""
        self._progress.await_end(self, seconds_of(timeout))
        self._progress.release(self)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """The same."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        if not self._done:
            self._progress.move()
        return self._done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._done and self._error is None

    def exception(self) -> Optional[BaseException]:
        """What it has ended with; None: well, or not yet."""
        return self._error

    def result(self) -> List[Any]:
        """The tensors with what has come."""
        return self._results

    def source_rank(self) -> int:
        """The rank within the group that a message comes from."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A torch.futures.Future with the result's tensors."""
        with self._lock:
            is_first = self._future is None
            if is_first:
                self._future = torch.futures.Future()
            future, done = self._future, self._done
        # Raising within it is Python's only way to an error that C++ sees.
        answer = future.then(self._value)
        if not done:
            self._progress.hurry()
        elif is_first:
            future.set_result(self._results)
        self._progress.release(self)
        return answer

    def _value(self, future: Any) -> List[Any]:
        if self._error is not None:
            raise self._error
        return list(future.value())


class Progress:
    """What is under way on a communicator. Any thread.

    Args:
      comm: nobody else calls it.
      seconds: what operations may take.
    """

    def __init__(self, comm: Communicator, seconds: float) -> None:
        self.comm = comm
        self.seconds = seconds
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._hurry = threading.Event()
        self._collectives: Deque[Work] = collections.deque()
        self._messages: List[Work] = []
        self._kept: Deque[Work] = collections.deque(maxlen=_KEPT)
        self._waiting = 0  # threads in await_end
        self._moved = 0.0  # when something moved last
        self._asleep = False
        self._closed: Optional[str] = None
        self._thread: Optional[threading.Thread] = None

    def start(self, what: str, begin: Callable[[Communicator], Any], results: Sequence[Any],
              landings: Sequence[Landing], timeout: Any = None, source: int = -1) -> Work:
        """Starts an operation.

        Args:
          what: its name; "send" and "recv" are outside the order of the others.
          begin: starts it and returns its ringzero.Request, or Group.
          results: the tensors that the result is in at the end.
          landings: what brings it there.
          timeout: a timedelta that torch gave; otherwise the group's.

        Raises:
          InvalidHandleError: the process group was destroyed.
          ForkedError: this is a child of the process that made it.
          otherwise: what the call raises.
        """
        if self._process != os.getpid():
            raise errors.ForkedError(
                "this process was forked from one that had made the process group; make groups in "
                "the process that uses them, or start it with `spawn`")
        seconds = seconds_of(timeout) or self.seconds
        with self._lock:
            if self._closed is not None:
                raise errors.InvalidHandleError(f"{what}: {self._closed}")
            begun = begin(self.comm)
            work = Work(self, what, getattr(begun, "request", begun), results, landings, seconds,
                        source)
            (self._messages if work.is_message else self._collectives).append(work)
            self._kept.append(work)
            if self._thread is None or self._thread is threading.current_thread():
                self._thread = threading.Thread(target=self._run, daemon=True,
                                                name="ringzero process group")
                self._thread.start()
            elif self._asleep:
                self._news.notify()
        return work

    def hurry(self) -> None:
        """Lets the thread move without waiting for anybody else to."""
        self._hurry.set()

    def release(self, work: Work) -> None:
        """Whoever waits for a work has it: it needs not be kept for C++."""
        try:
            self._kept.remove(work)
        except ValueError:
            pass

    def move(self) -> None:
        """Moves what can be moved without waiting, and finishes what is done."""
        with self._lock:
            ended = self._test()
        self._finish(ended)

    def await_end(self, work: Work, seconds: Optional[float]) -> None:
        """Moves until a work is done; it ends with a TimeoutError where that takes too long."""
        since = time.monotonic()
        if seconds is not None:
            work.deadline, work.seconds = since + seconds, seconds
        counted = 0
        try:
            with self._lock:
                self._waiting += 1
                counted = 1
                self._moved = max(self._moved, since)
            while not work.done:
                self.move()
                if not work.done:
                    _pause(time.monotonic() - self._moved, _SPIN_OF_A_WAIT)
        except KeyboardInterrupt:
            self.comm.abort("interrupted by Ctrl-C")
            raise
        finally:
            with self._lock:
                self._waiting -= counted

    def _pending(self) -> List[Work]:
        return [*self._collectives, *self._messages]

    def _test(self) -> List[Any]:
        # With the lock. Collectives end in order; messages do not.
        ended: List[Any] = []
        began = time.monotonic()
        while self._collectives and self._has_ended(self._collectives[0], ended):
            self._collectives.popleft()
        self._messages = [work for work in self._messages if not self._has_ended(work, ended)]
        now = time.monotonic()
        if ended or now - began > _MOVING:
            self._moved = now
        return ended

    def _has_ended(self, work: Work, ended: List[Any]) -> bool:
        try:
            if not work.request.test():
                if time.monotonic() < work.deadline:
                    return False
                work.request.wait(1e-3)  # the library says what it waits for, and all ranks fail
            ended.append((work, None))
        except errors.TimeoutError as error:
            ended.append((work, errors.TimeoutError(
                f"{work.what} was not done within the {work.seconds:g} s of its process group: "
                f"{error}")))
        except errors.Error as error:
            ended.append((work, error))
        return True

    @staticmethod
    def _finish(ended: List[Any]) -> None:
        for work, error in ended:
            work.finish(error)

    def _run(self) -> None:
        while self._goes_on():
            with self._news:
                self._asleep = True
                while not self._pending() and self._closed is None:
                    self._news.wait()
                self._asleep = False
            self._hurry.wait(_GRACE)
            self._hurry.clear()
            self._move_until_quiet()

    def _goes_on(self) -> bool:
        return self._closed is None and self._thread is threading.current_thread()

    def _move_until_quiet(self) -> None:
        self._moved = time.monotonic()
        while self._goes_on():
            if not self._waiting:
                with self._lock:
                    pending = self._pending()
                    ended = self._test()
                self._finish(ended)
                still = time.monotonic() - self._moved
                if pending:
                    _pause(still)
                    continue
                if still > _LINGER:
                    return
            if self._hurry.wait(_GRACE):
                self._hurry.clear()
                self._moved = time.monotonic()

    def close(self, why: str, seconds: float) -> bool:
        """Ends the thread, after what is under way has ended, or `seconds`; whether all has ended.

        From then on calls raise InvalidHandleError with why.
        """
        deadline = time.monotonic() + seconds
        while self._pending() and time.monotonic() < deadline:
            self.move()
            _pause(time.monotonic() - self._moved)
        self.move()
        with self._news:
            self._closed = why
            self._news.notify()
        self._hurry.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            left = self._pending()
            self._collectives.clear()
            self._messages = []
        for work in left:
            work.finish(errors.AbortedError(f"{work.what}: {why}"))
        self._kept.clear()
        return not left
