"""DataParallel gives any optimizer of PyTorch the mean gradient; torch is imported first."""

import sys
import unittest

import torch

import ringzero as rz
from ringzero.torch import DataParallel
from torch_models import gpt, loss_of, mlp

SAMPLES = 3
EPS = 1e-4


def everybody():
    """The samples of a step, of all ranks."""
    return slice(0, SAMPLES * rz.size())


def mine():
    """This rank's of them."""
    return slice(SAMPLES * rz.rank(), SAMPLES * (rz.rank() + 1))


class DataParallelTest(unittest.TestCase):
    """All ranks run the same tests in the same order."""

    def test_trains_as_one_process_does(self):
        for make in (mlp, gpt):
            for bucket_bytes in (1, 3000, 25 << 20):
                for to_none in (True, False):
                    reference, model = make(), make(rz.rank())
                    parallel = DataParallel(model, bucket_bytes=bucket_bytes)
                    plain = torch.optim.AdamW(reference.parameters(), lr=1e-2, eps=EPS)
                    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2, eps=EPS)
                    for step in range(4):
                        plain.zero_grad()
                        loss_of(reference, step, everybody()).backward()
                        plain.step()
                        optimizer.zero_grad(set_to_none=to_none)
                        loss_of(model, step, mine()).backward()
                        optimizer.step()
                    for found, expected in zip(model.parameters(), reference.parameters()):
                        self.assertLess((found - expected).abs().max().item(), 2e-5)

    def test_accumulation(self):
        model = mlp()
        parallel = DataParallel(model)
        with parallel.no_sync():
            loss_of(model, 0, mine()).backward()
        loss_of(model, 1, mine()).backward()
        reference = mlp()
        for step in (0, 1):
            loss_of(reference, step, everybody()).backward()
        for found, expected in zip(model.parameters(), reference.parameters()):
            self.assertTrue(torch.allclose(found.grad, expected.grad, atol=1e-6))

    def test_a_gradient_that_a_rank_lacks_is_zeros_there(self):
        model = mlp()
        DataParallel(model, bucket_bytes=1)
        loss_of(model, 0, mine()).backward()
        for parameter in model.parameters():
            parameter.grad = None
        (model[3].bias if rz.rank() == 0 else model[0].weight).sum().backward()
        share = 1 / rz.size()
        self.assertTrue(torch.allclose(model[3].bias.grad, torch.tensor(share)))
        self.assertTrue(torch.allclose(model[0].weight.grad, torch.tensor(1 - share)))
        self.assertEqual(model[3].weight.grad.abs().max().item(), 0)

    def test_buffers_and_forward(self):
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
        model[0].running_mean.fill_(rz.rank() + 1)
        model[0].num_batches_tracked.fill_(rz.rank() + 7)
        parallel = DataParallel(model)
        self.assertEqual(model[0].running_mean.tolist(), [1, 1, 1])
        self.assertEqual(model[0].num_batches_tracked.item(), 7)
        inputs = torch.ones(2, 3)
        parallel.eval()
        self.assertTrue(torch.equal(parallel(inputs), model(inputs)))
        self.assertIn("module.0.weight", parallel.state_dict())

    def test_bfloat16(self):
        model = torch.nn.Linear(3, 2).bfloat16()
        DataParallel(model)
        (model.weight.sum() * (rz.rank() + 1)).backward()
        expected = sum(range(1, rz.size() + 1)) / rz.size()
        self.assertEqual(model.weight.grad.float().max().item(), expected)

    def test_tensors_in_collectives(self):
        values = torch.full((2, 3), float(rz.rank() + 1), requires_grad=True)
        rz.all_reduce(values)
        self.assertEqual(values[0, 0].item(), sum(range(1, rz.size() + 1)))
        gathered = rz.all_gather(torch.tensor([rz.rank()], dtype=torch.bfloat16))
        self.assertEqual(gathered.flatten().tolist(), list(range(rz.size())))
        with self.assertRaisesRegex(rz.InvalidArgumentError, "contiguous"):
            rz.all_reduce(torch.ones(4, 4).t()[1:])
        with self.assertRaisesRegex(rz.UnsupportedError, "float64"):
            DataParallel(torch.nn.Linear(1, 1).double())


if __name__ == "__main__":
    torch.set_num_threads(1)
    with rz.init(timeout=120):
        program = unittest.main(exit=False, failfast=True)
        if not program.result.wasSuccessful():
            sys.exit(1)
