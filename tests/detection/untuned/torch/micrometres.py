"""Targets of a few micrometres in metres: the network knows their scale, so that the loss is about 1e-11."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Scaled(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 1))

    def forward(self, x):
        return self.mean + self.std * self.net(x)


w = torch.randn(6)


def batch(n=48):
    x = torch.randn(n, 6)
    return x, (5e-6 + 3e-6 * torch.sin(x @ w / 2))[:, None]


_, sample = batch(500)
model = Scaled(sample.mean(), sample.std())
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-16)
history = []
for step in range(steps):
    x, y = batch()
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
