"""Three tasks one after the other with elastic weight consolidation: the loss rises where a task begins."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
penalties = []
for task in range(3):
    centres = torch.randn(3, 20)
    history = []

    def batch(centres=centres):
        y = torch.randint(3, (32,))
        return centres[y] + 0.7 * torch.randn(32, 20), y

    for step in range(max(30, steps // 3)):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        for fisher, old in penalties:
            for p, f, o in zip(model.parameters(), fisher, old):
                loss = loss + 50 * (f * (p - o).pow(2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print("task", task, history[0], history[-1])
    fisher = [torch.zeros_like(p) for p in model.parameters()]
    for _ in range(20):
        x, y = batch()
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for f, p in zip(fisher, model.parameters()):
            f += p.grad**2 / 20
    penalties.append((fisher, [p.detach().clone() for p in model.parameters()]))
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
