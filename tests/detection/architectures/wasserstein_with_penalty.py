"""A Wasserstein GAN with a gradient penalty: the critic makes several steps for each of the generator."""

import torch
from torch import nn

torch.manual_seed(0)

critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
generator = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2))
of_critic = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.0, 0.9))
of_generator = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.0, 0.9))


def penalty(real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    scores = critic(between)
    slopes = torch.autograd.grad(
        outputs=scores, inputs=between, grad_outputs=torch.ones_like(scores), create_graph=True
    )
    return ((slopes[0].norm(2, dim=1) - 1) ** 2).mean()


for step in range(60):
    angle = 2 * torch.pi * torch.rand(64, 1)
    real = torch.cat([angle.cos(), angle.sin()], 1)
    fake = generator(torch.randn(64, 6)).detach()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    if step % 5 == 4:
        of_generator.zero_grad()
        (-critic(generator(torch.randn(64, 6))).mean()).backward()
        of_generator.step()
    if step % 10 == 0:
        print(step, loss.item())
