"""torch.distributed's functions over the backend ringzero give what their documentation says."""

import sys
import unittest

import torch
import torch.distributed as dist

import ringzero as rz

from torch_distributed import join

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
         torch.int32, torch.int64)


def values(rank, count=5, dtype=torch.float32):
    """Numbers that differ from rank to rank, small enough for every type."""
    return ((torch.arange(count) * (rank + 2)) % 5 + 1).to(dtype)


def everybody(count=5, dtype=torch.float32):
    """Those of all ranks, [N, count]."""
    return torch.stack([values(rank, count, dtype) for rank in range(SIZE)])


class CollectivesTest(unittest.TestCase):
    """All ranks run the same tests in the same order."""

    def assert_equal(self, found, expected):
        """The same type, shape and numbers."""
        self.assertEqual(found.dtype, expected.dtype)
        self.assertEqual(found.tolist(), expected.tolist())

    def test_group(self):
        self.assertEqual(dist.get_backend(), "ringzero")
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (RANK, SIZE))
        dist.barrier()

    def test_all_reduce(self):
        for dtype in KINDS:
            for op, reduce in ((dist.ReduceOp.SUM, lambda all_of: all_of.sum(0)),
                               (dist.ReduceOp.MIN, lambda all_of: all_of.amin(0)),
                               (dist.ReduceOp.MAX, lambda all_of: all_of.amax(0)),
                               (dist.ReduceOp.PRODUCT, lambda all_of: all_of.prod(0))):
                found = values(RANK, dtype=dtype)
                dist.all_reduce(found, op=op)
                # Sums of 16-bit floats: small whole numbers are exact.
                self.assert_equal(found, reduce(everybody(dtype=dtype).double()).to(dtype))

    def test_average_and_premul_sum(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            found = values(RANK, dtype=dtype)
            dist.all_reduce(found, op=dist.ReduceOp.AVG)
            self.assertTrue(torch.allclose(found.double(), everybody().double().mean(0), rtol=1e-2))
        with self.assertRaisesRegex(RuntimeError, "AVG.*int64"):
            dist.all_reduce(torch.ones(2, dtype=torch.int64), op=dist.ReduceOp.AVG)
        op = dist._make_nccl_premul_sum(0.5)
        found, block = values(RANK), torch.zeros(1)
        try:
            dist.all_reduce(found, op=op)
        except RuntimeError as error:
            self.assertRegex(str(error), "does not tell Python the factor")
            return
        self.assert_equal(found, everybody().sum(0) / 2)
        dist.reduce_scatter(block, [torch.ones(1)] * SIZE, op=op)
        self.assert_equal(block, torch.tensor([SIZE / 2]))

    def test_bits(self):
        for dtype in (torch.int32, torch.uint8, torch.int64):
            for op, start, combine in (
                    (dist.ReduceOp.BAND, -1, torch.bitwise_and),
                    (dist.ReduceOp.BOR, 0, torch.bitwise_or),
                    (dist.ReduceOp.BXOR, 0, torch.bitwise_xor)):
                expected = torch.full((5,), start, dtype=torch.int64).to(dtype)
                for each in everybody(dtype=dtype):
                    expected = combine(expected, each)
                found = values(RANK, dtype=dtype)
                dist.all_reduce(found, op=op)
                self.assert_equal(found, expected)
        block = torch.empty(2, dtype=torch.int32)
        dist.reduce_scatter(block, [torch.full((2,), 1 << RANK, dtype=torch.int32)] * SIZE,
                            op=dist.ReduceOp.BXOR)
        self.assert_equal(block, torch.full((2,), (1 << SIZE) - 1, dtype=torch.int32))

    def test_bool(self):
        mine = torch.tensor([True, RANK == 0, False])
        for op, expected in ((dist.ReduceOp.SUM, [True, True, False]),
                             (dist.ReduceOp.BOR, [True, True, False]),
                             (dist.ReduceOp.PRODUCT, [True, SIZE == 1, False]),
                             (dist.ReduceOp.BAND, [True, SIZE == 1, False]),
                             (dist.ReduceOp.BXOR, [SIZE % 2 == 1, True, False])):
            found = mine.clone()
            dist.all_reduce(found, op=op)
            self.assert_equal(found, torch.tensor(expected))
            self.assertLessEqual(found.view(torch.uint8).max().item(), 1)  # as kernels expect it
        gathered = [torch.empty(3, dtype=torch.bool) for _ in range(SIZE)]
        dist.all_gather(gathered, mine)
        for rank, found in enumerate(gathered):
            self.assert_equal(found, torch.tensor([True, rank == 0, False]))

    def test_types_that_are_only_moved(self):
        for dtype in (torch.int16, torch.complex64, torch.bool):
            found = torch.tensor([RANK % 2, 1]).to(dtype)
            dist.broadcast(found, SIZE - 1)
            self.assert_equal(found, torch.tensor([(SIZE - 1) % 2, 1]).to(dtype))
            scalar = torch.tensor(1).to(dtype)
            dist.broadcast(scalar, 0)
            self.assertEqual(scalar.item(), 1)

    def test_complex_sum(self):
        found = torch.tensor([1 + 2j * RANK])
        dist.all_reduce(found)
        self.assertEqual(found.item(), SIZE + 2j * sum(range(SIZE)))

    def test_broadcast_and_reduce(self):
        for root in range(SIZE):
            found = values(RANK)
            dist.broadcast(found, root)
            self.assert_equal(found, values(root))
            found = values(RANK)
            dist.reduce(found, root, op=dist.ReduceOp.MAX)
            if root == RANK:
                self.assert_equal(found, everybody().amax(0))

    def test_all_gather(self):
        lists = ([torch.empty(5) for _ in range(SIZE)],         # memory of their own
                 list(torch.empty(SIZE * 5).split(5)))           # pieces of one
        for found in lists:
            dist.all_gather(found, values(RANK))
            self.assert_equal(torch.stack(found), everybody())
        for shape in ((SIZE * 5,), (SIZE, 5)):
            whole = torch.empty(shape)
            dist.all_gather_into_tensor(whole, values(RANK))
            self.assert_equal(whole.view(SIZE, 5), everybody())
        uneven = [torch.empty(rank + 1) for rank in range(SIZE)]
        dist.all_gather(uneven, values(RANK, RANK + 1))
        for rank, found in enumerate(uneven):
            self.assert_equal(found, values(rank, rank + 1))

    def test_reduce_scatter(self):
        blocks = [values(RANK + block) for block in range(SIZE)]
        expected = sum(values(rank + RANK) for rank in range(SIZE))
        found = torch.empty(5)
        dist.reduce_scatter(found, blocks)
        self.assert_equal(found, expected)
        found = torch.empty(5)
        dist.reduce_scatter_tensor(found, torch.cat(blocks), op=dist.ReduceOp.SUM)
        self.assert_equal(found, expected)
        found = torch.empty(RANK + 1)
        dist.reduce_scatter(found, [torch.full((block + 1,), RANK + 1.0) for block in range(SIZE)])
        self.assert_equal(found, torch.full((RANK + 1,), sum(range(SIZE + 1)) * 1.0))

    def test_gather_and_scatter(self):
        root = SIZE - 1
        found = [torch.empty(5) for _ in range(SIZE)] if RANK == root else None
        dist.gather(values(RANK), found, dst=root)
        if found is not None:
            self.assert_equal(torch.stack(found), everybody())
        part = torch.empty(5)
        dist.scatter(part, [values(rank) for rank in range(SIZE)] if RANK == root else None,
                     src=root)
        self.assert_equal(part, values(RANK))

    def test_all_to_all(self):
        # Rank i sends i * 10 + j to rank j; with splits, j + 1 rows of two.
        found = torch.empty(SIZE)
        dist.all_to_all_single(found, torch.arange(SIZE) + RANK * 10.0)
        self.assert_equal(found, torch.arange(SIZE) * 10.0 + RANK)
        sent = [torch.full((rank + 1, 2), RANK * 10.0 + rank) for rank in range(SIZE)]
        expected = [torch.full((RANK + 1, 2), rank * 10.0 + RANK) for rank in range(SIZE)]
        whole = torch.empty(SIZE * (RANK + 1), 2)
        dist.all_to_all_single(whole, torch.cat(sent), [RANK + 1] * SIZE,
                               [rank + 1 for rank in range(SIZE)])
        self.assert_equal(whole, torch.cat(expected))
        received = [torch.empty(RANK + 1, 2) for _ in range(SIZE)]
        dist.all_to_all(received, sent)
        for one, other in zip(received, expected):
            self.assert_equal(one, other)

    def test_tensors_that_are_not_contiguous(self):
        found = torch.zeros(4, 3).t()
        found.copy_(torch.arange(12.0).view(3, 4) + RANK)
        expected = (torch.arange(12.0).view(3, 4) * SIZE) + sum(range(SIZE))
        dist.all_reduce(found)
        self.assert_equal(found, expected)
        column = torch.zeros(3, 2)
        dist.broadcast(column[:, 1] if RANK else column[:, 1].add_(7), 0)
        self.assert_equal(column, torch.tensor([[0.0, 7.0]] * 3))
        gathered = torch.zeros(2, SIZE).t()
        dist.all_gather_into_tensor(gathered, torch.tensor([RANK, 1.0]))
        self.assert_equal(gathered, torch.tensor([[rank, 1.0] for rank in range(SIZE)]))

    def test_leaves_and_inference(self):
        parameter = torch.nn.Parameter(values(RANK))
        dist.all_reduce(parameter)
        self.assert_equal(parameter.detach(), everybody().sum(0))
        with torch.inference_mode():
            found = torch.ones(2, 3).t()
            dist.all_reduce(found)
        self.assert_equal(found, torch.full((3, 2), float(SIZE)))

    def test_empty(self):
        dist.all_reduce(torch.empty(0))
        gathered = [torch.empty(0) for _ in range(SIZE)]
        dist.all_gather(gathered, torch.empty(0))
        dist.all_to_all_single(torch.empty(0, 3), torch.empty(0, 3), [0] * SIZE, [0] * SIZE)

    def test_objects(self):
        found = [None] * SIZE
        dist.all_gather_object(found, {"rank": RANK, "text": "x" * RANK})
        self.assertEqual([one["rank"] for one in found], list(range(SIZE)))
        shared = [{"from": RANK}]
        dist.broadcast_object_list(shared, 0)
        self.assertEqual(shared, [{"from": 0}])
        given = [None]
        dist.scatter_object_list(given, [f"for {rank}" for rank in range(SIZE)], 0)
        self.assertEqual(given, [f"for {RANK}"])

    def test_coalesced(self):
        found = [values(RANK), values(RANK, 3)]
        work = dist.all_reduce_coalesced(found, async_op=True)
        work.wait()
        self.assert_equal(found[0], everybody().sum(0))
        self.assert_equal(found[1], everybody(3).sum(0))
        lists = [[torch.empty(5), torch.empty(2)] for _ in range(SIZE)]
        dist.all_gather_coalesced(lists, [values(RANK), values(RANK, 2)])
        for rank, (one, other) in enumerate(lists):
            self.assert_equal(one, values(rank))
            self.assert_equal(other, values(rank, 2))
        manager = getattr(dist.distributed_c10d, "_CoalescingManager", None)
        if manager is None:  # before PyTorch 2.1 it was for messages alone
            return
        sums, whole, block = [values(RANK), torch.ones(2)], torch.empty(SIZE * 5), torch.empty(5)
        with dist._coalescing_manager(async_ops=True) as together:
            for tensor in sums:
                dist.all_reduce(tensor)
        together.wait()
        self.assert_equal(sums[0], everybody().sum(0))
        with dist._coalescing_manager():
            dist.all_gather_into_tensor(whole, values(RANK))
        self.assert_equal(whole.view(SIZE, 5), everybody())
        with dist._coalescing_manager():
            dist.reduce_scatter_tensor(block, whole)
        self.assert_equal(block, values(RANK) * SIZE)
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as together:
            pass
        together.wait()

    def test_functional(self):
        try:
            import torch.distributed._functional_collectives as functional  # pylint: disable=all
            functional.all_gather_tensor_autograd
        except (ImportError, AttributeError):
            self.skipTest("this PyTorch has no functional collectives over groups of Python")
        group = dist.group.WORLD
        found = functional.all_reduce(values(RANK), "sum", group)
        self.assert_equal(found + 0, everybody().sum(0))
        found = functional.all_gather_tensor(values(RANK), 0, group)
        self.assert_equal((found + 0).view(SIZE, 5), everybody())
        found = functional.reduce_scatter_tensor(torch.ones(SIZE * 2), "sum", 0, group)
        self.assert_equal(found + 0, torch.full((2,), float(SIZE)))
        found = functional.all_to_all_single(torch.arange(SIZE) + RANK * 10.0, [1] * SIZE,
                                             [1] * SIZE, group)
        self.assert_equal(found + 0, torch.arange(SIZE) * 10.0 + RANK)
        found = functional.broadcast(values(RANK), 0, group)
        self.assert_equal(found + 0, values(0))


class AsyncTest(unittest.TestCase):
    """Works: waited for in any order, or not at all."""

    def test_many_in_any_order(self):
        tensors = [values(RANK, 1000 + i) for i in range(20)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works):
            self.assertTrue(work.wait())
        for tensor, work in zip(tensors, works):
            self.assertTrue(work.is_completed() and work.is_success())
            self.assertIsNone(work.exception())
            self.assertEqual(tensor.tolist(), everybody(len(tensor)).sum(0).tolist())

    def test_ends_without_being_waited_for(self):
        work = dist.all_reduce(values(RANK), async_op=True)
        future = work.get_future()
        doubled = future.then(lambda done: done.value()[0] * 2)
        self.assertEqual(doubled.wait().tolist(), (everybody().sum(0) * 2).tolist())
        self.assertTrue(work.is_completed())
        self.assertEqual(work.get_future().wait()[0].tolist(), everybody().sum(0).tolist())
        barrier = dist.barrier(async_op=True)
        while not barrier.is_completed():
            pass

    def test_callbacks_may_call(self):
        first = dist.all_reduce(torch.ones(2), async_op=True).get_future()
        second = first.then(lambda done: dist.all_reduce(done.value()[0], async_op=True)
                            .get_future().wait()[0])
        # A callback that waits keeps the thread that moves everything.
        self.assertEqual(second.wait().tolist(), [SIZE ** 2] * 2)

    def test_messages_move_while_their_sender_does_something_else(self):
        if SIZE < 2:
            return
        store = dist.distributed_c10d._get_default_store()
        count = 1 << 20  # more than a transport takes in at once
        if RANK == 0:
            work = dist.isend(torch.ones(count), 1)
            self.assertEqual(store.get("received"), b"1")  # without a wait for the work before
            work.wait()
        elif RANK == 1:
            found = torch.zeros(count)
            self.assertEqual(dist.recv(found, 0), 0)
            store.set("received", str(int(found.min().item())))
        dist.barrier()

    def test_both_ways_at_once(self):
        if SIZE < 2:
            return
        right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        sent, found = torch.full((1 << 18,), float(RANK)), torch.zeros(1 << 18)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, right),
                                        dist.P2POp(dist.irecv, found, left)])
        for work in works:
            work.wait()
        self.assertEqual(found.unique().tolist(), [left])
        first, second = torch.zeros(2), torch.zeros(3)
        works = [dist.irecv(first, left), dist.irecv(second, left)]
        dist.send(torch.ones(2), right)
        dist.send(torch.ones(3), right)
        for work in reversed(works):
            work.wait()
        self.assertEqual(works[0].source_rank(), left)
        self.assertEqual(first.sum() + second.sum(), 5)

    def test_threads(self):
        import threading  # pylint: disable=import-outside-toplevel
        if SIZE < 2:
            return
        if RANK < 2:
            # One thread waits for what another thread's message lets the peer send.
            found = torch.zeros(1)
            waiting = threading.Thread(target=lambda: dist.recv(found, 1 - RANK))
            if RANK == 0:
                waiting.start()
                dist.send(torch.ones(1), 1)
            else:
                dist.recv(torch.zeros(1), 0)
                waiting = threading.Thread(target=lambda: dist.send(torch.ones(1), 0))
                waiting.start()
            waiting.join()
            self.assertEqual(found.item(), 1 - RANK)
        dist.barrier()


