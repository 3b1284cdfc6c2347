"""What cannot be over the backend ringzero is an exception that names the cause, and no more."""

import contextlib
import datetime
import gc
import os
import signal
import sys
import threading
import time
import types
import unittest

import torch
import torch.distributed as dist

import ringzero as rz
from ringzero.torch import _meeting, _registration

from torch_distributed import join


class ArgumentsTest(unittest.TestCase):
    """Errors before any traffic: the group stays usable. All ranks run the same tests."""

    def tearDown(self):
        found = torch.ones(1)
        dist.all_reduce(found)
        self.assertEqual(found.item(), SIZE)

    def test_tensors_on_devices(self):
        on_device = torch.empty(SIZE, device="meta")  # the one device that every machine has
        calls = (lambda: dist.all_reduce(on_device),
                 lambda: dist.broadcast(on_device, 0),
                 lambda: dist.all_gather([torch.empty(SIZE)] * SIZE, on_device),
                 lambda: dist.all_gather_into_tensor(torch.empty(SIZE * SIZE), on_device),
                 lambda: dist.reduce_scatter_tensor(torch.empty(1), on_device),
                 lambda: dist.all_to_all_single(on_device, torch.empty(SIZE)),
                 lambda: dist.isend(on_device, (RANK + 1) % SIZE))
        for call in calls if SIZE > 1 else calls[:-1]:  # PyTorch itself refuses messages to oneself
            with self.assertRaisesRegex(rz.UnsupportedError, "on meta.*tensor.cpu"):
                call()
        with self.assertRaisesRegex(rz.UnsupportedError, "no cuda"):
            dist.group.WORLD._get_backend(torch.device("cuda"))

    def test_sparse_tensors(self):
        with self.assertRaisesRegex(rz.UnsupportedError, "torch.sparse_coo.*to_dense"):
            dist.broadcast(torch.eye(2).to_sparse(), 0)

    def test_reductions_that_ringzero_does_not_have(self):
        with self.assertRaisesRegex(rz.UnsupportedError, "BXOR of torch.float32"):
            dist.all_reduce(torch.ones(1), op=dist.ReduceOp.BXOR)
        with self.assertRaisesRegex(rz.UnsupportedError, "does not reduce torch.int16"):
            dist.all_reduce(torch.ones(1, dtype=torch.int16))

    def test_tags(self):
        if SIZE > 1:
            with self.assertRaisesRegex(rz.UnsupportedError, "the tag is 3"):
                dist.isend(torch.ones(1), (RANK + 1) % SIZE, tag=3)
        if SIZE > 2:
            with self.assertRaisesRegex(rz.UnsupportedError, "give src"):
                dist.recv(torch.ones(1))

    def test_numbers_of_tensors_and_rows(self):
        group = dist.group.WORLD
        one = torch.ones(1)
        with self.assertRaisesRegex(rz.InvalidArgumentError, f"{SIZE + 1} outputs.*{SIZE} ranks"):
            group.allgather([[one] * (SIZE + 1)], [one])
        with self.assertRaisesRegex(rz.InvalidArgumentError, "add up to 7.*2 rows"):
            group.alltoall_base(torch.ones(SIZE), torch.ones(2), [], [7] + [0] * (SIZE - 1))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "float64 and out of float32"):
            group.allgather([[one] * SIZE], [one.double()])
        if SIZE > 1:
            with self.assertRaisesRegex(rz.InvalidArgumentError, "float32 and torch.float64"):
                group.allgather([[one] * (SIZE - 1) + [one.double()]], [one])

    def test_a_child_of_fork(self):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                dist.all_reduce(torch.ones(1))
            except rz.ForkedError:
                os.write(write_end, b"refused")
            finally:
                os._exit(0)
        os.close(write_end)
        self.assertEqual(os.read(read_end, 64), b"refused")
        os.close(read_end)
        os.waitpid(child, 0)


