"""How a process group ends: destroyed, when nobody has it any more, or with the program."""

import atexit
import contextlib
import os
import threading
import time
from typing import List, Optional

from ringzero import errors
from ringzero.job import Job, Server, cause_of_exit

from ._progress import Progress

# Seconds. What is under way when a group is destroyed has as long to end, and so have other ranks
# to destroy it too; after that rank 0 serves the rendezvous on, so that they can say goodbye.
_GOODBYE = 10.0
_GOODBYES = 0.5

_alive: "List[Ending]" = []


class Ending:
    """What a process group holds, to be ended once.

    Args:
      server: the rendezvous that rank 0 serves.
    """

    def __init__(self, job: Job, server: Optional[Server], progress: Progress) -> None:
        self._job = job
        self._server = server
        self._progress = progress
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_over = False
        _alive.append(self)

    def end(self, why: str, cause: Optional[str] = None, at_exit: bool = False) -> None:
        """Ends it, once, and not in a child of fork. `cause`: the other ranks are told."""
        with self._lock:
            if self._is_over or self._process != os.getpid():
                return
            self._is_over = True
        _alive.remove(self)
        if cause is not None:
            with contextlib.suppress(errors.Error):
                self._job.fail(cause)
        comm = self._progress.comm
        if not self._progress.close(why, 0 if cause is not None else _GOODBYE):
            with contextlib.suppress(errors.Error):
                comm.abort(f"rank {comm.rank}: {why}, with operations under way")
        if comm.error() is None and cause is None:
            with contextlib.suppress(errors.Error):
                self._job.barrier("ringzero for torch.distributed: done", _GOODBYE)
        for close in (comm.close, self._job.close):
            with contextlib.suppress(errors.Error):
                close()
        if self._server is not None:
            self._let_others_leave(at_exit)

    def end_in_background(self) -> None:
        """Ends it in a thread, which the program waits for: garbage is collected at any time."""
        if not self._is_over:
            why = "nobody has the process group any more"
            threading.Thread(target=self.end, args=(why,)).start()

    def _let_others_leave(self, at_exit: bool) -> None:
        assert self._server is not None
        if at_exit:
            time.sleep(_GOODBYES)
            self._server.stop()
        else:
            threading.Timer(_GOODBYES, self._server.stop).start()  # a program's end waits for it


@atexit.register
def _end_all() -> None:
    for ending in list(_alive):
        ending.end("the program ends", cause_of_exit(), at_exit=True)
