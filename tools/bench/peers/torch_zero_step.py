"""A ZeRO-1 step over PyTorch's ZeroRedundancyOptimizer and Gloo, measured beside tools/bench/zero_step.

From gradients that are ready to parameters that are updated on all ranks: an all_reduce of the
gradients, as DistributedDataParallel makes it, and the optimizer's step. float32, one thread a rank.

    torch_zero_step.py RANKS MILLIONS_OF_PARAMETERS STEPS

Prints `fp32 MS`: the median over the steps of the slowest rank.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.optim import ZeroRedundancyOptimizer

_LAYERS = 8
_WARM = 2


def _run(rank: int, ranks: int, millions: int, steps: int, store: str) -> None:
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    size = (millions << 20) // _LAYERS
    layers = [torch.nn.Parameter(torch.ones(size)) for _ in range(_LAYERS)]
    for layer in layers:
        layer.grad = torch.full_like(layer, 1e-3)
    optimizer = ZeroRedundancyOptimizer(layers, torch.optim.AdamW, lr=1e-3)
    times = []
    for _ in range(_WARM + steps):
        dist.barrier()
        begin = time.perf_counter()
        for layer in layers:
            dist.all_reduce(layer.grad)
            layer.grad /= ranks
        optimizer.step()
        took = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        times.append(took.item())
    if rank == 0:
        ordered = sorted(times[_WARM:])
        print(f"fp32 {ordered[len(ordered) // 2] * 1e3:.3f}")
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    ranks, millions, steps = (int(argument) for argument in sys.argv[1:])
    store = f"/tmp/torch_zero_step.{os.getpid()}"
    try:
        mp.spawn(_run, (ranks, millions, steps, store), nprocs=ranks)
    finally:
        if os.path.exists(store):
            os.remove(store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
