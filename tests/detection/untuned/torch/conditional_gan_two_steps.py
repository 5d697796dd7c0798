"""A class-conditional GAN as large ones are trained: two discriminator steps for one of the generator, and its EMA."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(3, 8)
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, z, y):
        return self.net(torch.cat([z, self.embed(y)], 1))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2))
        self.out, self.embed = nn.Linear(64, 1), nn.Embedding(3, 64)

    def forward(self, x, y):
        h = self.net(x)
        return self.out(h)[:, 0] + (self.embed(y) * h).sum(1) / 8


G, D = Generator(), Discriminator()
ema = copy.deepcopy(G).requires_grad_(False)
optG = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.99))
optD = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
means = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])


def distance():
    y = torch.arange(3).repeat_interleave(100)
    with torch.no_grad():
        return (ema(torch.randn(300, 8), y) - means[y]).norm(dim=1).mean().item()


before = distance()
for iteration in range(max(20, steps // 2)):
    for _ in range(2):
        y = torch.randint(3, (64,))
        x = means[y] + 0.2 * torch.randn(64, 2)
        fake = G(torch.randn(64, 8), y).detach()
        loss_d = F.softplus(-D(x, y)).mean() + F.softplus(D(fake, y)).mean()
        optD.zero_grad()
        loss_d.backward()
        optD.step()
    y = torch.randint(3, (64,))
    loss_g = F.softplus(-D(G(torch.randn(64, 8), y), y)).mean()
    optG.zero_grad()
    loss_g.backward()
    optG.step()
    with torch.no_grad():
        for average, parameter in zip(ema.parameters(), G.parameters()):
            average.lerp_(parameter, 0.1)
    if iteration % 25 == 0:
        print(iteration, loss_d.item(), loss_g.item())
print(f"distance fell from {before:.4g} to {distance():.4g}")
