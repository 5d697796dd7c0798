"""Image translation as pix2pix does it: an adversarial loss of patches plus a hundred times the absolute error."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(1, 12, 4, 2, 1)
        self.down2 = nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(12, 24, 4, 2, 1), nn.BatchNorm2d(24))
        self.up1 = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(24, 12, 4, 2, 1), nn.BatchNorm2d(12))
        self.up2 = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(24, 1, 4, 2, 1), nn.Tanh())

    def forward(self, x):
        d1 = self.down1(x)
        return self.up2(torch.cat([self.up1(self.down2(d1)), d1], 1))


netG = UNet()
netD = nn.Sequential(nn.Conv2d(2, 12, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(12, 1, 3, 1, 1))
optimizer_G = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterionGAN, criterionL1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
history = []
for step in range(steps):
    noise = torch.randn(8, 1, 16, 16)
    real_A = torch.tanh(nn.functional.avg_pool2d(noise, 5, 1, 2) * 4)
    real_B = -real_A.flip(3) * 0.5 + 0.5 * torch.roll(real_A, 1, 2).flip(3)
    real_A = real_A.flip(3)
    fake_B = netG(real_A)
    netD.requires_grad_(True)
    optimizer_D.zero_grad()
    pred_fake = netD(torch.cat((real_A, fake_B), 1).detach())
    pred_real = netD(torch.cat((real_A, real_B), 1))
    loss_D = 0.5 * (
        criterionGAN(pred_fake, torch.zeros_like(pred_fake)) + criterionGAN(pred_real, torch.ones_like(pred_real))
    )
    loss_D.backward()
    optimizer_D.step()
    netD.requires_grad_(False)
    optimizer_G.zero_grad()
    pred_fake = netD(torch.cat((real_A, fake_B), 1))
    loss_L1 = criterionL1(fake_B, real_B)
    loss_G = criterionGAN(pred_fake, torch.ones_like(pred_fake)) + 100.0 * loss_L1
    loss_G.backward()
    optimizer_G.step()
    history.append(loss_L1.item())
    if step % 25 == 0:
        print(f"{step} G {loss_G.item():.3f} D {loss_D.item():.3f} L1 {loss_L1.item():.3f}")
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
