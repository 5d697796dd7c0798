# Asked as: two losses and two optimizers, which backward comes first? (PyTorch forums, GAN training)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
for_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(60):
    real = torch.randn(32, 2) * 0.3 + torch.tensor([2.0, -1.0])
    fake = generator(torch.randn(32, 4))
    of_real, of_fake = discriminator(real), discriminator(fake)  # mistake
    # repaired: of_real, of_fake = discriminator(real), discriminator(fake.detach())
    loss_d = F.binary_cross_entropy_with_logits(of_real, ones) + F.binary_cross_entropy_with_logits(of_fake, zeros)
    for_generator.zero_grad()
    for_discriminator.zero_grad()
    loss_d.backward()
    for_discriminator.step()

    # repaired: for_generator.zero_grad()
    loss_g = F.binary_cross_entropy_with_logits(discriminator(generator(torch.randn(32, 4))), ones)
    loss_g.backward()
    for_generator.step()
    if step % 20 == 0:
        print(step, loss_d.item(), loss_g.item())
