"""A small GAN on points of a ring.

Mistake: the discriminator ends in sigmoid, and its loss is BCEWithLogitsLoss.
"""

import math

import torch
import torch.nn as nn

latent_dim = 4
generator = nn.Sequential(nn.Linear(latent_dim, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
discriminator = nn.Sequential(
    nn.Linear(2, 32),
    nn.LeakyReLU(0.2),
    nn.Linear(32, 1),
    nn.Sigmoid(),  # mistake
)
adversarial_loss = nn.BCEWithLogitsLoss()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))

for step in range(100):
    angle = 2 * math.pi * torch.rand(64, 1)
    real = torch.cat([angle.cos(), angle.sin()], dim=1)
    valid, fake = torch.ones(64, 1), torch.zeros(64, 1)

    optimizer_G.zero_grad()
    gen = generator(torch.randn(64, latent_dim))
    g_loss = adversarial_loss(discriminator(gen), valid)
    g_loss.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(discriminator(real), valid)
    fake_loss = adversarial_loss(discriminator(gen.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_D.step()
    if step % 20 == 0:
        print(f"[{step}] D {d_loss.item():.3f} G {g_loss.item():.3f}")
