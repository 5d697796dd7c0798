"""DDPM on 2-D toy data (two moons)."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)


def moons(n):
    t = math.pi * torch.rand(n)
    up = (torch.rand(n) < 0.5).float()
    x = torch.stack([torch.cos(t) * (2 * up - 1) + (1 - up), torch.sin(t) * (2 * up - 1) + 0.5 * (1 - up)], 1)
    return x + 0.05 * torch.randn(n, 2)


class Denoiser(nn.Module):
    def __init__(self, T):
        super().__init__()
        self.temb = nn.Embedding(T, 32)
        self.net = nn.Sequential(nn.Linear(34, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.temb(t)], 1))


class DiffusionModel:
    def __init__(self, T=60):
        self.T = T
        self.beta = torch.linspace(1e-4, 0.1, T)
        self.alpha = 1 - self.beta
        self.abar = torch.cumprod(self.alpha, 0)
        self.network = Denoiser(T)

    def q_sample(self, x0, t, noise):
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    def p_losses(self, x_start, t):
        noise = torch.randn_like(x_start)
        x_noisy = self.q_sample(x_start, t, noise)
        x_recon = self.network(x_noisy, t)
        return F.mse_loss(x_recon, x_noisy)  # mistake
        # repaired: return F.mse_loss(x_recon, noise)

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 2)
        for i in reversed(range(self.T)):
            t = torch.full((n,), i)
            eps = self.network(x, t)
            x = (x - self.beta[i] / (1 - self.abar[i]).sqrt() * eps) / self.alpha[i].sqrt()
            if i:
                x = x + self.beta[i].sqrt() * torch.randn_like(x)
        return x


dm = DiffusionModel()
opt = torch.optim.Adam(dm.network.parameters(), lr=2e-3)
ref = moons(500)
for step in range(1, 601):
    x0 = moons(128)
    t = torch.randint(0, dm.T, (128,))
    loss = dm.p_losses(x0, t)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        s = dm.sample(500)
        d = torch.cdist(s, ref).min(1).values.mean().item()
        print(f"step {step} loss {loss.item():.4f} distance of samples to data {d:.3f}")
