"""Depthwise 7x7 convolutions, layer norm over channels, layer scale that starts at 1e-6 and mixup."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x):
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return x + (self.gamma * self.mlp(self.norm(y))).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, width=24, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, 2)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x)).mean((2, 3))))


model = ConvNeXt()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
templates = torch.randn(4, 3, 12, 12)
for step in range(40):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 3, 12, 12)
    share = torch.distributions.Beta(0.8, 0.8).sample()
    order = torch.randperm(32)
    logits = model(share * x + (1 - share) * x[order])
    loss = share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y[order])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
