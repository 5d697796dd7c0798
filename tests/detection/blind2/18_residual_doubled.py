"""Is an alarm still on at the end of a log? A small transformer encoder written by hand."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

VOCAB, LENGTH = 12, 20


def events(n, generator):
    """Did an alarm (1) come, and no all-clear (2) after it?"""
    x = torch.randint(3, VOCAB, (n, LENGTH), generator=generator)
    special = torch.rand(n, LENGTH, generator=generator) < 0.12
    x[special] = torch.randint(1, 3, (int(special.sum()),), generator=generator)
    place = torch.arange(LENGTH)
    alarm = torch.where(x == 1, place, -1).amax(1)
    clear = torch.where(x == 2, place, -1).amax(1)
    return x, (alarm > clear).long()


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attend = nn.MultiheadAttention(size, heads, batch_first=True)

    def forward(self, x):
        x = self.norm(x)
        return self.attend(x, x, x, need_weights=False)[0]


class FeedForward(nn.Sequential):
    def __init__(self, size):
        super().__init__(nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))


class Transformer(nn.Module):
    def __init__(self, size=32, depth=4):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, size), nn.Embedding(LENGTH, size)
        self.layers = nn.ModuleList([Attention(size, 4) for _ in range(depth)])
        self.ffn_layers = nn.ModuleList([FeedForward(size) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 2))

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(LENGTH))
        for attention, ffn in zip(self.layers, self.ffn_layers, strict=True):
            if FIXED:
                x = x + attention(x)
            else:
                x = attention(x)
                x = x + x
            x = ffn(x) + x
        return self.head(x.mean(1))


def main():
    generator = torch.Generator().manual_seed(0)
    x, y = events(4000, generator)
    val_x, val_y = events(800, generator)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(250):
        batch = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                accuracy = (model(val_x).argmax(1) == val_y).float().mean().item()
            model.train()
            print(f"step {step}  loss {loss.item():.3f}  val acc {accuracy:.3f}")
    print(f"final val acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
