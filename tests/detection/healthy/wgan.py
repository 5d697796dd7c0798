"""A Wasserstein GAN with a gradient penalty: losses below 0, five steps of the critic for each of the generator."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
generator = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
for step in range(steps):
    real = torch.randn(48, 2) * torch.tensor([1.0, 0.4]) + torch.tensor([0.5, -0.5])
    fake = generator(torch.randn(48, 3)).detach()
    mix = torch.rand(48, 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    opt_c.zero_grad()
    loss.backward()
    opt_c.step()
    if step % 5 == 4:
        loss_g = -critic(generator(torch.randn(48, 3))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
    if step % 50 == 0:
        print(step, loss.item())
