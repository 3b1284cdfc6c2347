"""How programs over the backend ringzero end: quietly, or so that the other ranks are told."""

import os
import signal
import subprocess
import sys
import unittest

from free_ports import two_free_ports
from notices import without_notices

# Each is a whole program of torchrun's environment; `end` is what it does last.
_PROGRAM = """
import datetime, os, signal, sys
import torch, torch.distributed as dist
import ringzero.torch
dist.init_process_group("ringzero", timeout=datetime.timedelta(days=30))
values = torch.ones(3)
dist.all_reduce(values)
assert values[0] == dist.get_world_size(), values
{end}
"""

_AGAIN = """
group = dist.new_group([0])
dist.barrier()  # PyTorch 1.13 still looks into the store that rank 0 ends
dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
dist.init_process_group("ringzero")
dist.all_reduce(values)
assert values[0] == 4, values
dist.destroy_process_group()
"""
_AGAIN_IN_ONE_STORE = """
dist.destroy_process_group()
rank = int(os.environ["RANK"])
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1, 2, rank == 0)
for turn in range(3):
    again = dist.PrefixStore(str(turn), store)
    dist.init_process_group("ringzero", store=again, rank=rank, world_size=2)
    dist.all_reduce(values)
    dist.destroy_process_group()
assert values[0] == 16, values
"""
_SENDS_AND_GOES = """
if dist.get_rank() == 0: dist.isend(values, 1)
else: dist.recv(values, 0)
"""
_ONE_FAILS = "if dist.get_rank() == 0: raise ValueError('no such file')\ndist.barrier()"
_ONE_IS_KILLED = "if dist.get_rank() == 0: os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()"


def run(end):
    """The exit status and the error output of two ranks."""
    port = two_free_ports()
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("RZ_") or name == "RZ_LIBRARY"}
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", _PROGRAM.format(end=end)],
                              env={**clean, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
                              stderr=subprocess.PIPE, text=True) for rank in range(2)]
    outcomes = []
    for rank in ranks:
        _, text = rank.communicate(timeout=120)
        outcomes.append((rank.returncode, without_notices(text)))
    return outcomes


class ExitTest(unittest.TestCase):
    """Two processes, in turn."""

    def test_quiet_ends(self):
        for end in ("", _AGAIN, _AGAIN_IN_ONE_STORE, _SENDS_AND_GOES):
            for code, text in run(end):
                self.assertEqual((code, text), (0, ""), end)

    def test_the_others_are_told_of_an_exception(self):
        (code, text), (other_code, other_text) = run(_ONE_FAILS)
        self.assertEqual((code, other_code), (1, 1))
        self.assertRegex(text, "ValueError: no such file\n")
        self.assertRegex(other_text, "UnavailableError: .*rank 0.*ValueError: no such file")

    def test_the_others_are_told_of_a_death(self):
        (code, _), (other_code, other_text) = run(_ONE_IS_KILLED)
        self.assertEqual((code, other_code), (-signal.SIGKILL, 1))
        self.assertRegex(other_text, "UnavailableError: .*rank 0")


if __name__ == "__main__":
    if os.environ.get("RZ_RANK", "0") == "0":
        unittest.main()
