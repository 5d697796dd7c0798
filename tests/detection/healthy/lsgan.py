"""A GAN with least squares: labels of 0 and 1 in a mean squared error, on purpose."""

import math
import sys

import torch
from torch import nn

steps = int(sys.argv[1])
G = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
criterion = nn.MSELoss()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.999))
for step in range(steps):
    angle = 2 * math.pi * torch.rand(64, 1)
    real = torch.cat([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(64, 2)
    fake = G(torch.randn(64, 4))
    opt_d.zero_grad()
    d_loss = 0.5 * (criterion(D(real), torch.ones(64, 1)) + criterion(D(fake.detach()), torch.zeros(64, 1)))
    d_loss.backward()
    opt_d.step()
    opt_g.zero_grad()
    g_loss = criterion(D(fake), torch.ones(64, 1))
    g_loss.backward()
    opt_g.step()
    if step % 50 == 0:
        print(step, d_loss.item(), g_loss.item())
