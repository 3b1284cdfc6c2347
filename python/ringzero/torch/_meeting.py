"""How the ranks of a process group meet: through torch.distributed's store, without settings.

1. Every rank says in the store whether it is in the network of rank 0 (the same host, and not in a
   container of its own), and the last one says that all have.
2. Rank 0 starts a rendezvous server: on loopback where all are in its network, otherwise on the
   address by which the others reach it. It puts address and a fresh token into the store.
3. All ranks join the job of that server.
"""

import contextlib
import os
import pathlib
import secrets
import socket
import tempfile
from typing import Any, Iterator, Optional, Tuple

from ringzero import errors
from ringzero.job import Job, Server

_JOB = "torch.distributed"
_FAILED = "failed: "

# Seconds, the library's limit.
_LONGEST_JOIN = 3600.0


def _network() -> str:
    """What two processes have in common whose loopback is the same."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    space = os.stat("/proc/self/ns/net")
    return f"{boot}/{space.st_dev}/{space.st_ino}"


def _address_towards(host: str) -> Optional[str]:
    """This machine's address on the way to a host; None where there is no way. Nothing is sent."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def public_address(store: Any) -> str:
    """The address by which ranks of other hosts reach this one.

    That on the way to the store's host, which all ranks reach; on that host itself, or without one,
    that of this host's name, or of the way out.

    Raises:
      UnavailableError: there is none but loopback.
    """
    inner = store
    while hasattr(inner, "underlying_store"):
        inner = inner.underlying_store
    hosts = (getattr(inner, "host", None), os.environ.get("MASTER_ADDR"), socket.gethostname(),
             "192.0.2.1")  # for documentation alone (RFC 5737): by way of the default route
    for host in hosts:
        address = _address_towards(host) if host else None
        if address is not None and not _is_loopback(address):
            return address
    raise errors.UnavailableError(
        f"ranks are on several hosts, and {socket.gethostname()} has no address but loopback that "
        f"they could reach it by; set MASTER_ADDR (or init_method) to an address of a network that "
        f"all hosts are in")


def _listen_address(store: Any, size: int, rank: int) -> Optional[str]:
    """Where rank 0 is to listen; None on the others."""
    own = _network()
    if rank == 0:
        store.set("network", own)
    elif store.get("network").decode() != own:
        store.add("elsewhere", 1)
    if store.add("placed", 1) == size:
        store.set("all placed", "1")
    if rank != 0:
        return None
    store.get("all placed")
    if store.add("elsewhere", 0) == 0:
        return "127.0.0.1:0"
    address = public_address(store)
    return f"[{address}]:0" if ":" in address else f"{address}:0"


@contextlib.contextmanager
def _file_of(token: str) -> Iterator[str]:
    """A file with the token that its owner alone can read; gone afterwards."""
    descriptor, path = tempfile.mkstemp(prefix="ringzero-token-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token)
        yield path
    finally:
        os.unlink(path)


def _serve(store: Any, size: int) -> Tuple[Server, str, str]:
    """Rank 0's server, its address and token, which are in the store then."""
    token = secrets.token_hex(32)
    try:
        listen = _listen_address(store, size, 0)
        assert listen is not None
        with _file_of(token) as path:
            server = Server(listen, path, insecure=not listen.startswith("127."))
    except errors.Error as error:
        store.set("address", f"{_FAILED}{error}")
        raise
    store.set("token", token)
    store.set("address", server.address)
    return server, server.address, token


def _look_up(store: Any, size: int, rank: int) -> Tuple[None, str, str]:
    """The address and token that rank 0 has put into the store."""
    _listen_address(store, size, rank)
    address = store.get("address").decode()
    if address.startswith(_FAILED):
        raise errors.UnavailableError(
            f"rank 0 could not start a rendezvous: {address[len(_FAILED):]}")
    return None, address, store.get("token").decode()


def meet(store: Any, rank: int, size: int, seconds: float) -> Tuple[Job, Optional[Server]]:
    """Joins the job of a process group. Collective over its ranks.

    Args:
      store: a torch.distributed.Store of this group alone (torch gives each a PrefixStore).
      seconds: how long the other ranks are waited for.

    Returns:
      the job, and on rank 0 the server, to be stopped when all ranks are done.

    Raises:
      UnavailableError, TimeoutError: not all ranks came, or one cannot reach rank 0.
      RuntimeError: the store's own errors.
    """
    import torch.distributed  # pylint: disable=import-outside-toplevel
    # A store may be used again after destroy_process_group: every meeting has keys of its own.
    turn = store.add(f"ringzero/meetings of rank {rank}", 1)
    own = torch.distributed.PrefixStore(f"ringzero/{turn}", store)
    server, address, token = _serve(own, size) if rank == 0 else _look_up(own, size, rank)
    try:
        with _file_of(token) as path:
            return Job(address, _JOB, size, rank, path,
                       join_timeout=min(seconds, _LONGEST_JOIN)), server
    except BaseException:
        if server is not None:
            server.stop()
        raise
