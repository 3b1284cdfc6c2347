"""Trains a character GPT with ZeRO: every rank has the model and its own samples of the text.

    rz_run -n 2 -- python3 torch_char_gpt.py --stage 2
    torchrun --nproc-per-node 2 torch_char_gpt.py --stage 3 --text FILE
"""

import argparse
import shutil
import subprocess

import ringzero as rz
import torch
from ringzero.torch import ZeroOptimizer
from torch import nn


class Block(nn.Module):
    """Causal self-attention and an MLP, each after a LayerNorm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, time, width], likewise out."""
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class CharGpt(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, layers: int, heads: int, width: int, context: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens [batch, time]; logits [batch, time, 256]."""
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def read_text(path: str) -> torch.Tensor:
    """The bytes of a file, of Debian's King James Bible, or of PyTorch's own source."""
    if not path and shutil.which("bible"):
        text = subprocess.run(["bible", "gen1:1-rev22:21"], capture_output=True,
                              check=True).stdout
    else:
        with open(path or nn.functional.__file__, "rb") as file:
            text = file.read()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def main() -> None:
    """Trains, and prints the loss over all ranks."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--stage", type=int, default=1, choices=(0, 1, 2, 3))
    flags.add_argument("--steps", type=int, default=200)
    flags.add_argument("--batch", type=int, default=8, help="samples of each rank")
    flags.add_argument("--text", default="", help="a file; default: `bible`, or PyTorch's source")
    options = flags.parse_args()
    torch.set_num_threads(1)
    comm = rz.init()
    context = 64
    text = read_text(options.text)
    model = CharGpt(layers=2, heads=4, width=128, context=context)
    optimizer = ZeroOptimizer(model, "adamw", stage=options.stage, lr=1e-3,
                              config={"gradient_clipping": 1.0})
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=options.steps + 1,
                                                   cycle_momentum=False)
    torch.manual_seed(comm.rank)  # samples of its own
    for step in range(1, options.steps + 1):
        starts = torch.randint(len(text) - context - 1, (options.batch,))
        batch = torch.stack([text[start:start + context + 1] for start in starts])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1),
                                           batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0 or step == 1:
            mean = comm.all_reduce(loss.detach().reshape(1), op="mean").item()
            if comm.rank == 0:
                print(f"step {step} loss {mean:.4f} nats/byte", flush=True)
    held = optimizer.memory()["total"]
    print(f"rank {comm.rank} of {comm.size} holds {held:.0f} bytes of model states", flush=True)


if __name__ == "__main__":
    main()
