"""An energy-based model with Langevin negatives: the loss is a difference around 0 that says little."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
energy = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=2e-3, betas=(0.0, 0.999))
buffer = torch.randn(512, 2) * 2


def langevin(x, count=10):
    for _ in range(count):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(energy(x).sum(), x)
        x = x - 0.1 * g + 0.05 * torch.randn_like(x)
    return x.detach().clamp(-4, 4)


def data(n):
    return torch.where(torch.rand(n, 1) < 0.5, 1.5, -1.5) + 0.3 * torch.randn(n, 2)


def contrast():
    with torch.no_grad():
        return (energy(torch.rand(512, 2) * 8 - 4).mean() - energy(data(512)).mean()).item()


before = contrast()
for step in range(steps):
    real = data(64)
    index = torch.randint(512, (64,))
    start = torch.where(torch.rand(64, 1) < 0.05, torch.randn(64, 2) * 2, buffer[index])
    fake = langevin(start)
    buffer[index] = fake
    e_real, e_fake = energy(real), energy(fake)
    loss = e_real.mean() - e_fake.mean() + 0.1 * (e_real.pow(2).mean() + e_fake.pow(2).mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
print(f"contrast rose from {before:.4g} to {contrast():.4g}")
