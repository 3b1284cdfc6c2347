"""Every collective against NumPy, in place and out, started and waited for, alone and in groups."""

import array
import ctypes
import sys
import unittest
import weakref

import numpy as np

import ringzero as rz

DTYPES = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "uint32", "uint64")
COUNTS = (0, 1, 2, 7, 64, 1000, 70001)


def everybody(seed, count, dtype="float32"):
    """All ranks' inputs, [N, count], alike on all ranks: small whole numbers, so that sums are exact."""
    return np.random.default_rng(seed).integers(0, 5, (rz.size(), count)).astype(dtype)


class CollectivesTest(unittest.TestCase):
    """All ranks run the same tests in the same order."""

    def assert_equal(self, found, expected):
        """Same numbers, type and shape."""
        np.testing.assert_array_equal(found, expected)
        self.assertEqual(found.dtype, expected.dtype)

    def test_all_reduce_of_every_type(self):
        for dtype in DTYPES:
            for count in COUNTS:
                inputs = everybody(count, count, dtype)
                mine = inputs[rz.rank()].copy()
                out = np.empty_like(mine)
                self.assertIs(rz.all_reduce(mine, out), out)
                self.assert_equal(out, inputs.sum(0, dtype=dtype))
                self.assert_equal(mine, inputs[rz.rank()])
                self.assertIs(rz.all_reduce(mine), mine)
                self.assert_equal(mine, out)

    def test_operations(self):
        inputs = everybody(1, 33) + 1
        for op, expected in (("sum", inputs.sum(0)), ("min", inputs.min(0)),
                             (rz.Op.MAX, inputs.max(0)), ("prod", inputs.prod(0)),
                             ("mean", (inputs.sum(0) / rz.size()).astype(np.float32)),
                             (rz.premul_sum(0.5, np.float32), (inputs * np.float32(0.5)).sum(0))):
            np.testing.assert_allclose(rz.all_reduce(inputs[rz.rank()].copy(), op=op), expected,
                                       rtol=1e-6)

    def test_functions(self):
        xor = rz.reduce_function(np.bitwise_xor, any_order=True)
        farther = rz.reduce_function(lambda a, b: np.where(abs(a) >= abs(b), a, b))
        for count in COUNTS:
            for dtype in ("int8", "int32", "int64", "uint64"):
                inputs = everybody(count, count, dtype)
                self.assert_equal(rz.all_reduce(inputs[rz.rank()].copy(), op=xor),
                                  np.bitwise_xor.reduce(inputs, 0))
            for dtype in ("float16", "float32", "float64"):
                inputs = everybody(count, count, dtype) - np.array(2, dtype)
                farthest = inputs[abs(inputs).argmax(0), np.arange(count)]
                found = rz.all_reduce(inputs[rz.rank()].copy(), op=farther)
                self.assert_equal(abs(found), abs(farthest))
            inputs = everybody(count, rz.size() * count, "int32")
            expected = np.bitwise_xor.reduce(inputs, 0)
            self.assert_equal(rz.reduce_scatter(inputs[rz.rank()], op=xor),
                              expected.reshape(rz.size(), count)[rz.rank()])
            found = rz.reduce(inputs[rz.rank()].copy(), op=xor, root=rz.size() - 1)
            if found is not None:
                self.assert_equal(found, expected)
            out = np.empty_like(expected)
            with rz.group():
                rz.all_reduce(inputs[rz.rank()], out, op=xor)
            self.assert_equal(out, expected)
            self.assert_equal(rz.all_reduce(inputs[rz.rank()], out, op=xor, async_op=True).wait(),
                              expected)

    def test_a_function_has_the_bits_of_the_sum_it_is(self):
        add = rz.reduce_function(np.add)
        mine = np.random.default_rng(rz.rank()).standard_normal(70001)
        for dtype in ("float32", "float64"):
            values = mine.astype(dtype)
            self.assert_equal(rz.all_reduce(values.copy(), op=add), rz.all_reduce(values.copy()))

    def test_arrays_of_any_shape(self):
        inputs = everybody(2, 24).reshape(-1, 2, 3, 4)
        self.assert_equal(rz.all_reduce(inputs[rz.rank()].copy()), inputs.sum(0))
        scalar = np.array(3.0)
        self.assertEqual(rz.all_reduce(scalar), 3.0 * rz.size())

    def test_reduce_and_broadcast_from_every_root(self):
        for root in range(rz.size()):
            inputs = everybody(root, 100)
            mine = inputs[rz.rank()].copy()
            out = np.empty_like(mine) if rz.rank() == root else None
            found = rz.reduce(mine, out, root)
            self.assertIs(found, out)
            if rz.rank() == root:
                self.assert_equal(out, inputs.sum(0))
            found = rz.reduce(mine, root=root)
            self.assertEqual(found is None, rz.rank() != root)
            mine = inputs[rz.rank()].copy()
            self.assert_equal(rz.broadcast(mine, root), inputs[root])

    def test_broadcast_reads_a_read_only_array_of_the_root(self):
        values = np.arange(5) if rz.rank() == 0 else np.zeros(5, int)
        values.flags.writeable = rz.rank() != 0
        self.assert_equal(rz.broadcast(values), np.arange(5))

    def test_reduce_scatter(self):
        for count in COUNTS:
            inputs = everybody(count, rz.size() * count)
            expected = inputs.sum(0).reshape(rz.size(), count)[rz.rank()]
            self.assert_equal(rz.reduce_scatter(inputs[rz.rank()]), expected)
            mine = inputs[rz.rank()].copy()
            own = mine[rz.rank() * count:(rz.rank() + 1) * count]
            self.assert_equal(rz.reduce_scatter(mine, own), expected)
        matrix = everybody(5, rz.size() * 6).reshape(rz.size(), rz.size() * 2, 3)
        block = matrix.sum(0)[2 * rz.rank():2 * rz.rank() + 2]
        self.assert_equal(rz.reduce_scatter(matrix[rz.rank()]), block)

    def test_all_gather_gather_and_scatter(self):
        for count in COUNTS:
            inputs = everybody(count, count)
            mine = inputs[rz.rank()]
            self.assert_equal(rz.all_gather(mine), inputs)
            whole = np.zeros_like(inputs)
            whole[rz.rank()] = mine
            self.assert_equal(rz.all_gather(whole[rz.rank()], whole), inputs)
            root = count % rz.size()
            found = rz.gather(mine, root=root)
            self.assertEqual(found is None, rz.rank() != root)
            if found is not None:
                self.assert_equal(found, inputs)
            out = np.empty_like(mine)
            rz.scatter(inputs if rz.rank() == root else None, out, root)
            self.assert_equal(out, mine)

    def test_blocks_of_different_sizes(self):
        generator = np.random.default_rng(3)
        for _ in range(20):
            counts = [int(n) for n in generator.integers(0, 50, rz.size())]
            starts = np.cumsum([0] + counts)
            inputs = everybody(sum(counts), sum(counts))
            mine = slice(starts[rz.rank()], starts[rz.rank() + 1])
            self.assert_equal(rz.reduce_scatter(inputs[rz.rank()], counts=counts),
                              inputs.sum(0)[mine])
            whole = inputs[0]
            self.assert_equal(rz.all_gather(whole[mine].copy(), counts=counts), whole)

    def test_all_to_all(self):
        for count in COUNTS:
            inputs = everybody(count, rz.size() * count).reshape(rz.size(), rz.size(), count)
            self.assert_equal(rz.all_to_all(inputs[rz.rank()]), inputs[:, rz.rank()].copy())
        table = np.random.default_rng(4).integers(0, 9, (rz.size(), rz.size()))
        sent = np.concatenate([np.full(n, 10 * rz.rank() + j)
                               for j, n in enumerate(table[rz.rank()])])
        expected = np.concatenate([np.full(n, 10 * i + rz.rank())
                                   for i, n in enumerate(table[:, rz.rank()])])
        found = rz.all_to_all(sent, send_counts=table[rz.rank()].tolist(),
                              recv_counts=table[:, rz.rank()].tolist())
        self.assert_equal(found, expected)

    def test_messages_around_a_ring(self):
        after, before = (rz.rank() + 1) % rz.size(), (rz.rank() - 1) % rz.size()
        out = np.empty(9)
        requests = [rz.recv(out, before, async_op=True),
                    rz.send(np.full(9, rz.rank(), float), after, async_op=True)]
        for request in requests:
            request.wait()
        self.assert_equal(out, np.full(9, before, float))

    def test_requests(self):
        inputs = everybody(6, 1000)
        outs = [np.empty(1000, np.float32) for _ in range(8)]
        requests = [rz.all_reduce(inputs[rz.rank()], out, async_op=True) for out in outs]
        while not requests[0].test():
            pass
        with rz.group() as group:
            rz.barrier()
        group.wait()
        for request, out in zip(requests, outs):
            self.assertIs(request.wait(), out)
            self.assertIs(request.wait(), out)
            self.assertTrue(request.test())
            self.assert_equal(out, inputs.sum(0))
        rz.barrier(async_op=True).wait(60)

    def test_a_request_that_nobody_keeps_keeps_its_arrays(self):
        values = np.ones(5000)
        kept = weakref.ref(values)
        rz.all_reduce(values, async_op=True)
        del values
        rz.barrier()
        self.assert_equal(kept(), np.full(5000, float(rz.size())))

    def test_requests_that_nobody_waits_for_do_not_pile_up(self):
        kept = []
        for _ in range(10):
            for _ in range(30):
                values = np.ones(3)
                kept.append(weakref.ref(values))
                rz.all_reduce(values, async_op=True)
            rz.barrier()
        self.assertLess(sum(values() is not None for values in kept), 150)

    def test_groups(self):
        inputs = everybody(7, 10)
        sums = [inputs[rz.rank()].copy() for _ in range(20)]
        with rz.group():
            for values in sums:
                rz.all_reduce(values)
            whole = rz.all_gather(inputs[rz.rank()])
        for values in sums:
            self.assert_equal(values, inputs.sum(0))
        self.assert_equal(whole, inputs)
        with rz.group(async_op=True) as group:
            rz.all_reduce(sums[0])
            with self.assertRaises(rz.FailedPreconditionError):
                group.wait()
        group.wait(60)
        self.assert_equal(sums[0], inputs.sum(0) * rz.size())

    def test_split(self):
        with self.assertRaisesRegex(rz.InvalidArgumentError, "color"):
            rz.split(-7)
        half = rz.split(rz.rank() % 2, -rz.rank())
        ranks = [r for r in range(rz.size()) if r % 2 == rz.rank() % 2][::-1]
        self.assertEqual((half.rank, half.size), (ranks.index(rz.rank()), len(ranks)))
        self.assertEqual(half.all_gather(np.array([rz.rank()])).ravel().tolist(), ranks)
        half.close()
        self.assertEqual(rz.split(None if rz.rank() == 0 else 0) is None, rz.rank() == 0)

    def test_shared_arrays(self):
        values = rz.empty((5, 1000))
        self.assert_equal(values, np.zeros((5, 1000), np.float32))
        values += 1
        rz.all_reduce(values)
        self.assert_equal(values, np.full((5, 1000), rz.size(), np.float32))
        del values
        self.assertEqual(rz.empty(0, "int8").shape, (0,))
        self.assertEqual(rz.empty(np.int64(3), np.uint8).shape, (3,))
        for wrong in (-3, (-2, -2), 2**63):
            with self.assertRaises(ValueError):
                rz.empty(wrong)
        with self.assertRaises(TypeError):
            rz.empty(1.5)

    def test_metrics_count_bytes(self):
        before = rz.metrics()
        after, preceding = (rz.rank() + 1) % rz.size(), (rz.rank() - 1) % rz.size()
        requests = [rz.recv(np.zeros(100), preceding, async_op=True),
                    rz.send(np.zeros(100), after, async_op=True)]
        for request in requests:
            request.wait()
        self.assertEqual(rz.metrics()["messages"], before["messages"] + 800)

    def test_buffers_without_numpy(self):
        for typecode in "bBiIlLfd":
            values = array.array(typecode, [1, 2, 3])
            rz.all_reduce(values)
            self.assertEqual(values.tolist(), [rz.size(), 2 * rz.size(), 3 * rz.size()])
        numbers = (ctypes.c_double * 3)(1, 2, 3)
        rz.all_reduce(numbers)
        self.assertEqual(list(numbers), [rz.size(), 2 * rz.size(), 3 * rz.size()])
        data = bytearray(b"abc" if rz.rank() == 0 else b"   ")
        rz.broadcast(memoryview(data))
        self.assertEqual(data, b"abc")
        out = bytearray(3 * rz.size())
        rz.all_gather(b"xyz", out)
        self.assertEqual(out, b"xyz" * rz.size())

    def test_dlpack(self):
        class Producer:  # only __dlpack__
            """An array that shows nothing else."""

            def __init__(self, values):
                self.values = values

            def __dlpack__(self):
                return self.values.__dlpack__()

        for dtype in DTYPES:
            values = np.ones((3, 4), dtype)
            rz.all_reduce(Producer(values))
            self.assert_equal(values, np.full((3, 4), rz.size(), dtype))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "contiguous"):
            rz.all_reduce(Producer(np.ones((3, 4)).T))

    def test_bfloat16_where_ml_dtypes_is(self):
        try:
            import ml_dtypes  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("no ml_dtypes")
        values = np.ones(7, ml_dtypes.bfloat16)
        rz.all_reduce(values)
        self.assertEqual(values.astype(np.float32).tolist(), [rz.size()] * 7)


if __name__ == "__main__":
    with rz.init(timeout=120):
        program = unittest.main(exit=False, failfast=True)
        if not program.result.wasSuccessful():
            sys.exit(1)
