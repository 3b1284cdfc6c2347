"""How ranks in torchrun's environment begin and end: programs of C++, started one by one."""

import os
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, "python/tests")
from free_ports import two_free_ports  # noqa: E402  pylint: disable=wrong-import-position

_ALL_REDUCE = os.environ["ALL_REDUCE"]
_TRAIN = os.environ["TRAIN"]


def start(command, rank, world, port, **more):
    """A process with torchrun's variables."""
    environment = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


class TorchrunTest(unittest.TestCase):
    """Waits are long enough for any machine."""

    def test_a_world_of_one_needs_no_port(self):
        port = two_free_ports()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port + 1))
            taken.listen()
            alone = start([_ALL_REDUCE], 0, 1, port)
            self.assertEqual(alone.communicate(timeout=300), ("rank 0 of 1: sum 1\n", ""))

    def test_a_port_that_is_taken_is_named(self):
        port = two_free_ports()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port + 1))
            taken.listen()
            first = start([_ALL_REDUCE], 0, 2, port)
            _, text = first.communicate(timeout=300)
        self.assertEqual(first.returncode, 1)
        self.assertRegex(text, f"cannot listen on 127.0.0.1:{port + 1}")

    def test_the_others_end_when_rank_0_is_killed(self):
        command = [_TRAIN, "--dataset", "synthetic", "--model", "20-24-5", "--steps", "100000000"]
        port = two_free_ports()
        ranks = [start(command, rank, 3, port, RZ_CONNECT_TIMEOUT="1h") for rank in range(3)]
        self.assertRegex(ranks[0].stdout.readline(), ".")
        while not ranks[0].stdout.readline().startswith("step 1 "):
            pass
        ranks[0].send_signal(signal.SIGKILL)
        for rank in ranks:
            _, text = rank.communicate(timeout=300)
            if rank is not ranks[0]:
                self.assertEqual(rank.returncode, 1)
                self.assertRegex(text, "rank 0 has ended: the rendezvous .* is gone")

    def test_the_others_hear_why_rank_0_has_failed(self):
        port = two_free_ports()
        command = [_TRAIN, "--dataset", "synthetic", "--model", "20-24-5", "--steps", "2"]
        first = start([*command, "--reference", "/none"], 0, 2, port)
        other = start(command, 1, 2, port)
        _, text = first.communicate(timeout=300)
        _, heard = other.communicate(timeout=300)
        self.assertEqual((first.returncode, other.returncode), (1, 1))
        self.assertIn("/none", text)
        self.assertRegex(heard, "rank 0 failed: .*/none")

    def test_values_that_cannot_be_are_named(self):
        for more, message in (({"RANK": "2"}, "RANK=2 is outside WORLD_SIZE=2"),
                              ({"WORLD_SIZE": ""}, "RANK=0 but WORLD_SIZE is not set"),
                              ({"MASTER_ADDR": "node7"}, "MASTER_ADDR=node7.*RZ_RENDEZVOUS")):
            for command in ([_ALL_REDUCE], [_TRAIN, "--steps", "1"]):
                wrong = start(command, 0, 2, 20000, **more)
                _, text = wrong.communicate(timeout=300)
                self.assertEqual(wrong.returncode, 1)
                self.assertRegex(text, message)


if __name__ == "__main__":
    unittest.main()
