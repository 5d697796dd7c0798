"""RealNVP of two moons: the negative log likelihood crosses 0 on its way down."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))

    def forward(self, x):
        s, t = self.net(x * self.mask).chunk(2, 1)
        s, t = torch.tanh(s) * (1 - self.mask), t * (1 - self.mask)
        return x * s.exp() + t, s.sum(1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        masks = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])] * 3
        self.layers = nn.ModuleList(Coupling(mask) for mask in masks)
        self.prior = torch.distributions.Normal(0.0, 1.0)

    def log_prob(self, x):
        total = 0.0
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return self.prior.log_prob(x).sum(1) + total


flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3)
history = []
for step in range(steps):
    angle = torch.rand(128) * 3.1416
    x = torch.stack([angle.cos(), angle.sin()], 1) * 0.5 + 0.02 * torch.randn(128, 2)
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
