"""Python programs as ranks of a job."""

# The first arguments of a test that starts ranks, and what it needs for them.
RANKS = [
    "$(location //tools:rz_run)",
    "$(location //library:libringzero.so)",
]

RANKS_DATA = [
    "//:ringzero",
    "//library:libringzero.so",
    "//python:sources",
    "//tests:skip.sh",
    "//tools:rz_run",
]

def ranks_test(name, ranks, program = None, modules = [], data = [], size = "medium"):
    """Runs a program with /usr/bin/python3 as all ranks of a job.

    Args:
      name: of the test.
      ranks: numbers of ranks, one run each.
      program: its label; NAME.py without.
      modules: without one of these the test is skipped.
      data: further files that the program reads.
      size: of the test.
    """
    program = program or name + ".py"
    native.sh_test(
        name = name,
        size = size,
        srcs = ["ranks_test.sh"],
        args = RANKS + ["$(location %s)" % program] + [str(count) for count in ranks] +
               ["--"] + modules,
        data = RANKS_DATA + [program] + data,
    )
