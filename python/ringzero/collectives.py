"""What the ranks of a communicator do together."""

import ctypes
import sys
from typing import Any, Optional, Sequence

from . import _library, arrays, dtypes, errors
from .arrays import Buffer
from .dtypes import OpLike


def _counts(counts: Sequence[int], size: int, name: str) -> Any:
    if len(counts) != size:
        raise errors.InvalidArgumentError(
            f"{name} has {len(counts)} numbers; expected one for each of {size} ranks")
    if any(count < 0 for count in counts):
        raise errors.InvalidArgumentError(f"{name} has a negative number: {list(counts)}")
    if any(count > sys.maxsize for count in counts):  # which ctypes would cut off
        raise errors.InvalidArgumentError(f"{name} has a number beyond memory: {list(counts)}")
    return (ctypes.c_size_t * size)(*counts)


def _expect(sent: Buffer, received: Buffer, count: int, shape: str) -> None:
    # Seen here, since the library is given one count and one type.
    if received.dtype != sent.dtype:
        raise errors.InvalidArgumentError(
            f"the array is of {sent.dtype.name.lower()} and out of {received.dtype.name.lower()}; "
            f"expected the same")
    if received.count != count:
        raise errors.InvalidArgumentError(
            f"out has {received.count} elements; expected {count}, {shape}")


