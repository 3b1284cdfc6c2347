"""A process ends after a backward pass that failed, with its graph still there."""

import sys

import ringzero as rz
import torch

from ringzero.torch import DataParallel, ZeroOptimizer
from torch_models import gpt, loss_of

with rz.init(timeout=120):
    model = gpt()
    zero = ZeroOptimizer(model, stage=int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    samples = slice(0, 3)
    loss_of(model, 0, samples).backward()
    try:
        loss_of(model, 0, samples).backward()
        sys.exit("the second backward should have failed")
    except rz.FailedPreconditionError:
        pass
    other = DataParallel(gpt())
    handle = other.module.norm.weight.register_hook(lambda _: 1 / 0)
    try:
        loss_of(other.module, 0, samples).backward()
        sys.exit("the third backward should have failed")
    except ZeroDivisionError:
        pass
    handle.remove()
    try:
        loss_of(other.module, 0, samples).backward()
        sys.exit("the fourth backward should have failed")
    except rz.FailedPreconditionError:
        pass
    assert torch.isfinite(model.head.weight).all()
