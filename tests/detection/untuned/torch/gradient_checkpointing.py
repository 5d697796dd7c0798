"""Blocks that are computed again in the backward pass, with dropout and gradient accumulation."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(16, 48)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 96), nn.GELU(), nn.Dropout(0.1), nn.Linear(96, 48))
            for _ in range(4)
        )
        self.head = nn.Linear(48, 6)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
centres = torch.randn(6, 16)
history = []
for step in range(steps):
    total = 0.0
    for _ in range(2):
        y = torch.randint(6, (16,))
        x = centres[y] + torch.randn(16, 16)
        loss = nn.functional.cross_entropy(model(x), y) / 2
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    history.append(total)
    if step % 50 == 0:
        print(step, total)
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
