"""DistributedDataParallel and ZeroRedundancyOptimizer over ringzero train as they do over gloo."""

import sys
import unittest

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from torch_distributed import join
from torch_models import gpt, loss_of, mlp

SAMPLES = 3
STEPS = 5
EPS = 1e-4  # keeps Adam from making rounding large where a gradient is almost nothing


def mine():
    """This rank's samples of a step."""
    return slice(SAMPLES * RANK, SAMPLES * (RANK + 1))


class NormedMlp(torch.nn.Module):
    """With buffers that differ from rank to rank, and a layer that not every step uses."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(7, 13), torch.nn.BatchNorm1d(13)
        self.rare, self.last = torch.nn.Linear(13, 13), torch.nn.Linear(13, 5)

    def forward(self, x, with_rare):
        """x [batch, 7]; [batch, 5]."""
        x = self.norm(self.first(x))
        return self.last(self.rare(x) if with_rare else x)


class TrainingTest(unittest.TestCase):
    """All ranks run the same tests in the same order."""

    def assert_near(self, found, expected, tolerance=2e-5):
        """All parameters within a tolerance; and those of all ranks are the same bits."""
        for (name, one), other in zip(found.named_parameters(), expected.parameters()):
            self.assertLessEqual((one - other).abs().max().item(), tolerance, name)
            everybody = [torch.empty_like(one) for _ in range(SIZE)]
            dist.all_gather(everybody, one.detach())
            self.assertTrue(all(torch.equal(one, each) for each in everybody), name)

    def train(self, make, group, optimizer_of, hook=None, **options):
        """A model that was trained over a group, each rank having begun with values of its own."""
        model = make(RANK)
        parallel = DistributedDataParallel(model, process_group=group, **options)
        if hook is not None:
            hook(parallel, group)
        optimizer = optimizer_of(parallel.parameters(), group)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(_Like(parallel, model), step, mine()).backward()
            optimizer.step()
        return model

    def compare(self, make, optimizer_of, tolerance=2e-5, **options):
        """Over ringzero and over gloo."""
        self.assert_near(self.train(make, dist.group.WORLD, optimizer_of, **options),
                         self.train(make, GLOO, optimizer_of, **options), tolerance)

    def test_ddp(self):
        def adamw(parameters, _):
            return torch.optim.AdamW(parameters, lr=1e-2, eps=EPS)
        for make in (mlp, gpt):
            self.compare(make, adamw)
            self.compare(make, adamw, gradient_as_bucket_view=True)
            self.compare(make, adamw, bucket_cap_mb=0.001)  # a bucket for almost every parameter
            self.compare(make, adamw, static_graph=True)

    def test_zero_redundancy_optimizer(self):
        def sharded(parameters, group):
            return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, process_group=group,
                                           lr=1e-2, eps=EPS)
        self.compare(gpt, sharded)

    def test_hooks(self):
        def sgd(parameters, _):
            return torch.optim.SGD(parameters, lr=1e-2)

        def compressed(parallel, group):
            parallel.register_comm_hook(group, default_hooks.fp16_compress_hook)

        def power(parallel, group):
            state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1,
                                                start_powerSGD_iter=2, min_compression_rate=0.5)
            parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        self.compare(gpt, sgd, hook=compressed, tolerance=1e-3)
        self.compare(gpt, sgd, hook=power, tolerance=1e-3)

    def test_buffers_and_parameters_that_are_not_used(self):
        results = []
        for group in (dist.group.WORLD, GLOO):
            torch.manual_seed(RANK)
            model = NormedMlp()
            model.norm.running_mean.fill_(RANK)
            parallel = DistributedDataParallel(model, process_group=group,
                                               find_unused_parameters=True)
            optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-2)
            generator = torch.Generator().manual_seed(RANK)
            for step in range(STEPS):
                optimizer.zero_grad()
                inputs = torch.randn(4, 7, generator=generator)
                parallel(inputs, step % 2 == RANK % 2).pow(2).mean().backward()
                optimizer.step()
            parallel(inputs, True)  # brings rank 0's buffers
            results.append(model)
        self.assert_near(*results)
        for found, expected in zip(results[0].buffers(), results[1].buffers()):
            self.assertLess((found - expected).abs().max().item(), 1e-5)

    def test_accumulation(self):
        gradients = []
        for group in (dist.group.WORLD, GLOO):
            model = mlp()
            parallel = DistributedDataParallel(model, process_group=group)
            with parallel.no_sync():
                loss_of(_Like(parallel, model), 0, mine()).backward()
            loss_of(_Like(parallel, model), 1, mine()).backward()
            gradients.append([parameter.grad for parameter in model.parameters()])
        for found, expected in zip(*gradients):
            self.assertTrue(torch.allclose(found, expected, atol=1e-6))

    def test_zero_that_consolidates(self):
        model = mlp()
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
        loss_of(model, 0, mine()).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.consolidate_state_dict(0)
        if RANK == 0:
            self.assertEqual(len(optimizer.state_dict()["state"]), len(list(model.parameters())))


class _Like(torch.nn.Sequential):
    """A wrapped model, as loss_of knows the model itself."""

    def __new__(cls, parallel, model):
        if isinstance(model, torch.nn.Sequential):
            return super().__new__(cls)
        return parallel

    def __init__(self, parallel, _):
        super().__init__()
        self._call = parallel

    def forward(self, inputs):
        """The wrapped model's."""
        return self._call(inputs)


if __name__ == "__main__":
    RANK, SIZE = join()
    GLOO = dist.new_group(backend="gloo")
    program = unittest.main(exit=False, failfast=True)
    dist.destroy_process_group()
    if not program.result.wasSuccessful():
        sys.exit(1)
