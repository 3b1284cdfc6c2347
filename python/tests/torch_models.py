"""Models and batches that the tests of ringzero.torch train; alike on all ranks."""

import torch


class Block(torch.nn.Module):
    """A causal transformer block."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        # Without bias: the gradient of the keys' is rounding alone, which Adam makes large.
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.proj = torch.nn.Linear(width, width)
        self.grow, self.shrink = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        """x [batch, time, width], likewise out."""
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(batch, time, width))
        return x + self.shrink(torch.nn.functional.gelu(self.grow(self.norm2(x))))


class Gpt(torch.nn.Module):
    """Characters in, logits out; the position embedding is a parameter of the model itself."""

    def __init__(self, vocabulary=11, width=16, heads=2, layers=2, context=8):
        super().__init__()
        self.token = torch.nn.Embedding(vocabulary, width)
        self.position = torch.nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        """tokens [batch, time]; logits [batch, time, vocabulary]."""
        x = self.token(tokens) + self.position[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(seed=0):
    """A small GPT; the same for the same seed."""
    torch.manual_seed(seed)
    return Gpt()


def mlp(seed=0):
    """A small MLP with sizes that divide by nothing."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(7, 13), torch.nn.ReLU(), torch.nn.LayerNorm(13),
                               torch.nn.Linear(13, 5))


def loss_of(model, step, samples):
    """The mean loss of some of the samples of a step; there are as many as one likes."""
    generator = torch.Generator().manual_seed(1000 + step)
    count = 64  # another number would give other samples
    if isinstance(model, torch.nn.Sequential):
        inputs = torch.randn(count, 7, generator=generator)[samples]
        return ((model(inputs) - inputs[:, :5].sin()) ** 2).mean()
    tokens = torch.randint(0, 11, (count, 9), generator=generator)[samples]
    logits = model(tokens[:, :-1])
    return torch.nn.functional.cross_entropy(logits.reshape(-1, 11).float(),
                                             (tokens[:, 1:] * 3 % 11).reshape(-1))
