"""What goes wrong, and the exception for it."""

import contextlib
import os
import signal
import socket
import sys
import threading
import unittest

import numpy as np

import ringzero as rz
from ringzero.request import call_in_background
from ringzero.zero import Parameter, Zero

_jobs = 0


CONFIG = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 0.1}}}


def next_job():
    """A job of its own for a test that breaks one."""
    global _jobs  # pylint: disable=global-statement
    _jobs += 1
    return rz.init(job=f"test-{_jobs}", timeout=60)


class ArgumentTest(unittest.TestCase):
    """Before any traffic; the communicator stays usable."""

    def setUp(self):
        self.comm = next_job()

    def tearDown(self):
        self.assertIsNone(self.comm.error())
        self.comm.all_reduce(np.ones(3))
        self.comm.close()

    def test_not_contiguous(self):
        for values in (np.zeros((4, 4))[:, ::2], np.zeros((4, 3)).T, np.zeros(9)[::-1]):
            with self.assertRaisesRegex(rz.InvalidArgumentError, "contiguous"):
                rz.all_reduce(values)
        rz.all_reduce(np.zeros((4, 1, 4))[1:3, :, :])

    def test_read_only(self):
        values = np.zeros(4)
        values.flags.writeable = False
        for wrong in (values, b"abc", memoryview(b"abc")):
            with self.assertRaisesRegex(rz.InvalidArgumentError, "read-only"):
                rz.all_reduce(wrong)
        with self.assertRaisesRegex(ValueError, "read-only"):
            rz.all_gather(values, memoryview(b"abc"))

    def test_types(self):
        for wrong in (np.zeros(3, bool), np.zeros(3, np.int16), np.zeros(3, complex),
                      np.array(["a"]), np.array([None])):
            with self.assertRaisesRegex(rz.InvalidArgumentError, "of type .* expected one of"):
                rz.all_reduce(wrong)
        with self.assertRaisesRegex(rz.InvalidArgumentError, "byte order"):
            rz.all_reduce(np.zeros(3, ">f4"))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "masked.*array.data"):
            rz.all_reduce(np.ma.array([1.0, 2.0], mask=[True, False]))
        for wrong in ([1, 2], 3, None, "text"):
            with self.assertRaisesRegex(TypeError, "numpy.asarray"):
                rz.all_reduce(wrong)

    def test_shapes(self):
        with self.assertRaisesRegex(rz.InvalidArgumentError, "out has 4 elements; expected 3"):
            rz.all_reduce(np.zeros(3), np.zeros(4))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "float64 and out of float32"):
            rz.all_reduce(np.zeros(3), np.zeros(3, np.float32))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "out has 1 elements"):
            rz.all_gather(np.zeros(3), np.zeros(1))
        if rz.size() > 1:
            with self.assertRaisesRegex(rz.InvalidArgumentError, "equal blocks"):
                rz.reduce_scatter(np.zeros(rz.size() + 1))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "one for each"):
            rz.all_gather(np.zeros(3), counts=[3] * (rz.size() + 1))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "add up"):
            rz.reduce_scatter(np.zeros(3), counts=[4] * rz.size())
        with self.assertRaisesRegex(rz.InvalidArgumentError, "negative"):
            rz.all_gather(np.zeros(3), counts=[-1] * rz.size())
        with self.assertRaisesRegex(rz.InvalidArgumentError, "beyond memory"):
            rz.all_gather(np.zeros(3), counts=[2**64 + 3] * rz.size())
        with self.assertRaisesRegex(rz.InvalidArgumentError, "both or none"):
            rz.all_to_all(np.zeros(rz.size()), send_counts=[1] * rz.size())

    def test_the_library_s_own_words(self):
        with self.assertRaisesRegex(rz.InvalidArgumentError, "rz_broadcast.*root.*99"):
            rz.broadcast(np.zeros(3), 99)
        values = np.zeros(10)
        with self.assertRaisesRegex(rz.InvalidArgumentError, "overlap"):
            rz.all_reduce(values[:6], values[2:8])
        with self.assertRaisesRegex(rz.InvalidArgumentError, "no reduction 'xor'"):
            rz.all_reduce(np.zeros(3), op="xor")
        for wrong in (0.5, None, {}):
            with self.assertRaisesRegex(rz.InvalidArgumentError, "no reduction"):
                rz.all_reduce(np.zeros(3), op=wrong)
        with self.assertRaises(rz.InvalidArgumentError):
            rz.all_reduce(np.zeros(3), op=77)
        with self.assertRaises(rz.InvalidArgumentError):
            rz.all_reduce(np.zeros(3, int), op="mean")

    def test_functions_are_made_operations_first(self):
        with self.assertRaisesRegex(rz.InvalidArgumentError, "reduce_function"):
            rz.all_reduce(np.zeros(3), op=np.bitwise_xor)
        with self.assertRaisesRegex(rz.InvalidArgumentError, "no operation"):
            rz.all_reduce(np.zeros(3), op=rz.reduce_function(np.add) + 1)

    def test_numbers(self):
        for wrong in (0.5, "1", 2**40):
            with self.assertRaisesRegex(rz.InvalidArgumentError, "rz_comm_split: argument 2: "):
                rz.split(wrong)
        with self.assertRaisesRegex(rz.InvalidArgumentError, "4294967296 does not fit"):
            rz.broadcast(np.zeros(3), 2**32)  # not the root 0
        with self.assertRaisesRegex(rz.InvalidArgumentError, "rz_wait: argument 2: "):
            rz.barrier(async_op=True).wait("soon")
        rz.barrier()
        with self.assertRaisesRegex(rz.InvalidArgumentError, "'a.*b' has a NUL"):
            self.comm.dump_flight_record("a\0b")

    def test_of_a_call_in_the_background(self):
        with self.assertRaisesRegex(rz.InvalidArgumentError, "rz_job_barrier: argument 3: "):
            self.comm.job.barrier("all", "soon")
        with self.assertRaises(AttributeError):
            call_in_background("rz_none")

    def test_a_scalar_of_numpy_cannot_be_written(self):
        scalar = np.ones(3, np.float32).sum()
        with self.assertRaisesRegex(rz.InvalidArgumentError, "float32 is read-only.* out="):
            rz.all_reduce(scalar)
        out = np.zeros((), np.float32)
        rz.all_reduce(scalar, out)
        self.assertEqual((scalar, out), (3, 3 * rz.size()))
        self.assertEqual(rz.all_gather(scalar).tolist(), [3] * rz.size())

    def test_a_message_to_oneself_that_blocks(self):
        with self.assertRaisesRegex(rz.InvalidArgumentError, "rz_send"):
            rz.send(np.zeros(3), rz.rank())

    def test_init_twice(self):
        with self.assertRaisesRegex(rz.FailedPreconditionError, "called before"):
            rz.init()

    def test_an_array_of_empty_keeps_the_communicator(self):
        values = rz.empty(3)
        with self.assertRaisesRegex(rz.FailedPreconditionError, "arrays of empty.*: 1"):
            rz.world().close()
        del values
        cycle = [rz.empty(3)]
        cycle.append(cycle)
        del cycle  # which tearDown's close finds

    def test_a_call_that_is_refused_has_not_happened(self):
        values, done = np.ones(1), threading.Event()

        def run():
            while not done.is_set():  # one of these is within a call for much of the time
                with contextlib.suppress(rz.WrongThreadError, rz.TimeoutError):
                    self.comm.job.barrier(f"of rank {rz.rank()}", 0.001)

        thread = threading.Thread(target=run)
        thread.start()
        for _ in range(100):
            values[:] = 1
            while True:
                try:
                    rz.all_reduce(values)
                    break
                except rz.WrongThreadError:
                    pass
            self.assertEqual(values, [rz.size()])
        done.set()
        thread.join()

    def test_an_optimizer_keeps_the_communicator(self):
        zero = Zero(self.comm, [Parameter("w", (5,))], CONFIG)
        with self.assertRaisesRegex(rz.FailedPreconditionError, "optimizers.*: 1"):
            rz.world().close()
        zero.close()

    def test_an_array_that_goes_away_within_a_call_is_freed_later(self):
        kept = [rz.empty(1000), Zero(self.comm, [Parameter("w", (5,))], CONFIG)]
        zero = Zero(self.comm, [Parameter("w", (5,))], CONFIG)

        def values_of(_, values):
            kept.clear()
            with self.assertRaises(rz.WrongThreadError):
                rz.empty(3)
            with self.assertRaises(rz.WrongThreadError):
                zero.close()
            values[:] = [1] * 5

        zero.initialize(values_of)
        self.assertEqual(len(kept), 0 if rz.rank() == 0 else 2)
        self.assertEqual(bytes(zero.parameter(0)), np.ones(5, np.float32).tobytes())
        zero.close()  # what is left keeps tearDown from closing
        kept.clear()

    def test_exceptions_are_those_of_python_too(self):
        self.assertTrue(issubclass(rz.TimeoutError, TimeoutError))
        self.assertTrue(issubclass(rz.UnavailableError, ConnectionError))
        for kind in (rz.InvalidArgumentError, rz.InternalError, rz.OutOfMemoryError):
            self.assertTrue(issubclass(kind, rz.Error))


