"""A DCGAN on images of 8 x 8. Asked as: several steps of the discriminator for each of the generator, loss 0.

Mistake: the discriminator makes ten steps for each step of the generator.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
TIMES = 10  # mistake
# repaired: TIMES = 1


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(8, 16 * 4 * 4)
        self.draw = nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1)

    def forward(self, z):
        return torch.tanh(self.draw(F.relu(self.start(z)).view(-1, 16, 4, 4)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Conv2d(1, 16, 4, stride=2, padding=1)
        self.judge = nn.Linear(16 * 4 * 4, 1)

    def forward(self, image):
        return self.judge(F.leaky_relu(self.look(image), 0.2).flatten(1))


def images():
    place = torch.randint(0, 7, (32,))
    drawn = -torch.ones(32, 1, 8, 8)
    drawn[torch.arange(32), 0, place] = 1.0
    return drawn


generator, discriminator = Generator(), Discriminator()
for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(150):
    for _ in range(TIMES):
        with torch.no_grad():
            fake = generator(torch.randn(32, 8))
        of_real, of_fake = discriminator(images()), discriminator(fake)
        loss_d = F.binary_cross_entropy_with_logits(of_real, ones) + F.binary_cross_entropy_with_logits(of_fake, zeros)
        for_discriminator.zero_grad()
        loss_d.backward()
        for_discriminator.step()
    loss_g = F.binary_cross_entropy_with_logits(discriminator(generator(torch.randn(32, 8))), ones)
    for_generator.zero_grad()
    loss_g.backward()
    for_generator.step()
    if step % 30 == 0:
        print(step, loss_d.item(), loss_g.item())
