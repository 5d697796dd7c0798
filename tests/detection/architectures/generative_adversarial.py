"""A convolutional GAN with batch norm in the generator and spectral norm in the discriminator; hinge loss."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)
generator = nn.Sequential(
    nn.Linear(8, 16 * 4 * 4),
    nn.Unflatten(1, (16, 4, 4)),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.ConvTranspose2d(16, 8, 4, 2, 1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 1, 3, padding=1),
    nn.Tanh(),
)
discriminator = nn.Sequential(
    spectral_norm(nn.Conv2d(1, 16, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(), spectral_norm(nn.Linear(256, 1))
)
for_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
for_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.0, 0.9))
shapes = torch.randn(4, 1, 8, 8).sign() * 0.8
for step in range(50):
    real = (shapes[torch.randint(0, 4, (16,))] + 0.1 * torch.randn(16, 1, 8, 8)).clamp(-1, 1)
    fake = generator(torch.randn(16, 8))
    loss_d = F.relu(1 - discriminator(real)).mean() + F.relu(1 + discriminator(fake.detach())).mean()
    for_d.zero_grad()
    loss_d.backward()
    for_d.step()

    loss_g = -discriminator(generator(torch.randn(16, 8))).mean()
    for_g.zero_grad()
    loss_g.backward()
    for_g.step()
    if step % 10 == 0:
        print(step, loss_d.item(), loss_g.item())
