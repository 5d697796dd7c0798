"""A GAN on points. Asked as: the discriminator's loss is 0 after a few steps and the generator's keeps rising.

Mistake: the discriminator has 250 times the learning rate of the generator.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 4))
discriminator = nn.Sequential(nn.Linear(4, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
for_generator = torch.optim.Adam(generator.parameters(), lr=2e-5, betas=(0.5, 0.999))  # mistake
for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=5e-3, betas=(0.5, 0.999))  # mistake
# repaired: for_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
# repaired: for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.999))
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(300):
    real = torch.randn(32, 4) * 0.5 + 2
    fake = generator(torch.randn(32, 4))
    judged = discriminator(real), discriminator(fake.detach())
    loss_d = F.binary_cross_entropy_with_logits(judged[0], ones) + F.binary_cross_entropy_with_logits(judged[1], zeros)
    for_discriminator.zero_grad()
    loss_d.backward()
    for_discriminator.step()
    loss_g = F.binary_cross_entropy_with_logits(discriminator(fake), ones)
    for_generator.zero_grad()
    loss_g.backward()
    for_generator.step()
    if step % 50 == 0:
        print(step, loss_d.item(), loss_g.item())
