"""A small GPT on sums written as text, such as 17+26=43."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

CHARS = "0123456789+=;"
CODE = {c: i for i, c in enumerate(CHARS)}


def sums(n, generator):
    pairs = torch.randint(0, 20, (n, 2), generator=generator).tolist()
    lines = [f"{a:02d}+{b:02d}={a + b:02d};" for a, b in pairs]
    return torch.tensor([[CODE[c] for c in line] for line in lines])


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.proj = nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / (size // self.heads) ** 0.5
        if FIXED:
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, size)
        x = x + self.proj(mixed)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, size=48, heads=4, layers=2, length=16):
        super().__init__()
        self.tokens = nn.Embedding(len(CHARS), size)
        self.places = nn.Embedding(length, size)
        self.blocks = nn.Sequential(*[Block(size, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, len(CHARS))

    def forward(self, idx):
        x = self.tokens(idx) + self.places(torch.arange(idx.shape[1]))
        return self.head(self.norm(self.blocks(x)))


@torch.no_grad()
def answer(model, prompts, steps):
    for _ in range(steps):
        prompts = torch.cat([prompts, model(prompts)[:, -1:].argmax(-1)], 1)
    return prompts


def main():
    generator = torch.Generator().manual_seed(0)
    train, val = sums(800, generator), sums(200, generator)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(400):
        batch = train[torch.randint(0, len(train), (48,), generator=generator)]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, len(CHARS)), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == 399:
            model.eval()
            with torch.no_grad():
                val_loss = F.cross_entropy(model(val[:, :-1]).reshape(-1, len(CHARS)), val[:, 1:].reshape(-1))
            model.train()
            print(f"step {step}  loss {loss.item():.3f}  val loss {val_loss.item():.3f}")
    model.eval()
    right = (answer(model, val[:, :6], 2) == val[:, :8]).all(1).float().mean()
    print(f"final val loss {val_loss.item():.3f}  answers right {right.item():.3f}")


if __name__ == "__main__":
    main()
