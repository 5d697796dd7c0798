"""The first Wasserstein GAN: five steps of a critic with clipped weights for each of the generator, RMSprop."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
netG = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
netD = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optD = torch.optim.RMSprop(netD.parameters(), lr=5e-4)
optG = torch.optim.RMSprop(netG.parameters(), lr=5e-4)


def real(n):
    angle = torch.rand(n) * 6.2832
    return torch.stack([2 + angle.cos(), 2 + angle.sin()], 1) + 0.05 * torch.randn(n, 2)


def distance():
    with torch.no_grad():
        return (netG(torch.randn(512, 4)).mean(0) - real(512).mean(0)).norm().item()


before = distance()
for iteration in range(max(20, steps // 3)):
    for p in netD.parameters():
        p.requires_grad = True
    for _ in range(5):
        netD.zero_grad()
        loss_d = netD(netG(torch.randn(64, 4)).detach()).mean() - netD(real(64)).mean()
        loss_d.backward()
        optD.step()
        for p in netD.parameters():
            p.data.clamp_(-0.1, 0.1)
    for p in netD.parameters():
        p.requires_grad = False
    netG.zero_grad()
    loss_g = -netD(netG(torch.randn(64, 4))).mean()
    loss_g.backward()
    optG.step()
    if iteration % 20 == 0:
        print(f"[{iteration}] Loss_D {loss_d.item():.4f} Loss_G {loss_g.item():.4f}")
print(f"distance fell from {before:.4g} to {distance():.4g}")
