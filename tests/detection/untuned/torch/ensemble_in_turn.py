"""A deep ensemble for regression with variance: members one after the other, each of its own initialization."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
x = torch.rand(256, 1) * 6 - 3
y = torch.sin(2 * x) + 0.1 * (1 + x.abs()) * torch.randn(256, 1)


class Gaussian(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.mean, self.scale = nn.Linear(64, 1), nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), F.softplus(self.scale(h)) + 1e-3


members = []
for member in range(4):
    model = Gaussian()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for step in range(max(60, steps // 2)):
        index = torch.randint(256, (64,))
        mean, scale = model(x[index])
        loss = F.gaussian_nll_loss(mean, y[index], scale**2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    members.append(model)
    print(f"member {member}: {losses[0]:.3f} -> {losses[-1]:.3f}")
with torch.no_grad():
    mean = torch.stack([model(x)[0] for model in members]).mean(0)
print(f"rmse of the ensemble {(mean - y).pow(2).mean().sqrt():.3f}")
print(f"loss fell from {losses[0]:.4g} to {sum(losses[-10:]) / 10:.4g}")
