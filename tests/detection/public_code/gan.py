"""Images in the manner of PyTorch-GAN's gan.py: batch normalization, BCELoss, two Adams."""

import sys

import torch
import torch.nn as nn

steps = int(sys.argv[1])
latent_dim, img_shape = 10, (1, 8, 8)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(latent_dim, 32, normalize=False), *block(32, 64), nn.Linear(64, 64), nn.Tanh()
        )

    def forward(self, z):
        return self.model(z).view(z.size(0), *img_shape)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(64, 48),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(48, 24),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(24, 1),
            nn.Sigmoid(),
        )

    def forward(self, img):
        return self.model(img.view(img.size(0), -1))


adversarial_loss = nn.BCELoss()
generator = Generator()
discriminator = Discriminator()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
shapes = torch.sign(torch.randn(6, *img_shape))
for i in range(steps):
    real_imgs = (0.8 * shapes[torch.randint(6, (32,))] + 0.2 * torch.randn(32, *img_shape)).clamp(-1, 1)
    valid = torch.ones(32, 1)
    fake = torch.zeros(32, 1)

    optimizer_G.zero_grad()
    z = torch.randn(32, latent_dim)
    gen_imgs = generator(z)
    g_loss = adversarial_loss(discriminator(gen_imgs), valid)
    g_loss.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(discriminator(real_imgs), valid)
    fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_D.step()
    if i % 20 == 0:
        print(f"[Batch {i}/{steps}] [D loss: {d_loss.item():f}] [G loss: {g_loss.item():f}]")
