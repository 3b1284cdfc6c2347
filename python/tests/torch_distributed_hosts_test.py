"""A rank on each of several hosts, which tools/netns_hosts has made."""

import datetime
import os

import torch
import torch.distributed as dist

import ringzero.torch  # pylint: disable=unused-import

rank, size = int(os.environ["NETNS_HOST"]), int(os.environ["NETNS_HOSTS"])
dist.init_process_group("ringzero", init_method=f"tcp://{os.environ['NETNS_ADDRESS_0']}:29400",
                        rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60))
values = torch.full((1000,), rank + 1.0)
dist.all_reduce(values)
assert values.tolist() == [size * (size + 1) / 2] * 1000, values
assert dist.group.WORLD._comm.hosts == size

others = dist.new_group(list(range(1, size)))  # its rank 0 is not on the store's host
if rank > 0:
    values = torch.ones(5)
    dist.all_reduce(values, group=others)
    assert values.tolist() == [size - 1] * 5, values
dist.barrier()
dist.destroy_process_group()
