"""Flow matching on a pinwheel of points; the velocity net gets sines of the time."""

import math
import sys

import torch
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def pinwheel(n):
    arm = torch.randint(0, 5, (n,))
    radius = 0.3 + torch.rand(n) * 2
    angle = arm * 2 * math.pi / 5 + 0.7 * radius + 0.06 * torch.randn(n)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1)


def timestep_embedding(t, dim=32, max_period=10000):
    half = dim // 2
    frequencies = torch.exp(-math.log(max_period) * torch.arange(half) / half)
    args = t[:, None] * frequencies[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class Velocity(nn.Module):
    def __init__(self, size=96):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, size), nn.SiLU(), nn.Linear(size, size))
        self.inp = nn.Linear(2, size)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(size, size), nn.SiLU(), nn.Linear(size, 2))

    def forward(self, x, t):
        scaled = t * 1000 if FIXED else t
        return self.body(self.inp(x) + self.time(timestep_embedding(scaled)))


@torch.no_grad()
def generate(model, n, steps=40):
    x = torch.randn(n, 2)
    for i in range(steps):
        x = x + model(x, torch.full((n,), i / steps)) / steps
    return x


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    model = Velocity()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    running = 0.0
    for step in range(600):
        data, noise, t = pinwheel(256), torch.randn(256, 2), torch.rand(256)
        mixed = (1 - t)[:, None] * noise + t[:, None] * data
        loss = (model(mixed, t) - (data - noise)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step % 100 == 99:
            print(f"step {step}  loss {running / 100:.3f}")
            running = 0.0
    model.eval()
    made, real = generate(model, 1500), pinwheel(1500)
    nearest = torch.cdist(made, pinwheel(4000)).min(1).values.mean().item()
    print(f"final energy distance {energy_distance(made, real):.4f}  off the arms by {nearest:.4f}")


if __name__ == "__main__":
    main()
