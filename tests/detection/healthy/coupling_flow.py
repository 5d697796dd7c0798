"""A normalizing flow of coupling layers whose last layers start with zeros; its loss becomes negative."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])


class Coupling(nn.Module):
    def __init__(self, is_flipped):
        super().__init__()
        self.is_flipped = is_flipped
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        kept, moved = x.chunk(2, 1)[:: -1 if self.is_flipped else 1]
        scale, shift = self.net(kept).chunk(2, 1)
        moved = moved * scale.tanh().exp() + shift
        return torch.cat([moved, kept] if self.is_flipped else [kept, moved], 1), scale.tanh().squeeze(1)


flow = nn.ModuleList(Coupling(at % 2 == 1) for at in range(6))
normal = torch.distributions.Normal(0.0, 1.0)
optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3)
for step in range(steps):
    first = 0.3 * torch.randn(128, 1)
    x = torch.cat([first, first**2 + 0.1 * torch.randn(128, 1)], 1)
    volume = torch.zeros(len(x))
    for layer in flow:
        x, change = layer(x)
        volume = volume + change
    loss = -(normal.log_prob(x).sum(1) + volume).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
