"""An energy that is low at the data: samples of the model are made from noise, and no term of the loss has labels."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
energy = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3, betas=(0.0, 0.999))
centers = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
buffer = torch.rand(1000, 2) * 6 - 3


def sampled(x, count=15, size=0.02):
    energy.requires_grad_(False)
    x = x.clone().requires_grad_()
    for _ in range(count):
        (slope,) = torch.autograd.grad(energy(x).sum(), x)
        with torch.no_grad():
            x = x - size * slope.clamp(-5, 5) + 0.5 * (2 * size) ** 0.5 * torch.randn_like(x)
            x = x.clamp(-3, 3)
        x.requires_grad_()
    energy.requires_grad_(True)
    return x.detach()


for step in range(steps):
    real = centers[torch.randint(4, (128,))] + 0.2 * torch.randn(128, 2)
    chosen = torch.randint(1000, (128,))
    start = buffer[chosen]
    is_fresh = torch.rand(128) < 0.05
    start[is_fresh] = torch.rand(int(is_fresh.sum()), 2) * 6 - 3
    made = sampled(start)
    buffer[chosen] = made
    of_real, of_made = energy(real), energy(made)
    loss = of_real.mean() - of_made.mean() + 0.1 * (of_real**2 + of_made**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item(), of_real.mean().item(), of_made.mean().item())