class FailuresTest(unittest.TestCase):
    """What makes a group fail for good, on all ranks: each test has a group of its own."""

    def setUp(self):
        self.group = dist.new_group()

    def tearDown(self):
        dist.destroy_process_group(self.group)
        found = torch.ones(1)
        dist.all_reduce(found)  # the world has not failed
        self.assertEqual(found.item(), SIZE)

    def fails(self, pattern, call, kind=rz.Error):
        """That a call raises, and every later one with the same cause."""
        for _ in range(2):
            with self.assertRaisesRegex(kind, pattern):
                call()

    def test_different_calls(self):
        if SIZE > 1:
            self.fails("all_reduce.*broadcast|broadcast.*all_reduce",
                       lambda: dist.broadcast(torch.ones(2), 0, group=self.group) if RANK == 0
                       else dist.all_reduce(torch.ones(2), group=self.group))

    def test_a_rank_that_does_not_come(self):
        self.group.set_timeout(datetime.timedelta(seconds=0.2))
        if RANK > 0:
            with self.assertRaisesRegex(rz.Error, "rank 0 has not called|within the 0.2 s"):
                dist.barrier(group=self.group)
        dist.barrier()
        if SIZE > 1 and RANK == 0:
            with contextlib.suppress(rz.Error):
                dist.barrier(group=self.group)  # what the others gave to theirs may have come
            self.fails("rank 0 has not called", lambda: dist.barrier(group=self.group),
                       rz.UnavailableError)

    def test_a_wait_that_is_too_long(self):
        if SIZE > 1 and RANK == 0:
            work = dist.irecv(torch.ones(1), 1, group=self.group)
            with self.assertRaisesRegex(TimeoutError, "recv was not done within the 0.05 s"):
                work.wait(datetime.timedelta(seconds=0.05))
            self.assertIsInstance(work.exception(), TimeoutError)
            self.assertTrue(work.is_completed() and not work.is_success())
            with self.assertRaisesRegex(RuntimeError, "recv was not done within"):
                work.get_future().wait()

    def test_an_interrupt_ends_a_wait(self):
        if SIZE > 1 and RANK == 0:
            gc.collect()  # what ends with the garbage, such as a group, would keep the interrupt
            work = dist.irecv(torch.ones(1), 1, group=self.group)

            def interrupt():
                while not self.group._progress._waiting:
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
            with self.assertRaises(KeyboardInterrupt):
                work.wait()
            self.fails("interrupted by Ctrl-C", lambda: dist.barrier(group=self.group))

    def test_backward_names_the_cause(self):
        if SIZE == 1:
            return
        model = torch.nn.Linear(3, 2)
        parallel = torch.nn.parallel.DistributedDataParallel(model, process_group=self.group)
        loss = parallel(torch.ones(1, 3)).sum()
        dist.barrier()  # all have made theirs
        if RANK == 0:
            self.group.abort()
        else:
            with self.assertRaisesRegex(RuntimeError, "torch.distributed aborted the process group"):
                loss.backward()

    def test_messages_that_differ(self):
        if SIZE > 1 and RANK < 2:
            if RANK == 0:
                dist.isend(torch.ones(3), 1, group=self.group)
            else:
                with self.assertRaisesRegex(rz.Error, "3.*2|2.*3"):
                    dist.recv(torch.ones(2), 0, group=self.group)


class MeetingTest(unittest.TestCase):
    """How a group comes about, and does not."""

    def test_rank_0_cannot_serve(self):
        store = dist.HashStore()
        own = dist.PrefixStore("ringzero/1", store)
        own.set("network", "another")
        own.set("address", "failed: no port")
        with self.assertRaisesRegex(rz.UnavailableError, "rank 0 could not start.*no port"):
            _meeting.meet(store, 1, 2, 5)
        self.assertEqual(own.add("elsewhere", 0), 1)

    def test_addresses(self):
        self.assertTrue(_meeting._is_loopback(_meeting._address_towards("127.0.0.1")))
        self.assertIsNone(_meeting._address_towards("no.such.host.invalid"))
        towards = _meeting._address_towards
        try:
            _meeting._address_towards = lambda host: {"head": "10.1.2.3"}.get(host, "127.0.0.1")
            store = types.SimpleNamespace(underlying_store=types.SimpleNamespace(host="head"))
            self.assertEqual(_meeting.public_address(store), "10.1.2.3")
            with self.assertRaisesRegex(rz.UnavailableError, "no address but loopback.*MASTER_ADDR"):
                _meeting.public_address(types.SimpleNamespace(host="127.0.0.1"))
        finally:
            _meeting._address_towards = towards

    def test_what_a_pytorch_may_lack(self):
        for lacking, pattern in (
                (types.SimpleNamespace(is_available=lambda: False), "USE_DISTRIBUTED"),
                (types.SimpleNamespace(is_available=lambda: True, Backend=object),
                 "register_backend"),
                (types.SimpleNamespace(is_available=lambda: True, Backend=dist.Backend,
                                       ProcessGroup=bool), "subclassed")):
            self.assertRegex(_registration.obstacle(lacking), pattern)
            here = torch.distributed
            try:
                torch.distributed = lacking
                with self.assertRaisesRegex(rz.UnsupportedError, f"{pattern}.*ringzero.init"):
                    _registration.register_backend()
            finally:
                torch.distributed = here
        self.assertIsNone(_registration.obstacle(dist))


if __name__ == "__main__":
    RANK, SIZE = join()
    program = unittest.main(exit=False, failfast=True)
    dist.destroy_process_group()
    if not program.result.wasSuccessful():
        sys.exit(1)
