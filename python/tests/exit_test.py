"""How programs end: quietly, or with an exception that the other ranks are told of; and torchrun."""

import importlib.util
import os
import socket
import subprocess
import sys
import unittest

from free_ports import two_free_ports
from notices import without_notices

# Each is a whole program; `end` is what it does last.
_PROGRAM = """
import array, os, sys
import ringzero as rz
{begin}
values = rz.all_reduce(array.array("d", [1.0]))
assert values[0] == rz.size(), values
{end}
"""

_PLAIN = "rz.init()"
_WITHIN = "with rz.init():\n  if rz.rank() == 0: raise ValueError('no such file')\n  rz.barrier()"
_FORKS = """
import numpy
values[0] = shared.sum()
child = os.fork()
if child == 0:
  del shared
  sys.exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 7)
"""
_EXITS = """
with rz.init() as comm:
  comm.job.fail = lambda cause: print(cause, file=sys.stderr)
  sys.exit({status})
"""
_KEEPS_ARRAYS = """
try:
  with rz.init() as comm:
    shared = rz.empty(70000)
    shared += 1
    raise ValueError('no such file')
except ValueError:
  assert shared.sum() == 70000
assert not rz.is_initialized()
assert comm.handle
{let_go}
rz.init()
assert bool(comm.handle) == ('shared' in dir())
assert 'shared' not in dir() or shared.sum() == 70000
"""
_ONE_FAILS = "if rz.rank() == 0: raise ValueError('no such file')\nrz.barrier()"


# A world of one.
ALONE = {name: "" for name in os.environ if name.startswith("RZ_") and name != "RZ_LIBRARY"}


# Rank 1 dies, which rank 0 survives.
_ONE_DIES = """
part = rz.split(0)
rz.barrier()
if rz.rank() == 1: os._exit(3)
try:
  while True: rz.barrier()
except rz.UnavailableError: pass
world = rz.rebuild(min_ranks=1)
assert world is rz.world() and (rz.rank(), rz.size()) == (0, 1)
assert rz.all_reduce(array.array("d", [5.0]))[0] == 5
"""


# So does rank 0, which serves the rendezvous.
_THE_SERVER_DIES = """
if rz.rank() == 0: os._exit(3)
try:
  while True: rz.barrier()
except rz.UnavailableError: pass
rz.rebuild()
"""


def run(begin, end, environments):
    """The exit status and the error output of one process for each environment."""
    ranks = [subprocess.Popen([sys.executable, "-c", _PROGRAM.format(begin=begin, end=end)],
                              env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
             for environment in environments]
    outcomes = []
    for rank in ranks:
        _, text = rank.communicate(timeout=120)
        outcomes.append((rank.returncode, without_notices(text)))
    return outcomes


def two_ranks():
    """The environments of two ranks of a job that torchrun starts."""
    port = two_free_ports()
    return [{**ALONE, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for rank in range(2)]


class ExitTest(unittest.TestCase):
    """Two processes in torchrun's environment, without torch."""

    def test_in_torchrun_s_environment(self):
        for begin in (_PLAIN, "comm = rz.init(); shared = rz.split(0)"):
            for code, text in run(begin, "", two_ranks()):
                self.assertEqual((code, text), (0, ""))

    def test_an_exit_within_a_with_is_no_failure(self):
        for status, expected in (("", (0, "")), ("0", (0, "")), ("3", (3, "SystemExit: 3\n"))):
            self.assertEqual(run(_EXITS.format(status=status), "", [ALONE]), [expected])

    def test_the_others_are_told_of_an_exception(self):
        for begin, end in ((_PLAIN, _ONE_FAILS), (_WITHIN, "")):
            (code, text), (other_code, other_text) = run(begin, end, two_ranks())
            self.assertEqual((code, other_code), (1, 1))
            self.assertRegex(text, "ValueError: no such file\n$")
            self.assertRegex(other_text, "UnavailableError: .*rank 0.*ValueError: no such file")

    def test_who_is_left_goes_on(self):
        (code, text), (other_code, _) = run(_PLAIN, _ONE_DIES, two_ranks())
        self.assertEqual((code, other_code, text), (0, 3, ""))

    def test_nobody_goes_on_without_the_rendezvous(self):
        (code, _), (other_code, text) = run(_PLAIN, _THE_SERVER_DIES, two_ranks())
        self.assertEqual((code, other_code), (3, 1))
        self.assertRegex(text, "UnavailableError: .*which rank 0 served, is not reached")

    def test_alone(self):
        environment = {**two_ranks()[0], "WORLD_SIZE": "1"}
        with socket.socket() as taken:  # A rank that has nobody to meet serves no rendezvous.
            taken.bind(("127.0.0.1", int(environment["MASTER_PORT"]) + 1))
            taken.listen()
            self.assertEqual(run(_PLAIN, "rz.finalize()", [environment]), [(0, "")])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "with NumPy")
    def test_a_forked_child_ends_quietly(self):
        self.assertEqual(run("rz.init(); shared = rz.empty(3)", _FORKS, [ALONE]), [(0, "")])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "with NumPy")
    def test_arrays_outlive_a_with_that_an_exception_ends(self):
        for let_go in ("", "del shared"):
            self.assertEqual(run(_KEEPS_ARRAYS.format(let_go=let_go), "", [ALONE]), [(0, "")])

    def test_torchrun_over_hosts_says_what_to_do(self):
        environment = {**two_ranks()[0], "MASTER_ADDR": "node7"}
        (code, text), = run(_PLAIN, "", [environment])
        self.assertEqual(code, 1)
        self.assertRegex(text, "MASTER_ADDR=node7.*set RZ_RENDEZVOUS=")
        (code, text), = run(_PLAIN, "", [{**environment, "RANK": "first"}])
        self.assertRegex(text, "RANK=first is not a whole number")


if __name__ == "__main__":
    if os.environ.get("RZ_RANK", "0") == "0":
        unittest.main()
