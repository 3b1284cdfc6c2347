"""What the tests of the torch.distributed backend have in common."""

import datetime
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist

import ringzero.torch  # pylint: disable=unused-import


def store_path():
    """A file for the store of the ranks that one rz_run has started."""
    folder = os.environ.get("TEST_TMPDIR") or tempfile.gettempdir()
    return pathlib.Path(folder, f"ringzero-torch-store-{os.getppid()}")


def join(backend="ringzero", **options):
    """init_process_group with rank and world size, and nothing else, of what rz_run gives."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RZ_RANK"]), int(os.environ["RZ_WORLD_SIZE"])
    for name in [name for name in os.environ if name.startswith("RZ_") and name != "RZ_LIBRARY"]:
        del os.environ[name]
    options.setdefault("timeout", datetime.timedelta(seconds=120))
    dist.init_process_group(backend, init_method=f"file://{store_path()}", rank=rank,
                            world_size=size, **options)
    return rank, size
