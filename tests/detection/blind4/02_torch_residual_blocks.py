"""Classify spirals with a residual MLP whose depth is an argument."""

import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(1)
torch.set_num_threads(1)
CLASSES = 3


def make_spirals(per_class):
    points, labels = [], []
    for label in range(CLASSES):
        radius = torch.linspace(0.1, 1, per_class)
        angle = radius * 9 + label * 2 * math.pi / CLASSES + 0.12 * torch.randn(per_class)
        points.append(torch.stack([radius * angle.cos(), radius * angle.sin()], 1))
        labels.append(torch.full((per_class,), label))
    return torch.cat(points), torch.cat(labels)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class ResidualMLP(nn.Module):
    def __init__(self, width=12, depth=4):
        super().__init__()
        self.stem = nn.Linear(2, width)
        blocks = [Block(width) for _ in range(depth)]
        self.blocks = nn.ModuleList(blocks) if FIXED else blocks
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    x, y = make_spirals(600)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    train_x, train_y, test_x, test_y = x[:1400], y[:1400], x[1400:], y[1400:]

    model = ResidualMLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=140)
    for epoch in range(140):
        model.train()
        shuffled = torch.randperm(len(train_x))
        total = 0.0
        for batch in shuffled.split(50):
            loss = F.cross_entropy(model(train_x[batch]), train_y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        scheduler.step()
        if epoch % 20 == 19:
            print(f"epoch {epoch + 1}: loss {total / len(train_x):.4f} val {accuracy(model, test_x, test_y):.3f}")
    print(f"test accuracy {accuracy(model, test_x, test_y):.3f}")


if __name__ == "__main__":
    main()
