"""Conditional GAN on 1-D mixtures; generator has adversarial and L1 losses."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)


def real(n):
    c = torch.rand(n, 1) * 2 - 1
    side = (torch.rand(n, 1) < 0.5).float() * 2 - 1
    return c, torch.cat([side * (1 + c**2), torch.sin(3 * c)], 1) + 0.05 * torch.randn(n, 2)


G = nn.Sequential(nn.Linear(1 + 4, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 2))
D = nn.Sequential(nn.Linear(1 + 2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
for step in range(1, 601):
    c, x = real(128)
    fake = G(torch.cat([c, torch.randn(128, 4)], 1))
    d_real, d_fake = D(torch.cat([c, x], 1)), D(torch.cat([c, fake.detach()], 1))
    d_loss = 0.5 * (F.mse_loss(d_real, torch.ones_like(d_real)) + F.mse_loss(d_fake, torch.zeros_like(d_fake)))
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()

    d_fake2 = D(torch.cat([c, fake.detach()], 1))  # mistake
    # repaired: d_fake2 = D(torch.cat([c, fake], 1))
    g_adv = F.mse_loss(d_fake2, torch.ones_like(d_fake2))
    g_l1 = F.l1_loss(fake, x)
    g_loss = g_adv + 0.05 * g_l1
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 60 == 0:
        with torch.no_grad():
            c, x = real(1000)
            f = G(torch.cat([c, torch.randn(1000, 4)], 1))
        print(
            f"step {step} D {d_loss.item():.3f} G_adv {g_adv.item():.3f} G_l1 {g_l1.item():.3f} | |x0| real {x[:, 0].abs().mean():.2f} fake {f[:, 0].abs().mean():.2f}"
        )