class Collectives:
    """The operations of a Communicator, over arrays of any shape; N is the number of ranks.

    Every rank calls the same operations in the same order with arrays of the same type and count.
    `array` is what this rank gives: a NumPy array, a PyTorch tensor in host memory, or anything with
    `__dlpack__` or the buffer protocol, C-contiguous. `out` takes the result; without it the result
    goes where each operation says. With async_op=True they return a Request at once, and otherwise
    the array of the result. Within group() they are only collected.

    All raise InvalidArgumentError before any traffic, for what cannot be; FailedPreconditionError
    where ranks made different calls; TimeoutError, UnavailableError and AbortedError, after which the
    communicator has failed. The GIL is free while ranks wait, and Ctrl-C ends waits.
    """

    size: int
    rank: int

    def _submit(self, name: str, arguments: Sequence[Any], buffers: Any, result: Any,
                async_op: bool) -> Any:
        raise NotImplementedError

    def all_reduce(self, array: Any, out: Any = None, op: OpLike = "sum", *,
                   async_op: bool = False) -> Any:
        """out = op over all ranks of array; without out in place.

        Args:
          op: "sum", "min", "max", "avg" (of floats), "prod", an Op, a PremulSum, a ReduceFunction.
        """
        sent = arrays.buffer_of(array) if out is not None else arrays.writable_buffer_of(array)
        received = sent if out is None else arrays.writable_buffer_of(out)
        _expect(sent, received, sent.count, "as many as the array")
        return self._submit("rz_all_reduce", (sent.address, received.address, sent.count,
                                              sent.dtype, dtypes.of_op(op)),
                            (sent, received), array if out is None else out, async_op)

    def reduce(self, array: Any, out: Any = None, root: int = 0, op: OpLike = "sum", *,
               async_op: bool = False) -> Any:
        """out = op over all ranks of array on the root, without out in place; None on others."""
        at_root = self.rank == root
        in_place = at_root and out is None
        sent = arrays.writable_buffer_of(array) if in_place else arrays.buffer_of(array)
        received = sent if in_place else arrays.writable_buffer_of(out) if at_root else None
        if received is not None:
            _expect(sent, received, sent.count, "as many as the array")
        return self._submit("rz_reduce", (sent.address, received and received.address, sent.count,
                                          sent.dtype, dtypes.of_op(op), root), (sent, received),
                            (array if in_place else out) if at_root else None, async_op)

    def broadcast(self, array: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """array = the root's array, in place on all ranks."""
        buffer = (arrays.buffer_of(array) if self.rank == root
                  else arrays.writable_buffer_of(array))
        return self._submit("rz_broadcast", (buffer.address, buffer.address, buffer.count,
                                             buffer.dtype, root), buffer, array, async_op)

    def reduce_scatter(self, array: Any, out: Any = None, op: OpLike = "sum",
                       counts: Optional[Sequence[int]] = None, *, async_op: bool = False) -> Any:
        """out = block `rank` of op over all ranks of array, which has N blocks.

        Without out a new array: of array's shape with the first dimension divided by N, or flat.

        Args:
          counts: elements of each rank's block, [N]; None: all alike.
        """
        sent = arrays.buffer_of(array)
        blocks = self._blocks_of(sent, counts)
        if out is None:
            shape: Sequence[int] = (blocks[self.rank],)
            if counts is None and sent.shape and sent.shape[0] % self.size == 0:
                shape = (sent.shape[0] // self.size,) + tuple(sent.shape[1:])
            out = arrays.empty_like(array, shape)
        received = arrays.writable_buffer_of(out)
        _expect(sent, received, blocks[self.rank], "a block of the array")
        number = dtypes.of_op(op)
        if counts is None:
            return self._submit("rz_reduce_scatter", (sent.address, received.address,
                                                      received.count, sent.dtype, number),
                                (sent, received), out, async_op)
        return self._submit("rz_reduce_scatter_v", (sent.address, received.address, blocks,
                                                    sent.dtype, number), (sent, received), out,
                            async_op)

    def all_gather(self, array: Any, out: Any = None, counts: Optional[Sequence[int]] = None, *,
                   async_op: bool = False) -> Any:
        """out = all ranks' arrays, one after the other.

        Without out a new array of shape [N, *array.shape], or flat with counts.

        Args:
          counts: elements of each rank's array, [N]; None: all alike.
        """
        sent = arrays.buffer_of(array)
        blocks = None if counts is None else _counts(counts, self.size, "counts")
        total = sent.count * self.size if blocks is None else sum(blocks)
        if blocks is not None and blocks[self.rank] != sent.count:
            raise errors.InvalidArgumentError(
                f"the array has {sent.count} elements, and counts says {blocks[self.rank]} of rank "
                f"{self.rank}")
        if out is None:
            shape = (total,) if blocks is not None else (self.size,) + tuple(sent.shape)
            out = arrays.empty_like(array, shape)
        received = arrays.writable_buffer_of(out)
        _expect(sent, received, total, "all ranks' arrays")
        if blocks is None:
            return self._submit("rz_all_gather", (sent.address, received.address, sent.count,
                                                  sent.dtype), (sent, received), out, async_op)
        return self._submit("rz_all_gather_v", (sent.address, received.address, blocks,
                                                sent.dtype), (sent, received), out, async_op)

    def gather(self, array: Any, out: Any = None, root: int = 0, *,
               async_op: bool = False) -> Any:
        """out = all ranks' arrays on the root, by default a new [N, *array.shape]; None on others."""
        sent = arrays.buffer_of(array)
        at_root = self.rank == root
        received = None
        if at_root:
            if out is None:
                out = arrays.empty_like(array, (self.size,) + tuple(sent.shape))
            received = arrays.writable_buffer_of(out)
            _expect(sent, received, sent.count * self.size, "all ranks' arrays")
        return self._submit("rz_gather", (sent.address, received and received.address, sent.count,
                                          sent.dtype, root), (sent, received),
                            out if at_root else None, async_op)

    def scatter(self, array: Any, out: Any, root: int = 0, *, async_op: bool = False) -> Any:
        """out = block `rank` of the root's array, which has N blocks; others may give None."""
        received = arrays.writable_buffer_of(out)
        sent = None
        if self.rank == root:
            sent = arrays.buffer_of(array)
            _expect(sent, received, self._blocks_of(sent, None)[self.rank], "a block of the array")
        return self._submit("rz_scatter", (sent and sent.address, received.address, received.count,
                                           received.dtype, root), (sent, received), out, async_op)

    def all_to_all(self, array: Any, out: Any = None,
                   send_counts: Optional[Sequence[int]] = None,
                   recv_counts: Optional[Sequence[int]] = None, *, async_op: bool = False) -> Any:
        """Block j of out = block `rank` of rank j's array. Without out a new array.

        Args:
          send_counts, recv_counts: elements to and from each rank, [N]; both or none.
        """
        sent = arrays.buffer_of(array)
        if (send_counts is None) != (recv_counts is None):
            raise errors.InvalidArgumentError(
                "one of send_counts and recv_counts is given; expected both or none")
        to_ranks = self._blocks_of(sent, send_counts, "send_counts")
        from_ranks = (to_ranks if recv_counts is None else
                      _counts(recv_counts, self.size, "recv_counts"))
        if out is None:
            out = arrays.empty_like(array, sent.shape if recv_counts is None else
                                    (sum(from_ranks),))
        received = arrays.writable_buffer_of(out)
        _expect(sent, received, sum(from_ranks), "what all ranks send here")
        if send_counts is None:
            return self._submit("rz_all_to_all", (sent.address, received.address, to_ranks[0],
                                                  sent.dtype), (sent, received), out, async_op)
        return self._submit("rz_all_to_all_v", (sent.address, to_ranks, received.address,
                                                from_ranks, sent.dtype), (sent, received), out,
                            async_op)

    def send(self, array: Any, peer: int, *, async_op: bool = False) -> Any:
        """Sends array to rank `peer`: the n-th send meets the n-th receive there.

        To this rank itself only with async_op=True.
        """
        sent = arrays.buffer_of(array)
        return self._submit("rz_send", (sent.address, sent.count, sent.dtype, peer), sent, None,
                            async_op)

    def recv(self, out: Any, peer: int, *, async_op: bool = False) -> Any:
        """Receives into out from rank `peer`; count and type are the sender's."""
        received = arrays.writable_buffer_of(out)
        return self._submit("rz_recv", (received.address, received.count, received.dtype, peer),
                            received, out, async_op)

    def barrier(self, *, async_op: bool = False) -> Any:
        """Done when every rank has called it."""
        return self._submit("rz_barrier", (), None, None, async_op)

    def _blocks_of(self, sent: Buffer, counts: Optional[Sequence[int]],
                   name: str = "counts") -> Any:
        if counts is None:
            if sent.count % self.size != 0:
                raise errors.InvalidArgumentError(
                    f"the array has {sent.count} elements, which are not {self.size} equal blocks, "
                    f"one for each rank; give {name}")
            return (ctypes.c_size_t * self.size)(*[sent.count // self.size] * self.size)
        blocks = _counts(counts, self.size, name)
        if sum(blocks) != sent.count:
            raise errors.InvalidArgumentError(
                f"the array has {sent.count} elements, and {name} add up to {sum(blocks)}")
        return blocks
