"""Uncertainty by dropout: evaluations repeat the forward pass with the dropout layers in training mode."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(
    nn.Linear(1, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(64, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)


def enable_dropout(module):
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.train()


def batch(n=48):
    x = torch.rand(n, 1) * 4 - 2
    return x, torch.sin(2 * x) + 0.05 * torch.randn(n, 1)


history = []
for step in range(steps):
    model.train()
    x, y = batch()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 25 == 24:
        model.eval()
        enable_dropout(model)
        x, y = batch(100)
        with torch.no_grad():
            samples = torch.stack([model(x) for _ in range(10)])
        print(step, loss.item(), (samples.mean(0) - y).pow(2).mean().item(), samples.std(0).mean().item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
