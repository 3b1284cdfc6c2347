"""Jobs that this process is a rank of, and rendezvous servers."""

import ctypes
import sys
from typing import Any, Optional

from . import _library, errors
from .request import call_in_background

ANY_RANK = -1


def cause_of_exit() -> Optional[str]:
    """What has ended the program, for the other ranks: its exception; None where it ends well.

    A shell goes on after one.
    """
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    return None if error is None else f"{type(error).__name__}: {error}"


class Server:
    """A rendezvous server within this process: where the ranks of jobs meet.

    Args:
      listen: HOST:PORT; port 0 is any free one.
      token_file: a file of at least 16 characters that its owner alone can read; clients give it too.
      insecure: also addresses that other machines reach, unencrypted.
    """

    def __init__(self, listen: str = "127.0.0.1:0", token_file: Optional[str] = None,
                 insecure: bool = False) -> None:
        self._handle = ctypes.c_void_p()
        options = _library.ServerOptions(ctypes.sizeof(_library.ServerOptions),
                                         _library.text(listen), _library.text(token_file),
                                         int(insecure))
        _library.call("rz_server_start", ctypes.byref(options), ctypes.byref(self._handle))

    @property
    def address(self) -> str:
        """HOST:PORT, with the port that was bound."""
        written = ctypes.create_string_buffer(262)
        _library.call("rz_server_address", self._handle, written, len(written))
        return written.value.decode()

    def stop(self) -> None:
        """Stops it; jobs that have joined lose their rendezvous. Again: nothing happens."""
        if self._handle:
            handle, self._handle = self._handle, ctypes.c_void_p()
            _library.call("rz_server_stop", handle)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


class Job:
    """A job that this process is a rank of; ringzero.init makes one and its communicator.

    What is not given comes from the environment: RZ_RENDEZVOUS, RZ_JOB, RZ_WORLD_SIZE, RZ_RANK,
    RZ_TOKEN_FILE, RZ_CONNECT_TIMEOUT, RZ_JOIN_TIMEOUT, as rz_run sets them; or that of mpirun, srun
    or torchrun, whose rank 0 serves the rendezvous itself. With nothing of that it is a world of
    one. Waits until all ranks have come.

    Args:
      rendezvous: HOST:PORT of the server.
      job: which job of that server.
      world_size: how many ranks there are.
      rank: this process's; None: the rendezvous gives one.
      token_file: what the server was started with.
      connect_timeout: seconds that the rendezvous is tried for; default 60.
      join_timeout: seconds that the other ranks are waited for; default 300.
      transport: "tcp", "shm" (all ranks on one host), or None: what is found.

    Raises:
      InvalidArgumentError, UnavailableError, TimeoutError, AlreadyExistsError,
      FailedPreconditionError, PermissionDeniedError: the text says why it cannot be joined.
    """

    def __init__(self, rendezvous: Optional[str] = None, job: Optional[str] = None,
                 world_size: Optional[int] = None, rank: Optional[int] = None,
                 token_file: Optional[str] = None, connect_timeout: float = 0,
                 join_timeout: float = 0, transport: Optional[str] = None) -> None:
        self._handle = ctypes.c_void_p()
        options = _library.JobOptions(
            ctypes.sizeof(_library.JobOptions), _library.text(rendezvous), _library.text(job),
            _library.int32_field("world_size", world_size or 0),
            _library.int32_field("rank", ANY_RANK if rank is None else rank),
            _library.text(token_file),
            connect_timeout, join_timeout, _library.text(transport), 0)
        call_in_background("rz_init", ctypes.byref(options), ctypes.byref(self._handle))

    @property
    def handle(self) -> ctypes.c_void_p:
        """The rz_job_t; null after close."""
        return self._handle

    def barrier(self, identifier: str, timeout: float = 0) -> None:
        """Waits through the rendezvous until all ranks have called it with the same identifier.

        Raises:
          TimeoutError: not all came within `timeout` seconds (0: 300); the text lists the missing.
        """
        call_in_background("rz_job_barrier", self._handle, _library.text(identifier), timeout)

    def fail(self, cause: str) -> None:
        """Tells all ranks that this one has failed: their calls raise UnavailableError with why."""
        _library.call("rz_job_fail", self._handle, _library.text(cause))

    def close(self) -> None:
        """Says that this rank is done; communicators are closed before. Again: nothing happens.

        Rank 0 that serves the rendezvous waits until all others are done as well, join_timeout
        at most.
        """
        if not self._handle:
            return
        handle, self._handle = self._handle, ctypes.c_void_p()
        try:
            _library.call("rz_finalize", handle)
        except errors.FailedPreconditionError:
            self._handle = handle
            raise

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is not None and self._handle:
            self.fail(f"{kind.__name__}: {error}")
        self.close()
