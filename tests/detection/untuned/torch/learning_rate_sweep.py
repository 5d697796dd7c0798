"""A sweep over learning rates, each from the same initial weights; the best of them is trained on."""

import copy
import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
initial = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
direction = torch.randn(12)
criterion = nn.MSELoss()


def batch():
    x = torch.randn(32, 12)
    return x, torch.sin(x @ direction / 2)[:, None]


def train(model, rate, count):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(count):
        x, y = batch()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


results = {}
for rate in [0.001, 0.003, 0.01, 0.03, 0.1]:
    model = copy.deepcopy(initial)
    losses = train(model, rate, steps // 6)
    results[rate] = sum(losses[-10:]) / 10
    print(f"lr {rate}: {results[rate]:.4f}")
best = min(results, key=results.get)
model = copy.deepcopy(initial)
losses = train(model, best, steps)
print(f"loss fell from {losses[0]:.4g} to {sum(losses[-10:]) / 10:.4g}")
