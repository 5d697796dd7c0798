"""A physics-informed network: second derivatives of its output by its inputs are the loss."""

import torch
from torch import nn

torch.manual_seed(0)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x, t):
        return self.layers(torch.cat([x, t], 1))


def by(output, given):
    return torch.autograd.grad(output, given, torch.ones_like(output), create_graph=True)[0]


field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=2e-3)
for step in range(60):
    x, t = (torch.rand(96, 1, requires_grad=True) for _ in range(2))
    u = field(x, t)
    residual = by(u, t) - 0.1 * by(by(u, x), x)
    start = torch.rand(48, 1)
    at_start = field(start, torch.zeros_like(start)) - torch.sin(torch.pi * start)
    at_edges = field(torch.randint(0, 2, (48, 1)).float(), start)
    loss = residual.square().mean() + at_start.square().mean() + at_edges.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
