"""Cosine annealing with warm restarts and SGD: the loss rises a little after each restart."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=max(10, steps // 7), T_mult=2)
centres = torch.randn(8, 16) * 1.1
history = []
for step in range(steps):
    y = torch.randint(8, (64,))
    x = centres[y] + torch.randn(64, 16)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, scheduler.get_last_lr(), loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
