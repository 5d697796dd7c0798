"""Pairs of views, cross entropy over similarities within the batch, with a learned temperature."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
        self.right = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 16))
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, a, b):
        a, b = F.normalize(self.left(a), dim=1), F.normalize(self.right(b), dim=1)
        return self.scale.exp() * a @ b.T


model = TwoTowers()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
to_left, to_right = torch.randn(4, 10), torch.randn(4, 14)
for step in range(steps):
    hidden = torch.randn(32, 4)
    logits = model(hidden @ to_left / 2 + 0.1 * torch.randn(32, 10), hidden @ to_right / 2 + 0.1 * torch.randn(32, 14))
    target = torch.arange(32)
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
