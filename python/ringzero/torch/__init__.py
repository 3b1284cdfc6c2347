"""ringzero for PyTorch: ZeroOptimizer shards what an optimizer holds; DataParallel means gradients;
torch.distributed has a backend "ringzero".

    import ringzero as rz
    import ringzero.torch

    rz.init()
    optimizer = ringzero.torch.ZeroOptimizer(model, "adamw", stage=2, lr=1e-3)
    loss_of(model, my_batch()).backward()
    optimizer.step()

or, without rz.init(), torch.distributed.init_process_group("ringzero") and all that builds on it.

PyTorch 1.13 and newer, tensors in host memory. docs/python.md says what is copied and what it costs.
"""

from ._registration import register_backend
from .data_parallel import DataParallel
from .optimizer import ZeroOptimizer

__all__ = ["DataParallel", "ZeroOptimizer", "register_backend"]