class GroupsTest(unittest.TestCase):
    """Groups of some ranks, which have nothing in common but their processes."""

    def test_halves(self):
        halves = [dist.new_group(list(range(part, SIZE, 2))) for part in range(min(2, SIZE))]
        mine = halves[RANK % 2]
        found = torch.tensor([float(RANK)])
        everyone = torch.ones(1)
        works = [dist.all_reduce(found, group=mine, async_op=True),
                 dist.all_reduce(everyone, async_op=True)]
        for work in reversed(works):
            work.wait()
        self.assertEqual(found.item(), sum(range(RANK % 2, SIZE, 2)))
        self.assertEqual(everyone.item(), SIZE)
        root = (SIZE - 1) if (SIZE - 1) % 2 == RANK % 2 else max(0, SIZE - 2)
        found = torch.tensor([float(RANK)])
        dist.broadcast(found, root, group=mine)
        self.assertEqual(found.item(), root)
        dist.destroy_process_group(mine)
        mine.shutdown()  # before PyTorch 2.x had that done, a group ended with its last reference
        with self.assertRaisesRegex(rz.InvalidHandleError, "all_reduce: .* was destroyed"):
            mine.allreduce([found])

    def test_beside_gloo(self):
        gloo = dist.new_group(backend="gloo")
        found = torch.ones(2)
        dist.all_reduce(found, group=gloo)
        dist.all_reduce(found)
        self.assertEqual(found.tolist(), [SIZE * SIZE] * 2)

    def test_one_that_others_are_not_in(self):
        alone = dist.new_group([SIZE - 1])
        if RANK == SIZE - 1:
            found = torch.ones(1)
            dist.all_reduce(found, group=alone)
            self.assertEqual(found.item(), 1)


if __name__ == "__main__":
    RANK, SIZE = join()
    program = unittest.main(exit=False, failfast=True)
    dist.destroy_process_group()
    if not program.result.wasSuccessful():
        sys.exit(1)