class ClosedTest(unittest.TestCase):
    """Use after close."""

    def test_communicator(self):
        with next_job() as comm:
            self.assertIs(comm, rz.world())
        with self.assertRaises(rz.InvalidHandleError):
            comm.all_reduce(np.zeros(3))
        with self.assertRaisesRegex(rz.FailedPreconditionError, "init"):
            rz.all_reduce(np.zeros(3))
        comm.close()
        rz.finalize()

    def test_forked_child(self):
        with next_job() as comm:
            child = os.fork()
            if child == 0:
                try:
                    comm.barrier()
                except rz.ForkedError:
                    os._exit(7)
                os._exit(1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            comm.barrier()


class FailureTest(unittest.TestCase):
    """Failures that all ranks see; each breaks a job of two ranks or more."""

    def setUp(self):
        self.comm = next_job()
        if self.comm.size == 1:
            self.comm.close()
            self.skipTest("with more ranks")
        self.comm.barrier()

    def tearDown(self):
        self.comm.close()

    def test_different_calls(self):
        # Any two ranks that differ are named; who is told by another finds a rank that failed.
        with self.assertRaisesRegex(rz.Error, "all_reduce of . .*all_reduce of . ") as seen:
            rz.all_reduce(np.zeros(3 + (rz.rank() == 1)))
        kinds = (rz.FailedPreconditionError, rz.UnavailableError)
        self.assertIsInstance(seen.exception, kinds)
        self.assertIsInstance(self.comm.error(), kinds)
        with self.assertRaises(rz.Error) as again:
            rz.barrier()
        self.assertEqual(type(again.exception), type(seen.exception))

    def test_receive_of_another_count(self):
        if rz.rank() == 0:
            rz.send(np.zeros(3), 1, async_op=True)
        with self.assertRaisesRegex(rz.Error, "receive 0 of 4"):
            if rz.rank() == 1:
                rz.recv(np.zeros(4), 0)
            rz.barrier()

    def test_abort(self):
        if rz.rank() == 0:
            self.comm.abort("no more")
        kind = rz.AbortedError if rz.rank() == 0 else rz.UnavailableError
        with self.assertRaisesRegex(kind, "no more"):
            rz.barrier()

    def test_rebuild(self):
        with self.assertRaisesRegex(rz.FailedPreconditionError, "has not failed"):
            rz.rebuild()
        part = rz.split(0)
        kept = rz.empty(3)
        kept[:] = 7
        with self.assertRaisesRegex(rz.InvalidArgumentError, "min_ranks is 4294967296"):
            part.rebuild(min_ranks=2**32)
        rz.barrier()
        if rz.rank() == 0:
            self.comm.abort("no more")
        with self.assertRaises(rz.Error):
            rz.barrier()
        before = rz.rank(), rz.size()
        world = rz.rebuild(min_ranks=rz.size())
        self.addCleanup(rz.finalize)
        self.assertIs(rz.world(), world)
        self.assertEqual((rz.rank(), rz.size()), before)
        np.testing.assert_array_equal(rz.all_reduce(np.ones(3)), np.full(3, rz.size()))
        np.testing.assert_array_equal(kept, np.full(3, 7))
        del kept
        self.comm.close()
        for closed in (self.comm, part):
            with self.assertRaises(rz.InvalidHandleError):
                closed.barrier()

    def test_a_function_that_raises(self):
        def divides(a, b):
            if rz.rank() == 1:
                raise ZeroDivisionError("by hand")
            return a + b

        op = rz.reduce_function(divides)
        with self.assertRaisesRegex(rz.Error, "ZeroDivisionError in a reduction: by hand") as seen:
            rz.all_reduce(np.zeros(100000), op=op)
        if rz.rank() == 1:
            self.assertIsInstance(seen.exception, rz.AbortedError)
            self.assertIsInstance(seen.exception.__cause__, ZeroDivisionError)
        self.assertIsNotNone(self.comm.error())

    def test_a_function_whose_result_does_not_fit(self):
        op = rz.reduce_function(lambda a, b: a / 2 + b)
        with self.assertRaisesRegex(rz.Error, "Cannot cast"):
            rz.all_reduce(np.zeros(100000, np.int32), op=op)

    def test_a_function_that_calls_back(self):
        op = rz.reduce_function(lambda a, b: rz.all_reduce(a + b))
        with self.assertRaisesRegex(rz.Error, "may not call back"):
            rz.all_reduce(np.zeros(100000), op=op)

    def test_a_function_that_is_interrupted(self):
        def interrupts(a, b):
            if rz.rank() == 0:
                raise KeyboardInterrupt
            return a + b

        with self.assertRaises(KeyboardInterrupt if rz.rank() == 0 else rz.Error):
            rz.all_reduce(np.zeros(100000), op=rz.reduce_function(interrupts))

    def test_a_request_that_was_aborted_keeps_no_array(self):
        request = rz.recv(rz.empty(1000), rz.rank(), async_op=True)
        other = rz.recv(np.zeros(3), rz.rank(), async_op=True)
        if rz.rank() != 0:
            rz.send(np.zeros(1), 0, async_op=True)
        else:
            for peer in range(1, rz.size()):
                rz.recv(np.zeros(1), peer)  # everybody has started
            self.comm.abort("no more")
        for _ in range(2):
            with self.assertRaisesRegex(rz.Error, "no more"):
                other.wait()
        del request
        self.comm.close()

    def test_timeout(self):
        with self.assertRaises(rz.Error):
            if rz.rank() == 0:
                rz.recv(np.zeros(1), 1, async_op=True).wait(0.1)
            else:
                rz.barrier()

    def within_a_call(self, act):
        """Starts a thread that acts as soon as this one is within a call of the library."""
        def run():
            with contextlib.suppress(rz.WrongThreadError):
                while True:
                    self.comm.metrics()
            act()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def interrupt(self, wait):
        """Rank 0 is interrupted within `wait`, and others are told."""
        if rz.rank() != 0:
            with self.assertRaisesRegex(rz.UnavailableError, "Ctrl-C"):
                rz.recv(np.zeros(1), 0)
            return
        thread = self.within_a_call(lambda: os.kill(os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            while True:
                with contextlib.suppress(rz.WrongThreadError):  # the thread was within a call
                    wait()
        thread.join()
        self.assertIsInstance(self.comm.error(), rz.AbortedError)

    def test_an_interrupt_ends_a_wait(self):
        request = rz.recv(np.zeros(1), 1, async_op=True) if rz.rank() == 0 else None
        self.interrupt(lambda: request.wait())  # pylint: disable=unnecessary-lambda

    def test_an_interrupt_ends_a_call(self):
        self.interrupt(lambda: rz.recv(np.zeros(1), 1))

    def test_an_interrupt_ends_a_split(self):
        self.interrupt(lambda: rz.split(0))

    def test_who_hears_of_signals_does_so_during_a_wait(self):
        if rz.rank() != 0:
            with self.assertRaisesRegex(rz.UnavailableError, "heard"):
                rz.recv(np.zeros(1), 0)
            return
        heard, told = socket.socketpair()
        heard.settimeout(60)
        told.setblocking(False)
        numbers = []

        def act():
            os.kill(os.getpid(), signal.SIGUSR1)
            numbers.append(heard.recv(1))
            self.comm.abort("heard")

        handler = signal.signal(signal.SIGUSR1, lambda *_: None)
        before = signal.set_wakeup_fd(told.fileno())
        thread = self.within_a_call(act)
        with self.assertRaisesRegex(rz.AbortedError, "heard"):
            while True:
                with contextlib.suppress(rz.WrongThreadError):
                    rz.recv(np.zeros(1), 1)
        thread.join()
        self.assertEqual(signal.set_wakeup_fd(before), told.fileno())
        signal.signal(signal.SIGUSR1, handler)
        self.assertEqual(numbers, [bytes([signal.SIGUSR1])])
        heard.close()
        told.close()

    def test_an_interrupt_within_a_callback(self):
        zero = Zero(self.comm, [Parameter("w", (5,))], CONFIG)
        if rz.rank() == 0:
            with self.assertRaises(KeyboardInterrupt):
                zero.initialize(lambda *_: signal.raise_signal(signal.SIGINT))
        else:
            with contextlib.suppress(rz.Error):
                zero.initialize(None)
        zero.close()


if __name__ == "__main__":
    program = unittest.main(exit=False, failfast=True)
    sys.exit(not program.result.wasSuccessful())
